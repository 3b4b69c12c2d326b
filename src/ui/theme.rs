//! Colours and attributes by their role: a colour means a state, never a category. Eight roles
//! paint everything but code and diffs: `text`, `dim`, `accent`, `running`, `ok`, `warn`,
//! `error` and `border`.
//!
//! A theme is a TOML file: one key for each field of [`Theme`]. Its value is a colour (of the
//! text), or a table of `fg`, `bg` and attributes. A colour is a name of the 16 ANSI colours,
//! an index of the 256 or `"#rrggbb"`. Keys that a file leaves out are those of `base`.
//!
//! Invariant: nothing here reads the environment or a file; a theme is a value.

use std::str::FromStr;

use ratatui::style::{Color, Modifier, Style};
use thiserror::Error;
use toml::{Table, Value};

const BUILT_IN: [(&str, &str); 2] = [
    ("dark", include_str!("../../assets/themes/dark.toml")),
    ("light", include_str!("../../assets/themes/light.toml")),
];

const ATTRIBUTES: [(&str, Modifier); 6] = [
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underline", Modifier::UNDERLINED),
    ("reverse", Modifier::REVERSED),
    ("strike", Modifier::CROSSED_OUT),
];

const COLOUR_HINT: &str =
    "a colour is a name such as \"lightblue\", an index from 0 to 255, or \"#rrggbb\"";

/// An error in a theme, with its file and key.
#[derive(Debug, Error, PartialEq)]
#[error("theme {file}: {what}")]
pub struct ThemeError {
    pub file: String,
    pub what: String,
    pub hint: String,
}

/// The number of colours of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The sixteen colours of the terminal's own palette.
    Ansi16,
    /// The 256 colours of xterm.
    Ansi256,
    /// 24 bits for each colour.
    True,
}

impl Depth {
    /// Returns the depth for the values of COLORTERM and TERM.
    pub fn of(colorterm: Option<&str>, term: Option<&str>) -> Depth {
        let term = term.unwrap_or_default();
        let says = |words: &[&str]| words.iter().any(|w| term.contains(w));
        match colorterm.unwrap_or_default() {
            "truecolor" | "24bit" => Depth::True,
            _ if says(&[
                "direct",
                "truecolor",
                "kitty",
                "alacritty",
                "ghostty",
                "wezterm",
            ]) =>
            {
                Depth::True
            }
            _ if says(&["256"]) => Depth::Ansi256,
            _ => Depth::Ansi16,
        }
    }
}

