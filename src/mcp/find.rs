//! Search for tools in the catalogue by words. The best matches are shown completely, more of them
//! by name.

use std::collections::BTreeSet;

use super::catalogue::{Catalogue, CatalogueServer, CatalogueTool};
use crate::core::text::{count, one_line};

/// Maximum number of best matches that are shown with their arguments.
const WHOLE: usize = 5;
/// Maximum number of further matches that are shown by name.
const NAMED: usize = 30;

/// Maximum length of a description, in the list and beside the arguments.
const LINE_CHARS: usize = 100;
const DESCRIPTION_CHARS: usize = 600;
/// Maximum number of words of a text that count.
const WORDS_MAX: usize = 256;
const SERVER_NAMES: usize = 20;

/// Scores for a word of the query, by where it occurs.
const IN_NAME: u32 = 8;
const IN_SERVER: u32 = 3;
const IN_DESCRIPTION: u32 = 3;
const IN_ARGUMENTS: u32 = 1;

/// A query for tools.
pub struct ToolQuery<'a> {
    /// Search words. Without any, all tools match.
    pub query: &'a str,
    pub server: Option<&'a str>,
    /// Maximum size of the answer in bytes.
    pub room: usize,
}

/// Returns the matching tools as text for the model, best first.
///
/// # Errors
/// There is no such server.
pub fn find(catalogue: &Catalogue, wanted: &ToolQuery<'_>) -> Result<String, String> {
    let servers = servers(catalogue, wanted.server)?;
    let query = words(wanted.query);
    let mut ranked: Vec<(u32, &CatalogueTool)> = Vec::new();
    for server in &servers {
        for tool in &server.tools {
            let rank = rank(&query, server, tool);
            if rank > 0 || query.is_empty() {
                ranked.push((rank, tool));
            }
        }
    }
    // The sort is stable, so equal ranks keep the order of the servers' lists.
    ranked.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    let found: Vec<&CatalogueTool> = ranked.into_iter().map(|(_, tool)| tool).collect();
    let mut text = Bounded::new(wanted.room);
    text.add(&heading(&servers, &found, query.is_empty()));
    for name in servers.iter().filter(|s| !s.is_known()) {
        text.add(&format!(
            "server {}: its tools are not known yet",
            name.short_name()
        ));
    }
    let whole = if query.is_empty() { 0 } else { WHOLE };
    let (whole, named) = found.split_at(whole.min(found.len()));
    for tool in whole {
        if !text.add(&in_full(tool)) {
            text.add(&in_a_line(tool));
        }
    }
    let most = if query.is_empty() { usize::MAX } else { NAMED };
    let mut left_out = named.len().saturating_sub(most);
    for tool in named.iter().take(most) {
        if !text.add(&in_a_line(tool)) {
            left_out += 1;
        }
    }
    Ok(text.ending(left_out))
}

fn servers<'a>(
    catalogue: &'a Catalogue,
    named: Option<&str>,
) -> Result<Vec<&'a CatalogueServer>, String> {
    let is_meant = |server: &&CatalogueServer| {
        named.is_none_or(|name| server.name == name || server.short_name() == name)
    };
    let found: Vec<_> = catalogue.servers.iter().filter(is_meant).collect();
    if !found.is_empty() || named.is_none() {
        return Ok(found);
    }
    let names = catalogue.servers.iter().take(SERVER_NAMES);
    let names: Vec<String> = names.map(CatalogueServer::short_name).collect();
    Err(format!(
        "there is no server {:?}; the servers are {}",
        one_line(named.unwrap_or_default(), 80),
        names.join(", ")
    ))
}

fn heading(servers: &[&CatalogueServer], found: &[&CatalogueTool], is_list: bool) -> String {
    let all: usize = servers.iter().map(|server| server.tools.len()).sum();
    match (is_list, found.len()) {
        (true, _) => format!("{}:", count(all, "tool")),
        (false, 0) => format!(
            "no tool fits, of {all}; other words may, and an empty query lists all of a server"
        ),
        (false, n) => format!("{n} of {} fit, best first:", count(all, "tool")),
    }
}

fn in_full(tool: &CatalogueTool) -> String {
    let description: Vec<&str> = tool.description.split_whitespace().collect();
    let description = one_line(&description.join(" "), DESCRIPTION_CHARS);
    format!(
        "{}: {description}\n  arguments: {}",
        tool.full_name, tool.schema
    )
}

fn in_a_line(tool: &CatalogueTool) -> String {
    let description = one_line(&tool.description, LINE_CHARS);
    format!("{}: {description}", tool.full_name)
}

/// Returns how well a tool matches: the sum of the scores of all words, multiplied by the number of
/// words that match.
fn rank(query: &BTreeSet<String>, server: &CatalogueServer, tool: &CatalogueTool) -> u32 {
    let name = words(&tool.name);
    let server = words(&server.name);
    let description = words(&tool.description);
    let arguments = tool.schema["properties"].as_object();
    let arguments: BTreeSet<String> = arguments
        .into_iter()
        .flat_map(|named| named.keys().flat_map(|name| words(name)))
        .collect();
    let worth = |word: &String| {
        let met = |words: &BTreeSet<String>, worth: u32| match words {
            words if words.contains(word) => worth * 2,
            words if words.iter().any(|other| begins_alike(word, other)) => worth,
            _ => 0,
        };
        met(&name, IN_NAME)
            + met(&server, IN_SERVER)
            + met(&description, IN_DESCRIPTION)
            + met(&arguments, IN_ARGUMENTS)
    };
    let worths: Vec<u32> = query.iter().map(worth).collect();
    let met = worths.iter().filter(|worth| **worth > 0).count() as u32;
    worths.iter().sum::<u32>() * met
}

/// Returns whether one word is a prefix of the other, such as `file` and `files`.
fn begins_alike(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() {
        (one, other)
    } else {
        (other, one)
    };
    short.len() >= 3 && long.starts_with(short)
}

/// Splits a text into lower-case words. `readFile` and `read_file` are two words each.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut was_small = false;
    for char in text.chars() {
        let begins = char.is_uppercase() && was_small;
        if (begins || !char.is_alphanumeric()) && !word.is_empty() {
            words.insert(std::mem::take(&mut word));
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        was_small = char.is_lowercase();
        if words.len() >= WORDS_MAX {
            return words;
        }
    }
    if !word.is_empty() {
        words.insert(word);
    }
    words
}

/// A list of lines with a limit in bytes.
struct Bounded {
    text: String,
    room: usize,
}

impl Bounded {
    /// Space for the last line, which says how many matches are left out.
    const END: usize = 80;

    fn new(room: usize) -> Bounded {
        Bounded {
            text: String::new(),
            room: room.saturating_sub(Bounded::END),
        }
    }

    /// Adds a line. Returns false if it does not fit. The first line is always added.
    fn add(&mut self, line: &str) -> bool {
        if !self.text.is_empty() {
            if self.text.len() + 1 + line.len() > self.room {
                return false;
            }
            self.text.push('\n');
        }
        self.text.push_str(line);
        true
    }

    fn ending(mut self, left_out: usize) -> String {
        if left_out > 0 {
            let more = format!(
                "\n({} not shown: ask more exactly)",
                count(left_out, "more tool")
            );
            self.text.push_str(&more);
        }
        self.text
    }
}

#[cfg(test)]
mod tests;
