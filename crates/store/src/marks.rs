//! Up to which time incremental scripts have read, by the id that they give it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::PoisonError;

use serde_json::{Map, Value as Json, json};

use crate::error::Error;
use crate::paths::replace;
use crate::store::EventStore;

const FILE: &str = "incremental.json";

/// Milliseconds since 1970.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The last row of the last run.
    pub temporary: Option<i64>,
    /// The same of the last run that was committed.
    pub primary: Option<i64>,
}

pub type Marks = BTreeMap<String, Mark>;

impl EventStore {
    /// # Errors
    /// They cannot be read, or are damaged.
    pub fn marks(&self) -> Result<Marks, Error> {
        read(self.dir())
    }

    /// Changes marks in a way that lasts, all or none of them; what they were before.
    ///
    /// # Errors
    /// They cannot be read or written, or are damaged.
    pub fn change_marks(&self, change: impl FnOnce(&mut Marks)) -> Result<Marks, Error> {
        let alone = self.shared().marks.lock();
        let _alone = alone.unwrap_or_else(PoisonError::into_inner);
        let before = read(self.dir())?;
        let mut marks = before.clone();
        change(&mut marks);
        if marks != before {
            let entries = marks.iter().map(|(id, mark)| {
                let json = json!({"temporary": mark.temporary, "primary": mark.primary});
                (id.clone(), json)
            });
            let json = Json::Object(entries.collect::<Map<_, _>>());
            replace(&self.dir().join(FILE), json.to_string().as_bytes())?;
        }
        Ok(before)
    }
}

pub(crate) fn read(dir: &Path) -> Result<Marks, Error> {
    let path = dir.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Marks::new()),
        Err(cause) => return Err(Error::file("read", &path)(cause)),
    };
    let json: Map<String, Json> = serde_json::from_str(&text)
        .map_err(|cause| Error::damaged(&path, format!("it is not JSON: {cause}")))?;
    let marks = json.into_iter().map(|(id, mark)| {
        let mark = Mark {
            temporary: mark["temporary"].as_i64(),
            primary: mark["primary"].as_i64(),
        };
        (id, mark)
    });
    Ok(marks.collect())
}
