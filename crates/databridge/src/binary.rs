//! The binary protocol: a byte that says what a message is, the length of its body, the body.
//!
//! A client of WSO2 writes null of any type as four zero bytes, as long as INT, FLOAT and the length of a text,
//! too short for LONG and DOUBLE and too long for BOOL. The size of an event tells which of them are null:
//! it is read where exactly one reading comes out even, without nulls before with them. A null LONG before a DOUBLE
//! whose last four bytes are zero has two, and such an event is rejected.

use event::Type;

use crate::rows::Value;
use crate::stream::Layout;
use crate::thrift::{Front, MESSAGE_BYTES_MAX, Scan, write_string};

/// The first byte of events of one stream, each behind its size, for the mapper; no client sends it.
pub const MARK: u8 = b'B';

/// What a message is.
const LOGIN: u8 = 0;
const LOGOUT: u8 = 1;
const PUBLISH: u8 = 2;

/// What an answer is.
const DONE: u8 = 0;
const FAILED: u8 = 1;
const SESSION: u8 = 2;

/// Bytes before a body.
const HEAD_BYTES: usize = 5;

/// Readings of one place of an event that are followed at once.
const READINGS_MAX: usize = 16;

/// Where a message ends that has come so far.
///
/// # Errors
/// What is no message, in words.
pub fn scan(bytes: &[u8]) -> Result<Scan, String> {
    let mut front = Front(bytes);
    let Some([kind]) = front.take() else {
        return Ok(Scan::More(HEAD_BYTES));
    };
    if kind > PUBLISH {
        return Err(format!(
            "a message of kind {kind} is none of the binary protocol"
        ));
    }
    let Some(length) = front.take().map(i32::from_be_bytes) else {
        return Ok(Scan::More(HEAD_BYTES));
    };
    let length =
        usize::try_from(length).map_err(|_| "a message has a negative length".to_owned())?;
    let end = HEAD_BYTES + length;
    if end > MESSAGE_BYTES_MAX {
        return Err(format!("a message has more than {MESSAGE_BYTES_MAX} bytes"));
    }
    match end <= bytes.len() {
        true => Ok(Scan::Whole(end)),
        false => Ok(Scan::More(end)),
    }
}

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    Login {
        user: &'a str,
        password: &'a str,
    },
    Logout {
        session: &'a str,
    },
    /// The events are behind the session.
    Publish {
        session: &'a str,
        events: &'a [u8],
    },
}

