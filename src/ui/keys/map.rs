//! The keys in use: those of the table, with those that the config names instead.
//!
//! Invariant: in one context a key means one thing, and a character without Ctrl or Alt can always
//! be typed. What breaks this in the config is a fault, and the keys of the table apply.

use std::collections::BTreeMap;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyModifiers};
use toml::Value;

use super::table::{Action, BINDINGS, Binding, Chord, Context, Group, Press};
use crate::config::{Config, Loaded};
use crate::core::text::nearest;

/// The keys of each row of the table.
#[derive(Debug)]
pub(crate) struct Keymap(Vec<Vec<Chord>>);

impl Default for Keymap {
    fn default() -> Keymap {
        Keymap(BINDINGS.iter().map(|b| b.keys.to_vec()).collect())
    }
}

/// A name in `[keys]` that is not used, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyFault {
    pub name: String,
    pub why: String,
}

/// Returns what is wrong in `[keys]`, with the lines.
pub(crate) fn warnings(loaded: &Loaded) -> Vec<String> {
    let (_, faults) = Keymap::checked(&loaded.config.keys.0);
    let faults = faults.into_iter();
    let line = |fault: KeyFault| format!("{}: {}", loaded.origin_of_key(&fault.name), fault.why);
    faults.map(line).collect()
}

impl Keymap {
    /// Returns the keys of the config, and of the table where it has none or they are wrong.
    pub(crate) fn of(config: &Config) -> Keymap {
        Keymap::checked(&config.keys.0).0
    }

    pub(super) fn checked(config: &BTreeMap<String, Value>) -> (Keymap, Vec<KeyFault>) {
        let (mut map, mut faults) = (Keymap::default(), Vec::new());
        let mut is_set = vec![false; BINDINGS.len()];
        let mut fault = |name: &str, why: String| {
            let name = name.to_string();
            faults.push(KeyFault { name, why });
        };
        for (name, value) in config {
            let Some(row) = BINDINGS.iter().position(|b| b.name == name) else {
                fault(name, unknown(name));
                continue;
            };
            match chords(&BINDINGS[row], value) {
                Ok(keys) => (map.0[row], is_set[row]) = (keys, true),
                Err(why) => fault(name, format!("keys.{name}: {why}; its usual keys apply")),
            }
        }
        while let Some((row, other, chord)) = map.clash(&is_set) {
            let name = BINDINGS[row].name;
            let (key, other) = (chord.spelled(), BINDINGS[other].name);
            let why = format!("keys.{name}: {key} is the key of {other}; its usual keys apply");
            fault(name, why);
            map.0[row] = BINDINGS[row].keys.to_vec();
            is_set[row] = false;
        }
        (map, faults)
    }

    /// Returns a row of the config that has a key of another row in the same context.
    fn clash(&self, is_set: &[bool]) -> Option<(usize, usize, Chord)> {
        let rows = (0..BINDINGS.len()).rev().filter(|row| is_set[*row]);
        let mut pairs = rows.flat_map(|row| (0..BINDINGS.len()).map(move |other| (row, other)));
        pairs.find_map(|(row, other)| {
            let is_near = row != other && is_shared(BINDINGS[row].context, BINDINGS[other].context);
            let clashes = |a: &&Chord| self.0[other].iter().any(|b| a.clashes(b));
            let chord = self.0[row].iter().find(clashes).filter(|_| is_near)?;
            Some((row, other, *chord))
        })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static Binding, &[Chord])> {
        BINDINGS.iter().zip(self.0.iter().map(Vec::as_slice))
    }

    /// Returns the action of a key. `contexts` are those that apply, the strongest first.
    pub(super) fn bound(&self, chord: Chord, contexts: &[Context]) -> Option<Action> {
        contexts.iter().find_map(|context| {
            self.rows()
                .find(|(b, keys)| b.context == *context && keys.contains(&chord))
                .map(|(b, _)| b.action)
        })
    }

    pub(super) fn begins(&self, press: Press, contexts: &[Context]) -> bool {
        self.rows()
            .filter(|(b, _)| contexts.contains(&b.context))
            .flat_map(|(_, keys)| keys)
            .any(|chord| matches!(chord, Chord::Two(first, _) if *first == press))
    }

    /// Returns the first key of an action, as a person reads it. Empty: it has none.
    pub(crate) fn key(&self, action: Action) -> String {
        let mut rows = self.rows().filter(|(b, _)| b.action == action);
        let key = rows.find_map(|(_, keys)| keys.first());
        key.map(Chord::spelled).unwrap_or_default()
    }

    /// Returns the last key of an action that works now: one for an empty box only if it is empty.
    pub(crate) fn key_in(&self, action: Action, is_empty: bool) -> String {
        let rows = self
            .rows()
            .filter(|(b, _)| b.action == action && (is_empty || b.context != Context::Empty));
        let key = rows.filter_map(|(_, keys)| keys.first()).last();
        key.map(Chord::spelled).unwrap_or_default()
    }

