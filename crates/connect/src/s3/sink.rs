//! The `s3` sink: payloads become objects, several on their way at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::{Method, StatusCode};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use object_store::{Attribute, Attributes, ObjectStore as _, PutOptions, PutPayload, RetryConfig};

use super::requests::Requests;
use crate::component::{Payload, Sink, SinkSetup};
use crate::error::Error;
use crate::http::{Dynamic, Url};
use crate::message::{Message, Sent, Undelivered};
use crate::net::{ClientTls, ClientTrust, Network, Outflow, Settings};

/// Objects that are sent at once.
const FLYING_MAX: usize = 8;

/// Paths whose last number is known; beyond, it is looked for again.
const PATHS_MAX: usize = 10_000;

/// How long a URL that proves who asks may be used.
const PROOF: Duration = Duration::from_secs(60);

/// Where buckets are when nobody says where.
const REGION: &str = "us-east-1";

const VERSIONED: &str = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                         <Status>Enabled</Status></VersioningConfiguration>";

pub(super) struct S3Sink {
    network: Arc<Network>,
    shared: Arc<Shared>,
    connected: Option<Instant>,
}

struct Shared {
    store: AmazonS3,
    requests: Requests,
    bucket: String,
    region: String,
    is_versioned: bool,
    path: Dynamic,
    content_type: Dynamic,
    /// `None` for the usual one.
    storage_class: Option<String>,
    /// What stands in a name before its number, and behind it.
    stem: String,
    extension: &'static str,
    outflow: Outflow,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    /// The next number of each path.
    next: HashMap<String, u64>,
    /// Of messages that were sent and not confirmed: sent again they have the same name.
    given: HashMap<u64, Path>,
}

impl S3Sink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<S3Sink, Error> {
        let settings = Settings::of_sink(setup.transport);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let bucket = settings.text("bucket.name").unwrap_or_default().trim();
        let region = settings.text("aws.region").unwrap_or(REGION).trim();
        let endpoint = setup.environment.setting("sink", "s3", "endpoint");
        let is_clear = endpoint.is_some_and(|url| url.starts_with("http://"));
        if endpoint.is_some_and(|url| Url::parse(url).is_none()) {
            let said = "property 'endpoint' of extension 's3' is no URL: write http://host:port";
            return Err(settings.refused(said));
        }
        let trust = ClientTrust {
            store: ClientTrust::deployed(setup.environment, "sink", "s3"),
            ..ClientTrust::default()
        };
        let tls = match is_clear {
            true => None,
            false => Some(ClientTls::trusting(settings, "TLS", trust)?),
        };
        let requests = Requests::new(tls);
        let mut builder = credentials(settings)?
            .with_bucket_name(bucket)
            .with_region(region)
            .with_allow_http(is_clear)
            .with_http_connector(requests.clone())
            // When another attempt is made is for the server of the app to say.
            .with_retry(RetryConfig {
                max_retries: 0,
                ..RetryConfig::default()
            });
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        let store = builder.build();
        let class = settings.text("storage.class").unwrap_or("standard").trim();
        let class = class.to_ascii_uppercase().replace('-', "_");
        let path = Dynamic::new(setup, "object.path", "");
        if let Dynamic::Constant(text) = &path {
            folder(text).map_err(|cause| settings.refused(cause))?;
        }
        let node = settings.text("node.id").unwrap_or_default().trim();
        let shared = Shared {
            outflow: Outflow::new(format!("{app}/{stream}"), format!("'s3://{bucket}'")),
            store: store.map_err(|error| settings.refused(error.to_string()))?,
            requests,
            bucket: bucket.to_owned(),
            region: region.to_owned(),
            is_versioned: settings.flag("versioning.enabled", false),
            path,
            content_type: Dynamic::new(setup, "content.type", "application/octet-stream"),
            storage_class: (class != "STANDARD").then_some(class),
            stem: match node {
                "" => format!("{stream}-"),
                node => format!("{stream}-{node}-"),
            },
            extension: extension(&setup.transport.map.ty),
            names: Mutex::default(),
        };
        Ok(S3Sink {
            network: Arc::clone(&setup.environment.network),
            shared: Arc::new(shared),
            connected: None,
        })
    }

    fn failed(&self, cause: impl Into<crate::error::Cause>) -> Error {
        Error::failed(format!("storing in 's3://{}'", self.shared.bucket), cause)
    }
}

/// Where credentials come from: the keys of the app, or what a class of the Java client looks at.
fn credentials(settings: Settings<'_>) -> Result<AmazonS3Builder, Error> {
    let keys = (
        settings.text("aws.access.key"),
        settings.text("aws.secret.key"),
    );
    if let (Some(key), Some(secret)) = keys {
        let builder = AmazonS3Builder::new().with_access_key_id(key.trim());
        return Ok(builder.with_secret_access_key(secret.trim()));
    }
    let class = settings
        .text("credential.provider.class")
        .unwrap_or_default();
    Ok(match class.trim().rsplit('.').next().unwrap_or_default() {
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
            return Err(settings.refused(format!(
                "option 'credential.provider.class' is '{class}': the default chain, the \
                 environment, containers, instance profiles and nobody are known, else write \
                 'aws.access.key' and 'aws.secret.key'"
            )));
        }
    })
}

/// The end of a name, by the mapper.
fn extension(mapper: &str) -> &'static str {
    match mapper {
        "json" => "json",
        "xml" => "xml",
        "csv" => "csv",
        "text" | "keyvalue" => "txt",
        "avro" => "avro",
        _ => "bin",
    }
}

