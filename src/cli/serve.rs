//! `rewake serve`: the options of the server.

use clap::Args;

use crate::report::CliError;
use crate::server::{self, Listen, Options, TokenScope};
use crate::session::AppContext;

/// Serve sessions over HTTP, for scripts and phones
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ServeArgs {
    /// Listen on an address of this machine or on a socket
    #[arg(
        long,
        value_name = "ADDRESS:PORT|unix:PATH",
        default_value = "127.0.0.1:7391"
    )]
    listen: Listen,
    /// Refuse all changes, whatever the token
    #[arg(long)]
    read_only: bool,
    /// Listen on any address, because a TLS proxy is in front
    #[arg(long)]
    behind_proxy: bool,
    /// Accept this host name, such as that of a proxy (repeatable)
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Set the scope of the printed link
    #[arg(long, value_name = "SCOPE", default_value = "control", value_parser = scope())]
    scope: String,
    /// Make new tokens, so that older links stop working
    #[arg(long)]
    new_tokens: bool,
    /// Show the link as a QR code, too
    #[arg(long)]
    qr: bool,
}

fn scope() -> clap::builder::PossibleValuesParser {
    TokenScope::ALL.map(TokenScope::name).into()
}

pub(super) fn run(ctx: &AppContext, args: ServeArgs) -> Result<u8, CliError> {
    let options = Options {
        listen: args.listen,
        read_only: args.read_only,
        behind_proxy: args.behind_proxy,
        hosts: args.host,
        // clap has checked the name.
        link: TokenScope::named(&args.scope).unwrap_or(TokenScope::Read),
        new_tokens: args.new_tokens,
        qr: args.qr,
    };
    server::run(ctx.clone(), &options)
}
