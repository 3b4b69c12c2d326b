//! The settings of a repository, line by line: which of them run nothing and lead nowhere.

/// What is needed of the settings themselves.
#[derive(Default)]
pub struct Settings {
    /// Every `core.worktree`: which one counts depends on other settings.
    pub worktrees: Vec<String>,
    /// Every `core.hooksPath`.
    pub hooks: Vec<String>,
    sha256: bool,
}

/// Settings, by section, with which git shows, commits or transfers, but that have no
/// command that only looks run anything. `*` is every one of the section.
#[rustfmt::skip]
const HARMLESS: &[(&str, &[&str])] = &[
    ("core", &[
        "abbrev", "autocrlf", "bare", "bigfilethreshold", "checkstat", "commentchar", "commitgraph", "compression",
        "eol", "filemode", "fscache", "hidedotfiles", "ignorecase", "logallrefupdates", "longpaths", "multipackindex",
        "precomposeunicode", "preloadindex", "protecthfs", "protectntfs", "quotepath", "repositoryformatversion",
        "safecrlf", "sharedrepository", "sparsecheckout", "sparsecheckoutcone", "symlinks", "trustctime",
        "untrackedcache", "whitespace",
    ]),
    ("extensions", &["objectformat", "refstorage", "relativeworktrees", "worktreeconfig"]),
    ("remote", &[
        "fetch", "followremotehead", "gh-resolved", "mirror", "prune", "prunetags", "push", "pushdefault", "pushurl",
        "skipdefaultupdate", "skipfetchall", "tagopt", "url",
    ]),
    ("submodule", &["active", "branch", "fetchjobs", "ignore", "recurse", "url"]),
    ("diff", &[
        "algorithm", "colormoved", "colormovedws", "context", "dirstat", "ignoresubmodules", "indentheuristic",
        "interhunkcontext", "mnemonicprefix", "noprefix", "relative", "renamelimit", "renames", "statgraphwidth",
        "submodule", "suppressblankempty", "wordregex",
    ]),
    ("log", &["abbrevcommit", "date", "decorate", "follow", "graphcolors"]),
    ("lfs", &["access", "locksverify", "repositoryformatversion"]),
    ("http", &["extraheader", "postbuffer", "proxy", "sslverify", "version"]),
    ("merge", &["conflictstyle", "ff", "log", "renamelimit", "renames", "stat"]),
    ("index", &["sparse", "threads", "version"]),
    ("advice", &["*"]), ("alias", &["*"]), ("author", &["*"]), ("branch", &["*"]), ("checkout", &["*"]),
    ("color", &["*"]), ("column", &["*"]), ("commit", &["*"]), ("committer", &["*"]), ("fetch", &["*"]),
    ("gc", &["*"]), ("gitflow", &["*"]), ("gui", &["*"]), ("init", &["*"]), ("maintenance", &["*"]), ("pack", &["*"]),
    ("pull", &["*"]), ("push", &["*"]), ("rebase", &["*"]), ("receive", &["*"]), ("rerere", &["*"]),
    ("status", &["*"]), ("tag", &["*"]), ("transfer", &["*"]), ("url", &["*"]), ("user", &["*"]),
];

/// In these a name after the section is that of a driver, which may be a program.
const OF_DRIVERS: [&str; 2] = ["diff", "merge"];

impl Settings {
    pub fn hash_bytes(&self) -> usize {
        match self.sha256 {
            true => 32,
            false => 20,
        }
    }

    /// The settings of one file as git writes them; the error names the first that is in
    /// the way.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let mut section: Option<Section> = None;
        for line in text.lines().map(|l| l.trim_matches([' ', '\t'])) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let strange = || format!("the line `{line}` is not understood");
            // A `\` at the end would join the next line to this one.
            if line.ends_with('\\') || line.contains(|c: char| c.is_control() && c != '\t') {
                return Err(strange());
            }
            if line.starts_with('[') {
                section = Some(Section::parse(line).ok_or_else(strange)?);
                continue;
            }
            let (name, value) = match line.split_once('=') {
                Some((name, value)) => (name.trim_end(), value.trim_start()),
                None => (line, "true"),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let Some(section) = section.as_ref().filter(|_| name.chars().all(is_name)) else {
                return Err(strange());
            };
            self.setting(section, &name.to_ascii_lowercase(), value)?;
        }
        Ok(())
    }

    fn setting(&mut self, section: &Section, name: &str, value: &str) -> Result<(), String> {
        let full = format!("{}.{name}", section.shown);
        let runs = || format!("`{full}` may run a program or lead out of the repository");
        // Quotes and comments would make another value of it.
        let plain = || match value.contains(['"', '\\', '#', ';']) {
            true => Err(format!("`{full}` is not understood")),
            false => Ok(value.to_string()),
        };
        let own = match section.named {
            true => "",
            false => section.name.as_str(),
        };
        match (own, name) {
            ("core", "worktree") => self.worktrees.push(plain()?),
            ("core", "hookspath") => {
                let path = plain()?;
                if path.starts_with(['~', '%', ':']) {
                    return Err(format!("`{full}` is not understood"));
                }
                self.hooks.push(path);
            }
            ("core", "fsmonitor") if value == "false" => {}
            ("extensions", "objectformat") => self.sha256 = plain()? != "sha1",
            // Verifies signatures, with a program.
            ("branch" | "tag", "sort") if value.contains("signature") => return Err(runs()),
            _ if is_harmless(section, name) => {}
            _ => return Err(runs()),
        }
        Ok(())
    }
}

struct Section {
    /// In small letters.
    name: String,
    named: bool,
    shown: String,
}

impl Section {
    /// `[name]` or `[name "of something"]`, and nothing else on the line.
    fn parse(line: &str) -> Option<Section> {
        let inner = line.strip_prefix('[')?.strip_suffix(']')?;
        let (name, of) = match inner.split_once(' ') {
            Some((name, of)) => (
                name,
                Some(of.trim_start().strip_prefix('"')?.strip_suffix('"')?),
            ),
            None => (inner, None),
        };
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_plain = of.is_none_or(|of| !of.contains(['"', '\\']));
        (is_name && is_plain).then(|| Section {
            name: name.to_ascii_lowercase(),
            named: of.is_some(),
            shown: match of {
                Some(of) => format!("{name}.{of}"),
                None => name.to_string(),
            },
        })
    }
}

fn is_harmless(section: &Section, name: &str) -> bool {
    if section.named && OF_DRIVERS.contains(&section.name.as_str()) {
        return false;
    }
    let known = HARMLESS.iter().find(|(known, _)| *known == section.name);
    known.is_some_and(|(_, names)| names.contains(&"*") || names.contains(&name))
}
