//! Thrift's binary protocol over an unframed connection: where a message ends, what is called, and answers.
//!
//! Nothing says how long a message is. [`Scanner`] walks over what has come so far and goes on where it was when
//! more is there, so that a message is looked at once however it comes.

/// Longest message that is read, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Types within types.
const DEPTH_MAX: usize = 16;

/// Longest name of a method.
const NAME_BYTES_MAX: usize = 256;

/// Version 1 of the protocol; the lowest byte is the kind of the message.
const VERSION: u32 = 0x8001_0000;
const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;
const ONEWAY: u8 = 4;

const STOP: u8 = 0;
pub const BOOL: u8 = 2;
pub const DOUBLE: u8 = 4;
pub const I32: u8 = 8;
pub const I64: u8 = 10;
pub const STRING: u8 = 11;
pub const STRUCT: u8 = 12;
pub const MAP: u8 = 13;
pub const SET: u8 = 14;
pub const LIST: u8 = 15;

/// Bytes of a value of a type of one length; `None` for the others.
const fn fixed(ty: u8) -> Option<usize> {
    match ty {
        BOOL | 3 => Some(1),
        6 => Some(2),
        I32 => Some(4),
        DOUBLE | I64 => Some(8),
        _ => None,
    }
}

/// Least bytes of a value of a type; `None`: there is no such type.
const fn least(ty: u8) -> Option<usize> {
    match ty {
        STRING => Some(4),
        STRUCT => Some(1),
        MAP => Some(6),
        SET | LIST => Some(5),
        _ => fixed(ty),
    }
}

// ---- where a message ends ----

/// How far a message has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// It has at least so many bytes.
    More(usize),
    /// It ends there.
    Whole(usize),
}

/// What a scanner is inside of.
#[derive(Clone, Copy, Debug)]
enum Open {
    Struct,
    /// So many values of each type in turn are left.
    Values {
        types: [u8; 2],
        left: usize,
    },
}

/// Finds the end of a message while it comes.
#[derive(Debug, Default)]
pub struct Scanner {
    at: usize,
    open: Vec<Open>,
}

impl Scanner {
    /// `bytes` is the message as far as it has come: those of the last call and what came since.
    ///
    /// # Errors
    /// What is no message, in words; nothing behind it can be understood either.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Scan, String> {
        match self.step(bytes) {
            Ok(()) => Ok(Scan::Whole(self.at)),
            Err(Stop::Needs(end)) if end <= MESSAGE_BYTES_MAX => Ok(Scan::More(end)),
            Err(Stop::Needs(_)) => {
                Err(format!("a message has more than {MESSAGE_BYTES_MAX} bytes"))
            }
            Err(Stop::Wrong(cause)) => Err(cause),
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.at == 0 {
            let [version, name] = [0, 4].map(|at| take(bytes, at).map(u32::from_be_bytes));
            if version? & 0xffff_0000 != VERSION {
                return Err(Stop::Wrong(
                    "it does not begin as a message of Thrift's binary protocol".to_owned(),
                ));
            }
            let name = name? as usize;
            if name > NAME_BYTES_MAX {
                return Err(Stop::Wrong(format!(
                    "the name of a method has {name} bytes"
                )));
            }
            self.at = 8 + name + 4;
            self.open.push(Open::Struct);
        }
        while let Some(open) = self.open.last_mut() {
            if self.at > bytes.len() {
                return Err(Stop::Needs(self.at));
            }
            let ty = match open {
                Open::Struct => {
                    let [ty] = take(bytes, self.at)?;
                    if ty == STOP {
                        self.at += 1;
                        self.open.pop();
                        continue;
                    }
                    let [_, _, _] = take(bytes, self.at)?;
                    let end = value_end(bytes, self.at + 3, ty)?;
                    self.at = end;
                    ty
                }
                Open::Values { left: 0, .. } => {
                    self.open.pop();
                    continue;
                }
                Open::Values { types, left } => {
                    if let [Some(a), Some(b)] = types.map(fixed) {
                        // Both in turn: as many of each.
                        self.at += (a + b) * *left / 2;
                        *left = 0;
                        continue;
                    }
                    let ty = types[0];
                    let end = value_end(bytes, self.at, ty)?;
                    types.swap(0, 1);
                    *left -= 1;
                    self.at = end;
                    ty
                }
            };
            self.enter(bytes, ty)?;
        }
        match self.at > bytes.len() {
            true => Err(Stop::Needs(self.at)),
            false => Ok(()),
        }
    }

