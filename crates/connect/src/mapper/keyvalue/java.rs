//! Reads a map out of Java's object serialization, which in-memory publishers of Siddhi may send:
//! maps of text to boxed values. No class is loaded; other objects are only walked over.

use event::Value;

/// Nesting of objects and class descriptions.
const DEPTH_MAX: usize = 32;

#[derive(Clone, Debug)]
enum Item {
    Null,
    Text(String),
    Object {
        class: String,
        /// Primitive fields, those of the superclasses first.
        fields: Vec<Value>,
        /// What the class wrote by itself.
        written: Vec<Item>,
    },
    Class(Class),
    /// Raw bytes between objects.
    Block,
}

#[derive(Clone, Debug)]
struct Class {
    name: String,
    flags: u8,
    /// Type codes of the fields.
    fields: Vec<u8>,
    parent: Option<Box<Class>>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// Objects by handle, in the order in which they began.
    handles: Vec<Item>,
}

/// The entries of the serialized map; `None` for anything else.
pub(super) fn read_map(bytes: &[u8]) -> Option<Vec<(Value, Value)>> {
    let bytes = bytes.strip_prefix(b"\xac\xed\x00\x05")?;
    let mut reader = Reader {
        bytes,
        handles: Vec::new(),
    };
    let Item::Object { class, written, .. } = reader.item(0)? else {
        return None;
    };
    if !matches!(
        class.as_str(),
        "java.util.HashMap" | "java.util.LinkedHashMap"
    ) {
        return None;
    }
    let items: Vec<&Item> = written
        .iter()
        .filter(|item| !matches!(item, Item::Block))
        .collect();
    let pairs = items.chunks_exact(2);
    pairs
        .map(|pair| Some((value(pair[0])?, value(pair[1])?)))
        .collect()
}

