//! The answers of the worker: data of the store, in the words of the pane.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::lines::{clean_title, one_clean_line};
use super::queue::Queue;
use super::timeline::Timeline;
use super::{
    About, Branch, HistoryPart, HistoryRequest, HistoryResponse, LineTrees, Page, Point, Row, words,
};
use crate::core::entry::{Block, Entry, Fact, Outcome, Record, Seq};
use crate::core::happened::most_telling_line;
use crate::core::text::{clip, count, session_name};
use crate::core::tree::{may_change_files, named};
use crate::model::Figures;
use crate::session::{
    AppContext, ChangedFiles, Dismissal, GLANCE_ENTRIES, SessionSummary, TreePair, edit_places,
    glance, now_ms, still_running,
};
use crate::store::{self, ListPosition, MessageMatch, SessionInfo, SessionKey, Store, StoreError};
use crate::ui::text::{clean_line, dollars};
use crate::ui::transcript::Transcript;

const PAGE_ROWS: usize = 200;
/// The first page fills about one screen, so that it arrives soon. The next one is requested at
/// once.
const FIRST_ROWS: usize = 60;
const PIECE_ENTRIES: u64 = 200;
const PREVIEW_ENTRIES: u64 = 50;
/// Number of the last edits of a preview whose places in their files are looked up.
const PLACED_EDITS: usize = 8;
/// Number of entries before and after a piece that are searched for the state of the files at its
/// ends.
const MARK_ENTRIES: u64 = 50;
/// Number of entries at the end of a session that are searched for its last messages.
const ABOUT_ENTRIES: u64 = 50;
/// Maximum size of each of them: more than a screen shows.
const ABOUT_BYTES: usize = 8_000;

/// Maximum number of entries that are read for all sessions of a page, from their ends. Beyond this
/// limit, sessions are named by their titles.
const PAGE_ENTRIES: u64 = 20_000;
/// Maximum number of sessions in the cache.
const MAX_GLANCES: usize = 10_000;
/// Maximum length of a session whose requests are counted.
const COUNTED_ENTRIES: u64 = 20_000;

/// Maximum number of matching entries, the newest ones, that are searched for sessions.
const MAX_HITS: u32 = 5_000;
/// Number of entries that are indexed before a newer request is looked for.
const ROWS_IN_A_STEP: u32 = 250;

/// The part of the score of a match without gaps that a match in a title must reach. Letters that
/// are scattered over a title are not a match.
const MIN_SCORE_PER_CHAR: u32 = 16;
const SNIPPET_BYTES: usize = 400;

pub(super) struct HistoryReader<'a> {
    ctx: &'a AppContext,
    store: Store,
    figures: Figures,
    zone: TimeZone,
    /// The last list that was requested, in its order, and the places where the query was found.
    list: List,
    /// The facts from the end of sessions, and the state of each session when they were read.
    glances: HashMap<SessionKey, (Stand, SessionSummary)>,
}

/// Number of entries, time of the last one, whether work is pending, and whether it was
/// dismissed.
type Stand = (u64, i64, bool, bool);

#[derive(Default)]
struct List {
    number: u64,
    keys: Vec<SessionKey>,
    here: usize,
    snippets: HashMap<SessionKey, String>,
}