    /// The head of a value of this type has been walked over: its content comes.
    fn enter(&mut self, bytes: &[u8], ty: u8) -> Result<(), Stop> {
        let open = match ty {
            STRUCT => Open::Struct,
            LIST | SET => {
                let [ty, count @ ..] = take::<5>(bytes, self.at - 5)?;
                self.values([ty, ty], u32::from_be_bytes(count), 1)?
            }
            MAP => {
                let [key, value, count @ ..] = take::<6>(bytes, self.at - 6)?;
                self.values([key, value], u32::from_be_bytes(count), 2)?
            }
            _ => return Ok(()),
        };
        if self.open.len() >= DEPTH_MAX {
            return Err(Stop::Wrong(format!(
                "a message is nested more than {DEPTH_MAX} deep"
            )));
        }
        self.open.push(open);
        Ok(())
    }

    fn values(&self, types: [u8; 2], count: u32, each: usize) -> Result<Open, Stop> {
        let count = i32::try_from(count)
            .map_err(|_| Stop::Wrong("a list has a negative length".to_owned()))?;
        let left = count as usize * each;
        if left > 0 {
            let [a, b] = types.map(|ty| least(ty).ok_or_else(|| no_type(ty)));
            let bytes = (a? + b?) * left / 2;
            if self.at + bytes > MESSAGE_BYTES_MAX {
                return Err(Stop::Needs(self.at + bytes));
            }
        }
        Ok(Open::Values { types, left })
    }
}

/// Why a scanner does not go on.
enum Stop {
    /// That many bytes in all.
    Needs(usize),
    Wrong(String),
}

fn no_type(ty: u8) -> Stop {
    Stop::Wrong(format!("type {ty} is none of Thrift's"))
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Stop> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().ok_or(Stop::Needs(at + N))
}

/// Where a value ends, or its head where values are inside; it may be behind what has come.
fn value_end(bytes: &[u8], at: usize, ty: u8) -> Result<usize, Stop> {
    if let Some(size) = fixed(ty) {
        return Ok(at + size);
    }
    match ty {
        STRUCT => Ok(at),
        STRING => {
            let length = i32::from_be_bytes(take(bytes, at)?);
            let length = usize::try_from(length);
            let length =
                length.map_err(|_| Stop::Wrong("a string has a negative length".to_owned()))?;
            Ok(at + 4 + length)
        }
        LIST | SET => take::<5>(bytes, at).map(|_| at + 5),
        MAP => take::<6>(bytes, at).map(|_| at + 6),
        _ => Err(no_type(ty)),
    }
}

// ---- what a message says ----

/// A call, or an answer to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    pub kind: u8,
    pub name: &'a str,
    pub sequence: i32,
    pub fields: Fields<'a>,
}