impl<'a> Request<'a> {
    /// Reads a message that [`scan`] has found whole.
    ///
    /// # Errors
    /// It does not come out even, in words.
    pub fn read(bytes: &'a [u8]) -> Result<Request<'a>, String> {
        let request = (|| {
            let mut front = Front(bytes);
            let [kind] = front.take()?;
            front.bytes(HEAD_BYTES - 1)?;
            Some(match kind {
                LOGIN => {
                    let [user, password] = [front.count()?, front.count()?];
                    Request::Login {
                        user: text(front.bytes(user)?)?,
                        password: text(front.bytes(password)?)?,
                    }
                }
                LOGOUT => Request::Logout {
                    session: text(front.string()?)?,
                },
                _ => Request::Publish {
                    session: text(front.string()?)?,
                    events: front.0,
                },
            })
        })();
        request.ok_or_else(|| "a message is shorter than its parts".to_owned())
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The events of a message, each as it stands behind its size.
///
/// # Errors
/// The sizes do not come out even, in words.
pub fn events(bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut front = Front(bytes);
    let count = front
        .count()
        .ok_or("the message has no count of its events")?;
    let mut events = Vec::new();
    for number in 1..=count {
        let event = front.string();
        events.push(event.ok_or_else(|| {
            format!("event {number} of {count}: its size is more than what is left")
        })?);
    }
    match front.0.len() {
        0 => Ok(events),
        left => Err(format!("{left} bytes follow the last event")),
    }
}

/// The id of the stream of an event.
pub fn stream_of(event: &[u8]) -> Option<&[u8]> {
    let mut front = Front(event);
    front.bytes(size_of::<i64>())?;
    front.string()
}

/// Events behind [`MARK`], for as long as they come out even.
pub struct Events<'a>(Front<'a>);

impl<'a> Events<'a> {
    pub fn new(bytes: &'a [u8]) -> Events<'a> {
        Events(Front(bytes))
    }

    /// What could not be taken apart.
    pub fn rest(&self) -> &'a [u8] {
        self.0.0
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.string()
    }
}

/// Appends an event behind its size.
pub fn write_event(into: &mut Vec<u8>, event: &[u8]) {
    write_string(into, event);
}

/// One way to read an event up to a place.
struct Way<'a> {
    rest: &'a [u8],
    values: Vec<Value<'a>>,
    is_one_of_many: bool,
}

/// Keys and values of the map of an event, behind a number that is always 0: it stands for itself.
pub type Entries<'a> = Vec<(usize, &'a [u8], &'a [u8])>;

/// Reads an event of a layout: its time, its values in the order of the wire, and its map.
///
/// # Errors
/// It does not come out even, in words.
pub fn read<'a>(
    event: &'a [u8],
    layout: &Layout,
) -> Result<(i64, Vec<Value<'a>>, Entries<'a>), String> {
    let mut front = Front(event);
    let time = front
        .take()
        .map(i64::from_be_bytes)
        .ok_or("its timestamp is cut off")?;
    match front.string() {
        Some(id) if id == layout.id.as_bytes() => {}
        Some(id) => return Err(format!("it is of stream '{}'", String::from_utf8_lossy(id))),
        None => return Err("the id of its stream is cut off".to_owned()),
    }
    if let Some((values, entries)) = without_nulls(front, layout) {
        return Ok((time, values, entries));
    }
    let mut ways = vec![Way {
        rest: front.0,
        values: Vec::with_capacity(layout.attributes.len()),
        is_one_of_many: false,
    }];
    for attribute in &layout.attributes {
        let mut next: Vec<Way<'_>> = Vec::new();
        for way in ways {
            let mut front = Front(way.rest);
            let is_null = way.rest.starts_with(&[0; 4]);
            if is_null && matches!(attribute.ty, Type::Long | Type::Double | Type::Bool) {
                let mut values = way.values.clone();
                values.push(Value::Null);
                let is_one_of_many = way.is_one_of_many;
                join(
                    &mut next,
                    Way {
                        rest: &way.rest[4..],
                        values,
                        is_one_of_many,
                    },
                );
            }
            if let Some(found) = value(&mut front, attribute.ty) {
                let mut values = way.values;
                values.push(found);
                let is_one_of_many = way.is_one_of_many;
                join(
                    &mut next,
                    Way {
                        rest: front.0,
                        values,
                        is_one_of_many,
                    },
                );
            }
        }
        if next.is_empty() {
            return Err(format!(
                "attribute '{}' ({}): the event ends before it",
                attribute.name, attribute.ty
            ));
        }
        if next.len() > READINGS_MAX {
            return Err("its nulls can be read in too many ways".to_owned());
        }
        ways = next;
    }
    let mut even = ways
        .into_iter()
        .filter_map(|way| Some((entries(way.rest)?, way)));
    let found = even
        .next()
        .ok_or("its size is another than that of its values, however its nulls are read")?;
    match even.next().is_some() || found.1.is_one_of_many {
        true => Err("its nulls can be read in more than one way".to_owned()),
        false => Ok((time, found.1.values, found.0)),
    }
}

fn without_nulls<'a>(
    mut front: Front<'a>,
    layout: &Layout,
) -> Option<(Vec<Value<'a>>, Entries<'a>)> {
    let mut values = Vec::with_capacity(layout.attributes.len());
    for attribute in &layout.attributes {
        values.push(value(&mut front, attribute.ty)?);
    }
    Some((values, entries(front.0)?))
}

fn value<'a>(front: &mut Front<'a>, ty: Type) -> Option<Value<'a>> {
    Some(match ty {
        Type::Int => Value::Int(i32::from_be_bytes(front.take()?)),
        Type::Long => Value::Long(i64::from_be_bytes(front.take()?)),
        Type::Float => Value::Double(f64::from(f32::from_be_bytes(front.take()?))),
        Type::Double => Value::Double(f64::from_be_bytes(front.take()?)),
        Type::Bool => match front.take()? {
            [byte @ (0 | 1)] => Value::Bool(byte == 1),
            _ => return None,
        },
        Type::String | Type::Object => match front.string()? {
            [] => Value::Null,
            text => Value::Text(text),
        },
    })
}

