//! Judges the logins of requests.
//!
//! Promises: once there is a file of users, nobody gets in without a login until the server ends, also if
//! the file is emptied, damaged or removed; a change to the file counts from the next request on; the time
//! of a refusal does not tell whether a user exists. At most [`HASHES_MAX`] passwords are judged at once.
//! Never: a password or token in a message, or kept (for [`KEEP`], what proves that it was right).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use connect::retry::Burst;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;

use super::Role;
use super::limiter::{Key, Limiter};
use super::users::{PASSWORD_MAX, PasswordHash, Users};
use crate::clock;
use crate::error::Error;

/// Passwords that are judged at once, each with 19 MiB.
const HASHES_MAX: usize = 2;

/// For how long a password that was right need not be judged again.
const KEEP: Duration = Duration::from_secs(300);

/// Passwords that were right and are remembered.
const KEPT_MAX: usize = 1000;

/// What a request shows.
pub(crate) enum Shown {
    Nothing,
    Token(String),
    Password {
        user: String,
        password: String,
    },
    /// A header that is neither.
    Unreadable,
}

/// How a login went.
#[derive(Debug)]
pub(crate) enum Login {
    /// Nobody has to log in here.
    NotNeeded,
    Is {
        user: Arc<str>,
        role: Role,
    },
    /// Nothing was shown.
    Missing,
    /// What was shown is wrong; with the name that was given.
    Wrong(Option<String>),
    /// After too many failures; nothing was judged.
    Wait(Duration),
}

/// The users of a server, as their file says now.
pub(crate) struct Logins {
    path: Option<PathBuf>,
    loaded: Mutex<Loaded>,
    limiter: Mutex<Limiter>,
    /// What proves a password that was right, of the users as loaded.
    kept: Mutex<HashMap<Vec<u8>, Instant>>,
    key: hmac::Key,
    hashing: Semaphore,
    failures: Burst,
}

#[derive(Default)]
struct Loaded {
    /// Of the file: when it was written, its length and its number.
    stamp: Option<Stamp>,
    /// `None`: there has never been a file.
    users: Option<Arc<Users>>,
}

type Stamp = (Option<SystemTime>, u64, u64);

