//! `#s3:uploadFile`, `#s3:copy` and `#s3:delete`: what an app does to objects, one call at a time.
//!
//! Each call is done before its events continue, so that what a checkpoint covers exists; repeated
//! after a crash it has the same result. `async` lets the calls of a chunk run at once, and has one
//! that fails logged instead of failing its event. Never: a file or object that is held in memory
//! as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

use event::{Column, Value};
use futures_util::stream::{self, StreamExt as _};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ObjectStore as _, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    PutPayload, WriteMultipart,
};

use super::bucket::{Access, Bucket, REGION, storage_class};
use connect::component::Environment;
use connect::effect::{self, Called, EffectCalls, EffectFunctions};
use connect::error::chain;
use connect::file_uri::local_path;
use connect::net::{ClientTls, ClientTrust};

/// Objects that are sent at once.
const FLYING_MAX: usize = 8;

/// Buckets whose connections are kept.
const BUCKETS_MAX: usize = 100;

/// A file is sent in parts of this size, so many at once; a smaller one is a single request.
const PART_BYTES: usize = 8 << 20;
const PARTS: usize = 2;

/// Names of the arguments, in their order.
const UPLOAD: &[&str] = &[
    "file.path",
    "bucket.name",
    "key",
    "async",
    "credential.provider.class",
    "aws.region",
    "storage.class",
    "aws.access.key",
    "aws.secret.key",
    "versioning.enabled",
    "bucket.acl",
];
const COPY: &[&str] = &[
    "from.bucket.name",
    "from.key",
    "bucket.name",
    "key",
    "async",
    "credential.provider.class",
    "aws.region",
    "storage.class",
    "aws.access.key",
    "aws.secret.key",
    "versioning.enabled",
    "bucket.acl",
];
const DELETE: &[&str] = &[
    "bucket.name",
    "key",
    "async",
    "credential.provider.class",
    "aws.region",
    "aws.access.key",
    "aws.secret.key",
];

/// Why a call failed: the row, and the words.
pub type Failure = (usize, String);

/// Buckets that calls have asked for; one list for all apps of a server.
#[derive(Default)]
pub(crate) struct Buckets(Mutex<HashMap<(String, Access), Arc<Bucket>>>);

/// `#s3:uploadFile`, `#s3:copy` and `#s3:delete`.
pub struct S3Functions;

impl EffectFunctions for S3Functions {
    fn has(&self, name: &str) -> bool {
        parameters(name).is_some()
    }

    fn begin(&self) -> Box<dyn EffectCalls> {
        Box::new(Calls)
    }
}

/// Buckets are shared by all apps: nothing is kept for one.
struct Calls;

impl EffectCalls for Calls {
    fn call(&mut self, asked: &mut effect::Call<'_>) -> Result<Called, Failure> {
        call(
            asked.environment,
            asked.function,
            asked.arguments,
            asked.rows,
        )?;
        Ok(Called::default())
    }
}

fn parameters(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "s3:uploadFile" => Some(UPLOAD),
        "s3:copy" => Some(COPY),
        "s3:delete" => Some(DELETE),
        _ => None,
    }
}

