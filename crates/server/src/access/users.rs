//! The users of a server and their tokens, in one file.
//!
//! ```text
//! headwater users 1 CRC-32 of what follows, as 8 hexadecimal digits
//! {"users":[…]}
//! ```
//!
//! Promises: a file that changed since it was written is refused, never read in part; it is written whole
//! or not at all, for its owner alone. Never: a password or a token in it, only what proves them
//! (Argon2id of a password, SHA-256 of a token, which has 256 random bits); a user that nobody has added.

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value as Json, json};

use super::Role;
use crate::error::Error;
use crate::state;

/// Name of the file in a state directory.
pub const FILE: &str = "users";

/// First line of the file, in front of the checksum.
const MARK: &str = "headwater users 1 ";

/// Bytes of the file.
const BYTES_MAX: u64 = 4 << 20;

const USERS_MAX: usize = 1000;

/// Of one user.
const TOKENS_MAX: usize = 100;

const NAME_MAX: usize = 64;

/// Characters of a password.
const PASSWORD_MIN: usize = 12;

/// Bytes of a password, also of one that is only tried.
pub(crate) const PASSWORD_MAX: usize = 1024;

/// What every token begins with, so that scanners for leaked secrets find it.
pub(crate) const TOKEN_PREFIX: &str = "hw_";

/// Kibibytes and passes of Argon2id, as OWASP recommends; a stored hash names its own.
const COST: (u32, u32) = (19 * 1024, 2);

/// More than that a damaged or foreign file cannot make a login cost.
const COST_MAX: (u32, u32) = (256 * 1024, 16);

const SALT_LEN: usize = 16;
const HASH_LEN: usize = 32;

/// Those of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Users {
    pub users: Vec<User>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    pub name: String,
    pub role: Role,
    /// `None`: logs in by tokens alone.
    pub password: Option<PasswordHash>,
    pub tokens: Vec<Token>,
}

/// What proves a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasswordHash {
    memory: u32,
    passes: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// To name it by; says nothing about the token itself.
    pub id: String,
    /// No more than the role of its user counts.
    pub role: Role,
    /// Milliseconds since 1970.
    pub created: i64,
    pub expires: Option<i64>,
    hash: Vec<u8>,
}

/// The only time that a token is in the clear.
pub struct NewToken {
    pub id: String,
    pub secret: String,
}

