//! The conversation as the screen shows it: a projection of the log, and the stream.
//!
//! Invariant: recorded content is shown from its entries alone; the stream is shown until the entry
//! with its content is recorded, and never beside it.

mod block;
mod call;
mod changes;
mod edits;
mod lay;
mod paragraph;
mod scroll;
mod search;
mod turn;

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

pub use crate::session::describe::{Tone, TurnEnd};
use block::Together;
pub use block::{Block, Call, Exit, Kind, Status};
pub(crate) use call::change;
pub use call::{change_lines, spinner};
pub use changes::Span;
pub use paragraph::LayoutContext;
pub use scroll::Scroll;
pub use search::{MAX_WORDS_CHARS, SEARCH_KEYS, TranscriptSearch};
pub use turn::TurnSummary;

use super::markdown;
use super::text::short;
use super::theme::Theme;
use crate::core::entry::{CallId, Entry, Fact, Outcome, Output, Record, Seq};
use crate::core::text::count;
use crate::core::to_person::YOU_RAN;
use crate::model::{Delta, Figures};
use crate::session::describe::{self, BodyPart, CallStatus, Describer, Description};
use crate::tools;
use crate::tools::bash::STOPPED;

/// The conversation: its blocks, the stream, and the scroll position.
#[derive(Default)]
pub struct Transcript {
    pub blocks: Vec<Block>,
    describer: Describer,
    /// The block of each call of the last answer.
    calls: HashMap<CallId, usize>,
    /// The block of each command that still runs in the background, by its id.
    background: HashMap<String, usize>,
    /// The user's commands that have not ended, with their starts: UTC, milliseconds since 1970.
    user_commands: HashMap<Seq, (String, i64)>,
    pub stream: Stream,
    /// The first entry that is shown; earlier ones are read when the user scrolls to them.
    pub first: Option<Seq>,
    /// The beginning of the session, read before the entries between: the number of its blocks with
    /// the line that stands for those, and its last entry.
    pub(in crate::ui) head: Option<(usize, Seq)>,
    last: Option<Seq>,
    /// The block that reports that the session was resumed, until something follows it.
    resumed: Option<usize>,
    /// The time of the last entry, and of the one before.
    last_ms: i64,
    before_ms: i64,
    /// The open turn.
    turn: Option<turn::Turn>,
    /// A turn has ended here. Work after it belongs to another turn, even without a message.
    has_ended_turn: bool,
    /// Prices of tokens. `None`: prices are not shown.
    figures: Option<Figures>,
    pub scroll: Scroll,
    /// All blocks are unfolded.
    pub unfolded: bool,
    /// The blocks that were on the screen last.
    seen: Range<usize>,
    /// Changes of calls were requested, and have not arrived yet.
    awaits_changes: bool,
    /// The block of a call that has ended without a tree after it so far.
    without_tree: Option<usize>,
}

/// The answer that is streaming.
#[derive(Default)]
pub struct Stream {
    pub words: markdown::Stream,
    /// Words arrived, so `words` must be shown.
    pub has_words: bool,
    pub thinking: String,
    /// Time of the first and the last piece of thinking: UTC, milliseconds since 1970.
    pub thinking_since_ms: i64,
    thinking_last_ms: i64,
    /// When the first piece of the answer came: UTC, milliseconds since 1970.
    began_ms: Option<i64>,
    bytes: usize,
    /// The tools of the calls that have started to stream.
    pub calls: Vec<String>,
    /// Why and when (UTC, milliseconds since 1970) the request is retried.
    pub retry: Option<(String, i64)>,
}

impl Stream {
    /// Returns whether no part of an answer arrived yet.
    pub fn is_empty(&self) -> bool {
        !self.has_words && self.thinking.is_empty() && self.calls.is_empty() && self.retry.is_none()
    }

    /// Returns the approximate rate of tokens per second. `None` when it is too early to tell.
    pub fn tokens_per_second(&self, now_ms: i64) -> Option<u64> {
        const BYTES_PER_TOKEN: u64 = 4;
        let age_ms = u64::try_from(now_ms - self.began_ms?).ok()?;
        let bytes = u64::try_from(self.bytes).ok()?;
        let rate = bytes * 1_000 / BYTES_PER_TOKEN / age_ms.max(1);
        (age_ms >= 1_000 && rate > 0).then_some(rate)
    }

    /// Returns the duration of the thinking in milliseconds, after its end.
    pub fn thought_ms(&self) -> Option<u64> {
        let is_over = self.has_words || !self.calls.is_empty();
        is_over.then(|| self.thinking_ms())
    }

