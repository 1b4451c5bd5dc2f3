//! The catalog of this crate's own tests.

use crate::Catalog;

/// All components.
pub(crate) fn catalog() -> Catalog {
    Catalog::new(catalog::function_specs(), catalog::connector_specs())
}
