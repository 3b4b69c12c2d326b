//! `rewake serve`: what is served, where, and to whom.

use clap::Args;

use crate::report::Trouble;
use crate::server::{self, Listen, Options, Scope};
use crate::session::AppContext;

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ServeArgs {
    /// Where it listens: an address of this machine, or a socket
    #[arg(
        long,
        value_name = "ADDRESS:PORT|unix:PATH",
        default_value = "127.0.0.1:7391"
    )]
    listen: Listen,
    /// Only show: nothing can be sent, started or chosen, whatever the token
    #[arg(long)]
    read_only: bool,
    /// Something in front of it encrypts: other addresses than those of this machine are taken
    #[arg(long)]
    behind_proxy: bool,
    /// A name under which it is reached, as that of a proxy (repeatable)
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// What the link that is printed may do
    #[arg(long, value_name = "SCOPE", default_value = "control", value_parser = scope())]
    scope: String,
    /// Make new tokens: links that were given out are no longer good
    #[arg(long)]
    new_tokens: bool,
}

fn scope() -> clap::builder::PossibleValuesParser {
    Scope::ALL.map(Scope::name).into()
}

pub(super) fn run(ctx: &AppContext, args: ServeArgs) -> Result<u8, Trouble> {
    let options = Options {
        listen: args.listen,
        read_only: args.read_only,
        behind_proxy: args.behind_proxy,
        hosts: args.host,
        // clap has checked the name.
        link: Scope::named(&args.scope).unwrap_or(Scope::Read),
        new_tokens: args.new_tokens,
    };
    server::run(ctx.clone(), &options)
}
