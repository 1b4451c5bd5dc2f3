//! One table in a collection of MongoDB (`MongoTable`).

use std::collections::HashMap;

use event::{Batch, Chunks, Column, ColumnBuilder, Schema, Times, Value};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc, serialize_to_vec};
use mongodb::error::{ErrorKind, InsertManyError};
use plan::Table;
use plan::store::{Operation, OperationId, OperationKind, Term, TermKind};

use super::filter::{Filter, is_known};
use super::row::{from_document, to_bson, to_document, weight};
use super::server::Servers;
use super::server::Shared;
use super::target::Target;
use connect::component::{Answer, Difference, Epochs, Refused, Store, StoreSetup, Written};
use connect::condition::{holds, is_plain, value};
use connect::error::Error;

/// Statements of one command; a server takes no more than 100,000, and no more bytes than a document
/// may have, 16 MiB.
const STATEMENTS: usize = 1000;
const COMMAND_BYTES: usize = 4 << 20;

/// Rows that are inserted at once.
const ROWS: usize = 10_000;

/// Questions that are on their way at once.
pub(super) const QUESTIONS: usize = 8;

/// The largest document.
const DOCUMENT_BYTES: usize = 16 << 20;

/// The key of every document.
const ID: &str = "_id";

pub(super) struct MongoTable {
    app: String,
    schema: Schema,
    collection: String,
    primary_key: Vec<usize>,
    /// Commands that make the indexes.
    indexes: Vec<Document>,
    server: Shared,
    operations: HashMap<OperationId, Operation>,
    /// Documents whose insertion was not answered: sent again they have the same ids.
    in_doubt: Vec<Document>,
    /// Rows come again that were written behind the last checkpoint of the run before.
    is_resumed: bool,
    refused: Vec<Refused>,
}

/// A statement of a command, and the row of the batch that it is for.
struct Statement {
    row: usize,
    document: Document,
    bytes: usize,
}

/// What statements of one kind are collected as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Update,
    Delete,
}

