//! `version('table', 12)`: the rows of a table as they were at a version of its files, as far as it can still be read.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::Expr;
use store::scan::{Checked, TableScan};

use crate::table::StoreTable;

const USAGE: &str =
    "version('table', 12) takes the name of a table and a number of 'headwater store versions'";

/// The function, for one statement.
pub(crate) struct VersionFunction {
    tables: HashMap<String, TableScan>,
    checked: Arc<Checked>,
}

impl VersionFunction {
    pub fn new(tables: HashMap<String, TableScan>, checked: Arc<Checked>) -> VersionFunction {
        VersionFunction { tables, checked }
    }
}

impl fmt::Debug for VersionFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("version")
    }
}

impl TableFunctionImpl for VersionFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let [table, version] = args.exprs() else {
            return plan_err!("{USAGE}");
        };
        let name = match table {
            Expr::Literal(
                ScalarValue::Utf8(Some(text))
                | ScalarValue::LargeUtf8(Some(text))
                | ScalarValue::Utf8View(Some(text)),
                _,
            ) => text,
            _ => return plan_err!("{USAGE}"),
        };
        let version = match version {
            Expr::Literal(ScalarValue::Int64(Some(version)), _) => u64::try_from(*version).ok(),
            Expr::Literal(ScalarValue::UInt64(Some(version)), _) => Some(*version),
            _ => None,
        };
        let Some(version) = version else {
            return plan_err!("{USAGE}");
        };
        let plain = name.trim().replace('.', "_").to_lowercase();
        let Some(scan) = self.tables.get(&plain) else {
            return plan_err!("there is no table '{name}': 'show tables' lists them");
        };
        match scan.at(version) {
            Ok(scan) => Ok(Arc::new(StoreTable::new(
                &plain,
                scan,
                Arc::clone(&self.checked),
            ))),
            Err(error) => plan_err!("{error}"),
        }
    }
}
