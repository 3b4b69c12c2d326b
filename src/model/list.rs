//! The list of messages in the body of a request, as JSON. A request has the previous one as its
//! beginning, so the JSON of that part is reused. Only new or changed messages are encoded.
//!
//! Invariant: reused JSON was made from the same message, compared in full. Messages with images
//! are encoded every time: their bytes are not in the message.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::core::request::{Message, MessagePart};

/// The encoded messages of the last request.
#[derive(Debug, Default)]
pub(crate) struct MessageCache {
    /// Identifies the encoding: each protocol encodes messages differently, and a model may too.
    form: String,
    made: MadeList,
}

/// Encoded items, the complete list or a part of it.
#[derive(Debug, Default)]
struct MadeList {
    /// Each item is followed by a comma.
    json: Vec<u8>,
    made: Vec<EncodedMessage>,
}

/// The range of one encoded message, or of an item that does not come from a message.
#[derive(Debug)]
struct EncodedMessage {
    /// The message without its cache mark. `None`: it is encoded every time.
    message: Option<Message>,
    is_marked: bool,
    /// End of its JSON in the list. The range may be empty.
    end: usize,
}

impl MessageCache {
    /// Returns a list for a request with this encoding.
    pub(super) fn list(&mut self, form: String) -> List<'_> {
        if self.form != form {
            self.made = MadeList::default();
            self.form = form;
        }
        List {
            list: &mut self.made,
            place: 0,
            old: None,
            failed: None,
        }
    }
}

impl MadeList {
    /// Returns the range of an item's JSON.
    fn range(&self, place: usize) -> Range<usize> {
        self.begin(place)
            ..self
                .made
                .get(place)
                .map_or(self.json.len(), |made| made.end)
    }

    fn begin(&self, place: usize) -> usize {
        place
            .checked_sub(1)
            .and_then(|before| self.made.get(before))
            .map_or(0, |before| before.end)
    }

    /// Removes and returns everything from this item on.
    fn split_off(&mut self, place: usize) -> MadeList {
        let begin = self.begin(place);
        let mut made = self.made.split_off(place.min(self.made.len()));
        for made in &mut made {
            made.end -= begin;
        }
        MadeList {
            json: self.json.split_off(begin),
            made,
        }
    }

    fn add(&mut self, json: &[u8], message: Option<Message>, is_marked: bool) {
        self.json.extend_from_slice(json);
        self.made.push(EncodedMessage {
            message,
            is_marked,
            end: self.json.len(),
        });
    }

    /// Returns whether the item was made from the same message. The item then refers to the new
    /// message, since most messages of the next request are identical to it.
    fn is_made_of(&mut self, place: usize, message: &Message, is_marked: bool) -> bool {
        let Some(made) = self
            .made
            .get_mut(place)
            .filter(|m| m.is_marked == is_marked)
        else {
            return false;
        };
        let Some(known) = made.message.as_mut().filter(|m| m.role == message.role) else {
            return false;
        };
        if Arc::ptr_eq(&known.parts, &message.parts) {
            return true;
        }
        let is_same = known.parts == message.parts;
        if is_same {
            known.parts = Arc::clone(&message.parts);
        }
        is_same
    }
}

/// A builder for the list of messages of one request, in order.
pub(crate) struct List<'k> {
    /// Items before `place` belong to this request. Until the first difference, items from `place`
    /// on belong to the last request.
    list: &'k mut MadeList,
    /// Index of the next item.
    place: usize,
    /// The items of the last request from the first difference on, and the index of that
    /// difference.
    old: Option<(usize, MadeList)>,
    failed: Option<serde_json::Error>,
}

