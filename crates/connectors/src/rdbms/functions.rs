//! `#rdbms:query` and `#rdbms:cud`: SQL of the app's own, run on a data source for each event.
//!
//! A query sees what the app's tables in the same database hold, written or not yet committed. Writes
//! go to servers on a connection of their own and are committed call by call; in the embedded database,
//! which takes one writer, they belong to the transaction of the tables. Never here: a statement whose
//! text is an attribute and that has not been judged by its own first word.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use event::{Attribute, Column, ColumnBuilder, Type, Value};

use super::Databases;
use super::database::Database;
use super::link::{Bound, Fault, Found, Statement};
use super::rows::Binder;
use super::server::Login;
use super::sql::Sql;
use super::url::{self, Target};
use connect::component::{DATA_SOURCES, Environment};
use connect::effect::{Call, Called, EffectCalls, EffectFunctions};

/// The system setting that allows `#rdbms:cud`.
const ALLOWED: &str = "perform.CUD.operations";

/// Statements whose text is kept analysed.
const STATEMENTS_MAX: usize = 1000;

/// Why a call failed: the row, and the words.
pub type Failure = (usize, String);

/// The functions of one app, with their connections.
#[derive(Default)]
pub struct Functions {
    /// By data source.
    open: HashMap<String, DataSource>,
    /// Transactions that wait for a COMMIT, by data source and correlation.
    correlated: HashMap<(String, String), Database>,
}

struct DataSource {
    target: Target,
    /// Shared with the tables of that database.
    shared: Arc<Mutex<Database>>,
    /// For writes, where they are not for the shared one.
    own: Option<Database>,
    /// Statements by their text.
    statements: HashMap<String, (Statement, usize)>,
}

/// `#rdbms:query` and `#rdbms:cud`.
pub struct RdbmsFunctions;

impl EffectFunctions for RdbmsFunctions {
    fn has(&self, name: &str) -> bool {
        matches!(name, "rdbms:query" | "rdbms:cud")
    }

    fn begin(&self) -> Box<dyn EffectCalls> {
        Box::new(Functions::default())
    }
}

impl EffectCalls for Functions {
    fn call(&mut self, call: &mut Call<'_>) -> Result<Called, Failure> {
        Functions::call(
            self,
            call.environment,
            call.function,
            call.arguments,
            call.rows,
        )
    }
}

impl Functions {
    /// Runs a function for each row of arguments, all in one transaction where it writes.
    pub fn call(
        &mut self,
        environment: &Environment,
        name: &str,
        arguments: &[Column],
        rows: usize,
    ) -> Result<Called, Failure> {
        let text = |index: usize, row: usize| match arguments.get(index).map(|c| c.value(row)) {
            Some(Value::Str(text)) => Ok(text.to_string()),
            _ => Err((
                row,
                format!("'#{name}' got null for argument {}", index + 1),
            )),
        };
        if rows == 0 {
            return Ok(Called {
                columns: Vec::new(),
                origins: None,
            });
        }
        let source = text(0, 0)?;
        match name {
            "rdbms:query" => {
                let attributes = definitions(&text(1, 0)?).map_err(|cause| (0, cause))?;
                let statements: Result<Vec<String>, Failure> =
                    (0..rows).map(|row| text(2, row)).collect();
                let source = self.source(environment, &source).map_err(|c| (0, c))?;
                source.query(&attributes, &statements?, &arguments[3..])
            }
            _ => {
                let statements: Result<Vec<String>, Failure> =
                    (0..rows).map(|row| text(1, row)).collect();
                self.cud(environment, &source, &statements?, &arguments[2..])
            }
        }
    }

    fn source(&mut self, environment: &Environment, name: &str) -> Result<&mut DataSource, String> {
        if !self.open.contains_key(name) {
            let source = DataSource::open(environment, name)?;
            self.open.insert(name.to_owned(), source);
        }
        self.open
            .get_mut(name)
            .ok_or_else(|| format!("data source '{name}' is not open"))
    }

