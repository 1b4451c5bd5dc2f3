//! The `s3` sink: payloads become objects, several on their way at once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore as _, PutOptions, PutPayload};

use super::bucket::{Access, Bucket, storage_class};
use connect::component::{Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::{Message, Sent, Undelivered};
use connect::net::{ClientTls, ClientTrust, InFlight, Network};
use connect::option::Dynamic;
use connect::option::Settings;

/// Objects that are sent at once.
const FLYING_MAX: usize = 8;

/// How often is looked whether an object is waited for, and how long the server may then take to say
/// anything. Two looks and an answer are less than five seconds.
const LOOK: Duration = Duration::from_millis(750);
const ANSWER: Duration = Duration::from_millis(2500);

/// Paths whose last number is known; beyond, it is looked for again.
const PATHS_MAX: usize = 10_000;

pub(super) struct S3Sink {
    network: Arc<Network>,
    shared: Arc<Shared>,
    connected: Option<Instant>,
}

struct Shared {
    /// App and stream.
    name: String,
    bucket: Bucket,
    path: Dynamic,
    content_type: Dynamic,
    /// `None` for the usual one.
    storage_class: Option<String>,
    /// What stands in a name before its number, and behind it.
    stem: String,
    extension: &'static str,
    in_flight: InFlight,
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
        let settings = Settings::of_sink(setup.transport, crate::aws::s3::CONNECTORS);
        let (app, stream) = (&setup.environment.app, &setup.schema.name);
        let bucket = settings.text_or_default("bucket.name").trim();
        let region = settings.text_or_default("aws.region").trim();
        let keys = settings
            .text("aws.access.key")
            .zip(settings.text("aws.secret.key"));
        let access = Access {
            region: region.to_owned(),
            keys: keys.map(|(key, secret)| (key.to_owned(), secret.to_owned())),
            provider: settings
                .text_or_default("credential.provider.class")
                .to_owned(),
            endpoint: setup
                .environment
                .setting("sink", "s3", "endpoint")
                .map(str::to_owned),
            is_versioned: settings.flag("versioning.enabled"),
        };
        access.check().map_err(|cause| settings.refused(cause))?;
        let trust = ClientTrust {
            store: ClientTrust::deployed(setup.environment, "sink", "s3"),
            ..ClientTrust::default()
        };
        let tls = match access.is_clear() {
            true => None,
            false => Some(ClientTls::trusting(settings, "TLS", trust)?),
        };
        let class = settings.text_or_default("storage.class");
        let path = Dynamic::new(setup, settings, "object.path");
        if let Dynamic::Constant(text) = &path {
            folder(text).map_err(|cause| settings.refused(cause))?;
        }
        let node = settings.text_or_default("node.id").trim();
        let name = format!("{app}/{stream}");
        let shared = Shared {
            in_flight: InFlight::new(name.clone(), format!("'s3://{bucket}'"), setup.answers),
            name,
            bucket: Bucket::new(bucket, &access, tls).map_err(|cause| settings.refused(cause))?,
            path,
            content_type: Dynamic::new(setup, settings, "content.type"),
            storage_class: storage_class(class),
            stem: match node {
                "" => format!("{stream}-"),
                node => format!("{stream}-{node}-"),
            },
            extension: extension(&setup.transport.map.ty),
            names: Mutex::default(),
        };
        Ok(S3Sink {
            network: setup.environment.network(),
            shared: Arc::new(shared),
            connected: None,
        })
    }

    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(
            format!("storing in 's3://{}'", self.shared.bucket.name),
            cause,
        )
    }
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
            "option 'object.path' is '{text}', which is not a path: write a/b, without empty parts"
        )
    })
}

impl Sink for S3Sink {
    fn connect(&mut self) -> Result<(), Error> {
        let (opening, serving) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let open = async move { opening.bucket.find().await };
        let serve = |()| {
            serving.in_flight.open();
            async move { serving.serve().await }
        };
        let in_flight = &self.shared.in_flight;
        in_flight.connect(&self.network, &mut self.connected, open, serve)
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let (Payload::Text(_) | Payload::Bytes(_)) = message.payload else {
            return Err(self.failed("the payload is neither text nor bytes"));
        };
        let path = folder(self.shared.path.of(message));
        path.map_err(|cause| self.failed(cause))?;
        self.shared.in_flight.push(Sent::new(message))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.shared.in_flight.flush()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.shared.in_flight.close()
    }

    fn take_undelivered(&mut self) -> Vec<Undelivered> {
        self.shared.in_flight.take_undelivered()
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self) {
        let result = tokio::select! {
            result = self.store() => result,
            never = self.watch() => match never {},
        };
        self.in_flight.ended(result);
    }

    /// Says so when the server is to store something and answers nobody. A large object takes its time,
    /// so what is on its way goes on.
    async fn watch(&self) -> Infallible {
        let mut silent: Option<Instant> = None;
        loop {
            let oldest = self.in_flight.oldest();
            tokio::time::sleep(LOOK).await;
            let is_waited_for = oldest.is_some() && oldest == self.in_flight.oldest();
            let is_there = !is_waited_for
                || matches!(
                    tokio::time::timeout(ANSWER, self.bucket.head()).await,
                    Ok(Ok(_))
                );
            match (is_there, silent) {
                (false, None) => {
                    silent = Some(Instant::now());
                    tracing::error!(
                        sink = self.name,
                        "server is not responding to uploads; waiting for it"
                    );
                }
                (true, Some(since)) => {
                    silent = None;
                    let gone_ms = since.elapsed().as_millis() as u64;
                    tracing::warn!(sink = self.name, gone_ms, "server is responding again");
                }
                _ => {}
            }
        }
    }

    /// Stores what waits, until the sink is closed and nothing waits.
    async fn store(&self) -> Result<(), String> {
        let mut flying = FuturesUnordered::new();
        loop {
            if flying.len() < FLYING_MAX
                && let Some((number, sent)) = self.in_flight.try_next()
            {
                let name = self.name(number, &sent).await?;
                flying.push(self.put(number, name, sent));
                continue;
            }
            if flying.is_empty() && self.in_flight.is_done() {
                return Ok(());
            }
            let has_room = flying.len() < FLYING_MAX;
            tokio::select! {
                Some(stored) = flying.next() => {
                    let number = stored?;
                    self.names().given.remove(&number);
                    self.in_flight.confirm(number);
                }
                () = self.in_flight.changed(), if has_room => {}
            }
        }
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
        let mut found = self.bucket.store.list(Some(path));
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
        let stored = self.bucket.store.put_opts(&name, payload, options).await;
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
