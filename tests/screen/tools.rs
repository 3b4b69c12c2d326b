//! Each tool's block: waiting, running, over, folded and unfolded.

use rewake::core::entry::{Block, CallId, Entry, Fact, Guard};
use rewake::session::{EditQuery, PlacedEdit};
use rewake::ui::app::{Intent, Msg};
use serde_json::json;

use crate::log::{bash, call, edit, entry};
use crate::stage::{Stage, scene};

fn every_tool(stage: &mut Stage) {
    stage.says("look round");
    stage.calls(
        call("read", json!({ "path": "src/parser.rs" })),
        "1\tfn main() {\n2\t}\n",
    );
    stage.calls(
        call("grep", json!({ "pattern": "fn next", "path": "src" })),
        "src/parser.rs:12:fn next()",
    );
    stage.calls(
        call("glob", json!({ "pattern": "**/*.rs" })),
        "src/main.rs\nsrc/parser.rs",
    );
    stage.calls(
        call("memory_search", json!({ "query": "parser" })),
        "nothing was found",
    );
    stage.runs(
        bash("cargo test"),
        101,
        "running 3 tests\ntest a ... ok\ntest b ... ok\ntest c ... FAILED\n\nfailures:\n    c",
    );
    let id = stage.replies(vec![call(
        "bash",
        json!({ "command": "npm start", "background": true }),
    )])[0];
    stage.log(entry::started(id));
    stage.log(entry::in_background(id, "bg1", "npm start"));
}

#[test]
fn each_tool_has_its_block() {
    scene!("tools", |stage: &mut Stage| {
        stage.open();
        every_tool(stage);
        stage.rest();
    });
    scene!("tools_unfolded", |stage: &mut Stage| {
        stage.open();
        every_tool(stage);
        stage.rest();
        stage.keys("<C-o>");
    });
}

#[test]
fn edits_and_new_files_are_diffs() {
    scene!("edit", |stage: &mut Stage| {
        stage.open();
        stage.says("mend it");
        let old = "fn next(&self) -> usize {\n    self.at - 1\n}";
        let new = "fn next(&self) -> usize {\n    // the last one too\n    self.at\n}";
        let id = stage.replies(vec![edit("src/parser.rs", old, new)])[0];
        stage.log(entry::checked(id, "/home/ann/parser/src/parser.rs"));
        stage.log(entry::done(id, "src/parser.rs: 1 edit"));
        let content = "# Parser\n\nIt parses.\n";
        let write = call("write", json!({ "path": "README.md", "content": content }));
        let id = stage.replies(vec![write])[0];
        stage.log(entry::checked(id, "/home/ann/parser/README.md"));
        stage.log(entry::done(id, "README.md: written"));
        stage.rest();
    });
}

/// What is asked of the worker after a frame about edits.
fn asked_places(stage: &mut Stage) -> Vec<EditQuery> {
    stage.draw();
    let asked = stage.app.seen().into_iter().map(|intent| match intent {
        Intent::EditPlaces(queries) => queries,
        _ => panic!("something else is asked"),
    });
    asked.flatten().collect()
}

fn is_placed(stage: &mut Stage, query: &EditQuery, place: Option<PlacedEdit>) {
    let hashes = (query.before.clone(), query.after.clone());
    stage.send(Msg::EditPlaces(vec![(hashes, place)]));
}

#[test]
fn an_edit_has_the_line_numbers_of_its_file_once_they_are_known() {
    let mut stage = Stage::opened(80, 24);
    stage.says("mend it");
    let id = stage.replies(vec![edit("tally.py", "old line", "new line\nand more")])[0];
    stage.log(entry::checked(id, "/home/ann/parser/tally.py"));
    // It was not kept yet.
    let first = asked_places(&mut stage);
    is_placed(&mut stage, &first[0], None);
    assert_eq!(asked_places(&mut stage), []);
    stage.log(entry::done(id, "edited tally.py: lines 10–11, +2 −1"));
    stage.sees("- old line");
    let again = asked_places(&mut stage);
    assert_eq!(again, first);
    assert_eq!(asked_places(&mut stage), [], "the answer is awaited");
    let place = PlacedEdit {
        first: 6,
        before: "a\nb\nbefore\nold line\nbehind\n".into(),
        after: "a\nb\nbefore\nnew line\nand more\nbehind\n".into(),
    };
    is_placed(&mut stage, &again[0], Some(place));
    let lines: Vec<String> = stage.rows();
    let at = lines.iter().position(|l| l.contains("edited")).unwrap();
    let shown: Vec<&str> = lines[at..at + 6].iter().map(|l| l.trim_end()).collect();
    let want = [
        "· edited     tally.py  +2 −1                                             1.0 s",
        "              9   before",
        "             10 - old line",
        "             10 + new line",
        "             11 + and more",
        "             12   behind",
    ];
    assert_eq!(shown, want);
}

