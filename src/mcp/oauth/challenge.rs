//! `WWW-Authenticate: Bearer …`: the reason of a refusal, and the access that is required.

/// The content of the header in a response with status 401 or 403.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Address of the metadata that name the authorization server.
    pub resource_metadata: Option<String>,
    /// Scopes that this request needs.
    pub scope: Option<String>,
    pub error: Option<String>,
}

impl Challenge {
    /// Returns whether the token is valid but lacks a scope.
    pub fn is_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Reads the first `Bearer` challenge in the values of the header.
    pub fn read<'a>(values: impl IntoIterator<Item = &'a str>) -> Challenge {
        values.into_iter().find_map(bearer).unwrap_or_default()
    }
}

fn bearer(value: &str) -> Option<Challenge> {
    let mut challenge = None;
    for (scheme, name, value) in parameters(value) {
        if !scheme.eq_ignore_ascii_case("bearer") {
            continue;
        }
        let challenge = challenge.get_or_insert_with(Challenge::default);
        let field = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut challenge.resource_metadata,
            "scope" => &mut challenge.scope,
            "error" => &mut challenge.error,
            _ => continue,
        };
        field.get_or_insert(value);
    }
    challenge
}

/// Returns each `name=value` with its scheme. A scheme alone has an empty name.
fn parameters(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut scheme = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let behind = tail.trim_start();
        rest = match behind.strip_prefix('=') {
            Some(value) if !word.is_empty() => {
                let (value, tail) = value_of(value.trim_start());
                found.push((scheme.clone(), word.to_string(), value));
                tail
            }
            Some(tail) => tail,
            None => {
                if !word.is_empty() {
                    scheme = word.to_string();
                    found.push((scheme.clone(), String::new(), String::new()));
                }
                behind
            }
        };
        rest = rest.trim_start_matches([',', ' ', '\t']);
    }
    found
}

/// Splits off a token or a quoted string, and returns the rest.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_string(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char => value.push(char),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> Challenge {
        Challenge::read([value])
    }

    #[test]
    fn a_challenge_is_read_in_every_form() {
        let all = read(
            r#"Bearer error="insufficient_scope", scope="a b", resource_metadata="https://x/y?a=b,c", error_description="a \"b\" = c""#,
        );
        assert_eq!(all.scope.as_deref(), Some("a b"));
        assert_eq!(all.resource_metadata.as_deref(), Some("https://x/y?a=b,c"));
        assert!(all.is_scope());
        assert_eq!(read("bearer scope=a").scope.as_deref(), Some("a"));
        assert_eq!(
            read("Basic realm=\"x\", Bearer scope=\"s\"")
                .scope
                .as_deref(),
            Some("s")
        );
        assert_eq!(
            read("Bearer scope=\"s\", Basic scope=\"t\"")
                .scope
                .as_deref(),
            Some("s")
        );
        assert_eq!(read("Bearer"), Challenge::default());
        assert_eq!(read("Basic scope=\"t\""), Challenge::default());
        assert_eq!(
            Challenge::read(["Basic a=b", "Bearer scope=x"])
                .scope
                .as_deref(),
            Some("x")
        );
        assert_eq!(Challenge::read([]), Challenge::default());
    }

    proptest! {
        #[test]
        fn any_header_is_read_to_its_end(value in "[ -~]{0,80}", odd in ".{0,40}") {
            read(&value);
            read(&odd);
            read(&format!("Bearer {value}"));
        }
    }
}
