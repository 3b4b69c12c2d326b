//! Files with hooks in a user's folder and in a workspace, before and after trust.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::testing::Fixture;

/// A user's config folder and a workspace, with the hooks that are found there.
struct Place {
    fixture: Fixture,
}

impl Place {
    fn new() -> Place {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.root().join(".rewake/hooks")).unwrap();
        fs::create_dir_all(fixture.paths().config_dir).unwrap();
        Place { fixture }
    }

    fn root(&self) -> PathBuf {
        self.fixture.root().canonicalize().unwrap()
    }

    fn write(&self, name: &str, text: &str) -> &Place {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn with<T>(&self, act: impl FnOnce(HookPlaces<'_>) -> T) -> T {
        let (paths, root) = (self.fixture.paths(), self.root());
        act(HookPlaces {
            paths: &paths,
            root: &root,
            folder: &root,
            home: None,
            search_path: &["/usr/bin".into(), "/bin".into()],
        })
    }

    fn find(&self) -> Hooks {
        self.with(find_hooks).unwrap()
    }

    /// Trusts the hooks of the workspace as they are.
    fn trust(&self) {
        let files = self.with(|places| hooks_to_trust(places, |_, is_own| is_own));
        for file in files.unwrap() {
            trust::trust_hooks(&self.fixture.paths(), &file.path, file.hooks).unwrap();
        }
    }

    fn states(&self) -> Vec<String> {
        let state = |hook: &Hook| match &hook.state {
            HookState::Used => "used".to_string(),
            HookState::Untrusted => "untrusted".to_string(),
            HookState::Failed(why) => format!("failed: {why}"),
        };
        self.find().hooks.iter().map(state).collect()
    }

    /// Returns the hashes that the first hook must have, and whether its files have them now.
    fn is_as_trusted(&self) -> bool {
        let found = self.find();
        let mut files = found.hooks[0].files.iter();
        files.all(|(needed, trusted)| match trusted {
            Some(trusted) => hash_of_file(&needed.path).is_ok_and(|now| now == *trusted),
            None => true,
        })
    }
}

fn guard(command: &str) -> String {
    format!(
        r#"{{"hooks": {{"PreToolUse": [{{"matcher": "Bash", "hooks":
           [{{"type": "command", "command": "{command}"}}]}}]}}}}"#
    )
}

const FILE: &str = ".rewake/hooks.json";

#[test]
fn a_hook_of_the_workspace_needs_trust_by_content() {
    let place = Place::new();
    place.write("guard.sh", "exit 0");
    place.write(FILE, &guard("./guard.sh"));
    assert_eq!(place.states(), ["untrusted"]);
    assert!(
        place.find().warnings[0]
            .contains("1 hook of .rewake/hooks.json not run, because not trusted")
    );
    place.trust();
    assert_eq!(place.states(), ["used"]);
    assert!(place.is_as_trusted());
    place.write("guard.sh", "exit 1");
    assert!(!place.is_as_trusted());
    // Its file or its definition is another one, or gone: the trusted guard has failed.
    place.write(FILE, &guard("./guard.sh --lenient"));
    let changed = place.states();
    assert_eq!(changed[0], "untrusted");
    assert!(
        changed[1].starts_with("failed: it changed or is missing"),
        "{changed:?}"
    );
    fs::remove_file(place.root().join(FILE)).unwrap();
    assert!(place.states()[0].starts_with("failed: "));
    // Every call is under a failed guard, whatever the matcher was.
    place.write(FILE, "not JSON");
    let found = place.find();
    assert!(matches!(&found.hooks[..], [hook] if matches!(hook.matcher, Matcher::All)));
    assert!(place.states()[0].starts_with("failed: its file cannot be read"));
}

