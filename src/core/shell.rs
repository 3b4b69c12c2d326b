//! Parses a shell command line without running it.
//!
//! [`split`] returns the simple commands of a line, or an error if it cannot split it with
//! certainty. It knows the part of the shell's grammar on which every POSIX shell and bash agree
//! (POSIX.1-2024, "Shell Command Language", 2.2 to 2.10). Everything that can run code or change
//! the meaning of a word is a doubt, not a guess. [`loose_words`] is for the opposite purpose: it
//! finds what may be hidden in a line that could not be split.
//!
//! Invariant: text inside quotes never becomes a separate command. Nothing here knows which
//! commands are dangerous.

/// Maximum length of a line in bytes; longer lines are programs, not commands.
const MAX_LINE_BYTES: usize = 64 * 1024;

const MAX_COMMANDS: usize = 256;

/// The shell joins lines before it reads them, so two parts may be one `$(`.
const JOINED: Doubt = Doubt("lines that are joined inside a word");

/// Words that begin another construct than a simple command.
const RESERVED: [&str; 24] = [
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until", "do",
    "done", "case", "esac", "in", "function", "select", "time", "coproc", "foreach", "repeat",
];

/// Why a line could not be split with certainty, in words for a person: "it has …".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt(pub &'static str);

/// A simple command: `NAME=value ... word ... >target`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    pub assignments: Vec<Assignment>,
    pub words: Vec<Word>,
    /// Redirections to or from a file; `2>&1` is not included.
    pub redirects: Vec<Redirect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub name: String,
    pub value: Word,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub writes: bool,
    pub target: Word,
}

/// A word after quote removal, with the expansions that the shell will still do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// A part was quoted or escaped.
    pub quoted: bool,
    /// It has a variable or a brace expansion: it may become any words, or none.
    pub expands: bool,
    /// It has an unquoted `*`, `?` or `[`: it may become names of files.
    pub glob: bool,
    /// It has an unquoted `~` where the shell replaces it.
    pub tilde: bool,
}

impl Word {
    /// Returns whether the program gets exactly this text.
    pub fn is_literal(&self) -> bool {
        !self.expands && !self.glob && !self.tilde
    }

    /// Returns whether the word can never become an option or an operator, whatever files there
    /// are: an expansion keeps the literal beginning.
    pub fn stays_operand(&self) -> bool {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/');
        let is_home = self.tilde && self.text.starts_with('~');
        !self.expands && (is_home || self.text.starts_with(is_plain))
    }

    /// Returns whether it is an option, or may become one.
    pub fn may_be_option(&self) -> bool {
        self.text.starts_with('-') || (!self.is_literal() && !self.stays_operand())
    }

    /// Returns the literal text before the first `*`, `?` or `[`.
    pub fn certain_beginning(&self) -> &str {
        self.text.split(['*', '?', '[']).next().unwrap_or_default()
    }

    /// Returns the text as a path, in which a leading `~` means the home folder.
    pub fn path(&self) -> String {
        if self.text.starts_with('~') && !self.tilde {
            format!("./{}", self.text)
        } else {
            self.text.clone()
        }
    }
}

/// Splits a line into its simple commands, in their order. The operators between them are dropped:
/// whether a part runs depends on the part before, so each must be judged.
pub fn split(text: &str) -> Result<Vec<SimpleCommand>, Doubt> {
    if text.len() > MAX_LINE_BYTES {
        return Err(Doubt("more than 64 KiB"));
    }
    let strange = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_foreign_blank(c);
    if text.chars().any(strange) {
        return Err(Doubt("control characters or blanks that look like spaces"));
    }
    let mut lexer = Lexer {
        chars: text.chars().collect(),
        at: 0,
    };
    let mut commands = Vec::new();
    let mut command = SimpleCommand::default();
    while let Some(token) = lexer.token()? {
        match token {
            Token::End => commands.push(std::mem::take(&mut command)),
            Token::Word(word) => command.push(word)?,
            Token::Redirect { writes } => {
                let Some(Token::Word(Lexed { word: target, .. })) = lexer.token()? else {
                    return Err(Doubt("a redirection without a target"));
                };
                command.redirects.push(Redirect { writes, target });
            }
            Token::Copy => {}
        }
    }
    commands.push(command);
    commands.retain(|c| *c != SimpleCommand::default());
    if commands.len() > MAX_COMMANDS {
        return Err(Doubt("more than 256 commands"));
    }
    Ok(commands)
}