macro_rules! theme {
    ($($field:ident),* $(,)?) => {
        /// Every style of the screen, by its meaning.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Theme {
            $(pub $field: Style,)*
            /// The colours that are shown at all.
            pub depth: Option<Depth>,
        }

        impl Theme {
            fn style_mut(&mut self, key: &str) -> Option<&mut Style> {
                match key {
                    $(stringify!($field) => Some(&mut self.$field),)*
                    _ => None,
                }
            }

            /// The keys of a theme file.
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

theme!(
    text,
    dim,
    accent,
    running,
    ok,
    warn,
    error,
    border,
    code,
    code_bg,
    diff_add,
    diff_del,
    diff_add_word,
    diff_del_word,
    syntax_comment,
    syntax_keyword,
    syntax_string,
    syntax_constant,
    syntax_function,
    syntax_type,
);

impl Theme {
    /// Returns the names of the built-in themes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns a built-in theme.
    pub fn named(name: &str) -> Result<Theme, ThemeError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Theme::parse(name, text),
            None => {
                let known: Vec<&str> = Theme::names().collect();
                let known = known.join(", ");
                Err(error(name, "is not known", &format!("known are {known}")))
            }
        }
    }

    /// Returns a theme without colours, for NO_COLOR: only attributes mark important text.
    pub fn plain() -> Theme {
        let plain = Style::new();
        let (bold, dim) = (plain.bold(), plain.dim());
        Theme {
            dim,
            accent: bold,
            error: bold,
            warn: bold,
            running: bold,
            code: bold,
            diff_del: dim,
            diff_add_word: plain.underlined(),
            diff_del_word: dim.underlined(),
            border: dim,
            ..Theme::default()
        }
    }

    /// Titles and headings: text in bold. Nothing else is bold by itself.
    pub fn heading(&self) -> Style {
        self.text.bold()
    }

    /// Returns the style of an address that can be followed.
    pub fn link(&self) -> Style {
        self.text.underlined()
    }

    /// Words that were searched for and found, everywhere and at the place that is shown.
    pub fn found(&self) -> (Style, Style) {
        let everywhere = self.accent.underlined();
        (everywhere, everywhere.reversed())
    }

    /// Parses a theme file; `name` is its name in errors.
    pub fn parse(name: &str, text: &str) -> Result<Theme, ThemeError> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| {
            let at = e.span().map_or(0, |s| s.start.min(text.len()));
            let line = text.as_bytes()[..at]
                .iter()
                .filter(|b| **b == b'\n')
                .count()
                + 1;
            error(name, &format!("line {line}: {}", e.message()), "")
        })?;
        let mut theme = match table.get("base") {
            None => Theme {
                depth: Some(Depth::True),
                ..Theme::default()
            },
            Some(Value::String(base)) if base != name => Theme::named(base)?,
            Some(_) => return Err(error(name, "base: names no other theme", "")),
        };
        for (key, value) in &table {
            if key == "base" {
                continue;
            }
            let Some(style) = theme.style_mut(key) else {
                let hint = crate::core::text::nearest(key, Theme::KEYS.iter().copied())
                    .map(|near| format!("did you mean {near}?"));
                let what = format!("{key} is not a key of a theme");
                return Err(error(name, &what, &hint.unwrap_or_default()));
            };
            *style = parse_style(name, key, value)?;
        }
        Ok(theme)
    }

    /// Returns the same theme in the colours of a terminal.
    pub fn at_depth(mut self, depth: Depth) -> Theme {
        self.depth = self.depth.map(|_| depth);
        for style in [&mut self.diff_add, &mut self.diff_del] {
            *style = diff_at_depth(*style, depth, false);
        }
        for style in [&mut self.diff_add_word, &mut self.diff_del_word] {
            *style = diff_at_depth(*style, depth, true);
        }
        for key in Theme::KEYS {
            if let Some(style) = self.style_mut(key) {
                style.fg = style.fg.map(|c| downgrade(c, depth));
                style.bg = style.bg.map(|c| downgrade(c, depth));
            }
        }
        self
    }

    /// Adapts a colour that is not the theme's to the terminal. `None`: colours are off.
    pub fn foreign(&self, colour: Color) -> Option<Color> {
        self.depth.map(|depth| downgrade(colour, depth))
    }
}

/// Whether the terminal's background is dark or light.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundTone {
    #[default]
    Dark,
    Light,
}

impl BackgroundTone {
    /// Returns the ground for a background of this colour.
    pub fn of([r, g, b]: [u8; 3]) -> BackgroundTone {
        let [r, g, b] = [r, g, b].map(u32::from);
        match 299 * r + 587 * g + 114 * b >= 128_000 {
            true => BackgroundTone::Light,
            false => BackgroundTone::Dark,
        }
    }

    /// Parses the value of COLORFGBG: `15;0`, the background last, as one of the 16 colours. `None`
    /// when it has no background.
    pub fn of_colorfgbg(value: &str) -> Option<BackgroundTone> {
        match value.rsplit(';').next()?.parse().ok()? {
            7 | 9..=15 => Some(BackgroundTone::Light),
            0..=6 | 8 => Some(BackgroundTone::Dark),
            16..=u8::MAX => None,
        }
    }
}

/// The themes that may be shown: one, or one for each background.
#[derive(Debug, Clone, PartialEq)]
pub enum Palette {
    Fixed(Box<Theme>),
    /// `theme = "auto"`.
    Auto {
        dark: Box<Theme>,
        light: Box<Theme>,
    },
}

