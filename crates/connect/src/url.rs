//! URLs of listeners and targets. The path is kept as it is written, `//` too.

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Url {
    pub is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// Begins with `/`; without the query.
    pub path: String,
    /// With its `?`; may be empty.
    pub query: String,
}

impl Url {
    /// `None` where it is no `http` or `https` URL with a host.
    pub fn parse(text: &str) -> Option<Url> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://")?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = split_port(authority)?;
        let well_known = if is_tls { 443 } else { 80 };
        let is_sendable = |c: char| c > ' ' && c != '\u{7f}';
        if host.is_empty() || !text.chars().all(is_sendable) {
            return None;
        }
        Some(Url {
            is_tls,
            host: host.to_owned(),
            port: port.unwrap_or(well_known),
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            query: query.to_owned(),
        })
    }

    pub fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Path and query: what stands in the request line.
    pub fn target(&self) -> String {
        format!("{}{}", self.path, self.query)
    }

    /// As it stands in a `Host` header; the port of the scheme is left out.
    pub fn host_header(&self) -> String {
        let well_known = if self.is_tls { 443 } else { 80 };
        if self.port == well_known {
            bracketed(&self.host)
        } else {
            self.authority()
        }
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{}://{}{}",
            self.scheme(),
            self.authority(),
            self.target()
        )
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`; `None` where the port is not a number.
pub fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            None if after.is_empty() => Some((host, None)),
            None => None,
            Some(port) => Some((host, Some(port.parse().ok()?))),
        };
    }
    match authority.split_once(':') {
        None => Some((authority, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
    }
}

/// Appends a text percent-encoded as forms are.
pub fn encode(into: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => {
                into.push(char::from(byte));
            }
            b' ' => into.push('+'),
            _ => {
                into.push('%');
                into.push(char::from(HEX[usize::from(byte >> 4)]));
                into.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

/// Without percent-encoding; `+` is a blank.
pub fn decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).and_then(|hex| {
            let hex = std::str::from_utf8(hex).ok()?;
            u8::from_str_radix(hex, 16).ok()
        });
        match (bytes[at], escaped) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart_and_keep_their_path() {
        fn check(text: &str, authority: &str, target: &str) {
            let url = Url::parse(text).expect(text);
            assert_eq!(
                (url.authority().as_str(), url.target().as_str()),
                (authority, target)
            );
        }
        check("http://h:8081/service", "h:8081", "/service");
        check("http://h", "h:80", "/");
        check("HTTPS://h?x=1", "h:443", "/?x=1");
        check(
            "http://1.2.3.4:8//echo//x?a=b#c",
            "1.2.3.4:8",
            "//echo//x?a=b",
        );
        check("http://user:pw@[::1]:9/x", "[::1]:9", "/x");
        for bad in [
            "",
            "h:80",
            "ftp://h",
            "http://",
            "http://h:x/",
            "http://h/a b",
        ] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
        let url = Url::parse("http://h:80/").expect("a URL");
        assert_eq!(url.host_header(), "h");
    }
}