#[test]
fn a_file_that_is_written_over_is_counted_by_what_changed() {
    let mut stage = Stage::opened(80, 24);
    stage.says("write it");
    let write = call("write", json!({ "path": "a", "content": "1\n2\nthree\n" }));
    let id = stage.replies(vec![write])[0];
    stage.log(entry::checked(id, "/home/ann/parser/a"));
    let fact = Fact::Wrote {
        path: "/home/ann/parser/a".into(),
        hash: "b".repeat(64),
    };
    let told = rewake::core::entry::Outcome::done("overwrote a: line 3, +1 −1");
    stage.log(entry::finished(id, told, Some(fact)));
    stage.sees("wrote      a  +1 −1");
    let query = &asked_places(&mut stage)[0];
    let place = PlacedEdit {
        first: 0,
        before: "1\n2\n3\n".into(),
        after: "1\n2\nthree\n".into(),
    };
    is_placed(&mut stage, query, Some(place));
    stage.sees("3 - 3");
    stage.does_not_see("1 + 1");
    stage.replies(vec![crate::log::text("It is written.")]);
    stage.sees("a +1 −1 ·");
}

#[test]
fn removed_and_added_diff_lines_have_different_styles() {
    let mut stage = Stage::opened(80, 24);
    stage.says("mend it");
    let id = stage.replies(vec![edit("notes.txt", "gone forever", "come newly")])[0];
    stage.log(entry::checked(id, "/home/ann/parser/notes.txt"));
    stage.log(entry::done(id, "ok"));
    let (gone, come) = (stage.style_of("gone forever"), stage.style_of("come newly"));
    assert_ne!(gone, come);
}

#[test]
fn a_running_command_shows_its_time_and_the_end_of_what_it_printed() {
    scene!("running", |stage: &mut Stage| {
        stage.open();
        stage.says("test it");
        let ids = stage.replies(vec![bash("cargo test --workspace"), bash("cargo doc")]);
        stage.log(entry::started(ids[0]));
        let printed = "compiling a\ncompiling b\ncompiling c\ntest one ... ok\ntest two ... ok";
        stage.send(Msg::Tails(vec![(ids[0], printed.into())]));
        stage.waits(72_000);
    });
    let mut stage = Stage::opened(80, 24);
    stage.says("test it");
    let id = stage.replies(vec![bash("cargo test")])[0];
    stage.log(entry::started(id));
    assert_eq!(stage.app.conversation.transcript.running().len(), 1);
    stage.log(entry::ran(id, 0, "all is well"));
    stage.sees("4.2 s");
    assert_eq!(stage.app.conversation.transcript.running().len(), 0);
}

#[test]
fn denied_and_failed_calls_are_shown_as_not_done() {
    scene!("not_done", |stage: &mut Stage| {
        stage.open();
        stage.says("clean up");
        let ids = stage.replies(vec![bash("rm -rf build"), bash("make"), bash("sleep 100")]);
        stage.log(entry::denied(ids[0], "the user said no; keep the build"));
        stage.log(entry::started(ids[1]));
        let fact = Fact::Ran {
            exit_code: None,
            took_ms: 120_000,
            refused: false,
        };
        stage.log(entry::finished(
            ids[1],
            rewake::core::entry::Outcome::error(
                "compiling\n[ended by the time limit of 2 minutes]",
            ),
            Some(fact),
        ));
        stage.log(entry::started(ids[2]));
        stage.log(entry::interrupted(
            ids[2],
            "part 1 of 3",
            "the machine went down",
        ));
        stage.rest();
    });
}

