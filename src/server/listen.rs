//! The listening socket: a TCP address, or a Unix socket that only its owner can reach.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::uri::Authority;
use axum::serve::Listener;
use rustix::io::Errno;
use tokio::net::{TcpListener, UnixListener};

use super::TokenScope;
use super::admission::Admission;
use super::connection::Connection;
use crate::config::make_private_folder;
use crate::report::CliError;
use crate::sandbox;

/// Address to listen on by default.
pub const DEFAULT: &str = "127.0.0.1:7391";

/// Pause after a connection could not be accepted, for example without free file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// `127.0.0.1:7391`, `[::1]:7391` or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err("unix: has no path after it".to_string()),
                false => Ok(Listen::Unix(PathBuf::from(path))),
            };
        }
        text.parse().map(Listen::Tcp).map_err(|_| {
            format!("{text:?} is not an address with a port, as {DEFAULT}, [::1]:7391 or unix:PATH")
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Refuses an address that others can reach, unless a proxy is in front of it.
    pub(super) fn check(&self, behind_proxy: bool) -> Result<(), CliError> {
        match self {
            Listen::Tcp(address) if !address.ip().is_loopback() && !behind_proxy => {
                Err(CliError::usage(format!(
                    "{address} can be reached from other machines, and nothing is encrypted"
                ))
                .with_hint(
                    "listen on 127.0.0.1 and come over ssh -L or a private network; or, behind a \
                     proxy that encrypts: --behind-proxy --host NAME",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// An open listening socket.
pub(super) enum Listening {
    Tcp(Arc<TcpListener>, SocketAddr),
    Unix(Arc<UnixListener>, PathBuf),
}

impl Listening {
    pub(super) async fn bind(listen: &Listen) -> Result<Listening, CliError> {
        match listen {
            Listen::Tcp(address) => {
                let bound = TcpListener::bind(address).await;
                let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
                let (real, listener) = bound.map_err(|e| cannot_listen(listen, &e))?;
                Ok(Listening::Tcp(Arc::new(listener), real))
            }
            Listen::Unix(path) => {
                let listener = socket(path)?;
                Ok(Listening::Unix(Arc::new(listener), path.clone()))
            }
        }
    }

    /// Returns the address, or `None` for a Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Listening::Tcp(_, address) => Some(*address),
            Listening::Unix(..) => None,
        }
    }

    /// Returns the link with the token. It comes after the `#`, so a browser never sends it.
    pub(super) fn link(&self, hosts: &[String], token: &str) -> String {
        match (self, hosts.first()) {
            (_, Some(host)) => format!("https://{host}/#token={token}"),
            (Listening::Tcp(_, address), None) => format!("http://{address}/#token={token}"),
            (Listening::Unix(_, path), None) => {
                format!("unix:{} #token={token}", path.display())
            }
        }
    }

    /// Returns the link for a phone. `None`: every known address leads to the device itself.
    pub(super) fn link_for_phone(&self, hosts: &[String], token: &str) -> Option<String> {
        if let Some(host) = hosts.iter().find(|host| !is_own_name(host)) {
            return Some(self.link(std::slice::from_ref(host), token));
        }
        let address = self.address()?.ip();
        (!leads_here(address)).then(|| self.link(&[], token))
    }

    pub(super) fn how_to_reach(&self, scope: TokenScope) -> String {
        let way = match self {
            Listening::Tcp(_, address) => format!(
                "from another machine: ssh -L {port}:{address} HOST, then the same link",
                port = address.port()
            ),
            Listening::Unix(_, path) => format!(
                "ssh -L 7391:{path} HOST, then http://127.0.0.1:7391/ with the part after the #",
                path = path.display()
            ),
        };
        format!("anyone with this link has the scope {scope}; {way}")
    }

    pub(super) async fn serve(&self, router: Router) -> io::Result<()> {
        match self {
            Listening::Tcp(listener, _) => serve_on(Arc::clone(listener), router).await,
            Listening::Unix(listener, _) => serve_on(Arc::clone(listener), router).await,
        }
    }

    /// Removes the Unix socket.
    pub(super) fn remove(&self) {
        if let Listening::Unix(_, path) = self
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(%error, "the socket is left behind");
        }
    }
}

/// Returns whether each device calls itself by this name: `localhost`, `127.0.0.1:7391`, `0.0.0.0`.
fn is_own_name(host: &str) -> bool {
    let authority = host.parse::<Authority>();
    let name = authority.as_ref().map_or(host, Authority::host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .map_or(bare.eq_ignore_ascii_case("localhost"), leads_here)
}

fn leads_here(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

async fn serve_on<L>(listener: L, router: Router) -> io::Result<()>
where
    Bounded<L>: Listener<Addr = ()>,
{
    let bounded = Bounded {
        listener,
        admission: Arc::new(Admission::new(sandbox::limit())),
        spare: spare(),
    };
    axum::serve(bounded, router).await
}

/// A listener with a limited number of open connections.
struct Bounded<L> {
    listener: L,
    admission: Arc<Admission>,
    /// An open descriptor. It is closed to accept, and so to refuse, a client when none is left.
    spare: Option<File>,
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE]
        .map(|none| Some(none.raw_os_error()))
        .contains(&code)
}

macro_rules! bounded {
    ($listener:ty, $stream:ty, $address:expr) => {
        impl Listener for Bounded<$listener> {
            type Io = Connection<$stream>;
            type Addr = ();

            async fn accept(&mut self) -> (Self::Io, ()) {
                loop {
                    match self.listener.accept().await {
                        Ok((stream, address)) => {
                            let address = $address(address);
                            if let Some(place) = self.admission.place(address).await {
                                return (Connection::new(stream, place), ());
                            }
                            tracing::warn!(?address, "too many connections");
                        }
                        Err(error) => {
                            tracing::warn!(%error, "a connection was not accepted");
                            if is_out_of_descriptors(&error) && self.spare.take().is_some() {
                                // The client is refused, and does not wait for nothing.
                                drop(tokio::time::timeout(PAUSE, self.listener.accept()).await);
                                self.spare = spare();
                            } else {
                                tokio::time::sleep(PAUSE).await;
                                self.spare = self.spare.take().or_else(spare);
                            }
                        }
                    }
                }
            }

            fn local_addr(&self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

bounded!(
    Arc<TcpListener>,
    tokio::net::TcpStream,
    |address: SocketAddr| Some(address.ip())
);
bounded!(Arc<UnixListener>, tokio::net::UnixStream, |_| None);

fn cannot_listen(listen: &Listen, error: &io::Error) -> CliError {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => {
            "another program listens there, perhaps another rewake serve; --listen 127.0.0.1:0 takes \
             a port that is free"
        }
        ErrorKind::AddrNotAvailable | ErrorKind::Unsupported => {
            "this machine has no such address; where it has IPv6 alone: --listen [::1]:7391"
        }
        ErrorKind::PermissionDenied => {
            "a port from 1024 on needs no rights: --listen 127.0.0.1:7391"
        }
        _ => "--listen 127.0.0.1:7391, --listen [::1]:7391 or --listen unix:PATH says where",
    };
    CliError::failed(format!("cannot listen on {listen}: {error}")).with_hint(hint)
}

/// Creates a socket that only its owner can reach, in a private folder. Replaces the socket of a
/// server that was killed.
fn socket(path: &Path) -> Result<UnixListener, CliError> {
    let cannot = |e: &io::Error| cannot_listen(&Listen::Unix(path.to_path_buf()), e);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        make_private_folder(folder).map_err(|e| cannot(&e))?;
    }
    let found = fs::metadata(folder).map_err(|e| cannot(&e))?;
    let is_private =
        found.mode() & 0o077 == 0 && found.uid() == rustix::process::geteuid().as_raw();
    if !is_private {
        return Err(CliError::usage(format!(
            "cannot listen on unix:{}: others can look into its folder",
            path.display()
        ))
        .with_hint("put the socket into its own folder; rewake makes one that is missing"));
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(CliError::usage(format!(
                "cannot listen on unix:{}: it is not a socket",
                path.display()
            ))
            .with_hint("give another path"));
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(cannot(&ErrorKind::AddrInUse.into())),
            // Nobody listens on the old socket any more.
            Err(_) => fs::remove_file(path).map_err(|e| cannot(&e))?,
        },
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|e| match e.kind() {
        ErrorKind::InvalidInput => {
            CliError::usage(format!("cannot listen on unix:{}: {e}", path.display()))
                .with_hint("the path of a socket has about 100 bytes at most")
        }
        _ => cannot(&e),
    })?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|e| cannot(&e))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in [
            "127.0.0.1:7391",
            "[::1]:7391",
            "unix:/run/user/1000/rewake/s",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "7391",
            "localhost:7391",
            "127.0.0.1",
            "127.0.0.1:99999",
            "unix:",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_public_listen_address_needs_a_proxy() {
        let check = |text: &str, behind| text.parse::<Listen>().unwrap().check(behind).is_ok();
        assert!(check("127.0.0.1:1", false) && check("[::1]:1", false) && check("unix:s", false));
        assert!(
            !check("0.0.0.0:1", false) && !check("[::]:1", false) && !check("192.168.1.2:1", false)
        );
        assert!(check("0.0.0.0:1", true));
    }
}
