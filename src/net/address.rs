//! Classification of addresses: on this machine, in a private network, or never to be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Returns whether the host is this machine, by name or by address.
pub fn is_loopback(url: &Url) -> bool {
    host(url) == "localhost" || literal(url).is_some_and(|address| address.is_loopback())
}

/// Returns the IP address in the URL, if its host is one.
pub fn literal(url: &Url) -> Option<IpAddr> {
    host(url).trim_matches(['[', ']']).parse().ok()
}

/// Returns the host of the URL without the dot at the end of a full name.
pub fn host(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host)
}

/// Returns whether an address is in a network (`10.0.0.0/8`) or is that address. `None`: the text is
/// neither.
pub fn is_in_network(address: IpAddr, network: &str) -> Option<bool> {
    let (base, bits) = network.split_once('/').unwrap_or((network, "128"));
    let (base, bits): (IpAddr, u32) = (base.parse().ok()?, bits.parse().ok()?);
    let differ = match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return Some(false),
    };
    let width = if base.is_ipv4() { 32 } else { 128 };
    let is_network = bits <= width || !network.contains('/');
    Some(is_network && differ >= bits.min(width))
}

/// Returns whether the address is not public: this machine, its networks, or the metadata service
/// of a cloud.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_multicast()
                || a == 0
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || v4 == AZURE
                || (a == 198 && (18..20).contains(&b))
                || a >= 240
        }
        IpAddr::V6(v6) => match inside(v6) {
            Some(v4) => is_private(v4),
            None => {
                let [first, second, third, ..] = v6.segments();
                // `::/96` has loopback, the unspecified address and IPv4-compatible ones.
                v6.octets()[..12] == [0; 12]
                    || v6.is_multicast()
                    || (first & 0xfe00) == 0xfc00
                    || is_link_local(v6)
                    // Teredo, and the NAT64 of a local network.
                    || (first, second) == (0x2001, 0)
                    || (first, second, third) == (0x64, 0xff9b, 1)
            }
        },
    }
}

/// Azure's address for the metadata of a virtual machine and its agent.
const AZURE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Further addresses of metadata services: Oracle and Alibaba.
const METADATA: [Ipv4Addr; 2] = [
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(100, 100, 100, 200),
];

/// Returns whether a cloud has its metadata or credentials there: Amazon, Scaleway, Google.
fn is_metadata(v6: Ipv6Addr) -> bool {
    matches!(
        v6.segments(),
        [0xfd00, 0xec2 | 0x42, ..] | [0xfd20, 0xce, ..]
    )
}

/// Returns whether no setting allows the address: it is link-local, the metadata service of a
/// cloud, or of more than one machine.
pub fn is_never_reached(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_multicast()
                || v4.octets()[0] == 0
                || v4.octets()[0] >= 240
                || v4 == AZURE
                || METADATA.contains(&v4)
        }
        IpAddr::V6(v6) => match inside(v6) {
            Some(v4) => is_never_reached(v4),
            None => {
                v6.is_multicast()
                    || v6.is_unspecified()
                    || is_link_local(v6)
                    || is_metadata(v6)
                    || (is_private(address) && !v6.is_loopback() && !v6.is_unique_local())
            }
        },
    }
}

/// Returns whether the address is link-local, or of the site-local ones that these replaced.
fn is_link_local(v6: Ipv6Addr) -> bool {
    (v6.segments()[0] & 0xff80) == 0xfe80
}

/// Returns the IPv4 address inside an IPv6 address: mapped, 6to4, of a NAT64, or translated (SIIT).
fn inside(v6: Ipv6Addr) -> Option<IpAddr> {
    if let Some(v4) = v6.to_ipv4_mapped() {
        return Some(v4.into());
    }
    let octets = v6.octets();
    let at = match v6.segments() {
        [0x2002, ..] => 2,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => 12,
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
            "192.0.0.170",
            "168.63.129.16",
            "fec0::1",
            "2001::1",
            "64:ff9b:1::808:808",
            "::808:808",
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
    fn metadata_and_link_local_addresses_are_never_reached() {
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "fec0::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:42::42",
            "fd20:ce::254",
            "::ffff:0:169.254.169.254",
            "168.63.129.16",
            "192.0.0.192",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "::7f00:1",
            "2001::1",
        ] {
            assert!(is_never_reached(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "::1",
            "fd00::1",
            "8.8.8.8",
        ] {
            assert!(!is_never_reached(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn this_machine_has_several_names() {
        let is = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(is("http://localhost:1/") && is("http://127.0.0.9/") && is("http://[::1]:3/"));
        assert!(is("http://localhost./") && is("http://127.1./") && is("http://0x7f000001/"));
        assert!(!is("http://localhost.example/") && !is("http://10.0.0.1/"));
    }
}
