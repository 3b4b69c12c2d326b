//! One answer in very many pieces.

use std::time::Duration;

use crate::child;
use crate::noise::Noise;
use crate::table::{Row, mb};
use support::{Answer, Options, Protocol, Says, Server};

const CHUNKS: usize = 20_000;

/// About one event of the stream with four characters of text.
const CHUNK_BYTES: usize = 120;

pub fn rows() -> Vec<Row> {
    let text = Noise::new(3).text(CHUNKS * 4);
    let options = Options {
        keep_bodies: false,
        check: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |_| Answer::Slow {
        says: Says {
            piece_chars: 4,
            ..Says::text(text.clone())
        },
        chunk_bytes: CHUNK_BYTES,
        delay_ms: 0,
    });
    let home = super::wide_home(&server, Protocol::Anthropic);
    let cost = child::run(home.rewake(["-p", "talk"]), Duration::from_millis(5));
    vec![
        Row::new(
            "one answer in 20,000 chunks, CPU",
            format!("{:.2} s", cost.cpu.as_secs_f64()),
        )
        .beside(format!(
            "{:.0} chunks/s; peak {}",
            CHUNKS as f64 / cost.wall.as_secs_f64(),
            mb(cost.peak_bytes)
        ))
        .target("0.2 s", cost.cpu <= Duration::from_millis(200)),
    ]
}
