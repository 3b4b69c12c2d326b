//! Keys and pastes in, text and cursor, submissions and the screen out.

use std::sync::mpsc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;

use super::*;

fn around() -> ComposerContext<'static> {
    ComposerContext {
        files: None,
        offered: &crate::ui::offered::NOTHING,
        commands: Some(&[]),
        folder: Path::new("/nowhere"),
        home: None,
        working: false,
        queued: false,
        editing: false,
    }
}

/// `<Enter>`, `<C-a>`, `<A-b>`, `<S-Up>`; everything else is typed.
fn keys(text: &str) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let name = rest.strip_prefix('<').and_then(|r| r.split_once('>'));
        match name {
            Some((name, after)) if !name.is_empty() => {
                keys.push(named(name));
                rest = after;
            }
            _ => {
                keys.push(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    keys
}

fn named(name: &str) -> KeyEvent {
    let (modifiers, name) = match name.split_once('-') {
        Some(("C", name)) => (KeyModifiers::CONTROL, name),
        Some(("A", name)) => (KeyModifiers::ALT, name),
        Some(("S", name)) => (KeyModifiers::SHIFT, name),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match name {
        "Enter" => KeyCode::Enter,
        "Tab" => KeyCode::Tab,
        "Esc" => KeyCode::Esc,
        "BS" => KeyCode::Backspace,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Home" => KeyCode::Home,
        "BackTab" => KeyCode::BackTab,
        one => KeyCode::Char(one.chars().next().unwrap()),
    };
    KeyEvent::new(code, modifiers)
}

/// Presses the keys and returns the result of the last one.
fn press(composer: &mut Composer, text: &str) -> ComposerOutcome {
    press_in(composer, text, &around())
}

fn press_in(composer: &mut Composer, text: &str, around: &ComposerContext<'_>) -> ComposerOutcome {
    let now = Instant::now();
    let dids = keys(text)
        .into_iter()
        .map(|key| composer.key(&key, now, around));
    dids.last().unwrap_or(ComposerOutcome::Nothing)
}

/// Returns the position of the cursor in the text, in bytes.
fn cursor(composer: &Composer) -> usize {
    let before = composer.buffer.before();
    composer.chips.expand(before, false).len()
}

fn shown(composer: &Composer) -> String {
    let mut text = composer.text();
    text.insert(cursor(composer), '|');
    text
}

#[track_caller]
fn check(typed: &str, want: &str) {
    let mut composer = Composer::new(vec!["first".into(), "second\nline".into()]);
    press(&mut composer, typed);
    assert_eq!(shown(&composer), want, "{typed:?}");
}

fn prompt(text: &str) -> ComposerOutcome {
    ComposerOutcome::Submit(Submission::Prompt {
        text: text.into(),
        images: Vec::new(),
        looks: Vec::new(),
        shown: text.into(),
    })
}

#[test]
fn keys_edit_the_text() {
    check("fix it", "fix it|");
    check("fix<S-Enter>it", "fix\nit|");
    check("fix<A-Enter>it<C-j>", "fix\nit\n|");
    check("fix\\<Enter>it", "fix\nit|");
    check("fix it<C-a>x<C-e>y", "xfix ity|");
    check("fix it<A-b><C-k>", "fix |");
    check("fix it<C-w><C-y><C-y>", "fix itit|");
    check("fix it<C-u>", "|");
    check("fix it<C-_>", "fix |");
    check("fix it<C-_><A-_>", "fix it|");
    check("fix it<C-c>", "|");
    check("fix it<C-c><C-_>", "fix it|");
    check("a<C-j>bc<Up>x", "ax|\nbc");
    check("abc<C-j>d<C-j>efg<Up><Up>", "abc|\nd\nefg");
    check("ab<Left><C-d>", "a|");
    check("a<?>b", "a?b|");
    check("\u{7}\u{0}x", "␇␀x|");
    check("👩\u{200d}👧<BS>", "|");
    check("😀<BS>a", "a|");
}

#[test]
fn earlier_prompts_are_browsed_and_the_draft_is_kept() {
    check("<Up>", "second\nline|");
    check("<Up><Up>", "first|");
    check("<Up><Up><Up>", "first|");
    check("dr<C-j>aft<Up><Up><Up><Down><Down>", "dr|\naft");
    check("<Up><Up>x<Up>", "second\nline|");
    check("x<Down>", "x|");
    check("<C-r>fir", "first|");
    check("x<C-r>second<Esc>", "x|");
    check("<C-r>i<C-r>", "first|");
    check("<C-r>i<C-r><C-s>", "second\nline|");
    check("<C-r>fir<Enter>!", "first!|");
    check("<C-r>fir<C-a>x", "x|first");
    check("draft<C-r>zzz", "draft|");
}

#[test]
fn enter_sends() {
    let mut composer = Composer::default();
    let mut send = |text: &str| press(&mut composer, &format!("{text}<Enter>"));
    assert_eq!(send(""), ComposerOutcome::Act(Action::Submit));
    assert_eq!(send(" fix it "), prompt("fix it"));
    assert_eq!(send("  "), ComposerOutcome::Nothing);
    assert_eq!(
        send("<C-c>!ls -l"),
        ComposerOutcome::Submit(Submission::Shell("ls -l".into()))
    );
    assert_eq!(send("!"), ComposerOutcome::Nothing);
    assert_eq!(send("<C-c>/usr/bin is gone"), prompt("/usr/bin is gone"));
    assert_eq!(
        send("/rename a b"),
        ComposerOutcome::Submit(Submission::Command(SlashCommand::Rename, "a b".into()))
    );
    let unknown = "there is no command /hlep; did you mean /help?";
    assert_eq!(send("/hlep "), ComposerOutcome::Refused(unknown.into()));
    assert_eq!(composer.text(), "/hlep ");
    press(&mut composer, "<C-c><Up><Up>");
    assert_eq!(composer.text(), "/usr/bin is gone");
}

#[test]
fn keys_that_do_not_edit_text_become_actions() {
    let mut composer = Composer::default();
    assert_eq!(
        press(&mut composer, "<Esc>"),
        ComposerOutcome::Act(Action::Interrupt)
    );
    assert_eq!(
        press(&mut composer, "<Esc>"),
        ComposerOutcome::Act(Action::Rewind)
    );
    assert_eq!(
        press(&mut composer, "<S-BackTab>"),
        ComposerOutcome::Act(Action::CycleMode)
    );
    assert_eq!(
        press(&mut composer, "?"),
        ComposerOutcome::Act(Action::Help)
    );
    assert_eq!(
        press(&mut composer, "<C-x>h"),
        ComposerOutcome::Act(Action::History)
    );
    assert_eq!(
        press(&mut composer, "<C-c>"),
        ComposerOutcome::Act(Action::AskQuit)
    );
    assert_eq!(
        press(&mut composer, "<C-d>"),
        ComposerOutcome::Act(Action::Quit)
    );
    assert_eq!(press(&mut composer, "<C-g>"), ComposerOutcome::WantsEditor);
    let queued = ComposerContext {
        queued: true,
        ..around()
    };
    assert_eq!(
        press_in(&mut composer, "<Up>", &queued),
        ComposerOutcome::Act(Action::EditQueued)
    );
    assert_eq!(press(&mut composer, "x"), ComposerOutcome::Changed);
    assert_eq!(press(&mut composer, "<Left>"), ComposerOutcome::Moved);
    assert_eq!(
        press_in(&mut composer, "<Up>", &queued),
        ComposerOutcome::Nothing
    );
}

#[test]
fn commands_are_completed() {
    check("/mod<Tab>", "/model |");
    check("/<Down><Tab>", "/resume |");
    check("/mod<Esc><Tab>", "/mod|");
    check("/ren<Enter>", "/rename |");
    check("a /mod<Tab>", "a /mod|");
    let mut composer = Composer::default();
    let quit = ComposerOutcome::Submit(Submission::Command(SlashCommand::Quit, String::new()));
    assert_eq!(press(&mut composer, "/qu<Enter>"), quit);
    assert_eq!(shown(&composer), "|");
}

#[test]
fn custom_commands_are_completed_and_sent() {
    let custom = |name: &str, argument: &str| {
        Arc::new(Custom {
            name: name.into(),
            argument: argument.into(),
            help: "of mine".into(),
        })
    };
    let commands = [custom("git:commit", "[message]"), custom("ask", "<what>")];
    let around = ComposerContext {
        commands: Some(&commands),
        ..around()
    };
    let sent = |name: &str, arguments: &str| {
        ComposerOutcome::Submit(Submission::Custom(name.into(), arguments.into()))
    };
    for (typed, want) in [("/git<Tab>", "/git:commit |"), ("/as<Enter>", "/ask |")] {
        let mut composer = Composer::default();
        press_in(&mut composer, typed, &around);
        assert_eq!(shown(&composer), want, "{typed:?}");
    }
    let mut composer = Composer::default();
    assert_eq!(
        press_in(&mut composer, "/git:c<Enter>", &around),
        sent("git:commit", "")
    );
    let did = press_in(&mut composer, "/ask  why<C-j>now <Enter>", &around);
    assert_eq!(did, sent("ask", "why\nnow"));
    let why = "there is no command /git:comit; did you mean /git:commit?";
    let did = press_in(&mut composer, "/git:comit x<Enter>", &around);
    assert_eq!(did, ComposerOutcome::Refused(why.into()));
    // Before they were listed, any unknown name may be a custom command.
    let around = ComposerContext {
        commands: None,
        ..around
    };
    let mut composer = Composer::default();
    assert_eq!(
        press_in(&mut composer, "/later x<Enter>", &around),
        sent("later", "x")
    );
}

#[test]
fn folders_are_gone_into() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for path in [
        "work/src/ui",
        "work/empty",
        "notes",
        "home/.config",
        "home/docs",
    ] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    for path in [
        "work/src/main.rs",
        "work/src/ui/view.rs",
        "notes/todo.md",
        "home/docs/a.md",
    ] {
        std::fs::write(root.join(path), "").unwrap();
    }
    let (work, home) = (root.join("work"), root.join("home"));
    let (sender, listed) = mpsc::channel();
    let on_listed = move || sender.send(()).unwrap_or_default();
    let files = Files::start(work.clone(), on_listed).unwrap();
    let wait = || listed.recv_timeout(Duration::from_secs(20)).unwrap();
    wait();
    let around = ComposerContext {
        files: Some(&files),
        folder: &work,
        home: Some(&home),
        ..around()
    };
    let absolute = root.to_str().unwrap();
    for (typed, is_listed, want) in [
        ("@sr<Tab>", true, "@src/|"),
        ("@src/<Tab><Tab>", true, "@src/main.rs |"),
        (
            "@src/<Down><Down><Tab><Tab><Tab>",
            true,
            "@src/ui/view.rs |",
        ),
        ("@src/<Enter>", true, "@src/ |"),
        ("@~/do<Tab><Tab><Tab>", false, "@~/docs/a.md |"),
        ("@~/.c<Tab>", false, "@~/.config/|"),
        ("@~<Tab>", false, "@~/|"),
        ("@..<Tab>", false, "@../|"),
        ("@../no<Tab><Tab><Tab>", false, "@../notes/todo.md |"),
        ("@ROOT/no<Tab>", false, "@ROOT/notes/|"),
    ] {
        let (typed, want) = (
            typed.replace("ROOT", absolute),
            want.replace("ROOT", absolute),
        );
        let (words, tabs) = typed.split_at(typed.find('<').unwrap());
        let press = |patience: Duration| {
            let mut composer = Composer::default();
            press_in(&mut composer, words, &around);
            for tab in tabs.split_inclusive('>') {
                // As a person who waits for the list.
                if !is_listed {
                    while listed.recv_timeout(patience).is_ok() {
                        composer.files_listed(&around);
                    }
                }
                press_in(&mut composer, tab, &around);
            }
            shown(&composer)
        };
        // On a busy machine the list may come later, and nothing says that none will come.
        let mut seen = press(Duration::from_millis(300));
        for seconds in [3, 10] {
            if !is_listed && seen != want {
                seen = press(Duration::from_secs(seconds));
            }
        }
        assert_eq!(seen, want, "{typed:?}");
    }
    // Nothing is in it: the list is out of the way.
    let mut composer = Composer::default();
    let did = press_in(&mut composer, "@empty/<Enter>", &around);
    assert_eq!(did, prompt("@empty/"));
}

#[test]
fn files_are_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["parser.rs", "a b.md"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let (sender, listed) = mpsc::channel();
    let on_listed = move || sender.send(()).unwrap_or_default();
    let files = Files::start(folder.path().into(), on_listed).unwrap();
    listed.recv_timeout(Duration::from_secs(20)).unwrap();
    let around = ComposerContext {
        files: Some(&files),
        folder: folder.path(),
        ..around()
    };
    for (typed, want) in [
        ("see @prs<Tab>now", "see @parser.rs now|"),
        ("@b.md<Enter>", "@\"a b.md\" |"),
        ("me@prs<Tab>", "me@prs|"),
        ("@prs<Esc> x", "@prs x|"),
    ] {
        let mut composer = Composer::default();
        press_in(&mut composer, typed, &around);
        assert_eq!(shown(&composer), want, "{typed:?}");
    }
    // Typed in full, the list is out of the way.
    let mut composer = Composer::default();
    let sent = press_in(&mut composer, "@parser.rs<Enter>", &around);
    assert_eq!(sent, prompt("@parser.rs"));
}

#[test]
fn a_long_paste_is_a_chip() {
    let mut composer = Composer::default();
    let long = "line\r\n".repeat(42);
    press(&mut composer, "see ");
    assert_eq!(composer.paste(&long, &around()), ComposerOutcome::Changed);
    assert_eq!(shown(&composer), "see [Pasted text #1 +42 lines]|");
    press(&mut composer, "<BS>");
    assert_eq!(shown(&composer), "see |");
    press(&mut composer, "<C-_>");
    composer.paste("short\u{1b}[31m", &around());
    let ComposerOutcome::Submit(Submission::Prompt { text, shown, .. }) =
        press(&mut composer, "<Enter>")
    else {
        panic!("not sent");
    };
    assert_eq!(text, format!("see {}short␛[31m", "line\n".repeat(42)));
    assert_eq!(shown, "see [Pasted text #1 +42 lines]short␛[31m");
}

#[test]
fn a_huge_paste_is_a_chip() {
    let mut composer = Composer::default();
    let huge = "x".repeat(10 * 1024 * 1024);
    assert_eq!(composer.paste(&huge, &around()), ComposerOutcome::Changed);
    assert_eq!(composer.text(), "[Pasted text #1 10485760 characters]");
    assert_eq!(composer.height(80, 20), 3);
    let too_much = "x".repeat(33 * 1024 * 1024);
    assert!(matches!(
        composer.paste(&too_much, &around()),
        ComposerOutcome::Refused(_)
    ));
}

/// The images that a folder with this one has, as the disk would answer.
fn answer(composer: &mut Composer, image: &Path) {
    for look in composer.new_looks() {
        let all_are = |way: &&Vec<PathBuf>| way.iter().all(|path| path.ends_with(image));
        let found = look.ways.iter().find(all_are).cloned();
        composer.looked(&look, found);
    }
}

#[test]
fn images_become_chips() {
    let image = Path::new("/work/a b.png");
    let around = ComposerContext {
        folder: Path::new("/work"),
        ..around()
    };
    let mut composer = Composer::default();
    composer.paste("'/work/a b.png' ", &around);
    // The answer of the disk comes while more is typed, here and there.
    press_in(
        &mut composer,
        "and ./a\\ b.png or ./gone.png!<Home>see ",
        &around,
    );
    assert_eq!(
        composer.text(),
        "see '/work/a b.png' and ./a\\ b.png or ./gone.png!"
    );
    answer(&mut composer, image);
    assert_eq!(
        composer.text(),
        "see [Image #1 a b.png] and [Image #2 a b.png] or ./gone.png!"
    );
    assert_eq!(cursor(&composer), "see ".len());
    assert!(composer.new_looks().is_empty(), "asked once");
    press_in(&mut composer, "<C-_>", &around);
    assert!(composer.text().contains("./a\\ b.png"), "it can be undone");
    // In a command line a path is a path.
    let mut composer = Composer::default();
    press_in(&mut composer, "!open ", &around);
    composer.paste("/work/a b.png", &around);
    assert!(composer.new_looks().is_empty());
}

#[test]
fn words_that_are_sent_before_the_disk_answered_take_the_question_along() {
    let around = ComposerContext {
        folder: Path::new("/work"),
        ..around()
    };
    let mut composer = Composer::default();
    composer.paste("/work/a.png ", &around);
    let did = press_in(&mut composer, "and @b.png<Enter>", &around);
    let ComposerOutcome::Submit(Submission::Prompt {
        mut text, looks, ..
    }) = did
    else {
        panic!("{did:?}");
    };
    assert_eq!(text, "/work/a.png and @b.png");
    let mut images = Vec::new();
    for look in &looks {
        look.put_in(look.ways[0].clone(), &mut text, &mut images);
    }
    assert_eq!(text, "[Image #1 a.png] and [Image #2 b.png]");
    assert_eq!(images, [Path::new("/work/a.png"), Path::new("/work/b.png")]);
    // The answer comes after all: the box has other words by now.
    press_in(&mut composer, "other words", &around);
    composer.looked(&looks[0], Some(vec!["/work/a.png".into()]));
    assert_eq!(composer.text(), "other words");
    // What is put back has its images as pieces again.
    composer.put_back(&text, images.clone(), Vec::new());
    let did = press_in(&mut composer, "<Enter>", &around);
    let ComposerOutcome::Submit(Submission::Prompt { images: again, .. }) = did else {
        panic!("{did:?}");
    };
    assert_eq!(again, images);
}

#[test]
fn a_draft_outlives_the_process() {
    let mut composer = Composer::new(vec!["earlier".into()]);
    assert_eq!(composer.draft(), None);
    press(&mut composer, "see ");
    composer.paste(&"line\n".repeat(20), &around());
    press(&mut composer, " end<Left>");
    let draft = composer.draft().unwrap();

    let mut again = Composer::default();
    again.restore(&draft);
    assert_eq!(shown(&again), shown(&composer));
    assert_eq!(
        press(&mut again, "<Enter>"),
        press(&mut composer, "<Enter>")
    );

    // While an earlier prompt is looked at, the draft is still what was typed.
    press(&mut composer, "mine<Up><Up>");
    assert_ne!(composer.text(), "mine");
    again.restore(&composer.draft().unwrap());
    assert_eq!(again.text(), "mine");

    for (broken, want) in [
        ("plain \u{1b}[31mwords", "plain ␛[31mwords"),
        ("{\"text\":\"a\u{10f000}b\\u0007\",\"cursor\":99}", "ab␇"),
        ("{\"text\":\"ü\",\"cursor\":1}", "ü"),
    ] {
        again.restore(broken);
        assert_eq!(again.text(), want);
    }
}

#[test]
fn an_editor_keeps_the_chips() {
    let mut composer = Composer::default();
    press(&mut composer, "see ");
    composer.paste(&"line\n".repeat(20), &around());
    let edited = composer.for_editor().replace("see", "look at");
    composer.edited(&edited);
    assert_eq!(composer.text(), "look at [Pasted text #1 +20 lines]");
    press(&mut composer, "<BS>");
    assert_eq!(composer.text(), "look at ");
    composer.edited(&"x".repeat(1_000_000));
    assert_eq!(composer.text(), "[Pasted text #2 1000000 characters]");
}

fn screen(composer: &mut Composer, width: u16, height: u16) -> (Vec<String>, (u16, u16)) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            let rows = composer.height(width, height);
            let area = Rect::new(0, height - rows, width, rows);
            composer.draw(frame, area, &ComposerStyles::default(), true);
        })
        .unwrap();
    let backend = terminal.backend();
    let lines = backend.buffer().content().chunks(usize::from(width));
    let lines = lines.map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_string()
    });
    let position = backend.cursor_position();
    (lines.collect(), (position.x, position.y))
}

