//! Refuses requests that a browser sends for a page of another site.
//!
//! A page can send a request to any address, and can have its own name lead to that address. So a
//! request names this server in `Host` and comes from no other origin. (The type of its body is judged
//! by the route, see `gate`.) Clients that are not browsers send such requests anyway.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::answer::refused;

/// What this server is called.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    bound: IpAddr,
    names: Vec<String>,
}

impl Guard {
    pub fn new(bound: IpAddr, names: Vec<String>) -> Guard {
        Guard { bound, names }
    }

    /// The middleware around all routes.
    pub async fn layer(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
        match guard.check(&request) {
            Ok(()) => next.run(request).await,
            Err((status, message)) => refused(status, &message),
        }
    }

    fn check(&self, request: &Request) -> Result<(), (StatusCode, String)> {
        let forbidden = |message: String| Err((StatusCode::FORBIDDEN, message));
        let headers = request.headers();
        if headers.get_all(HOST).iter().count() > 1 {
            let said = "the request names two hosts".to_owned();
            return Err((StatusCode::BAD_REQUEST, said));
        }
        let named = headers.get_all(HOST).iter().map(text);
        let hosts: Vec<String> = named
            .chain(request.uri().authority().map(Authority::to_string))
            .collect();
        for host in &hosts {
            if !authority(host).is_some_and(|host| self.is_this(&host)) {
                return forbidden(format!(
                    "'{host}' is not a name of this server: use its address or localhost, or start it with \
                     --http-host {}",
                    authority(host).map_or("NAME".to_owned(), |host| host.host().to_owned())
                ));
            }
        }
        for origin in headers.get_all(ORIGIN).iter().map(text) {
            if !hosts.iter().any(|host| is_same(&origin, host)) {
                return forbidden(format!(
                    "a page of '{origin}' may not send requests to this server"
                ));
            }
        }
        Ok(())
    }

    fn is_this(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        match bare.unwrap_or(host).parse::<IpAddr>() {
            // An address cannot be made to lead elsewhere, as a name can.
            Ok(ip) => {
                let ip = ip.to_canonical();
                ip.is_loopback() || self.bound.is_unspecified() || ip == self.bound.to_canonical()
            }
            Err(_) => {
                let is_host = |name: &str| host.eq_ignore_ascii_case(name);
                is_host("localhost") || self.names.iter().any(|name| is_host(name))
            }
        }
    }
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn authority(text: &str) -> Option<Authority> {
    // A user in front of the host is for nobody but people to be misled.
    text.parse().ok().filter(|_| !text.contains('@'))
}

/// Is a page of `origin` one that this host has sent? `null` is not a page of anybody.
fn is_same(origin: &str, host: &str) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else {
        return false;
    };
    let default = match origin.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    let (Some(origin), Some(host)) = (origin.authority(), authority(host)) else {
        return false;
    };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    origin.host().eq_ignore_ascii_case(host.host()) && port(origin) == port(&host)
}