#[test]
fn an_interrupted_call_is_marked_once() {
    for (why, is_said) in [("stopped", false), ("the machine went down", true)] {
        let mut stage = Stage::opened(80, 24);
        stage.says("go");
        let id = stage.replies(vec![bash("make")])[0];
        stage.log(entry::started(id));
        stage.log(entry::interrupted(id, "one\ntwo\nthree\n", why));
        stage.sees("interrupted ·");
        stage.does_not_see("[interrupted");
        stage.sees("             one");
        stage.does_not_see("+ ");
        assert_eq!(
            stage.screen().contains(&format!("             {why}")),
            is_said
        );
    }
}

#[test]
fn a_command_of_many_lines_is_shown_whole_when_it_is_unfolded() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let command = (1..=9)
        .map(|n| format!("echo line-{n}"))
        .collect::<Vec<_>>()
        .join("\n");
    stage.runs(bash(&command), 0, "ok");
    stage.does_not_see("line-9");
    stage.keys("<C-o>");
    stage.sees("line-9");
}

#[test]
fn the_colours_of_an_output_are_kept_and_its_commands_to_the_terminal_are_not() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    stage.runs(
        bash("ls"),
        0,
        "plain \u{1b}[31mred words\u{1b}[0m \u{1b}[2J\u{1b}]0;title\u{7}end",
    );
    // What only moves the cursor is left out; what holds text is a mark.
    stage.sees("plain red words ␛]0;title␇end");
    assert_ne!(
        stage.style_of("red words").fg,
        stage.style_of("plain red").fg
    );
}

#[test]
fn counts_of_what_is_not_shown_are_true() {
    let content: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    let mut stage = Stage::opened(80, 40);
    stage.says("go");
    let id = stage.replies(vec![crate::log::write("a.txt", &content)])[0];
    stage.log(entry::checked(id, "/home/ann/parser/a.txt"));
    stage.sees("+ 4976 lines");
    // A result that was cut stands for all of its lines.
    let cut = "one\ntwo\n[lines 3-4996 of 5000 left out (99 bytes); memory_page reads the whole at address 7]\n\
               a\nb\nc\nd";
    let mut stage = Stage::opened(80, 40);
    stage.says("go");
    stage.runs(bash("make"), 0, cut);
    stage.sees("… 4,997 earlier lines (Ctrl+O)");
}

#[test]
fn repeated_resumes_without_progress_are_shown_once() {
    let mut stage = Stage::opened(80, 40);
    stage.says("go");
    for n in 1..=3 {
        let found = format!("resumed 01a1 \"go\", killed {n} s ago: 2 entries");
        stage.log(entry::resumed(&found, None));
    }
    let screen = stage.screen();
    let said = screen.matches("resumed after a kill · 2 entries").count();
    assert_eq!(said, 1, "{screen}");
}

fn ran(took_ms: u64, exit_code: Option<i32>) -> Option<Fact> {
    Some(Fact::Ran {
        exit_code,
        took_ms,
        refused: false,
    })
}

#[test]
fn calls_that_only_look_are_one_block_and_commands_are_not_among_them() {
    let mut stage = Stage::opened(100, 40);
    stage.says("look round");
    stage.calls(call("read", json!({ "path": "tally.py" })), "1\tx\n");
    let found = "tally.py\n1:round\n9:round\n[2 shown, 3 more: narrow the pattern, path or glob]\n";
    stage.calls(call("grep", json!({ "pattern": "round" })), found);
    stage.runs(bash("cat notes.txt | head -3"), 0, "all of the notes");
    let read = json!({ "command": "sed -n 1,9p a.py", "access": "read" });
    stage.runs(call("bash", read), 0, "all of a.py");
    stage.sees("· read       tally.py · \"round\" (5 hits)");
    stage.sees("· ran        cat notes.txt | head -3");
    stage.sees("· ran        sed -n 1,9p a.py");
    stage.sees("all of a.py");
    // Each shows what it printed, as one that ran something or failed does.
    stage.runs(bash("python3 test.py"), 0, "all tests passed");
    stage.runs(bash("cat nothing"), 1, "no such file");
    stage.sees("· ran        python3 test.py");
    stage.sees("all tests passed");
    stage.sees("✗ ran        cat nothing");
    stage.keys("<C-o>");
    stage.sees("all of the notes");
    stage.sees("5 hits · 1.0 s");
}

