//! Servers of the user and of a repository: the right to define them, and the warnings.

use super::*;
use crate::config::testing::Fixture;
use crate::config::{Env, Loaded};

const FILES: &str =
    "{\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}}";

fn mcp_json(f: &Fixture, text: &str) {
    std::fs::write(f.root().join(".mcp.json"), text).unwrap();
}

fn load(f: &Fixture) -> Loaded {
    f.load(&[], &[]).unwrap()
}

fn env(vars: &[(&str, &str)]) -> Env {
    Env::new(vars.iter().copied(), "/")
}

fn found(f: &Fixture, vars: &[(&str, &str)]) -> FoundServers {
    find(&env(vars), &load(f))
}

fn names(found: &FoundServers) -> Vec<&str> {
    found
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect()
}

/// Returns the warnings of the next start, without the temporary folder.
fn warnings(f: &Fixture) -> Vec<String> {
    load(f)
        .warnings
        .iter()
        .map(|w| f.short(&w.to_string()))
        .collect()
}

fn notes(f: &Fixture, vars: &[(&str, &str)]) -> Vec<String> {
    found(f, vars)
        .notes
        .iter()
        .map(|note| f.short(note))
        .collect()
}

#[test]
fn the_users_own_servers_are_used_with_the_defaults() {
    let f = Fixture::new();
    f.user(
        "[mcp_servers.files]\ncommand = \"npx\"\nenv = { A = \"${B:-x}\" }\ntrust_annotations = true\n\
         sandbox = \"workspace\"\n[mcp_servers.off]\ncommand = \"x\"\nenabled = false\n\
         [mcp_servers.far]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"T\"\n",
    );
    let found = found(&f, &[("T", " tok "), ("HOME", "/h")]);
    assert_eq!(names(&found), ["far", "files"]);
    assert_eq!(found.notes, [""; 0]);
    let far = &found.servers[0].server;
    assert_eq!(far.headers["Authorization"], "Bearer tok");
    let files = &found.servers[1].server;
    assert_eq!(files.env["A"], "x");
    assert_eq!(
        (files.trust_annotations, files.sandbox),
        (true, Some(Access::Workspace))
    );
    assert_eq!(
        (files.startup_timeout_sec, files.tool_timeout_sec),
        (10.0, None)
    );
    assert_eq!((files.idle_timeout_sec, files.enabled), (900, true));
    let origin = f.short(&found.servers[1].origin.to_string());
    assert!(origin.starts_with("config/config.toml:"), "{origin}");
}

#[test]
fn an_invalid_server_of_the_user_is_reported_with_its_line() {
    let long = "a".repeat(33);
    let table = [
        (
            "[mcp_servers.x]\ncommand = \"a\"\nurl = \"http://h\"",
            ":2: mcp_servers.x has both a command and a url",
            "a url",
        ),
        (
            "[mcp_servers.x]\nargs = [\"a\"]",
            ":2: mcp_servers.x has neither a command nor a url",
            "a url",
        ),
        (
            "[mcp_servers.\"a b\"]\ncommand = \"a\"",
            ":2: mcp_servers.\"a b\" is not a server name",
            "",
        ),
        (
            &format!("[mcp_servers.{long}]\ncommand = \"a\""),
            "is not a server name",
            "",
        ),
        (
            "[mcp_servers.x]\nurl = \"ftp://h\"",
            ":2: mcp_servers.x.url is not an http:// or https:// address",
            "",
        ),
        (
            "[mcp_servers.x]\ncommand = \"a\"\nheaders = { A = \"b\" }",
            ":3: mcp_servers.x.headers has no place",
            "",
        ),
        (
            "[mcp_servers.x]\nurl = \"http://h\"\nheaders = { A = \"b\\nsecret\" }",
            ":3: mcp_servers.x.headers.A is not a valid header",
            "",
        ),
        (
            "[mcp_servers.x]\ncommand = \"a\"\nstartup_timeout_sec = 0",
            ":3: mcp_servers.x.startup_timeout_sec must be from 0.1",
            "",
        ),
        (
            "[mcp_servers.x]\ncommand = \"a\"\ntrust_annotations = \"all\"",
            ":3: mcp_servers.x.trust_annotations must be true or false",
            "",
        ),
        (
            "[mcp_servers.x]\ncomand = \"a\"",
            ":2: unknown key \"comand\"",
            "did you mean \"command\"?",
        ),
        (
            "[mcp_servers.x]\ncommand = \"a\"\n[mcp_servers.x]\nurl = \"a\"",
            ":3: ",
            "",
        ),
    ];
    for (text, message, hint) in table {
        let f = Fixture::new();
        f.user(text);
        let error = f.load(&[], &[]).unwrap_err();
        let said = f.short(&error.to_string());
        assert!(
            said.starts_with("config/config.toml:") && said.contains(message),
            "{said}"
        );
        assert!(error.hint().unwrap_or_default().contains(hint), "{error:?}");
        assert!(!said.contains("secret"), "{said}");
    }
    let f = Fixture::new();
    let many: String = (0..1_000)
        .map(|n| format!("[mcp_servers.s{n}]\ncommand = \"a\"\n"))
        .collect();
    f.user(&many);
    let error = f.load(&[], &[]).unwrap_err().to_string();
    assert!(error.contains("has 1000 servers, more than 100"), "{error}");
}

