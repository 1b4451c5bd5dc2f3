//! Answers of HTTP/1.1 as bytes: where the head ends, and what of the bytes behind it is the body.
//!
//! Promises: the work is linear in the bytes; a head, the line of a chunk and trailers have limits; what
//! can be read in two ways is an error or the last answer of its connection (RFC 9112, 6.3). Never:
//! trailers kept, or a content coding undone.

use std::io;
use std::mem::MaybeUninit;

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use hyper::{Method, StatusCode};
use memchr::memchr;

/// Longest head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most headers of an answer.
const HEADERS_MAX: usize = 128;

/// Longest line with the size of a chunk, and all trailers together.
const CHUNK_LINE_MAX: usize = 1 << 10;
const TRAILER_BYTES_MAX: usize = 16 << 10;

/// Hexadecimal digits of the size of a chunk.
const CHUNK_DIGITS_MAX: usize = 15;

/// What stands before the body.
#[derive(Debug)]
pub(super) struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub rest: Rest,
    /// Another request may follow on the connection.
    pub keeps_open: bool,
    /// The server says that it looks at none that follows (RFC 9112, 9.6).
    pub says_close: bool,
}

/// The body as far as it has not been taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    Done,
    /// Bytes.
    Length(u64),
    Chunks(Chunks),
    UntilClosed,
}

/// What comes next in a body of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chunks {
    Size,
    /// Bytes of a chunk.
    Data(u64),
    /// The end of line behind a chunk.
    DataEnd,
    /// Bytes of trailers so far.
    Trailers(usize),
}

/// What no client can make sense of.
fn malformed(what: &str) -> io::Error {
    let text = format!("the answer is not HTTP: {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Head {
    /// Takes the head of the answer to a request of this method; those that announce another one (1xx)
    /// are passed over. `None`: more bytes are needed; `searched` of them have been looked through.
    pub fn take(
        unread: &mut BytesMut,
        searched: &mut usize,
        method: &Method,
    ) -> io::Result<Option<Head>> {
        loop {
            let Some(end) = end_of_head(unread, *searched) else {
                if unread.len() >= HEAD_BYTES_MAX {
                    return Err(malformed("its head has no end"));
                }
                *searched = unread.len();
                return Ok(None);
            };
            let head = Head::parse(&unread[..end], method)?;
            unread.advance(end);
            *searched = 0;
            if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Some(head));
            }
        }
    }

    fn parse(bytes: &[u8], method: &Method) -> io::Result<Head> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let parsed = config.parse_response_with_uninit_headers(&mut answer, bytes, &mut headers);
        let parsed = parsed.map_err(|error| malformed(&error.to_string()))?;
        let (httparse::Status::Complete(_), Some(code), Some(version)) =
            (parsed, answer.code, answer.version)
        else {
            return Err(malformed("its head ends too early"));
        };
        let status = StatusCode::from_u16(code).map_err(|_| malformed("its status"))?;
        let mut headers = HeaderMap::with_capacity(answer.headers.len());
        for header in answer.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let value = HeaderValue::from_bytes(header.value);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(malformed("one of its headers"));
            };
            headers.append(name, value);
        }
        let rest = framing(status, &headers, method)?;
        let is_clear = !(headers.contains_key(TRANSFER_ENCODING)
            && (version == 0 || headers.contains_key(CONTENT_LENGTH)));
        let is_kept = match version {
            0 => has_token(&headers, CONNECTION, "keep-alive"),
            _ => !has_token(&headers, CONNECTION, "close"),
        };
        let is_last = rest == Rest::UntilClosed || status == StatusCode::SWITCHING_PROTOCOLS;
        Ok(Head {
            status,
            headers,
            rest,
            keeps_open: is_kept && is_clear && !is_last,
            says_close: version == 1 && is_clear && !is_kept,
        })
    }
}

/// Behind the empty line, of which the start may be in what was `searched`.
fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    let mut at = searched.saturating_sub(2);
    while let Some(found) = memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name);
    let mut tokens = values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tokens.any(|one| one.trim().eq_ignore_ascii_case(token))
}

