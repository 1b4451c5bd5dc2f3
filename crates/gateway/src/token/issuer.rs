//! Whose tokens count, as `x-headwater.issuers` of an API says it.
//!
//! ```yaml
//! issuers:
//!   - name: main
//!     issuer: https://idp.example.com
//!     jwks: https://idp.example.com/jwks       # or file:jwks.json; left out: by discovery
//!     audience: ticks                          # or a list
//!     algorithms: [RS256]
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use connect::url::Url;
use serde_json::{Map, Value};

use super::algorithm::Algorithm;

/// How far clocks may differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// More would keep expired tokens alive.
const LEEWAY_MAX: Duration = Duration::from_secs(300);

const MEMBERS: [&str; 7] = [
    "name",
    "issuer",
    "jwks",
    "audience",
    "algorithms",
    "leeway",
    "secret",
];

/// One issuer, and what its tokens must be like.
#[derive(Clone, PartialEq, Eq)]
pub struct Issuer {
    /// For messages.
    pub name: String,
    /// `iss`, compared byte by byte.
    pub issuer: String,
    pub keys: KeyPlace,
    /// One of them is in `aud`. Empty: any.
    pub audience: Vec<String>,
    /// Never empty.
    pub algorithms: Vec<Algorithm>,
    pub leeway: Duration,
}

/// Where the keys of an issuer are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum KeyPlace {
    /// A set of keys at a URL.
    Url(Url),
    File(PathBuf),
    /// The document `.well-known/openid-configuration` below the issuer names the URL.
    Discovery,
    /// The operator and the issuer share it: algorithms HS*.
    Secret(Vec<u8>),
    /// The server's own issuer (see [`super::Mint`]).
    Own,
}

impl fmt::Debug for KeyPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyPlace::Url(url) => write!(f, "{url}"),
            KeyPlace::File(path) => write!(f, "file:{}", path.display()),
            KeyPlace::Discovery => f.write_str("discovery"),
            KeyPlace::Secret(_) => f.write_str("a secret"),
            KeyPlace::Own => f.write_str("own"),
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.algorithms.iter().map(|a| a.name()).collect();
        f.debug_struct("Issuer")
            .field("name", &self.name)
            .field("issuer", &self.issuer)
            .field("keys", &self.keys)
            .field("audience", &self.audience)
            .field("algorithms", &names)
            .finish_non_exhaustive()
    }
}

/// What is wrong with the configuration of an issuer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IssuerFault {
    /// The member at fault; empty: the issuer as a whole.
    pub member: &'static str,
    /// What is wrong, in words.
    pub message: String,
    /// What to do.
    pub help: String,
}

fn fault(member: &'static str, message: impl Into<String>, help: impl Into<String>) -> IssuerFault {
    IssuerFault {
        member,
        message: message.into(),
        help: help.into(),
    }
}

impl Issuer {
    /// Reads one element of `x-headwater.issuers`; paths are below `dir`, the folder of the document.
    ///
    /// # Errors
    /// The first fault.
    pub fn from_json(value: &Value, dir: &Path) -> Result<Issuer, IssuerFault> {
        let members = value.as_object().ok_or_else(|| {
            fault(
                "",
                "an issuer is an object",
                "write { name: main, issuer: 'https://…', algorithms: [RS256] }",
            )
        })?;
        if let Some(other) = members
            .keys()
            .find(|name| !MEMBERS.contains(&name.as_str()))
        {
            let help = match lang::suggest::nearest(other, MEMBERS) {
                Some(close) => format!("did you mean '{close}'?"),
                None => format!("there is {}", MEMBERS.join(", ")),
            };
            return Err(fault(
                "",
                format!("an issuer has no member '{other}'"),
                help,
            ));
        }
        let name = text(members, "name")?.unwrap_or("default").to_owned();
        let issuer = text(members, "issuer")?.unwrap_or_default().to_owned();
        if issuer.is_empty() {
            return Err(fault(
                "issuer",
                "'issuer' is missing",
                "write what the claim 'iss' of its tokens is",
            ));
        }
        let algorithms = algorithms(members)?;
        let leeway = match members.get("leeway") {
            None => LEEWAY,
            Some(value) => leeway(value)?,
        };
        let keys = keys(members, dir, &issuer, &algorithms)?;
        Ok(Issuer {
            name,
            issuer,
            keys,
            audience: texts(members, "audience")?,
            algorithms,
            leeway,
        })
    }

