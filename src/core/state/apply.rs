//! The changes of the state by each entry.

use crate::core::access::Access;
use crate::core::choice::Effort;
use crate::core::entry::{
    About, Block, By, CallId, Choice, Entry, Fact, Failure, FailureClass, Guard, HookEvent,
    HookResult, HookVerdict, Learned, Outcome, Record, SaveReason, Seq, StopReason, Unfit,
};
use crate::core::hook::{self, PendingHooks};
use crate::core::limits::{Count, Counts};
use crate::core::loop_guard::LoopGuard;
use crate::core::offer::RuleOffer;
use crate::core::permission::{PathUse, Permission, is_offered};
use crate::core::rule::Rule;
use crate::core::structured::{self, AnswerStatus, Structured};
use crate::core::tool::ToolCall;
use crate::core::unsent::Refused;
use crate::core::{ending, text, tree};

use super::context::{changes_the_context, follow_file, moved, relocated};
use super::{
    CutAnswer, Halt, Illegal, Judged, OpenCall, OpenQuestion, PendingQuestion, Restoring, State,
    Unanswered, UserCommand, open_calls,
};
use crate::core::exfiltration::SentBefore;

impl State {
    /// Applies the next record of the log.
    ///
    /// # Errors
    /// [`Illegal`] when the record is not allowed here. The state is then unchanged.
    pub fn fold(&mut self, record: &Record) -> Result<(), Illegal> {
        if record.seq != self.next_seq {
            return Err(Illegal {
                seq: record.seq,
                kind: record.entry.kind(),
                why: format!("entry {} was expected", self.next_seq),
            });
        }
        self.check(&record.entry)?;
        self.apply(record);
        self.next_seq += 1;
        Ok(())
    }

    fn worked(&mut self, record: &Record) {
        let since_ms = self.last_ms.replace(record.at_ms);
        let is_rest = matches!(
            record.entry,
            Entry::Said { .. } | Entry::Resumed { .. } | Entry::Dismissed | Entry::Named { .. }
        );
        if let Some(since_ms) = since_ms.filter(|_| !is_rest) {
            let took_ms = record.at_ms.saturating_sub(since_ms);
            // The difference may be negative, since a clock can be set back.
            self.worked_ms = self
                .worked_ms
                .saturating_add(took_ms.try_into().unwrap_or(0));
        }
    }

