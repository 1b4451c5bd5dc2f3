//! What an app can know of a record beside its value: the `trp:` properties.

use event::Value;
use plan::Mapping;
use rdkafka::message::{Headers as _, Message};

use super::wire::Record;
use connect::component::Payload;
use connect::net::reads_text;
use connect::option::Settings;
use connect::rows::{PROPERTY_PREFIX, Properties};

/// What is known of a record, whichever client has read it.
pub(super) trait Facts {
    fn topic(&self) -> &str;
    fn partition(&self) -> i32;
    fn offset(&self) -> i64;
    /// Milliseconds since 1970; -1 where it has none.
    fn time(&self) -> i64;
    fn key(&self) -> Option<&[u8]>;
    fn value(&self) -> Option<&[u8]>;
    /// Of several headers of a name the last, as `Headers.lastHeader`.
    fn last_header(&self, name: &str) -> Option<&[u8]>;
}

/// A record of librdkafka's.
impl<M: Message> Facts for M {
    fn topic(&self) -> &str {
        Message::topic(self)
    }

    fn partition(&self) -> i32 {
        Message::partition(self)
    }

    fn offset(&self) -> i64 {
        Message::offset(self)
    }

    fn time(&self) -> i64 {
        self.timestamp().to_millis().unwrap_or(-1)
    }

    fn key(&self) -> Option<&[u8]> {
        Message::key(self)
    }

    fn value(&self) -> Option<&[u8]> {
        self.payload()
    }

    fn last_header(&self, name: &str) -> Option<&[u8]> {
        let headers = self.headers()?;
        let found = headers.iter().filter(|header| header.key == name).last();
        found?.value
    }
}

/// A record of the own client's, and the partition that it is of.
pub(super) struct Placed<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub record: Record<'a>,
}

impl Facts for Placed<'_> {
    fn topic(&self) -> &str {
        self.topic
    }

    fn partition(&self) -> i32 {
        self.partition
    }

    fn offset(&self) -> i64 {
        self.record.offset
    }

    fn time(&self) -> i64 {
        self.record.time
    }

    fn key(&self) -> Option<&[u8]> {
        self.record.key
    }

    fn value(&self) -> Option<&[u8]> {
        self.record.value
    }

    fn last_header(&self, name: &str) -> Option<&[u8]> {
        self.record.last_header(name)
    }
}

/// The properties that a mapping names, all of them text (`KafkaConsumerThread`). A name that is none
/// of Kafka's is that of a record's header.
pub(super) struct Wanted {
    fields: Vec<Field>,
    pub properties: Properties,
}

enum Field {
    Topic,
    Partition,
    Key,
    Offset,
    RecordTimestamp,
    EventTimestamp,
    CheckSum,
    Header(String),
}

impl Wanted {
    pub fn new(mapping: &Mapping) -> Wanted {
        let names: Vec<&str> = mapping
            .attributes
            .iter()
            .filter_map(|from| from.trim().strip_prefix(PROPERTY_PREFIX))
            .map(str::trim)
            .collect();
        Wanted {
            fields: names.iter().map(|name| Field::named(name)).collect(),
            properties: Properties::new(&names),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Takes the properties of a record; `now` is the wall clock in milliseconds.
    pub fn take(&mut self, record: &impl Facts, now: i64) {
        for (index, field) in self.fields.iter().enumerate() {
            self.properties.set(index, field.of(record, now));
        }
    }
}

impl Field {
    fn named(name: &str) -> Field {
        match name.to_ascii_lowercase().as_str() {
            "topic" => Field::Topic,
            "partition" => Field::Partition,
            "key" => Field::Key,
            "offset" => Field::Offset,
            "record.timestamp" => Field::RecordTimestamp,
            "event.timestamp" => Field::EventTimestamp,
            "check.sum" => Field::CheckSum,
            _ => Field::Header(name.to_owned()),
        }
    }

    fn of(&self, record: &impl Facts, now: i64) -> Value {
        let number = |number: i64| Value::str(&number.to_string());
        match self {
            Field::Topic => Value::str(record.topic()),
            Field::Partition => number(i64::from(record.partition())),
            // `String.valueOf` of no key.
            Field::Key => record.key().map_or_else(|| Value::str("null"), text),
            Field::Offset => number(record.offset()),
            Field::RecordTimestamp => number(record.time()),
            Field::EventTimestamp => number(now),
            Field::CheckSum => {
                let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i32);
                let (key, value) = (size(record.key()), size(record.value()));
                number(i64::from(check_sum(record.time(), key, value)))
            }
            Field::Header(name) => record.last_header(name).map_or(Value::Null, text),
        }
    }
}

/// Are values bytes? The app says so, or its mapper takes nothing else.
pub(super) fn is_binary(settings: Settings<'_>) -> bool {
    settings.flag("is.binary.message") || !reads_text(settings.transport())
}

/// A value as bytes, or as Java's `StringDeserializer` reads it; `lossy` is for what is not UTF-8.
pub(super) fn payload_of<'a>(
    value: &'a [u8],
    is_binary: bool,
    lossy: &'a mut String,
) -> Payload<'a> {
    if is_binary {
        return Payload::Bytes(value);
    }
    match std::str::from_utf8(value) {
        Ok(text) => Payload::Text(text),
        Err(_) => {
            *lossy = String::from_utf8_lossy(value).into_owned();
            Payload::Text(lossy)
        }
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::str(&String::from_utf8_lossy(bytes))
}

/// What Java's client calls the check sum of a record since records have none of their own: CRC-32C
/// over its time and sizes (`DefaultRecord.computePartialChecksum`).
fn check_sum(time: i64, key_size: i32, value_size: i32) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&time.to_be_bytes());
    bytes[8..12].copy_from_slice(&key_size.to_be_bytes());
    bytes[12..].copy_from_slice(&value_size.to_be_bytes());
    crc32c(&bytes)
}

fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_sums_are_crc_32c() {
        // The check value that every catalog of such sums gives.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_ne!(check_sum(1, -1, 5), check_sum(1, 5, -1));
    }
}
