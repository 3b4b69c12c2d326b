//! The screen, drawn from the [`App`]. Drawing does not change the session.
//!
//! From top to bottom: the conversation, the current work, the box or a question, the status line.
//! If a screen is too small, the parts in the middle are left out first.

mod ascii;
mod ask;
mod card;
mod context;
mod first_run;
mod form;
mod key_entry;
mod over;
mod review;
mod sheet;
mod status;
mod welcome;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Overlay, Phase, Readiness, UserCommand};
use super::keys::Action;
use super::text::{clean_line, clip, tail, width};
use super::transcript::{SEARCH_KEYS, spinner};
use crate::core::next::Why;
use crate::core::text::{in_one_line, large_count, one_line};
use crate::core::visible::{figure, visible, without_cosmetics};
use crate::engine::FilesWork;
use crate::session::clock;

pub use context::{context_lines, cost_lines};

/// The box grows to this fraction of the screen.
const BOX_PART: u16 = 3;

/// Maximum number of rows of the box below a question.
const BOX_BELOW_QUESTION: u16 = 5;

/// With fewer rows a question takes the whole screen.
const SMALL_ROWS: u16 = 8;

/// Maximum number of queued messages that are shown.
const MAX_QUEUED: usize = 3;

/// Draws the whole screen, and stores its size in `app`.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    draw_all(frame, app);
    if app.look.is_ascii {
        ascii::only(frame.buffer_mut());
    }
}

fn draw_all(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    app.look.size = (area.width, area.height);
    if area.width < 10 || area.height < 4 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    below_help(frame, area, app);
    if app.prompts.help.is_some() {
        dim(frame, area, app);
    }
    if let Some(help) = &mut app.prompts.help {
        over::viewer(frame, area, help, &app.look.theme);
    }
}

fn below_help(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    match &app.prompts.overlay {
        Overlay::Key(entry) if entry.back.is_some() => return key_entry::draw(frame, area, app),
        Overlay::History(_) => return over::history(frame, area, app),
        Overlay::Review(_) => return review::draw(frame, area, app),
        Overlay::Rewind(_) => return over::rewind(frame, area, app),
        _ => page(frame, area, app),
    }
    let floats = matches!(
        app.prompts.overlay,
        Overlay::Viewer(_)
            | Overlay::Key(_)
            | Overlay::Picker(_)
            | Overlay::Confirm { .. }
            | Overlay::Trust(_)
    );
    if floats {
        dim(frame, area, app);
    }
    match &mut app.prompts.overlay {
        Overlay::Viewer(viewer) => over::viewer(frame, area, viewer, &app.look.theme),
        Overlay::Key(_) => key_entry::draw(frame, area, app),
        Overlay::Picker(_) => over::picker(frame, area, app),
        Overlay::Confirm { .. } => over::confirm(frame, area, app),
        Overlay::Trust(_) => over::trust(frame, area, app),
        _ => {}
    }
}

/// Draws the page below an overlay: the card, the first screen or the conversation.
fn page(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    match &app.prompts.overlay {
        Overlay::Card(_) => card::draw(frame, area, app),
        Overlay::FirstRun(_) => first_run::draw(frame, area, app),
        _ => conversation(frame, area, app),
    }
}

/// Dims the page below an overlay.
fn dim(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let style = Style::reset().patch(app.look.theme.dim);
    frame.buffer_mut().set_style(area, style);
}