    fn apply(&mut self, record: &Record) {
        self.worked(record);
        for (model, usage) in record.entry.spent() {
            self.usage.add(usage);
            match self.spent.get_mut(model) {
                Some(spent) => spent.push(*usage),
                None => drop(self.spent.insert(model.to_string(), vec![*usage])),
            }
        }
        if changes_the_context(&record.entry) {
            self.counts.begin_again();
        }
        let is_ours =
            self.may_differ_from_tree || !self.background.is_empty() || self.restoring.is_some();
        let has_changed_files = changes_files(&record.entry, self.tree.as_deref());
        let last = self.tree.as_deref();
        self.outside
            .follow(record.seq, &record.entry, last, is_ours);
        let may_be_of_command = is_ours && has_run_command(&self.calls);
        let last = self.tree.as_deref();
        self.checks.follow(record, last, may_be_of_command);
        if let Some(tree) = tree::named(&record.entry) {
            self.tree = Some(tree.to_string());
            self.may_differ_from_tree = false;
            self.files_not_kept = None;
        }
        self.may_differ_from_tree |= tree::may_change_files(&record.entry);
        match &record.entry {
            Entry::Opened {
                folder,
                version,
                model,
                mode,
                layers,
                imported,
            } => {
                self.imported.clone_from(imported);
                self.folder = folder.clone();
                self.version = version.clone();
                self.model = model.clone();
                self.mode = *mode;
                self.layers = layers.clone();
                self.taken_up = record.seq;
            }
            Entry::Assigned(assignment) => {
                let rules = assignment.rules.iter();
                self.session_rules
                    .extend(rules.filter_map(|rule| Rule::parse(rule).ok()));
                self.assignment = Some(assignment.clone());
            }
            Entry::Rendered { version, layers } => {
                self.version = version.clone();
                self.layers = layers.clone();
                self.has_moved = false;
            }
            Entry::Said { text, command, .. } => {
                self.hooks.begin_prompt();
                self.withdraw_held_messages();
                self.unanswered.push(Unanswered {
                    judged: Judged::No,
                    seq: record.seq,
                    was_owed: self.owed,
                    was_halted: self.halted.take(),
                });
                let typed = record.entry.typed().unwrap_or_default();
                self.first_words.get_or_insert_with(|| {
                    (record.seq, text::task_title(&text::one_line(&typed, 240)))
                });
                self.asked_by_model = 0;
                self.sent_before = SentBefore::default();
                self.owed = true;
                self.halted = None;
                self.return_from_fallback();
                self.answer_with(command.as_ref().and_then(|c| c.model.as_deref()));
                self.restart_schema_checks();
                self.progress();
                self.turns = 0;
                self.loop_guard = LoopGuard::default();
                self.cut_answer = CutAnswer::No;
                self.tasks_begun = 0;
                self.wakes = 0;
                self.nonsense = 0;
                self.ledger.said(record.seq, text);
                self.said.say(record.seq, text);
                self.words = Some((record.seq, text.clone()));
                self.recall_due = true;
                self.keep(record);
            }
            Entry::Replied {
                blocks,
                usage,
                stop,
                model,
                asked_bytes,
                ..
            } => {
                self.replied(record.seq, blocks, *stop);
                self.learned = 0;
                self.request_forms.accept(model);
                if let Some(known) = self.guesses.refute(model, *asked_bytes) {
                    match known {
                        Some(known) => drop(self.limits.insert(model.clone(), known)),
                        None => drop(self.limits.remove(model)),
                    }
                }
                self.ledger.replied();
                self.freed.replied();
                self.measure(
                    model,
                    Count {
                        bytes: *asked_bytes,
                        tokens: usage.prompt(),
                    },
                );
                self.keep(record);
            }
            Entry::Asked {
                call,
                why,
                rule,
                access,
                at,
                form: None,
            } => {
                let asked = PendingQuestion {
                    seq: record.seq,
                    at_ms: record.at_ms,
                    why: why.clone(),
                    rule: rule.clone(),
                    access: *access,
                    at: at.clone(),
                };
                self.on_call(*call, |open| {
                    // An earlier approval was for another description.
                    open.decided = None;
                    open.asked = Some(asked);
                });
            }
            Entry::Asked {
                call,
                form: Some(question),
                ..
            } => {
                let asked = OpenQuestion {
                    seq: record.seq,
                    at_ms: record.at_ms,
                    question: (**question).clone(),
                    answer: None,
                };
                self.asked_by_model += u32::from(question.is_of_model());
                self.on_call(*call, |open| open.server_question = Some(asked));
            }
            Entry::Answered { call, answer, .. } => {
                self.on_call(*call, |open| {
                    if let Some(asked) = &mut open.server_question {
                        asked.answer = Some(answer.clone());
                        open.answers.push((asked.question.clone(), answer.clone()));
                    }
                });
                self.progress();
            }
            Entry::Decided {
                call,
                verdict,
                access,
                at,
                rule,
                by: _,
                origin: _,
            } => {
                let mut approved_host = None;
                self.on_call(*call, |open| {
                    open.decided = Some(verdict.clone());
                    approved_host = open.approved_host();
                    open.allowed_access = *access;
                    open.asked_about.clone_from(at);
                });
                self.approved_hosts.extend(approved_host);
                // A rule of another version that is not understood allows nothing.
                let offer = rule.as_deref().and_then(|text| RuleOffer::parse(text).ok());
                for rule in offer.iter().flat_map(RuleOffer::rules) {
                    if !self.session_rules.contains(rule) {
                        self.session_rules.push(rule.clone());
                    }
                }
            }
            Entry::Started {
                call,
                guard,
                access,
            } => {
                let is_first = self.call(*call).is_some_and(|open| open.guard.is_none());
                if is_first && matches!(guard, Guard::Child { .. }) {
                    self.tasks_begun += 1;
                }
                self.on_call(*call, |open| {
                    open.guard = Some(guard.clone());
                    open.started = record.seq;
                    open.started_access = *access;
                });
            }
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => {
                let failed = matches!(outcome, Outcome::Error { .. } | Outcome::Denied { .. });
                self.on_call(*call, |open| {
                    open.finished = true;
                    open.failed = failed;
                    open.denied = matches!(outcome, Outcome::Denied { .. });
                });
                self.hooks.close(*call);
                if let Some(open) = self.calls.iter().find(|c| c.call.id == *call) {
                    if matches!(outcome, Outcome::Done { .. }) {
                        let shows_log = matches!(fact, Some(Fact::Recalled));
                        self.freed.called(&open.call, shows_log);
                    }
                    self.ledger
                        .finished(record.seq, &open.call, outcome, fact.as_ref());
                    self.loop_guard
                        .finished(&open.call, outcome, fact.as_ref(), has_changed_files);
                }
                // A change of a file that the model did not know leaves it unknown.
                let is_known = match fact {
                    Some(Fact::Wrote { .. }) => self
                        .call(*call)
                        .and_then(|open| open.guard.as_ref())
                        .is_none_or(|guard| self.knows_file_of(guard)),
                    _ => true,
                };
                match fact {
                    // Its arguments say nothing about the rest of the file.
                    Some(Fact::Wrote { path, hash }) if is_known && edits(self.call(*call)) => {
                        follow_file(self, record.seq, path, hash);
                    }
                    Some(fact) if is_known => self.learn(record.seq, fact),
                    _ => {}
                }
                self.finished += 1;
                self.owed = true;
                self.progress();
                self.keep(record);
            }
            Entry::Checked {
                answer,
                unfit,
                told,
            } => {
                self.checked(*answer, unfit.as_ref(), told.is_some());
                self.progress();
                self.keep(record);
            }
            Entry::Stopped { draft, .. } => {
                self.cut_answers += u64::from(draft.is_some());
                self.halted = Some(Halt::Stopped);
                self.paused = false;
                self.keep(record);
            }
            // After a pause the next start only has to wait, so this start made progress.
            Entry::Paused { .. } => {
                self.paused = true;
                self.progress();
            }
            Entry::Lifted { .. } => {
                self.paused = false;
                self.loop_guard = LoopGuard::default();
                self.progress();
            }
            // A failed model call does not mean that the next start fails.
            Entry::Failed { error, .. } => {
                self.halted = Some(Halt::Failed(error.clone()));
                if error.class == FailureClass::Hook {
                    let failed = self.unanswered.iter_mut();
                    failed
                        .filter(|said| said.judged == Judged::Failed)
                        .for_each(|said| said.judged = Judged::Held);
                }
                self.restarts = 0;
                self.request_forms.give_up();
                // No model of the list could be asked. The next try begins with the first.
                self.return_from_fallback();
            }
            Entry::Noted { text, about } => {
                match about {
                    Some(About::BackgroundEnded { id, asks_model, .. }) => {
                        self.background.remove(id);
                        self.reminded.remove(id);
                        if *asks_model {
                            self.wake();
                        }
                    }
                    Some(About::StillRunning { ids }) => {
                        self.reminded.extend(ids.iter().cloned());
                        self.wake();
                    }
                    Some(About::UserCommandEnded { entry, .. }) => {
                        self.user_commands.remove(entry);
                    }
                    Some(About::CheckEnded { .. }) => self.progress(),
                    Some(About::Recalled) => self.recall_due = false,
                    Some(About::Repeats { .. }) => self.loop_guard.told(),
                    Some(About::AnswerCut) => self.cut_answer = CutAnswer::Told,
                    Some(About::Instructions | About::Mode { .. } | About::FilesChanged { .. })
                    | None => {}
                }
                // The model hears nothing of a check that printed nothing new.
                let is_check = matches!(about, Some(About::CheckEnded { .. }));
                if !is_check || !text.is_empty() {
                    self.keep(record);
                }
            }
            Entry::Compacted {
                window,
                first,
                last,
                summary,
                by,
                spent,
                preface,
            } => {
                self.summarised(spent);
                self.compacted(*window, *first, *last, summary, *by, preface.as_deref());
            }
            Entry::Continued {
                note,
                by,
                spent,
                story,
            } => {
                self.summarised(spent);
                self.continued(record.seq, note, *by, story.as_deref());
            }
            Entry::Freed { results } => self.freed.free(results),
            // An orderly stop from outside is not a start without progress.
            Entry::Saved {
                reason: SaveReason::Signal,
                ..
            } => self.restarts = 0,
            Entry::Saved { why: Some(why), .. } => self.files_not_kept = Some(why.clone()),
            Entry::Saved { .. } => {}
            Entry::Restoring {
                before,
                target,
                new_folder,
                kept,
                more_kept,
                ..
            } => {
                self.restoring = Some(Restoring {
                    before: before.clone(),
                    target: target.clone(),
                    new_folder: *new_folder,
                    kept: kept.clone(),
                    more_kept: *more_kept,
                });
            }
            Entry::Restored { .. } => {
                self.restoring = None;
                self.progress();
                self.keep(record);
            }
            Entry::Forked {
                from,
                folder,
                from_replica,
            } => {
                self.forked(record, from, folder.as_deref(), from_replica.is_some());
            }
            Entry::Moved {
                from,
                until,
                mode,
                folder,
                ..
            } => moved(self, record, (from, until), folder.as_deref(), *mode),
            Entry::Relocated { folder, by, .. } => relocated(self, record, folder, *by),
            Entry::Chose(choice) => self.chose(choice),
            Entry::UserCommand { command, guard } => {
                let command = UserCommand {
                    command: command.clone(),
                    guard: guard.clone(),
                    since_ms: record.at_ms,
                };
                self.user_commands.insert(record.seq, command);
            }
            // Folded above.
            Entry::CheckStarted { .. } => {}
            Entry::Hooking { event, of, runs } => self.hooks.begin(PendingHooks {
                seq: record.seq,
                event: *event,
                of: *of,
                runs: runs.clone(),
            }),
            Entry::Hooked {
                of, call, results, ..
            } => {
                let ended = self.hooks.end(*of, *call);
                if let Some(ended) = ended {
                    self.hooked(record, &ended, *call, results);
                }
                // A start that only runs its hooks makes no progress.
                if call.is_some() {
                    self.progress();
                }
                if hook::note(&record.entry).is_some() {
                    self.keep(record);
                }
            }
            Entry::Named { title } => self.name = Some(title.clone()),
            Entry::Titled { title, spent } => {
                self.summarised(spent);
                self.made_title.clone_from(title);
                self.was_titled = true;
            }
            // Pending work stays pending. Only lists use the dismissal.
            Entry::Dismissed => {}
            Entry::Billed { .. } => {}
            Entry::Learned(Learned {
                model,
                output: Some(output),
                ..
            }) => {
                self.learned += 1;
                self.outputs.learn(model, output);
            }
            Entry::Learned(Learned {
                model,
                form: Some(form),
                ..
            }) => {
                self.request_forms.learn(model, form, record.seq);
            }
            Entry::Learned(Learned {
                model,
                images: Some(refusal),
                ..
            }) => {
                self.learned += 1;
                let refused = Refused {
                    at: record.seq,
                    refusal: refusal.clone(),
                };
                let of_model = self.refused_images.entry(model.clone());
                of_model.or_default().push(refused);
            }
            Entry::Learned(Learned {
                model,
                limit,
                tokens,
                bytes,
                guess,
                ..
            }) => {
                let known = self.limits.insert(model.clone(), *limit);
                self.guesses.learn(model, guess.then_some((*bytes, known)));
                self.learned += 1;
                if let Some(tokens) = tokens.filter(|t| *t > 0 && *bytes > 0) {
                    let seen = (*bytes as f64 / tokens as f64).clamp(1.0, 8.0);
                    let ratio = self.ratios.entry(model.clone()).or_insert(seen);
                    *ratio = ratio.min(seen);
                }
            }
            Entry::Resumed {
                by,
                unrecorded,
                at_work,
                ..
            } => {
                self.taken_up = record.seq;
                self.resumed(*by, *unrecorded, *at_work);
            }
        }
    }

