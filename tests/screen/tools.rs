//! Each tool's block: waiting, running, over, folded and unfolded.

use rewake::core::entry::Fact;
use rewake::ui::app::Msg;
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

#[test]
fn what_a_diff_takes_and_gives_has_its_colours() {
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
    assert_eq!(stage.app.transcript.running().len(), 1);
    stage.log(entry::ran(id, 0, "all is well"));
    stage.sees("4.2 s");
    assert_eq!(stage.app.transcript.running().len(), 0);
}

#[test]
fn what_did_not_happen_says_so() {
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
    stage.replies(vec![crate::log::write("a.txt", &content)]);
    stage.sees("+ 4976 lines");
    // A result that was cut stands for all of its lines.
    let cut = "one\ntwo\n[lines 3-4996 of 5000 left out (99 bytes); memory_page reads the whole at address 7]\n\
               a\nb\nc\nd";
    let mut stage = Stage::opened(80, 40);
    stage.says("go");
    stage.runs(bash("make"), 0, cut);
    stage.sees("+ 4997 lines");
}

#[test]
fn starts_between_which_nothing_happened_are_said_once() {
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
