//! Another model, chosen from the list of its provider: for a session whose model is gone, and at
//! the first start.

use std::sync::Arc;

use super::Effects;
use crate::config::default_models;
use crate::core::visible::figure;
use crate::model::Figures;
use crate::model::offered::ModelList;
use crate::model::provider::Secret;
use crate::model::retirement::date_at;
use crate::session::{AppContext, now_ms};
use crate::ui::app::Msg;
use crate::ui::overlay::{For, Picker, PickerItem};

impl Effects {
    /// Offers other models for a session whose model is gone. The failure itself is on the screen.
    pub(super) fn offer_models(&self, model: String, why: String) {
        let ctx = Arc::clone(&self.ctx);
        self.aside(move || {
            let names = usable(&ctx, &model);
            if names.is_empty() {
                return None;
            }
            let figures = Figures::new(ctx.config());
            let keep = PickerItem {
                value: String::new(),
                label: "none for now".to_string(),
                detail: "/model chooses one later, also one that is not listed".to_string(),
            };
            let items = names.into_iter().map(|name| item(&figures, name));
            let items = std::iter::once(keep).chain(items).collect();
            let title = format!("{model} is not there: another model?");
            let mut picker = Picker::new(For::Replacement, &title, items);
            picker.note = Some(why);
            Some(Msg::Pick(picker))
        });
    }
}

/// Returns the row of a model in a picker.
pub(super) fn item(figures: &Figures, name: String) -> PickerItem {
    let info = figures.of(&name);
    let prices = info.prices.map(|prices| {
        let [input, output] = [prices.input, prices.output].map(|usd| {
            let usd = format!("{usd:.2}");
            usd.strip_suffix(".00").map(str::to_string).unwrap_or(usd)
        });
        format!(" · ${input} in / ${output} out per 1M tokens")
    });
    let ends = info.ends.map(|day| {
        let verb = if day <= date_at(now_ms()) {
            "ended"
        } else {
            "ends"
        };
        format!(" · {verb} {day}")
    });
    let (prices, ends) = (prices.unwrap_or_default(), ends.unwrap_or_default());
    PickerItem {
        detail: format!("{} tokens{ends}{prices}", figure(info.context_window)),
        label: name.clone(),
        value: name,
    }
}

/// Returns the models that can be used instead of this one: those that its provider lists, the usual
/// ones first, else the known ones of all providers with a key.
fn usable(ctx: &AppContext, model: &str) -> Vec<String> {
    let provider = model.split('/').next().unwrap_or_default();
    let mut listed = listed(provider, &offered(ctx, provider, None));
    if listed.is_empty() {
        let models = ctx.models();
        listed = Figures::new(ctx.config()).names();
        listed.retain(|name| models.check(name).is_ok());
    }
    listed.retain(|name| name != model);
    listed
}

/// Returns the models of a list as `provider/model`, the usual ones first, without those that have
/// ended.
pub(super) fn listed(provider: &str, list: &ModelList) -> Vec<String> {
    let today = date_at(now_ms());
    let lasting = list.models().iter();
    let lasting = lasting.filter(|model| model.ends.is_none_or(|day| day > today));
    let mut names: Vec<String> = lasting
        .map(|model| format!("{provider}/{}", model.name))
        .collect();
    let usual = default_models(provider);
    let place = |name: &String| usual.iter().position(|usual| usual == name);
    names.sort_by_key(|name| place(name).unwrap_or(usual.len()));
    names
}

/// Asks a provider for its list. Not for the thread that draws.
pub(super) fn offered(ctx: &AppContext, provider: &str, key: Option<Secret>) -> ModelList {
    let asked = super::block_on(ctx.models().offered(provider, key));
    asked.unwrap_or_else(|error| ModelList::Unknown(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_row_has_the_window_and_the_end_before_the_prices() {
        let of = |ends: &str| {
            let text = format!(
                "[models.\"p/m\"]\ncontext_window = 32000\ninput_price = 3.0\n\
                 output_price = 0.5\nends = {ends:?}\n"
            );
            let config: Config = toml::from_str(&text).unwrap();
            item(&Figures::new(&config), "p/m".into()).detail
        };
        let prices = "$3 in / $0.50 out per 1M tokens";
        for (ends, said) in [("2020-01-31", "ended"), ("2999-01-31", "ends")] {
            let want = format!("{} tokens · {said} {ends} · {prices}", figure(32_000));
            assert_eq!(of(ends), want);
        }
    }
}
