//! `headwater sql --script`: a batch script of WSO2 DAS over the folder of a store.

use std::path::Path;

use server::client::Reply;

use crate::cli::sql::{SqlArgs, SqlOutput};
use crate::command::query::answer_text;
use crate::command::reply::print_reply;
use crate::output::Output;
use crate::sql::{Ran, run_script};

/// Runs a script, and prints what its statements come to; the exit code.
pub(super) fn run(
    args: &SqlArgs,
    script: &Path,
    dir: &Path,
    output: &Output,
) -> anyhow::Result<u8> {
    let as_json = match args.output() {
        SqlOutput::Table => false,
        SqlOutput::Json => true,
        _ => {
            let message = "a script has many answers: print them as a table or as --json";
            return Err(server::Error::Usage(message.to_owned()).into());
        }
    };
    let refused = run_script(
        args,
        script,
        dir,
        output.colour,
        &mut |ran| match (ran, as_json) {
            (Ran::Rows { answer, is_cut }, false) => {
                let reply = Reply {
                    status: 200,
                    json: answer,
                };
                print_reply(reply, false, answer_text, output)?;
                if is_cut {
                    output.say("there are more rows than these");
                }
                Ok(())
            }
            (ran @ Ran::Rows { .. }, true) => {
                let json = ran.json();
                print_reply(Reply { status: 200, json }, true, answer_text, output).map(drop)
            }
            (ran, true) => output.print_json(&ran.json()),
            (ran, false) => output.print(&format!("{}\n", line(&ran))),
        },
    )?;
    match refused {
        Some(refused) => print_reply(refused, as_json, answer_text, output),
        None => Ok(0),
    }
}

/// What rows have become, in one line.
fn line(ran: &Ran) -> String {
    let counted = |rows: &u64| match rows {
        1 => "1 row".to_owned(),
        rows => format!("{rows} rows"),
    };
    match ran {
        Ran::Rows { .. } => String::new(),
        Ran::Written {
            table,
            rows,
            is_overwrite,
            ..
        } => {
            let how = match is_overwrite {
                true => "written, in place of those before",
                false => "inserted",
            };
            format!("{table}: {} {how}", counted(rows))
        }
        Ran::Sent { stream, rows, .. } => format!("{stream}: {} sent", counted(rows)),
    }
}
