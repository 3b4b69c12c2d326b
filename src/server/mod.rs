//! `rewake serve`: sessions over HTTP, for programs, and a page for a phone.
//!
//! A stateless window on the store: it reads rows, writes messages and signals as `rewake send`
//! does, and starts sessions by starting `rewake -p`. So killing it costs nothing, and it steers
//! sessions that began before it. `docs/server.md` has the routes, `assets/openapi.json` all of
//! them exactly.
//!
//! Invariant: there is no engine here, and nothing that is pending is in memory alone.
//! Invariant: no key and no config is ever served.

mod access;
mod admission;
mod answer;
mod body;
mod connection;
mod events;
mod feed;
mod fence;
mod listen;
mod page;
mod problem;
mod reading;
mod repeated;
mod routes;
mod starter;
mod starting;
mod steering;
mod stores;
mod table;

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub use access::Scope;
pub use listen::Listen;
pub use table::{ROUTES, Route};

use access::Tokens;
use events::Hub;
use fence::Fence;
use listen::Listening;
use repeated::Repeated;
use starter::Starter;
use stores::Stores;

use crate::report::{Trouble, exit, line, note};
use crate::session::AppContext;

/// What is served, where, and to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub listen: Listen,
    /// Nothing can be steered or started, whatever the token.
    pub read_only: bool,
    /// An address that others can reach is meant: something in front of it encrypts.
    pub behind_proxy: bool,
    /// Names under which it is reached, besides those of this machine.
    pub hosts: Vec<String>,
    /// What the link that is printed may do.
    pub link: Scope,
    /// Links that were given out are no longer good.
    pub new_tokens: bool,
}

/// What every request has at hand.
struct App {
    stores: Arc<Stores>,
    tokens: Tokens,
    fence: Fence,
    hub: Hub,
    starter: Starter,
    repeated: Repeated,
    read_only: bool,
}

type Shared = Arc<App>;

/// Serves until it is told to end by a signal, and gives the exit code.
///
/// # Errors
/// What keeps it from beginning: the address, the token, the store.
pub fn run(ctx: AppContext, options: &Options) -> Result<u8, Trouble> {
    ctx.steering().may_steer()?;
    options.listen.check(options.behind_proxy)?;
    // Made and brought up to date now; what is wrong with it is said here.
    let store = ctx.open_store()?;
    if let Some(text) = store.brought().line() {
        note(&text);
    }
    drop(store);
    let tokens = Tokens::of(&ctx.paths.keys_dir(), options.new_tokens)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(stores::MAX_AT_ONCE + 8)
        .build()
        .map_err(|e| Trouble::new(exit::FAILED, format!("cannot start the runtime: {e}")))?;
    let code = runtime.block_on(serve(ctx, options, tokens));
    // Who still listens is left at once: it goes on where it was with the next server.
    runtime.shutdown_background();
    code
}

async fn serve(ctx: AppContext, options: &Options, tokens: Tokens) -> Result<u8, Trouble> {
    let cannot = |e| Trouble::new(exit::FAILED, format!("cannot serve: {e}"));
    let mut ends = Ends::listen().map_err(cannot)?;
    let listening = Listening::bind(&options.listen).await?;
    let scope = match options.read_only {
        true => Scope::Read,
        false => options.link,
    };
    let ctx = Arc::new(ctx);
    let stores = Arc::new(Stores::new(Arc::clone(&ctx)));
    let app = Arc::new(App {
        hub: Hub::new(Arc::clone(&ctx)),
        starter: Starter::new(&ctx)?,
        repeated: Repeated::new(&ctx.paths.state_dir),
        fence: Fence::new(listening.address(), &options.hosts),
        read_only: options.read_only,
        stores,
        tokens,
    });
    line(&listening.link(&options.hosts, app.tokens.text(scope)));
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

/// The signals that tell it to end. Listened for before it is said that it serves.
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
