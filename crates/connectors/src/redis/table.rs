//! One table in Redis: `table:key` is the hash of a record, `table:attribute:value` the set of the
//! records that have the value (`RedisTable`).
//!
//! Writes wait in memory until they are committed; what is read is what Redis has with them applied.
//! Where no epochs are noted nothing will be replayed, so what waits goes out as soon as it is long.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Type, Value};
use plan::CompareOp;
use plan::store::{Operation, OperationId, OperationKind, Term, TermKind};

use redis::Cmd;

use super::connection::{Connection, Reply, command, refusal, text};
use connect::component::{Answer, Epochs, Store, StoreSetup, Written};
use connect::condition::{holds, is_plain, value};
use connect::error::Error;
use connect::ids::Ids;
use connect::option::number_of;
use connect::scalar;
use connect::url::split_port;

/// Keys that are asked for at once.
const KEYS: usize = 1000;

/// Bytes of changes at which they go out where no commit notes an epoch with them.
const HELD_MAX: usize = 4 << 20;

/// Bytes of changes that are sent before the server's answers to them are read.
const PART_BYTES: usize = 1 << 20;

/// What a change takes beside its key and values: nodes and allocations.
const CHANGE_BYTES: usize = 160;

/// The longest chain of `and` that is looked through for keys.
const DEPTH_MAX: u32 = 100;

type Row = Vec<Value>;

/// A record that changes: as Redis has it, and as it is to be.
struct Change {
    layout: Arc<Layout>,
    old: Option<Row>,
    new: Option<Row>,
    /// What it takes in memory, about.
    bytes: usize,
}

impl Change {
    fn new(layout: &Arc<Layout>, key: &str, old: Option<Row>, new: Option<Row>) -> Change {
        let values = old.iter().chain(&new).flatten();
        let values = values.map(|value| size_of::<Value>() + value.heap_bytes());
        Change {
            bytes: CHANGE_BYTES + key.len() + values.sum::<usize>(),
            layout: Arc::clone(layout),
            old,
            new,
        }
    }
}

/// What is to be written, by key.
type Changes = BTreeMap<String, Change>;

/// All servers that tables are kept in; tables of one server are committed together.
#[derive(Default)]
pub(crate) struct Servers(Mutex<HashMap<String, Weak<Mutex<Server>>>>);

impl Servers {
    fn find(&self, name: &str, make: impl FnOnce() -> Server) -> Arc<Mutex<Server>> {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(name).and_then(Weak::upgrade) {
            return server;
        }
        servers.retain(|_, server| server.strong_count() > 0);
        let server = Arc::new(Mutex::new(make()));
        servers.insert(name.to_owned(), Arc::downgrade(&server));
        server
    }
}

/// One server: the connection, and what is to be written by all tables.
struct Server {
    host: String,
    port: u16,
    password: Option<String>,
    connection: Option<Connection>,
    /// Apps that keep tables here; each epoch is noted for all of them.
    apps: Vec<String>,
    changes: Changes,
    /// What they take in memory.
    held: usize,
    is_in_epoch: bool,
    /// Each commit notes the epoch with what it writes.
    notes_epochs: bool,
    /// An epoch whose commit was sent and not answered.
    in_doubt: Option<u64>,
    /// The epoch committed last by this process.
    committed: Option<u64>,
    /// Records that were asked for at once, for the call at hand.
    known: HashMap<String, Option<Row>>,
}

/// How the records of a table lie in Redis.
struct Layout {
    /// Prefix of its keys.
    name: String,
    schema: Schema,
    primary_key: Vec<usize>,
    indexes: Vec<usize>,
    ttl: Option<u64>,
    renews_on_update: bool,
    renews_on_read: bool,
    ids: Ids,
}

pub(super) struct RedisTable {
    app: String,
    layout: Arc<Layout>,
    server: Arc<Mutex<Server>>,
    operations: HashMap<OperationId, Operation>,
}

