//! What a saved epoch holds, readable: rows of tables, answers to on-demand queries, differences.
//!
//! Tables are read from the saved bytes alone; whatever else is asked for needs the plan of the app, which
//! takes the state back as a start does and answers. Nothing is started, connected or changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use check::Catalog;
use connect::registry::Registry;
use engine::{Answer, App, NoHost, Outputs, SavedElement, SavedTable, Setup};
use event::Value;
use lang::diagnostic::{Diagnostic, Severity};
use plan::spec::ConnectorKind;
use plan::{OnDemand, Plan};
use serde_json::{Value as Json, json};

use crate::error::Error;
use crate::report::chain;
use crate::state::{GroupState, Saved, group_dirs};

/// What a group has saved at an epoch, in memory.
pub struct Opened {
    /// Of its directory.
    pub group: String,
    pub path: PathBuf,
    pub epoch: u64,
    saved: Saved,
}

/// A position in words, or its bytes where no technology knows them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PositionText {
    /// Names and values.
    Known(Vec<(String, String)>),
    Bytes(usize),
    /// The source keeps none.
    None,
}

impl PositionText {
    /// Of a position as it is saved, in the words of the technology `ty` or of the only one that knows it.
    pub(super) fn of(
        position: Option<&crate::source::Position>,
        ty: Option<&str>,
        registry: &Registry,
    ) -> PositionText {
        let Some(position) = position else {
            return PositionText::None;
        };
        let bytes = PositionText::Bytes(position.source.len());
        position_text(&position.source, ty, registry).map_or(bytes, PositionText::Known)
    }

    /// Names and values as an object; `{"bytes":N}` where they are not known; null where there is none.
    pub fn to_json(&self) -> Json {
        match self {
            PositionText::None => Json::Null,
            PositionText::Bytes(bytes) => json!({ "bytes": bytes }),
            PositionText::Known(pairs) => {
                let pairs = pairs.iter();
                Json::Object(
                    pairs
                        .map(|(name, value)| (name.clone(), json!(value)))
                        .collect(),
                )
            }
        }
    }
}

/// Why a query of saved state has no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// The query is at fault.
    Query(Vec<Diagnostic>),
    Failed(Error),
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered::Failed(error)
    }
}

impl Opened {
    /// Every group below a directory that has saved something: at its current epoch, or at another one.
    ///
    /// # Errors
    /// There is no state, none of that epoch, or it is damaged.
    pub fn all(root: &Path, epoch: Option<u64>) -> Result<Vec<Opened>, Error> {
        let mut opened = Vec::new();
        let dirs = group_dirs(root).map_err(|_| super::survey::nothing_here(root))?;
        for dir in dirs {
            opened.extend(Opened::of(dir, epoch)?);
        }
        if opened.is_empty() {
            return Err(match epoch {
                None => super::survey::nothing_here(root),
                Some(epoch) => Error::State {
                    path: root.to_owned(),
                    message: format!(
                        "it has no snapshot of epoch {epoch}: headwater state list names those that it has"
                    ),
                },
            });
        }
        Ok(opened)
    }

    fn of(dir: PathBuf, epoch: Option<u64>) -> Result<Option<Opened>, Error> {
        let group = GroupState::to_read(dir);
        let found = match epoch {
            None => group.newest()?,
            Some(epoch) if group.snapshot_path(epoch).exists() => {
                Some((epoch, group.read(epoch)?.1))
            }
            Some(_) => None,
        };
        let Some((epoch, bytes)) = found else {
            return Ok(None);
        };
        let saved = Saved::read(bytes).map_err(|e| Error::State {
            path: group.snapshot_path(epoch),
            message: chain(&e),
        })?;
        let name = group.dir.file_name().unwrap_or_default();
        Ok(Some(Opened {
            group: name.to_string_lossy().into_owned(),
            path: group.dir,
            epoch,
            saved,
        }))
    }

    pub fn apps(&self) -> impl Iterator<Item = &str> {
        self.saved.apps().map(|(name, _)| name)
    }

    fn bytes(&self, app: &str) -> &[u8] {
        let mut apps = self.saved.apps().filter(|(name, _)| *name == app);
        apps.next().map_or(&[], |(_, bytes)| bytes)
    }

