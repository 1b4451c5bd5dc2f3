//! Who has shown a valid token or key.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::cause::Refusal;

/// What is known of whoever sent a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Principal {
    /// `sub`; that of an API key is its application.
    pub subject: String,
    /// The application in the registry, else the client that the token was issued to (`azp`, `client_id`).
    pub application: Option<String>,
    pub scopes: Vec<String>,
    /// Those of the token; empty for an API key.
    pub claims: Map<String, Value>,
    /// From then on it counts no more.
    pub expires: Option<SystemTime>,
    /// `iat`, seconds since 1970.
    pub(super) issued: Option<i64>,
    /// `jti`, or the id of an API key.
    pub(super) id: Option<String>,
    /// The client as the token names it.
    pub(super) client: Option<String>,
    pub(super) is_api_key: bool,
}

/// Why a stream that lives must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Expired,
    Revoked,
    /// The stream has lasted as long as its plan allows.
    Duration,
}

impl Principal {
    /// `jti` of the token, or the id of the API key: what it can be revoked by.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Has it all of these scopes, as AsyncAPI means a list of scopes?
    ///
    /// # Errors
    /// 403, with the scopes that are needed.
    pub fn require(&self, scopes: &[impl AsRef<str>]) -> Result<(), Refusal> {
        let has = |scope: &str| self.scopes.iter().any(|own| own == scope);
        match scopes.iter().all(|scope| has(scope.as_ref())) {
            true => Ok(()),
            false => Err(Refusal::of_scope(scopes)),
        }
    }

    /// Has it one of these scopes, as API Manager means the scopes of an operation? True where there are none.
    ///
    /// # Errors
    /// 403, with the scopes of which one is needed.
    pub fn require_any(&self, scopes: &[impl AsRef<str>]) -> Result<(), Refusal> {
        let has = |scope: &str| self.scopes.iter().any(|own| own == scope);
        match scopes.is_empty() || scopes.iter().any(|scope| has(scope.as_ref())) {
            true => Ok(()),
            false => Err(Refusal::of_scope(scopes)),
        }
    }
}