impl<'a> Message<'a> {
    /// Reads a message that a [`Scanner`] has found whole.
    ///
    /// # Errors
    /// It is no message, in words.
    pub fn read(bytes: &'a [u8]) -> Result<Message<'a>, String> {
        let mut front = Front(bytes);
        let head = (|| {
            let version = u32::from_be_bytes(front.take()?);
            let name = front.string()?;
            Some((version, name, i32::from_be_bytes(front.take()?)))
        })();
        let (version, name, sequence) = head.ok_or("a message ends in its head")?;
        let name = std::str::from_utf8(name).map_err(|_| "the name of a method is not UTF-8")?;
        Ok(Message {
            kind: version as u8,
            name,
            sequence,
            fields: Fields(front.0),
        })
    }

    pub fn is_call(&self) -> bool {
        matches!(self.kind, CALL | ONEWAY)
    }

    pub fn is_exception(&self) -> bool {
        self.kind == EXCEPTION
    }
}

/// The fields of a struct, from the first on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    pub id: i16,
    pub ty: u8,
    /// The value alone, as it stands on the wire.
    pub value: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The field of a number.
    pub fn get(self, id: i16) -> Option<Field<'a>> {
        self.into_iter().find(|field| field.id == id)
    }

    /// The text of a field.
    pub fn text(self, id: i16) -> Option<&'a str> {
        let field = self.get(id).filter(|field| field.ty == STRING)?;
        std::str::from_utf8(Front(field.value).string()?).ok()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    /// `None` at the end, and where the bytes are none of a struct.
    fn next(&mut self) -> Option<Field<'a>> {
        let mut front = Front(self.0);
        let [ty] = front.take()?;
        if ty == STOP {
            return None;
        }
        let id = i16::from_be_bytes(front.take()?);
        let value = front.0;
        front.skip(ty, DEPTH_MAX)?;
        self.0 = front.0;
        Some(Field {
            id,
            ty,
            value: &value[..value.len() - front.0.len()],
        })
    }
}

/// Takes values off the front.
#[derive(Clone, Copy)]
pub(crate) struct Front<'a>(pub &'a [u8]);

impl<'a> Front<'a> {
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*value)
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        self.bytes(length)
    }

    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(i32::from_be_bytes(self.take()?)).ok()
    }

    fn skip(&mut self, ty: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if let Some(size) = fixed(ty) {
            return self.bytes(size).map(drop);
        }
        match ty {
            STRING => self.string().map(drop),
            STRUCT => loop {
                let [ty] = self.take()?;
                if ty == STOP {
                    return Some(());
                }
                self.bytes(2)?;
                self.skip(ty, depth)?;
            },
            LIST | SET => {
                let [ty] = self.take()?;
                let count = self.count()?;
                if let Some(size) = fixed(ty) {
                    return self.bytes(size.checked_mul(count)?).map(drop);
                }
                (0..count).try_for_each(|_| self.skip(ty, depth))
            }
            MAP => {
                let [key, value] = self.take()?;
                let count = self.count()?;
                (0..count).try_for_each(|_| {
                    self.skip(key, depth)?;
                    self.skip(value, depth)
                })
            }
            _ => None,
        }
    }
}

// ---- what is written ----

/// What a call is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Void,
    Text(String),
    Bool(bool),
    /// One of those that the method declares, by its number, with its message.
    Exception(i16, String),
    /// There is no such method.
    UnknownMethod,
}

/// Appends the answer to a call.
pub fn write_answer(into: &mut Vec<u8>, name: &str, sequence: i32, answer: &Answer) {
    let kind = match answer {
        Answer::UnknownMethod => EXCEPTION,
        _ => REPLY,
    };
    write_head(into, kind, name, sequence);
    match answer {
        Answer::Void => {}
        Answer::Text(text) => write_text(into, 0, text),
        Answer::Bool(is_so) => {
            write_field(into, BOOL, 0);
            into.push(u8::from(*is_so));
        }
        Answer::Exception(number, message) => {
            write_field(into, STRUCT, *number);
            write_text(into, 1, message);
            into.push(STOP);
        }
        Answer::UnknownMethod => {
            const UNKNOWN_METHOD: i32 = 1;
            write_text(into, 1, &format!("Invalid method name: '{name}'"));
            write_field(into, I32, 2);
            into.extend_from_slice(&UNKNOWN_METHOD.to_be_bytes());
        }
    }
    into.push(STOP);
}

/// What a server answers a call, as a client reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The call was carried out; its result, where that is a text.
    Done(Option<String>),
    /// One of the exceptions that the method declares, by its number, with its message.
    Exception(i16, String),
    /// The server does not know the call, or could not read it.
    Failed(String),
}

