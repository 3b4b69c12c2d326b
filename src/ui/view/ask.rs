//! The question about a call: all of the command, or the diff of the change, and the answers.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::over::boxed;
use crate::core::tool::Input;
use crate::ui::app::App;
use crate::ui::overlay::{Approval, Choice};
use crate::ui::text::{Break, clean, clean_line, clip, wrap};
use crate::ui::theme::Theme;
use crate::ui::transcript::change_lines;

/// A question gets this part of the screen at most: three of four lines.
fn most(area: Rect) -> u16 {
    (area.height.saturating_mul(3) / 4).max(6)
}

pub fn height(app: &mut App, area: Rect) -> u16 {
    let body = body(app, area.width);
    let answers = app.asked.as_ref().map_or(0, |asked| asked.choices().len());
    let wanted = body.len() + answers + 2;
    u16::try_from(wanted)
        .unwrap_or(u16::MAX)
        .min(most(area))
        .max(5)
}

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let body = body(app, area.width);
    let theme = app.theme.clone();
    let Some(asked) = &mut app.asked else {
        return;
    };
    let name = clean_line(&asked.call.name).into_owned();
    let inner = boxed(frame, area, &format!(" {name} asks "), &theme);
    let answers = answers(asked, usize::from(inner.width), &theme);
    let room = usize::from(inner.height).saturating_sub(answers.len());
    // What does not fit is scrolled to; a line says so.
    let room = match body.len() > room {
        true => room.saturating_sub(1),
        false => room,
    };
    let hidden = body.len().saturating_sub(room);
    asked.top = asked.top.min(hidden);
    let below = hidden - asked.top;
    let mut lines: Vec<Line<'static>> = body.into_iter().skip(asked.top).take(room).collect();
    if hidden > 0 {
        let what = format!("… {below} more lines below (j and k scroll)");
        let style = if below > 0 { theme.warn } else { theme.dim };
        lines.push(Line::styled(what, style));
    }
    lines.extend(answers);
    super::put(frame, inner, &lines);
}

fn body(app: &mut App, columns: u16) -> Vec<Line<'static>> {
    let inside = columns.saturating_sub(4).max(1);
    let Some(asked) = &app.asked else {
        return Vec::new();
    };
    let theme = &app.theme;
    let room = usize::from(inside);
    let span = |text: String, style| vec![Span::styled(text, style)];
    let mut lines = Vec::new();
    let shown = match &asked.call.input {
        Ok(Input::Bash(args)) => args.command.clone(),
        // The diff names the file.
        Ok(Input::Edit(_) | Input::Write(_)) => String::new(),
        Ok(input) => input.subject(),
        Err(_) => asked.call.arguments.clone(),
    };
    for line in clean(&shown).lines() {
        lines.extend(wrap(
            &span(line.to_string(), theme.code),
            room,
            &[],
            &[],
            Break::Anywhere,
        ));
    }
    if let Ok(input) = &asked.call.input {
        lines.extend(change_lines(input, inside, theme));
    }
    let why = clean_line(&asked.why).into_owned();
    lines.extend(wrap(&span(why, theme.warn), room, &[], &[], Break::Words));
    lines
}

fn answers(asked: &Approval, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    if let Some(reason) = &asked.reason {
        return vec![
            Line::styled(
                "say why not; the model is told (Enter denies, Esc goes back)",
                theme.dim,
            ),
            Line::from(vec![
                Span::styled("› ", theme.accent),
                Span::styled(clean_line(reason).into_owned(), theme.text),
                Span::styled("▏", theme.accent),
            ]),
        ];
    }
    let line = |choice: &Choice| {
        let words = match (choice, &asked.rule) {
            (Choice::Once, _) => "y  yes, this once".to_string(),
            (Choice::Always, rule) => format!(
                "a  always: writes {} into your config",
                clean_line(rule.as_deref().unwrap_or_default())
            ),
            (Choice::Deny, _) => "n  no, and say why".to_string(),
        };
        let words = clip(&words, room.saturating_sub(2));
        let (mark, style) = match *choice == asked.at {
            true => ("▸ ", theme.accent),
            false => ("  ", theme.text),
        };
        Line::from(vec![
            Span::styled(mark, theme.accent),
            Span::styled(words, style),
        ])
    };
    asked.choices().iter().map(line).collect()
}
