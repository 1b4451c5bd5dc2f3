//! One request and its whole answer, for connectors that speak HTTP by the way.

use std::io;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::client::{Client, ClientOptions, within};
use super::connection::OutgoingRequest;
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
        let host = HeaderValue::from_str(&url.host_header()).map_err(io::Error::other)?;
        let request = OutgoingRequest {
            method,
            target: &self.client.request_target(url)?,
            headers,
            extra: Some((HOST, &host)),
            body: &body,
            has_length: true,
        };
        let asking = async {
            let answer = self.client.send(url, &request).await?;
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = answer.response.status();
            *response.headers_mut() = answer.response.headers().clone();
            *response.body_mut() = self.client.read_body(answer, self.bytes_max).await?;
            Ok(response)
        };
        within(Some(self.timeout), asking).await?
    }
}
