//! What a call changes, as far as the call itself says it.

use std::borrow::Cow;

use crate::core::skill;
use crate::core::tool::Input;

/// The contents that a call puts into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// All of the file. What it replaces, if anything, is not known.
    Whole {
        path: Cow<'a, str>,
        content: Cow<'a, str>,
    },
    /// Parts of it. Where they are in the file is not known.
    Parts {
        path: &'a str,
        replaced: Vec<Replaced<'a>>,
    },
}

/// A part of a file that is replaced, in one place or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced<'a> {
    pub old: &'a str,
    pub new: &'a str,
    pub all: bool,
}

impl<'a> Change<'a> {
    /// `None` for a call that puts nothing into a file.
    pub fn of(input: &'a Input) -> Option<Change<'a>> {
        match input {
            Input::Edit(args) => {
                let replaced = args.edits.iter().map(|edit| Replaced {
                    old: &edit.old,
                    new: &edit.new,
                    all: edit.all,
                });
                Some(Change::Parts {
                    path: &args.path,
                    replaced: replaced.collect(),
                })
            }
            Input::Write(args) => Some(Change::Whole {
                path: Cow::Borrowed(&args.path),
                content: Cow::Borrowed(&args.content),
            }),
            Input::SaveSkill(args) => Some(Change::Whole {
                path: skill::path(&args.name).into(),
                content: format!("{}\n\n{}", args.description, args.body).into(),
            }),
            Input::Read(_)
            | Input::Bash(_)
            | Input::BashStop(_)
            | Input::Grep(_)
            | Input::Glob(_)
            | Input::Plan(_)
            | Input::MemorySearch(_)
            | Input::MemoryPage(_)
            | Input::MemoryInsert(_)
            | Input::ReviewHistory(_)
            | Input::Foreign { .. } => None,
        }
    }
}
