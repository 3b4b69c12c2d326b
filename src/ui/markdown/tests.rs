//! Tests of the layout of Markdown, and that a stream ends like the whole text.

use std::cell::RefCell;

use proptest::prelude::*;
use ratatui::style::Modifier;
use ratatui::text::Line;

use super::*;
use crate::ui::text::width;

/// Lines as text; styles as marks: `*bold*`, `/italic/`, `_underlined_`, `~struck~`.
fn shown(lines: &[Line<'_>]) -> String {
    let mut out = String::new();
    for line in lines {
        for span in &line.spans {
            let marks: String = [
                (Modifier::BOLD, '*'),
                (Modifier::ITALIC, '/'),
                (Modifier::UNDERLINED, '_'),
                (Modifier::CROSSED_OUT, '~'),
            ]
            .iter()
            .filter(|(modifier, _)| span.style.add_modifier.contains(*modifier))
            .map(|(_, mark)| *mark)
            .collect();
            let back: String = marks.chars().rev().collect();
            out.push_str(&format!("{marks}{}{back}", span.content));
        }
        out.push('\n');
    }
    out
}

thread_local! {
    /// Its grammars take long to load.
    static CODE: RefCell<Highlighter> = RefCell::new(Highlighter::direct());
}

fn plain(text: &str, columns: u16) -> Vec<Line<'static>> {
    CODE.with_borrow_mut(|code| render(text, columns, &Theme::plain(), code))
}

/// Returns the final lines of a stream that was laid out after each piece.
fn streamed<'a>(pieces: impl Iterator<Item = &'a str>, columns: u16) -> Vec<Line<'static>> {
    CODE.with_borrow_mut(|code| {
        let mut stream = Stream::default();
        for piece in pieces {
            stream.push(piece);
            stream.lines(columns, &Theme::plain(), code);
        }
        // The beginning of a table is held back until then.
        stream.finish();
        stream.lines(columns, &Theme::plain(), code);
        stream.into_lines()
    })
}

#[track_caller]
fn check(text: &str, columns: u16, want: &str) {
    assert_eq!(shown(&plain(text, columns)), want, "{text:?}");
}

#[test]
fn text_has_the_attributes_it_was_given() {
    check(
        "a *b* **c** ~~d~~ `e` ***f***",
        80,
        "a /b/ *c* ~d~ *e* */f/*\n",
    );
    check(
        "# One\n## Two\n### Three",
        80,
        "*_One_*\n\n*Two*\n\n*/Three/*\n",
    );
    check("Setext\n---\ntext", 80, "*Setext*\n\ntext\n");
    check("soft\nbreak  \nhard", 80, "soft break\nhard\n");
    check("one two three", 8, "one two\nthree\n");
    check("---", 5, "─────\n");
}

#[test]
fn a_link_shows_its_address() {
    check("[text](http://x.y)", 80, "_text_ (http://x.y)\n");
    check("<http://x.y>", 80, "_http://x.y_\n");
    check("<a@b.c>", 80, "_a@b.c_\n");
    check("![alt](i.png)", 80, "image: _alt_ (i.png)\n");
    check("[`f`](x)", 80, "*_f_* (x)\n");
    check(
        "[a]\n\ntext\n\n[a]: http://x",
        80,
        "[a]\n\ntext\n[a]: http://x\n",
    );
}

#[test]
fn lists_are_indented() {
    check(
        "- one two three\n- b\n  - c",
        9,
        "• one two\n  three\n• b\n  ◦ c\n",
    );
    check("9. a\n9. b", 80, "9. a\n10. b\n");
    check("- [x] done\n- [ ] left", 80, "[x] done\n[ ] left\n");
    check("- a\n\n  b\n\n- c", 80, "• a\n\n  b\n\n• c\n");
    check("- a\n  - b\n- c\n\ntext", 80, "• a\n  ◦ b\n• c\n\ntext\n");
    check("-\n- a", 80, "• \n• a\n");
    check("- ```\n  x\n  ```\n- y", 80, "•   x\n\n• y\n");
}