fn conversation(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let going_on = going_on(app, area.width);
    let has_form = app.prompts.questions.form_in_front().is_some();
    let is_asked = app.prompts.questions.asked.is_some() || has_form;
    let box_rows = box_rows(app, area);
    // On a small screen a question needs every row.
    let seen_rows = u16::from(!is_asked || area.height >= SMALL_ROWS);
    let has_own = !app.own_status.is_empty() && area.height >= 2 * SMALL_ROWS;
    let own_rows = u16::from(has_own);
    let left = area
        .height
        .saturating_sub(1 + own_rows + seen_rows + box_rows);
    let ask_rows = match (has_form, is_asked) {
        (true, _) => form::height(app, area, left),
        (false, true) => ask::height(app, area, left),
        (false, false) => 0,
    };
    // Without current work, its rows go to the question.
    let is_bare = going_on
        .iter()
        .all(|line| line.to_string().trim().is_empty());
    let going_on = match is_asked && is_bare {
        true => Vec::new(),
        false => going_on,
    };
    let middle = u16::try_from(going_on.len()).unwrap_or(0);
    let middle = middle.min(
        area.height
            .saturating_sub(ask_rows + box_rows + own_rows + 2),
    );
    let [above, between, asked, below, own, status] = Layout::vertical([
        Constraint::Min(seen_rows),
        Constraint::Length(middle),
        Constraint::Length(ask_rows),
        Constraint::Length(box_rows),
        Constraint::Length(own_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    app.conversation.seen_height = usize::from(above.height);
    transcript(frame, above, app);
    frame.render_widget(Paragraph::new(going_on), between);
    if app.input.composer.has_list() && !is_asked {
        dim(frame, above, app);
        dim(frame, between, app);
    }
    match (has_form, is_asked) {
        (true, _) => form::draw(frame, asked, app),
        (false, true) => ask::draw(frame, asked, app, left),
        (false, false) => {}
    }
    match box_rows {
        0 => {}
        1 => frame.render_widget(words_in_a_row(app, below.width), below),
        _ => {
            let layout = composer_styles(app);
            let below = within_margin(below);
            let has_keys = app.prompts.is_clear() && app.last_here.at.is_none();
            app.input.composer.draw(frame, below, &layout, has_keys);
            placeholder(frame, below, app);
        }
    }
    let own_line = Line::styled(clean_line(&app.own_status), app.look.theme.dim);
    frame.render_widget(own_line, within_margin(own));
    status::draw(frame, within_margin(status), app);
}

/// Minimum columns for a margin.
const MARGIN_COLUMNS: u16 = 40;

/// Leaves two columns free at each side.
fn within_margin(area: Rect) -> Rect {
    match area.width >= MARGIN_COLUMNS {
        true => Rect {
            x: area.x + 2,
            width: area.width - 4,
            ..area
        },
        false => area,
    }
}

/// Draws a hint in the empty box.
fn placeholder(frame: &mut Frame<'_>, area: Rect, app: &App) {
    if !app.input.composer.is_empty() || app.input.composer.is_searching() || area.height < 3 {
        return;
    }
    let queues = app
        .input
        .composer
        .keys
        .map
        .hint(Action::Submit, "queues it");
    let words = match app.session.phase {
        Phase::Working { .. } => &format!("Type the next message: {queues}"),
        _ => "Describe a task",
    };
    let at = Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(2),
        height: 1,
    };
    let words = clip(words, usize::from(at.width));
    frame.render_widget(Span::styled(words, app.look.theme.dim), at);
}

/// Returns the rows of the box. Below a question it is shown only while it has text.
fn box_rows(app: &mut App, area: Rect) -> u16 {
    let is_asked =
        app.prompts.questions.asked.is_some() || app.prompts.questions.form_in_front().is_some();
    match (is_asked, app.readiness()) {
        (false, _) => {
            let room = (area.height / BOX_PART).max(3);
            app.input.composer.height(within_margin(area).width, room)
        }
        (true, Readiness::Behind) if area.height < 2 * SMALL_ROWS => 1,
        (true, Readiness::Behind) => app
            .input
            .composer
            .height(within_margin(area).width, BOX_BELOW_QUESTION),
        (true, _) => 0,
    }
}

/// Returns the end of the typed text, for a screen that is too small for the box.
pub(super) fn words_in_a_row(app: &App, columns: u16) -> Line<'static> {
    let text = clean_line(&app.input.composer.text()).into_owned();
    let room = usize::from(columns).saturating_sub(3);
    let shown = tail(&text, room);
    Line::from(vec![
        Span::styled("› ", app.look.theme.accent),
        Span::styled(shown.to_string(), app.look.theme.text),
        Span::styled("▏", app.look.theme.accent),
    ])
}

fn composer_styles(app: &App) -> super::composer::ComposerStyles {
    let theme = &app.look.theme;
    super::composer::ComposerStyles {
        text: theme.text,
        dim: theme.dim,
        accent: theme.accent,
        selection: theme.accent,
        border: theme.border,
        border_focus: theme.border,
        warn: theme.warn,
    }
}

fn transcript(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    if app.conversation.shows_start() {
        return welcome::draw(frame, area, app);
    }
    let height = usize::from(area.height);
    let mut layout = app.look.layout(app.now_ms);
    let transcript = &mut app.conversation.transcript;
    let mut lines = transcript.visible(height, &mut layout);
    // A short conversation is at the bottom, above the box.
    let gap = height.saturating_sub(lines.len());
    let area = Rect {
        y: area.y + u16::try_from(gap).unwrap_or(0),
        height: area.height - u16::try_from(gap).unwrap_or(0),
        ..area
    };
    if matches!(app.prompts.overlay, Overlay::Search(_))
        && let Overlay::Search(search) = std::mem::replace(&mut app.prompts.overlay, Overlay::None)
    {
        let styles = app.look.theme.found();
        let mut layout = app.look.layout(app.now_ms);
        let transcript = &mut app.conversation.transcript;
        transcript.mark_found(&search, &mut lines, height, styles, &mut layout);
        app.prompts.overlay = Overlay::Search(search);
    }
    put(frame, area, &lines);
}

/// Draws each line in a separate row; its style fills the row.
fn put(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>]) {
    for (row, line) in area.rows().zip(lines) {
        frame.render_widget(line, row);
    }
}