    /// Asks the model again, although it had ended its turn.
    fn wake(&mut self) {
        if !std::mem::replace(&mut self.owed, true) {
            self.wakes += 1;
        }
    }

    fn chose(&mut self, choice: &Choice) {
        let Choice {
            model,
            mode,
            effort,
            temperature,
            fallback,
            without,
            schema,
            without_schema,
            limits,
            system_prompt,
            folders,
            origin: _,
        } = choice;
        if model.is_some() || fallback.is_some() {
            self.request_forms.give_up();
        }
        if let Some(prompt) = system_prompt {
            self.added_prompt.clone_from(prompt);
        }
        if let Some(folders) = folders {
            self.added_folders.clone_from(folders);
        }
        self.run_limits = limits.unwrap_or(self.run_limits);
        if *without_schema {
            self.structured = None;
        }
        if let Some(schema) = schema {
            self.structured = Some(Structured::new(schema.clone()));
        }
        if let Some(without) = without {
            self.session_rules
                .retain(|rule| rule.to_string() != *without);
        }
        if let Some(model) = model {
            self.use_model(model.clone());
            self.fallback_from = None;
            self.model_before_command = None;
            self.effort = Effort::Default;
            self.temperature = None;
        }
        if let Some(fallback) = fallback {
            let before = std::mem::take(&mut self.model);
            self.fallback_from.get_or_insert(before);
            self.use_model(fallback.model.clone());
        }
        self.mode = mode.unwrap_or(self.mode);
        self.effort = effort.unwrap_or(self.effort);
        self.temperature = temperature.or(self.temperature);
    }

