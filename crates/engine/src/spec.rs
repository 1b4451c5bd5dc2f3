//! From what is known to what runs: the specs of the components that have code here.
//!
//! The catalog of the language holds the data of every component; a component that runs takes its
//! entry from there and adds an example.

use plan::spec::{FunctionSpec, Status};

/// The catalog's spec of a component that runs.
///
/// Fails to compile where the catalog does not know the name.
pub const fn runs(
    known: &'static [FunctionSpec],
    name: &str,
    example: &'static str,
) -> FunctionSpec {
    let mut i = 0;
    while i < known.len() {
        if same(known[i].name.as_bytes(), name.as_bytes()) {
            return FunctionSpec {
                status: Status::Runs,
                example,
                ..known[i]
            };
        }
        i += 1;
    }
    panic!("the catalog does not know this name")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
