//! Skills: folders with a `SKILL.md` that describes how a kind of task is done. They are listed by
//! name and description; the text is read when it is needed.

use std::path::{Path, PathBuf};

use super::StartFolder;
use super::definitions::{DefinitionFile, DefinitionKind, Definitions, Layout, definitions};
use crate::core::skill::{self, Heading};

const KIND: DefinitionKind = DefinitionKind {
    noun: "skill",
    of_user: "skills",
    of_workspace: &[skill::FOLDER, ".agents/skills", ".claude/skills"],
    layout: Layout::Folders(skill::FILE),
    max_found: 100,
    max_file_bytes: 256 * 1024,
};

/// A skill and the file that it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub heading: Heading,
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// Whether the skill is the user's own and not the workspace's.
    pub of_user: bool,
}

/// The skills that are listed for a session.
pub type Skills = Definitions<Skill>;

/// Returns all skills for `here`.
pub fn skills(here: &StartFolder, config_dir: &Path) -> Skills {
    definitions(&KIND, config_dir, Some(here), &define)
}

/// Returns the folders of the user's own skills, whose files may be read.
pub fn skill_folders_of_user(config_dir: &Path) -> Vec<PathBuf> {
    let skills = definitions(&KIND, config_dir, None, &define);
    let parents = skills.found.iter().filter_map(|s| s.path.parent());
    parents.map(Path::to_path_buf).collect()
}

fn define(file: DefinitionFile<'_>) -> Result<(String, Skill), String> {
    // The model gets the path.
    if file.path.to_str().is_none() {
        return Err("its path is not UTF-8".to_string());
    }
    let heading = skill::parse(&file.text)?;
    let skill = Skill {
        path: file.path.to_path_buf(),
        of_user: file.of_workspace.is_none(),
        heading,
    };
    Ok((format!("{:?}", skill.heading.name), skill))
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

        fn skill(self, folder: &str, name: &str) -> Fixture {
            let text = skill::render(name, &format!("of {folder}"), "Do it.");
            self.write(&format!("{folder}/{name}/SKILL.md"), text)
        }

        fn link(self, name: &str, to: &str) -> Fixture {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(self.path.join(to), path).unwrap();
            self
        }

        /// Returns the skills for `root/a`.
        fn find(&self) -> Skills {
            skills(
                &here(&self.path.join("root/a")).unwrap(),
                &self.path.join("user"),
            )
        }

        fn names(&self) -> Vec<String> {
            let found = self.find().found.into_iter();
            let line = |s: Skill| format!("{} {}", s.heading.name, s.heading.description);
            found.map(line).collect()
        }

        fn warnings(&self) -> Vec<String> {
            let here = format!("{}/", self.path.display());
            let warnings = self.find().warnings.into_iter();
            warnings.map(|w| w.replace(&here, "")).collect()
        }
    }

    #[test]
    fn skills_are_found_from_here_up_and_in_the_users_folder() {
        let f = Fixture::new()
            .skill("user/skills", "mine")
            .skill("root/.rewake/skills", "one")
            .skill("root/.agents/skills", "two")
            .skill("root/a/.claude/skills", "near")
            .skill(".claude/skills", "above-the-root")
            .write("root/.agents/skills/README.md", "no skill")
            .write("root/.agents/skills/empty/notes", "no skill");
        assert_eq!(
            f.names(),
            [
                "mine of user/skills",
                "near of root/a/.claude/skills",
                "one of root/.rewake/skills",
                "two of root/.agents/skills"
            ]
        );
        assert!(f.warnings().is_empty());
        let of_user: Vec<bool> = f.find().found.iter().map(|s| s.of_user).collect();
        assert_eq!(of_user, [true, false, false, false]);
        assert_eq!(
            skill_folders_of_user(&f.path.join("user")),
            [f.path.join("user/skills/mine")]
        );
    }

    #[test]
    fn a_repository_does_not_take_the_place_of_the_users_own() {
        let f = Fixture::new()
            .skill("user/skills", "deploy")
            .skill("root/.rewake/skills", "deploy");
        assert_eq!(f.names(), ["deploy of user/skills"]);
        assert_eq!(
            f.warnings(),
            [
                "the skill root/.rewake/skills/deploy/SKILL.md is not used: another one is named \"deploy\""
            ]
        );
    }

    #[test]
    fn folders_that_are_one_are_searched_once() {
        let f = Fixture::new()
            .skill("root/.agents/skills", "one")
            .link("root/.claude/skills", "root/.agents/skills");
        assert_eq!(f.names(), ["one of root/.agents/skills"]);
        assert!(f.warnings().is_empty());
    }

    #[test]
    fn unusable_skills_are_named_and_skipped() {
        let f = Fixture::new()
            .skill("elsewhere", "out")
            .write("root/.rewake/skills/bad/SKILL.md", "# no front matter")
            .write("root/.rewake/skills/binary/SKILL.md", b"\xff\xfe")
            .write(
                "root/.rewake/skills/huge/SKILL.md",
                "x".repeat(256 * 1024 + 1),
            )
            .link("root/.rewake/skills/nowhere/SKILL.md", "none")
            .link("root/.rewake/skills/out", "elsewhere/out")
            .skill("root/.rewake/skills", "good");
        assert_eq!(f.names(), ["good of root/.rewake/skills"]);
        let of = |name: &str, why: &str| {
            format!("the skill root/.rewake/skills/{name}/SKILL.md is not used: {why}")
        };
        let warnings = [
            of("bad", "it does not begin with a line `---`"),
            of("binary", "it is not UTF-8 text"),
            of("huge", "it is larger than 262144 bytes"),
            of("nowhere", "the link leads nowhere"),
            of("out", "it is a link that leads out of the workspace"),
        ];
        assert_eq!(f.warnings().len(), warnings.len());
        for (got, want) in f.warnings().iter().zip(&warnings) {
            assert!(got.starts_with(want), "{got}");
        }
    }

    #[test]
    fn there_is_an_end_to_how_many_are_listed() {
        let mut f = Fixture::new();
        for n in 0..KIND.max_found + 5 {
            f = f.skill("root/.rewake/skills", &format!("s{n}"));
        }
        assert_eq!(f.find().found.len(), KIND.max_found);
        assert_eq!(f.warnings().len(), 5);
    }
}
