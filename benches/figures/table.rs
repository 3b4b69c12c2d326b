//! The table at the end.

use std::time::Duration;

/// One figure.
pub struct Row {
    what: String,
    measured: String,
    /// A floor or a peer, measured in the same run.
    beside: String,
    ratio: Option<f64>,
    target: String,
    met: Option<bool>,
}

impl Row {
    pub fn new(what: impl Into<String>, measured: impl Into<String>) -> Row {
        Row {
            what: what.into(),
            measured: measured.into(),
            beside: String::new(),
            ratio: None,
            target: String::new(),
            met: None,
        }
    }

    pub fn beside(mut self, beside: impl Into<String>) -> Row {
        self.beside = beside.into();
        self
    }

    pub fn ratio(mut self, ratio: f64) -> Row {
        self.ratio = Some(ratio);
        self
    }

    pub fn target(mut self, target: impl Into<String>, met: bool) -> Row {
        self.target = target.into();
        self.met = Some(met);
        self
    }

    fn cells(&self) -> [String; 6] {
        let ratio = self.ratio.map(|r| format!("{r:.2} ×"));
        let met = match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        [
            self.what.clone(),
            self.measured.clone(),
            self.beside.clone(),
            ratio.unwrap_or_default(),
            self.target.clone(),
            met.to_string(),
        ]
    }
}

pub fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        ..1.0 => format!("{ms:.3} ms"),
        ..100.0 => format!("{ms:.1} ms"),
        _ => format!("{ms:.0} ms"),
    }
}

pub fn mb(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

/// As Markdown, so that it can be pasted.
pub fn print(rows: &[Row]) {
    let head = ["what", "measured", "beside it", "ratio", "target", ""].map(String::from);
    let cells: Vec<[String; 6]> = std::iter::once(head)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let widths = cells.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    for (place, row) in cells.iter().enumerate() {
        let line: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        println!("| {} |", line.join(" | "));
        if place == 0 {
            let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
            println!("| {} |", rule.join(" | "));
        }
    }
}
