//! Faults of a known place and kind, put into apps that have none.

use check::Catalog;
use lang::ast::App;
use lang::diagnostic::Kind;
use lang::span::Span;
use plan::spec::{ConnectorKind, ConnectorSpec, OptionType};

use super::sites::{OptionSite, Site, Sites};

/// One change that breaks an app.
#[derive(Clone, Debug)]
pub struct Mutation {
    pub mutator: &'static str,
    pub span: Span,
    pub replacement: String,
    /// The kinds that name the fault rightly.
    pub kinds: &'static [Kind],
    /// The report must say one of these, case ignored.
    pub words: Vec<String>,
    /// Where the fault stands; the next line that holds code is right, too, where something is
    /// missing at the end of a line.
    pub blame: u32,
    pub next_line_too: bool,
    /// A warning is right, too.
    pub warning: bool,
}

impl Mutation {
    fn new(
        mutator: &'static str,
        span: Span,
        replacement: impl Into<String>,
        kinds: &'static [Kind],
        words: &[&str],
    ) -> Mutation {
        Mutation {
            mutator,
            span,
            replacement: replacement.into(),
            kinds,
            words: words.iter().map(|w| w.to_lowercase()).collect(),
            blame: span.start,
            next_line_too: false,
            warning: false,
        }
    }
}

const NAME: &[Kind] = &[Kind::Name];
const NAME_OR_UNSUPPORTED: &[Kind] = &[Kind::Name, Kind::Unsupported];
const TYPE: &[Kind] = &[Kind::Type];
const OPTION: &[Kind] = &[Kind::Option];
const SYNTAX: &[Kind] = &[Kind::Syntax];

/// A generator of numbers that gives the same ones everywhere (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("it is below a usize")
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Every mutation that this app allows, by mutator.
pub fn candidates(app: &App, text: &str, catalog: &Catalog, random: &mut Random) -> Vec<Mutation> {
    let sites = Sites::of(app, text);
    let mut found = Vec::new();
    names(&sites, text, random, &mut found);
    types(&sites, text, &mut found);
    for option in &sites.options {
        options(option, catalog, random, &mut found);
    }
    syntax(&sites, text, random, &mut found);
    found
}

fn names(sites: &Sites, text: &str, random: &mut Random, found: &mut Vec<Mutation>) {
    let misspelt = |site: &Site, random: &mut Random| {
        let wrong = misspell(&site.text, random);
        // A misspelling that means something else is no fault.
        (site.text.len() > 3 && !contains_word(text, &wrong)).then_some(wrong)
    };
    for site in &sites.attributes {
        if let Some(wrong) = misspelt(site, random) {
            let m = Mutation::new("attribute misspelt", site.span, &wrong, NAME, &[&wrong]);
            found.push(m);
        }
    }
    for site in &sites.inputs {
        if let Some(wrong) = misspelt(site, random) {
            found.push(Mutation::new(
                "stream misspelt",
                site.span,
                &wrong,
                NAME,
                &[&wrong],
            ));
        }
    }
    for (mutator, list) in [
        ("function misspelt", &sites.functions),
        ("window misspelt", &sites.windows),
    ] {
        for site in list {
            if let Some(wrong) = misspelt(site, random) {
                let kinds = NAME_OR_UNSUPPORTED;
                found.push(Mutation::new(mutator, site.span, &wrong, kinds, &[&wrong]));
            }
        }
    }
    for site in &sites.defined {
        let again = format!(";\ndefine stream {} (never_used_elsewhere bool)", site.text);
        let mut m = Mutation::new(
            "defined twice",
            site.span,
            again,
            NAME,
            &[&format!("'{}'", site.text)],
        );
        // The line behind the `;`.
        m.blame = site.span.start + 2;
        found.push(m);
    }
}