    fn cud(
        &mut self,
        environment: &Environment,
        name: &str,
        statements: &[String],
        parameters: &[Column],
    ) -> Result<Called, Failure> {
        let setting = |key| environment.setting("rdbms", "cud", key);
        let is_on = |key| setting(key).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"));
        if !is_on(ALLOWED) {
            return Err((
                0,
                format!(
                    "'#rdbms:cud' is not allowed: set '{ALLOWED}' of extension 'cud' (namespace \
                     'rdbms') to true in the file given by --config"
                ),
            ));
        }
        let allows_null = is_on("allow.null.params.with.CUD");
        let source = self.source(environment, name).map_err(|c| (0, c))?;
        let mut prepared = Vec::with_capacity(statements.len());
        for (row, text) in statements.iter().enumerate() {
            check_word(text).map_err(|cause| (row, cause))?;
            let (statement, places) = source.statement(text);
            let given = &parameters[..places.min(parameters.len())];
            if places > parameters.len() || parameters.len() > places + 1 {
                return Err((row, miscounted(places, parameters.len())));
            }
            if !allows_null && given.iter().any(|column| column.value(row) == Value::Null) {
                return Err((
                    row,
                    "a parameter of '#rdbms:cud' is null: filter such events, or set \
                     'allow.null.params.with.CUD' of extension 'cud' (namespace 'rdbms') to true"
                        .to_owned(),
                ));
            }
            prepared.push((statement, places));
        }
        // One more than the statement has places for names the transaction.
        let correlation = parameters.get(prepared.first().map_or(0, |(_, places)| *places));
        let counts = match correlation.map(|column| column.value(0)) {
            None => source.write(&prepared, parameters)?,
            Some(correlation) => {
                let target = source.target.clone();
                let key = (
                    name.to_owned(),
                    event::text::to_text(&correlation).to_string(),
                );
                self.correlated(&target, key, statements, &prepared, parameters)?
            }
        };
        let mut column = ColumnBuilder::with_capacity(Type::Int, counts.len());
        for count in counts {
            column.push_int(i32::try_from(count).unwrap_or(i32::MAX));
        }
        Ok(Called {
            columns: vec![column.finish()],
            origins: None,
        })
    }

    /// Calls that share a transaction until one of them says COMMIT or ROLLBACK.
    fn correlated(
        &mut self,
        target: &Target,
        key: (String, String),
        statements: &[String],
        prepared: &[(Statement, usize)],
        parameters: &[Column],
    ) -> Result<Vec<u64>, Failure> {
        let said = |error: connect::Error| (0, connect::error::chain(&error));
        if !self.correlated.contains_key(&key) {
            let link = super::link(target).map_err(said)?;
            let mut database = Database::new(link, target.display_name());
            database.begin().map_err(said)?;
            self.correlated.insert(key.clone(), database);
        }
        let mut counts = Vec::with_capacity(statements.len());
        for (row, text) in statements.iter().enumerate() {
            let word = text.trim().trim_end_matches(';').to_ascii_uppercase();
            let is_end = matches!(word.as_str(), "COMMIT" | "ROLLBACK");
            let Some(database) = self.correlated.get_mut(&key) else {
                counts.push(0);
                continue;
            };
            let done = match word.as_str() {
                "COMMIT" => database.commit(0, b"").map(|()| 0),
                "ROLLBACK" => database.abort().map(|()| 0),
                _ => {
                    let (statement, places) = &prepared[row];
                    let binders = binders(&parameters[..*places]);
                    database.write("writing", 1, |link| {
                        link.write(Bound::new(statement, &binders), row..row + 1)
                    })
                }
            };
            let is_gone = done.is_err() && database.has_lost();
            if is_end || is_gone {
                self.correlated.remove(&key);
            }
            counts.push(done.map_err(|error| (row, connect::error::chain(&error)))?);
        }
        Ok(counts)
    }
}

impl DataSource {
    fn open(environment: &Environment, name: &str) -> Result<DataSource, String> {
        let option = |key| environment.setting(DATA_SOURCES, name, key);
        let address = option("jdbc.url").ok_or_else(|| {
            format!(
                "data source '{name}' is not in the server's configuration: pass the \
                 deployment.yaml that defines it with --config"
            )
        })?;
        let login = Login {
            user: option("username"),
            password: option("password"),
            pool: option("pool.properties"),
        };
        let target = url::parse(address, name, &login).map_err(|error| error.to_string())?;
        let shared = environment
            .shared
            .get::<Databases>()
            .open(address.trim(), &target)
            .map_err(|error| connect::error::chain(&error))?;
        Ok(DataSource {
            target,
            shared,
            own: None,
            statements: HashMap::new(),
        })
    }

    /// The statement of a text, and how many parameters it has.
    fn statement(&mut self, text: &str) -> (Statement, usize) {
        if let Some(known) = self.statements.get(text) {
            return known.clone();
        }
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        let sql = marked(text);
        let places = sql.order().count();
        let made = (Statement::new(sql, self.target.dialect()), places);
        self.statements.insert(text.to_owned(), made.clone());
        made
    }

