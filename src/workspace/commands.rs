//! Custom commands: Markdown files of the user and of the workspace whose text is said when a
//! person types their name. The folders that a file lies in are a part of its name: `git:commit`
//! is `git/commit.md`.
//!
//! Those of the user's config folder come first, then those of the workspace, the nearest
//! folder first: of two with one name the first counts, so that a repository cannot put its
//! own in the place of the user's.
//!
//! Invariant: a command of the workspace lies inside the workspace. A link that leads out is
//! not followed. However many files there are, the search ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Here;
use super::instructions::chain;
use crate::config::read_text;
use crate::core::custom::{self, MAX_FILE_BYTES, Template};
use crate::core::visible::visible;

/// Where a workspace keeps commands, in each folder from the root down to here.
const FOLDERS: [&str; 2] = [".rewake/commands", ".claude/commands"];
/// In the user's config folder.
const OF_USER: &str = "commands";

const MAX_COMMANDS: usize = 500;
/// Names of files and folders that are looked at.
const MAX_NAMES: usize = 20_000;
/// Files that are read, those included that are no commands then.
const MAX_READ: usize = 1_000;
const MAX_DEPTH: usize = 8;
/// More warnings say nothing new.
const MAX_WARNINGS: usize = 20;

/// A command that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomCommand {
    /// Without its slash: `git:commit`.
    pub name: String,
    pub template: Template,
    pub path: PathBuf,
    /// Its path from the root of the workspace. `None`: it is the user's own.
    pub of_workspace: Option<String>,
    /// Of its text: blake3 in hex.
    pub hash: String,
}

/// What a person may type besides rewake's own commands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustomCommands {
    pub found: Vec<CustomCommand>,
    /// What was skipped: a line each.
    pub warnings: Vec<String>,
}

/// All custom commands for `here`. `is_taken` says which names are rewake's own.
pub fn commands(here: &Here, config_dir: &Path, is_taken: impl Fn(&str) -> bool) -> CustomCommands {
    let mut search = Search {
        commands: CustomCommands::default(),
        names: BTreeSet::new(),
        files: BTreeSet::new(),
        looked_at: 0,
        read: 0,
        left_out: 0,
        is_taken: &is_taken,
    };
    search.folder(&config_dir.join(OF_USER), None, "", 0);
    for dir in chain(here).into_iter().rev() {
        for name in FOLDERS {
            search.folder(&dir.join(name), Some(&here.root), "", 0);
        }
    }
    search.done()
}

struct Search<'a> {
    commands: CustomCommands,
    names: BTreeSet<String>,
    /// A file or folder that is reached twice counts once.
    files: BTreeSet<PathBuf>,
    looked_at: usize,
    read: usize,
    /// Warnings that found no room.
    left_out: usize,
    is_taken: &'a dyn Fn(&str) -> bool,
}

