//! Functions of PostgreSQL that clients call about the catalog and the session.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::prelude::SessionContext;

use super::Asker;
use super::catalog::{DATABASE, OWNER, TYPES};

/// What functions know.
struct Facts {
    tables: Arc<HashMap<String, u32>>,
    asker: Asker,
}

/// Takes its arguments as texts; its answer becomes a value of its type.
type Call = fn(&Facts, &[Option<&str>]) -> Option<String>;

fn word(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn is_reading(args: &[Option<&str>]) -> Option<String> {
    let right = args
        .last()
        .copied()
        .flatten()
        .unwrap_or_default()
        .to_ascii_uppercase();
    let reads = ["SELECT", "USAGE", "CONNECT", "MEMBER"]
        .iter()
        .any(|known| right.contains(known));
    word(if reads { "true" } else { "false" })
}

/// The name of a table as it is found, with the schema before it and quotes taken off.
pub(super) fn table_name(text: &str) -> String {
    let name = text.rsplit('.').next().unwrap_or(text);
    name.trim_matches('"').to_lowercase()
}

fn type_name(oid: Option<&str>) -> Option<String> {
    let oid: u32 = oid?.parse().ok()?;
    let list = TYPES.iter().find(|known| known.5 == oid && oid != 0);
    let known = TYPES.iter().find(|known| known.0 == oid);
    match (known, list) {
        (Some(known), _) => word(known.2),
        (None, Some(list)) => Some(format!("{}[]", list.2)),
        (None, None) => word("???"),
    }
}

const FUNCTIONS: &[(&str, DataType, Call)] = &[
    ("array_to_string", DataType::Utf8, |_, args| {
        let list = args.first().copied().flatten()?;
        word(list.trim_matches(['{', '}', '[', ']']))
    }),
    ("col_description", DataType::Utf8, |_, _| None),
    ("current_catalog", DataType::Utf8, |_, _| word(DATABASE)),
    ("current_database", DataType::Utf8, |_, _| word(DATABASE)),
    ("current_role", DataType::Utf8, |facts, _| {
        word(&facts.asker.user)
    }),
    ("current_schema", DataType::Utf8, |_, _| word("public")),
    ("current_schemas", DataType::Utf8, |_, args| {
        match args.first() {
            Some(Some("true")) => word("{pg_catalog,public}"),
            _ => word("{public}"),
        }
    }),
    ("current_setting", DataType::Utf8, |facts, args| {
        let name = args.first().copied().flatten()?;
        let mut found = facts
            .asker
            .settings
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.clone())
    }),
    ("current_user", DataType::Utf8, |facts, _| {
        word(&facts.asker.user)
    }),
    ("format_type", DataType::Utf8, |_, args| {
        type_name(args.first().copied().flatten())
    }),
    ("getdatabaseencoding", DataType::Utf8, |_, _| word("UTF8")),
    ("has_any_column_privilege", DataType::Boolean, |_, args| {
        is_reading(args)
    }),
    ("has_column_privilege", DataType::Boolean, |_, args| {
        is_reading(args)
    }),
    ("has_database_privilege", DataType::Boolean, |_, args| {
        is_reading(args)
    }),
    ("has_schema_privilege", DataType::Boolean, |_, args| {
        is_reading(args)
    }),
    ("has_table_privilege", DataType::Boolean, |_, args| {
        is_reading(args)
    }),
    ("inet_client_addr", DataType::Utf8, |_, _| None),
    ("inet_server_addr", DataType::Utf8, |_, _| None),
    ("inet_server_port", DataType::Int32, |_, _| None),
    ("obj_description", DataType::Utf8, |_, _| None),
    ("pg_backend_pid", DataType::Int32, |_, _| word("0")),
    (
        "pg_encoding_to_char",
        DataType::Utf8,
        |_, args| match args.first() {
            Some(Some("6")) => word("UTF8"),
            _ => word(""),
        },
    ),
    ("pg_function_is_visible", DataType::Boolean, |_, _| {
        word("true")
    }),
    ("pg_get_constraintdef", DataType::Utf8, |_, _| None),
    ("pg_get_expr", DataType::Utf8, |_, _| None),
    ("pg_get_indexdef", DataType::Utf8, |_, _| None),
    ("pg_get_partkeydef", DataType::Utf8, |_, _| None),
    ("pg_get_serial_sequence", DataType::Utf8, |_, _| None),
    ("pg_get_userbyid", DataType::Utf8, |_, _| word(OWNER)),
    ("pg_get_viewdef", DataType::Utf8, |_, _| None),
    ("pg_has_role", DataType::Boolean, |_, args| is_reading(args)),
    ("pg_is_in_recovery", DataType::Boolean, |_, _| word("false")),
    ("pg_relation_is_publishable", DataType::Boolean, |_, _| {
        word("false")
    }),
    ("pg_relation_size", DataType::Int64, |_, _| None),
    ("pg_size_pretty", DataType::Utf8, |_, args| {
        args.first().copied().flatten().map(str::to_owned)
    }),
    ("pg_table_is_visible", DataType::Boolean, |_, _| {
        word("true")
    }),
    ("pg_table_size", DataType::Int64, |_, _| None),
    ("pg_total_relation_size", DataType::Int64, |_, _| None),
    ("pg_type_is_visible", DataType::Boolean, |_, _| word("true")),
    ("quote_ident", DataType::Utf8, |_, args| {
        let name = args.first().copied().flatten()?;
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        Some(match is_plain && !name.is_empty() {
            true => name.to_owned(),
            false => format!("\"{}\"", name.replace('"', "\"\"")),
        })
    }),
    ("session_user", DataType::Utf8, |facts, _| {
        word(&facts.asker.user)
    }),
    ("set_config", DataType::Utf8, |_, args| {
        args.get(1).copied().flatten().map(str::to_owned)
    }),
    ("shobj_description", DataType::Utf8, |_, _| None),
    ("to_regclass", DataType::Int64, |facts, args| {
        let name = args.first().copied().flatten()?;
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            return word(name);
        }
        facts.tables.get(&table_name(name)).map(u32::to_string)
    }),
    ("to_regtype", DataType::Int64, |_, args| {
        let name = args
            .first()
            .copied()
            .flatten()?
            .trim_start_matches("pg_catalog.");
        let mut found = TYPES
            .iter()
            .filter(|known| known.1 == name || known.2 == name);
        found.next().map(|known| known.0.to_string())
    }),
    ("txid_current", DataType::Int64, |_, _| word("1")),
    ("user", DataType::Utf8, |facts, _| word(&facts.asker.user)),
    ("version", DataType::Utf8, |facts, _| {
        Some(format!(
            "PostgreSQL {} (Headwater {})",
            facts.asker.version,
            env!("CARGO_PKG_VERSION")
        ))
    }),
    // What casts of the catalog become (see `rewrite`).
    (NAME_OF_TABLE, DataType::Utf8, |facts, args| {
        let oid = args.first().copied().flatten()?;
        let mut found = facts
            .tables
            .iter()
            .filter(|(_, known)| known.to_string() == oid);
        match found.next() {
            Some((name, _)) => Some(name.clone()),
            None if oid == "0" => word("-"),
            None => word(oid),
        }
    }),
    (NAME_OF_TYPE, DataType::Utf8, |_, args| {
        match args.first().copied().flatten() {
            Some("0") => word("-"),
            oid => type_name(oid),
        }
    }),
];