fn folder(text: &str) -> Result<Path, String> {
    Path::parse(text.trim()).map_err(|_| {
        format!(
            "option 'object.path' is '{text}', which is no path: write a/b, without empty parts"
        )
    })
}

impl Sink for S3Sink {
    fn connect(&mut self) -> Result<(), Error> {
        let (opening, serving) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let open = async move { opening.find_bucket().await };
        let serve = |()| {
            serving.outflow.open();
            async move { serving.serve().await }
        };
        let outflow = &self.shared.outflow;
        outflow.connect(&self.network, &mut self.connected, open, serve)
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let (Payload::Text(_) | Payload::Bytes(_)) = message.payload else {
            return Err(self.failed("the payload is neither text nor bytes"));
        };
        let path = folder(self.shared.path.of(message));
        path.map_err(|cause| self.failed(cause))?;
        self.shared.outflow.push(Sent::new(message))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.shared.outflow.flush()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.shared.outflow.close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.shared.outflow.take_undelivered()
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the bucket, and makes it where there is none.
    async fn find_bucket(&self) -> Result<(), String> {
        match self.ask(Method::HEAD, &[], String::new()).await? {
            status if status.is_success() => return Ok(()),
            StatusCode::NOT_FOUND => {}
            status => return Err(self.said(status)),
        }
        let place = match self.region.as_str() {
            REGION => String::new(),
            region => format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            ),
        };
        match self.ask(Method::PUT, &[], place).await? {
            // Somebody else was faster.
            StatusCode::CONFLICT => return Ok(()),
            status if status.is_success() => {}
            status => return Err(self.said(status)),
        }
        if self.is_versioned {
            let what = [("versioning".to_owned(), String::new())];
            let status = self.ask(Method::PUT, &what, VERSIONED.to_owned()).await?;
            if !status.is_success() {
                return Err(self.said(status));
            }
        }
        Ok(())
    }

    fn said(&self, status: StatusCode) -> String {
        format!("bucket '{}': the server answers {status}", self.bucket)
    }

    /// Asks something of the bucket, which the library cannot.
    async fn ask(
        &self,
        method: Method,
        query: &[(String, String)],
        body: String,
    ) -> Result<StatusCode, String> {
        let mut options = SignedUrlOptions::new();
        options.extra_query.extend_from_slice(query);
        let url = self
            .store
            .signed_url_opts(method.clone(), &Path::default(), PROOF, &options)
            .await
            .map_err(|error| error.to_string())?;
        let asked = self.requests.ask(&method, url.as_str(), Bytes::from(body));
        asked.await.map_err(|error| error.to_string())
    }

    /// Stores what waits, until the sink is closed and nothing waits.
    async fn serve(&self) {
        let mut flying = FuturesUnordered::new();
        let result = loop {
            if flying.len() < FLYING_MAX
                && let Some((number, sent)) = self.outflow.try_next()
            {
                match self.name(number, &sent).await {
                    Ok(name) => flying.push(self.put(number, name, sent)),
                    Err(cause) => break Err(cause),
                }
                continue;
            }
            if flying.is_empty() && self.outflow.is_done() {
                break Ok(());
            }
            let has_room = flying.len() < FLYING_MAX;
            tokio::select! {
                Some(stored) = flying.next() => match stored {
                    Ok(number) => {
                        self.names().given.remove(&number);
                        self.outflow.confirm(number);
                    }
                    Err(cause) => break Err(cause),
                },
                () = self.outflow.changed(), if has_room => {}
            }
        };
        self.outflow.ended(result);
    }

    /// The name of an object: the next of its path.
    async fn name(&self, number: u64, sent: &Sent) -> Result<Path, String> {
        if let Some(name) = self.names().given.get(&number) {
            return Ok(name.clone());
        }
        let path = {
            let message = sent.message();
            folder(self.path.of(&message))?
        };
        let known = self.names().next.get(path.as_ref()).copied();
        let next = match known {
            Some(next) => next,
            None => self.behind_last(&path).await?,
        };
        let folder = path.as_ref().to_owned();
        let name = path.join(format!("{}{next}.{}", self.stem, self.extension));
        let mut names = self.names();
        if names.next.len() >= PATHS_MAX {
            names.next.clear();
        }
        names.next.insert(folder, next + 1);
        names.given.insert(number, name.clone());
        Ok(name)
    }

    /// The number behind the highest that a path has.
    async fn behind_last(&self, path: &Path) -> Result<u64, String> {
        let mut found = self.store.list(Some(path));
        let mut next = 0;
        while let Some(object) = found.next().await {
            let object = object.map_err(|error| error.to_string())?;
            let number = object.location.filename().and_then(|name| {
                let rest = name.strip_prefix(&self.stem)?;
                rest.split('.').next()?.parse::<u64>().ok()
            });
            next = next.max(number.map_or(0, |number| number + 1));
        }
        Ok(next)
    }

    async fn put(&self, number: u64, name: Path, sent: Arc<Sent>) -> Result<u64, String> {
        let mut attributes = Attributes::new();
        let content_type = {
            let message = sent.message();
            self.content_type.of(&message).trim().to_owned()
        };
        attributes.insert(Attribute::ContentType, content_type.into());
        if let Some(class) = &self.storage_class {
            attributes.insert(Attribute::StorageClass, class.clone().into());
        }
        let options = PutOptions {
            attributes,
            ..PutOptions::default()
        };
        let payload = PutPayload::from(Bytes::clone(&sent.payload));
        let stored = self.store.put_opts(&name, payload, options).await;
        stored.map(|_| number).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_objects() {
        assert!(folder("a/b c/é").is_ok());
        assert!(folder("").is_ok());
        assert!(folder("a//b").is_err());
        assert!(folder("../a").is_err());
    }
}