impl Reply {
    /// Reads an answer that a [`Scanner`] has found whole.
    ///
    /// # Errors
    /// It is no answer to this call, in words.
    pub fn read(bytes: &[u8], sequence: i32) -> Result<Reply, String> {
        let message = Message::read(bytes)?;
        if message.is_call() || message.sequence != sequence {
            return Err("it is no answer to what was asked".to_owned());
        }
        if message.is_exception() {
            let text = message.fields.text(1).unwrap_or("without a message");
            return Ok(Reply::Failed(text.to_owned()));
        }
        let mut fields = message.fields;
        let Some(field) = fields.next() else {
            return Ok(Reply::Done(None));
        };
        Ok(match (field.id, field.ty) {
            (0, STRING) => Reply::Done(message.fields.text(0).map(str::to_owned)),
            (0, _) => Reply::Done(None),
            (id, STRUCT) => {
                let text = Fields(field.value).text(1).unwrap_or("without a message");
                Reply::Exception(id, text.to_owned())
            }
            (id, ty) => return Err(format!("it has field {id} of type {ty}")),
        })
    }
}

/// Appends a call; its arguments and [`end`] follow.
pub fn write_call(into: &mut Vec<u8>, name: &str, sequence: i32) {
    write_head(into, CALL, name, sequence);
}

fn write_head(into: &mut Vec<u8>, kind: u8, name: &str, sequence: i32) {
    into.extend_from_slice(&(VERSION | u32::from(kind)).to_be_bytes());
    write_string(into, name.as_bytes());
    into.extend_from_slice(&sequence.to_be_bytes());
}

/// Appends the head of a field.
pub fn write_field(into: &mut Vec<u8>, ty: u8, id: i16) {
    into.push(ty);
    into.extend_from_slice(&id.to_be_bytes());
}

/// Appends a field of text.
pub fn write_text(into: &mut Vec<u8>, id: i16, text: &str) {
    write_field(into, STRING, id);
    write_string(into, text.as_bytes());
}

pub(crate) fn write_string(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}

