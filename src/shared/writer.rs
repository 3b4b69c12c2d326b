//! The holder of the lease of one session. It runs on a thread, so that the lease is extended while
//! the agent is busy.
//!
//! Invariant: a push without an answer is settled before anything else is recorded. A claim gives a
//! new fence, which the database compares, so that a request that is still on its way cannot arrive
//! later.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use zstd::bulk::compress;

use super::log::{EndOfLog, Home, LeaseState, Push, SharedLog, StoredLine};
use super::mailbox::Mailbox;
use super::sent_files::SentFiles;
use super::{SharedError, parts};
use crate::command::lease_file::LeaseFile;
use crate::core::marks::cut_title;
use crate::core::state::State;
use crate::journal::line::{EntryLine, MAX_HELD};
use crate::store::shared::NewLines;

/// Maximum number of waiting requests. A session has one at a time.
const REQUESTS: usize = 4;
const LEVEL: i32 = 3;
/// Maximum size of the entries of one transaction, bytes.
const BYTES_AT_ONCE: usize = 4 << 20;
/// Time before the first further attempt to reach the database. It doubles.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Maximum time for which the end of a process waits for the database.
const CLOSING: Duration = Duration::from_secs(2);

/// The state of a session for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub title: String,
    pub state: &'static str,
}

impl Listed {
    /// Returns what lists show of this state.
    pub fn of(state: &State) -> Listed {
        Listed {
            title: cut_title(state.title().unwrap_or_default()),
            state: match () {
                () if state.asks() => "asks",
                () if state.paused => "paused",
                () if state.unfinished() => "working",
                () => "idle",
            },
        }
    }
}

/// The outcome of a push without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    Recorded,
    /// They will not be recorded.
    NotRecorded,
}

type Reply<T> = oneshot::Sender<Result<T, SharedError>>;

enum Request {
    Create {
        header: String,
        push: Push,
        reply: Reply<()>,
    },
    Claim(Reply<EndOfLog>),
    Files(Reply<Option<String>>),
    Lines {
        after: EndOfLog,
        until: EndOfLog,
        reply: Reply<Option<NewLines>>,
    },
    Push(Push, Reply<()>),
    Settle(EndOfLog, EndOfLog, Reply<PushOutcome>),
    Mail(Reply<()>),
    IsOwn(EndOfLog, Reply<bool>),
}

/// Settings of one session.
#[derive(Default)]
pub struct Options {
    /// `None`: the session takes no mail.
    pub mailbox: Option<Mailbox>,
    /// The end of the process does not give the lease back.
    pub keeps_lease: bool,
    /// Entries of other stores are read too. What they allow must not apply.
    pub of_any_store: bool,
    /// The file of the lease, for the supervisors of its commands. They end with it.
    pub lease_file: Option<PathBuf>,
}

/// A shared session whose lease this process holds or takes.
pub struct SharedWriter {
    requests: Option<mpsc::Sender<Request>>,
    /// Disconnected when the thread ends.
    ended: Option<Receiver<()>>,
    session: String,
    /// The database, for messages.
    pub database: String,
    key: [u8; 32],
    /// The file with the lease, for the supervisors of the session's commands and servers.
    pub lease_file: Option<PathBuf>,
    /// The files of the session, which its pushes carry.
    pub files: Option<SentFiles>,
}

