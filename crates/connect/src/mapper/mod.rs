//! Mappers: between the bytes of a transport and the rows of a stream.
//!
//! One file a format; a format is a constant in [`MAPPERS`] and makes mappers for both directions.
//! Names, paths and templates are resolved when the mapper is made; per message only values move.
//!
//! Promises: a message that cannot be read is rejected with its place, cause and remedy, and its
//! neighbours go on; size, depth and time are bounded for any input. Never: I/O, clocks, threads.

use crate::component::Mapper;

/// All mappers that run.
pub const MAPPERS: &[&dyn Mapper] = &[];

/// The mapper of a name, as in `@map(type='…')`.
pub fn find(name: &str) -> Option<&'static dyn Mapper> {
    MAPPERS
        .iter()
        .copied()
        .find(|mapper| mapper.specs().iter().any(|spec| spec.name == name))
}

pub mod scalar;

use std::fmt::Write;

use event::Column;
use event::column::View;

/// Appends Java's text form of a value that is not null.
pub(crate) fn write_value(out: &mut String, column: &Column, row: usize) {
    let written = match column.view() {
        View::Bool(v) => write!(out, "{}", v[row]),
        View::Int(v) => write!(out, "{}", v[row]),
        View::Long(v) => write!(out, "{}", v[row]),
        View::Float(v) => return event::text::write_float(out, v[row]),
        View::Double(v) => return event::text::write_double(out, v[row]),
        View::Str(v) => return out.push_str(v.get(row)),
        View::Any(v) => return event::text::write_value(out, &v[row]),
    };
    written.expect("writing to a string cannot fail");
}
