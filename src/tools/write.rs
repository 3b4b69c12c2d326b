//! `write`: creates or overwrites a file.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::checked::{Content, FileChange, Target};
use super::line_ends::as_written;
use super::schema::{object, string};
use super::shown::{Shown, ShownBody, ShownResult, Verb};
use super::tool::Tool;
use super::work::Work;
use crate::core::permission::{PathUse, Permission};

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    path: String,
    content: String,
}

impl Tool for Args {
    const NAME: &'static str = "write";
    const TEXT: &'static str = include_str!("../../assets/tools/write.md");
    const VERB: Verb = Verb::Write;

    fn schema() -> Value {
        object(
            json!({"path": string(), "content": string()}),
            &["path", "content"],
        )
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Path {
            path_use: PathUse::Write,
            path: self.path.clone(),
        }
    }

    fn shown(self) -> Shown {
        Shown {
            body: ShownBody::File {
                path: self.path,
                content: self.content,
            },
            result: ShownResult::InTheBody,
            ..Shown::default()
        }
    }

    fn work(self) -> Work {
        let content = self.content;
        Work::Replace(FileChange {
            target: Target::Path(self.path),
            is_blind: true,
            content: Box::new(move |_, old| {
                let old = old.and_then(|old| std::str::from_utf8(old).ok());
                let text = as_written(old.unwrap_or_default(), &content);
                Ok(Content::whole(text.into_bytes()))
            }),
        })
    }
}
