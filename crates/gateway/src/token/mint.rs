//! A small issuer of our own, for who has none: access tokens for the clients of registered applications.
//!
//! The grant is client credentials (RFC 6749, 4.4); tokens are those of RFC 9068, signed by ES256. Keys are kept in
//! one file for its owner alone. Never: users, pages of consent, other grants; those are an identity provider's work.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use connect::net::http_client::headers::hex;
use connect::url::decode;
use hyper::StatusCode;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::api_key::{Directory, digest_of, is_same, random};
use super::key::{Key, KeySet};
use super::key_source::KeySources;
use super::revocation::seconds;
use super::strict_json;

/// How long a token counts, unless the client says less or its own configuration more.
const LIFETIME: Duration = Duration::from_secs(3600);

/// The longest lifetime that is given: a year.
const LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A key that was replaced still checks tokens of [`LIFETIME_MAX`], so it is kept as long.
const KEYS_MAX: usize = 32;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest form that is read.
pub(crate) const FORM_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, thiserror::Error)]
pub enum MintError {
    #[error("cannot {action} the keys of the token issuer in '{}'", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(
        "the keys of the token issuer in '{}' are damaged: restore the file from a backup, or remove it, which ends all \
         tokens that it has signed",
        path.display()
    )]
    Damaged { path: PathBuf },
    #[error("the system gives no random numbers")]
    Random,
}

impl From<ring::error::Unspecified> for MintError {
    fn from(_: ring::error::Unspecified) -> MintError {
        MintError::Random
    }
}

/// Who may ask for tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    pub id: String,
    pub application: String,
    /// SHA-256 of its secret.
    pub digest: [u8; 32],
    /// Those that it may ask for.
    pub scopes: Vec<String>,
}

/// What a client is answered, by RFC 6749 (5.1, 5.2). The body holds the token: it belongs into no log.
pub struct TokenAnswer {
    pub status: StatusCode,
    /// JSON. With it goes `Cache-Control: no-store`.
    pub body: String,
    /// `WWW-Authenticate`, for 401.
    pub authenticate: Option<&'static str>,
}

/// The issuer.
pub struct Mint {
    issuer: String,
    /// `None`: keys end with the process.
    path: Option<PathBuf>,
    /// The newest last, which signs.
    keys: RwLock<Vec<SigningKey>>,
    sources: Arc<KeySources>,
}

#[derive(Clone)]
struct SigningKey {
    id: String,
    /// Seconds since 1970.
    created: i64,
    pkcs8: Vec<u8>,
    pair: Arc<EcdsaKeyPair>,
}

impl SigningKey {
    fn new(now: SystemTime) -> Result<SigningKey, MintError> {
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())?;
        SigningKey::of(made.as_ref().to_vec(), seconds(now)).ok_or(MintError::Random)
    }

    fn of(pkcs8: Vec<u8>, created: i64) -> Option<SigningKey> {
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &random).ok()?;
        let point = pair.public_key().as_ref();
        let digest = ring::digest::digest(&ring::digest::SHA256, point);
        Some(SigningKey {
            id: hex(&digest.as_ref()[..8]),
            created,
            pkcs8,
            pair: Arc::new(pair),
        })
    }

    fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }
}

impl Mint {
    /// Reads the keys of a file, which is made with a first key if there is none. `issuer` is the `iss` of its
    /// tokens. The keys also become those by which `sources` has own tokens checked.
    ///
    /// # Errors
    /// The file cannot be read or made, or is damaged.
    pub fn open(
        path: Option<&Path>,
        issuer: &str,
        sources: &Arc<KeySources>,
        now: SystemTime,
    ) -> Result<Mint, MintError> {
        let read = path.map(read_keys).transpose()?.flatten();
        let mint = Mint {
            issuer: issuer.to_owned(),
            path: path.map(Path::to_owned),
            keys: RwLock::new(read.unwrap_or_default()),
            sources: Arc::clone(sources),
        };
        match mint.read(Vec::is_empty) {
            true => mint.rotate(now)?,
            false => mint.publish(),
        }
        Ok(mint)
    }