impl Users {
    /// Those of a file; none if there is no file.
    ///
    /// # Errors
    /// [`Error::Refused`] if it cannot be read or was changed since it was written.
    pub fn read(path: &Path) -> Result<Option<Users>, Error> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::file("open", path)(cause)),
        };
        let mut text = String::new();
        let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(Error::file("read", path))?;
        let damaged = || {
            Error::Refused(format!(
                "the file of users '{}' is damaged: restore it from a backup, or remove it and add the users \
                 again (headwater users add)",
                path.display()
            ))
        };
        let parsed = Users::parse(&text).filter(|_| text.len() as u64 <= BYTES_MAX);
        parsed.map(Some).ok_or_else(damaged)
    }

    fn parse(text: &str) -> Option<Users> {
        let (head, body) = text.strip_prefix(MARK)?.split_once('\n')?;
        if u32::from_str_radix(head, 16).ok()? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let json: Json = serde_json::from_str(body).ok()?;
        let users = json["users"].as_array()?.iter().map(User::of_json);
        Some(Users {
            users: users.collect::<Option<_>>()?,
        })
    }

    fn to_text(&self) -> String {
        let users: Vec<Json> = self.users.iter().map(User::to_json).collect();
        let body = format!("{}\n", json!({ "users": users }));
        format!("{MARK}{:08x}\n{body}", crc32fast::hash(body.as_bytes()))
    }

    /// Changes the users of a file, which another command cannot change meanwhile.
    ///
    /// # Errors
    /// Those of `change`, of [`Users::read`], and of files.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Users) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            state::create_dir(dir)?;
        }
        let lock_path = lock_path(path);
        let lock = state::private(File::options().create(true).truncate(false).write(true))
            .open(&lock_path)
            .map_err(Error::file("open", &lock_path))?;
        lock.lock().map_err(Error::file("lock", &lock_path))?;
        let mut users = Users::read(path)?.unwrap_or_default();
        let made = change(&mut users)?;
        state::write_whole(path, &[users.to_text().as_bytes()])?;
        Ok(made)
    }

    pub fn get(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// The user of a name, to be changed.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none.
    pub fn of_name(&mut self, name: &str) -> Result<&mut User, Error> {
        let names: Vec<&str> = self.users.iter().map(|user| &*user.name).collect();
        let known = match names.is_empty() {
            true => "there are no users: headwater users add NAME --role ROLE".to_owned(),
            false => format!("there is {}", names.join(", ")),
        };
        let found = self.users.iter_mut().find(|user| user.name == name);
        found.ok_or_else(|| Error::Refused(format!("there is no user '{name}'; {known}")))
    }

    /// # Errors
    /// [`Error::Refused`] if there is one of that name, or too many.
    pub fn add(&mut self, name: &str, role: Role) -> Result<&mut User, Error> {
        check_name(name)?;
        if self.get(name).is_some() {
            return Err(Error::Refused(format!("there is a user '{name}' already")));
        }
        if self.users.len() >= USERS_MAX {
            let message = format!("there are {USERS_MAX} users, and no room for more");
            return Err(Error::Refused(message));
        }
        self.users.push(User {
            name: name.to_owned(),
            role,
            password: None,
            tokens: Vec::new(),
        });
        self.of_name(name)
    }

    /// # Errors
    /// [`Error::Refused`] if there is none.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.of_name(name)?;
        self.users.retain(|user| user.name != name);
        Ok(())
    }

    /// Whose token it is, and what it may do, at a time in milliseconds since 1970.
    pub(crate) fn of_token(&self, secret: &str, now: i64) -> Option<(&User, Role)> {
        let hash = digest(&SHA256, secret.as_bytes());
        let mut found = None;
        for user in &self.users {
            for token in &user.tokens {
                // All are compared, whichever it is.
                if is_same(&token.hash, hash.as_ref()) && token.is_valid(now) {
                    found = Some((user, token.role.min(user.role)));
                }
            }
        }
        found
    }
}

impl User {
    /// # Errors
    /// [`Error::Refused`] if it is too short or too long.
    pub fn set_password(&mut self, password: &str) -> Result<(), Error> {
        if password.chars().count() < PASSWORD_MIN || password.len() > PASSWORD_MAX {
            return Err(Error::Refused(format!(
                "a password has at least {PASSWORD_MIN} characters and at most {PASSWORD_MAX} bytes"
            )));
        }
        self.password = Some(PasswordHash::new(password)?);
        Ok(())
    }