impl Palette {
    /// Returns the theme for this background.
    pub fn on(&self, ground: BackgroundTone) -> &Theme {
        match (self, ground) {
            (Palette::Fixed(theme), _) => theme,
            (Palette::Auto { dark, .. }, BackgroundTone::Dark) => dark,
            (Palette::Auto { light, .. }, BackgroundTone::Light) => light,
        }
    }

    /// Returns whether the terminal's background decides.
    pub fn is_auto(&self) -> bool {
        matches!(self, Palette::Auto { .. })
    }
}

impl From<Theme> for Palette {
    fn from(theme: Theme) -> Palette {
        Palette::Fixed(Box::new(theme))
    }
}

fn error(file: &str, what: &str, hint: &str) -> ThemeError {
    let clean = |text: &str| crate::core::visible::visible(text).into_owned();
    ThemeError {
        file: clean(file),
        what: clean(what),
        hint: clean(hint),
    }
}

fn parse_style(file: &str, key: &str, value: &Value) -> Result<Style, ThemeError> {
    let Value::Table(table) = value else {
        return Ok(Style::new().fg(parse_colour(file, key, value)?));
    };
    let mut style = Style::new();
    for (part, value) in table {
        let key = format!("{key}.{part}");
        let attribute = ATTRIBUTES.iter().find(|(name, _)| name == part);
        style = match (part.as_str(), attribute, value) {
            ("fg", ..) => style.fg(parse_colour(file, &key, value)?),
            ("bg", ..) => style.bg(parse_colour(file, &key, value)?),
            (_, Some((_, modifier)), Value::Boolean(true)) => style.add_modifier(*modifier),
            (_, Some(_), Value::Boolean(false)) => style,
            (_, Some(_), _) => return Err(error(file, &format!("{key}: is true or false"), "")),
            (_, None, _) => {
                let hint = "a style has fg, bg, bold, dim, italic, underline, reverse and strike";
                return Err(error(
                    file,
                    &format!("{key} is not a part of a style"),
                    hint,
                ));
            }
        };
    }
    Ok(style)
}

fn parse_colour(file: &str, key: &str, value: &Value) -> Result<Color, ThemeError> {
    let colour = match value {
        Value::Integer(index) => u8::try_from(*index).ok().map(Color::Indexed),
        Value::String(text) => Color::from_str(text).ok(),
        _ => None,
    };
    colour.ok_or_else(|| {
        error(
            file,
            &format!("{key}: {value} is not a colour"),
            COLOUR_HINT,
        )
    })
}

/// Returns the nearest colour that a terminal of this depth has.
fn downgrade(colour: Color, depth: Depth) -> Color {
    match (colour, depth) {
        (_, Depth::True) | (Color::Indexed(0..16), _) => colour,
        (Color::Rgb(r, g, b), Depth::Ansi256) => Color::Indexed(nearest_256([r, g, b])),
        (Color::Rgb(r, g, b), Depth::Ansi16) => nearest_16([r, g, b]),
        (Color::Indexed(index), Depth::Ansi16) => nearest_16(rgb_of_256(index)),
        _ => colour,
    }
}

/// Returns a style of diffs for a terminal of this depth. The nearest colour of a dark background is
/// often a grey, so the hue is chosen first: a diff stays red and green. With 16 colours only the
/// text has a colour, and words that differ are reversed.
fn diff_at_depth(style: Style, depth: Depth, is_word: bool) -> Style {
    let hue = |colour| match colour {
        Some(Color::Rgb(r, g, b)) => hue([r, g, b]),
        _ => None,
    };
    match (depth, hue(style.fg), hue(style.bg), style.bg) {
        (Depth::Ansi256, _, Some(hue), Some(Color::Rgb(r, g, b))) => {
            let is_dark = BackgroundTone::of([r, g, b]) == BackgroundTone::Dark;
            // Levels of the cube with the hue, and without it.
            let (with, without) = match (is_dark, is_word) {
                (true, false) => (1, 0),
                (true, true) => (2, 0),
                (false, false) => (5, 4),
                (false, true) => (5, 3),
            };
            let [r, g, b] = hue.map(|has| if has { with } else { without });
            let style = style.bg(Color::Indexed(16 + 36 * r + 6 * g + b));
            match is_dark && is_word {
                true => style.fg(Color::Indexed(231)),
                false => style,
            }
        }
        (Depth::Ansi16, Some([red, green, blue]), ..) => {
            let index = u8::from(red) + 2 * u8::from(green) + 4 * u8::from(blue);
            let style = Style {
                fg: Some(Color::Indexed(index)),
                bg: None,
                ..style
            };
            if is_word { style.reversed() } else { style }
        }
        _ => style,
    }
}

