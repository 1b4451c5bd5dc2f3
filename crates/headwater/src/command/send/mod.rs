//! `headwater send`: events by hand to a stream of a running server.
//!
//! Rows go out in requests of up to [`REQUEST_ROWS_MAX`]; the server answers each when the app has
//! them. A thread reads the input, so that rows of a slow pipe leave as they come.

mod input;
mod pace;

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use event::{Attribute, Schema, Type};
use serde_json::{Value as Json, json};
use server::client::{Client, Reply};

use crate::cli::SendArgs;
use crate::command::reply::array;
use crate::output::Output;
use input::{Input, Row};
use pace::Pace;

/// Rows of a request.
const REQUEST_ROWS_MAX: usize = 1000;

/// Bytes of the rows of a request: a server takes 4 MB.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Rows that are read ahead.
const AHEAD: usize = 2 * REQUEST_ROWS_MAX;

/// Refused rows that are shown one by one; the others are counted.
const SHOWN_MAX: u64 = 10;

pub fn run(args: &SendArgs, output: &Output) -> anyhow::Result<u8> {
    let Some((app, stream)) = args
        .to
        .rsplit_once('/')
        .filter(|(a, s)| !a.is_empty() && !s.is_empty())
    else {
        let wrong = format!("'{}' is no stream of an app: write APP/STREAM", args.to);
        return Err(server::Error::Usage(wrong).into());
    };
    let client = args.server.client()?;
    let reply = client.streams(app)?;
    if reply.status != 200 {
        return failed(&reply.json, args, [0, 0], output);
    }
    let Some(schema) = schema_of(&reply.json, stream) else {
        let names: Vec<&str> = array(&reply.json["streams"])
            .iter()
            .filter_map(|stream| stream["name"].as_str())
            .collect();
        let message = format!(
            "app '{app}' has no stream '{stream}' that takes events; it has {}",
            names.join(", ")
        );
        return failed(
            &json!({ "code": 404, "message": message }),
            args,
            [0, 0],
            output,
        );
    };
    let input = Input::new(args, schema)?;
    let (to, rows) = sync_channel(AHEAD);
    // It ends with the input, or when nobody takes its rows any more.
    std::thread::spawn(move || input.read(&to));
    let sender = Sender {
        args,
        client: &client,
        app,
        stream,
        output,
        pace: Pace::new(args.rate, output),
        sent: 0,
        refused: 0,
    };
    sender.send_all(&rows)
}

/// What a server says of a stream.
fn schema_of(json: &Json, stream: &str) -> Option<Schema> {
    let mut streams = array(&json["streams"]).iter();
    let found = streams.find(|known| known["name"] == stream)?;
    let attributes = array(&found["attributes"]).iter().map(|attribute| {
        let ty = attribute["dataType"].as_str()?;
        Some(Attribute {
            name: attribute["name"].as_str()?.to_owned(),
            ty: Type::ALL
                .into_iter()
                .find(|t| t.to_string().eq_ignore_ascii_case(ty))?,
        })
    });
    Some(Schema {
        name: stream.to_owned(),
        attributes: attributes.collect::<Option<_>>()?,
    })
}

struct Sender<'a> {
    args: &'a SendArgs,
    client: &'a Client,
    app: &'a str,
    stream: &'a str,
    output: &'a Output,
    pace: Pace<'a>,
    sent: u64,
    /// Rows that did not fit, with `--keep-going`.
    refused: u64,
}

