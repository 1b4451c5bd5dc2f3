//! Whether a result agrees with what was recorded, by the rules of `compare.py`.
//!
//! Both sides are JSON in the shape of a case's `expected`, so that what is judged here is what the
//! script judges too.

use serde_json::Value as Json;

/// How strict to be.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Strictness {
    /// Event timestamps count.
    pub ts: bool,
    /// Bounds of chunks count.
    pub chunks: bool,
    /// The order of rows counts where it is only stable in the reference, not promised.
    pub hash_order: bool,
}

const FLOAT: f64 = 1e-6;
const DOUBLE: f64 = 1e-9;

/// Statuses of a result that count as a refusal, and `ok`.
const KNOWN: [&str; 5] = [
    "ok",
    "create-error",
    "parse-error",
    "observe-error",
    "start-error",
];

/// The first thing that does not agree, in words; `None` when all does.
pub fn difference(
    row_order: Option<&str>,
    want: &Json,
    got: &Json,
    strictness: Strictness,
) -> Option<String> {
    let status = |j: &Json| j["status"].as_str().unwrap_or("").to_owned();
    let (a, b) = (status(want), status(got));
    if !KNOWN.contains(&b.as_str()) {
        return Some(format!(
            "status: {b} is not a status of a result: {}",
            got["error"]["message"]
        ));
    }
    if (a == "ok") != (b == "ok") {
        return Some(format!(
            "status: expected {a}, got {b} {}",
            got["error"]["message"]
        ));
    }
    if a != "ok" {
        return None;
    }
    let any_order = row_order == Some("any") || row_order == Some("hash") && !strictness.hash_order;
    emissions(want, got, any_order, strictness)
        .or_else(|| topics(want, got, strictness))
        .or_else(|| answers(want, got, any_order))
}

fn emissions(want: &Json, got: &Json, any_order: bool, strictness: Strictness) -> Option<String> {
    let none = Json::Array(Vec::new());
    for (kind, names) in [
        ("streams", &["events"][..]),
        ("queries", &["in", "out"][..]),
    ] {
        for (name, chunks) in want[kind].as_object().into_iter().flatten() {
            let other = got[kind].get(name).unwrap_or(&none);
            for field in names {
                let (x, y) = (
                    rows(chunks, field, any_order),
                    rows(other, field, any_order),
                );
                for k in 0..x.len().max(y.len()) {
                    let (Some(a), Some(b)) = (x.get(k), y.get(k)) else {
                        return Some(format!(
                            "{kind} {name} {field}: expected {} rows, got {}",
                            x.len(),
                            y.len()
                        ));
                    };
                    if !row_agrees(a, b, strictness.ts) {
                        return Some(format!(
                            "{kind} {name} {field} row {k}: expected {a}, got {b}"
                        ));
                    }
                }
            }
            if strictness.chunks && shape(chunks, names) != shape(other, names) {
                return Some(format!(
                    "{kind} {name}: chunk sizes differ: expected {:?}, got {:?}",
                    shape(chunks, names),
                    shape(other, names)
                ));
            }
        }
    }
    None
}

fn shape(chunks: &Json, names: &[&str]) -> Vec<Vec<usize>> {
    list(chunks)
        .iter()
        .map(|c| names.iter().map(|n| list(&c[*n]).len()).collect())
        .collect()
}

fn topics(want: &Json, got: &Json, strictness: Strictness) -> Option<String> {
    for (topic, messages) in want["topics"].as_object().into_iter().flatten() {
        let (x, y) = (list(messages), list(&got["topics"][topic]));
        if x.len() != y.len() {
            return Some(format!(
                "topic {topic}: expected {} messages, got {}",
                x.len(),
                y.len()
            ));
        }
        for (a, b) in x.iter().zip(y) {
            let agrees = if a.get("events").is_some() {
                let (e, f) = (list(&a["events"]), list(&b["events"]));
                e.len() == f.len()
                    && e.iter()
                        .zip(f)
                        .all(|(p, q)| row_agrees(p, q, strictness.ts))
            } else {
                value_agrees(&a["payload"], &b["payload"])
            };
            if !agrees {
                return Some(format!("topic {topic}: expected {a}, got {b}"));
            }
        }
    }
    None
}

fn answers(want: &Json, got: &Json, any_order: bool) -> Option<String> {
    let (x, y) = (list(&want["answers"]), list(&got["answers"]));
    if x.len() != y.len() {
        return Some(format!("answers: expected {}, got {}", x.len(), y.len()));
    }
    for (p, q) in x.iter().zip(y) {
        if p.get("error").is_some() != q.get("error").is_some() {
            return Some(format!(
                "answer of step {}: {} {}",
                p["step"], p["error"], q["error"]
            ));
        }
        let mut e: Vec<&Json> = list(&p["events"]).iter().collect();
        let mut f: Vec<&Json> = list(&q["events"]).iter().collect();
        if any_order {
            e.sort_by_key(|r| sort_key(r));
            f.sort_by_key(|r| sort_key(r));
        }
        if e.len() != f.len() || !e.iter().zip(&f).all(|(m, n)| row_agrees(m, n, false)) {
            return Some(format!(
                "answer of step {}: expected {}, got {}",
                p["step"], p["events"], q["events"]
            ));
        }
    }
    None
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn rows<'a>(chunks: &'a Json, name: &str, unordered: bool) -> Vec<&'a Json> {
    let mut out = Vec::new();
    for chunk in list(chunks) {
        let mut rows: Vec<&Json> = list(&chunk[name]).iter().collect();
        if unordered {
            rows.sort_by_key(|r| sort_key(r));
        }
        out.extend(rows);
    }
    out
}