#[test]
fn a_repository_starts_nothing_until_it_is_trusted_and_a_change_takes_out_that_one() {
    let f = Fixture::new();
    let two = |args: &str| {
        format!(
            "{{\"mcpServers\": {{\"files\": {{\"command\": \"npx\", \"args\": [{args}]}}, \
             \"git\": {{\"command\": \"git-mcp\"}}}}}}"
        )
    };
    mcp_json(&f, &two("\"a\""));
    f.project("[mcp_servers.own]\ncommand = \"own\"\n");
    assert_eq!(names(&found(&f, &[])), [""; 0]);
    assert_eq!(
        warnings(&f),
        [format!(
            "MCP servers of {} are not used, since the folder is not trusted: own (.rewake/config.toml), \
             files (.mcp.json), git (.mcp.json)\nhint: `rewake mcp list` shows them; `rewake trust` trusts \
             the folder",
            f.short(&f.root().display().to_string())
        )]
    );
    assert!(load(&f).project.needs_trust());
    f.trust();
    assert_eq!(names(&found(&f, &[])), ["files", "git", "own"]);
    assert_eq!(warnings(&f), [""; 0]);
    assert!(!load(&f).project.needs_trust());
    // Order and blanks are no change; another argument is one.
    mcp_json(
        &f,
        "{\"mcpServers\":{\n\"git\":{\"command\":\"git-mcp\"},\n\"files\":{\"args\":[\"a\"],\"command\":\"npx\"}}}",
    );
    assert_eq!(names(&found(&f, &[])), ["files", "git", "own"]);
    mcp_json(&f, &two("\"b\""));
    assert_eq!(names(&found(&f, &[])), ["git", "own"]);
    let said = warnings(&f).concat();
    assert!(
        said.contains("are not used: files (.mcp.json, changed since it was trusted)\n"),
        "{said}"
    );
    let project = load(&f).project;
    let differences: Vec<String> = project
        .differences()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        differences,
        ["server files (.mcp.json) = npx b\n  access in the sandbox: workspace (changed)"]
    );
    // A bad server does not keep the rest of the config from being used, nor the other way round.
    f.project("max_turns = 3\n[mcp_servers.own]\ncommand = \"other\"\n[mcp_servers.more]\ncommand = \"more\"\n");
    assert_eq!(names(&found(&f, &[])), ["git"]);
    assert!(
        warnings(&f)
            .concat()
            .contains("more (.rewake/config.toml, new since the folder was trusted)")
    );
    f.trust();
    assert_eq!(names(&found(&f, &[])), ["files", "git", "more", "own"]);
    f.project("max_turns = 3\n");
    assert_eq!(load(&f).config.max_turns, Some(3));
    assert_eq!(names(&found(&f, &[])), ["files", "git"]);
    assert!(crate::config::trust::untrust(&f.paths(), &f.root()).unwrap());
    assert_eq!(names(&found(&f, &[])), [""; 0]);
}

#[test]
fn the_hash_is_of_the_definition_before_it_is_expanded() {
    let f = Fixture::new();
    mcp_json(&f, "{\"mcpServers\":{\"a\":{\"command\":\"${C:-x}\"}}}");
    f.trust();
    let hash = |vars: &[(&str, &str)]| {
        let found = found(&f, vars);
        let [server] = &found.servers[..] else {
            panic!("{found:?}");
        };
        (server.server.command.clone().unwrap(), server.hash.clone())
    };
    let ((one, hash_of_one), (other, hash_of_other)) = (hash(&[]), hash(&[("C", "y")]));
    assert_eq!((one.as_str(), other.as_str()), ("x", "y"));
    assert_eq!(hash_of_one, hash_of_other);
    assert_eq!(hash_of_one.len(), 64);
    let kept = std::fs::read_to_string(f.paths().config_dir.join("trusted.toml")).unwrap();
    assert!(
        kept.contains(&hash_of_one) && kept.contains(".mcp.json"),
        "{kept}"
    );
}