impl<'a> HistoryReader<'a> {
    pub(super) fn open(
        ctx: &'a AppContext,
        zone: TimeZone,
    ) -> Result<HistoryReader<'a>, StoreError> {
        Ok(HistoryReader {
            ctx,
            store: ctx.open_store()?,
            figures: Figures::new(ctx.config()),
            zone,
            list: List::default(),
            glances: HashMap::new(),
        })
    }

    /// Returns `None` when a newer request replaced this one.
    pub(super) fn answer(
        &mut self,
        request: &HistoryRequest,
        queue: &Queue,
    ) -> Option<HistoryResponse> {
        let found = match request {
            HistoryRequest::Sessions {
                number,
                query,
                in_trash,
            } => self.sessions(*number, query, *in_trash, queue),
            HistoryRequest::More { number, from } if *number == self.list.number => {
                self.page(*from).map(Some)
            }
            HistoryRequest::More { .. } => Ok(None),
            HistoryRequest::Checkpoints {
                number,
                session,
                upto,
            } => self.piece(*number, session, *upto).map(Some),
            HistoryRequest::Preview {
                number,
                session,
                seq,
            } => self.preview(*number, session, *seq).map(Some),
            HistoryRequest::Changes { number, lines } => Ok(self.changes(*number, lines, queue)),
            HistoryRequest::About { id } => self.about(id).map(Some),
            HistoryRequest::Rename { id, title } => self.rename(id, title).map(Some),
            HistoryRequest::Trash { id } => self.trash(id).map(Some),
            HistoryRequest::Restore { id } => self.restore(id).map(Some),
            HistoryRequest::Dismiss { id } => self.dismiss(id).map(Some),
        };
        found.unwrap_or_else(|error| Some(failed(request, &error)))
    }

    fn sessions(
        &mut self,
        number: u64,
        query: &str,
        in_trash: bool,
        queue: &Queue,
    ) -> Result<Option<HistoryResponse>, StoreError> {
        let listing = self
            .store
            .history()
            .listing(&self.ctx.workspace(), in_trash)?;
        let mut snippets = HashMap::new();
        let found: Vec<&ListPosition> = match query {
            "" => listing.iter().collect(),
            query => {
                if !self.index(queue) {
                    return Ok(None);
                }
                let said = self.store.history().sessions_matching(query, MAX_HITS)?;
                snippets.extend(said.into_iter().map(|s| (s.key, found_in(&s))));
                let titled = titled(&listing, query);
                let is_found =
                    |l: &&ListPosition| titled.contains(&l.key) || snippets.contains_key(&l.key);
                listing.iter().filter(is_found).collect()
            }
        };
        self.list = List {
            number,
            keys: found.iter().map(|l| l.key).collect(),
            here: found.iter().filter(|l| l.is_here).count(),
            snippets,
        };
        self.page(0).map(Some)
    }

    /// Indexes new entries. Returns false when a newer request replaced this one. If indexing
    /// fails, as on a full disk, the search uses the older index.
    fn index(&mut self, queue: &Queue) -> bool {
        loop {
            match self.store.index().index_pending(ROWS_IN_A_STEP) {
                Ok(0) => return true,
                Ok(_) if queue.has_newer_list() => return false,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the newest entries are not searched");
                    return true;
                }
            }
        }
    }

    fn page(&mut self, from: usize) -> Result<HistoryResponse, StoreError> {
        let rest = self.list.keys.get(from..).unwrap_or_default();
        let most = if from == 0 { FIRST_ROWS } else { PAGE_ROWS };
        let keys = &rest[..rest.len().min(most)];
        let found = self.store.history().listed(keys)?;
        let mut left = PAGE_ENTRIES;
        let rows = found.into_iter();
        let rows = rows.map(|(key, info)| self.row(key, info, &mut left));
        let rows = rows.collect();
        Ok(HistoryResponse::Sessions(Page {
            number: self.list.number,
            from,
            rows,
            total: self.list.keys.len(),
            here: self.list.here,
            zone: self.zone.clone(),
        }))
    }

    /// Makes the row of a session. `left`: number of entries that may still be read for the page.
    fn row(&mut self, key: SessionKey, info: SessionInfo, left: &mut u64) -> Row {
        let glance = self.glance(key, &info, left);
        let cost = info.model.as_deref().and_then(|model| {
            let mut known = self.figures.of(model);
            // The prices for long prompts apply to one prompt, not to the sum of many.
            known.long = None;
            known.cost(&info.usage)
        });
        let tokens = info.usage.all();
        let sessions = self.ctx.session_list();
        let standing = sessions.standing(&info, &glance);
        let snippet = self.list.snippets.get(&key);
        Row {
            title: match &info.replica {
                Some(agent) => format!("{agent}: {}", title(info.title.as_deref())),
                None => title(info.title.as_deref()),
            },
            workspace: one_clean_line(&info.workspace),
            place: one_clean_line(&self.place(&info.workspace)),
            updated_ms: info.updated_ms,
            standing,
            state: sessions.state_word(&self.store, &info.id, standing),
            entries: info.entries,
            bytes: info.bytes,
            cost: match cost {
                Some(cost) if cost > 0.0 => dollars(cost),
                _ => words::tokens(tokens),
            },
            is_fork: info.forked_from.is_some(),
            parent: info.parent,
            snippet: snippet.map(|s| clean_line(&clip(s, SNIPPET_BYTES)).into_owned()),
            model: info.model.as_deref().map(one_clean_line),
            id: info.id,
        }
    }

    /// Returns the facts from the end of a session, from the cache if nothing was added since.
    fn glance(&mut self, key: SessionKey, info: &SessionInfo, left: &mut u64) -> SessionSummary {
        let stand = (
            info.entries,
            info.updated_ms,
            info.unfinished,
            info.dismissed,
        );
        if let Some((known, glance)) = self.glances.get(&key)
            && *known == stand
        {
            return glance.clone();
        }
        let found = glance(&self.store, info, GLANCE_ENTRIES.min(*left));
        *left = left.saturating_sub(found.entries);
        if self.glances.len() >= MAX_GLANCES {
            self.glances.clear();
        }
        self.glances.insert(key, (stand, found.clone()));
        found
    }

    fn place(&self, workspace: &str) -> String {
        let home = self.ctx.env.home().map(|home| home.to_string_lossy());
        let below = home.and_then(|home| Some(workspace.strip_prefix(&*home)?.to_string()));
        match below {
            Some(below) if below.is_empty() || below.starts_with('/') => format!("~{below}"),
            _ => workspace.to_string(),
        }
    }

    /// Reads details from the last entries only.
    fn about(&self, id: &str) -> Result<HistoryResponse, StoreError> {
        let mut about = About {
            requests: self.requests(id)?,
            ..About::default()
        };
        self.store
            .history()
            .trace(id, None, ABOUT_ENTRIES, |traced| {
                match &traced.record.entry {
                    said @ Entry::Said { .. } => {
                        about.by_user = said
                            .typed()
                            .map(|text| clip(&text, ABOUT_BYTES).into_owned());
                        // An older answer does not belong to this message, and neither does older
                        // output.
                        about.by_model = None;
                        about.output = None;
                    }
                    Entry::Replied { blocks, .. } => {
                        let words = Block::texts(blocks).rfind(|text| !text.trim().is_empty());
                        if let Some(words) = words {
                            about.by_model = Some(clip(words, ABOUT_BYTES).into_owned());
                        }
                    }
                    Entry::Finished {
                        outcome: Outcome::Done { output },
                        fact: Some(Fact::Ran { exit_code, .. }),
                        ..
                    } => {
                        let line = most_telling_line(&output.text, *exit_code != Some(0));
                        about.output = line.map(one_clean_line);
                    }
                    _ => {}
                }
                Ok::<(), StoreError>(())
            })?;
        let runs = self.ctx.runs();
        let running = runs.map(|runs| still_running(&runs, vec![id.to_string()]));
        let running = running.unwrap_or_default().into_iter();
        let prints = running
            .flat_map(|(_, runs)| runs)
            .find_map(|run| run.last_line);
        if let Some(line) = prints {
            about.output = Some(one_clean_line(&line));
        }
        Ok(HistoryResponse::About {
            id: id.to_string(),
            about,
        })
    }

    /// Counts the messages of the user. `None`: the session is too long to count.
    fn requests(&self, id: &str) -> Result<Option<u64>, StoreError> {
        let mut requests = 0;
        let met = self.store.history().backwards(id, COUNTED_ENTRIES, |met| {
            requests += u64::from(met.kind == "said");
            ControlFlow::Continue(())
        })?;
        Ok((met < COUNTED_ENTRIES).then_some(requests))
    }

    fn moment(&self, at_ms: i64) -> (jiff::civil::Date, String) {
        let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = at.to_zoned(self.zone.clone());
        (at.date(), at.strftime("%H:%M").to_string())
    }

    fn piece(
        &self,
        number: u64,
        session: &str,
        upto: Option<Seq>,
    ) -> Result<HistoryResponse, StoreError> {
        let info = self.store.history().find(session)?;
        let family = self.store.history().family(session)?;
        let mut way = Timeline::default();
        let mut first = 0;
        let mut is_first = true;
        let mut marks = Vec::new();
        self.store.history().trace(
            session,
            upto,
            PIECE_ENTRIES,
            |traced| -> Result<(), StoreError> {
                if is_first {
                    (first, is_first) = (traced.record.seq, false);
                }
                way.add(&traced.record);
                if is_mark(&traced.record) {
                    marks.push(traced.record);
                }
                Ok(())
            },
        )?;
        if way.done.iter().any(|did| did.span.is_some()) {
            marks = self.with_marks_around(session, first, marks, upto);
        }
        if upto.is_none() {
            let runs = || {
                let runs = self.ctx.runs();
                runs.map(|runs| still_running(&runs, vec![session.to_string()]))
            };
            let goes_on = self.ctx.session_list().is_in_use(session)
                || runs().is_ok_and(|found| found.iter().any(|(_, runs)| !runs.is_empty()));
            way.end(goes_on);
        }
        let points = way.done.into_iter().map(|did| {
            let (day, time) = self.moment(did.at_ms);
            Point {
                seq: did.seq,
                day,
                time,
                item: did.item,
                trees: did
                    .span
                    .and_then(|(started, finished)| TreePair::around(&marks, started, finished)),
            }
        });
        let points = points.collect();
        let branches = |found: Vec<store::Branch>| found.into_iter().map(branch).collect();
        Ok(HistoryResponse::Checkpoints(HistoryPart {
            number,
            session: info.id,
            title: title(info.title.as_deref()),
            entries: info.entries,
            first,
            points,
            ancestors: branches(family.ancestors),
            forks: branches(family.forks),
        }))
    }

    /// Adds the entries before and after a piece that tell the state of the files at its ends. If
    /// they cannot be read, the state is not known.
    fn with_marks_around(
        &self,
        session: &str,
        first: Seq,
        piece: Vec<Record>,
        upto: Option<Seq>,
    ) -> Vec<Record> {
        let marks = |upto: Seq, from: Seq| {
            let mut marks = Vec::new();
            let read = self
                .store
                .history()
                .trace(session, Some(upto), MARK_ENTRIES, |traced| {
                    if traced.record.seq >= from && is_mark(&traced.record) {
                        marks.push(traced.record);
                    }
                    Ok::<(), StoreError>(())
                });
            if let Err(error) = read {
                tracing::warn!(%error, "what the files were is not known beside a damaged entry");
                marks.clear();
            }
            marks
        };
        let mut all = match first.checked_sub(1) {
            Some(before) => marks(before, 0),
            None => Vec::new(),
        };
        all.extend(piece);
        if let Some(upto) = upto {
            all.extend(marks(upto + MARK_ENTRIES, upto + 1));
        }
        all
    }

    /// Finds the changes of lines of the tree. Stops early when another request arrives.
    fn changes(&self, number: u64, lines: &[LineTrees], queue: &Queue) -> Option<HistoryResponse> {
        let mut found = Vec::new();
        for line in lines {
            let changed = ChangedFiles::of(&self.store, &line.pairs);
            let text = match changed {
                Ok(changed) => changed.unwrap_or_default().in_short(),
                Err(error) => {
                    tracing::warn!(%error, "what was changed cannot be read");
                    String::new()
                }
            };
            found.push((line.key, text));
            if queue.has_more() {
                break;
            }
        }
        Some(HistoryResponse::Changes {
            number,
            lines: found,
        })
    }

    fn preview(&self, number: u64, session: &str, seq: Seq) -> Result<HistoryResponse, StoreError> {
        let mut records = Vec::new();
        self.store
            .history()
            .trace(session, Some(seq), PREVIEW_ENTRIES, |traced| {
                records.push(traced.record);
                Ok::<(), StoreError>(())
            })?;
        // The end of the preview is seen first.
        let edits = Transcript::of(&records).ask_last_places(PLACED_EDITS);
        Ok(HistoryResponse::Preview {
            number,
            records,
            places: edit_places(Some(&self.store), edits),
        })
    }

    fn rename(&mut self, id: &str, title: &str) -> Result<HistoryResponse, StoreError> {
        let data_dir = &self.ctx.paths.data_dir;
        let title = crate::session::rename(&mut self.store, data_dir, id, title)?;
        Ok(HistoryResponse::Renamed {
            id: id.to_string(),
            outcome: Ok(self::title(title.as_deref())),
        })
    }

    /// Puts a session in the trash, unless it or one of its subagents is in use.
    fn trash(&mut self, id: &str) -> Result<HistoryResponse, StoreError> {
        let data_dir = &self.ctx.paths.data_dir;
        let _locks = crate::session::lock_with_children(&self.store, data_dir, id)?;
        self.store.trash(id, now_ms())?;
        Ok(HistoryResponse::Trashed {
            id: id.to_string(),
            outcome: Ok(()),
        })
    }

    fn restore(&mut self, id: &str) -> Result<HistoryResponse, StoreError> {
        self.store.restore(id)?;
        Ok(HistoryResponse::Restored {
            id: id.to_string(),
            outcome: Ok(()),
        })
    }

    fn dismiss(&mut self, id: &str) -> Result<HistoryResponse, StoreError> {
        let data_dir = &self.ctx.paths.data_dir;
        let word = match crate::session::dismiss(&mut self.store, data_dir, id)? {
            Dismissal::Done => "dismissed: not offered again until it is resumed",
            Dismissal::Already => "it is already dismissed",
            Dismissal::NotOffered => "it is finished, so it is not offered anyway",
        };
        Ok(HistoryResponse::Dismissed {
            id: id.to_string(),
            outcome: Ok(word),
        })
    }
}