/// How the end of the body is found.
fn framing(status: StatusCode, headers: &HeaderMap, method: &Method) -> io::Result<Rest> {
    let has_none = status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || *method == Method::HEAD;
    if has_none {
        return Ok(Rest::Done);
    }
    if let Some(coding) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
        let last = coding.as_bytes().rsplit(|byte| *byte == b',').next();
        let is_chunked =
            last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        return Ok(match is_chunked {
            true => Rest::Chunks(Chunks::Size),
            false => Rest::UntilClosed,
        });
    }
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let digits = value.as_bytes();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let text = value.to_str().ok().filter(|_| is_number);
        let number: Option<u64> = text.and_then(|text| text.parse().ok());
        if number.is_none() || length.is_some_and(|length| Some(length) != number) {
            return Err(malformed("the length of its body"));
        }
        length = number;
    }
    Ok(match length {
        None => Rest::UntilClosed,
        Some(0) => Rest::Done,
        Some(length) => Rest::Length(length),
    })
}

impl Rest {
    /// A piece of the body, if it has come; `None`: more bytes are needed, or it is
    /// [done](Rest::Done).
    pub fn take(&mut self, unread: &mut BytesMut) -> io::Result<Option<Bytes>> {
        loop {
            match self {
                Rest::Done => return Ok(None),
                Rest::UntilClosed => return Ok(piece(unread, u64::MAX)),
                Rest::Length(left) => {
                    let Some(piece) = piece(unread, *left) else {
                        return Ok(None);
                    };
                    *left -= piece.len() as u64;
                    if *left == 0 {
                        *self = Rest::Done;
                    }
                    return Ok(Some(piece));
                }
                Rest::Chunks(Chunks::Data(left)) => {
                    let Some(piece) = piece(unread, *left) else {
                        return Ok(None);
                    };
                    *left -= piece.len() as u64;
                    if *left == 0 {
                        *self = Rest::Chunks(Chunks::DataEnd);
                    }
                    return Ok(Some(piece));
                }
                Rest::Chunks(chunks) => {
                    let Some(next) = chunks.next(unread)? else {
                        return Ok(None);
                    };
                    *self = next;
                }
            }
        }
    }
}

impl Chunks {
    /// What follows the line that comes between the data of chunks, if the line is whole.
    fn next(self, unread: &mut BytesMut) -> io::Result<Option<Rest>> {
        let line_max = match self {
            Chunks::Trailers(so_far) => TRAILER_BYTES_MAX - so_far,
            _ => CHUNK_LINE_MAX,
        };
        let looked_at = unread.len().min(line_max);
        let Some(end) = memchr(b'\n', &unread[..looked_at]) else {
            return match unread.len() < line_max {
                true => Ok(None),
                false => Err(malformed("the line of a chunk has no end")),
            };
        };
        let line = &unread[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let next = match self {
            Chunks::DataEnd if line.is_empty() => Rest::Chunks(Chunks::Size),
            Chunks::Size => match size_of_chunk(line) {
                Some(0) => Rest::Chunks(Chunks::Trailers(0)),
                Some(size) => Rest::Chunks(Chunks::Data(size)),
                None => return Err(malformed("the size of a chunk")),
            },
            Chunks::Trailers(_) if line.is_empty() => Rest::Done,
            Chunks::Trailers(so_far) => Rest::Chunks(Chunks::Trailers(so_far + end + 1)),
            Chunks::DataEnd | Chunks::Data(_) => {
                return Err(malformed("a chunk is longer than its size"));
            }
        };
        unread.advance(end + 1);
        Ok(Some(next))
    }
}

/// What stands before the extensions of a chunk.
fn size_of_chunk(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    let is_number =
        matches!(digits.len(), 1..=CHUNK_DIGITS_MAX) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(text, 16).ok()
}

/// Bytes that are there, at most so many.
fn piece(unread: &mut BytesMut, at_most: u64) -> Option<Bytes> {
    let there = unread
        .len()
        .min(usize::try_from(at_most).unwrap_or(usize::MAX));
    (there > 0).then(|| unread.split_to(there).freeze())
}

/// For fuzzing: an answer gives the same in whatever pieces it comes.
#[cfg(any(test, feature = "testing"))]
pub fn check_answer(bytes: &[u8]) {
    let whole = testing::read(bytes, bytes.len().max(1));
    for size in [1, 7] {
        assert_eq!(testing::read(bytes, size), whole);
    }
}

#[cfg(any(test, feature = "testing"))]
mod testing {
    use super::*;

    /// Status, body, whether the body is whole, and whether the connection may serve again.
    pub type Read = Option<(u16, Vec<u8>, bool, bool)>;