impl MongoTable {
    pub fn new(setup: &StoreSetup<'_>) -> Result<MongoTable, Error> {
        let schema = setup.table.schema.clone();
        let refused = |message: String| Error::refused(format!("table '{}'", schema.name), message);
        let Some(own) = &setup.table.store else {
            return Err(refused("it is kept in memory".into()));
        };
        let is_no_field = |name: &str| name.contains(['.', '\0']) || name.starts_with('$');
        let bad = schema.attributes.iter().find(|a| is_no_field(&a.name));
        if let Some(attribute) = bad {
            return Err(refused(format!(
                "attribute '{}' cannot be a MongoDB field: a name must not contain '.' or begin \
                 with '$'",
                attribute.name
            )));
        }
        let option = |name: &str| own.option(name).map(str::to_owned);
        let target = Target::new(option, setup.environment).map_err(refused)?;
        let collection = own.option("collection.name").map_or("", str::trim);
        let collection = match collection {
            "" => schema.name.clone(),
            name => name.to_owned(),
        };
        let app = setup.environment.app.clone();
        let network = setup.environment.network();
        let servers = setup.environment.shared.get::<Servers>();
        let server = servers.find(target, &network);
        server.lock().add_app(&app);
        Ok(MongoTable {
            indexes: indexes(setup.table).map_err(refused)?,
            primary_key: setup.table.primary_key.clone(),
            app,
            schema,
            collection,
            server,
            operations: HashMap::new(),
            in_doubt: Vec::new(),
            is_resumed: false,
            refused: Vec::new(),
        })
    }

    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(format!("writing to table '{}'", self.schema.name), cause)
    }

    fn refuse(&mut self, row: usize, cause: &str) {
        let cause = self.failed(cause);
        self.refused.push(Refused { row, cause });
    }

    // ---- reading ----

    /// What of the documents is of interest.
    fn projection(&self) -> Document {
        let names = self.schema.attributes.iter().map(|a| &a.name);
        let mut fields: Document = names.map(|name| (name.clone(), Bson::Int32(1))).collect();
        fields.entry(ID.to_owned()).or_insert(Bson::Int32(1));
        fields
    }

    /// The documents that each of the filters finds, at most so many each (0: all).
    fn find_all(&self, filters: Vec<Document>, limit: i64) -> Result<Vec<Vec<Document>>, Error> {
        let (name, fields) = (self.collection.clone(), self.projection());
        self.server.lock().ask(|database| async move {
            let collection = database.collection::<Document>(&name);
            let asked = filters.into_iter().map(|filter| {
                let find = collection
                    .find(filter)
                    .projection(fields.clone())
                    .limit(limit);
                async move { find.await?.try_collect().await }
            });
            stream::iter(asked).buffered(QUESTIONS).try_collect().await
        })
    }

    /// The rows of documents that satisfy a condition.
    fn satisfying<'a>(
        &'a self,
        documents: &'a [Document],
        on: Option<&'a Term>,
        is_exact: bool,
        parameters: &'a [Value],
    ) -> impl Iterator<Item = (&'a Document, Vec<Value>)> {
        let rows = documents
            .iter()
            .map(|d| (d, from_document(&self.schema, d)));
        rows.filter(move |(_, row)| is_exact || on.is_none_or(|on| holds(on, row, parameters)))
    }

    fn filters(&self, on: Option<&Term>, batch: &Batch) -> Vec<Filter> {
        let of = |row| match on {
            Some(on) => Filter::new(&self.schema, on, &batch.row(row)),
            None => Filter::all(),
        };
        (0..batch.len).map(of).collect()
    }

    fn find(&self, on: Option<&Term>, batch: &Batch) -> Result<Answer, Error> {
        let filters = self.filters(on, batch);
        let is_exact = filters.iter().all(|filter| filter.is_exact);
        let found = self.find_all(filters.into_iter().map(|f| f.document).collect(), 0)?;
        let attributes = self.schema.attributes.iter();
        let mut builders: Vec<ColumnBuilder> =
            attributes.map(|a| ColumnBuilder::new(a.ty)).collect();
        let (mut ends, mut count) = (Vec::new(), 0_u32);
        for (at, documents) in found.iter().enumerate() {
            let parameters = batch.row(at);
            for (_, row) in self.satisfying(documents, on, is_exact, &parameters) {
                for (builder, value) in builders.iter_mut().zip(&row) {
                    builder.push(value);
                }
                count += 1;
            }
            ends.push(count);
        }
        let columns: Vec<Column> = builders.into_iter().map(ColumnBuilder::finish).collect();
        let batch = Batch::new(columns, count as usize, Times::Same(-1), Chunks::One, -1);
        Ok(Answer::Rows { batch, ends })
    }

    fn contains(&self, on: &Term, batch: &Batch) -> Result<Answer, Error> {
        let filters = self.filters(Some(on), batch);
        let is_exact = filters.iter().all(|filter| filter.is_exact);
        let documents = filters.into_iter().map(|f| f.document).collect();
        let found = self.find_all(documents, i64::from(is_exact))?;
        let answers = found.iter().enumerate().map(|(at, documents)| {
            let parameters = batch.row(at);
            let mut rows = self.satisfying(documents, Some(on), is_exact, &parameters);
            rows.next().is_some()
        });
        Ok(Answer::Contains(answers.collect()))
    }

    // ---- inserting ----

    /// Inserts documents, each for a row of the batch; how many arrived.
    fn put(&mut self, rows: &[usize], mut documents: Vec<Document>) -> Result<u64, Error> {
        let own = std::mem::take(&mut self.in_doubt);
        let is_again = own.len() == documents.len()
            && own.iter().zip(&documents).all(|(a, b)| is_same_row(a, b));
        let there = match is_again {
            true => {
                documents = own;
                self.there(&documents, &[ID.to_owned()])?
            }
            false => self.there_from_before(&documents)?,
        };
        let (mut count, mut left) = (0, Vec::new());
        for at in 0..documents.len() {
            if there.get(at) == Some(&true) {
                count += 1;
            } else if is_too_large(&documents[at]) {
                // The driver refuses it with all that are sent with it.
                self.refuse(rows[at], "the document is larger than 16 MiB");
            } else {
                left.push(at);
            }
        }
        for part in left.chunks(ROWS) {
            let sent: Vec<Document> = part.iter().map(|at| documents[*at].clone()).collect();
            let refusals = match self.send_documents(sent) {
                Ok(refusals) => refusals,
                Err(error) => {
                    if error.is_unavailable() {
                        self.in_doubt = documents;
                    }
                    return Err(error);
                }
            };
            count += (part.len() - refusals.len()) as u64;
            for (at, cause) in refusals {
                self.refuse(rows[part[at]], &cause);
            }
        }
        Ok(count)
    }

    /// Which of the documents the server refuses, and why. Unordered: one that is refused does not hold
    /// up those behind it; the server takes them one after the other all the same.
    fn send_documents(&self, documents: Vec<Document>) -> Result<Vec<(usize, String)>, Error> {
        let name = self.collection.clone();
        self.server.lock().ask(|database| async move {
            let collection = database.collection::<Document>(&name);
            let Err(error) = collection.insert_many(documents).ordered(false).await else {
                return Ok(Vec::new());
            };
            match &*error.kind {
                ErrorKind::InsertMany(InsertManyError {
                    write_errors: Some(refused),
                    write_concern_error: None,
                    ..
                }) => {
                    let refused = refused.iter().map(|e| (e.index, e.message.clone()));
                    Ok(refused.collect())
                }
                _ => Err(error),
            }
        })
    }

    /// After a restart: which of the rows were written behind the last checkpoint of the run before.
    /// Asked until a batch has none of them.
    fn there_from_before(&mut self, documents: &[Document]) -> Result<Vec<bool>, Error> {
        if !self.is_resumed || self.primary_key.is_empty() {
            return Ok(Vec::new());
        }
        let there = self.there(documents, &self.key_names())?;
        self.is_resumed = there.contains(&true);
        Ok(there)
    }

    fn key_names(&self) -> Vec<String> {
        let names = self.primary_key.iter();
        names
            .map(|at| self.schema.attributes[*at].name.clone())
            .collect()
    }

    /// Which of the documents are there under their keys, with the same values.
    fn there(&self, documents: &[Document], key: &[String]) -> Result<Vec<bool>, Error> {
        let key_of = |document: &Document| -> Document {
            let fields = key.iter();
            let of = |name: &String| document.get(name).cloned().unwrap_or(Bson::Null);
            fields.map(|name| (name.clone(), of(name))).collect()
        };
        let filters: Vec<Document> = documents
            .chunks(STATEMENTS)
            .map(|part| {
                let keys = part.iter().map(key_of);
                match key {
                    [name] => {
                        let values = keys.filter_map(|mut key| key.remove(name));
                        doc! {name: {"$in": values.collect::<Vec<Bson>>()}}
                    }
                    _ => doc! {"$or": keys.collect::<Vec<Document>>()},
                }
            })
            .collect();
        let found = self.find_all(filters, 0)?;
        let mut by_key: HashMap<String, Vec<Document>> = HashMap::new();
        for document in found.into_iter().flatten() {
            let key = key_of(&document).to_string();
            by_key.entry(key).or_default().push(document);
        }
        let is_there = |document: &Document| {
            let same = by_key.get(&key_of(document).to_string());
            same.is_some_and(|all| all.iter().any(|other| is_same_row(other, document)))
        };
        Ok(documents.iter().map(is_there).collect())
    }

    /// A row as a document with a key of its own, which the server would give it else.
    fn document(&self, row: &[Value]) -> Document {
        let fields = to_document(&self.schema, row);
        if fields.contains_key(ID) {
            return fields;
        }
        let mut document = doc! {ID: ObjectId::new()};
        document.extend(fields);
        document
    }

    // ---- changing ----

    /// Sends statements in their order, as few commands as can be; a statement that is refused is
    /// reported and the rest goes on behind it.
    fn send(
        &mut self,
        kind: Kind,
        statements: &mut Vec<Statement>,
        written: &mut Written,
    ) -> Result<(), Error> {
        let (verb, list) = match kind {
            Kind::Update => ("update", "updates"),
            Kind::Delete => ("delete", "deletes"),
        };
        let all = std::mem::take(statements);
        let mut from = 0;
        while from < all.len() {
            let mut bytes = 0;
            let fits = all[from..].iter().take(STATEMENTS).take_while(|statement| {
                bytes += statement.bytes;
                bytes <= COMMAND_BYTES || bytes == statement.bytes
            });
            let to = from + fits.count();
            let sent = all[from..to].iter().map(|s| s.document.clone());
            let sent: Vec<Document> = sent.collect();
            let command = doc! {verb: &self.collection, list: sent, "ordered": true};
            let reply = self.server.lock().write(command)?;
            let inserted = reply
                .get_array("upserted")
                .map_or(0, |list| list.len() as u64);
            let changed = number(&reply, "n").saturating_sub(inserted);
            written.inserted += inserted;
            match kind {
                Kind::Update => written.updated += changed,
                Kind::Delete => written.deleted += changed,
            }
            let refused = reply.get_array("writeErrors").ok();
            let first = refused.and_then(|list| list.first()?.as_document());
            from = match first {
                None => to,
                Some(error) => {
                    let at = from + number(error, "index") as usize;
                    let cause = error.get_str("errmsg").unwrap_or("the server refuses it");
                    self.refuse(all[at.min(to - 1)].row, cause);
                    at + 1
                }
            };
        }
        Ok(())
    }

    /// The documents that an operation means, for a condition or values that the server has no words
    /// for.
    fn meant(&self, filter: &Filter, on: &Term, parameters: &[Value]) -> Result<Meant, Error> {
        let found = self.find_all(vec![filter.document.clone()], 0)?;
        let documents = found.into_iter().next().unwrap_or_default();
        let rows = self.satisfying(&documents, Some(on), filter.is_exact, parameters);
        let keyed = rows.map(|(document, row)| {
            let id = document.get(ID).cloned().unwrap_or(Bson::Null);
            (id, row)
        });
        Ok(keyed.collect())
    }

    fn delete(&mut self, on: &Term, batch: &Batch) -> Result<Written, Error> {
        let (mut written, mut statements) = (Written::default(), Vec::new());
        for row in 0..batch.len {
            let parameters = batch.row(row);
            let filter = Filter::new(&self.schema, on, &parameters);
            let bytes = weight(&parameters);
            let query = match filter.is_exact {
                true => filter.document,
                false => {
                    // What is deleted before is not found.
                    self.send(Kind::Delete, &mut statements, &mut written)?;
                    let meant = self.meant(&filter, on, &parameters)?;
                    let ids: Vec<Bson> = meant.into_iter().map(|(id, _)| id).collect();
                    doc! {ID: {"$in": ids}}
                }
            };
            let document = doc! {"q": query, "limit": 0};
            statements.push(Statement {
                row,
                document,
                bytes,
            });
        }
        self.send(Kind::Delete, &mut statements, &mut written)?;
        Ok(written)
    }

    fn set(&self, set: &[(usize, Term)], row: &[Value], parameters: &[Value]) -> Document {
        let pairs = set.iter().map(|(at, term)| {
            let name = self.schema.attributes[*at].name.clone();
            (name, to_bson(&value(term, row, parameters)))
        });
        pairs.collect()
    }

    fn update(
        &mut self,
        set: &[(usize, Term)],
        on: &Term,
        batch: &Batch,
        inserts: bool,
    ) -> Result<Written, Error> {
        let (mut written, mut statements) = (Written::default(), Vec::new());
        let is_of_event = set.iter().all(|(_, term)| sees_no_row(term));
        let width = self.schema.attributes.len();
        for row in 0..batch.len {
            let parameters = batch.row(row);
            let filter = Filter::new(&self.schema, on, &parameters);
            let bytes = 2 * weight(&parameters);
            let own = parameters.get(..width).filter(|_| inserts);
            let is_simple = is_of_event && filter.is_exact && !set.is_empty();
            let upsert = own.map(|own| self.upsert(&filter, set, own, &parameters));
            if is_simple && upsert.as_ref().is_none_or(Option::is_some) {
                let mut change = doc! {"$set": self.set(set, &[], &parameters)};
                change.extend(upsert.flatten().unwrap_or_default());
                let document = doc! {
                    "q": filter.document, "u": change, "multi": true, "upsert": inserts,
                };
                statements.push(Statement {
                    row,
                    document,
                    bytes,
                });
                continue;
            }
            self.send(Kind::Update, &mut statements, &mut written)?;
            let meant = self.meant(&filter, on, &parameters)?;
            if let Some(own) = own.filter(|_| meant.is_empty()) {
                let document = self.document(own);
                written.inserted += self.put(&[row], vec![document])?;
                continue;
            }
            if set.is_empty() {
                written.updated += meant.len() as u64;
                continue;
            }
            statements.extend(meant.into_iter().map(|(id, old)| {
                let changed = self.set(set, &old, &parameters);
                let document = doc! {"q": {ID: id}, "u": {"$set": changed}};
                let bytes = bytes + weight(&old);
                Statement {
                    row,
                    document,
                    bytes,
                }
            }));
            // The next row may ask for what this one changes.
            self.send(Kind::Update, &mut statements, &mut written)?;
        }
        self.send(Kind::Update, &mut statements, &mut written)?;
        Ok(written)
    }

    /// What stands beside `$set` to have the server insert the event's own row where it finds none: only
    /// where what it makes of the condition and the new values is that row.
    fn upsert(
        &self,
        filter: &Filter,
        set: &[(usize, Term)],
        own: &[Value],
        parameters: &[Value],
    ) -> Option<Document> {
        let mut fields = to_document(&self.schema, own);
        for (name, equal) in filter.equalities()? {
            if fields.get(name) != Some(equal) {
                return None;
            }
        }
        for (at, term) in set {
            let name = &self.schema.attributes[*at].name;
            if fields.remove(name) != Some(to_bson(&value(term, own, parameters))) {
                return None;
            }
        }
        Some(match fields.is_empty() {
            true => Document::new(),
            false => doc! {"$setOnInsert": fields},
        })
    }

    /// A single row that is refused is refused as a whole.
    fn settled<T>(&mut self, rows: usize, done: T) -> Result<T, Error> {
        match rows {
            1 => self.refused.pop().map_or(Ok(done), |one| Err(one.cause)),
            _ => Ok(done),
        }
    }
}