    fn thinking_ms(&self) -> u64 {
        let took = self.thinking_last_ms - self.thinking_since_ms;
        u64::try_from(took).unwrap_or(0)
    }

    fn feed(&mut self, delta: &Delta, now_ms: i64) {
        if let Delta::Text(text) | Delta::Thinking(text) = delta {
            self.began_ms.get_or_insert(now_ms);
            self.bytes += text.len();
        }
        match delta {
            Delta::Text(text) => {
                self.retry = None;
                self.has_words = true;
                self.words.push(text);
            }
            Delta::Thinking(text) => {
                self.retry = None;
                if self.thinking.is_empty() {
                    self.thinking_since_ms = now_ms;
                }
                self.thinking_last_ms = now_ms;
                self.thinking.push_str(text);
            }
            Delta::Call { name } => self.calls.push(name.clone()),
            Delta::Usage(_) => {}
            Delta::Retry {
                until_ms, failure, ..
            } => {
                *self = Stream {
                    retry: Some((failure.message.clone(), *until_ms)),
                    ..Stream::default()
                };
            }
        }
    }
}

impl Transcript {
    /// Makes the conversation of these records.
    pub fn of(records: &[Record]) -> Transcript {
        Transcript::with_prices(records, None)
    }

    /// Makes the conversation of these records, with the cost of each turn.
    pub fn with_prices(records: &[Record], figures: Option<Figures>) -> Transcript {
        let mut transcript = Transcript {
            figures,
            ..Transcript::default()
        };
        for record in records {
            transcript.fold(record);
        }
        transcript
    }

    /// Adds the entries of this range, which are not shown yet: before the first one, or to the
    /// beginning of the session.
    pub fn insert(&mut self, records: &[Record], range: &RangeInclusive<Seq>) {
        let earlier = Transcript::with_prices(records, self.figures.clone());
        let mut blocks = earlier.blocks;
        let adjoins = self.first.is_none_or(|first| range.end() + 1 >= first);
        let head = self.head.map_or(0, |(blocks, _)| blocks);
        let at = if adjoins {
            head
        } else {
            head.saturating_sub(1)
        };
        if adjoins {
            self.first = earlier.first.or(self.first);
        } else {
            if self.head.is_none() {
                let text = "the entries between are read when you scroll on".into();
                let tone = Tone::Calm;
                blocks.push(Block::new(*range.end(), 0, Kind::Marker { tone, text }));
            }
            self.head = Some((head + blocks.len(), *range.end()));
        }
        let before = self.scroll;
        self.shift(at, blocks.len(), 0);
        // A view at the end of the beginning stays there and shows the new entries.
        if !adjoins && matches!(before, Scroll::At { block, .. } if block == at) {
            self.scroll = before;
        }
        self.blocks.splice(at..at, blocks);
        // Blocks of commands that started earlier and still run.
        for (id, place) in earlier.background {
            self.background.entry(id).or_insert(at + place);
        }
        if let Some((head, last)) = self.head
            && self.first.is_none_or(|first| last + 1 >= first)
        {
            self.head = None;
            self.first = Some(0);
            self.shift(head, 0, 1);
            self.blocks.remove(head - 1);
        }
    }

    /// Drops the beginning of the session if entries after it are not there.
    pub(in crate::ui) fn drop_head(&mut self) {
        if let Some((head, _)) = self.head.take() {
            self.background.retain(|_, place| *place >= head);
            if matches!(self.scroll, Scroll::At { block, .. } if block < head) {
                self.scroll = Scroll::At { block: 0, line: 0 };
            }
            self.shift(head, 0, head);
            self.blocks.drain(..head);
        }
    }

    /// Moves the places of the blocks from `at` on, before which blocks are added or removed.
    fn shift(&mut self, at: usize, added: usize, removed: usize) {
        let moved = |place: usize| match place.checked_sub(at) {
            Some(_) => (place + added).saturating_sub(removed),
            None => place,
        };
        for place in self.calls.values_mut().chain(self.background.values_mut()) {
            *place = moved(*place);
        }
        self.resumed = self.resumed.map(moved);
        self.without_tree = self.without_tree.map(moved);
        self.seen = 0..0;
        if let Scroll::At { block, .. } = &mut self.scroll {
            *block = moved(*block);
        }
    }

