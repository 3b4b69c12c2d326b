//! The user's messages for the text after a compaction or a continuation: verbatim as long as they
//! fit, in their order. A summary never replaces them.
//!
//! Invariant: everything here is bounded. A text that is not stored is named by its address.

use std::collections::VecDeque;

use super::constraint::constraints;
use super::entry::Seq;
use super::text::head_tail;

/// Maximum size of all messages in bytes; the share of a window is never much larger.
const MAX_BYTES: usize = 512 * 1024;
/// Maximum size of a single message in bytes.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
const MAX_MESSAGES: usize = 2_000;

/// Approximate size of the line before a message, in bytes.
const HEAD_BYTES: usize = 20;
/// Approximate size of the lines before a part of a message and for the missing text after it.
const PART_HEAD_BYTES: usize = 90;

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
    constraints: Vec<String>,
}

/// The part of a message that is shown.
enum Shown<'a> {
    Whole,
    /// The message cut to about this many bytes, with the constraints from the rest.
    Cut(usize, Vec<&'a str>),
    /// The constraints alone.
    Part(Vec<&'a str>),
    Address,
}

impl UserMessage {
    fn bytes(&self) -> usize {
        self.text.len() + self.constraints.iter().map(String::len).sum::<usize>()
    }

    fn cost(&self) -> usize {
        self.text.len() + HEAD_BYTES
    }
}

impl UserMessages {
    pub(crate) fn say(&mut self, seq: Seq, text: &str) {
        let kept = head_tail(text, MAX_MESSAGE_BYTES, "\n[…]\n").into_owned();
        let constraints = constraints(text);
        let message = UserMessage {
            seq,
            is_whole: kept.len() == text.len(),
            text: kept,
            constraints: constraints.into_iter().map(str::to_string).collect(),
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
        self.forget(|message| message.constraints = Vec::new());
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
    /// constraints of the others, and the addresses of the rest.
    pub(crate) fn to_text(&self, last: Seq, room: usize) -> String {
        let all: Vec<&UserMessage> = self.all.iter().filter(|m| m.seq <= last).collect();
        let shown = shown(&all, self.dropped.is_some(), room);
        let mut text = String::new();
        let mut left_out: Option<(Seq, Seq)> = None;
        for (place, (message, shown)) in all.iter().zip(shown).enumerate() {
            let seq = message.seq;
            match shown {
                Shown::Address => {
                    left_out = Some((left_out.map_or(seq, |(first, _)| first), seq));
                    continue;
                }
                Shown::Whole => {
                    push_left_out(&mut text, left_out.take());
                    text.push_str(&format!("[entry {seq}]\n{}\n", message.text.trim_end()));
                }
                Shown::Cut(bytes, rules) => {
                    push_left_out(&mut text, left_out.take());
                    let marker = format!("\n[… the whole is in entry {seq} …]\n");
                    let cut = head_tail(&message.text, bytes.max(marker.len() + 80), &marker);
                    let missing = rules.into_iter().filter(|rule| !cut.contains(rule));
                    let missing: Vec<&str> = missing.collect();
                    text.push_str(&format!("[entry {seq}, in part]\n{cut}\n"));
                    push_rules(&mut text, &missing);
                }
                Shown::Part(rules) => {
                    push_left_out(&mut text, left_out.take());
                    text.push_str(&format!("[entry {seq}, in part]\n"));
                    push_rules(&mut text, &rules);
                }
            }
            if place == 0 {
                left_out = self.dropped;
            }
        }
        push_left_out(&mut text, left_out);
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
    // Constraints have a share even if the first and the newest message fill the room.
    let for_rules = match ends_fit {
        true => rest.max(room / 4).min(room / 2),
        false => room / 2,
    };
    let is_open = |place: usize| !(is_end(place) && ends_fit);
    let (mut rules, taken) = chosen(all, is_open, for_rules);
    let mut for_whole = rest.saturating_sub(taken);
    let each_end = shares(all, room.saturating_sub(taken));
    let mut shown: Vec<Shown<'a>> = Vec::with_capacity(all.len());
    // The newest first, because later messages override earlier ones.
    for (place, message) in all.iter().enumerate().rev() {
        let rules = std::mem::take(&mut rules[place]);
        let fits = message.is_whole && message.cost() <= for_whole;
        shown.push(match (is_end(place), ends_fit) {
            (true, true) => Shown::Whole,
            (true, false) => {
                let share = if place == newest {
                    each_end.1
                } else {
                    each_end.0
                };
                match message.is_whole && message.cost() <= share {
                    true => Shown::Whole,
                    false => Shown::Cut(share, rules),
                }
            }
            (false, _) if fits => {
                for_whole -= message.cost();
                Shown::Whole
            }
            (false, _) if rules.is_empty() => Shown::Address,
            (false, _) => Shown::Part(rules),
        });
    }
    shown.reverse();
    shown
}

/// Returns the constraints that are shown of each message, in at most `room` bytes, and their size.
/// Those of the first message come first, then those of the newest.
fn chosen<'a>(
    all: &[&'a UserMessage],
    is_open: impl Fn(usize) -> bool,
    room: usize,
) -> (Vec<Vec<&'a str>>, usize) {
    let mut rules: Vec<Vec<&str>> = vec![Vec::new(); all.len()];
    let mut taken = 0;
    let first = (!all.is_empty()).then_some(0);
    let order = first.into_iter().chain((1..all.len()).rev());
    for place in order.filter(|place| is_open(*place)) {
        for rule in &all[place].constraints {
            let head = if rules[place].is_empty() {
                PART_HEAD_BYTES
            } else {
                1
            };
            if taken + rule.len() + head <= room {
                taken += rule.len() + head;
                rules[place].push(rule);
            }
        }
    }
    (rules, taken)
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
            "[entry 1]\nthe task\n[entry 3, in part]\nNever use tabs.\n[entry 5]\nmore of it\n\
             [entry 7, in part]\nNever use tabs.\n[entry 9]\ngo on\n"
        );
        assert_eq!(
            words.to_text(9, 70),
            "[entry 1]\nthe task\n[entries 3-7: memory_page reads them]\n[entry 9]\ngo on\n"
        );
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
