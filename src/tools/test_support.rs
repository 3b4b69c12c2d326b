//! Helpers for the tests of the tools: a separate folder, and calls in one line.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::work::Work;
use super::{Hidden, ToolContext, ToolResult, call, path_key};
use crate::core::entry::{CallId, Outcome};
use crate::core::policy::{Rule, Rules, Workspace};

pub(super) struct ResultRoom {
    // Removed when the test ends.
    _folder: tempfile::TempDir,
    pub ctx: ToolContext,
}

impl ResultRoom {
    pub(super) fn new() -> ResultRoom {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        ResultRoom {
            _folder: folder,
            ctx: ToolContext {
                folder: path.clone(),
                root: path.clone(),
                home: Some(path.join("home")),
                inline_max_bytes: 16 * 1024,
                hidden: Arc::default(),
                judged: None,
                limits: super::Limits::default(),
                catalogue: Default::default(),
            },
        }
    }

    /// Adds deny rules of the user, with the room as the workspace.
    pub(super) fn hide(&mut self, rules: &[&str]) {
        let folder = self.ctx.folder.to_str().unwrap().to_string();
        let workspace = Workspace {
            served: None,
            folder: folder.clone(),
            root: folder,
            ..Workspace::default()
        };
        self.ctx.hidden = Arc::new(Hidden {
            rules: Rules {
                deny: rules.iter().map(|r| Rule::parse(r).unwrap()).collect(),
                ..Rules::default()
            },
            bases: workspace.bases(&super::real_path),
            keys: Vec::new(),
        });
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.ctx.folder.join(name)
    }

    pub(super) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn get(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(super) fn key(&self, name: &str) -> String {
        path_key(name, &self.ctx)
    }

    /// Returns the sorted names of all files in the folder, so that a leftover shows.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.ctx.folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(super) fn idempotent(&self, name: &str, arguments: serde_json::Value) -> ToolResult {
        self.looked(name, arguments, &AtomicBool::new(false))
    }

    pub(super) fn looked(
        &self,
        name: &str,
        arguments: serde_json::Value,
        cancel: &AtomicBool,
    ) -> ToolResult {
        match work(name, arguments) {
            Work::Look(look) => look(&self.ctx, cancel),
            _ => panic!("{name} does more than look"),
        }
    }
}

pub(super) fn work(name: &str, arguments: serde_json::Value) -> Work {
    let id = CallId { reply: 0, index: 0 };
    super::work(&call(id, name, &arguments.to_string())).unwrap()
}

pub(super) fn hash(content: impl AsRef<[u8]>) -> String {
    blake3::hash(content.as_ref()).to_hex().to_string()
}

pub(super) fn done(ran: &ToolResult) -> &str {
    match &ran.outcome {
        Outcome::Done { output } => &output.text,
        other => panic!("not done: {other:?}"),
    }
}

pub(super) fn error(ran: &ToolResult) -> &str {
    error_of(&ran.outcome)
}

pub(super) fn error_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Error { output } => &output.text,
        other => panic!("not an error: {other:?}"),
    }
}