/// Where the last epoch of an app is noted.
fn epoch_key(app: &str) -> String {
    format!("headwater.epoch:{app}")
}

impl RedisTable {
    pub fn new(setup: &StoreSetup<'_>) -> Result<RedisTable, Error> {
        let schema = setup.table.schema.clone();
        let refused = |message: String| Error::refused(format!("table '{}'", schema.name), message);
        let Some(own) = &setup.table.store else {
            return Err(refused("it is kept in memory".into()));
        };
        if let Some(attribute) = schema.attributes.iter().find(|a| a.ty == Type::Object) {
            return Err(refused(format!(
                "attribute '{}' is an object: Redis keeps texts",
                attribute.name
            )));
        }
        if own
            .option("cluster.mode")
            .is_some_and(|mode| scalar::parse_bool(mode.trim()))
        {
            return Err(refused(
                "clusters are not supported: name one server in 'nodes'".into(),
            ));
        }
        let spec = |name| {
            let store = &super::CONNECTORS[0];
            store.option(name).expect("the spec has each option")
        };
        // Siddhi's default has a password; who names the host by itself names its own.
        let default = match own.option("host") {
            None => "localhost:6379@root",
            Some(_) => "localhost:6379",
        };
        let node = own.option("nodes").unwrap_or(default).trim();
        // The password may have any characters but the first '@'.
        let (address, password) = node.split_once('@').unwrap_or((node, ""));
        let (host, port) = split_port(address)
            .filter(|(host, _)| !host.is_empty() && !host.contains(','))
            .ok_or_else(|| {
                refused(format!(
                    "option 'nodes' has '{address}': write host:port@password of one server"
                ))
            })?;
        let port = match own.option("port") {
            None => port.unwrap_or(6379),
            Some(text) => number_of(spec("port"), "port", text).map_err(refused)?,
        };
        let ttl = spec("ttl.seconds");
        let text = own.option("ttl.seconds").unwrap_or(ttl.default);
        let ttl: i64 = number_of(ttl, "ttl.seconds", text).map_err(refused)?;
        let ttl = u64::try_from(ttl).ok();
        let flag = |name| {
            own.option(name)
                .is_some_and(|text| scalar::parse_bool(text.trim()))
        };
        let name = own.option("table.name").unwrap_or(&schema.name).trim();
        let password = own.option("password").unwrap_or(password);
        let host = own.option("host").unwrap_or(host).trim().to_owned();
        let password = Some(password.to_owned()).filter(|password| !password.is_empty());
        // As the server of apps tells databases apart.
        let address = own.option("nodes").map_or_else(
            || format!("{:?}", own.options),
            |nodes| nodes.trim().to_owned(),
        );
        let servers = setup.environment.shared.get::<Servers>();
        let server = servers.find(&format!("{address} {host}:{port}"), || Server {
            host,
            port,
            password,
            connection: None,
            apps: Vec::new(),
            changes: Changes::new(),
            held: 0,
            is_in_epoch: false,
            notes_epochs: setup.environment.state.is_some(),
            in_doubt: None,
            committed: None,
            known: HashMap::new(),
        });
        let app = setup.environment.app.clone();
        let mut known = server.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.apps.contains(&app) {
            known.apps.push(app.clone());
        }
        drop(known);
        Ok(RedisTable {
            app,
            server,
            operations: HashMap::new(),
            layout: Arc::new(Layout {
                name: name.to_owned(),
                primary_key: setup.table.primary_key.clone(),
                indexes: setup.table.indexes.iter().flatten().copied().collect(),
                ttl,
                renews_on_update: flag("ttl.on.update"),
                renews_on_read: flag("ttl.on.read"),
                ids: Ids::default(),
                schema,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layout {
    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(format!("table '{}'", self.schema.name), cause)
    }

    fn text(&self, value: &Value) -> String {
        let mut text = String::new();
        event::text::write_value(&mut text, value);
        text
    }

    fn key_of(&self, row: &[Value]) -> String {
        if self.primary_key.is_empty() {
            return format!("{}:{}", self.name, self.ids.next());
        }
        let values = self.primary_key.iter().map(|at| self.text(&row[*at]));
        format!("{}:{}", self.name, values.collect::<Vec<_>>().join(":"))
    }

    fn index_key(&self, index: usize, value: &Value) -> String {
        let attribute = &self.schema.attributes[index].name;
        format!("{}:{attribute}:{}", self.name, self.text(value))
    }

    /// The key of the only record that can satisfy a condition, where it names all of the primary key.
    fn key_by(&self, equal: &HashMap<usize, Value>) -> Option<String> {
        let values = self.primary_key.iter().map(|at| equal.get(at));
        let values: Option<Vec<String>> = values.map(|v| v.map(|v| self.text(v))).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(format!("{}:{}", self.name, values.join(":")))
    }

    /// A record from the pairs of its hash; `None` for an empty one.
    fn row(&self, reply: &Reply) -> Option<Row> {
        let Reply::Array(parts) = reply else {
            return None;
        };
        if parts.is_empty() {
            return None;
        }
        let of = |name: &str| {
            let found = parts
                .chunks_exact(2)
                .find(|pair| text(&pair[0]) == Some(name));
            found.and_then(|pair| text(&pair[1]))
        };
        let attributes = self.schema.attributes.iter();
        Some(
            attributes
                .map(|a| of(&a.name).map_or(Value::Null, |text| read(a.ty, text)))
                .collect(),
        )
    }

    /// The attributes that a condition asks to be equal to a value, which is taken in their type.
    fn equalities(
        &self,
        on: &Term,
        parameters: &[Value],
        found: &mut HashMap<usize, Value>,
        depth: u32,
    ) {
        if depth == DEPTH_MAX {
            return;
        }
        match &on.kind {
            TermKind::And(left, right) => {
                self.equalities(left, parameters, found, depth + 1);
                self.equalities(right, parameters, found, depth + 1);
            }
            TermKind::Compare(CompareOp::Equal, left, right) => {
                for (column, other) in [(left, right), (right, left)] {
                    let TermKind::Column(at) = column.kind else {
                        continue;
                    };
                    if !matches!(other.kind, TermKind::Parameter(_) | TermKind::Constant(_)) {
                        continue;
                    }
                    let value = value(other, &[], parameters);
                    if let Some(value) = in_type(self.schema.attributes[at].ty, value) {
                        found.insert(at, value);
                    }
                }
            }
            _ => {}
        }
    }

    fn commands(&self, key: &str, change: &Change, commands: &mut Vec<Cmd>) {
        let sets = |row: &Option<Row>| -> Vec<String> {
            let row = row.iter();
            let of = |row: &Row| -> Vec<String> {
                let sets = self.indexes.iter().map(|at| self.index_key(*at, &row[*at]));
                sets.collect()
            };
            row.flat_map(of).collect()
        };
        let (old, new) = (sets(&change.old), sets(&change.new));
        for set in old.iter().filter(|set| !new.contains(set)) {
            commands.push(command(&["SREM", set, key]));
        }
        let Some(row) = &change.new else {
            commands.push(command(&["DEL", key]));
            return;
        };
        let mut hash = command(&["HSET", key]);
        for (attribute, value) in self.schema.attributes.iter().zip(row) {
            hash.arg(&attribute.name).arg(self.text(value));
        }
        commands.push(hash);
        for set in &new {
            commands.push(command(&["SADD", set, key]));
        }
        let is_new = change.old.is_none();
        if let Some(ttl) = self.ttl.filter(|_| is_new || self.renews_on_update) {
            let seconds = ttl.to_string();
            for key in new.iter().map(String::as_str).chain([key]) {
                commands.push(command(&["EXPIRE", key, &seconds]));
            }
        }
    }
}

impl Server {
    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(format!("writing to {}", self.peer()), cause)
    }

    fn peer(&self) -> String {
        format!("'redis://{}:{}'", self.host, self.port)
    }

    /// Asks, on a new connection where there is none. A connection that failed is not used again.
    fn ask(&mut self, commands: Vec<Cmd>) -> Result<Vec<Reply>, Error> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let peer = self.peer();
        let unavailable = |error: redis::RedisError| Error::unavailable(peer.clone(), error);
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.host, self.port, self.password.as_deref())
                .map_err(unavailable)?,
        };
        let replies = connection.ask(commands).map_err(unavailable)?;
        self.connection = Some(connection);
        match replies.iter().find_map(refusal) {
            Some(cause) if cause.starts_with("LOADING") => Err(Error::unavailable(peer, cause)),
            Some(cause) => Err(Error::failed(format!("asking {peer}"), cause)),
            None => Ok(replies),
        }
    }

    /// The records of these keys that are there, as Redis has them.
    fn fetch(&mut self, layout: &Layout, keys: &[String]) -> Result<Vec<(String, Row)>, Error> {
        let mut found = Vec::new();
        for keys in keys.chunks(KEYS) {
            let mut commands: Vec<Cmd> =
                keys.iter().map(|key| command(&["HGETALL", key])).collect();
            if layout.renews_on_read
                && let Some(ttl) = layout.ttl
            {
                let seconds = ttl.to_string();
                let renew = |key: &String| command(&["EXPIRE", key, &seconds]);
                commands.extend(keys.iter().map(renew));
            }
            let replies = self.ask(commands)?;
            for (key, reply) in keys.iter().zip(&replies) {
                if let Some(row) = layout.row(reply) {
                    found.push((key.clone(), row));
                }
            }
        }
        Ok(found)
    }

    /// Asks for records at once that will be asked for one after the other.
    fn foresee(&mut self, layout: &Layout, mut keys: Vec<String>) -> Result<(), Error> {
        self.known.clear();
        keys.sort();
        keys.dedup();
        keys.retain(|key| !self.changes.contains_key(key));
        let found = self.fetch(layout, &keys)?;
        self.known = keys.into_iter().map(|key| (key, None)).collect();
        self.known
            .extend(found.into_iter().map(|(key, row)| (key, Some(row))));
        Ok(())
    }

    /// All keys of records.
    fn scan(&mut self, layout: &Layout) -> Result<Vec<String>, Error> {
        let pattern: String = layout
            .name
            .chars()
            .flat_map(|c| {
                let escape = matches!(c, '*' | '?' | '[' | ']' | '\\').then_some('\\');
                escape.into_iter().chain([c])
            })
            .chain(":*".chars())
            .collect();
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let scan = [
                "SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000", "TYPE", "hash",
            ];
            let mut replies = self.ask(vec![command(&scan)])?;
            let Some(Reply::Array(parts)) = replies.pop() else {
                return Err(layout.failed("unexpected answer to SCAN"));
            };
            let [next, Reply::Array(found)] = &parts[..] else {
                return Err(layout.failed("unexpected answer to SCAN"));
            };
            keys.extend(found.iter().filter_map(|key| text(key).map(str::to_owned)));
            text(next).unwrap_or("0").clone_into(&mut cursor);
            if cursor == "0" {
                // A key may come twice.
                keys.sort();
                keys.dedup();
                return Ok(keys);
            }
        }
    }

