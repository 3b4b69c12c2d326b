//! The main content of an HTML page, chosen from its tokens without a tree.
//!
//! A pass over the tokens drops navigation, scripts and the like, and keeps the largest element
//! that is marked as the main content. The rest of the conversion, `htmd`, builds a tree: it gets
//! only a short list of tags, nested at most [`MAX_DEPTH`] deep.
//!
//! Invariant: the time of the pass grows with the length of the page only, whatever its nesting is.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// Start tags below this depth are ignored. Their content stays.
const MAX_DEPTH: usize = 256;

/// Maximum depth of elements that Markdown indents: lists and quotations. Deeper ones would make each
/// of their lines long.
const MAX_INDENTED: usize = 16;

/// Minimum words of an element that counts as the main content.
const MIN_MAIN_WORDS: usize = 200;

/// Maximum bytes of a title.
const MAX_TITLE_BYTES: usize = 300;

/// The main content of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainContent {
    /// The title of the page, on one line.
    pub title: String,
    /// Nested at most [`MAX_DEPTH`] deep, with only tags that Markdown can express.
    pub html: String,
}

/// The treatment of an element by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// Dropped with its content.
    Drop,
    /// Dropped with its content outside of the chosen element.
    DropOutside,
    /// The tag is written. It has an end tag.
    Keep,
    /// The tag is written. Its end tag is optional.
    KeepOpen,
    /// A cell of a table: a line separates it from the one before.
    Cell,
    /// The tag is written. It has no content.
    Void,
    /// Only the content is written, as a separate block.
    Block,
    /// Only the content is written.
    Inline,
    /// The tag is ignored, since its end tag is optional.
    Ignore,
}

#[rustfmt::skip]
fn treatment(name: &str) -> Treatment {
    match name {
        "script" | "style" | "nav" | "aside" | "form" | "svg" | "template" | "noscript" | "iframe" | "noembed"
        | "noframes" | "xmp" | "select" | "textarea" | "button" | "dialog" | "object" | "video" | "audio" | "canvas"
        | "title" | "math" => Treatment::Drop,
        "header" | "footer" => Treatment::DropOutside,
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "a" | "b" | "blockquote" | "code" | "em" | "i" | "ol" | "pre" | "strong"
        | "table" | "ul" => Treatment::Keep,
        "dd" | "dt" | "li" | "p" | "tr" => Treatment::KeepOpen,
        "td" | "th" => Treatment::Cell,
        "br" | "hr" => Treatment::Void,
        "area" | "base" | "col" | "embed" | "img" | "input" | "link" | "meta" | "param" | "source" | "track" | "wbr"
        | "html" | "head" | "body" | "colgroup" | "option" | "optgroup" | "rp" | "rt" | "tbody" | "tfoot" | "thead" => Treatment::Ignore,
        "address" | "article" | "caption" | "details" | "div" | "dl" | "fieldset" | "figcaption" | "figure" | "hgroup"
        | "legend" | "main" | "section" | "summary" => Treatment::Block,
        _ => Treatment::Inline,
    }
}

