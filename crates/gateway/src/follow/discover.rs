//! Where the hub of a topic is, and what the topic is called (WebSub 4): by `Link` headers, else by what the content
//! says, be it Atom, RSS or HTML.

use hyper::header::{CONTENT_TYPE, HeaderMap, LINK};

/// Links of one content that are looked at.
const LINKS_MAX: usize = 1000;

/// What discovery finds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Found {
    /// In the order in which they are named.
    pub hubs: Vec<String>,
    /// The URL to subscribe to, which may be another one than was asked.
    pub own: Option<String>,
}

impl Found {
    fn add(&mut self, relations: &str, url: &str) {
        for relation in relations.split_ascii_whitespace() {
            if relation.eq_ignore_ascii_case("hub") {
                self.hubs.push(url.to_owned());
            } else if relation.eq_ignore_ascii_case("self") {
                self.own.get_or_insert_with(|| url.to_owned());
            }
        }
    }

    fn is_whole(&self) -> bool {
        !self.hubs.is_empty() && self.own.is_some()
    }
}

/// Headers are looked at first, and win for what they name.
pub(super) fn found(headers: &HeaderMap, body: &[u8]) -> Found {
    let mut found = Found::default();
    for value in headers.get_all(LINK) {
        header_links(&String::from_utf8_lossy(value.as_bytes()), &mut found);
    }
    if found.is_whole() {
        return found;
    }
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    if ["xml", "html", "rss", "atom"]
        .iter()
        .any(|own| kind.contains(own))
    {
        let mut within = Found::default();
        element_links(&String::from_utf8_lossy(body), &mut within);
        if found.hubs.is_empty() {
            found.hubs = within.hubs;
        }
        found.own = found.own.or(within.own);
    }
    found
}

/// `<https://h/hub>; rel="hub", <https://h/t>; rel=self` (RFC 8288).
fn header_links(mut text: &str, into: &mut Found) {
    while let Some(start) = text.find('<') {
        let rest = &text[start + 1..];
        let Some(end) = rest.find('>') else { return };
        let url = rest[..end].trim();
        let parameters = &rest[end + 1..];
        // The next link begins behind a comma that stands in no quotes.
        let mut is_quoted = false;
        let next = parameters.find(|c| {
            is_quoted ^= c == '"';
            c == ',' && !is_quoted
        });
        let (own, next) = parameters.split_at(next.unwrap_or(parameters.len()));
        for parameter in own.split(';') {
            if let Some((name, value)) = parameter.split_once('=')
                && name.trim().eq_ignore_ascii_case("rel")
            {
                into.add(value.trim().trim_matches('"'), url);
            }
        }
        text = next;
    }
}

/// The `link` elements of a content, whatever their prefix; what comments and sections of data hold is not one.
fn element_links(mut text: &str, into: &mut Found) {
    for _ in 0..LINKS_MAX {
        let Some(start) = text.find('<') else { return };
        text = &text[start + 1..];
        let skipped = [("!--", "-->"), ("![CDATA[", "]]>")];
        if let Some((begin, end)) = skipped.iter().find(|(begin, _)| text.starts_with(begin)) {
            let Some(at) = text[begin.len()..].find(end) else {
                return;
            };
            text = &text[begin.len() + at + end.len()..];
            continue;
        }
        let end = text.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
        let name = &text[..end.unwrap_or(text.len())];
        let local = name.rsplit(':').next().unwrap_or_default();
        if !local.eq_ignore_ascii_case("link") {
            continue;
        }
        text = &text[name.len()..];
        let (mut relations, mut url) = (None, None);
        while let Some((name, value, rest)) = attribute(text) {
            text = rest;
            if name.eq_ignore_ascii_case("rel") {
                relations = Some(value);
            } else if name.eq_ignore_ascii_case("href") {
                url = Some(value);
            }
        }
        if let (Some(relations), Some(url)) = (relations, url) {
            into.add(&relations, url.trim());
        }
    }
}

/// The next attribute of a tag, and what stands behind it; `None`: the tag ends.
fn attribute(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    let end = text.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'))?;
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    let Some(rest) = rest.trim_start().strip_prefix('=') else {
        return Some((name, String::new(), rest));
    };
    let rest = rest.trim_start();
    let (value, rest) = match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].split_once(quote)?,
        _ => rest.split_at(rest.find(|c: char| c.is_ascii_whitespace() || c == '>')?),
    };
    let value = value
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<");
    Some((name, value.replace("&gt;", ">").replace("&amp;", "&"), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(links: &[&str], kind: &str, body: &str, hubs: &[&str], own: Option<&str>) {
        let mut headers = HeaderMap::new();
        for link in links {
            headers.append(LINK, link.parse().expect("it is a value"));
        }
        headers.insert(CONTENT_TYPE, kind.parse().expect("it is a value"));
        let found = found(&headers, body.as_bytes());
        assert_eq!(
            (found.hubs, found.own.as_deref()),
            (hubs.iter().map(|hub| (*hub).to_owned()).collect(), own),
            "{body}"
        );
    }

    // rules: W21
    #[test]
    fn a_hub_is_found_by_header_then_feed_then_page() {
        let (hub, own) = ("https://h/hub?a=1&b=2", Some("https://h/t"));
        check(
            &["<https://h/hub?a=1&b=2>; rel=\"hub\", <https://h/t>; rel=self"],
            "text/plain",
            "",
            &[hub],
            own,
        );
        check(
            &[
                "<https://h/t>; title=\"a, <b>\"; rel=\"self other\"",
                "<https://h/hub?a=1&b=2>; REL=Hub",
            ],
            "",
            "",
            &[hub],
            own,
        );
        let atom = "<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><!-- <link rel='hub' href='https://wrong/'/> -->\
                    <link rel=\"hub\" href=\"https://h/hub?a=1&amp;b=2\"/><link href='https://h/t' rel='self' type='application/atom+xml' />\
                    <entry><title><![CDATA[<link rel='hub' href='https://wrong/'>]]></title></entry></feed>";
        check(&[], "application/atom+xml", atom, &[hub], own);
        let rss = "<rss><channel><link>https://h/</link><atom:link rel='hub' href='https://h/hub?a=1&amp;b=2'></atom:link>\
                   <atom:link rel='self' href='https://h/t'/></channel></rss>";
        check(&[], "application/rss+xml; charset=utf-8", rss, &[hub], own);
        let html = "<!doctype html><HTML><head><LINK rel=stylesheet href=a.css><link href=https://h/hub?a=1&b=2 rel=hub>\
                    <link rel='self' href='https://h/t'><link rel=hub href='https://second/'></head>";
        check(&[], "text/html", html, &[hub, "https://second/"], own);
        // What the header names wins, and what only the content names is taken from there.
        check(
            &["<https://first/>; rel=hub"],
            "text/html",
            html,
            &["https://first/"],
            own,
        );
        // Content of other types says nothing, and broken content no more than it does.
        check(&[], "text/plain", html, &[], None);
        check(
            &["<https://h/; rel=hub", "x"],
            "text/html",
            "<link rel='hub' href='https://h",
            &[],
            None,
        );
        check(&[], "text/html", "<link rel <link / = > <", &[], None);
    }
}