#[test]
fn the_trust_covers_named_files_and_folders_of_hooks() {
    let covered = [
        ("./guard.sh", "guard.sh"),
        ("sh guard.sh", "guard.sh"),
        ("python3 tools/guard.py --strict", "tools/guard.py"),
        (r#"\"$CLAUDE_PROJECT_DIR\"/guard.sh"#, "guard.sh"),
        ("cat rules.txt | sh guard.sh", "rules.txt"),
        ("sh .rewake/hooks/guard.sh", ".rewake/hooks/guard.sh"),
        // What a script beside it loads.
        ("sh .rewake/hooks/guard.sh", ".rewake/hooks/lib.sh"),
        ("grep -q x --file=rules.txt", "rules.txt"),
        ("if true; then sh guard.sh; fi", "guard.sh"),
        (
            r#"\"$(git rev-parse --show-toplevel)\"/guard.sh"#,
            "guard.sh",
        ),
        ("${CLAUDE_PROJECT_DIR:-.}/guard.sh", "guard.sh"),
        ("bash -c './guard.sh x'", "guard.sh"),
        ("bash -lc './guard.sh x'", "guard.sh"),
        ("cd tools && python3 guard.py", "tools/guard.py"),
        ("cd tools && ./guard.py", "tools/guard.py"),
        ("python3 -W ignore tools/guard.py", "tools/guard.py"),
        ("shopt -s nullglob; ./guard.sh", "guard.sh"),
    ];
    for (command, file) in covered {
        let place = Place::new();
        place.write("guard.sh", "").write("tools/guard.py", "");
        place
            .write("rules.txt", "")
            .write(".rewake/hooks/guard.sh", "");
        place.write(".rewake/hooks/lib.sh", "");
        place.write(FILE, &guard(command));
        place.trust();
        assert!(place.is_as_trusted(), "{command}");
        place.write(file, "changed");
        assert!(!place.is_as_trusted(), "{command} {file}");
    }
}

#[test]
fn a_program_that_is_only_known_when_it_runs_is_not_trusted() {
    for command in ["$GUARD", "sh $1", "python3 \\\"$X\\\""] {
        let place = Place::new();
        place.write(FILE, &guard(command));
        place.trust();
        let states = place.states();
        assert!(
            states[0].contains("is known only when the hook runs"),
            "{command}: {states:?}"
        );
    }
}

#[test]
fn a_folder_that_cannot_be_hashed_is_not_trusted() {
    let place = Place::new();
    place.write(".rewake/hooks/guard.sh", "");
    place.write(FILE, &guard("sh .rewake/hooks/guard.sh"));
    std::os::unix::fs::symlink("/etc/passwd", place.root().join(".rewake/hooks/link")).unwrap();
    let files = place.with(|places| hooks_to_trust(places, |_, is_own| is_own));
    let error = files.err().expect("an error").to_string();
    assert!(error.contains("link is not a file"), "{error}");
}

#[test]
fn a_script_that_was_missing_is_not_trusted_when_it_is_there() {
    let place = Place::new();
    place.write(FILE, &guard("./later.sh"));
    place.trust();
    assert_eq!(place.states(), ["used"]);
    place.write("later.sh", "exit 0");
    assert!(!place.is_as_trusted());
}

#[test]
fn caches_of_python_are_not_part_of_a_folder() {
    let place = Place::new();
    place.write(".rewake/hooks/guard.py", "");
    place.write(FILE, &guard("python3 .rewake/hooks/guard.py"));
    place.trust();
    place.write(".rewake/hooks/__pycache__/guard.pyc", "x");
    assert!(place.is_as_trusted());
    place.write(".rewake/hooks/other.py", "x");
    assert!(!place.is_as_trusted());
}

#[test]
fn the_users_own_file_needs_no_trust_and_must_be_valid() {
    let place = Place::new();
    let own = place.fixture.paths().config_dir.join("hooks.json");
    fs::write(&own, guard("true")).unwrap();
    assert_eq!(place.states(), ["used"]);
    for bad in [
        "{",
        "[]",
        r#"{"hooks": {"PreToolUse": {}}}"#,
        r#"{"hooks": {"Stop": [{}]}}"#,
    ] {
        fs::write(&own, bad).unwrap();
        let error = place.with(find_hooks).unwrap_err().to_string();
        assert!(
            error.contains("hooks.json") && error.contains("line 1"),
            "{bad}: {error}"
        );
    }
    fs::write(&own, " ".repeat(1_100_000)).unwrap();
    let error = place.with(find_hooks).unwrap_err().to_string();
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
}

#[test]
fn a_bad_handler_is_a_failed_guard_and_else_off() {
    let bad = [
        (r#"{"type": "http", "url": "x"}"#, "type `http`"),
        (r#"{"type": "command"}"#, "no `command`"),
        (r#"{"type": "command", "command": "a\u0000b"}"#, "NUL"),
        (
            r#"{"type": "command", "command": "a", "args": ["b"]}"#,
            "`args`",
        ),
        (
            r#"{"type": "command", "command": "a", "if": "Bash(git push*)"}"#,
            "`if`",
        ),
        (
            r#"{"type": "command", "command": "a", "onFailure": "x"}"#,
            "`onFailure`",
        ),
        (
            r#"{"type": "command", "command": "a", "async": true}"#,
            "`async`",
        ),
    ];
    for (handler, why) in bad {
        let of = |event: &str| format!(r#"{{"hooks": {{"{event}": [{{"hooks": [{handler}]}}]}}}}"#);
        let defined = definition::parse(Path::new("hooks.json"), &of("PreToolUse")).unwrap();
        let fault = defined.hooks[0].fault.clone().unwrap_or_default();
        assert!(fault.contains(why), "{handler}: {fault}");
        if why != "`async`" {
            let defined = definition::parse(Path::new("hooks.json"), &of("Stop")).unwrap();
            assert!(defined.hooks.is_empty());
            assert!(defined.warnings[0].contains(why), "{:?}", defined.warnings);
        }
    }
    let place = Place::new();
    let own = place.fixture.paths().config_dir.join("hooks.json");
    fs::write(&own, guard("true").replace("Bash", "Ba(sh")).unwrap();
    assert!(matches!(&place.find().hooks[..], [hook] if matches!(hook.matcher, Matcher::All)));
    assert!(place.states()[0].contains("not a valid regular expression"));
    let odd = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "a", "iff": "x"}]}],
                  "Before": []}}"#;
    let warnings = definition::parse(&own, odd).unwrap().warnings;
    assert!(
        warnings.iter().any(|w| w.contains("event Before")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|w| w.contains("field `iff`")),
        "{warnings:?}"
    );
}

