//! `memory_search`: finds memories and entries on a subject. Each has one line, with the address by
//! which `memory_page` reads it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::history_view::{HistoryView, error_text, when};
use super::schema::{array, integer, object, one_of, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::whole::WholeNumber;
use super::work::Work;
use crate::core::permission::{LookBack, Permission, Reach};
use crate::core::text::one_line;
use crate::store::{MemoryQuery, Scope};

const DEFAULT_HITS: u64 = 10;
const MAX_HITS: u64 = 50;

/// Maximum number of memories that are listed before the entries.
const MAX_MEMORIES: u32 = 5;

/// Maximum number of characters of a hit's text.
const SNIPPET_CHARS: usize = 300;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    query: String,
    scope: Option<SearchScope>,
    /// The kinds to search; empty means all.
    #[serde(default)]
    kinds: Vec<SearchKind>,
    limit: Option<WholeNumber>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchScope {
    Session,
    Workspace,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchKind {
    Said,
    Answered,
    Printed,
    Noted,
    Episodic,
    Semantic,
    Procedural,
}

impl Tool for Args {
    const NAME: &'static str = "memory_search";
    const TEXT: &'static str = include_str!("../../assets/tools/memory_search.md");
    const VERB: Verb = Verb::Look;
    const GROUP: Group = Group::Memory;
    const LEFT_OUT: &'static [&'static str] = &["scope", "kinds"];

    fn schema() -> Value {
        let kinds = [
            "said",
            "answered",
            "printed",
            "noted",
            "episodic",
            "semantic",
            "procedural",
        ];
        let properties = json!({
            "query": string(), "scope": one_of(&["session", "workspace", "all"]),
            "kinds": array(one_of(&kinds)), "limit": integer(),
        });
        object(properties, &["query"])
    }

    fn subject(&self) -> String {
        self.query.clone()
    }

    fn permission(&self) -> Permission {
        let reach = match self.scope {
            Some(SearchScope::Session) | None => Reach::Session,
            Some(SearchScope::Workspace) => Reach::Workspace,
            Some(SearchScope::All) => Reach::All,
        };
        Permission::LookBack {
            tool: LookBack::Memory,
            reach,
        }
    }

    fn work(self) -> Work {
        Work::LookBack(Box::new(move |past| run(&self, past)))
    }
}

fn run(args: &Args, past: &mut HistoryView<'_>) -> Result<String, String> {
    if !args.query.chars().any(char::is_alphanumeric) {
        return Err("the query has no words".to_string());
    }
    let limit = args
        .limit
        .map_or(DEFAULT_HITS, u64::from)
        .clamp(1, MAX_HITS) as u32;
    let workspace = past.workspace()?;
    let scope = match args.scope.unwrap_or(SearchScope::Session) {
        SearchScope::Session => Scope::Session(past.session),
        SearchScope::Workspace => Scope::Workspace(&workspace),
        SearchScope::All => Scope::All,
    };
    let (entries, memories) = kinds(&args.kinds);
    let sought = |kinds, limit| MemoryQuery {
        query: &args.query,
        scope,
        kinds,
        now_ms: past.now_ms,
        limit,
    };
    let mut lines = Vec::new();
    if !memories.is_empty() {
        let most = match entries.is_empty() {
            true => limit,
            false => limit.min(MAX_MEMORIES),
        };
        let found = past.store.index().memories(&sought(&memories, most));
        let found = found.map_err(error_text)?;
        past.store.index().used(&found, past.now_ms);
        for memory in found {
            let topic = memory.topic.map_or(String::new(), |t| format!(" ({t})"));
            let about = format!("{}{topic}", memory.kind);
            let address = past.address(&memory.session, memory.seq);
            lines.push(line(&address, &about, memory.at_ms, &memory.text));
        }
    }
    let left = limit.saturating_sub(lines.len() as u32);
    if !entries.is_empty() && left > 0 {
        let found = past.store.index().recall(&sought(&entries, left));
        for hit in found.map_err(error_text)? {
            if hit.kind == "said" && past.was_refused(&hit.session, hit.seq)? {
                continue;
            }
            // In a fork, the address of an inherited entry names the fork itself.
            let address = match scope {
                Scope::Session(own) => past.address(own, hit.seq),
                Scope::Workspace(_) | Scope::All => past.address(&hit.session, hit.seq),
            };
            lines.push(line(
                &address,
                kind_name(&hit.kind),
                hit.at_ms,
                &hit.snippet,
            ));
        }
    }
    if lines.is_empty() {
        let wider = match scope {
            Scope::Session(_) => "; scope workspace or all looks further",
            Scope::Workspace(_) => "; scope all looks further",
            Scope::All => "",
        };
        return Ok(format!("nothing found{wider}"));
    }
    Ok(fitting(lines, past.room))
}

fn line(address: &str, about: &str, at_ms: i64, text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = one_line(&text, SNIPPET_CHARS);
    format!("{address} · {about} · {} · {text}", when(at_ms))
}

/// Returns as many lines as have room, and always the first.
fn fitting(lines: Vec<String>, room: usize) -> String {
    const MORE: &str = "\n(more was found: ask for less with limit, or more exactly)";
    let all = lines.len();
    let mut text = String::new();
    let mut shown = 0;
    for line in lines {
        if shown > 0 && text.len() + line.len() + 1 + MORE.len() > room {
            break;
        }
        if shown > 0 {
            text.push('\n');
        }
        text.push_str(&line);
        shown += 1;
    }
    if shown < all {
        text.push_str(MORE);
    }
    text
}

/// Returns the kinds of entries and the kinds of memories to search. None given means all.
fn kinds(wanted: &[SearchKind]) -> (Vec<&'static str>, Vec<&'static str>) {
    const ALL: [SearchKind; 7] = [
        SearchKind::Said,
        SearchKind::Answered,
        SearchKind::Printed,
        SearchKind::Noted,
        SearchKind::Episodic,
        SearchKind::Semantic,
        SearchKind::Procedural,
    ];
    let wanted = if wanted.is_empty() { &ALL } else { wanted };
    let (mut entries, mut memories) = (Vec::new(), Vec::new());
    for kind in wanted {
        match kind {
            SearchKind::Said => entries.push("said"),
            SearchKind::Answered => entries.push("replied"),
            SearchKind::Printed => entries.push("finished"),
            SearchKind::Noted => entries.push("noted"),
            SearchKind::Episodic => memories.push("episodic"),
            SearchKind::Semantic => memories.push("semantic"),
            SearchKind::Procedural => memories.push("procedural"),
        }
    }
    (entries, memories)
}

/// Returns the tool's word for a kind of entry.
fn kind_name(kind: &str) -> &str {
    match kind {
        "replied" => "answered",
        "finished" => "printed",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::history_view::test_support::*;

    #[test]
    fn a_hit_is_a_line_with_an_address_that_can_be_read() {
        let mut past = Sessions::new();
        past.prints("the password of the vault is xylophone42\nand more");
        past.says("what was that?");
        let found = past.done("memory_search", json!({"query": "vault password?"}));
        assert_eq!(
            found,
            "entry 2 · printed · 1970-01-01 00:00Z · the password of the vault is xylophone42 and more"
        );
        let page = past.done("memory_page", json!({"address": "entry 2"}));
        assert!(page.contains("the password of the vault is xylophone42\nand more"));
    }

    #[test]
    fn a_session_sees_no_other_workspace_unless_it_asks_for_all() {
        let mut past = Sessions::new();
        past.prints("the secret of the garden");
        past.remembers("secret sauce: mustard");
        let old = past.session();
        past.opens("/here");
        let ask = |past: &mut Sessions, scope| {
            past.done("memory_search", json!({"query": "secret", "scope": scope}))
        };
        assert!(ask(&mut past, "session").contains("mustard"));
        assert!(!ask(&mut past, "session").contains("garden"));
        assert!(ask(&mut past, "workspace").contains(&format!("{old}:2 · printed")));
        past.opens("/elsewhere");
        assert!(ask(&mut past, "session").contains("nothing found; scope"));
        assert!(ask(&mut past, "workspace").contains("nothing found; scope all"));
        let all = ask(&mut past, "all");
        assert!(all.contains("garden") && all.contains("mustard"), "{all}");
        // A session that is named in full may be read. A prefix could name one by accident.
        let page = |past: &mut Sessions, id: &str| {
            past.run("memory_page", json!({"address": format!("{id}:2")}))
        };
        let refused = page(&mut past, &old);
        assert!(text(&refused).contains("of another project; with scope all"));
        let address = format!("{old}:2");
        let page_of_all = json!({"address": address, "scope": "all"});
        let read = past.run("memory_page", page_of_all);
        assert!(text(&read).contains("garden"));
        let history = past.run("review_history", json!({"session": old}));
        assert!(text(&history).contains("of another project"));
        assert!(text(&page(&mut past, &old[..8])).contains("no session"));
    }

    #[test]
    fn kinds_and_limit_are_obeyed() {
        let mut past = Sessions::new();
        past.says("turtle one");
        past.prints("turtle two");
        past.remembers("turtle three");
        let ask = |past: &mut Sessions, kinds, limit| {
            let args = json!({"query": "turtle", "kinds": kinds, "limit": limit});
            past.done("memory_search", args)
        };
        assert_eq!(ask(&mut past, json!([]), 10).lines().count(), 3);
        assert!(ask(&mut past, json!(["said"]), 10).contains("turtle one"));
        assert_eq!(ask(&mut past, json!(["said"]), 10).lines().count(), 1);
        assert!(ask(&mut past, json!(["semantic"]), 10).contains("turtle three"));
        assert_eq!(ask(&mut past, json!([]), 1).lines().count(), 1);
    }

    #[test]
    fn a_search_does_not_find_earlier_search_results() {
        let mut past = Sessions::new();
        past.prints("a needle in hay");
        let found = past.run("memory_search", json!({"query": "needle"}));
        past.finishes(found);
        let found = past.done("memory_search", json!({"query": "needle"}));
        assert_eq!(found.lines().count(), 1, "{found}");
    }

    #[test]
    fn a_hit_is_neutral_and_the_result_has_a_bound() {
        let mut past = Sessions::new();
        for n in 0..40 {
            past.prints(&format!("\u{1b}[31m needle {n} {}", "x".repeat(200)));
        }
        let found = past.done("memory_search", json!({"query": "needle", "limit": 50}));
        assert!(!found.contains('\u{1b}'));
        past.room = 1_000;
        let found = past.done("memory_search", json!({"query": "needle", "limit": 50}));
        assert!(found.len() <= 1_000, "{}", found.len());
        assert!(found.contains("more was found"));
    }
}