/// Keys of documents with the rows that they hold.
type Meant = Vec<(Bson, Vec<Value>)>;

/// The fields of a table are equal; the key may be another, and there may be more.
fn is_same_row(there: &Document, own: &Document) -> bool {
    own.iter()
        .filter(|(name, _)| *name != ID)
        .all(|(name, value)| there.get(name).unwrap_or(&Bson::Null) == value)
}

/// Is it more than a server takes?
fn is_too_large(document: &Document) -> bool {
    let bytes = |value: &Bson| match value {
        Bson::String(text) => text.len(),
        Bson::Binary(binary) => binary.bytes.len(),
        _ => 0,
    };
    let texts: usize = document.values().map(bytes).sum();
    // To be sure it is encoded, which few documents need.
    texts > DOCUMENT_BYTES / 2
        && serialize_to_vec(document).is_ok_and(|all| all.len() > DOCUMENT_BYTES)
}

fn number(reply: &Document, name: &str) -> u64 {
    let number = match reply.get(name) {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        Some(Bson::Double(n)) => *n as i64,
        _ => 0,
    };
    u64::try_from(number).unwrap_or(0)
}

/// Depends a value on the event alone?
fn sees_no_row(term: &Term) -> bool {
    match &term.kind {
        TermKind::Column(_) => false,
        TermKind::Parameter(_) | TermKind::Constant(_) => true,
        TermKind::Not(inner) | TermKind::IsNull(inner) => sees_no_row(inner),
        TermKind::Arithmetic(_, left, right)
        | TermKind::Compare(_, left, right)
        | TermKind::And(left, right)
        | TermKind::Or(left, right) => sees_no_row(left) && sees_no_row(right),
        TermKind::Call { args, .. } => args.iter().all(sees_no_row),
    }
}

