//! Definitions of streams as clients send them: JSON, with quotes of either kind.

use event::Type;
use serde_json::Value;

use crate::stream::{Section, VERSION};

/// What a client says of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    pub name: String,
    pub version: String,
    pub attributes: Vec<(Section, String, Type)>,
}

impl Definition {
    /// # Errors
    /// What is no definition, in words.
    pub fn parse(text: &str) -> Result<Definition, String> {
        let value = serde_json::from_str(text).or_else(|error| match text.contains('"') {
            true => Err(error),
            false => serde_json::from_str(&text.replace('\'', "\"")),
        });
        let value: Value = value.map_err(|error| format!("the definition is not JSON: {error}"))?;
        let name = match value.get("name").and_then(Value::as_str) {
            Some(name) if !name.trim().is_empty() => name.trim().to_owned(),
            _ => return Err("the definition has no 'name'".to_owned()),
        };
        let version = value.get("version").and_then(Value::as_str);
        let mut attributes = Vec::new();
        for section in Section::ALL {
            let list = match value.get(section.key()) {
                None | Some(Value::Null) => continue,
                Some(list) => list.as_array(),
            };
            let list = list.ok_or_else(|| format!("'{}' is not a list", section.key()))?;
            for attribute in list {
                let of = |key| attribute.get(key).and_then(Value::as_str).map(str::trim);
                let name = of("name").filter(|name| !name.is_empty());
                let name = name
                    .ok_or_else(|| format!("an attribute of '{}' has no 'name'", section.key()))?;
                let ty = of("type").and_then(type_of);
                let ty = ty.ok_or_else(|| {
                    format!("attribute '{name}' needs a 'type': INT, LONG, FLOAT, DOUBLE, BOOL or STRING")
                })?;
                attributes.push((section, name.to_owned(), ty));
            }
        }
        Ok(Definition {
            name,
            version: version.unwrap_or(VERSION).trim().to_owned(),
            attributes,
        })
    }

    /// The definition of a stream, as a client sends it.
    pub fn text_of(layout: &crate::stream::Layout) -> String {
        let (name, version) = crate::stream::parts_of(&layout.id);
        let mut json = serde_json::json!({ "name": name, "version": version });
        for section in Section::ALL {
            let own = layout
                .attributes
                .iter()
                .filter(|attribute| attribute.section == section);
            let list: Vec<Value> = own
                .map(|attribute| serde_json::json!({ "name": attribute.name, "type": attribute.ty.name().to_uppercase() }))
                .collect();
            if !list.is_empty() {
                json[section.key()] = list.into();
            }
        }
        json.to_string()
    }

    pub fn id(&self) -> String {
        format!("{}:{}", self.name, self.version)
    }

    pub fn wire(&self) -> Vec<(Section, &str, Type)> {
        let all = self.attributes.iter();
        all.map(|(section, name, ty)| (*section, name.as_str(), *ty))
            .collect()
    }
}

fn type_of(text: &str) -> Option<Type> {
    Type::from_name(text).filter(|ty| *ty != Type::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_read_with_quotes_of_either_kind() {
        let text = "{'name':'a.b','nickName':'x','metaData':[{'name':'m','type':'string'}],\
                    'payloadData':[{'name':'p','type':'INT'},{'name':'q','type':'Double'}]}";
        let expect = Definition {
            name: "a.b".to_owned(),
            version: VERSION.to_owned(),
            attributes: vec![
                (Section::Meta, "m".to_owned(), Type::String),
                (Section::Payload, "p".to_owned(), Type::Int),
                (Section::Payload, "q".to_owned(), Type::Double),
            ],
        };
        assert_eq!(Definition::parse(text), Ok(expect.clone()));
        assert_eq!(Definition::parse(&text.replace('\'', "\"")), Ok(expect));
    }

    #[test]
    fn what_is_malformed_is_said() {
        for (text, cause) in [
            ("", "not JSON"),
            ("{}", "no 'name'"),
            ("{'name':'a','metaData':{}}", "not a list"),
            (
                "{'name':'a','payloadData':[{'name':'p'}]}",
                "needs a 'type'",
            ),
            ("{'name':'a','payloadData':[{'type':'INT'}]}", "no 'name'"),
            (
                "{'name':'a','payloadData':[{'name':'p','type':'OBJECT'}]}",
                "needs a 'type'",
            ),
        ] {
            let said = Definition::parse(text).expect_err(text);
            assert!(said.contains(cause), "{said}");
        }
    }
}
