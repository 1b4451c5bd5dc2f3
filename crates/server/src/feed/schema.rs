//! What a configuration looks like, as JSON schema: all that [`super::config`] judges field by field.
//!
//! What two fields say of each other (`min` not above `max`, `startTimestamp` not after `endTimestamp`) has no
//! place in a schema.

use serde_json::{Value as Json, json};

use super::config::SOURCES_MAX;

/// A text with more in it than white space.
fn words() -> Json {
    json!({ "type": "string", "pattern": "\\S" })
}

/// A whole number from 0, also in a text; or none, for which there are several words.
fn count() -> Json {
    json!({ "anyOf": [
        { "type": "integer", "minimum": -1, "maximum": i64::MAX },
        { "type": "string", "pattern": "^(-1|[0-9]{0,18})$" },
        { "type": "null" },
    ] })
}

fn no_count() -> Json {
    json!({ "enum": [null, "", -1, "-1"] })
}

pub(crate) fn schema() -> Json {
    let properties = json!({
        "type": "object",
        "required": ["simulationName"],
        "properties": {
            "simulationName": words(),
            "startTimestamp": count(),
            "endTimestamp": count(),
            "noOfEvents": count(),
            "timeInterval": count(),
        },
    });
    json!({
        "type": "object",
        "required": ["properties", "sources"],
        "properties": {
            "properties": properties,
            "sources": {
                "type": "array",
                "minItems": 1,
                "maxItems": SOURCES_MAX,
                "items": { "oneOf": [random(), csv(), table()] },
            },
        },
    })
}

/// A source of that type, with these fields beside those that each has.
fn source(kind: &str, required: &[&str], fields: Json) -> Json {
    let mut all = json!({
        "simulationType": { "const": kind },
        "siddhiAppName": words(),
        "streamName": words(),
        "timestampInterval": count(),
    });
    if let (Json::Object(all), Json::Object(fields)) = (&mut all, fields) {
        all.extend(fields);
    }
    let required = [&["simulationType", "siddhiAppName", "streamName"], required].concat();
    json!({ "type": "object", "required": required, "properties": all })
}

fn random() -> Json {
    let number = json!({ "anyOf": [
        { "type": "number" },
        { "type": "string", "pattern": "^-?[0-9]{1,15}([.][0-9]{1,15})?$" },
    ] });
    let none = json!({ "enum": [null, ""] });
    let range = json!({
        "type": "object",
        "required": ["type", "min", "max"],
        "properties": {
            "type": { "const": "PRIMITIVE_BASED" },
            "min": number,
            "max": number,
            "precision": count(),
        },
    });
    let letters = json!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": { "const": "PRIMITIVE_BASED" },
            "min": none,
            "max": none,
            "length": count(),
        },
    });
    let choice = json!({
        "type": "object",
        "required": ["type", "list"],
        "properties": {
            "type": { "const": "CUSTOM_DATA_BASED" },
            "list": { "anyOf": [{ "type": "array", "minItems": 1 }, { "type": "string" }] },
        },
    });
    let attributes = json!({ "type": "array", "items": { "oneOf": [range, letters, choice] } });
    source(
        "RANDOM_DATA_SIMULATION",
        &["attributeConfiguration"],
        json!({ "attributeConfiguration": attributes }),
    )
}

fn table() -> Json {
    let optional = json!({ "type": ["string", "null"] });
    let names = json!({ "anyOf": [
        { "type": "string", "pattern": "^(\\s*[^,\\s][^,]*(,\\s*[^,\\s][^,]*)*)?$" },
        { "type": "null" },
    ] });
    source(
        "DATABASE_SIMULATION",
        &["dataSourceLocation", "tableName"],
        json!({
            "driver": optional,
            "dataSourceLocation": words(),
            "username": optional,
            "password": optional,
            "tableName": words(),
            "columnNamesList": names,
            "timestampAttribute": optional,
        }),
    )
}

fn csv() -> Json {
    let file = json!({ "type": "string", "allOf": [
        { "pattern": "\\S" },
        { "pattern": "^[^/]+$" },
        { "not": { "enum": [".", ".."] } },
    ] });
    let of = |timestamp: Json, ordered: Json, required: &[&str]| {
        let required = [&["fileName", "delimiter"], required].concat();
        let fields = json!({
            "fileName": file,
            "delimiter": { "type": "string", "minLength": 1 },
            "timestampAttribute": timestamp,
            "isOrdered": ordered,
        });
        source("CSV_SIMULATION", &required, fields)
    };
    let column = json!({ "anyOf": [
        { "type": "integer", "minimum": 0, "maximum": i64::MAX },
        { "type": "string", "pattern": "^[0-9]{1,18}$" },
    ] });
    let ordered = json!({ "enum": [true, false, "true", "false"] });
    json!({ "oneOf": [
        of(no_count(), json!({}), &[]),
        of(column, ordered, &["timestampAttribute", "isOrdered"]),
    ] })
}
