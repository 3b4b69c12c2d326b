//! Notifications for a person who looks elsewhere: when they are sent, and their bytes for a
//! terminal.
//!
//! A terminal is asked in one of three ways (OSC 9, 777, 99), in tmux through its pass-through.
//! Otherwise its bell rings. The text may come from a model, so its control characters are removed.

use std::time::Duration;

use crate::config::{NotifyConfig, NotifyMethod, NotifyOn};
use crate::session::notification_line;

/// A notification and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub on: NotifyOn,
    /// One line, without control characters.
    pub text: String,
}

impl Call {
    pub(crate) fn new(on: NotifyOn, text: &str) -> Call {
        Call {
            on,
            text: notification_line(text),
        }
    }

    /// Returns whether a notification is due after this time of work.
    pub(crate) fn is_due(&self, config: &NotifyConfig, worked: Duration) -> bool {
        let is_long = self.on != NotifyOn::Done || worked.as_secs() >= config.after_sec;
        config.on.contains(&self.on) && is_long
    }
}

/// Returns the bytes for the terminal. `env` is the environment of this program.
pub(crate) fn bytes<'a>(
    text: &str,
    method: NotifyMethod,
    env: impl Fn(&str) -> Option<&'a str>,
) -> String {
    let method = match method {
        NotifyMethod::Auto => of_terminal(&env),
        method => method,
    };
    let sequence = match method {
        NotifyMethod::Osc9 => format!("\x1b]9;{text}\x07"),
        // A semicolon would begin another field.
        NotifyMethod::Osc777 => format!("\x1b]777;notify;rewake;{}\x07", text.replace(';', ",")),
        NotifyMethod::Osc99 => format!("\x1b]99;;{text}\x1b\\"),
        NotifyMethod::Bell | NotifyMethod::Auto => return "\x07".to_string(),
        NotifyMethod::None => return String::new(),
    };
    match env("TMUX").is_some() {
        true => format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")),
        false => sequence,
    }
}

/// Returns the method that the terminal is known to support.
fn of_terminal<'a>(env: &impl Fn(&str) -> Option<&'a str>) -> NotifyMethod {
    let is = |name: &str, value: &str| env(name).is_some_and(|v| v.contains(value));
    if env("KITTY_WINDOW_ID").is_some() || is("TERM", "kitty") {
        NotifyMethod::Osc99
    } else if is("TERM", "rxvt") || is("TERM", "foot") || env("VTE_VERSION").is_some() {
        NotifyMethod::Osc777
    } else if is("TERM_PROGRAM", "iTerm")
        || is("TERM_PROGRAM", "WezTerm")
        || is("TERM_PROGRAM", "ghostty")
        || is("TERM", "ghostty")
        || env("WT_SESSION").is_some()
        || env("ConEmuPID").is_some()
    {
        NotifyMethod::Osc9
    } else {
        NotifyMethod::Bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_in(vars: &[(&str, &'static str)], method: NotifyMethod, text: &str) -> String {
        let env = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        bytes(text, method, env)
    }

    #[test]
    fn each_terminal_is_called_in_its_own_way() {
        let auto = |vars: &[(&str, &'static str)]| bytes_in(vars, NotifyMethod::Auto, "a; b");
        assert_eq!(auto(&[("TERM", "xterm-kitty")]), "\x1b]99;;a; b\x1b\\");
        assert_eq!(auto(&[("TERM_PROGRAM", "WezTerm")]), "\x1b]9;a; b\x07");
        let vte = [("VTE_VERSION", "7600")];
        assert_eq!(auto(&vte), "\x1b]777;notify;rewake;a, b\x07");
        assert_eq!(auto(&[("TERM", "xterm-256color")]), "\x07");
        assert_eq!(auto(&[("TERM", "dumb")]), "\x07");
        let tmux = [("TMUX", "/tmp/x,1,0"), ("TERM_PROGRAM", "WezTerm")];
        assert_eq!(auto(&tmux), "\x1bPtmux;\x1b\x1b]9;a; b\x07\x1b\\");
        assert_eq!(bytes_in(&[], NotifyMethod::None, "a"), "");
        assert_eq!(bytes_in(&tmux, NotifyMethod::Bell, "a"), "\x07");
    }

    #[test]
    fn nothing_that_a_model_wrote_commands_the_terminal() {
        let call = Call::new(NotifyOn::Approval, "a\x1b]0;b\x07\u{9c}\u{9d}0;c\n\x00d");
        assert!(!call.text.chars().any(char::is_control), "{:?}", call.text);
        let long = Call::new(NotifyOn::Done, &"x".repeat(1_000_000));
        assert!(long.text.len() < 1_000);
    }

    #[test]
    fn short_turns_cause_no_notification() {
        let config = NotifyConfig::default();
        let due = |on, s| Call::new(on, "x").is_due(&config, Duration::from_secs(s));
        assert!(due(NotifyOn::Approval, 0) && due(NotifyOn::Failed, 0));
        assert!(!due(NotifyOn::Done, 9) && due(NotifyOn::Done, 10));
        let none = NotifyConfig {
            on: Vec::new(),
            ..NotifyConfig::default()
        };
        assert!(!Call::new(NotifyOn::Approval, "x").is_due(&none, Duration::MAX));
    }
}
