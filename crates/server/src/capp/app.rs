//! Streams, receivers and event stores as an app.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::receiver::Receiver;
use super::write::word;

/// Columns that DAS fills itself.
const TIMESTAMP: &str = "_timestamp";
const VERSION: &str = "_version";

/// A stream as it is defined.
pub(super) struct Stream {
    /// Of DAS.
    given: String,
    version: String,
    /// In the app.
    name: String,
    pub attributes: Vec<(String, &'static str)>,
}

impl Stream {
    pub fn new(given: String, version: String, attributes: Vec<(String, &'static str)>) -> Stream {
        let name = match &*version {
            "1.0.0" => word(&given),
            version => word(&format!("{given}_{version}")),
        };
        Stream {
            given,
            version,
            name,
            attributes,
        }
    }

    /// `name:version`.
    pub fn id(&self) -> String {
        format!("{}:{}", self.given, self.version)
    }
}

/// A column of an event store.
pub(super) struct Column {
    pub name: String,
    pub ty: &'static str,
    pub is_key: bool,
    pub is_indexed: bool,
    pub is_facet: bool,
    pub is_score: bool,
}

impl Column {
    /// In the option `schema`; none where the column is not searched.
    fn flags(&self) -> Option<String> {
        let flags = [
            (self.is_indexed, " -i"),
            (self.is_facet, " -f"),
            (self.is_score, " -sp"),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let flags: String = flags.map(|(_, flag)| *flag).collect();
        (!flags.is_empty()).then(|| format!("{}{flags}", self.name))
    }
}

/// An event store: what of which streams is kept.
pub(super) struct Table {
    pub file: String,
    /// `name:version` of its streams.
    pub sources: Vec<String>,
    pub columns: Vec<Column>,
}

/// What of a CApp is for its app.
#[derive(Default)]
pub(super) struct Parts {
    /// By their ids.
    streams: BTreeMap<String, Stream>,
    pub receivers: Vec<Receiver>,
    pub tables: Vec<Table>,
}

impl Parts {
    /// # Errors
    /// There is one of that id, or of a name that would be the same in the app.
    pub fn add_stream(&mut self, stream: Stream) -> Result<(), String> {
        let same = self
            .streams
            .values()
            .find(|other| other.name == stream.name);
        if let Some(other) = same {
            return Err(match other.id() == stream.id() {
                true => format!("stream '{}' is defined twice", other.id()),
                false => format!(
                    "streams '{}' and '{}' would both be '{}' in the app",
                    other.id(),
                    stream.id(),
                    stream.name
                ),
            });
        }
        self.streams.insert(stream.id(), stream);
        Ok(())
    }
}

/// `None`: there is no stream.
pub(super) fn app(
    name: &str,
    parts: &Parts,
    notes: &mut Vec<String>,
) -> Result<Option<String>, String> {
    for receiver in &parts.receivers {
        if !parts.streams.contains_key(&receiver.stream) {
            notes.push(format!(
                "{} is not taken over: stream '{}' is not defined in the CApp",
                receiver.file, receiver.stream
            ));
        }
    }
    let mut text = format!("@app:name('{name}')\n");
    for stream in parts.streams.values() {
        text.push('\n');
        let id = stream.id();
        let receivers = parts.receivers.iter();
        write_sources(
            &mut text,
            stream,
            receivers.filter(|receiver| receiver.stream == id),
            notes,
        );
        let attributes = stream.attributes.iter();
        let attributes: Vec<String> = attributes
            .map(|(name, ty)| format!("`{name}` {ty}"))
            .collect();
        writeln!(
            text,
            "define stream {} ({});",
            stream.name,
            attributes.join(", ")
        )
        .ok();
    }
    // Versions of one stream are kept in one table.
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for table in &parts.tables {
        let mut of_names: BTreeMap<String, Vec<&Stream>> = BTreeMap::new();
        for id in &table.sources {
            match parts.streams.get(id) {
                Some(stream) => of_names
                    .entry(word(&stream.given))
                    .or_default()
                    .push(stream),
                None => {
                    notes.push(format!(
                        "{}: stream '{id}' is not defined in the CApp",
                        table.file
                    ));
                }
            }
        }
        for (stored, streams) in of_names {
            if let Some(other) = names.insert(stored.to_uppercase(), &table.file) {
                return Err(format!(
                    "{} and {other} keep the same table '{stored}'",
                    table.file
                ));
            }
            write_table(&mut text, table, &stored, &streams, notes);
        }
    }
    Ok((!parts.streams.is_empty()).then_some(text))
}

fn write_sources<'a>(
    text: &mut String,
    stream: &Stream,
    receivers: impl Iterator<Item = &'a Receiver>,
    notes: &mut Vec<String>,
) {
    let mut sources: Vec<String> = Vec::new();
    for receiver in receivers {
        match receiver.source(stream) {
            Ok(source) => {
                let of_file = |note: String| format!("{}: {note}", receiver.file);
                notes.extend(source.notes.into_iter().map(of_file));
                // Two receivers of the same events are one here.
                if !sources.contains(&source.text) {
                    sources.push(source.text);
                }
            }
            Err(why) => notes.push(format!(
                "{} is not taken over: {why}; write a source of stream '{}' for what the receiver '{}' takes by '{}'",
                receiver.file,
                stream.name,
                receiver.name,
                receiver.adapter()
            )),
        }
    }
    sources.iter().for_each(|source| {
        writeln!(text, "{source}").ok();
    });
}

fn write_table(
    text: &mut String,
    table: &Table,
    stored: &str,
    streams: &[&Stream],
    notes: &mut Vec<String>,
) {
    let columns = table
        .columns
        .iter()
        .filter(|column| column.name != TIMESTAMP);
    let columns: Vec<&Column> = columns.collect();
    if streams
        .iter()
        .any(|stream| stream.attributes.iter().any(|(name, _)| name == TIMESTAMP))
    {
        notes.push(format!(
            "{}: '{TIMESTAMP}' of a row is the time of its event, not the attribute of that name",
            table.file
        ));
    }
    let flagged: Vec<String> = columns.iter().filter_map(|column| column.flags()).collect();
    let schema = match flagged.is_empty() {
        true => String::new(),
        false => format!(", schema='{}'", flagged.join(", ")),
    };
    let keys = columns.iter().filter(|column| column.is_key);
    let keys: Vec<String> = keys.map(|column| format!("'{}'", column.name)).collect();
    let key = match keys.is_empty() {
        true => String::new(),
        false => format!("@PrimaryKey({})\n", keys.join(", ")),
    };
    let defined = columns
        .iter()
        .map(|column| format!("`{}` {}", column.name, column.ty));
    let defined: Vec<String> = defined.collect();
    let name = format!("{stored}_store");
    write!(
        text,
        "\n@store(type='eventstore', table.name='{stored}'{schema})\n{key}define table {name} ({});\n",
        defined.join(", ")
    )
    .ok();
    for stream in streams {
        let values = columns.iter().map(|column| {
            if let Some(value) = value_of(column, stream) {
                return value;
            }
            let empty = match column.ty {
                "bool" => "false",
                _ => "empty",
            };
            notes.push(format!(
                "{}: column '{}' is {empty} for stream '{}', which has no such attribute",
                table.file,
                column.name,
                stream.id()
            ));
            // A text that is no number gives a null, and that a null of any type.
            format!(
                "convert(convert('', 'int'), '{}') as `{}`",
                column.ty, column.name
            )
        });
        let values: Vec<String> = values.collect();
        // In the store, the newest row of a key wins.
        writeln!(
            text,
            "from {} select {} insert into {name};",
            stream.name,
            values.join(", ")
        )
        .ok();
    }
}

/// A column out of the attributes of a stream, if it has it.
fn value_of(column: &Column, stream: &Stream) -> Option<String> {
    let mut attributes = stream.attributes.iter();
    match attributes.find(|(name, _)| *name == column.name) {
        Some((name, ty)) if *ty == column.ty => Some(format!("`{name}`")),
        Some((name, _)) => Some(format!("convert(`{name}`, '{}') as `{name}`", column.ty)),
        None if column.name == VERSION => Some(format!("'{}' as `{VERSION}`", stream.version)),
        None => None,
    }
}