    /// The server's own issuer, for an API that names none.
    pub fn own(issuer: &str) -> Issuer {
        Issuer {
            name: "own".to_owned(),
            issuer: issuer.to_owned(),
            keys: KeyPlace::Own,
            audience: Vec::new(),
            algorithms: vec![Algorithm::Es256],
            leeway: LEEWAY,
        }
    }
}

fn text<'a>(
    members: &'a Map<String, Value>,
    member: &'static str,
) -> Result<Option<&'a str>, IssuerFault> {
    match members.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(fault(
            member,
            format!("'{member}' is not a text"),
            "put it between quotes",
        )),
    }
}

fn texts(members: &Map<String, Value>, member: &'static str) -> Result<Vec<String>, IssuerFault> {
    let wrong = || {
        fault(
            member,
            format!("'{member}' is neither a text nor a list of texts"),
            "write [a, b]",
        )
    };
    match members.get(member) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(list)) => {
            let texts = list.iter().map(|one| one.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

fn algorithms(members: &Map<String, Value>) -> Result<Vec<Algorithm>, IssuerFault> {
    let names = texts(members, "algorithms")?;
    let all = || {
        let names: Vec<&str> = Algorithm::ALL.iter().map(|one| one.name()).collect();
        format!("there is {}", names.join(", "))
    };
    if names.is_empty() {
        let message = "'algorithms' is missing: which ones count must not be the token's choice";
        return Err(fault(
            "algorithms",
            message,
            format!("write [RS256]; {}", all()),
        ));
    }
    let read = |name: &String| {
        let unknown = || {
            fault(
                "algorithms",
                format!("there is no algorithm '{name}'"),
                all(),
            )
        };
        Algorithm::parse(name).ok_or_else(unknown)
    };
    names.iter().map(read).collect()
}

fn leeway(value: &Value) -> Result<Duration, IssuerFault> {
    let wrong = || {
        fault(
            "leeway",
            "'leeway' is not a time of at most 300 s",
            "write 30s",
        )
    };
    let seconds = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.strip_suffix('s').unwrap_or(text).trim().parse().ok(),
        _ => None,
    };
    let leeway = seconds.map(Duration::from_secs);
    leeway
        .filter(|leeway| *leeway <= LEEWAY_MAX)
        .ok_or_else(wrong)
}

fn keys(
    members: &Map<String, Value>,
    dir: &Path,
    issuer: &str,
    algorithms: &[Algorithm],
) -> Result<KeyPlace, IssuerFault> {
    let (jwks, secret) = (text(members, "jwks")?, text(members, "secret")?);
    let symmetric = algorithms.iter().filter(|one| one.is_symmetric());
    if let Some(secret) = secret {
        if jwks.is_some() || symmetric.clone().count() != algorithms.len() {
            let message = "'secret' goes with HS256, HS384 and HS512 alone, and without 'jwks'";
            return Err(fault("secret", message, "make it two issuers"));
        }
        let least = symmetric.filter_map(|one| one.secret_bytes_min()).max();
        let least = least.unwrap_or_default();
        if secret.len() < least {
            let message = format!("'secret' has fewer than {least} bytes, so it can be guessed");
            return Err(fault(
                "secret",
                message,
                "make one by 'openssl rand -base64 64'",
            ));
        }
        return Ok(KeyPlace::Secret(secret.as_bytes().to_vec()));
    }
    if let Some(one) = symmetric.clone().next() {
        let message = format!("{} needs a 'secret'", one.name());
        return Err(fault(
            "algorithms",
            message,
            "add secret: '${secret:NAME}', or name other algorithms",
        ));
    }
    let url_of = |member, text: &str| {
        let wrong = || {
            fault(
                member,
                format!("'{member}' is not an http or https URL"),
                "write https://host/path",
            )
        };
        Url::parse(text).ok_or_else(wrong)
    };
    match jwks {
        None => {
            url_of("issuer", issuer).map_err(|wrong| IssuerFault {
                help: "discovery needs a URL: correct it, or add 'jwks'".to_owned(),
                ..wrong
            })?;
            Ok(KeyPlace::Discovery)
        }
        Some(text) => match text.strip_prefix("file:") {
            Some(path) => Ok(KeyPlace::File(dir.join(path))),
            None => url_of("jwks", text).map(KeyPlace::Url),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Result<Issuer, IssuerFault> {
        Issuer::from_json(value, Path::new("/apis"))
    }

    #[test]
    fn an_issuer_is_read() {
        let issuer = read(&json!({
            "name": "main", "issuer": "https://idp.example.com", "jwks": "https://idp.example.com/jwks",
            "audience": "ticks", "algorithms": ["RS256", "EdDSA"],
        }))
        .expect("it is right");
        assert_eq!(issuer.audience, ["ticks"]);
        assert_eq!(issuer.algorithms, [Algorithm::Rs256, Algorithm::EdDsa]);
        assert_eq!(issuer.leeway, LEEWAY);
        assert!(matches!(issuer.keys, KeyPlace::Url(_)));
        let issuer = json!({"issuer": "https://i", "algorithms": "ES256", "leeway": "5s"});
        let read_one = read(&issuer).expect("it is right");
        assert_eq!(
            (read_one.keys, read_one.leeway.as_secs()),
            (KeyPlace::Discovery, 5)
        );
        let issuer = json!({"issuer": "i", "algorithms": ["ES256"], "jwks": "file:keys/a.json", "audience": ["a", "b"]});
        let read_one = read(&issuer).expect("it is right");
        assert_eq!(read_one.keys, KeyPlace::File("/apis/keys/a.json".into()));
        assert_eq!(read_one.audience, ["a", "b"]);
    }

    #[test]
    fn a_secret_is_in_no_text() {
        let secret = "s3cret-".repeat(10);
        let issuer = json!({"issuer": "i", "algorithms": ["HS512"], "secret": secret});
        let issuer = read(&issuer).expect("it is right");
        assert!(!format!("{issuer:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_do() {
        for (value, member, message, help) in [
            (json!("x"), "", "is an object", "name: main"),
            (
                json!({"issuer": "i"}),
                "algorithms",
                "'algorithms' is missing",
                "RS256",
            ),
            (
                json!({"algorithms": ["RS256"]}),
                "issuer",
                "'issuer' is missing",
                "iss",
            ),
            (
                json!({"isuer": "i"}),
                "",
                "no member 'isuer'",
                "did you mean 'issuer'?",
            ),
            (
                json!({"issuer": "i", "algorithms": ["none"]}),
                "algorithms",
                "no algorithm 'none'",
                "ES384",
            ),
            (
                json!({"issuer": "i", "algorithms": ["rs256"]}),
                "algorithms",
                "no algorithm 'rs256'",
                "RS256",
            ),
            (
                json!({"issuer": "i", "algorithms": ["RS256"]}),
                "issuer",
                "not an http",
                "discovery",
            ),
            (
                json!({"issuer": "i", "algorithms": ["RS256"], "jwks": "ftp://x"}),
                "jwks",
                "not an http",
                "https",
            ),
            (
                json!({"issuer": "i", "algorithms": ["HS256"], "jwks": "http://x"}),
                "algorithms",
                "needs a 'secret'",
                "secret",
            ),
            (
                json!({"issuer": "i", "algorithms": ["HS256"], "secret": "short"}),
                "secret",
                "fewer than 32",
                "openssl",
            ),
            (
                json!({"issuer": "i", "algorithms": ["HS256", "RS256"], "secret": "x".repeat(64)}),
                "secret",
                "alone",
                "two",
            ),
            (
                json!({"issuer": "i", "algorithms": ["RS256"], "leeway": "1h"}),
                "leeway",
                "at most 300 s",
                "30s",
            ),
            (
                json!({"issuer": "https://i", "algorithms": ["RS256"], "audience": 1}),
                "audience",
                "neither",
                "[a, b]",
            ),
            (
                json!({"issuer": 1, "algorithms": ["RS256"]}),
                "issuer",
                "not a text",
                "quotes",
            ),
        ] {
            let fault = read(&value).expect_err(message);
            assert_eq!(fault.member, member, "{fault:?}");
            assert!(fault.message.contains(message), "{fault:?}");
            assert!(fault.help.contains(help), "{fault:?}");
        }
    }
}