fn types(sites: &Sites, text: &str, found: &mut Vec<Mutation>) {
    for site in &sites.compared {
        let words = ["string", "number"];
        found.push(Mutation::new(
            "number made text",
            site.span,
            "'text'",
            TYPE,
            &words,
        ));
    }
    for site in &sites.calculated {
        // Siddhi accepts this and fails with each event: a warning is right.
        let words = ["string"];
        let mut m = Mutation::new("calculated with text", site.span, "'text'", TYPE, &words);
        m.warning = true;
        found.push(m);
    }
    for site in &sites.summed {
        let words = [site.text.as_str()];
        found.push(Mutation::new(
            "text summed",
            site.span,
            "'text'",
            TYPE,
            &words,
        ));
    }
    for site in &sites.window_numbers {
        let wrong = format!("'{}'", site.text);
        found.push(Mutation::new(
            "window of text",
            site.span,
            wrong,
            TYPE,
            &["string"],
        ));
    }
    for site in &sites.arguments {
        let words = [site.text.as_str()];
        let end = Span::new(site.span.end, site.span.end);
        found.push(Mutation::new(
            "too many arguments",
            end,
            ", 'a', 'b', 'c', 'd'",
            TYPE,
            &words,
        ));
    }
    for site in &sites.items {
        let kinds = &[Kind::Type, Kind::Name];
        found.push(Mutation::new(
            "column left out",
            site.span,
            "",
            kinds,
            &[&site.text],
        ));
    }
    for site in &sites.attribute_types {
        if text.len() > site.span.end as usize && site.text.len() > 3 {
            let wrong = format!("{}z", site.text);
            let kinds = &[Kind::Syntax, Kind::Type, Kind::Name];
            found.push(Mutation::new(
                "type misspelt",
                site.span,
                &wrong,
                kinds,
                &[&wrong],
            ));
        }
    }
}

fn kind_of(site: &OptionSite) -> Option<ConnectorKind> {
    match (site.annotation.as_str(), site.parent.as_str()) {
        ("source", _) => Some(ConnectorKind::Source),
        ("sink", _) => Some(ConnectorKind::Sink),
        ("store", _) => Some(ConnectorKind::Store),
        ("map", "source") => Some(ConnectorKind::SourceMapper),
        ("map", "sink") => Some(ConnectorKind::SinkMapper),
        _ => None,
    }
}

fn options(site: &OptionSite, catalog: &Catalog, random: &mut Random, found: &mut Vec<Mutation>) {
    let Some(kind) = kind_of(site) else { return };
    let Some(spec) = catalog.connector(kind, &site.component) else {
        return;
    };
    if site.key.text == "type" {
        let wrong = misspell(&site.value.text, random);
        let kinds = &[Kind::Name, Kind::Unsupported, Kind::Option];
        let replacement = format!("'{wrong}'");
        found.push(Mutation::new(
            "component misspelt",
            site.value.span,
            replacement,
            kinds,
            &[&wrong],
        ));
        return;
    }
    let Some(option) = spec.option(&site.key.text) else {
        return;
    };
    if option.required {
        required(spec, site, random, found);
    }
    match option.ty {
        OptionType::OneOf(_) if !site.value.text.contains("{{") => {
            let m = Mutation::new(
                "value misspelt",
                site.value.span,
                "'nonsense'",
                OPTION,
                &["nonsense"],
            );
            found.push(m);
        }
        OptionType::Int | OptionType::Long | OptionType::Millis => {
            let m = Mutation::new(
                "number expected",
                site.value.span,
                "'many'",
                OPTION,
                &["many"],
            );
            found.push(m);
        }
        _ => {}
    }
    if option.dynamic {
        let kinds = &[Kind::Name, Kind::Option];
        let words = ["no_such_attribute"];
        let m = Mutation::new(
            "unknown in a template",
            site.value.span,
            "'{{no_such_attribute}}'",
            kinds,
            &words,
        );
        found.push(m);
    }
}

fn required(
    spec: &ConnectorSpec,
    site: &OptionSite,
    random: &mut Random,
    found: &mut Vec<Mutation>,
) {
    let wrong = misspell(&site.key.text, random);
    let words = [site.key.text.as_str()];
    if spec.option(&wrong).is_none() {
        found.push(Mutation::new(
            "option misspelt",
            site.key.span,
            &wrong,
            OPTION,
            &words,
        ));
    }
    if site.siblings > 0 {
        let mut m = Mutation::new("option left out", site.element, "", OPTION, &words);
        m.blame = site.head.start;
        found.push(m);
    }
}

