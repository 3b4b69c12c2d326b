//! The dialogs and lists over the conversation, and the keys of each.

mod approval;
mod card;
mod first_run;
mod form_entry;
mod key_entry;
mod picker;
mod review;
mod rule_place;
mod steps;
mod text_field;
mod viewer;

pub use approval::{Answer, Approval, Choice, Extent, Laid, Layout, Page};
pub use card::{Card, ResumeChoice};
pub use first_run::{FirstRun, Provider, Setup, SetupRow, WHAT_IT_IS, holds_key, is_key};
pub use form_entry::{Filled, Filling, FormEntry, format_example};
pub use key_entry::{KEY_ENTRY_KEYS, KeyEntry, Typed};
pub use picker::{For, Picked, Picker, PickerItem};
pub use review::{Review, Reviewed};
pub use rule_place::RulePlace;
pub use steps::{Step, Steps};
pub use text_field::TextField;
pub use viewer::{Section, VIEWER_KEYS, Viewer};
