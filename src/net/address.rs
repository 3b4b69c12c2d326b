//! Classification of addresses: on this machine, or in a private network.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

/// Returns whether the host is this machine, by name or by address.
pub fn is_loopback(url: &Url) -> bool {
    host(url) == "localhost" || literal(url).is_some_and(|address| address.is_loopback())
}

/// Returns the IP address in the URL, if its host is one.
pub fn literal(url: &Url) -> Option<IpAddr> {
    host(url).trim_matches(['[', ']']).parse().ok()
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

/// Returns whether the address is not public: this machine, its networks, or the metadata service
/// of a cloud.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_multicast()
                || a == 0
                || (a == 100 && (64..128).contains(&b))
                || (a == 198 && (18..20).contains(&b))
                || a >= 240
        }
        IpAddr::V6(v6) => match inside(v6) {
            Some(v4) => is_private(v4),
            None => {
                let first = v6.segments()[0];
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || (first & 0xfe00) == 0xfc00
                    || (first & 0xffc0) == 0xfe80
            }
        },
    }
}

/// Returns the IPv4 address inside an IPv6 address: mapped, 6to4, or of a NAT64.
fn inside(v6: Ipv6Addr) -> Option<IpAddr> {
    if let Some(v4) = v6.to_ipv4_mapped() {
        return Some(v4.into());
    }
    let octets = v6.octets();
    let at = match v6.segments() {
        [0x2002, ..] => 2,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => 12,
        _ => return None,
    };
    let four: [u8; 4] = octets[at..at + 4].try_into().ok()?;
    Some(IpAddr::from(four))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_form() {
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "ff02::1",
        ];
        for address in private {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "2606:4700::1111",
            "64:ff9b::808:808",
            "172.32.0.1",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn this_machine_has_several_names() {
        let is = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(is("http://localhost:1/") && is("http://127.0.0.9/") && is("http://[::1]:3/"));
        assert!(!is("http://localhost.example/") && !is("http://10.0.0.1/"));
    }
}
