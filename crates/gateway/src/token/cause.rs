//! Why a request is refused, for the log, and as RFC 6750 tells the client.

use std::fmt;

use hyper::StatusCode;

/// The exact reason; in the log and in the metric. The client is told less where more would help an attacker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// Neither a token nor a key.
    Missing,
    /// Two that differ.
    Ambiguous,
    Malformed,
    TooLarge,
    Algorithm,
    UnknownIssuer,
    UnknownKey,
    /// The keys of the issuer cannot be had.
    KeysUnavailable,
    Signature,
    Expired,
    NotYetValid,
    Audience,
    Type,
    /// A registered claim is missing, or of another type.
    Claims,
    Revoked,
    UnknownApiKey,
    Address,
    Referrer,
    Scope,
}

impl Cause {
    pub const ALL: [Cause; 19] = [
        Cause::Missing,
        Cause::Ambiguous,
        Cause::Malformed,
        Cause::TooLarge,
        Cause::Algorithm,
        Cause::UnknownIssuer,
        Cause::UnknownKey,
        Cause::KeysUnavailable,
        Cause::Signature,
        Cause::Expired,
        Cause::NotYetValid,
        Cause::Audience,
        Cause::Type,
        Cause::Claims,
        Cause::Revoked,
        Cause::UnknownApiKey,
        Cause::Address,
        Cause::Referrer,
        Cause::Scope,
    ];

    /// For the log and for labels.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Missing => "missing",
            Cause::Ambiguous => "ambiguous",
            Cause::Malformed => "malformed",
            Cause::TooLarge => "too large",
            Cause::Algorithm => "algorithm",
            Cause::UnknownIssuer => "unknown issuer",
            Cause::UnknownKey => "unknown kid",
            Cause::KeysUnavailable => "keys unavailable",
            Cause::Signature => "bad signature",
            Cause::Expired => "expired",
            Cause::NotYetValid => "not yet valid",
            Cause::Audience => "wrong audience",
            Cause::Type => "wrong type",
            Cause::Claims => "bad claims",
            Cause::Revoked => "revoked",
            Cause::UnknownApiKey => "unknown API key",
            Cause::Address => "address not permitted",
            Cause::Referrer => "referrer not permitted",
            Cause::Scope => "insufficient scope",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Cause::Address | Cause::Referrer | Cause::Scope => StatusCode::FORBIDDEN,
            // The token may be right: its client need not fetch another one.
            Cause::KeysUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNAUTHORIZED,
        }
    }

    /// What the client may know.
    fn description(self) -> &'static str {
        match self {
            Cause::Missing => {
                "an access token or an API key is needed: send it in the header 'Authorization: Bearer TOKEN' or \
                 'apikey: KEY'"
            }
            Cause::Ambiguous => "the request has more than one access token or API key",
            Cause::KeysUnavailable => "the access token cannot be checked now: come again",
            Cause::TooLarge => "the access token has more than 16 kB",
            Cause::Expired => "the access token or API key has expired",
            Cause::NotYetValid => "the access token is not valid yet",
            Cause::Address => "the API key may not be used from this address",
            Cause::Referrer => "the API key may not be used from this page",
            Cause::Scope => "the access token has not the scope that this needs",
            _ => "the access token or API key is not valid",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The answer to a request that is not let through. It shows nothing of what was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// 401 or 403; 503 where the token cannot be checked.
    pub status: StatusCode,
    pub cause: Cause,
    /// The value of `WWW-Authenticate` (RFC 6750, 3); empty where another token is of no help.
    pub authenticate: String,
}

impl Refusal {
    pub fn new(cause: Cause) -> Refusal {
        if cause == Cause::KeysUnavailable {
            return Refusal {
                status: cause.status(),
                cause,
                authenticate: String::new(),
            };
        }
        let error = match (cause, cause.status()) {
            // Who has shown nothing is told no error (RFC 6750, 3.1).
            (Cause::Missing, _) => None,
            (_, StatusCode::FORBIDDEN) => Some("insufficient_scope"),
            (Cause::Ambiguous, _) => Some("invalid_request"),
            _ => Some("invalid_token"),
        };
        let mut authenticate = "Bearer realm=\"headwater\"".to_owned();
        if let Some(error) = error {
            let description = cause.description();
            authenticate.push_str(&format!(
                ", error=\"{error}\", error_description=\"{description}\""
            ));
        }
        Refusal {
            status: cause.status(),
            cause,
            authenticate,
        }
    }

    /// The scopes that are needed, which come from the operator's documents.
    pub(super) fn of_scope(needed: &[impl AsRef<str>]) -> Refusal {
        let mut refusal = Refusal::new(Cause::Scope);
        let is_scope = |c: char| matches!(c, '\u{21}' | '\u{23}'..='\u{5b}' | '\u{5d}'..='\u{7e}');
        let names = needed.iter().map(AsRef::as_ref);
        let names: Vec<&str> = names.filter(|name| name.chars().all(is_scope)).collect();
        refusal
            .authenticate
            .push_str(&format!(", scope=\"{}\"", names.join(" ")));
        refusal
    }

    /// The body of the answer, JSON: `code` as API Manager has it, `message`, `description`.
    pub fn body(&self) -> String {
        let (code, message) = match self.cause {
            Cause::Missing => (900_902, "Missing Credentials"),
            Cause::Scope => (
                900_910,
                "The access token does not allow you to access the requested resource",
            ),
            Cause::KeysUnavailable => (900_900, "Unclassified Authentication Failure"),
            Cause::Address | Cause::Referrer => (900_908, "Resource forbidden"),
            _ => (900_901, "Invalid Credentials"),
        };
        serde_json::json!({
            "code": code,
            "message": message,
            "description": self.cause.description(),
        })
        .to_string()
    }
}

impl From<Cause> for Refusal {
    fn from(cause: Cause) -> Refusal {
        Refusal::new(cause)
    }
}
