//! Rust text as far as the rules need it: without comments, contents of strings and tests.

/// The text with comments, strings and characters blanked; lines stay where they are.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = vec![b' '; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'\'' => char_end(bytes, at),
            b'r' | b'b' if at == 0 || !is_word(bytes[at - 1]) => match raw_end(bytes, at) {
                Some(end) => end,
                None => at,
            },
            _ => at,
        };
        if end == at {
            out[at] = bytes[at];
            at += 1;
            continue;
        }
        for (to, from) in out[at..end].iter_mut().zip(&bytes[at..end]) {
            if *from == b'\n' {
                *to = b'\n';
            }
        }
        at = end;
    }
    // Only whole characters were kept: what is not ASCII lies in comments and strings, or is kept
    // byte by byte.
    String::from_utf8_lossy(&out).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter().position(|&b| b == b'\n');
    rest.map_or(bytes.len(), |n| at + n)
}

fn block_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < bytes.len() {
        match (bytes[i], bytes[i + 1]) {
            (b'/', b'*') => {
                depth += 1;
                i += 2;
            }
            (b'*', b'/') => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// The end of a character; a lifetime is none.
fn char_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let rest = bytes.get(at + 3..).unwrap_or_default();
        return match rest.iter().position(|&b| b == b'\'') {
            Some(n) => at + 3 + n + 1,
            None => at,
        };
    }
    // A character of up to four bytes and the quote behind it.
    let first = bytes.get(at + 1).copied().unwrap_or(b' ');
    let width = match first {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    match bytes.get(at + 1 + width) {
        Some(b'\'') => at + width + 2,
        _ => at,
    }
}

/// The end of `r"…"`, `r#"…"#`, `b"…"`, `br#"…"#` or `b'…'`.
fn raw_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut i = at;
    if bytes[i] == b'b' {
        i += 1;
        match bytes.get(i) {
            Some(b'"') => return Some(string_end(bytes, i)),
            Some(b'\'') => return Some(char_end(bytes, i)).filter(|&end| end > i),
            _ => {}
        }
    }
    if bytes.get(i) != Some(&b'r') {
        return None;
    }
    i += 1;
    let hashes = bytes[i..].iter().take_while(|&&b| b == b'#').count();
    i += hashes;
    if bytes.get(i) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let rest = &bytes[i + 1..];
    let found = rest.windows(close.len()).position(|w| w == close);
    Some(found.map_or(bytes.len(), |n| i + 1 + n + close.len()))
}

/// [`code`] without the modules that are compiled for tests alone, and the names of those that lie in
/// a file of their own.
pub fn shipped(text: &str) -> (String, Vec<String>) {
    let mut code = code(text);
    let mut in_files = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(") {
        let at = from + found;
        from = at + 1;
        let Some(close) = code[at..].find(']').map(|n| at + n + 1) else {
            break;
        };
        let condition = &code[at..close];
        if !condition.contains("(test)") && !condition.contains("any(test") {
            continue;
        }
        let Some(item) = module(&code, close) else {
            continue;
        };
        match item {
            Module::File(name) => in_files.push(name),
            Module::Here(end) => {
                let blank: String = code[at..end]
                    .chars()
                    .map(|c| if c == '\n' { '\n' } else { ' ' })
                    .collect();
                code.replace_range(at..end, &blank);
            }
        }
    }
    (code, in_files)
}

enum Module {
    File(String),
    /// Its end.
    Here(usize),
}

/// The module that begins here, after other attributes.
fn module(code: &str, mut at: usize) -> Option<Module> {
    loop {
        let rest = &code[at..];
        let start = at + (rest.len() - rest.trim_start().len());
        if !code[start..].starts_with("#[") {
            at = start;
            break;
        }
        at = start + code[start..].find(']')? + 1;
    }
    let head_end = at + code[at..].find(['{', ';', '}'])?;
    let head: Vec<&str> = code[at..head_end].split_whitespace().collect();
    let name = match head.as_slice() {
        ["mod", name] | [_, "mod", name] => (*name).to_owned(),
        _ => return None,
    };
    if code.as_bytes()[head_end] == b';' {
        return Some(Module::File(name));
    }
    let mut depth = 0;
    for (n, byte) in code[head_end..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(Module::Here(head_end + n + 1));
        }
    }
    Some(Module::Here(code.len()))
}

/// Identifiers with their lines, from 1.
pub fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(at, line)| {
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
            .map(move |word| (at + 1, word))
    })
}

/// The words of an identifier, in small letters: `LaneApp` and `lane_app` are `executor`, `app`.
pub fn parts(identifier: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut was_small = false;
    for c in identifier.chars() {
        if c == '_' || c.is_ascii_digit() {
            was_small = false;
            parts.push(String::new());
            continue;
        }
        if parts.is_empty() || (c.is_ascii_uppercase() && was_small) {
            parts.push(String::new());
        }
        was_small = c.is_ascii_lowercase();
        if let Some(last) = parts.last_mut() {
            last.push(c.to_ascii_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked() {
        let text = "a /* b /* c */ d */ e // f\n'g' \"h \\\" i\" r#\"j \" k\"# b'l' 'm: n\n'\\'' o";
        let left: Vec<String> = code(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(left, ["a", "e", "'m:", "n", "o"]);
        assert_eq!(code(text).lines().count(), text.lines().count());
    }

    #[test]
    fn tests_are_left_out() {
        let text = "use a;\n#[cfg(test)]\nmod testing;\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { c } }\nuse d;";
        let (code, files) = shipped(text);
        let words: Vec<&str> = identifiers(&code).map(|(_, word)| word).collect();
        assert!(!words.contains(&"c") && words.contains(&"d"), "{words:?}");
        assert_eq!(files, ["testing"]);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn identifiers_have_parts() {
        assert_eq!(parts("LaneApp"), ["lane", "app"]);
        assert_eq!(parts("ROWS_MAX2"), ["rows", "max"]);
        assert_eq!(parts("lane_app"), ["lane", "app"]);
    }
}
