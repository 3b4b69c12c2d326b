//! The user's messages for the text after a compaction or a continuation: verbatim as long as they
//! fit, in their order. A summary never replaces them.
//!
//! Invariant: everything here is bounded. A text that is not stored is named by its address.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use super::constraint::{constraints, facts, specifics};
use super::entry::Seq;
use super::text::head_tail;

/// Maximum size of all messages in bytes; the share of a window is never much larger.
const MAX_BYTES: usize = 512 * 1024;
/// Maximum size of a single message in bytes.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
const MAX_MESSAGES: usize = 2_000;

/// Approximate size of the line before a message, in bytes.
const HEAD_BYTES: usize = 20;
/// Size of the line for all messages that are left out, in bytes.
const LEFT_OUT_BYTES: usize = 50;

/// Size in bytes up to which a message stays whole if a sentence of it does, since the sentences of
/// a short message explain each other.
const SHORT_BYTES: usize = 240;

/// All messages of the user, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserMessages {
    all: VecDeque<UserMessage>,
    bytes: usize,
    /// The range of dropped messages between the first one and the second one stored.
    dropped: Option<(Seq, Seq)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct UserMessage {
    seq: Seq,
    /// The whole text, or the part that is stored.
    text: String,
    is_whole: bool,
    points: Vec<Point>,
}

/// A sentence that stays in the context when its message cannot, or a short message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    text: String,
    rank: usize,
}

/// The rank of a constraint. The others are facts, by their share of numbers, names and paths.
const CONSTRAINT: usize = usize::MAX;

/// Returns the points of a message, in their order.
fn points(text: &str) -> Vec<Point> {
    let constraints = constraints(text);
    let short = text.trim();
    let mut found: Vec<(usize, &str)> = if short.len() <= SHORT_BYTES {
        let rank = if constraints.is_empty() {
            specifics(short)
        } else {
            CONSTRAINT
        };
        vec![(rank, short)]
    } else {
        let facts = facts(text).into_iter().map(|s| (specifics(s), s));
        let rules = constraints.into_iter().map(|s| (CONSTRAINT, s));
        rules.chain(facts).collect()
    };
    found.retain(|(rank, _)| *rank > 0);
    found.sort_by_key(|(_, s)| s.as_ptr());
    let point = |(rank, s): (usize, &str)| Point {
        text: s.to_string(),
        rank,
    };
    found.into_iter().map(point).collect()
}

