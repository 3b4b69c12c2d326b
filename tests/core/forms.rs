//! A server that refuses the history: each server that takes one of the forms is given it, whatever
//! its words, and what was learnt holds.

use rewake::core::entry::*;
use rewake::core::prompt::messages;
use rewake::core::refused_history::{next_form, with_tried};
use rewake::core::request::{Message, MessagePart, Role};
use rewake::core::request_form::known_before;

use crate::context::{MODEL, Session, Summariser, finish, windows};

const INLINE: usize = 10_000;

fn image() -> Image {
    Image {
        media_type: "image/png".into(),
        blob: BlobRef {
            hash: "00".into(),
            bytes: 9,
        },
    }
}

fn say(session: &mut Session, text: &str) {
    session.push(Entry::Said {
        text: text.into(),
        images: Vec::new(),
        via: Via::Prompt,
        command: None,
        origin: None,
    });
}

fn results(session: &mut Session, images: Vec<Vec<Image>>) {
    let outcomes = images.into_iter().map(|images| Outcome::Done {
        output: Output {
            text: "THE RESULT".into(),
            images,
            ..Output::default()
        },
    });
    finish(session, outcomes.collect(), None);
}

/// A history with everything that a server may refuse, the newest turn without calls or with.
fn history(ends_with_call: bool) -> Session {
    let mut session = Session::new(100_000, windows(), Summariser::Works);
    let think = || Block::Thinking {
        text: "hm".into(),
        sealed: Some(serde_json::json!({ "signature": "s" })),
    };
    let call = || Block::call("read", r#"{"path":"a"}"#);
    say(&mut session, "one");
    session.reply(vec![think(), call(), call()]);
    results(&mut session, vec![vec![image()], vec![]]);
    session.push(Entry::Noted {
        text: "the files changed".into(),
        about: Some(About::FilesChanged {
            paths: vec!["a".into()],
            more: 0,
        }),
    });
    session.reply(vec![think(), Block::text("done")]);
    say(&mut session, "two");
    if ends_with_call {
        session.reply(vec![think(), call(), call()]);
        results(&mut session, vec![vec![], vec![]]);
        say(&mut session, "and then");
    }
    session
}

fn learn(session: &mut Session, form: LearnedForm) {
    session.push(Entry::Learned(Learned {
        model: MODEL.into(),
        limit: 100_000,
        form: Some(Box::new(form)),
        ..Learned::default()
    }));
}

fn any(messages: &[Message], is: impl Fn(&MessagePart) -> bool) -> bool {
    messages.iter().flat_map(|m| m.parts.iter()).any(is)
}

fn has_reasoning(messages: &[Message]) -> bool {
    any(messages, |p| matches!(p, MessagePart::Thinking { .. }))
}

fn has_words_after_results(messages: &[Message]) -> bool {
    messages.iter().any(|m| {
        let is_result = |p: &&MessagePart| matches!(p, MessagePart::Result { .. });
        let results = m.parts.iter().filter(is_result).count();
        results > 0 && results < m.parts.len()
    })
}

fn has_two_calls(messages: &[Message]) -> bool {
    let is_call = |p: &&MessagePart| matches!(p, MessagePart::Call { .. });
    messages
        .iter()
        .any(|m| m.parts.iter().filter(is_call).count() > 1)
}

fn has_images(messages: &[Message]) -> bool {
    any(messages, |p| match p {
        MessagePart::Image { .. } => true,
        MessagePart::Result { images, .. } => !images.is_empty(),
        _ => false,
    })
}

fn has_calls(messages: &[Message]) -> bool {
    any(messages, |p| {
        matches!(p, MessagePart::Call { .. } | MessagePart::Result { .. })
    })
}

fn lacks_reasoning(messages: &[Message]) -> bool {
    messages.iter().any(|m| {
        let is =
            |p: &MessagePart| matches!(p, MessagePart::Thinking { text, .. } if !text.is_empty());
        m.role == Role::Assistant && !m.parts.iter().any(is)
    })
}

fn is_long(messages: &[Message]) -> bool {
    any(
        messages,
        |p| matches!(p, MessagePart::Text { text, .. } if text == "one"),
    )
}

type Refuses = fn(&[Message]) -> bool;

/// Asks a server until it accepts the history. Returns the forms that it got, or `None`.
fn ask(session: &mut Session, refuses: Refuses, failure: &Failure) -> Option<Vec<RequestForm>> {
    let mut tried = Vec::new();
    for _ in 0..20 {
        let request = messages(&session.state, INLINE);
        crate::valid::assert_valid(&request);
        if !refuses(&request) {
            return Some(tried);
        }
        let form = next_form(&session.state, failure, &session.budget(), &windows())?;
        tried.extend(form.forms.last());
        learn(session, form);
    }
    panic!("it is asked without end")
}

fn failure(class: FailureClass, status: u16, words: &str) -> Failure {
    let message = format!("{words} (HTTP {status}) from test at http://127.0.0.1:1/v1");
    Failure::new(class, message)
}

const WORDS: [&str; 9] = [
    "Invalid `signature` in `thinking` block",
    "The encrypted content gAAA could not be verified",
    "conversation roles must alternate user and assistant roles except for tool calls and results",
    "This model only supports single tool-calls at once!",
    "Unexpected message: tool_call_id not found",
    "messages.1: invalid",
    "Bad request",
    "",
    "Internal error in the chat template at row 66, column 77",
];

const SERVERS: [(&str, Refuses); 9] = [
    ("reasoning", has_reasoning),
    ("words after results", has_words_after_results),
    ("two calls", has_two_calls),
    ("images", has_images),
    ("calls", has_calls),
    ("a long history", is_long),
    ("reasoning and images", |m| {
        has_reasoning(m) || has_images(m)
    }),
    ("calls and images", |m| has_calls(m) || has_images(m)),
    ("all", |m| {
        has_reasoning(m) || has_images(m) || has_calls(m) || is_long(m)
    }),
];

#[test]
fn each_server_that_takes_a_form_is_given_it() {
    for (what, refuses) in SERVERS {
        for words in WORDS {
            for status in [400, 413, 422] {
                for ends_with_call in [false, true] {
                    let mut session = history(ends_with_call);
                    let error = failure(FailureClass::BadRequest, status, words);
                    let forms = ask(&mut session, refuses, &error);
                    assert!(forms.is_some(), "{what}: {status} {words}");
                }
            }
        }
    }
}

#[test]
fn words_name_the_form_that_is_tried_first() {
    use RequestForm::{NotesInResults, OneCall, WithReasoning, WithoutReasoning};
    let table: [(&str, Refuses, RequestForm); 5] = [
        (WORDS[0], has_reasoning, WithoutReasoning),
        (WORDS[1], has_reasoning, WithoutReasoning),
        (WORDS[2], has_words_after_results, NotesInResults),
        (WORDS[3], has_two_calls, OneCall),
        (
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            lacks_reasoning,
            WithReasoning,
        ),
    ];
    for (words, refuses, form) in table {
        let mut session = history(true);
        session.reply(vec![Block::text("without reasoning")]);
        say(&mut session, "three");
        let error = failure(FailureClass::BadRequest, 400, words);
        assert_eq!(
            ask(&mut session, refuses, &error),
            Some(vec![form]),
            "{words}"
        );
    }
}

#[test]
fn what_is_not_about_the_history_is_not_tried() {
    let session = history(true);
    let table = [
        (FailureClass::RateLimit, 429, "messages.1: too many"),
        (FailureClass::Auth, 401, "messages.1: invalid"),
        (FailureClass::NoModel, 404, "messages.1: no such model"),
        (FailureClass::UsedUp, 402, "messages.1: no credit"),
        (FailureClass::Network, 0, "connection lost"),
        (FailureClass::TooLong, 400, "messages.1: too long"),
        (
            FailureClass::Overloaded,
            503,
            "the chat template is loading",
        ),
        (FailureClass::Overloaded, 500, "Internal server error"),
        (FailureClass::BadRequest, 404, "Not found"),
        (
            FailureClass::BadRequest,
            400,
            "Unsupported parameter: 'temperature'",
        ),
        (FailureClass::BadRequest, 400, "max_tokens: 5 > 3"),
        (
            FailureClass::BadRequest,
            400,
            "Your input was flagged by our content policy: messages.1",
        ),
        (
            FailureClass::BadRequest,
            400,
            "User location is not supported for the API use.",
        ),
    ];
    for (class, status, words) in table {
        let error = failure(class, status, words);
        let form = next_form(&session.state, &error, &session.budget(), &windows());
        assert_eq!(form, None, "{class:?} {status} {words}");
    }
    // Inside of an answer there is no status.
    let broken = Failure::new(
        FailureClass::Overloaded,
        format!(
            "the provider broke off its answer: {} from test at http://h",
            WORDS[2]
        ),
    );
    assert!(next_form(&session.state, &broken, &session.budget(), &windows()).is_some());
    // With words about the request both are tried.
    for (class, status) in [
        (FailureClass::Overloaded, 500),
        (FailureClass::BadRequest, 404),
    ] {
        let error = failure(class, status, WORDS[2]);
        assert!(next_form(&session.state, &error, &session.budget(), &windows()).is_some());
    }
}

#[test]
fn what_was_accepted_stays_and_what_was_refused_does_not() {
    let error = failure(FailureClass::BadRequest, 400, "Bad request");
    let mut session = history(true);
    ask(&mut session, has_two_calls, &error).expect("accepted");
    session.reply(vec![Block::text("so it is")]);
    say(&mut session, "three");
    let request = messages(&session.state, INLINE);
    assert!(!has_two_calls(&request) && has_reasoning(&request) && has_images(&request));
    // All that is refused from now on comes on top of it, and nothing of it stays.
    assert_eq!(ask(&mut session, |_| true, &error), None);
    let told = with_tried(&session.state, &error).expect("all were tried");
    for words in ["without the reasoning", "as text", "as a digest"] {
        assert!(told.message.contains(words), "{}", told.message);
    }
    assert!(told.hint.expect("a way out").contains("/model"));
    session.push(Entry::Failed {
        error: error.clone(),
        draft: None,
    });
    say(&mut session, "four");
    let request = messages(&session.state, INLINE);
    assert!(!has_two_calls(&request) && has_reasoning(&request) && has_images(&request));
    assert!(ask(&mut session, has_reasoning, &error).is_some());
}

/// Reasoning and images that come later are sent: only what the server refused is left out.
#[test]
fn later_reasoning_is_sent_back() {
    let mut session = history(true);
    let error = failure(FailureClass::BadRequest, 400, WORDS[0]);
    ask(&mut session, has_reasoning, &error).expect("accepted");
    session.reply(vec![
        Block::Thinking {
            text: "later".into(),
            sealed: None,
        },
        Block::text("so it is"),
    ]);
    say(&mut session, "three");
    let request = messages(&session.state, INLINE);
    let texts = request.iter().flat_map(|m| m.parts.iter());
    let thoughts: Vec<&str> = texts
        .filter_map(|part| match part {
            MessagePart::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(thoughts, ["later"]);
}

/// Each form keeps each word that the model needs, and requests begin with the one before.
#[test]
fn a_form_loses_no_words_and_keeps_the_prefix() {
    for form in [
        RequestForm::NotesInResults,
        RequestForm::OneCall,
        RequestForm::PlainText,
        RequestForm::WithReasoning,
    ] {
        let mut session = Session::new(100_000, windows(), Summariser::Works);
        learn(&mut session, known_before(&[form]));
        let whole = history(true).records;
        let mut before: Vec<Message> = Vec::new();
        for record in whole.into_iter().skip(1) {
            // The answers name the calls by their place, which is one later here.
            let entry = match record.entry {
                Entry::Finished {
                    call,
                    outcome,
                    fact,
                    tree,
                } => Entry::Finished {
                    call: CallId {
                        reply: call.reply + 1,
                        ..call
                    },
                    outcome,
                    fact,
                    tree,
                },
                other => other,
            };
            let is_asked = matches!(entry, Entry::Replied { .. });
            if is_asked {
                let request = messages(&session.state, INLINE);
                crate::valid::assert_valid(&request);
                let parts = |messages: &[Message]| -> Vec<MessagePart> {
                    messages
                        .iter()
                        .flat_map(|m| m.parts.iter().cloned())
                        .collect()
                };
                assert!(parts(&request).starts_with(&parts(&before)), "{form:?}");
                before = request;
            }
            session.push(entry);
        }
        let request = messages(&session.state, INLINE);
        let text = format!("{request:?}");
        for words in ["one", "two", "and then", "the files changed", "done"] {
            assert!(text.contains(words), "{form:?}: {words}");
        }
        assert_eq!(text.matches("THE RESULT").count(), 4, "{form:?}");
    }
}

/// A digest keeps what the user said, above all what has no answer yet.
#[test]
fn a_digest_has_the_words_of_the_user() {
    let error = failure(FailureClass::BadRequest, 400, "Bad request");
    let mut session = history(false);
    session.push(Entry::Failed {
        error: error.clone(),
        draft: None,
    });
    say(&mut session, "try again");
    let forms = ask(&mut session, is_long, &error).expect("accepted");
    assert_eq!(forms.last(), Some(&RequestForm::Digest));
    let request = messages(&session.state, INLINE);
    for words in ["two", "try again"] {
        let is_whole =
            |part: &MessagePart| matches!(part, MessagePart::Text { text, .. } if text == words);
        assert!(any(&request, is_whole), "{words}: {request:?}");
    }
    assert!(format!("{request:?}").contains("one"));
}

/// A server may take today what it refused yesterday, and refuse what it took.
#[test]
fn what_was_accepted_may_be_what_is_refused_later() {
    let mut session = history(true);
    let error = failure(
        FailureClass::BadRequest,
        400,
        "`reasoning_content` must be passed back",
    );
    ask(&mut session, lacks_reasoning, &error).expect("accepted");
    session.reply(vec![Block::text("so it is")]);
    say(&mut session, "three");
    let error = failure(
        FailureClass::BadRequest,
        400,
        "property 'reasoning_content' is unsupported",
    );
    let has_said_so = |m: &[Message]| {
        any(
            m,
            |p| matches!(p, MessagePart::Thinking { text, .. } if text == "(not recorded)"),
        )
    };
    assert!(ask(&mut session, has_said_so, &error).is_some());
}