    /// Handles a new message: a schema applies until an answer fits it, and each message has its
    /// own count of repairs.
    fn restart_schema_checks(&mut self) {
        self.structured = self.structured.take().and_then(|held| match held.standing {
            AnswerStatus::Fits(_) => None,
            _ => Some(Structured::new(held.schema)),
        });
    }

    fn checked(&mut self, answer: Seq, unfit: Option<&Unfit>, is_told: bool) {
        let json = self
            .answer(answer)
            .and_then(|(blocks, stop)| structured::json_of(blocks, stop).ok());
        let Some(held) = &mut self.structured else {
            return;
        };
        held.standing = match unfit {
            None => AnswerStatus::Fits(json.unwrap_or_default()),
            Some(_) if is_told => AnswerStatus::Owed,
            Some(unfit) => AnswerStatus::GivenUp(unfit.clone()),
        };
        held.repairs += u32::from(is_told);
        self.owed = is_told;
    }

    fn use_model(&mut self, model: String) {
        self.counts = Counts::default();
        self.model = model;
    }

    /// Returns from a fallback model to the session's own model.
    fn return_from_fallback(&mut self) {
        if let Some(own) = self.fallback_from.take() {
            self.use_model(own);
        }
    }

    /// Switches to the model that the last message names, if any. The next message returns to the
    /// session's own model.
    fn answer_with(&mut self, model: Option<&str>) {
        if let Some(own) = self.model_before_command.take() {
            self.use_model(own);
        }
        if let Some(model) = model.filter(|model| *model != self.model) {
            self.model_before_command = Some(self.model.clone());
            self.use_model(model.to_string());
        }
    }

