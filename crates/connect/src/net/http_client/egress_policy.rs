//! Which addresses requests may go to, if their URL comes from outside.
//!
//! A client that chooses a URL could have requests sent to targets that only this machine can
//! reach: its own ports, its network, the metadata of its cloud. Promises: the address is checked
//! at each connection, so that a name which resolves differently the next time is checked again.
//! Never: a list of names.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::Error;

/// Public addresses, and those of the networks that are named.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct EgressPolicy {
    allowed: Vec<Network>,
}

/// Addresses whose first bits are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    first: IpAddr,
    /// How many bits of it count.
    bits: u8,
}

/// Every address of a place is denied.
#[derive(PartialEq, Eq, Debug)]
pub struct EgressDenied {
    host: String,
    address: IpAddr,
}

impl fmt::Display for EgressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is at {}, which is neither a public address nor in a network of option \
             'callback.networks'",
            self.host, self.address
        )
    }
}

impl std::error::Error for EgressDenied {}

impl EgressDenied {
    /// Was that the reason?
    pub fn is_cause(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(|cause| cause.is::<EgressDenied>())
    }

    /// Was that the reason why a request failed?
    pub fn is_reason(error: &Error) -> bool {
        let source = std::error::Error::source(error);
        source
            .and_then(|source| source.downcast_ref())
            .is_some_and(EgressDenied::is_cause)
    }
}

impl EgressPolicy {
    /// Networks between commas; the error is the one that is none.
    pub fn parse(text: &str) -> Result<EgressPolicy, String> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let allowed = parts.map(|part| Network::parse(part).ok_or_else(|| part.to_owned()));
        Ok(EgressPolicy {
            allowed: allowed.collect::<Result<_, _>>()?,
        })
    }

    /// The networks that are named, as text that can be parsed again.
    pub fn networks(&self) -> Vec<String> {
        self.allowed.iter().map(ToString::to_string).collect()
    }

    fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.allowed.iter().any(|network| network.has(address))
    }

    /// The addresses of a place that may be connected to.
    ///
    /// # Errors
    /// Those of the look-up; [`EgressDenied`] where there are addresses, none of which may be.
    pub async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let all: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let refused = all.first().map(SocketAddr::ip);
        let admitted = all
            .into_iter()
            .filter(|address| self.admits(address.ip()))
            .collect::<Vec<_>>();
        match refused {
            Some(address) if admitted.is_empty() => Err(io::Error::other(EgressDenied {
                host: host.to_owned(),
                address,
            })),
            _ => Ok(admitted),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Network {
    /// `10.0.0.0/8`, `fd00::/8`, or one address.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().ok()?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network { first, bits })
    }

    /// Is the address, of the same version, among them?
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let differs = first.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let differs = first.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Not those that the registry of special addresses calls other than globally reachable (RFC 6890), nor
/// those of groups.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..128, _)
            | (169, 254, _)
            | (172, 16..32, _)
            | (192, 0, 0 | 2)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

/// As above; an address that carries one of version 4 is as public as that.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let v4_at = |at: usize| {
        let [a, b] = segments[at].to_be_bytes();
        let [c, d] = segments[at + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // By a gateway to version 4.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => is_public_v4(v4_at(6)),
        [0x2002, ..] => is_public_v4(v4_at(1)),
        // Of protocols, and of examples.
        [0x2001, 0..0x200 | 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        [0x2000..0x4000, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(egress_policy: &str, address: &str, is_admitted: bool) {
        let egress_policy = EgressPolicy::parse(egress_policy).unwrap();
        let parsed = address.parse().unwrap();
        assert_eq!(egress_policy.admits(parsed), is_admitted, "{address}");
    }

    // rules: W22
    #[test]
    fn public_addresses_alone_are_within_reach() {
        for address in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            check("", address, true);
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            check("", address, false);
        }
    }

    #[test]
    fn networks_are_named_by_their_bits() {
        let networks = "10.0.0.0/8, 192.168.7.0/24 ,127.0.0.1, fd00::/8,";
        for (address, is_admitted) in [
            ("10.255.0.1", true),
            ("::ffff:10.255.0.1", true),
            ("11.0.0.1", true),
            ("192.168.7.255", true),
            ("192.168.8.0", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("fd12::1", true),
            ("fc12::1", false),
            ("1.1.1.1", true),
        ] {
            check(networks, address, is_admitted);
        }
        check("0.0.0.0/0", "127.0.0.1", true);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "::1", true);
        for (text, bad) in [
            ("10.0.0.0/8, x", "x"),
            ("10.0.0.0/33", "10.0.0.0/33"),
            ("::/129", "::/129"),
            ("10.0.0.0/", "10.0.0.0/"),
            ("10.0.0/8", "10.0.0/8"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(EgressPolicy::parse(text), Err(bad.to_owned()));
        }
    }

    // rules: W22
    #[test]
    fn a_place_is_judged_by_where_it_leads() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let found = |egress_policy: &str, host: &str| {
            let egress_policy = EgressPolicy::parse(egress_policy).unwrap();
            runtime.block_on(egress_policy.addresses(host, 80))
        };
        // A number is an address as well, as the system reads it.
        for host in ["localhost", "127.0.0.1", "::1", "2130706433", "0x7f.1"] {
            let error = found("", host).unwrap_err();
            assert!(EgressDenied::is_cause(&error), "{host}: {error}");
        }
        let there = found("127.0.0.0/8", "localhost").unwrap();
        assert!(there.iter().all(SocketAddr::is_ipv4) && !there.is_empty());
    }
}
