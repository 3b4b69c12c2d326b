//! The provider's own list of models: the first start writes none that it lacks, and a session
//! whose model is gone offers those that it has.
//!
//! Sources: `data` with `id` of OpenAI and most others, with `shutdown_date` of OpenAI,
//! `expiration_date` of OpenRouter and `deprecation` of Mistral; pages of Anthropic (`has_more`,
//! `last_id`); `models` with `name` of Gemini and Ollama, pages of Gemini (`nextPageToken`),
//! `supportedGenerationMethods`; `active` of Groq; a list without an object around it of Together.
//!
//! Invariant: everything in the list is foreign. Names are short and of one word, in ASCII, the number of
//! pages and models is bounded, and a list that cannot be read or is empty says nothing about a
//! model.

use std::time::Duration;

use jiff::civil::Date;
use reqwest::Url;
use serde_json::Value;

use super::catalogue::is_version;
use super::http::Client;
use super::provider::Provider;
use super::retirement::is_soon;
use super::window;

/// Time limit for all pages together, because a person waits for them.
const PATIENCE: Duration = Duration::from_secs(5);

const MAX_PAGES: usize = 20;
const MAX_MODELS: usize = 5_000;
const MAX_NAME_BYTES: usize = 200;

/// A model in the list of its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedModel {
    /// Its name, without the provider.
    pub name: String,
    /// The day on which the provider takes it away, if the list says so.
    pub ends: Option<Date>,
}

/// The models that a provider lists for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelList {
    /// The complete list, which is not empty.
    Known(Vec<OfferedModel>),
    /// Nobody can say what it has, for this reason.
    Unknown(String),
}

impl ModelList {
    /// Returns the models of the list, none if it is unknown.
    pub fn models(&self) -> &[OfferedModel] {
        match self {
            ModelList::Known(models) => models,
            ModelList::Unknown(_) => &[],
        }
    }

    /// Returns the first of these names that the list has, those that end soon last. A dated version
    /// of a name counts as that name.
    pub fn first_of<'a>(&self, names: &[&'a str], today: Date) -> Option<&'a str> {
        let found = |name: &str| {
            let is_it = |model: &&OfferedModel| {
                let rest = model.name.strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || is_version(rest))
            };
            self.models().iter().find(is_it)
        };
        let listed = names.iter().filter_map(|name| Some((*name, found(name)?)));
        let lasting = listed.filter(|(_, model)| model.ends.is_none_or(|day| day > today));
        lasting
            .min_by_key(|(_, model)| is_soon(model.ends, today))
            .map(|(name, _)| name)
    }
}

/// Asks the provider for its list, page by page.
pub(super) async fn ask(client: &Client, provider: &Provider) -> ModelList {
    let name = &provider.name;
    let Some(url) = window::list_url(provider.protocol, &provider.base_url, "") else {
        return ModelList::Unknown(format!("{name} has no list of models"));
    };
    let pages = tokio::time::timeout(PATIENCE, pages(client, provider, url));
    pages.await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        ModelList::Unknown(format!(
            "{name} did not send its list of models within {seconds} s"
        ))
    })
}

async fn pages(client: &Client, provider: &Provider, first: Url) -> ModelList {
    let mut models = Vec::new();
    let mut url = first.clone();
    for _ in 0..MAX_PAGES {
        let page = match client.json(provider, &url).await {
            Ok(page) => page,
            Err(failure) => return ModelList::Unknown(failure.message),
        };
        let Some(listed) = listed(&page) else {
            let name = &provider.name;
            return ModelList::Unknown(format!("the answer of {name} is not a list of models"));
        };
        models.extend(listed);
        let next = next_page(&page, &first).filter(|next| *next != url);
        match next {
            Some(next) if models.len() < MAX_MODELS => url = next,
            Some(_) => break,
            None if models.is_empty() => {
                return ModelList::Unknown(format!("the list of {} is empty", provider.name));
            }
            None => return ModelList::Known(models),
        }
    }
    ModelList::Unknown(format!("the list of {} has no end", provider.name))
}

/// Returns whether a page is a list of models that is not empty.
pub(super) fn has_models(page: &Value) -> bool {
    listed(page).is_some_and(|models| !models.is_empty())
}

/// Returns the models of a page, or `None` if it is not a list.
fn listed(page: &Value) -> Option<Vec<OfferedModel>> {
    let inner = page.get("data").or_else(|| page.get("models"));
    let entries = inner.unwrap_or(page).as_array()?;
    let models = entries.iter().take(MAX_MODELS).filter_map(model);
    Some(models.collect())
}

