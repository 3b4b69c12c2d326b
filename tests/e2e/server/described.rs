//! `assets/openapi.json`: each route is in it and back, and each status that it names is given.

use std::collections::BTreeSet;

use rewake::server::{ROUTES, TokenScope};
use serde_json::{Value, json};

use crate::server::client::{Reply, Serve};
use crate::server::{done_session, scripted, step};

fn description() -> Value {
    let text = include_str!("../../../assets/openapi.json");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn every_route_is_described_with_its_scope() {
    let description = description();
    let paths = description["paths"].as_object().unwrap();
    let described: BTreeSet<(String, String, Option<String>)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap();
            methods.iter().map(move |(method, it)| {
                let scope = it["x-scope"].as_str().map(str::to_string);
                assert_eq!(scope.is_some(), it["security"] != json!([]), "{path}");
                (method.to_uppercase(), path.clone(), scope)
            })
        })
        .collect();
    let served = ROUTES.iter().map(|route| {
        let scope = route
            .scope
            .map(|scope: TokenScope| scope.name().to_string());
        (route.method.to_string(), route.path.to_string(), scope)
    });
    assert_eq!(served.collect::<BTreeSet<_>>(), described);
}

/// What each route can be brought to answer, against what is written of it.
#[test]
fn every_status_that_is_described_is_given() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &["--scope", "admin"]);
    let description = description();
    let mut given: BTreeSet<(String, String, u16)> = BTreeSet::new();
    let ask = |method: &str, path: &str, lines: &str, body: &str| -> Reply {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
        );
        server.raw(head.as_bytes())
    };
    let host = "Host: localhost\r\n";
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    let json_kind = "Content-Type: application/json\r\n";
    let good = format!("{host}{token}{json_kind}");
    for route in ROUTES {
        let path = route
            .path
            .replace("{id}", &id)
            .replace("{hash}", &"0".repeat(64))
            .replace("{call}", "1.0")
            .replace("{run}", "nothing");
        let missing = route.path.replace("{id}", "zzz").replace("{hash}", "x");
        let missing = missing.replace("{call}", "1.0").replace("{run}", "x");
        let method = route.method;
        let mut note = |reply: Reply| {
            let key = (method.to_string(), route.path.to_string(), reply.status);
            given.insert(key);
            if reply.status >= 400 {
                let problem = reply.json();
                assert!(
                    problem["error"].is_string() && problem["hint"].is_string(),
                    "{problem}"
                );
            }
        };
        note(ask(method, &path, "Host: evil.example\r\n", ""));
        note(ask(
            method,
            &path,
            &format!("{host}Origin: http://evil.example\r\n"),
            "",
        ));
        note(ask("DELETE", &path, &good, ""));
        if route.scope.is_none() {
            note(ask(method, &path, host, ""));
            continue;
        }
        note(ask(method, &path, host, ""));
        if route.path.contains('{') {
            let unreadable = route.path.replace("{id}", "%ff").replace("{hash}", "x");
            let unreadable = unreadable.replace("{call}", "x").replace("{run}", "%ff");
            note(ask(method, &unreadable, &good, "{}"));
        }
        // The stream of all sessions misses none, and never ends.
        if route.path != "/events" {
            let body = r#"{"text":"x","verdict":"allow","prompt":"x","title":"x"}"#;
            let body = match route.path.ends_with("/rewind") {
                true => r#"{"entry":1,"what":"files"}"#,
                false => body,
            };
            note(ask(method, &missing, &good, body));
        }
        for body in [
            "{",
            "[1]",
            "{}",
            r#"{"text":"x"}"#,
            r#"{"verdict":"allow"}"#,
            r#"{"answer":"decline"}"#,
            r#"{"title":"x"}"#,
            r#"{"entry":1,"what":"conversation","preview":true}"#,
        ] {
            if method != "GET" {
                note(ask(method, &missing, &good, body));
                note(ask(method, &path, &good, body));
            }
        }
        if method == "GET" {
            for query in [
                "?limit=x&from=x&tail=x",
                "?limit=0&from=5&to=3",
                "?session=zzz",
            ] {
                let is_stream = route.path.ends_with("/events") && !query.contains("from=x");
                if !is_stream {
                    note(ask(method, &format!("{path}{query}"), &good, ""));
                }
            }
            let path = if route.path.contains("{hash}") {
                missing.as_str()
            } else {
                &path
            };
            if !route.path.ends_with("/events") {
                note(ask(method, path, &good, ""));
            } else {
                let follow = server.follow(path, None);
                drop(follow);
                given.insert((method.into(), route.path.into(), 200));
            }
            continue;
        }
        note(ask(
            method,
            &path,
            &format!("{host}{token}Content-Type: text/plain\r\n"),
            "x",
        ));
        // With a key, the body is read for every route.
        let key = route.path.replace(['/', '{', '}'], "-");
        let large = format!("{good}Idempotency-Key: {key}\r\nExpect: 100-continue\r\n");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 99999999\r\n{large}\r\n"
        );
        note(server.raw(head.as_bytes()));
    }
    let prompt = json!({"prompt": "x", "folder": home.workspace()}).to_string();
    let key = |status| ("POST".to_string(), "/sessions".to_string(), status);
    given.insert(key(ask("POST", "/sessions", &good, &prompt).status));
    // What is described of each route, and what it takes other tests to bring about.
    let elsewhere = [409, 422, 429, 500, 503];
    let blob = (
        "GET".to_string(),
        "/sessions/{id}/blobs/{hash}".to_string(),
        200,
    );
    given.insert(blob);
    // In `routes`, where something is asked.
    let verdict = "/sessions/{id}/verdicts".to_string();
    given.insert(("POST".to_string(), verdict, 202));
    let answers = "/sessions/{id}/answers".to_string();
    given.insert(("POST".to_string(), answers, 202));
    // In `changed`, where something runs and files change.
    for path in ["/sessions/{id}/diff", "/sessions/{id}/calls/{call}/diff"] {
        given.insert(("GET".to_string(), path.to_string(), 200));
    }
    given.insert(("POST".to_string(), "/ps/{run}/stop".to_string(), 202));
    let change = "/sessions/{id}/calls/{call}/change".to_string();
    given.insert(("GET".to_string(), change, 200));
    let mut described = BTreeSet::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, it) in methods.as_object().unwrap() {
            for status in it["responses"].as_object().unwrap().keys() {
                described.insert((
                    method.to_uppercase(),
                    path.clone(),
                    status.parse::<u16>().unwrap(),
                ));
            }
        }
    }
    let undescribed: Vec<_> = given.difference(&described).collect();
    assert!(
        undescribed.is_empty(),
        "given and not described: {undescribed:#?}"
    );
    let never: Vec<_> = described
        .difference(&given)
        .filter(|(_, _, status)| !elsewhere.contains(status))
        .collect();
    assert!(never.is_empty(), "described and never given: {never:#?}");
}
