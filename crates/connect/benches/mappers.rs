//! What a message costs in each mapper: `cargo bench -p headwater-connect --bench mappers`.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use event::{Attribute, Batch, Chunks, Schema, Type, Value};
use headwater_connect::component::{Payload, PayloadKind, Room};
use headwater_connect::message::Messages;
use headwater_connect::row_decoder::RowDecoder;
use headwater_connect::row_encoder::RowEncoder;
use headwater_connect::rows::{Lines, Properties};
use lang::span::Span;
use plan::spec::{ConnectorKind, ConnectorSpec};
use plan::{Mapping, Transport};

fn main() {
    divan::main();
}

const SINK: ConnectorSpec = ConnectorSpec::new(ConnectorKind::Sink, "bench", "core", "");

fn schema(text: &str) -> Schema {
    let attributes = text
        .split(',')
        .filter_map(|part| part.trim().split_once(' '))
        .map(|(name, ty)| Attribute {
            name: name.to_owned(),
            ty: Type::from_name(ty).expect("a type"),
        });
    Schema {
        name: "S".to_owned(),
        attributes: attributes.collect(),
    }
}

fn transport(ty: &str, options: &[(&str, &str)], attributes: &[&str]) -> Transport {
    Transport {
        ty: "bench".to_owned(),
        options: Vec::new(),
        map: Mapping {
            ty: ty.to_owned(),
            options: options
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            attributes: attributes.iter().map(|a| (*a).to_owned()).collect(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    }
}

/// Reads all lines of a text into batches.
fn bench_lines(bencher: Bencher<'_, '_>, transport: &Transport, schema: &Schema, text: &str) {
    let mut decoder =
        RowDecoder::new(transport, schema, &[PayloadKind::Text]).expect("it can be made");
    let mut properties = Properties::new(&["file.path", "eof"]);
    properties.set(
        0,
        Value::str("/var/data/incoming/accurate-files/batch-0001.txt"),
    );
    properties.set(1, Value::str("false"));
    let count = text.lines().count();
    bencher
        .counter(BytesCount::new(text.len()))
        .counter(ItemsCount::new(count))
        .bench_local(|| {
            let mut lines = Lines::new(black_box(text), 0, 0);
            let mut rows = 0;
            loop {
                let room = decoder.map_lines(&mut lines, &properties);
                if let Some(batch) = decoder.take() {
                    rows += batch.len;
                    black_box(&batch);
                }
                if room == Room::More {
                    break;
                }
            }
            assert_eq!(rows, count);
        });
}

const LINES: usize = 20_000;

/// The published ETL lines: 20 bytes, three values and two transport properties.
#[divan::bench]
fn csv_lines(bencher: Bencher<'_, '_>) {
    let text: String = (0..LINES)
        .map(|i| {
            format!(
                "A{:03}|{:08}|{}.{:02}\n",
                i % 1000,
                i,
                100 + i % 900,
                i % 100
            )
        })
        .collect();
    let schema = schema("code string, serialNo string, amount double, fileName string, eof string");
    let from = ["0", "1", "2", "trp:file.path", "trp:eof"];
    bench_lines(
        bencher,
        &transport("csv", &[("delimiter", "|")], &from),
        &schema,
        &text,
    );
}

/// The same with quotes, by the whole grammar.
#[divan::bench]
fn csv_quoted_lines(bencher: Bencher<'_, '_>) {
    let text: String = (0..LINES)
        .map(|i| {
            format!(
                "\"A{:03}\"|{:08}|{}.{:02}\n",
                i % 1000,
                i,
                100 + i % 900,
                i % 100
            )
        })
        .collect();
    let schema = schema("code string, serialNo string, amount double, fileName string, eof string");
    let from = ["0", "1", "2", "trp:file.path", "trp:eof"];
    bench_lines(
        bencher,
        &transport("csv", &[("delimiter", "|")], &from),
        &schema,
        &text,
    );
}

/// OSM nodes of 350 bytes, six attributes.
#[divan::bench]
fn xml_nodes(bencher: Bencher<'_, '_>) {
    let mut text = String::from("<osm>\n");
    for i in 0..LINES {
        text.push_str(&format!(
            " <node id=\"{}\" lat=\"{}.{:07}\" lon=\"{}.{:07}\" version=\"{}\" timestamp=\"2012-05-21T14:39:0{}Z\" \
             changeset=\"{}\" uid=\"{}\" user=\"mapper{}\"><tag k=\"created_by\" v=\"JOSM\"/>\
             <tag k=\"highway\" v=\"traffic_signals\"/><tag k=\"source\" v=\"survey 2012 by the local group\"/>\
             <tag k=\"note\" v=\"corner of the old mill road\"/></node>\n",
            100_000 + i, i % 90, i, i % 180, i, i % 9, i % 10, 1_000_000 + i, i % 5000, i % 5000
        ));
    }
    text.push_str("</osm>\n");
    let schema = schema(
        "id string, lat string, lon string, version string, timestamp string, changeset string",
    );
    let options = [
        ("enclosing.element", "/osm/node"),
        ("enable.streaming.xml.content", "true"),
        ("fail.on.missing.attribute", "false"),
    ];
    let from = [
        "/node/@id",
        "/node/@lat",
        "/node/@lon",
        "/node/@version",
        "/node/@timestamp",
        "/node/@changeset",
    ];
    let mut decoder = RowDecoder::new(
        &transport("xml", &options, &from),
        &schema,
        &[PayloadKind::Text],
    )
    .expect("it can be made");
    bencher
        .counter(BytesCount::new(text.len()))
        .counter(ItemsCount::new(LINES))
        .bench_local(|| {
            let mut lines = Lines::new(black_box(&text), 0, 0);
            let mut rows = 0;
            loop {
                let room = decoder.map_lines(&mut lines, &Properties::none());
                rows += decoder.take().map_or(0, |batch| batch.len);
                if room == Room::More {
                    break;
                }
            }
            assert_eq!(rows, LINES);
        });
}

/// A JSON object of 61 bytes in the default envelope.
#[divan::bench]
fn json_objects(bencher: Bencher<'_, '_>) {
    let schema = schema("symbol string, price double, volume long");
    let messages: Vec<String> = (0..1000)
        .map(|i| {
            format!(
                "{{\"event\":{{\"symbol\":\"W{i:03}\",\"price\":{}.5,\"volume\":{}}}}}",
                100 + i % 900,
                1000 + i
            )
        })
        .collect();
    let mut decoder = RowDecoder::new(&transport("json", &[], &[]), &schema, &[PayloadKind::Text])
        .expect("it can be made");
    bencher
        .counter(BytesCount::new(
            messages.iter().map(String::len).sum::<usize>(),
        ))
        .counter(ItemsCount::new(messages.len()))
        .bench_local(|| {
            for message in &messages {
                decoder.map(Payload::Text(black_box(message)), &Properties::none());
            }
            assert_eq!(decoder.take().map(|batch| batch.len), Some(messages.len()));
        });
}

/// The same through JSONPath.
#[divan::bench]
fn json_paths(bencher: Bencher<'_, '_>) {
    let schema = schema("symbol string, price double, volume long");
    let messages: Vec<String> = (0..1000)
        .map(|i| {
            format!(
                "{{\"event\":{{\"symbol\":\"W{i:03}\",\"price\":{}.5,\"volume\":{}}}}}",
                100 + i % 900,
                1000 + i
            )
        })
        .collect();
    let from = ["$.event.symbol", "event.price", "event.volume"];
    let mut decoder = RowDecoder::new(
        &transport("json", &[], &from),
        &schema,
        &[PayloadKind::Text],
    )
    .expect("it can be made");
    bencher
        .counter(ItemsCount::new(messages.len()))
        .bench_local(|| {
            for message in &messages {
                decoder.map(Payload::Text(black_box(message)), &Properties::none());
            }
            assert_eq!(decoder.take().map(|batch| batch.len), Some(messages.len()));
        });
}

fn trades() -> (Schema, Batch) {
    let schema = schema("symbol string, price double, volume long");
    let rows: Vec<(i64, Vec<Value>)> = (0..1024)
        .map(|i| {
            let symbol = Value::str(&format!("W{:03}", i % 100));
            (
                i,
                vec![
                    symbol,
                    Value::Double(100.5 + i as f64),
                    Value::Long(1000 + i),
                ],
            )
        })
        .collect();
    let batch = Batch::from_rows(&schema, &rows, Chunks::EachRow, 0);
    (schema, batch)
}

/// Rows to messages, one each.
#[divan::bench(args = ["json", "csv", "xml", "text", "passThrough"])]
fn encode(bencher: Bencher<'_, '_>, ty: &str) {
    let (schema, batch) = trades();
    let mut encoder = RowEncoder::new(
        &transport(ty, &[], &[]),
        &schema,
        &SINK,
        &[PayloadKind::Any],
    )
    .expect("it can be made");
    let mut messages = Messages::default();
    bencher.counter(ItemsCount::new(batch.len)).bench_local(|| {
        encoder.encode(black_box(&batch), &mut messages);
        black_box(messages.len())
    });
}
