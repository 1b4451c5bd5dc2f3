//! SQL by the protocol of PostgreSQL: what the crate `sql` answers, as the server asks for it.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::sql::postgres as answered;
use server::http::sql::SqlRefusal;
use server::postgres::{
    Asker, Column, Describing, Description, Part, Question, Rows, RowsEngine, SERVER_VERSION,
};

use super::with::{OfServer, refusal};

impl RowsEngine for OfServer {
    fn describe(&self, sql: String, types: Vec<u32>, by: Asker) -> Describing {
        let described = self
            .engine
            .describe(self.dir.clone(), sql, types, asker(by));
        Box::pin(async move {
            let described = described.await.map_err(refusal)?;
            Ok(Description {
                parameters: described.parameters,
                columns: described.columns.into_iter().map(column).collect(),
            })
        })
    }

    fn rows(&self, question: Question) -> Box<dyn Rows> {
        let parameters = question.parameters.into_iter();
        let parameters = parameters.map(|parameter| answered::Parameter {
            oid: parameter.oid,
            is_binary: parameter.is_binary,
            bytes: parameter.bytes,
        });
        let columns = question.columns.map(|columns| {
            let columns = columns.into_iter();
            let columns = columns.map(|column| answered::Column {
                name: column.name,
                oid: column.oid,
                size: column.size,
            });
            columns.collect()
        });
        let hidden = question.hidden;
        let rows = self.engine.rows(answered::Asked {
            store: self.dir.clone(),
            sql: question.sql,
            parameters: parameters.collect(),
            columns,
            formats: question.formats,
            asker: asker(question.asker),
            time: question.time,
            hide: Arc::new(move |text: &str| match hidden.hide(text) {
                Cow::Owned(text) => Some(text),
                Cow::Borrowed(_) => None,
            }),
        });
        Box::new(Answer(rows))
    }
}

fn asker(asker: Asker) -> answered::Asker {
    answered::Asker {
        user: asker.user,
        version: SERVER_VERSION.to_owned(),
        settings: asker.settings,
    }
}

fn column(column: answered::Column) -> Column {
    Column {
        name: column.name,
        oid: column.oid,
        size: column.size,
    }
}

struct Answer(answered::Rows);

impl Rows for Answer {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part, SqlRefusal>>> {
        let next = self.0.poll_part(context);
        next.map(|part| {
            let part = part?.map(|part| match part {
                answered::Part::Columns(columns) => {
                    Part::Columns(columns.into_iter().map(column).collect())
                }
                answered::Part::Rows { bytes, count } => Part::Rows { bytes, count },
            });
            Some(part.map_err(refusal))
        })
    }
}
