//! Mail of the database: messages, verdicts and signals of other machines, which become rows of the
//! inbox and the signals of the store here.
//!
//! Invariant: mail is in the database until the entry that it becomes is there, or it can become none.
//! Its number is in its row here, so it becomes one row even if this process ends in between.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::log::{Mail, MailKind};
use crate::core::entry::{Verdict, Via};
use crate::core::image;
use crate::core::signal::Signal;
use crate::core::text::one_line;
use crate::core::visible::visible;
use crate::store::shared::waiting_mail;
use crate::store::{Message, Store, StoreError, blob_ref, now_ms};

/// Maximum number of images in one message.
const MAX_IMAGES: usize = 20;
const ROLE_CHARS: usize = 60;

/// The inbox of a shared session.
pub struct Mailbox {
    data_dir: PathBuf,
    session: String,
    /// Database roles whose `allow` counts.
    approvers: Vec<String>,
    /// Opened when the first mail comes.
    store: Option<Store>,
    /// Mail that has or had a row here.
    seen: BTreeSet<i64>,
}

impl Mailbox {
    pub fn new(data_dir: PathBuf, session: String, approvers: Vec<String>) -> Mailbox {
        Mailbox {
            data_dir,
            session,
            approvers,
            store: None,
            seen: BTreeSet::new(),
        }
    }

    /// Returns the hashes of the images of new mail.
    pub(super) fn images(&self, mail: &[Mail]) -> Vec<[u8; 32]> {
        let new = mail.iter().filter(|mail| !self.seen.contains(&mail.id));
        let messages = new.filter_map(|mail| message(mail).ok());
        messages
            .flat_map(|message| message.images.into_iter().take(MAX_IMAGES))
            .filter_map(|image| blake3::Hash::from_hex(image.blob.hash).ok())
            .map(|hash| *hash.as_bytes())
            .collect()
    }

    /// Queues new mail. Returns the mail that can become no entry any more.
    pub(super) fn take(
        &mut self,
        mail: &[Mail],
        blobs: &[Vec<u8>],
    ) -> Result<Vec<i64>, StoreError> {
        if mail.iter().all(|mail| self.seen.contains(&mail.id)) && self.store.is_none() {
            return Ok(Vec::new());
        }
        let mut store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.data_dir)?,
        };
        let taken = self.queue_all(&mut store, mail, blobs);
        self.store = Some(store);
        taken
    }

    fn queue_all(
        &mut self,
        store: &mut Store,
        mail: &[Mail],
        blobs: &[Vec<u8>],
    ) -> Result<Vec<i64>, StoreError> {
        let waiting = waiting_mail(store, &self.session)?;
        let mut over = Vec::new();
        for mail in mail {
            if waiting.contains(&mail.id) {
                self.seen.insert(mail.id);
                continue;
            }
            // Its row is gone without an entry: it came too late, or the user removed it.
            if self.seen.contains(&mail.id) {
                over.push(mail.id);
                continue;
            }
            match self.queue(store, mail, blobs) {
                Ok(Ok(())) => drop(self.seen.insert(mail.id)),
                Ok(Err(why)) => {
                    let origin = one_line(&visible(&mail.origin), ROLE_CHARS);
                    tracing::warn!(
                        session = self.session,
                        mail = mail.id,
                        origin,
                        why,
                        "refused"
                    );
                    over.push(mail.id);
                }
                // The rest waits until there is room.
                Err(StoreError::TooMany { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(over)
    }

    /// Queues mail, or says why it is refused.
    fn queue(
        &self,
        store: &mut Store,
        mail: &Mail,
        blobs: &[Vec<u8>],
    ) -> Result<Result<(), &'static str>, StoreError> {
        let origin = one_line(&visible(&mail.origin), ROLE_CHARS);
        match mail.kind {
            MailKind::Message => {
                let mut message = match message(mail) {
                    Ok(message) => message,
                    Err(why) => return Ok(Err(why)),
                };
                // An image that is missing or cannot be sent would make every request fail.
                let sent = message.images.len();
                message.images.truncate(MAX_IMAGES);
                let mut used = Vec::new();
                message.images.retain_mut(|image| {
                    let bytes = blobs.iter().find(|bytes| blob_ref(bytes) == image.blob);
                    let known = bytes.and_then(|bytes| Some((bytes, image::check(bytes).ok()?)));
                    if let Some((bytes, known)) = known {
                        image.media_type = known.media_type.to_string();
                        used.push(bytes.clone());
                    }
                    known.is_some()
                });
                if message.images.len() < sent {
                    message
                        .text
                        .push_str("\n(Some images of this message are missing.)");
                }
                let message = Message {
                    text: message.text.replace('\0', "\u{2400}"),
                    via: Via::Signal,
                    command: None,
                    origin: Some(origin),
                    ..message
                };
                let mut inbox = store.inbox_mut().of_mail(mail.id);
                inbox.queue_from_outside(&self.session, &message, &used, now_ms())?;
            }
            MailKind::Signal => {
                let Ok(signal) = serde_json::from_str::<Signal>(&mail.body) else {
                    return Ok(Err("it is not a signal"));
                };
                let may = match &signal {
                    Signal::Stop { .. } | Signal::Pause { .. } | Signal::GoOn => true,
                    Signal::Decide {
                        verdict: Verdict::Deny { .. },
                        ..
                    } => true,
                    // What the database says grants nothing.
                    Signal::Decide { rule: Some(_), .. } => false,
                    Signal::Decide { .. } | Signal::Answer { .. } => {
                        self.approvers.contains(&mail.origin)
                    }
                    _ => false,
                };
                if !may {
                    return Ok(Err("its role may not send it; fleet.approvers names roles"));
                }
                let mut signals = store.inbox_mut().of_mail(mail.id);
                signals.signal(&self.session, &origin, now_ms(), |_| signal)?;
            }
        }
        Ok(Ok(()))
    }
}

fn message(mail: &Mail) -> Result<Message, &'static str> {
    if mail.kind != MailKind::Message {
        return Err("it is not a message");
    }
    let message: Message = serde_json::from_str(&mail.body).map_err(|_| "it is not a message")?;
    match message.text.trim().is_empty() && message.images.is_empty() {
        true => Err("it is empty"),
        false => Ok(message),
    }
}
