//! One piece of markdown as lines: follows the events of the parser.
//!
//! Invariant: every text goes through `clean_line` or `clean` on its way to a span; an entity
//! may have become a control character after the piece was cleaned.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::code::Frame;
use super::table::Table;
use crate::ui::highlight::Highlighter;
use crate::ui::text::{Break, clean, clean_line, push_span, width, wrap};
use crate::ui::theme::Theme;

pub(super) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

const BULLETS: [&str; 3] = ["• ", "◦ ", "▪ "];
const QUOTE: &str = "▎ ";
/// Maximum columns of prose: longer lines are hard to read. Code and tables may be wider.
const PROSE_COLUMNS: usize = 96;
/// Maximum depth of nesting that is shown with marks.
const MAX_SHOWN_DEPTH: usize = 12;

/// A prefix of lines: a quote's bar, or an item's mark on its first line.
enum Container {
    Quote,
    Item { mark: String, shown: bool },
}

/// A block whose text is taken as it is.
enum Verbatim {
    Code { info: String, text: String },
    Html(String),
}

struct Link {
    url: String,
    text: String,
}

pub(super) struct Writer<'a> {
    columns: usize,
    theme: &'a Theme,
    highlighter: &'a mut Highlighter,
    lines: Vec<Line<'static>>,
    settled: bool,
    containers: Vec<Container>,
    /// The next number of each open list that has numbers.
    lists: Vec<Option<u64>>,
    /// The paragraph that is being read.
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    links: Vec<Link>,
    verbatim: Option<Verbatim>,
    table: Option<Table>,
    /// Whether a gap comes before the next block.
    gap: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        columns: usize,
        theme: &'a Theme,
        highlighter: &'a mut Highlighter,
    ) -> Writer<'a> {
        Writer {
            columns,
            theme,
            highlighter,
            lines: Vec::new(),
            settled: true,
            containers: Vec::new(),
            lists: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            links: Vec::new(),
            verbatim: None,
            table: None,
            gap: false,
        }
    }

    /// Returns the lines, and whether the colours of code in them are final.
    pub(super) fn write(mut self, text: &str) -> (Vec<Line<'static>>, bool) {
        let text = clean(text);
        let mut parser = Parser::new_ext(&text, OPTIONS);
        for event in parser.by_ref() {
            self.event(event);
        }
        self.flush();
        let definitions = parser.reference_definitions().iter();
        let mut definitions: Vec<_> = definitions.map(|(_, d)| d.span.clone()).collect();
        definitions.sort_by_key(|span| span.start);
        for span in definitions {
            let written = text.get(span).unwrap_or_default();
            self.push(self.theme.dim, written.trim());
            self.flush();
        }
        (self.lines, self.settled)
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Html(text) | Event::InlineHtml(text) => match &mut self.verbatim {
                Some(_) => self.text(&text),
                None => self.push(self.style().patch(self.theme.dim), &text),
            },
            Event::Code(text) => {
                self.note_link_text(&text);
                self.push(self.style().patch(self.theme.code), &text);
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => match &self.table {
                Some(_) => self.text(" "),
                None => self.flush(),
            },
            Event::Rule => {
                self.open_block();
                let prefix = self.prefix();
                let columns = self.columns.min(PROSE_COLUMNS);
                let room = columns.saturating_sub(line_width(&prefix)).max(1);
                self.push(self.theme.border, &"─".repeat(room));
                self.flush_with(&prefix);
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                if let Some(Container::Item { mark, .. }) = self.containers.last_mut() {
                    *mark = if done { "[x] " } else { "[ ] " }.to_string();
                }
            }
            // Their options are off.
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::FootnoteReference(text) => self.text(&text),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open_block(),
            Tag::Heading { level, .. } => {
                self.open_block();
                let style = self.style().patch(self.theme.heading());
                self.styles.push(match level {
                    HeadingLevel::H1 => style.underlined(),
                    HeadingLevel::H2 => style,
                    _ => style.italic(),
                });
            }
            Tag::BlockQuote(_) => {
                self.open_block();
                self.containers.push(Container::Quote);
                self.styles.push(self.style().patch(self.theme.dim));
            }
            Tag::CodeBlock(kind) => {
                self.stand_apart();
                self.open_block();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                let text = String::new();
                self.verbatim = Some(Verbatim::Code { info, text });
            }
            Tag::HtmlBlock => {
                self.stand_apart();
                self.open_block();
                self.verbatim = Some(Verbatim::Html(String::new()));
            }
            Tag::List(first) => {
                self.open_block();
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.stand_apart();
                self.open_block();
                let rows = Vec::new();
                self.table = Some(Table { alignments, rows });
            }
            Tag::TableHead => {
                self.start_row();
                self.styles.push(self.style().bold());
            }
            Tag::TableRow => self.start_row(),
            Tag::TableCell => self.spans.clear(),
            Tag::Emphasis => self.styles.push(self.style().italic()),
            Tag::Strong => self.styles.push(self.style().bold()),
            Tag::Strikethrough => self.styles.push(self.style().crossed_out()),
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.push(self.theme.dim, "image: ");
                self.start_link(&dest_url);
            }
            // Their options are off.
            Tag::FootnoteDefinition(_) | Tag::MetadataBlock(_) => {}
            Tag::DefinitionList | Tag::DefinitionListTitle | Tag::DefinitionListDefinition => {}
            Tag::Superscript | Tag::Subscript => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.close_block(),
            TagEnd::Heading(_) => {
                self.close_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.close_block();
                self.containers.pop();
                self.styles.pop();
            }
            TagEnd::CodeBlock | TagEnd::HtmlBlock => self.end_verbatim(),
            TagEnd::List(_) => {
                self.lists.pop();
                // A list inside a list does not spread the outer one.
                self.gap |= self.lists.is_empty();
            }
            TagEnd::Item => self.end_item(),
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead => drop(self.styles.pop()),
            TagEnd::TableRow => {}
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|t| t.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::FootnoteDefinition | TagEnd::MetadataBlock(_) => {}
            TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition => {}
            TagEnd::Superscript | TagEnd::Subscript => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.text)
    }

    fn text(&mut self, text: &str) {
        match &mut self.verbatim {
            Some(Verbatim::Code { text: all, .. } | Verbatim::Html(all)) => all.push_str(text),
            None => {
                self.note_link_text(text);
                self.push(self.style(), text);
            }
        }
    }

    fn push(&mut self, style: Style, text: &str) {
        push_span(&mut self.spans, style, &clean_line(text));
    }

    fn start_link(&mut self, url: &CowStr<'_>) {
        self.styles.push(self.style().patch(self.theme.link()));
        self.links.push(Link {
            url: url.to_string(),
            text: String::new(),
        });
    }

    fn note_link_text(&mut self, text: &str) {
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(text);
        }
    }

    /// Ends a link. An address that differs from the text is shown after it.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some(link) = self.links.pop() else {
            return;
        };
        let bare = link.url.strip_prefix("mailto:").unwrap_or(&link.url);
        if link.text != bare && !bare.is_empty() {
            self.push(self.theme.dim, &format!(" ({})", link.url));
        }
    }

    fn start_item(&mut self) {
        self.open_block();
        let depth = self.lists.len().saturating_sub(1);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            Some(None) | None => BULLETS[depth.min(BULLETS.len() - 1)].to_string(),
        };
        let shown = false;
        self.containers.push(Container::Item { mark, shown });
    }

    fn end_item(&mut self) {
        self.flush();
        // An item without text.
        if matches!(
            self.containers.last(),
            Some(Container::Item { shown: false, .. })
        ) {
            let prefix = self.prefix();
            self.flush_with(&prefix);
        }
        self.containers.pop();
    }

    fn start_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        let first = self.prefix();
        let rest = self.prefix();
        let room = self.columns.saturating_sub(line_width(&first)).max(1);
        for (n, line) in table.lines(room, self.theme).into_iter().enumerate() {
            let before = if n == 0 { &first } else { &rest };
            let lines = wrap(&line.spans, self.columns, before, &rest, Break::Anywhere);
            self.lines.extend(lines);
        }
        self.gap = true;
    }

    fn end_verbatim(&mut self) {
        match self.verbatim.take() {
            Some(Verbatim::Code { info, text }) => self.code(&info, &text),
            Some(Verbatim::Html(text)) => {
                for line in text.trim_end().split('\n') {
                    self.push(self.style().patch(self.theme.dim), line);
                    self.flush();
                }
            }
            None => {}
        }
        self.gap = true;
    }

    fn code(&mut self, info: &str, text: &str) {
        let (first, rest) = (self.prefix(), self.prefix());
        let frame = Frame {
            columns: self.columns,
            first: &first,
            rest: &rest,
            theme: self.theme,
        };
        let code = clean(text);
        let (lines, settled) = frame.lines(&code, 0, info, self.highlighter);
        self.lines.extend(lines);
        self.settled &= settled;
    }

    /// Ends the text before, and keeps the distance.
    fn open_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) {
            let shown = |c: &&Container| !matches!(c, Container::Item { shown: false, .. });
            let above = self.containers.iter().take_while(shown);
            let above = above.take(MAX_SHOWN_DEPTH).map(|c| self.beside(c));
            let mut spans: Vec<Span<'static>> = above.collect();
            while spans
                .pop_if(|span| span.content.trim().is_empty())
                .is_some()
            {}
            let lines = wrap(&[], self.columns, &spans, &[], Break::Words);
            self.lines.extend(lines);
        }
    }

    /// Ends the text before, and leaves a gap before the next block, also in an item of a list.
    fn stand_apart(&mut self) {
        self.flush();
        self.gap |= matches!(
            self.containers.last(),
            Some(Container::Item { shown: true, .. })
        );
    }

    fn close_block(&mut self) {
        self.flush();
        self.gap = true;
    }

    fn flush(&mut self) {
        if !self.spans.is_empty() {
            let prefix = self.prefix();
            self.flush_with(&prefix);
        }
    }

    fn flush_with(&mut self, first: &[Span<'static>]) {
        let spans = std::mem::take(&mut self.spans);
        let rest = self.prefix();
        let columns = self.columns.min(PROSE_COLUMNS);
        let lines = wrap(&spans, columns, first, &rest, Break::Words);
        self.lines.extend(lines);
    }

    /// Returns the prefix of the next line. The mark of an item is returned once.
    fn prefix(&mut self) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        for n in 0..self.containers.len().min(MAX_SHOWN_DEPTH) {
            let span = match &self.containers[n] {
                Container::Item { mark, shown: false } => {
                    Span::styled(mark.clone(), self.theme.dim)
                }
                shown => self.beside(shown),
            };
            spans.push(span);
        }
        for container in &mut self.containers {
            if let Container::Item { shown, .. } = container {
                *shown = true;
            }
        }
        spans
    }

    /// Returns the prefix of a line that is not the first of an item.
    fn beside(&self, container: &Container) -> Span<'static> {
        match container {
            Container::Quote => Span::styled(QUOTE, self.theme.dim),
            Container::Item { mark, .. } => Span::raw(" ".repeat(width(mark))),
        }
    }
}

fn line_width(spans: &[Span<'static>]) -> usize {
    spans.iter().map(|span| width(&span.content)).sum()
}
