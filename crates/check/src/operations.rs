//! Annotations about how an app is run: `@app:memory` and `@app:statistics`.

use crate::Checker;
use crate::annotations::value;
use crate::codes::check as code;
use crate::report::{error, warning};
use lang::ast::Annotation;
use lang::diagnostic::Kind;
use lang::quantity::size_text;
use lang::suggest::nearest;
use plan::{Statistics, StatisticsLevel};

/// Seconds between two reports, unless the app says otherwise, as in Siddhi.
const INTERVAL: u64 = 60;

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
                    "it is ignored",
                )
                .did_you_mean(key.span, nearest(&key.text, known.iter().copied())),
            );
        }
    }
}
