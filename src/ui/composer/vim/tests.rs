//! The engine against a real vim: the same keys on the same text leave the same text, cursor and
//! register.

use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::buffer::Buffer;
use super::{Key, Mode, Vim};

/// A text, the cursor in it, and keys. `\u{1b}` is Esc, `\u{12}` Ctrl+R, `\u{8}` Backspace.
#[derive(Debug, Clone)]
struct Case {
    text: String,
    at: usize,
    keys: String,
}

/// The text, the cursor in bytes, and the register with its kind.
type End = (String, usize, String, bool);

/// Plays the keys as the composer does.
fn ours(case: &Case) -> End {
    let mut buffer = Buffer::default();
    let mut vim = Vim {
        mode: Mode::Normal,
        ..Vim::default()
    };
    // Both know the same last change and search.
    for key in [Key::Char('i'), Key::Esc, Key::Char('f'), Key::Char('Q')] {
        vim.key("", 0, key);
    }
    buffer.reset(&case.text, case.at);
    for c in case.keys.chars() {
        let key = match c {
            '\u{1b}' => Key::Esc,
            '\u{12}' => Key::Redo,
            c => Key::Char(c),
        };
        match vim.key(buffer.text(), buffer.cursor(), key) {
            Some(page) => {
                buffer.perform(page.changed_at, &page.steps, page.cursor);
                buffer.group(vim.mode() == Mode::Insert);
            }
            None if c == '\u{8}' => {
                buffer.backspace();
            }
            None if c != '\u{1b}' => {
                buffer.type_char(c);
            }
            None => {}
        }
        let settled = vim.settled(buffer.text(), buffer.cursor());
        buffer.move_to(settled);
    }
    let register = vim.register.clone();
    (
        buffer.text().to_string(),
        buffer.cursor(),
        register.text,
        register.is_lines,
    )
}

