//! The catalog of this crate's own tests.

use crate::Catalog;

/// All components.
pub(crate) fn catalog() -> Catalog {
    Catalog::new(
        catalog::functions::all().chain(engine::specs()),
        catalog::connectors::all(),
    )
}