    fn progress(&mut self) {
        self.restarts = 0;
    }

    fn on_call(&mut self, id: CallId, change: impl FnOnce(&mut OpenCall)) {
        if let Some(open) = self.calls.iter_mut().find(|c| c.call.id == id) {
            change(open);
        }
    }

    fn replied(&mut self, seq: Seq, blocks: &[Block], stop: StopReason) {
        self.calls = open_calls(seq, blocks, stop, self.describe.0);
        self.hooks.begin_answer();
        self.unanswered.clear();
        self.replies += 1;
        self.turns += 1;
        self.progress();
        let tools = &self.layers.tools;
        let is_known = |name: &str| is_offered(name, tools.iter().map(|t| t.name.as_str()));
        let usable = |c: &OpenCall| !c.cut && c.call.described.is_ok() && is_known(&c.call.name);
        let spoke = ending::speaks(blocks);
        let sense = if self.calls.is_empty() {
            ending::is_answer(blocks, stop)
        } else {
            self.calls.iter().any(usable)
        };
        self.nonsense = if sense { 0 } else { self.nonsense + 1 };
        // An answer without text and calls does not count: the model is asked again.
        self.owed = self.calls.is_empty() && !sense;
        if self.calls.is_empty()
            && spoke
            && stop != StopReason::Refusal
            && let Some(held) = &mut self.structured
            && held.standing == AnswerStatus::Owed
        {
            held.standing = AnswerStatus::Unchecked(seq);
            self.cut_answer = CutAnswer::No;
        } else {
            let is_cut = self.calls.is_empty() && spoke && stop == StopReason::MaxTokens;
            self.cut_answer = match (is_cut, self.cut_answer) {
                // An answer without sense does not continue the one that was cut.
                (false, CutAnswer::Owed) if self.owed => CutAnswer::Owed,
                (false, _) => CutAnswer::No,
                (true, CutAnswer::Told) => CutAnswer::Told,
                (true, CutAnswer::No | CutAnswer::Owed) => CutAnswer::Owed,
            };
            self.owed |= self.cut_answer == CutAnswer::Owed;
        }
    }

