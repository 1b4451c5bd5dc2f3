//! What all doors of a server share: HTTP, and the protocol of PostgreSQL.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audit::{Audit, Entry};
use super::logins::Logins;
use crate::error::Error;

/// Knows who may come in, and notes who may not. Failed logins at one door count at the others.
#[derive(Clone)]
pub struct Door {
    pub(crate) logins: Arc<Logins>,
    pub(crate) audit: Arc<Audit>,
}

impl Door {
    /// For the users of a file; `audit` is the directory of the audit log.
    ///
    /// # Errors
    /// The users cannot be read.
    pub fn new(users: Option<PathBuf>, audit: Option<&Path>) -> Result<Door, Error> {
        Ok(Door {
            logins: Arc::new(Logins::new(users)?),
            audit: Arc::new(Audit::new(audit)),
        })
    }

    /// Does everybody log in?
    pub fn needs_login(&self) -> bool {
        self.logins.users().is_some()
    }

    /// A login that was refused.
    pub(crate) fn note_refused(&self, user: &str, from: IpAddr, what: &str) {
        self.audit.note(&Entry {
            user: Some(user),
            from: &from.to_string(),
            what,
            detail: Some("login refused"),
            outcome: "refused",
            status: None,
        });
    }
}