    /// A new token, valid until a time in milliseconds since 1970.
    ///
    /// # Errors
    /// [`Error::Refused`] if the role is more than the user's, or there are too many tokens.
    pub fn add_token(
        &mut self,
        role: Role,
        now: i64,
        expires: Option<i64>,
    ) -> Result<NewToken, Error> {
        if role > self.role {
            return Err(Error::Refused(format!(
                "user '{}' has the role {}: a token of it cannot have the role {role}",
                self.name, self.role
            )));
        }
        // Those that have expired are of no use to anybody.
        self.tokens.retain(|token| token.is_valid(now));
        if self.tokens.len() >= TOKENS_MAX {
            return Err(Error::Refused(format!(
                "user '{}' has {TOKENS_MAX} tokens: remove one first (headwater users revoke {} ID)",
                self.name, self.name
            )));
        }
        let secret = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<32>()?));
        let id: String = random::<4>()?.iter().map(|b| format!("{b:02x}")).collect();
        self.tokens.push(Token {
            id: id.clone(),
            role,
            created: now,
            expires,
            hash: digest(&SHA256, secret.as_bytes()).as_ref().to_vec(),
        });
        Ok(NewToken { id, secret })
    }

    /// # Errors
    /// [`Error::Refused`] if there is no token of that id.
    pub fn revoke(&mut self, id: &str) -> Result<(), Error> {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id);
        if self.tokens.len() == before {
            let ids: Vec<&str> = self.tokens.iter().map(|token| &*token.id).collect();
            return Err(Error::Refused(format!(
                "user '{}' has no token '{id}'; it has: {}",
                self.name,
                ids.join(", ")
            )));
        }
        Ok(())
    }

    fn to_json(&self) -> Json {
        let tokens = self.tokens.iter().map(|token| {
            json!({
                "id": token.id,
                "role": token.role.name(),
                "created": token.created,
                "expires": token.expires,
                "sha256": URL_SAFE_NO_PAD.encode(&token.hash),
            })
        });
        json!({
            "name": self.name,
            "role": self.role.name(),
            "password": self.password.as_ref().map(|password| json!({
                "argon2id": URL_SAFE_NO_PAD.encode(&password.hash),
                "salt": URL_SAFE_NO_PAD.encode(&password.salt),
                "memory": password.memory,
                "passes": password.passes,
            })),
            "tokens": tokens.collect::<Vec<Json>>(),
        })
    }

    fn of_json(json: &Json) -> Option<User> {
        let bytes = |json: &Json| URL_SAFE_NO_PAD.decode(json.as_str()?).ok();
        let number = |json: &Json| u32::try_from(json.as_u64()?).ok();
        let role = |json: &Json| json["role"].as_str()?.parse().ok();
        let password = match &json["password"] {
            Json::Null => None,
            password => Some(PasswordHash {
                hash: bytes(&password["argon2id"])?,
                salt: bytes(&password["salt"])?,
                memory: number(&password["memory"]).filter(|n| *n <= COST_MAX.0)?,
                passes: number(&password["passes"]).filter(|n| *n <= COST_MAX.1)?,
            }),
        };
        let tokens = json["tokens"].as_array()?.iter().map(|token| {
            Some(Token {
                id: token["id"].as_str()?.to_owned(),
                role: role(token)?,
                created: token["created"].as_i64()?,
                expires: token["expires"].as_i64(),
                hash: bytes(&token["sha256"])?,
            })
        });
        Some(User {
            name: json["name"].as_str()?.to_owned(),
            role: role(json)?,
            password,
            tokens: tokens.collect::<Option<_>>()?,
        })
    }
}