    fn query(
        &mut self,
        attributes: &[Attribute],
        statements: &[String],
        parameters: &[Column],
    ) -> Result<Called, Failure> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (row, text) in statements.iter().enumerate() {
            let (statement, places) = self.statement(text);
            if places > parameters.len() || parameters.len() > places + 1 {
                return Err((row, miscounted(places, parameters.len())));
            }
            prepared.push((statement, places));
        }
        let mut found = Found::new(attributes, false);
        let mut origins = Vec::new();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for (row, (statement, places)) in prepared.iter().enumerate() {
            let binders = binders(&parameters[..*places]);
            let before = found.count;
            let read = shared.read("asking", |link| {
                link.find(Bound::new(statement, &binders), row, &mut found)
            });
            read.map_err(|error| (row, connect::error::chain(&error)))?;
            let is_acknowledged = parameters
                .get(*places)
                .is_some_and(|column| column.value(row) == Value::Bool(true));
            if found.count == before && is_acknowledged {
                found.builders.iter_mut().for_each(ColumnBuilder::push_null);
                found.count += 1;
            }
            origins.resize(found.count as usize, row as u32);
        }
        let columns = found.builders.into_iter();
        Ok(Called {
            columns: columns.map(ColumnBuilder::finish).collect(),
            origins: Some(origins),
        })
    }

    /// All statements in one transaction; how many rows each changed.
    fn write(
        &mut self,
        prepared: &[(Statement, usize)],
        parameters: &[Column],
    ) -> Result<Vec<u64>, Failure> {
        let mut counts = Vec::with_capacity(prepared.len());
        let mut work = |database: &mut Database| {
            database.write("writing", prepared.len().max(2), |link| {
                for (row, (statement, places)) in prepared.iter().enumerate() {
                    let binders = binders(&parameters[..*places]);
                    let changed = link.write(Bound::new(statement, &binders), row..row + 1)?;
                    counts.push(changed);
                }
                Ok::<(), Fault>(())
            })
        };
        let written = match (&self.target, &mut self.own) {
            (Target::Server(_), Some(own)) => work(own),
            (Target::Server(_), own @ None) => super::link(&self.target)
                .map(|link| own.insert(Database::new(link, self.target.display_name())))
                .and_then(work),
            _ => work(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let row = counts.len().min(prepared.len().saturating_sub(1));
        written.map_err(|error| (row, connect::error::chain(&error)))?;
        Ok(counts)
    }
}

fn binders(parameters: &[Column]) -> Vec<Binder<'_>> {
    let typed = parameters.iter().map(|column| {
        let ty = match column.view() {
            event::column::View::Bool(_) => Type::Bool,
            event::column::View::Int(_) => Type::Int,
            event::column::View::Long(_) => Type::Long,
            event::column::View::Float(_) => Type::Float,
            event::column::View::Double(_) => Type::Double,
            event::column::View::Str(_) => Type::String,
            event::column::View::Any(_) => Type::Object,
        };
        Binder::parameter(column, ty)
    });
    typed.collect()
}

fn miscounted(places: usize, given: usize) -> String {
    format!("the statement has {places} places marked by '?', and {given} parameters are given")
}

/// `name type, name type`.
fn definitions(text: &str) -> Result<Vec<Attribute>, String> {
    text.split(',')
        .map(|part| {
            let found = part.trim().rsplit_once(char::is_whitespace);
            found
                .and_then(|(name, ty)| Some((name.trim(), Type::from_name(ty)?)))
                .filter(|(_, ty)| *ty != Type::Object)
                .map(|(name, ty)| Attribute {
                    name: name.into(),
                    ty,
                })
                .ok_or_else(|| {
                    format!(
                        "'{}' in the result of '#rdbms:query' is not a name and type: write 'id \
                         string, price double'",
                        part.trim()
                    )
                })
        })
        .collect()
}

/// Statements that change definitions are refused by their first word.
fn check_word(text: &str) -> Result<(), String> {
    let word = text
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_ascii_uppercase();
    match word.as_str() {
        "DROP" | "ALTER" => Err(format!("'#rdbms:cud' runs no {word} statement")),
        _ => Ok(()),
    }
}

