//! Agents: Markdown files of the user and of the workspace, from which sub-agents are made.
//!
//! As with custom commands, those of the user come first, then the nearest folder; of two with one
//! name the first counts. Invariant: an agent of the workspace lies inside the workspace.

use std::path::{Path, PathBuf};

use super::Here;
use super::instructions::chain;
use crate::config::read_text;
use crate::core::agent::{self, AgentFile, MAX_FILE_BYTES};
use crate::core::visible::visible;

/// Where a workspace keeps agents, in each folder from the root down to here.
const FOLDERS: [&str; 2] = [".rewake/agents", ".claude/agents"];
/// In the user's config folder.
const OF_USER: &str = "agents";

const MAX_AGENTS: usize = 100;
/// Names of files that are looked at in one folder.
const MAX_NAMES: usize = 1_000;
/// More warnings say nothing new.
const MAX_WARNINGS: usize = 10;

/// An agent that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub file: AgentFile,
    /// Its path from the root of the workspace. `None`: it is the user's own.
    pub of_workspace: Option<String>,
    /// Of its text: blake3 in hex.
    pub hash: String,
}

/// The agents for a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agents {
    pub found: Vec<Agent>,
    /// What was skipped: a line each.
    pub warnings: Vec<String>,
}

/// All agents for `here`, trusted or not.
pub fn agents(here: &Here, config_dir: &Path) -> Agents {
    let mut agents = Agents::default();
    agents.folder(&config_dir.join(OF_USER), None);
    for dir in chain(here).into_iter().rev() {
        for name in FOLDERS {
            agents.folder(&dir.join(name), Some(&here.root));
        }
    }
    agents
}

impl Agents {
    fn folder(&mut self, folder: &Path, inside: Option<&Path>) {
        let Ok(entries) = folder.read_dir() else {
            return;
        };
        let names = entries.take(MAX_NAMES).flatten().map(|e| e.path());
        let mut paths: Vec<PathBuf> = names
            .filter(|path| path.extension().is_some_and(|end| end == "md"))
            .collect();
        paths.sort();
        for path in paths {
            if self.found.len() == MAX_AGENTS {
                return self.skip(&path, &format!("there are {MAX_AGENTS} already"));
            }
            match read(&path, inside) {
                Ok(agent) => {
                    let mut known = self.found.iter();
                    match known.any(|other| other.file.name == agent.file.name) {
                        true => {
                            let name = agent.file.name;
                            self.skip(&path, &format!("another one is named {name}"));
                        }
                        false => self.found.push(agent),
                    }
                }
                Err(why) => self.skip(&path, &why),
            }
        }
    }

    fn skip(&mut self, path: &Path, why: &str) {
        if self.warnings.len() < MAX_WARNINGS {
            let path = path.to_string_lossy();
            let path = visible(&path).replace(['\n', '\t'], "␤");
            self.warnings
                .push(format!("the agent {path} is not used: {why}"));
        }
    }
}

fn read(path: &Path, inside: Option<&Path>) -> Result<Agent, String> {
    let canonical = path
        .canonicalize()
        .map_err(|e| format!("the link leads nowhere ({e})"))?;
    if inside.is_some_and(|root| !canonical.starts_with(root)) {
        return Err("it is a link that leads out of the workspace".to_string());
    }
    let text = read_text(&canonical, MAX_FILE_BYTES).map_err(|e| e.to_string())?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let below = inside.map(|root| path.strip_prefix(root).unwrap_or(path));
    Ok(Agent {
        file: agent::parse(&text, &stem)?,
        of_workspace: below.map(|path| path.to_string_lossy().into_owned()),
        hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::here;
    use std::fs;

    #[test]
    fn the_users_own_come_first_and_bad_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("root/.git/HEAD", "");
        write("elsewhere.md", "---\ndescription: out\n---\nx");
        write("user/agents/a.md", "---\ndescription: mine\n---\nx");
        write(
            "root/.rewake/agents/a.md",
            "---\ndescription: theirs\n---\nx",
        );
        write("root/.claude/agents/b.md", "---\ndescription: b\n---\nx");
        write("root/.claude/agents/bad.md", "no front matter");
        let out = path.join("root/.claude/agents/out.md");
        std::os::unix::fs::symlink(path.join("elsewhere.md"), out).unwrap();
        let found = agents(&here(&path.join("root")).unwrap(), &path.join("user"));
        let names = found.found.iter();
        let names: Vec<_> = names
            .map(|a| (a.file.name.as_str(), a.file.description.as_str()))
            .collect();
        assert_eq!(names, [("a", "mine"), ("b", "b")]);
        assert_eq!(found.found[0].of_workspace, None);
        let of = found.found[1].of_workspace.as_deref();
        assert_eq!(of, Some(".claude/agents/b.md"));
        let whys = ["another one is named a", "begin with a line", "leads out"];
        assert_eq!(found.warnings.len(), whys.len(), "{:?}", found.warnings);
        for (warning, why) in found.warnings.iter().zip(whys) {
            assert!(warning.contains(why), "{warning}");
        }
    }
}
