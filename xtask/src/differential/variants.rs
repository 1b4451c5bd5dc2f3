//! Defects of Siddhi that show in the text of a query: the same case without what brings one out is
//! the same in both engines.

use serde_json::{Value as Json, json};

/// A part of an app that meets a defect of Siddhi's, and the app without it.
pub struct Variant {
    pub reason: &'static str,
    pub app: String,
}

/// Windows that are served by timers.
const TIMED: &[&str] = &[
    "ime(",
    "imeBatch(",
    "imeLength(",
    "session(",
    "cron(",
    "delay(",
];

/// A defect, a word of the apps that may meet it, and a query of theirs without what meets it.
struct Defect {
    reason: &'static str,
    word: &'static str,
    without: fn(&str) -> Option<String>,
}

const DEFECTS: [Defect; 4] = [
    Defect {
        reason: "`#str:tokenize` hands on one chunk for each part, out of which an output rate takes the event; without the rate both agree",
        word: "#str:tokenize(",
        without: without_rate,
    },
    Defect {
        reason: "the timers of a window end in the `#reorder` of its query; without that both agree",
        word: "#window.",
        without: without_reorder,
    },
    Defect {
        reason: "`#reorder` of a partition looks after one key at a time; without it both agree",
        word: "partition with",
        without: without_timeout,
    },
    Defect {
        reason: "the end of a batch that has passed is a copy of one of its rows, which a filter drops later; without the filter both agree",
        word: "atch(",
        without: without_late_filter,
    },
];

/// The variants of an app, one for each defect that its text may meet.
pub fn variants(app: &str) -> Vec<Variant> {
    let met = DEFECTS.iter().filter(|defect| app.contains(defect.word));
    met.filter_map(|defect| {
        let app = each_query(app, defect.without)?;
        let reason = defect.reason;
        Some(Variant { reason, app })
    })
    .collect()
}

/// The app with its statements changed; `None` where no change is to be made.
fn each_query(app: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut is_changed = false;
    let statements = app.split(';').map(|statement| match change(statement) {
        Some(other) => {
            is_changed = true;
            other
        }
        None => statement.to_owned(),
    });
    let all: Vec<String> = statements.collect();
    is_changed.then(|| all.join(";"))
}

fn without_rate(query: &str) -> Option<String> {
    let low = query.to_ascii_lowercase();
    let from = low
        .rfind(" output ")
        .filter(|_| low.contains("#str:tokenize("))?;
    let writes = [" insert ", " update ", " delete ", " return"];
    let end = writes
        .iter()
        .filter_map(|word| low[from..].find(word))
        .min()?;
    Some(format!("{}{}", &query[..from], &query[from + end..]))
}

fn without_reorder(query: &str) -> Option<String> {
    let (_, behind) = query.split_once("#window.")?;
    TIMED.iter().any(|w| behind.contains(w)).then_some(())?;
    cut_reorder(query)
}

/// With a timeout, which is a second number.
fn without_timeout(query: &str) -> Option<String> {
    let (_, call) = query.split_once("#reorder:")?;
    call.split_once(')')?.0.contains('L').then_some(())?;
    cut_reorder(query)
}

/// Without the call of `#reorder:…(…)`.
fn cut_reorder(query: &str) -> Option<String> {
    let (before, call) = query.split_once("#reorder:")?;
    let end = closing(call, '(', ')')?;
    Some(format!("{before}{}", &call[end + 1..]))
}

/// Without the filter behind a window whose rows have left before their batch ends.
fn without_late_filter(query: &str) -> Option<String> {
    let at = query.find("#window.")? + "#window.".len();
    let end = at + closing(&query[at..], '(', ')')?;
    let (name, args) = query[at..end].split_once('(')?;
    let is_late = match name {
        "batch" => true,
        "lengthBatch" | "timeBatch" => args.contains("true"),
        // With a timeout.
        "externalTimeBatch" => args.matches(',').count() >= 3,
        _ => false,
    };
    let (call, behind) = query.split_at(end + 1);
    let filter = behind.strip_prefix('#').unwrap_or(behind);
    if !is_late || !filter.starts_with('[') {
        return None;
    }
    let rest = &filter[closing(filter, '[', ']')? + 1..];
    Some(format!("{call}{rest}"))
}