    /// Removes the blocks of the entries up to this one.
    pub(super) fn drop_before(&mut self, last: Option<Seq>) {
        let is_earlier = |block: &Block| last.is_some_and(|last| block.seq <= last);
        let count = self
            .blocks
            .iter()
            .take_while(|block| is_earlier(block))
            .count();
        self.blocks.drain(..count);
    }

    /// Takes in a piece of the answer that is streaming.
    pub fn delta(&mut self, delta: &Delta, now_ms: i64) {
        self.stream.feed(delta, now_ms);
    }

    /// Adds a notice for the user, which is not in the log.
    pub fn add_notice(&mut self, tone: Tone, text: impl Into<String>) {
        let seq = self.last.unwrap_or_default();
        let kind = Kind::Notice {
            tone,
            text: text.into(),
        };
        self.blocks.push(Block::new(seq, 0, kind));
    }

    /// Returns whether it is empty, except for notices of the start.
    pub fn has_only_notices(&self) -> bool {
        let is_notice = |block: &Block| matches!(block.kind, Kind::Notice { .. });
        self.blocks.iter().all(is_notice)
    }

    /// Takes a recorded entry.
    pub fn fold(&mut self, record: &Record) {
        self.first.get_or_insert(record.seq);
        self.last = Some(record.seq);
        if matches!(record.entry, Entry::Forked { .. }) {
            self.interrupt_open_calls();
        }
        if matches!(&record.entry, Entry::Resumed { found, draft: None, .. } if found.starts_with("resumed "))
        {
            // Consecutive starts are shown as one.
            if self.resumed.is_some_and(|at| at + 1 == self.blocks.len()) {
                self.blocks.pop();
            }
            self.resumed = Some(self.blocks.len());
        }
        if let Entry::UserCommand { command, .. } = &record.entry {
            let started = (command.clone(), record.at_ms);
            self.user_commands.insert(record.seq, started);
        }
        self.begin_turn(record);
        if let Some(turn) = &mut self.turn {
            turn.fold(record, self.last_ms);
        }
        self.before_ms = std::mem::replace(&mut self.last_ms, record.at_ms);
        let described = self.describer.describe(record);
        let at = (record.seq, record.at_ms);
        match describe::end_of_user_command(&record.entry) {
            Some((entry, exit_code)) if described.words().starts_with(YOU_RAN) => {
                self.user_command_ended(at, entry, exit_code, &described.words());
            }
            // The start screen stays until the first message.
            _ if describe::is_choice(&record.entry) && self.has_only_notices() => {
                self.add_notice(Tone::Calm, described.title);
            }
            _ => self.add(at, described),
        }
        self.note_span(record);
        self.note_hashes(record);
        self.end_turn(record);
    }

    /// Begins a turn with a message, or with the first work after a turn: it was continued without
    /// a message.
    fn begin_turn(&mut self, record: &Record) {
        if self.turn.is_some() {
            return;
        }
        let begun_ms = match &record.entry {
            Entry::Said { .. } | Entry::Lifted { .. } => record.at_ms,
            Entry::Replied { took_ms, .. } if self.has_ended_turn => {
                record.at_ms.saturating_sub_unsigned(*took_ms)
            }
            Entry::Started { .. } if self.has_ended_turn => record.at_ms,
            entry
                if self.has_ended_turn && describe::end_of_turn(entry) == Some(TurnEnd::Failed) =>
            {
                record.at_ms
            }
            _ => return,
        };
        self.turn = Some(turn::Turn::begun(begun_ms));
    }

    fn end_turn(&mut self, record: &Record) {
        let Some(how) = describe::end_of_turn(&record.entry) else {
            return;
        };
        if let Some(turn) = self.turn.take() {
            self.has_ended_turn = true;
            // The end of the turn shows this.
            let is_said = |block: &mut Block| matches!(block.kind, Kind::Marker { .. });
            if how == TurnEnd::Stopped {
                self.blocks.pop_if(is_said);
            }
            let end = turn.end(how, record.at_ms, self.figures.as_ref());
            self.push((record.seq, record.at_ms), Kind::TurnSummary(Box::new(end)));
        }
    }

