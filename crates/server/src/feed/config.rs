//! What a feed sends, read from the JSON of Streaming Integrator's event simulator.

use std::fmt;
use std::path::{Component, Path};
use std::time::Duration;

use event::Schema;
use serde_json::Value as Json;

use crate::random::Pattern;

/// Sources of a feed.
pub(super) const SOURCES_MAX: usize = 32;

/// Milliseconds between two events, and between two timestamps, where nothing is said.
const INTERVAL: i64 = 1000;

/// Digits behind the point of a random number at most.
const DECIMALS_MAX: i64 = 15;

/// Letters of a random text at most.
const LETTERS_MAX: i64 = 1000;

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub name: String,
    /// Pause between two events.
    pub interval: Duration,
    /// Timestamp of the first event, milliseconds; without it that of the start.
    pub start: Option<i64>,
    /// Events with later timestamps are left out.
    pub end: Option<i64>,
    /// So many are sent; without it, until the sources have no more.
    pub events: Option<u64>,
    pub sources: Vec<SourceConfig>,
}

#[derive(Clone, Debug)]
pub(super) struct SourceConfig {
    pub app: String,
    pub stream: String,
    /// Milliseconds from one timestamp to the next.
    pub step: i64,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// One for each attribute of the stream.
    Random(Vec<Pattern>),
    Csv {
        /// A name in the folder of the simulator's files.
        file: String,
        delimiter: char,
        /// Number of the column with the timestamp, which is no attribute.
        timestamp: Option<usize>,
        /// Its timestamps ascend.
        is_ordered: bool,
    },
    Table(TableSource),
}

/// A table of a database.
#[derive(Clone, Debug)]
pub(super) struct TableSource {
    pub jdbc_url: Secret,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub table: String,
    /// Without any, they are called as the attributes of the stream.
    pub columns: Vec<String>,
    /// The column with the timestamp, which is no attribute.
    pub timestamp: Option<String>,
}

/// What may be a secret, or have one in it.
#[derive(Clone)]
pub(super) struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Config {
    /// # Errors
    /// What is missing or wrong, and where.
    pub fn parse(json: &Json) -> Result<Config, String> {
        let properties = &json["properties"];
        if !properties.is_object() {
            return Err("'properties' is missing: send {\"properties\":{\"simulationName\":…},\"sources\":[…]}".to_owned());
        }
        let name = text(properties, "simulationName").map_err(|e| format!("properties: {e}"))?;
        let of = |key: &str| number(properties, key).map_err(|e| format!("properties: {e}"));
        let (start, end) = (of("startTimestamp")?, of("endTimestamp")?);
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            return Err("properties: 'endTimestamp' is before 'startTimestamp'".to_owned());
        }
        let interval = of("timeInterval")?.unwrap_or(INTERVAL);
        let events = of("noOfEvents")?;
        let sources = json["sources"].as_array().filter(|all| !all.is_empty());
        let sources = sources.ok_or("'sources' is missing or empty: a feed needs at least one")?;
        if sources.len() > SOURCES_MAX {
            return Err(format!("'sources' has more than {SOURCES_MAX}"));
        }
        let sources = sources.iter().enumerate().map(|(at, source)| {
            SourceConfig::parse(source).map_err(|cause| format!("source {}: {cause}", at + 1))
        });
        Ok(Config {
            name,
            interval: Duration::from_millis(interval.unsigned_abs()),
            start,
            end,
            events: events.map(i64::unsigned_abs),
            sources: sources.collect::<Result<_, String>>()?,
        })
    }
}

impl SourceConfig {
    fn parse(json: &Json) -> Result<SourceConfig, String> {
        let kind = match text(json, "simulationType")?.as_str() {
            "RANDOM_DATA_SIMULATION" => {
                let attributes = json["attributeConfiguration"].as_array();
                let attributes = attributes.ok_or("'attributeConfiguration' is missing")?;
                let patterns = attributes.iter().enumerate().map(|(at, attribute)| {
                    pattern(attribute).map_err(|cause| format!("attribute {}: {cause}", at + 1))
                });
                Kind::Random(patterns.collect::<Result<_, String>>()?)
            }
            "CSV_SIMULATION" => csv(json)?,
            "DATABASE_SIMULATION" => Kind::Table(table(json)?),
            other => {
                return Err(format!(
                    "there is no simulationType '{other}': write RANDOM_DATA_SIMULATION, CSV_SIMULATION or \
                     DATABASE_SIMULATION"
                ));
            }
        };
        Ok(SourceConfig {
            app: text(json, "siddhiAppName")?,
            stream: text(json, "streamName")?,
            step: number(json, "timestampInterval")?.unwrap_or(INTERVAL),
            kind,
        })
    }

