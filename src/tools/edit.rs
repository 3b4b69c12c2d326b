//! `edit`: exact replacements in a file, all or nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::checked::{Content, FileChange, Replaced, Target};
use super::paths;
use super::replace::{self, Replacement};
use super::schema::{array, boolean, object, string};
use super::shown::{Shown, ShownBody, ShownResult, Verb};
use super::tool::Tool;
use super::work::Work;
use crate::core::permission::{PathUse, Permission};

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    path: String,
    /// The edits, each of which works on the result of the one before.
    edits: Vec<Replacement>,
}

impl Tool for Args {
    const NAME: &'static str = "edit";
    const TEXT: &'static str = include_str!("../../assets/tools/edit.md");
    const VERB: Verb = Verb::Edit;

    fn schema() -> Value {
        let one = json!({"old": string(), "new": string(), "all": boolean()});
        let edits = array(object(one, &["old", "new"]));
        object(
            json!({"path": string(), "edits": edits}),
            &["path", "edits"],
        )
    }

    fn check(&self) -> Result<(), String> {
        match self.edits.is_empty() {
            true => Err("`edits` is empty".to_string()),
            false => Ok(()),
        }
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Path {
            path_use: PathUse::Edit,
            path: self.path.clone(),
        }
    }

    fn shown(self) -> Shown {
        Shown {
            body: ShownBody::Edits {
                path: self.path,
                edits: self.edits,
            },
            result: ShownResult::InTheBody,
            ..Shown::default()
        }
    }

    fn work(self) -> Work {
        let Args { path: name, edits } = self;
        Work::Replace(FileChange {
            target: Target::Path(name.clone()),
            is_blind: false,
            content: Box::new(move |path, old| match old {
                Some(old) => {
                    let edited = replace::all(&name, &edits, old)?;
                    Ok(Content {
                        bytes: edited.text.into_bytes(),
                        replaced: Some(Replaced {
                            places: edited.replaced,
                            is_certain: edited.is_certain,
                            is_exact: edited.is_exact,
                        }),
                    })
                }
                None => Err(format!(
                    "cannot edit: {}\nhint: write makes a new file",
                    paths::missing(&name, path)
                )),
            }),
        })
    }
}
