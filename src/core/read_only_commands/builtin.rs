//! `printf` and `test`, which are shell builtins: they may assign and evaluate.

use crate::core::shell::{SimpleCommand, Word};

/// Conversions that take their argument as text.
const TEXT: &str = "sbcq%";

/// Escapes that some shells replace before they look for conversions: each may become a `%`.
const HIDDEN: [&str; 5] = ["\\45", "\\045", "\\x25", "\\u", "\\U"];

/// Checks `printf`. bash stores a count in the variable that `%n` names: after `printf 'xx%n'
/// PATH`, `ls` runs `2/ls`. zsh and ksh evaluate a number argument, with the commands in it.
pub(super) fn printf(rest: &[Word]) -> Result<(), String> {
    let Some((format, arguments)) = format(rest) else {
        return Ok(());
    };
    let format = format.text.as_str();
    if HIDDEN.iter().any(|h| format.contains(h)) {
        return Err(format!("what `printf {format}` does is not known"));
    }
    match takes(format) {
        Takes::Text => Ok(()),
        Takes::Numbers if arguments.iter().all(|w| is_number(&w.text)) => Ok(()),
        Takes::Numbers => Err("`printf` may evaluate an argument that is not a number".to_string()),
        Takes::Variable => Err(format!("`printf {format}` may assign")),
    }
}

/// Returns the format and its arguments.
fn format(rest: &[Word]) -> Option<(&Word, &[Word])> {
    let is_end = rest.first().is_some_and(|w| w.text == "--");
    rest[usize::from(is_end)..].split_first()
}

enum Takes {
    Text,
    Numbers,
    /// For `%n`, and for any conversion that is not known.
    Variable,
}

/// Returns how a format uses its arguments.
fn takes(format: &str) -> Takes {
    let mut takes = Takes::Text;
    for piece in format.replace("%%", "").split('%').skip(1) {
        let conversion =
            piece.trim_start_matches(|c: char| "-+ #0'.".contains(c) || c.is_ascii_digit());
        match conversion.chars().next() {
            Some(c) if TEXT.contains(c) => {}
            Some(c) if "diouxXeEfFgGaA".contains(c) => takes = Takes::Numbers,
            _ => return Takes::Variable,
        }
    }
    takes
}

fn is_number(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && rest
            .chars()
            .all(|c| c.is_ascii_hexdigit() || c == '.' || c == 'x')
}

/// Checks `test`: ksh and zsh evaluate the operands of a number comparison.
pub(super) fn test(rest: &[Word]) -> Result<(), String> {
    const COMPARED: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let is_fine = |at: Option<usize>| {
        let word = at.and_then(|at| rest.get(at));
        word.is_none_or(|w| is_number(&w.text))
    };
    for (at, word) in rest.iter().enumerate() {
        let compared = COMPARED.contains(&word.text.as_str());
        let before = !compared || is_fine(at.checked_sub(1));
        let behind = !(compared || word.text == "-t") || is_fine(Some(at + 1));
        if !before || !behind {
            return Err(format!(
                "`test {}` may evaluate an argument that is not a number",
                word.text
            ));
        }
    }
    Ok(())
}

/// Returns whether a command's words may change a variable: `printf -v`, `printf %n`.
pub(crate) fn assigns(command: &SimpleCommand) -> bool {
    let Some((name, rest)) = command.words.split_first() else {
        return false;
    };
    let is_option = |w: &Word| w.text.starts_with("-v") || (!w.is_literal() && w.may_be_option());
    let counts = |(f, _): (&Word, _)| !f.is_literal() || matches!(takes(&f.text), Takes::Variable);
    name.text == "printf"
        && (rest.first().is_some_and(is_option) || format(rest).is_some_and(counts))
}