pub(super) const NAME_OF_TABLE: &str = "pg_name_of_table";
pub(super) const NAME_OF_TYPE: &str = "pg_name_of_type";

/// Lets a session call them.
pub(super) fn add(context: &SessionContext, tables: &Arc<HashMap<String, u32>>, asker: &Asker) {
    let facts = Arc::new(Facts {
        tables: Arc::clone(tables),
        asker: asker.clone(),
    });
    for (name, returns, call) in FUNCTIONS {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        context.register_udf(ScalarUDF::from(Function {
            name,
            returns: returns.clone(),
            call: *call,
            signature: Signature::one_of(any, Volatility::Stable),
            facts: Arc::clone(&facts),
        }));
    }
}

struct Function {
    name: &'static str,
    returns: DataType,
    call: Call,
    signature: Signature,
    facts: Arc<Facts>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts = args.args.iter().map(|value| {
            let text = cast(&value.to_array(rows)?, &DataType::Utf8)?;
            Ok(StringArray::from(text.to_data()))
        });
        let texts = texts.collect::<Result<Vec<StringArray>>>()?;
        let answers: StringArray = (0..rows)
            .map(|row| {
                let values = texts
                    .iter()
                    .map(|text| text.is_valid(row).then(|| text.value(row)));
                let values: Vec<Option<&str>> = values.collect();
                (self.call)(&self.facts, &values)
            })
            .collect();
        Ok(ColumnarValue::Array(cast(&answers, &self.returns)?))
    }
}