/// Runs a function for each row of arguments, in their order.
///
/// # Errors
/// The first row whose call failed; those behind it were not tried.
fn call(
    environment: &Environment,
    name: &str,
    arguments: &[Column],
    rows: usize,
) -> Result<(), Failure> {
    let network = environment.network();
    let workers = network.workers();
    let workers = workers.map_err(|error| (0, error.to_string()))?;
    let mut waiting = Vec::new();
    for row in 0..rows {
        let failed = |cause: String| (row, cause);
        let values = arguments.iter().map(|column| column.value(row)).collect();
        let call = Call::new(name, values).map_err(failed)?;
        let bucket = environment.shared.get::<Buckets>().find(environment, &call);
        let bucket = bucket.map_err(failed)?;
        if call.flag("async") {
            waiting.push((call, bucket));
        } else {
            let done = workers.next().block_on(call.run(&bucket));
            done.map_err(failed)?;
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    // Files are read on this thread, which waits anyway, and not where connections are served.
    workers.next().block_on(async {
        let asked = waiting.iter().map(|(call, bucket)| async move {
            if let Err(cause) = call.run(bucket).await {
                tracing::error!(
                    function = call.name,
                    cause,
                    "asynchronous function call failed"
                );
            }
        });
        stream::iter(asked)
            .buffer_unordered(FLYING_MAX)
            .for_each(|()| std::future::ready(()))
            .await;
    });
    Ok(())
}

impl Buckets {
    fn find(&self, environment: &Environment, call: &Call) -> Result<Arc<Bucket>, String> {
        let access = call.access(environment)?;
        let key = (call.needed("bucket.name")?.to_owned(), access);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = known.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        let trust = ["s3", "sink"].into_iter();
        let mut trust = trust.filter_map(|space| ClientTrust::deployed(environment, space, "s3"));
        let tls = match key.1.is_clear() {
            true => None,
            false => Some(ClientTls::of_trust(trust.next())?),
        };
        let bucket = Arc::new(Bucket::new(&key.0, &key.1, tls)?);
        if known.len() >= BUCKETS_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }
}

/// One call with its arguments.
struct Call {
    name: &'static str,
    parameters: &'static [&'static str],
    values: Vec<Value>,
}

impl Call {
    fn new(name: &str, values: Vec<Value>) -> Result<Call, String> {
        let all = ["s3:uploadFile", "s3:copy", "s3:delete"];
        let known = all.into_iter().find(|known| *known == name);
        let known = known.and_then(|name| Some((name, parameters(name)?)));
        let (name, parameters) = known.ok_or_else(|| format!("there is no '#{name}'"))?;
        let call = Call {
            name,
            parameters,
            values,
        };
        let has_keys = !call.text("aws.access.key").is_empty();
        if has_keys && !call.text("credential.provider.class").is_empty() {
            return Err(call.failed("keys and a credential provider exclude each other"));
        }
        Ok(call)
    }

    fn failed(&self, cause: &str) -> String {
        format!("'#{}': {cause}", self.name)
    }

    fn value(&self, parameter: &str) -> Option<&Value> {
        let at = self.parameters.iter().position(|name| *name == parameter)?;
        self.values.get(at)
    }

    /// Nothing where the argument is not given.
    fn text(&self, parameter: &str) -> &str {
        let value = self.value(parameter).and_then(Value::as_str);
        value.unwrap_or_default().trim()
    }

    fn needed(&self, parameter: &str) -> Result<&str, String> {
        match self.text(parameter) {
            "" => Err(self.failed(&format!("argument '{parameter}' is empty"))),
            text => Ok(text),
        }
    }

    fn flag(&self, parameter: &str) -> bool {
        match self.value(parameter) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Str(text)) => text.trim().eq_ignore_ascii_case("true"),
            _ => false,
        }
    }

    fn access(&self, environment: &Environment) -> Result<Access, String> {
        let function = self.name.trim_start_matches("s3:");
        let setting = |key| {
            let own = environment.setting("s3", function, key);
            own.or_else(|| environment.setting("sink", "s3", key))
        };
        let text = |parameter| self.text(parameter).to_owned();
        let keys = match (text("aws.access.key"), text("aws.secret.key")) {
            (key, secret) if !key.is_empty() && !secret.is_empty() => Some((key, secret)),
            (key, secret) if key.is_empty() && secret.is_empty() => None,
            _ => return Err(self.failed("one of 'aws.access.key' and 'aws.secret.key' is empty")),
        };
        let region = match self.text("aws.region") {
            "" => REGION.to_owned(),
            region => region.to_owned(),
        };
        Ok(Access {
            region,
            keys,
            provider: text("credential.provider.class"),
            endpoint: setting("endpoint").map(str::to_owned),
            is_versioned: self.flag("versioning.enabled"),
        })
    }

    fn key(&self, parameter: &str) -> Result<Path, String> {
        let text = self.needed(parameter)?;
        Path::parse(text).map_err(|_| {
            self.failed(&format!(
                "argument '{parameter}' is '{text}', which is not an object name: write a/b, \
                 without empty parts"
            ))
        })
    }

    async fn run(&self, bucket: &Bucket) -> Result<(), String> {
        let key = self.key("key")?;
        let class = storage_class(self.text("storage.class"));
        let done = match self.name {
            "s3:delete" => bucket.store.delete(&key).await.map_err(|e| chain(&e)),
            "s3:copy" => {
                let (from, source) = (self.needed("from.bucket.name")?, self.key("from.key")?);
                bucket.find().await.map_err(|cause| self.failed(&cause))?;
                let class = class.as_deref();
                bucket.copy_from(from, &source, &key, class).await
            }
            _ => {
                let path = local_path(self.needed("file.path")?);
                let path = path.map_err(|error| self.failed(&error.to_string()))?;
                let unreadable = |error: std::io::Error| {
                    self.failed(&format!(
                        "file '{}' cannot be read: {error}",
                        path.display()
                    ))
                };
                let file = File::open(&path).map_err(unreadable)?;
                bucket.find().await.map_err(|cause| self.failed(&cause))?;
                let stored = store(bucket, &key, file, class).await;
                match stored.map_err(|cause| self.failed(&cause))? {
                    None => Ok(()),
                    Some(error) => return Err(unreadable(error)),
                }
            }
        };
        done.map_err(|cause| self.failed(&cause))
    }
}