fn model(entry: &Value) -> Option<OfferedModel> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let name = text("id")
        .or_else(|| text("name"))
        .or_else(|| text("model"))?;
    let name = name.strip_prefix("models/").unwrap_or(name);
    let is_name = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.bytes().all(|b| b.is_ascii_graphic());
    let methods = entry
        .get("supportedGenerationMethods")
        .and_then(Value::as_array);
    let is_for_text = methods.is_none_or(|all| all.iter().any(|m| *m == "generateContent"));
    let is_active = entry.get("active") != Some(&Value::Bool(false));
    let day = |key: &str| text(key)?.get(..10)?.parse().ok();
    let days = ["shutdown_date", "expiration_date", "deprecation"];
    (is_name && is_for_text && is_active).then(|| OfferedModel {
        name: name.to_string(),
        ends: days.iter().find_map(|key| day(key)),
    })
}

/// Returns the address of the next page.
fn next_page(page: &Value, first: &Url) -> Option<Url> {
    let token = |key: &str| page.get(key)?.as_str().filter(|token| !token.is_empty());
    let (key, token) = match page.get("has_more") {
        Some(Value::Bool(true)) => ("after_id", token("last_id")?),
        _ => ("pageToken", token("nextPageToken")?),
    };
    let mut next = first.clone();
    next.query_pairs_mut().append_pair(key, token);
    Some(next)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn every_list_is_read() {
        let names = |page: Value| -> Vec<String> {
            let models = listed(&page).unwrap();
            models.into_iter().map(|model| model.name).collect()
        };
        assert_eq!(
            names(json!({"object": "list", "data": [{"id": "a"}]})),
            ["a"]
        );
        assert_eq!(names(json!([{"id": "a/b"}, {"name": "c"}])), ["a/b", "c"]);
        let gemini = json!({"models": [
            {"name": "models/g", "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
        ]});
        assert_eq!(names(gemini), ["g"]);
        let odd = json!({"data": [
            7, {}, {"id": 7}, {"id": ""}, {"id": "two words"}, {"id": "\u{1b}[2J"}, {"id": "\u{202e}x"},
            {"id": "x".repeat(999)}, {"id": "off", "active": false}, {"id": "a"},
        ]});
        assert_eq!(names(odd), ["a"]);
        assert_eq!(names(json!({"data": []})), [""; 0]);
        for page in [json!({}), json!("<html>"), json!({"data": 7}), json!(null)] {
            assert_eq!(listed(&page), None, "{page}");
            assert!(!has_models(&page), "{page}");
        }
        assert!(!has_models(&json!({"data": []})) && has_models(&json!([{"id": "a"}])));
    }

    #[test]
    fn the_list_says_when_a_model_ends() {
        let page = json!({"data": [
            {"id": "a", "shutdown_date": "2026-12-11"}, {"id": "b", "shutdown_date": null},
            {"id": "c", "deprecation": "2026-11-30T12:00:00Z"}, {"id": "d", "shutdown_date": "soon"},
        ]});
        let ends = listed(&page).unwrap().into_iter().map(|model| model.ends);
        let ends: Vec<_> = ends.collect();
        assert_eq!(
            ends,
            [Some(day("2026-12-11")), None, Some(day("2026-11-30")), None]
        );
    }

    #[test]
    fn the_first_preference_that_lasts_is_taken() {
        let model = |name: &str, ends: Option<&str>| OfferedModel {
            name: name.into(),
            ends: ends.map(day),
        };
        let first = |models: Vec<OfferedModel>| {
            ModelList::Known(models).first_of(&["a-2", "a-1"], day("2026-11-29"))
        };
        assert_eq!(
            first(vec![model("a-1", None), model("a-2", None)]),
            Some("a-2")
        );
        assert_eq!(first(vec![model("a-1-20260102", None)]), Some("a-1"));
        assert_eq!(first(vec![model("a-1.5", None), model("a", None)]), None);
        assert_eq!(first(vec![]), None);
        let soon = Some("2026-12-11");
        assert_eq!(
            first(vec![model("a-2", soon), model("a-1", None)]),
            Some("a-1")
        );
        assert_eq!(first(vec![model("a-2", soon)]), Some("a-2"));
        assert_eq!(first(vec![model("a-2", Some("2026-11-29"))]), None);
        let unknown = ModelList::Unknown("no answer".into());
        assert_eq!(unknown.first_of(&["a-2"], day("2026-11-29")), None);
    }

    #[test]
    fn pages_are_followed_by_their_own_mark() {
        let first = Url::parse("https://h.example/v1/models").unwrap();
        let next = |page: Value| next_page(&page, &first).map(String::from);
        assert_eq!(
            next(json!({"has_more": true, "last_id": "a&b"})).unwrap(),
            "https://h.example/v1/models?after_id=a%26b"
        );
        assert_eq!(
            next(json!({"nextPageToken": "t"})).unwrap(),
            "https://h.example/v1/models?pageToken=t"
        );
        assert_eq!(next(json!({"has_more": false, "last_id": "a"})), None);
        assert_eq!(next(json!({"has_more": true})), None);
        assert_eq!(next(json!({"nextPageToken": ""})), None);
    }
}
