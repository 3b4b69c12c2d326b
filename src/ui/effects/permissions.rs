//! The rules in use, each with its origin, and whether it can be removed here. That applies to
//! rules of the session and of the user's own files.

use crate::config::{Origin, granted};
use crate::core::rule::RuleScope;
use crate::session::AppContext;
use crate::ui::overlay::{PickerItem, RulePlace};

/// Lists the rules in the order in which they are checked: those that deny first, those that allow
/// last.
pub(super) fn items(ctx: &AppContext, session_rules: &[String]) -> Vec<PickerItem> {
    let listed = ctx.loaded.rules();
    let listed = listed.iter();
    let mut items: Vec<PickerItem> = listed
        .map(|known| item(known.list, known.rule, &place(ctx, known.origin)))
        .collect();
    for rule in session_rules {
        items.push(item(
            "allow",
            rule,
            &RulePlace::Own(RuleScope::Session, String::new()),
        ));
    }
    items
}

fn place(ctx: &AppContext, origin: &Origin) -> RulePlace {
    let said = origin.to_string();
    match origin {
        Origin::File { path, .. } if *path == ctx.paths.config_file() => {
            RulePlace::Own(RuleScope::Everywhere, said)
        }
        Origin::File { path, .. } if *path == granted::file(&ctx.paths, &ctx.here.root) => {
            RulePlace::Own(RuleScope::Project, said)
        }
        _ => RulePlace::Elsewhere(said),
    }
}

fn item(list: &str, rule: &str, place: &RulePlace) -> PickerItem {
    PickerItem {
        value: place.value(list, rule),
        label: format!("{list:<5}  {rule}"),
        detail: place.words(),
    }
}
