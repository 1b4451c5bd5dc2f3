//! One request and its whole answer, for connectors that speak HTTP by the way.

use std::io;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::client::{Client, ClientOptions, RequestBody, read_body, within};
use crate::net::ClientTls;
use crate::url::Url;

/// Connections to one server, kept open between requests.
pub struct Fetch {
    client: Client,
    timeout: Duration,
    bytes_max: usize,
}

impl Fetch {
    /// An answer may take `timeout` and have `bytes_max` bytes.
    pub fn new(tls: Option<ClientTls>, timeout: Duration, bytes_max: usize) -> Fetch {
        let options = ClientOptions {
            connect_timeout: Some(timeout),
            idle_timeout: Some(timeout),
            tls,
            ..ClientOptions::default()
        };
        Fetch {
            client: Client::new(options),
            timeout,
            bytes_max,
        }
    }

    pub async fn ask(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
    ) -> io::Result<(StatusCode, Bytes)> {
        let answer = self.exchange(method, url, headers, body).await?;
        Ok((answer.status(), answer.into_body()))
    }

    /// As [`Fetch::ask`], the headers of the answer as well.
    pub async fn exchange(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
    ) -> io::Result<Response<Bytes>> {
        let target: hyper::Uri = url.target().parse().map_err(io::Error::other)?;
        let host = HeaderValue::from_str(&url.host_header()).map_err(io::Error::other)?;
        let make = || {
            let mut request = Request::new(RequestBody::new(body.clone(), true));
            *request.method_mut() = method.clone();
            *request.uri_mut() = target.clone();
            *request.headers_mut() = headers.clone();
            request.headers_mut().insert(HOST, host.clone());
            request
        };
        let asking = async {
            let (response, used) = self.client.send(url, make).await?;
            let (head, body) = response.into_parts();
            let limit = Some(self.timeout);
            let body = read_body(body, limit, self.bytes_max).await?;
            self.client.give_back(used);
            Ok(Response::from_parts(head, body))
        };
        within(Some(self.timeout), asking).await?
    }
}
