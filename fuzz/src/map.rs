//! What the targets of the mappers share.

use headwater_connect::component::PayloadKind;
use headwater_connect::row_decoder::RowDecoder;
use headwater_event::{Attribute, Schema, Type};
use headwater_plan::{Mapping, Transport};
use headwater_lang::span::Span;

/// The way in of a stream with these attributes (`a string`), mapped `from` these (default mapping
/// where there are none).
pub fn decoder(format: &str, options: &[(&str, &str)], attributes: &[&str], from: &[&str]) -> RowDecoder {
    try_decoder(format, options, attributes, from).expect("the mapping is right")
}

/// The same for a mapping that may be wrong.
pub fn try_decoder(
    format: &str,
    options: &[(&str, &str)],
    attributes: &[&str],
    from: &[&str],
) -> Option<RowDecoder> {
    let schema = Schema {
        name: "S".to_owned(),
        attributes: attributes
            .iter()
            .filter_map(|text| text.split_once(' '))
            .map(|(name, ty)| Attribute {
                name: name.to_owned(),
                ty: Type::from_name(ty).expect("the type is known"),
            })
            .collect(),
    };
    let transport = Transport {
        ty: "fuzz".to_owned(),
        options: Vec::new(),
        map: Mapping {
            ty: format.to_owned(),
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            attributes: from.iter().map(|from| (*from).to_owned()).collect(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    };
    RowDecoder::new(&transport, &schema, &[PayloadKind::Any]).ok()
}

/// Appends the rows mapped so far, and counts what was rejected.
pub fn outcome(decoder: &mut RowDecoder, all: &mut (String, usize)) {
    if let Some(batch) = decoder.take() {
        for row in 0..batch.len {
            all.0.push_str(&format!("{:?}\n", batch.row(row)));
        }
    }
    all.1 += decoder.take_rejected().len();
}