#[test]
fn the_box_is_drawn() {
    let mut composer = Composer::default();
    press(&mut composer, "fix the parser<C-j>\t日本");
    let (lines, cursor) = screen(&mut composer, 12, 6);
    assert_eq!(
        lines[1..],
        [
            "────────────",
            "› fix the",
            "  parser",
            "      日 本",
            "────────────"
        ]
    );
    assert_eq!(cursor, (10, 4));
}

#[test]
fn the_box_scrolls_with_the_cursor() {
    let mut composer = Composer::default();
    press(&mut composer, "a<C-j>b<C-j>c<C-j>d");
    let (lines, cursor) = screen(&mut composer, 10, 4);
    assert_eq!((lines[1].as_str(), lines[2].as_str()), ("› c", "  d"));
    assert_eq!(cursor, (3, 2));
    press(&mut composer, "<Up><Up><Up>");
    let (lines, cursor) = screen(&mut composer, 10, 4);
    assert_eq!((lines[1].as_str(), cursor), ("› a", (3, 1)));
}

#[test]
fn the_list_is_drawn_above() {
    let mut composer = Composer::default();
    press(&mut composer, "/re");
    let (lines, _) = screen(&mut composer, 60, 9);
    assert!(
        lines.iter().any(|l| l.starts_with("› /resume [session]")),
        "{lines:?}"
    );
    // No room for it, or none at all: nothing breaks.
    screen(&mut composer, 60, 3);
    screen(&mut composer, 2, 1);
}

#[test]
fn a_search_says_what_it_looks_for() {
    let mut composer = Composer::new(vec!["fix".into()]);
    press(&mut composer, "<C-r>fi");
    let (lines, _) = screen(&mut composer, 40, 3);
    assert!(lines[0].starts_with(" search prompts: fi"), "{lines:?}");
    press(&mut composer, "q");
    let (lines, _) = screen(&mut composer, 40, 3);
    assert!(lines[0].starts_with(" no prompt with: fiq"), "{lines:?}");
}
