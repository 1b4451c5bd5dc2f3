//! Where a request carries its token or key, and how both are taken out of it before a backend sees it.

use std::fmt;
use std::net::IpAddr;

use connect::url::decode;
use hyper::HeaderMap;
use hyper::header::{
    AUTHORIZATION, COOKIE, HeaderName, HeaderValue, REFERER, SEC_WEBSOCKET_PROTOCOL,
};

use super::api_key::KEY_PREFIX;

/// The parameter of a query and the cookie with a token (RFC 6750, 2.3).
const TOKEN_NAME: &str = "access_token";

/// The header and the parameter of a query with an API key.
const KEY_NAME: &str = "apikey";

/// Subprotocols of WebSocket after which a token or a key stands: a page cannot set another header.
const MARKERS: [&str; 3] = ["bearer", TOKEN_NAME, KEY_NAME];

/// The headers of an API that carry a token and an API key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    pub authorization: HeaderName,
    pub api_key: HeaderName,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            authorization: AUTHORIZATION,
            api_key: HeaderName::from_static(KEY_NAME),
        }
    }
}

/// What a request shows of whoever sent it. In no text made of it is there a token or a key.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Those that differ; more than one is an error of the client.
    pub(super) shown: Vec<Shown>,
    pub(super) address: Option<IpAddr>,
    pub(super) referrer: Option<String>,
    marker: Option<&'static str>,
    places: Places,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Shown {
    Token(String),
    ApiKey(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("shown", &self.shown.len())
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of a request, from its headers, its query (without `?`), its cookie or its subprotocols.
    pub fn from_request(headers: &HeaderMap, query: Option<&str>) -> Credentials {
        Credentials::from_places(&Places::default(), headers, query)
    }

    /// As [`Credentials::from_request`], for an API that names headers of its own.
    pub fn from_places(places: &Places, headers: &HeaderMap, query: Option<&str>) -> Credentials {
        let mut credentials = Credentials {
            places: places.clone(),
            referrer: headers
                .get(REFERER)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
            ..Credentials::default()
        };
        for value in headers.get_all(&places.authorization) {
            let Ok(value) = value.to_str() else { continue };
            let value = value.trim();
            match value.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    credentials.add(token.trim());
                }
                // A header of its own may hold the token alone.
                None if places.authorization != AUTHORIZATION => credentials.add(value),
                _ => {}
            }
        }
        for value in headers.get_all(&places.api_key) {
            credentials.add(value.to_str().unwrap_or_default().trim());
        }
        for (name, value) in pairs(query.unwrap_or_default()) {
            if is_secret_parameter(name) {
                credentials.add(&decode(value));
            }
        }
        for cookie in headers.get_all(COOKIE) {
            for pair in cookie.as_bytes().split(|byte| *byte == b';') {
                if let Some(value) = token_of_cookie(pair) {
                    credentials.add(&String::from_utf8_lossy(value));
                }
            }
        }
        for (marker, value) in Subprotocols::of(headers).secrets {
            credentials.marker = Some(marker);
            credentials.add(&value);
        }
        credentials
    }

    /// A token that came by other ways: in a message of a WebSocket.
    pub fn of_token(token: &str) -> Credentials {
        let mut credentials = Credentials::default();
        credentials.add(token);
        credentials
    }

    /// The address of the client: that of the socket, or what a proxy that is named says.
    pub fn with_address(mut self, address: IpAddr) -> Credentials {
        self.address = Some(address);
        self
    }

    /// Has nothing been shown?
    pub fn is_none(&self) -> bool {
        self.shown.is_empty()
    }

    /// The subprotocol to choose where the client has offered no other than its token: browsers close a connection
    /// for which none of those offered was chosen.
    pub fn subprotocol(&self) -> Option<&'static str> {
        self.marker
    }

    fn add(&mut self, secret: &str) {
        if secret.is_empty() {
            return;
        }
        let shown = match secret.starts_with(KEY_PREFIX) {
            true => Shown::ApiKey(secret.to_owned()),
            // API Manager's keys are tokens.
            false => Shown::Token(secret.to_owned()),
        };
        if !self.shown.contains(&shown) {
            self.shown.push(shown);
        }
    }

    /// Takes tokens and keys out of the headers. The query is for [`strip_query`].
    pub fn strip(&self, headers: &mut HeaderMap) {
        headers.remove(&self.places.authorization);
        headers.remove(&self.places.api_key);
        let cookies: Vec<HeaderValue> = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(strip_cookie)
            .collect();
        headers.remove(COOKIE);
        for cookie in cookies {
            headers.append(COOKIE, cookie);
        }
        let protocols = Subprotocols::of(headers);
        if !protocols.secrets.is_empty() {
            headers.remove(SEC_WEBSOCKET_PROTOCOL);
            let others = HeaderValue::from_bytes(&protocols.others.join(&b", "[..]));
            if let (Ok(others), false) = (others, protocols.others.is_empty()) {
                headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
            }
        }
    }
}

/// A query (without `?`) without tokens and keys, for a backend and for logs; `None` if nothing is left.
pub fn strip_query(query: &str) -> Option<String> {
    let kept = query.split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !is_secret_parameter(name)
    });
    let kept: Vec<&str> = kept.collect();
    let kept = kept.join("&");
    (!kept.is_empty()).then_some(kept)
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&');
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn is_secret_parameter(name: &str) -> bool {
    let name = decode(name);
    name == TOKEN_NAME || name == KEY_NAME
}

fn token_of_cookie(pair: &[u8]) -> Option<&[u8]> {
    let pair = pair.trim_ascii();
    let at = pair.iter().position(|byte| *byte == b'=')?;
    (pair[..at].trim_ascii() == TOKEN_NAME.as_bytes()).then(|| pair[at + 1..].trim_ascii())
}