#[test]
fn a_repository_cannot_take_the_name_of_a_server_of_the_user() {
    let long = "a-server-with-a-long-name-here";
    let short = names::server_part(long);
    for (own, theirs) in [("files", "files"), (long, short.as_str())] {
        for enabled in [true, false] {
            let f = Fixture::new();
            f.user(&format!(
                "[mcp_servers.{own}]\ncommand = \"mine\"\nenabled = {enabled}\n"
            ));
            mcp_json(&f, &FILES.replacen("files", theirs, 1));
            f.project(&format!("[mcp_servers.{theirs}]\ncommand = \"nearest\"\n"));
            f.trust();
            let found = found(&f, &[]);
            let commands = found.servers.iter().map(|s| s.server.command.as_deref());
            let used: &[_] = if enabled { &[Some("mine")] } else { &[] };
            assert_eq!(commands.collect::<Vec<_>>(), used);
            let note = |file: &str| {
                format!(
                    "server {theirs:?}: the one of config/config.toml:2 is used, not the one of root/{file}"
                )
            };
            let notes = notes(&f, &[]);
            assert_eq!(notes, [note(".rewake/config.toml:2"), note(".mcp.json:1")]);
        }
    }
}

#[test]
fn of_two_servers_of_a_repository_the_nearer_is_used() {
    let f = Fixture::new();
    mcp_json(&f, FILES);
    f.project("[mcp_servers.files]\ncommand = \"nearest\"\n");
    f.trust();
    let found = found(&f, &[]);
    let [server] = &found.servers[..] else {
        panic!("{found:?}");
    };
    assert_eq!(server.server.command.as_deref(), Some("nearest"));
    assert_eq!(notes(&f, &[]).len(), 1);
}

#[test]
fn settings_that_loosen_a_server_count_only_in_the_user_config() {
    let f = Fixture::new();
    f.project(
        "[mcp_servers.a]\ncommand = \"a\"\ntrust_annotations = true\nsandbox = \"full\"\n\
         [mcp_servers.b]\ncommand = \"b\"\nsandbox = \"read\"\n",
    );
    f.trust();
    let found = found(&f, &[]);
    let said: Vec<_> = found
        .servers
        .iter()
        .map(|s| (s.server.trust_annotations, s.server.sandbox))
        .collect();
    assert_eq!(said, [(false, None), (false, Some(Access::Read))]);
    assert_eq!(
        notes(&f, &[]),
        [
            "server \"a\" of root/.rewake/config.toml:2: not used, since only your own config says it: trust_annotations, sandbox = \"full\""
        ]
    );
}

#[test]
fn no_key_of_a_provider_goes_to_a_server_of_a_repository() {
    let key = ("LOCAL_KEY", "sk-0123456789abcdef");
    let asks = [
        "\"command\":\"x\",\"env\":{\"A\":\"${LOCAL_KEY}\"}",
        "\"command\":\"x\",\"args\":[\"--key=${LOCAL_KEY:-}\"]",
        "\"command\":\"${LOCAL_KEY}\"",
        "\"command\":\"x\",\"cwd\":\"/${LOCAL_KEY}\"",
        "\"url\":\"https://h/${LOCAL_KEY}\"",
        "\"url\":\"https://h/\",\"headers\":{\"A\":\"Bearer ${LOCAL_KEY}\"}",
        "\"command\":\"x\",\"env\":{\"A\":\"${ANTHROPIC_API_KEY:-none}\"}",
        "\"command\":\"x\",\"env\":{\"A\":\"${COPY}\"}",
    ];
    for asked in asks {
        let f = Fixture::new();
        f.user("[providers.l]\nprotocol = \"gemini\"\nbase_url = \"http://h\"\napi_key_env = \"LOCAL_KEY\"\n");
        // The folder names another variable in its place, which does not make the first one free.
        f.project("[providers.l]\napi_key_env = \"OTHER\"\n");
        mcp_json(
            &f,
            &format!("{{\"mcpServers\":{{\"a\":{{{asked}}}, \"b\":{{\"command\":\"y\"}}}}}}"),
        );
        f.trust();
        let vars = [key, ("COPY", "Bearer sk-0123456789abcdef")];
        let found = find(&env(&vars), &f.load(&vars, &[]).unwrap());
        assert_eq!(names(&found), ["b"], "{asked}");
        let [note] = &found.notes[..] else {
            panic!("{asked}: {found:?}");
        };
        assert!(
            note.contains("the key of a provider") && note.contains("your own config"),
            "{note}"
        );
        assert!(!format!("{found:?}").contains("sk-0123"), "{found:?}");
    }
    let f = Fixture::new();
    f.project("[mcp_servers.a]\nurl = \"https://h\"\nbearer_token_env_var = \"OPENAI_API_KEY\"\n");
    f.trust();
    assert!(notes(&f, &[])[0].contains("it asks for OPENAI_API_KEY"));
    let said = &notes(&f, &[])[0];
    assert!(said.contains("your own config"), "{said}");
    // The user may give it to their own.
    let f = Fixture::new();
    f.user("[mcp_servers.a]\ncommand = \"x\"\nenv = { A = \"${OPENAI_API_KEY}\" }\n");
    let found = found(&f, &[("OPENAI_API_KEY", "sk-0123456789abcdef")]);
    assert_eq!(found.servers[0].server.env["A"], "sk-0123456789abcdef");
}

