//! The long list in the body of a request: its messages, as JSON. A request has the one before as
//! its beginning, so what was made for that is used again, and not a message is made or written
//! twice.
//!
//! Invariant: what is used again was made of the same message, compared in full. What has images
//! is made each time: their bytes are not in the message.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::core::request::{Message, Part};

/// What was made for the last request.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Each protocol has a form of its own, and so may a model.
    form: String,
    made: Vec<Made>,
}

/// The JSON of one message.
#[derive(Debug)]
struct Made {
    /// Without its mark.
    message: Message,
    is_marked: bool,
    /// Its items, with a comma between two of them.
    json: Vec<u8>,
}

impl Kept {
    /// A list for a request in this form.
    pub(super) fn list(&mut self, form: String) -> List<'_> {
        if self.form != form {
            self.made.clear();
            self.form = form;
        }
        List {
            kept: &mut self.made,
            place: 0,
            json: vec![b'['],
            failed: None,
        }
    }
}

/// The messages of one request, in their order.
pub(crate) struct List<'k> {
    kept: &'k mut Vec<Made>,
    /// Of the next message.
    place: usize,
    json: Vec<u8>,
    failed: Option<serde_json::Error>,
}

impl List<'_> {
    /// What is no message of the request: it stands before them.
    pub(crate) fn push(&mut self, item: &Value) {
        let json = self.written(std::slice::from_ref(item));
        self.add(&json);
    }

    /// The next message. `is_marked`: as it is sent, whatever the message says.
    pub(crate) fn message(
        &mut self,
        message: &Message,
        is_marked: bool,
        make: impl FnOnce() -> Vec<Value>,
    ) {
        let place = self.place;
        self.place += 1;
        let known = self.kept.get(place).filter(|made| {
            made.is_marked == is_marked
                && made.message.role == message.role
                && is_same(&made.message, message)
                && !has_images(message)
        });
        if let Some(made) = known {
            let json = &made.json;
            add(&mut self.json, json);
            return;
        }
        let json = self.written(&make());
        self.add(&json);
        let made = Made {
            message: message.clone(),
            is_marked,
            json,
        };
        match self.kept.get_mut(place) {
            Some(known) => *known = made,
            None => self.kept.push(made),
        }
    }

    fn written(&mut self, items: &[Value]) -> Vec<u8> {
        let mut json = Vec::new();
        for item in items {
            if !json.is_empty() {
                json.push(b',');
            }
            if let Err(error) = serde_json::to_writer(&mut json, item) {
                self.failed.get_or_insert(error);
            }
        }
        json
    }

    fn add(&mut self, json: &[u8]) {
        add(&mut self.json, json);
    }

    /// The whole body: the list stands in `rest` under this name.
    ///
    /// # Errors
    /// Something of it cannot be written as JSON.
    pub(crate) fn into_body(
        mut self,
        name: &str,
        mut rest: Map<String, Value>,
    ) -> serde_json::Result<Vec<u8>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        // What the last request had more of.
        self.kept.truncate(self.place);
        self.json.push(b']');
        let mut body = Vec::with_capacity(self.json.len() + (16 << 10));
        body.push(b'{');
        rest.insert(name.to_string(), Value::Null);
        for (key, value) in &rest {
            if body.len() > 1 {
                body.push(b',');
            }
            serde_json::to_writer(&mut body, key)?;
            body.push(b':');
            match key == name {
                true => body.extend_from_slice(&self.json),
                false => serde_json::to_writer(&mut body, value)?,
            }
        }
        body.push(b'}');
        Ok(body)
    }
}

fn add(all: &mut Vec<u8>, json: &[u8]) {
    if all.len() > 1 && !json.is_empty() {
        all.push(b',');
    }
    all.extend_from_slice(json);
}

/// Most are the very same as in the request before.
fn is_same(one: &Message, other: &Message) -> bool {
    Arc::ptr_eq(&one.parts, &other.parts) || one.parts == other.parts
}

fn has_images(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Image { .. } => true,
        Part::Result { images, .. } => !images.is_empty(),
        Part::Text { .. } | Part::Thinking { .. } | Part::Call { .. } => false,
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
            parts: vec![Part::Text {
                text,
                signature: None,
            }]
            .into(),
            cache: false,
        }
    }

    /// The body, and how many of the messages were made for it.
    fn body(kept: &mut Kept, form: &str, messages: &[(&Message, bool)]) -> (Value, usize) {
        let mut made = 0;
        let mut list = kept.list(form.to_string());
        list.push(&json!("first"));
        for (message, is_marked) in messages {
            list.message(message, *is_marked, || {
                made += 1;
                match &message.parts[..] {
                    [Part::Text { text, .. }] if text.is_empty() => vec![],
                    [Part::Text { text, .. }] => vec![json!({ "text": text }), json!(is_marked)],
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
        let mut kept = Kept::default();
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
    fn what_has_images_is_made_each_time() {
        let mut image = message("");
        image.parts = vec![Part::Image {
            media_type: "image/png".into(),
            blob: crate::core::entry::BlobRef {
                hash: "h".into(),
                bytes: 1,
            },
        }]
        .into();
        let mut kept = Kept::default();
        for _ in 0..2 {
            assert_eq!(body(&mut kept, "a", &[(&image, false)]).1, 1);
        }
    }
}
