//! Who has sent a request: the other end of its connection, or whom a proxy names that the document trusts.

use std::net::{IpAddr, SocketAddr};

use connect::net::http_client::Network;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};

pub(super) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("forwarded");

/// Addresses of one request that are looked at.
const HOPS_MAX: usize = 32;

/// Who has sent a request, as far as that is known for sure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Client {
    /// The port is 0 where a proxy has named it.
    pub address: SocketAddr,
    pub is_tls: bool,
    /// The other end is a proxy whose word counts.
    pub is_proxied: bool,
}

/// The client of a request that came from `socket`.
pub(super) fn of(
    socket: SocketAddr,
    is_tls: bool,
    headers: &HeaderMap,
    proxies: &[Network],
) -> Client {
    let is_trusted = |address: IpAddr| proxies.iter().any(|network| network.has(address));
    if !is_trusted(socket.ip().to_canonical()) {
        return Client {
            address: socket,
            is_tls,
            is_proxied: false,
        };
    }
    let mut address = socket;
    let said: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    // Each proxy adds whom it has heard from; the first from the end whom nobody trusts is the client, and what
    // stands before it is that one's own word.
    for one in said.iter().rev().take(HOPS_MAX) {
        let Ok(named) = one.trim().trim_matches(['[', ']']).parse::<IpAddr>() else {
            break;
        };
        address = SocketAddr::new(named.to_canonical(), 0);
        if !is_trusted(address.ip()) {
            break;
        }
    }
    let proto = headers
        .get(FORWARDED_PROTO)
        .and_then(|value| value.to_str().ok());
    Client {
        address,
        is_tls: proto.map_or(is_tls, |proto| proto.eq_ignore_ascii_case("https")),
        is_proxied: true,
    }
}

/// Tells a backend who has sent a request. What somebody says of himself goes no further than here.
pub(super) fn tell(client: &Client, socket: IpAddr, from: &HeaderMap, into: &mut HeaderMap) {
    if !client.is_proxied {
        for name in [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST, FORWARDED] {
            into.remove(name);
        }
    }
    // Addresses and these words are values of headers.
    if let Ok(socket) = HeaderValue::from_str(&socket.to_string()) {
        into.append(FORWARDED_FOR, socket);
    }
    let proto = if client.is_tls { "https" } else { "http" };
    into.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
    if let Some(host) = from.get(HOST)
        && !into.contains_key(FORWARDED_HOST)
    {
        into.insert(FORWARDED_HOST, host.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name.clone(), value.parse().expect("it is a value"));
        }
        headers
    }

    fn client(socket: &str, said: &[&str], proxies: &[&str]) -> String {
        let said: Vec<(HeaderName, &str)> = said.iter().map(|one| (FORWARDED_FOR, *one)).collect();
        let proxies = proxies.iter().filter_map(|one| Network::parse(one));
        let proxies: Vec<Network> = proxies.collect();
        let socket = SocketAddr::new(socket.parse().expect("an address"), 9);
        of(socket, false, &headers(&said), &proxies)
            .address
            .ip()
            .to_string()
    }

    #[test]
    fn only_proxies_that_are_named_can_say_who_a_client_is() {
        let own = ["10.0.0.0/8", "fd00::/8"];
        assert_eq!(client("10.0.0.1", &["1.2.3.4"], &[]), "10.0.0.1");
        assert_eq!(client("9.9.9.9", &["1.2.3.4"], &own), "9.9.9.9");
        assert_eq!(client("10.0.0.1", &["1.2.3.4"], &own), "1.2.3.4");
        assert_eq!(client("10.0.0.1", &[], &own), "10.0.0.1");
        // What the client has said of itself stands in front, and does not count.
        assert_eq!(
            client("10.0.0.1", &["6.6.6.6, 1.2.3.4", "10.0.0.2"], &own),
            "1.2.3.4"
        );
        assert_eq!(client("10.0.0.1", &["evil, 10.0.0.3"], &own), "10.0.0.3");
        assert_eq!(client("10.0.0.1", &["x"], &own), "10.0.0.1");
        assert_eq!(client("fd00::1", &["[2001:db8::1]"], &own), "2001:db8::1");
        assert_eq!(
            client("::ffff:10.0.0.1", &["::ffff:1.2.3.4"], &own),
            "1.2.3.4"
        );
    }

    #[test]
    fn a_backend_hears_of_no_client_what_it_says_of_itself() {
        let said = [
            (FORWARDED_FOR, "6.6.6.6"),
            (FORWARDED_PROTO, "https"),
            (FORWARDED_HOST, "evil"),
            (FORWARDED, "for=6.6.6.6"),
            (HOST, "own.example"),
        ];
        let from = headers(&said);
        let socket: SocketAddr = ([10, 0, 0, 1], 9).into();
        let told = |proxies: &[Network]| {
            let client = of(socket, false, &from, proxies);
            let mut into = from.clone();
            tell(&client, socket.ip(), &from, &mut into);
            let all = |name: HeaderName| -> Vec<String> {
                let all = into
                    .get_all(name)
                    .iter()
                    .filter_map(|value| value.to_str().ok());
                all.map(str::to_owned).collect()
            };
            [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST, FORWARDED].map(all)
        };
        let alone = told(&[]);
        assert_eq!(
            alone,
            [vec!["10.0.0.1"], vec!["http"], vec!["own.example"], vec![]]
        );
        let proxies = [Network::parse("10.0.0.0/8").expect("a network")];
        let behind = told(&proxies);
        assert_eq!(
            behind,
            [
                vec!["6.6.6.6", "10.0.0.1"],
                vec!["https"],
                vec!["evil"],
                vec!["for=6.6.6.6"]
            ]
        );
    }
}
