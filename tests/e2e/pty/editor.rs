//! Writing in an editor of one's own: it has the terminal, and rewake has it again after it,
//! however it ended.

use crate::pty::scripted;
use crate::scenes::until;
use support::{ENTER, Home, Terminal};

/// Ctrl+G.
const EDIT: &str = "\x07";

/// With this shell script as the editor; the file is `$1`.
fn with_editor(home: &Home, script: &str) -> Terminal {
    let path = home.user().join("edit.sh");
    std::fs::write(&path, script).unwrap();
    start(home, &format!("sh {}", path.display()))
}

fn start(home: &Home, editor: &str) -> Terminal {
    let mut command = home.rewake::<&str>([]);
    command.env("EDITOR", editor);
    let terminal = Terminal::of(command);
    terminal.sees("Describe a task");
    terminal
}

/// The screen is rewake's, and what is typed comes into the box and is sent from there.
#[track_caller]
fn goes_on(terminal: &mut Terminal, draft: &str) {
    terminal.sees(&format!("› {draft}"));
    assert!(terminal.is_on_other_screen() && !terminal.is_cooked());
    terminal.types(" and more");
    terminal.sees(&format!("› {draft} and more"));
    terminal.types(ENTER);
    terminal.sees("As you say.");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
}

/// The model answers these words of the user alone.
fn answering(words: &str) -> Home {
    scripted(&[format!(
        "[[step]]\nwhen = \"{words}\"\ntext = \"As you say.\"\n"
    )])
}

#[test]
fn an_editor_has_the_terminal_and_gives_back_the_draft() {
    let home = answering("first words, then others and more");
    let script = "cp \"$1\" seen; echo the editor is there; read line; \
                  printf '%s, %s\\n' \"$(cat seen)\" \"$line\" > \"$1\"";
    let mut terminal = with_editor(&home, script);
    terminal.types("first words");
    terminal.sees("› first words");
    terminal.types(EDIT);
    terminal.sees("the editor is there");
    assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
    assert_eq!(home.read("seen"), "first words");
    // All that is typed now is the editor's.
    terminal.types("then others\r");
    goes_on(&mut terminal, "first words, then others");
}

#[test]
fn an_editor_that_fails_leaves_the_draft_as_it_was() {
    let home = answering("first words and more");
    let mut terminal = with_editor(&home, "echo other > \"$1\"; exit 3");
    terminal.types("first words");
    terminal.sees("› first words");
    terminal.types(EDIT);
    terminal.sees("exit status: 3");
    terminal.sees("the text is as it was");
    goes_on(&mut terminal, "first words");
}

#[test]
fn text_saved_before_the_editor_is_killed_is_in_the_box() {
    let home = answering("saved words and more");
    let mut terminal = with_editor(&home, "echo saved words > \"$1\"; kill -9 $$");
    terminal.types("first words");
    terminal.sees("› first words");
    terminal.types(EDIT);
    terminal.sees("› saved words");
    goes_on(&mut terminal, "saved words");
}

/// Rewake is killed while the editor has the words, and the editor writes them all the same.
#[test]
fn text_from_the_editor_is_offered_after_rewake_is_killed() {
    let home = scripted(&["[[step]]\ntext = \"As you say.\"\n".to_string()]);
    // The terminal hangs up when rewake is gone: an editor that saves on that is not killed by it.
    let script =
        "trap '' HUP; kill -9 $PPID; printf 'words from the editor\\n' > \"$1\"; echo w > written";
    let mut terminal = with_editor(&home, script);
    terminal.says("begin");
    terminal.sees("As you say.");
    terminal.types("first words");
    terminal.sees("› first words");
    crate::pty::wait_until_kept(&home, "first words");
    terminal.types(EDIT);
    crate::pty::wait_for(&home, "written");
    drop(terminal);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("what you wrote in your editor");
    terminal.answers("Enter resume", ENTER);
    terminal.sees("› words from the editor");
    terminal.types("\x1f");
    terminal.sees("› first words");
    // Nothing of it is left when it is in the draft.
    let left = || {
        std::fs::read_dir(home.rewake_home().join("editor"))
            .unwrap()
            .count()
    };
    until(|| left() == 0);
}

/// Emacs makes a signal of Ctrl+G.
#[test]
fn an_interrupt_of_the_editor_does_not_end_rewake() {
    let home = answering("saved words and more");
    let script = "kill -INT $PPID; echo saved words > \"$1\"";
    let mut terminal = with_editor(&home, script);
    terminal.types(EDIT);
    goes_on(&mut terminal, "saved words");
}

/// A Ctrl+C at the same time is the editor's, and does not replace the signal.
#[test]
fn a_signal_that_comes_while_the_editor_is_open_ends_rewake_after_it() {
    for (signal, code) in [("TERM", 143), ("HUP", 129)] {
        let home = scripted(&["[[step]]\ntext = \"As you say.\"\n".to_string()]);
        let script = format!(
            "trap '' HUP; kill -{signal} $PPID; kill -INT $PPID; printf 'saved words\\n' > \"$1\""
        );
        let mut terminal = with_editor(&home, &script);
        terminal.says("begin");
        terminal.sees("As you say.");
        terminal.types("first words");
        terminal.sees("› first words");
        terminal.types(EDIT);
        assert_eq!(terminal.ends().code(), Some(code), "{signal}");
        assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
        let terminal = Terminal::start(&home, &["-c"]);
        terminal.sees("› saved words");
    }
}

/// An editor may leave the terminal as no shell wants it.
#[test]
fn an_editor_that_leaves_a_mess_does_not_leave_it_to_the_shell() {
    let home = answering("first words and more");
    let mess =
        "stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[31m'; echo first words > \"$1\"";
    let mut terminal = with_editor(&home, mess);
    terminal.types(EDIT);
    goes_on(&mut terminal, "first words");
}

#[test]
fn a_missing_editor_is_reported_and_the_draft_stays() {
    let home = answering("first words and more");
    let mut terminal = start(&home, "/no/such/editor");
    terminal.types("first words");
    terminal.sees("› first words");
    terminal.types(EDIT);
    terminal.sees("cannot start the editor \"/no/such/editor\"");
    terminal.sees("$VISUAL or $EDITOR names another");
    goes_on(&mut terminal, "first words");
}

#[test]
fn a_file_removed_by_the_editor_is_reported_and_the_draft_stays() {
    let home = answering("first words and more");
    let mut terminal = with_editor(&home, "rm \"$1\"");
    terminal.types("first words");
    terminal.sees("› first words");
    terminal.types(EDIT);
    terminal.sees("cannot read back what the editor wrote");
    goes_on(&mut terminal, "first words");
}
