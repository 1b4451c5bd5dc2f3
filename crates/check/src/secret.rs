//! Where a line of an app holds a secret: what stands behind names such as `password`, in the logins of
//! URLs, and in the arguments of functions that reach outside. Lines are shown to people, on terminals and in logs, where these parts are not to be read.
//!
//! It goes by the form of the text, for a line with a fault may be no option of anything.

use std::ops::Range;

use plan::spec::FunctionSpec;

use crate::Catalog;

/// A name with one of these in it is that of a secret.
const WORDS: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
];

/// Headers, and parameters of URLs, that hold a secret without one of the words in their names. They
/// are compared without `-` and `_`, from the end: `X-Api-Key`, `ocp_apim_subscription_key`.
const ENDINGS: [&str; 7] = [
    "authorization",
    "cookie",
    "apikey",
    "authkey",
    "subscriptionkey",
    "privatekey",
    "signature",
];

/// Around a text that may have quotes and line feeds in it.
const LONG_QUOTE: &str = "\"\"\"";

/// How far before its `@` the login of a URL is looked for: lines may be of any length.
const LOGIN_BYTES_MAX: usize = 512;

/// Which arguments of a function that reaches outside are secrets, by the names of its parameters.
pub(crate) fn arguments_of(spec: &FunctionSpec) -> Vec<usize> {
    let longest = spec.overloads.iter().max_by_key(|o| o.params.len());
    let Some(longest) = longest.filter(|_| spec.effect) else {
        return Vec::new();
    };
    let params = longest.params.iter().enumerate();
    params
        .filter(|(_, param)| is_secret_argument(param.name))
        .map(|(index, _)| index)
        .collect()
}

/// The byte ranges of a line that are not to be shown.
pub(crate) fn ranges(line: &str, catalog: &Catalog) -> Vec<Range<usize>> {
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let range = match bytes[at] {
            b'(' => {
                let secrets = catalog.secret_arguments(called_before(line, at));
                if !secrets.is_empty() {
                    let (all, end) = arguments_behind(line, at + 1, secrets);
                    found.extend(all);
                    at = at.max(end);
                }
                None
            }
            b'=' | b':' if is_secret(name_before(line, at)) => {
                header_value(line, at).or_else(|| value_behind(line, at + 1))
            }
            b'@' => login_before(line, at).or_else(|| login_behind(line, at)),
            _ => None,
        };
        at += 1;
        if let Some(range) = range {
            at = at.max(range.end);
            found.push(range);
        }
    }
    found
}

/// The text of an app, or a line of it, with `…` for each secret in it; what a `${…}` stands for is not in it.
pub fn hidden(text: &str, catalog: &Catalog) -> String {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for range in ranges(text, catalog) {
        out.push_str(&text[copied..range.start]);
        out.push('…');
        copied = range.end;
    }
    out.push_str(&text[copied..]);
    out
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// The name that ends before a `=` or `:`.
fn name_before(line: &str, at: usize) -> &str {
    let before = line[..at].trim_end();
    &before[before.trim_end_matches(is_name).len()..]
}

/// The name of the function whose arguments begin at `at`.
fn called_before(line: &str, at: usize) -> &str {
    let before = line[..at].trim_end();
    &before[before.trim_end_matches(|c| is_name(c) || c == ':').len()..]
}

/// What stands in those arguments that are texts, and where the last of all ends on this line.
fn arguments_behind(line: &str, from: usize, wanted: &[usize]) -> (Vec<Range<usize>>, usize) {
    let mut found = Vec::new();
    let (mut index, mut depth, mut text) = (0, 0_usize, None);
    for (at, c) in line[from..].char_indices().map(|(at, c)| (from + at, c)) {
        match (c, text) {
            (quote, Some((begun, start))) if quote == begun => {
                if depth == 0 && wanted.contains(&index) && start < at {
                    found.push(start..at);
                }
                text = None;
            }
            (_, Some(_)) => {}
            ('\'' | '"', None) => text = Some((c, at + 1)),
            ('(', None) => depth += 1,
            (')', None) if depth == 0 => return (found, at),
            (')', None) => depth -= 1,
            (',', None) if depth == 0 => index += 1,
            _ => {}
        }
    }
    if let Some((_, start)) = text.filter(|_| depth == 0 && wanted.contains(&index)) {
        found.push(start..line.len());
    }
    (found, line.len())
}

/// Where credentials come from is not a secret, but a class.
fn is_secret_argument(name: &str) -> bool {
    is_secret(name) && !name.contains("provider")
}

/// Does an option or variable of this name hold a secret?
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Where a token is got is none.
    let is_worded = WORDS.iter().any(|word| name.contains(word)) && !name.ends_with("url");
    let plain = || name.replace(['-', '_', '.'], "");
    is_worded || ENDINGS.iter().any(|ending| plain().ends_with(ending))
}

