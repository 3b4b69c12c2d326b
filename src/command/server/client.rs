//! The agent's side of a server that a keeper runs.
//!
//! Invariant: dropping does not cancel. A dropped future leaves its call running; so does a dropped
//! client. A task sends each line, so a drop never cuts one.
//!
//! Invariant: everything that the caller gets was read from the journal.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::end::ServerEnd;
use super::journal::{self, JournalReader, Span};
use super::line::{LineKind, is_notification};
use super::past::{EndedServer, ServerOutcome};
use super::wire::{self, ToAgent, ToKeeper};
use crate::command::folder::RunFolder;
use crate::command::look::{ObservedState, look};
use crate::command::process;
use crate::command::status::StatusSlot;

/// File that an agent writes for the next one.
pub(super) const KNOWN: &str = "known";
pub(super) const KNOWN_NEW: &str = "known.new";
/// File that exists while the server waits for a person.
pub(super) const ASKS: &str = "asks";
const KNOWN_MAX_BYTES: usize = 1024 * 1024;

/// Maximum number of unread messages that are not answers; the oldest are dropped.
const OTHERS_MAX: usize = 4096;

/// The one notification that is not queued but kept as a flag. So a flood of it takes no memory,
/// and no other flood hides it.
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Time for a keeper to exit after it closed the connection.
const DIE_WITHIN: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(2);

/// The reason why the server did not get a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unsent {
    /// The line is not in the journal and was not handed over.
    #[error("{0}")]
    Refused(String),
    /// The keeper is gone; [`Client::outcome`] says whether the line was handed over.
    #[error("the server is gone")]
    Gone,
}

/// A connection to the keeper of a server.
#[derive(Debug)]
pub struct Client {
    folder: PathBuf,
    shared: Arc<SharedConnection>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    tasks: [JoinHandle<()>; 2],
    /// A second handle of the socket, to close it at once: tasks end only when the runtime has
    /// time, and the next agent must not wait for that.
    socket: std::os::unix::net::UnixStream,
    /// The keeper, if it is our child: it is reaped when this is dropped.
    _keeper: Option<tokio::process::Child>,
}

struct Outgoing {
    bytes: Vec<u8>,
    /// Notified when the system has the bytes.
    written: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct SharedConnection {
    state: Mutex<State>,
    /// Notified when the state changes.
    changed: Notify,
}

/// A line that was sent and is not yet in `in`.
#[derive(Debug)]
struct Ack {
    request: Option<String>,
    told: oneshot::Sender<Result<u64, String>>,
}

#[derive(Debug, Default)]
struct State {
    /// The lines that were sent and not taken yet, in order.
    acks: VecDeque<Ack>,
    /// IDs of the requests in `in`, to which only this agent adds now.
    given: HashSet<String>,
    answers: HashMap<String, Span>,
    others: VecDeque<Span>,
    /// Whether [`LIST_CHANGED`] arrived.
    list_changed: bool,
    /// Length of `in`.
    input: u64,
    output: u64,
    paused: Option<String>,
    /// Set when nothing more can arrive.
    past: Option<EndedServer>,
}

impl SharedConnection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, by: impl FnOnce(&mut State) -> T) -> T {
        let changed = by(&mut self.state());
        self.changed.notify_waiters();
        changed
    }
}

impl Client {
    /// Creates the client after the keeper's welcome. `received` arrived with it.
    pub(super) fn new(
        folder: &Path,
        stream: UnixStream,
        received: Vec<u8>,
        lengths: (u64, u64),
        keeper: Option<tokio::process::Child>,
    ) -> io::Result<Client> {
        let shared = Arc::new(SharedConnection {
            state: Mutex::new(State {
                input: lengths.0,
                given: requests(folder, lengths.0)?,
                ..State::default()
            }),
            changed: Notify::new(),
        });
        let mut reader = JournalReader::new(folder, journal::OUTPUT);
        shared.read_output(&mut reader, Some(lengths.1))?;
        let socket = stream.as_fd().try_clone_to_owned()?.into();
        let (read, write) = stream.into_split();
        // Unbounded: the order of lines is fixed under a lock, where nothing can wait. A sender
        // waits for the acknowledgement of its line before it sends the next.
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let receiving = Receiving {
            folder: RunFolder::at(folder),
            shared: Arc::clone(&shared),
            received,
            reader,
        };
        Ok(Client {
            folder: folder.to_path_buf(),
            shared,
            outgoing,
            tasks: [
                tokio::spawn(receiving.run(read)),
                tokio::spawn(write_all(write, to_write)),
            ],
            socket,
            _keeper: keeper,
        })
    }

