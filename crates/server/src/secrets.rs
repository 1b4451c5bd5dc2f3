//! The key store: values for `${secret:NAME}`, encrypted in a file; and what keeps them out of messages.
//!
//! ```text
//! headwater secrets 1
//! base64 of 12 bytes of nonce and of the names and values, encrypted and sealed with AES-256-GCM
//! ```
//!
//! Promises: a file that was changed, or is of another key, is refused; it is written whole or not at all, for
//! its owner alone; two changes at a time both count. Protects a backup or a repository that has the file but not the
//! key. Never: protection from whoever can read both, or the memory of a server.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use serde_json::Value as Json;

use crate::error::Error;
use crate::state::{self, private};

/// The store in a state directory.
pub const FILE: &str = state::SECRETS;

/// The variable of the environment with the key itself, in base64.
pub const KEY: &str = "HEADWATER_SECRETS_KEY";

/// In front of the name of a secret in `${…}`.
pub(crate) const PREFIX: &str = "secret:";

const MARK: &str = "headwater secrets 1\n";

const KEY_LEN: usize = 32;

/// Bytes of the file.
const BYTES_MAX: u64 = 4 << 20;

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "…";

/// Shorter values are in too many innocent words to be hidden in them.
const HIDDEN_MIN: usize = 4;

/// The same for what is not from the key store: it need not be a secret.
const HIDDEN_MIN_OUTSIDE: usize = 8;

/// Bytes of a value.
pub const VALUE_MAX: usize = 64 << 10;

/// Where the store and its key are.
#[derive(Clone, Debug)]
pub struct KeyStore {
    pub path: PathBuf,
    pub key: KeyPlace,
}

/// Never shown: the key.
#[derive(Clone)]
pub enum KeyPlace {
    File(PathBuf),
    /// In base64.
    Given(String),
    Nowhere,
}

impl fmt::Debug for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPlace::File(path) => f.debug_tuple("File").field(path).finish(),
            KeyPlace::Given(_) => f.write_str("Given"),
            KeyPlace::Nowhere => f.write_str("Nowhere"),
        }
    }
}