    fn trouble(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::State {
            path: self.path.clone(),
            message: chain(error),
        }
    }

    /// Key (`Stream[1]`) and position of each source of an app.
    pub fn positions(
        &self,
        app: &str,
        plan: Option<&Plan>,
        registry: &Registry,
    ) -> Vec<(String, PositionText)> {
        let own = self.saved.positions.iter().filter(|(of, ..)| of == app);
        let text = |(_, key, position): &(String, String, Option<_>)| {
            let ty = plan.and_then(|plan| source_type(plan, key));
            (
                key.clone(),
                PositionText::of(position.as_ref(), ty, registry),
            )
        };
        own.map(text).collect()
    }

    /// What is saved of an app, element by element, without what keeps nothing.
    ///
    /// # Errors
    /// Another version has written it.
    pub fn elements(&self, app: &str) -> Result<Vec<SavedElement>, Error> {
        let elements = engine::saved_elements(self.bytes(app));
        let mut elements = elements.map_err(|e| self.trouble(&e))?;
        elements.retain(|element| !element.parts.is_empty());
        Ok(elements)
    }

    /// A table in memory of an app; `None` where it has none of that name.
    ///
    /// # Errors
    /// Another version has written it.
    pub fn table(&self, app: &str, name: &str) -> Result<Option<SavedTable>, Error> {
        engine::saved_table(self.bytes(app), name).map_err(|e| self.trouble(&e))
    }

    /// Answers a find of an on-demand query, at the time at which the state was saved.
    ///
    /// # Errors
    /// The query is at fault or would write; the app cannot take its state back.
    pub fn ask(&self, plan: &Plan, text: &str, catalog: &Catalog) -> Result<Answer, Unanswered> {
        let (parsed, faults) = lang::parser::parse_on_demand(text);
        let is_error = |d: &Diagnostic| d.severity == Severity::Error;
        let Some(parsed) = parsed.filter(|_| !faults.iter().any(is_error)) else {
            return Err(Unanswered::Query(faults));
        };
        let checked = check::check_on_demand(&parsed, plan, catalog);
        let query = checked
            .query
            .ok_or(Unanswered::Query(checked.diagnostics))?;
        if matches!(query, OnDemand::Write(_)) {
            return Err(
                Error::Usage("saved state is only read: the query would write".to_owned()).into(),
            );
        }
        let mut app = engine_alone(plan)?;
        let matching = app.restore_what_fits(self.bytes(&plan.name));
        let matching = matching.map_err(|e| self.trouble(&e))?;
        if let Some(lost) = matching.dropped.first() {
            let message = format!(
                "the app is not the one that saved this state: {lost}; give the app as it was"
            );
            return Err(Error::Refused(message).into());
        }
        let mut out = Outputs::default();
        let answer = app.ask(plan, &query, 0, &mut NoHost, &mut out);
        answer.map_err(|e| Error::Refused(e.to_string()).into())
    }
}

/// An app that is asked alone.
fn engine_alone(plan: &Plan) -> Result<App, Error> {
    let setup = Setup {
        environment: engine::AppEnvironment {
            app: plan.name.clone(),
            scripts: Some(&script::JavaScript),
            ..engine::AppEnvironment::default()
        },
        links: engine::topic_links(plan),
        ..Setup::default()
    };
    App::new(plan, setup)
        .map_err(|e| Error::Refused(format!("app '{}' cannot run: {}", plan.name, chain(&e))))
}

/// `kafka` of `Stream[1]`.
fn source_type<'p>(plan: &'p Plan, key: &str) -> Option<&'p str> {
    plan.streams.iter().find_map(|stream| {
        let mut sources = (1..).zip(&stream.sources);
        let name = stream.display_name();
        let source = sources.find(|(n, _)| *key == format!("{name}[{n}]"));
        source.map(|(_, source)| source.ty.as_str())
    })
}

/// In the words of the technology; without its name, of the only one that knows such bytes.
fn position_text(
    bytes: &[u8],
    ty: Option<&str>,
    registry: &Registry,
) -> Option<Vec<(String, String)>> {
    if let Some(ty) = ty {
        return registry
            .find(ConnectorKind::Source, ty)?
            .position_text(bytes);
    }
    let all = registry.connectors.iter();
    let mut known = all.filter_map(|connector| connector.position_text(bytes));
    let first = known.next()?;
    known.next().is_none().then_some(first)
}