fn syntax(sites: &Sites, text: &str, random: &mut Random, found: &mut Vec<Mutation>) {
    let code = code_mask(text);
    for (word, wrong) in [
        ("select", "selct"),
        ("insert into", "insert"),
        ("define", "defin"),
        ("from", "form"),
    ] {
        for span in words_in_code(text, &code, word) {
            let is_left_out = wrong.split(' ').count() < word.split(' ').count();
            let mutator = if is_left_out {
                "keyword left out"
            } else {
                "keyword misspelt"
            };
            let hints: Vec<&str> = word.split(' ').chain([wrong]).collect();
            found.push(Mutation::new(mutator, span, wrong, SYNTAX, &hints));
        }
    }
    for unit in ["sec", "min", "seconds", "minutes", "hour"] {
        for span in words_in_code(text, &code, unit) {
            let is_time = text[..span.start as usize]
                .trim_end()
                .ends_with(char::is_numeric);
            if is_time {
                let wrong = misspell(unit, random);
                let kinds = &[Kind::Syntax, Kind::Name];
                let hints = [wrong.as_str(), unit, "unit", "time"];
                found.push(Mutation::new("unit misspelt", span, &wrong, kinds, &hints));
            }
        }
    }
    for span in words_in_code(text, &code, "==") {
        found.push(Mutation::new("one = for ==", span, "=", SYNTAX, &["=="]));
    }
    for span in words_in_code(text, &code, ",") {
        let mut m = Mutation::new("comma left out", span, " ", SYNTAX, &["','", "comma"]);
        m.next_line_too = true;
        found.push(m);
        let mut m = Mutation::new(
            "comma doubled",
            span,
            ",,",
            SYNTAX,
            &["','", "comma", "missing"],
        );
        m.next_line_too = true;
        found.push(m);
    }
    for (at, byte) in text.bytes().enumerate().filter(|(at, _)| code[*at]) {
        let at = u32::try_from(at).expect("an app is short");
        let span = Span::new(at, at + 1);
        let (mutator, words): (_, &[&str]) = match byte {
            b';' => ("semicolon left out", &[";"]),
            b')' => ("bracket left out", &[")", "bracket"]),
            b'(' => ("bracket left out", &["(", "bracket"]),
            _ => continue,
        };
        let rest = text[at as usize + 1..].trim();
        if byte == b';' && (rest.is_empty() || rest.starts_with("end")) {
            continue; // the last one is not needed
        }
        let mut m = Mutation::new(mutator, span, "", SYNTAX, words);
        m.next_line_too = true;
        found.push(m);
    }
    for option in &sites.options {
        let end = option.value.span.end;
        let is_short = text[option.value.span.start as usize..].starts_with(['\'', '"'])
            && !text[option.value.span.start as usize..].starts_with("\"\"\"");
        if is_short && !option.value.text.contains('\n') && random.below(4) == 0 {
            let span = Span::new(end - 1, end);
            let words = ["string", "quote", "text"];
            let mut m = Mutation::new("quote left out", span, "", SYNTAX, &words);
            m.blame = option.value.span.start;
            found.push(m);
        }
    }
}

/// One letter left out, doubled, exchanged with its neighbour, or replaced.
pub fn misspell(word: &str, random: &mut Random) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    if letters.len() < 2 {
        return format!("{word}q");
    }
    let at = 1 + random.below(letters.len() - 1);
    match random.below(4) {
        0 if letters.len() > 3 => {
            letters.remove(at);
        }
        1 => letters.insert(at, letters[at]),
        2 if letters[at] != letters[at - 1] => letters.swap(at, at - 1),
        _ => letters[at] = if letters[at] == 'q' { 'j' } else { 'q' },
    }
    letters.into_iter().collect()
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_part(before) && !is_part(after)
    })
}

/// Which bytes are code: neither in a string, nor in a comment, nor in the body of a script.
pub fn code_mask(text: &str) -> Vec<bool> {
    let bytes = text.as_bytes();
    let mut mask = vec![true; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |i| i + 2)
        } else if let Some(inner) = rest.strip_prefix("\"\"\"") {
            inner.find("\"\"\"").map_or(rest.len(), |i| i + 6)
        } else if rest.starts_with(['\'', '"', '`']) {
            rest[1..].find(&rest[..1]).map_or(rest.len(), |i| i + 2)
        } else if rest.starts_with('{') {
            rest.find('}').map_or(rest.len(), |i| i + 1)
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        mask[at..at + length].fill(false);
        at += length;
    }
    mask
}

fn words_in_code(text: &str, code: &[bool], word: &str) -> Vec<Span> {
    text.match_indices(word)
        .filter(|(at, _)| {
            let end = at + word.len();
            let is_part = |c: Option<char>| {
                c.is_some_and(|c| c.is_alphanumeric() || ['_', ':', '.', '@'].contains(&c))
            };
            code[*at]
                && !is_part(text[..*at].chars().next_back())
                && !is_part(text[end..].chars().next())
        })
        .map(|(at, _)| {
            let start = u32::try_from(at).expect("an app is short");
            Span::new(
                start,
                start + u32::try_from(word.len()).expect("a word is short"),
            )
        })
        .collect()
}
