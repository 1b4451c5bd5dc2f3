//! An S3 bucket: credentials, settings, and requests that the library does not offer.

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;

use crate::aws::Account;
use crate::aws::Requests;
use connect::net::ClientTls;
use connect::url::Url;

/// Where buckets are when nobody says where.
pub(super) const REGION: &str = "us-east-1";

const VERSIONED: &str = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                         <Status>Enabled</Status></VersioningConfiguration>";

/// Who asks, and where. Its parts are those of an app's options or of a call.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Access {
    pub region: String,
    /// Access key and secret key.
    pub keys: Option<(String, String)>,
    /// `credential.provider.class`.
    pub provider: String,
    /// Of the deployment file; else Amazon's own.
    pub endpoint: Option<String>,
    pub is_versioned: bool,
}

pub(super) struct Bucket {
    pub name: String,
    pub store: AmazonS3,
    /// Its URL.
    place: String,
    account: Account,
    requests: Requests,
    is_versioned: bool,
}

impl Access {
    /// Needs the server no TLS?
    pub fn is_clear(&self) -> bool {
        let endpoint = self.endpoint.as_deref();
        endpoint.is_some_and(|url| url.starts_with("http://"))
    }

    /// The error is for the author of the app, in words.
    pub fn check(&self) -> Result<(), String> {
        match &self.endpoint {
            Some(url) if Url::parse(url).is_none() => Err(
                "property 'endpoint' of extension 's3' is not a URL: write http://host:port"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Where credentials come from: the keys of the app, or what a class of the Java client looks at.
    fn credentials(&self) -> Result<AmazonS3Builder, String> {
        if let Some((key, secret)) = &self.keys {
            let builder = AmazonS3Builder::new().with_access_key_id(key.trim());
            return Ok(builder.with_secret_access_key(secret.trim()));
        }
        let class = self.provider.trim();
        Ok(match class.rsplit('.').next().unwrap_or_default() {
            "AnonymousCredentialsProvider" | "AnonymousAWSCredentialsProvider" => {
                AmazonS3Builder::new().with_skip_signature(true)
            }
            ""
            | "DefaultCredentialsProvider"
            | "DefaultAWSCredentialsProviderChain"
            | "EnvironmentVariableCredentialsProvider"
            | "WebIdentityTokenFileCredentialsProvider"
            | "WebIdentityTokenCredentialsProvider"
            | "ContainerCredentialsProvider"
            | "EC2ContainerCredentialsProviderWrapper"
            | "InstanceProfileCredentialsProvider" => AmazonS3Builder::from_env(),
            _ => {
                return Err(format!(
                    "option 'credential.provider.class' is '{class}': the default chain, the \
                     environment, containers, instance profiles and anonymous access are \
                     supported; otherwise write 'aws.access.key' and 'aws.secret.key'"
                ));
            }
        })
    }
}

impl Bucket {
    /// `tls` where the access is not clear. The error is for the author of the app, in words.
    pub fn new(name: &str, access: &Access, tls: Option<ClientTls>) -> Result<Bucket, String> {
        access.check()?;
        let requests = Requests::new(tls);
        let mut builder = access
            .credentials()?
            .with_bucket_name(name)
            .with_region(&access.region)
            .with_allow_http(access.is_clear())
            .with_http_connector(requests.clone())
            // When another attempt is made is for the server of the app to say.
            .with_retry(RetryConfig {
                max_retries: 0,
                ..RetryConfig::default()
            });
        if let Some(endpoint) = &access.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        let place = place(&builder, name, &access.region);
        let is_nobody = is_set(&builder, AmazonS3ConfigKey::SkipSignature);
        let store = builder.build().map_err(|error| error.to_string())?;
        Ok(Bucket {
            name: name.to_owned(),
            place,
            account: Account {
                credentials: (!is_nobody).then(|| store.credentials().clone()),
                service: "s3",
                region: access.region.clone(),
            },
            store,
            requests,
            is_versioned: access.is_versioned,
        })
    }

    /// Looks for the bucket, and makes it where there is none.
    pub async fn find(&self) -> Result<(), String> {
        match self.head().await? {
            status if status.is_success() => return Ok(()),
            StatusCode::NOT_FOUND => {}
            status => return Err(self.said(status)),
        }
        let place = match self.account.region.as_str() {
            REGION => String::new(),
            region => format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            ),
        };
        match self.put("", place).await? {
            // Somebody else was faster.
            StatusCode::CONFLICT => return Ok(()),
            status if status.is_success() => {}
            status => return Err(self.said(status)),
        }
        if self.is_versioned {
            let status = self.put("?versioning=", VERSIONED.to_owned()).await?;
            if !status.is_success() {
                return Err(self.said(status));
            }
        }
        Ok(())
    }

    fn said(&self, status: StatusCode) -> String {
        format!("bucket '{}': the server answers {status}", self.name)
    }

    /// What the server says of the bucket; whatever it is, the server is there.
    pub async fn head(&self) -> Result<StatusCode, String> {
        let asked = self.send(Method::HEAD, "", HeaderMap::new(), Bytes::new());
        Ok(asked.await?.0)
    }

    /// Makes the bucket, or changes what `query` names of it.
    async fn put(&self, query: &str, body: String) -> Result<StatusCode, String> {
        let asked = self.send(Method::PUT, query, HeaderMap::new(), Bytes::from(body));
        Ok(asked.await?.0)
    }

    /// Has the server copy an object of any bucket into this one.
    pub async fn copy_from(
        &self,
        bucket: &str,
        from: &Path,
        to: &Path,
        class: Option<&str>,
    ) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        let source = format!("/{bucket}/{}", encoded(from.as_ref()));
        let pairs = [
            ("x-amz-copy-source", Some(source.as_str())),
            ("x-amz-storage-class", class),
        ];
        for (name, value) in pairs {
            let Some(value) = value else { continue };
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let target = encoded(to.as_ref());
        let (status, body) = self
            .send(Method::PUT, &target, headers, Bytes::new())
            .await?;
        // A copy that fails after it has begun says so below a status that is good.
        if status.is_success() && !body.windows(7).any(|part| part == b"<Error>") {
            return Ok(());
        }
        Err(format!(
            "object '{from}' of bucket '{bucket}' cannot be copied into bucket '{}': the server answers {status}",
            self.name
        ))
    }

    /// A request that the library does not make, of the bucket or of what is behind its URL.
    async fn send(
        &self,
        method: Method,
        behind: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let url = format!("{}/{behind}", self.place);
        let headers = self.account.sign(&method, &url, headers, &body).await?;
        let asked = self.requests.ask(&method, &url, headers, body);
        asked.await.map_err(|error| error.to_string())
    }
}

fn is_set(builder: &AmazonS3Builder, key: AmazonS3ConfigKey) -> bool {
    builder
        .get_config_value(&key)
        .is_some_and(|value| value == "true")
}

/// The URL of a bucket, as the library asks for it.
fn place(builder: &AmazonS3Builder, name: &str, region: &str) -> String {
    let is_host = is_set(builder, AmazonS3ConfigKey::VirtualHostedStyleRequest);
    let endpoints = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    match endpoints
        .iter()
        .find_map(|key| builder.get_config_value(key))
    {
        Some(endpoint) if is_host => endpoint.trim_end_matches('/').to_owned(),
        Some(endpoint) => format!("{}/{name}", endpoint.trim_end_matches('/')),
        None if is_host => format!("https://{name}.s3.{region}.amazonaws.com"),
        None => format!("https://s3.{region}.amazonaws.com/{name}"),
    }
}

/// A path as a header has it: everything but letters, digits and few signs as `%XX`.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Storage classes as the Java client names them; the usual one needs no name.
pub(super) fn storage_class(text: &str) -> Option<String> {
    let class = text.trim().to_ascii_uppercase().replace('-', "_");
    (!class.is_empty() && class != "STANDARD").then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_buckets() {
        let plain = || AmazonS3Builder::new().with_bucket_name("b");
        let own = || plain().with_endpoint("http://localhost:1/");
        for (builder, expect) in [
            (plain(), "https://s3.eu-west-1.amazonaws.com/b"),
            (
                plain().with_virtual_hosted_style_request(true),
                "https://b.s3.eu-west-1.amazonaws.com",
            ),
            (own(), "http://localhost:1/b"),
            (
                own().with_virtual_hosted_style_request(true),
                "http://localhost:1",
            ),
        ] {
            assert_eq!(place(&builder, "b", "eu-west-1"), expect);
        }
    }

    #[test]
    fn names_of_copies_and_classes() {
        assert_eq!(encoded("a b/é+.txt"), "a%20b/%C3%A9%2B.txt");
        assert_eq!(
            storage_class("reduced-redundancy"),
            Some("REDUCED_REDUNDANCY".into())
        );
        assert_eq!(storage_class(" standard"), None);
        assert_eq!(storage_class(""), None);
    }
}