#[test]
fn short_calls_say_how_long_they_took() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    for (took_ms, shown) in [(60, "exit 1 · 0.1 s"), (2_340, "exit 1 · 2.3 s")] {
        let id = stage.replies(vec![bash("make")])[0];
        stage.log(entry::started(id));
        let outcome = rewake::core::entry::Outcome::done("so");
        stage.log(entry::finished(id, outcome, ran(took_ms, Some(1))));
        let line = stage.line_with(shown);
        // Flush right, two columns from the edge.
        assert_eq!(line.trim_end().chars().count(), 78, "{line}");
    }
}

#[test]
fn notes_for_the_model_are_not_shown_as_command_output() {
    let mut stage = Stage::opened(110, 24);
    stage.says("go");
    let told = "Traceback\nOSError: EROFS\n[exit code 1]\n[this looks like the sandbox: with access read only \
                $TMPDIR can be written; access workspace would do, if it is needed]";
    stage.runs(bash("python3 x.py"), 1, told);
    stage.sees("exit 1");
    stage.sees("OSError: EROFS");
    stage.sees("             perhaps the sandbox: with access read only $TMPDIR can be written");
    stage.does_not_see("exit code 1");
    stage.does_not_see("would do");
    // What a command printed itself stays, whatever it looks like.
    stage.runs(bash("make"), 0, "[1, 2]\n[3]");
    stage.sees("[1, 2]");
    stage.sees("[3]");
    // Machines whisper: what was printed is dim, what was run is not.
    let dim = rewake::ui::theme::Theme::named("dark").unwrap().dim.fg;
    assert_eq!(stage.style_of("[1, 2]").fg, dim);
    assert_eq!(stage.style_of("OSError").fg, dim);
    assert_ne!(stage.style_of("make").fg, dim);
}

#[test]
fn a_command_that_was_ended_from_outside_failed_and_says_by_what() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let limit = "ended by rewake: it ran longer than its time limit of 2 s";
    for (how, shown) in [("ended by signal 9", "by a signal"), (limit, "time limit")] {
        let id = stage.replies(vec![bash("make")])[0];
        stage.log(entry::started(id));
        let outcome = rewake::core::entry::Outcome::done(format!("compiling\n[{how}]"));
        stage.log(entry::finished(id, outcome, ran(2_000, None)));
        let line = stage.line_with(&format!("{shown} · 2.0 s"));
        assert!(line.starts_with("✗ ran        make"), "{line}");
        stage.sees(&format!("             {}", &how[..40.min(how.len())]));
        stage.does_not_see("[ended by");
    }
}

#[test]
fn a_command_in_the_background_says_that_it_runs_on_and_that_it_ended() {
    let mut stage = Stage::opened(100, 30);
    stage.says("go");
    let start = json!({ "command": "npm start", "background": true });
    let id = stage.replies(vec![call("bash", start)])[0];
    stage.log(entry::started(id));
    stage.log(entry::in_background(id, "bg1", "npm start"));
    let line = stage.line_with("npm start");
    assert!(line.starts_with("◐ started    npm start"), "{line}");
    assert!(
        line.trim_end().ends_with("still running in the background"),
        "{line}"
    );
    stage.resize(40, 12);
    assert!(
        stage
            .line_with("npm start")
            .trim_end()
            .ends_with("still running")
    );
    stage.resize(100, 30);
    stage.log(entry::background_ended("bg1", 3));
    let line = stage.line_with("ran        npm start");
    assert!(line.starts_with("✗ ran "), "{line}");
    assert!(
        line.trim_end()
            .ends_with("exit 3 · ended in the background"),
        "{line}"
    );
    stage.does_not_see("still running in");
}

