//! The rules of the config and the borders of the workspace: as a verdict on calls, and as
//! what tools that go through folders may not show.

use std::path::Path;
use std::sync::Arc;

use super::Surroundings;
use crate::config::{ConfigError, PermissionsConfig};
use crate::core::next::Judge;
use crate::core::policy::{Rule, Rules, Workspace, decide};
use crate::tools::{Hidden, real_path};

pub fn judge(around: &Surroundings, folder: &Path) -> Result<(Judge, Arc<Hidden>), ConfigError> {
    let rules = rules(&around.config().permissions)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let workspace = Workspace {
        folder: text(folder),
        root: text(&around.here.root),
        home: around.env.home().map(text),
        // What background commands print may be read without asking.
        readable: vec![text(&around.paths.data_dir.join("runs"))],
    };
    let hidden = Arc::new(Hidden {
        bases: workspace.bases(&real_path),
        rules,
    });
    let also = Arc::clone(&hidden);
    let judge: Judge =
        Box::new(move |input, mode| decide(input, mode, &also.rules, &workspace, &real_path));
    Ok((judge, hidden))
}

fn rules(permissions: &PermissionsConfig) -> Result<Rules, ConfigError> {
    // Loading the config has parsed them, and said where a wrong one stands.
    let parse = |texts: &[String]| -> Result<Vec<Rule>, ConfigError> {
        let parsed = texts.iter().map(|text| Rule::parse(text));
        parsed.map(|rule| rule.map_err(ConfigError::new)).collect()
    };
    Ok(Rules {
        allow: parse(&permissions.allow)?,
        ask: parse(&permissions.ask)?,
        deny: parse(&permissions.deny)?,
    })
}
