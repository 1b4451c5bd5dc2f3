//! `headwater errors edit`.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value as Json, json};
use server::Error;
use server::client::{Client, Method};
use server::rejected::{put_payload, take_payload};

use super::args::EditArgs;
use super::origin::{ask, get};
use crate::output::Output;

pub fn run(args: &EditArgs, output: &Output) -> anyhow::Result<u8> {
    let client = args.server.client()?;
    let path = format!("/{}/payload", args.number);
    if args.discard {
        let json = ask(&client, Method::DELETE, &path, &Json::Null)?;
        let said = match json["discarded"] == true {
            true => "has the payload again that came",
            false => "had no edited payload",
        };
        return answer(args, json, said, output);
    }
    let payload = match &args.payload {
        Some(file) => read(file)?,
        None => match edited(args, &client)? {
            Some(payload) => payload,
            None => {
                output.say("nothing was changed");
                return Ok(0);
            }
        },
    };
    let mut body = json!({ "unchecked": args.unchecked });
    put_payload(&mut body, "payload", &payload);
    let json = ask(&client, Method::PUT, &path, &body).map_err(|error| {
        match error.downcast_ref::<Error>() {
            Some(Error::Usage(cause)) => anyhow::anyhow!(
                "event {} keeps its payload: {cause}\n    = help: correct the payload or the app, or \
                 keep it as it is with --unchecked",
                args.number
            ),
            _ => error,
        }
    })?;
    answer(args, json, "is replayed with the new payload", output)
}

fn answer(args: &EditArgs, mut json: Json, said: &str, output: &Output) -> anyhow::Result<u8> {
    if args.json {
        json["version"] = json!(1);
        output.print_json(&json)?;
    } else {
        output.print(&format!("event {} {said}\n", args.number))?;
    }
    Ok(0)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut payload = Vec::new();
    if file == Path::new("-") {
        io::stdin().read_to_end(&mut payload)?;
        return Ok(payload);
    }
    fs::read(file).with_context(|| format!("cannot read '{}'", file.display()))
}

/// A file that goes when it is done with.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It lies in the directory for temporary files, and is for its owner alone.
        fs::remove_file(&self.0).ok();
    }
}

/// What somebody has made of the payload in an editor; `None` where nothing was changed.
fn edited(args: &EditArgs, client: &Client) -> anyhow::Result<Option<Vec<u8>>> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(editor) = set("VISUAL").or_else(|| set("EDITOR")) else {
        let message = "neither VISUAL nor EDITOR is set: name an editor there, or give the payload \
                       with --payload FILE";
        return Err(Error::Usage(message.to_owned()).into());
    };
    let event = get(client, &format!("/{}", args.number))?;
    let before = take_payload(&event, "payload").unwrap_or_default();
    let name = format!("headwater-event-{}-{}", args.number, std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let mut options = fs::File::options();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&scratch.0);
    let written = file.and_then(|mut file| file.write_all(&before));
    written.with_context(|| format!("cannot write '{}'", scratch.0.display()))?;
    // An editor may come with arguments.
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("vi"));
    let status = command.args(words).arg(&scratch.0).status();
    let status = status.with_context(|| format!("cannot start the editor '{editor}'"))?;
    anyhow::ensure!(
        status.success(),
        "the editor '{editor}' ended with {status}"
    );
    let after = fs::read(&scratch.0).context("cannot read what was edited")?;
    Ok((after != before).then_some(after))
}
