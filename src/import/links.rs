//! A conversation as a tree: each line names its parent. A branch that the user left is one that
//! contains words of the user and does not lead to the last line.

use std::collections::{HashMap, HashSet};
use std::io;

use serde_json::Value;

use super::lines::Lines;
use super::{About, Report, Sink};

/// Maximum number of branches of one session.
const MAX_BRANCHES: usize = 100;

/// A line of a tree.
pub(super) struct TreeLine {
    pub id: String,
    pub parent: Option<String>,
    /// It contains words of the user.
    pub is_said: bool,
    /// It is a message, not a note of the agent about itself. The conversation ends at the last one.
    pub is_message: bool,
    /// The answer that it is a line of. Empty: none, or the line is all of it.
    pub answer: String,
}

/// The reader of a format with a tree.
pub(super) trait TreeFormat: Default {
    /// Returns the description of the session, as far as it was read.
    fn about(&mut self) -> &mut About;
    /// Reads what a line says about the session.
    fn note(&mut self, line: &Value, report: &mut Report);
    /// Returns the place of a line in the tree. `None`: it is not a part of the conversation.
    fn place(&self, line: &Value) -> Option<TreeLine>;
    /// Returns the pieces of a line of the conversation.
    fn pieces(&mut self, line: &Value, report: &mut Report, sink: Sink<'_>);
}

/// Reads the lines of a tree twice: their places first, then the pieces of the conversation that
/// ends at the line with the ID `end`. `None`: at the last line. `sink` gets its pieces in order.
pub(super) fn read_tree<F: TreeFormat>(
    mut lines: Lines,
    end: Option<&str>,
    report: &mut Report,
    sink: Sink<'_>,
) -> io::Result<About> {
    let mut format = F::default();
    let mut places = Vec::new();
    while let Some(line) = lines.next(report)? {
        format.note(&line.value, report);
        places.extend(format.place(&line.value));
    }
    let last = match end {
        Some(end) => places.iter().position(|line| line.id == end),
        None => places.iter().rposition(|line| line.is_message),
    };
    let (mut is_part, circular) = current(&places, last);
    report.circular += circular;
    // All lines of an answer belong to it, wherever their parents lead.
    let with_answer = places
        .iter()
        .zip(&is_part)
        .filter(|(line, _)| !line.answer.is_empty());
    let live: HashSet<&str> = with_answer
        .filter(|(_, part)| **part)
        .map(|(line, _)| line.answer.as_str())
        .collect();
    for (place, line) in places.iter().enumerate() {
        is_part[place] |= live.contains(line.answer.as_str());
    }
    format.about().left = ends_of_left(&places, &is_part);
    lines.rewind()?;
    let mut parts = is_part.into_iter();
    while let Some(line) = lines.next(&mut Report::default())? {
        if format.place(&line.value).is_some() && parts.next().unwrap_or_default() {
            format.pieces(&line.value, report, sink);
        }
    }
    Ok(std::mem::take(format.about()))
}

/// Returns the IDs of the lines that are not part of the conversation and that no line follows.
fn ends_of_left(places: &[TreeLine], is_part: &[bool]) -> Vec<String> {
    let parents = places.iter().filter_map(|line| line.parent.as_deref());
    let parents: HashSet<&str> = parents.collect();
    let left = places
        .iter()
        .zip(is_part)
        .filter(|(line, part)| !**part && !parents.contains(line.id.as_str()));
    left.map(|(line, _)| line.id.clone())
        .take(MAX_BRANCHES)
        .collect()
}

/// Returns for each line whether it is part of the conversation that ends at the line `end`, or the
/// last one, and the number of lines whose parents form a circle.
///
/// Results of calls that ran at the same time, and a call that was killed, are on branches without
/// words of the user. They are part of it.
fn current(links: &[TreeLine], end: Option<usize>) -> (Vec<bool>, u64) {
    let ids = links.iter().map(|link| link.id.as_str());
    let by_id: HashMap<&str, usize> = ids.zip(0..).collect();
    let parent = |place: usize| {
        let id = links[place].parent.as_deref()?;
        // The line of a parent may be damaged. The line before is nearest to it.
        by_id.get(id).copied().or(place.checked_sub(1))
    };
    let mut circular = 0;
    let mut is_part: Vec<Option<bool>> = vec![None; links.len()];
    let mut at = end.or(links.len().checked_sub(1));
    while let Some(place) = at {
        if is_part[place].replace(true).is_some() {
            circular += 1;
            break;
        }
        at = parent(place);
    }
    // The walk from which a line was last reached, from 1.
    let mut reached = vec![0; links.len()];
    let mut way = Vec::new();
    for start in 0..links.len() {
        let mut joins = true;
        let mut at = Some(start);
        while let Some(place) = at {
            if let Some(known) = is_part[place] {
                joins = known;
                break;
            }
            if std::mem::replace(&mut reached[place], start + 1) == start + 1 {
                circular += 1;
                break;
            }
            way.push(place);
            at = parent(place);
        }
        for place in way.drain(..).rev() {
            joins &= !links[place].is_said;
            is_part[place] = Some(joins);
        }
    }
    let parts = is_part.into_iter().map(Option::unwrap_or_default);
    (parts.collect(), circular)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(lines: &[(&str, Option<&str>, bool)]) -> Vec<TreeLine> {
        let link = |(id, parent, is_said): &(&str, Option<&str>, bool)| TreeLine {
            id: id.to_string(),
            parent: parent.map(String::from),
            is_said: *is_said,
            is_message: true,
            answer: String::new(),
        };
        lines.iter().map(link).collect()
    }

    #[test]
    fn a_branch_is_left_only_if_the_user_spoke_there() {
        let lines = links(&[
            ("u1", None, true),
            ("a1", Some("u1"), false),
            // A killed call and a result of a parallel one.
            ("a2", Some("a1"), false),
            ("r2", Some("a2"), false),
            // A message that was edited.
            ("u2", Some("a1"), true),
            ("a3", Some("u2"), false),
            ("u3", Some("a1"), true),
            ("a4", Some("u3"), false),
        ]);
        let (parts, circular) = current(&lines, None);
        assert_eq!(parts, [true, true, true, true, false, false, true, true]);
        assert_eq!(circular, 0);
        assert_eq!(ends_of_left(&lines, &parts), ["a3"]);
        // The branch that was left, without what came after it was left.
        let (parts, _) = current(&lines, Some(5));
        assert_eq!(parts, [true, true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_missing_parent_and_a_circle_lose_nothing_else() {
        let lines = links(&[
            ("u1", None, true),
            ("a1", Some("u1"), false),
            ("u2", Some("damaged"), true),
            ("a2", Some("u2"), false),
        ]);
        assert_eq!(current(&lines, None).0, [true; 4]);
        let circle = links(&[
            ("u1", None, true),
            ("x", Some("y"), false),
            ("y", Some("x"), false),
            ("a1", Some("u1"), false),
        ]);
        let (parts, circular) = current(&circle, None);
        assert_eq!(parts, [true; 4]);
        assert_eq!(circular, 1);
        let itself = links(&[("u1", Some("u1"), true)]);
        assert_eq!(current(&itself, None), (vec![true], 1));
    }
}