    fn members(&mut self, set: &str) -> Result<Vec<String>, Error> {
        let reply = self.ask(vec![command(&["SMEMBERS", set])])?.pop();
        let Some(Reply::Array(found)) = reply else {
            return Ok(Vec::new());
        };
        let keys = found.iter().filter_map(text);
        Ok(keys.map(str::to_owned).collect())
    }

    /// The records that satisfy a condition, by key, with the changes so far.
    fn find(
        &mut self,
        layout: &Arc<Layout>,
        on: Option<&Term>,
        parameters: &[Value],
        changes: &Changes,
    ) -> Result<Vec<(String, Row)>, Error> {
        let mut equal = HashMap::new();
        if let Some(on) = on {
            layout.equalities(on, parameters, &mut equal, 0);
        }
        if let Some(key) = layout.key_by(&equal) {
            let row = self.current(layout, &key, changes)?;
            let row = row.filter(|row| on.is_none_or(|on| holds(on, row, parameters)));
            return Ok(row.map(|row| (key, row)).into_iter().collect());
        }
        let index = layout.indexes.iter();
        let mut index = index.filter_map(|at| Some((*at, equal.get(at)?)));
        let keys = match index.next() {
            Some((at, value)) => self.members(&layout.index_key(at, value))?,
            None => self.scan(layout)?,
        };
        let unchanged: Vec<String> = keys
            .into_iter()
            .filter(|key| !changes.contains_key(key) && !self.changes.contains_key(key))
            .collect();
        let mut found: BTreeMap<String, Row> =
            self.fetch(layout, &unchanged)?.into_iter().collect();
        let own = |(_, change): &(&String, &Change)| Arc::ptr_eq(&change.layout, layout);
        for (key, change) in self.changes.iter().chain(changes).filter(own) {
            match &change.new {
                Some(row) => found.insert(key.clone(), row.clone()),
                None => found.remove(key),
            };
        }
        found.retain(|_, row| on.is_none_or(|on| holds(on, row, parameters)));
        Ok(found.into_iter().collect())
    }

