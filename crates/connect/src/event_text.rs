//! Events as Siddhi prints them: `Event{timestamp=1, data=[A, 2.0], isExpired=false}`.

use std::fmt::Write;

use event::Batch;

use crate::mapper::write_value;

/// A chunk as Siddhi prints an event or an array of events.
pub fn write_events(line: &mut String, batch: &Batch, chunk: usize) {
    let rows = batch.chunk(chunk);
    let is_array = rows.len() != 1;
    if is_array {
        line.push('[');
    }
    for (i, row) in rows.enumerate() {
        if i > 0 {
            line.push_str(", ");
        }
        write_event(line, batch, row);
    }
    if is_array {
        line.push(']');
    }
}

/// The values of a row with commas between them, for a person.
pub(crate) fn row_text(batch: &Batch, row: usize) -> String {
    let values: Vec<String> = batch.row(row).iter().map(event::text::to_text).collect();
    values.join(", ")
}

fn write_event(line: &mut String, batch: &Batch, row: usize) {
    write!(line, "Event{{timestamp={}, data=[", batch.times.at(row))
        .expect("writing to a string cannot fail");
    for (i, column) in batch.columns.iter().enumerate() {
        if i > 0 {
            line.push_str(", ");
        }
        if column.is_null(row) {
            line.push_str("null");
        } else {
            write_value(line, column, row);
        }
    }
    write!(line, "], isExpired={}}}", batch.is_expired(row))
        .expect("writing to a string cannot fail");
}
