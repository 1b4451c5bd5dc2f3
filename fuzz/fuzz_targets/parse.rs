//! Any text: the parser ends without a panic, its spans lie inside the text, and what it accepts
//! is formatted without a change of meaning, twice with the same result.

#![no_main]

use headwater_lang::format::format;
use headwater_lang::parser::{parse, parse_on_demand};
use headwater_check::render::render;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = parse(text);
    for diagnostic in &parsed.diagnostics {
        let places = diagnostic.related.iter().map(|(span, _)| *span);
        let fix = diagnostic.fix.as_ref().map(|fix| fix.span);
        for span in places.chain(fix).chain([diagnostic.span]) {
            assert!(span.start <= span.end && span.end as usize <= text.len());
            assert!(text.is_char_boundary(span.start as usize));
            assert!(text.is_char_boundary(span.end as usize));
        }
    }
    let catalog = headwater_catalog::full();
    render(&parsed.diagnostics, "fuzz", text, &catalog, true);
    parse_on_demand(text);
    if parsed.has_errors() {
        return;
    }
    let once = format(text).expect("an accepted text is formatted");
    assert_eq!(format(&once).as_deref(), Ok(once.as_str()));
    let (mut before, mut after) = (parsed.app, parse(&once).app);
    before.strip_spans();
    after.strip_spans();
    // NaN cannot be written, so equality of trees is equality of meaning.
    assert!(before == after, "the meaning changed:\n{once}");
});
