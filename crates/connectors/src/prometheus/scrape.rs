//! Samples of one metric in what a target answers (text format 0.0.4).

/// What is wanted of an answer.
pub(crate) struct Wanted {
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub kind: String,
    /// Labels that a sample must have, in any case.
    pub labels: Vec<(String, String)>,
}

#[derive(PartialEq, Debug)]
pub(crate) struct Sample {
    /// `null`, `bucket`, `count` or `sum`.
    pub subtype: &'static str,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

/// Help and samples of the metric; why there are none.
pub(crate) fn find(text: &str, wanted: &Wanted) -> Result<(String, Vec<Sample>), String> {
    let name = &wanted.name;
    let line_of = |word: &str| {
        text.lines().find_map(|line| {
            let rest = line.strip_prefix('#')?.trim_start().strip_prefix(word)?;
            let (of, rest) = rest.trim_start().split_once([' ', '\t'])?;
            (of == name).then(|| rest.trim())
        })
    };
    let kind = line_of("TYPE").ok_or_else(|| format!("the answer has no metric '{name}'"))?;
    if !kind.eq_ignore_ascii_case(&wanted.kind) {
        return Err(format!(
            "metric '{name}' is a {kind}, the source asks for a {}",
            wanted.kind
        ));
    }
    let help = line_of("HELP").unwrap_or_default().to_owned();
    let mut samples = Vec::new();
    let mut is_there = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(rest) = line.trim_start().strip_prefix(name.as_str()) else {
            continue;
        };
        let (suffix, rest) = rest.split_at(rest.find(['{', ' ', '\t']).unwrap_or(rest.len()));
        let subtype = match suffix {
            "" => "null",
            "_bucket" => "bucket",
            "_count" => "count",
            "_sum" => "sum",
            _ => continue,
        };
        is_there = true;
        let wrong = || format!("a sample of metric '{name}' cannot be read: {line}");
        let (labels, rest) = labels(rest).ok_or_else(wrong)?;
        let value = rest.split_ascii_whitespace().next().and_then(number);
        let has = |(key, value): &(String, String)| {
            let found = labels.iter().find(|(k, _)| k == key);
            found.is_some_and(|(_, v)| v.eq_ignore_ascii_case(value))
        };
        if !wanted.labels.iter().all(has) {
            continue;
        }
        samples.push(Sample {
            subtype,
            value: value.ok_or_else(wrong)?,
            labels,
        });
    }
    if samples.is_empty() && is_there {
        return Err(format!(
            "no sample of metric '{name}' has the requested job, instance and group"
        ));
    }
    Ok((help, samples))
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        text => text.parse().ok(),
    }
}

/// `{a="b",c="d"}` and what follows it; no braces are no labels.
fn labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let Some(mut rest) = text.strip_prefix('{') else {
        return Some((Vec::new(), text));
    };
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((found, rest));
        }
        let (name, behind) = rest.split_once('=')?;
        let behind = behind.trim_start().strip_prefix('"')?;
        let (mut value, mut chars) = (String::new(), behind.char_indices());
        rest = loop {
            match chars.next()? {
                (at, '"') => break &behind[at + 1..],
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    c => value.push(c),
                },
                (_, c) => value.push(c),
            }
        };
        found.push((name.trim().to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP other no\n# TYPE other counter\nother 7\n\
        # HELP m what it is\n# TYPE m histogram\n\
        m_bucket{job=\"A\",le=\"1.0\",} 2.0\nm_bucket{job=\"b\",le=\"+Inf\"} 3 1700000000\n\
        m_count{job=\"a\"} 3\nm_sum{job=\"a\"} 1.5e1\nm_more 1\nmm 2\n\
        # TYPE g gauge\ng +Inf\ng{x=\"a\\\"},\\n\\\\\"} -2\n";

    fn check(name: &str, kind: &str, labels: &[(&str, &str)], expect: Result<&str, &str>) {
        let wanted = Wanted {
            name: name.into(),
            kind: kind.into(),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        };
        let found = find(TEXT, &wanted).map(|(help, samples)| {
            let samples = samples.iter().map(|s| {
                let labels: Vec<&str> = s.labels.iter().map(|(_, v)| v.as_str()).collect();
                format!(" {}{labels:?}{}", s.subtype, s.value)
            });
            format!("{help}:{}", samples.collect::<String>())
        });
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect),
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, _) => panic!("{name} {kind}: {found:?}"),
        }
    }

    #[test]
    fn samples_of_one_metric() {
        check(
            "m",
            "histogram",
            &[],
            Ok(
                "what it is: bucket[\"A\", \"1.0\"]2 bucket[\"b\", \"+Inf\"]3 count[\"a\"]3 sum[\"a\"]15",
            ),
        );
        check(
            "m",
            "HISTOGRAM",
            &[("job", "a")],
            Ok("what it is: bucket[\"A\", \"1.0\"]2 count[\"a\"]3 sum[\"a\"]15"),
        );
        check(
            "g",
            "gauge",
            &[],
            Ok(": null[]inf null[\"a\\\"},\\n\\\\\"]-2"),
        );
        check("m", "counter", &[], Err("is a histogram"));
        check("x", "counter", &[], Err("no metric 'x'"));
        check("m", "histogram", &[("job", "z")], Err("job, instance"));
    }
}