/// A piece of the output.
#[derive(Debug)]
enum Piece {
    Start(Cow<'static, str>),
    Text(StrTendril),
    /// The beginning or the end of an element that is dropped outside of the chosen one.
    Outside {
        is_start: bool,
    },
}

/// An open element.
#[derive(Debug)]
struct Open {
    name: String,
    /// The tag that is written at its end.
    end: Option<&'static str>,
    treatment: Treatment,
    /// It may be the main content: the piece and the number of words at its start.
    candidate: Option<(usize, usize)>,
}

/// An element that may be the main content.
#[derive(Debug)]
struct Candidate {
    words: usize,
    first: usize,
    end: usize,
}

#[derive(Debug, Default)]
struct Pass {
    /// Names of dropped elements that have no end on this page, so that their content stays.
    unclosed: BTreeSet<String>,
    pieces: Vec<Piece>,
    open: Vec<Open>,
    /// Number of open elements by name.
    counts: HashMap<String, usize>,
    /// Number of open elements that are dropped.
    dropping: usize,
    /// Number of open elements whose tags were written.
    depth: usize,
    /// Number of these that Markdown indents.
    indented: usize,
    /// Number of cells in the current row of a table.
    cells: usize,
    words: usize,
    candidates: Vec<Candidate>,
    title: Option<String>,
    in_title: bool,
}

/// Returns the main content of a page.
pub fn main_content(html: &str) -> MainContent {
    let first = pass(html, BTreeSet::new());
    let unclosed: BTreeSet<String> = first
        .open
        .iter()
        .filter(|open| matches!(open.treatment, Treatment::Drop | Treatment::DropOutside))
        .map(|open| open.name.clone())
        .collect();
    if unclosed.is_empty() {
        chosen(first)
    } else {
        chosen(pass(html, unclosed))
    }
}

fn pass(html: &str, unclosed: BTreeSet<String>) -> Pass {
    let sink = Sink(RefCell::new(Pass {
        unclosed,
        ..Pass::default()
    }));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    // The sink never interrupts.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

/// Returns the largest element that may be the main content, or else the whole body.
fn chosen(mut pass: Pass) -> MainContent {
    while !pass.open.is_empty() {
        pass.close_last();
    }
    let enough = pass.candidates.iter().filter(|c| c.words >= MIN_MAIN_WORDS);
    let best = enough.max_by_key(|candidate| candidate.words);
    let range = best.map_or(0..pass.pieces.len(), |best| best.first..best.end);
    let is_whole = best.is_none();
    let mut html = String::new();
    let mut outside = 0usize;
    for piece in &pass.pieces[range] {
        match piece {
            Piece::Outside { is_start: true } => outside += usize::from(is_whole),
            Piece::Outside { is_start: false } => outside = outside.saturating_sub(1),
            _ if outside > 0 => {}
            Piece::Start(tag) => html.push_str(tag),
            Piece::Text(text) => escape_into(text, &mut html),
        }
    }
    let title = pass.title.unwrap_or_default();
    MainContent {
        title: title.split_whitespace().collect::<Vec<_>>().join(" "),
        html,
    }
}

struct Sink(RefCell<Pass>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut pass = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return pass.start(&tag),
            Token::TagToken(tag) => pass.end(&tag.name),
            Token::CharacterTokens(text) => pass.text(text),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Pass {
    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let mut treatment = treatment(name);
        let raw = match name {
            "script" => Some(RawKind::ScriptData),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => Some(RawKind::Rawtext),
            "title" | "textarea" => Some(RawKind::Rcdata),
            _ => None,
        };
        if matches!(treatment, Treatment::Drop | Treatment::DropOutside) {
            // In SVG and MathML this means an empty element.
            if tag.self_closing && raw.is_none() {
                return TokenSinkResult::Continue;
            }
            if self.unclosed.contains(name) {
                treatment = Treatment::Block;
            }
        }
        match treatment {
            Treatment::Ignore => {}
            Treatment::Void => self.write(opening(name)),
            Treatment::KeepOpen => {
                self.cells = 0;
                self.write(opening(name));
            }
            Treatment::Cell => {
                if self.cells > 0 {
                    self.write(" | ");
                }
                self.cells += 1;
            }
            _ => self.open(tag, treatment),
        }
        raw.map_or(TokenSinkResult::Continue, TokenSinkResult::RawData)
    }

    fn open(&mut self, tag: &Tag, treatment: Treatment) {
        let name: &str = &tag.name;
        let role = attribute(tag, "role");
        let is_main = matches!(name, "main" | "article") || role == Some("main");
        let has_tag = matches!(treatment, Treatment::Keep | Treatment::Block);
        let is_indented = is_indented(name);
        let is_written = has_tag
            && self.dropping == 0
            && self.depth < MAX_DEPTH
            && !(is_indented && self.indented >= MAX_INDENTED);
        let candidate = (is_main && self.dropping == 0).then_some((self.pieces.len(), self.words));
        let mut end = None;
        if is_written {
            let tags = match treatment {
                Treatment::Keep => tags(name, tag),
                _ => (Cow::Borrowed("<div>"), "</div>"),
            };
            self.pieces.push(Piece::Start(tags.0));
            end = Some(tags.1);
            self.depth += 1;
            self.indented += usize::from(is_indented);
        }
        match treatment {
            Treatment::Drop => self.dropping += 1,
            Treatment::DropOutside => self.pieces.push(Piece::Outside { is_start: true }),
            _ => {}
        }
        self.in_title = name == "title" && self.title.is_none() && self.dropping == 1;
        *self.counts.entry(name.to_string()).or_default() += 1;
        self.open.push(Open {
            name: name.to_string(),
            end,
            treatment,
            candidate,
        });
    }

    fn end(&mut self, name: &str) {
        match treatment(name) {
            Treatment::KeepOpen => return self.write(closing(name)),
            Treatment::Cell => return,
            _ => {}
        }
        // The end of an element that is not open closes nothing.
        if self.counts.get(name).copied().unwrap_or(0) == 0 {
            return;
        }
        while let Some(open) = self.open.last() {
            let is_it = open.name == name;
            self.close_last();
            if is_it {
                return;
            }
        }
    }

    fn close_last(&mut self) {
        let Some(open) = self.open.pop() else { return };
        if let Some(count) = self.counts.get_mut(&open.name) {
            *count = count.saturating_sub(1);
        }
        match open.treatment {
            Treatment::Drop => self.dropping = self.dropping.saturating_sub(1),
            Treatment::DropOutside => self.pieces.push(Piece::Outside { is_start: false }),
            _ => {}
        }
        self.in_title = false;
        if let Some(end) = open.end {
            self.depth = self.depth.saturating_sub(1);
            let indents = usize::from(is_indented(&open.name));
            self.indented = self.indented.saturating_sub(indents);
            self.pieces.push(Piece::Start(Cow::Borrowed(end)));
        }
        if let Some((first, words)) = open.candidate {
            self.candidates.push(Candidate {
                words: self.words.saturating_sub(words),
                first,
                end: self.pieces.len(),
            });
        }
    }

    fn write(&mut self, tag: &'static str) {
        if self.dropping == 0 {
            self.pieces.push(Piece::Start(Cow::Borrowed(tag)));
        }
    }

    fn text(&mut self, text: StrTendril) {
        if self.in_title {
            let title = self.title.get_or_insert_default();
            if title.len() + text.len() <= MAX_TITLE_BYTES {
                title.push_str(&text);
            }
        }
        if self.dropping == 0 {
            self.words += text.split_whitespace().count();
            self.pieces.push(Piece::Text(text));
        }
    }
}

fn is_indented(name: &str) -> bool {
    matches!(name, "blockquote" | "ol" | "table" | "ul")
}

fn attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    let mut attributes = tag.attrs.iter();
    let found = attributes.find(|attribute| &*attribute.name.local == name)?;
    Some(&found.value)
}

/// Returns the start tag and the end tag of a kept element.
fn tags(name: &str, tag: &Tag) -> (Cow<'static, str>, &'static str) {
    let escaped = |value: &str| {
        let mut text = String::new();
        escape_into(value, &mut text);
        text
    };
    let start = match name {
        "a" => match attribute(tag, "href").map(str::trim) {
            // A link to a place of the same page says nothing.
            Some(href)
                if !href.is_empty()
                    && !href.starts_with('#')
                    && !href.starts_with("javascript:") =>
            {
                Cow::Owned(format!("<a href=\"{}\">", escaped(href)))
            }
            _ => return (Cow::Borrowed("<span>"), "</span>"),
        },
        "code" | "pre" => match attribute(tag, "class") {
            Some(class) if class.contains("language-") => {
                Cow::Owned(format!("<{name} class=\"{}\">", escaped(class)))
            }
            _ => Cow::Borrowed(opening(name)),
        },
        _ => Cow::Borrowed(opening(name)),
    };
    (start, closing(name))
}

/// Returns a start tag. Rows of tables become items of a list: the tables of `htmd` omit cells.
fn opening(name: &str) -> &'static str {
    written(name).map_or("", |(opening, _)| opening)
}