    /// What comes of bytes that arrive in pieces; `None`: an error, or no whole head.
    pub fn read(bytes: &[u8], size: usize) -> Read {
        let mut pieces = bytes.chunks(size);
        let (mut unread, mut searched) = (BytesMut::new(), 0);
        let head = loop {
            match Head::take(&mut unread, &mut searched, &Method::POST).ok()? {
                Some(head) => break head,
                None => unread.extend_from_slice(pieces.next()?),
            }
        };
        let (mut rest, mut body) = (head.rest, Vec::new());
        loop {
            match rest.take(&mut unread).ok()? {
                Some(piece) => body.extend_from_slice(&piece),
                None if rest == Rest::Done => break,
                None => match pieces.next() {
                    Some(piece) => unread.extend_from_slice(piece),
                    None => break,
                },
            }
        }
        Some((
            head.status.as_u16(),
            body,
            rest == Rest::Done,
            head.keeps_open,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_whatever_pieces_it_comes() {
        fn check(answer: &str, status: u16, body: &str, is_whole: bool, keeps_open: bool) {
            check_answer(answer.as_bytes());
            let read = testing::read(answer.as_bytes(), 3);
            let expect = Some((status, body.as_bytes().to_vec(), is_whole, keeps_open));
            assert_eq!(read, expect, "{answer}");
        }
        let ok = "HTTP/1.1 200 OK\r\n";
        let of = |headers: &str, body: &str| format!("{ok}{headers}\r\n\r\n{body}");
        check(&of("content-length: 3", "abc"), 200, "abc", true, true);
        check(&of("content-length: 3", "ab"), 200, "ab", false, true);
        check(&of("content-length: 0", ""), 200, "", true, true);
        check(
            &of("content-length: 3\r\nContent-Length: 3", "abc"),
            200,
            "abc",
            true,
            true,
        );
        check(
            &of("Content-Length: 1\r\nconnection: x, Close", "a"),
            200,
            "a",
            true,
            false,
        );
        check(&of("x: y", "to the end"), 200, "to the end", false, false);
        let chunks = "3;x=y\r\nabc\r\n00a\r\n0123456789\r\n0\r\nt: u\r\n\r\n";
        let chunked = "transfer-encoding: gzip, chunked";
        check(&of(chunked, chunks), 200, "abc0123456789", true, true);
        check(&of(chunked, "3\r\nabc\r\n"), 200, "abc", false, true);
        // Read in two ways by two readers: no request follows.
        let both = format!("{chunked}\r\ncontent-length: 2");
        check(&of(&both, "1\r\na\r\n0\r\n\r\n"), 200, "a", true, false);
        check(
            "HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n",
            204,
            "",
            true,
            true,
        );
        check(
            "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na",
            200,
            "a",
            true,
            false,
        );
        let kept = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na";
        check(kept, 200, "a", true, true);
        let early = format!(
            "HTTP/1.1 100 Continue\r\n\r\n{}",
            of("content-length: 1", "a")
        );
        check(&early, 200, "a", true, true);
        check("HTTP/1.1 429\ncontent-length: 1\n\na", 429, "a", true, true);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let head = "HTTP/1.1 200 OK\r\n";
        for answer in [
            "nonsense\r\n\r\n".to_owned(),
            format!("{head}content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
            format!("{head}content-length: +1\r\n\r\na"),
            format!("{head}content-length: 1, 1\r\n\r\na"),
            format!("{head}content-length: 99999999999999999999\r\n\r\na"),
            format!("{head}transfer-encoding: chunked\r\n\r\nx\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\n\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n"),
            format!(
                "{head}transfer-encoding: chunked\r\n\r\n{}",
                "0".repeat(CHUNK_LINE_MAX)
            ),
            format!("{head}x: {}", "y".repeat(HEAD_BYTES_MAX)),
            format!("{head}{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1)),
        ] {
            check_answer(answer.as_bytes());
            assert_eq!(
                testing::read(answer.as_bytes(), answer.len()),
                None,
                "{answer}"
            );
        }
    }

    #[test]
    fn trailers_without_end_are_not_read() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
        let trailers = "t: u\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1);
        let answer = format!("{head}{trailers}");
        assert_eq!(testing::read(answer.as_bytes(), answer.len()), None);
    }

    #[test]
    fn the_answer_to_head_has_no_body() {
        let mut unread = BytesMut::from("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n");
        let head = Head::take(&mut unread, &mut 0, &Method::HEAD);
        assert_eq!(head.unwrap().unwrap().rest, Rest::Done);
    }
}