impl Logins {
    /// Those of a file, or of nobody.
    ///
    /// # Errors
    /// As [`Users::read`].
    pub fn new(path: Option<PathBuf>) -> Result<Logins, Error> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key =
            key.map_err(|_| Error::Refused("the system gives no random numbers".to_owned()))?;
        let users = match &path {
            None => None,
            Some(path) => Users::read(path)?,
        };
        Ok(Logins {
            loaded: Mutex::new(Loaded {
                stamp: path.as_deref().and_then(stamp),
                users: users.map(Arc::new),
            }),
            path,
            limiter: Mutex::default(),
            kept: Mutex::default(),
            key,
            hashing: Semaphore::new(HASHES_MAX),
            failures: Burst::default(),
        })
    }

    /// Those that count now; `None`: nobody has to log in.
    pub fn users(&self) -> Option<Arc<Users>> {
        let mut loaded = lock(&self.loaded);
        let Some(path) = &self.path else {
            return loaded.users.clone();
        };
        let now = stamp(path);
        if now != loaded.stamp {
            let read = match now {
                Some(_) => Users::read(path),
                None => Ok(None),
            };
            match read {
                Ok(users) => {
                    // Without the file nobody is let in any more, where somebody had to log in before.
                    let users = users.or_else(|| loaded.users.as_ref().map(|_| Users::default()));
                    loaded.users = users.map(Arc::new);
                    loaded.stamp = now;
                    lock(&self.kept).clear();
                }
                Err(cause) => {
                    loaded.users = Some(Arc::default());
                    lock(&self.kept).clear();
                    if let Some(times) = self.failures.note() {
                        tracing::error!(%cause, times, "cannot read the users: nobody is let in until it can");
                    }
                }
            }
        }
        loaded.users.clone()
    }

    /// Judges what a request from an address shows.
    pub async fn judge(&self, shown: Shown, from: IpAddr) -> Login {
        let Some(users) = self.users() else {
            return Login::NotNeeded;
        };
        let address = Key::address(from);
        match shown {
            Shown::Nothing => Login::Missing,
            Shown::Token(secret) => {
                // A right token is let in whatever others behind its address have tried: 256 bits cannot be
                // guessed, so a limit is for the log and the processor alone.
                if let Some((user, role)) = users.of_token(&secret, clock::wall_millis()) {
                    let user = Arc::from(&*user.name);
                    return Login::Is { user, role };
                }
                self.wrong(vec![address], None)
            }
            Shown::Unreadable => self.wrong(vec![address], None),
            Shown::Password { user, password } => {
                self.judge_password(&users, &user, password, address).await
            }
        }
    }

    async fn judge_password(
        &self,
        users: &Users,
        name: &str,
        password: String,
        address: Key,
    ) -> Login {
        let known = users.get(name);
        // The longest name that a user can have is shorter than this.
        let name: String = name.chars().take(64).collect();
        let keys = vec![address, Key::User(name.clone())];
        let proof = format!("{name}\0{password}");
        let proof = hmac::sign(&self.key, proof.as_bytes()).as_ref().to_vec();
        let now = Instant::now();
        if let Some(user) = known
            && let Some(since) = lock(&self.kept).get(&proof)
            && now.duration_since(*since) < KEEP
        {
            return Login::Is {
                user: Arc::from(&*user.name),
                role: user.role,
            };
        }
        if let Some(wait) = lock(&self.limiter).wait(&keys, now) {
            return Login::Wait(wait);
        }
        // An unknown user takes as long as a wrong password.
        let hash = known.and_then(|user| user.password.clone());
        let hash = hash.unwrap_or_else(PasswordHash::of_nobody);
        let is_right = match self.hashing.acquire().await {
            Ok(_permit) if password.len() <= PASSWORD_MAX => {
                let judged = tokio::task::spawn_blocking(move || hash.is_of(&password));
                judged.await.unwrap_or(false)
            }
            _ => false,
        };
        match known {
            Some(user) if is_right => {
                lock(&self.limiter).succeeded(&keys);
                let mut kept = lock(&self.kept);
                if kept.len() >= KEPT_MAX {
                    kept.clear();
                }
                kept.insert(proof, now);
                Login::Is {
                    user: Arc::from(&*user.name),
                    role: user.role,
                }
            }
            _ => self.wrong(keys, Some(name)),
        }
    }

    fn wrong(&self, keys: Vec<Key>, name: Option<String>) -> Login {
        let now = Instant::now();
        let mut limiter = lock(&self.limiter);
        if let Some(wait) = limiter.wait(&keys, now) {
            return Login::Wait(wait);
        }
        limiter.failed(keys, now);
        Login::Wrong(name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Differs after each change by `headwater users`, which puts another file in its place.
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some((metadata.modified().ok(), metadata.len(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn judged(logins: &Logins, shown: Shown) -> Login {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(logins.judge(shown, HERE))
    }

    fn password(user: &str, password: &str) -> Shown {
        Shown::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    #[test]
    fn a_file_that_was_there_once_keeps_everybody_out_when_it_is_gone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("users");
        let logins = Logins::new(Some(path.clone())).expect("no file");
        assert!(matches!(judged(&logins, Shown::Nothing), Login::NotNeeded));
        let token = Users::change(&path, |users| {
            users
                .add("anna", Role::Admin)?
                .add_token(Role::Deploy, 0, None)
        });
        let token = token.expect("she is added").secret;
        let shown = || Shown::Token(token.clone());
        assert!(matches!(judged(&logins, Shown::Nothing), Login::Missing));
        let Login::Is { user, role } = judged(&logins, shown()) else {
            panic!("the token counts at once");
        };
        assert_eq!((&*user, role), ("anna", Role::Deploy));
        let whole = std::fs::read(&path).expect("it is there");
        std::fs::write(&path, b"headwater users 1 x").expect("it can be written");
        assert!(matches!(judged(&logins, shown()), Login::Wrong(_)));
        std::fs::remove_file(&path).expect("it is there");
        assert!(matches!(judged(&logins, Shown::Nothing), Login::Missing));
        assert!(matches!(judged(&logins, shown()), Login::Wrong(_)));
        std::fs::write(&path, whole).expect("it can be written");
        assert!(matches!(judged(&logins, shown()), Login::Is { .. }));
    }

    #[test]
    fn guesses_are_slowed_down_and_a_right_token_is_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("users");
        let token = Users::change(&path, |users| {
            let anna = users.add("anna", Role::Read)?;
            anna.set_password("correct horse battery")?;
            anna.add_token(Role::Read, 0, None)
        });
        let token = token.expect("she is added").secret;
        let logins = Logins::new(Some(path)).expect("a file");
        let right = || password("anna", "correct horse battery");
        assert!(matches!(judged(&logins, right()), Login::Is { .. }));
        // Judged by what was kept: no hash takes so little time a thousand times.
        for _ in 0..1000 {
            assert!(matches!(judged(&logins, right()), Login::Is { .. }));
        }
        for n in 0..5 {
            let wrong = judged(&logins, password("anna", &format!("wrong {n}")));
            assert!(
                matches!(&wrong, Login::Wrong(Some(name)) if name == "anna"),
                "{wrong:?}"
            );
        }
        let wait = judged(&logins, password("anna", "wrong 6"));
        assert!(matches!(wait, Login::Wait(_)), "{wait:?}");
        let other = judged(&logins, password("nobody", "wrong"));
        assert!(
            matches!(other, Login::Wait(_)),
            "the address has to wait: {other:?}"
        );
        assert!(matches!(
            judged(&logins, Shown::Token(token)),
            Login::Is { .. }
        ));
    }
}
