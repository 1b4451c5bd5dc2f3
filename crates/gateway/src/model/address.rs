//! Addresses of topics, with parameters: `/symbols/{symbol}`.
//!
//! A parameter stands for one whole segment, and for one that is not empty. What stands in a path is decoded
//! segment by segment, so that a value may hold a slash (`%2F`).

use std::fmt::Write as _;

/// Longest value of a parameter, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 256;

/// Segments of an address, at most.
const SEGMENTS_MAX: usize = 32;

/// An address as it is written, and taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    text: String,
    segments: Vec<Segment>,
    parameters: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    /// Decoded.
    Fixed(String),
    /// The number of a parameter.
    Parameter(usize),
}

impl Address {
    /// Reads an address; one that begins without a slash gets one.
    ///
    /// # Errors
    /// It is none, in words.
    pub fn parse(text: &str) -> Result<Address, String> {
        let text = text.trim();
        let path = text.strip_prefix('/').unwrap_or(text);
        let (mut segments, mut parameters) = (Vec::new(), Vec::new());
        if !path.is_empty() {
            for part in path.split('/') {
                segments.push(segment(part, &mut parameters)?);
            }
        }
        if segments.len() > SEGMENTS_MAX {
            return Err(format!("it has more than {SEGMENTS_MAX} parts"));
        }
        if text.contains(['?', '#']) {
            return Err("it has a '?' or '#', which is no part of a path".to_owned());
        }
        Ok(Address {
            text: format!("/{path}"),
            segments,
            parameters,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// The path of the address with these values of its parameters.
    pub fn filled(&self, values: &[String]) -> String {
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            match segment {
                Segment::Fixed(text) => path.push_str(&encode_segment(text)),
                Segment::Parameter(at) => {
                    path.push_str(&encode_segment(values.get(*at).map_or("", String::as_str)));
                }
            }
        }
        if path.is_empty() {
            path.push('/');
        }
        path
    }

    /// The values of its parameters, where a path (decoded, in segments) is one of its addresses.
    pub fn matches(&self, path: &[String]) -> Option<Vec<String>> {
        if path.len() != self.segments.len() {
            return None;
        }
        let mut values = Vec::with_capacity(self.parameters.len());
        for (segment, part) in self.segments.iter().zip(path) {
            match segment {
                Segment::Fixed(text) if text == part => {}
                Segment::Parameter(_) if (1..=VALUE_BYTES_MAX).contains(&part.len()) => {
                    values.push(part.clone());
                }
                _ => return None,
            }
        }
        Some(values)
    }

    /// How many of its segments are fixed before the first parameter, and in all: of two addresses that match, the
    /// one that says more wins.
    pub fn rank(&self) -> (usize, usize) {
        let is_fixed = |segment: &&Segment| matches!(segment, Segment::Fixed(_));
        let before = self.segments.iter().take_while(is_fixed).count();
        (before, self.segments.iter().filter(is_fixed).count())
    }

    /// Could one path be an address of both?
    pub fn overlaps(&self, other: &Address) -> bool {
        let kind = |segment: &Segment| match segment {
            Segment::Fixed(text) => Some(text.clone()),
            Segment::Parameter(_) => None,
        };
        let own = self.segments.iter().map(kind);
        own.eq(other.segments.iter().map(kind))
    }
}

fn segment(part: &str, parameters: &mut Vec<String>) -> Result<Segment, String> {
    if part.is_empty() {
        return Err("it has an empty part".to_owned());
    }
    let Some(rest) = part.strip_prefix('{') else {
        return match part.contains(['{', '}']) {
            true => Err(format!(
                "'{part}' mixes text and a parameter: a parameter stands for a whole part"
            )),
            false => Ok(Segment::Fixed(decode_segment(part))),
        };
    };
    let name = rest.strip_suffix('}').unwrap_or_default();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("'{part}' is no parameter: write {{name}}"));
    }
    if parameters.iter().any(|known| known == name) {
        return Err(format!("it has the parameter '{name}' twice"));
    }
    parameters.push(name.to_owned());
    Ok(Segment::Parameter(parameters.len() - 1))
}

/// A value as a segment of a path.
pub(crate) fn encode_segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => write!(out, "%{byte:02X}").unwrap_or_default(),
        }
    }
    out
}

/// A segment without percent-encoding. Unlike in a form, `+` is itself.
pub(crate) fn decode_segment(text: &str) -> String {
    connect::url::decode(&text.replace('+', "%2B"))
}

/// The segments of a path, decoded; of `/` there are none. `None` where one is longer than any value may be.
pub(crate) fn segments_of(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(Vec::new());
    }
    let parts: Vec<&str> = path.split('/').take(SEGMENTS_MAX + 1).collect();
    let is_short = |part: &&str| part.len() <= 3 * VALUE_BYTES_MAX;
    if parts.len() > SEGMENTS_MAX || !parts.iter().all(is_short) {
        return None;
    }
    Some(parts.into_iter().map(decode_segment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, path: &str, expect: Option<&[&str]>) {
        let address = Address::parse(address).expect("it is one");
        let path = segments_of(path).expect("it is short");
        let found = address.matches(&path);
        let expect = expect.map(|all| all.iter().map(|v| (*v).to_owned()).collect());
        assert_eq!(found, expect, "{address:?} {path:?}");
    }

    #[test]
    fn a_path_is_matched_segment_by_segment() {
        check("/symbols/{symbol}", "/symbols/A", Some(&["A"]));
        check("symbols/{symbol}", "/symbols/a%2Fb+c", Some(&["a/b+c"]));
        check("/symbols/{symbol}", "/symbols/", None);
        check("/symbols/{symbol}", "/symbols", None);
        check("/symbols/{symbol}", "/symbols/A/B", None);
        check("/{a}/x/{b}", "/1/x/2", Some(&["1", "2"]));
        check("/a b", "/a%20b", Some(&[]));
        check("/", "/", Some(&[]));
    }

    #[test]
    fn a_long_value_matches_nothing() {
        let address = Address::parse("/{a}").expect("it is one");
        let long = segments_of(&format!("/{}", "x".repeat(VALUE_BYTES_MAX + 1)));
        assert_eq!(long.and_then(|path| address.matches(&path)), None);
        assert_eq!(segments_of(&"/x".repeat(SEGMENTS_MAX + 1)), None);
        assert_eq!(segments_of(&format!("/{}", "x".repeat(3000))), None);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, expect) in [
            ("/a//b", "an empty part"),
            ("/a/{b", "no parameter"),
            ("/a/{}", "no parameter"),
            ("/a/x{b}", "mixes text"),
            ("/{a}/{a}", "twice"),
            ("/a?b", "'?'"),
        ] {
            let said = Address::parse(text).expect_err(text);
            assert!(said.contains(expect), "{text}: {said}");
        }
    }

    #[test]
    fn values_come_back_as_they_went() {
        for value in ["A", "a/b", "ä ö", "100%", "a+b", "{x}", "?"] {
            assert_eq!(decode_segment(&encode_segment(value)), value);
        }
    }

    #[test]
    fn the_address_that_says_more_wins() {
        let rank = |text| Address::parse(text).expect("it is one").rank();
        assert!(rank("/a/b") > rank("/a/{x}"));
        assert!(rank("/a/{x}/c") > rank("/{y}/b/c"));
        let overlaps = |a, b| {
            let (a, b) = (Address::parse(a), Address::parse(b));
            a.expect("it is one").overlaps(&b.expect("it is one"))
        };
        assert!(overlaps("/a/{x}", "/a/{y}") && !overlaps("/a/{x}", "/a/b"));
    }
}
