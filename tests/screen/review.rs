//! `/diff`: the changes since the last commit, file by file.

use rewake::ui::app::{Intent, Msg};
use rewake::ui::changes::parse;
use rewake::ui::overlay::Review;

use crate::stage::{Stage, scene};

const DIFF: &str = "diff --git a/src/a.rs b/src/a.rs
--- a/src/a.rs
+++ b/src/a.rs
@@ -10,3 +10,4 @@ impl Parser
 fn same() {}
-fn old() -> u32 { 1 }
+fn new() -> u32 { 2 }
+fn more() {}
 // the end
@@ -90,2 +91,2 @@ impl Lexer
-let x = 1;
+let x = 2;
 done();
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-it was here
diff --git a/shot.png b/shot.png
Binary files a/shot.png and b/shot.png differ
";

fn opened(stage: &mut Stage) {
    stage.open();
    stage.rest();
    stage.send(Msg::Review(Review::new(parse(DIFF)), None));
}

#[test]
fn the_question_mark_shows_the_keys_of_the_changes_first() {
    let mut stage = Stage::new(80, 24);
    opened(&mut stage);
    stage.keys("?");
    stage.sees("keys and commands");
    stage.sees("mark the file as seen");
    stage.keys("<Esc>");
    stage.sees("3 files · +3 −3 · 0 seen");
    stage.keys("<Esc>");
    stage.does_not_see("3 files");
}

#[test]
fn changes_are_gone_through_file_by_file() {
    scene!("review_list", opened);
    scene!("review_file", |stage: &mut Stage| {
        opened(stage);
        stage.keys("<Enter>");
    });
    let mut stage = Stage::new(80, 24);
    opened(&mut stage);
    stage.sees("3 files · +3 −3 · 0 seen");
    stage.keys("<Enter>");
    stage.sees("11 - fn old()");
    stage.sees("12 + fn more()");
    let theme = stage.app.look.theme.clone();
    assert_eq!(stage.style_of("fn more").fg, theme.syntax_keyword.fg);
    // Neither is where the focus is, nor waits for an answer.
    assert_eq!(stage.style_of("@@ -10").fg, theme.dim.fg);
    stage.keys("n");
    stage.sees("deleted");
    assert_eq!(stage.style_of("deleted").fg, theme.dim.fg);
    stage.sees("1 - it was here");
    stage.keys("<Right>");
    stage.sees("binary: its lines are not shown");
    // Seen, and on to the next that is not.
    stage.keys("<Left><Left> <Esc>");
    stage.sees("✓ src/a.rs");
    stage.sees("1 seen");
    stage.keys("<Esc>");
    stage.does_not_see("files");
}

#[test]
fn the_editor_is_opened_at_the_line_of_the_hunk() {
    let mut stage = Stage::new(80, 24);
    opened(&mut stage);
    stage.keys("<Enter>e]e");
    let edited: Vec<(String, usize)> = stage
        .wanted
        .iter()
        .filter_map(|intent| match intent {
            Intent::EditAt(path, line) => Some((path.clone(), *line)),
            _ => None,
        })
        .collect();
    let file = "src/a.rs".to_string();
    assert_eq!(edited, [(file.clone(), 10), (file, 91)]);
}

#[test]
fn a_file_of_ten_thousand_lines_is_paged_to_its_end() {
    let lines: String = (1..=10_000)
        .map(|n| format!("+let x{n} = {n};\n"))
        .collect();
    let diff = format!(
        "diff --git a/big.rs b/big.rs\nnew file mode 100644\n--- /dev/null\n+++ b/big.rs\n@@ -0,0 +1,10000 @@\n{lines}"
    );
    let mut stage = Stage::opened(80, 24);
    stage.send(Msg::Review(Review::new(parse(&diff)), None));
    stage.sees("+10000 −0");
    stage.keys("<Enter><PageDown><PageDown>");
    stage.sees("   41 + let x41 = 41;");
    stage.keys("G");
    stage.sees("10000 + let x10000 = 10000;");
    let theme = stage.app.look.theme.clone();
    assert_eq!(stage.style_of("let x10000").fg, theme.syntax_keyword.fg);
}
