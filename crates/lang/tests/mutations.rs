//! Faults put into apps at known places: how often the reports stand on the right lines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use headwater_lang::diagnostic::Severity;
use headwater_lang::parser::parse;
use headwater_lang::source::LineIndex;

/// A small generator of numbers (xorshift), so that a seed gives the same faults everywhere.
struct Seed(u64);

impl Seed {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// One way to break an app: the places it applies to, and what becomes of one.
struct Mutation {
    name: &'static str,
    /// The piece of text that is replaced, …
    from: &'static str,
    /// … and by what.
    to: &'static str,
    /// Codes that name the right cause.
    causes: &'static [&'static str],
}

const fn mutation(
    name: &'static str,
    from: &'static str,
    to: &'static str,
    causes: &'static [&'static str],
) -> Mutation {
    Mutation {
        name,
        from,
        to,
        causes,
    }
}

const MUTATIONS: &[Mutation] = &[
    mutation("no ;", ";", "", &["E0111"]),
    mutation("two ;", ";", ";;", &["E0131"]),
    mutation("no )", ")", "", &["E0112"]),
    mutation("no (", "(", "", &["E0112", "E0110"]),
    mutation("two )", ")", "))", &["E0113", "E0110"]),
    mutation("no ]", "]", "", &["E0112"]),
    mutation("no [", "[", "", &["E0113", "E0110", "E0112"]),
    mutation("no '", "'", "", &["E0102"]),
    mutation("no \"", "\"", "", &["E0102"]),
    mutation("no ,", ",", "", &["E0150"]),
    mutation("two ,", ",", ",,", &["E0135", "E0110", "E0125"]),
    mutation("selct", "select ", "selct ", &["E0114"]),
    mutation("form", "from ", "form ", &["E0114"]),
    mutation("fom", "from ", "fom ", &["E0114"]),
    mutation("inset", "insert ", "inset ", &["E0114"]),
    mutation("int", "into ", "int ", &["E0114"]),
    mutation("no into", "into ", "", &["E0110"]),
    mutation("no insert", "insert ", "", &["E0126"]),
    mutation("defin", "define ", "defin ", &["E0114"]),
    mutation("no define", "define ", "", &["E0110"]),
    mutation("steam", "stream ", "steam ", &["E0114"]),
    mutation("tabel", "table ", "tabel ", &["E0114"]),
    mutation("strng", " string", " strng", &["E0115"]),
    mutation("integer", " int,", " integer,", &["E0115"]),
    mutation("no type", " string", "", &["E0115"]),
    mutation("no as", " as ", " ", &["E0116", "E0150"]),
    mutation("= for ==", "==", "=", &["E0117"]),
    mutation("=<", "<=", "=<", &["E0118"]),
    mutation("&&", " and ", " && ", &["E0119"]),
    mutation("||", " or ", " || ", &["E0119"]),
    mutation("grop", "group by", "grop by", &["E0114"]),
    mutation("no by", "group by", "group", &["E0110"]),
    mutation("where", "having ", "where ", &["E0142"]),
    mutation("//", "--", "//", &["E0108"]),
    mutation("no @", "@", "", &["E0112"]),
    mutation("no end", "end;", "", &["E0112"]),
    mutation("no begin", "begin", "", &["E0112"]),
    mutation("partiton", "partition ", "partiton ", &["E0114"]),
    mutation("no from", "\nfrom ", "\n", &["E0110", "E0127"]),
    mutation("is not null", " is null", " is not null", &["E0149"]),
    mutation("no unit", " sec)", ")", &[]),
    mutation("seconds", " sec)", " secs)", &["E0114", "E0133"]),
    mutation("curly", "'", "\u{2019}", &["E0101", "E0102"]),
    mutation("minus", "select ", "select -", &["E0132", "E0128"]),
    mutation("star", "count()", "count(*, 1)", &["E0128"]),
];