    /// The record of a key, with the changes so far.
    fn current(
        &mut self,
        layout: &Layout,
        key: &str,
        changes: &Changes,
    ) -> Result<Option<Row>, Error> {
        if let Some(change) = changes.get(key).or_else(|| self.changes.get(key)) {
            return Ok(change.new.clone());
        }
        if let Some(known) = self.known.get(key) {
            return Ok(known.clone());
        }
        let found = self.fetch(layout, &[key.to_owned()])?.pop();
        Ok(found.map(|(_, row)| row))
    }

    fn put(&mut self, layout: &Arc<Layout>, row: Row, changes: &mut Changes) -> Result<(), Error> {
        if let Some(at) = row.iter().position(|value| *value == Value::Null) {
            let attribute = &layout.schema.attributes[at].name;
            return Err(layout.failed(format!(
                "attribute '{attribute}' is null: Redis keeps texts"
            )));
        }
        let key = layout.key_of(&row);
        let has_key = !layout.primary_key.is_empty();
        if has_key && self.current(layout, &key, changes)?.is_some() {
            return Err(layout.failed(format!("a record with key '{key}' already exists")));
        }
        self.change(layout, key, None, Some(row), changes);
        Ok(())
    }

    /// Notes a change; `old` is the record as it was before this one.
    fn change(
        &self,
        layout: &Arc<Layout>,
        key: String,
        old: Option<Row>,
        new: Option<Row>,
        changes: &mut Changes,
    ) {
        let first = match (changes.get(&key), self.changes.get(&key)) {
            (Some(change), _) | (None, Some(change)) => change.old.clone(),
            (None, None) => old,
        };
        let change = Change::new(layout, &key, first, new);
        changes.insert(key, change);
    }

