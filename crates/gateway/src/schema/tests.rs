use serde_json::{Map, json};

use super::*;

fn schema(json: Json) -> Schema {
    Schema::new(json, &Map::new()).expect("it is a schema")
}

#[track_caller]
fn check(of: Json, payload: Json, fault: Option<&str>) {
    let found = schema(of.clone()).fault_of(&payload);
    assert_eq!(found.as_deref(), fault, "{of} of {payload}");
}

#[test]
fn a_fault_has_its_place_and_no_value() {
    let tick = json!({
        "type": "object", "required": ["symbol", "price"], "additionalProperties": false,
        "properties": {
            "symbol": { "type": "string", "pattern": "^[A-Z]{1,5}$" },
            "price": { "type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01 },
            "tags": { "type": "array", "items": { "type": "string" }, "uniqueItems": true, "maxItems": 2 },
        },
    });
    let good = json!({ "symbol": "ACME", "price": 19.99 });
    check(tick.clone(), good, None);
    for (payload, fault) in [
        (json!([]), "it is of type array, not object"),
        (json!({ "price": 1 }), "it has no 'symbol'"),
        (
            json!({ "symbol": "secret", "price": 1 }),
            "'/symbol' does not fit the pattern",
        ),
        (
            json!({ "symbol": "A", "price": "1" }),
            "'/price' is of type string, not number",
        ),
        (
            json!({ "symbol": "A", "price": 0 }),
            "'/price' is not above the exclusive minimum",
        ),
        (
            json!({ "symbol": "A", "price": 0.001 }),
            "'/price' is no multiple of what 'multipleOf' says",
        ),
        (
            json!({ "symbol": "A", "price": 1, "pric": 2 }),
            "it may not have 'pric'",
        ),
        (
            json!({ "symbol": "A", "price": 1, "tags": ["a", 1] }),
            "'/tags/1' is of type number, not string",
        ),
        (
            json!({ "symbol": "A", "price": 1, "tags": ["a", "a"] }),
            "'/tags' has an element twice",
        ),
        (
            json!({ "symbol": "A", "price": 1, "tags": ["a", "b", "c"] }),
            "'/tags' has 3 elements, more than 2",
        ),
    ] {
        check(tick.clone(), payload, Some(fault));
    }
}

#[test]
fn what_is_no_schema_is_named_with_its_place() {
    for (wrong, place, cause) in [
        (
            json!({ "type": "text" }),
            "#",
            "'type' is not one or some of null",
        ),
        (
            json!({ "properties": { "a": { "minLength": -1 } } }),
            "#/properties/a",
            "'minLength' is not a number",
        ),
        (
            json!({ "properties": { "a": 5 } }),
            "#/properties/a",
            "neither an object",
        ),
        (json!({ "pattern": "(?=a)b" }), "#", "look-around"),
        (
            json!({ "pattern": "a{1000}{1000}{1000}" }),
            "#",
            "too large",
        ),
        (json!({ "allOf": [] }), "#", "no list of schemas"),
        (json!({ "multipleOf": 0 }), "#", "above 0"),
        (
            json!({ "$ref": "#/components/schemas/None" }),
            "#/components/schemas/None",
            "leads nowhere",
        ),
    ] {
        let defect = Schema::new(wrong.clone(), &Map::new()).expect_err("it is no schema");
        assert!(
            defect.cause.contains(cause) && defect.place == place,
            "{wrong}: {defect:?}"
        );
    }
}

#[test]
fn references_lead_to_shared_schemas_and_may_lead_back() {
    let document = json!({
        "channels": { "c": { "messages": { "m": { "payload": { "$ref": "#/components/schemas/Tree" } } } } },
        "components": { "schemas": {
            "Tree": { "type": "object", "properties": {
                "leaf": { "$ref": "#/components/schemas/Leaf/definitions/deep" },
                "below": { "type": "array", "items": { "$ref": "#/components/schemas/Tree" } } } },
            "Leaf": { "definitions": { "deep": { "type": "integer" } } },
        } },
    });
    let (mut shared, mut names) = (Map::new(), Default::default());
    let payload = &document["channels"]["c"]["messages"]["m"]["payload"];
    let own = bundle(&document, payload, &mut shared, &mut names).expect("it is whole");
    assert_eq!(own, json!({ "$ref": "#/components/schemas/Tree" }));
    let all: Vec<&String> = shared.keys().collect();
    assert_eq!(all, ["Tree", "ref-deep-1"]);
    let tree = Schema::new(own, &shared).expect("it is a schema");
    assert_eq!(
        tree.fault_of(&json!({ "below": [{ "below": [{ "leaf": 1 }] }] })),
        None
    );
    assert_eq!(
        tree.fault_of(&json!({ "below": [{ "below": [{ "leaf": "x" }] }] }))
            .as_deref(),
        Some("'/below/0/below/0/leaf' is of type string, not integer")
    );
    for wrong in ["other.json#/a", "#/components/schemas/Tre"] {
        let mut names = Default::default();
        let payload = json!({ "items": { "$ref": wrong } });
        let defect =
            bundle(&document, &payload, &mut Map::new(), &mut names).expect_err("it leads nowhere");
        assert_eq!(defect.reference.as_deref(), Some(wrong));
    }
}

#[test]
fn work_is_bounded_whatever_the_schema() {
    let spent = "takes more work than its schema is allowed to make";
    check(json!({ "$ref": "#" }), json!(1), Some(spent));
    check(json!({ "not": { "$ref": "#" } }), json!(1), Some(spent));
    // Each level looks at all levels below it twice.
    let mut deep = json!({ "type": "string" });
    for _ in 0..40 {
        deep = json!({ "anyOf": [deep, { "not": {} }], "oneOf": [deep, { "not": {} }] });
        if deep.to_string().len() > 1 << 20 {
            break;
        }
    }
    let names: Map<String, Json> = (0..30)
        .map(|level| {
            let below = json!({ "$ref": format!("#/components/schemas/L{}", level + 1) });
            (format!("L{level}"), json!({ "anyOf": [below, below] }))
        })
        .chain([("L30".to_owned(), json!(false))])
        .collect();
    let all =
        Schema::new(json!({ "$ref": "#/components/schemas/L0" }), &names).expect("it is a schema");
    assert_eq!(all.fault_of(&json!(1)).as_deref(), Some(spent));
}

/// The cases of draft 07 of <https://github.com/json-schema-org/JSON-Schema-Test-Suite>, but for those about `$id` and
/// other documents, which references of API documents do not lead to.
#[test]
fn the_cases_of_the_draft_are_judged_as_it_says() {
    let cases: Json = serde_json::from_str(include_str!("draft07.json")).expect("it is JSON");
    let (mut count, mut wrong) = (0, Vec::new());
    for group in cases.as_array().expect("it is a list") {
        let schema = schema(group["schema"].clone());
        for case in group["tests"].as_array().expect("it is a list") {
            let is_valid = schema.fault_of(&case["data"]).is_none();
            count += 1;
            if case["valid"] != is_valid {
                wrong.push(format!("{}: {}", group["description"], case["description"]));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count > 900, "{count}");
}
