//! The settings of a repository, line by line: which of them run no program and lead nowhere.

/// The settings that are needed for the checks.
#[derive(Default)]
pub(super) struct Settings {
    /// Every `core.worktree`; other settings decide which one counts.
    pub worktrees: Vec<String>,
    /// Every `core.hooksPath`.
    pub hooks: Vec<String>,
    /// Each setting as section and name, without the subsection.
    all: Vec<(String, String)>,
    sha256: bool,
}

/// The one accepted value of `blame.ignoreRevsFile`. The caller checks the file itself.
pub(super) const IGNORED_REVISIONS: &str = ".git-blame-ignore-revs";

/// Settings by section that affect how git shows, commits or transfers, but make no read-only
/// command run a program. `*` is every setting of the section.
#[rustfmt::skip]
const HARMLESS: &[(&str, &[&str])] = &[
    ("core", &[
        "abbrev", "autocrlf", "bare", "bigfilethreshold", "checkstat", "commentchar", "commitgraph", "compression",
        "editor", "eol", "filemode", "fscache", "hidedotfiles", "ignorecase", "ignorestat", "logallrefupdates", "longpaths", "loosecompression", "multipackindex",
        "precomposeunicode", "preloadindex", "protecthfs", "protectntfs", "quotepath", "repositoryformatversion",
        "safecrlf", "sharedrepository", "sparsecheckout", "sparsecheckoutcone", "sshcommand", "symlinks", "trustctime",
        "untrackedcache", "whitespace",
    ]),
    ("extensions", &["objectformat", "refstorage", "relativeworktrees", "worktreeconfig"]),
    ("remote", &[
        "fetch", "followremotehead", "gh-resolved", "mirror", "prune", "prunetags", "push", "pushdefault", "pushurl",
        "skipdefaultupdate", "skipfetchall", "tagopt", "url",
    ]),
    ("submodule", &["active", "branch", "fetchjobs", "fetchrecursesubmodules", "ignore", "recurse", "url"]),
    ("diff", &[
        "algorithm", "colormoved", "colormovedws", "context", "dirstat", "ignoresubmodules", "indentheuristic",
        "interhunkcontext", "mnemonicprefix", "noprefix", "relative", "renamelimit", "renames", "statgraphwidth",
        "submodule", "suppressblankempty", "tool", "wordregex",
    ]),
    ("log", &["abbrevcommit", "date", "decorate", "follow", "graphcolors"]),
    ("lfs", &["access", "locksverify", "pushurl", "repositoryformatversion", "url"]),
    ("http", &["extraheader", "postbuffer", "proxy", "sslverify", "version"]),
    ("merge", &["conflictstyle", "ff", "log", "renamelimit", "renames", "stat", "tool"]),
    ("index", &["skiphash", "sparse", "threads", "version"]), ("feature", &["experimental", "manyfiles"]),
    ("gpg", &["allowedsignersfile", "format", "mintrustlevel"]), ("help", &["*"]), ("notes", &["displayref"]),
    ("sequence", &["editor"]), ("versionsort", &["*"]), ("worktree", &["*"]),
    ("advice", &["*"]), ("alias", &["*"]), ("author", &["*"]), ("branch", &["*"]), ("checkout", &["*"]),
    ("color", &["*"]), ("column", &["*"]), ("commit", &["*"]), ("committer", &["*"]), ("credential", &["*"]), ("difftool", &["*"]), ("fetch", &["*"]),
    ("gc", &["*"]), ("gitflow", &["*"]), ("gui", &["*"]), ("init", &["*"]), ("maintenance", &["*"]), ("mergetool", &["*"]), ("pack", &["*"]),
    ("pull", &["*"]), ("push", &["*"]), ("rebase", &["*"]), ("receive", &["*"]), ("rerere", &["*"]),
    ("status", &["*"]), ("tag", &["*"]), ("transfer", &["*"]), ("url", &["*"]), ("user", &["*"]),
];

/// Settings that git itself writes when it creates, clones or adds a repository or limits a checkout,
/// and the committer.
#[rustfmt::skip]
const MADE_BY_GIT: &[(&str, &[&str])] = &[
    ("core", &[
        "autocrlf", "bare", "eol", "filemode", "ignorecase", "logallrefupdates", "precomposeunicode",
        "repositoryformatversion", "sparsecheckout", "sparsecheckoutcone", "symlinks", "worktree",
    ]),
    ("extensions", &["objectformat", "refstorage", "relativeworktrees", "worktreeconfig"]), ("index", &["sparse"]),
    ("remote", &["fetch", "tagopt", "url"]), ("branch", &["merge", "rebase", "remote"]),
    ("submodule", &["active", "url"]), ("user", &["email", "name"]), ("commit", &["gpgsign"]),
    ("init", &["defaultbranch"]), ("gc", &["auto"]), ("advice", &["*"]),
];