/// Keys and values until the end; `None` where they do not come out even.
fn entries(bytes: &[u8]) -> Option<Entries<'_>> {
    let (mut front, mut entries) = (Front(bytes), Vec::new());
    while !front.0.is_empty() {
        entries.push((0, front.string()?, front.string()?));
    }
    Some(entries)
}

fn join<'a>(ways: &mut Vec<Way<'a>>, way: Way<'a>) {
    match ways
        .iter_mut()
        .find(|other| other.rest.len() == way.rest.len())
    {
        Some(other) => other.is_one_of_many = true,
        None => ways.push(way),
    }
}

// ---- what a client writes and reads ----

/// Appends a login.
pub fn write_login(into: &mut Vec<u8>, user: &str, password: &str) {
    let lengths = [user, password].map(|text| (text.len() as u32).to_be_bytes());
    write_message(into, LOGIN, |body| {
        body.extend_from_slice(&lengths.concat());
        body.extend_from_slice(user.as_bytes());
        body.extend_from_slice(password.as_bytes());
    });
}

/// Makes an event of a layout: `values` in its order, keys and values of its map. Null texts and empty ones are the
/// same on the wire; other values are never null ([`read`] could not tell which of them are).
pub fn make_event(
    event: &mut Vec<u8>,
    layout: &Layout,
    time: i64,
    values: &[Value<'_>],
    entries: &[(&[u8], &[u8])],
) {
    event.clear();
    event.extend_from_slice(&time.to_be_bytes());
    write_string(event, layout.id.as_bytes());
    for (attribute, value) in layout.attributes.iter().zip(values) {
        match *value {
            Value::Null => event.extend_from_slice(&[0; 4]),
            Value::Int(v) => event.extend_from_slice(&v.to_be_bytes()),
            Value::Long(v) => event.extend_from_slice(&v.to_be_bytes()),
            Value::Double(v) if attribute.ty == Type::Float => {
                event.extend_from_slice(&(v as f32).to_be_bytes())
            }
            Value::Double(v) => event.extend_from_slice(&v.to_be_bytes()),
            Value::Bool(v) => event.push(u8::from(v)),
            Value::Text(text) => write_string(event, text),
        }
    }
    for (key, value) in entries {
        write_string(event, key);
        write_string(event, value);
    }
}

/// Appends events, which [`write_event`] has put behind their sizes.
pub fn write_publish(into: &mut Vec<u8>, session: &str, count: u32, events: &[u8]) {
    write_message(into, PUBLISH, |body| {
        write_string(body, session.as_bytes());
        body.extend_from_slice(&count.to_be_bytes());
        body.extend_from_slice(events);
    });
}

fn write_message(into: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    into.push(kind);
    let at = into.len();
    into.extend_from_slice(&[0; 4]);
    write(into);
    let length = (into.len() - at - 4) as u32;
    into[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Where an answer ends that has come so far.
///
/// # Errors
/// What is no answer, in words.
pub fn scan_answer(bytes: &[u8]) -> Result<Scan, String> {
    let lengths = match bytes.first() {
        None => return Ok(Scan::More(1)),
        Some(&DONE) => return Ok(Scan::Whole(1)),
        Some(&FAILED) => 2,
        Some(&SESSION) => 1,
        Some(kind) => {
            return Err(format!(
                "an answer of kind {kind} is none of the binary protocol"
            ));
        }
    };
    let mut front = Front(&bytes[1..]);
    let mut end = 1 + lengths * size_of::<i32>();
    if bytes.len() < end {
        return Ok(Scan::More(end));
    }
    for _ in 0..lengths {
        let length = front.count().ok_or("an answer has a negative length")?;
        end = end.saturating_add(length);
    }
    match end {
        end if end > MESSAGE_BYTES_MAX => {
            Err(format!("an answer has more than {MESSAGE_BYTES_MAX} bytes"))
        }
        end if end <= bytes.len() => Ok(Scan::Whole(end)),
        end => Ok(Scan::More(end)),
    }
}

/// What a server answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Done,
    Session(String),
    /// By the last part of the name of its class, and its message.
    Failed(String, String),
}

impl Reply {
    /// Reads an answer that [`scan_answer`] has found whole.
    ///
    /// # Errors
    /// It is cut off, in words.
    pub fn read(bytes: &[u8]) -> Result<Reply, String> {
        let reply = (|| {
            let mut front = Front(bytes);
            let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some(match front.take()? {
                [SESSION] => Reply::Session(lossy(front.string()?)),
                [FAILED] => {
                    let [class, message] = [front.count()?, front.count()?];
                    let class = lossy(front.bytes(class)?);
                    let name = class.rsplit('.').next().unwrap_or_default().to_owned();
                    Reply::Failed(name, lossy(front.bytes(message)?))
                }
                _ => Reply::Done,
            })
        })();
        reply.ok_or_else(|| "an answer is shorter than its parts".to_owned())
    }
}

// ---- answers ----

/// What a request is answered. The client makes an exception of a class by its name, and does by its class what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Done,
    Session(String),
    /// It has given a wrong password.
    Unauthenticated(String),
    /// It logs in and sends again.
    Expired(String),
    /// It drops the bundle and logs the words.
    Undefined(String),
}

pub fn write_answer(into: &mut Vec<u8>, answer: &Answer) {
    let (class, message) = match answer {
        Answer::Done => return into.push(DONE),
        Answer::Session(session) => {
            into.push(SESSION);
            return write_string(into, session.as_bytes());
        }
        Answer::Unauthenticated(message) => ("AuthenticationException", message),
        Answer::Expired(message) => ("SessionTimeoutException", message),
        Answer::Undefined(message) => ("UndefinedEventTypeException", message),
    };
    let class = format!("org.wso2.carbon.databridge.commons.exception.{class}");
    into.push(FAILED);
    for part in [class.as_str(), message] {
        into.extend_from_slice(&(part.len() as u32).to_be_bytes());
    }
    into.extend_from_slice(class.as_bytes());
    into.extend_from_slice(message.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [Type; 6] = [
        Type::Int,
        Type::Long,
        Type::Float,
        Type::Double,
        Type::Bool,
        Type::String,
    ];

    fn layout() -> Layout {
        let names = ["i", "l", "f", "d", "b", "s"];
        Layout::new("s", names.into_iter().map(Some).zip(TYPES)).expect("it is one")
    }

    /// An event whose values are null where `nulls` says so, as the client writes it.
    fn event(nulls: [bool; 6], map: &[&str]) -> Vec<u8> {
        let mut bytes = 7i64.to_be_bytes().to_vec();
        write_string(&mut bytes, b"s:1.0.0");
        let values: [Vec<u8>; 6] = [
            5i32.to_be_bytes().into(),
            (-1i64).to_be_bytes().into(),
            1.5f32.to_be_bytes().into(),
            // Its last bytes are not zero: a null before one that ends so may be read the other way round.
            0.1f64.to_be_bytes().into(),
            vec![1],
            [&[0, 0, 0, 2][..], b"ab"].concat(),
        ];
        for (value, is_null) in values.iter().zip(nulls) {
            bytes.extend_from_slice(if is_null { &[0; 4] } else { value });
        }
        map.iter()
            .for_each(|text| write_string(&mut bytes, text.as_bytes()));
        bytes
    }

    #[test]
    fn nulls_of_every_type_are_found_by_the_size_of_the_event() {
        for which in 0..64 {
            let nulls = std::array::from_fn(|at| which >> at & 1 == 1);
            for map in [&[][..], &["key", "value"]] {
                let bytes = event(nulls, map);
                let (time, values, entries) = read(&bytes, &layout()).expect("it has one reading");
                assert_eq!((time, entries.len()), (7, map.len() / 2));
                for ((value, is_null), ty) in values.iter().zip(nulls).zip(TYPES) {
                    // These are no other than 0.
                    let expect = match (ty, is_null) {
                        (Type::Int, true) => Value::Int(0),
                        (Type::Float, true) => Value::Double(0.0),
                        (_, true) => Value::Null,
                        (Type::Int, false) => Value::Int(5),
                        (Type::Long, false) => Value::Long(-1),
                        (Type::Float, false) => Value::Double(1.5),
                        (Type::Double, false) => Value::Double(0.1),
                        (Type::Bool, false) => Value::Bool(true),
                        (_, false) => Value::Text(b"ab"),
                    };
                    assert_eq!(*value, expect, "{nulls:?}");
                }
            }
        }
    }

    #[test]
    fn a_client_and_a_server_understand_each_other() {
        let mut login = Vec::new();
        write_login(&mut login, "anna", "sée");
        let (user, password) = ("anna", "sée");
        assert_eq!(Request::read(&login), Ok(Request::Login { user, password }));
        let (mut message, mut own) = (Vec::new(), Vec::new());
        write_event(&mut own, &event([false; 6], &["k", "v"]));
        write_publish(&mut message, "s1", 1, &own);
        assert_eq!(scan(&message), Ok(Scan::Whole(message.len())));
        let Ok(Request::Publish {
            session,
            events: found,
        }) = Request::read(&message)
        else {
            panic!("it is one");
        };
        assert_eq!((session, events(found).map(|all| all.len())), ("s1", Ok(1)));
        for (answer, reply) in [
            (Answer::Done, Reply::Done),
            (Answer::Session("s".into()), Reply::Session("s".into())),
            (
                Answer::Undefined("nö".into()),
                Reply::Failed("UndefinedEventTypeException".into(), "nö".into()),
            ),
        ] {
            let mut bytes = Vec::new();
            write_answer(&mut bytes, &answer);
            for end in 0..bytes.len() {
                assert!(
                    matches!(scan_answer(&bytes[..end]), Ok(Scan::More(_))),
                    "{end}"
                );
            }
            assert_eq!(scan_answer(&bytes), Ok(Scan::Whole(bytes.len())));
            assert_eq!(Reply::read(&bytes), Ok(reply));
        }
        assert!(scan_answer(&[9]).is_err() && scan_answer(b"\x02\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn what_does_not_come_out_even_is_told() {
        let whole = event([false; 6], &["k", "v"]);
        for end in 0..whole.len() {
            let is_without_map = end == whole.len() - 10;
            assert_eq!(
                read(&whole[..end], &layout()).is_ok(),
                is_without_map,
                "{end}"
            );
        }
        let mut message = Vec::new();
        message.extend_from_slice(&2u32.to_be_bytes());
        write_event(&mut message, &whole);
        assert!(
            events(&message)
                .expect_err("one is missing")
                .contains("event 2 of 2")
        );
        write_event(&mut message, &whole);
        assert_eq!(events(&message).map(|events| events.len()), Ok(2));
        message.push(0);
        assert!(events(&message).is_err());
    }

    #[test]
    fn requests_are_found_and_read_however_they_come() {
        let mut login = vec![LOGIN, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 3];
        login.extend_from_slice(b"upwd");
        for end in 0..login.len() {
            assert!(matches!(scan(&login[..end]), Ok(Scan::More(_))));
        }
        assert_eq!(scan(&login), Ok(Scan::Whole(login.len())));
        let (user, password) = ("u", "pwd");
        assert_eq!(Request::read(&login), Ok(Request::Login { user, password }));
        for wrong in [
            &b"\x03\0\0\0\0"[..],
            b"\0\xff\xff\xff\xff",
            b"\x02\x7f\xff\xff\xff",
        ] {
            assert!(scan(wrong).is_err());
        }
        assert!(Request::read(b"\x01\0\0\0\x04\0\0\0\x09").is_err());
    }

    #[test]
    fn answers_name_classes_of_the_client() {
        let mut bytes = Vec::new();
        write_answer(&mut bytes, &Answer::Expired("why".to_owned()));
        let class = "org.wso2.carbon.databridge.commons.exception.SessionTimeoutException";
        let mut expect = vec![FAILED];
        expect.extend_from_slice(&(class.len() as u32).to_be_bytes());
        expect.extend_from_slice(&3u32.to_be_bytes());
        expect.extend_from_slice(class.as_bytes());
        expect.extend_from_slice(b"why");
        assert_eq!(bytes, expect);
    }
}
