//! `headwater statistics`: what a running server measures of its apps, and how much.

use serde_json::Value as Json;

use super::reply::{array, cell, print_reply};
use crate::cli::StatisticsArgs;
use crate::output::Output;

pub fn run(args: &StatisticsArgs, output: &Output) -> anyhow::Result<u8> {
    let reply = args
        .server
        .client()?
        .statistics(args.app.as_deref(), args.level)?;
    print_reply(reply, args.json, answer_text, output)
}

/// Each app with its level, and its readings below: of one app, or of those under `apps`.
fn answer_text(json: &Json) -> String {
    let apps = match &json["apps"] {
        Json::Array(apps) => apps,
        _ => std::slice::from_ref(json),
    };
    let mut text = String::new();
    for app in apps {
        text.push_str(&format!(
            "{}: {}\n",
            cell(&app["appName"]),
            cell(&app["level"])
        ));
        let readings = array(&app["readings"]);
        let names: Vec<String> = readings.iter().map(|r| cell(&r["name"])).collect();
        let width = names.iter().map(|name| name.chars().count()).max();
        let width = width.unwrap_or(0);
        for (name, reading) in names.iter().zip(readings) {
            let fields = reading.as_object().into_iter().flatten();
            let values = fields.filter(|(key, _)| *key != "name");
            let values: Vec<String> = values.map(|(k, v)| format!("{k}={}", cell(v))).collect();
            text.push_str(&format!("  {name:width$}  {}\n", values.join(" ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn readings_stand_below_the_level_of_their_app() {
        let one = json!({
            "appName": "Shop",
            "level": "BASIC",
            "readings": [
                { "name": "Streams.S.throughput", "count": 3 },
                { "name": "Queries.q.latency", "timed": 1, "meanMs": 0.5 },
            ],
        });
        let text = "Shop: BASIC\n  Streams.S.throughput  count=3\n  \
                    Queries.q.latency     timed=1 meanMs=0.5\n";
        assert_eq!(answer_text(&one), text);
        let off = json!({ "appName": "\u{1b}X", "level": "OFF", "readings": [] });
        let both = answer_text(&json!({ "apps": [one, off] }));
        assert_eq!(both, format!("{text} X: OFF\n"));
    }
}