impl Sender<'_> {
    fn send_all(mut self, rows: &Receiver<Result<Row, String>>) -> anyhow::Result<u8> {
        let begun = Instant::now();
        let mut held = None;
        loop {
            let (mut request, fault) = next_request(rows, &mut held, self.pace.rows_max());
            while !request.is_empty() {
                self.pace.wait(self.sent + self.refused);
                let text: Vec<&str> = request.iter().map(|row| row.text.as_str()).collect();
                let rows = text.join("\n");
                let reply = self.client.send_rows(self.app, self.stream, &rows);
                let reply = reply.inspect_err(|_| self.pace.end())?;
                let (sent, is_misfit) = (sent_of(&reply), reply.json["row"].is_u64());
                self.sent += sent;
                if reply.status == 200 {
                    break;
                }
                let row = request.get(sent as usize).filter(|_| is_misfit);
                let message = self.message(&reply.json, row);
                if !(is_misfit && self.args.keep_going) {
                    self.pace.end();
                    let mut json = reply.json;
                    json["message"] = json!(message);
                    return failed(&json, self.args, [self.sent, self.refused], self.output);
                }
                self.refused += 1;
                if self.refused <= SHOWN_MAX {
                    self.output.error(&message);
                }
                request.drain(..=(sent as usize).min(request.len() - 1));
            }
            self.pace.show(self.sent);
            if let Some(fault) = fault {
                self.pace.end();
                let json = json!({ "message": fault });
                return failed(&json, self.args, [self.sent, self.refused], self.output);
            }
            if held.is_none() && request_is_last(rows, &mut held) {
                break;
            }
        }
        self.pace.end();
        self.report(begun)
    }

    /// What is wrong, after the place of the row in the input.
    fn message(&self, json: &Json, row: Option<&Row>) -> String {
        let message = json["message"].as_str().unwrap_or("no answer");
        let Some(row) = row else {
            return message.to_owned();
        };
        let of = |name: &str| json[name].as_str();
        let column = of("column").map(|name| format!("attribute '{name}'"));
        let place = Some(row.place.clone()).filter(|place| !place.is_empty());
        let places: Vec<String> = [place, column].into_iter().flatten().collect();
        let at = match &places[..] {
            [] => String::new(),
            places => format!("{}: ", places.join(", ")),
        };
        let (cause, expected) = (of("cause"), of("expected"));
        format!(
            "{at}{}; expected: {}",
            cause.unwrap_or(message),
            expected.unwrap_or("another value")
        )
    }

    fn report(&self, begun: Instant) -> anyhow::Result<u8> {
        let seconds = begun.elapsed().as_secs_f64();
        if self.args.json {
            self.output.print_json(&json!({
                "version": 1,
                "appName": self.app,
                "streamName": self.stream,
                "sent": self.sent,
                "refused": self.refused,
                "seconds": seconds,
            }))?;
        } else {
            let rows = counted(self.sent);
            let to = &self.args.to;
            let rate = match self.sent {
                0..=1 => String::new(),
                sent => format!(
                    " in {seconds:.2} s, {}/s",
                    crate::progress::thousands((sent as f64 / seconds) as u64)
                ),
            };
            self.output.print(&format!("{rows} sent to {to}{rate}\n"))?;
            if self.refused > 0 {
                let refused = counted(self.refused);
                self.output.say(&format!("{refused} refused and left out"));
            }
        }
        Ok(if self.refused > 0 { 4 } else { 0 })
    }
}

fn counted(rows: u64) -> String {
    let plural = if rows == 1 { "" } else { "s" };
    format!("{} row{plural}", crate::progress::thousands(rows))
}

fn sent_of(reply: &Reply) -> u64 {
    reply.json["sent"].as_u64().unwrap_or(0)
}

/// Rows for a request: as many as are there, at least one, waited for. With the fault that ends the
/// input behind them.
fn next_request(
    rows: &Receiver<Result<Row, String>>,
    held: &mut Option<Result<Row, String>>,
    rows_max: usize,
) -> (Vec<Row>, Option<String>) {
    let (mut request, mut bytes) = (Vec::new(), 0);
    while request.len() < rows_max.min(REQUEST_ROWS_MAX) && bytes < REQUEST_BYTES_MAX {
        let next = match held.take() {
            Some(next) => Some(next),
            None if request.is_empty() => rows.recv().ok(),
            None => rows.try_recv().ok(),
        };
        match next {
            Some(Ok(row)) => {
                bytes += row.text.len();
                request.push(row);
            }
            Some(Err(fault)) => return (request, Some(fault)),
            None => break,
        }
    }
    (request, None)
}

/// Waits for one more row, and keeps it.
fn request_is_last(
    rows: &Receiver<Result<Row, String>>,
    held: &mut Option<Result<Row, String>>,
) -> bool {
    *held = rows.recv().ok();
    held.is_none()
}

/// Says what is wrong, and how many rows have been sent and refused; the exit code.
fn failed(
    json: &Json,
    args: &SendArgs,
    [sent, refused]: [u64; 2],
    output: &Output,
) -> anyhow::Result<u8> {
    if args.json {
        let mut all = json!({ "version": 1 });
        if let (Json::Object(to), Json::Object(from)) = (&mut all, json.clone()) {
            to.extend(from);
        }
        all["sent"] = json!(sent);
        output.print_json(&all)?;
        return Ok(1);
    }
    output.error(json["message"].as_str().unwrap_or("no answer"));
    let rows = match sent {
        0 => return Ok(1),
        1 => "the row before it was".to_owned(),
        _ => format!(
            "the {} rows before it were",
            crate::progress::thousands(sent)
        ),
    };
    // Behind a time-out, some rows are in and nobody knows how many.
    let hint = if json["code"] == 504 {
        "; those behind may be in as well".to_owned()
    } else {
        format!("; go on behind with --skip {}", args.skip + sent + refused)
    };
    output.say(&format!("{rows} sent{hint}"));
    Ok(1)
}