/// Returns the response to a request that failed.
pub(super) fn failed(request: &HistoryRequest, error: &StoreError) -> HistoryResponse {
    let why = match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    };
    let why = one_clean_line(&why);
    match request {
        HistoryRequest::Sessions { number, .. }
        | HistoryRequest::More { number, .. }
        | HistoryRequest::Checkpoints { number, .. }
        | HistoryRequest::Preview { number, .. }
        | HistoryRequest::Changes { number, .. } => HistoryResponse::Failed {
            number: *number,
            why,
        },
        // The row can be read without details.
        HistoryRequest::About { id } => HistoryResponse::About {
            id: id.clone(),
            about: About::default(),
        },
        HistoryRequest::Rename { id, .. } => HistoryResponse::Renamed {
            id: id.clone(),
            outcome: Err(why),
        },
        HistoryRequest::Trash { id } => HistoryResponse::Trashed {
            id: id.clone(),
            outcome: Err(why),
        },
        HistoryRequest::Dismiss { id } => HistoryResponse::Dismissed {
            id: id.clone(),
            outcome: Err(why),
        },
        HistoryRequest::Restore { id } => HistoryResponse::Restored {
            id: id.clone(),
            outcome: Err(why),
        },
    }
}

/// Returns whether an entry starts a call that may change files, or names a tree.
fn is_mark(record: &Record) -> bool {
    may_change_files(&record.entry) || named(&record.entry).is_some()
}