impl SharedWriter {
    /// Returns a writer with its thread. A drop waits a short time for the end of that. Each good
    /// sign of life replaces the lease file.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start<L: SharedLog + Send + 'static>(
        log: L,
        home: Home,
        session: String,
        database: String,
        key: [u8; 32],
        options: Options,
    ) -> io::Result<SharedWriter> {
        let runtime = crate::net::runtime()?;
        let (is_running, ended) = sync_channel::<()>(0);
        let lease_file = options.lease_file.clone();
        let (requests, received) = mpsc::channel(REQUESTS);
        let holder = Holder {
            log,
            home,
            key,
            session: session.clone(),
            database: database.clone(),
            fence: None,
            good_until: Duration::ZERO,
            lease: None,
            next_beat: Instant::now(),
            options,
        };
        std::thread::Builder::new()
            .name("shared log".to_string())
            .spawn(move || {
                runtime.block_on(holder.run(received));
                drop(is_running);
            })?;
        Ok(SharedWriter {
            requests: Some(requests),
            ended: Some(ended),
            session,
            database,
            key,
            lease_file,
            files: None,
        })
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> oneshot::Receiver<Result<T, SharedError>> {
        let (reply, answer) = oneshot::channel();
        if let Some(requests) = &self.requests {
            // If the thread ended, nobody replies.
            let _ = requests.try_send(request(reply));
        }
        answer
    }

    fn push_of(
        &self,
        before: EndOfLog,
        new: &NewLines,
        listed: Listed,
    ) -> Result<Push, SharedError> {
        let lines: Result<Vec<StoredLine>, SharedError> = new
            .lines
            .iter()
            .map(|line| stored(&self.key, &self.session, line))
            .collect();
        let objects = new.blobs.iter();
        Ok(Push {
            session: self.session.clone(),
            before,
            after: new.end().unwrap_or(before),
            lines: lines?,
            objects: objects
                .map(|bytes| (*blake3::hash(bytes).as_bytes(), bytes.clone()))
                .collect(),
            title: listed.title,
            state: listed.state,
            needs: level_of(&new.lines),
            taken: new.taken.clone(),
            files: new.files.clone(),
        })
    }

    /// Creates the session with its first entries. It blocks.
    pub fn create(
        &self,
        before: EndOfLog,
        header: String,
        new: &NewLines,
        listed: Listed,
    ) -> Result<(), SharedError> {
        let push = self.push_of(before, new, listed)?;
        let request = |reply| Request::Create {
            header,
            push,
            reply,
        };
        self.blocking(request)
    }

    /// Takes the lease. Returns the end of the session. It blocks.
    pub fn claim(&self) -> Result<EndOfLog, SharedError> {
        self.blocking(Request::Claim)
    }

    /// Returns where the files of the session are: JSON. It blocks.
    pub fn last_files(&self) -> Result<Option<String>, SharedError> {
        self.blocking(Request::Files)
    }

    /// Passes on the entries between two ends, in parts. Returns false if the first of them does not
    /// follow. It blocks.
    ///
    /// # Errors
    /// `Lost`: another program wrote them. `Setup`: one is missing.
    pub fn each_part<E: From<SharedError>>(
        &self,
        mut after: EndOfLog,
        until: EndOfLog,
        mut take: impl FnMut(NewLines) -> Result<(), E>,
    ) -> Result<bool, E> {
        let first = after;
        while after.1 < until.1 {
            let request = |reply| Request::Lines {
                after,
                until,
                reply,
            };
            let Some(part) = self.blocking(request)? else {
                return if after == first {
                    Ok(false)
                } else {
                    Err(SharedError::gap(&self.session, after.1).into())
                };
            };
            after = part.end().unwrap_or(until);
            take(part)?;
        }
        Ok(after == until)
    }

    /// Returns whether this store recorded all entries after this end of its log, and the last one
    /// before it. It takes the lease, and blocks.
    pub fn is_own(&self, ours: EndOfLog) -> Result<bool, SharedError> {
        self.blocking(|reply| Request::IsOwn(ours, reply))
    }

    /// Brings mail of the database to the inbox of the session. It blocks.
    pub fn take_mail(&self) -> Result<(), SharedError> {
        self.blocking(Request::Mail)
    }

    fn blocking<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, SharedError> {
        self.received(self.ask(request).blocking_recv())
    }

    fn received<T>(
        &self,
        answer: Result<Result<T, SharedError>, RecvError>,
    ) -> Result<T, SharedError> {
        answer.unwrap_or_else(|_| {
            Err(SharedError::Away {
                what: format!("{}: the connection ended", self.database),
            })
        })
    }

    /// Records entries in the database. They are there when this returns.
    ///
    /// # Errors
    /// `Away`: their outcome is not known, see [`SharedWriter::settle`]. `Lost`: another process has the
    /// session.
    pub async fn push(
        &self,
        before: EndOfLog,
        new: &NewLines,
        listed: Listed,
    ) -> Result<(), SharedError> {
        let push = self.push_of(before, new, listed)?;
        self.received(self.ask(|reply| Request::Push(push, reply)).await)
    }

    /// The same as [`SharedWriter::push`], for the time before the session runs. It blocks.
    pub fn push_blocking(
        &self,
        before: EndOfLog,
        new: &NewLines,
        listed: Listed,
    ) -> Result<(), SharedError> {
        let push = self.push_of(before, new, listed)?;
        self.blocking(|reply| Request::Push(push, reply))
    }

    /// Finds out whether entries were recorded. If they were not, they never will be.
    pub async fn settle(
        &self,
        before: EndOfLog,
        after: EndOfLog,
    ) -> Result<PushOutcome, SharedError> {
        let settled = self.ask(|reply| Request::Settle(before, after, reply));
        self.received(settled.await)
    }
}

