//! `${VAR}` and `${VAR:-otherwise}` in the definition of a server.
//!
//! Each reference is expanded once: its value is not expanded again. `$VAR` without braces, and
//! braces around text that is not a variable name, stay unchanged.

/// Returns the text with the values of the variables.
///
/// # Errors
/// Returns the error of `value` for a variable without a value and without a default.
pub(super) fn expand<E>(
    text: &str,
    mut value: impl FnMut(&str, Option<&str>) -> Result<String, E>,
) -> Result<String, E> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match variable(rest) {
            Some((name, otherwise, length)) => {
                out.push_str(&value(name, otherwise)?);
                rest = &rest[length..];
            }
            None => {
                out.push_str("${");
                rest = &rest["${".len()..];
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the names of the variables in a text.
pub(super) fn variables(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let expanded = expand(text, |name, _| {
        names.push(name.to_string());
        Ok::<_, std::convert::Infallible>(String::new())
    });
    drop(expanded);
    names
}

/// Parses a variable at the beginning of the text: its name, its default, and the length in bytes.
fn variable(text: &str) -> Option<(&str, Option<&str>, usize)> {
    let inside = text.strip_prefix("${")?;
    let end = inside.find('}')?;
    let (name, otherwise) = match inside[..end].split_once(":-") {
        Some((name, otherwise)) => (name, Some(otherwise)),
        None => (&inside[..end], None),
    };
    let length = "${".len() + end + "}".len();
    is_variable(name).then_some((name, otherwise, length))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_braces_is_expanded_only_once() {
        let value = |name: &str, otherwise: Option<&str>| match (name, otherwise) {
            ("A", _) => Ok("${B}".to_string()),
            (_, Some(otherwise)) => Ok(otherwise.to_string()),
            (name, None) => Err(name.to_string()),
        };
        for (text, expanded) in [
            ("x${A}y${A}", Ok("x${B}y${B}")),
            ("${C:-http://h:1/}", Ok("http://h:1/")),
            ("${C:-}", Ok("")),
            ("${A:-x}", Ok("${B}")),
            ("$A ${} ${1A} ${A b} ${A", Ok("$A ${} ${1A} ${A b} ${A")),
            ("${ ${A}", Ok("${ ${B}")),
            ("ä${A}ä", Ok("ä${B}ä")),
            ("${C}", Err("C")),
        ] {
            let want = expanded.map(str::to_string).map_err(str::to_string);
            assert_eq!(expand(text, value), want, "{text}");
        }
        assert_eq!(variables("${A}${B:-x}$C"), ["A", "B"]);
    }
}