/// Returns the place where the query was found, and the number of matches.
fn found_in(said: &MessageMatch) -> String {
    match said.entries {
        1 => said.snippet.clone(),
        n => format!("in {}: {}", count(n, "entry"), said.snippet),
    }
}

fn branch(found: store::Branch) -> Branch {
    Branch {
        title: title(found.title.as_deref()),
        id: found.session,
        upto: found.upto,
        entries: found.entries,
    }
}

fn title(title: Option<&str>) -> String {
    clean_title(session_name(title))
}

/// Returns the sessions whose title has all the words, or nearly.
fn titled(listing: &[ListPosition], query: &str) -> HashSet<SessionKey> {
    // The query is not parsed: typed text has no operators.
    let (case, marks) = (CaseMatching::Ignore, Normalization::Smart);
    let pattern = Pattern::new(query, case, marks, AtomKind::Fuzzy);
    let chars = query.chars().filter(|c| !c.is_whitespace()).count();
    let enough = MIN_SCORE_PER_CHAR.saturating_mul(u32::try_from(chars).unwrap_or(u32::MAX));
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut buffer = Vec::new();
    let mut is_like = |title: &str| {
        let score = pattern.score(Utf32Str::new(title, &mut buffer), &mut matcher);
        score.is_some_and(|score| score >= enough)
    };
    let like = listing
        .iter()
        .filter(|l| is_like(l.title.as_deref().unwrap_or_default()));
    like.map(|l| l.key).collect()
}