/// Returns the lines between conversation and box: plan, queued messages, current work.
fn going_on(app: &App, columns: u16) -> Vec<Line<'static>> {
    let theme = &app.look.theme;
    let columns = usize::from(columns);
    let mut lines = Vec::new();
    for queued in app.input.queue.messages.iter().take(MAX_QUEUED) {
        let mark = if app.input.queue.editing == Some(queued.id) {
            "✎"
        } else {
            "↑"
        };
        let what = format!("{mark} queued: {}", clean_line(&queued.message.typed()));
        lines.push(Line::styled(clip(&what, columns), theme.text));
    }
    if app.input.queue.messages.len() > MAX_QUEUED {
        let more = app.input.queue.messages.len() - MAX_QUEUED;
        lines.push(Line::styled(format!("  and {more} more queued"), theme.dim));
    }
    for command in app.user_commands.list.iter().rev().take(MAX_QUEUED).rev() {
        lines.push(command_line(command, app, columns));
        lines.extend(printed_lines(command, app, columns));
    }
    if app.user_commands.list.len() > MAX_QUEUED {
        let more = app.user_commands.list.len() - MAX_QUEUED;
        lines.push(Line::styled(
            format!("  and {more} more of yours"),
            theme.dim,
        ));
    }
    lines.push(activity(app, columns));
    lines
}

/// `◐ running    make test · 12 s · Esc ends it`, like a command of the model.
fn command_line(command: &UserCommand, app: &App, columns: usize) -> Line<'static> {
    let age = clock((app.now_ms - command.since_ms).max(0));
    let theme = &app.look.theme;
    let keys = &app.input.composer.keys.map;
    let end = match command.is_stopped {
        true => format!(" · {age} · it is being ended"),
        false => format!(" · {age}{}", keys.more(Action::Interrupt, "ends it")),
    };
    let glyph = spinner((app.now_ms - command.since_ms).max(0));
    let verb = format!("{:<USER_COMMAND_AT$}", "running");
    let command = in_one_line(&command.command, columns);
    let room = columns.saturating_sub(width(&end) + width(&verb) + 2);
    Line::from(vec![
        Span::styled(format!("{glyph} "), theme.running),
        Span::styled(verb, theme.dim),
        Span::styled(clip(&clean_line(&command), room), theme.text),
        Span::styled(end, theme.dim),
    ])
}