impl Search<'_> {
    /// `inside`: what a link may not lead out of. `before`: the names of the folders above.
    fn folder(&mut self, folder: &Path, inside: Option<&Path>, before: &str, depth: usize) {
        let Ok(canonical) = folder.canonicalize() else {
            return;
        };
        if inside.is_some_and(|root| !canonical.starts_with(root)) {
            return self.skip(folder, "it is a link that leads out of the workspace");
        }
        let Ok(entries) = canonical.read_dir() else {
            return;
        };
        if !self.files.insert(canonical.clone()) {
            return;
        }
        let room = MAX_NAMES - self.looked_at;
        let mut names: Vec<_> = entries
            .take(room + 1)
            .flatten()
            .map(|e| e.file_name())
            .collect();
        if names.len() > room {
            names.clear();
            self.looked_at = MAX_NAMES;
            let why = format!("there are more than {MAX_NAMES} files");
            self.skip(folder, &why);
        }
        self.looked_at += names.len();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let Some(text) = name.to_str() else {
                self.skip(&path, "its name is not UTF-8");
                continue;
            };
            if text.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                if let Err(why) = custom::check_name(text) {
                    self.skip(&path, &why);
                } else if depth == MAX_DEPTH {
                    self.skip(&path, &format!("it lies below {MAX_DEPTH} folders"));
                } else {
                    self.folder(&path, inside, &format!("{before}{text}:"), depth + 1);
                }
            } else if let Some(stem) = text.strip_suffix(".md") {
                self.file(&path, inside, before, stem);
            }
        }
    }

    fn file(&mut self, path: &Path, inside: Option<&Path>, before: &str, stem: &str) {
        if self.commands.found.len() == MAX_COMMANDS {
            return self.skip(path, &format!("there are {MAX_COMMANDS} already"));
        }
        let name = format!("{before}{stem}");
        let place = custom::check_name(stem).and_then(|()| match (self.is_taken)(&name) {
            true => Err(format!("/{name} is rewake's own")),
            false if self.names.contains(&name) => Err(format!("another one is named /{name}")),
            false => place(path, inside),
        });
        let command = match place {
            // A thousand links to one file cost one look at it.
            Ok(canonical) if !self.files.insert(canonical.clone()) => return,
            Ok(_) if self.read == MAX_READ => Err(format!("{MAX_READ} files were read already")),
            Ok(canonical) => {
                self.read += 1;
                read(&canonical)
            }
            Err(why) => Err(why),
        };
        match command {
            Ok((template, hash)) => {
                self.names.insert(name.clone());
                let below = inside.and_then(|root| path.strip_prefix(root).ok());
                self.commands.found.push(CustomCommand {
                    name,
                    template,
                    of_workspace: inside
                        .map(|_| below.unwrap_or(path).to_string_lossy().into_owned()),
                    path: path.to_path_buf(),
                    hash,
                });
            }
            Err(why) => self.skip(path, &why),
        }
    }

    fn skip(&mut self, path: &Path, why: &str) {
        if self.commands.warnings.len() == MAX_WARNINGS {
            self.left_out += 1;
            return;
        }
        let path = path.to_string_lossy();
        let path = visible(&path).replace(['\n', '\t'], "␤");
        let text = format!("the command {path} is not used: {why}");
        self.commands.warnings.push(text);
    }

    fn done(mut self) -> CustomCommands {
        if self.left_out > 0 {
            let text = format!("{} more commands are not used", self.left_out);
            self.commands.warnings.push(text);
        }
        self.commands
    }
}

type Read = (Template, String);

/// Where a file really lies.
fn place(path: &Path, inside: Option<&Path>) -> Result<PathBuf, String> {
    let canonical = path
        .canonicalize()
        .map_err(|e| format!("the link leads nowhere ({e})"))?;
    if inside.is_some_and(|root| !canonical.starts_with(root)) {
        return Err("it is a link that leads out of the workspace".to_string());
    }
    Ok(canonical)
}

