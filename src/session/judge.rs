//! The rules of the config and the borders of the workspace, as a verdict on calls.

use std::path::Path;

use super::Surroundings;
use crate::config::ConfigError;
use crate::core::next::Judge;
use crate::core::policy::{Rule, Rules, Workspace, decide};
use crate::tools::real_path;

pub fn judge(around: &Surroundings, folder: &Path) -> Result<Judge, ConfigError> {
    let rules = rules(around)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let workspace = Workspace {
        folder: text(folder),
        root: text(&around.here.root),
        home: around.env.home().map(text),
        // What background commands print may be read without asking.
        readable: vec![text(&around.paths.data_dir.join("runs"))],
    };
    Ok(Box::new(move |input, mode| {
        decide(input, mode, &rules, &workspace, &real_path)
    }))
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