/// Checks that all settings are such as git writes. The error names the first other one.
pub(super) fn is_as_git_makes_it(text: &str) -> Result<(), String> {
    let mut settings = Settings::default();
    settings.add(text)?;
    let is_listed = |(section, name): &(String, String)| {
        MADE_BY_GIT
            .iter()
            .filter(|(listed, _)| listed == section)
            .any(|(_, names)| names.iter().any(|listed| *listed == "*" || listed == name))
    };
    match settings.all.iter().find(|setting| !is_listed(setting)) {
        None => Ok(()),
        Some((section, name)) => Err(format!("`{section}.{name}` may run a program")),
    }
}

/// Sections whose subsection names a driver, which may be a program.
const OF_DRIVERS: [&str; 2] = ["diff", "merge"];

impl Settings {
    /// Returns whether each worktree may have separate settings. Those of the repository then apply to
    /// all of them.
    pub(super) fn has_worktree_settings(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|(section, name)| section == "extensions" && name == "worktreeconfig")
    }

    pub(super) fn hash_bytes(&self) -> usize {
        if self.sha256 { 32 } else { 20 }
    }

    /// Adds the settings of one file in the form that git writes. The error names the first setting
    /// that is not accepted.
    pub(super) fn add(&mut self, text: &str) -> Result<(), String> {
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
        self.all.push((section.name.clone(), name.to_string()));
        let full = format!("{}.{name}", section.shown);
        let runs = || format!("`{full}` may run a program or lead out of the repository");
        // Quotes and comments would change the value.
        let plain = || {
            if value.contains(['"', '\\', '#', ';']) {
                Err(format!("`{full}` is not understood"))
            } else {
                Ok(value.to_string())
            }
        };
        let own = if section.named {
            ""
        } else {
            section.name.as_str()
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
            ("core", "fsmonitor") | ("log", "showsignature") if value == "false" => {}
            // The common name of the file. Lines that are not hashes are shown.
            ("blame", "ignorerevsfile") if value == IGNORED_REVISIONS => {}
            // The driver that keeps one side.
            ("", "driver") if section.name == "merge" && value == "true" => {}
            ("extensions", "objectformat") => self.sha256 = plain()? != "sha1",
            // This runs a program that verifies signatures.
            ("branch" | "tag", "sort") if plain()?.contains("signature") => return Err(runs()),
            // These run git in submodules, also in those of older commits.
            ("diff", "submodule") if !matches!(value, "short" | "log") => return Err(runs()),
            ("status", "submodulesummary") if !matches!(value, "false" | "0") => return Err(runs()),
            // `git lfs install --local` sets these, and they run the user's own git-lfs.
            ("", _) if section.is_of("filter", "lfs") && is_of_lfs(name, value) => {}
            _ if is_harmless(section, name) => {}
            _ => return Err(runs()),
        }
        Ok(())
    }
}

struct Section {
    /// The name in lowercase.
    name: String,
    named: bool,
    shown: String,
}

impl Section {
    fn is_of(&self, name: &str, of: &str) -> bool {
        let named = self.shown.split_once('.').map(|(_, of)| of);
        self.named && self.name == name && named == Some(of)
    }

    /// Parses `[name]` or `[name "of something"]`, with nothing else on the line.
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

/// Returns whether a setting is one that `git lfs install --local` makes. It runs the user's own
/// git-lfs.
pub(super) fn is_setting_of_lfs(key: &str, value: &str) -> bool {
    let name = key.strip_prefix("filter.lfs.");
    name.is_some_and(|name| is_of_lfs(name, value))
}

fn is_of_lfs(name: &str, value: &str) -> bool {
    matches!(
        (name, value),
        ("clean", "git-lfs clean -- %f")
            | ("smudge", "git-lfs smudge -- %f")
            | ("process", "git-lfs filter-process")
            | ("required", "true")
    )
}

fn is_harmless(section: &Section, name: &str) -> bool {
    if section.named && OF_DRIVERS.contains(&section.name.as_str()) {
        return false;
    }
    let known = HARMLESS.iter().find(|(known, _)| *known == section.name);
    known.is_some_and(|(_, names)| names.contains(&"*") || names.contains(&name))
}
