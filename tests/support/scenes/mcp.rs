//! A server `far`, spoken by the test program itself.

use serde_json::{Value, json};

use crate::scenes::{SCRIPTED, play, step};
use crate::{Home, spoken};

/// A home with the server `far`, which says this of its tools, and a model that looks for its tools
/// and then calls these.
pub fn home(more: &str, says: &Value, calls: &[(&str, Value)]) -> Home {
    let home = Home::new();
    configure(&home, more, says);
    let mut steps = vec![step("", &[("mcp_find", json!({ "query": "" }))])];
    for (tool, arguments) in calls {
        let call = json!({ "tool": format!("mcp__far__{tool}"), "arguments": arguments });
        steps.push(step("", &[("mcp_call", call)]));
    }
    steps.push(step("done", &[]));
    play(&home, &steps);
    home
}

pub fn configure(home: &Home, more: &str, says: &Value) {
    let program = std::env::current_exe().unwrap();
    let args = spoken::arguments(spoken::ITSELF);
    home.write_config(&format!(
        "{SCRIPTED}{more}\n[mcp_servers.far]\ncommand = {:?}\nargs = {args:?}\n{}\n\
         [mcp_servers.far.env]\n{} = \"tools\"\n{} = '''{says}'''\n",
        program.to_str().unwrap(),
        match more.contains("TRUSTED") {
            true => "trust_annotations = true",
            false => "",
        },
        spoken::ASKED,
        spoken::SAYS
    ));
}

pub fn append(home: &Home, text: &str, ms: u64) -> (&'static str, Value) {
    (
        "append",
        json!({ "file": home.path("effects"), "text": text, "ms": ms }),
    )
}

/// With a call of `append`, which needs to know where the home is.
pub fn appending(more: &str, says: &Value, ms: u64) -> Home {
    appending_so(more, says, |arguments, _| arguments["ms"] = json!(ms))
}

/// The same with a call that lasts until the file `go` is there.
pub fn appending_until_go() -> Home {
    appending_so(ALLOWED, &json!({}), |arguments, home| {
        arguments["until"] = json!(home.path("go"));
    })
}

pub fn appending_so(more: &str, says: &Value, set: impl Fn(&mut Value, &Home)) -> Home {
    let home = home(more, says, &[]);
    let (tool, mut arguments) = append(&home, "one", 0);
    set(&mut arguments, &home);
    let call = json!({ "tool": format!("mcp__far__{tool}"), "arguments": arguments });
    play(
        &home,
        &[
            step("", &[("mcp_find", json!({ "query": "" }))]),
            step("", &[("mcp_call", call)]),
            step("done", &[]),
        ],
    );
    home
}

pub const ALLOWED: &str = "[permissions]\nallow = [\"mcp__far\"]";
