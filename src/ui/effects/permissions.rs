//! The rules that hold, each with where it comes from, and whether it can be taken back here:
//! those of the session, and those that stand in a file of the user's own.

use crate::config::{Origin, granted};
use crate::core::rule::RuleScope;
use crate::session::AppContext;
use crate::ui::overlay::{PickerItem, RulePlace};

/// What denies first, what allows last, as they are judged.
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