impl KeyStore {
    /// All names with their values; none if there is no file.
    ///
    /// # Errors
    /// [`Error::Refused`] if the key is not its key, or the file was changed.
    pub fn read(&self) -> Result<BTreeMap<String, String>, Error> {
        let path = &self.path;
        match std::fs::metadata(path) {
            Ok(file) if file.len() <= BYTES_MAX => {}
            Ok(_) => return Err(self.unusable()),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Ok(BTreeMap::new());
            }
            Err(cause) => return Err(Error::file("open", path)(cause)),
        }
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        let sealed = text
            .strip_prefix(MARK)
            .and_then(|text| STANDARD.decode(text.trim_end()).ok())
            .ok_or_else(|| self.unusable())?;
        let Some((nonce, sealed)) = sealed.split_at_checked(NONCE_LEN) else {
            return Err(self.unusable());
        };
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| self.unusable())?;
        let mut keys = vec![self.key()?];
        // A rotation was broken off after the store had its new key.
        if let KeyPlace::File(path) = &self.key
            && let Ok(next) = read_key(&next_of(path))
        {
            keys.push(next);
        }
        let nonce: [u8; NONCE_LEN] = *nonce.as_ref();
        let opened = keys.iter().find_map(|key| {
            let mut sealed = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(nonce);
            let opened = key.open_in_place(nonce, Aad::from(MARK), &mut sealed);
            Some(opened.ok()?.to_vec())
        });
        let opened = opened.ok_or_else(|| self.unusable())?;
        serde_json::from_slice(&opened).map_err(|_| self.unusable())
    }

    /// Changes names and values.
    ///
    /// # Errors
    /// As [`KeyStore::read`], and those of files.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, String>) -> T,
    ) -> Result<T, Error> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let made = change(&mut all);
        self.write(&all, &self.key()?)?;
        Ok(made)
    }

    /// Until it is dropped, nobody else changes the store.
    fn lock(&self) -> Result<File, Error> {
        let path = beside(&self.path, ".lock");
        let mut options = File::options();
        let options = private(options.create(true).truncate(false).write(true));
        let file = options.open(&path).map_err(Error::file("open", &path))?;
        file.lock().map_err(Error::file("lock", &path))?;
        Ok(file)
    }

    fn write(&self, all: &BTreeMap<String, String>, key: &LessSafeKey) -> Result<(), Error> {
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        let mut sealed = serde_json::to_vec(all).map_err(|_| self.unusable())?;
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(MARK),
            &mut sealed,
        )
        .map_err(|_| self.unusable())?;
        let text = STANDARD.encode([&nonce[..], &sealed].concat());
        if (MARK.len() + text.len()) as u64 + 1 > BYTES_MAX {
            return Err(Error::Refused(format!(
                "the key store '{}' would be larger than {BYTES_MAX} bytes: delete secrets that nobody needs",
                self.path.display()
            )));
        }
        state::write_whole(&self.path, &[MARK.as_bytes(), text.as_bytes(), b"\n"])
    }

    /// Makes the file of the key, if neither it nor the store is there. Was it made?
    ///
    /// # Errors
    /// Those of files.
    pub fn make_key(&self) -> Result<bool, Error> {
        let KeyPlace::File(path) = &self.key else {
            return Ok(false);
        };
        if path.exists() || self.path.exists() {
            return Ok(false);
        }
        write_key(path)?;
        Ok(true)
    }

    /// Encrypts all values anew, with a new key, which takes the place of the old one in its file. A rotation that is
    /// broken off leaves a store that can be read.
    ///
    /// # Errors
    /// As [`KeyStore::change`]; [`Error::Usage`] if the key is not in a file.
    pub fn rotate(&self) -> Result<(), Error> {
        let KeyPlace::File(path) = &self.key else {
            return Err(Error::Usage(format!(
                "a new key needs a file to be put into: write the key of {KEY} into one, and name it with \
                 --secrets-key-file"
            )));
        };
        let _lock = self.lock()?;
        let all = self.read()?;
        let next = next_of(path);
        write_key(&next)?;
        self.write(&all, &read_key(&next)?)?;
        std::fs::rename(&next, path).map_err(Error::file("rename", &next))?;
        state::sync_parent_of(path).map_err(Error::file("sync the folder of", path))
    }

    fn key(&self) -> Result<LessSafeKey, Error> {
        match &self.key {
            KeyPlace::Given(text) => key_of(text, KEY),
            KeyPlace::File(path) => read_key(path),
            KeyPlace::Nowhere => Err(Error::Usage(format!(
                "the key store '{}' needs its key: name its file with --secrets-key-file \
                 (HEADWATER_SECRETS_KEY_FILE), or give it in {KEY}",
                self.path.display()
            ))),
        }
    }

    fn unusable(&self) -> Error {
        Error::Refused(format!(
            "the key store '{}' cannot be opened: it was changed, or has another key; give its key with \
             --secrets-key-file or {KEY}, or restore the file",
            self.path.display()
        ))
    }
}

/// Can this be the name of a secret?
pub fn is_name(name: &str) -> bool {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=100).contains(&name.len()) && name.chars().all(is_taken)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Where the new key is while a store is given it.
fn next_of(path: &Path) -> PathBuf {
    beside(path, ".next")
}

fn write_key(path: &Path) -> Result<(), Error> {
    let mut key = [0; KEY_LEN];
    random(&mut key)?;
    state::write_whole(path, &[STANDARD.encode(key).as_bytes(), b"\n"])
}

fn read_key(path: &Path) -> Result<LessSafeKey, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    key_of(&text, &format!("file '{}'", path.display()))
}

