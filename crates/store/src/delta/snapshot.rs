//! A version of a table, made from its actions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use event::{Attribute, Schema, Type};
use serde_json::{Value as Json, json};

use super::{Add, Stats, Txn};
use crate::definition::{Definition, ID, TIMESTAMP};
use crate::error::Error;
use crate::key::Key;

/// What this build reads and writes.
const READER: i64 = 1;
const WRITER: i64 = 2;

/// The property that names the columns of the primary key.
const KEY: &str = "headwater.primaryKey";

/// Properties of tables that are made here. External readers have the time of the second to finish.
const PROPERTIES: [(&str, &str); 2] = [
    ("delta.logRetentionDuration", "interval 1 day"),
    ("delta.deletedFileRetentionDuration", "interval 1 hour"),
];

/// Tags of files: their checksum, their first and last key, and the columns in whose order their rows are.
const CRC: &str = "headwater.crc32";
const FIRST: &str = "headwater.firstKey";
const LAST: &str = "headwater.lastKey";
const CLUSTER: &str = "headwater.clusterBy";

/// The files of a table at one version, and what else the log says.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub version: u64,
    pub definition: Arc<Definition>,
    pub files: BTreeMap<String, Arc<Add>>,
    /// Files that were taken out and may still be read, with the time, milliseconds since 1970.
    pub removed: BTreeMap<String, i64>,
    /// By application.
    txns: BTreeMap<String, i64>,
    /// As it was written.
    metadata: Json,
}

impl Snapshot {
    /// Up to which number an application has put in what it has.
    pub fn txn(&self, app: &str) -> Option<i64> {
        self.txns.get(app).copied()
    }

