//! What events of a stream hold, and in which order they have it on the wire.

use event::Type;

/// The version of a stream that names none.
pub const VERSION: &str = "1.0.0";

/// Which list of its definition an attribute is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    Meta,
    Correlation,
    Payload,
}

impl Section {
    pub const ALL: [Section; 3] = [Section::Meta, Section::Correlation, Section::Payload];

    /// How it is called in a definition.
    pub const fn key(self) -> &'static str {
        match self {
            Section::Meta => "metaData",
            Section::Correlation => "correlationData",
            Section::Payload => "payloadData",
        }
    }

    /// What names of such attributes begin with outside.
    const fn prefix(self) -> &'static str {
        match self {
            Section::Meta => "meta_",
            Section::Correlation => "correlation_",
            Section::Payload => "",
        }
    }
}

/// What names of keys of the map of an event begin with.
const ARBITRARY: &str = "arbitrary_";

/// A value that every event has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    pub section: Section,
    /// Without its prefix.
    pub name: String,
    /// Never OBJECT.
    pub ty: Type,
    /// Its number among the attributes that the layout was made of.
    pub column: usize,
}

/// A text that an event may have under a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arbitrary {
    pub key: String,
    pub ty: Type,
    pub column: usize,
}

/// So many values of each list of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub ints: usize,
    pub longs: usize,
    pub doubles: usize,
    pub bools: usize,
    pub strings: usize,
}

impl Counts {
    /// The count of the list that values of a type are in.
    pub fn of(&self, ty: Type) -> usize {
        match ty {
            Type::Int => self.ints,
            Type::Long => self.longs,
            Type::Float | Type::Double => self.doubles,
            Type::Bool => self.bools,
            Type::String | Type::Object => self.strings,
        }
    }

    pub fn of_mut(&mut self, ty: Type) -> &mut usize {
        match ty {
            Type::Int => &mut self.ints,
            Type::Long => &mut self.longs,
            Type::Float | Type::Double => &mut self.doubles,
            Type::Bool => &mut self.bools,
            Type::String | Type::Object => &mut self.strings,
        }
    }
}

/// A stream as the wire has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// `name:version`.
    pub id: String,
    /// In the order of the wire: metaData, correlationData, payloadData.
    pub attributes: Vec<Attribute>,
    pub arbitrary: Vec<Arbitrary>,
    /// What an event takes, its timestamp and the id of its stream not counted.
    pub counts: Counts,
}

impl Layout {
    /// A stream of attributes with the keys that they have outside (`meta_x`, `correlation_x`, `arbitrary_x`, `x`);
    /// `None` has a place in the order and nothing on the wire.
    ///
    /// # Errors
    /// An OBJECT has no form on the wire; or two attributes have one key.
    pub fn new<'a>(
        id: &str,
        attributes: impl IntoIterator<Item = (Option<&'a str>, Type)>,
    ) -> Result<Layout, String> {
        let mut layout = Layout {
            id: id_of(id),
            attributes: Vec::new(),
            arbitrary: Vec::new(),
            counts: Counts::default(),
        };
        for (column, (key, ty)) in attributes.into_iter().enumerate() {
            let Some(key) = key else { continue };
            if ty == Type::Object {
                return Err(format!(
                    "attribute '{key}' is an OBJECT, which has no form on the wire: send it as text"
                ));
            }
            if let Some(key) = key.strip_prefix(ARBITRARY) {
                let key = key.to_owned();
                layout.arbitrary.push(Arbitrary { key, ty, column });
                continue;
            }
            let own = [Section::Meta, Section::Correlation]
                .into_iter()
                .find_map(|section| {
                    let name = key.strip_prefix(section.prefix())?;
                    (!name.is_empty()).then_some((section, name))
                });
            let (section, name) = own.unwrap_or((Section::Payload, key));
            layout.attributes.push(Attribute {
                section,
                name: name.to_owned(),
                ty,
                column,
            });
            *layout.counts.of_mut(ty) += 1;
        }
        // Stable: each list is in the order of the stream.
        layout.attributes.sort_by_key(|attribute| attribute.section);
        let names = layout.attributes.iter().map(|a| (a.section, &a.name));
        let mut names: Vec<_> = names.collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(format!(
                "two attributes are '{}' of {}",
                twice[0].1,
                twice[0].0.key()
            )),
            None => Ok(layout),
        }
    }

    /// The attributes as a definition has them.
    pub fn wire(&self) -> Vec<(Section, &str, Type)> {
        let all = self.attributes.iter();
        all.map(|a| (a.section, a.name.as_str(), a.ty)).collect()
    }

    /// What is another in these attributes, in words.
    pub fn difference(&self, other: &[(Section, &str, Type)]) -> Option<String> {
        for section in Section::ALL {
            let own: Vec<_> = self.wire().into_iter().filter(|a| a.0 == section).collect();
            let others: Vec<_> = other.iter().filter(|a| a.0 == section).collect();
            for (own, other) in own.iter().zip(&others) {
                if own != *other {
                    return Some(format!(
                        "{} has '{} {}' where the other has '{} {}'",
                        section.key(),
                        own.1,
                        own.2,
                        other.1,
                        other.2
                    ));
                }
            }
            if own.len() != others.len() {
                return Some(format!(
                    "{} has {} attributes, the other {}",
                    section.key(),
                    own.len(),
                    others.len()
                ));
            }
        }
        None
    }
}

/// `name:version`, also of a name alone.
pub fn id_of(id: &str) -> String {
    let id = id.trim();
    match id.rsplit_once(':') {
        Some(_) => id.to_owned(),
        None => format!("{id}:{VERSION}"),
    }
}

/// Name and version of an id.
pub fn parts_of(id: &str) -> (&str, &str) {
    id.rsplit_once(':').unwrap_or((id, VERSION))
}