#[test]
fn hooks_beside_the_key_hooks_are_an_error() {
    let groups = r#"[{"hooks": [{"type": "command", "command": "a"}]}]"#;
    let events = format!(r#"{{"PreToolUse": {groups}}}"#);
    let in_settings = format!(r#"{{"model": "x", "hooks": {events}}}"#);
    let hooks = Path::new("/a/hooks.json");
    let settings = Path::new("/a/.claude/settings.json");
    for (text, key, in_hooks, in_settings) in [
        (events.as_str(), "PreToolUse", false, false),
        (&format!(r#"{{"Hooks": {events}}}"#), "Hooks", false, false),
        (
            &format!(r#"{{"hooks": {{}}, {}"#, &events[1..]),
            "PreToolUse",
            false,
            false,
        ),
        (&format!(r#"{{"hook": {events}}}"#), "hook", false, true),
        (&in_settings, "", true, true),
        (r#"{"disableAllHooks": true, "a": 1}"#, "", true, true),
        ("{}", "", true, true),
    ] {
        for (file, is_good) in [(hooks, in_hooks), (settings, in_settings)] {
            match definition::parse(file, text) {
                Ok(_) => assert!(is_good, "{file:?} {text}"),
                Err(why) => assert!(
                    !is_good && why.contains(&format!("the key `{key}`")),
                    "{file:?} {text}: {why}"
                ),
            }
        }
    }
    // A file of the user stops the start; one of the workspace is named, and its guards failed.
    let place = Place::new();
    place.write(FILE, &guard("true"));
    place.trust();
    place.write(FILE, &events);
    let states = place.states();
    assert!(states[0].contains("the key `PreToolUse`"), "{states:?}");
    let own = place.fixture.paths().config_dir.join("hooks.json");
    fs::write(&own, &events).unwrap();
    let error = place.with(find_hooks).unwrap_err().to_string();
    assert!(error.contains("the key `PreToolUse`"), "{error}");
}

#[test]
fn a_hook_without_its_condition_is_another_one() {
    let with = guard("true").replace("\"type\"", "\"if\": \"Bash(git *)\", \"type\"");
    let place = Place::new();
    place.write(FILE, &with);
    place.trust();
    assert!(place.states()[0].starts_with("failed: the field `if`"));
    place.write(FILE, &guard("true"));
    assert_eq!(place.states()[0], "untrusted");
}

#[test]
fn matchers_are_names_or_regular_expressions() {
    let parse = |matcher: &str| Matcher::parse(HookEvent::PreToolUse, matcher);
    let matches = |matcher: &str, name: &str| parse(matcher).unwrap().matches(name);
    assert!(matches("", "Bash") && matches("*", "Bash"));
    assert!(matches("Bash|Edit", "Edit") && !matches("Bash|Edit", "NotebookEdit"));
    assert!(matches("mcp__.*", "mcp__a__b") && !matches("^mcp__", "Bash"));
    assert!(matches("Edit.*", "NotebookEdit"));
    assert!(parse("(").is_err());
}

#[test]
fn names_of_other_agents_mean_the_tool_here() {
    let parse = |matcher: &str| Matcher::parse(HookEvent::PreToolUse, matcher).unwrap();
    for (matcher, tool, other) in [
        ("bash", "Bash", "Edit"),
        ("Bash ", "Bash", "Edit"),
        (" Bash | Edit", "Edit", "Write"),
        ("apply_patch", "Write", "Bash"),
        ("apply_patch", "Edit", "Read"),
        ("^apply_patch$", "Edit", "Bash"),
        ("^(apply_patch|shell)$", "Bash", "Read"),
        ("run_shell_command|write_file", "Write", "Edit"),
        ("MultiEdit", "Edit", "Write"),
        ("BASH", "Bash", "Read"),
        ("TodoWrite", "plan", "Write"),
        ("mcp__a", "mcp__a__b", "mcp__ab__c"),
        ("Edit(File)?", "Edit", "Write"),
    ] {
        let compiled = parse(matcher);
        assert!(
            compiled.matches(tool) && !compiled.matches(other),
            "{matcher}"
        );
        assert!(!compiled.is_of_no_tool(HookEvent::PreToolUse), "{matcher}");
    }
    // A negated class names no tool of another agent.
    assert!(!parse("^[^B].*").matches("Bash"));
    for matcher in ["Foo", "^Bashx$", "Notebook", "foo|bar"] {
        assert!(
            parse(matcher).is_of_no_tool(HookEvent::PostToolUse),
            "{matcher}"
        );
    }
    for matcher in [".*__delete", "mcp__x", "", "*", ".*"] {
        assert!(
            !parse(matcher).is_of_no_tool(HookEvent::PreToolUse),
            "{matcher}"
        );
    }
    for rule in [
        "Bash(rm:*)",
        "Bash(*)",
        "Read|Edit(.env*)",
        "Write(/etc/**)",
        "mcp__a__b(*)",
    ] {
        let why = Matcher::parse(HookEvent::PreToolUse, rule).unwrap_err();
        assert!(why.contains("is a permission rule"), "{rule}: {why}");
    }
    // Other events are compared with other words.
    let compiled = Matcher::parse(HookEvent::SessionStart, "startup").unwrap();
    assert!(compiled.matches("startup") && !compiled.is_of_no_tool(HookEvent::SessionStart));
}

#[test]
fn a_matcher_of_no_tool_is_named() {
    let place = Place::new();
    let own = place.fixture.paths().config_dir.join("hooks.json");
    fs::write(&own, guard("true").replace("Bash", "Shel")).unwrap();
    let found = place.find();
    assert!(found.hooks[0].is_of_no_tool());
    let warning = &found.warnings[0];
    assert!(
        warning.contains("\"Shel\"") && warning.contains("matches no tool"),
        "{warning}"
    );
}

#[test]
fn hooks_of_the_workspace_have_an_access_and_those_of_the_home_folder_none() {
    let place = Place::new();
    place.write(FILE, &guard("true"));
    place.write(".claude/settings.json", &guard("false"));
    place.trust();
    let all = |places: HookPlaces<'_>| hooks_to_trust(places, |_, _| true).unwrap();
    let access = |is_home: bool| {
        let root = place.root();
        let home = is_home.then_some(root.as_path());
        place.with(|places| {
            let places = HookPlaces { home, ..places };
            for mut file in all(places) {
                file.choose_access(None, |_, least| least);
                trust::trust_hooks(places.paths, &file.path, file.hooks).unwrap();
            }
            let hooks = find_hooks(places).unwrap().hooks;
            let of = |hook: Hook| (hook.is_of_user, hook.access);
            hooks.into_iter().map(of).collect::<Vec<_>>()
        })
    };
    let of_workspace = (false, Some(Access::Workspace));
    assert_eq!(access(false), [of_workspace, of_workspace]);
    assert_eq!(access(true), [of_workspace, (true, None)]);
}

#[test]
fn a_file_with_a_key_twice_is_refused() {
    let groups = r#"[{"matcher":"Bash","hooks":[{"type":"command","command":"exit 2"}]}]"#;
    for file in ["hooks.json", "settings.json"] {
        let parse = |text: &str| definition::parse(Path::new(file), text);
        let twice = format!(r#"{{"hooks":{{"PreToolUse":{groups},"PreToolUse":[]}}}}"#);
        let why = parse(&twice).unwrap_err();
        assert!(why.contains("has a key twice"), "{why}");
        let once = format!(r#"{{"hooks":{{"PreToolUse":{groups},"PostToolUse":{groups}}}}}"#);
        assert_eq!(parse(&once).unwrap().hooks.len(), 2);
    }
}