/// Returns the construct that a reserved word belongs to.
fn compound(word: &str) -> &'static str {
    match word {
        "for" | "while" | "until" | "do" | "done" | "select" | "foreach" | "repeat" => "a loop",
        "if" | "then" | "elif" | "else" | "fi" | "case" | "esac" | "in" | "[[" | "]]" => {
            "a condition"
        }
        "function" => "a function",
        _ => "a compound command",
    }
}

fn is_foreign_blank(c: char) -> bool {
    c.is_whitespace() && !c.is_ascii()
}

impl SimpleCommand {
    /// Returns the assignments and the words, as they were written.
    pub fn spelled(&self) -> Vec<Word> {
        let assigned = self.assignments.iter().map(|a| Word {
            text: format!("{}={}", a.name, a.value.text),
            ..a.value.clone()
        });
        assigned.chain(self.words.iter().cloned()).collect()
    }

    fn push(&mut self, lexed: Lexed) -> Result<(), Doubt> {
        let Lexed { word, equals } = lexed;
        if !self.words.is_empty() {
            self.words.push(word);
            return Ok(());
        }
        if let Some(at) = equals {
            let name = word.text[..at].to_string();
            let value = Word {
                text: word.text[at + 1..].to_string(),
                ..word
            };
            self.assignments.push(Assignment { name, value });
            return Ok(());
        }
        if word.expands || word.glob {
            return Err(Doubt("a command whose name is not written out"));
        }
        if !word.quoted && RESERVED.contains(&word.text.as_str()) {
            return Err(Doubt(compound(&word.text)));
        }
        self.words.push(word);
        Ok(())
    }
}

enum Token {
    Word(Lexed),
    /// A redirection; the next word is the name of the file.
    Redirect {
        writes: bool,
    },
    /// `2>&1` or `2>&-`, without a file.
    Copy,
    /// An operator or a line end.
    End,
}

#[derive(Default)]
struct Lexed {
    word: Word,
    /// The place of an assignment's `=` in the text; for `NAME+=` the name ends in `+`.
    equals: Option<usize>,
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

impl Lexer {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take_if(&mut self, wanted: &[char]) -> bool {
        let hit = self.peek().is_some_and(|c| wanted.contains(&c));
        self.at += usize::from(hit);
        hit
    }

    fn token(&mut self) -> Result<Option<Token>, Doubt> {
        loop {
            let Some(c) = self.peek() else {
                return Ok(None);
            };
            self.at += 1;
            match c {
                ' ' | '\t' => {}
                '\\' if self.take_if(&['\n']) => {}
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => return Ok(Some(Token::End)),
                ';' if self.take_if(&[';', '&']) => return Err(Doubt("a case statement")),
                ';' => return Ok(Some(Token::End)),
                '&' if self.take_if(&['>']) => {
                    self.take_if(&['>']);
                    return Ok(Some(Token::Redirect { writes: true }));
                }
                '&' | '|' => {
                    self.take_if(&['&', '|']);
                    return Ok(Some(Token::End));
                }
                '(' | ')' => return Err(Doubt("a subshell, a function or an array")),
                '<' | '>' => return self.redirection(c).map(Some),
                _ => {
                    self.at -= 1;
                    let lexed = self.word()?;
                    let before_redirection = self.peek().is_some_and(|c| c == '<' || c == '>');
                    if before_redirection && is_descriptor(&lexed.word) {
                        continue;
                    }
                    return Ok(Some(Token::Word(lexed)));
                }
            }
        }
    }

    fn redirection(&mut self, first: char) -> Result<Token, Doubt> {
        let mut writes = first == '>';
        match self.peek() {
            Some('(') => return Err(Doubt("a process substitution")),
            Some('<') if !writes => return Err(Doubt("a here-document")),
            Some('&') => return self.copy(),
            _ => {}
        }
        writes |= self.take_if(if writes { &['>', '|'] } else { &['>'] });
        Ok(Token::Redirect { writes })
    }