fn closing(name: &str) -> &'static str {
    written(name).map_or("", |(_, closing)| closing)
}

#[rustfmt::skip]
fn written(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "a" => ("<a>", "</a>"),
        "b" | "strong" => ("<b>", "</b>"),
        "blockquote" => ("<blockquote>", "</blockquote>"),
        "br" => ("<br>", ""),
        "code" => ("<code>", "</code>"),
        "dd" | "dt" | "p" => ("<p>", "</p>"),
        "em" | "i" => ("<i>", "</i>"),
        "h1" => ("<h1>", "</h1>"),
        "h2" => ("<h2>", "</h2>"),
        "h3" => ("<h3>", "</h3>"),
        "h4" => ("<h4>", "</h4>"),
        "h5" => ("<h5>", "</h5>"),
        "h6" => ("<h6>", "</h6>"),
        "hr" => ("<hr>", ""),
        "li" | "tr" => ("<li>", "</li>"),
        "ol" => ("<ol>", "</ol>"),
        "pre" => ("<pre>", "</pre>"),
        "table" | "ul" => ("<ul>", "</ul>"),
        _ => return None,
    })
}

fn escape_into(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\u{ad}' | '\u{200b}' | '\u{feff}' => {}
            c => html.push(c),
        }
    }
}

/// Converts the HTML of [`main_content`] to Markdown.
///
/// # Errors
/// The library cannot parse it.
pub fn to_markdown(html: &str) -> std::io::Result<String> {
    let options = htmd::options::Options {
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Default::default()
    };
    let converter = htmd::HtmlToMarkdown::builder().options(options).build();
    converter.convert(html)
}