#[test]
fn a_variable_that_is_not_set_takes_out_that_server_alone() {
    let f = Fixture::new();
    f.user("[mcp_servers.a]\ncommand = \"x\"\nargs = [\"${NONE}\"]\n[mcp_servers.b]\ncommand = \"y\"\n");
    assert_eq!(names(&found(&f, &[])), ["b"]);
    assert_eq!(
        notes(&f, &[]),
        [
            "server \"a\" of config/config.toml:2 is not used: the variable NONE is not set; set NONE, or write ${NONE:-otherwise}"
        ]
    );
    assert_eq!(names(&found(&f, &[("NONE", "1")])), ["a", "b"]);
    f.user("[mcp_servers.a]\nurl = \"https://h\"\nbearer_token_env_var = \"TOK\"\n");
    assert!(notes(&f, &[])[0].ends_with("the variable TOK is not set; set TOK to the token"));
}

#[test]
fn errors_in_mcp_json_name_their_place_and_stop_nothing() {
    let f = Fixture::new();
    f.user("[mcp_servers.mine]\ncommand = \"x\"\n");
    let big = " ".repeat(10 * 1024 * 1024);
    let many: Vec<String> = (0..1_000)
        .map(|n| format!("\"s{n}\":{{\"command\":\"x\"}}"))
        .collect();
    let many = format!("{{\"mcpServers\":{{{}}}}}", many.join(","));
    for (text, says) in [
        (
            "{\n\"mcpServers\": {\n\"a\": {\"command\" \"sk-1\"}}}",
            "root/.mcp.json:3: expected `:`",
        ),
        (
            "{\"mcpServers\": [\"sk-1\"]}",
            "root/.mcp.json:1: expected an object with a server for each name",
        ),
        (
            "\n\"sk-1\"",
            "root/.mcp.json:2: expected an object with \"mcpServers\"",
        ),
        ("{}", "root/.mcp.json: there is no \"mcpServers\" in it"),
        ("", "root/.mcp.json:1: EOF while parsing"),
        (&big, "it is larger than 1048576 bytes"),
        (&many, "it defines 1000 servers, more than 100"),
    ] {
        mcp_json(&f, text);
        let said = warnings(&f);
        assert!(
            said.len() == 1 && said[0].contains(says),
            "{says}: {said:?}"
        );
        assert!(
            said[0].contains("; no server of it is used") && !said[0].contains("sk-1"),
            "{said:?}"
        );
        assert_eq!(names(&found(&f, &[])), ["mine"]);
        assert!(crate::config::trust::content(&f.paths(), &f.root()).is_err());
    }
    std::fs::write(f.root().join(".mcp.json"), b"\xff").unwrap();
    assert!(warnings(&f)[0].contains("it is not UTF-8 text"));
}

