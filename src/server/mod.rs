//! `rewake serve`: sessions over HTTP, for programs, and a page for a phone.
//!
//! The server is a stateless window on the store. It reads rows, writes messages and signals like
//! `rewake send`, and starts sessions by starting `rewake -p`. So killing it loses nothing, and it
//! controls sessions that began before it. `docs/server.md` describes the routes,
//! `assets/openapi.json` specifies them exactly.
//!
//! Invariant: no engine runs here, and nothing that is pending is in memory alone.
//! Invariant: no key is ever served, and of the config only names and prices of models.

mod access;
mod admission;
mod answer;
mod body;
mod changes;
mod connection;
mod events;
mod feed;
mod listen;
mod page;
mod problem;
mod qr;
mod reading;
mod repeated;
mod request_guard;
mod rewinding;
mod routes;
mod starter;
mod starting;
mod steering;
mod stores;
mod table;

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub use access::TokenScope;
pub use listen::Listen;
pub use table::{ROUTES, Route};

use access::Tokens;
use events::Hub;
use listen::Listening;
use repeated::Repeated;
use request_guard::RequestGuard;
use starter::Starter;
use stores::Stores;

use crate::report::{CliError, exit, line, note, print};
use crate::session::{AppContext, FoldCache};

/// The note that no QR code is shown, and why.
const NO_QR_CODE: &str = "no QR code: a phone cannot open this link, which leads to this machine only\n\
    hint: start a tunnel, for example `tailscale serve 7391`, then `rewake serve --qr --host NAME`";

/// Options of `rewake serve`.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub listen: Listen,
    /// No session can be controlled or started, whatever the token.
    pub read_only: bool,
    /// An address that others can reach is intended, because a proxy encrypts the connection.
    pub behind_proxy: bool,
    /// Host names of the server, besides those of this machine.
    pub hosts: Vec<String>,
    /// Scope of the printed link.
    pub link: TokenScope,
    /// Earlier links become invalid.
    pub new_tokens: bool,
    /// The link is also shown as a QR code.
    pub qr: bool,
}

/// State that all requests share.
struct App {
    stores: Arc<Stores>,
    folds: Arc<FoldCache>,
    tokens: Tokens,
    fence: RequestGuard,
    hub: Hub,
    starter: Starter,
    repeated: Repeated,
    read_only: bool,
}

type Shared = Arc<App>;

/// Serves until a signal ends the process, and returns the exit code.
///
/// # Errors
/// The address, the token or the store cannot be used.
pub fn run(ctx: AppContext, options: &Options) -> Result<u8, CliError> {
    ctx.steering().check_not_below_agent()?;
    options.listen.check(options.behind_proxy)?;
    // Creates or migrates the store now, so that its problems are reported at the start.
    let store = ctx.open_store()?;
    if let Some(text) = store.restore_report().line() {
        note(&text);
    }
    drop(store);
    let tokens = Tokens::of(&ctx.paths.keys_dir(), options.new_tokens)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(stores::MAX_AT_ONCE + 8)
        .build()
        .map_err(|e| CliError::failed(format!("cannot start the runtime: {e}")))?;
    let code = runtime.block_on(serve(ctx, options, tokens));
    // Open streams are closed at once. Their clients resume with the next server.
    runtime.shutdown_background();
    code
}

async fn serve(ctx: AppContext, options: &Options, tokens: Tokens) -> Result<u8, CliError> {
    let cannot = |e| CliError::failed(format!("cannot serve: {e}"));
    let mut ends = Ends::listen().map_err(cannot)?;
    let listening = Listening::bind(&options.listen).await?;
    let scope = match options.read_only {
        true => TokenScope::Read,
        false => options.link,
    };
    let ctx = Arc::new(ctx);
    let stores = Arc::new(Stores::new(Arc::clone(&ctx)));
    let app = Arc::new(App {
        hub: Hub::new(Arc::clone(&ctx)),
        starter: Starter::new(&ctx)?,
        repeated: Repeated::new(&ctx.paths.state_dir),
        fence: RequestGuard::new(listening.address(), &options.hosts),
        read_only: options.read_only,
        stores,
        folds: Arc::default(),
        tokens,
    });
    let token = app.tokens.text(scope);
    line(&listening.link(&options.hosts, token));
    if options.qr {
        match listening.link_for_phone(&options.hosts, token) {
            Some(link) => {
                print(|stdout| stdout.write_all(qr::code(&link, stdout.is_terminal())?.as_bytes()));
            }
            None => note(NO_QR_CODE),
        }
    }
    note(&listening.how_to_reach(scope));
    let router = routes::router(Arc::clone(&app));
    let ended = tokio::select! {
        served = listening.serve(router) => served.map(|()| exit::DONE),
        never = app.stores.close_idle() => match never {},
        () = ends.told() => Ok(exit::DONE),
    };
    listening.remove();
    ended.map_err(cannot)
}

/// The signals that end the server. It listens for them before it reports that it serves.
struct Ends([Signal; 3]);

impl Ends {
    fn listen() -> std::io::Result<Ends> {
        Ok(Ends([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn told(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
