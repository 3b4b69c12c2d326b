//! `rewake export ID`: exports a session as Markdown or JSON, to stdout or a file, and sessions as a
//! bundle.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use super::bundle::{self, FilesArg, ToExport};
use super::shared::{SharedCommand, SharedFlag};
use crate::report::{CliError, exit};
use crate::session::AppContext;
use crate::session::export::{Format, Replace, to_file};

/// Export a session as Markdown or JSON, or sessions as a bundle
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("Copy the sessions from the shared database first", &["all"]))]
pub(crate) struct ExportArgs {
    /// Session ID or its beginning
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Export one JSON object with every entry of the log
    #[arg(long)]
    pub json: bool,
    /// Write a bundle, which rewake import reads, to this file or `-`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output"])]
    pub bundle: Option<PathBuf>,
    /// All sessions outside the trash
    #[arg(long, requires = "bundle", conflicts_with = "ids")]
    pub all: bool,
    /// Also the files of the newest state, or of all states
    #[arg(long, value_name = "WHICH", requires = "bundle")]
    pub files: Option<FilesArg>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

pub(super) fn run(ctx: &AppContext, args: &ExportArgs) -> Result<u8, CliError> {
    let ids = args.ids.iter().map(|id| args.shared.local_id(ctx, id));
    let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
    if let Some(to) = &args.bundle {
        let wanted = ToExport {
            ids: &ids,
            all: args.all,
            files: args.files,
            force: args.force,
        };
        return bundle::export(ctx, &wanted, to);
    }
    if args.force && args.output.is_none() {
        return Err(CliError::usage("--force needs --output or --bundle"));
    }
    let [id] = ids.as_slice() else {
        let error = CliError::usage("a document has one session");
        return Err(error.with_hint("--bundle FILE takes several"));
    };
    let format = match args.json {
        true => Format::Json,
        false => Format::Markdown,
    };
    let store = super::open_store_for_reading(ctx)?;
    let id = store.history().find(id)?.id;
    match &args.output {
        Some(file) => {
            let replace = match args.force {
                true => Replace::Yes,
                false => Replace::No,
            };
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
