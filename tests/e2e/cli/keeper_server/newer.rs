//! The newer parts of the protocol over a kept server: calls in rounds, tasks, questions for a
//! person, prompts and resources; and what of them a crash leaves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rewake::core::form::FormAnswer;
use rewake::mcp::connection::{Connection, McpError};
use rewake::mcp::elicit::{Declines, Elicit, Elicitation};
use rewake::mcp::era::ProtocolHint;
use rewake::mcp::result::{CallResult, ResultPart};

use super::*;

const LIMIT: Duration = Duration::from_secs(90);

/// Somebody who says their name, or keeps everybody waiting.
#[derive(Default)]
struct Person {
    asked: AtomicUsize,
    waits: bool,
    keys: Mutex<Vec<String>>,
}

impl Elicit for Person {
    fn ask(&self, question: Elicitation) -> BoxFuture<'_, FormAnswer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.keys.lock().unwrap().push(question.key);
        Box::pin(async {
            if self.waits {
                std::future::pending::<()>().await;
            }
            let name = json!({ "name": "Ann" });
            FormAnswer::Accept {
                values: name.as_object().unwrap().clone(),
            }
        })
    }
}

async fn call(
    connection: &Connection,
    tool: &str,
    arguments: &Value,
) -> Result<CallResult, McpError> {
    let called = connection.call("call_1", tool, arguments, false);
    tokio::time::timeout(LIMIT, called)
        .await
        .expect("waited too long")
}

fn waits() -> Arc<Person> {
    Arc::new(Person {
        waits: true,
        ..Person::default()
    })
}

async fn start(place: &Place, mode: &str, person: Arc<dyn Elicit>) -> (String, Connection) {
    let run = place.servers.prepare(&place.spec()).unwrap();
    let own = [(spoken::ASKED.to_string(), mode.to_string())];
    let env = ServerEnv::new(|name| std::env::var_os(name), &own);
    let client = live(place.servers.start(&run, &env).await.unwrap());
    let connecting = Connection::begin(
        client,
        place.folder.path(),
        LIMIT,
        person,
        ProtocolHint::Unknown,
    );
    (run, connecting.await.unwrap())
}

async fn reopen(place: &Place, run: &str, person: Arc<dyn Elicit>) -> Connection {
    let client = place.attach(run).await;
    let connecting = Connection::begin(
        client,
        place.folder.path(),
        LIMIT,
        person,
        ProtocolHint::Unknown,
    );
    connecting.await.unwrap()
}

