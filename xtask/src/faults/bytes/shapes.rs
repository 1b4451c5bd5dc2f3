//! Messages that are small where they are cheap, and as long as one likes: what once was dear to read in
//! some decoder, and what is most common in each.

/// How a message gets to its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Http,
    /// Inside of TLS, which `curl` speaks.
    Https,
    Tcp,
    Socket,
    /// As the text of an event of Siddhi's own service.
    Event,
    /// As the message of a service of the app's own.
    Call,
    /// As a line of a file.
    Line,
    /// As rows that are sent to a stream by hand.
    Rows,
}

/// How the number of parts is told in front of them.
#[derive(Clone, Copy)]
enum Count {
    None,
    /// Groups of seven bits, lowest first.
    Groups,
    /// Twice the number, as groups: Avro's way with signs.
    Zigzag,
    Long,
}

/// A kind of message: head, part that comes again and again, tail.
pub(super) struct Shape {
    pub way: Way,
    /// The stream whose source takes it.
    pub stream: &'static str,
    pub name: &'static str,
    head: &'static [u8],
    count: Count,
    part: &'static [u8],
    tail: &'static [u8],
}

/// Of a kind in which nothing says how long it is.
const fn shape(
    way: Way,
    stream: &'static str,
    name: &'static str,
    [head, part, tail]: [&'static str; 3],
) -> Shape {
    Shape {
        way,
        stream,
        name,
        head: head.as_bytes(),
        count: Count::None,
        part: part.as_bytes(),
        tail: tail.as_bytes(),
    }
}

const fn counted(
    way: Way,
    [stream, name]: [&'static str; 2],
    head: &'static [u8],
    count: Count,
    [part, tail]: [&'static [u8]; 2],
) -> Shape {
    Shape {
        way,
        stream,
        name,
        head,
        count,
        part,
        tail,
    }
}

const EVENTS: [&str; 3] = [
    "[",
    "{\"event\":{\"a\":\"x\",\"b\":1}},",
    "{\"event\":{\"a\":\"x\",\"b\":1}}]",
];
const LONG_TEXT: [&str; 3] = ["{\"event\":{\"a\":\"", "x", "\",\"b\":1}}"];

pub(super) const SHAPES: &[Shape] = &[
    shape(Way::Http, "csv", "commas", ["", ",", "\n"]),
    shape(Way::Http, "csv", "quoted fields", ["", "\"a\",", "\n"]),
    shape(Way::Http, "csv", "rows", ["", "a,1\n", ""]),
    shape(Way::Http, "json", "a long text", LONG_TEXT),
    shape(Way::Http, "json", "many events", EVENTS),
    shape(
        Way::Http,
        "json",
        "many keys",
        ["{\"event\":{", "\"k\":1,", "\"a\":\"x\",\"b\":1}}"],
    ),
    shape(Way::Http, "json", "depth", ["", "[", ""]),
    shape(
        Way::Http,
        "xml",
        "many events",
        ["<events>", "<event><a>x</a><b>1</b></event>", "</events>"],
    ),
    shape(Way::Http, "xml", "attributes", ["<events ", "a='1' ", "/>"]),
    shape(Way::Http, "xml", "depth", ["", "<a>", ""]),
    shape(Way::Http, "text", "a long text", ["a:\"", "x", "\",\nb:1"]),
    shape(Way::Http, "text", "lines", ["", "a\n", ""]),
    shape(Way::Https, "tls", "a long text", LONG_TEXT),
    counted(
        Way::Tcp,
        ["binary", "a long text"],
        b"\0\0\0\x01\0\0\0\0\0\0\0\0",
        Count::Long,
        [b"x", b""],
    ),
    counted(
        Way::Tcp,
        ["binary", "many events"],
        b"",
        Count::Long,
        [b"\0\0\0\0\0\0\0\0\0\0\0\x01x", b""],
    ),
    counted(
        Way::Tcp,
        ["avro", "a long text"],
        b"",
        Count::Zigzag,
        [b"x", b"\0"],
    ),
    counted(
        Way::Tcp,
        ["avro", "many items"],
        b"\0",
        Count::Zigzag,
        [b"\x1exxxxxxxxxxxxxxx", b"\0"],
    ),
    counted(
        Way::Tcp,
        ["plain", "a long text"],
        b"\x0a",
        Count::Groups,
        [b"x", b""],
    ),
    // The last one counts.
    counted(
        Way::Tcp,
        ["plain", "a field many times"],
        b"\x0a\x01x",
        Count::None,
        [b"\x10\x01", b""],
    ),
    counted(
        Way::Tcp,
        ["plain", "unknown fields"],
        b"\x0a\x01x",
        Count::None,
        [b"\x78\x01", b""],
    ),
    counted(
        Way::Tcp,
        ["nested", "many items"],
        b"",
        Count::None,
        [b"\x08\xff\xff\xff\xff\x07", b""],
    ),
    shape(Way::Socket, "socket", "a long text", LONG_TEXT),
    shape(Way::Socket, "socket", "many events", EVENTS),
    shape(Way::Event, "event", "a long text", LONG_TEXT),
    shape(Way::Event, "event", "many events", EVENTS),
    counted(
        Way::Call,
        ["call", "a long text"],
        b"\x0a",
        Count::Groups,
        [b"x", b""],
    ),
    shape(Way::Line, "line", "a long text", ["", "x", ",1"]),
    shape(Way::Line, "line", "commas", ["", ",", ""]),
    shape(Way::Rows, "rows", "a long text", ["[\"", "x", "\",1]"]),
    shape(
        Way::Rows,
        "rows",
        "many events",
        ["[", "[\"x\",1],", "[\"x\",1]]"],
    ),
];

/// Groups of seven bits, lowest first; all but the last have the high bit.
pub(super) fn groups(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

impl Shape {
    /// Listener, mapper, and what is in the message.
    pub fn title(&self) -> String {
        let listener = match self.way {
            Way::Http => "http",
            Way::Https => "http with TLS",
            Way::Tcp => "tcp",
            Way::Socket => "websocket-server",
            Way::Event | Way::Call => "grpc",
            Way::Line => "file",
            Way::Rows => "--http",
        };
        let mapper = match self.stream {
            "tls" | "socket" | "event" | "rows" => "json",
            "plain" | "nested" | "call" => "protobuf",
            "line" => "csv",
            mapper => mapper,
        };
        format!("{listener}, {mapper}, {}", self.name)
    }

    /// The longest message that is taken.
    pub fn bytes_max(&self) -> usize {
        match self.way {
            Way::Rows => 4 << 20,
            Way::Line => (16 << 20) - 1024,
            _ => (64 << 20) - 1024,
        }
    }

    /// A message of about so many bytes, and never more.
    pub fn message(&self, bytes: usize) -> Vec<u8> {
        let own = self.head.len() + self.tail.len() + self.count_of(bytes).len();
        let parts = bytes.saturating_sub(own) / self.part.len();
        let (count, all) = (self.count_of(parts), self.part.repeat(parts));
        [self.head, &count, &all, self.tail].concat()
    }

    fn count_of(&self, parts: usize) -> Vec<u8> {
        match self.count {
            Count::None => Vec::new(),
            Count::Groups => groups(parts as u64),
            Count::Zigzag => groups(2 * parts as u64),
            Count::Long => (parts as u32).to_be_bytes().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_long_as_it_may_be_and_says_what_it_holds() {
        for shape in SHAPES {
            for bytes in [1 << 10, 64 << 10] {
                let message = shape.message(bytes);
                let least = bytes - shape.part.len() - groups(bytes as u64).len();
                let is_long = (least..=bytes).contains(&message.len());
                assert!(is_long, "{}: {}", shape.title(), message.len());
            }
        }
        assert_eq!(groups(300), [0xac, 0x02]);
        let text = SHAPES.iter().find(|shape| shape.stream == "plain");
        let message = text.map(|shape| shape.message(12));
        assert_eq!(message.as_deref(), Some(b"\x0a\x0axxxxxxxxxx".as_slice()));
    }
}
