//! What the tests of network connectors share: transports made of short lists.

use std::sync::Arc;

use event::{Attribute, Schema, Type};
use lang::span::Span;
use plan::{Mapping, Transport};

use crate::component::{Environment, SinkSetup, SourceSetup};

pub fn transport(ty: &str, options: &[(&str, &str)]) -> Transport {
    Transport {
        ty: ty.into(),
        options: options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        map: Mapping {
            ty: "json".into(),
            options: Vec::new(),
            attributes: Vec::new(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    }
}

pub fn schema() -> Schema {
    Schema {
        name: "S".into(),
        attributes: vec![Attribute {
            name: "a".into(),
            ty: Type::String,
        }],
    }
}

pub fn source<T>(
    ty: &str,
    options: &[(&str, &str)],
    make: impl FnOnce(&SourceSetup<'_>) -> T,
) -> T {
    make(&SourceSetup {
        transport: &transport(ty, options),
        schema: &schema(),
        environment: &Environment::new("A"),
    })
}

pub fn sink<T>(ty: &str, options: &[(&str, &str)], make: impl FnOnce(&SinkSetup<'_>) -> T) -> T {
    make(&SinkSetup {
        transport: &transport(ty, options),
        schema: &schema(),
        dynamic: &[],
        table: None,
        environment: &Environment::new("A"),
        answers: &Arc::default(),
    })
}