/// The part of a message that is shown.
enum Shown<'a> {
    Whole,
    /// The message cut to about this many bytes, with the points from the rest.
    Cut(usize, Vec<&'a str>),
    /// The points alone.
    Part(Vec<&'a str>),
    Address,
}

impl UserMessage {
    fn bytes(&self) -> usize {
        self.text.len() + self.points.iter().map(|p| p.text.len()).sum::<usize>()
    }

    fn cost(&self) -> usize {
        self.text.len() + HEAD_BYTES
    }
}

impl UserMessages {
    pub(crate) fn say(&mut self, seq: Seq, text: &str) {
        let kept = head_tail(text, MAX_MESSAGE_BYTES, "\n[…]\n").into_owned();
        let message = UserMessage {
            seq,
            is_whole: kept.len() == text.len(),
            text: kept,
            points: points(text),
        };
        self.bytes += message.bytes();
        self.all.push_back(message);
        if self.all.len() > MAX_MESSAGES
            && let Some(gone) = self.all.remove(1)
        {
            self.bytes -= gone.bytes();
            let first = self.dropped.map_or(gone.seq, |(first, _)| first);
            self.dropped = Some((first, gone.seq));
        }
        self.forget(|message| {
            message.text = String::new();
            message.is_whole = false;
        });
        self.forget(|message| message.points = Vec::new());
    }

    /// Removes the newest message, if it is the one of this entry.
    pub(crate) fn withdraw(&mut self, seq: Seq) {
        let is_it = self.all.back().is_some_and(|message| message.seq == seq);
        if let Some(message) = is_it.then(|| self.all.pop_back()).flatten() {
            self.bytes -= message.bytes();
        }
    }

    /// Removes a part of the oldest messages until all are within the bounds. The first message,
    /// which is the task, and the newest one stay.
    fn forget(&mut self, part: impl Fn(&mut UserMessage)) {
        let newest = self.all.len().saturating_sub(1);
        for message in self.all.range_mut(1.min(newest)..newest) {
            if self.bytes <= MAX_BYTES {
                return;
            }
            self.bytes -= message.bytes();
            part(message);
            self.bytes += message.bytes();
        }
    }

    /// Renders the messages up to this entry in about `room` bytes, in their order. The result is
    /// empty if there are none. If they do not fit, it has the first and the newest message, the
    /// constraints of the others, then their facts, and the addresses of the rest.
    pub(crate) fn to_text(&self, last: Seq, room: usize) -> String {
        let all: Vec<&UserMessage> = self.all.iter().filter(|m| m.seq <= last).collect();
        let shown = shown(&all, self.dropped.is_some(), room);
        let mut text = String::new();
        let is_left_out =
            |(_, shown): &(&&UserMessage, &Shown<'_>)| matches!(shown, Shown::Address);
        let left_out = all.iter().zip(&shown).filter(is_left_out);
        let left_out = left_out.map(|(message, _)| (message.seq, message.seq));
        let left_out = left_out.chain(self.dropped);
        let mut left_out = left_out.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        for (place, (message, shown)) in all.iter().zip(shown).enumerate() {
            let seq = message.seq;
            match shown {
                // One line names all of them.
                Shown::Address => push_left_out(&mut text, left_out.take()),
                Shown::Whole => {
                    text.push_str(&format!("[entry {seq}]\n{}\n", message.text.trim_end()));
                }
                Shown::Cut(bytes, rules) => {
                    let marker = format!("\n[… the whole is in entry {seq} …]\n");
                    let cut = head_tail(&message.text, bytes.max(marker.len() + 80), &marker);
                    let missing = rules.into_iter().filter(|rule| !cut.contains(rule));
                    let missing: Vec<&str> = missing.collect();
                    text.push_str(&format!("[entry {seq}, in part]\n{cut}\n"));
                    push_rules(&mut text, &missing);
                }
                Shown::Part(rules) => {
                    text.push_str(&format!("[entry {seq}, in part]\n"));
                    push_rules(&mut text, &rules);
                }
            }
            if place == 0 && self.dropped.is_some() {
                push_left_out(&mut text, left_out.take());
            }
        }
        text
    }
}

fn push_rules(text: &mut String, rules: &[&str]) {
    for rule in rules {
        text.push_str(&format!("{rule}\n"));
    }
}

fn push_left_out(text: &mut String, range: Option<(Seq, Seq)>) {
    match range {
        Some((first, last)) if first == last => {
            text.push_str(&format!("[entry {first}: memory_page reads it]\n"));
        }
        Some((first, last)) => {
            text.push_str(&format!(
                "[entries {first}-{last}: memory_page reads them]\n"
            ));
        }
        None => {}
    }
}

/// Decides the part of each message that is shown, so that all fit into the room.
fn shown<'a>(all: &[&'a UserMessage], some_dropped: bool, room: usize) -> Vec<Shown<'a>> {
    let whole: usize = all.iter().map(|m| m.cost()).sum();
    if !some_dropped && whole <= room && all.iter().all(|m| m.is_whole) {
        return all.iter().map(|_| Shown::Whole).collect();
    }
    let newest = all.len().saturating_sub(1);
    let is_end = |place: usize| place == 0 || place == newest;
    let ends = || all.iter().enumerate().filter(|(place, _)| is_end(*place));
    let bytes_of_ends: usize = ends().map(|(_, m)| m.cost()).sum();
    let ends_fit = bytes_of_ends <= room && ends().all(|(_, m)| m.is_whole);
    let rest = if ends_fit { room - bytes_of_ends } else { 0 };
    let rest = rest.saturating_sub(LEFT_OUT_BYTES);
    // Points have a share even if the first and the newest message fill the room.
    let for_points = if ends_fit {
        rest.max(room / 4)
    } else {
        room / 2
    };
    let is_open = |place: usize| !(is_end(place) && ends_fit);
    let (mut rules, taken) = chosen(all, is_open, for_points);
    let mut for_whole = rest.saturating_sub(taken);
    let each_end = shares(all, room.saturating_sub(taken));
    let mut shown: Vec<Shown<'a>> = Vec::with_capacity(all.len());
    // The newest first, because later messages override earlier ones.
    for (place, message) in all.iter().enumerate().rev() {
        let rules = std::mem::take(&mut rules[place]);
        let has_all = rules == [message.text.trim()];
        let more = if has_all { 0 } else { message.cost() };
        let fits = message.is_whole && more <= for_whole;
        shown.push(match (is_end(place), ends_fit) {
            (true, true) => Shown::Whole,
            (true, false) => {
                let share = if place == newest {
                    each_end.1
                } else {
                    each_end.0
                };
                if message.is_whole && message.cost() <= share {
                    Shown::Whole
                } else {
                    Shown::Cut(share, rules)
                }
            }
            (false, _) if fits => {
                for_whole -= more;
                Shown::Whole
            }
            (false, _) if rules.is_empty() => Shown::Address,
            (false, _) => Shown::Part(rules),
        });
    }
    shown.reverse();
    shown
}