    /// `iss` of its tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    fn read<T>(&self, what: impl FnOnce(&Vec<SigningKey>) -> T) -> T {
        what(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self) {
        let keys = self.read(|keys| {
            keys.iter()
                .map(|key| Key::es256(&key.id, key.point()))
                .collect()
        });
        self.sources.set_own(KeySet::of(keys));
    }

    /// From now on a new key signs. Those before it still check what they have signed.
    ///
    /// # Errors
    /// The new key cannot be saved; then the old one signs on.
    pub fn rotate(&self, now: SystemTime) -> Result<(), MintError> {
        let mut keys = self.read(Vec::clone);
        keys.push(SigningKey::new(now)?);
        let excess = keys.len().saturating_sub(KEYS_MAX);
        keys.drain(..excess);
        if let Some(path) = &self.path {
            write_keys(path, &keys)?;
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        self.publish();
        Ok(())
    }

    /// The public keys, as `/.well-known/jwks.json` has them.
    pub fn jwks(&self) -> String {
        let jwk = |key: &SigningKey| {
            let (x, y) = key.point()[1..].split_at(32);
            json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": key.id,
                "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
            })
        };
        json!({ "keys": self.read(|keys| keys.iter().map(jwk).collect::<Vec<Value>>()) })
            .to_string()
    }

    /// A token for an application's client. The second is its `jti`, by which it can be revoked.
    ///
    /// # Errors
    /// [`MintError::Random`].
    pub fn token(
        &self,
        client: &str,
        scopes: &[String],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<(String, String), MintError> {
        let key = self
            .read(|keys| keys.last().cloned())
            .ok_or(MintError::Random)?;
        let id = hex(&random::<16>()?);
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": key.id });
        let claims = json!({
            "iss": self.issuer, "sub": client, "aud": self.issuer, "azp": client, "client_id": client,
            "scope": scopes.join(" "), "iat": since, "jti": id,
            "exp": since.saturating_add(lifetime.min(LIFETIME_MAX).as_secs()),
        });
        let encode = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = key.pair.sign(&SystemRandom::new(), signed.as_bytes())?;
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
        Ok((token, id))
    }

    /// Answers a request to `/token`: the form in its body, and its header `Authorization` if there is one.
    pub fn grant(
        &self,
        directory: &dyn Directory,
        authorization: Option<&str>,
        form: &[u8],
        now: SystemTime,
    ) -> TokenAnswer {
        match self.granted(directory, authorization, form, now) {
            Ok(body) => TokenAnswer {
                status: StatusCode::OK,
                body: body.to_string(),
                authenticate: None,
            },
            Err(refused) => TokenAnswer {
                status: refused.status(),
                body: json!({ "error": refused.error, "error_description": refused.description })
                    .to_string(),
                authenticate: (refused.error == INVALID_CLIENT)
                    .then_some("Basic realm=\"headwater\""),
            },
        }
    }

    fn granted(
        &self,
        directory: &dyn Directory,
        authorization: Option<&str>,
        form: &[u8],
        now: SystemTime,
    ) -> Result<Value, Refused> {
        let form = Form::read(form)?;
        match form.get("grant_type")? {
            Some("client_credentials") => {}
            Some(_) => {
                return Err(refuse(
                    "unsupported_grant_type",
                    "the grant is client_credentials",
                ));
            }
            None => return Err(refuse("invalid_request", "'grant_type' is missing")),
        }
        let (id, secret) = form.client(authorization)?;
        let wrong = || {
            refuse(
                INVALID_CLIENT,
                "the client is unknown, or its secret is wrong",
            )
        };
        let client = directory.client(&id).ok_or_else(wrong)?;
        if !is_same(&client.digest, &digest_of(&secret)) {
            return Err(wrong());
        }
        let scopes: Vec<String> = match form.get("scope")? {
            None | Some("") => client.scopes.clone(),
            Some(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        };
        if scopes.iter().any(|scope| !client.scopes.contains(scope)) {
            return Err(refuse(
                "invalid_scope",
                "the client may not ask for one of these scopes",
            ));
        }
        let made = self.token(&client.id, &scopes, LIFETIME, now);
        let (token, _) = made.map_err(|_| refuse("server_error", "no token can be made now"))?;
        Ok(json!({
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": LIFETIME.as_secs(),
            "scope": scopes.join(" "),
        }))
    }
}

const INVALID_CLIENT: &str = "invalid_client";

struct Refused {
    error: &'static str,
    description: &'static str,
}

fn refuse(error: &'static str, description: &'static str) -> Refused {
    Refused { error, description }
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self.error {
            INVALID_CLIENT => StatusCode::UNAUTHORIZED,
            "server_error" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// The parameters of a request.
struct Form(Vec<(String, String)>);

impl Form {
    fn read(bytes: &[u8]) -> Result<Form, Refused> {
        let bad = || refuse("invalid_request", "the body is not a form of at most 16 kB");
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        if text.len() > FORM_BYTES_MAX {
            return Err(bad());
        }
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Ok(Form(pairs.collect()))
    }

    /// A parameter, which must not occur twice (RFC 6749, 3.2).
    fn get(&self, name: &str) -> Result<Option<&str>, Refused> {
        let mut found = self.0.iter().filter(|(own, _)| own == name);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(refuse("invalid_request", "a parameter occurs twice")),
            (found, None) => Ok(found.map(|(_, value)| value.as_str())),
        }
    }

    /// Id and secret, by the header or in the form, never both (RFC 6749, 2.3).
    fn client(&self, authorization: Option<&str>) -> Result<(String, String), Refused> {
        let in_form = (self.get("client_id")?, self.get("client_secret")?);
        let Some(header) = authorization else {
            return match in_form {
                (Some(id), Some(secret)) => Ok((id.to_owned(), secret.to_owned())),
                _ => Err(refuse(
                    INVALID_CLIENT,
                    "send the client's id and secret by 'Authorization: Basic'",
                )),
            };
        };
        if in_form.1.is_some() {
            return Err(refuse(
                "invalid_request",
                "the client logs in twice: by the header and in the form",
            ));
        }
        let bad = || {
            refuse(
                INVALID_CLIENT,
                "'Authorization' is not that of a client: Basic, id and secret",
            )
        };
        let (scheme, pair) = header.split_once(' ').ok_or_else(bad)?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(bad());
        }
        let pair = STANDARD.decode(pair.trim()).map_err(|_| bad())?;
        let pair = String::from_utf8(pair).map_err(|_| bad())?;
        let (id, secret) = pair.split_once(':').ok_or_else(bad)?;
        Ok((decode(id), decode(secret)))
    }
}

fn read_keys(path: &Path) -> Result<Option<Vec<SigningKey>>, MintError> {
    let failed = |action| {
        move |cause| MintError::File {
            action,
            path: path.to_owned(),
            cause,
        }
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("open")(cause)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed("read"))?;
    let damaged = || MintError::Damaged {
        path: path.to_owned(),
    };
    let members = strict_json::object(&bytes).map_err(|_| damaged())?;
    let list = members
        .get("keys")
        .and_then(Value::as_array)
        .ok_or_else(damaged)?;
    let read = |key: &Value| {
        let pkcs8 = URL_SAFE_NO_PAD.decode(key["pkcs8"].as_str()?).ok()?;
        SigningKey::of(pkcs8, key["created"].as_i64()?)
    };
    let keys = list.iter().map(read).collect::<Option<Vec<_>>>();
    keys.filter(|keys| !keys.is_empty())
        .map(Some)
        .ok_or_else(damaged)
}

/// Whole or not at all, and for its owner alone.
fn write_keys(path: &Path, keys: &[SigningKey]) -> Result<(), MintError> {
    let of = |key: &SigningKey| json!({ "id": key.id, "created": key.created, "pkcs8": URL_SAFE_NO_PAD.encode(&key.pkcs8) });
    let text = json!({ "keys": keys.iter().map(of).collect::<Vec<Value>>() }).to_string();
    let write = || {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), connect::folder::sync)
    };
    write().map_err(|cause| MintError::File {
        action: "write",
        path: path.to_owned(),
        cause,
    })
}
