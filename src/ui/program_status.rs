//! The title of the window and the report of the Program Status Protocol (OSC 7501), with which the
//! terminal shows the state elsewhere, in tabs and lists.
//!
//! A report is sent only to a terminal that answered [`ASK`], and withdrawn when the terminal is
//! given back. Source: <https://www.superlogical.com/rex/docs/build/program-status>, revision 0.4.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::app::{App, Phase};
use super::text::clean_line;
use crate::core::marks::title_line;
use crate::core::next::Why;
use crate::core::text::session_name;

/// Asks whether the terminal takes reports. It answers with the same bytes.
pub(super) const ASK: &str = "\x1b]7501;?\x1b\\";
/// Withdraws the report.
pub(super) const WITHDRAW: &str = "\x1b]7501;state=clear\x1b\\";

/// Maximum length of a title in a report.
const MAX_TITLE_BYTES: usize = 192;

const TITLE_COLUMNS: usize = 60;

/// Returns the state of the program as a word in the title, and as the state in a report.
fn status(app: &App) -> (&'static str, &'static str) {
    let session = &app.session;
    let questions = &app.prompts.questions;
    let working = ("works: ", "working");
    let waits = ("asks: ", "blocked:kind=question");
    match session.phase {
        _ if questions.asked.is_some() => ("asks: ", "blocked:kind=permission"),
        _ if questions.is_open() => waits,
        Phase::Working { .. } => working,
        Phase::Resting(Why::Idle) if session.now.background_tasks > 0 => working,
        // A session has a title once it was given a task.
        Phase::Resting(Why::Idle) if session.now.title.is_some() => ("done: ", "done"),
        Phase::Resting(Why::Halted) if session.now.has_failed => ("failed: ", "error"),
        Phase::Resting(Why::Nonsense | Why::Unfit) => ("failed: ", "error"),
        Phase::Resting(Why::Asked | Why::Turns | Why::Limit | Why::Repeats | Why::CrashLoop) => {
            waits
        }
        _ => ("", "idle"),
    }
}

/// Returns the bytes that set the title, and the report if the terminal takes reports.
pub(super) fn bytes(app: &App) -> String {
    let folder = Path::new(&app.launch.folder).file_name();
    let folder = folder.map(|name| name.to_string_lossy());
    let title = app.session.now.title.as_deref().or(folder.as_deref());
    let name = title_line(session_name(title), TITLE_COLUMNS);
    let name: String = clean_line(&name)
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let (word, state) = status(app);
    let mut bytes = format!("\x1b]0;rewake: {word}{name}\x07");
    if app.takes_status {
        let mut end = name.len().min(MAX_TITLE_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let title = STANDARD.encode(&name[..end]);
        bytes += &format!("\x1b]7501;state={state}:app=rewake:title={title}\x1b\\");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Figures;
    use crate::ui::app::LaunchInfo;
    use crate::ui::theme::Theme;

    fn app() -> App {
        let theme = Theme::named("dark").unwrap();
        let figures = Figures::new(&crate::config::Config::default());
        App::new(LaunchInfo::default(), theme, figures, 0)
    }

    #[test]
    fn a_limit_waits_and_useless_answers_are_an_error() {
        let mut app = app();
        for (why, expected) in [
            (Why::Turns, ("asks: ", "blocked:kind=question")),
            (Why::Limit, ("asks: ", "blocked:kind=question")),
            (Why::Nonsense, ("failed: ", "error")),
        ] {
            app.session.phase = Phase::Resting(why);
            assert_eq!(status(&app), expected, "{why:?}");
        }
    }

    #[test]
    fn before_a_task_the_title_is_the_name_of_the_folder() {
        let mut app = app();
        app.launch.folder = "/home/ann/parser".into();
        assert_eq!(bytes(&app), "\x1b]0;rewake: parser\x07");
    }

    #[test]
    fn a_title_of_the_model_stays_within_the_limits_of_a_report() {
        let mut app = app();
        app.takes_status = true;
        app.session.now.title = Some(format!("a\u{1b}]0;b\u{7}\u{9d}{}", "👩‍👩‍👧‍👦".repeat(60)));
        let bytes = bytes(&app);
        let (title, report) = bytes.split_once('\u{7}').unwrap();
        assert!(!title[1..].contains(|c: char| c.is_control()), "{title:?}");
        let title = report
            .rsplit_once("title=")
            .unwrap()
            .1
            .trim_end_matches("\u{1b}\\");
        let title = String::from_utf8(STANDARD.decode(title).unwrap()).unwrap();
        assert!(title.len() <= MAX_TITLE_BYTES, "{}", title.len());
        assert!(!title.contains(char::is_control), "{title:?}");
        app.takes_status = false;
        assert!(!super::bytes(&app).contains("7501"));
    }
}
