//! The screen, drawn as the program draws it: frames of a long conversation, and an answer
//! that streams faster than any model.
//!
//! Frames go through `App::update` and `view::draw` into a terminal that writes its bytes to
//! nowhere; the floor is a frame of the same size that shows plain lines and nothing else.

use std::io::Write;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::TerminalOptions;
use ratatui::Viewport;
use ratatui::backend::{Backend, CrosstermBackend, TestBackend};
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use rewake::config::Config;
use rewake::core::entry::{
    Block, CallId, Entry, Fact, Guard, Outcome, Record, StopReason, Usage, Via,
};
use rewake::core::policy::Sandbox;
use rewake::engine::Event;
use rewake::model::{Delta, Figures};
use rewake::ui::app::{App, LaunchInfo, Msg};
use rewake::ui::live::{LiveEvent, Opening, SessionView};
use rewake::ui::theme::Theme;
use rewake::ui::view;

use crate::noise::Noise;
use crate::sample::{Times, own_cpu, ratio};
use crate::table::{Row, ms};

/// A large window on a large screen.
const WIDTH: u16 = 200;
const HEIGHT: u16 = 60;

/// Lines of text in the conversation before it is laid out.
const LINES: usize = 100_000;
/// Of each output, so much that one is longer than the screen.
const OUTPUT_LINES: usize = 150;
const ANSWER_LINES: usize = 50;

const FRAMES: usize = 1_000;
const OPENINGS: usize = 20;
/// Each frame is the best of so many of the same.
const ROUNDS: usize = 5;

const CHUNKS: usize = 20_000;
const CHUNK_CHARS: usize = 4;
/// Of 10,000 in a second, as many come between two frames of 16 ms.
const CHUNKS_PER_FRAME: usize = 160;

const FRAME_TARGET: Duration = Duration::from_millis(4);

pub fn rows() -> Vec<Row> {
    let records = conversation();
    let floor = Times::least_of(ROUNDS, floor);
    vec![
        frames(
            "frame while scrolling through 100,000 lines",
            || scrolling(&records),
            &floor,
        ),
        frames(
            "frame at the end of 100,000 lines, an answer growing",
            || growing(&records),
            &floor,
        ),
        frames(
            "first frame of an opened session, its last 600 entries",
            || first_frames(&records),
            &floor,
        ),
        streaming("a screen in memory", TestBackend::new(WIDTH, HEIGHT)),
        streaming("a terminal that takes all", CrosstermBackend::new(Nowhere)),
    ]
}

/// Takes what is written, as a terminal does that is never slow.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::hint::black_box(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn terminal<B: Backend>(backend: B) -> Terminal<B>
where
    B::Error: 'static,
{
    // Nobody is asked for the size: there is no terminal.
    let viewport = Viewport::Fixed(Rect::new(0, 0, WIDTH, HEIGHT));
    Terminal::with_options(backend, TerminalOptions { viewport }).expect("a terminal")
}

