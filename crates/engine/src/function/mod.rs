//! Scalar functions, a folder per namespace.
//!
//! A new function is one Rust function in the folder of its namespace and one line in its slice; see
//! [`row::RowFunction`]. Those worth it work on whole columns instead, and some calls inside of others as
//! one ([`fused`]). Texts are Java's: indexes
//! count UTF-16 units, patterns are those of `java.util.regex` and `SimpleDateFormat`.

mod core;
pub(crate) mod fused;
pub(crate) mod java_map;
pub(crate) mod json;
mod list;
mod map;
mod math;
mod memo;
mod number;
mod object;
mod regex;
mod row;
mod str;
#[cfg(test)]
mod testing;
pub(crate) mod time;
mod unitconversion;
pub(crate) mod utf16;

pub(crate) use memo::Memo;

use crate::component::Function;

/// All scalar functions that run, namespace by namespace, sorted by name inside each.
pub fn functions() -> impl Iterator<Item = &'static dyn Function> {
    let rows = [
        core::ROWS,
        json::ROWS,
        list::ROWS,
        map::ROWS,
        math::ROWS,
        regex::ROWS,
        str::ROWS,
        time::ROWS,
        unitconversion::ROWS,
    ];
    let columns = [core::COLUMNS, math::COLUMNS, str::COLUMNS];
    let rows = rows.into_iter().flatten().map(|f| f as &dyn Function);
    rows.chain(columns.into_iter().flatten().copied())
}