/// Returns which of red, green and blue are strong in a colour. `None`: it is a grey.
fn hue(rgb: [u8; 3]) -> Option<[bool; 3]> {
    const LEAST: u8 = 8;
    let most = rgb.into_iter().max().unwrap_or(0);
    let least = rgb.into_iter().min().unwrap_or(0);
    let middle = least + (most - least) / 2;
    (most - least >= LEAST).then(|| rgb.map(|part| part > middle))
}

/// The six levels of xterm's colour cube.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Returns a colour of xterm from 16 on; the first 16 are the user's own.
fn rgb_of_256(index: u8) -> [u8; 3] {
    match index.checked_sub(232) {
        Some(grey) => [8 + 10 * grey; 3],
        None => {
            let cube = usize::from(index.saturating_sub(16));
            [
                LEVELS[cube / 36 % 6],
                LEVELS[cube / 6 % 6],
                LEVELS[cube % 6],
            ]
        }
    }
}

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    let part = |i: usize| u32::from(a[i].abs_diff(b[i])).pow(2);
    // The eye sees green best and blue worst.
    2 * part(0) + 4 * part(1) + 3 * part(2)
}

fn nearest_256(rgb: [u8; 3]) -> u8 {
    let indexes = 16..=255_u8;
    indexes
        .min_by_key(|i| distance(rgb, rgb_of_256(*i)))
        .unwrap_or(16)
}

