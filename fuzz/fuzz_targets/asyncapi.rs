//! Documents of APIs: any text.

#![no_main]

use headwater_gateway::document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let document = document::read(text, "api.yaml");
    for diagnostic in &document.diagnostics {
        let span = diagnostic.span.start as usize..diagnostic.span.end as usize;
        assert!(text.get(span).is_some(), "each fault has a place in the text");
    }
    let has_errors = document.diagnostics.iter().any(|d| d.code.starts_with('E'));
    assert_eq!(has_errors, document.api.is_none(), "a document is right or has an error");
});
