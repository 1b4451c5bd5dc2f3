//! `headwater errors show`.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value as Json, json};
use server::clock::utc_text;
use server::rejected::take_payload;

use super::args::ShowArgs;
use super::list::is_there;
use super::origin::Origin;
use crate::command::reply::cell;
use crate::output::Output;

/// Bytes of a line of a dump.
const DUMP_BYTES: usize = 16;

pub fn run(args: &ShowArgs, output: &Output) -> anyhow::Result<u8> {
    let origin = Origin::new(&args.dir, &args.server, output)?;
    let mut event = origin.find(args.number)?;
    if args.json {
        event["version"] = json!(1);
        output.print_json(&event)?;
        return Ok(0);
    }
    let payload = take_payload(&event, "payload").unwrap_or_default();
    if args.raw {
        let mut out = output.lines();
        is_there(out.write_all(&payload).and_then(|()| out.flush()))?;
        return Ok(0);
    }
    output.print(&text_of(&event, &payload))?;
    Ok(0)
}

fn text_of(event: &Json, payload: &[u8]) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() && value != "null" {
            // A string takes whatever is written to it.
            writeln!(text, "{name:<8} {value}").ok();
        }
    };
    put("number", event["number"].to_string());
    put("time", utc_text(event["time"].as_i64().unwrap_or(0)));
    put("app", cell(&event["app"]));
    put("stream", cell(&event["stream"]));
    put("stage", cell(&event["stage"]));
    let origin = [cell(&event["origin"]), cell(&event["type"])].join(" ");
    put("origin", origin.trim().to_owned());
    put("place", cell(&event["place"]));
    put("cause", cell(&event["cause"]));
    put("remedy", cell(&event["remedy"]));
    if event["attempts"].as_u64().unwrap_or(0) > 0 {
        let attempts = format!(
            "{}, first as number {}",
            event["attempts"], event["earlier"]
        );
        put("replays", attempts);
    }
    for (name, value) in event["properties"].as_object().into_iter().flatten() {
        put("property", format!("{name} = {}", cell(value)));
    }
    if event["edit_damaged"] == true {
        put(
            "edited",
            "its edited payload is damaged: edit it again".to_owned(),
        );
    }
    let (kept, all) = (&event["payload_kept_bytes"], &event["payload_bytes"]);
    let cut = match kept == all {
        true => String::new(),
        false => format!(", of which the first {kept} were kept"),
    };
    let edited = match event["edited"] == true {
        true => format!(", edited: {} bytes", payload.len()),
        false => String::new(),
    };
    put("payload", format!("{all} bytes{cut}{edited}"));
    text += &match std::str::from_utf8(payload) {
        Ok(shown) => printable(shown.trim_end()) + "\n",
        Err(_) => dump(payload),
    };
    text
}

/// Control characters but tabs and line feeds never reach the terminal.
fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && c != '\n' && c != '\t' {
            ' '
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

/// Bytes in hexadecimal digits and as far as they are ASCII.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, line) in bytes.chunks(DUMP_BYTES).enumerate() {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        };
        let ascii: String = line.iter().map(shown).collect();
        // A string takes whatever is written to it.
        writeln!(
            text,
            "{:08x}  {:47}  |{ascii}|",
            at * DUMP_BYTES,
            hex.join(" ")
        )
        .ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_dumped_in_lines() {
        let bytes: Vec<u8> = (0x3c..0x4e).chain([0xff]).collect();
        assert_eq!(
            dump(&bytes),
            "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  |<=>?@ABCDEFGHIJK|\n\
             00000010  4c 4d ff                                         |LM.|\n"
        );
    }

    #[test]
    fn an_event_is_shown_with_all_that_is_known() {
        let event = json!({
            "number": 3, "time": 0, "app": "A", "stream": "S", "stage": "source", "origin": "S[1]",
            "type": "http", "place": "source 'S[1]'", "cause": "no JSON", "remedy": "send JSON",
            "attempts": 1, "earlier": 1, "edited": false, "properties": {"path": "/a"},
            "payload_bytes": 9, "payload_kept_bytes": 4,
        });
        let text = text_of(&event, b"a\x1b[b\n");
        for part in [
            "number   3\n",
            "origin   S[1] http\n",
            "replays  1, first as number 1\n",
            "property path = /a\n",
            "payload  9 bytes, of which the first 4 were kept\na [b\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