#[test]
fn an_error_in_a_server_entry_removes_only_that_server() {
    for (entry, says) in [
        (
            "\"a\":{\"type\":\"carrier-pigeon\",\"command\":\"x\"}",
            "its type is \"carrier-pigeon\", and there are only stdio and http",
        ),
        (
            "\"a\":{\"type\":\"http\",\"command\":\"x\"}",
            "its type is http, and it has no url",
        ),
        (
            "\"a\":{\"type\":\"stdio\",\"url\":\"http://h\"}",
            "its type is stdio, and it has a url",
        ),
        (
            "\"a\":{\"command\":\"x\",\"url\":\"http://h\"}",
            "it has both a command and a url",
        ),
        ("\"a\":{\"args\":[]}", "it has neither a command nor a url"),
        ("\"a\":{\"command\":[\"x\"]}", "command must be a string"),
        (
            "\"a\":{\"command\":\"x\",\"env\":{\"A\":1}}",
            "env must be an object of strings",
        ),
        ("\"a\":\"sk-1\"", "it must be an object"),
        (
            "\"a\":{\"command\":\"x\"},\n\"a\":{\"command\":\"y\"}",
            "it is defined twice in this file",
        ),
        (
            "\"a\\u001b[31m b\":{\"command\":\"x\"}",
            "it is not a server name",
        ),
    ] {
        let f = Fixture::new();
        mcp_json(
            &f,
            &format!("{{\"mcpServers\":{{\n{entry},\n\"good\":{{\"command\":\"x\"}}}}}}"),
        );
        f.trust();
        assert_eq!(names(&found(&f, &[])), ["good"], "{entry}");
        let said = notes(&f, &[]);
        assert!(
            said.len() == 1 && said[0].contains(says),
            "{entry}: {said:?}"
        );
        assert!(
            said[0].contains("of root/.mcp.json:2 is not used: "),
            "{said:?}"
        );
        assert!(
            !said[0].contains('\u{1b}') && !said[0].contains("sk-1"),
            "{said:?}"
        );
    }
}

#[test]
fn mcp_json_written_for_other_agents_is_read() {
    let f = Fixture::new();
    mcp_json(
        &f,
        "{\"$schema\":\"x\",\"mcpServers\":{\"a\":{\"type\":\"http\",\"url\":\"https://h/${P:-mcp}\",\
         \"headers\":{\"X\":\"y\"},\"timeout\":1500,\"alwaysAllow\":[\"t\"]},\
         \"b\":{\"type\":\"stdio\",\"command\":\"x\",\"cwd\":\"sub\",\"disabled\":true},\
         \"c\":{\"type\":\"sse\",\"url\":\"http://h/sse\"}}}",
    );
    f.trust();
    let found = found(&f, &[]);
    assert_eq!(names(&found), ["a", "c"]);
    let a = &found.servers[0].server;
    assert_eq!(
        (a.url.as_deref(), a.tool_timeout_sec),
        (Some("https://h/mcp"), Some(1.5))
    );
    let loaded = load(&f);
    let states = server_states(&env(&[]), &loaded);
    assert_eq!(states[0].0.unused, ["alwaysAllow"]);
    assert_eq!(states[1].1, ServerState::Off);
}

#[test]
fn content_to_trust_shows_command_lines_but_no_header_values() {
    let f = Fixture::new();
    mcp_json(
        &f,
        "{\"mcpServers\":{\"a\":{\"command\":\"sh\",\"args\":[\"-c\",\"rm -rf x\\u001b[2K\\u202e\"],\
         \"env\":{\"NODE_OPTIONS\":\"--require ./e.js\"}},\
         \"b\":{\"url\":\"https://u:pw@h/mcp?key=sk-1&v=${V}\",\"headers\":{\"A\":\"sk-2 ${T}\"}}}}",
    );
    let lines = load(&f).project.content.lines(usize::MAX).join("\n");
    assert_eq!(
        lines,
        "server a (.mcp.json): sh -c \"rm -rf x\\u{1b}[2K\\u{202e}\"\n  env NODE_OPTIONS = \"--require ./e.js\"\n  access in the sandbox: workspace\n\
         server b (.mcp.json): https://…@h/mcp?… ${V}\n  header A: … ${T}"
    );
}

#[test]
fn debug_output_holds_no_values() {
    let f = Fixture::new();
    f.user(
        "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"sk-1\"]\nenv = { A = \"sk-2\" }\n\
         [mcp_servers.b]\nurl = \"https://u:sk-5@h/p?k=sk-3\"\nheaders = { B = \"sk-4\" }\n",
    );
    let loaded = load(&f);
    let text = format!("{:?}{:?}", loaded, find(&env(&[]), &loaded));
    assert!(!text.contains("sk-"), "{text}");
    assert!(text.contains("https://…@h/p?…"), "{text}");
}
