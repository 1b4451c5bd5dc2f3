//! `headwater errors`: the rejected events under a state directory.
//!
//! They are read one by one: a million of them take no more memory than one.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use server::Error;
use server::rejected::{Kept, Missing, Rejection, Why};

use crate::cli::{ErrorsAction, ErrorsListArgs, ErrorsShowArgs};
use crate::output::Output;

pub fn run(action: ErrorsAction, output: &Output) -> anyhow::Result<u8> {
    match action {
        ErrorsAction::List(args) => list(&args, output),
        ErrorsAction::Show(args) => show(&args, output),
    }
}

fn open(state: &Path) -> anyhow::Result<Kept> {
    if !state.is_dir() {
        return Err(
            Error::Usage(format!("there is no state directory '{}'", state.display())).into(),
        );
    }
    Ok(Kept::open(state)?)
}

fn list(args: &ErrorsListArgs, output: &Output) -> anyhow::Result<u8> {
    let mut kept = open(&args.state)?;
    let mut out = output.lines();
    let written = write_list(args, &mut kept, &mut out).and_then(|written| {
        // A reader that has gone (`| head`) is no fault.
        match written.and_then(|()| out.flush()) {
            Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(cause.into()),
            _ => Ok(()),
        }
    });
    drop(out);
    say_missing(&kept, output);
    written.map(|()| 0)
}

/// The outer error is one of reading.
fn write_list(
    args: &ErrorsListArgs,
    kept: &mut Kept,
    out: &mut impl Write,
) -> anyhow::Result<io::Result<()>> {
    let mut number = 0;
    let mut separator = "";
    if args.json
        && let Err(cause) = write!(out, "{{\"version\":1,\"events\":[")
    {
        return Ok(Err(cause));
    }
    while let Some(rejection) = kept.next_event()? {
        number += 1;
        if args.app.as_ref().is_some_and(|app| rejection.app != *app) {
            continue;
        }
        let written = if args.json {
            let event = event_json(number, &rejection);
            write!(out, "{}{event}", std::mem::replace(&mut separator, ","))
        } else {
            writeln!(
                out,
                "{:>6}  {}/{}  {}: {}",
                number, rejection.app, rejection.stream, rejection.place, rejection.cause
            )
        };
        if written.is_err() {
            return Ok(written);
        }
    }
    if !args.json {
        return Ok(Ok(()));
    }
    let missing: Vec<Value> = kept.missing().iter().map(missing_json).collect();
    Ok(writeln!(out, "],\"missing\":{}}}", Value::Array(missing)))
}

fn show(args: &ErrorsShowArgs, output: &Output) -> anyhow::Result<u8> {
    let mut kept = open(&args.state)?;
    let mut count = 0;
    let mut found = None;
    while let Some(rejection) = kept.next_event()? {
        count += 1;
        if count == args.number {
            found = Some(rejection);
            break;
        }
    }
    let Some(rejection) = found else {
        say_missing(&kept, output);
        return Err(Error::Usage(format!(
            "there is no rejected event {}; there are {count}",
            args.number
        ))
        .into());
    };
    let cut = if (rejection.payload.len() as u64) < rejection.payload_bytes {
        format!(", of which the first {} were kept", rejection.payload.len())
    } else {
        String::new()
    };
    output.print(&format!(
        "time    {}\napp     {}\nstream  {}\nplace   {}\ncause   {}\npayload {} bytes{cut}\n{}\n",
        server::clock::utc_text(rejection.time),
        rejection.app,
        rejection.stream,
        rejection.place,
        rejection.cause,
        rejection.payload_bytes,
        String::from_utf8_lossy(&rejection.payload).trim_end()
    ))?;
    Ok(0)
}

fn event_json(number: usize, rejection: &Rejection) -> Value {
    json!({
        "number": number,
        "time": rejection.time,
        "app": rejection.app,
        "stream": rejection.stream,
        "place": rejection.place,
        "cause": rejection.cause,
        "payload": String::from_utf8_lossy(&rejection.payload),
        "payload_bytes": rejection.payload_bytes,
        "payload_kept_bytes": rejection.payload.len(),
    })
}

fn missing_json(missing: &Missing) -> Value {
    json!({
        "file": missing.log.display().to_string(),
        "why": why(missing.why),
        "bytes": missing.bytes,
        "events": missing.events,
        "exact": missing.is_exact,
    })
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Damaged => "damaged",
        Why::SetAside => "set aside",
        Why::Dropped => "dropped",
    }
}

fn say_missing(kept: &Kept, output: &Output) {
    for missing in kept.missing() {
        output.say(&missing_text(missing));
    }
}

fn missing_text(missing: &Missing) -> String {
    let file = missing.log.display();
    let count = match missing.is_exact {
        true => missing.events.to_string(),
        false => format!("at least {}", missing.events),
    };
    let bytes = missing.bytes;
    match missing.why {
        Why::Damaged => format!(
            "warning: '{file}' is damaged: {count} rejected events ({bytes} bytes) have changed or \
             are missing\n    = help: restore a copy while the server is stopped; the next start \
             sets the damaged bytes aside and keeps all other events"
        ),
        Why::SetAside => format!(
            "warning: '{file}' was damaged: {count} rejected events ({bytes} bytes) are lost; what \
             remains of them is in '{file}.damaged-1' and following"
        ),
        Why::Dropped => format!(
            "note: {count} older rejected events ({bytes} bytes) of '{file}' were dropped (limits: \
             {} MB, {} days)",
            server::rejected::LOG_BYTES_MAX >> 20,
            server::rejected::AGE_DAYS_MAX
        ),
    }
}
