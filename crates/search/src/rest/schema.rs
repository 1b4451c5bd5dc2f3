//! Schemas of tables, as DAS writes them.

use event::Type;
use serde_json::{Map, Value as Json, json};
use store::indexing::{Flags, Indexing};

use super::body::Body;
use super::{Call, Reply};
use crate::error::Error;
use crate::search::{Search, name_of};

/// Number of the tenant of a server that has one.
const TENANT: i32 = -1234;

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::String => "STRING",
        Type::Int => "INTEGER",
        Type::Long => "LONG",
        Type::Float => "FLOAT",
        Type::Double => "DOUBLE",
        Type::Bool => "BOOLEAN",
        Type::Object => "BINARY",
    }
}

impl Search {
    pub(super) fn schema(&self, call: &Call) -> Result<Reply, Error> {
        let view = self.view(call.table())?;
        let definition = view.definition();
        let columns = definition.schema.attributes.iter().map(|attribute| {
            let flags = view.indexing.flags(&attribute.name);
            let column = json!({
                "type": type_name(attribute.ty),
                "isScoreParam": flags.is_score,
                "isIndex": flags.is_indexed,
                "isFacet": flags.is_facet,
            });
            (attribute.name.clone(), column)
        });
        let columns: Map<String, Json> = columns.collect();
        let keys = definition.key.iter();
        let keys: Vec<&str> = keys
            .map(|at| definition.schema.attributes[*at].name.as_str())
            .collect();
        Ok(Reply::ok(&json!({"columns": columns, "primaryKeys": keys})))
    }

    /// Says anew which columns are searched; what the table is does not change.
    pub(super) fn set_schema(&self, call: &Call) -> Result<Reply, Error> {
        let view = self.view(call.table())?;
        let definition = view.definition();
        let body = Body::parse(&call.body)?;
        let mut indexing = Indexing::new(view.indexing.keeps_rows);
        for (name, column) in body.object("columns")?.unwrap_or_default() {
            let at = view.column(&name)?;
            let own = definition.ty(at);
            let flag = |flag: &str| match &column[flag] {
                Json::Null => Ok(false),
                Json::Bool(is) => Ok(*is),
                _ => Err(Error::Request(format!(
                    "'{flag}' of column '{name}' must be true or false"
                ))),
            };
            let is_old_facet = match column["type"].as_str() {
                None if column["type"].is_null() => false,
                Some(ty) if ty.eq_ignore_ascii_case("facet") && own == Type::String => true,
                Some(ty) if ty.eq_ignore_ascii_case(type_name(own)) => false,
                Some(ty) if own == Type::Int && ty.eq_ignore_ascii_case("int") => false,
                _ => {
                    return Err(Error::Request(format!(
                        "column '{name}' is {}: its type does not change",
                        type_name(own)
                    )));
                }
            };
            let flags = Flags {
                is_indexed: flag("isIndex")?,
                is_facet: flag("isFacet")? || is_old_facet,
                is_score: flag("isScoreParam")?,
            };
            let added = indexing.add(definition, &name, flags);
            added.map_err(|error| Error::Request(error.to_string()))?;
        }
        let mut keys = Vec::new();
        for name in body.texts("primaryKeys")? {
            keys.push(view.column(&name)?);
        }
        keys.sort_unstable();
        let mut own = definition.key.clone();
        own.sort_unstable();
        if !keys.is_empty() && keys != own {
            return Err(Error::Request(format!(
                "the primary keys of table '{}' do not change",
                call.table()
            )));
        }
        indexing.write(self.dir(), &name_of(call.table()))?;
        self.wake();
        let table = call.table();
        Ok(Reply::done(format!(
            "Successfully set table schema for table: {table}"
        )))
    }
}

/// The name of a table in a database of DAS: `ANX` with tenant and name as eight bytes.
pub(super) fn persist_name(table: &str) -> String {
    let mut bytes = TENANT.to_be_bytes().to_vec();
    let hash = event::text::java_hash(&table.to_uppercase());
    bytes.extend_from_slice(&hash.to_be_bytes());
    let mut name = "ANX".to_owned();
    name.push_str(&base64(&bytes));
    name
}

/// Base64, whose `=`, `+` and `/` are written `_`.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789__";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| three.get(at).copied().unwrap_or(0);
        let bits = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
        for at in 0..4 {
            match at <= three.len() {
                true => out.push(char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize])),
                false => out.push('_'),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_called_as_in_a_database_of_das() {
        assert_eq!(base64(b"\xff\xef\xbe\x00"), "____AA__");
        assert_eq!(base64(&(-1234_i32).to_be_bytes()), "___7Lg__");
        // "A" is 65 to Java.
        assert_eq!(persist_name("a"), "ANX___7LgAAAEE_");
    }
}