/// A text with `?` in the places of parameters, but for those in quotes and comments.
fn marked(text: &str) -> Sql {
    let mut sql = Sql::default();
    let mut count = 0;
    let mut start = 0;
    let mut quote: Option<u8> = None;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(b'\n'), b'\n') => quote = None,
            (Some(b'*'), b'*') if bytes.get(at + 1) == Some(&b'/') => {
                quote = None;
                at += 1;
            }
            (Some(b'\n' | b'*'), _) => {}
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'\'' | b'"' | b'`')) => quote = Some(byte),
            (None, b'-') if bytes.get(at + 1) == Some(&b'-') => quote = Some(b'\n'),
            (None, b'/') if bytes.get(at + 1) == Some(&b'*') => quote = Some(b'*'),
            (None, b'?') => {
                sql.push_str(&text[start..at]);
                sql.parameter(count);
                count += 1;
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    sql.push_str(&text[start..]);
    sql
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdbms::dialect::POSTGRES;
    use connect::component::Setting;

    #[test]
    fn places_of_parameters() {
        let check = |text: &str, expect: &str| {
            assert_eq!(marked(text).marked(POSTGRES), expect);
        };
        check(
            "SELECT a FROM t WHERE b = ? AND c=?",
            "SELECT a FROM t WHERE b = $1 AND c=$2",
        );
        check(
            "SELECT '?', \"?\", `?` -- ?\n, ?",
            "SELECT '?', \"?\", `?` -- ?\n, $1",
        );
        check("/* ? */ ?", "/* ? */ $1");
    }

    fn texts(texts: &[&str]) -> Column {
        let mut builder = ColumnBuilder::new(Type::String);
        texts.iter().for_each(|text| builder.push_str(text));
        builder.finish()
    }

    fn environment(path: &std::path::Path, is_allowed: bool) -> Environment {
        let setting = |namespace: &str, name: &str, key: &str, value: String| Setting {
            namespace: namespace.into(),
            name: name.into(),
            key: key.into(),
            value,
        };
        let url = format!("jdbc:sqlite:{}", path.display());
        let mut environment = Environment::new("A");
        environment.settings = Arc::from([
            setting(DATA_SOURCES, "SHOP", "jdbc.url", url),
            setting("rdbms", "cud", ALLOWED, is_allowed.to_string()),
        ]);
        environment
    }

    #[test]
    fn statements_run_for_each_event() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(&folder.path().join("shop.db"), true);
        let mut functions = Functions::default();
        let source = |rows| texts(&vec!["SHOP"; rows]);
        let mut cud = |statement: &str, more: &[Column], rows: usize| {
            let mut arguments = vec![source(rows), texts(&vec![statement; rows])];
            arguments.extend_from_slice(more);
            let called = functions.call(&environment, "rdbms:cud", &arguments, rows);
            called.map(|results| {
                let counts = (0..rows).map(|row| results.columns[0].value(row));
                counts.collect::<Vec<Value>>()
            })
        };
        cud("CREATE TABLE t (id TEXT, n INT)", &[], 1).unwrap();
        let numbers = Column::longs_from(vec![1, 2, 2]);
        let ids = texts(&["a", "b", "c"]);
        let insert = "INSERT INTO t VALUES (?, ?)";
        let ones = vec![Value::Int(1); 3];
        assert_eq!(cud(insert, &[ids.clone(), numbers], 3), Ok(ones));
        let two = Column::longs_from(vec![2]);
        let update = "UPDATE t SET n = 3 WHERE n = ?";
        assert_eq!(
            cud(update, std::slice::from_ref(&two), 1),
            Ok(vec![Value::Int(2)])
        );
        assert!(cud("DROP TABLE t", &[], 1).unwrap_err().1.contains("DROP"));
        assert!(
            cud(insert, std::slice::from_ref(&two), 1)
                .unwrap_err()
                .1
                .contains("2 places")
        );
        // A transaction of several calls.
        let id = texts(&["one"]);
        cud(
            "DELETE FROM t WHERE n = ?",
            &[Column::longs_from(vec![3]), id.clone()],
            1,
        )
        .unwrap();
        cud("ROLLBACK", &[id], 1).unwrap();

        let definition = texts(&["id string, n int"; 3]);
        let select = texts(&["SELECT id, n FROM t WHERE id >= ? ORDER BY id"; 3]);
        let from = texts(&["b", "z", "c"]);
        let flag = Column::constant(Type::Bool, &Value::Bool(true), 3);
        for (more, expect) in [(vec![], vec![0, 0, 2]), (vec![flag], vec![0, 0, 1, 2])] {
            let mut arguments = vec![source(3), definition.clone(), select.clone(), from.clone()];
            arguments.extend(more);
            let found = functions
                .call(&environment, "rdbms:query", &arguments, 3)
                .unwrap();
            assert_eq!(found.origins, Some(expect));
            let last = found.columns[0].len() - 1;
            assert_eq!(found.columns[0].value(last), Value::str("c"));
            assert_eq!(found.columns[1].value(last), Value::Int(3));
        }
    }

    #[test]
    fn writes_must_be_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(&folder.path().join("shop.db"), false);
        let arguments = [texts(&["SHOP"]), texts(&["DELETE FROM t"])];
        let called = Functions::default().call(&environment, "rdbms:cud", &arguments, 1);
        assert!(called.err().unwrap().1.contains(ALLOWED));
        let arguments = [texts(&["NO"]), texts(&["a int"]), texts(&["SELECT 1"])];
        let called = Functions::default().call(&environment, "rdbms:query", &arguments, 1);
        assert!(called.err().unwrap().1.contains("'NO'"));
    }
}
