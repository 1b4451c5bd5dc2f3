//! The body of a request: an object whose entries have types.

use serde_json::{Map, Value as Json};

use crate::error::Error;

/// An object of a body. An entry that is null is as one that is missing, and others than are asked for are passed over.
pub(super) struct Body(Map<String, Json>);

fn wrong(name: &str, what: &str) -> Error {
    Error::Request(format!("'{name}' must be {what}"))
}

impl Body {
    /// # Errors
    /// It is not an object of JSON.
    pub fn parse(bytes: &[u8]) -> Result<Body, Error> {
        match serde_json::from_slice(bytes) {
            Ok(Json::Object(object)) => Ok(Body(object)),
            Ok(_) => Err(Error::Request(
                "the body must be an object of JSON".to_owned(),
            )),
            Err(cause) => Err(Error::Request(format!("the body is not JSON: {cause}"))),
        }
    }

    /// # Errors
    /// It is not an array of objects.
    pub fn parse_list(bytes: &[u8]) -> Result<Vec<Body>, Error> {
        let list: Json = serde_json::from_slice(bytes)
            .map_err(|cause| Error::Request(format!("the body is not JSON: {cause}")))?;
        objects("the body", Some(list))
    }

    fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    pub fn needed_text(&self, name: &str) -> Result<&str, Error> {
        let text = self.text(name)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| Error::Request(format!("'{name}' is missing")))
    }

    /// A whole number from 0 on.
    pub fn whole(&self, name: &str) -> Result<Option<usize>, Error> {
        let value = self.get(name).map(|value| {
            let number = value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| wrong(name, "a whole number from 0 on"))
        });
        value.transpose()
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        let value = self
            .get(name)
            .map(|value| value.as_f64().ok_or_else(|| wrong(name, "a number")));
        value.transpose()
    }

    /// A list of texts; a single one stands for a list of one.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, Error> {
        let list = match self.get(name) {
            None => return Ok(Vec::new()),
            Some(Json::String(text)) => return Ok(vec![text.clone()]),
            Some(Json::Array(list)) => list.iter(),
            Some(_) => return Err(wrong(name, "a list of texts")),
        };
        list.map(|text| {
            text.as_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong(name, "a list of texts"))
        })
        .collect()
    }

    pub fn objects(&self, name: &str) -> Result<Vec<Body>, Error> {
        objects(&format!("'{name}'"), self.get(name).cloned())
    }

    pub fn object(&self, name: &str) -> Result<Option<Map<String, Json>>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::Object(object)) => Ok(Some(object.clone())),
            Some(_) => Err(wrong(name, "an object")),
        }
    }

    pub fn entries(self) -> Map<String, Json> {
        self.0
    }
}

fn objects(what: &str, value: Option<Json>) -> Result<Vec<Body>, Error> {
    let wrong = || Error::Request(format!("{what} must be a list of objects"));
    let list = match value {
        None => return Ok(Vec::new()),
        Some(Json::Array(list)) => list,
        Some(_) => return Err(wrong()),
    };
    let list = list.into_iter().map(|object| match object {
        Json::Object(object) => Ok(Body(object)),
        _ => Err(wrong()),
    });
    list.collect()
}