/// The value of a header in a list such as `'Authorization:Bearer x','A:b'`: up to the quote that its
/// name follows, with the blanks in it.
fn header_value(line: &str, colon: usize) -> Option<Range<usize>> {
    let name = name_before(line, colon);
    let before = line[..colon].trim_end();
    let quote = before[..before.len() - name.len()].chars().next_back();
    let quote = quote.filter(|c| matches!(c, '\'' | '"'))?;
    if line.as_bytes()[colon] != b':' {
        return None;
    }
    let start = line.len() - line[colon + 1..].trim_start().len();
    let end = line[start..]
        .find(quote)
        .map_or(line.len(), |len| start + len);
    let is_there = start < end && !line[start..].starts_with("${");
    is_there.then_some(start..end)
}

/// A value in quotes, or up to what ends one without. A variable may be shown.
fn value_behind(line: &str, from: usize) -> Option<Range<usize>> {
    let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    let behind = line.len() - line[from..].trim_start().len();
    // What a line feed stands before is a value only if it is in quotes.
    let from = match line[behind..].starts_with(['\'', '"']) {
        true => behind,
        false => from + blanks(&line[from..]),
    };
    let rest = &line[from..];
    if let Some(text) = rest.strip_prefix(LONG_QUOTE) {
        let start = from + LONG_QUOTE.len();
        let end = text.find(LONG_QUOTE).map_or(line.len(), |len| start + len);
        return (start < end).then_some(start..end);
    }
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let (start, end) = match quote {
        Some(quote) => (from + 1, rest[1..].find(quote)),
        None => {
            let ends = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '&' | ';' | ',');
            (from, rest.find(ends))
        }
    };
    let end = end.map_or(line.len(), |len| start + len);
    let is_there = start < end && !line[start..].starts_with("${");
    is_there.then_some(start..end)
}

/// `user:password@` behind `://`.
fn login_before(line: &str, at: usize) -> Option<Range<usize>> {
    let mut from = at.saturating_sub(LOGIN_BYTES_MAX);
    while !line.is_char_boundary(from) {
        from += 1;
    }
    let start = from + line[from..at].rfind("://")? + "://".len();
    let login = &line[start..at];
    if login.contains(['/', '\'', '"', ' ', '\n']) {
        return None;
    }
    let password = start + login.find(':')? + 1;
    (password < at && !line[password..].starts_with("${")).then_some(password..at)
}

/// `host:port@password`, as Redis has it.
fn login_behind(line: &str, at: usize) -> Option<Range<usize>> {
    let before = &line[..at];
    let host = before.trim_end_matches(|c: char| c.is_ascii_digit());
    if host.len() == before.len() || !host.ends_with(':') {
        return None;
    }
    value_behind(line, at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_and_logins_are_found() {
        fn check(line: &str, expect: &[&str]) {
            let ranges = ranges(line, &crate::testing::catalog());
            let found: Vec<&str> = ranges.into_iter().map(|range| &line[range]).collect();
            assert_eq!(found, expect, "{line}");
        }
        check("@sink(password='p q', user='u')", &["p q"]);
        check("consumer.secret = \"s\", token.url='http://h/t'", &["s"]);
        check("password='${env:P}', basic.auth.password=''", &[]);
        check("headers=\"'X-Token:t t','A:b'\"", &["t t"]);
        check("headers=\"'Authorization:Bearer c','X:1'\"", &["Bearer c"]);
        check(
            "headers=\"'Cookie: a=b; c=d','X-Api-Key:k'\"",
            &["a=b; c=d", "k"],
        );
        check("headers='Authorization:${env:A}'", &[]);
        check("url='http://h/p?api_key=k&x=1&sig_nature=s'", &["k", "s"]);
        check("key='k', keystore.file='f', primary.key='id'", &[]);
        check("username=\"a\" password=\"b\";'", &["b"]);
        check("jdbc.url='jdbc:x://h/d?user=u&password=p&ssl=true'", &["p"]);
        check("uri='amqp://u:p@h:1/v'", &["p"]);
        check("uri='amqp://h:1/v'", &[]);
        check("nodes='h:6379@p:q', x='y'", &["p:q"]);
        check(
            "from S#s3:delete('b', str:concat('k', n), false, '', 'r', 'us', 's 1', x) select",
            &["s 1"],
        );
        check(
            "from S#s3:delete('b','k',false,'','r','us','cut off",
            &["cut off"],
        );
        check("from S#file:delete('b','k',false,'','r','us','s')", &[]);
        check("@info(name='q') from S#window.time(1 sec)", &[]);
        check("password", &[]);
        check("password='", &[]);
        check("password=\"\"\"a 'b'\n c\"\"\", user='u'", &["a 'b'\n c"]);
        check("password =\n  'p'", &["p"]);
        check("-- the password:\n@sink(type='log')", &[]);
        check("-- at http://h:80\n@sink(type='log')", &[]);
        let catalog = crate::testing::catalog();
        let hidden = hidden("a://u:é@h?token=x&b=c", &catalog);
        assert_eq!(hidden, "a://u:…@h?token=…&b=c");
    }
}
