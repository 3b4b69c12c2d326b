//! Skills: folders with a `SKILL.md` that says how a kind of task is done. They are listed
//! by name and description; what stands behind is read when it is needed.
//!
//! Those of the user's config folder come first, then those of the workspace, the nearest
//! folder first: of two with one name the first counts, so that a repository cannot put its
//! own in the place of the user's.
//!
//! Invariant: a skill of the workspace lies inside the workspace. A link that leads out is
//! not followed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Here;
use super::instructions::chain;
use crate::config::read_text;
use crate::core::skill::{self, Heading};

/// Where a workspace keeps skills, in each folder from the root down to here.
const FOLDERS: [&str; 3] = [skill::FOLDER, ".agents/skills", ".claude/skills"];
/// In the user's config folder.
const OF_USER: &str = "skills";

const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Of one folder of skills.
const MAX_NAMES: usize = 500;
const MAX_SKILLS: usize = 100;

/// A skill that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub heading: Heading,
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// The user's own, not the workspace's.
    pub of_user: bool,
}

/// The skills that a session is told of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skills {
    pub found: Vec<Skill>,
    /// What was skipped: a line each.
    pub warnings: Vec<String>,
}

/// All skills for `here`.
pub fn skills(here: &Here, config_dir: &Path) -> Skills {
    let mut search = Search::default();
    search.folder(&config_dir.join(OF_USER), None);
    for dir in chain(here).into_iter().rev() {
        for name in FOLDERS {
            search.folder(&dir.join(name), Some(&here.root));
        }
    }
    search.skills
}

/// The folders of the user's own skills: what is in them may be looked at.
pub fn skill_folders_of_user(config_dir: &Path) -> Vec<PathBuf> {
    let mut search = Search::default();
    search.folder(&config_dir.join(OF_USER), None);
    let parents = search.skills.found.iter().filter_map(|s| s.path.parent());
    parents.map(Path::to_path_buf).collect()
}

#[derive(Default)]
struct Search {
    skills: Skills,
    names: BTreeSet<String>,
    /// A file reached twice is one skill.
    files: BTreeSet<PathBuf>,
}

impl Search {
    /// `inside`: what a link may not lead out of.
    fn folder(&mut self, folder: &Path, inside: Option<&Path>) {
        let Ok(entries) = folder.read_dir() else {
            return;
        };
        let entries = entries.take(MAX_NAMES).flatten();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.path().join(skill::FILE)).collect();
        paths.sort();
        for path in paths {
            if path.symlink_metadata().is_err() {
                continue;
            }
            if self.skills.found.len() == MAX_SKILLS {
                let why = format!("there are {MAX_SKILLS} already");
                return self.skip(&path, &why);
            }
            match self.read(&path, inside) {
                Ok(Some(heading)) => self.take(heading, path, inside.is_none()),
                Ok(None) => {}
                Err(why) => self.skip(&path, &why),
            }
        }
    }

    fn read(&mut self, path: &Path, inside: Option<&Path>) -> Result<Option<Heading>, String> {
        let canonical = path
            .canonicalize()
            .map_err(|e| format!("the link leads nowhere ({e})"))?;
        if inside.is_some_and(|root| !canonical.starts_with(root)) {
            return Err("it is a link that leads out of the workspace".to_string());
        }
        if path.to_str().is_none() {
            return Err("its path is not UTF-8".to_string());
        }
        let text = read_text(&canonical, MAX_FILE_BYTES).map_err(|e| e.to_string())?;
        let heading = skill::parse(&text)?;
        Ok(self.files.insert(canonical).then_some(heading))
    }

    fn take(&mut self, heading: Heading, path: PathBuf, of_user: bool) {
        if !self.names.insert(heading.name.clone()) {
            let why = format!("another one is named {:?}", heading.name);
            return self.skip(&path, &why);
        }
        self.skills.found.push(Skill {
            heading,
            path,
            of_user,
        });
    }

    fn skip(&mut self, path: &Path, why: &str) {
        let text = format!("the skill {} is not used: {why}", path.display());
        self.skills.warnings.push(text);
    }
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

        /// For `root/a`.
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
    fn what_cannot_be_used_is_named_and_skipped() {
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
        for n in 0..MAX_SKILLS + 5 {
            f = f.skill("root/.rewake/skills", &format!("s{n}"));
        }
        assert_eq!(f.find().found.len(), MAX_SKILLS);
        assert_eq!(f.warnings().len(), 1);
    }
}
