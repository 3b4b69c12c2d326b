//! Helpers for the tests of these tools: sessions in a separate store.

use serde_json::Value;

use super::super::test_support::{ResultRoom, work};
use super::super::work::Work;
use super::super::{ToolResult, truncate_output};
use super::{HistoryView, look_back};
use crate::core::entry::{CallId, Entry, Memory, MemoryKind, Mode, Outcome, PromptPrefix, Via};
use crate::store::{Batch, Head, NewSession, Store, new_id};

pub(crate) struct Sessions {
    _folder: tempfile::TempDir,
    store: Store,
    head: Head,
    pub room: usize,
}

fn begin(store: &mut Store, workspace: &str) -> Head {
    let new = NewSession {
        id: new_id(),
        workspace: workspace.into(),
        folder: workspace.into(),
    };
    let opened = Entry::Opened {
        folder: workspace.into(),
        version: "0".into(),
        model: "m".into(),
        mode: Mode::Default,
        layers: PromptPrefix::default(),
        imported: None,
    };
    store.create(&new, 0, opened).unwrap().0
}

impl Sessions {
    /// Opens a session in the workspace `/here`.
    pub(crate) fn new() -> Sessions {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let head = begin(&mut store, "/here");
        Sessions {
            _folder: folder,
            store,
            head,
            room: 16 * 1024,
        }
    }

    /// Opens another session and makes it the current one.
    pub(crate) fn opens(&mut self, workspace: &str) {
        self.head = begin(&mut self.store, workspace);
    }

    pub(crate) fn session(&self) -> String {
        self.head.session().to_string()
    }

    pub(crate) fn appends(&mut self, entry: Entry) {
        self.batch(entry, Vec::new());
    }

    fn batch(&mut self, entry: Entry, blobs: Vec<Vec<u8>>) {
        let batch = Batch {
            entries: vec![entry],
            blobs,
            ..Batch::default()
        };
        self.store.append(&mut self.head, &batch).unwrap();
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.appends(Entry::Said {
            text: text.into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        });
    }

    /// Appends a message and the result of a call.
    pub(crate) fn prints(&mut self, text: &str) {
        self.prints_much(text);
    }

    /// Does the same, and stores a large output as a blob.
    pub(crate) fn prints_much(&mut self, text: &str) {
        self.says("go");
        let (output, blobs) = truncate_output(text.to_string(), 4_000);
        let outcome = Outcome::Done { output };
        let ran = ToolResult {
            outcome,
            fact: None,
            blobs,
        };
        self.records(ran);
    }

    pub(crate) fn remembers(&mut self, text: &str) {
        let memory = Memory {
            kind: MemoryKind::Semantic,
            topic: None,
            text: text.into(),
        };
        let fact = crate::core::entry::Fact::Remembered { memory };
        self.finishes(ToolResult::done("kept").with(Some(fact)));
    }

    pub(crate) fn finishes(&mut self, ran: ToolResult) {
        self.says("go");
        self.records(ran);
    }

    fn records(&mut self, ran: ToolResult) {
        let call = CallId { reply: 0, index: 0 };
        let finished = Entry::Finished {
            call,
            outcome: ran.outcome,
            fact: ran.fact,
            tree: None,
        };
        self.batch(finished, ran.blobs);
    }

    pub(crate) fn run(&mut self, name: &str, arguments: Value) -> ToolResult {
        let look = match work(name, arguments.clone()) {
            Work::LookBack(look) => look,
            _ => return ResultRoom::new().idempotent(name, arguments),
        };
        let session = self.session();
        let mut past = HistoryView {
            store: &mut self.store,
            session: &session,
            now_ms: 0,
            room: self.room,
        };
        look_back(look, &mut past)
    }

    pub(crate) fn done(&mut self, name: &str, arguments: Value) -> String {
        let ran = self.run(name, arguments);
        match &ran.outcome {
            Outcome::Done { output } => output.text.clone(),
            other => panic!("not done: {other:?}"),
        }
    }
}

pub(crate) fn text(ran: &ToolResult) -> &str {
    match &ran.outcome {
        Outcome::Done { output } | Outcome::Error { output } => &output.text,
        other => panic!("no text: {other:?}"),
    }
}

pub(crate) fn text_of_error(ran: &ToolResult) -> &str {
    super::super::test_support::error(ran)
}
