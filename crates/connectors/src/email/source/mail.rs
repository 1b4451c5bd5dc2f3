//! A mail as it was sent: its headers, and the part that is the payload.

use std::borrow::Cow;

use event::Value;
use mail_parser::{Message, MessageParser, MimeHeaders as _, PartType};

use connect::rows::Properties;

pub(crate) struct Mail<'a> {
    message: Message<'a>,
}

impl<'a> Mail<'a> {
    /// `None` for what has no header at all.
    pub fn parse(bytes: &'a [u8]) -> Option<Mail<'a>> {
        let message = MessageParser::default().parse(bytes)?;
        Some(Mail { message })
    }

    /// The text of the first part of a content type; a mail that names none is plain text.
    pub fn part(&self, wanted: &str) -> Option<Cow<'_, str>> {
        let found = self.message.parts.iter().find(|part| {
            let ty = part.content_type().map_or_else(
                || "text/plain".to_owned(),
                |ty| match ty.subtype() {
                    Some(subtype) => format!("{}/{subtype}", ty.ctype()),
                    None => ty.ctype().to_owned(),
                },
            );
            let is_multipart = matches!(part.body, PartType::Multipart(_));
            ty.eq_ignore_ascii_case(wanted) && !is_multipart
        })?;
        match &found.body {
            PartType::Text(text) | PartType::Html(text) => Some(Cow::Borrowed(text)),
            PartType::Binary(bytes) | PartType::InlineBinary(bytes) => {
                Some(String::from_utf8_lossy(bytes))
            }
            PartType::Message(_) | PartType::Multipart(_) => None,
        }
    }

    /// Headers by name as they were sent, on one line each.
    pub fn properties(&self) -> Properties {
        let pairs = self.message.headers_raw().map(|(name, value)| {
            let lines = value.split(['\r', '\n']).map(str::trim);
            let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
            (name.trim(), Value::str(&lines.join(" ")))
        });
        Properties::from_pairs(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "From: a@b\r\nSubject: two\r\n lines\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/alternative; boundary=x\r\n\r\n\
        --x\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        caf=C3=A9\r\n--x\r\nContent-Type: text/html\r\n\r\n<b>x</b>\r\n--x--\r\n";

    #[test]
    fn the_wanted_part_is_decoded() {
        let mail = Mail::parse(MIXED.as_bytes()).expect("a mail");
        let part = |ty: &str| mail.part(ty).map(|text| text.trim_end().to_owned());
        assert_eq!(part("text/plain").as_deref(), Some("café"));
        assert_eq!(part("text/html").as_deref(), Some("<b>x</b>"));
        assert_eq!(part("application/json"), None);
        let properties = mail.properties();
        assert_eq!(properties.get("Subject"), &Value::str("two lines"));
        assert_eq!(properties.get("From"), &Value::str("a@b"));
        assert_eq!(properties.get("X"), &Value::Null);
    }

    #[test]
    fn a_mail_without_a_type_is_plain_text() {
        let mail = Mail::parse(b"Subject: x\r\n\r\n{\"a\":1}\r\n").expect("a mail");
        assert_eq!(
            mail.part("text/plain").as_deref().map(str::trim),
            Some("{\"a\":1}")
        );
    }
}