    /// Does it fit the stream?
    ///
    /// # Errors
    /// It makes another number of values.
    pub fn check(&self, schema: &Schema) -> Result<(), String> {
        let wanted = schema.attributes.len();
        let (field, count) = match &self.kind {
            Kind::Random(all) => ("attributeConfiguration", all.len()),
            Kind::Table(table) if !table.columns.is_empty() => {
                ("columnNamesList", table.columns.len())
            }
            Kind::Csv { .. } | Kind::Table(_) => return Ok(()),
        };
        if count == wanted {
            return Ok(());
        }
        Err(format!(
            "stream '{}' has {wanted} attributes, '{field}' has {count}",
            self.stream
        ))
    }
}

fn csv(json: &Json) -> Result<Kind, String> {
    let file = text(json, "fileName")?;
    // Nothing outside the folder of the files can be named.
    let mut parts = Path::new(&file).components();
    let is_name = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    );
    if !is_name || file.contains('/') {
        return Err(format!(
            "'fileName' is the name of a file without folders, not '{file}'"
        ));
    }
    let delimiter = match json["delimiter"].as_str() {
        Some("\\t") => Some('\t'),
        // White space is one, too.
        other => other.and_then(|text| text.chars().next()),
    };
    let delimiter = delimiter.ok_or("'delimiter' is missing or empty")?;
    let timestamp = number(json, "timestampAttribute")?;
    let timestamp = timestamp.map(|at| usize::try_from(at).unwrap_or(usize::MAX));
    let is_ordered = match &json["isOrdered"] {
        Json::Bool(is_ordered) => Some(*is_ordered),
        Json::String(text) => text.parse().ok(),
        _ => None,
    };
    if timestamp.is_some() && is_ordered.is_none() {
        return Err(
            "'isOrdered' is missing: do the timestamps of the file ascend (true or false)?"
                .to_owned(),
        );
    }
    Ok(Kind::Csv {
        file,
        delimiter,
        timestamp,
        is_ordered: is_ordered.unwrap_or(true),
    })
}

fn table(json: &Json) -> Result<TableSource, String> {
    // The address names the driver.
    optional(json, "driver")?;
    let columns = optional(json, "columnNamesList")?;
    let columns = columns.map(|all| all.split(',').map(str::trim));
    let columns: Vec<String> = columns.into_iter().flatten().map(str::to_owned).collect();
    if columns.iter().any(String::is_empty) {
        return Err(
            "'columnNamesList' has an empty name: write names with commas between them".to_owned(),
        );
    }
    Ok(TableSource {
        jdbc_url: Secret(text(json, "dataSourceLocation")?),
        username: optional(json, "username")?.map(str::to_owned),
        password: optional(json, "password")?.map(|text| Secret(text.to_owned())),
        table: text(json, "tableName")?,
        columns,
        timestamp: optional(json, "timestampAttribute")?.map(str::to_owned),
    })
}

fn pattern(json: &Json) -> Result<Pattern, String> {
    match text(json, "type")?.as_str() {
        "CUSTOM_DATA_BASED" => {
            let list: Vec<String> = match &json["list"] {
                Json::Array(all) => all.iter().map(plain).collect(),
                Json::String(text) => text.split(',').map(str::to_owned).collect(),
                _ => Vec::new(),
            };
            if list.is_empty() {
                return Err("'list' is missing or empty".to_owned());
            }
            Ok(Pattern::Choice(list))
        }
        "PRIMITIVE_BASED" => {
            let has = |name: &str| !json[name].is_null() && json[name] != "";
            if has("min") || has("max") {
                let (low, high) = (real(json, "min")?, real(json, "max")?);
                let decimals = number(json, "precision")?.unwrap_or(2).min(DECIMALS_MAX);
                if low > high {
                    return Err("'min' is above 'max'".to_owned());
                }
                return Ok(Pattern::Range {
                    low,
                    high,
                    decimals: decimals as i32,
                });
            }
            match number(json, "length")? {
                Some(length) => Ok(Pattern::Letters(length.min(LETTERS_MAX) as usize)),
                None => Ok(Pattern::ByType),
            }
        }
        other => Err(format!(
            "type '{other}' does not run here: write PRIMITIVE_BASED or CUSTOM_DATA_BASED"
        )),
    }
}

fn plain(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn text(json: &Json, name: &str) -> Result<String, String> {
    let found = json[name].as_str().filter(|text| !text.trim().is_empty());
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("'{name}' is missing or empty"))
}

/// A text that may be missing; clients write null or an empty one as well.
fn optional<'a>(json: &'a Json, name: &str) -> Result<Option<&'a str>, String> {
    match &json[name] {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        _ => Err(format!("'{name}' is not a text")),
    }
}

fn real(json: &Json, name: &str) -> Result<f64, String> {
    let number = match &json[name] {
        Json::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    let number = number.filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| format!("'{name}' is missing or no number"))
}

