//! Text that compresses about as well as what tools print: words, numbers, paths.

const WORDS: [&str; 32] = [
    "error", "warning", "src", "lib", "main", "test", "result", "ok", "failed", "running", "the",
    "of", "value", "return", "let", "self", "fn", "match", "impl", "struct", "expected", "found",
    "type", "line", "column", "note", "help", "unused", "variable", "module", "path", "crate",
];

/// The same for the same seed.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let n = self.next();
            let word = WORDS[(n % 32) as usize];
            match (n >> 8) % 8 {
                0 => text.push_str(&format!("{word}/{:x}.rs:{}\n", n >> 40, (n >> 16) % 999)),
                1 => text.push_str(&format!("{} ", (n >> 16) % 100_000)),
                _ => {
                    text.push_str(word);
                    text.push(' ');
                }
            }
        }
        text.truncate(bytes);
        text
    }
}