#[test]
fn the_time_of_a_turn_counts_what_a_command_did_while_nobody_was_there() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![bash("make")])[0];
    stage.log(entry::started(id));
    // Killed; taken up a minute later, when the command had run for 30 seconds and ended.
    stage.log.waits(60_000);
    stage.log(entry::resumed(
        "resumed 01a1 \"go\", killed 1 min ago: 4 entries",
        None,
    ));
    let outcome = rewake::core::entry::Outcome::done("made");
    stage.log(entry::finished(id, outcome, ran(30_000, Some(0))));
    stage.replies(vec![crate::log::text("Made.")]);
    stage.sees("done in 34 s");
    stage.does_not_see("failed");
}

#[test]
fn a_command_stopped_by_the_user_is_not_shown_as_failed() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![bash("make")])[0];
    stage.log(entry::started(id));
    let outcome = rewake::core::entry::Outcome::Interrupted {
        output: rewake::core::entry::Output::default(),
        why: "stopped".into(),
    };
    stage.log(entry::finished(id, outcome, ran(3_000, None)));
    stage.replies(vec![crate::log::text("Well.")]);
    stage.sees("done in");
    stage.does_not_see("failed");
}

fn poke(tool: &str) -> Block {
    let arguments = json!({ "path": "notes.md", "lines": ["one", "two"] });
    match tool {
        "mcp_call" => call(
            tool,
            json!({ "tool": "mcp__files__write_file", "arguments": arguments }),
        ),
        tool => call(tool, arguments),
    }
}

fn began_at_a_server(call: CallId) -> Entry {
    Entry::Started {
        call,
        guard: Guard::Served {
            server: "files".into(),
            run: "run-1".into(),
            boot: "boot".into(),
            request: call.wire(),
            repeatable: false,
        },
        access: None,
    }
}

/// Whatever it is called through.
#[test]
fn a_tool_of_a_server_is_named_by_server_and_tool_with_its_arguments_as_data() {
    scene!("server_call", |stage: &mut Stage| {
        stage.open();
        stage.says("write it down");
        stage.calls(
            call("mcp_find", json!({ "query": "write a file" })),
            "1 of 14 tools fit",
        );
        for tool in ["mcp_call", "mcp__files__write_file"] {
            let id = stage.replies(vec![poke(tool)])[0];
            stage.log(began_at_a_server(id));
            stage.log(entry::done(id, "written"));
        }
        stage.rest();
    });
}

#[test]
fn a_failed_command_shows_ten_lines_and_another_three() {
    let output: String = (1..=68).map(|n| format!("line {n}\n")).collect();
    let mut stage = Stage::opened(80, 30);
    stage.says("go");
    stage.runs(bash("make test"), 2, &output);
    let rows = stage.rows();
    let at = rows.iter().position(|row| row.contains("earlier")).unwrap();
    assert!(rows[at - 1].contains("✗ ran        make test"), "{rows:#?}");
    assert_eq!(rows[at].trim(), "… 58 earlier lines (Ctrl+O)");
    assert_eq!(rows[at + 1].trim(), "line 59");
    assert_eq!(rows[at + 10].trim(), "line 68");
    let mut stage = Stage::opened(80, 30);
    stage.says("go");
    stage.runs(bash("make test"), 0, &output);
    stage.sees("… 65 earlier lines (Ctrl+O)");
    stage.does_not_see("line 65 ");
    stage.sees("line 66");
    stage.keys("<C-o>");
    stage.does_not_see("earlier");
}

#[test]
fn a_command_is_no_part_of_a_group_that_read() {
    let mut stage = Stage::opened(80, 24);
    stage.says("look");
    stage.calls(call("read", json!({ "path": "a.rs" })), "1\tx\n");
    stage.runs(bash("ls src"), 0, "main.rs");
    stage.calls(call("read", json!({ "path": "b.rs" })), "1\tx\n");
    stage.sees("· read       a.rs");
    stage.sees("· ran        ls src");
    stage.sees("main.rs");
    stage.sees("· read       b.rs");
}

#[test]
fn output_is_broken_between_words() {
    let words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron upsilon";
    let mut stage = Stage::opened(60, 24);
    stage.says("go");
    stage.runs(bash("say"), 0, words);
    let rows = stage.rows();
    let at = rows.iter().position(|row| row.contains("alpha")).unwrap();
    for row in &rows[at..at + 2] {
        let last = row.split_whitespace().last().unwrap();
        assert!(words.split(' ').any(|word| word == last), "{row}");
    }
}