/// A whole number that is not below 0; clients write it as a text as well, and an empty one for none.
fn number(json: &Json, name: &str) -> Result<Option<i64>, String> {
    let number = match &json[name] {
        Json::Null => return Ok(None),
        Json::String(text) if text.is_empty() => return Ok(None),
        Json::String(text) => text.trim().parse().ok(),
        // 5.0 is a whole number in JSON.
        other => other.as_i64().or_else(|| whole(other.as_f64()?)),
    };
    // Streaming Integrator's own mark for "none".
    if number == Some(-1) {
        return Ok(None);
    }
    match number.filter(|n| *n >= 0) {
        Some(number) => Ok(Some(number)),
        None => Err(format!("'{name}' is no whole number from 0 on")),
    }
}

fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_documented_configuration_is_read() {
        let config = Config::parse(&json!({
            "properties": {
                "simulationName": "Feed", "startTimestamp": "1488615136957", "endTimestamp": "",
                "noOfEvents": 8.0, "description": "", "timeInterval": "100"
            },
            "sources": [{
                "simulationType": "CSV_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                "fileName": "a.csv", "timestampAttribute": "0", "isOrdered": true, "delimiter": "\t"
            }, {
                "simulationType": "RANDOM_DATA_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                "timestampInterval": "5", "attributeConfiguration": [
                    { "type": "PRIMITIVE_BASED", "min": "2", "max": "200", "precision": "1" },
                    { "type": "CUSTOM_DATA_BASED", "list": ["a", 1] }
                ]
            }]
        }));
        let config = config.expect("it is sound");
        assert_eq!(
            (config.start, config.end, config.events),
            (Some(1_488_615_136_957), None, Some(8))
        );
        assert_eq!(config.interval, Duration::from_millis(100));
        let Kind::Csv {
            timestamp,
            delimiter,
            ..
        } = &config.sources[0].kind
        else {
            panic!("a file");
        };
        assert_eq!((*timestamp, *delimiter), (Some(0), '\t'));
        let Kind::Random(patterns) = &config.sources[1].kind else {
            panic!("random values");
        };
        assert_eq!(
            patterns[1],
            Pattern::Choice(vec!["a".to_owned(), "1".to_owned()])
        );
    }

    #[test]
    fn a_table_is_read_as_documented_and_its_login_is_not_shown() {
        let config = Config::parse(&json!({
            "properties": { "simulationName": "Feed" },
            "sources": [{
                "simulationType": "DATABASE_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                "driver": "com.mysql.jdbc.Driver", "dataSourceLocation": "jdbc:mysql://h/d?password=open-1",
                "username": "u", "password": "open-2", "tableName": "T", "columnNamesList": "a, b",
                "timestampAttribute": "at", "timestampInterval": null
            }, {
                "simulationType": "DATABASE_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                "dataSourceLocation": "jdbc:sqlite:a.db", "tableName": "T", "columnNamesList": null,
                "timestampInterval": "5"
            }]
        }));
        let config = config.expect("it is sound");
        let [Kind::Table(first), Kind::Table(second)] = [0, 1].map(|at| &config.sources[at].kind)
        else {
            panic!("tables");
        };
        assert_eq!(first.columns, ["a", "b"]);
        assert_eq!(first.timestamp.as_deref(), Some("at"));
        assert_eq!((second.columns.len(), config.sources[1].step), (0, 5));
        assert!(!format!("{config:?}").contains("open-"), "{config:?}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let check = |change: &str, to: Json, part: &str| {
            let mut json = json!({
                "properties": { "simulationName": "Feed" },
                "sources": [{
                    "simulationType": "CSV_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                    "fileName": "a.csv", "delimiter": ","
                }]
            });
            *json.pointer_mut(change).expect("it is there") = to;
            let fault = Config::parse(&json).expect_err("refused");
            assert!(fault.contains(part), "{fault}");
        };
        check("/properties", json!(null), "'properties' is missing");
        check(
            "/properties/simulationName",
            json!(""),
            "'simulationName' is missing",
        );
        check("/sources", json!([]), "'sources' is missing");
        check(
            "/sources/0/streamName",
            json!(null),
            "source 1: 'streamName' is missing",
        );
        check("/sources/0/fileName", json!("a.csv/"), "without folders");
        check("/sources/0/delimiter", json!(""), "'delimiter' is missing");
        check("/sources/0/fileName", json!("../a.csv"), "without folders");
        check(
            "/sources/0/fileName",
            json!("/etc/passwd"),
            "without folders",
        );
        check(
            "/sources/0/simulationType",
            json!("DATABASE_SIMULATION"),
            "'dataSourceLocation' is missing",
        );
        check(
            "/sources/0",
            json!({
                "simulationType": "DATABASE_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                "dataSourceLocation": "jdbc:sqlite:a.db", "tableName": "T", "columnNamesList": "a,,b"
            }),
            "an empty name",
        );
        check(
            "/sources/0",
            json!({
                "simulationType": "DATABASE_SIMULATION", "streamName": "S", "siddhiAppName": "A",
                "dataSourceLocation": "jdbc:sqlite:a.db", "tableName": "T", "columnNamesList": ["a", "b"]
            }),
            "'columnNamesList' is not a text",
        );
        check(
            "/properties",
            json!({"simulationName": "F", "timeInterval": -5}),
            "'timeInterval'",
        );
    }
}
