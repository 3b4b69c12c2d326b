//! Agents: Markdown files of the user and of the workspace that describe subagents.

use std::path::Path;

use super::StartFolder;
use super::definitions::{DefinitionFile, DefinitionKind, Definitions, Layout, definitions};
use crate::core::agent::{self, AgentFile, MAX_FILE_BYTES};

const KIND: DefinitionKind = DefinitionKind {
    noun: "agent",
    of_user: "agents",
    of_workspace: &[".rewake/agents", ".claude/agents"],
    layout: Layout::Files,
    max_found: 100,
    max_file_bytes: MAX_FILE_BYTES,
};

/// An agent and the file that it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub file: AgentFile,
    /// Its path from the root of the workspace; `None` for a file of the user.
    pub of_workspace: Option<String>,
    /// blake3 of its text, in hex.
    pub hash: String,
}

/// The agents for a folder.
pub type Agents = Definitions<Agent>;

/// Returns all agents for `here`, trusted or not.
pub fn agents(here: &StartFolder, config_dir: &Path) -> Agents {
    definitions(&KIND, config_dir, Some(here), &define)
}

fn define(file: DefinitionFile<'_>) -> Result<(String, Agent), String> {
    let agent = Agent {
        file: agent::parse(&file.text, file.stem)?,
        hash: file.hash(),
        of_workspace: file.of_workspace,
    };
    Ok((agent.file.name.clone(), agent))
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