#[test]
fn code_blocks_are_separated_from_lists_by_blank_lines() {
    check("- a\n  ```\n  x\n  ```\n- b", 80, "• a\n\n    x\n\n• b\n");
    check(
        "1. a\n   - b\n   ```\n   x\n   ```",
        80,
        "1. a\n   ◦ b\n\n     x\n",
    );
    check("- a\n- b\n```\nx\n```\n- c", 80, "• a\n• b\n\n  x\n\n• c\n");
    check("1. a\n- b\n```\nx\n```", 80, "1. a\n\n• b\n\n  x\n");
    check(
        "1. a\n   ```\n   x\n   ```\n2. b\n- c\n```\ny\n```\n> q",
        80,
        "1. a\n\n     x\n\n2. b\n\n• c\n\n  y\n\n▎ q\n",
    );
    // Also one that says its language.
    check("- a\n- b\n```sh\nx\n```\nc", 80, "• a\n• b\n\n  x\n\nc\n");
    check("a\n\n~~~rust\nx", 80, "a\n\n  x\n");
    check("- a\n\n```\nx\n```", 80, "• a\n\n  x\n");
    check("- a\n  |b|\n  |-|\n  |c|", 80, "• a\n\n  *b*\n  ─\n  c\n");
}

#[test]
fn quotes_have_a_bar() {
    check("> a\n>\n> > b\n\nc", 80, "▎ a\n▎ \n▎ ▎ b\n\nc\n");
    check("> one two", 7, "▎ one\n▎ two\n");
}

#[test]
fn code_blocks_wrap_and_omit_their_language() {
    check(
        "```rust,ignore\nfn f() {}\n\n  x\n```\n",
        80,
        "  fn f() {}\n  \n    x\n",
    );
    check("```\nabcdef\n```", 5, "  abc\n  def\n");
    check("    indented\n\n    code", 80, "  indented\n  \n  code\n");
    check("~~~\n```\n~~~\ntext", 80, "  ```\n\ntext\n");
    check("```\nopen", 80, "  open\n");
    check("a\n```\nb\n```\nc", 80, "a\n\n  b\n\nc\n");
    check("  ```\n  a\n b\n   c\n  ```", 80, "  a\n  b\n   c\n");
}

#[test]
fn tables_fit_the_screen() {
    check(
        "| name | size |\n|:---|---:|\n| a | 1 |\n| bcd `x` | 1000000 |",
        80,
        "*name*  │    *size*\n──────┼────────\na     │       1\nbcd *x* │ 1000000\n",
    );
    let wide = "| first column | second |\n|---|---|\n| some words here | other words |";
    let lines = plain(wide, 20);
    assert!(
        lines.iter().all(|l| width(&l.to_string()) <= 20),
        "{lines:?}"
    );
    let all: String = lines.iter().map(|l| l.to_string()).collect();
    for word in ["first", "some", "words", "here", "other"] {
        assert!(all.contains(word), "{word}");
    }
    check(
        "|a|b|c|\n|-|-|-|\n|longer|words|here|",
        8,
        "*a* │ *b* │\n  *c*\nlonger │\n  words\n  │ here\n",
    );
}

#[test]
fn html_and_control_characters_are_text() {
    check(
        "<div>\nx</div>\n\na <b>c</b>",
        80,
        "<div>\nx</div>\n\na <b>c</b>\n",
    );
    check(
        "\u{1b}[31mred\u{1b}[0m &#27;[2J &#x202e;x",
        80,
        "␛[31mred␛[0m ␛[2J <U+202E>x\n",
    );
    check("```\n\u{1b}]0;t\u{7}a\tb\n```", 80, "  ␛]0;t␇a b\n");
    check("```\u{1b}[1mx\ny\n```", 80, "  y\n");
}