    /// Returns ` · Esc stops`; nothing if the action has no key.
    pub(crate) fn more(&self, action: Action, effect: &str) -> String {
        match self.hint(action, effect) {
            hint if hint.is_empty() => hint,
            hint => format!(" · {hint}"),
        }
    }

    /// Returns `Esc stops`; nothing if the action has no key.
    pub(crate) fn hint(&self, action: Action, effect: &str) -> String {
        match self.key(action) {
            key if key.is_empty() => String::new(),
            key => format!("{key} {effect}"),
        }
    }
}

/// Returns whether both apply whenever one does.
fn is_shared(a: Context, b: Context) -> bool {
    let always = |context| matches!(context, Context::Main | Context::Typing);
    a == b || (always(a) && always(b))
}

fn unknown(name: &str) -> String {
    let near = nearest(name, BINDINGS.iter().map(|b| b.name));
    match near {
        _ if name.is_empty() => "keys must be a table".to_string(),
        Some(near) => format!("keys.{name}: unknown action; did you mean {near}?"),
        None => format!("keys.{name}: unknown action; docs/screen.md lists them"),
    }
}

/// Returns the keys of a value: a key, or a list of keys.
fn chords(binding: &Binding, value: &Value) -> Result<Vec<Chord>, String> {
    let one = |value: &Value| {
        let text = value.as_str().ok_or("must be a key or a list of keys")?;
        let chord = Chord::parse(text).ok_or_else(|| format!("unknown key {text:?}"))?;
        // A letter that is typed ahead must stay text.
        let may_be_typed = matches!(
            binding.context,
            Context::Empty | Context::Idle | Context::Queued
        );
        match chord.first().is_typed() && !may_be_typed {
            true => Err(format!("{text} would no longer be text")),
            false => Ok(chord),
        }
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

const NAMES: [(&str, KeyCode); 17] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pgup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("pgdn", KeyCode::PageDown),
];

impl Chord {
    /// Parses `Ctrl+X h`.
    pub(super) fn parse(text: &str) -> Option<Chord> {
        let mut keys = text.split_whitespace().map(Press::parse);
        match (keys.next()?, keys.next(), keys.next()) {
            (first, None, None) => first.map(Chord::One),
            (first, Some(second), None) => Some(Chord::Two(first?, second?)),
            _ => None,
        }
    }

    fn first(&self) -> Press {
        match self {
            Chord::One(press) | Chord::Two(press, _) => *press,
        }
    }

    /// Returns whether they are the same, or one begins with the other.
    fn clashes(&self, other: &Chord) -> bool {
        self == other
            || match (self, other) {
                (Chord::One(a), Chord::Two(b, _)) | (Chord::Two(a, _), Chord::One(b)) => a == b,
                _ => false,
            }
    }
}

impl Press {
    fn parse(text: &str) -> Option<Press> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        while let Some((name, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty())
        {
            modifiers |= match name.to_ascii_lowercase().as_str() {
                "ctrl" | "control" => KeyModifiers::CONTROL,
                "alt" | "meta" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                _ => return None,
            };
            rest = after;
        }
        let word = rest.to_ascii_lowercase();
        let mut typed = rest.chars();
        let named = NAMES.iter().find(|(name, _)| *name == word);
        let function = word.strip_prefix('f').and_then(|n| u8::from_str(n).ok());
        let code = match (named, function, typed.next(), typed.next()) {
            (Some((_, KeyCode::Tab)), ..) if modifiers.contains(KeyModifiers::SHIFT) => {
                KeyCode::BackTab
            }
            (Some((_, code)), ..) => *code,
            (None, Some(n @ 1..=24), ..) => KeyCode::F(n),
            (None, _, Some(c), None) if !c.is_control() => KeyCode::Char(c),
            _ => return None,
        };
        // Terminals send Shift as a part of a character.
        if let KeyCode::Char(c) = code {
            let has_ctrl = modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
            let is_shift = modifiers.contains(KeyModifiers::SHIFT);
            let code = KeyCode::Char(if has_ctrl { c.to_ascii_lowercase() } else { c });
            return (!is_shift).then_some(Press { code, modifiers });
        }
        Some(Press { code, modifiers })
    }

    /// Returns whether the key types a character.
    fn is_typed(&self) -> bool {
        matches!(self.code, KeyCode::Char(_)) && self.modifiers.is_empty()
    }
}

/// A line of the help sheet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HelpLine {
    pub action: Action,
    pub group: Group,
    /// `F2, Ctrl+X h`
    pub keys: String,
    pub text: &'static str,
}

/// Returns the whole help sheet, group by group, without what has no key.
pub(crate) fn help(map: &Keymap) -> Vec<HelpLine> {
    let of = |group: Group| map.rows().filter(move |(b, _)| b.group == group);
    let line = |(b, keys): (&'static Binding, &[Chord])| {
        let keys: Vec<String> = keys.iter().map(Chord::spelled).collect();
        (!keys.is_empty()).then(|| HelpLine {
            action: b.action,
            group: b.group,
            keys: keys.join(", "),
            text: b.help,
        })
    };
    Group::ALL
        .into_iter()
        .flat_map(of)
        .filter_map(line)
        .collect()
}