/// Questions, answers with lists and code, and commands that print: 100,000 lines.
fn conversation() -> Vec<Record> {
    let mut noise = Noise::new(5);
    let mut entries = Vec::new();
    let mut lines = 0;
    while lines < LINES {
        let reply = entries.len() as u64 + 1;
        let said = noise.text(200).replace('\n', " ");
        entries.push(Entry::Said {
            text: said,
            images: Vec::new(),
            via: Via::Prompt,
            command: None,
            origin: None,
        });
        let call = Block::call("bash", r#"{"command":"cargo test --all"}"#);
        let words = Block::text(markdown(&mut noise, ANSWER_LINES));
        entries.push(replied(vec![words, call]));
        let call = CallId { reply, index: 0 };
        let guard = Guard::Supervised {
            run: "run".into(),
            boot: "boot".into(),
            background: false,
        };
        entries.push(Entry::Started {
            call,
            guard,
            access: None,
        });
        let printed: Vec<String> = (0..OUTPUT_LINES)
            .map(|n| format!("line {n}: {}", noise.text(70).replace('\n', " ")))
            .collect();
        entries.push(Entry::Finished {
            call,
            outcome: Outcome::done(printed.join("\n")),
            fact: Some(Fact::Ran {
                exit_code: Some(0),
                took_ms: 1_200,
                refused: false,
            }),
            tree: None,
        });
        lines += ANSWER_LINES + OUTPUT_LINES + 1;
    }
    let record = |(seq, entry): (usize, Entry)| Record {
        seq: seq as u64,
        at_ms: 0,
        entry,
    };
    entries.into_iter().enumerate().map(record).collect()
}

fn replied(blocks: Vec<Block>) -> Entry {
    Entry::Replied {
        blocks,
        usage: Usage::default(),
        stop: StopReason::ToolUse,
        model: "local/test-model".into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    }
}

/// A paragraph, a list and some code, again and again.
fn markdown(noise: &mut Noise, lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let words = noise.text(60).replace(['\n', '_', '/'], " ");
        match line % 10 {
            0 => text.push_str(&format!("## {words}\n\n")),
            1 | 2 => text.push_str(&format!("{words} **strong** and `code`\n")),
            3 => text.push_str("\n- one\n"),
            4 => text.push_str(&format!("- {words}\n\n")),
            5 => text.push_str("```rust\n"),
            6..=8 => text.push_str(&format!("    let x{line} = call({line}, \"{words}\");\n")),
            _ => text.push_str("```\n\n"),
        }
    }
    text
}

fn app() -> App {
    let launch = LaunchInfo {
        folder: "/home/ann/project".into(),
        workspace: "/home/ann/project".into(),
        home: Some("/home/ann".into()),
    };
    let theme = Theme::named("dark").expect("the dark theme");
    App::new(launch, theme, Figures::new(&Config::default()), 0)
}

fn opened(records: &[Record]) -> App {
    let mut app = app();
    let opening = Opening {
        id: "01a1fc18-224f-7000-8000-000000000000".into(),
        found: None,
        warnings: Vec::new(),
        recent: records.to_vec(),
        cost_usd: Some(0.0),
        queued: Vec::new(),
        input: None,
        edited: None,
        sandbox: Sandbox::default(),
        now: SessionView {
            model: "local/test-model".into(),
            folder: "/home/ann/project".into(),
            ..SessionView::default()
        },
    };
    app.update(Msg::Engine(0, LiveEvent::Opened(Box::new(opening))), 0);
    app
}

fn draw<B: Backend>(terminal: &mut Terminal<B>, app: &mut App)
where
    B::Error: std::fmt::Debug,
{
    terminal
        .draw(|frame| view::draw(frame, app))
        .expect("a frame");
}

/// Plain lines, other ones in each frame.
fn floor() -> Times {
    let mut noise = Noise::new(6);
    let lines: Vec<String> = (0..FRAMES + usize::from(HEIGHT))
        .map(|_| noise.text(70).replace('\n', " "))
        .collect();
    let mut terminal = terminal(CrosstermBackend::new(Nowhere));
    let mut times = Times::default();
    for from in 0..FRAMES {
        let seen = &lines[from..from + usize::from(HEIGHT)];
        times.time(|| {
            let seen: Vec<Line<'_>> = seen.iter().map(|l| Line::raw(l.as_str())).collect();
            terminal
                .draw(|frame| frame.render_widget(Paragraph::new(seen), frame.area()))
                .expect("a frame");
        });
    }
    times
}

/// Everything unfolded, so that all lines are there; from the end to the beginning by pages
/// and lines, in blocks that no frame has shown before.
fn scrolling(records: &[Record]) -> Times {
    let mut app = opened(records);
    let mut terminal = terminal(CrosstermBackend::new(Nowhere));
    press(&mut app, KeyCode::Char('o'), KeyModifiers::CONTROL);
    draw(&mut terminal, &mut app);
    let mut times = Times::default();
    for turn in 0..FRAMES {
        times.time(|| {
            match turn % 3 {
                0 => press(&mut app, KeyCode::Up, KeyModifiers::SHIFT),
                _ => press(&mut app, KeyCode::PageUp, KeyModifiers::NONE),
            }
            draw(&mut terminal, &mut app);
        });
    }
    times
}

