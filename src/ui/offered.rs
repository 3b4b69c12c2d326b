//! The prompts and resources that the MCP servers of the session offer to people, as far as they
//! are known. Prompts are commands, and resources can be mentioned. They are requested when the
//! user types a server's name, and shown when they arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::mcp::offers::{Offers, Prompt, Resource};
use crate::ui::commands::Custom;

/// Maximum length of the description of a prompt or a resource.
const HELP_CHARS: usize = 200;

/// The prompts and resources by the server's name. `None`: they are not known yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerOffers(BTreeMap<String, Option<KnownOffers>>);

#[derive(Debug, Clone, Default, PartialEq)]
struct KnownOffers {
    prompts: Vec<Arc<Custom>>,
    resources: Vec<Arc<Resource>>,
}

impl ServerOffers {
    /// Sets the servers. Known prompts and resources stay.
    pub fn set_servers(&mut self, names: Vec<String>) {
        let mut known = std::mem::take(&mut self.0);
        let named = names.into_iter().map(|name| {
            let of_it = known.remove(&name).flatten();
            (name, of_it)
        });
        self.0 = named.collect();
    }

    /// Sets the prompts and resources of a server.
    pub fn set(&mut self, server: &str, offers: Offers) {
        let Some(place) = self.0.get_mut(server) else {
            return;
        };
        let prompts = offers.prompts.iter().filter(|prompt| can_be_typed(prompt));
        *place = Some(KnownOffers {
            prompts: prompts.map(|prompt| command(server, prompt)).collect(),
            resources: offers.resources.into_iter().map(Arc::new).collect(),
        });
    }

    /// Returns the server whose name is before the first colon of a word.
    pub fn named<'a>(&self, word: &'a str) -> Option<&'a str> {
        let (server, _) = word.split_once(':')?;
        self.0.contains_key(server).then_some(server)
    }

    /// Servers whose names begin with this.
    pub fn beginning<'a>(&'a self, word: &str) -> impl Iterator<Item = &'a str> {
        let word = word.to_string();
        let names = self.0.keys().map(String::as_str);
        names.filter(move |name| !word.is_empty() && name.starts_with(&word))
    }

    /// Returns the prompts of a server, as commands.
    pub fn prompts(&self, server: &str) -> &[Arc<Custom>] {
        self.known(server).map_or(&[], |known| &known.prompts)
    }

    pub fn resources(&self, server: &str) -> &[Arc<Resource>] {
        self.known(server).map_or(&[], |known| &known.resources)
    }

    fn known(&self, server: &str) -> Option<&KnownOffers> {
        self.0.get(server)?.as_ref()
    }
}

/// Returns whether a name can be a command: without a blank, a `/` or a `.`.
fn can_be_typed(prompt: &Prompt) -> bool {
    let is_odd = |c: char| c.is_whitespace() || "/.".contains(c);
    !prompt.name.contains(is_odd) && visible(&prompt.name) == prompt.name
}

fn command(server: &str, prompt: &Prompt) -> Arc<Custom> {
    Arc::new(Custom {
        name: format!("{server}:{}", prompt.name),
        argument: seen(&prompt.usage()),
        help: seen(&prompt.description),
    })
}

/// Returns the text as a line in which nothing is hidden.
pub fn seen(text: &str) -> String {
    let shown = visible(text);
    let words: Vec<&str> = shown.split_whitespace().collect();
    one_line(&words.join(" "), HELP_CHARS)
}

#[cfg(test)]
pub(crate) static NOTHING: ServerOffers = ServerOffers(BTreeMap::new());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::offers::PromptArgument;

    fn prompt(name: &str) -> Prompt {
        Prompt {
            name: name.into(),
            description: "Ask\nfor it".into(),
            arguments: vec![PromptArgument {
                name: "city".into(),
                description: String::new(),
                is_required: true,
            }],
        }
    }

    #[test]
    fn server_offers_are_known_only_while_the_server_is_there() {
        let mut offered = ServerOffers::default();
        let offers = Offers {
            prompts: vec![
                prompt("weather"),
                prompt("a b"),
                prompt("a/b"),
                prompt("a.b"),
            ],
            resources: Vec::new(),
        };
        offered.set("every", offers.clone());
        assert_eq!(offered.named("every:x"), None);
        offered.set_servers(vec!["every".into(), "other".into()]);
        assert_eq!(offered.prompts("every"), []);
        offered.set("every", offers);
        offered.set_servers(vec!["every".into()]);
        assert_eq!(offered.named("every:x"), Some("every"));
        let [weather] = offered.prompts("every") else {
            panic!("{offered:?}");
        };
        assert_eq!(weather.name, "every:weather");
        assert_eq!(weather.argument, "<city>");
        assert_eq!(weather.help, "Ask for it");
        assert_eq!(offered.beginning("ev").collect::<Vec<_>>(), ["every"]);
        assert_eq!(offered.beginning("").count(), 0);
        offered.set_servers(Vec::new());
        assert_eq!(offered.named("every:x"), None);
    }
}