    /// The same table without any file.
    pub fn without_files(&self) -> Snapshot {
        Snapshot {
            files: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// All that it says, as actions.
    pub fn actions(&self) -> Vec<Json> {
        let mut actions = vec![protocol(), json!({"metaData": self.metadata})];
        actions.extend(self.txns.iter().map(|(app, version)| {
            txn_action(&Txn {
                app: app.clone(),
                version: *version,
            })
        }));
        let adds = self
            .files
            .values()
            .map(|add| add_action(add, &self.definition, false));
        actions.extend(adds);
        actions.extend(
            self.removed
                .iter()
                .map(|(path, time)| remove_action(path, *time, false)),
        );
        actions
    }

    /// The version after it, with these actions.
    pub fn with(&self, actions: &[Json], dir: &Path) -> Result<Snapshot, Error> {
        let mut maker = Maker::behind(self.clone());
        actions
            .iter()
            .try_for_each(|action| maker.add(action, dir))?;
        // Files that nobody may read any more are no longer named; a vacuum knows them by their age.
        let now = crate::clock::millis();
        let kept = 2 * super::local::GRACE.as_millis() as i64;
        maker
            .removed
            .retain(|_, time| now.saturating_sub(*time) < kept);
        maker.finish(self.version + 1, dir)
    }
}

/// Puts actions together.
#[derive(Default)]
pub(super) struct Maker {
    metadata: Option<Json>,
    definition: Option<Arc<Definition>>,
    adds: BTreeMap<String, Arc<Add>>,
    removed: BTreeMap<String, i64>,
    txns: BTreeMap<String, i64>,
}

impl Maker {
    fn behind(before: Snapshot) -> Maker {
        Maker {
            metadata: Some(before.metadata),
            definition: Some(before.definition),
            adds: before.files,
            removed: before.removed,
            txns: before.txns,
        }
    }

    pub fn add(&mut self, action: &Json, dir: &Path) -> Result<(), Error> {
        let foreign = |message: &str| Error::foreign(dir, message);
        if let Some(protocol) = action.get("protocol") {
            let reader = protocol["minReaderVersion"].as_i64();
            let writer = protocol["minWriterVersion"].as_i64();
            if reader != Some(READER) || writer.is_none_or(|version| version > WRITER) {
                return Err(foreign(
                    "the table needs features of Delta that the event store does not have (another program \
                     has upgraded it): only reader version 1 and writer version 2 are read",
                ));
            }
        } else if let Some(metadata) = action.get("metaData") {
            if metadata["partitionColumns"]
                .as_array()
                .is_some_and(|c| !c.is_empty())
            {
                return Err(foreign(
                    "the table has partitions, which the event store does not read",
                ));
            }
            self.definition = Some(Arc::new(definition(metadata, dir)?));
            self.metadata = Some(metadata.clone());
        } else if let Some(txn) = action.get("txn") {
            if let (Some(app), Some(version)) = (txn["appId"].as_str(), txn["version"].as_i64()) {
                self.txns.insert(app.to_owned(), version);
            }
        } else if let Some(add) = action.get("add") {
            let Some(definition) = &self.definition else {
                return Err(Error::damaged(
                    dir,
                    "its log names files before it says what they hold",
                ));
            };
            if !add["deletionVector"].is_null() {
                return Err(foreign(
                    "the table has deletion vectors, which the event store does not read",
                ));
            }
            let add = read_add(add, definition);
            let add = add.ok_or_else(|| {
                Error::damaged(dir, "its log names a file without path or length")
            })?;
            self.removed.remove(&add.path);
            self.adds.insert(add.path.clone(), Arc::new(add));
        } else if let Some(remove) = action.get("remove") {
            let path = remove["path"].as_str().and_then(decoded);
            let path =
                path.ok_or_else(|| Error::damaged(dir, "its log takes out a file without a path"))?;
            self.adds.remove(&path);
            let time = remove["deletionTimestamp"].as_i64().unwrap_or_default();
            self.removed.insert(path, time);
        }
        Ok(())
    }

    pub fn finish(self, version: u64, dir: &Path) -> Result<Snapshot, Error> {
        let (Some(definition), Some(metadata)) = (self.definition, self.metadata) else {
            return Err(Error::damaged(
                dir,
                "its log does not say what the table holds",
            ));
        };
        Ok(Snapshot {
            version,
            definition,
            files: self.adds,
            removed: self.removed,
            txns: self.txns,
            metadata,
        })
    }
}

// ---- actions ----

pub(super) fn protocol() -> Json {
    json!({"protocol": {"minReaderVersion": READER, "minWriterVersion": WRITER}})
}

/// What a new table is, as an action.
pub(super) fn metadata(definition: &Definition, id: &str, now: i64) -> Json {
    let field =
        |name: &str, ty: &str| json!({"name": name, "type": ty, "nullable": true, "metadata": {}});
    let own = [field(ID, "long"), field(TIMESTAMP, "long")];
    let attributes = definition.schema.attributes.iter();
    let attributes = attributes.map(|a| field(&a.name, type_name(a.ty)));
    let fields: Vec<Json> = own.into_iter().chain(attributes).collect();
    let schema = json!({"type": "struct", "fields": fields}).to_string();
    let key = definition.key.iter();
    let key: Vec<&str> = key
        .map(|at| definition.schema.attributes[*at].name.as_str())
        .collect();
    let mut properties = serde_json::Map::new();
    properties.insert(KEY.to_owned(), Json::from(json!(key).to_string()));
    for (name, value) in PROPERTIES {
        properties.insert(name.to_owned(), Json::from(value));
    }
    json!({"metaData": {
        "id": id,
        "name": definition.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": now,
    }})
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::String => "string",
        Type::Int => "integer",
        Type::Long => "long",
        Type::Float => "float",
        Type::Double => "double",
        Type::Bool => "boolean",
        Type::Object => "binary",
    }
}

fn definition(metadata: &Json, dir: &Path) -> Result<Definition, Error> {
    let unreadable = || Error::damaged(dir, "its log does not say what columns the table has");
    let schema = metadata["schemaString"].as_str().ok_or_else(unreadable)?;
    let schema: Json = serde_json::from_str(schema).map_err(|_| unreadable())?;
    let mut attributes = Vec::new();
    for field in schema["fields"].as_array().ok_or_else(unreadable)? {
        let name = field["name"].as_str().ok_or_else(unreadable)?;
        if [ID, TIMESTAMP].contains(&name) {
            continue;
        }
        let ty = field["type"].as_str().unwrap_or_default();
        let ty = Type::ALL.into_iter().find(|known| type_name(*known) == ty);
        let ty = ty.ok_or_else(|| {
            Error::foreign(
                dir,
                format!("column '{name}' has a type that no attribute of SiddhiQL has"),
            )
        })?;
        attributes.push(Attribute {
            name: name.to_owned(),
            ty,
        });
    }
    let key = metadata["configuration"][KEY].as_str().unwrap_or("[]");
    let key: Vec<String> = serde_json::from_str(key).map_err(|_| unreadable())?;
    let place = |name: &String| attributes.iter().position(|a: &Attribute| a.name == *name);
    let key: Option<Vec<usize>> = key.iter().map(place).collect();
    let key = key.ok_or_else(unreadable)?;
    let name = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let schema = Schema {
        name: name.clone(),
        attributes,
    };
    Definition::new(&name, schema, key)
}

pub(super) fn txn_action(txn: &Txn) -> Json {
    json!({"txn": {"appId": txn.app, "version": txn.version, "lastUpdated": crate::clock::millis()}})
}

pub(super) fn add_action(add: &Add, definition: &Definition, is_new: bool) -> Json {
    let mut tags = serde_json::Map::new();
    if let Some(crc) = add.crc {
        tags.insert(CRC.to_owned(), Json::from(crc.to_string()));
    }
    if let Some((first, last)) = &add.range {
        tags.insert(FIRST.to_owned(), Json::from(hex(first)));
        tags.insert(LAST.to_owned(), Json::from(hex(last)));
    }
    if !add.cluster.is_empty() {
        let names = add.cluster.iter();
        let names: Vec<&str> = names
            .map(|at| definition.schema.attributes[*at].name.as_str())
            .collect();
        tags.insert(CLUSTER.to_owned(), Json::from(json!(names).to_string()));
    }
    json!({"add": {
        "path": encoded(&add.path),
        "partitionValues": {},
        "size": add.size,
        "modificationTime": add.time,
        "dataChange": is_new,
        "stats": add.stats.to_json(definition),
        "tags": tags,
    }})
}

pub(super) fn remove_action(path: &str, time: i64, is_new: bool) -> Json {
    json!({"remove": {"path": encoded(path), "deletionTimestamp": time, "dataChange": is_new}})
}

fn read_add(add: &Json, definition: &Definition) -> Option<Add> {
    let tags = &add["tags"];
    let key = |name: &str| tags[name].as_str().and_then(unhex);
    Some(Add {
        path: add["path"].as_str().and_then(decoded)?,
        size: add["size"].as_u64()?,
        time: add["modificationTime"].as_i64().unwrap_or_default(),
        stats: Stats::from_json(add["stats"].as_str().unwrap_or("{}"), definition),
        range: key(FIRST).zip(key(LAST)),
        cluster: tags[CLUSTER]
            .as_str()
            .and_then(|names| columns(names, definition))
            .unwrap_or_default(),
        crc: tags[CRC].as_str().and_then(|text| text.parse().ok()),
    })
}

/// Columns by the names in a JSON list.
fn columns(names: &str, definition: &Definition) -> Option<Vec<usize>> {
    let names: Vec<String> = serde_json::from_str(names).ok()?;
    let attributes = &definition.schema.attributes;
    let place = |name: &String| attributes.iter().position(|a| a.name == *name);
    names.iter().map(place).collect()
}

/// Paths in a log are URLs.
fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b'=' => {
                text.push(byte as char)
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// A path below the folder of the table; others are none of its files.
fn decoded(url: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(url.len());
    let mut rest = url.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let path = String::from_utf8(bytes).ok()?;
    let parts = Path::new(&path).components();
    let is_below = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    (!path.is_empty() && parts.into_iter().all(is_below)).then_some(path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Key> {
    let digits = text.as_bytes();
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<Vec<u8>>>().map(Into::into)
}
