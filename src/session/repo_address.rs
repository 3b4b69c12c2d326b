//! Addresses of git repositories in the network, as parts that are compared.
//!
//! Invariant: two addresses are the same only if every program reads them in the same way. What one
//! server could read as another path or host is refused.

/// The protocols, with their ports.
const PORTS: [(&str, u16); 4] = [("https", 443), ("http", 80), ("ssh", 22), ("git", 9418)];
/// The form `USER@HOST:PATH`: ssh, with a path below the home folder of the user.
const SCP: &str = "scp";
/// Maximum length of an address, bytes, as in the table of tasks.
const MAX_BYTES: usize = 2_000;

/// An address of a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepoAddress<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    /// In lower case.
    host: String,
    port: u16,
    path: Vec<&'a str>,
}

impl<'a> RepoAddress<'a> {
    /// Reads an address. `None`: it is none in the network, or not clear.
    pub(super) fn read(text: &'a str) -> Option<RepoAddress<'a>> {
        let address = RepoAddress::begin(text.strip_suffix('/').unwrap_or(text))?;
        let is_named = address.path.last().is_some_and(|last| !last.is_empty());
        is_named.then_some(address)
    }

    /// Reads an address or the begin of one, whose last segment may be cut.
    fn begin(text: &'a str) -> Option<RepoAddress<'a>> {
        let is_plain = |c: char| c.is_ascii_graphic() && !"\\?#\"'`<>^{|}".contains(c);
        if text.len() > MAX_BYTES || text.starts_with('-') || !text.chars().all(is_plain) {
            return None;
        }
        let (scheme, place, path) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let (place, path) = rest.split_once('/')?;
                (scheme, place, path)
            }
            None => {
                let (place, path) = text.split_once(':')?;
                // `//`: the path begins with a slash, which is not below the home folder.
                (place.contains('@').then_some(SCP)?, place, path)
            }
        };
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (host, port) = match (place.rsplit_once(':'), scheme) {
            (_, SCP) => (place, 22),
            (Some((host, port)), _) if !port.contains(']') => {
                let is_number = port.bytes().all(|b| b.is_ascii_digit());
                (host, port.parse().ok().filter(|p| is_number && *p > 0)?)
            }
            _ => (place, PORTS.iter().find(|(name, _)| *name == scheme)?.1),
        };
        let is_known = scheme == SCP || PORTS.iter().any(|(name, _)| *name == scheme);
        let is_user = |user: &str| {
            !user.is_empty() && !user.starts_with('-') && !user.contains(['/', '@', '%'])
        };
        if !is_known || !is_host(host) || !user.is_none_or(is_user) {
            return None;
        }
        let path: Vec<&str> = path.split('/').collect();
        let (last, others) = path.split_last()?;
        // A path of the form `USER@HOST:/PATH` begins with an empty segment.
        let is_begin = |at: usize| scheme == SCP && at == 0;
        let are_whole = others
            .iter()
            .enumerate()
            .all(|(at, part)| is_segment(part) || part.is_empty() && is_begin(at));
        let is_last = last.is_empty() || is_segment(last);
        (are_whole && is_last).then(|| RepoAddress {
            scheme,
            user,
            host: host.to_ascii_lowercase(),
            port,
            path,
        })
    }

    /// Returns whether a pattern of the config names it: an address, or the begin of one with `*` at
    /// its end, which stands for the rest of the path. `*` alone stands for all addresses.
    pub(super) fn is_named_by(&self, pattern: &str) -> bool {
        let Some(begin) = pattern.strip_suffix('*') else {
            return RepoAddress::read(pattern).as_ref() == Some(self);
        };
        if begin.is_empty() {
            return true;
        }
        let Some(begin) = RepoAddress::begin(begin) else {
            return false;
        };
        let Some((cut, whole)) = begin.path.split_last() else {
            return false;
        };
        let place = |of: &RepoAddress<'_>| (of.host.clone(), of.port);
        (self.scheme, self.user) == (begin.scheme, begin.user)
            && place(self) == place(&begin)
            && self.path.starts_with(whole)
            && self
                .path
                .get(whole.len())
                .is_some_and(|part| part.starts_with(cut) && !part.is_empty())
    }
}

/// Returns whether it is the name of a host, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            host.starts_with(|c: char| c.is_ascii_alphanumeric())
                && !host.ends_with('.')
                && host.chars().all(is_name)
        }
    }
}