/// At the end of the conversation, with an answer that streams and a clock that goes.
fn growing(records: &[Record]) -> Times {
    let mut app = opened(records);
    let mut terminal = terminal(CrosstermBackend::new(Nowhere));
    let text = markdown(&mut Noise::new(7), FRAMES);
    let pieces = pieces(&text, text.len() / FRAMES);
    let mut times = Times::default();
    for (turn, piece) in pieces.into_iter().take(FRAMES).enumerate() {
        let now_ms = turn as i64 * 16;
        times.time(|| {
            let delta = Delta::Text(piece);
            app.update(Msg::Engine(0, Event::Delta(delta).into()), now_ms);
            app.update(Msg::Tick(std::time::Instant::now()), now_ms);
            draw(&mut terminal, &mut app);
        });
    }
    times
}

/// Of what was opened, with what opening does on the thread that draws.
fn first_frames(records: &[Record]) -> Times {
    // As many as the screen is given at once.
    let recent = &records[records.len().saturating_sub(600)..];
    let mut times = Times::default();
    for _ in 0..OPENINGS {
        let mut terminal = terminal(CrosstermBackend::new(Nowhere));
        let mut app = times.time(|| {
            let mut app = opened(recent);
            draw(&mut terminal, &mut app);
            app
        });
        // Or its thread would still be busy with colours when the next one is timed.
        coloured(&mut app);
    }
    times
}

/// Until code has its first colours: the grammars are loaded.
fn coloured(app: &mut App) {
    let end = Instant::now() + Duration::from_secs(5);
    while !app.look.code.changed() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn frames(what: &str, run: impl FnMut() -> Times, floor: &Times) -> Row {
    let times = Times::least_of(ROUNDS, run);
    let worst = times.worst_of_hundred();
    Row::new(what, both(&times))
        .beside(format!("plain lines {}", both(floor)))
        .ratio(ratio(times.median(), floor.median()))
        .target("4 ms at p99", worst <= FRAME_TARGET)
}

fn both(times: &Times) -> String {
    format!(
        "{}, p99 {}",
        ms(times.median()),
        ms(times.worst_of_hundred())
    )
}

/// 20,000 pieces of an answer, and a frame whenever 16 ms of 10,000 a second are in.
fn streaming<B: Backend>(to: &str, backend: B) -> Row
where
    B::Error: std::fmt::Debug + 'static,
{
    let text = markdown(&mut Noise::new(8), CHUNKS * CHUNK_CHARS / 30);
    let pieces = pieces(&text, CHUNK_CHARS);
    let count = pieces.len().min(CHUNKS);
    let mut app = opened(&[]);
    let mut terminal = terminal(backend);
    // The grammars of code are loaded once, in a thread of their own, and not for each answer.
    let code = Delta::Text("```rust\nlet x = 1;\n```\n\n".into());
    app.update(Msg::Engine(0, Event::Delta(code).into()), 0);
    draw(&mut terminal, &mut app);
    coloured(&mut app);
    let (since, cpu) = (Instant::now(), own_cpu());
    for (turn, piece) in pieces.into_iter().take(count).enumerate() {
        app.update(
            Msg::Engine(0, Event::Delta(Delta::Text(piece)).into()),
            turn as i64 / 10,
        );
        if turn % CHUNKS_PER_FRAME == 0 {
            app.update(Msg::Tick(std::time::Instant::now()), turn as i64 / 10);
            draw(&mut terminal, &mut app);
        }
    }
    draw(&mut terminal, &mut app);
    let (wall, cpu) = (since.elapsed(), own_cpu().saturating_sub(cpu));
    let a_second = count as f64 / wall.as_secs_f64();
    Row::new(
        format!("{count} chunks streamed to {to}, CPU"),
        format!("{:.2} s", cpu.as_secs_f64()),
    )
    .beside(format!(
        "{a_second:.0} chunks/s, the colours of code included"
    ))
    .target(
        "0.2 s, 10,000/s",
        cpu <= Duration::from_millis(200) && a_second >= 10_000.0,
    )
}

fn pieces(text: &str, chars: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars.max(1))
        .map(|c| c.iter().collect())
        .collect()
}

fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) {
    app.update(Msg::Key(KeyEvent::new(code, modifiers), Instant::now()), 0);
}