impl List<'_> {
    /// Adds an item that is not a message of the request. Such items come before all messages.
    pub(crate) fn push(&mut self, item: &Value) {
        let json = self.written(std::slice::from_ref(item));
        self.add(&json, None, false);
    }

    /// Adds the next message. `is_marked`: whether a cache mark is sent, whatever the message
    /// says.
    pub(crate) fn message(
        &mut self,
        message: &Message,
        is_marked: bool,
        make: impl FnOnce() -> Vec<Value>,
    ) {
        match &mut self.old {
            None => {
                if self.list.is_made_of(self.place, message, is_marked) {
                    self.place += 1;
                    return;
                }
            }
            Some((from, old)) => {
                let place = self.place - *from;
                if old.is_made_of(place, message, is_marked) {
                    let json = &old.json[old.range(place)];
                    self.list.add(json, Some(message.clone()), is_marked);
                    self.place += 1;
                    return;
                }
            }
        }
        let json = self.written(&make());
        let known = (!has_images(message)).then(|| message.clone());
        self.add(&json, known, is_marked);
    }

    fn written(&mut self, items: &[Value]) -> Vec<u8> {
        let mut json = Vec::new();
        for item in items {
            if let Err(error) = serde_json::to_writer(&mut json, item) {
                self.failed.get_or_insert(error);
            }
            json.push(b',');
        }
        json
    }

    fn add(&mut self, json: &[u8], message: Option<Message>, is_marked: bool) {
        let place = self.place;
        self.place += 1;
        if self.old.is_none() {
            let range = self.list.range(place);
            if let Some(made) = self.list.made.get_mut(place)
                && self.list.json[range] == *json
            {
                made.message = message;
                made.is_marked = is_marked;
                return;
            }
            self.old = Some((place, self.list.split_off(place)));
        }
        self.list.add(json, message, is_marked);
    }

    /// Returns the complete body, with the list under this name in `rest`.
    ///
    /// # Errors
    /// A part of it cannot be written as JSON.
    pub(crate) fn into_body(
        self,
        name: &str,
        mut rest: Map<String, Value>,
    ) -> serde_json::Result<Vec<u8>> {
        if let Some(error) = self.failed {
            mem::take(self.list);
            return Err(error);
        }
        // Removes surplus items of the last request.
        self.list.split_off(self.place);
        let list = self.list.json.strip_suffix(b",").unwrap_or(&[]);
        // The next request is a little longer, so the allocator can reuse a block of the same
        // size.
        let room = (list.len() + (16 << 10)).next_power_of_two();
        let mut body = Vec::with_capacity(room);
        body.push(b'{');
        rest.insert(name.to_string(), Value::Null);
        for (key, value) in &rest {
            if body.len() > 1 {
                body.push(b',');
            }
            serde_json::to_writer(&mut body, key)?;
            body.push(b':');
            if key == name {
                body.push(b'[');
                body.extend_from_slice(list);
                body.push(b']');
            } else {
                serde_json::to_writer(&mut body, value)?;
            }
        }
        body.push(b'}');
        Ok(body)
    }
}

fn has_images(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        MessagePart::Image { .. } => true,
        MessagePart::Result { images, .. } => !images.is_empty(),
        MessagePart::Text { .. } | MessagePart::Thinking { .. } | MessagePart::Call { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::request::Role;

    fn message(text: &str) -> Message {
        let text = text.to_string();
        Message {
            role: Role::User,
            parts: vec![MessagePart::Text {
                text,
                signature: None,
            }]
            .into(),
            cache: false,
        }
    }

    /// The body, and how many of the messages were made for it.
    fn body(kept: &mut MessageCache, form: &str, messages: &[(&Message, bool)]) -> (Value, usize) {
        let mut made = 0;
        let mut list = kept.list(form.to_string());
        list.push(&json!("first"));
        for (message, is_marked) in messages {
            list.message(message, *is_marked, || {
                made += 1;
                match &message.parts[..] {
                    [MessagePart::Text { text, .. }] if text.is_empty() => vec![],
                    [MessagePart::Text { text, .. }] => {
                        vec![json!({ "text": text }), json!(is_marked)]
                    }
                    _ => vec![json!("image")],
                }
            });
        }
        let rest = json!({ "z": 1, "a": "\n" }).as_object().unwrap().clone();
        let body = list.into_body("list", rest).unwrap();
        (serde_json::from_slice(&body).unwrap(), made)
    }

    #[test]
    fn only_what_is_new_or_marked_in_another_way_is_made() {
        let (one, two, none) = (message("one"), message("two"), message(""));
        let mut kept = MessageCache::default();
        let all = [(&one, false), (&none, false), (&two, true)];
        let want = |marked: bool| {
            json!({ "z": 1, "a": "\n",
                "list": ["first", { "text": "one" }, false, { "text": "two" }, marked] })
        };
        assert_eq!(body(&mut kept, "a", &all), (want(true), 3));
        assert_eq!(body(&mut kept, "a", &all), (want(true), 0));
        let unmarked = [all[0], all[1], (&two, false)];
        assert_eq!(body(&mut kept, "a", &unmarked), (want(false), 1));
        assert_eq!(body(&mut kept, "b", &unmarked), (want(false), 3));
        // A shorter one, then the longer one again.
        body(&mut kept, "b", &unmarked[..1]);
        assert_eq!(body(&mut kept, "b", &unmarked), (want(false), 2));
        // Another message at the same place.
        let other = [(&two, false), all[1], (&one, false)];
        assert_eq!(body(&mut kept, "b", &other).1, 2);
    }

    #[test]
    fn an_equal_message_shares_its_parts_with_the_cache() {
        let mut kept = MessageCache::default();
        body(&mut kept, "a", &[(&message("one"), false)]);
        let again = message("one");
        assert_eq!(body(&mut kept, "a", &[(&again, false)]).1, 0);
        let known = kept.made.made[1].message.as_ref().unwrap();
        assert!(Arc::ptr_eq(&known.parts, &again.parts));
    }

    #[test]
    fn messages_with_images_are_encoded_each_time() {
        let mut image = message("");
        image.parts = vec![MessagePart::Image {
            media_type: "image/png".into(),
            blob: crate::core::entry::BlobRef {
                hash: "h".into(),
                bytes: 1,
            },
        }]
        .into();
        let mut kept = MessageCache::default();
        for _ in 0..2 {
            assert_eq!(body(&mut kept, "a", &[(&image, false)]).1, 1);
        }
    }
}