    fn add(&mut self, at: (Seq, i64), it: Description<'_>) {
        let mut thought = None;
        match it.stream {
            describe::Stream::GoesOn => {}
            describe::Stream::Whole => {
                let stream = std::mem::take(&mut self.stream);
                thought = (!stream.thinking.is_empty()).then(|| stream.thinking_ms());
            }
            describe::Stream::Cut(words) => self.cut_words(at, words),
        }
        let is_shown = it.is_in_conversation();
        match it.kind {
            describe::Kind::Call { id, status, .. } => self.follow(id, &status, at.1),
            _ if !is_shown => {}
            describe::Kind::User => self.said(at, &it),
            describe::Kind::Model { .. } => self.replied(at, it.body, thought),
            describe::Kind::Note { is_wanted, ended } => {
                if let Some((id, exit_code)) = ended {
                    self.background_ended(id, exit_code);
                }
                self.push(at, Kind::Noted { text: it.words() });
                if let Some(block) = self.blocks.last_mut().filter(|_| is_wanted) {
                    block.unfolded = Some(true);
                }
            }
            describe::Kind::Session(tone) => self.mark(at, tone, it.title),
            describe::Kind::Failure => {
                let hint = it.body.iter().find_map(|part| match part {
                    BodyPart::Hint(hint) => Some(hint.to_string()),
                    _ => None,
                });
                let message = it.title;
                self.push(at, Kind::Failed { message, hint });
            }
        }
    }

    fn push(&mut self, (seq, at_ms): (Seq, i64), kind: Kind) {
        self.blocks.push(Block::new(seq, at_ms, kind));
    }

    fn mark(&mut self, at: (Seq, i64), tone: Tone, text: impl Into<String>) {
        let text = text.into();
        self.push(at, Kind::Marker { tone, text });
    }

    /// Replaces the stream by the recorded words.
    fn cut_words(&mut self, at: (Seq, i64), words: Option<&str>) {
        self.stream = Stream::default();
        if let Some(text) = words {
            let text = text.to_string();
            self.push(at, Kind::Words { text, cut: true });
        }
    }

    fn said(&mut self, at: (Seq, i64), it: &Description<'_>) {
        let images = it.body.iter().map(|part| match part {
            BodyPart::Images(images) => images.len(),
            _ => 0,
        });
        let images = images.sum();
        let words = it.words();
        let command = it.body.iter().find_map(|part| match part {
            BodyPart::Command(line) => Some(line.clone()),
            _ => None,
        });
        // The person knows a command by its name; its expansion can be unfolded.
        let (text, stands_for) = match command {
            Some(line) => (line, Some(words)),
            None => (words, None),
        };
        self.push(at, Kind::Said { text, images });
        if let Some(text) = stands_for {
            self.push(at, Kind::Noted { text });
        }
    }

    fn replied(&mut self, at: (Seq, i64), body: Vec<BodyPart<'_>>, thought_ms: Option<u64>) {
        self.calls.clear();
        for part in body {
            match part {
                BodyPart::Words(text) => {
                    let text = text.into_owned();
                    self.push(at, Kind::Words { text, cut: false });
                }
                BodyPart::Thinking(text) => {
                    let text = text.to_string();
                    let took_ms = thought_ms;
                    self.push(at, Kind::Thinking { text, took_ms });
                }
                BodyPart::Call(call) => {
                    self.calls.insert(call.id, self.blocks.len());
                    self.push(at, Kind::Call(Box::new(Call::new(call))));
                }
                BodyPart::Command(_)
                | BodyPart::Images(_)
                | BodyPart::Output(_)
                | BodyPart::Summary(_)
                | BodyPart::Hint(_) => {}
            }
        }
    }