fn nearest_16(rgb: [u8; 3]) -> Color {
    const COLOURS: [(Color, [u8; 3]); 16] = [
        (Color::Black, [0, 0, 0]),
        (Color::Red, [205, 0, 0]),
        (Color::Green, [0, 205, 0]),
        (Color::Yellow, [205, 205, 0]),
        (Color::Blue, [0, 0, 238]),
        (Color::Magenta, [205, 0, 205]),
        (Color::Cyan, [0, 205, 205]),
        (Color::Gray, [229, 229, 229]),
        (Color::DarkGray, [127, 127, 127]),
        (Color::LightRed, [255, 0, 0]),
        (Color::LightGreen, [0, 255, 0]),
        (Color::LightYellow, [255, 255, 0]),
        (Color::LightBlue, [92, 92, 255]),
        (Color::LightMagenta, [255, 0, 255]),
        (Color::LightCyan, [0, 255, 255]),
        (Color::White, [255, 255, 255]),
    ];
    let nearest = COLOURS.iter().min_by_key(|(_, c)| distance(rgb, *c));
    nearest.map_or(Color::Reset, |(colour, _)| *colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_themes_define_every_key() {
        for (name, text) in BUILT_IN {
            let table: Table = text.parse().unwrap();
            for key in Theme::KEYS {
                assert!(table.contains_key(*key), "{name} has no {key}");
            }
            Theme::named(name).unwrap();
        }
    }

    #[test]
    fn a_theme_may_change_a_few_keys_of_another() {
        let text = "base = \"dark\"\nerror = \"#ff0000\"\ncode = { fg = 33, underline = true }";
        let theme = Theme::parse("mine", text).unwrap();
        assert_eq!(theme.error, Style::new().fg(Color::Rgb(255, 0, 0)));
        assert_eq!(theme.code, Style::new().fg(Color::Indexed(33)).underlined());
        assert_eq!(theme.warn, Theme::named("dark").unwrap().warn);
    }

    /// The relative luminance of WCAG 2.
    fn luminance([r, g, b]: [u8; 3]) -> f64 {
        let part = |c: u8| {
            let c = f64::from(c) / 255.0;
            match c <= 0.04045 {
                true => c / 12.92,
                false => ((c + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
    }

    fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn rgb(colour: Option<Color>) -> [u8; 3] {
        match colour {
            Some(Color::Rgb(r, g, b)) => [r, g, b],
            Some(Color::Indexed(index @ 16..)) => rgb_of_256(index),
            other => panic!("{other:?} is not the same on every terminal"),
        }
    }

    #[test]
    fn every_role_can_be_read_on_the_backgrounds_of_its_theme() {
        // The plain one, and the ones that common terminal themes have.
        let grounds = [
            ("dark", [[0, 0, 0], [0x1e, 0x1e, 0x2e], [0x28, 0x2c, 0x34]]),
            (
                "light",
                [[255, 255, 255], [0xfa, 0xfa, 0xfa], [0xfd, 0xf6, 0xe3]],
            ),
        ];
        for (name, grounds) in grounds {
            for depth in [Depth::True, Depth::Ansi256] {
                let theme = Theme::named(name).unwrap().at_depth(depth);
                // The terminal's own: what its user chose to read.
                assert_eq!(theme.text, Style::new(), "{name}");
                for ground in grounds {
                    for (role, style, least) in [
                        ("dim", theme.dim, 4.5),
                        ("accent", theme.accent, 4.5),
                        ("running", theme.running, 4.5),
                        ("ok", theme.ok, 4.5),
                        ("warn", theme.warn, 4.5),
                        ("error", theme.error, 4.5),
                        ("border", theme.border, 2.5),
                        ("code", theme.code, 4.5),
                    ] {
                        let found = contrast(rgb(style.fg), ground);
                        assert!(found >= least, "{name} {depth:?} {role}: {found:.2}");
                    }
                }
                for (part, style) in [
                    ("diff_add", theme.diff_add),
                    ("diff_del", theme.diff_del),
                    ("diff_add_word", theme.diff_add_word),
                    ("diff_del_word", theme.diff_del_word),
                ] {
                    let found = contrast(rgb(style.fg), rgb(style.bg));
                    assert!(found >= 4.5, "{name} {depth:?} {part}: {found:.2}");
                }
            }
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_key_and_file() {
        for (text, what) in [
            (
                "error = \"purplish\"",
                "mine.toml: error: \"purplish\" is not a colour",
            ),
            ("error = 256", "mine.toml: error: 256 is not a colour"),
            (
                "error = \"#12345\"",
                "mine.toml: error: \"#12345\" is not a colour",
            ),
            (
                "error = { fg = \"x\" }",
                "mine.toml: error.fg: \"x\" is not a colour",
            ),
            (
                "error = { bold = 1 }",
                "mine.toml: error.bold: is true or false",
            ),
            (
                "error = { big = true }",
                "mine.toml: error.big is not a part of a style",
            ),
            ("eror = \"red\"", "mine.toml: eror is not a key of a theme"),
            ("base = \"mine\"", "theme mine: is not known"),
            ("base = 3", "mine.toml: base: names no other theme"),
            ("text = 1\nerror = ", "mine.toml: line 2"),
        ] {
            let error = Theme::parse("mine.toml", text).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let error = Theme::parse("mine.toml", "eror = 1").unwrap_err();
        assert_eq!(error.hint, "did you mean error?");
    }

    #[test]
    fn the_depth_is_what_the_terminal_says() {
        for (colorterm, term, want) in [
            (Some("truecolor"), Some("xterm"), Depth::True),
            (None, Some("xterm-kitty"), Depth::True),
            (None, Some("xterm-direct"), Depth::True),
            (None, Some("screen-256color"), Depth::Ansi256),
            (Some("1"), Some("tmux-256color"), Depth::Ansi256),
            (None, Some("xterm"), Depth::Ansi16),
            (None, None, Depth::Ansi16),
        ] {
            assert_eq!(Depth::of(colorterm, term), want, "{colorterm:?} {term:?}");
        }
    }

    #[test]
    fn colours_become_the_nearest_there_are() {
        for (colour, at_256, at_16) in [
            (Color::Rgb(255, 0, 0), Color::Indexed(196), Color::LightRed),
            (Color::Rgb(8, 8, 8), Color::Indexed(232), Color::Black),
            (
                Color::Rgb(95, 135, 175),
                Color::Indexed(67),
                Color::DarkGray,
            ),
            (Color::Indexed(46), Color::Indexed(46), Color::LightGreen),
            (Color::Indexed(3), Color::Indexed(3), Color::Indexed(3)),
            (Color::Cyan, Color::Cyan, Color::Cyan),
        ] {
            assert_eq!(downgrade(colour, Depth::True), colour);
            assert_eq!(downgrade(colour, Depth::Ansi256), at_256, "{colour:?}");
            assert_eq!(downgrade(colour, Depth::Ansi16), at_16, "{colour:?}");
        }
    }

    #[test]
    fn a_background_is_dark_or_light() {
        for (rgb, ground) in [
            ([0, 0, 0], BackgroundTone::Dark),
            ([0x28, 0x2c, 0x34], BackgroundTone::Dark),
            ([0xfd, 0xf6, 0xe3], BackgroundTone::Light),
            ([255, 255, 255], BackgroundTone::Light),
        ] {
            assert_eq!(BackgroundTone::of(rgb), ground, "{rgb:?}");
        }
        for (value, ground) in [
            ("15;0", Some(BackgroundTone::Dark)),
            ("0;15", Some(BackgroundTone::Light)),
            ("0;default;7", Some(BackgroundTone::Light)),
            ("default", None),
            ("", None),
            ("0;99", None),
        ] {
            assert_eq!(BackgroundTone::of_colorfgbg(value), ground, "{value}");
        }
    }

    #[test]
    fn diffs_stay_red_and_green_with_few_colours() {
        for name in ["dark", "light"] {
            let theme = Theme::named(name).unwrap();
            let of = |depth| {
                let theme = theme.clone().at_depth(depth);
                [
                    (theme.diff_add, [false, true, false]),
                    (theme.diff_add_word, [false, true, false]),
                    (theme.diff_del, [true, false, false]),
                    (theme.diff_del_word, [true, false, false]),
                ]
            };
            for (style, want) in of(Depth::Ansi256) {
                assert_eq!(hue(rgb(style.bg)), Some(want), "{name} {style:?}");
            }
            let [(add, _), (add_word, _), (del, _), (del_word, _)] = of(Depth::Ansi16);
            let (green, red) = (Color::Indexed(2), Color::Indexed(1));
            assert_eq!([add.fg, add_word.fg], [Some(green); 2], "{name}");
            assert_eq!([del.fg, del_word.fg], [Some(red); 2], "{name}");
            assert_eq!([add.bg, del.bg], [None; 2], "{name}");
            assert_ne!((add, del), (add_word, del_word), "{name}");
        }
        // A theme with other hues keeps them.
        let blue = Theme::parse(
            "b",
            "base = \"dark\"\ndiff_add = { fg = \"#99aaff\", bg = \"#14182b\" }",
        );
        let blue = blue.unwrap();
        let at_256 = blue.clone().at_depth(Depth::Ansi256).diff_add;
        assert_eq!(at_256.bg, Some(Color::Indexed(17)));
        assert_eq!(
            blue.at_depth(Depth::Ansi16).diff_add.fg,
            Some(Color::Indexed(4))
        );
    }

    #[test]
    fn plain_has_no_colour() {
        let mut plain = Theme::plain();
        for key in Theme::KEYS {
            let style = plain.style_mut(key).unwrap();
            assert_eq!((style.fg, style.bg), (None, None), "{key}");
        }
    }
}