    /// Sends a line to the server. A durable line is on the disk before the server has it, which is
    /// required for every request with an effect.
    ///
    /// The future may be dropped: the line is still sent.
    ///
    /// # Errors
    /// See [`Unsent`].
    pub async fn send(&self, line: &[u8], durable: bool) -> Result<(), Unsent> {
        let head = ToKeeper::Line {
            bytes: line.len() as u64,
            durable,
        };
        let bytes = [wire::encode(&head).as_slice(), line].concat();
        let (ack, taken) = oneshot::channel();
        {
            // Under the lock, so that lines and acknowledgements have the same order.
            let mut state = self.shared.state();
            if state.past.is_some() {
                return Err(Unsent::Gone);
            }
            let request = match LineKind::of(line) {
                LineKind::Request(id) => Some(id),
                LineKind::Answer(_) | LineKind::Other => None,
            };
            state.acks.push_back(Ack { request, told: ack });
            let outgoing = Outgoing {
                bytes,
                written: None,
            };
            self.outgoing.send(outgoing).map_err(|_| Unsent::Gone)?;
        }
        match taken.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(why)) => Err(Unsent::Refused(why)),
            Err(_) => {
                self.ended().await;
                Err(Unsent::Gone)
            }
        }
    }

    /// Returns the current fate of a request. It is final if there is an answer, or if the server
    /// never got the request.
    ///
    /// # Errors
    /// The journals cannot be read.
    pub fn outcome(&self, id: &str) -> io::Result<ServerOutcome> {
        let (answer, past) = {
            let state = self.shared.state();
            (state.answers.get(id).copied(), state.past.clone())
        };
        if let Some(line) = self.line(answer)? {
            return Ok(ServerOutcome::Answered(line));
        }
        if let Some(past) = past {
            return past.outcome(id);
        }
        let state = self.shared.state();
        // A line on its way to the keeper is not in the journal yet.
        let is_sent = |ack: &Ack| ack.request.as_deref() == Some(id);
        Ok(
            if state.given.contains(id) || state.acks.iter().any(is_sent) {
                ServerOutcome::Running
            } else {
                ServerOutcome::NotBegun
            },
        )
    }

    /// Waits for the end of a request that was sent, so it never returns [`ServerOutcome::Running`]. The
    /// future may be dropped and the method called again; the call continues.
    ///
    /// # Errors
    /// The journals cannot be read.
    pub async fn answer(&self, id: &str) -> io::Result<ServerOutcome> {
        self.wait_for(|| {
            let state = self.shared.state();
            (state.answers.contains_key(id) || state.past.is_some()).then_some(())
        })
        .await;
        self.outcome(id)
    }

    /// Waits until `look` finds something. It looks again after each change of the shared state.
    async fn wait_for<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            changed.await;
        }
    }

    /// Returns the next message that is not an answer: a notification or a request of the server,
    /// or a line that is not a message. `None` when no more arrive.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn other(&self) -> io::Result<Option<Vec<u8>>> {
        self.wait_for(|| match self.try_other() {
            Ok(None) => self.shared.state().past.is_some().then_some(Ok(None)),
            found => Some(found),
        })
        .await
    }

    /// Does the same as [`Client::other`] without waiting.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn try_other(&self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let span = self.shared.state().others.pop_front();
            match span {
                None => return Ok(None),
                Some(span) => {
                    if let Some(line) = self.line(Some(span))? {
                        return Ok(Some(line));
                    }
                }
            }
        }
    }

    /// Returns whether the server said that its tools changed, or may have: beyond a limit the
    /// keeper drops all lines but answers, until [`Client::forget`].
    pub fn is_list_changed(&self) -> bool {
        let (is_told, output) = {
            let state = self.shared.state();
            (state.list_changed, state.output)
        };
        let is_full = || {
            let starts = journal::starts(&self.folder, journal::OUTPUT).unwrap_or_default();
            let first = starts.first();
            first.is_some_and(|first| output.saturating_sub(*first) >= journal::OTHERS_MAX_BYTES)
        };
        is_told || is_full()
    }

    /// Sets whether the tools changed and must still be listed.
    pub fn note_list_changed(&self, is_changed: bool) {
        self.shared.state().list_changed = is_changed;
    }

    /// Returns the number of unread messages that are not answers.
    pub fn waiting(&self) -> usize {
        self.shared.state().others.len()
    }

    /// Calls `each` with each line that was given to the server and is not forgotten, by this agent
    /// or an earlier one.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn each_sent(&self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let upto = self.shared.state().input;
        JournalReader::new(&self.folder, journal::INPUT).read(Some(upto), |_, line| each(line))
    }

    /// Returns why nothing is read from the server at the moment: its lines cannot be journaled.
    pub fn paused(&self) -> Option<String> {
        self.shared.state().paused.clone()
    }

    /// Marks all lines so far as no longer needed, so that their disk space may be freed. Call it
    /// only when no call is open.
    pub fn forget(&self) {
        // If the file stays, the server only lives longer than necessary.
        let _ = std::fs::remove_file(self.folder.join(ASKS));
        let message = {
            let mut state = self.shared.state();
            let (input, output) = (state.input, state.output);
            state.answers.retain(|_, span| span.at >= output);
            ToKeeper::Forget { input, output }
        };
        let _ = self.outgoing.send(Outgoing {
            bytes: wire::encode(&message),
            written: None,
        });
    }

    /// Notes that the server waits for a person: without an agent it lives longer, until
    /// [`Client::forget`].
    ///
    /// # Errors
    /// It cannot be written.
    pub fn extend_for_person(&self) -> io::Result<()> {
        std::fs::File::create(self.folder.join(ASKS)).map(drop)
    }

    /// Ends the server now, since it is not needed any more. Otherwise it lives on for a while.
    pub async fn leave(&self) {
        let (written, done) = oneshot::channel();
        let sent = self.outgoing.send(Outgoing {
            bytes: wire::encode(&ToKeeper::Bye {}),
            written: Some(written),
        });
        if sent.is_ok() {
            let _ = done.await;
        }
    }

    /// Waits until the server has ended.
    pub async fn ended(&self) -> EndedServer {
        self.wait_for(|| self.shared.state().past.clone()).await
    }

    /// Stores data for the next agent: what was negotiated with the server.
    ///
    /// # Errors
    /// It cannot be written, or is too large.
    pub fn remember(&self, known: &[u8]) -> io::Result<()> {
        if known.len() > KNOWN_MAX_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} bytes are too much to keep of a server", known.len()),
            ));
        }
        let new = self.folder.join(KNOWN_NEW);
        let mut file = std::fs::File::create(&new)?;
        file.write_all(known)?;
        std::fs::rename(new, self.folder.join(KNOWN))
    }

    /// Returns the data that an agent stored, if any.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn remembered(&self) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.folder.join(KNOWN)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            known => known.map(Some),
        }
    }

    fn line(&self, span: Option<Span>) -> io::Result<Option<Vec<u8>>> {
        match span {
            Some(span) => journal::line_at(&self.folder, journal::OUTPUT, span),
            None => Ok(None),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

impl SharedConnection {
    /// Reads the lines of the server up to a place, or up to the end.
    fn read_output(&self, reader: &mut JournalReader, upto: Option<u64>) -> io::Result<()> {
        self.change(|state| {
            let read = reader.read(upto, |span, line| match LineKind::of(line) {
                // The first answer counts; a second one is wrong.
                LineKind::Answer(id) => drop(state.answers.entry(id).or_insert(span)),
                LineKind::Other if is_notification(line, LIST_CHANGED) => {
                    state.list_changed = true;
                }
                LineKind::Request(_) | LineKind::Other => {
                    state.others.push_back(span);
                    if state.others.len() > OTHERS_MAX {
                        state.others.pop_front();
                    }
                }
            });
            state.output = state.output.max(upto.unwrap_or(0));
            read
        })
    }
}

/// Returns the IDs of the requests in `in` up to this place.
fn requests(folder: &Path, upto: u64) -> io::Result<HashSet<String>> {
    let mut ids = HashSet::new();
    JournalReader::new(folder, journal::INPUT).read(Some(upto), |_, line| {
        if let LineKind::Request(id) = LineKind::of(line) {
            ids.insert(id);
        }
    })?;
    Ok(ids)
}

/// Sends each item whole and in order.
async fn write_all(mut stream: OwnedWriteHalf, mut outgoing: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(Outgoing { bytes, written }) = outgoing.recv().await {
        // The reading side notices that the keeper is gone.
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
        if let Some(written) = written {
            let _ = written.send(());
        }
    }
    // The reading side waits for the end; the stream stays open until then.
    std::future::pending::<()>().await;
}

/// The task that reads the keeper's messages.
struct Receiving {
    folder: RunFolder,
    shared: Arc<SharedConnection>,
    received: Vec<u8>,
    reader: JournalReader,
}

impl Receiving {
    async fn run(mut self, mut stream: OwnedReadHalf) {
        while self.hear().is_ok() {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(n) if n > 0 => self.received.extend_from_slice(&buffer[..n]),
                Ok(_) | Err(_) => break,
            }
        }
        let past = self.final_state().await;
        // The last lines in the journal may not have been reported.
        let _ = self.shared.read_output(&mut self.reader, None);
        self.shared.change(|state| {
            state.acks.clear();
            state.past = Some(past);
        });
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut length = None;
        loop {
            let decoded = wire::decode(&self.received);
            let decoded = decoded.map_err(|_| io::Error::other("the keeper sent no message"))?;
            let Some((message, taken)) = decoded else {
                break;
            };
            self.received.drain(..taken);
            match message {
                ToAgent::Output { output } => length = Some(output),
                other => self.shared.change(|state| state.note(other)),
            }
        }
        // One read for all messages that arrived together: a server may send many.
        match length {
            Some(length) => self.shared.read_output(&mut self.reader, Some(length)),
            None => Ok(()),
        }
    }

    /// Reads the final state after the keeper is gone, or about to be.
    async fn final_state(&self) -> EndedServer {
        let path = self.folder.path();
        let since = Instant::now();
        loop {
            match look::<ServerEnd>(&self.folder) {
                Ok(ObservedState::Ended(end)) => return EndedServer::ended(path, end),
                Ok(ObservedState::Missing) => return EndedServer::missing(path),
                Ok(ObservedState::Abandoned(begun)) => return lost(path, begun),
                // A keeper that is alive but does not answer is useless.
                Ok(ObservedState::Kept(_) | ObservedState::Unclaimed) | Err(_)
                    if since.elapsed() > DIE_WITHIN =>
                {
                    return EndedServer::lost(path, None);
                }
                Ok(ObservedState::Kept(_) | ObservedState::Unclaimed) | Err(_) => {
                    tokio::time::sleep(TICK).await
                }
            }
        }
    }
}

pub(super) fn lost(folder: &Path, begun: StatusSlot<crate::command::status::Begun>) -> EndedServer {
    let group = match begun {
        StatusSlot::Written(begun) => process::survivors_of(&begun).first().copied(),
        StatusSlot::Empty | StatusSlot::Torn => None,
    };
    EndedServer::lost(folder, group)
}

impl State {
    fn note(&mut self, message: ToAgent) {
        match message {
            ToAgent::Taken { input } => {
                self.input = input;
                self.acked(Ok(input));
            }
            ToAgent::Refused { why } => self.acked(Err(why)),
            ToAgent::Paused { why } => self.paused = Some(why),
            ToAgent::Resumed {} => self.paused = None,
            ToAgent::Output { .. } | ToAgent::Welcome { .. } | ToAgent::Busy { .. } => {}
        }
    }

    fn acked(&mut self, taken: Result<u64, String>) {
        if let Some(Ack { request, told }) = self.acks.pop_front() {
            self.given.extend(request.filter(|_| taken.is_ok()));
            // A dropped sender does not receive it.
            let _ = told.send(taken);
        }
    }
}