fn value(item: &Item) -> Option<Value> {
    match item {
        Item::Null => Some(Value::Null),
        Item::Text(text) => Some(Value::str(text)),
        Item::Object { class, fields, .. } => match (class.as_str(), fields.as_slice()) {
            (
                "java.lang.Boolean" | "java.lang.Integer" | "java.lang.Long" | "java.lang.Float"
                | "java.lang.Double",
                [value],
            ) => Some(value.clone()),
            _ => None,
        },
        Item::Class(_) | Item::Block => None,
    }
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn skip(&mut self, count: usize) -> Option<&[u8]> {
        let (head, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(head)
    }

    /// Text in Java's modified UTF-8; what is not plain UTF-8 is replaced.
    fn text(&mut self) -> Option<String> {
        let len = usize::from(u16::from_be_bytes(self.take()?));
        self.skip(len)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn item(&mut self, depth: usize) -> Option<Item> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.byte()? {
            0x70 => Some(Item::Null),
            0x71 => {
                let handle = u32::from_be_bytes(self.take()?).checked_sub(0x7e_0000)?;
                self.handles.get(handle as usize).cloned()
            }
            0x72 => self.class(depth).map(Item::Class),
            0x73 => self.object(depth),
            0x74 => {
                let text = Item::Text(self.text()?);
                self.handles.push(text.clone());
                Some(text)
            }
            0x77 => {
                let len = usize::from(self.byte()?);
                self.skip(len).map(|_| Item::Block)
            }
            _ => None,
        }
    }

    /// Items up to the end of what a class wrote by itself.
    fn written(&mut self, depth: usize) -> Option<Vec<Item>> {
        let mut items = Vec::new();
        while *self.bytes.first()? != 0x78 {
            items.push(self.item(depth + 1)?);
        }
        self.byte()?;
        Some(items)
    }

    fn class(&mut self, depth: usize) -> Option<Class> {
        let name = self.text()?;
        self.take::<8>()?;
        let handle = self.handles.len();
        self.handles.push(Item::Null);
        let flags = self.byte()?;
        let count = u16::from_be_bytes(self.take()?);
        let mut fields = Vec::new();
        for _ in 0..count {
            let code = self.byte()?;
            self.text()?;
            if matches!(code, b'L' | b'[') {
                self.item(depth + 1)?;
            }
            fields.push(code);
        }
        self.written(depth)?;
        let parent = match self.item(depth + 1)? {
            Item::Class(parent) => Some(Box::new(parent)),
            Item::Null => None,
            _ => return None,
        };
        let class = Class {
            name,
            flags,
            fields,
            parent,
        };
        self.handles[handle] = Item::Class(class.clone());
        Some(class)
    }

    fn object(&mut self, depth: usize) -> Option<Item> {
        let Item::Class(class) = self.item(depth + 1)? else {
            return None;
        };
        let handle = self.handles.len();
        self.handles.push(Item::Null);
        let mut line = vec![&class];
        while let Some(parent) = line.last().and_then(|class| class.parent.as_deref()) {
            line.push(parent);
        }
        let (mut fields, mut written) = (Vec::new(), Vec::new());
        for class in line.into_iter().rev() {
            for code in &class.fields {
                fields.extend(self.field(*code, depth)?);
            }
            if class.flags & 1 != 0 {
                written.extend(self.written(depth)?);
            }
        }
        let object = Item::Object {
            class: class.name,
            fields,
            written,
        };
        self.handles[handle] = object.clone();
        Some(object)
    }

    /// The value of a primitive field; objects are walked over.
    fn field(&mut self, code: u8, depth: usize) -> Option<Option<Value>> {
        Some(match code {
            b'Z' => Some(Value::Bool(self.byte()? != 0)),
            b'I' => Some(Value::Int(i32::from_be_bytes(self.take()?))),
            b'J' => Some(Value::Long(i64::from_be_bytes(self.take()?))),
            b'F' => Some(Value::Float(f32::from_be_bytes(self.take()?))),
            b'D' => Some(Value::Double(f64::from_be_bytes(self.take()?))),
            b'B' => self.byte().map(|_| None)?,
            b'C' | b'S' => self.take::<2>().map(|_| None)?,
            b'L' | b'[' => self.item(depth + 1).map(|_| None)?,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{volume=100L, price=50.0f}` and a null, as a `HashMap` is written.
    fn serialized() -> Vec<u8> {
        let mut out = Vec::from(*b"\xac\xed\x00\x05\x73");
        let class = |out: &mut Vec<u8>, name: &str, flags: u8, fields: &[(u8, &str)]| {
            out.push(0x72);
            out.extend((name.len() as u16).to_be_bytes());
            out.extend(name.as_bytes());
            out.extend([0; 8]);
            out.push(flags);
            out.extend((fields.len() as u16).to_be_bytes());
            for (code, name) in fields {
                out.push(*code);
                out.extend((name.len() as u16).to_be_bytes());
                out.extend(name.as_bytes());
            }
            out.push(0x78);
        };
        let text = |out: &mut Vec<u8>, text: &str| {
            out.push(0x74);
            out.extend((text.len() as u16).to_be_bytes());
            out.extend(text.as_bytes());
        };
        class(
            &mut out,
            "java.util.HashMap",
            3,
            &[(b'F', "loadFactor"), (b'I', "threshold")],
        );
        out.push(0x70);
        out.extend([0; 8]);
        out.extend([0x77, 8, 0, 0, 0, 16, 0, 0, 0, 3]);
        text(&mut out, "volume");
        out.push(0x73);
        class(&mut out, "java.lang.Long", 2, &[(b'J', "value")]);
        class(&mut out, "java.lang.Number", 2, &[]);
        out.push(0x70);
        out.extend(100i64.to_be_bytes());
        text(&mut out, "symbol");
        out.push(0x70);
        text(&mut out, "price");
        out.push(0x73);
        class(&mut out, "java.lang.Float", 2, &[(b'F', "value")]);
        // The description of `Number`, by its handle.
        out.extend([0x71, 0x00, 0x7e, 0x00, 0x04]);
        out.extend(50f32.to_be_bytes());
        out.push(0x78);
        out
    }

    #[test]
    fn a_hash_map_is_read() {
        let entries = read_map(&serialized()).expect("it is a map");
        assert_eq!(
            entries,
            [
                ("volume".into(), Value::Long(100)),
                ("symbol".into(), Value::Null),
                ("price".into(), Value::Float(50.0)),
            ]
        );
    }

    #[test]
    fn anything_else_is_none() {
        let whole = serialized();
        for len in 0..whole.len() {
            assert!(read_map(&whole[..len]).is_none());
        }
        assert!(read_map(b"\xac\xed\x00\x05\x74\x00\x01x").is_none());
        let deep: Vec<u8> = b"\xac\xed\x00\x05"
            .iter()
            .copied()
            .chain(std::iter::repeat_n(0x73, 1000))
            .collect();
        assert!(read_map(&deep).is_none());
    }
}