    fn update(
        &mut self,
        layout: &Arc<Layout>,
        set: &[(usize, Term)],
        on: &Term,
        parameters: &[Value],
        changes: &mut Changes,
    ) -> Result<u64, Error> {
        let found = self.find(layout, Some(on), parameters, changes)?;
        let count = found.len() as u64;
        for (key, old) in found {
            let mut new = old.clone();
            for (at, term) in set {
                new[*at] = value(term, &old, parameters);
            }
            if layout.primary_key.iter().any(|at| new[*at] != old[*at]) {
                return Err(layout.failed("the primary key of a record cannot change in Redis"));
            }
            if let Some(at) = new.iter().position(|value| *value == Value::Null) {
                let attribute = &layout.schema.attributes[at].name;
                return Err(layout.failed(format!(
                    "attribute '{attribute}' is null: Redis keeps texts"
                )));
            }
            self.change(layout, key, Some(old), Some(new), changes);
        }
        Ok(count)
    }

    fn write(
        &mut self,
        layout: &Arc<Layout>,
        kind: &OperationKind,
        parameters: &[Value],
        changes: &mut Changes,
        written: &mut Written,
    ) -> Result<(), Error> {
        let width = layout.schema.attributes.len();
        match kind {
            OperationKind::Insert => {
                self.put(layout, parameters[..width].to_vec(), changes)?;
                written.inserted += 1;
            }
            OperationKind::Delete { on } => {
                for (key, old) in self.find(layout, Some(on), parameters, changes)? {
                    self.change(layout, key, Some(old), None, changes);
                    written.deleted += 1;
                }
            }
            OperationKind::Update { set, on } => {
                written.updated += self.update(layout, set, on, parameters, changes)?;
            }
            OperationKind::UpdateOrInsert { set, on } => {
                match self.update(layout, set, on, parameters, changes)? {
                    0 => {
                        self.put(layout, parameters[..width].to_vec(), changes)?;
                        written.inserted += 1;
                    }
                    count => written.updated += count,
                }
            }
            OperationKind::Find { .. } | OperationKind::Contains { .. } => {}
        }
        Ok(())
    }

