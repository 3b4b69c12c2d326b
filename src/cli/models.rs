//! `rewake models [FILTER]`: lists the known models, from the built-in prices and the config; lists
//! and forgets what sessions learnt of them.

use clap::Args;

use super::time::local_time;
use crate::config::Config;
use crate::core::text::{count, one_line};
use crate::model::catalogue::{Prices, snapshot};
use crate::model::{KnownModel, discover, known_models, models_json};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// List known models with context window, output limit and prices
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ModelsArgs {
    /// Provider or part of a name
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// List learnt context windows and forms of the history
    #[arg(long, conflicts_with = "json")]
    pub learnt: bool,
    /// Forget the learnt facts of a model
    #[arg(long, value_name = "PROVIDER/MODEL", conflicts_with_all = ["json", "learnt", "filter"])]
    pub forget: Option<String>,
}

pub(super) fn run(ctx: &AppContext, args: &ModelsArgs) -> Result<u8, CliError> {
    let config = ctx.config();
    let filter = args.filter.as_deref().unwrap_or_default().trim();
    if let Some(model) = &args.forget {
        return forget(ctx, model);
    }
    if args.learnt {
        return print_learnt(ctx, filter);
    }
    let known = known_models(config);
    let found: Vec<&KnownModel> = known.iter().filter(|known| known.fits(filter)).collect();
    if found.is_empty() {
        nothing_of(config, filter)?;
    }
    match args.json {
        true => line(&models_json(&found).to_string()),
        false => print(&found),
    }
    if !args.json {
        let servers = discover::running_servers(config);
        servers.iter().for_each(|server| note(server));
    }
    Ok(exit::DONE)
}

fn print_learnt(ctx: &AppContext, filter: &str) -> Result<u8, CliError> {
    let store = super::open_store_for_reading(ctx)?;
    let all = store.models().all_learnt()?;
    let filter = filter.to_lowercase();
    let found = all
        .iter()
        .filter(|l| l.model.to_lowercase().contains(&filter));
    let mut is_any = false;
    for learnt in found {
        is_any = true;
        let model = one_line(&learnt.model, 200);
        if let Some(tokens) = learnt.context_tokens {
            line(&format!("{model}  context window of {tokens} tokens"));
        }
        for (form, kept) in &learnt.forms {
            line(&format!(
                "{model}  gets the history {}: learnt {}, last on {}",
                form.words(),
                count(kept.refusals, "time"),
                local_time(kept.at_ms)
            ));
        }
    }
    match is_any {
        true => note("rewake models --forget PROVIDER/MODEL forgets them"),
        false => note("nothing was learnt of such a model"),
    }
    Ok(exit::DONE)
}

fn forget(ctx: &AppContext, model: &str) -> Result<u8, CliError> {
    let store = ctx.open_store()?;
    if store.models().forget(model)? {
        line(&format!(
            "forgot what was learnt of {}",
            one_line(model, 200)
        ));
        Ok(exit::DONE)
    } else {
        let why = format!("nothing was learnt of {}", one_line(model, 200));
        Err(CliError::usage(why).with_hint("rewake models --learnt lists the models"))
    }
}

/// Explains an empty list. A known provider without listed models accepts any model, for an
/// unknown name the most similar one is suggested.
fn nothing_of(config: &Config, filter: &str) -> Result<(), CliError> {
    let provider = filter.split('/').next().unwrap_or(filter);
    if config.provider_names().contains(provider) {
        note(&format!(
            "no model of {provider} is in the list; it takes any name that {provider} knows: \
                 -m {provider}/MODEL"
        ));
        Ok(())
    } else {
        let error = config.unknown_provider(provider);
        let said = format!("no model is known by {filter:?}, and {error}");
        Err(CliError::usage(said).with_any_hint(error.hint()))
    }
}

fn print(found: &[&KnownModel]) {
    if found.is_empty() {
        return;
    }
    let width =
        |of: fn(&KnownModel) -> usize, least| found.iter().map(|k| of(k)).fold(least, usize::max);
    let provider = width(|k| k.provider.chars().count(), "provider".len());
    let model = width(|k| k.model.chars().count(), "model".len());
    let row = |cells: [&str; 8]| {
        let [a, b, c, d, e, f, g, h] = cells;
        let row =
            format!("{a:<provider$}  {b:<model$}  {c:>9}  {d:>8}  {e:>7}  {f:>7}  {g:>7}  {h}");
        line(row.trim_end());
    };
    row([
        "provider", "model", "window", "output", "$ in", "$ cache", "$ out", "ends",
    ]);
    for KnownModel {
        provider,
        model,
        info,
    } in found
    {
        let price = |of: fn(&Prices) -> f64| match &info.prices {
            Some(prices) => dollars(of(prices)),
            None => "-".to_string(),
        };
        row([
            provider,
            model,
            &info.context_window.to_string(),
            &info.max_output.to_string(),
            &price(|p| p.input),
            &price(|p| p.cached),
            &price(|p| p.output),
            &info.ends.map(|day| day.to_string()).unwrap_or_default(),
        ]);
    }
    note(&format!(
        "windows in tokens; prices in US dollars per million tokens, as of {}",
        snapshot()
    ));
}

/// Formats a price with at least two digits after the point, and more if they matter.
fn dollars(price: f64) -> String {
    let short = format!("{price:.2}");
    match short.parse() == Ok(price) {
        true => short,
        false => price.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_provider_or_a_part_of_a_name() {
        let all = known_models(&Config::default());
        let found = |filter: &str| all.iter().filter(|k| k.fits(filter)).count();
        assert_eq!(found(""), all.len());
        assert!(found("openai") > 5 && found("openai") < all.len());
        assert_eq!(found("OpenAI/"), found("openai"));
        assert!(found("haiku") >= 1 && found("haiku") < found("anthropic"));
        assert_eq!(found("nonesuch"), 0);
    }

    #[test]
    fn a_price_has_all_its_digits() {
        let table = [
            (10.0, "10.00"),
            (0.25, "0.25"),
            (0.125, "0.125"),
            (0.0375, "0.0375"),
        ];
        for (price, want) in table {
            assert_eq!(dollars(price), want);
        }
    }
}