fn read(canonical: &Path) -> Result<Read, String> {
    let text = read_text(canonical, MAX_FILE_BYTES).map_err(|e| e.to_string())?;
    let template = custom::parse(&text)?;
    let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
    Ok((template, hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::here;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A user's folder `user` and a repository `root` with the folder `a`.
    struct Fixture {
        _dir: tempfile::TempDir,
        path: PathBuf,
    }

    impl Fixture {
        fn new() -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap();
            fs::create_dir_all(path.join("root/.git")).unwrap();
            fs::write(path.join("root/.git/HEAD"), "").unwrap();
            fs::create_dir_all(path.join("root/a")).unwrap();
            Fixture { _dir: dir, path }
        }

        fn write(self, name: &str, text: impl AsRef<[u8]>) -> Fixture {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn link(self, name: &str, to: &str) -> Fixture {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(self.path.join(to), path).unwrap();
            self
        }

        /// For `root/a`.
        fn find(&self) -> CustomCommands {
            let here = here(&self.path.join("root/a")).unwrap();
            commands(&here, &self.path.join("user"), |name| name == "help")
        }

        fn names(&self) -> Vec<String> {
            let found = self.find().found.into_iter();
            let line = |c: CustomCommand| format!("{} {}", c.name, c.template.description);
            found.map(line).collect()
        }

        fn warnings(&self) -> Vec<String> {
            let here = format!("{}/", self.path.display());
            let warnings = self.find().warnings.into_iter();
            warnings
                .map(|w| w.replace(&here, "").replace("the command ", ""))
                .collect()
        }
    }

    #[test]
    fn commands_are_found_from_here_up_and_in_the_users_folder() {
        let f = Fixture::new()
            .write("user/commands/mine.md", "of the user")
            .write("root/.rewake/commands/git/commit.md", "in a folder")
            .write("root/.claude/commands/review.md", "of another agent")
            .write("root/a/.rewake/commands/near.md", "near")
            .write("root/.rewake/commands/notes.txt", "no command")
            .write("root/.rewake/commands/.hidden.md", "no command")
            .write(".rewake/commands/above.md", "above the root");
        assert_eq!(
            f.names(),
            [
                "mine of the user",
                "near near",
                "git:commit in a folder",
                "review of another agent",
            ]
        );
        assert_eq!(f.warnings(), [""; 0]);
        let of_workspace: Vec<Option<String>> =
            f.find().found.into_iter().map(|c| c.of_workspace).collect();
        let path = |path: &str| Some(path.to_string());
        assert_eq!(
            of_workspace,
            [
                None,
                path("a/.rewake/commands/near.md"),
                path(".rewake/commands/git/commit.md"),
                path(".claude/commands/review.md")
            ]
        );
    }

    #[test]
    fn of_two_names_the_users_own_and_rewakes_own_count() {
        let f = Fixture::new()
            .write("user/commands/deploy.md", "mine")
            .write("root/.rewake/commands/deploy.md", "theirs")
            .write("root/.rewake/commands/help.md", "theirs");
        assert_eq!(f.names(), ["deploy mine"]);
        assert_eq!(
            f.warnings(),
            [
                "root/.rewake/commands/deploy.md is not used: another one is named /deploy",
                "root/.rewake/commands/help.md is not used: /help is rewake's own",
            ]
        );
    }

    #[test]
    fn what_cannot_be_used_is_named_and_skipped() {
        let f = Fixture::new()
            .write("elsewhere/out.md", "secret")
            .write("root/.rewake/commands/a b.md", "x")
            .write("root/.rewake/commands/bad.md", "---\ndescription: x\n")
            .write("root/.rewake/commands/binary.md", b"\xff\xfe")
            .write("root/.rewake/commands/e\u{1b}[31m\n\u{202e}.md", "x")
            .write("root/.rewake/commands/empty.md", "")
            .write("root/.rewake/commands/good.md", "good")
            .write("root/.rewake/commands/huge.md", "x".repeat(10_000_000))
            .link("root/.rewake/commands/nowhere.md", "none")
            .link("root/.rewake/commands/out.md", "elsewhere/out.md")
            .link("root/.rewake/commands/outside", "elsewhere")
            .link("root/.rewake/commands/round", "root/.rewake/commands");
        assert_eq!(f.names(), ["good good"]);
        let of = |name: &str, why: &str| format!("root/.rewake/commands/{name} is not used: {why}");
        let odd = "its name has a character that cannot be typed as part of a command";
        let out = "it is a link that leads out of the workspace";
        let want = [
            of("a b.md", odd),
            of("bad.md", "its front matter has no closing line `---`"),
            of("binary.md", "it is not UTF-8 text"),
            of("e␛[31m␤<U+202E>.md", odd),
            of("empty.md", "it says nothing"),
            of("huge.md", "it is larger than 65536 bytes"),
            of("nowhere.md", "the link leads nowhere"),
            of("out.md", out),
            of("outside", out),
        ];
        let got = f.warnings();
        assert_eq!(got.len(), want.len(), "{got:#?}");
        for (got, want) in got.iter().zip(&want) {
            assert!(got.starts_with(want), "{got} | {want}");
        }
    }

    #[test]
    fn files_that_are_no_commands_are_not_all_read() {
        let f = Fixture::new().write("root/.rewake/commands/x", "");
        let folder = f.path.join("root/.rewake/commands");
        for n in 0..MAX_READ + 9 {
            // Front matter without an end.
            fs::write(folder.join(format!("c{n:05}.md")), "---\n").unwrap();
        }
        let found = f.find();
        assert_eq!(found.found, []);
        let search = found.warnings.last().unwrap();
        assert_eq!(
            search,
            &format!("{} more commands are not used", MAX_READ + 9 - MAX_WARNINGS)
        );
        // One that is valid and comes behind them is not reached.
        fs::write(folder.join("z.md"), "say it").unwrap();
        assert_eq!(f.find().found, []);
    }

    #[test]
    fn ten_thousand_files_have_an_end() {
        let mut f = Fixture::new().write("root/.rewake/commands/x", "");
        let folder = f.path.join("root/.rewake/commands");
        for n in 0..10_000 {
            fs::write(folder.join(format!("c{n:05}.md")), "x").unwrap();
        }
        let found = f.find();
        assert_eq!(found.found.len(), MAX_COMMANDS);
        assert_eq!(found.found[0].name, "c00000");
        assert_eq!(found.warnings.len(), MAX_WARNINGS + 1);
        let last = found.warnings.last().unwrap();
        assert_eq!(last, "9480 more commands are not used");
        let deep = "d/".repeat(MAX_DEPTH + 2);
        f = Fixture::new().write(&format!("root/.rewake/commands/{deep}x.md"), "x");
        assert_eq!(f.names(), [""; 0]);
        assert!(f.warnings()[0].ends_with("it lies below 8 folders"));
    }
}
