//! Flags of a run that are recorded in its session, checked before a session is opened.

use std::path::PathBuf;

use clap::Args;

use super::values;
use crate::config::read_text;
use crate::core::entry::Image;
use crate::report::CliError;
use crate::session::{AppContext, GivenFlags, added_folder, read_image};
use crate::store::blob_ref;

/// Maximum size of a text for the system prompt.
const MAX_PROMPT_BYTES: u64 = 64 * 1024;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Flags that a session records.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct GivenArgs {
    /// Pause when the session has cost N US dollars
    #[arg(long, value_name = "N", value_parser = values::usd)]
    pub max_usd: Option<f64>,

    /// Add text to the system prompt (@FILE reads a file)
    ///
    /// It is recorded, and applies after a resume too. An empty text removes it.
    #[arg(long, value_name = "TEXT|@FILE")]
    pub append_system_prompt: Option<String>,

    /// Count a folder as part of the workspace (repeatable)
    ///
    /// It is recorded, and applies after a resume too. rewind does not restore files there.
    #[arg(long, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,

    /// Name the session
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,

    /// Record the session in the shared database too
    #[arg(long)]
    pub shared: bool,
}

/// Returns the flags that a session records.
///
/// # Errors
/// A file or a folder cannot be used.
pub(super) fn given(ctx: &AppContext, args: &GivenArgs) -> Result<GivenFlags, CliError> {
    let prompt = args.append_system_prompt.as_deref();
    let folder = |folder: &PathBuf| {
        let added = added_folder(ctx, folder);
        added.map_err(|why| CliError::usage(format!("--add-dir {}: {why}", folder.display())))
    };
    let folders = args.add_dir.iter().map(folder);
    let folders: Vec<String> = folders.collect::<Result<_, _>>()?;
    Ok(GivenFlags {
        max_usd: args.max_usd,
        system_prompt: prompt.map(|text| system_prompt(ctx, text)).transpose()?,
        folders: (!folders.is_empty()).then_some(folders),
        name: args.name.as_deref().map(name).transpose()?,
        shared: args.shared,
        ..GivenFlags::default()
    })
}

fn name(text: &str) -> Result<String, CliError> {
    let text = text.trim();
    match text.is_empty() || text.chars().count() > MAX_NAME_CHARS {
        true => Err(CliError::usage(format!(
            "--name needs 1 to {MAX_NAME_CHARS} characters"
        ))),
        false => Ok(text.to_string()),
    }
}

fn system_prompt(ctx: &AppContext, text: &str) -> Result<String, CliError> {
    let text = match text.strip_prefix('@') {
        None => text.to_string(),
        Some(file) => {
            let path = ctx.env.cwd().join(file);
            read_text(&path, MAX_PROMPT_BYTES).map_err(|error| {
                CliError::usage(format!(
                    "--append-system-prompt: {}: {error}",
                    path.display()
                ))
            })?
        }
    };
    match text.len() as u64 > MAX_PROMPT_BYTES || text.contains('\0') {
        true => Err(CliError::usage(format!(
            "--append-system-prompt: the text has more than {MAX_PROMPT_BYTES} bytes, or a NUL"
        ))),
        false => Ok(text.trim().to_string()),
    }
}

/// Returns the images of a prompt, and their bytes.
///
/// # Errors
/// A file is not an image that can be sent.
pub(super) fn images(files: &[PathBuf]) -> Result<(Vec<Image>, Vec<Vec<u8>>), CliError> {
    let (mut images, mut blobs) = (Vec::new(), Vec::new());
    for path in files {
        let (media_type, bytes) = read_image(path).map_err(CliError::usage)?;
        images.push(Image {
            media_type: media_type.to_string(),
            blob: blob_ref(&bytes),
        });
        blobs.push(bytes);
    }
    Ok((images, blobs))
}
