//! Projects of API Manager's apictl: any bytes as a zip, and any text as the `api.yaml` of one.

#![no_main]

use headwater_gateway::document;
use headwater_gateway::project::{Issuer, import_text, import_zip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let issuer = Issuer::default();
    let of_text = std::str::from_utf8(bytes).ok();
    let of_text = of_text.and_then(|text| import_text(text, &issuer).ok());
    for imported in import_zip(bytes, &issuer).ok().into_iter().chain(of_text) {
        let document = document::read(&imported.document, "api.yaml");
        assert!(document.api.is_some(), "what is imported can be served: {:?}", document.diagnostics);
    }
});