    /// Accepts only digits or a `-` directly after the `&`. bash runs `rm` for `>&-rm x`, and
    /// expands other text there twice.
    fn copy(&mut self) -> Result<Token, Doubt> {
        self.at += 1;
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.take_if(&['-']);
        if self.at == start || self.peek().is_some_and(|c| !ends_word(c)) {
            return Err(Doubt("a descriptor that is not written out"));
        }
        Ok(Token::Copy)
    }

    fn word(&mut self) -> Result<Lexed, Doubt> {
        let mut lexed = Lexed::default();
        let mut brace = false;
        // The last unquoted character, which gives `..` and `=~` a meaning.
        let mut last = None;
        while let Some(c) = self.peek() {
            if ends_word(c) {
                break;
            }
            self.at += 1;
            let plain = match c {
                '\'' => self.single_quoted(&mut lexed.word)?,
                '"' => self.double_quoted(&mut lexed.word)?,
                '\\' => self.escaped(&mut lexed.word)?,
                '`' => return Err(Doubt("a command substitution")),
                '$' => self.dollar(&mut lexed.word, false)?,
                _ => {
                    let word = &mut lexed.word;
                    brace |= c == '{';
                    word.expands |= brace && (c == ',' || (c == '.' && last == Some('.')));
                    word.glob |= matches!(c, '*' | '?' | '[');
                    word.tilde |= c == '~' && (word.is_empty() || matches!(last, Some('=' | ':')));
                    if c == '=' && lexed.equals.is_none() && word.is_name() {
                        lexed.equals = Some(word.text.len());
                    }
                    word.text.push(c);
                    Some(c)
                }
            };
            last = plain;
        }
        // The command `[` is not a pattern.
        lexed.word.glob &= lexed.word.text != "[";
        Ok(lexed)
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<Option<char>, Doubt> {
        word.quoted = true;
        loop {
            match self.peek() {
                None => return Err(Doubt("a quote that is not closed")),
                Some(c) => {
                    self.at += 1;
                    if c == '\'' {
                        return Ok(None);
                    }
                    word.text.push(c);
                }
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<Option<char>, Doubt> {
        word.quoted = true;
        loop {
            let Some(c) = self.peek() else {
                return Err(Doubt("a quote that is not closed"));
            };
            self.at += 1;
            match c {
                '"' => return Ok(None),
                '`' => return Err(Doubt("a command substitution")),
                '$' => {
                    self.dollar(word, true)?;
                }
                '\\' => match self.peek() {
                    Some('\n') => return Err(JOINED),
                    Some(next @ ('$' | '`' | '"' | '\\')) => {
                        word.text.push(next);
                        self.at += 1;
                    }
                    _ => word.text.push('\\'),
                },
                c => word.text.push(c),
            }
        }
    }

    fn escaped(&mut self, word: &mut Word) -> Result<Option<char>, Doubt> {
        match self.peek() {
            None => return Err(Doubt("a backslash at its end")),
            Some('\n') => return Err(JOINED),
            Some(c) => {
                self.at += 1;
                word.quoted = true;
                word.text.push(c);
            }
        }
        Ok(None)
    }

    /// Parses the text after a `$`: a plain variable, a literal `$`, or a doubt.
    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<Option<char>, Doubt> {
        word.text.push('$');
        match self.peek() {
            Some('(') => return Err(Doubt("a command substitution or arithmetic")),
            Some('[') => return Err(Doubt("arithmetic")),
            Some('{') => return Err(Doubt("a parameter expansion in braces")),
            Some('\'' | '"') if !in_quotes => {
                return Err(Doubt("a quote of a kind that differs from shell to shell"));
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                word.expands = true;
                while let Some(c) = self.peek().filter(|c| is_name_char(*c)) {
                    word.text.push(c);
                    self.at += 1;
                }
            }
            Some(c) if c.is_ascii_digit() || "?!$#@*-".contains(c) => {
                word.expands = true;
                word.text.push(c);
                self.at += 1;
            }
            _ => {}
        }
        Ok(None)
    }
}

fn ends_word(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
    )
}

fn is_name_char(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// Returns whether the word is a descriptor: digits directly before `<` or `>`.
fn is_descriptor(word: &Word) -> bool {
    !word.quoted && !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit())
}

impl Word {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.quoted
    }

    /// Returns whether the text so far is the name of a variable, or one with the `+` of `+=`.
    fn is_name(&self) -> bool {
        let name = self.text.strip_suffix('+').unwrap_or(&self.text);
        !self.quoted
            && !self.expands
            && name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && name.chars().all(is_name_char)
    }
}

/// Returns every word that may be in a text, whatever its grammar: once with quotes removed
/// (`r""m`), once with quotes as ends (`sh -c "rm x"`). The result is approximate: it has too many
/// words, and lacks those that are computed.
pub fn loose_words(text: &str) -> [Vec<String>; 2] {
    let joined: String = text
        .replace("\\\n", "")
        .chars()
        .filter(|c| *c != '\\')
        .collect();
    let ends = |c: char| c.is_whitespace() || c.is_control() || ";|&()<>{}$`,=!".contains(c);
    let words = |text: &str, quotes_end: bool| -> Vec<String> {
        text.split(|c| ends(c) || (quotes_end && (c == '\'' || c == '"')))
            .map(|w| w.replace(['\'', '"'], ""))
            .filter(|w| !w.is_empty())
            .collect()
    };
    [words(&joined, false), words(&joined, true)]
}

/// Returns a text as one argument of a shell: quoted if a character of it may be special.
pub fn one_argument(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Commands as `a b|c d`; files written and read as `>f`, `<f`; a doubt as `?why`.
    fn shown(text: &str) -> String {
        let commands = match split(text) {
            Ok(commands) => commands,
            Err(Doubt(why)) => return format!("?{why}"),
        };
        let show = |c: &SimpleCommand| {
            let assigned = c
                .assignments
                .iter()
                .map(|a| format!("{}={}", a.name, a.value.text));
            let words = c.words.iter().map(|w| w.text.clone());
            let files = c.redirects.iter().map(|r| {
                let sign = if r.writes { ">" } else { "<" };
                format!("{sign}{}", r.target.text)
            });
            let all: Vec<String> = assigned.chain(words).chain(files).collect();
            all.join(" ")
        };
        commands.iter().map(show).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn lines_are_split_as_the_shell_does() {
        for (line, want) in [
            ("", ""),
            ("ls -la", "ls -la"),
            ("a && b || c; d & e\nf", "a|b|c|d|e|f"),
            ("a|b |& c", "a|b|c"),
            ("a&&b;c", "a|b|c"),
            ("a \\\n b", "a b"),
            ("echo 'a; b' \"c && d\" e\\;f", "echo a; b c && d e;f"),
            ("echo \"a\\\"b\\$c\\d\"", "echo a\"b$c\\d"),
            ("r\"\"m x", "rm x"),
            ("\\rm x", "rm x"),
            ("echo a # b; rm c\nd", "echo a|d"),
            ("echo a#b", "echo a#b"),
            ("# only", ""),
            ("FOO=1 BAR='x y' make", "FOO=1 BAR=x y make"),
            ("X+=1 a", "X+=1 a"),
            ("make FOO=1", "make FOO=1"),
            ("'A'=1 b", "A=1 b"),
            ("a 2>&1 >/dev/null", "a >/dev/null"),
            ("a 2>e <i >>o", "a >e <i >o"),
            ("a2>e", "a2 >e"),
            ("a &>o; b >| p; c <> q", "a >o|b >p|c >q"),
            ("a >&2 2>&- 3<&0-", "a"),
            (">f", ">f"),
            ("echo $HOME ~ *.rs {a,b}", "echo $HOME ~ *.rs {a,b}"),
            ("[ -f x ]", "[ -f x ]"),
            ("git show HEAD^{tree}", "git show HEAD^{tree}"),
            ("echo 5$ $", "echo 5$ $"),
        ] {
            assert_eq!(shown(line), want, "{line}");
        }
    }

    #[test]
    fn a_line_that_may_run_hidden_code_is_doubtful() {
        for line in [
            "echo $(rm x)",
            "echo `rm x`",
            "echo \"$(rm x)\"",
            "echo \"`rm x`\"",
            "echo $((1+1))",
            "echo $[1]",
            "echo ${x}",
            "echo ${x:-$(rm)}",
            "echo $'a'",
            "echo $\"a\"",
            "(rm x)",
            "f() { rm x; }",
            "a=(1 2)",
            "cat <(rm x)",
            "tee >(rm x)",
            "cat <<EOF\nx\nEOF",
            "cat <<< x",
            "if true; then rm x; fi",
            "for i in a; do rm $i; done",
            "while true; do rm x; done",
            "{ rm x; }",
            "! rm x",
            "time rm x",
            "[[ -f x ]]",
            "case x in x) rm x;; esac",
            "function f { rm x; }",
            "$X a",
            "r* x",
            "{rm,x}",
            "a['$(rm)']=1",
            "echo 'open",
            "echo \"open",
            "echo \\",
            ">&-rm x",
            "2>&-rm x",
            "<&-rm x",
            ">&\\\n-rm x",
            "a\\\nb",
            "echo $\\\nA",
            "echo \"$\\\n(rm x)\"",
            "echo \"\\\n\"",
            "a >",
            "a <&$x",
            "a >&f",
            "a >& 2",
            "a >&2f",
            "ls\r",
            "ls\0rm",
            "ls\u{a0}rm",
            "ls\u{2003}x",
            "\u{1b}[2Kls",
            "coproc rm x",
        ] {
            assert!(split(line).is_err(), "{line}: {}", shown(line));
        }
        assert!(split(&"a ".repeat(MAX_LINE_BYTES)).is_err());
    }

    #[test]
    fn words_that_the_shell_expands_are_marked_as_not_literal() {
        let word = |text: &str| split(&format!("x {text}")).unwrap()[0].words[1].clone();
        for text in [
            "$HOME",
            "\"$HOME\"",
            "a$1",
            "{a,b}",
            "x{1..3}",
            "*",
            "a?",
            "[a]",
            "~",
            "~/x",
        ] {
            assert!(!word(text).is_literal(), "{text}");
        }
        for text in [
            "'$HOME'", "\\$HOME", "'*'", "\"*\"", "\\*", "'~'", "a~b", "{a}", "'{a,b}'",
        ] {
            assert!(word(text).is_literal(), "{text}");
        }
    }

    #[test]
    fn a_quoted_tilde_is_a_name() {
        let path = |text: &str| split(text).unwrap()[0].words[1].path();
        assert_eq!(path("x ~/a"), "~/a");
        assert_eq!(path("x '~'/a"), "./~/a");
    }

    #[test]
    fn hidden_words_are_found() {
        for line in [
            "echo $(rm x)",
            "`rm x`",
            "bash -c 'cd /; rm x'",
            "r\"\"m x",
            "$'rm' x",
            "{rm,-rf,x}",
            "if true; then r\\m x; fi",
            "rm$IFS-rf",
            "X=rm; $X y",
            "r\\\nm x",
        ] {
            let [removed, ended] = loose_words(line);
            assert!(removed.iter().chain(&ended).any(|w| w == "rm"), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC*|[ a-c'\"\\\\$`(){}<>|&;#~*=\n0-9]{0,40}") {
            let _ = split(&line);
            let _ = loose_words(&line);
        }

        #[test]
        fn quoted_text_never_becomes_a_command(text in "[ -~\n]{0,40}") {
            let single = format!("echo '{}'", text.replace('\'', ""));
            let commands = split(&single).unwrap();
            prop_assert_eq!(commands.len(), 1);
            prop_assert_eq!(&commands[0].words[1].text, &text.replace('\'', ""));

            let mut escaped = String::new();
            for c in text.chars() {
                if "$`\"\\".contains(c) {
                    escaped.push('\\');
                }
                escaped.push(c);
            }
            let commands = split(&format!("echo \"{escaped}\"")).unwrap();
            prop_assert_eq!(commands.len(), 1);
            prop_assert_eq!(&commands[0].words[1].text, &text);
        }

        #[test]
        fn every_command_after_an_operator_is_found(
            words in prop::collection::vec("[a-z]{1,4}x", 1..6),
            operators in prop::collection::vec(prop::sample::select(vec![";", "&&", "||", "|", "&", "\n", " |& "]), 5),
        ) {
            let mut line = words[0].clone();
            for (word, operator) in words[1..].iter().zip(&operators) {
                line.push_str(operator);
                line.push_str(word);
            }
            let found: Vec<String> = split(&line).unwrap().iter().map(|c| c.words[0].text.clone()).collect();
            prop_assert_eq!(found, words);
        }
    }
}
