//! Makes the first inputs of every target from the reference material beside the repository:
//! `cargo run --bin seeds` in this folder. Without the material only
//! what the project makes itself is written.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn main() -> std::io::Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut states = headwater_fuzz::saved_states();
    states.extend(headwater_fuzz::saved_changes());
    let count = write(
        &fuzz.join("corpus/snapshot"),
        states.iter().map(Vec::as_slice),
    )?;
    println!("snapshot: {count} seeds");
    for (target, inputs) in OWN {
        let folder = fuzz.join("corpus").join(target);
        let count = write(&folder, inputs.iter().map(|text| text.as_bytes()))?;
        println!("{target}: {count} seeds");
    }
    let seeds = headwater_search::fuzzing::SEEDS;
    let count = write(&fuzz.join("corpus/search_query"), seeds.iter().map(|text| text.as_bytes()))?;
    println!("search_query: {count} seeds");
    let seeds = headwater_websocket::fuzzing::SEEDS;
    let count = write(&fuzz.join("corpus/websocket"), seeds.iter().copied())?;
    println!("websocket: {count} seeds");
    for (target, seeds) in headwater_connectors::decoders::SEEDS {
        let count = write(&fuzz.join("corpus").join(target), seeds.iter().copied())?;
        println!("{target}: {count} seeds");
    }
    let tests = text_tests(&fuzz.join("../tests"))?;
    let count = write(&fuzz.join("corpus/text_test"), tests.iter().map(Vec::as_slice))?;
    println!("text_test: {count} seeds");
    let shared = std::env::var_os("HEADWATER_SHARED")
        .map_or_else(|| fuzz.join("../../shared"), PathBuf::from);
    if !shared.is_dir() {
        eprintln!("skipped: no reference material at {}", shared.display());
        return Ok(());
    }
    let texts = apps(&shared)?;
    let count = write(
        &fuzz.join("corpus/parse"),
        texts.iter().map(String::as_bytes),
    )?;
    println!("parse: {count} seeds");
    for (format, prefix) in [("csv", "0"), ("json", "0"), ("text", ""), ("xml", "0")] {
        let texts = payloads(&shared, format, prefix)?;
        let folder = fuzz.join(format!("corpus/map_{format}"));
        let count = write(&folder, texts.iter().map(String::as_bytes))?;
        println!("map_{format}: {count} seeds");
    }
    Ok(())
}

/// First inputs that need no reference material.
const OWN: &[(&str, &[&str])] = &[
    (
        "apictl",
        &[
            "type: api\ndata:\n  name: Chat\n  context: /chat // a comment\n  version: 1.0.0\n  type: WS\n  policies: [ AsyncGold ]\n  \
             operations: [ { target: '/r/{a}', verb: SUBSCRIBE, authType: None, uriMapping: '/x/{a}?b=1' } ]\n  \
             endpointConfig: { production_endpoints: { url: 'ws://127.0.0.1:9000/base' } }\n",
            "data: { name: n, context: '/{version}/n', version: '2', type: WEBSUB, operations: [ { target: a, verb: SUBSCRIBE } ],\n\
             websubSubscriptionConfiguration: { enable: true, secret: s, signingAlgorithm: SHA256 } }\n",
        ],
    ),
    (
        "asyncapi",
        &[
            include_str!("../../../examples/gateway/ticks.yaml"),
            "asyncapi: 2.6.0\ninfo: { title: A, version: '1' }\nchannels: { /a/{b}: { subscribe: { security: [ { j: [ s ] } ] } } }\n\
             components: { securitySchemes: { j: { type: oauth2, flows: {} } } }\n\
             x-headwater: { issuers: [ { issuer: i, algorithms: [ RS256 ] } ], plans: { P: { events: 2/min } } }\n",
            "{\"asyncapi\": \"3.1.0\", \"info\": {\"title\": \"T\", \"version\": \"1\"}, \"channels\": {\"a\": {\"$ref\": \"#/channels/a\"}}}",
            "a: &x [ *x ]\nb: !!str 1\nc: |\n  text\n",
        ],
    ),
    // The examples of RFC 7515 and RFC 8037, and what requests carry tokens in.
    (
        "token",
        &[
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlL\
             mNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
            "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.",
            r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1","use":"sig","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
             "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"OKP","crv":"Ed25519","alg":"EdDSA",
             "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
            "mqtt, bearer, e.e.e, v2",
            "a=b; access_token=e.e.e; c=d",
            "a=1&access_token=e%2Ee.e&apikey=hwk_1_x",
        ],
    ),
    (
        "cron",
        &[
            "....*/5 * * * * ?",
            "....0 15 10 L-2 JAN-MAR ? 2026-2030/2",
            "....0 0 12 ? * MON#3",
            "....0 0 0 LW * ?",
            "....0 0 0 ? * FRIL",
        ],
    ),
    (
        "deployment",
        &[
            "siddhi:\n  refs:\n    - ref: {name: a, type: file, properties: {k: '${env:X}'}}\n",
            "siddhi:\n  extensions:\n    - extension: {name: rdbms, namespace: store, properties: {a: b}}\n",
            "state.persistence: {enabled: true, intervalInMin: 1, config: {location: kept}}\n",
            "wso2.datasources:\n  dataSources:\n    - name: D\n      definition: {type: RDBMS, \
             configuration: {jdbcUrl: 'jdbc:sqlite:x', username: u}}\n",
        ],
    ),
    (
        "map_avro",
        &[
            "\0\u{2}W\u{2}\u{2}\u{1}\0\0\0\0\0\0\0\0",
            "\u{1}\u{4}\0\u{4}\u{2}x\0\u{2}\u{2}k\0\0",
            "\u{2}\u{1}\u{4}\u{2}\u{4}\0",
        ],
    ),
    ("map_binary", &["\0\0\0\u{1}\0\0\0\0\0\0\0\u{1}\0\0\0\u{1}a\0\0\0\u{2}\0\0\0\0\0\0\0\u{3}\0\0\0\0\0\0\0\0\0\0\0\0\u{1}"]),
    (
        "map_protobuf",
        &[
            "\n\u{1}a\u{10}\u{1}\u{18}\u{2}%\0\0\0\0)\0\0\0\0\0\0\0\u{1}0\u{1}",
            "\n\u{2}\u{1}\u{2}\u{12}\u{5}\n\u{1}a\u{10}\u{1}\u{1a}\u{3}\n\u{1}x\"\u{1}b(\u{1}",
        ],
    ),
    ("file_lines", &[".a\nb\n", ".a\r\n\r\nb\rc", ".\n\n", ".one line without an end"]),
    ("file_state", &["\u{1}", ""]),
    (
        "translate",
        &[
            "(?i)a+\\d{2,3}\\p{Alpha}$ abc12x",
            "\\Q.*\\E(?<=a)b\\1(a)++ text",
            "$..book[?(@.price < 10 && @.a == 'x')].title {\"book\":[{\"price\":8}]}",
            "$.a[0,2]['b','c'][1:-1:2].length() {\"a\":[1,2,3]}",
        ],
    ),
];