impl Drop for SharedWriter {
    fn drop(&mut self) {
        // The thread gives the lease back, and ends.
        self.requests = None;
        if let Some(ended) = self.ended.take()
            && ended
                .recv_timeout(CLOSING)
                .is_err_and(|e| e == RecvTimeoutError::Timeout)
        {
            tracing::warn!("the lease was not given back");
        }
    }
}

/// Returns the level of the newest kind of these entries.
fn level_of(lines: &[EntryLine]) -> i32 {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    let kinds = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Kind>(line.entry.get()).ok());
    match kinds.map(|kind| kind.kind).any(|kind| kind == "moved") {
        true => 2,
        false => 1,
    }
}

/// Returns a line as it is stored.
fn stored(key: &[u8; 32], session: &str, line: &EntryLine) -> Result<StoredLine, SharedError> {
    let failed = |why: String| SharedError::Failed {
        what: format!("entry {}: {why}", line.seq),
    };
    let json = serde_json::to_vec(line).map_err(|e| failed(e.to_string()))?;
    if json.len() > MAX_HELD {
        return Err(failed(format!("it has more than {} MiB", MAX_HELD >> 20)));
    }
    Ok(StoredLine {
        mac: parts::mac(key, session, &json),
        body: compress(&json, LEVEL).map_err(|e| failed(e.to_string()))?,
    })
}

/// The part of a writer that runs on its thread.
struct Holder<L> {
    log: L,
    home: Home,
    key: [u8; 32],
    session: String,
    database: String,
    /// `None`: the lease was not taken, or the outcome of the last push is not known.
    fence: Option<i64>,
    /// The lease lasts at least until then, by [`SharedLog::now`].
    good_until: Duration,
    lease: Option<Duration>,
    next_beat: Instant,
    options: Options,
}