/// What has changed of a table from one state to another.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TableChange {
    pub added: Vec<Vec<Value>>,
    pub removed: Vec<Vec<Value>>,
    /// By primary key: the row before and after.
    pub changed: Vec<(Vec<Value>, Vec<Value>)>,
}

impl TableChange {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Rows with the same primary key are one row; without a primary key rows with the same values are.
    pub fn between(before: &SavedTable, after: &SavedTable) -> TableChange {
        let has_key = !before.primary_key.is_empty() && before.primary_key == after.primary_key;
        let key_of = |row: &[Value]| -> Vec<String> {
            match has_key {
                true => before
                    .primary_key
                    .iter()
                    .map(|&at| text(row.get(at)))
                    .collect(),
                false => row.iter().map(|value| text(Some(value))).collect(),
            }
        };
        let rows = |table: &SavedTable| -> Vec<Vec<Value>> {
            (0..table.rows.len).map(|row| table.rows.row(row)).collect()
        };
        let mut old: HashMap<Vec<String>, Vec<Vec<Value>>> = HashMap::new();
        let before_rows = rows(before);
        for row in &before_rows {
            old.entry(key_of(row)).or_default().push(row.clone());
        }
        let mut change = TableChange::default();
        for row in rows(after) {
            match old.get_mut(&key_of(&row)).and_then(Vec::pop) {
                None => change.added.push(row),
                Some(same) if same == row => {}
                Some(was) if has_key => change.changed.push((was, row)),
                // Texts that are equal stand for values that are not, such as 1 and '1' of another type.
                Some(was) => {
                    change.removed.push(was);
                    change.added.push(row);
                }
            }
        }
        // In the order of the table, not of the map.
        for row in before_rows {
            if old.get_mut(&key_of(&row)).and_then(Vec::pop).is_some() {
                change.removed.push(row);
            }
        }
        change
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "null".to_owned(),
        Some(value) => format!("'{}'", event::text::to_text(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Attribute, Batch, Column, ColumnBuilder, Schema, Times, Type};

    fn table(primary_key: Vec<usize>, rows: &[(&str, i64)]) -> SavedTable {
        let mut texts = ColumnBuilder::new(Type::String);
        rows.iter().for_each(|(text, _)| texts.push_str(text));
        let numbers = Column::longs_from(rows.iter().map(|(_, number)| *number).collect());
        let attribute = |name: &str, ty| Attribute {
            name: name.into(),
            ty,
        };
        SavedTable {
            schema: Schema {
                name: "T".into(),
                attributes: vec![attribute("k", Type::String), attribute("n", Type::Long)],
            },
            primary_key,
            rows: Batch::new(
                vec![texts.finish(), numbers],
                rows.len(),
                Times::Same(0),
                event::Chunks::One,
                0,
            ),
        }
    }

    /// Numbers of rows added, removed and changed.
    fn check(key: &[usize], before: &[(&str, i64)], after: &[(&str, i64)], expect: [usize; 3]) {
        let change =
            TableChange::between(&table(key.to_vec(), before), &table(key.to_vec(), after));
        let found = [
            change.added.len(),
            change.removed.len(),
            change.changed.len(),
        ];
        assert_eq!(found, expect, "{before:?} {after:?}");
        assert_eq!(change.is_empty(), expect == [0, 0, 0]);
    }

    #[test]
    fn rows_are_told_apart_by_their_key_or_by_all_they_have() {
        check(
            &[0],
            &[("a", 1), ("b", 2)],
            &[("b", 2), ("a", 1)],
            [0, 0, 0],
        );
        check(
            &[0],
            &[("a", 1), ("b", 2)],
            &[("b", 3), ("c", 1)],
            [1, 1, 1],
        );
        check(&[], &[("a", 1), ("a", 1)], &[("a", 1)], [0, 1, 0]);
        check(&[], &[("a", 1)], &[("a", 2), ("a", 1), ("a", 1)], [2, 0, 0]);
    }
}
