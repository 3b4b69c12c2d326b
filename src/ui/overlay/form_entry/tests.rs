//! Keys and lines, and what is sent because of them.

use serde_json::json;

use super::*;

fn question(fields: Value) -> ServerQuestion {
    serde_json::from_value(json!({
        "server": "everything",
        "key": "1",
        "message": "Who are you?",
        "wanted": {"wanted": "form", "fields": fields},
    }))
    .unwrap()
}

fn fields_of_all_kinds() -> Value {
    let choices = json!([
        {"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}, {"value": "b", "label": "Blue"},
    ]);
    json!([
        {"name": "name", "is_required": true, "kind": "text", "max_chars": 5},
        {"name": "age", "kind": "number", "is_integer": true, "min": 1.0, "max": 9.0},
        {"name": "sure", "kind": "yes_no"},
        {"name": "one", "kind": "one_of", "choices": choices},
        {"name": "some", "kind": "some_of", "choices": choices, "max": 2},
    ])
}

fn form(fields: Value) -> FormEntry {
    let mut form = FormEntry::new(question(fields));
    read(&mut form);
    form
}

/// All of it is on the screen.
fn read(form: &mut FormEntry) {
    form.drawn_with(9, 9);
    form.page.drawn();
}

/// `<` `>` `^` `v` are arrows, `\t` Tab, `\n` Enter, `~` Esc, `!` Ctrl+D, `#` Backspace.
fn press(form: &mut FormEntry, keys: &str) -> Filled {
    let mut last = Filled::Open;
    for c in keys.chars() {
        let (code, modifiers) = match c {
            '<' => (KeyCode::Left, KeyModifiers::NONE),
            '>' => (KeyCode::Right, KeyModifiers::NONE),
            '^' => (KeyCode::Up, KeyModifiers::NONE),
            'v' => (KeyCode::Down, KeyModifiers::NONE),
            '\t' => (KeyCode::Tab, KeyModifiers::NONE),
            '\n' => (KeyCode::Enter, KeyModifiers::NONE),
            '~' => (KeyCode::Esc, KeyModifiers::NONE),
            '#' => (KeyCode::Backspace, KeyModifiers::NONE),
            '!' => (KeyCode::Char('d'), KeyModifiers::CONTROL),
            c => (KeyCode::Char(c), KeyModifiers::NONE),
        };
        last = form.key(&KeyEvent::new(code, modifiers));
    }
    last
}

fn accepts(values: Value) -> Filled {
    let Value::Object(values) = values else {
        panic!("no object");
    };
    Filled::Send(FormAnswer::Accept { values })
}

fn wrong(form: &FormEntry) -> (usize, &str) {
    let (place, why) = form.error.as_ref().unwrap();
    (*place, why)
}

#[test]
fn each_kind_of_field_is_filled_in_by_keys() {
    let mut form = form(fields_of_all_kinds());
    let sent = press(&mut form, "ann\t7\t \t>>\tv v \n");
    let values = json!({"name": "ann", "age": 7, "sure": true, "one": "g", "some": ["g", "b"]});
    assert_eq!(sent, accepts(values));
}

#[test]
fn fields_left_empty_are_not_sent() {
    assert_eq!(
        press(&mut form(fields_of_all_kinds()), "ann\n"),
        accepts(json!({"name": "ann"}))
    );
    // Nothing is one of the choices where none is required.
    let sent = press(&mut form(fields_of_all_kinds()), "ann\t\t\t><\n");
    assert_eq!(sent, accepts(json!({"name": "ann"})));
}

#[test]
fn the_first_field_that_is_not_fit_says_why() {
    let mut form = form(fields_of_all_kinds());
    assert_eq!(press(&mut form, "\t12\n"), Filled::Open);
    assert_eq!(wrong(&form).0, 0);
    assert!(wrong(&form).1.contains("required"), "{:?}", form.error);
    assert_eq!(form.at, 0);
    assert_eq!(press(&mut form, "annabel\n"), Filled::Open);
    assert_eq!(wrong(&form), (0, "it takes text up to 5 characters"));
    assert_eq!(press(&mut form, "##"), Filled::Open);
    assert_eq!(form.error, None);
    assert_eq!(press(&mut form, "\n"), Filled::Open);
    assert_eq!(wrong(&form), (1, "it takes a whole number from 1 to 9"));
    assert_eq!(press(&mut form, "#x\n"), Filled::Open);
    assert_eq!(wrong(&form).0, 1);
    let sent = press(&mut form, "##4.0\n");
    assert_eq!(sent, accepts(json!({"name": "annab", "age": 4.0})));
}

#[test]
fn too_many_choices_are_an_error() {
    let mut form = form(fields_of_all_kinds());
    press(&mut form, "ann\t\t\t\t v v ");
    assert_eq!(press(&mut form, "\n"), Filled::Open);
    assert_eq!(wrong(&form).0, 4);
}

#[test]
fn defaults_stand_in_the_fields_and_can_be_taken_out() {
    let fields = json!([
        {"name": "name", "kind": "text", "default": "bob"},
        {"name": "age", "kind": "number", "default": 4},
        {"name": "sure", "kind": "yes_no", "default": true},
        {"name": "some", "kind": "some_of", "choices": [{"value": "r", "label": "Red"}], "default": ["r"]},
    ]);
    let values = json!({"name": "bob", "age": 4, "sure": true, "some": ["r"]});
    assert_eq!(press(&mut form(fields.clone()), "\n"), accepts(values));
    let values = json!({"name": "", "sure": false, "some": []});
    assert_eq!(press(&mut form(fields), "###\t#\t \t \n"), accepts(values));
}

#[test]
fn formats_are_looked_at() {
    for (format, bad, good) in [
        ("email", "ann", "a@b.c"),
        ("uri", "ann", "x:y"),
        ("date", "1 May", "2026-05-01"),
        ("date-time", "2026-05-01", "2026-05-01T08:00:00Z"),
    ] {
        let fields = json!([{"name": "x", "kind": "text", "format": format}]);
        assert_eq!(
            press(&mut form(fields.clone()), &format!("{bad}\n")),
            Filled::Open,
            "{format}"
        );
        let sent = press(&mut form(fields), &format!("{good}\n"));
        assert_eq!(sent, accepts(json!({"x": good})), "{format}");
    }
}

#[test]
fn nothing_is_sent_before_the_end_was_seen() {
    let mut form = FormEntry::new(question(fields_of_all_kinds()));
    form.drawn_with(4, 9);
    form.page.drawn();
    assert_eq!(press(&mut form, "ann\n"), Filled::Unread);
    form.drawn_with(9, 9);
    // Not drawn yet.
    assert_eq!(press(&mut form, "\n"), Filled::Unread);
    form.page.drawn();
    assert_eq!(press(&mut form, "\n"), accepts(json!({"name": "ann"})));
}

#[test]
fn a_form_is_declined_or_put_aside() {
    let mut form = form(fields_of_all_kinds());
    assert_eq!(press(&mut form, "an~"), Filled::Later);
    assert_eq!(form.shown(0), "an");
    assert_eq!(press(&mut form, "!"), Filled::Send(FormAnswer::Decline));
}

#[test]
fn tab_and_arrows_go_round_the_fields() {
    let mut form = form(fields_of_all_kinds());
    press(&mut form, "\t\t\t\t");
    assert_eq!(form.at, 4);
    press(&mut form, "\t");
    assert_eq!(form.at, 0);
    press(&mut form, "^");
    assert_eq!(form.at, 0);
    press(&mut form, "vvvv");
    assert_eq!(form.at, 4);
    // Through the choices, and back out of them.
    press(&mut form, "vv^^");
    assert_eq!(form.at, 4);
    press(&mut form, "^");
    assert_eq!(form.at, 3);
}

#[test]
fn pasted_text_goes_into_the_text_field() {
    let mut form = form(fields_of_all_kinds());
    assert!(form.paste("ann"));
    press(&mut form, "\t\t");
    assert!(!form.paste("yes"));
    assert_eq!(press(&mut form, "\n"), accepts(json!({"name": "ann"})));
}

fn visit(url: &str) -> FormEntry {
    let mut question = question(json!([]));
    question.wanted = RequestedAnswer::Visit { url: url.into() };
    let mut form = FormEntry::new(question);
    read(&mut form);
    form
}

#[test]
fn an_address_is_opened_by_its_letter_and_enter() {
    let url = "https://example.com/x";
    let does = |url: &str, letter: char| {
        let mut form = visit(url);
        assert_eq!(form.has_letter(letter), Some(true));
        form.letter = Some(letter);
        press(&mut form, "\n")
    };
    assert_eq!(does(url, 'o'), Filled::Visit(url.into()));
    assert_eq!(does(url, 'c'), Filled::Copy(url.into()));
    assert_eq!(does(url, 'y'), accepts(json!({})));
    assert_eq!(press(&mut visit(url), "\n"), accepts(json!({})));
    assert_eq!(does(url, 'n'), Filled::Send(FormAnswer::Decline));
    assert_eq!(visit(url).has_letter('w'), Some(false));
    // A letter alone does nothing.
    assert_eq!(press(&mut visit(url), "o"), Filled::Pass);
    for bad in ["file:///etc/passwd", "javascript:alert(1)", "--help", "x"] {
        assert_eq!(does(bad, 'o'), Filled::Open, "{bad}");
    }
    // What a browser would go to is what is shown.
    let odd = visit("https://evil.example\\@good.example/");
    assert_eq!(odd.address().unwrap().host_str(), Some("evil.example"));
}

#[test]
fn lines_fill_in_one_field_after_the_other() {
    let mut form = form(fields_of_all_kinds());
    assert_eq!(form.line(""), Filled::Open);
    assert_eq!((form.line_at, wrong(&form).0), (0, 0));
    for line in ["ann", "7", "perhaps"] {
        form.line(line);
    }
    assert_eq!(form.line_at, 2);
    assert_eq!(wrong(&form), (2, "it takes true or false"));
    for line in ["y", "2", "Red, b"] {
        form.line(line);
    }
    assert_eq!(form.line_at, 5);
    assert_eq!(form.line("what"), Filled::Open);
    let values = json!({"name": "ann", "age": 7, "sure": true, "one": "g", "some": ["r", "b"]});
    assert_eq!(form.line("y"), accepts(values));
    form.line("n");
    assert_eq!(form.line_at, 0);
    form.line("");
    form.line_back();
    assert_eq!(form.line_at, 0);
}