impl Token {
    pub fn is_valid(&self, now: i64) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl PasswordHash {
    fn new(password: &str) -> Result<PasswordHash, Error> {
        let mut made = PasswordHash {
            memory: COST.0,
            passes: COST.1,
            salt: random::<SALT_LEN>()?.to_vec(),
            hash: Vec::new(),
        };
        made.hash = made.of(password).ok_or_else(|| {
            Error::Refused("the password cannot be hashed: there is too little memory".to_owned())
        })?;
        Ok(made)
    }

    /// One that no password has, which costs as much to try.
    pub(crate) fn of_nobody() -> PasswordHash {
        PasswordHash {
            memory: COST.0,
            passes: COST.1,
            salt: vec![0; SALT_LEN],
            hash: Vec::new(),
        }
    }

    /// Takes tens of milliseconds and of megabytes.
    pub(crate) fn is_of(&self, password: &str) -> bool {
        let hash = self.of(password);
        hash.is_some_and(|hash| is_same(&hash, &self.hash))
    }

    fn of(&self, password: &str) -> Option<Vec<u8>> {
        let params = Params::new(self.memory, self.passes, 1, Some(HASH_LEN)).ok()?;
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut hash = vec![0; HASH_LEN];
        let made = argon.hash_password_into(password.as_bytes(), &self.salt, &mut hash);
        made.ok().map(|()| hash)
    }
}

/// The time that it takes says nothing of where they differ.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    let pairs = left.iter().zip(right);
    let differences = pairs.fold(0, |all, (l, r)| black_box(all | (l ^ r)));
    left.len() == right.len() && differences == 0
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::Refused("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_taken) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "'{}' cannot be the name of a user: write 1 to {NAME_MAX} letters, digits or . _ - @",
        name.escape_debug()
    )))
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_user(path: &Path) -> NewToken {
        let added = Users::change(path, |users| {
            let user = users.add("anna", Role::Operate)?;
            user.set_password("correct horse battery")?;
            user.add_token(Role::Read, 1000, Some(2000))
        });
        added.expect("it is added")
    }

    #[test]
    fn users_come_back_from_their_file_which_holds_no_secret() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("users");
        assert_eq!(Users::read(&path).expect("no file"), None);
        let token = with_user(&path);
        let text = std::fs::read_to_string(&path).expect("it was written");
        assert!(
            !text.contains(&token.secret) && !text.contains("horse"),
            "{text}"
        );
        let users = Users::read(&path).expect("whole").expect("there");
        let anna = users.get("anna").expect("she was added");
        let password = anna.password.as_ref().expect("it was set");
        assert!(password.is_of("correct horse battery"));
        assert!(!password.is_of("correct horse batterz") && !password.is_of(""));
        assert!(!PasswordHash::of_nobody().is_of(""));
        let of = |secret: &str, now| {
            users
                .of_token(secret, now)
                .map(|(u, role)| (&*u.name, role))
        };
        assert_eq!(of(&token.secret, 1999), Some(("anna", Role::Read)));
        assert_eq!(of(&token.secret, 2000), None, "expired");
        assert_eq!(of(&format!("{}x", token.secret), 1999), None);
        assert_eq!(of("", 1999), None);
        assert_eq!(token.secret.len(), TOKEN_PREFIX.len() + 43, "256 bits");
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("new").join("users");
        with_user(&path);
        let mode = |path: &Path| {
            let metadata = std::fs::metadata(path).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&lock_path(&path)), 0o600);
        assert_eq!(mode(path.parent().expect("a directory")), 0o700);
    }

    #[test]
    fn a_changed_file_is_refused_wherever_it_was_changed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("users");
        with_user(&path);
        let whole = std::fs::read(&path).expect("it was written");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, &bytes).expect("it can be written");
            let read = Users::read(&path);
            assert!(read.is_err(), "byte {at}: {read:?}");
        }
        std::fs::write(&path, &whole[..whole.len() - 3]).expect("it can be written");
        let error = Users::read(&path).expect_err("cut");
        assert!(error.to_string().contains("is damaged"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_reason() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("users");
        with_user(&path);
        let refused = |change: fn(&mut Users) -> Result<(), Error>, part: &str| {
            let error = Users::change(&path, change).expect_err(part);
            assert!(error.to_string().contains(part), "{error}");
        };
        refused(|u| u.add("anna", Role::Read).map(drop), "already");
        refused(
            |u| u.add("a\nb", Role::Read).map(drop),
            "cannot be the name",
        );
        refused(|u| u.add("", Role::Read).map(drop), "cannot be the name");
        refused(|u| u.remove("bob"), "there is no user 'bob'; there is anna");
        refused(|u| u.of_name("anna")?.set_password("short"), "at least 12");
        refused(
            |u| u.of_name("anna")?.add_token(Role::Admin, 0, None).map(drop),
            "cannot have the role admin",
        );
        refused(|u| u.of_name("anna")?.revoke("x"), "has no token 'x'");
        let removed = Users::change(&path, |u| u.remove("anna"));
        removed.expect("she is there");
        let left = Users::read(&path).expect("whole").expect("still a file");
        assert!(left.users.is_empty());
    }
}
