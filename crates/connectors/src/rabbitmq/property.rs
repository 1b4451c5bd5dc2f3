//! Properties and headers of messages, as options and transport properties call them.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

/// What options may set beside the headers.
pub(super) const SETTABLE: [&str; 12] = [
    "content.type",
    "content.encoding",
    "delivery.mode",
    "priority",
    "correlation.id",
    "reply.to",
    "expiration",
    "message.id",
    "timestamp",
    "type",
    "user.id",
    "app.id",
];

/// The longest text of names, keys and most properties, in bytes.
pub(super) const SHORT_BYTES_MAX: usize = 255;

/// Of a text whose length was checked.
pub(super) fn short(text: &str) -> ShortString {
    ShortString::try_new(text).expect("what is longer was refused before")
}

/// Headers, or arguments, which are text.
pub(super) fn table(entries: &[(String, String)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        let value = AMQPValue::LongString(LongString::from(value.as_bytes()));
        table.insert(short(name), value);
    }
    table
}

/// Sets a property by its name; numbers were checked before.
pub(super) fn set(properties: BasicProperties, name: &str, value: &str) -> BasicProperties {
    let text = || short(value);
    let byte = || value.parse().unwrap_or_default();
    match name {
        "content.type" => properties.with_content_type(text()),
        "content.encoding" => properties.with_content_encoding(text()),
        "delivery.mode" => properties.with_delivery_mode(byte()),
        "priority" => properties.with_priority(byte()),
        "correlation.id" => properties.with_correlation_id(text()),
        "reply.to" => properties.with_reply_to(text()),
        "expiration" => properties.with_expiration(text()),
        "message.id" => properties.with_message_id(text()),
        "timestamp" => properties.with_timestamp(value.parse().unwrap_or_default()),
        "type" => properties.with_type(text()),
        "user.id" => properties.with_user_id(text()),
        "app.id" => properties.with_app_id(text()),
        _ => properties,
    }
}

/// A property, or else the header of that name.
pub(super) fn find(properties: &BasicProperties, name: &str) -> Option<String> {
    let text = |value: &Option<ShortString>| value.as_ref().map(|text| text.as_str().to_owned());
    let byte = |value: &Option<u8>| value.map(|number| number.to_string());
    let own = match name {
        "content.type" => text(properties.content_type()),
        "content.encoding" => text(properties.content_encoding()),
        "delivery.mode" => byte(properties.delivery_mode()),
        "priority" => byte(properties.priority()),
        "correlation.id" => text(properties.correlation_id()),
        "reply.to" => text(properties.reply_to()),
        "expiration" => text(properties.expiration()),
        "message.id" => text(properties.message_id()),
        "timestamp" => properties.timestamp().map(|seconds| seconds.to_string()),
        "type" => text(properties.kind()),
        "user.id" => text(properties.user_id()),
        "app.id" => text(properties.app_id()),
        "cluster.id" => text(properties.cluster_id()),
        _ => None,
    };
    own.or_else(|| {
        let headers = properties.headers().as_ref()?;
        headers.inner().get(name).map(shown)
    })
}

/// A value of a header as text; tables and lists as JSON would have them. How deep they are nested was
/// judged before lapin read them.
fn shown(value: &AMQPValue) -> String {
    let quoted = |value: &AMQPValue| serde_json::Value::from(shown(value)).to_string();
    match value {
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Timestamp(seconds) => seconds.to_string(),
        AMQPValue::Float(value) => value.to_string(),
        AMQPValue::Double(value) => value.to_string(),
        AMQPValue::DecimalValue(value) => {
            // The digits have a sign, whatever lapin calls them.
            let digits = f64::from(value.value.cast_signed());
            (digits / 10_f64.powi(i32::from(value.scale))).to_string()
        }
        AMQPValue::ShortString(text) => text.as_str().to_owned(),
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into_owned(),
        AMQPValue::Void => "null".to_owned(),
        AMQPValue::FieldTable(table) => {
            let entries = table.inner().iter().map(|(name, value)| {
                let name = serde_json::Value::from(name.as_str());
                format!("{name}:{}", quoted(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        AMQPValue::FieldArray(items) => {
            let items: Vec<String> = items.as_slice().iter().map(quoted).collect();
            format!("[{}]", items.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::{ByteArray, DecimalValue, FieldArray};

    use super::*;

    #[test]
    fn properties_are_found_by_their_names_and_headers_behind_them() {
        let mut properties = BasicProperties::default();
        for name in SETTABLE {
            properties = set(properties, name, "17");
        }
        let headers = [("h", "é"), ("type", "hidden")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let properties = properties.with_headers(table(&headers));
        for name in SETTABLE {
            assert_eq!(find(&properties, name).as_deref(), Some("17"), "{name}");
        }
        assert_eq!(find(&properties, "h").as_deref(), Some("é"));
        assert_eq!(find(&properties, "cluster.id"), None);
    }

    #[test]
    fn values_of_headers_become_text() {
        fn check(value: AMQPValue, expect: &str) {
            assert_eq!(shown(&value), expect, "{value:?}");
        }
        check(true.into(), "true");
        check(AMQPValue::ShortShortInt(-1), "-1");
        check(AMQPValue::LongInt(-2), "-2");
        check(AMQPValue::LongLongInt(5), "5");
        check(AMQPValue::Double(1.5), "1.5");
        let (scale, value) = (2, 250);
        check(
            AMQPValue::DecimalValue(DecimalValue { scale, value }),
            "2.5",
        );
        check(AMQPValue::LongString("hi".into()), "hi");
        check(AMQPValue::ByteArray(ByteArray::from(&b"b"[..])), "b");
        check(AMQPValue::Void, "null");
        let list = FieldArray::from(vec![true.into(), AMQPValue::LongString("\"".into())]);
        check(AMQPValue::FieldArray(list), r#"["true","\""]"#);
        let nested = table(&[("a".to_owned(), "b".to_owned())]);
        check(AMQPValue::FieldTable(nested), r#"{"a":"b"}"#);
    }
}
