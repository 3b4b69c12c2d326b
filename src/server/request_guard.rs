//! Checks of every request: the host name it was sent to, the origin of the page it comes from,
//! and its token. Also the security headers of every answer.
//!
//! A web page can make a browser send requests here, and its host name can be made to resolve to
//! this machine (DNS rebinding). So the host name has to be one of ours, and foreign origins are
//! refused. The token is in a header that no other page can set. Cookies are not used.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::table::ROUTES;
use super::{App, TokenScope};

/// Content security policy of everything that is served.
///
/// Images are fetched with the token and shown from the page's own memory, which is `blob:`.
const POLICY: &str = "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
];

/// Header of each answer to a known token: what it may do here, so that a page offers nothing else.
const SCOPE: HeaderName = HeaderName::from_static("rewake-scope");

/// Header with the folder of new sessions that name none, in the bytes of its path.
const FOLDER: HeaderName = HeaderName::from_static("rewake-folder");

/// The names under which the server may be reached.
pub(super) struct RequestGuard {
    address: Option<IpAddr>,
    /// In lower case.
    hosts: Vec<String>,
}

impl RequestGuard {
    pub(super) fn new(address: Option<SocketAddr>, hosts: &[String]) -> RequestGuard {
        RequestGuard {
            address: address.map(|a| a.ip()),
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
        }
    }

    /// Returns whether a name, with or without a port, is one of ours. The port is ignored,
    /// because it differs over ssh.
    fn knows(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else {
            return false;
        };
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host().to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            let is_listened_on = self
                .address
                .is_some_and(|own| own == ip || own.is_unspecified());
            return ip.is_loopback() || is_listened_on || self.names(&host, &authority);
        }
        host == "localhost" || self.names(&host, &authority)
    }

    fn names(&self, host: &str, authority: &Authority) -> bool {
        let whole = authority.as_str().to_ascii_lowercase();
        self.hosts.iter().any(|own| own == host || *own == whole)
    }

    fn check(&self, request: &Request) -> Result<(), Problem> {
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or("");
        let is_several = request.headers().get_all(header::HOST).iter().count() > 1;
        // A full URL in the request line takes precedence over the header.
        let line = request.uri().authority().map_or(host, Authority::as_str);
        if is_several || !self.knows(host) || !self.knows(line) {
            return Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                format!("this server does not go by the name {host:?}"),
            )
            .hint("127.0.0.1 and localhost are known; rewake serve --host NAME adds another"));
        }
        match request.headers().get(header::ORIGIN) {
            Some(origin) if !is_same(origin, host) => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "a page of another origin may not ask this server",
            )
            .hint("open the page that rewake serve prints a link to")),
            _ => Ok(()),
        }
    }
}

/// Returns whether the page was served under the same name and port.
fn is_same(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or("null");
    let authority = ["http://", "https://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// The outermost layer. Checks the name and the origin, and adds the headers to each answer,
/// including errors.
pub(super) async fn guarded(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match app.fence.check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Checks for each route that the token's scope is sufficient. The scope is passed on with the
/// request.
pub(super) async fn permitted(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = match *request.method() {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    let route = ROUTES
        .iter()
        .find(|route| route.method == method.as_str() && route.path == path);
    // Another layer answers a request with a method that the route does not have.
    let Some(needed) = route.and_then(|route| route.scope) else {
        return next.run(request).await;
    };
    match scope(&app, request.headers(), needed) {
        Ok(scope) => {
            request.extensions_mut().insert(scope);
            let may = match app.read_only {
                true => TokenScope::Read,
                false => scope,
            };
            let mut response = next.run(request).await;
            let may = HeaderValue::from_static(may.name());
            response.headers_mut().insert(SCOPE, may);
            let folder = app.starter.folder.as_os_str().as_encoded_bytes();
            if let Ok(folder) = HeaderValue::from_bytes(folder) {
                response.headers_mut().insert(FOLDER, folder);
            }
            response
        }
        Err(problem) => problem.into_response(),
    }
}

fn scope(app: &App, headers: &HeaderMap, needed: TokenScope) -> Result<TokenScope, Problem> {
    let given = headers.get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    let token = given.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token)
    });
    let unknown = |error: &str| {
        Problem::new(StatusCode::UNAUTHORIZED, error).hint(
            "send `Authorization: Bearer TOKEN`, with the token after the # of the link that \
             rewake serve prints",
        )
    };
    let token = token.ok_or_else(|| unknown("there is no token"))?;
    let scope = app.tokens.scope_of(token);
    let scope = scope.ok_or_else(|| unknown("the token is not known"))?;
    if needed > TokenScope::Read && app.read_only {
        return Err(
            Problem::new(StatusCode::FORBIDDEN, "this server only shows")
                .hint("start it without --read-only"),
        );
    }
    if scope < needed {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            format!("the token has the scope {scope}, and this needs {needed}"),
        )
        .hint(format!(
            "rewake serve --scope {needed} prints a link that may"
        )));
    }
    Ok(scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_known() {
        let fence = RequestGuard::new(
            Some("127.0.0.1:7391".parse().unwrap()),
            &["Desk.tail.example".into(), "proxy.example:8443".into()],
        );
        for ours in [
            "127.0.0.1:7391",
            "127.0.0.1",
            "localhost:9000",
            "LOCALHOST",
            "[::1]:7391",
            "desk.tail.example",
            "desk.tail.example:443",
            "proxy.example:8443",
        ] {
            assert!(fence.knows(ours), "{ours}");
        }
        for foreign in [
            "",
            "evil.example",
            "evil.example:7391",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil@127.0.0.1",
            "10.0.0.1:7391",
            "proxy.example",
            "127.0.0.1:7391/x",
        ] {
            assert!(!fence.knows(foreign), "{foreign}");
        }
    }

    #[test]
    fn the_origin_is_the_host_itself() {
        let same = |origin: &str, host| is_same(&HeaderValue::from_str(origin).unwrap(), host);
        assert!(same("http://127.0.0.1:7391", "127.0.0.1:7391"));
        assert!(same("https://desk.example", "desk.example"));
        for origin in [
            "null",
            "http://127.0.0.1:80",
            "file://",
            "http://evil.example",
        ] {
            assert!(!same(origin, "127.0.0.1:7391"), "{origin}");
        }
    }
}
