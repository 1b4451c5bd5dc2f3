//! Keys that check signatures, as a JWK set has them (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{ED25519, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};

use super::algorithm::{Algorithm, Method};
use super::cause::Cause;
use super::strict_json;

/// Keys of one set.
const KEYS_MAX: usize = 256;

/// Bits of an RSA modulus: `ring` checks with no others.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// One key. It checks signatures by the algorithms that fit its kind, or by the one that it names.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// `kid`.
    id: Option<String>,
    /// `alg`.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa(Vec<u8>, Vec<u8>),
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Secret(Vec<u8>),
}

impl Key {
    /// A secret that signs and checks.
    pub fn secret(secret: &[u8]) -> Key {
        Key {
            id: None,
            algorithm: None,
            material: Material::Secret(secret.to_vec()),
        }
    }

    /// An uncompressed point of P-256, for ES256.
    pub fn es256(id: &str, point: &[u8]) -> Key {
        Key {
            id: Some(id.to_owned()),
            algorithm: Some(Algorithm::Es256),
            material: Material::P256(point.to_vec()),
        }
    }

    /// A public key; the error says why it cannot check a signature. Private parts are not looked at.
    pub fn from_jwk(jwk: &Map<String, Value>) -> Result<Key, &'static str> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &'static str| {
            let text = text(name).ok_or("a part of the key is missing")?;
            let decoded = URL_SAFE_NO_PAD.decode(text);
            decoded.map_err(|_| "a part of the key is not base64url")
        };
        if text("use").is_some_and(|usage| usage != "sig") {
            return Err("it is not for signatures (`use`)");
        }
        if let Some(operations) = jwk.get("key_ops").and_then(Value::as_array)
            && !operations.iter().any(|one| one == "verify")
        {
            return Err("it is not for checking signatures (`key_ops`)");
        }
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => rsa(bytes("n")?, bytes("e")?)?,
            (Some("EC"), Some("P-256")) => Material::P256(point(&bytes("x")?, &bytes("y")?, 32)?),
            (Some("EC"), Some("P-384")) => Material::P384(point(&bytes("x")?, &bytes("y")?, 48)?),
            (Some("OKP"), Some("Ed25519")) => {
                let x = bytes("x")?;
                match x.len() {
                    32 => Material::Ed25519(x),
                    _ => return Err("a key of Ed25519 has 32 bytes"),
                }
            }
            // A secret that anyone can fetch is none.
            (Some("oct"), _) => {
                return Err("a secret does not belong into a key set: configure `secret`");
            }
            _ => return Err("its kind or curve is not supported (`kty`, `crv`)"),
        };
        let algorithm = match text("alg") {
            None => None,
            Some(name) => {
                Some(Algorithm::parse(name).ok_or("its algorithm is not supported (`alg`)")?)
            }
        };
        let key = Key {
            id: text("kid").map(str::to_owned),
            algorithm: None,
            material,
        };
        if algorithm.is_some_and(|algorithm| !key.fits(algorithm)) {
            return Err("its algorithm (`alg`) does not fit its kind");
        }
        Ok(Key { algorithm, ..key })
    }

    /// May it check signatures by this algorithm?
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm)
            && matches!(
                (&self.material, algorithm.method()),
                (Material::Rsa(..), Method::Rsa(_))
                    | (Material::P256(_), Method::P256(_))
                    | (Material::P384(_), Method::P384(_))
                    | (Material::Ed25519(_), Method::Ed25519)
                    | (Material::Secret(_), Method::Hmac(_))
            )
    }

    /// Is that the signature of the message? `false` too where the algorithm does not fit.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        match (&self.material, algorithm.method()) {
            (Material::Rsa(n, e), Method::Rsa(parameters)) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature).is_ok()
            }
            (Material::P256(point), Method::P256(checks))
            | (Material::P384(point), Method::P384(checks)) => {
                let key = UnparsedPublicKey::new(checks, point);
                key.verify(message, signature).is_ok()
            }
            (Material::Ed25519(point), Method::Ed25519) => {
                let key = UnparsedPublicKey::new(&ED25519, point);
                key.verify(message, signature).is_ok()
            }
            (Material::Secret(secret), Method::Hmac(digest)) => {
                let key = hmac::Key::new(digest, secret);
                hmac::verify(&key, message, signature).is_ok()
            }
            _ => false,
        }
    }
}

fn rsa(n: Vec<u8>, e: Vec<u8>) -> Result<Material, &'static str> {
    // Some write a leading zero, as a signed number would have it.
    let trimmed =
        |bytes: Vec<u8>| -> Vec<u8> { bytes.into_iter().skip_while(|b| *b == 0).collect() };
    let (n, e) = (trimmed(n), trimmed(e));
    let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
    match RSA_BITS.contains(&bits) {
        true => Ok(Material::Rsa(n, e)),
        false => Err("an RSA key has 2048 to 8192 bits"),
    }
}

fn point(x: &[u8], y: &[u8], size: usize) -> Result<Vec<u8>, &'static str> {
    match x.len() == size && y.len() == size {
        true => Ok([&[4], x, y].concat()),
        false => Err("a coordinate has not the size of its curve"),
    }
}

/// The keys of an issuer at one time.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct KeySet {
    keys: Vec<Key>,
    /// The reasons of those that were left out, for the log.
    pub left_out: Vec<&'static str>,
}

impl KeySet {
    pub fn of(keys: Vec<Key>) -> KeySet {
        KeySet {
            keys,
            left_out: Vec::new(),
        }
    }

    /// `{"keys": […]}`. A key that cannot be used is left out, as RFC 7517 (5) wants it.
    ///
    /// # Errors
    /// It is not a set of keys; in words.
    pub fn from_json(bytes: &[u8]) -> Result<KeySet, &'static str> {
        let members = strict_json::object(bytes).map_err(|_| "it is not a JSON object")?;
        let list = members.get("keys").and_then(Value::as_array);
        let list = list.ok_or("it has no list `keys`")?;
        if list.len() > KEYS_MAX {
            return Err("it has more than 256 keys");
        }
        let mut set = KeySet::default();
        for jwk in list {
            let key = jwk.as_object().ok_or("it is not an object");
            match key.and_then(Key::from_jwk) {
                Ok(key) => set.keys.push(key),
                Err(why) => set.left_out.push(why),
            }
        }
        Ok(set)
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key for a token.
    ///
    /// # Errors
    /// [`Cause::UnknownKey`]: the set has no such key, maybe not yet; [`Cause::Algorithm`]: it has, but not for this
    /// algorithm.
    pub fn candidate(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&Key, Cause> {
        let is_named = |key: &&Key| match (id, &key.id) {
            // A secret has no name, and there is one.
            (_, None) if matches!(key.material, Material::Secret(_)) => true,
            (Some(id), own) => own.as_deref() == Some(id),
            (None, _) => true,
        };
        let mut named = self.keys.iter().filter(is_named).peekable();
        if named.peek().is_none() {
            return Err(Cause::UnknownKey);
        }
        let mut fitting = named.filter(|key| key.fits(algorithm));
        let key = fitting.next().ok_or(Cause::Algorithm)?;
        // A token that names no key, or a name that two have: which one is meant is not for us to guess.
        match fitting.next() {
            None => Ok(key),
            Some(_) => Err(Cause::UnknownKey),
        }
    }
}