#[test]
fn deep_nesting_ends() {
    for text in [
        ">".repeat(5_000),
        "- ".repeat(5_000),
        "[".repeat(5_000),
        "*a ".repeat(5_000),
    ] {
        assert!(
            plain(&format!("{text}end"), 40)
                .iter()
                .any(|l| l.to_string().contains("end"))
        );
    }
}

#[test]
fn a_link_definition_can_span_several_lines() {
    let text = "para\n\n[foo]: /url\n'title\ngoes on'\nmore\n\nend";
    assert_eq!(streamed(text.split_inclusive('\n'), 20), plain(text, 20));
}

/// While its title is open it is a paragraph, and so a separate block.
#[test]
fn a_definition_is_the_same_however_its_text_came() {
    for text in [
        "text\n\n[b]: /y 'title\n    goes on'\n",
        "- \n[a]: /x\n| a | b |\n|---|---|\n",
        "- \n[a]: /x\n\t---\n===\n    ---\n",
        "\n\n[a]: /x\n| a | b |\n\n- [a]: /x\n \n| a | b |\n\n\n",
    ] {
        assert_eq!(streamed(text.split_inclusive('\n'), 20), plain(text, 20));
    }
}

#[test]
fn frozen_code_gets_its_colours_when_they_come() {
    let text = format!("a\n\n```rust\n{}```\n\nb\n", "fn f() {}\n".repeat(100));
    let theme = Theme::named("dark").unwrap();
    let mut code = Highlighter::background();
    let mut stream = Stream::default();
    for piece in text.split_inclusive('\n') {
        stream.push(piece);
        stream.lines(40, &theme, &mut code);
    }
    let want = render(&text, 40, &theme, &mut Highlighter::direct());
    let begun = std::time::Instant::now();
    while stream.lines(40, &theme, &mut code) != want {
        assert!(begun.elapsed().as_secs() < 60, "no colours came");
        std::thread::yield_now();
    }
}

/// Random pieces of markdown, most of them with a meaning.
fn document() -> impl Strategy<Value = String> {
    let parts = [
        "\n",
        "\n",
        "\n\n",
        "text",
        "more words",
        " ",
        "- ",
        "* ",
        "1. ",
        "> ",
        "    ",
        "  ",
        "\t",
        "# ",
        "---\n",
        "===\n",
        "```",
        "```rust\n",
        "~~~\n",
        "| a | b |\n",
        "|---|---|\n",
        "`",
        "**",
        "*",
        "~~",
        "[a]",
        "[a]: /x\n",
        "[b]: /y 'ti",
        "'",
        "(/z)",
        "<div>",
        "</div>",
        "<!--",
        "-->",
        "<b>",
        "\\",
        "é",
        "👩",
        "日本",
        "\r\n",
        "&#27;",
        "\u{1b}[1m",
        "\u{2028}",
        "- [ ] ",
    ];
    proptest::collection::vec(proptest::sample::select(parts.to_vec()), 0..40)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn a_stream_ends_as_the_whole(text in document(), cuts in proptest::collection::btree_set(0_usize..200, 0..8)) {
        let cuts = cuts.into_iter().filter(|c| *c < text.len() && text.is_char_boundary(*c));
        let mut at = 0;
        let pieces = cuts.chain([text.len()]).map(|cut| {
            let piece = &text[at..cut];
            at = cut;
            piece
        });
        prop_assert_eq!(streamed(pieces, 20), plain(&text, 20));
    }

    #[test]
    fn a_stream_line_by_line_ends_as_the_whole(text in document()) {
        prop_assert_eq!(streamed(text.split_inclusive('\n'), 20), plain(&text, 20));
    }

    #[test]
    fn no_line_is_too_wide_or_dangerous(text in document(), columns in 1_u16..30) {
        for line in plain(&text, columns) {
            let wide: usize = line.spans.iter().map(|s| width(&s.content)).sum();
            prop_assert!(wide <= usize::from(columns), "{line:?}");
            prop_assert!(!line.to_string().contains(char::is_control), "{line:?}");
        }
    }
}