/// Returns the points that are shown of each message, in at most `room` bytes, and their size. The
/// constraints come first, then the facts with the most numbers, names and paths. Of equal ones
/// those of the first message come first, then those of the newest. Nothing is shown twice.
fn chosen<'a>(
    all: &[&'a UserMessage],
    is_open: impl Fn(usize) -> bool,
    room: usize,
) -> (Vec<Vec<&'a str>>, usize) {
    let open = (0..all.len()).filter(|place| is_open(*place));
    let of = |place: usize| (0..all[place].points.len()).map(move |index| (place, index));
    let mut order: Vec<(usize, usize)> = open.flat_map(of).collect();
    order.sort_by_key(|(place, index)| {
        let rank = all[*place].points[*index].rank;
        (Reverse(rank), *place > 0, Reverse(*place), *index)
    });
    let mut chosen: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); all.len()];
    let mut seen = BTreeSet::new();
    let mut taken = 0;
    for (place, index) in order {
        let text = all[place].points[index].text.as_str();
        let head = if chosen[place].is_empty() {
            HEAD_BYTES
        } else {
            1
        };
        let fits = taken + text.len() + head <= room;
        if fits && seen.insert(text) {
            taken += text.len() + head;
            chosen[place].insert(index);
        }
    }
    let texts = chosen.iter().zip(all).map(|(chosen, message)| {
        let texts = chosen
            .iter()
            .map(|index| message.points[*index].text.as_str());
        texts.collect()
    });
    (texts.collect(), taken)
}

/// Divides the room between the first and the newest message by need.
fn shares(all: &[&UserMessage], room: usize) -> (usize, usize) {
    match all {
        [] => (0, 0),
        [_] => (0, room),
        [first, .., newest] => {
            let half = room / 2;
            match (first.cost() <= half, newest.cost() <= half) {
                (true, _) => (first.cost(), room - first.cost()),
                (_, true) => (room - newest.cost(), newest.cost()),
                _ => (room - half, half),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[(Seq, &str)]) -> UserMessages {
        let mut words = UserMessages::default();
        for (seq, text) in all {
            words.say(*seq, text);
        }
        words
    }

    #[test]
    fn user_messages_that_fit_are_shown_whole_and_in_order() {
        let words = words(&[(1, "use tabs"), (5, "no: use blanks"), (9, "go on")]);
        assert_eq!(
            words.to_text(8, 400),
            "[entry 1]\nuse tabs\n[entry 5]\nno: use blanks\n"
        );
        assert_eq!(words.to_text(0, 400), "");
    }

    #[test]
    fn messages_between_the_first_and_the_newest_are_cut_first() {
        let long = format!("{}\nNever use tabs.\nSo be it.", "some words ".repeat(100));
        let words = words(&[
            (1, "the task"),
            (3, &long),
            (5, "more of it"),
            (7, &long),
            (9, "go on"),
        ]);
        assert_eq!(
            words.to_text(9, 450),
            "[entry 1]\nthe task\n[entry 3: memory_page reads it]\n[entry 5]\nmore of it\n\
             [entry 7, in part]\nNever use tabs.\n[entry 9]\ngo on\n"
        );
        assert_eq!(
            words.to_text(9, 70),
            "[entry 1]\nthe task\n[entries 3-7: memory_page reads them]\n[entry 9]\ngo on\n"
        );
    }

    #[test]
    fn constraints_come_before_facts_and_facts_before_the_rest() {
        let some = "It was a day like others, and so was the one before it, and the next";
        let all = [
            "the task",
            "Use Rust 1.85. No crates. Never push.",
            "The port is 8391 on db.example.",
            some,
            "Always ask first.",
            "so far",
        ];
        let all: Vec<(Seq, &str)> = (1..).zip(all).collect();
        let text = |room| words(&all).to_text(Seq::MAX, room);
        let has = |text: &str| {
            all.iter()
                .map(|(_, s)| text.contains(s))
                .collect::<Vec<_>>()
        };
        let (no, yes) = (false, true);
        assert_eq!(
            has(&text(200)),
            [yes, yes, no, no, yes, yes],
            "{}",
            text(200)
        );
        assert_eq!(
            has(&text(260)),
            [yes, yes, yes, no, yes, yes],
            "{}",
            text(260)
        );
        assert_eq!(has(&text(400)), [yes; 6], "{}", text(400));
        let text = text(200);
        assert_eq!(text.matches("memory_page").count(), 1, "{text}");
    }

    #[test]
    fn a_message_that_is_too_large_keeps_its_ends_and_what_it_demands() {
        let text = format!(
            "begin {0} Never push. {0} end",
            "words and words. ".repeat(5_000)
        );
        let text = words(&[(4, &text)]).to_text(9, 1_000);
        assert!(text.len() < 1_100, "{text}");
        for part in ["begin", "Never push.", "end", "entry 4"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn any_number_of_messages_takes_bounded_room() {
        let mut words = UserMessages::default();
        for seq in 0..5_000 {
            words.say(seq, &format!("always {seq} {}", "x".repeat(500)));
        }
        words.say(5_000, &"y".repeat(10_000_000));
        assert!(words.bytes < 2 * MAX_BYTES && words.all.len() <= MAX_MESSAGES);
        for room in [100, 1_000, 10_000, 10_000_000] {
            let text = words.to_text(Seq::MAX, room);
            assert!(
                text.len() <= (room + room / 4 + 400).min(2 * MAX_BYTES),
                "{room}: {}",
                text.len()
            );
            assert!(text.contains("[entries 1-"), "{room}");
        }
    }
}