fn apps() -> Option<Vec<String>> {
    let root = std::env::var_os("HEADWATER_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    if !root.is_dir() {
        eprintln!("skipped: no reference material at {}", root.display());
        return None;
    }
    let mut apps: Vec<String> = std::fs::read_dir(root.join("apps"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    for line in std::fs::read_to_string(root.join("realapps/apps.jsonl"))
        .unwrap()
        .lines()
    {
        let app: serde_json::Value = serde_json::from_str(line).unwrap();
        apps.push(app["text"].as_str().unwrap().to_owned());
    }
    Some(apps)
}

/// The places of `from` that are not in a comment or in a string of their own.
fn places(text: &str, from: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = 0;
    let mut quote = None;
    while at < text.len() {
        let rest = &text[at..];
        if quote.is_none() && rest.starts_with(from) {
            places.push(at);
        }
        let skipped = match quote {
            None if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            None if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |i| i + 2),
            None if rest.starts_with("\"\"\"") => {
                rest[3..].find("\"\"\"").map_or(rest.len(), |i| i + 6)
            }
            None if rest.starts_with('{') => rest.find('}').map_or(rest.len(), |i| i + 1),
            _ => 0,
        };
        if skipped > 0 {
            at += skipped;
            continue;
        }
        let c = rest.chars().next().unwrap();
        quote = match quote {
            None if c == '\'' || c == '"' => Some(c),
            Some(open) if open == c => None,
            other => other,
        };
        at += c.len_utf8();
    }
    places
}

#[test]
fn the_first_report_stands_on_the_line_of_the_fault() {
    let Some(apps) = apps() else { return };
    let mut seed = Seed(0x9e37_79b9_7f4a_7c15);
    let (mut all, mut on_line, mut right_cause, mut alone) = (0, 0, 0, 0);
    let mut misses = Vec::new();
    for mutation in MUTATIONS {
        let mut done = 0;
        for _ in 0..400 {
            let app = &apps[seed.next(apps.len())];
            let places = places(app, mutation.from);
            if places.is_empty() {
                continue;
            }
            let place = places[seed.next(places.len())];
            let mut text = app.clone();
            text.replace_range(place..place + mutation.from.len(), mutation.to);
            let parsed = parse(&text);
            let errors: Vec<_> = parsed
                .diagnostics
                .iter()
                .filter(|d| d.severity == Severity::Error)
                .collect();
            let Some(first) = errors.first() else {
                continue;
            };
            done += 1;
            all += 1;
            let lines = LineIndex::new(&text);
            let skip = mutation.from.len() - mutation.from.trim_start().len();
            let expect = lines.line((place + skip) as u32);
            let line = lines.line(first.span.start);
            let cause = mutation.causes.is_empty() || mutation.causes.contains(&first.code);
            on_line += usize::from(line == expect);
            right_cause += usize::from(cause);
            alone += usize::from(errors.len() == 1);
            if line != expect || !cause || errors.len() > 1 {
                let context = lines.line_span(&text, expect).text(&text).trim().to_owned();
                let short: String = context.chars().take(110).collect();
                let found: Vec<_> = errors
                    .iter()
                    .take(4)
                    .map(|e| {
                        format!(
                            "{}@{:+} {}",
                            e.code,
                            i64::from(lines.line(e.span.start)) - i64::from(expect),
                            e.message
                        )
                    })
                    .collect();
                misses.push(format!(
                    "{:10} {short}\n           {}",
                    mutation.name,
                    found.join("\n           ")
                ));
            }
            if done == 12 {
                break;
            }
        }
    }
    if std::env::var_os("HEADWATER_MISSES").is_some() {
        eprintln!("{}", misses.join("\n"));
    }
    eprintln!("{all} faults: line {on_line}, cause {right_cause}, one report {alone}");
    assert!(all > 300);
    assert!(on_line * 100 >= all * 95);
    assert!(right_cause * 100 >= all * 80);
}

/// Three faults in three elements of one app: how often all three lines are among the reports.
#[test]
fn all_of_three_faults_are_reported() {
    let Some(apps) = apps() else { return };
    let mut seed = Seed(0x2545_f491_4f6c_dd1d);
    let (mut all, mut found, mut few) = (0, 0, 0);
    let mut misses = Vec::new();
    for _ in 0..20_000 {
        if all == 300 {
            break;
        }
        let app = &apps[seed.next(apps.len())];
        let Some((text, lines)) = three_faults(app, &mut seed) else {
            continue;
        };
        all += 1;
        let index = LineIndex::new(&text);
        let parsed = parse(&text);
        let errors: Vec<_> = parsed
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .collect();
        let reported: Vec<u32> = errors.iter().map(|d| index.line(d.span.start)).collect();
        let complete = lines.iter().all(|(_, line)| reported.contains(line));
        found += usize::from(complete);
        few += usize::from(errors.len() <= 4);
        if !complete {
            let missing: Vec<_> = lines
                .iter()
                .map(|(name, line)| {
                    let text: String = index
                        .line_span(&text, *line)
                        .text(&text)
                        .chars()
                        .take(100)
                        .collect();
                    format!("   {} {name} {line}: {text}", reported.contains(line))
                })
                .collect();
            let reports: Vec<_> = errors
                .iter()
                .take(6)
                .map(|e| format!("   {}@{} {}", e.code, index.line(e.span.start), e.message))
                .collect();
            misses.push(format!("{}\n{}\n", missing.join("\n"), reports.join("\n")));
        }
    }
    if std::env::var_os("HEADWATER_MISSES").is_some() {
        eprintln!("{}", misses.join("\n"));
    }
    eprintln!("{all} apps with three faults: all found {found}, at most four reports {few}");
    assert!(all > 100);
    assert!(found * 100 >= all * 80);
}

/// An app with three different faults in different elements, and the line of each.
fn three_faults(app: &str, seed: &mut Seed) -> Option<(String, Vec<(&'static str, u32)>)> {
    let mut text = app.to_owned();
    // From the back to the front, so that the places before stay what they are.
    let mut places: Vec<(usize, &Mutation)> = Vec::new();
    for _ in 0..3 {
        let mutation = &MUTATIONS[seed.next(MUTATIONS.len())];
        let found = self::places(app, mutation.from);
        if found.is_empty() || mutation.to == "//" {
            return None;
        }
        places.push((found[seed.next(found.len())], mutation));
    }
    places.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    let mut changes = Vec::new();
    for pair in places.windows(2) {
        // An element boundary between two faults.
        let between = app.get(pair[1].0 + pair[1].1.from.len()..pair[0].0)?;
        if !between.contains(";\n") {
            return None;
        }
    }
    for (place, mutation) in &places {
        text.replace_range(*place..place + mutation.from.len(), mutation.to);
        changes.push((*place, *mutation));
    }
    // Lines are not changed by the mutations, but by those that remove a line end.
    let lines = LineIndex::new(app);
    let result = changes
        .iter()
        .map(|(place, mutation)| {
            let skip = mutation.from.len() - mutation.from.trim_start().len();
            (mutation.name, lines.line((place + skip) as u32))
        })
        .collect();
    Some((text, result))
}