/// The unique index of the primary key, and those that `@Index` asks for.
fn indexes(table: &Table) -> Result<Vec<Document>, String> {
    let index = |attributes: &[usize], descending: &[bool]| {
        let mut keys = Document::new();
        for (place, at) in attributes.iter().enumerate() {
            let is_descending = descending.get(place).copied().unwrap_or(false);
            let name = table.schema.attributes[*at].name.clone();
            keys.insert(name, if is_descending { -1 } else { 1 });
        }
        let names = keys.iter().map(|(name, order)| format!("{name}_{order}"));
        let name = names.collect::<Vec<_>>().join("_");
        doc! {"key": keys, "name": name}
    };
    let mut found = Vec::new();
    if !table.primary_key.is_empty() {
        let mut key = index(&table.primary_key, &[]);
        key.insert("unique", true);
        found.push(key);
    }
    for (at, attributes) in table.indexes.iter().enumerate() {
        let detail = table.index_details.get(at).cloned().unwrap_or_default();
        let mut index = index(attributes, &detail.descending);
        if let Some(options) = &detail.options {
            let bad = |cause: String| {
                format!("'@Index' has the options {options}, which are no JSON of MongoDB: {cause}")
            };
            let more: Document =
                serde_json::from_str(options).map_err(|error| bad(error.to_string()))?;
            index.extend(more);
        }
        found.push(index);
    }
    Ok(found)
}

