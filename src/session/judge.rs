//! The rules of the config and the borders of the workspace, as a verdict on calls.

use std::path::Path;

use super::Surroundings;
use crate::command::Runs;
use crate::config::ConfigError;
use crate::core::next::Judge;
use crate::core::policy::{Rule, Rules, Workspace, decide};
use crate::core::state::State;
use crate::tools::real_path;

pub fn judge(around: &Surroundings, folder: &Path, runs: Runs) -> Result<Judge, ConfigError> {
    let workspace = Workspace {
        folder: text(folder),
        root: text(&around.here.root),
        home: around.env.home().map(text),
        readable: Vec::new(),
    };
    Ok(judge_by(rules(around)?, workspace, runs))
}

fn judge_by(rules: Rules, workspace: Workspace, runs: Runs) -> Judge {
    Box::new(move |input, state| {
        let workspace = Workspace {
            readable: readable(&runs, state),
            ..workspace.clone()
        };
        decide(input, state.mode, &rules, &workspace, &real_path)
    })
}

/// What the session's own background commands print may be read without asking, and nothing
/// else below the runs: they hold the commands and outputs of all other sessions too.
fn readable(runs: &Runs, state: &State) -> Vec<String> {
    let background = state.background.values();
    let files = background.filter_map(|b| runs.output_files(&b.run).ok());
    files.flatten().map(|path| text(&path)).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn rules(around: &Surroundings) -> Result<Rules, ConfigError> {
    let permissions = &around.config().permissions;
    let origins = &around.loaded.origins;
    let parse = |key: &str, texts: &[String]| -> Result<Vec<Rule>, ConfigError> {
        let one = |(place, text): (usize, &String)| {
            let origin = origins.of(&format!("{key}[{place}]"));
            Rule::parse(text).map_err(|why| ConfigError::new(why).at(origin))
        };
        texts.iter().enumerate().map(one).collect()
    };
    Ok(Rules {
        allow: parse("permissions.allow", &permissions.allow)?,
        ask: parse("permissions.ask", &permissions.ask)?,
        deny: parse("permissions.deny", &permissions.deny)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::Decision;
    use crate::core::state::Background;
    use crate::core::tool::Input;

    const OWN: &str = "0197a1b2-c3d4-7000-8000-000000000000";
    const OTHER: &str = "0197a1b2-c3d4-7000-8000-000000000001";

    fn is_allowed(tool: &str, path: &str) -> bool {
        let runs = Runs::new("/data/runs", "/rewake");
        let workspace = Workspace {
            folder: "/w".into(),
            root: "/w".into(),
            ..Workspace::default()
        };
        let mut state = State::default();
        let background = Background {
            run: OWN.into(),
            command: "make".into(),
        };
        state.background.insert("bg_2_0".into(), background);
        let arguments = serde_json::json!({ "path": path, "pattern": "key" }).to_string();
        let input = Input::parse(tool, &arguments).unwrap();
        let judge = judge_by(Rules::default(), workspace, runs);
        judge(&input, &state) == Decision::Allow
    }

    #[test]
    fn of_all_runs_only_the_output_of_ones_own_is_read_without_asking() {
        assert!(is_allowed("read", &format!("/data/runs/{OWN}/output")));
        assert!(is_allowed("read", &format!("/data/runs/{OWN}/tail")));
        assert!(is_allowed("grep", &format!("/data/runs/{OWN}/output")));
        assert!(!is_allowed("read", &format!("/data/runs/{OWN}/spec")));
        assert!(!is_allowed("grep", &format!("/data/runs/{OWN}")));
        assert!(!is_allowed("read", &format!("/data/runs/{OTHER}/output")));
        assert!(!is_allowed("grep", "/data/runs"));
    }
}