/// Columns of the verb before a running command of the user.
const USER_COMMAND_AT: usize = 11;

/// Returns the last lines of the output so far.
fn printed_lines(command: &UserCommand, app: &App, columns: usize) -> Vec<Line<'static>> {
    const LINES: usize = 3;
    let tail = visible(&without_cosmetics(&command.tail)).into_owned();
    let lines: Vec<&str> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.iter().rev().take(LINES).rev();
    let before = " ".repeat(USER_COMMAND_AT + 2);
    let shown = last.map(|line| clip(&format!("{before}{}", clean_line(line)), columns));
    shown
        .map(|line| Line::styled(line, app.look.theme.dim))
        .collect()
}

/// Describes the work on files for which a person waits.
fn files_work(app: &App) -> String {
    let keymap = &app.input.composer.keys.map;
    match app.session.files_work {
        Some(FilesWork::Restoring { done, all }) if done > 0 => {
            let (done, all) = (figure(done), figure(all));
            format!("restoring files, {done} of {all} · this cannot be stopped")
        }
        Some(FilesWork::Restoring { all, .. }) => {
            let files = large_count(all, "file");
            format!("preparing to restore {files} · this cannot be stopped")
        }
        Some(FilesWork::Scanning { seen }) => format!(
            "taking a snapshot first, {} seen{}{}",
            large_count(seen, "file"),
            keymap.more(Action::WaitForFiles, "waits for it"),
            keymap.more(Action::Interrupt, "stops"),
        ),
        None => String::new(),
    }
}

fn activity(app: &App, columns: usize) -> Line<'static> {
    let theme = &app.look.theme;
    if app.is_leaving {
        let text = "quitting: saving the last changes · Ctrl+C quits without waiting";
        return Line::styled(clip(text, columns), theme.warn);
    }
    if let Overlay::Search(search) = &app.prompts.overlay {
        let text = format!(
            "search: {}{}   {SEARCH_KEYS}",
            clean_line(&search.words),
            app.conversation.search_state(search),
        );
        return Line::styled(clip(&text, columns), theme.accent);
    }
    if let Some(trouble) = &app.session.kept.trouble {
        let text = format!(
            "nothing can be saved, so nothing is done: {}",
            clean_line(trouble)
        );
        return Line::styled(clip(&text, columns), theme.error);
    }
    let hint = app.hint.clone().unwrap_or_default();
    let keymap = &app.input.composer.keys.map;
    let asks = app.prompts.questions.is_open();
    let (text, style) = match app.session.phase {
        Phase::Starting => ("looking for unfinished sessions …".to_string(), theme.dim),
        Phase::Opening => ("opening the session …".to_string(), theme.dim),
        Phase::Working { .. } if app.session.files_work.is_some() => (files_work(app), theme.text),
        _ if app.prompts.questions.form_aside().is_some()
            && app.prompts.questions.asked.is_none() =>
        {
            (aside(app), theme.warn)
        }
        Phase::Working { since_ms } if !asks => {
            let age = clock((app.now_ms - since_ms).max(0));
            let stops = keymap.more(Action::Interrupt, "stops");
            (format!("working {age}{}{stops}", pace(app)), theme.dim)
        }
        Phase::Working { .. } => (String::new(), theme.dim),
        // The reason why a message was not taken must be visible in full.
        Phase::Watching if !hint.is_empty() => (String::new(), theme.warn),
        Phase::Watching => {
            let sends = keymap.more(Action::Submit, "sends words");
            let leaves = keymap.more(Action::Interrupt, "leaves");
            let what = format!(
                "another process uses this session{sends}{leaves} · /stop stops it · /fork copies it"
            );
            (what, theme.warn)
        }
        Phase::Resting(why) if app.goes_on() => {
            let what = match why {
                Why::Halted | Why::CrashLoop => "stopped",
                Why::Paused | Why::Limit => "paused",
                Why::Idle | Why::Turns | Why::Repeats | Why::Nonsense | Why::Unfit | Why::Asked => {
                    "waiting"
                }
            };
            let continues = keymap.more(Action::Submit, "continues,");
            let text = format!("{what}{continues} or type a message");
            (text, theme.text)
        }
        Phase::Resting(_) | Phase::Nothing => (String::new(), theme.dim),
        Phase::Ended => (
            "the session is closed · /resume or /new".to_string(),
            theme.warn,
        ),
    };
    let text = match (text.is_empty(), hint.is_empty()) {
        (true, _) => hint,
        (false, true) => text,
        (false, false) => format!("{text} · {hint}"),
    };
    let glyph = match (app.session.phase, asks) {
        (Phase::Working { since_ms }, false) => spinner((app.now_ms - since_ms).max(0)),
        _ => " ",
    };
    let right = match app.conversation.transcript.scroll {
        super::transcript::Scroll::End => plan_step(app, columns),
        super::transcript::Scroll::At { .. } => {
            let key = keymap.key_in(Action::ScrollBottom, app.input.composer.is_empty());
            format!("↓ more below ({key})")
        }
    };
    let edge = columns.saturating_sub(2);
    // If only one fits, the current work stays.
    let right = match width(&text) + width(&right) + 6 > edge {
        true if width(&text) + 12 > edge => String::new(),
        true => clip(&right, edge.saturating_sub(width(&text) + 6)),
        false => right,
    };
    let room = edge.saturating_sub(2 + width(&right));
    let text = clip(&clean_line(&text), room);
    let gap = " ".repeat(room.saturating_sub(width(&text)));
    Line::from(vec![
        Span::styled(format!("{glyph} "), theme.running),
        Span::styled(text, style),
        Span::raw(gap),
        Span::styled(right, theme.dim),
    ])
}