impl Store for MongoTable {
    fn probe(&mut self) -> Result<Vec<Difference>, Error> {
        let mut server = self.server.lock();
        server.ask(|database| async move { database.run_command(doc! {"ping": 1}).await })?;
        Ok(Vec::new())
    }

    fn connect(&mut self) -> Result<(), Error> {
        self.probe()?;
        if self.indexes.is_empty() {
            return Ok(());
        }
        let indexes = self.indexes.clone();
        let command = doc! {"createIndexes": &self.collection, "indexes": indexes};
        self.server.lock().write(command).map(drop)
    }

    fn prepare(&mut self, id: OperationId, operation: &Operation) -> Result<(), Error> {
        let is_good = |on: &Term| is_known(&self.schema, on);
        let is_good = match &operation.kind {
            OperationKind::Insert => true,
            OperationKind::Find { on } => on.as_ref().is_none_or(is_good),
            OperationKind::Contains { on } | OperationKind::Delete { on } => is_good(on),
            OperationKind::Update { set, on } | OperationKind::UpdateOrInsert { set, on } => {
                is_good(on) && set.iter().all(|(_, term)| is_plain(term))
            }
        };
        if !is_good {
            return Err(Error::refused(
                format!("table '{}'", self.schema.name),
                "a condition or new value calls a function of the table's attributes that MongoDB \
                 does not know, or is nested too deep: call it for the event's attributes",
            ));
        }
        self.operations.insert(id, operation.clone());
        Ok(())
    }

