//! The schema of the protocol, and the check of each line against it.
//!
//! The root of the schema accepts anything, so a line is checked against the definition whose
//! `x-method` and `x-side` match, and a result against the response type of its request.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

const SCHEMA: &str = include_str!("schema/schema.json");

struct Definitions {
    schemas: Schemas,
    /// By method, side and kind: `Request`, `Response` or `Notification`.
    by_method: BTreeMap<(String, String, &'static str), SchemaIndex>,
    error: SchemaIndex,
    id: SchemaIndex,
}

fn definitions() -> &'static Definitions {
    static READ: OnceLock<Definitions> = OnceLock::new();
    READ.get_or_init(|| {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let mut compiler = Compiler::new();
        compiler.add_resource("acp.json", schema.clone()).unwrap();
        let mut schemas = Schemas::new();
        let mut compile = |name: &str| {
            let place = format!("acp.json#/$defs/{name}");
            compiler.compile(&place, &mut schemas).unwrap()
        };
        let (error, id) = (compile("Error"), compile("RequestId"));
        let mut by_method = BTreeMap::new();
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            let Some(method) = definition["x-method"].as_str() else {
                continue;
            };
            let kinds = ["Request", "Response", "Notification"];
            let kind = kinds.into_iter().find(|kind| name.ends_with(kind)).unwrap();
            let side = definition["x-side"].as_str().unwrap();
            by_method.insert((method.into(), side.into(), kind), compile(name));
        }
        Definitions {
            schemas,
            by_method,
            error,
            id,
        }
    })
}

/// Fails unless the line of the agent is valid. `asked`: the method of the request that it answers.
#[track_caller]
pub fn check(line: &Value, asked: Option<&str>) {
    let all = definitions();
    assert_eq!(line["jsonrpc"], "2.0", "{line}");
    let is = |value: &Value, schema: SchemaIndex| {
        if let Err(why) = all.schemas.validate(value, schema) {
            panic!("{why:#}\n{line}");
        }
    };
    let find = |method: &str, sides: &[&str], kind: &'static str| {
        let found = sides.iter().find_map(|side| {
            let key = (method.to_string(), side.to_string(), kind);
            all.by_method.get(&key).copied()
        });
        found.unwrap_or_else(|| panic!("the schema has no {kind} {method}: {line}"))
    };
    match (line.get("method"), line.get("id"), line.get("error")) {
        (Some(method), Some(id), None) => {
            is(id, all.id);
            let method = method.as_str().unwrap();
            is(&line["params"], find(method, &["client"], "Request"));
        }
        (Some(method), None, None) => {
            let method = method.as_str().unwrap();
            let sides = ["client", "protocol"];
            is(&line["params"], find(method, &sides, "Notification"));
        }
        (None, Some(id), Some(error)) => {
            is(id, all.id);
            is(error, all.error);
        }
        (None, Some(id), None) => {
            is(id, all.id);
            let method = asked.unwrap_or_else(|| panic!("nobody asked for it: {line}"));
            is(&line["result"], find(method, &["agent"], "Response"));
        }
        _ => panic!("not a message: {line}"),
    }
}