/// Plays all cases in one vim, if there is one.
fn theirs(cases: &[Case]) -> Option<Vec<End>> {
    if Command::new("vim").arg("--version").output().is_err() {
        support::skip("vim");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let given: Vec<_> = cases
        .iter()
        .map(|case| {
            let line = case.text[..case.at].matches('\n').count();
            let column = case.at - case.text[..case.at].rfind('\n').map_or(0, |i| i + 1);
            let lines: Vec<&str> = case.text.split('\n').collect();
            serde_json::json!([lines, line + 1, column + 1, case.keys])
        })
        .collect();
    let given = serde_json::to_string(&given).unwrap();
    std::fs::write(file("cases.json"), given).unwrap();
    let script = r#"
set encoding=utf-8 backspace=indent,eol,start noautoindent nojoinspaces cpoptions+=%M
set paragraphs= sections= textwidth=0 nomodeline noswapfile undolevels=1000 viminfo=
let s:ends = []
for s:case in json_decode(join(readfile('cases.json'), ''))
  enew!
  let s:levels = &undolevels
  set undolevels=-1
  silent! call feedkeys("i\<Esc>fQ", 'xt')
  call setline(1, s:case[0])
  let &undolevels = s:levels
  call setreg('"', [], 'v')
  call cursor(s:case[1], s:case[2])
  let s:keys = substitute(s:case[3], "\<C-h>", "\<BS>", 'g')
  silent! call feedkeys(s:keys, 'xt')
  let s:at = line2byte('.') + col('.') - 2
  call add(s:ends, [getline(1, '$'), s:at < 0 ? 0 : s:at, getreg('"', 1, 1), getregtype('"') ==# 'V'])
endfor
call writefile([json_encode(s:ends)], 'ends.json')
qall!
"#;
    std::fs::write(file("script.vim"), script).unwrap();
    let ran = Command::new("vim")
        .args(["-u", "NONE", "-i", "NONE", "-N", "-es", "-S", "script.vim"])
        .current_dir(dir.path())
        .env("LC_ALL", "C.UTF-8")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("vim starts");
    let ends = std::fs::read_to_string(file("ends.json"));
    let ends = ends.unwrap_or_else(|_| panic!("vim wrote nothing: {ran:?}"));
    let ends: Vec<(Vec<String>, usize, Vec<String>, u8)> = serde_json::from_str(&ends).unwrap();
    let end = |(text, at, register, is_lines): (Vec<String>, usize, Vec<String>, u8)| {
        (text.join("\n"), at, register.join("\n"), is_lines == 1)
    };
    Some(ends.into_iter().map(end).collect())
}

#[track_caller]
fn agree(cases: &[Case]) {
    let Some(theirs) = theirs(cases) else {
        return;
    };
    let mut wrong = Vec::new();
    for (case, theirs) in cases.iter().zip(theirs) {
        let (ours, mut theirs) = (ours(case), theirs);
        // In an empty text it depends on how it became empty.
        if ours.0.is_empty() {
            (theirs.2, theirs.3) = (ours.2.clone(), ours.3);
        }
        if ours != theirs {
            wrong.push(format!("{case:?}\n  vim  {theirs:?}\n  ours {ours:?}"));
        }
    }
    let shown: Vec<&String> = wrong.iter().take(25).collect();
    let shown: Vec<&str> = shown.iter().map(|text| text.as_str()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        shown.join("\n")
    );
}

/// Places of a text at which each key is tried.
const PLACES: usize = 3;

const TEXTS: [&str; 8] = [
    "fix the parser, please",
    "one two\n\n  three(four, [five]) six\nseven\n\nlast line",
    "",
    "  let x = \"a b\\\" c\" + f('d');\n end  ",
    "{\n  a {b} (c)\n}\n\n\nx",
    "été — naïve café\nß-word foo_bar.baz\n",
    "a\nb\nc\nd",
    "say (one (two) \"three\") four   \nfive `six` <seven> eight",
];

fn case(text: &str, at: usize, keys: &str) -> Case {
    Case {
        text: text.to_string(),
        at,
        keys: keys.replace("<Esc>", "\u{1b}").replace("<C-r>", "\u{12}"),
    }
}

/// Returns the positions of characters, and of empty lines.
fn places(text: &str) -> Vec<usize> {
    let ends = |at: usize| text[at..].starts_with('\n') || at == text.len();
    let starts = |at: usize| at == 0 || text[..at].ends_with('\n');
    let all = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
    all.filter(|at| !ends(*at) || starts(*at)).collect()
}

const MOTIONS: &str = "h j k l w W b B e E ge gE 0 ^ $ gg G } % fe Fe te Te ; , 2w 3e 2b 2j 3l 2ge 2fe 2} 3G 2$ 50% { 2{";
const OBJECTS: &str = "iw aw iW aW i\" a\" i' a' i` a` i( a( i) ab i[ a] i{ a{ iB i< a> 2i( 2a(";
const COMMANDS: &str = "x X D C<Esc> Y dd cc<Esc> yy 2dd 2yyp 3x 2X sq<Esc> Sq<Esc> 2s<Esc> rz 3rz ~ 5~ J 3J ix<Esc> ax<Esc> Ix<Esc> Ax<Esc> ox<Esc> Ox<Esc> 3ix<Esc> 2ox<Esc> i<Esc> xu xu<C-r> ddu oq<Esc>u oq<Esc>u<C-r> ddp ddP yyP yyp xp xP yw2p yw2P dwu.. cwz<Esc>w. x.3. ddj. ix<Esc>.l. A!<Esc>j. V<Esc> vd vy vjd vjy Vd Vjd Vjy Vkd vc!<Esc> Vc!<Esc> viwd vi(d va\"d v$d vey$p Vyp v~ V~ vU vu VJ vjJ vrq Vrq veyviwp yyviwp yyVp yiwVp vod vbod vD vY vC!<Esc> vlx. vjd. Vx. 99999999x dj dk yj yk d2j cj!<Esc> yG dG dgg y} 2d2w d3b cc!<Esc>u ix\ny<Esc> 3ix\ny<Esc> cwx\ny<Esc>w. ox\ny<Esc>.u";

#[test]
fn each_key_does_what_vim_does() {
    let mut keys: Vec<String> = Vec::new();
    for motion in MOTIONS.split(' ') {
        keys.push(format!("{motion}jx"));
        keys.extend(["", "d", "y"].map(|before| format!("{before}{motion}")));
        keys.extend(["v", "V"].map(|before| format!("{before}{motion}d")));
        keys.push(format!("c{motion}!<Esc>"));
    }
    for object in OBJECTS.split(' ') {
        keys.extend(["d", "y", "v"].map(|before| format!("{before}{object}")));
        keys.push(format!("c{object}!<Esc>"));
    }
    keys.extend(COMMANDS.split(' ').map(String::from));
    // Each at a few places of each text, which are others for each.
    let mut cases = Vec::new();
    for text in TEXTS {
        let places = places(text);
        for (at, keys) in keys.iter().enumerate() {
            for step in 0..PLACES {
                let place = places[(at * 7 + step * places.len() / PLACES) % places.len()];
                // Newer versions of vim go up there, as the box does.
                if keys.contains('{') && !keys.contains(['i', 'a']) && !text.contains('\n') {
                    continue;
                }
                cases.push(case(text, place, keys));
            }
        }
    }
    agree(&cases);
}

/// Returns a few commands after each other.
fn any_keys() -> impl Strategy<Value = String> {
    // Without `{`, which goes down in a single line.
    const OTHERS: &str = MOTIONS.split_at(MOTIONS.len() - 5).0;
    let words = |list: &'static str| {
        let all: Vec<&str> = list.split(' ').collect();
        prop::sample::select(all)
    };
    let insert = "foo<Esc>|a b<Esc>|<Esc>".split('|').collect::<Vec<_>>();
    let insert = prop::sample::select(insert);
    let count = prop::sample::select(vec!["", "", "", "2", "3"]);
    let change = (count.clone(), words(OTHERS), insert.clone());
    let one = prop_oneof![
        words(OTHERS).prop_map(String::from),
        (words("d y"), words(OTHERS)).prop_map(|(op, motion)| format!("{op}{motion}")),
        (words("d y"), words(OBJECTS)).prop_map(|(op, object)| format!("{op}{object}")),
        change.prop_map(|(count, motion, typed)| format!("{count}c{motion}{typed}")),
        (count.clone(), words("i a I A o O"), insert)
            .prop_map(|(n, key, typed)| format!("{n}{key}{typed}")),
        (count.clone(), words("x X p P ~ J dd yy . D Y u <C-r> rz"))
            .prop_map(|(n, key)| format!("{n}{key}")),
        (words("v V"), words(OTHERS), words("d y ~ <Esc> r- J"))
            .prop_map(|(v, motion, key)| format!("{v}{motion}{key}")),
    ];
    prop::collection::vec(one, 1..8).prop_map(|all| all.concat())
}

#[test]
fn random_keys_do_what_they_do_in_vim() {
    const CASES: usize = 600;
    let mut runner = TestRunner::deterministic();
    let text = "[ab (){}\"\n.,_é-]{0,40}";
    let texts = prop_oneof![
        text,
        prop::sample::select(TEXTS.to_vec()).prop_map(String::from)
    ];
    let any = (texts, any::<prop::sample::Index>(), any_keys());
    let cases: Vec<Case> = (0..CASES)
        .map(|_| {
            let (text, at, keys) = any.new_tree(&mut runner).unwrap().current();
            let places = places(&text);
            case(
                &text,
                places[at.index(places.len())],
                &format!("{keys}<Esc>"),
            )
        })
        .collect();
    agree(&cases);
}

#[test]
fn a_count_has_a_limit() {
    let (text, ..) = ours(&case("", 0, "99999ix<Esc>"));
    assert_eq!(text.len(), super::MAX_COUNT);
    let (text, ..) = ours(&case("", 0, "10000i0123456789 and more<Esc>"));
    assert!(text.len() < 100, "it would not fit into the box");
    let (text, ..) = ours(&case("ab", 0, "yl10000d10000y"));
    assert_eq!(text, "ab");
}