/// The project's own text tests.
fn text_tests(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut tests = Vec::new();
    for area in std::fs::read_dir(folder)? {
        let area = area?.path();
        for file in std::fs::read_dir(&area).into_iter().flatten() {
            tests.push(std::fs::read(file?.path())?);
        }
    }
    Ok(tests)
}

/// Apps, on-demand queries and the texts of the parser's cases.
fn apps(shared: &Path) -> std::io::Result<HashSet<String>> {
    let mut texts = HashSet::new();
    for entry in std::fs::read_dir(shared.join("apps"))? {
        texts.insert(std::fs::read_to_string(entry?.path())?);
    }
    for folder in ["realapps", "conformance"] {
        for entry in std::fs::read_dir(shared.join(folder))? {
            let path = entry?.path();
            if path.extension().is_none_or(|e| e != "jsonl") {
                continue;
            }
            for line in std::fs::read_to_string(path)?.lines() {
                let case: Value = serde_json::from_str(line)?;
                let queries = case["steps"].as_array().into_iter().flatten();
                let fields = [&case["app"], &case["text"]];
                texts.extend(
                    fields
                        .into_iter()
                        .chain(queries.map(|step| &step["query"]))
                        .filter_map(|text| text.as_str().map(str::to_owned)),
                );
            }
        }
    }
    Ok(texts)
}

/// Texts that the cases of a mapper publish, behind the byte that chooses an option.
fn payloads(shared: &Path, format: &str, prefix: &str) -> std::io::Result<HashSet<String>> {
    let path = shared.join(format!("conformance/ext_map_{format}.jsonl"));
    let mut texts = HashSet::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let case: Value = serde_json::from_str(line)?;
        let steps = case["steps"].as_array().into_iter().flatten();
        let topics = case["expected"]["topics"].as_object().into_iter().flatten();
        let published = topics.flat_map(|(_, messages)| messages.as_array().into_iter().flatten());
        texts.extend(
            steps
                .map(|step| &step["publish"]["payload"])
                .chain(published.map(|message| &message["payload"]))
                .filter_map(|payload| payload.as_str().map(|text| format!("{prefix}{text}"))),
        );
    }
    Ok(texts)
}

/// Writes each input to a file of its own; inputs that are there already stay.
fn write<'s>(folder: &Path, inputs: impl Iterator<Item = &'s [u8]>) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let mut count = 0;
    for input in inputs {
        // FNV-1a: the same input has the same name everywhere.
        let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        std::fs::write(folder.join(format!("{hash:016x}")), input)?;
        count += 1;
    }
    Ok(count)
}
