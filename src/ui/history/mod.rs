use crate::session::Surroundings;
use crate::ui::theme::Theme;
use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::Rect;
use std::sync::Arc;
pub struct Pane;
#[derive(Debug)]
pub enum Ask {
    Sessions,
    Rename { id: String, title: String },
}
#[derive(Debug)]
pub struct Found;
#[derive(Debug)]
pub enum Did {
    Nothing,
    Ask(Ask),
    Close,
    Resume(String),
    ForkAt { id: String, seq: u64 },
    Export { id: String, json: bool },
    Rename { id: String, title: String },
}
impl Pane {
    pub fn new(_here: &str) -> (Pane, Ask) {
        (Pane, Ask::Sessions)
    }
    pub fn key(&mut self, _: &KeyEvent) -> Did {
        Did::Close
    }
    pub fn paste(&mut self, _: &str) -> Did {
        Did::Nothing
    }
    pub fn wheel(&mut self, _: bool) -> Did {
        Did::Nothing
    }
    pub fn found(&mut self, _: Found) -> Option<Ask> {
        None
    }
    pub fn draw(&mut self, _: &mut Frame<'_>, _: Rect, _: &Theme, _: i64) {}
}
pub struct Worker;
impl Worker {
    pub fn start(_: Arc<Surroundings>, _: Arc<dyn Fn(Found) + Send + Sync>) -> Worker {
        Worker
    }
    pub fn ask(&self, _: Ask) {}
}
