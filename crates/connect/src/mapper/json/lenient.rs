//! What Gson's lenient reader lets pass, for `validate.json` on the way out.
//!
//! Beside JSON: names and values without quotes (`undefined`), single quotes, comments, `;` for `,`,
//! `=` and `=>` for `:`, empty places in lists.

/// Nesting of objects and lists.
const DEPTH_MAX: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A value must follow; `]` too, in a list.
    Value,
    /// A name or `}`.
    Name,
    /// A separator or the end.
    More,
}

/// Is the text one value?
pub(super) fn is_json(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut open: Vec<u8> = Vec::new();
    let mut expect = Expect::Value;
    loop {
        let Some(next) = skip(bytes, at) else {
            return false;
        };
        at = next;
        let Some(&byte) = bytes.get(at) else {
            return open.is_empty() && expect == Expect::More;
        };
        if open.is_empty() && expect == Expect::More {
            return false;
        }
        match (expect, byte, open.last()) {
            (Expect::Value | Expect::More, b']', Some(b'['))
            | (Expect::Name | Expect::More, b'}', Some(b'{')) => {
                open.pop();
                at += 1;
                expect = Expect::More;
            }
            (Expect::More, b',' | b';', Some(&inside)) => {
                at += 1;
                expect = if inside == b'{' {
                    Expect::Name
                } else {
                    Expect::Value
                };
            }
            (Expect::Value, b',' | b';', Some(b'[')) => at += 1,
            (Expect::Value, b'{' | b'[', _) => {
                if open.len() == DEPTH_MAX {
                    return false;
                }
                open.push(byte);
                at += 1;
                expect = if byte == b'{' {
                    Expect::Name
                } else {
                    Expect::Value
                };
            }
            (Expect::Value, ..) => {
                let Some(end) = literal(bytes, at) else {
                    return false;
                };
                at = end;
                expect = Expect::More;
            }
            (Expect::Name, ..) => {
                let colon = literal(bytes, at).and_then(|end| skip(bytes, end));
                let Some(colon) = colon else { return false };
                at = match bytes.get(colon) {
                    Some(b'=') if bytes.get(colon + 1) == Some(&b'>') => colon + 2,
                    Some(b':' | b'=') => colon + 1,
                    _ => return false,
                };
                expect = Expect::Value;
            }
            (Expect::More, ..) => return false,
        }
    }
}

/// The end of a string or of a bare word.
fn literal(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    if !matches!(quote, b'"' | b'\'') {
        let is_end = |byte: &u8| {
            matches!(
                byte,
                b'/' | b'\\'
                    | b';'
                    | b'#'
                    | b'='
                    | b'{'
                    | b'}'
                    | b'['
                    | b']'
                    | b':'
                    | b','
                    | b' '
                    | b'\t'
                    | b'\r'
                    | b'\n'
                    | 0x0c
            )
        };
        let len = bytes[at..]
            .iter()
            .position(is_end)
            .unwrap_or(bytes.len() - at);
        return (len > 0).then_some(at + len);
    }
    let mut i = at + 1;
    while let Some(&byte) = bytes.get(i) {
        match byte {
            b'\\' => i += 2,
            _ if byte == quote => return Some(i + 1),
            _ => i += 1,
        }
    }
    None
}

/// Behind blanks and comments; `None` where a comment is never closed.
fn skip(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b' ' | b'\t' | b'\r' | b'\n'), _) => at += 1,
            (Some(b'#'), _) | (Some(b'/'), Some(b'/')) => {
                let len = memchr::memchr2(b'\n', b'\r', &bytes[at..]);
                at = len.map_or(bytes.len(), |len| at + len);
            }
            (Some(b'/'), Some(b'*')) => {
                at += 2 + memchr::memmem::find(&bytes[at + 2..], b"*/")? + 2;
            }
            _ => return Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn what_passes() {
        for good in [
            r#"{"a":[1,2.5,{"b":null}]}"#,
            "{a:undefined}",
            "{'a'=>1;\"b\"=2}",
            "[1,,2]",
            "[]",
            "{}",
            "x",
            "/* c */ [1] // d",
            "{\"p\":\n undefined\n}",
            "[1,]",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "", "{", "{\"a\"}", "{\"a\":1", "[1", "{a:1}}", "[1] 2", "\"a", "{a b:1}", "/*",
            "<a/>:",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }
}
