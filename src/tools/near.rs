//! Search for the part of a text that resembles a text that was not found, so that the model's next
//! edit can be right.
//!
//! Every stretch of lines as long as the wanted text is scored by the bytes that both have in
//! common, in one pass over the text. Only the best few are compared exactly.

use std::time::Duration;

use similar::TextDiff;

use super::printable;

/// Minimum similarity of a place that is worth naming.
const MIN_RATIO: f32 = 0.6;
const MAX_CANDIDATES: usize = 6;
const MAX_COMPARED_BYTES: usize = 8_000;
/// Time limit of one comparison.
const MAX_TIME: Duration = Duration::from_millis(50);
const MAX_LINES_COMPARED: usize = 500;
const MAX_LINE_CHARS: usize = 200;

/// Returns one sentence, then at most `most` lines of the place. Both texts have LF as line ends.
pub(super) fn nearest(text: &str, wanted: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let wanted = wanted.trim_matches('\n');
    let wanted_lines: Vec<&str> = wanted.lines().collect();
    if lines.is_empty() {
        return "the file is empty".to_string();
    }
    if let Some(at) = same_but_whitespace(&lines, &wanted_lines) {
        let shown = numbered(&lines, at, wanted_lines.len(), most);
        return format!("the nearest text differs only in whitespace:\n{shown}");
    }
    match most_alike(&lines, wanted, wanted_lines.len()) {
        Some((at, ratio)) => format!(
            "the nearest text is {:.0} % alike:\n{}",
            // Rounding must not turn a difference into 100 %.
            (ratio * 100.0).min(99.0),
            numbered(&lines, at, wanted_lines.len(), most)
        ),
        None => "nothing in the file is like it\nhint: read the file again".to_string(),
    }
}

fn numbered(lines: &[&str], at: usize, count: usize, most: usize) -> String {
    let mut text = String::new();
    let shown = lines.iter().enumerate().skip(at).take(count);
    for (index, line) in shown.take(most) {
        let line: String = printable(line).chars().take(MAX_LINE_CHARS).collect();
        text.push_str(&format!("{:>6}\t{line}\n", index + 1));
    }
    if count > most {
        text.push_str("… and the lines below\n");
    }
    text
}

fn same_but_whitespace(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let bare = |line: &str| line.split_whitespace().collect::<String>();
    let wanted: Vec<String> = wanted
        .iter()
        .take(MAX_LINES_COMPARED)
        .map(|l| bare(l))
        .collect();
    if wanted.iter().all(String::is_empty) || wanted.len() > lines.len() {
        return None;
    }
    (0..=lines.len() - wanted.len()).find(|at| {
        wanted
            .iter()
            .zip(&lines[*at..])
            .all(|(w, line)| *w == bare(line))
    })
}

fn most_alike(lines: &[&str], wanted: &str, count: usize) -> Option<(usize, f32)> {
    let count = count.clamp(1, lines.len());
    let best = candidates(lines, wanted, count);
    let compared = best.into_iter().map(|(at, common)| {
        let stretch = lines[at..at + count].join("\n");
        if stretch.len().max(wanted.len()) > MAX_COMPARED_BYTES {
            return (at, common);
        }
        let diff = TextDiff::configure()
            .timeout(MAX_TIME)
            .diff_chars(stretch.as_str(), wanted);
        (at, diff.ratio())
    });
    compared
        .filter(|(_, ratio)| *ratio >= MIN_RATIO)
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
}

/// Returns the stretches with the most bytes in common with `wanted`, best first.
fn candidates(lines: &[&str], wanted: &str, count: usize) -> Vec<(usize, f32)> {
    let mut best: Vec<(usize, f32)> = Vec::new();
    let mut common = Common::with(wanted);
    for (index, line) in lines.iter().enumerate() {
        common.add(line);
        if index + 1 < count {
            continue;
        }
        let at = index + 1 - count;
        let ratio = common.ratio();
        let rank = best.partition_point(|(_, other)| *other >= ratio);
        if rank < MAX_CANDIDATES && ratio >= MIN_RATIO {
            best.insert(rank, (at, ratio));
            best.truncate(MAX_CANDIDATES);
        }
        common.remove(lines[at]);
    }
    best
}

/// Counter of the bytes, in any order, that a stretch of lines shares with the wanted text.
struct Common {
    /// For each byte value, how many the stretch lacks; negative when the stretch has more.
    lacking: [i64; 256],
    shared: usize,
    wanted: usize,
    stretch: usize,
}

impl Common {
    fn with(wanted: &str) -> Common {
        let mut common = Common {
            lacking: [0; 256],
            shared: 0,
            wanted: 0,
            stretch: 0,
        };
        for byte in counted(wanted) {
            common.lacking[byte] += 1;
            common.wanted += 1;
        }
        common
    }

    fn add(&mut self, line: &str) {
        for byte in counted(line) {
            self.shared += usize::from(self.lacking[byte] > 0);
            self.lacking[byte] -= 1;
            self.stretch += 1;
        }
    }

    fn remove(&mut self, line: &str) {
        for byte in counted(line) {
            self.lacking[byte] += 1;
            self.shared -= usize::from(self.lacking[byte] > 0);
            self.stretch -= 1;
        }
    }

    fn ratio(&self) -> f32 {
        match self.wanted + self.stretch {
            0 => 0.0,
            both => 2.0 * self.shared as f32 / both as f32,
        }
    }
}

fn counted(text: &str) -> impl Iterator<Item = usize> {
    text.bytes()
        .filter(|b| !b.is_ascii_whitespace())
        .map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n\nfn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n";

    #[test]
    fn whitespace_alone_is_named() {
        let said = nearest(TEXT, "let total = add(1,2);\nprint(total);", 20);
        assert!(said.contains("only in whitespace"), "{said}");
        assert!(
            said.contains("     2\t    let total = add(1, 2);\n     3\t"),
            "{said}"
        );
    }

    #[test]
    fn the_nearest_place_is_shown_with_its_line() {
        let said = nearest(TEXT, "fn add(a: u32, b: u32) -> u32 {\n    a + b", 20);
        assert!(said.contains("% alike"), "{said}");
        assert!(
            said.contains("     6\tfn add(a: i32, b: i32) -> i32 {\n"),
            "{said}"
        );
    }

    #[test]
    fn nearest_reports_when_nothing_is_similar() {
        assert!(nearest(TEXT, "SELECT * FROM 'users'", 20).contains("nothing in the file"));
        assert!(nearest("", "x", 20).contains("empty"));
        assert!(nearest("x", &"x\n".repeat(50), 20).contains("nothing in the file"));
    }

    #[test]
    fn a_long_text_is_searched_within_bounds() {
        let text: String = (0..100_000)
            .map(|n| format!("value {n} of the table\n"))
            .collect();
        let said = nearest(&text, "value 77777 of the tabel", 20);
        assert!(said.contains("77777"), "{said}");
    }
}
