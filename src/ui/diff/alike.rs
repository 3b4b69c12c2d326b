//! Which lines of a change belong together, so that words can be pointed at.
//!
//! Invariant: the pairs of lines that are compared are bounded.

use std::cmp::Ordering;

use super::MAX_LINE_BYTES;
use crate::core::text::boundary_below;

/// Lines that have less of a thousand in common have no words to point at.
const MIN_LIKENESS: usize = 500;
/// Maximum number of compared pairs. Beyond it, lines are compared one by one.
const MAX_PAIRS: usize = 4_000;

/// Returns the pairs of old and new lines that are the same line changed, in order. Lines that have
/// too little in common are not paired.
pub(super) fn alike(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    if old.len().saturating_mul(new.len()) > MAX_PAIRS {
        let pairs = (0..old.len().min(new.len())).map(|at| (at, at));
        let is_alike = |(o, n): &(usize, usize)| likeness(&Bag::of(old[*o]), &Bag::of(new[*n])) > 0;
        return pairs.filter(is_alike).collect();
    }
    let bags: Vec<Bag<'_>> = new.iter().map(|line| Bag::of(line)).collect();
    // The best score of the lines from here on, by the position in both.
    let width = new.len() + 1;
    let mut best = vec![0; (old.len() + 1) * width];
    let mut likes = vec![0; old.len() * new.len()];
    for (o, line) in old.iter().enumerate().rev() {
        let bag = Bag::of(line);
        for n in (0..new.len()).rev() {
            let like = likeness(&bag, &bags[n]);
            likes[o * new.len() + n] = like;
            let with = if like > 0 {
                like + best[(o + 1) * width + n + 1]
            } else {
                0
            };
            best[o * width + n] = with
                .max(best[(o + 1) * width + n])
                .max(best[o * width + n + 1]);
        }
    }
    let (mut o, mut n, mut pairs) = (0, 0, Vec::new());
    while o < old.len() && n < new.len() {
        let (here, like) = (best[o * width + n], likes[o * new.len() + n]);
        if like > 0 && here == like + best[(o + 1) * width + n + 1] {
            pairs.push((o, n));
            (o, n) = (o + 1, n + 1);
        } else if here == best[(o + 1) * width + n] {
            o += 1;
        } else {
            n += 1;
        }
    }
    pairs
}

/// The words of a line, sorted, and their bytes. Blanks are no words: all lines have them.
struct Bag<'a> {
    words: Vec<&'a str>,
    bytes: usize,
}

impl<'a> Bag<'a> {
    fn of(line: &'a str) -> Bag<'a> {
        let line = &line[..boundary_below(line, MAX_LINE_BYTES.min(line.len()))];
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.sort_unstable();
        let bytes = words.iter().map(|word| word.len()).sum();
        Bag { words, bytes }
    }
}

/// Returns how much two lines have in common, in thousandths; 0 when it is too little.
fn likeness(old: &Bag<'_>, new: &Bag<'_>) -> usize {
    let (mut o, mut n, mut common) = (0, 0, 0);
    while let (Some(before), Some(after)) = (old.words.get(o), new.words.get(n)) {
        match before.cmp(after) {
            Ordering::Less => o += 1,
            Ordering::Greater => n += 1,
            Ordering::Equal => {
                common += before.len();
                (o, n) = (o + 1, n + 1);
            }
        }
    }
    let like = (2 * common * 1_000).checked_div(old.bytes + new.bytes);
    like.filter(|like| *like >= MIN_LIKENESS).unwrap_or(0)
}
