//! `headwater errors`: the rejected events under a state directory.

use std::path::Path;

use serde_json::{Value, json};
use server::Error;
use server::rejected::{Rejection, read_all};

use crate::cli::{ErrorsAction, ErrorsListArgs, ErrorsShowArgs};
use crate::output::Output;

pub fn run(action: ErrorsAction, output: &Output) -> anyhow::Result<u8> {
    match action {
        ErrorsAction::List(args) => list(&args, output),
        ErrorsAction::Show(args) => show(&args, output),
    }
}

fn read(state: &Path) -> anyhow::Result<Vec<Rejection>> {
    if !state.is_dir() {
        return Err(
            Error::Usage(format!("there is no state directory '{}'", state.display())).into(),
        );
    }
    Ok(read_all(state)?)
}

fn list(args: &ErrorsListArgs, output: &Output) -> anyhow::Result<u8> {
    let all = read(&args.state)?;
    let wanted = all
        .iter()
        .enumerate()
        .filter(|(_, r)| args.app.as_ref().is_none_or(|app| r.app == *app));
    if args.json {
        let events: Vec<Value> = wanted.map(|(i, r)| event_json(i + 1, r)).collect();
        output.print_json(&json!({"version": 1, "events": events}))?;
        return Ok(0);
    }
    for (i, rejection) in wanted {
        output.print(&format!(
            "{:>6}  {}/{}  {}: {}\n",
            i + 1,
            rejection.app,
            rejection.stream,
            rejection.place,
            rejection.cause
        ))?;
    }
    Ok(0)
}

fn show(args: &ErrorsShowArgs, output: &Output) -> anyhow::Result<u8> {
    let all = read(&args.state)?;
    let rejection = args.number.checked_sub(1).and_then(|i| all.get(i));
    let Some(rejection) = rejection else {
        return Err(Error::Usage(format!(
            "there is no rejected event {}; there are {}",
            args.number,
            all.len()
        ))
        .into());
    };
    output.print(&format!(
        "time    {}\napp     {}\nstream  {}\nplace   {}\ncause   {}\npayload {} bytes\n{}\n",
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
    })
}