    /// Keeps changes for the commit, or makes them now where no epoch is open.
    fn keep(&mut self, changes: Changes) -> Result<(), Error> {
        if !self.is_in_epoch {
            return self.apply(&changes, Vec::new());
        }
        for (key, change) in changes {
            self.held += change.bytes;
            if let Some(before) = self.changes.insert(key, change) {
                self.held -= before.bytes;
            }
        }
        Ok(())
    }

    /// Makes the changes that are kept where they are many and need not wait for the commit. What the
    /// server refuses stays, for the commit to say so.
    fn make_room(&mut self) -> Result<(), Error> {
        if self.notes_epochs || self.held < HELD_MAX {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        match self.apply(&changes, Vec::new()) {
            Ok(()) => {
                self.held = 0;
                Ok(())
            }
            Err(error) => {
                self.changes = changes;
                if error.is_unavailable() {
                    Err(error)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Makes changes, all or none, and what follows with them. They are sent part by part: the server
    /// keeps them until it is told to do them all.
    fn apply(&mut self, changes: &Changes, more: Vec<Cmd>) -> Result<(), Error> {
        if changes.is_empty() && more.is_empty() {
            return Ok(());
        }
        let (mut part, mut bytes) = (vec![command(&["MULTI"])], 0);
        for (key, change) in changes {
            change.layout.commands(key, change, &mut part);
            bytes += change.bytes;
            if bytes >= PART_BYTES {
                self.queue(std::mem::take(&mut part))?;
                bytes = 0;
            }
        }
        part.extend(more);
        part.push(command(&["EXEC"]));
        match self.queue(part)?.pop() {
            Some(Reply::Array(replies)) => {
                let refused = replies.iter().find_map(refusal);
                refused.map_or(Ok(()), |cause| Err(self.failed(cause)))
            }
            _ => Err(self.failed("the server did not do the writes")),
        }
    }

    /// Sends a part of a transaction; where one is refused the transaction ends with its connection.
    fn queue(&mut self, part: Vec<Cmd>) -> Result<Vec<Reply>, Error> {
        self.ask(part).inspect_err(|_| self.connection = None)
    }

    /// The last epoch of an app, and the state that it belongs to.
    fn noted(&mut self, app: &str) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let ask = command(&["HMGET", &epoch_key(app), "epoch", "state"]);
        let reply = self.ask(vec![ask])?.pop();
        let Some(Reply::Array(parts)) = reply else {
            return Ok(None);
        };
        Ok(match &parts[..] {
            [epoch, Reply::BulkString(state)] => {
                let epoch = text(epoch).and_then(|text| text.parse().ok());
                epoch.map(|epoch| (epoch, state.clone()))
            }
            _ => None,
        })
    }
}

/// A value of a table from its text; null where it is none of that type.
fn read(ty: Type, text: &str) -> Value {
    match ty {
        Type::String => Value::str(text),
        Type::Int => text.parse().map_or(Value::Null, Value::Int),
        Type::Long => text.parse().map_or(Value::Null, Value::Long),
        Type::Float => number(text).map_or(Value::Null, |v| Value::Float(v as f32)),
        Type::Double => number(text).map_or(Value::Null, Value::Double),
        Type::Bool => Value::Bool(scalar::parse_bool(text)),
        Type::Object => Value::Null,
    }
}

fn number(text: &str) -> Option<f64> {
    match text {
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

/// A value as the type of an attribute has it, where both say the same; then their texts are equal
/// where they are.
fn in_type(ty: Type, value: Value) -> Option<Value> {
    match (ty, value) {
        (Type::Int, Value::Long(v)) => i32::try_from(v).ok().map(Value::Int),
        (Type::Long, Value::Int(v)) => Some(Value::Long(v.into())),
        (Type::Int, value @ Value::Int(_))
        | (Type::Long, value @ Value::Long(_))
        | (Type::String, value @ Value::Str(_))
        | (Type::Bool, value @ Value::Bool(_)) => Some(value),
        // Numbers with a point have several texts, and NaN is equal to nothing.
        _ => None,
    }
}

impl RedisTable {
    /// Does one call of the server; what it changes is kept where all of it worked.
    fn change_all(
        &self,
        keys: Vec<String>,
        work: impl FnOnce(&mut Server, &mut Changes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut server = self.lock();
        server.make_room()?;
        server.foresee(&self.layout, keys)?;
        let mut changes = Changes::new();
        let worked = work(&mut server, &mut changes);
        server.known.clear();
        worked?;
        server.keep(changes)
    }

    /// The keys that an operation will ask for, one after the other.
    fn keys_of(&self, kind: &OperationKind, parameters: &Batch) -> Vec<String> {
        let on = match kind {
            OperationKind::Find { on } => on.as_ref(),
            OperationKind::Insert => None,
            OperationKind::Contains { on }
            | OperationKind::Delete { on }
            | OperationKind::Update { on, .. }
            | OperationKind::UpdateOrInsert { on, .. } => Some(on),
        };
        let Some(on) = on else {
            return Vec::new();
        };
        let key = |row: usize| {
            let mut equal = HashMap::new();
            let parameters = parameters.row(row);
            self.layout.equalities(on, &parameters, &mut equal, 0);
            self.layout.key_by(&equal)
        };
        (0..parameters.len).map_while(key).collect()
    }
}

impl Store for RedisTable {
    fn connect(&mut self) -> Result<(), Error> {
        self.lock().ask(vec![command(&["PING"])]).map(|_| ())
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        let is_good = match &operation.kind {
            OperationKind::Insert => true,
            OperationKind::Find { on } => on.as_ref().is_none_or(is_plain),
            OperationKind::Contains { on } | OperationKind::Delete { on } => is_plain(on),
            OperationKind::Update { set, on } | OperationKind::UpdateOrInsert { set, on } => {
                is_plain(on) && set.iter().all(|(_, term)| is_plain(term))
            }
        };
        if !is_good {
            return Err(Error::refused(
                format!("table '{}'", self.layout.schema.name),
                "a condition or new value calls a function of the table's attributes, or is nested too \
                 deep: Redis knows none",
            ));
        }
        self.operations.insert(id, operation.clone());
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        let layout = &self.layout;
        let keys = match layout.primary_key.is_empty() {
            true => Vec::new(),
            false => (0..batch.len)
                .map(|row| layout.key_of(&batch.row(row)))
                .collect(),
        };
        self.change_all(keys, |server, changes| {
            (0..batch.len).try_for_each(|row| server.put(layout, batch.row(row), changes))
        })
    }

    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error> {
        let Some(operation) = self.operations.get(&id).cloned() else {
            return Err(self
                .layout
                .failed(format!("operation {id} was not prepared")));
        };
        let (layout, none) = (&self.layout, Changes::new());
        let keys = self.keys_of(&operation.kind, parameters);
        match &operation.kind {
            OperationKind::Find { on } => {
                let mut server = self.lock();
                server.foresee(layout, keys)?;
                let attributes = layout.schema.attributes.iter();
                let mut builders: Vec<ColumnBuilder> =
                    attributes.map(|a| ColumnBuilder::new(a.ty)).collect();
                let (mut ends, mut count) = (Vec::new(), 0_u32);
                for row in 0..parameters.len {
                    let found = server.find(layout, on.as_ref(), &parameters.row(row), &none)?;
                    for (_, found) in found {
                        for (builder, value) in builders.iter_mut().zip(&found) {
                            builder.push(value);
                        }
                        count += 1;
                    }
                    ends.push(count);
                }
                let columns: Vec<Column> =
                    builders.into_iter().map(ColumnBuilder::finish).collect();
                let batch = Batch::new(columns, count as usize, Times::Same(-1), Chunks::One, -1);
                Ok(Answer::Rows { batch, ends })
            }
            OperationKind::Contains { on } => {
                let mut server = self.lock();
                server.foresee(layout, keys)?;
                let mut answers = Vec::new();
                for row in 0..parameters.len {
                    let found = server.find(layout, Some(on), &parameters.row(row), &none)?;
                    answers.push(!found.is_empty());
                }
                Ok(Answer::Contains(answers))
            }
            kind => {
                let mut written = Written::default();
                self.change_all(keys, |server, changes| {
                    (0..parameters.len).try_for_each(|row| {
                        let row = parameters.row(row);
                        server.write(layout, kind, &row, changes, &mut written)
                    })
                })?;
                Ok(Answer::Written(written))
            }
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        self.lock().connection = None;
        Ok(())
    }
}

impl Epochs for RedisTable {
    fn begin(&mut self) -> Result<(), Error> {
        self.lock().is_in_epoch = true;
        Ok(())
    }

    /// A second call for the same epoch, for another table of the server, does nothing. Epoch 0 is not
    /// noted.
    fn commit(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        let mut server = self.lock();
        let noted = epoch > 0 && server.committed == Some(epoch);
        // One whose answer was lost was noted with what it has written, if it was done.
        let is_done = noted
            || server.in_doubt == Some(epoch)
                && server.noted(&self.app)?.as_ref() == Some(&(epoch, positions.to_vec()));
        if !is_done {
            let mut notes = Vec::new();
            if epoch > 0 {
                for app in &server.apps {
                    let mut note = command(&["HSET", &epoch_key(app), "epoch"]);
                    note.arg(epoch).arg("state").arg(positions);
                    notes.push(note);
                }
            }
            let changes = std::mem::take(&mut server.changes);
            if let Err(error) = server.apply(&changes, notes) {
                server.changes = changes;
                server.in_doubt = (epoch > 0 && error.is_unavailable()).then_some(epoch);
                return Err(error);
            }
        }
        if !noted {
            server.changes.clear();
            server.held = 0;
        }
        server.in_doubt = None;
        server.committed = Some(epoch).filter(|epoch| *epoch > 0);
        server.is_in_epoch = false;
        Ok(())
    }

    fn abort(&mut self) -> Result<(), Error> {
        let mut server = self.lock();
        server.changes.clear();
        server.held = 0;
        server.is_in_epoch = false;
        Ok(())
    }

    fn held(&self) -> usize {
        self.lock().held
    }

    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        self.lock().noted(&self.app)
    }
}
