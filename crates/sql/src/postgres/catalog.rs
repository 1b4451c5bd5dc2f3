//! `pg_catalog` over the tables of a store: what `psql`, drivers and tools ask before they ask anything else.
//!
//! Tables of the catalog that describe what a store does not have (indexes, policies, triggers) are there and empty.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider as _};
use datafusion::common::Result;

use super::Asker;
use super::functions;
use super::rows;
use crate::engine::{Snapshot, defect};
use crate::error::Error;

/// The database that a store is.
pub(super) const DATABASE: &str = "store";

/// Whom everything belongs to.
pub(super) const OWNER: &str = "headwater";

const OWNER_OID: u32 = 10;
const PG_CATALOG: u32 = 11;
const PUBLIC: u32 = 2200;
const INFORMATION_SCHEMA: u32 = 13_000;

/// The first table; PostgreSQL gives its users' tables such numbers.
const FIRST_TABLE: u32 = 16_384;

/// Tables of the catalog with their columns: `o` a number of an object, `n` a text, `i` and `s` whole numbers of 32 and
/// 16 bits, `b` true or false, `f` a real number. Those with a mark before them are always empty.
const TABLES: &[(&str, &str)] = &[
    ("pg_namespace", "oid:o nspname:n nspowner:o nspacl:n"),
    (
        "pg_class",
        "oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o \
         relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence:n relkind:n \
         relnatts:s relchecks:s relhasoids:b relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b \
         relforcerowsecurity:b relispopulated:b relreplident:n relispartition:b relrewrite:o relacl:n reloptions:n \
         relpartbound:n",
    ),
    (
        "pg_attribute",
        "attrelid:o attname:n atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i atttypmod:i \
         attbyval:b attstorage:n attalign:n attcompression:n attnotnull:b atthasdef:b atthasmissing:b attidentity:n \
         attgenerated:n attisdropped:b attislocal:b attinhcount:i attcollation:o attacl:n attoptions:n attfdwoptions:n",
    ),
    (
        "pg_type",
        "oid:o typname:n typnamespace:o typowner:o typlen:s typbyval:b typtype:n typcategory:n typispreferred:b \
         typisdefined:b typdelim:n typrelid:o typelem:o typarray:o typinput:n typoutput:n typreceive:n typsend:n \
         typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefault:n",
    ),
    (
        "pg_database",
        "oid:o datname:n datdba:o encoding:i datlocprovider:n datistemplate:b datallowconn:b datconnlimit:i \
         dattablespace:o datcollate:n datctype:n daticulocale:n datacl:n",
    ),
    (
        "pg_roles",
        "oid:o rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
         rolconnlimit:i rolvaliduntil:n rolbypassrls:b rolconfig:n",
    ),
    ("pg_user", "usename:n usesysid:o usecreatedb:b usesuper:b"),
    ("pg_am", "oid:o amname:n amhandler:n amtype:n"),
    (
        "-pg_collation",
        "oid:o collname:n collnamespace:o collowner:o collprovider:n collisdeterministic:b collencoding:i",
    ),
    (
        "pg_settings",
        "name:n setting:n unit:n category:n short_desc:n context:n vartype:n source:n",
    ),
    (
        "pg_tables",
        "schemaname:n tablename:n tableowner:n tablespace:n hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    ("-pg_attrdef", "oid:o adrelid:o adnum:s adbin:n"),
    (
        "-pg_constraint",
        "oid:o conname:n connamespace:o contype:n condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o \
         conindid:o conparentid:o confrelid:o confupdtype:n confdeltype:n confmatchtype:n conislocal:b conkey:n \
         confkey:n conbin:n",
    ),
    (
        "-pg_index",
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indisprimary:b indisexclusion:b indimmediate:b \
         indisclustered:b indisvalid:b indisready:b indislive:b indisreplident:b indkey:n indcollation:n indclass:n \
         indoption:n indexprs:n indpred:n",
    ),
    (
        "-pg_description",
        "objoid:o classoid:o objsubid:i description:n",
    ),
    ("-pg_shdescription", "objoid:o classoid:o description:n"),
    (
        "-pg_seclabel",
        "objoid:o classoid:o objsubid:i provider:n label:n",
    ),
    (
        "-pg_inherits",
        "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    ),
    (
        "-pg_partitioned_table",
        "partrelid:o partstrat:n partnatts:s partdefid:o partattrs:n",
    ),
    (
        "-pg_policy",
        "oid:o polname:n polrelid:o polcmd:n polpermissive:b polroles:n polqual:n polwithcheck:n",
    ),
    (
        "-pg_publication",
        "oid:o pubname:n pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b",
    ),
    (
        "-pg_publication_rel",
        "oid:o prpubid:o prrelid:o prqual:n prattrs:n",
    ),
    ("-pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    (
        "-pg_statistic_ext",
        "oid:o stxrelid:o stxname:n stxnamespace:o stxowner:o stxkeys:n stxkind:n stxstattarget:i",
    ),
    (
        "-pg_trigger",
        "oid:o tgrelid:o tgparentid:o tgname:n tgfoid:o tgtype:s tgenabled:n tgisinternal:b tgconstraint:o",
    ),
    (
        "-pg_rewrite",
        "oid:o rulename:n ev_class:o ev_type:n ev_enabled:n is_instead:b",
    ),
    ("-pg_enum", "oid:o enumtypid:o enumsortorder:f enumlabel:n"),
    (
        "-pg_range",
        "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o",
    ),
    (
        "-pg_proc",
        "oid:o proname:n pronamespace:o proowner:o prolang:o prokind:n proretset:b prorettype:o proargtypes:n pronargs:s prosrc:n",
    ),
    (
        "-pg_operator",
        "oid:o oprname:n oprnamespace:o oprleft:o oprright:o oprresult:o",
    ),
    (
        "-pg_opclass",
        "oid:o opcmethod:o opcname:n opcnamespace:o opcintype:o opcdefault:b",
    ),
    (
        "-pg_cast",
        "oid:o castsource:o casttarget:o castfunc:o castcontext:n castmethod:n",
    ),
    ("-pg_language", "oid:o lanname:n lanowner:o"),
    (
        "-pg_depend",
        "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:n",
    ),
    (
        "-pg_extension",
        "oid:o extname:n extowner:o extnamespace:o extversion:n",
    ),
    (
        "-pg_available_extensions",
        "name:n default_version:n installed_version:n comment:n",
    ),
    ("-pg_foreign_table", "ftrelid:o ftserver:o ftoptions:n"),
    ("-pg_foreign_server", "oid:o srvname:n srvowner:o srvfdw:o"),
    ("-pg_foreign_data_wrapper", "oid:o fdwname:n fdwowner:o"),
    (
        "-pg_tablespace",
        "oid:o spcname:n spcowner:o spcacl:n spcoptions:n",
    ),
    (
        "-pg_auth_members",
        "roleid:o member:o grantor:o admin_option:b",
    ),
    (
        "-pg_event_trigger",
        "oid:o evtname:n evtevent:n evtowner:o evtenabled:n",
    ),
    ("-pg_ts_config", "oid:o cfgname:n cfgnamespace:o"),
    ("-pg_ts_dict", "oid:o dictname:n dictnamespace:o"),
    (
        "-pg_sequence",
        "seqrelid:o seqtypid:o seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b",
    ),
    (
        "-pg_sequences",
        "schemaname:n sequencename:n sequenceowner:n",
    ),
    (
        "-pg_views",
        "schemaname:n viewname:n viewowner:n definition:n",
    ),
    (
        "-pg_matviews",
        "schemaname:n matviewname:n matviewowner:n definition:n",
    ),
    (
        "-pg_indexes",
        "schemaname:n tablename:n indexname:n tablespace:n indexdef:n",
    ),
    (
        "-pg_stat_activity",
        "datid:o datname:n pid:i usename:n application_name:n state:n query:n",
    ),
    (
        "-pg_stat_user_tables",
        "relid:o schemaname:n relname:n n_live_tup:o n_dead_tup:o",
    ),
    (
        "-pg_locks",
        "locktype:n database:o relation:o pid:i mode:n granted:b",
    ),
];

/// Types that a value or a parameter may have: number, name, bytes, category, and the type of a list of them.
pub(super) const TYPES: &[(u32, &str, &str, i16, char, u32)] = &[
    (16, "bool", "boolean", 1, 'B', 1000),
    (17, "bytea", "bytea", -1, 'U', 1001),
    (18, "char", "\"char\"", 1, 'Z', 1002),
    (19, "name", "name", 64, 'S', 1003),
    (20, "int8", "bigint", 8, 'N', 1016),
    (21, "int2", "smallint", 2, 'N', 1005),
    (23, "int4", "integer", 4, 'N', 1007),
    (24, "regproc", "regproc", 4, 'N', 1008),
    (25, "text", "text", -1, 'S', 1009),
    (26, "oid", "oid", 4, 'N', 1028),
    (114, "json", "json", -1, 'U', 199),
    (700, "float4", "real", 4, 'N', 1021),
    (701, "float8", "double precision", 8, 'N', 1022),
    (705, "unknown", "unknown", -2, 'X', 0),
    (1042, "bpchar", "character", -1, 'S', 1014),
    (1043, "varchar", "character varying", -1, 'S', 1015),
    (1082, "date", "date", 4, 'D', 1182),
    (1083, "time", "time without time zone", 8, 'D', 1183),
    (
        1114,
        "timestamp",
        "timestamp without time zone",
        8,
        'D',
        1115,
    ),
    (
        1184,
        "timestamptz",
        "timestamp with time zone",
        8,
        'D',
        1185,
    ),
    (1186, "interval", "interval", 16, 'T', 1187),
    (1700, "numeric", "numeric", -1, 'N', 1231),
    (2205, "regclass", "regclass", 4, 'N', 2210),
    (2206, "regtype", "regtype", 4, 'N', 2211),
    (2950, "uuid", "uuid", 16, 'U', 2951),
];

type Row = Vec<Option<String>>;

/// The columns of a table of the catalog, and whether it is always empty.
pub(super) fn columns_of(table: &str) -> Option<(&'static str, bool)> {
    TABLES.iter().find_map(|(name, columns)| {
        let plain = name.trim_start_matches('-');
        (plain == table).then_some((*columns, plain != *name))
    })
}

/// Makes it of the tables of a store, for who asks.
///
/// # Errors
/// A defect.
pub(super) fn add(store: &Snapshot, asker: &Asker) -> std::result::Result<(), Error> {
    let numbers = store.schemas.iter().map(|(name, _)| name.clone());
    let tables: HashMap<String, u32> = numbers.zip(FIRST_TABLE..).collect();
    let tables = Arc::new(tables);
    let schema = MemorySchemaProvider::new();
    for (name, columns) in TABLES {
        let name = name.trim_start_matches('-');
        let table = table(columns, &rows_of(name, store, &tables, asker));
        let table = table.and_then(|table| schema.register_table(name.to_owned(), Arc::new(table)));
        table.map_err(defect)?;
    }
    let catalog = store
        .context
        .catalog(DATABASE)
        .ok_or_else(|| defect("there is no catalog"))?;
    let registered = catalog.register_schema("pg_catalog", Arc::new(schema));
    registered.map_err(defect)?;
    functions::add(&store.context, &tables, asker);
    Ok(())
}

fn table(columns: &str, rows: &[Row]) -> Result<MemTable> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (at, column) in columns.split_whitespace().enumerate() {
        let (name, kind) = column.split_once(':').unwrap_or((column, "n"));
        let ty = match kind {
            "o" => DataType::Int64,
            "i" => DataType::Int32,
            "s" => DataType::Int16,
            "b" => DataType::Boolean,
            "f" => DataType::Float32,
            _ => DataType::Utf8,
        };
        let texts: StringArray = rows
            .iter()
            .map(|row| row.get(at).cloned().flatten())
            .collect();
        arrays.push(cast(&texts, &ty)?);
        fields.push(Field::new(name, ty, true));
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    MemTable::try_new(schema, vec![vec![batch]])
}

/// A row from values by the names of their columns; the others are `false`, 0 or nothing.
fn row(table: &str, values: &[(&str, &dyn ToString)]) -> Row {
    let columns = columns_of(table).map_or("", |(columns, _)| columns);
    let row = columns.split_whitespace().map(|column| {
        let (name, kind) = column.split_once(':').unwrap_or((column, "n"));
        let given = values.iter().find(|(known, _)| *known == name);
        match (given, kind) {
            (Some((_, value)), _) => Some(value.to_string()),
            (None, "b") => Some("false".to_owned()),
            (None, "n") if is_list(name) => None,
            (None, "n") => Some(String::new()),
            (None, _) => Some("0".to_owned()),
        }
    });
    row.collect()
}

/// Such columns are null where there is nothing.
fn is_list(name: &str) -> bool {
    [
        "acl", "options", "bound", "config", "default", "icu", "valid",
    ]
    .iter()
    .any(|part| name.contains(part))
}

fn rows_of(
    table: &str,
    store: &Snapshot,
    tables: &HashMap<String, u32>,
    asker: &Asker,
) -> Vec<Row> {
    let number = |name: &str| tables.get(name).copied().unwrap_or(0);
    match table {
        "pg_namespace" => [
            (PG_CATALOG, "pg_catalog"),
            (PUBLIC, "public"),
            (INFORMATION_SCHEMA, "information_schema"),
        ]
        .map(|(oid, name)| {
            row(
                table,
                &[("oid", &oid), ("nspname", &name), ("nspowner", &OWNER_OID)],
            )
        })
        .to_vec(),
        "pg_class" => store
            .schemas
            .iter()
            .map(|(name, schema)| {
                row(
                    table,
                    &[
                        ("oid", &number(name)),
                        ("relname", name),
                        ("relnamespace", &PUBLIC),
                        ("relowner", &OWNER_OID),
                        ("relam", &2),
                        ("reltuples", &-1),
                        ("relpersistence", &'p'),
                        ("relkind", &'r'),
                        ("relnatts", &schema.fields().len()),
                        ("relispopulated", &true),
                        ("relreplident", &'d'),
                    ],
                )
            })
            .collect(),
        "pg_attribute" => store
            .schemas
            .iter()
            .flat_map(|(name, schema)| {
                let fields = schema.fields().iter().enumerate();
                fields.map(move |(at, field)| {
                    let (oid, size) = rows::oid(field.data_type());
                    row(
                        table,
                        &[
                            ("attrelid", &number(name)),
                            ("attname", field.name()),
                            ("atttypid", &oid),
                            ("attstattarget", &-1),
                            ("attlen", &size),
                            ("attnum", &(at + 1)),
                            ("attcacheoff", &-1),
                            ("atttypmod", &-1),
                            ("attbyval", &(size > 0)),
                            ("attstorage", &'p'),
                            ("attalign", &'i'),
                            ("attnotnull", &!field.is_nullable()),
                            ("attislocal", &true),
                        ],
                    )
                })
            })
            .collect(),
        "pg_type" => TYPES
            .iter()
            .map(|(oid, name, _, size, category, list)| {
                row(
                    table,
                    &[
                        ("oid", oid),
                        ("typname", name),
                        ("typnamespace", &PG_CATALOG),
                        ("typowner", &OWNER_OID),
                        ("typlen", size),
                        ("typbyval", &(*size > 0)),
                        ("typtype", &'b'),
                        ("typcategory", category),
                        ("typisdefined", &true),
                        ("typdelim", &','),
                        ("typarray", list),
                        ("typinput", &format!("{name}in")),
                        ("typoutput", &format!("{name}out")),
                        ("typreceive", &format!("{name}recv")),
                        ("typsend", &format!("{name}send")),
                        ("typtypmod", &-1),
                    ],
                )
            })
            .collect(),
        "pg_database" => vec![row(
            table,
            &[
                ("oid", &FIRST_TABLE),
                ("datname", &DATABASE),
                ("datdba", &OWNER_OID),
                // UTF-8.
                ("encoding", &6),
                ("datlocprovider", &'c'),
                ("datallowconn", &true),
                ("datconnlimit", &-1),
                ("datcollate", &"C.UTF-8"),
                ("datctype", &"C.UTF-8"),
            ],
        )],
        "pg_roles" => [(OWNER_OID, OWNER), (FIRST_TABLE, &asker.user)]
            .map(|(oid, name)| {
                row(
                    table,
                    &[
                        ("oid", &oid),
                        ("rolname", &name),
                        ("rolinherit", &true),
                        ("rolcanlogin", &(name != OWNER)),
                        ("rolconnlimit", &-1),
                    ],
                )
            })
            .to_vec(),
        "pg_user" => vec![row(
            table,
            &[("usename", &asker.user), ("usesysid", &FIRST_TABLE)],
        )],
        "pg_am" => vec![row(
            table,
            &[("oid", &2), ("amname", &"heap"), ("amtype", &'t')],
        )],
        "pg_settings" => asker
            .settings
            .iter()
            .map(|(name, value)| {
                row(
                    table,
                    &[("name", name), ("setting", value), ("vartype", &"string")],
                )
            })
            .collect(),
        "pg_tables" => store
            .schemas
            .iter()
            .map(|(name, _)| {
                row(
                    table,
                    &[
                        ("schemaname", &"public"),
                        ("tablename", name),
                        ("tableowner", &OWNER),
                    ],
                )
            })
            .collect(),
        _ => Vec::new(),
    }
}
