//! Custom commands: Markdown files of the user and of the workspace whose text is sent when a
//! person types their name. The folders of a file are a part of its name: `git:commit` is
//! `git/commit.md`.

use std::path::{Path, PathBuf};

use super::StartFolder;
use super::definitions::{DefinitionFile, DefinitionKind, Definitions, Layout, definitions};
use crate::core::custom::{self, MAX_FILE_BYTES, Template};

const KIND: DefinitionKind = DefinitionKind {
    noun: "command",
    of_user: "commands",
    of_workspace: &[".rewake/commands", ".claude/commands"],
    layout: Layout::Tree,
    max_found: 500,
    max_file_bytes: MAX_FILE_BYTES,
};

/// A custom command and the file that it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomCommand {
    /// The name without the slash: `git:commit`.
    pub name: String,
    pub template: Template,
    pub path: PathBuf,
    /// Its path from the root of the workspace; `None` for a file of the user.
    pub of_workspace: Option<String>,
    /// blake3 of its text, in hex.
    pub hash: String,
}

/// The commands that a person may type besides the built-in ones.
pub type CustomCommands = Definitions<CustomCommand>;

/// Returns all custom commands for `here`. `is_taken` says which names are built in.
pub fn commands(
    here: &StartFolder,
    config_dir: &Path,
    is_taken: impl Fn(&str) -> bool,
) -> CustomCommands {
    let define = |file: DefinitionFile<'_>| {
        custom::check_name(file.stem)?;
        let shown = format!("/{}", file.name);
        if is_taken(&file.name) {
            return Err(format!("{shown} is rewake's own"));
        }
        let command = CustomCommand {
            template: custom::parse(&file.text)?,
            path: file.path.to_path_buf(),
            hash: file.hash(),
            of_workspace: file.of_workspace,
            name: file.name,
        };
        Ok((shown, command))
    };
    definitions(&KIND, config_dir, Some(here), &define)
}

#[cfg(test)]
mod tests {
    use super::super::definitions::{MAX_DEPTH, MAX_READ, MAX_WARNINGS};
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

        /// Returns the commands for `root/a`.
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
    fn user_and_built_in_commands_override_project_commands() {
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
    fn unusable_command_files_are_named_and_skipped() {
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
        // A valid command after them is not reached.
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
        assert_eq!(found.found.len(), KIND.max_found);
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
