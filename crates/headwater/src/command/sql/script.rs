//! `headwater sql --script`: a batch script of WSO2 DAS over the folder of a store.

use std::path::Path;

use serde_json::json;
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
    let refused = run_script(args, script, dir, output.colour, &mut |ran| match ran {
        Ran::Rows { mut answer, is_cut } => {
            if as_json {
                answer["cut"] = is_cut.into();
            }
            let json = answer;
            print_reply(Reply { status: 200, json }, as_json, answer_text, output)?;
            if is_cut && !as_json {
                output.say("there are more rows than these");
            }
            Ok(())
        }
        Ran::Written {
            table,
            rows,
            is_overwrite,
            took,
        } => {
            if as_json {
                let millis = took.as_millis() as u64;
                return output.print_json(&json!({
                    "version": 1,
                    "table": table,
                    "rows": rows,
                    "overwritten": is_overwrite,
                    "millis": millis,
                }));
            }
            let how = match is_overwrite {
                true => "written, in place of those before",
                false => "inserted",
            };
            let unit = if rows == 1 { "row" } else { "rows" };
            output.print(&format!("{table}: {rows} {unit} {how}\n"))
        }
    })?;
    match refused {
        Some(refused) => print_reply(refused, as_json, answer_text, output),
        None => Ok(0),
    }
}
