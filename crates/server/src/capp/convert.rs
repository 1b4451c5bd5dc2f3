//! The files of a CApp, told apart by what they hold.

use std::collections::BTreeMap;

use connect::xml_tree::Element;
use gateway::project::Files;
use serde_json::Value as Json;

use super::Capp;
use super::app::{Column, Parts, Stream, Table, app};
use super::receiver::receiver;
use super::write::{attribute, plain, shown, type_of, word};

/// Where DAS keeps events unless a store says otherwise.
const EVENT_STORE: &str = "EVENT_STORE";

/// The lists of a definition with what the names of their attributes begin with.
const LISTS: [(&str, &str); 3] = [
    ("metaData", "meta_"),
    ("correlationData", "correlation_"),
    ("payloadData", ""),
];

pub(super) fn convert(files: &Files) -> Result<Capp, String> {
    let mut capp = Capp::default();
    let mut parts = Parts::default();
    // Files that are not taken over, by the folders of their artifacts.
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, text) in &files.texts {
        let of_file = |message: String| format!("{file}: {message}");
        if file == "artifacts.xml" {
            capp.name = name_of(&Element::read(text).map_err(of_file)?);
        } else if file.ends_with("/artifact.xml") {
            // What the artifact holds is seen by its file.
        } else if text
            .trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t'])
            .starts_with('<')
        {
            let root = Element::read(text).map_err(of_file)?;
            one_xml(&mut capp, &mut parts, (file, text), &root).map_err(of_file)?;
        } else {
            match stream(text).map_err(of_file)? {
                Some(stream) => parts.add_stream(stream).map_err(of_file)?,
                None => *left.entry(folder_of(file)).or_default() += 1,
            }
        }
    }
    for file in &files.others {
        match file.ends_with(".siddhiql") {
            true => capp.notes.push(format!(
                "{file} is not taken over: run its queries, in the language of Siddhi 5, as an app of its own"
            )),
            false => *left.entry(folder_of(file)).or_default() += 1,
        }
    }
    capp.notes
        .extend(left.into_iter().map(|(folder, count)| match count {
            1 => format!("{folder}: 1 file is not taken over"),
            count => format!("{folder}: {count} files are not taken over"),
        }));
    capp.app = app(&capp.name, &parts, &mut capp.notes)?;
    Ok(capp)
}

fn one_xml(
    capp: &mut Capp,
    parts: &mut Parts,
    (file, text): (&str, &str),
    root: &Element,
) -> Result<(), String> {
    match &*root.name {
        "eventreceiver" => parts.receivers.push(receiver(file, root)?),
        "eventstoreconfiguration" => parts.tables.push(table(file, root, &mut capp.notes)?),
        "analytics" => capp.scripts.push((file.to_owned(), text.to_owned())),
        _ if root.find("analytics-data-purging").is_some() => {
            capp.purges.push((file.to_owned(), text.to_owned()));
        }
        "eventpublisher" => capp.notes.push(format!(
            "{file} is not taken over: write a sink for what the publisher '{}' sends",
            shown(root.attribute("name"))
        )),
        other => capp.notes.push(format!(
            "{file} is not taken over: '{}' is not known here",
            shown(other)
        )),
    }
    Ok(())
}

/// The folder of the artifact that a file belongs to.
fn folder_of(file: &str) -> &str {
    file.split_once('/').map_or(file, |(folder, _)| folder)
}

fn name_of(artifacts: &Element) -> String {
    let artifact = artifacts.child("artifact");
    let name = word(artifact.map_or("", |artifact| artifact.attribute("name")));
    match name.is_empty() {
        true => "CApp".to_owned(),
        false => name,
    }
}

/// `None`: it defines no stream.
fn stream(text: &str) -> Result<Option<Stream>, String> {
    let json: Json = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|cause| format!("this is not JSON: {cause}"))?;
    let has_list = LISTS.iter().any(|(list, _)| json[*list].is_array());
    let Some(name) = json["name"].as_str().filter(|_| has_list) else {
        return Ok(None);
    };
    let name = plain("stream", name)?.to_owned();
    let version = plain("version", json["version"].as_str().unwrap_or("1.0.0"))?.to_owned();
    let mut attributes = Vec::new();
    for (list, prefix) in LISTS {
        for found in json[list].as_array().map_or(&[][..], Vec::as_slice) {
            let name = attribute(found["name"].as_str().unwrap_or_default())?;
            let given = found["type"].as_str().unwrap_or_default();
            let ty = type_of(given)
                .ok_or_else(|| format!("attribute '{name}' has no type: '{}'", shown(given)))?;
            attributes.push((format!("{prefix}{name}"), ty));
        }
    }
    match attributes.is_empty() {
        true => Err(format!("stream '{name}' has no attribute")),
        false => Ok(Some(Stream::new(name, version, attributes))),
    }
}

fn table(file: &str, root: &Element, notes: &mut Vec<String>) -> Result<Table, String> {
    let schema = root.child("tableschema");
    let schema = schema.ok_or("the store has no element 'TableSchema'")?;
    let mut columns = Vec::new();
    for column in schema.all("columndefinition") {
        let name = attribute(column.text_of("name"))?;
        let is = |flag: &str| column.text_of(flag).eq_ignore_ascii_case("true");
        let given = column.text_of("type");
        let Some(ty) = type_of(given) else {
            notes.push(format!(
                "{file}: column '{name}' is left out: there is no type '{}' here",
                shown(given)
            ));
            continue;
        };
        columns.push(Column {
            name: name.to_owned(),
            ty,
            is_key: is("isprimarykey"),
            is_indexed: is("enableindexing"),
            is_facet: is("isfacet") || given.eq_ignore_ascii_case("FACET"),
            is_score: is("enablescoreparam"),
        });
    }
    let record_store = root.text_of("recordstorename");
    if !record_store.is_empty() && record_store != EVENT_STORE {
        notes.push(format!(
            "{file}: the record store '{}' is the event store here",
            shown(record_store)
        ));
    }
    let source = root.child("source");
    let source = source.ok_or("the store has no element 'Source'")?;
    let mut sources = Vec::new();
    for id in source.all("streamid") {
        let id = plain("stream", id.text.trim())?;
        sources.push(match id.contains(':') {
            true => id.to_owned(),
            false => format!("{id}:1.0.0"),
        });
    }
    if columns.is_empty() || sources.is_empty() {
        return Err("the store has no columns, or no stream".to_owned());
    }
    Ok(Table {
        file: file.to_owned(),
        sources,
        columns,
    })
}
