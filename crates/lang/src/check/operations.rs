//! Annotations about how an app is run: `@app:memory` and `@app:statistics`.

use crate::ast::Annotation;
use crate::check::annotations::value;
use crate::check::report::{error, warning};
use crate::check::{Checker, code};
use crate::diagnostic::Kind;
use crate::plan::{Statistics, StatisticsLevel};
use crate::suggest::nearest;

/// Seconds between two reports, unless the app says otherwise, as in Siddhi.
const INTERVAL: u64 = 60;

/// Bytes of `512 MB`, in units of 1024; a bare number is bytes. `None` if the text is no size.
pub fn size_text(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    let shift = match unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit)
    {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let bytes = number * (1u64 << shift) as f64;
    (1.0..1e18).contains(&bytes).then_some(bytes as u64)
}

impl Checker<'_> {
    /// `@app:memory(limit='512 MB')`.
    pub(super) fn memory(&mut self, annotation: &Annotation) {
        self.known_options(annotation, &["limit"]);
        let Some(limit) = value(annotation, "limit") else {
            self.report(
                error(
                    code::BAD_VALUE,
                    Kind::Option,
                    annotation.span,
                    "'@app:memory' has no 'limit'",
                    "'limit' is missing",
                )
                .help("write @app:memory(limit='512 MB')"),
            );
            return;
        };
        match size_text(&limit.text) {
            Some(bytes) => self.plan.options.memory_max = Some(bytes),
            None => {
                let (span, text) = (limit.span, limit.text.clone());
                self.bad_value(span, "'limit'", &text, "a size such as '512 MB' or '2 GB'");
            }
        }
    }

    /// `@app:statistics(reporter='console', interval='5', include='*.Streams.*')`, or with `'true'` or
    /// `enable`. Siddhi has no `level`: there an app begins at BASIC.
    pub(super) fn statistics(&mut self, annotation: &Annotation) {
        let known = ["enable", "reporter", "interval", "include", "level"];
        self.known_options(annotation, &known);
        let own = annotation.elements.iter().find(|e| e.key.is_none());
        let enable = own.map(|e| &e.value).or(value(annotation, "enable"));
        if enable.is_some_and(|text| !text.text.eq_ignore_ascii_case("true")) {
            return;
        }
        let reporter = value(annotation, "reporter");
        let is_console = reporter.is_none_or(|r| r.text.eq_ignore_ascii_case("console"));
        if let Some(reporter) = reporter.filter(|_| !is_console) {
            let (span, text) = (reporter.span, reporter.text.clone());
            self.report(
                warning(
                    code::ANNOTATION_WITHOUT_EFFECT,
                    Kind::Option,
                    span,
                    format!("there is no reporter '{text}'"),
                    "nothing reports this way",
                )
                .help("read the numbers from /metrics (headwater run --http), or use 'console'"),
            );
        }
        let interval = value(annotation, "interval").map(|text| {
            let seconds = text.text.trim().parse::<u64>().ok();
            let seconds = seconds.filter(|s| (1..=86_400 * 365).contains(s));
            if seconds.is_none() {
                self.bad_value(text.span, "'interval'", &text.text, "a number of seconds");
            }
            seconds.unwrap_or(INTERVAL)
        });
        let include = value(annotation, "include").map(|text| {
            let patterns = text.text.split(',').map(|p| p.trim().to_owned());
            patterns.filter(|p| !p.is_empty()).collect()
        });
        let level = value(annotation, "level").map(|text| {
            let level = StatisticsLevel::from_name(text.text.trim());
            if level.is_none() {
                self.bad_value(text.span, "'level'", &text.text, StatisticsLevel::NAMES);
            }
            level.unwrap_or_default()
        });
        self.plan.options.statistics = Some(Statistics {
            is_console,
            interval_seconds: interval.unwrap_or(INTERVAL),
            include: include.unwrap_or_default(),
            level: level.unwrap_or(StatisticsLevel::Basic),
        });
    }

    /// Names what the annotation has no option for; Siddhi passes it over.
    fn known_options(&mut self, annotation: &Annotation, known: &[&'static str]) {
        for element in &annotation.elements {
            let Some(key) = &element.key else {
                continue;
            };
            if known.iter().any(|k| key.text.eq_ignore_ascii_case(k)) {
                continue;
            }
            let name = annotation.name.text.clone();
            self.report(
                warning(
                    code::ANNOTATION_WITHOUT_EFFECT,
                    Kind::Option,
                    key.span,
                    format!("'@app:{name}' has no option '{}'", key.text),
                    "it is passed over",
                )
                .did_you_mean(key.span, nearest(&key.text, known.iter().copied())),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1048576", Some(1 << 20)),
            ("512 MB", Some(512 << 20)),
            ("1.5gb", Some(3 << 29)),
            ("64 KiB", Some(64 << 10)),
            ("2g", Some(2 << 30)),
            ("0", None),
            ("-1 MB", None),
            ("many", None),
            ("5 apples", None),
            ("", None),
            ("9e9 TB", None),
        ] {
            assert_eq!(size_text(text), bytes, "{text}");
        }
    }
}
