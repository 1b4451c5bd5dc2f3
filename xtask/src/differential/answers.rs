//! What Siddhi answered in earlier runs: its answer to a case never changes, so a seed is asked once
//! however often the engine is mended.
//!
//! A file of lines `{"case": HASH, "answer": ...}` beside the oracle's jar, so that another oracle
//! begins anew.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};

pub struct Answers {
    /// Lines by what they answer.
    known: Mutex<HashMap<u64, String>>,
    file: Mutex<File>,
}

impl Answers {
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path) -> anyhow::Result<Answers> {
        let mut known = HashMap::new();
        if path.is_file() {
            for line in BufReader::new(File::open(path)?).lines() {
                let line = line?;
                // A run that was ended leaves half a line.
                if let Ok(json) = serde_json::from_str::<Json>(&line)
                    && let Some(of) = json["case"].as_u64()
                {
                    known.insert(of, line);
                }
            }
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(b"\n")?;
        Ok(Answers {
            known: Mutex::new(known),
            file: Mutex::new(file),
        })
    }

    pub fn get(&self, case: &Json) -> Option<Json> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let line = known.get(&hash(case))?;
        let mut json: Json = serde_json::from_str(line).ok()?;
        Some(json["answer"].take())
    }

    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, case: &Json, answer: &Json) -> anyhow::Result<()> {
        // Another try may come to an end.
        if answer["status"] == "timeout" {
            return Ok(());
        }
        let of = hash(case);
        let line = json!({ "case": of, "answer": answer }).to_string();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes())?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(of, line);
        Ok(())
    }
}

fn hash(case: &Json) -> u64 {
    let mut hasher = DefaultHasher::new();
    case.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_outlives_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.jsonl");
        let (case, answer) = (json!({ "app": "a" }), json!({ "status": "ok" }));
        let first = Answers::open(&path).unwrap();
        assert_eq!(first.get(&case), None);
        first.keep(&case, &answer).unwrap();
        first
            .keep(&json!({ "app": "b" }), &json!({ "status": "timeout" }))
            .unwrap();
        assert_eq!(first.get(&case), Some(answer.clone()));
        std::fs::write(
            &path,
            std::fs::read_to_string(&path).unwrap() + "{\"case\": 1",
        )
        .unwrap();
        let second = Answers::open(&path).unwrap();
        assert_eq!(second.get(&case), Some(answer));
        assert_eq!(second.get(&json!({ "app": "b" })), None);
    }
}