/// Where the first bracket that opens is closed.
fn closing(text: &str, opens: char, closes: char) -> Option<usize> {
    let mut depth = 0;
    text.find(|c| {
        depth += i32::from(c == opens) - i32::from(c == closes);
        c == closes && depth == 0
    })
}

/// Siddhi's result, with rows of patterns put back that came as EXPIRED to the callback of a query that
/// emits CURRENT rows alone: a later row of the same chunk has marked the match, which the other side of
/// an `and` or `or` still held, when it had been selected.
pub fn with_current_matches(app: &str, siddhi: &Json) -> Option<Json> {
    let mut result = siddhi.clone();
    let mut is_changed = false;
    for statement in app.split(';') {
        let low = statement.to_ascii_lowercase();
        let is_marked = low.contains(" within ") && (low.contains(" and ") || low.contains(" or "));
        if !is_marked || low.contains(" all events") || low.contains(" expired events") {
            continue;
        }
        let Some(name) = info_name(statement) else {
            continue;
        };
        for call in result["queries"][name].as_array_mut().into_iter().flatten() {
            let Json::Array(marked) = call["out"].take() else {
                continue;
            };
            is_changed |= !marked.is_empty();
            let rows = marked.into_iter().map(|mut row| {
                if let Some(row) = row.as_object_mut() {
                    row.remove("expired");
                }
                row
            });
            let mut all = call["in"].as_array().cloned().unwrap_or_default();
            all.extend(rows);
            call["in"] = json!(all);
        }
    }
    is_changed.then_some(result)
}

/// The name that `@info` gives to a query.
fn info_name(statement: &str) -> Option<&str> {
    let (_, name) = statement.rsplit_once("@info(name=")?;
    let quote = name.chars().next()?;
    name[1..].split(quote).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_meets_a_defect_is_left_out() {
        let check = |app: &str, expect: &[&str]| {
            let all: Vec<String> = variants(app).into_iter().map(|v| v.app).collect();
            assert_eq!(all, expect, "{app}");
        };
        check("from S select k insert into O;", &[]);
        check(
            "from S#str:tokenize(k, ' ') select k OUTPUT first every 2 events INSERT into O;",
            &["from S#str:tokenize(k, ' ') select k INSERT into O;"],
        );
        check(
            "from S#reorder:kslack(f(t))#window.time(1 sec) select k insert into O;",
            &["from S#window.time(1 sec) select k insert into O;"],
        );
        check(
            "from S#window.batch()#[f(n) > 2] select sum(n) as s insert into O;",
            &["from S#window.batch() select sum(n) as s insert into O;"],
        );
        check(
            "from S#window.lengthBatch(2)[n > 2] select n insert into O;",
            &[],
        );
        check(
            "partition with (k of S) begin from S#reorder:kslack(t, 500L) select k insert into O; end;",
            &["partition with (k of S) begin from S select k insert into O; end;"],
        );
    }

    #[test]
    fn a_match_marked_too_late_is_put_back() {
        let app = "@info(name='q') from e1=S -> e2=S and e3=S within 1 sec select 1 insert into O;";
        let marked = json!({"queries": {"q": [
            {"at": 1, "in": null, "out": [{"ts": 1, "expired": true, "data": [1]}]},
        ]}});
        let expect = json!({"queries": {"q": [
            {"at": 1, "in": [{"ts": 1, "data": [1]}], "out": null},
        ]}});
        assert_eq!(with_current_matches(app, &marked), Some(expect));
        assert_eq!(with_current_matches("from S;", &marked), None);
    }
}