/// Returns the text of the HTML of [`main_content`], for a page that cannot be converted. An end of
/// a block is an end of a line.
pub fn to_text(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        let (tag, rest) = part.split_once('>').unwrap_or(("", part));
        let is_inline = tag.is_empty()
            || tag
                .trim_start_matches('/')
                .starts_with(['a', 'b', 'c', 'i', 's']);
        if !(is_inline || text.ends_with('\n')) {
            text.push('\n');
        }
        text.push_str(rest);
    }
    let plain = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ];
    plain
        .iter()
        .fold(text, |text, (escaped, c)| text.replace(escaped, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown(html: &str) -> String {
        to_markdown(&main_content(html).html).unwrap()
    }

    #[test]
    fn navigation_is_dropped_and_the_largest_main_element_is_chosen() {
        let words = "word ".repeat(MIN_MAIN_WORDS);
        let page = format!(
            "<title>A\n page</title><body><nav>go</nav><header>top</header><article>small</article>\
             <main><header>Head</header><p>{words}<script>x()</script><aside>ad</aside></main>\
             <div>outside</div><footer>end</footer>"
        );
        let content = main_content(&page);
        assert_eq!(content.title, "A page");
        let text = markdown(&page);
        assert!(text.contains("Head") && text.contains("word"), "{text}");
        for dropped in ["go", "top", "small", "x()", "ad", "outside", "end"] {
            assert!(
                !text.split_whitespace().any(|word| word == dropped),
                "{dropped}"
            );
        }
        let small = markdown("<header>top</header><main>few words</main> rest<footer>end</footer>");
        assert_eq!(small, "few words\n\nrest");
    }

    #[test]
    fn markup_becomes_markdown() {
        let page = "<h2>T</h2><p>a <a href='/x y'>l&amp;k</a> <a href='#y'>here</a> <b>b</b> &lt;i&gt;\
                    <ul><li>one<li>two</ul><table><tr><th>k<td>v<tr><td>1<td>2</table>\
                    <pre><code class='language-rust'>fn a() {\n  b\n}</code></pre>";
        insta::assert_snapshot!(markdown(page));
    }

    #[test]
    fn an_element_without_an_end_drops_nothing() {
        assert_eq!(markdown("<p>a</p><nav>b<p>c"), "a\n\nb\n\nc");
    }

    #[test]
    fn deep_nesting_takes_no_time_and_no_stack() {
        let many = 100_000;
        let began = std::time::Instant::now();
        for (open, close) in [
            ("<div>", "</div>"),
            ("<b>", ""),
            ("<ul><li>", "</ul>"),
            ("<p><div>", ""),
        ] {
            let page = format!("{}x{}", open.repeat(many), close.repeat(many));
            let content = main_content(&page);
            assert!(to_text(&content.html).contains('x'));
            assert!(content.html.matches("<div>").count() <= MAX_DEPTH);
            assert!(content.html.matches("<ul>").count() <= MAX_INDENTED);
        }
        // Generous, for a machine under load and a build without optimisation.
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn plain_text_replaces_a_page_that_cannot_be_converted() {
        let content = main_content("<h1>T</h1><p>a <b>b</b> &amp;lt;<p>c");
        assert_eq!(to_text(&content.html), "\nT\na b &lt;\nc");
    }
}