fn key_of(text: &str, place: &str) -> Result<LessSafeKey, Error> {
    let bytes = STANDARD.decode(text.trim()).ok();
    let key = bytes.and_then(|bytes| UnboundKey::new(&AES_256_GCM, &bytes).ok());
    let key = key.ok_or_else(|| {
        Error::Refused(format!(
            "the key in {place} is not {KEY_LEN} bytes in base64: make one with 'openssl rand -base64 {KEY_LEN}'"
        ))
    })?;
    Ok(LessSafeKey::new(key))
}

fn random(into: &mut [u8]) -> Result<(), Error> {
    let filled = SystemRandom::new().fill(into);
    filled.map_err(|_| Error::Refused("the system gives no random numbers".to_owned()))
}

/// Values of the key store, of files and of variables that are secrets, which no message shows. Clones share them.
#[derive(Clone, Default)]
pub struct Hidden(Arc<RwLock<Vec<String>>>);

impl Hidden {
    /// Hides a value from now on, also as JSON writes it, and JSON in a text of JSON.
    pub fn add(&self, value: &str) {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let quoted = |value: &str| {
            let quoted = serde_json::Value::from(value).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        let once = quoted(value);
        let twice = quoted(&once);
        for value in [value.to_owned(), once, twice] {
            if value.len() >= HIDDEN_MIN && !values.contains(&value) {
                values.push(value);
            }
        }
        // One that is part of another must not leave the rest of it.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// The same for what may be no secret: short values stay.
    fn add_outside(&self, value: &str) {
        if value.len() >= HIDDEN_MIN_OUTSIDE {
            self.add(value);
        }
    }

    pub fn is_empty(&self) -> bool {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        values.is_empty()
    }

    /// The text with [`HIDDEN`] for each of them.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = Cow::Borrowed(text);
        for value in values.iter().filter(|value| !value.is_empty()) {
            if text.contains(&**value) {
                text = Cow::Owned(text.replace(&**value, HIDDEN));
            }
        }
        text
    }

    /// The same in bytes that may be no text.
    pub fn hide_bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Cow::Borrowed(bytes);
        for value in values.iter().filter(|value| !value.is_empty()) {
            let mut hidden = Vec::new();
            let mut rest = 0;
            for at in memmem::find_iter(&bytes, value.as_bytes()) {
                hidden.extend_from_slice(&bytes[rest..at]);
                hidden.extend_from_slice(HIDDEN.as_bytes());
                rest = at + value.len();
            }
            if rest > 0 {
                hidden.extend_from_slice(&bytes[rest..]);
                bytes = Cow::Owned(hidden);
            }
        }
        bytes
    }