/// Returns whether no server reads a segment of a path as something else: the folder above, several
/// segments, or the end of the path.
fn is_segment(part: &str) -> bool {
    let mut name = Vec::new();
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return false;
        };
        match u8::try_from(16 * high + low) {
            Ok(byte) if byte >= b' ' && !b"./\\%\x7f".contains(&byte) => name.push(byte),
            _ => return false,
        }
    }
    let Ok(name) = std::str::from_utf8(&name) else {
        return false;
    };
    // Some servers leave out what follows a semicolon, and blanks and dots at the end.
    let name = name.split(';').next().unwrap_or_default();
    !name.trim_matches([' ', '.']).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPOS: [&str; 6] = [
        "https://host/team/*",
        "https://host:8443/other/one.git",
        "ssh://git@host/team/*",
        "git@host:team/*",
        "https://host/team-*",
        "http://[::1]:8080/a/*",
    ];

    fn is_named(text: &str) -> bool {
        RepoAddress::read(text)
            .is_some_and(|of| REPOS.iter().any(|pattern| of.is_named_by(pattern)))
    }

    #[test]
    fn what_the_config_names_is_cloned() {
        for good in [
            "https://host/team/one.git",
            "https://HOST/team/one.git/",
            "https://host:443/team/a/b",
            "https://host/team/..a/x",
            "https://host/team/My%20Project/_git/x",
            "https://host:8443/other/one.git",
            "https://host:8443/other/one.git/",
            "ssh://git@host/team/one.git",
            "ssh://git@host:22/team/one.git",
            "git@host:team/one.git",
            "https://host/team-two/one.git",
            "http://[::1]:8080/a/b",
        ] {
            assert!(is_named(good), "{good}");
        }
        let any = RepoAddress::read("git://elsewhere/x").unwrap();
        assert!(any.is_named_by("*") && !any.is_named_by("git://*"));
    }

    /// Every way out of a folder, in every place of every address that is named.
    #[test]
    fn nothing_leads_out_of_what_the_config_names() {
        let ways = [
            "..",
            ".",
            "%2e%2e",
            "%2E%2e",
            ".%2e",
            "%2e.",
            "%252e%252e",
            "%25252e.",
            "..%2f..",
            "%2f",
            "%5c",
            "..\\..",
            "..;x",
            "..;",
            ".;a=b",
            "%2e%2e;x",
            "..%20",
            "...",
            "%c0%ae%c0%ae",
            "%e0%80%ae",
            "%2",
            "%",
            "%zz",
            "%00",
            "%0a",
            "a\\b",
            "a\nb",
            "a\u{7f}",
            "a b",
            "a?b",
            "a#b",
            "",
            "\u{ff0e}\u{ff0e}",
            "%7f",
            "%0d%0a",
        ];
        let starts = [
            "https://host/team/",
            "ssh://git@host/team/",
            "git@host:team/",
        ];
        for start in starts {
            for way in ways {
                for text in [
                    format!("{start}{way}/other/one.git"),
                    format!("{start}x/{way}/one.git"),
                    format!("{start}x/{way}/{way}/{way}/other/one.git"),
                ] {
                    assert!(!is_named(&text), "{text:?}");
                }
                // The end may have a slash.
                assert!(
                    way.is_empty() || !is_named(&format!("{start}x/{way}")),
                    "{way:?}"
                );
            }
            assert!(
                !is_named(start) && !is_named(start.trim_end_matches('/')),
                "{start}"
            );
        }
    }

    #[test]
    fn other_hosts_users_ports_and_siblings_are_not_named() {
        for bad in [
            "https://host/other/one.git",
            "https://host/teams/one.git",
            "https://host/Team/one.git",
            "https://host/%74eam/one.git",
            "https://host//team/one.git",
            "https://host.evil/team/one.git",
            "https://host./team/one.git",
            "https://host:444/team/one.git",
            "https://host:/team/one.git",
            "https://host:+443/team/one.git",
            "https://host:0/team/one.git",
            "https://host:80443/team/one.git",
            "https://host@evil/team/one.git",
            "https://evil@host/team/one.git",
            "https://host%2fteam@evil/team/one.git",
            "https://host\\@evil/team/one.git",
            "https://host#@evil/team/one.git",
            "https://[host]/team/one.git",
            "http://host/team/one.git",
            "HTTPS://host/team/one.git",
            "ssh://host/team/one.git",
            "ssh://root@host/team/one.git",
            "ssh://-oProxyCommand=x@host/team/one.git",
            "ssh://git@-oProxyCommand=x/team/one.git",
            "git@host:/team/one.git",
            "git@host:~team/one.git",
            "git@host:22/team/one.git",
            "root@host:team/one.git",
            "host:team/one.git",
            "https://host:8443/other/one",
            "https://host:8443/other/one.git.git",
            "https://host:8443/other/one.git/x",
            "file:///etc",
            "file://host/team/one.git",
            "/etc",
            "./team/one.git",
            "ext::sh -c id",
            "https::https://host/team/one.git",
            "-u",
            "--upload-pack=x",
            "",
            "https://",
            "https://host",
            "https:///team/x",
        ] {
            assert!(!is_named(bad), "{bad:?}");
        }
        let long = format!("https://host/team/{}", "x".repeat(MAX_BYTES));
        assert!(!is_named(&long));
        // A pattern that would stand for other hosts stands for nothing.
        let of = RepoAddress::read("https://host.evil/x").unwrap();
        for pattern in ["https://host*", "https://*", "https://h*", "http*", ""] {
            assert!(!of.is_named_by(pattern), "{pattern}");
        }
    }
}
