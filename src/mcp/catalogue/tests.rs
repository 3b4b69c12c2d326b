//! Tests of the catalogue: storing, loading, naming and refusing tools of servers.

use serde_json::json;

use super::*;
use crate::config::Origin;
use crate::config::mcp::{McpServer, ServerSource};
use crate::mcp::era::Era;

pub(crate) fn found(name: &str, server: McpServer) -> FoundServer {
    FoundServer {
        name: name.into(),
        source: ServerSource::User,
        origin: Origin::Default,
        hash: format!("hash of {name}"),
        access: None,
        server,
    }
}

fn servers(found: Vec<FoundServer>) -> FoundServers {
    FoundServers {
        servers: found,
        notes: Vec::new(),
    }
}

fn usual(name: &str) -> FoundServer {
    found(name, McpServer::default())
}

fn known(name: &str) -> NegotiatedServer {
    NegotiatedServer {
        era: Era::Handshake,
        version: "2025-11-25".into(),
        name: name.into(),
        instructions: "for files".into(),
        has_tools: true,
        has_prompts: false,
        has_resources: false,
        tells_changes: true,
    }
}

fn listing(names: &[&str]) -> Listing {
    let mut listing = Listing::default();
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({ "name": name, "description": format!("does {name}"),
                "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } })
        })
        .collect();
    listing.take(&json!({ "tools": tools }));
    listing
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

fn full_names(catalogue: &Catalogue) -> Vec<&str> {
    let tools = catalogue.tools();
    tools.map(|(_, tool)| tool.full_name.as_str()).collect()
}

#[test]
fn a_server_listing_is_kept_until_the_definition_changes() {
    let (_folder, mut store) = store();
    let files = usual("files");
    keep(
        &mut store,
        "files",
        &files.hash,
        &known("fs 1"),
        &listing(&["read", "write"]),
        7,
    )
    .unwrap();
    let catalogue = Catalogue::load(&store, &servers(vec![files.clone()])).unwrap();
    assert_eq!(
        full_names(&catalogue),
        ["mcp__files__read", "mcp__files__write"]
    );
    let (server, tool) = catalogue.lookup("mcp__files__write").unwrap();
    assert_eq!(
        (server.at_ms, server.calls_itself.as_str()),
        (Some(7), "fs 1")
    );
    assert_eq!(tool.annotations, json!({ "readOnlyHint": true }));
    assert_eq!(tool.hash, listing(&["write"]).tools[0].hash());
    let changed = FoundServer {
        hash: "another".into(),
        ..files
    };
    let catalogue = Catalogue::load(&store, &servers(vec![changed, usual("other")])).unwrap();
    assert_eq!(full_names(&catalogue), [""; 0]);
    assert_eq!(catalogue.unknown().collect::<Vec<_>>(), ["files", "other"]);
}

#[test]
fn an_unreadable_catalogue_entry_counts_as_unknown() {
    let (_folder, store) = store();
    for body in [
        "",
        "{",
        "[]",
        r#"{"name":7}"#,
        r#"{"name":"a","tools":[{}]}"#,
    ] {
        let said = Catalogued {
            at_ms: 1,
            body: body.into(),
        };
        let files = usual("files");
        store
            .catalogue()
            .store_catalogued("files", &files.hash, &said)
            .unwrap();
        let catalogue = Catalogue::load(&store, &servers(vec![files])).unwrap();
        assert_eq!(catalogue.unknown().collect::<Vec<_>>(), ["files"], "{body}");
    }
}

#[test]
fn a_list_that_is_too_long_is_kept_as_far_as_there_is_room() {
    let mut long = listing(&["a", "b"]);
    let mut many = Listing::default();
    for n in 0..100 {
        let mut tool = long.tools[0].clone();
        tool.name = format!("t{n}");
        tool.schema = json!({ "type": "object", "description": "x".repeat(60_000) });
        many.tools.push(tool);
    }
    long.tools.extend(many.tools);
    let (_folder, mut store) = store();
    let files = usual("files");
    keep(&mut store, "files", &files.hash, &known("fs"), &long, 7).unwrap();
    let catalogue = Catalogue::load(&store, &servers(vec![files.clone()])).unwrap();
    let kept = catalogue.tools().count();
    assert!((60..80).contains(&kept), "{kept}");
    let body = store
        .catalogue()
        .catalogued("files", &files.hash)
        .unwrap()
        .unwrap()
        .body;
    assert!(body.len() < KEPT_MAX_BYTES + 100_000, "{}", body.len());
}

#[test]
fn tool_names_do_not_depend_on_other_servers() {
    let strange = listing(&["do.it", "bash", "mcp_call", &"x".repeat(90)]);
    let alone = SessionCatalogue::unknown(servers(vec![usual("s")]));
    alone.learnt("s", &known("s"), &strange, 1);
    let with_others = SessionCatalogue::unknown(servers(vec![usual("a"), usual("s"), usual("z")]));
    with_others.learnt("s", &known("s"), &strange, 1);
    with_others.learnt("a", &known("a"), &strange, 1);
    with_others.learnt("z", &known("z"), &strange, 1);
    let names = |catalogue: &SessionCatalogue, server: &str| -> Vec<String> {
        let now = catalogue.now();
        let tools = now.tools().filter(|(of, _)| of.name == server);
        tools.map(|(_, tool)| tool.full_name.clone()).collect()
    };
    assert_eq!(names(&alone, "s"), names(&with_others, "s"));
    assert_eq!(names(&alone, "s").len(), 4);
    // A name of a tool of ours has no such beginning.
    assert!(
        names(&alone, "s")
            .iter()
            .all(|name| name.starts_with("mcp__s__"))
    );
}

/// A repository could call its server so that its tools have the full names of another's.
#[test]
fn two_tools_of_one_server_whose_names_meet_can_both_be_called() {
    let met = tool_name("s", "a.b");
    let literal = met.strip_prefix("mcp__s__").unwrap();
    let catalogue = SessionCatalogue::unknown(servers(vec![usual("s")]));
    catalogue.learnt("s", &known("s"), &listing(&["a.b", literal]), 1);
    let now = catalogue.now();
    let (_, tool) = now.lookup(&met).unwrap();
    assert_eq!(tool.name, "a.b");
    let apart = tool_name_apart("s", literal);
    let (server, tool) = now.lookup(&apart).unwrap();
    assert_eq!(tool.name, literal);
    assert_eq!(server.renamed.iter().collect::<Vec<_>>(), [&apart]);
}

/// One tool, described in these words.
fn described(words: &str) -> Listing {
    let mut listing = listing(&["send"]);
    listing.tools[0].description = words.into();
    listing
}

#[test]
fn former_descriptions_of_a_changed_tool_are_kept() {
    let (_folder, mut store) = store();
    let files = usual("files");
    let mut keeps = |words: &str| {
        let listing = described(words);
        keep(&mut store, "files", &files.hash, &known("f"), &listing, 7).unwrap();
        let catalogue = Catalogue::load(&store, &servers(vec![files.clone()])).unwrap();
        let former = catalogue.servers[0].former.iter();
        former.map(|t| t.description.clone()).collect::<Vec<_>>()
    };
    assert_eq!(keeps("one"), [""; 0]);
    assert_eq!(keeps("one"), [""; 0]);
    assert_eq!(keeps("two"), ["one"]);
    assert_eq!(keeps("three"), ["two", "one"]);
    // What it says again is former no more.
    assert_eq!(keeps("one"), ["three", "two"]);
    for n in 0..200 {
        keeps(&format!("{n}"));
    }
    assert_eq!(keeps("last").len(), FORMER_MAX);
    // Also under another definition, before its server is asked.
    let newer = FoundServer {
        hash: "another".into(),
        ..files.clone()
    };
    let catalogue = Catalogue::load(&store, &servers(vec![newer])).unwrap();
    assert_eq!(catalogue.servers[0].former[0].description, "last");
    assert!(!catalogue.servers[0].is_known());
    let session = SessionCatalogue::unknown(servers(vec![files.clone()]));
    session.learnt("files", &known("f"), &described("one"), 1);
    session.learnt("files", &known("f"), &described("two"), 2);
    let now = session.now();
    let former = &now.servers[0].former[0];
    assert_eq!(former.description, "one");
    assert_eq!(former.hash, described("one").tools[0].hash());
}

#[test]
fn a_tool_that_cannot_be_called_is_refused_with_similar_names() {
    let off = McpServer {
        disabled_tools: vec!["delete".into()],
        ..McpServer::default()
    };
    let only = McpServer {
        enabled_tools: Some(vec!["add".into()]),
        ..McpServer::default()
    };
    let found = vec![found("files", off), found("memory", only), usual("late")];
    let catalogue = SessionCatalogue::unknown(servers(found));
    catalogue.learnt(
        "files",
        &known("f"),
        &listing(&["read_file", "write_file", "delete"]),
        1,
    );
    catalogue.learnt("memory", &known("m"), &listing(&["add", "drop"]), 1);
    let now = catalogue.now();
    assert_eq!(now.check("mcp__files__read_file"), Ok(()));
    assert_eq!(now.check("mcp__memory__add"), Ok(()));
    let why = |name: &str| now.check(name).unwrap_err();
    assert_eq!(
        why("mcp__files__delete"),
        "mcp__files__delete is switched off in the config"
    );
    assert_eq!(
        why("mcp__memory__drop"),
        "mcp__memory__drop is switched off in the config"
    );
    assert_eq!(
        why("mcp__files__raed_file"),
        "there is no tool \"mcp__files__raed_file\" of a server; near to it: mcp__files__read_file"
    );
    assert!(why("mcp__file__write_file").ends_with("near to it: mcp__files__write_file"));
    assert!(why("mcp__late__anything").contains("late are not known yet"));
    assert!(why("mcp__q__zzzzzzzzzz").ends_with("mcp_find lists those that there are"));
    assert!(why("mcp__").ends_with("mcp_find lists those that there are"));
}

#[test]
fn clones_of_a_catalogue_share_listings_and_detect_repeats() {
    let catalogue = SessionCatalogue::unknown(servers(vec![usual("files")]));
    let other = catalogue.clone();
    let before = other.now();
    assert!(catalogue.learnt("files", &known("f"), &listing(&["read"]), 1));
    assert!(!catalogue.learnt("files", &known("f"), &listing(&["read"]), 2));
    assert!(catalogue.learnt("files", &known("f"), &listing(&["read", "write"]), 3));
    assert!(!catalogue.learnt("nobody", &known("f"), &listing(&["read"]), 3));
    assert_eq!(before.tools().count(), 0, "who looks sees one state");
    assert_eq!(other.now().tools().count(), 2);
    // A server without tools is known, too.
    let empty = SessionCatalogue::unknown(servers(vec![usual("none")]));
    assert!(empty.learnt("none", &known("n"), &Listing::default(), 1));
    assert_eq!(empty.now().unknown().count(), 0);
}
