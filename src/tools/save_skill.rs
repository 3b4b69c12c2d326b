//! `save_skill`: saves instructions as a file of the workspace that later sessions read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::checked::{Content, FileChange, Target};
use super::schema::{object, string};
use super::shown::{Shown, ShownBody, ShownResult, Verb};
use super::tool::{Group, Tool};
use super::work::Work;
use crate::core::permission::Permission;
use crate::core::skill;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    name: String,
    description: String,
    /// The text of the skill, in Markdown.
    body: String,
}

impl Tool for Args {
    const NAME: &'static str = "save_skill";
    const TEXT: &'static str = include_str!("../../assets/tools/save_skill.md");
    const VERB: Verb = Verb::Write;
    const GROUP: Group = Group::Memory;

    fn schema() -> Value {
        object(
            json!({"name": string(), "description": string(), "body": string()}),
            &["name", "description", "body"],
        )
    }

    fn check(&self) -> Result<(), String> {
        skill::check(&self.name, &self.description, &self.body)
    }

    fn subject(&self) -> String {
        skill::path(&self.name)
    }

    fn permission(&self) -> Permission {
        Permission::WriteInWorkspace {
            path: skill::path(&self.name),
        }
    }

    fn shown(self) -> Shown {
        Shown {
            body: ShownBody::File {
                path: skill::path(&self.name),
                content: format!("{}\n\n{}", self.description, self.body),
            },
            // The result tells a person where the skill was stored.
            result: ShownResult::LastLines,
            ..Shown::default()
        }
    }

    fn work(self) -> Work {
        Work::Replace(FileChange {
            target: Target::InWorkspace(skill::path(&self.name)),
            is_blind: true,
            content: Box::new(move |_, _| {
                let text = skill::render(&self.name, &self.description, &self.body);
                Ok(Content::whole(text.into_bytes()))
            }),
        })
    }
}