    /// Returns the block of a call of the last answer.
    fn call_mut(&mut self, id: CallId) -> Option<&mut Call> {
        let block = self.blocks.get_mut(*self.calls.get(&id)?)?;
        block.touch();
        match &mut block.kind {
            Kind::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Returns a call of the last answer. `None` for calls of earlier answers.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        match &self.blocks.get(*self.calls.get(&id)?)?.kind {
            Kind::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Returns how long the model has been silent since the request, in milliseconds. `None` while
    /// words arrive, or while a call must end first.
    pub fn silent_ms(&self, now_ms: i64) -> Option<i64> {
        let is_open = |id: &CallId| {
            let call = self.call(*id);
            call.is_some_and(|call| !matches!(call.status, Status::Over { .. }))
        };
        let waits = self.stream.is_empty() && !self.calls.keys().any(is_open);
        waits.then(|| (now_ms - self.last_ms).max(0))
    }

    /// Marks a call as one that a person is asked about.
    pub fn asked(&mut self, id: CallId) {
        if let Some(call) = self.call_mut(id) {
            call.status = Status::Asked;
        }
    }

    fn follow(&mut self, id: CallId, status: &CallStatus<'_>, at_ms: i64) {
        let status = match status {
            CallStatus::Allowed => Status::Allowed,
            // The result of the call shows this.
            CallStatus::Denied => return,
            CallStatus::Started { run } => Status::Running {
                since_ms: at_ms,
                run: run.map(str::to_string),
            },
            CallStatus::Finished { outcome, fact } => {
                return self.finished(id, outcome, *fact, at_ms);
            }
        };
        if let Some(call) = self.call_mut(id) {
            call.status = status;
        }
    }

    fn finished(&mut self, id: CallId, outcome: &Outcome, fact: Option<&Fact>, at_ms: i64) {
        let before_ms = self.before_ms;
        let Some(call) = self.call_mut(id) else {
            return;
        };
        let since = match (&call.status, outcome) {
            (Status::Running { since_ms, .. }, _) => u64::try_from(at_ms - since_ms).ok(),
            // The start of a call that only looks is not recorded. It starts when all earlier calls
            // have ended.
            (Status::Waiting, Outcome::Done { .. }) => u64::try_from(at_ms - before_ms).ok(),
            _ => None,
        };
        let (took_ms, exit) = match fact {
            Some(Fact::Ran {
                exit_code, took_ms, ..
            }) => (Some(*took_ms), exit_code.map_or(Exit::Ended, Exit::Code)),
            // The time until the start is not shown.
            Some(Fact::Background { .. }) => (None, Exit::InBackground),
            _ => (since, Exit::None),
        };
        if let Some(Fact::Planned { plan }) = fact {
            call.plan = Some(plan.clone());
        }
        call.tail.clear();
        call.status = Status::Over {
            outcome: outcome.clone(),
            took_ms,
            exit,
        };
        if matches!(fact, Some(Fact::Wrote { .. })) {
            let counts = call::counts(call, &Theme::default());
            let path = call.subject().to_string();
            if let Some(turn) = &mut self.turn {
                turn.changed(&path, counts);
            }
        }
        if let Some(block) = self.calls.get(&id).copied() {
            if let Some(Fact::Background { id, .. }) = fact {
                self.background.insert(id.clone(), block);
            }
            self.stand_together(block);
        }
    }

    /// Shows a shell command of the user that ended, like a command of the model.
    fn user_command_ended(
        &mut self,
        at: (Seq, i64),
        entry: Seq,
        exit_code: Option<i32>,
        words: &str,
    ) {
        let (first, _) = words.split_once('\n').unwrap_or((words, ""));
        let (command, since_ms) = match self.user_commands.remove(&entry) {
            // While a call is open, the end is recorded later.
            Some((command, ms)) => (command, Some(ms).filter(|_| self.turn.is_none())),
            // Its start is among the entries that are not loaded.
            None => (first.trim_start_matches(YOU_RAN).to_string(), None),
        };
        // The note names the command, the way in which it ended, and its output.
        let mut after = words.lines().skip(command.lines().count().max(1));
        let how = after.next().unwrap_or_default();
        let output: Vec<&str> = after.collect();
        let mut output = output.join("\n");
        if exit_code.is_none() && how != STOPPED {
            output = format!("{output}\n[{how}]");
        }
        let outcome = match how {
            STOPPED => Outcome::Interrupted {
                output: Output::text(output),
                why: "stopped".into(),
            },
            _ => Outcome::done(output),
        };
        let arguments = serde_json::json!({ "command": command }).to_string();
        let id = CallId {
            reply: entry,
            index: 0,
        };
        let mut call = Call::new(tools::call(id, "bash", &arguments));
        call.is_of_user = true;
        call.status = Status::Over {
            outcome,
            took_ms: since_ms.and_then(|since_ms| u64::try_from(at.1 - since_ms).ok()),
            exit: exit_code.map_or(Exit::Ended, Exit::Code),
        };
        self.push(at, Kind::Call(Box::new(call)));
    }

    /// Marks the block of a background command as ended.
    fn background_ended(&mut self, id: &str, exit_code: Option<i32>) {
        let place = self.background.remove(id);
        let block = place.and_then(|at| self.blocks.get_mut(at));
        if let Some(block) = block
            && let Kind::Call(call) = &mut block.kind
            && let Status::Over { exit, .. } = &mut call.status
        {
            *exit = Exit::EndedInBackground(exit_code);
            block.touch();
        }
    }

    /// Groups consecutive calls that only looked into one block.
    fn stand_together(&mut self, at: usize) {
        const MOST: usize = 100;
        let looked = |block: &Block| match &block.kind {
            Kind::Call(call) => call.has_looked(),
            _ => false,
        };
        if !self.blocks.get(at).is_some_and(looked) {
            return;
        }
        let before = self.blocks[..at].iter().rev().take(MOST);
        let first = at - before.take_while(|block| looked(block)).count();
        let run = self.blocks[first..].iter().take(2 * MOST);
        let count = run.take_while(|block| looked(block)).count();
        let run = &mut self.blocks[first..first + count];
        if count < 2 {
            return;
        }
        let mut subjects = Vec::new();
        let mut sum_ms = 0;
        for (place, block) in run.iter_mut().enumerate() {
            block.together = Together::Behind(place);
            block.touch();
            if let Kind::Call(call) = &block.kind {
                subjects.push(call.looked_at());
                if let Status::Over { took_ms, .. } = call.status {
                    sum_ms += took_ms.unwrap_or(0);
                }
            }
        }
        run[0].together = Together::First {
            count,
            subjects,
            took_ms: sum_ms,
        };
    }

    /// Marks open calls as interrupted: they continue in the session from which this one was
    /// forked.
    fn interrupt_open_calls(&mut self) {
        let ids: Vec<CallId> = self.calls.keys().copied().collect();
        for id in ids {
            if let Some(call) = self.call_mut(id)
                && !matches!(call.status, Status::Over { .. })
            {
                call.status = Status::Over {
                    outcome: Outcome::interrupted(
                        "it continues in the session that this one was forked from",
                    ),
                    took_ms: None,
                    exit: Exit::None,
                };
            }
        }
    }

    /// Returns the commands whose output is shown live: call and run.
    pub fn running(&self) -> Vec<(CallId, String)> {
        let calls = self.calls.keys().filter_map(|id| {
            let run = self.call(*id)?.run()?;
            Some((*id, run.to_string()))
        });
        calls.collect()
    }

    /// Sets the last lines of the output of a running command.
    pub fn tail(&mut self, id: CallId, text: String) {
        if self.call(id).is_some_and(|call| call.tail != text)
            && let Some(call) = self.call_mut(id)
        {
            call.tail = text;
        }
    }

    /// Adds the tokens of the next request before and after a summary to the line about it.
    pub fn add_tokens(&mut self, before: u64, after: u64) {
        if let Some(block) = self.blocks.last_mut()
            && let Kind::Marker { text, .. } = &mut block.kind
        {
            text.push_str(&format!(" · {} → {} tokens", short(before), short(after)));
            block.touch();
        }
    }

    /// Returns the end of the last turn.
    pub fn last_turn(&self) -> Option<&TurnSummary> {
        let mut blocks = self.blocks.iter().rev();
        blocks.find_map(|block| match &block.kind {
            Kind::TurnSummary(end) => Some(&**end),
            _ => None,
        })
    }

    /// Returns the last words of the model, in full.
    pub fn last_answer(&self) -> Option<&str> {
        self.blocks
            .iter()
            .rev()
            .find_map(|block| match &block.kind {
                Kind::Words { text, .. } => Some(text.as_str()),
                _ => None,
            })
    }

    /// Returns the messages of the user, the newest last: `seq` of the entry, its time (UTC,
    /// milliseconds since 1970), text, and the files that changed until the next message.
    pub fn turns(&self) -> Vec<(Seq, i64, &str, String)> {
        let mut turns: Vec<(Seq, i64, &str, String)> = Vec::new();
        let mut by_commands = 0;
        for block in &self.blocks {
            match (&block.kind, turns.last_mut()) {
                (Kind::Said { text, .. }, _) => {
                    turns.push((block.seq, block.at_ms, text.as_str(), String::new()));
                    by_commands = 0;
                }
                (Kind::Call(call), _) => by_commands += call.changed_files(),
                (Kind::TurnSummary(end), Some((.., changes))) if changes.is_empty() => {
                    let by_commands = (by_commands > 0)
                        .then(|| format!("commands changed {}", count(by_commands, "file")));
                    let parts = end.changed().into_iter().chain(by_commands);
                    *changes = parts.collect::<Vec<_>>().join(" · ");
                }
                _ => {}
            }
        }
        turns
    }

    /// Returns the messages of the user, the newest last: `seq` of the entry and text.
    pub fn prompts(&self) -> Vec<(Seq, &str)> {
        let said = self.blocks.iter().filter_map(|block| match &block.kind {
            Kind::Said { text, .. } => Some((block.seq, text.as_str())),
            _ => None,
        });
        said.collect()
    }
}