/// What was sent to the server, a message each.
fn sent(place: &Place, run: &str) -> Vec<Value> {
    let input = place.servers.path(run).unwrap().join("in.0");
    let text = std::fs::read_to_string(input).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ids(sent: &[Value], method: &str) -> Vec<String> {
    let of = sent.iter().filter(|message| message["method"] == method);
    of.map(|message| message["id"].as_str().unwrap().to_string())
        .collect()
}

fn told(result: &CallResult) -> &str {
    match &result.parts[..] {
        [ResultPart::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}

/// Until a future that never ends got so far.
async fn drop_when(future: impl Future, so: impl Fn() -> bool) {
    let seen = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = future => panic!("it ended"),
        seen = tokio::time::timeout(LIMIT, seen) => seen.expect("waited too long"),
    }
}

#[tokio::test]
async fn a_call_that_needs_input_asks_and_continues_with_the_answer() {
    let place = place();
    let person = Arc::new(Person::default());
    let (run, connection) = start(&place, "new", person.clone()).await;
    let arguments = json!({ "file": place.effects(), "text": "x" });
    let result = call(&connection, "asks", &arguments).await.unwrap();
    assert_eq!(
        told(&result),
        r#"[{"who":{"action":"accept","content":{"name":"Ann"}}},"opaque"]"#
    );
    assert_eq!(
        ids(&sent(&place, &run), "tools/call"),
        ["call_1", "call_1:2"]
    );
    assert_eq!(*person.keys.lock().unwrap(), ["call_1/who"]);
    assert_eq!(place.appended(), ["x"]);
    connection.client().leave().await;
}

#[tokio::test]
async fn a_started_round_is_not_sent_again_after_a_crash() {
    let place = place();
    let person = waits();
    let (run, first) = start(&place, "new", person.clone()).await;
    let arguments = json!({ "file": place.effects(), "text": "x" });
    drop_when(first.call("call_1", "asks", &arguments, false), || {
        person.asked.load(Ordering::Relaxed) == 1
    })
    .await;
    drop(first);
    // Nobody had answered: it is asked again, and not sent again.
    let answers = Arc::new(Person::default());
    let second = reopen(&place, &run, answers.clone()).await;
    call(&second, "asks", &arguments).await.unwrap();
    assert_eq!(answers.asked.load(Ordering::Relaxed), 1);
    drop(second);
    // It was answered: the next agent finds that out without asking anybody.
    let nobody = Arc::new(Person::default());
    let third = reopen(&place, &run, nobody.clone()).await;
    let again = call(&third, "asks", &arguments).await.unwrap();
    assert!(told(&again).contains("Ann"));
    assert_eq!(nobody.asked.load(Ordering::Relaxed), 0);
    assert_eq!(
        ids(&sent(&place, &run), "tools/call"),
        ["call_1", "call_1:2"]
    );
    assert_eq!(place.appended(), ["x"]);
    third.client().leave().await;
}

#[tokio::test]
async fn where_nobody_is_and_where_a_password_is_wanted_nothing_is_told() {
    let place = place();
    let person = Arc::new(Person::default());
    for (tool, elicit) in [
        ("asks", Arc::new(Declines) as Arc<dyn Elicit>),
        ("asks_password", person.clone()),
    ] {
        let (_, connection) = start(&place, "new", elicit).await;
        let result = call(&connection, tool, &json!({})).await.unwrap();
        assert!(
            told(&result).contains(r#"{"who":{"action":"decline"}}"#),
            "{result:?}"
        );
        connection.client().leave().await;
    }
    assert_eq!(person.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_server_that_asks_for_ever_is_answered_eight_times() {
    let place = place();
    let (run, connection) = start(&place, "new", Arc::new(Declines)).await;
    let arguments = json!({});
    let refused = call(&connection, "asks_for_ever", &arguments).await;
    assert!(
        matches!(refused, Err(McpError::NotSupported(_))),
        "{refused:?}"
    );
    assert_eq!(ids(&sent(&place, &run), "tools/call").len(), 8);
    connection.client().leave().await;
}

#[tokio::test]
async fn a_question_in_the_older_way_stays_open_until_somebody_answers_it() {
    let place = place();
    let person = waits();
    let (run, first) = start(&place, "old", person.clone()).await;
    let arguments = json!({});
    drop_when(first.call("call_1", "asks_old", &arguments, false), || {
        person.asked.load(Ordering::Relaxed) == 1
    })
    .await;
    // The same agent comes back to it, and then another one.
    drop_when(first.call("call_1", "asks_old", &arguments, false), || {
        person.asked.load(Ordering::Relaxed) == 2
    })
    .await;
    drop(first);
    let second = reopen(&place, &run, Arc::new(Person::default())).await;
    let result = call(&second, "asks_old", &arguments).await.unwrap();
    assert!(told(&result).contains("Ann"), "{result:?}");
    let answers = sent(&place, &run);
    assert_eq!(
        answers.iter().filter(|message| message["id"] == 70).count(),
        1
    );
    second.client().leave().await;
}

fn task(place: &Place, more: Value) -> (std::path::PathBuf, Value) {
    let state = place.folder.path().join("task");
    let mut arguments = json!({ "state": state, "file": place.effects(), "text": "begun" });
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    (state, arguments)
}

fn add(state: &Path, ending: &str) -> std::path::PathBuf {
    state.with_extension(ending)
}

#[tokio::test]
async fn a_task_is_asked_about_until_it_is_done_also_by_the_next_agent() {
    let place = place();
    let (state, arguments) = task(&place, json!({}));
    std::fs::write(add(&state, "stop"), "").unwrap();
    let (run, first) = start(&place, "new", Arc::new(Declines)).await;
    drop_when(first.call("call_1", "task", &arguments, false), || {
        ids(&sent(&place, &run), "tasks/get").len() >= 2
    })
    .await;
    drop(first);
    std::fs::remove_file(add(&state, "stop")).unwrap();
    let second = reopen(&place, &run, Arc::new(Declines)).await;
    let result = call(&second, "task", &arguments).await.unwrap();
    assert_eq!(told(&result), "done");
    assert_eq!(ids(&sent(&place, &run), "tools/call"), ["call_1"]);
    assert_eq!(place.appended(), ["begun"]);
    second.client().leave().await;
}

#[tokio::test]
async fn a_task_outlives_its_server() {
    let place = place();
    let (state, arguments) = task(&place, json!({}));
    std::fs::write(add(&state, "stop"), "").unwrap();
    let (run, first) = start(&place, "new", Arc::new(Declines)).await;
    let calling = async {
        let lost = call(&first, "task", &arguments).await.unwrap_err();
        assert!(lost.is_in_doubt());
        let McpError::Unfinished { task, .. } = lost else {
            panic!("{lost}");
        };
        assert!(task.id.ends_with("task"));
        task
    };
    let killing = async {
        while ids(&sent(&place, &run), "tasks/get").len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        kill(place.info(&run).group.unwrap());
    };
    let (task, ()) = tokio::join!(calling, killing);
    drop(first);
    std::fs::remove_file(add(&state, "stop")).unwrap();
    let journaled = place.past(&run).await.outcome("call_1").unwrap();
    assert!(matches!(journaled, ServerOutcome::Answered(_)));
    let (_, second) = start(&place, "new", Arc::new(Declines)).await;
    assert_eq!(told(&second.follow(&task).await.unwrap()), "done");
    assert_eq!(place.appended(), ["begun"]);
    second.client().leave().await;
}

#[tokio::test]
async fn a_task_that_wants_to_know_something_is_told_once() {
    let place = place();
    let (_, arguments) = task(&place, json!({ "asks": true }));
    let person = Arc::new(Person::default());
    let (run, connection) = start(&place, "new", person.clone()).await;
    let result = call(&connection, "task", &arguments).await.unwrap();
    assert!(told(&result).contains("Ann"), "{result:?}");
    assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    assert_eq!(ids(&sent(&place, &run), "tasks/update").len(), 1);
    connection.client().leave().await;
}

#[tokio::test]
async fn a_task_that_is_kept_no_time_is_asked_about_at_once_and_then_with_pauses() {
    let place = place();
    let (_, arguments) = task(&place, json!({ "ttl": 0, "polls": 3 }));
    let (run, connection) = start(&place, "new", Arc::new(Declines)).await;
    let result = call(&connection, "task", &arguments).await.unwrap();
    assert_eq!(told(&result), "done");
    assert_eq!(ids(&sent(&place, &run), "tasks/get").len(), 4);
    connection.client().leave().await;
}

#[tokio::test]
async fn a_task_that_the_server_forgot_may_or_may_not_have_happened() {
    let place = place();
    for (more, words) in [
        (json!({ "lost": true, "ttl": 0 }), "for 0 ms"),
        (json!({ "lost": true }), "any more"),
    ] {
        let (_, arguments) = task(&place, more);
        let (_, connection) = start(&place, "new", Arc::new(Declines)).await;
        let gone = call(&connection, "task", &arguments).await.unwrap_err();
        assert!(gone.is_in_doubt());
        let said = gone.to_string();
        assert!(
            said.contains(words) && said.contains("may or may not"),
            "{said}"
        );
        connection.client().leave().await;
    }
}

#[tokio::test]
async fn a_task_that_is_not_wanted_any_more_is_cancelled_as_one() {
    let place = place();
    let (state, arguments) = task(&place, json!({ "polls": 1000 }));
    let (run, connection) = start(&place, "new", Arc::new(Declines)).await;
    drop_when(connection.call("call_1", "task", &arguments, false), || {
        !ids(&sent(&place, &run), "tasks/get").is_empty()
    })
    .await;
    connection.cancel("call_1", "not needed").await;
    assert!(add(&state, "cancelled").exists());
    let cancelled = "notifications/cancelled";
    assert!(
        sent(&place, &run)
            .iter()
            .all(|message| message["method"] != cancelled)
    );
    connection.client().leave().await;
}

#[tokio::test]
async fn prompts_and_resources_are_listed_and_read() {
    let place = place();
    for mode in ["old", "new"] {
        let (_, connection) = start(&place, mode, Arc::new(Declines)).await;
        assert_eq!(
            connection.prompts(LIMIT).await.unwrap()[0].arguments[0].name,
            "file"
        );
        let arguments = BTreeMap::from([("file".to_string(), "a.rs".to_string())]);
        let prompt = connection
            .get_prompt("review", &arguments, LIMIT)
            .await
            .unwrap();
        assert_eq!(prompt[0].part, ResultPart::Text("Review \"a.rs\"".into()));
        assert_eq!(connection.resources(LIMIT).await.unwrap()[0].uri, "a:b");
        let read = connection.read_resource("a:b", LIMIT).await.unwrap();
        assert_eq!(read, [ResultPart::Text("inside".into())]);
        connection.client().leave().await;
    }
}

/// The server does not hear of it, so the call itself would be made again.
#[tokio::test]
async fn a_call_that_wants_an_address_opened_is_over_when_that_is_declined() {
    let place = place();
    let arguments = json!({ "file": place.effects(), "text": "x" });
    let (_, connection) = start(&place, "old", Arc::new(Declines)).await;
    let declined = call(&connection, "visits", &arguments).await.unwrap_err();
    assert!(matches!(declined, McpError::Refused(_)), "{declined}");
    assert_eq!(place.appended(), ["x"]);
    connection.client().leave().await;
    // Who opens it has the call made again.
    let place = self::place();
    let arguments = json!({ "file": place.effects(), "text": "x" });
    let person = Arc::new(Person::default());
    let (_, connection) = start(&place, "old", person.clone()).await;
    call(&connection, "visits", &arguments).await.unwrap();
    assert_eq!(place.appended(), ["x", "x"]);
    assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    connection.client().leave().await;
}

/// A server that counts from the beginning, as one whose session was renewed does.
#[tokio::test]
async fn a_question_with_an_id_that_was_used_before_is_asked() {
    let place = place();
    let person = Arc::new(Person::default());
    let (run, first) = start(&place, "old", person.clone()).await;
    call(&first, "asks_old", &json!({})).await.unwrap();
    drop(first);
    let second = reopen(&place, &run, person.clone()).await;
    let arguments = json!({});
    let called = second.call("call_2", "asks_old", &arguments, false);
    let called = tokio::time::timeout(LIMIT, called).await;
    called.expect("waited too long").unwrap();
    assert_eq!(person.asked.load(Ordering::Relaxed), 2);
    second.client().leave().await;
}