fn sort_key(row: &Json) -> String {
    list(&row["data"])
        .iter()
        .map(|v| match number(v) {
            Some((kind @ ("f" | "d"), n)) if n.is_number() => {
                format!("{kind}:{:.5e}|", n.as_f64().unwrap_or(0.0))
            }
            _ => format!("{v}|"),
        })
        .collect()
}

fn row_agrees(a: &Json, b: &Json, ts: bool) -> bool {
    if a.is_null() || b.is_null() {
        return a.is_null() && b.is_null();
    }
    let expired = |j: &Json| j["expired"].as_bool().unwrap_or(false);
    let (x, y) = (list(&a["data"]), list(&b["data"]));
    x.len() == y.len()
        && expired(a) == expired(b)
        && x.iter().zip(y).all(|(v, w)| value_agrees(v, w))
        && (!ts || a["ts"] == b["ts"])
}

fn number(json: &Json) -> Option<(&str, &Json)> {
    let (kind, value) = json.as_object().filter(|o| o.len() == 1)?.iter().next()?;
    matches!(kind.as_str(), "i" | "l" | "f" | "d").then_some((kind, value))
}

fn value_agrees(want: &Json, got: &Json) -> bool {
    if want.get("any").is_some() {
        return got.is_string();
    }
    if want == got {
        return true;
    }
    if let (Some((k, a)), Some((j, b))) = (number(want), number(got))
        && k == j
        && a.is_number()
        && b.is_number()
    {
        if matches!(k, "i" | "l") {
            return a == b;
        }
        let (a, b) = (
            a.as_f64().unwrap_or(f64::NAN),
            b.as_f64().unwrap_or(f64::NAN),
        );
        let part = if k == "f" { FLOAT } else { DOUBLE };
        return (a - b).abs() <= part * a.abs().max(b.abs());
    }
    match (want.get("o"), got.get("o")) {
        (Some(a), Some(b)) => object_agrees(a, b),
        _ => false,
    }
}

fn object_agrees(a: &Json, b: &Json) -> bool {
    let matched = |a: &[Json], b: &[Json], same: &dyn Fn(&Json, &Json) -> bool| {
        a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| same(x, y)))
    };
    if let (Some(x), Some(y)) = (a.get("map"), b.get("map")) {
        return matched(list(x), list(y), &|p, q| {
            value_agrees(&p[0], &q[0]) && value_agrees(&p[1], &q[1])
        });
    }
    for key in ["list", "array"] {
        if let (Some(x), Some(y)) = (a.get(key), b.get(key)) {
            let (x, y) = (list(x), list(y));
            return x.len() == y.len() && x.iter().zip(y).all(|(p, q)| value_agrees(p, q));
        }
    }
    if let (Some(x), Some(y)) = (a.get("set"), b.get("set")) {
        return matched(list(x), list(y), &value_agrees);
    }
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stream(chunks: Json) -> Json {
        json!({ "status": "ok", "streams": { "S": chunks }, "queries": {} })
    }

    fn check(want: Json, got: Json, strictness: Strictness, agrees: bool) {
        let found = difference(None, &stream(want), &stream(got), strictness);
        assert_eq!(found.is_none(), agrees, "{found:?}");
    }

    #[test]
    fn rows_timestamps_and_chunks_are_judged_apart() {
        let one = |ts: i64, v: f64| json!({ "ts": ts, "data": [{ "d": v }] });
        let together = json!([{ "events": [one(1, 1.0), one(2, 2.0)] }]);
        let apart = json!([{ "events": [one(1, 1.0)] }, { "events": [one(3, 2.0)] }]);
        let loose = Strictness::default();
        check(together.clone(), apart.clone(), loose, true);
        check(
            together.clone(),
            apart.clone(),
            Strictness { ts: true, ..loose },
            false,
        );
        check(
            together.clone(),
            apart,
            Strictness {
                chunks: true,
                ..loose
            },
            false,
        );
        let close = json!([{ "events": [one(1, 1.0 + 1e-12), one(2, 2.0)] }]);
        check(together.clone(), close, loose, true);
        let fewer = json!([{ "events": [one(1, 1.0)] }]);
        check(together, fewer, loose, false);
    }

    #[test]
    fn types_count() {
        let row = |v: Json| json!([{ "events": [{ "ts": 1, "data": [v] }] }]);
        let loose = Strictness::default();
        check(row(json!({ "i": 1 })), row(json!({ "l": 1 })), loose, false);
        check(row(json!({ "any": "uuid" })), row(json!("x")), loose, true);
        check(
            row(json!({ "o": { "map": [["a", { "i": 1 }], ["b", null]] } })),
            row(json!({ "o": { "map": [["b", null], ["a", { "i": 1 }]] } })),
            loose,
            true,
        );
    }
}