/// Sends a file; gives why it cannot be read on, where that is the reason.
async fn store(
    bucket: &Bucket,
    key: &Path,
    mut file: File,
    class: Option<String>,
) -> Result<Option<std::io::Error>, String> {
    let mut attributes = Attributes::new();
    if let Some(class) = class {
        attributes.insert(Attribute::StorageClass, class.into());
    }
    let mut part = |bytes: &mut Vec<u8>| -> std::io::Result<usize> {
        bytes.clear();
        (&mut file).take(PART_BYTES as u64).read_to_end(bytes)
    };
    let mut bytes = Vec::new();
    let size = match part(&mut bytes) {
        Ok(size) => size,
        Err(error) => return Ok(Some(error)),
    };
    let said = |error: object_store::Error| chain(&error);
    if size < PART_BYTES {
        let options = PutOptions {
            attributes,
            ..PutOptions::default()
        };
        let payload = PutPayload::from(bytes);
        let stored = bucket.store.put_opts(key, payload, options).await;
        return stored.map(|_| None).map_err(said);
    }
    let options = PutMultipartOptions {
        attributes,
        ..PutMultipartOptions::default()
    };
    let upload = bucket.store.put_multipart_opts(key, options).await;
    let mut upload = WriteMultipart::new_with_chunk_size(upload.map_err(said)?, PART_BYTES);
    loop {
        upload.put(std::mem::take(&mut bytes).into());
        let ready = upload.wait_for_capacity(PARTS).await.map_err(said);
        let read = match ready {
            Ok(()) => part(&mut bytes),
            Err(cause) => {
                // What has arrived of it would be kept, and paid for.
                upload.abort().await.ok();
                return Err(cause);
            }
        };
        match read {
            Ok(0) => return upload.finish().await.map(|_| None).map_err(said),
            Ok(_) => {}
            Err(error) => {
                upload.abort().await.ok();
                return Ok(Some(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, values: &[Value], expect: Result<&str, &str>) {
        let call = Call::new(name, values.to_vec());
        let access = call.and_then(|call| call.access(&Environment::new("App")));
        let found = access.map(|access| access.region);
        match (found, expect) {
            (Ok(region), Ok(expect)) => assert_eq!(region, expect),
            (Err(said), Err(expect)) => assert!(said.contains(expect), "{said}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn arguments_have_their_places() {
        let text = |text: &str| Value::str(text);
        let none = Value::Bool(false);
        check("s3:delete", &[text("b"), text("k")], Ok("us-east-1"));
        let values = [
            text("b"),
            text("k"),
            none.clone(),
            text(""),
            text("eu-west-1"),
        ];
        check("s3:delete", &values, Ok("eu-west-1"));
        let keyed = |class: &str, secret: &str| {
            let mut values = values.to_vec();
            values[3] = text(class);
            values.extend([text("key"), text(secret)]);
            values
        };
        check("s3:delete", &keyed("", "secret"), Ok("eu-west-1"));
        check("s3:delete", &keyed("", ""), Err("is empty"));
        check(
            "s3:delete",
            &keyed("x.Y", "secret"),
            Err("exclude each other"),
        );
        check("s3:move", &[], Err("there is no '#s3:move'"));
    }
}
