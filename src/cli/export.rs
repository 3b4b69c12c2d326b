//! `rewake export ID`: a session as Markdown or JSON, on stdout or into a file.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::report::{Trouble, exit};
use crate::session::AppContext;
use crate::session::export::{ExportError, Format, Replace, to_file};

pub(super) fn run(
    ctx: &AppContext,
    id: &str,
    format: Format,
    file: Option<(&Path, Replace)>,
) -> Result<u8, Trouble> {
    let store = super::open_store_to_look(ctx)?;
    let id = store.find(id)?.id;
    match file {
        Some((file, replace)) => {
            to_file(&store, &id, format, &ctx.env.cwd().join(file), replace)?;
        }
        None => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let written = format.write(&store, &id, &mut out);
            match written.and_then(|()| Ok(out.flush()?)) {
                Err(error) if error.is_broken_pipe() => {}
                written => written?,
            }
        }
    }
    Ok(exit::DONE)
}

impl From<ExportError> for Trouble {
    fn from(error: ExportError) -> Trouble {
        match error {
            ExportError::Store(error) => error.into(),
            ExportError::Exists(_) => Trouble::new(exit::USAGE, error.to_string())
                .with_hint("give another name, or --force to replace it"),
            ExportError::Write(_) | ExportError::File { .. } => {
                Trouble::new(exit::FAILED, error.to_string())
            }
        }
    }
}