    /// Applies the results of hooks.
    fn hooked(
        &mut self,
        record: &Record,
        ended: &PendingHooks,
        call: Option<CallId>,
        results: &[HookResult],
    ) {
        let is_refused = results.iter().any(|r| r.verdict == HookVerdict::Deny);
        match (ended.event, call) {
            (HookEvent::PreToolUse | HookEvent::PermissionRequest, Some(call)) => {
                if let Some(input) = self.hooks.decide(call, ended.event, results) {
                    self.change_arguments(call, &input);
                }
            }
            (HookEvent::UserPromptSubmit, _) if is_refused => self.withdraw_message(ended.of),
            (HookEvent::UserPromptSubmit, _) => {
                let has_failed = results.iter().any(|r| r.verdict == HookVerdict::Failed);
                let mut unanswered = self.unanswered.iter_mut();
                if let Some(said) = unanswered.find(|said| said.seq == ended.of) {
                    said.judged = if has_failed {
                        Judged::Failed
                    } else {
                        Judged::Yes
                    };
                }
            }
            (HookEvent::Stop | HookEvent::SubagentStop, _)
                if is_refused && self.hooks.may_refuse_stop() =>
            {
                self.hooks.refuse_stop();
                self.owed = true;
            }
            _ => {}
        }
        for wrote in results.iter().filter_map(|result| result.wrote.as_ref()) {
            // The model reads the difference, so it knows the file as it is now.
            follow_file(self, record.seq, &wrote.path, &wrote.hash);
        }
    }

    /// Replaces the arguments of a call that has not started. It stays a call of the same tool.
    fn change_arguments(&mut self, id: CallId, input: &str) {
        let describe = self.describe.0;
        let Some(open) = self.calls.iter_mut().find(|c| c.call.id == id) else {
            return;
        };
        let changed = ToolCall::new(id, &open.call.name, input, describe);
        open.call = changed;
    }