impl<L: SharedLog> Holder<L> {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let takes_mail = self.fence.is_some() && self.options.mailbox.is_some();
            let request = tokio::select! {
                biased;
                request = requests.recv() => request,
                () = tokio::time::sleep_until(self.next_beat), if self.fence.is_some() => {
                    self.beat().await;
                    continue;
                }
                () = self.log.wait_for_mail(), if takes_mail => {
                    if let Err(error) = self.take_mail().await {
                        tracing::info!(%error, "the mail was not read");
                    }
                    continue;
                }
            };
            match request {
                Some(request) => self.answer(request).await,
                None => break,
            }
        }
        if let Some(fence) = self.fence.filter(|_| !self.options.keeps_lease) {
            let released = self.log.release(&self.session, fence);
            match tokio::time::timeout(CLOSING, released).await {
                Ok(Ok(())) => {}
                released => tracing::warn!(?released, "the lease was not given back"),
            }
        }
    }

    async fn answer(&mut self, request: Request) {
        // The receiver may be dropped.
        match request {
            Request::Create {
                header,
                push,
                reply,
            } => drop(reply.send(self.create(&header, &push).await)),
            Request::Claim(reply) => drop(reply.send(self.claim().await)),
            Request::Files(reply) => drop(reply.send(self.log.files(&self.session).await)),
            Request::Lines {
                after,
                until,
                reply,
            } => drop(reply.send(self.lines(after, until).await)),
            Request::Push(push, reply) => drop(reply.send(self.push(&push).await)),
            Request::Settle(before, after, reply) => {
                drop(reply.send(self.settle(before, after).await));
            }
            Request::IsOwn(ours, reply) => drop(reply.send(self.is_own(ours).await)),
            Request::Mail(reply) => drop(reply.send(self.take_mail().await)),
        }
    }

    async fn lease(&mut self) -> Result<Duration, SharedError> {
        match self.lease {
            Some(lease) => Ok(lease),
            None => {
                let lease = self.log.lease().await?;
                self.lease = Some(lease);
                Ok(lease)
            }
        }
    }

    /// Notes a sign of life that was sent at this time. The lease began later.
    fn lives(&mut self, since: Duration) {
        let lease = self.lease.unwrap_or_default();
        self.good_until = since + lease * 5 / 6;
        self.next_beat = Instant::now() + lease / 3;
        // Without a fence, this process is only about to create the session.
        let file = self
            .options
            .lease_file
            .clone()
            .filter(|_| self.fence.is_some());
        if let Some(Err(error)) =
            file.map(|file| LeaseFile::at(file).write(&self.home.boot, since, lease))
        {
            tracing::warn!(%error, "the lease was not written for commands");
        }
    }

    /// Brings mail of the database to the inbox of the session.
    async fn take_mail(&mut self) -> Result<(), SharedError> {
        let (Some(fence), Some(mailbox)) = (self.fence, &mut self.options.mailbox) else {
            return Ok(());
        };
        let mail = self.log.mail(&self.session).await?;
        if mail.is_empty() {
            return Ok(());
        }
        let images = mailbox.images(&mail);
        let objects = match images.is_empty() {
            true => Vec::new(),
            false => self.log.objects(&self.session, &images).await?,
        };
        // Their hashes are compared with those in the message.
        let blobs: Vec<Vec<u8>> = objects.into_iter().map(|(_, bytes)| bytes).collect();
        let over = mailbox
            .take(&mail, &blobs)
            .map_err(|error| SharedError::Failed {
                what: error.to_string(),
            })?;
        if !over.is_empty() {
            self.log.forget(&self.session, fence, &over).await?;
        }
        Ok(())
    }

    async fn create(&mut self, header: &str, push: &Push) -> Result<(), SharedError> {
        self.lease().await?;
        self.lives(self.log.now());
        let mut pause = FIRST_RETRY;
        loop {
            let since = self.log.now();
            match self.log.create(&self.home, header, push).await {
                Ok(Some(fence)) => {
                    self.fence = Some(fence);
                    self.lives(since);
                    return Ok(());
                }
                // Perhaps by this request, whose answer was lost.
                Ok(None) => return self.push(push).await,
                Err(SharedError::Away { .. }) if since < self.good_until => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn claim(&mut self) -> Result<EndOfLog, SharedError> {
        self.lease().await?;
        let since = self.log.now();
        self.fence = None;
        let claimed = self.log.claim(&self.session, &self.home).await?;
        self.fence = Some(claimed.fence);
        self.lives(since);
        Ok(claimed.end)
    }

    fn lost(&self, why: &str) -> SharedError {
        SharedError::Lost {
            what: format!("{}: session {}: {why}", self.database, self.session),
        }
    }

    /// Repeats an attempt while the database is away, as long as the lease lasts.
    async fn push(&mut self, push: &Push) -> Result<(), SharedError> {
        // A database that is full still extends the lease with each claim.
        let until = self.good_until;
        let mut pause = FIRST_RETRY;
        loop {
            match self.try_push(push).await {
                Err(SharedError::Away { .. }) if self.log.now() < until => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
                done => return done,
            }
        }
    }

    async fn try_push(&mut self, push: &Push) -> Result<(), SharedError> {
        let mut claims = 0;
        loop {
            let Some(fence) = self.fence else {
                match self.settled(push.before, push.after).await? {
                    PushOutcome::Recorded => return Ok(()),
                    PushOutcome::NotRecorded => continue,
                }
            };
            let since = self.log.now();
            let pushed = self.log.push(fence, push).await;
            match pushed {
                Ok(true) => {
                    self.lives(since);
                    return Ok(());
                }
                Ok(false) => {
                    self.fence = None;
                    claims += 1;
                    // A lease that ended may be taken again. One that is held, by a session with another
                    // end, is that of a database that lost entries.
                    if claims > 1 || self.log.beat(&self.session, fence).await? == LeaseState::Taken
                    {
                        return Err(self.lost("another process continued it"));
                    }
                }
                Err(error) => {
                    self.fence = None;
                    return Err(error);
                }
            }
        }
    }

    async fn settle(
        &mut self,
        before: EndOfLog,
        after: EndOfLog,
    ) -> Result<PushOutcome, SharedError> {
        self.fence = None;
        self.settled(before, after).await
    }

    /// Claims the session again, and compares its end.
    async fn settled(
        &mut self,
        before: EndOfLog,
        after: EndOfLog,
    ) -> Result<PushOutcome, SharedError> {
        let end = self.claim().await?;
        match () {
            () if end == after => Ok(PushOutcome::Recorded),
            () if end == before => Ok(PushOutcome::NotRecorded),
            // A log only grows.
            () if end.1 < before.1 => {
                self.fence = None;
                Err(SharedError::Forgot {
                    what: format!(
                        "{}: session {}: the database has lost the last entries",
                        self.database, self.session
                    ),
                })
            }
            () => {
                self.fence = None;
                Err(self.lost("another process continued it"))
            }
        }
    }

    async fn beat(&mut self) {
        let Some(fence) = self.fence else {
            return;
        };
        let since = self.log.now();
        self.next_beat = Instant::now() + self.lease.unwrap_or(LAST_RETRY) / 3;
        match self.log.beat(&self.session, fence).await {
            Ok(LeaseState::Held) => self.lives(since),
            // The next entries claim the session again, and compare its end.
            Ok(LeaseState::Ended | LeaseState::Taken) => {
                tracing::warn!(session = self.session, "the lease ended");
            }
            Err(error) => tracing::warn!(%error, "the lease was not extended"),
        }
    }

    /// Returns whether this store recorded the last entry that both have, and all after it.
    async fn is_own(&mut self, ours: EndOfLog) -> Result<bool, SharedError> {
        let (_, length) = self.claim().await?;
        let first = ours.1.min(length).saturating_sub(1);
        parts::all_of(&mut self.log, &self.session, (first, length), &self.key).await
    }

    async fn lines(
        &mut self,
        after: EndOfLog,
        until: EndOfLog,
    ) -> Result<Option<NewLines>, SharedError> {
        let own = (!self.options.of_any_store).then_some(&self.key);
        parts::next_part(&mut self.log, &self.session, after, until, own, MAX_HELD).await
    }
}

/// Splits lines into parts that fit in one transaction.
pub fn split(new: NewLines) -> Vec<NewLines> {
    let mut parts = vec![NewLines {
        lines: Vec::new(),
        blobs: new.blobs,
        taken: new.taken,
        files: new.files,
    }];
    let mut bytes = 0;
    for line in new.lines {
        bytes += line.entry.get().len();
        if bytes > BYTES_AT_ONCE {
            bytes = 0;
            parts.push(NewLines::default());
        }
        if let Some(part) = parts.last_mut() {
            part.lines.push(line);
        }
    }
    parts.retain(|part| !part.lines.is_empty());
    parts
}
