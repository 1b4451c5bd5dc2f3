//! API keys: random texts that stand for an application, kept as digests.

use std::fmt;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connect::net::http_client::{Network, headers::hex};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::cause::Cause;
use super::mint::Client;
use super::revocation::seconds;

/// What every key begins with, so that scanners for leaked secrets find it.
pub(super) const KEY_PREFIX: &str = "hwk_";

/// What is kept of a key. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKey {
    /// To name it by; says nothing about the key itself.
    pub id: String,
    pub application: String,
    /// SHA-256 of the key.
    pub digest: [u8; 32],
    pub scopes: Vec<String>,
    pub created: i64,
    pub expires: Option<i64>,
    /// Where requests may come from. Empty: from anywhere.
    pub addresses: Vec<Network>,
    /// What `Referer` may be, `*` standing for any text. Empty: anything.
    pub referrers: Vec<String>,
}

/// The applications, as far as tokens and keys need them.
pub trait Directory: Send + Sync {
    fn api_key(&self, id: &str) -> Option<Arc<ApiKey>>;

    /// A client of the server's own issuer.
    fn client(&self, id: &str) -> Option<Arc<Client>>;

    /// The application that a client belongs to, by `azp` or `client_id` of a token of whatever issuer.
    fn application_of(&self, client: &str) -> Option<String>;
}

/// The only time that a key or a client's secret is in the clear.
pub struct NewSecret {
    pub id: String,
    pub text: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSecret")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl NewSecret {
    /// A key with 256 random bits.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn api_key() -> Result<NewSecret, ring::error::Unspecified> {
        let id = hex(&random::<8>()?);
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        let text = format!("{KEY_PREFIX}{id}_{secret}");
        Ok(NewSecret { id, text })
    }

    /// The id and the secret of a client.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn client() -> Result<NewSecret, ring::error::Unspecified> {
        Ok(NewSecret {
            id: hex(&random::<12>()?),
            text: format!("hws_{}", URL_SAFE_NO_PAD.encode(random::<32>()?)),
        })
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], ring::error::Unspecified> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes)
}

/// SHA-256 of a key, a token or a secret.
pub fn digest_of(text: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    bytes
}

/// The time that it takes says nothing of where they differ.
pub(super) fn is_same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let pairs = left.iter().zip(right);
    pairs.fold(0, |all, (l, r)| black_box(all | (l ^ r))) == 0
}

/// The id that a key names.
pub(super) fn id_of(key: &str) -> Option<&str> {
    let (id, _) = key.strip_prefix(KEY_PREFIX)?.split_once('_')?;
    Some(id)
}

impl ApiKey {
    /// Does what was sent prove this key, at this time and from there?
    pub(super) fn check(
        &self,
        shown: &str,
        address: Option<IpAddr>,
        referrer: Option<&str>,
        now: SystemTime,
    ) -> Result<(), Cause> {
        if !is_same(&self.digest, &digest_of(shown)) {
            return Err(Cause::UnknownApiKey);
        }
        if self.expires.is_some_and(|expires| seconds(now) >= expires) {
            return Err(Cause::Expired);
        }
        let address = address.map(|address| address.to_canonical());
        let is_there = |address| self.addresses.iter().any(|network| network.has(address));
        if !self.addresses.is_empty() && !address.is_some_and(is_there) {
            return Err(Cause::Address);
        }
        let is_from = |referrer: &str| self.referrers.iter().any(|one| matches(one, referrer));
        if !self.referrers.is_empty() && !referrer.is_some_and(is_from) {
            return Err(Cause::Referrer);
        }
        Ok(())
    }
}

/// Is the text that of a pattern in which `*` stands for any text? Scheme and case are left aside.
fn matches(pattern: &str, text: &str) -> bool {
    let bare = |text: &str| {
        let text = text.to_ascii_lowercase();
        match text.split_once("://") {
            Some((_, rest)) => rest.to_owned(),
            None => text,
        }
    };
    let (pattern, text) = (bare(pattern), bare(text));
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn key_of(secret: &NewSecret) -> ApiKey {
        ApiKey {
            id: secret.id.clone(),
            application: "shop".to_owned(),
            digest: digest_of(&secret.text),
            scopes: Vec::new(),
            created: 0,
            expires: Some(100),
            addresses: Vec::new(),
            referrers: Vec::new(),
        }
    }

    #[test]
    fn a_key_proves_itself_until_it_expires() {
        let secret = NewSecret::api_key().expect("random numbers");
        let key = key_of(&secret);
        assert_eq!(id_of(&secret.text), Some(&*key.id));
        assert_eq!(secret.text.len(), 4 + 16 + 1 + 43);
        let at = |second| UNIX_EPOCH + Duration::from_secs(second);
        let check = |shown: &str, second| key.check(shown, None, None, at(second));
        assert_eq!(check(&secret.text, 99), Ok(()));
        assert_eq!(check(&secret.text, 100), Err(Cause::Expired));
        let other = format!("hwk_{}_x", key.id);
        assert_eq!(check(&other, 99), Err(Cause::UnknownApiKey));
        assert_eq!(check("", 99), Err(Cause::UnknownApiKey));
        assert!(!format!("{secret:?}{key:?}").contains(&secret.text[21..]));
    }

    // rules: J12
    #[test]
    fn a_key_is_bound_to_addresses_and_pages() {
        let secret = NewSecret::api_key().expect("random numbers");
        let mut key = key_of(&secret);
        key.addresses = ["10.0.0.0/8", "fd00::/8"]
            .map(|n| Network::parse(n).expect("a network"))
            .to_vec();
        let from = |address: &str| {
            let address = (!address.is_empty()).then(|| address.parse().expect("an address"));
            key.check(&secret.text, address, None, UNIX_EPOCH)
        };
        assert_eq!(from("10.1.2.3"), Ok(()));
        assert_eq!(from("::ffff:10.1.2.3"), Ok(()));
        assert_eq!(from("fd00::1"), Ok(()));
        assert_eq!(from("11.1.2.3"), Err(Cause::Address));
        assert_eq!(from(""), Err(Cause::Address));
        let mut key = key_of(&secret);
        key.referrers = vec![
            "shop.example/*".to_owned(),
            "https://*.example.org/a".to_owned(),
        ];
        let from = |page: Option<&str>| key.check(&secret.text, None, page, UNIX_EPOCH);
        assert_eq!(from(Some("https://shop.example/cart")), Ok(()));
        assert_eq!(from(Some("http://www.Example.org/a")), Ok(()));
        for page in [
            "https://shop.example.evil/",
            "https://example.org/a",
            "https://x.example.org/ab",
            "",
        ] {
            assert_eq!(from(Some(page)), Err(Cause::Referrer), "{page}");
        }
        assert_eq!(from(None), Err(Cause::Referrer));
    }
}