    /// Removes the messages that wait because a guard failed: another one was sent instead.
    fn withdraw_held_messages(&mut self) {
        let held = self
            .unanswered
            .iter()
            .filter(|said| said.judged == Judged::Held);
        let held: Vec<Seq> = held.map(|said| said.seq).collect();
        for seq in held {
            self.withdraw_message(seq);
        }
    }

    /// Removes a message that a hook refused, as if it had not been sent. The model never gets it.
    fn withdraw_message(&mut self, seq: Seq) {
        self.context.retain(|record| record.seq != seq);
        self.said.withdraw(seq);
        self.ledger.withdraw(seq);
        self.words.take_if(|(at, _)| *at == seq);
        self.first_words.take_if(|(at, _)| *at == seq);
        let Some(at) = self.unanswered.iter().position(|said| said.seq == seq) else {
            return;
        };
        let refused = self.unanswered.remove(at);
        match self.unanswered.get_mut(at) {
            Some(next) => {
                next.was_owed = refused.was_owed;
                next.was_halted = refused.was_halted;
            }
            None => {
                self.owed = refused.was_owed;
                // A stop since the message stays.
                self.halted = self.halted.take().or(refused.was_halted);
            }
        }
    }

    fn resumed(&mut self, by: By, unrecorded: bool, at_work: bool) {
        let is_lifted = |failure: &Failure| {
            // A message that a failed hook did not let pass is sent when a person says so.
            by == By::Person || failure.class != FailureClass::Hook
        };
        let before = self.unanswered.iter_mut().map(|said| &mut said.was_halted);
        for halted in before.chain([&mut self.halted]) {
            halted.take_if(|halt| matches!(halt, Halt::Failed(failure) if is_lifted(failure)));
        }
        if by == By::Person {
            let held = self.unanswered.iter_mut();
            held.filter(|said| said.judged == Judged::Held)
                .for_each(|said| said.judged = Judged::Yes);
        }
        self.nonsense = 0;
        self.turns = 0;
        let owing = self.owed
            || self.first_open().is_some()
            || self.restoring.is_some()
            || !self.hooks.pending().is_empty();
        // Work that still runs, or that ended since the last start, is progress. If it ended before
        // that start, the start did not record its result, and counts as one without progress.
        let went_on = at_work || self.was_at_work;
        self.was_at_work = at_work;
        self.restarts = match (owing, by) {
            (false, _) => 0,
            (true, By::Person) => 1,
            (true, By::Start | By::Hook) if went_on => 1,
            // The previous start does not count as one without progress.
            (true, By::Start | By::Hook) if unrecorded => self.restarts.max(1),
            (true, By::Start | By::Hook) => self.restarts + 1,
        };
    }
}

/// Returns whether one of these calls has run that may change any file.
pub fn has_run_command(calls: &[OpenCall]) -> bool {
    calls.iter().any(|open| {
        let guard = open.guard.as_ref();
        open.started_access != Some(Access::Read)
            && guard.is_some_and(|guard| !matches!(guard, Guard::Checked { .. } | Guard::Asks))
    })
}

/// Returns whether a call changes parts of a file.
fn edits(open: Option<&OpenCall>) -> bool {
    let described = open.and_then(OpenCall::described);
    let permission = described.map(|described| &described.permission);
    matches!(
        permission,
        Some(Permission::Path {
            path_use: PathUse::Edit,
            ..
        })
    )
}

/// Returns whether files of the workspace differ after this result from those of the tree before
/// it.
fn changes_files(entry: &Entry, before: Option<&str>) -> bool {
    match entry {
        Entry::Finished {
            fact: Some(Fact::Wrote { .. }),
            ..
        } => true,
        // A command that fails and writes a log each time makes no progress.
        Entry::Finished {
            fact: Some(Fact::Ran { .. }),
            ..
        } => false,
        Entry::Finished { tree, .. } => {
            tree.is_some() && before.is_some() && tree.as_deref() != before
        }
        _ => false,
    }
}