    fn insert(&mut self, batch: &Batch) -> Result<(), Error> {
        self.refused.clear();
        let rows: Vec<usize> = (0..batch.len).collect();
        let documents = rows.iter().map(|row| self.document(&batch.row(*row)));
        let documents = documents.collect();
        self.put(&rows, documents)?;
        self.settled(batch.len, ())
    }

    fn execute(&mut self, id: OperationId, parameters: &Batch) -> Result<Answer, Error> {
        let Some(operation) = self.operations.get(&id).cloned() else {
            return Err(self.failed(format!("operation {id} was not prepared")));
        };
        self.refused.clear();
        let written = match &operation.kind {
            OperationKind::Find { on } => return self.find(on.as_ref(), parameters),
            OperationKind::Contains { on } => return self.contains(on, parameters),
            OperationKind::Insert => {
                self.insert(parameters)?;
                let inserted = (parameters.len - self.refused.len()) as u64;
                return Ok(Answer::Written(Written {
                    inserted,
                    ..Written::default()
                }));
            }
            OperationKind::Delete { on } => self.delete(on, parameters)?,
            OperationKind::Update { set, on } => self.update(set, on, parameters, false)?,
            OperationKind::UpdateOrInsert { set, on } => self.update(set, on, parameters, true)?,
        };
        let written = self.settled(parameters.len, written)?;
        Ok(Answer::Written(written))
    }

    fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }

    fn close(&mut self) -> Result<(), Error> {
        self.server.lock().close();
        Ok(())
    }
}

impl Epochs for MongoTable {
    /// Writes are done as they come; what is between two notes is not a transaction.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn commit(&mut self, epoch: u64, positions: &[u8]) -> Result<(), Error> {
        self.server.lock().note(epoch, positions)
    }

    fn abort(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn last_epoch(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        // The answer may be no, and documents there all the same: of a run before its first epoch.
        self.is_resumed = true;
        self.server.lock().noted(&self.app)
    }
}