/// `everything asks: Who are you? · Enter answers · Esc stops`
fn aside(app: &App) -> String {
    let Some(form) = app.prompts.questions.form_aside() else {
        return String::new();
    };
    let question = &form.entry.question;
    let (server, line) = (
        one_line(question.asker(), 40),
        one_line(&question.line(), 60),
    );
    let keymap = &app.input.composer.keys.map;
    let stops = match (app.session.phase, app.input.composer.is_empty()) {
        (_, false) => " once the box is empty",
        (Phase::Working { .. }, true) => &keymap.more(Action::Interrupt, "stops"),
        _ => "",
    };
    format!("{server} waits for you · Enter answers{stops} · {line}")
}

/// `plan 3 of 3 · Fix the rounding`, during work; `/plan` shows it at any time.
fn plan_step(app: &App, columns: usize) -> String {
    // A question takes the room.
    let asks = app.prompts.questions.is_open();
    if !matches!(app.session.phase, Phase::Working { .. }) || asks {
        return String::new();
    }
    let Some(plan) = &app.session.now.plan else {
        return String::new();
    };
    let Some(current) = plan.current() else {
        return String::new();
    };
    let at = plan.steps.iter().position(|s| s == current).unwrap_or(0) + 1;
    let step = clip(&clean_line(&current.text), columns / 2);
    format!("plan {at} of {} · {step}", plan.steps.len())
}

/// Describes the rate of the stream, or how long the model has been silent.
fn pace(app: &App) -> String {
    if let Some(rate) = app
        .conversation
        .transcript
        .stream
        .tokens_per_second(app.now_ms)
    {
        return format!(" · streaming about {rate} tok/s");
    }
    match app.conversation.transcript.silent_ms(app.now_ms) {
        Some(ms) if ms >= FIRST_BYTE_MS => {
            format!(" · waiting for the first byte {}", clock(ms))
        }
        _ => String::new(),
    }
}

/// An answer usually starts before this time.
const FIRST_BYTE_MS: i64 = 3_000;