    /// The same in all texts of a document.
    pub fn hide_in(&self, json: &mut Json) {
        match json {
            Json::String(text) => {
                if let Cow::Owned(hidden) = self.hide(text) {
                    *text = hidden;
                }
            }
            Json::Array(all) => all.iter_mut().for_each(|json| self.hide_in(json)),
            Json::Object(all) => all.values_mut().for_each(|json| self.hide_in(json)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

/// The secrets of a server: where they are, and what is to be kept out of messages.
#[derive(Clone, Default)]
pub struct Secrets {
    pub store: Option<KeyStore>,
    pub hidden: Hidden,
}

impl Secrets {
    /// For one start or reload: the store is opened when the first secret is asked for.
    pub fn open(&self) -> Opened<'_> {
        Opened {
            secrets: self,
            values: OnceCell::new(),
            variables: RefCell::default(),
        }
    }

    /// Hides all values of the store, for a command that shows what a server has kept; none where the store
    /// cannot be opened, which need not be there for it.
    pub fn hide_all(&self) {
        let values = self.store.as_ref().and_then(|store| store.read().ok());
        for value in values.unwrap_or_default().values() {
            self.hidden.add(value);
        }
    }
}

/// The values of a store, as they were when the first was asked for.
pub struct Opened<'s> {
    secrets: &'s Secrets,
    values: OnceCell<Result<BTreeMap<String, String>, Error>>,
    /// Values of the environment that were asked for, and whose names do not say whether they are secrets.
    variables: RefCell<Vec<String>>,
}

impl Opened<'_> {
    /// The value of `secret:NAME`, or of a variable; `None` if there is none, or if the store cannot be
    /// opened, of which [`Opened::close`] tells.
    pub fn value(&self, variable: &str) -> Option<String> {
        let Some(name) = variable.strip_prefix(PREFIX) else {
            let value = crate::variable::value(variable)?;
            match variable.starts_with("file:") || check::secret::is_secret(variable) {
                true => self.secrets.hidden.add_outside(&value),
                false => self.variables.borrow_mut().push(value.clone()),
            }
            return Some(value);
        };
        let values = self.values.get_or_init(|| match &self.secrets.store {
            Some(store) => store.read(),
            None => Ok(BTreeMap::new()),
        });
        let value = values.as_ref().ok()?.get(name)?;
        self.secrets.hidden.add(value);
        Some(value.clone())
    }

    /// Hides the values of the environment that are secrets in `text`, where they have been put in: an option's
    /// name, or a place in a URL, says that they are.
    pub fn hide_secrets_of(&self, text: &str, catalog: &check::Catalog) {
        let variables = self.variables.borrow();
        if variables.is_empty() {
            return;
        }
        let shown = check::secret::hidden(text, catalog);
        for value in variables.iter().filter(|value| !value.is_empty()) {
            let count = |text: &str| text.matches(value.as_str()).count();
            if count(&shown) < count(text) {
                self.secrets.hidden.add_outside(value);
            }
        }
    }

    /// # Errors
    /// Why the store could not be opened, if a secret was asked for.
    pub fn close(self) -> Result<(), Error> {
        self.values.into_inner().transpose().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn store(dir: &Path) -> KeyStore {
        KeyStore {
            path: dir.join("secrets"),
            key: KeyPlace::File(dir.join("key")),
        }
    }

    #[test]
    fn values_come_back_with_the_key_and_with_no_other() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store(dir.path());
        assert!(store.change(|_| ()).is_err(), "there is no key");
        assert!(store.make_key().expect("it can be written"));
        assert!(!store.make_key().expect("it is there"));
        let set = |name: &str, value: &str| {
            let changed = store.change(|all| _ = all.insert(name.to_owned(), value.to_owned()));
            changed.expect("it can be written");
        };
        set("db", "tréasure \"1\"");
        let first = std::fs::read(&store.path).expect("it was written");
        set("db", "tréasure \"1\"");
        let bytes = std::fs::read(&store.path).expect("it was written");
        assert_ne!(first, bytes, "no two are sealed alike");
        set("api", "x");
        let all = store.read().expect("with the key");
        assert_eq!(all["db"], "tréasure \"1\"");
        assert_eq!(all.len(), 2);
        let text = std::fs::read_to_string(&store.path).expect("text");
        assert!(!text.contains("db") && !text.contains("asure"), "{text}");
        let other = KeyStore {
            key: KeyPlace::Given(STANDARD.encode([7; KEY_LEN])),
            ..store.clone()
        };
        let error = other.read().expect_err("another key").to_string();
        assert!(error.contains("another key"), "{error}");
        assert!(!format!("{other:?}").contains(&STANDARD.encode([7; KEY_LEN])));
        for at in 0..bytes.len() - 1 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&store.path, changed).expect("it can be written");
            assert!(store.read().is_err(), "byte {at}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let key = std::fs::metadata(dir.path().join("key")).expect("it was made");
            assert_eq!(key.permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_rotation_gives_the_store_another_key_and_may_be_broken_off() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = store(dir.path());
        let key = dir.path().join("key");
        store.make_key().expect("it can be written");
        let set = store.change(|all| _ = all.insert("db".to_owned(), "treasure".to_owned()));
        set.expect("it can be written");
        let old = std::fs::read(&key).expect("it was made");
        // The store has its new key, and its file has not.
        std::fs::write(next_of(&key), STANDARD.encode([7; KEY_LEN])).expect("it can be written");
        let next = read_key(&next_of(&key)).expect("a key");
        store
            .write(&store.read().expect("with the key"), &next)
            .expect("it can be written");
        assert_eq!(store.read().expect("with the next key")["db"], "treasure");
        assert_eq!(std::fs::read(&key).expect("it is there"), old);
        store.rotate().expect("it can be written");
        assert_eq!(store.read().expect("with the new key")["db"], "treasure");
        assert_ne!(std::fs::read(&key).expect("it is there"), old);
        assert!(!next_of(&key).exists());
        let given = KeyStore {
            key: KeyPlace::Nowhere,
            ..store
        };
        let error = given.read().expect_err("there is no key").to_string();
        assert!(error.contains("--secrets-key-file"), "{error}");
        assert!(given.rotate().is_err());
    }

    #[test]
    fn a_store_is_opened_only_if_a_secret_is_asked_for() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut secrets = Secrets::default();
        assert_eq!(secrets.open().value("secret:db"), None);
        let store = store(dir.path());
        store.make_key().expect("it can be written");
        let set = store.change(|all| _ = all.insert("db".to_owned(), "treasure".to_owned()));
        set.expect("it can be written");
        secrets.store = Some(KeyStore {
            key: KeyPlace::Nowhere,
            ..store.clone()
        });
        let opened = secrets.open();
        assert!(opened.value("PATH").is_some());
        opened.close().expect("nobody asked for a secret");
        let opened = secrets.open();
        assert_eq!(opened.value("secret:db"), None);
        assert!(opened.close().is_err());
        secrets.store = Some(store);
        let opened = secrets.open();
        assert_eq!(opened.value("secret:db").as_deref(), Some("treasure"));
        assert_eq!(opened.value("secret:other"), None);
        opened.close().expect("with the key");
        assert_eq!(secrets.hidden.hide("a treasure"), "a …");
    }

    #[test]
    fn what_is_hidden_is_in_no_text_whatever_is_around_it() {
        let hidden = Hidden::default();
        assert_eq!(hidden.hide("all"), "all");
        hidden.add("abcd");
        hidden.clone().add("xabcdx");
        hidden.add("say \"hi\"\n");
        hidden.add("no");
        assert_eq!(hidden.hide("no xabcdx, abcdabcd"), "no …, ……");
        let json = serde_json::json!({ "a": "it is say \"hi\"\n" }).to_string();
        assert_eq!(hidden.hide(&json), r#"{"a":"it is …"}"#);
        let mut nested = serde_json::json!({ "payload": json, "rows": [["xabcdx", 1]] });
        assert_eq!(
            hidden.hide(&nested.to_string()),
            r#"{"payload":"{\"a\":\"it is …\"}","rows":[["…",1]]}"#
        );
        hidden.hide_in(&mut nested);
        assert_eq!(
            nested,
            serde_json::json!({ "payload": r#"{"a":"it is …"}"#, "rows": [["…", 1]] })
        );
    }

    #[test]
    fn what_is_from_outside_is_hidden_where_it_is_a_secret() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("it can be written");
            format!("file:{}", dir.path().join(name).display())
        };
        let secrets = Secrets::default();
        let opened = secrets.open();
        opened.value(&write("long", "of-a-file\n"));
        opened.value(&write("short", "port\n"));
        assert_eq!(secrets.hidden.hide("of-a-file port"), "… port");
        // As two variables of the environment.
        let variables = ["warehouse-1", "sesame-open"].map(str::to_owned);
        *opened.variables.borrow_mut() = variables.to_vec();
        let text = "@source(type='http', basic.auth.password='sesame-open', host='warehouse-1')";
        opened.hide_secrets_of(text, &catalog::full());
        let said = secrets.hidden.hide("sesame-open at warehouse-1");
        assert_eq!(said, "… at warehouse-1");
    }
}
