//! The start screen: the name, the first keys, and the last sessions of the folder. Notices of the
//! start are below it.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::session::{Finished, ago};
use crate::ui::app::App;
use crate::ui::keys::Action;
use crate::ui::text::{clean_line, clip, width};

/// Width of the widest line that is always shown.
const COLUMNS: usize = 48;
/// Maximum width of a title with its state.
const LIST_COLUMNS: usize = 72;
/// With fewer columns the state after a title is left out.
const STATE_COLUMNS: usize = 34;
/// The prefix of a title.
const NAME: &str = "Last here  ";

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let told = {
        let mut layout = app.look.layout(app.now_ms);
        let transcript = &mut app.conversation.transcript;
        let lines = transcript.visible(usize::from(area.height), &mut layout);
        // A blank line goes before them.
        lines
            .into_iter()
            .skip_while(|line| line.width() == 0)
            .collect::<Vec<_>>()
    };
    let (mut head, list) = (head(app), list(app));
    let told_rows = u16::try_from(told.len())
        .unwrap_or(u16::MAX)
        .min(area.height);
    let [above, below] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(told_rows)]).areas(area);
    let room = usize::from(above.height);
    if head.len() + list.len() > room {
        head.truncate(room.saturating_sub(list.len()).max(room.min(SHORT_ROWS)));
    }
    // The selected session stays visible. A blank line is before the first one.
    let chosen = app.last_here.at.map(|at| at + 1);
    if head.len() >= room && chosen.is_some() {
        head.clear();
    }
    let list_room = room.saturating_sub(head.len());
    let skip = chosen.map_or(0, |row| (row + 1).saturating_sub(list_room));
    let lines: Vec<Line<'static>> = head
        .into_iter()
        .chain(list.into_iter().skip(skip).take(list_room))
        .collect();
    let height = u16::try_from(lines.len()).unwrap_or(0).min(above.height);
    let at = Rect {
        y: above.y + (above.height - height) / 2,
        height,
        ..above
    };
    frame.render_widget(Paragraph::new(lines), at);
    super::put(frame, below, &told);
}

/// Number of rows of the name and the two most important keys.
const SHORT_ROWS: usize = 3;

/// Returns the columns before the block, which is centred; its lines are not.
fn left(columns: usize) -> usize {
    columns.saturating_sub(COLUMNS.min(columns)) / 2
}

fn head(app: &App) -> Vec<Line<'static>> {
    let theme = &app.look.theme;
    let columns = usize::from(app.look.size.0);
    let said = |text: &str| Line::styled(text.to_string(), theme.dim);
    let keys = |pairs: &[(&str, &str)]| {
        let mut spans = Vec::new();
        for (key, what) in pairs {
            spans.push(Span::styled(format!("{key}  "), theme.text));
            spans.push(Span::styled(format!("{what:<24}"), theme.dim));
        }
        Line::from(spans)
    };
    let keymap = &app.input.composer.keys.map;
    let (help, history) = (
        keymap.key_in(Action::Help, true),
        keymap.key(Action::History),
    );
    let mut lines = vec![Line::styled("rewake", theme.heading())];
    if columns >= COLUMNS + 4 {
        lines.extend([
            said("Every step is on disk before it counts."),
            said(match columns {
                76.. => "Kill it at any time. The next start picks up where it stopped.",
                _ => "Kill it at any time.",
            }),
            Line::default(),
            keys(&[("@", "mention a file"), ("/", "commands")]),
            keys(&[("!", "a shell command"), (&help, "keys")]),
            keys(&[(&history, "history")]),
        ]);
    } else {
        lines.extend([keys(&[("/", "commands")]), keys(&[(&help, "keys")])]);
    }
    indented(lines, left(columns))
}

fn indented(mut lines: Vec<Line<'static>>, columns: usize) -> Vec<Line<'static>> {
    for line in &mut lines {
        line.spans.insert(0, Span::raw(" ".repeat(columns)));
    }
    lines
}

/// Returns a blank line, the finished sessions, and the keys; nothing if there are none.
fn list(app: &App) -> Vec<Line<'static>> {
    let last = &app.last_here;
    if last.sessions.is_empty() {
        return Vec::new();
    }
    let columns = usize::from(app.look.size.0);
    let left = left(columns);
    let room = columns.saturating_sub(left + 2).min(LIST_COLUMNS);
    let mut lines = vec![Line::default()];
    let rows = last.sessions.iter().enumerate();
    lines.extend(rows.map(|(place, session)| row(app, place, session, room)));
    let keys = match last.at {
        None => "↓ chooses one",
        Some(_) => "Enter resumes it · Esc back to the box",
    };
    let before = " ".repeat(NAME.len());
    let keys = clip(&format!("{before}{keys}"), room);
    lines.push(Line::styled(keys, app.look.theme.dim));
    indented(lines, left)
}

/// `Last here  Fix the rounding in total()                done 2 h ago`
fn row(app: &App, place: usize, session: &Finished, room: usize) -> Line<'static> {
    let theme = &app.look.theme;
    let is_chosen = app.last_here.at == Some(place);
    let name = match (place, is_chosen) {
        (0, false) => NAME.to_string(),
        (0, true) => format!("{}› ", &NAME[..NAME.len() - 2]),
        (_, false) => " ".repeat(NAME.len()),
        (_, true) => format!("{}› ", " ".repeat(NAME.len() - 2)),
    };
    let state = if room >= STATE_COLUMNS {
        let age = ago((app.now_ms - session.updated_ms).max(0));
        format!("  {} {age} ago", session.how)
    } else {
        String::new()
    };
    let room = room.saturating_sub(NAME.len() + width(&state));
    let title = clip(&clean_line(&session.title), room);
    let gap = " ".repeat(room.saturating_sub(width(&title)));
    let (name_style, style) = match is_chosen {
        true => (theme.accent, theme.accent),
        false => (theme.dim, theme.text),
    };
    Line::from(vec![
        Span::styled(name, name_style),
        Span::styled(title, style),
        Span::styled(format!("{gap}{state}"), theme.dim),
    ])
}
