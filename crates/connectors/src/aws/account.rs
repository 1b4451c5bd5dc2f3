//! AWS accounts: credentials, and the signature of each request.

use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::HttpRequestBody;

pub(crate) struct Account {
    /// `None`: nobody, whom a server lets do what everybody may.
    pub credentials: Option<AwsCredentialProvider>,
    /// As signatures name it: `s3`, `sqs`.
    pub service: &'static str,
    pub region: String,
}

impl Account {
    /// What is sent with a request of these headers. The signature covers them, the URL and the body;
    /// the secret key is not in it.
    ///
    /// # Errors
    /// In words: there are no credentials, or none can be had now.
    pub async fn sign(
        &self,
        method: &Method,
        url: &str,
        headers: HeaderMap,
        body: &Bytes,
    ) -> Result<HeaderMap, String> {
        let Some(credentials) = &self.credentials else {
            return Ok(headers);
        };
        let said = |error: object_store::Error| error.to_string();
        let credential = credentials.get_credential().await.map_err(said)?;
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .body(HttpRequestBody::from(Bytes::clone(body)))
            .map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        AwsAuthorizer::new(&credential, self.service, &self.region)
            .try_authorize(&mut request, None)
            .map_err(said)?;
        Ok(std::mem::take(request.headers_mut()))
    }
}