fn strip_cookie(value: &HeaderValue) -> Option<HeaderValue> {
    let pairs = value.as_bytes().split(|byte| *byte == b';');
    let kept: Vec<&[u8]> = pairs
        .filter(|pair| token_of_cookie(pair).is_none())
        .map(<[u8]>::trim_ascii)
        .collect();
    let kept = HeaderValue::from_bytes(&kept.join(&b"; "[..])).ok()?;
    (!kept.is_empty()).then_some(kept)
}

/// The subprotocols that a client offers, without those that carry something else.
struct Subprotocols {
    secrets: Vec<(&'static str, String)>,
    others: Vec<Vec<u8>>,
}

impl Subprotocols {
    fn of(headers: &HeaderMap) -> Subprotocols {
        let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
        let all = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut all = all.map(<[u8]>::trim_ascii).filter(|one| !one.is_empty());
        let (mut secrets, mut others) = (Vec::new(), Vec::new());
        while let Some(one) = all.next() {
            let marker = MARKERS
                .into_iter()
                .find(|m| one.eq_ignore_ascii_case(m.as_bytes()));
            match marker {
                Some(marker) => {
                    let secret = all.next().unwrap_or_default();
                    secrets.push((marker, String::from_utf8_lossy(secret).into_owned()));
                }
                None => others.push(one.to_vec()),
            }
        }
        Subprotocols { secrets, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// What is found, a key marked by `!`.
    fn found(list: &[(&'static str, &'static str)], query: &str) -> Vec<String> {
        let found = Credentials::from_request(&headers(list), Some(query));
        let shown = found.shown.iter().map(|shown| match shown {
            Shown::Token(token) => token.clone(),
            Shown::ApiKey(key) => format!("!{key}"),
        });
        shown.collect()
    }

    // rules: J9
    #[test]
    fn tokens_and_keys_are_found_where_they_may_be() {
        for (list, query, expect) in [
            (&[("authorization", "Bearer t.t.t")][..], "", "t.t.t"),
            (&[("authorization", "bearer   t.t.t ")], "", "t.t.t"),
            (&[("authorization", "Bearer hwk_1_x")], "", "!hwk_1_x"),
            (&[("authorization", "Basic dTpw")], "", ""),
            (&[("authorization", "t.t.t")], "", ""),
            (&[("apikey", "hwk_1_x")], "", "!hwk_1_x"),
            (&[("ApiKey", "t.t.t")], "", "t.t.t"),
            (&[], "a=b&access_token=t%2Et.t&c", "t.t.t"),
            (&[], "apikey=hwk_1_x", "!hwk_1_x"),
            (&[], "Access_Token=t&xapikey=u", ""),
            (&[("cookie", "a=b; access_token=t.t.t; c=d")], "", "t.t.t"),
            (&[("cookie", "my_access_token=t.t.t")], "", ""),
            (
                &[("sec-websocket-protocol", "mqtt, bearer, t.t.t")],
                "",
                "t.t.t",
            ),
            (
                &[
                    ("sec-websocket-protocol", "access_token"),
                    ("sec-websocket-protocol", "t.t.t"),
                ],
                "",
                "t.t.t",
            ),
            (
                &[("sec-websocket-protocol", "apikey,hwk_1_x,mqtt")],
                "",
                "!hwk_1_x",
            ),
            (
                &[("authorization", "Bearer t"), ("cookie", "access_token=t")],
                "access_token=t",
                "t",
            ),
            (
                &[("authorization", "Bearer t"), ("apikey", "hwk_1_x")],
                "",
                "t !hwk_1_x",
            ),
            (
                &[("authorization", "Bearer t"), ("authorization", "Bearer u")],
                "",
                "t u",
            ),
        ] {
            assert_eq!(found(list, query).join(" "), expect, "{list:?} {query}");
        }
    }

    // rules: J9
    #[test]
    fn nothing_of_them_is_left_for_a_backend() {
        let mut all = headers(&[
            ("authorization", "Bearer t.t.t"),
            ("apikey", "hwk_1_x"),
            ("cookie", "a=b; access_token=t.t.t;c=d"),
            ("cookie", "access_token=u"),
            ("sec-websocket-protocol", "mqtt, bearer, t.t.t"),
            ("sec-websocket-protocol", "v2"),
            ("x-other", "kept"),
        ]);
        let credentials = Credentials::from_request(&all, Some("a=1&access_token=t&apikey=u&b"));
        assert_eq!(credentials.subprotocol(), Some("bearer"));
        credentials.strip(&mut all);
        let expect = headers(&[
            ("cookie", "a=b; c=d"),
            ("sec-websocket-protocol", "mqtt, v2"),
            ("x-other", "kept"),
        ]);
        assert_eq!(all, expect);
        assert_eq!(
            strip_query("a=1&access_token=t&apikey=u&b").as_deref(),
            Some("a=1&b")
        );
        assert_eq!(strip_query("access%5Ftoken=t"), None);
        let text = format!("{credentials:?}");
        assert!(!text.contains("t.t.t") && !text.contains("hwk_"), "{text}");
    }

    #[test]
    fn an_api_may_name_headers_of_its_own() {
        let places = Places {
            authorization: HeaderName::from_static("x-token"),
            api_key: HeaderName::from_static("x-key"),
        };
        let mut all = headers(&[("x-token", "t.t.t"), ("authorization", "Basic dTpw")]);
        let credentials = Credentials::from_places(&places, &all, None);
        assert!(matches!(&credentials.shown[..], [Shown::Token(token)] if token == "t.t.t"));
        credentials.strip(&mut all);
        assert_eq!(all, headers(&[("authorization", "Basic dTpw")]));
    }
}