/// Ends a struct.
pub fn end(into: &mut Vec<u8>) {
    into.push(STOP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        for (answer, reply) in [
            (Answer::Void, Reply::Done(None)),
            (Answer::Text("id".into()), Reply::Done(Some("id".into()))),
            (Answer::Bool(true), Reply::Done(None)),
            (
                Answer::Exception(2, "no".into()),
                Reply::Exception(2, "no".into()),
            ),
            (
                Answer::UnknownMethod,
                Reply::Failed("Invalid method name: 'x'".into()),
            ),
        ] {
            let mut bytes = Vec::new();
            write_answer(&mut bytes, "x", 7, &answer);
            assert_eq!(Reply::read(&bytes, 7), Ok(reply), "{answer:?}");
            assert!(Reply::read(&bytes, 8).is_err());
            (0..bytes.len()).for_each(|end| drop(Reply::read(&bytes[..end], 7)));
        }
    }

    /// A call with a value of every type, lists and maps of them, and a struct inside.
    fn call() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_call(&mut bytes, "publish", 7);
        write_text(&mut bytes, 1, "session");
        write_field(&mut bytes, STRUCT, 2);
        for (ty, size) in [(BOOL, 1), (3, 1), (6, 2), (I32, 4), (I64, 8), (DOUBLE, 8)] {
            write_field(&mut bytes, ty, i16::from(ty));
            bytes.extend(std::iter::repeat_n(ty, size));
        }
        write_field(&mut bytes, LIST, 20);
        bytes.extend([I32, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
        write_field(&mut bytes, LIST, 21);
        bytes.extend([STRING, 0, 0, 0, 2]);
        write_string(&mut bytes, b"a");
        write_string(&mut bytes, b"");
        write_field(&mut bytes, MAP, 22);
        bytes.extend([I32, MAP, 0, 0, 0, 1, 0, 0, 0, 5, STRING, STRING, 0, 0, 0, 1]);
        write_string(&mut bytes, b"key");
        write_string(&mut bytes, b"value");
        write_field(&mut bytes, MAP, 23);
        bytes.extend([I32, DOUBLE, 0, 0, 0, 2]);
        bytes.extend([9; 24]);
        end(&mut bytes);
        end(&mut bytes);
        bytes
    }

    #[test]
    fn the_end_of_a_message_is_found_however_it_comes() {
        let whole = call();
        let longer = [whole.as_slice(), b"more"].concat();
        assert_eq!(
            Scanner::default().scan(&longer),
            Ok(Scan::Whole(whole.len()))
        );
        for piece in 1..20 {
            let mut scanner = Scanner::default();
            for end in (0..whole.len()).step_by(piece) {
                match scanner.scan(&whole[..end]) {
                    Ok(Scan::More(needed)) => assert!(end < needed && needed <= whole.len()),
                    found => panic!("{end}: {found:?}"),
                }
            }
            assert_eq!(scanner.scan(&whole), Ok(Scan::Whole(whole.len())));
        }
        let message = Message::read(&whole).expect("it is one");
        assert_eq!(
            (message.name, message.sequence, message.is_call()),
            ("publish", 7, true)
        );
        assert_eq!(message.fields.text(1), Some("session"));
        let inner = message.fields.get(2).expect("it is there");
        let ids: Vec<i16> = Fields(inner.value).map(|field| field.id).collect();
        assert_eq!(ids, [2, 3, 6, 8, 10, 4, 20, 21, 22, 23]);
    }

    #[test]
    fn what_is_no_message_is_told_at_once() {
        let mut deep = Vec::new();
        write_call(&mut deep, "m", 0);
        (0..DEPTH_MAX).for_each(|_| write_field(&mut deep, STRUCT, 1));
        let after = |bytes: &[u8]| {
            let mut all = Vec::new();
            write_call(&mut all, "m", 0);
            all.extend_from_slice(bytes);
            all
        };
        for (bytes, cause) in [
            (b"GET / HTTP/1.1\r\n".to_vec(), "does not begin"),
            (
                b"\x80\x01\0\x01\x7f\xff\xff\xff".to_vec(),
                "name of a method",
            ),
            (after(b"\x0b\0\x01\xff\xff\xff\xff"), "negative"),
            (after(b"\x0f\0\x01\x08\xff\xff\xff\xff"), "negative"),
            (after(b"\x0f\0\x01\x08\x7f\xff\xff\xff"), "more than"),
            (after(b"\x0b\0\x01\x7f\xff\xff\xff"), "more than"),
            (after(b"\x0d\0\x01\x0b\x0b\x7f\xff\xff\xff"), "more than"),
            (after(b"\x0f\0\x01\x07\0\0\0\x01"), "none of Thrift's"),
            (after(b"\x01\0\x01"), "none of Thrift's"),
            (deep, "nested"),
        ] {
            let said = Scanner::default().scan(&bytes).expect_err(cause);
            assert!(said.contains(cause), "{said}");
        }
    }

    #[test]
    fn answers_are_messages() {
        for answer in [
            Answer::Void,
            Answer::Text("id".to_owned()),
            Answer::Bool(true),
            Answer::Exception(2, "why".to_owned()),
            Answer::UnknownMethod,
        ] {
            let mut bytes = Vec::new();
            write_answer(&mut bytes, "connect", -3, &answer);
            assert_eq!(
                Scanner::default().scan(&bytes),
                Ok(Scan::Whole(bytes.len()))
            );
            let message = Message::read(&bytes).expect("it is one");
            assert_eq!((message.name, message.sequence), ("connect", -3));
            assert_eq!(message.is_exception(), answer == Answer::UnknownMethod);
            match answer {
                Answer::Text(text) => assert_eq!(message.fields.text(0), Some(text.as_str())),
                Answer::Exception(number, message_text) => {
                    let exception = message.fields.get(number).expect("it is there");
                    assert_eq!(Fields(exception.value).text(1), Some(message_text.as_str()));
                }
                _ => {}
            }
        }
    }
}
