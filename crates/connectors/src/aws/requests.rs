//! The requests of `object_store`, by the connections of this crate.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use connect::net::ClientTls;
use connect::net::http_client::Fetch;
use connect::url::Url;

/// How long a server may take for an answer, large objects included.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest answer: a page of names.
const ANSWER_BYTES_MAX: usize = 16 << 20;

#[derive(Clone)]
pub(crate) struct Requests(Arc<Fetch>);

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

impl Requests {
    pub fn new(tls: Option<ClientTls>) -> Requests {
        Requests(Arc::new(Fetch::new(tls, PATIENCE, ANSWER_BYTES_MAX)))
    }

    /// A request whose headers prove who sends it.
    pub async fn ask(
        &self,
        method: &Method,
        url: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> io::Result<(StatusCode, Bytes)> {
        let url = Url::parse(url).ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        if body.is_empty() && *method == Method::PUT {
            // Servers want to be told.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        self.0.ask(method, &url, &headers, body).await
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let failed = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                _ => HttpErrorKind::Unknown,
            };
            HttpError::new(kind, error)
        };
        let url = Url::parse(&parts.uri.to_string())
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let exchanged = self.0.exchange(&parts.method, &url, &parts.headers, body);
        Ok(exchanged.await.map_err(failed)?.map(Into::into))
    }
}

impl HttpConnector for Requests {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Requests {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.exchange(request))
    }
}
