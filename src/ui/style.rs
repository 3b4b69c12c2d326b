//! The choice of colours: the config's theme, the user's own files, and the abilities of the
//! terminal.

use crate::session::AppContext;
use crate::ui::keys;
use crate::ui::theme::{BackgroundTone, Depth, Palette, Theme};

/// A theme of this size is none.
const MAX_BYTES: u64 = 64 << 10;

/// The theme that follows the terminal's background.
const AUTO: &str = "auto";

/// Returns the theme of this name, else the config's. `NO_COLOR` and a terminal without colours
/// override both.
pub(super) fn palette(ctx: &AppContext, name: Option<&str>) -> Result<Palette, String> {
    let env = &ctx.env;
    if env.var_os("NO_COLOR").is_some() || env.var("TERM") == Some("dumb") {
        return Ok(Theme::plain().into());
    }
    match name {
        Some(name) => named(ctx, name),
        None => {
            let origin = ctx.loaded.origins.of("theme");
            named(ctx, &ctx.config().theme).map_err(|why| format!("{origin}: {why}"))
        }
    }
}

fn named(ctx: &AppContext, name: &str) -> Result<Palette, String> {
    if name == AUTO {
        return Ok(Palette::Auto {
            dark: Box::new(theme(ctx, "dark")?),
            light: Box::new(theme(ctx, "light")?),
        });
    }
    theme(ctx, name).map(Palette::from)
}

/// Returns the theme that applies if the one of the config cannot be used.
pub(super) fn usual(ctx: &AppContext) -> Palette {
    named(ctx, AUTO).unwrap_or_else(|_| Theme::plain().into())
}

/// Returns what is wrong with the theme and the keys of the config, with the lines.
pub fn warnings(ctx: &AppContext) -> Vec<String> {
    let theme = palette(ctx, None).err();
    keys::warnings(&ctx.loaded)
        .into_iter()
        .chain(theme)
        .collect()
}

/// Returns the background that the environment names: dark where it names none.
pub(super) fn ground(ctx: &AppContext) -> BackgroundTone {
    let said = ctx
        .env
        .var("COLORFGBG")
        .and_then(BackgroundTone::of_colorfgbg);
    said.unwrap_or_default()
}

/// Returns whether the locale says that the terminal shows no UTF-8. One that says nothing is
/// believed to.
pub(super) fn is_ascii(ctx: &AppContext) -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"];
    let Some(locale) = said.iter().find_map(|name| ctx.env.var(name)) else {
        return false;
    };
    let locale = locale.to_ascii_lowercase();
    !locale.contains("utf-8") && !locale.contains("utf8")
}

/// Returns whether the terminal understands the question for its background. The console of Linux
/// prints it.
pub(super) fn may_ask(ctx: &AppContext) -> bool {
    !matches!(ctx.env.var("TERM"), None | Some("linux" | "dumb"))
}

fn theme(ctx: &AppContext, name: &str) -> Result<Theme, String> {
    let depth = Depth::of(ctx.env.var("COLORTERM"), ctx.env.var("TERM"));
    let theme = match Theme::names().any(|built_in| built_in == name) {
        true => Theme::named(name),
        false => own(ctx, name)?,
    };
    theme
        .map(|t| t.at_depth(depth))
        .map_err(|e| format!("{e}; {}", e.hint))
}

fn own(
    ctx: &AppContext,
    name: &str,
) -> Result<Result<Theme, crate::ui::theme::ThemeError>, String> {
    // A name, not a path: the workspace's config may choose it.
    if name.is_empty() || name.contains(['/', '\\', '\0']) || name.starts_with('.') {
        return Err(format!("theme {name:?} is not a name"));
    }
    let file = ctx
        .paths
        .config_dir
        .join("themes")
        .join(format!("{name}.toml"));
    let text = crate::config::read_text(&file, MAX_BYTES).map_err(|_| {
        let known: Vec<&str> = Theme::names().collect();
        format!(
            "there is no theme {name:?}: built in are {}, own ones lie in {}",
            known.join(" and "),
            ctx.paths.config_dir.join("themes").display()
        )
    })?;
    Ok(Theme::parse(&file.to_string_lossy(), &text))
}

/// Lists all themes, the built-in ones first.
pub(super) fn names(ctx: &AppContext) -> Vec<String> {
    let built_in = std::iter::once(AUTO).chain(Theme::names());
    let mut names: Vec<String> = built_in.map(str::to_string).collect();
    let own = std::fs::read_dir(ctx.paths.config_dir.join("themes"));
    let mut files: Vec<String> = own
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            name.strip_suffix(".toml").map(str::to_string)
        })
        .collect();
    files.sort();
    names.extend(files);
    names
}
