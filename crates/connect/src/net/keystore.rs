//! Certificates and keys as they lie in files: PEM, PKCS12, and Java's JKS. The form is known by its
//! first bytes, whatever an option says.
//!
//! Never: a password in an error message.

use std::path::Path;

use p12_keystore::{KeyStoreEntry, Pkcs12ImportPolicy};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::jks;

/// What a file holds.
#[derive(Debug, Default)]
pub struct KeyStore {
    /// To be trusted.
    pub certificates: Vec<CertificateDer<'static>>,
    /// A key with its certificate and those of its issuers.
    pub identity: Option<Identity>,
}

#[derive(Debug)]
pub struct Identity {
    pub key: PrivateKeyDer<'static>,
    pub chain: Vec<CertificateDer<'static>>,
}

impl KeyStore {
    /// The message of the error names the file.
    pub fn read(path: &str, password: &str, key_password: &str) -> Result<KeyStore, String> {
        KeyStore::open(path, password, Some(key_password))
    }

    /// What a store is trusted for: its certificates and those of its keys, which stay hidden. At
    /// least one.
    pub fn trusted(path: &str, password: &str) -> Result<Vec<CertificateDer<'static>>, String> {
        let store = KeyStore::open(path, password, None)?;
        let of_key = store.identity.into_iter().flat_map(|i| i.chain);
        let all: Vec<_> = store.certificates.into_iter().chain(of_key).collect();
        match all.is_empty() {
            true => Err(format!("key store '{path}' has no certificate to trust")),
            false => Ok(all),
        }
    }

    fn open(path: &str, password: &str, key_password: Option<&str>) -> Result<KeyStore, String> {
        let path = path.strip_prefix("file:").unwrap_or(path);
        let said = |cause: String| format!("key store '{path}' cannot be used: {cause}");
        let bytes = std::fs::read(Path::new(path)).map_err(|e| said(e.to_string()))?;
        KeyStore::parse(&bytes, password, key_password).map_err(said)
    }

    /// Without the password of its key a JKS gives the certificates alone.
    pub fn parse(
        bytes: &[u8],
        password: &str,
        key_password: Option<&str>,
    ) -> Result<KeyStore, String> {
        if bytes.starts_with(&jks::MAGIC) {
            return jks::parse(bytes, password, key_password);
        }
        // PKCS12 is a sequence of DER; PEM is text.
        if bytes.first() == Some(&0x30) {
            return pkcs12(bytes, password);
        }
        pem(bytes)
    }
}

fn pem(bytes: &[u8]) -> Result<KeyStore, String> {
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it is not a PEM file: {error}"))?;
    let key = match PrivateKeyDer::from_pem_slice(bytes) {
        Ok(key) => Some(key),
        Err(rustls::pki_types::pem::Error::NoItemsFound) => None,
        Err(error) => return Err(format!("its key cannot be read: {error}")),
    };
    if certificates.is_empty() {
        return Err("it has no certificate".to_owned());
    }
    Ok(KeyStore {
        identity: key.map(|key| Identity {
            key,
            chain: certificates.clone(),
        }),
        certificates,
    })
}

fn pkcs12(bytes: &[u8], password: &str) -> Result<KeyStore, String> {
    let store = p12_keystore::KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed)
        .map_err(|error| {
        format!("it is not a PKCS12 file, or the password is wrong: {error}")
    })?;
    let der = |c: &p12_keystore::Certificate| CertificateDer::from(c.as_der().to_vec());
    let mut found = KeyStore::default();
    for (_, entry) in store.entries() {
        match entry {
            KeyStoreEntry::Certificate(certificate) => found.certificates.push(der(certificate)),
            KeyStoreEntry::PrivateKeyChain(chain) => {
                let key = PrivatePkcs8KeyDer::from(chain.key().as_der().to_vec());
                found.identity.get_or_insert_with(|| Identity {
                    key: PrivateKeyDer::Pkcs8(key),
                    chain: chain.certs().iter().map(der).collect(),
                });
            }
            KeyStoreEntry::Secret(_) => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `keytool -genkeypair -storetype JKS -storepass wso2carbon -keypass secret12`, and a
    /// trusted certificate by `keytool -importcert`.
    const JKS: &[u8] = include_bytes!("testdata/server.jks");
    /// The same entries by `keytool -importkeystore -deststoretype PKCS12 -deststorepass wso2carbon`.
    const PKCS12: &[u8] = include_bytes!("testdata/server.p12");
    /// The same by `openssl pkcs12 -nodes`.
    const PEM: &[u8] = include_bytes!("testdata/server.pem");

    #[test]
    fn one_key_out_of_three_forms() {
        let [jks, p12, pem] = [JKS, PKCS12, PEM].map(|bytes| {
            let store = KeyStore::parse(bytes, "wso2carbon", Some("secret12"));
            store.expect("a key store")
        });
        let key = |store: &KeyStore| {
            let identity = store.identity.as_ref().expect("a key");
            (
                identity.key.secret_der().to_vec(),
                identity.chain[0].clone(),
            )
        };
        assert_eq!(key(&jks), key(&p12));
        assert_eq!(key(&jks), key(&pem));
        assert_eq!(jks.certificates.len(), 1);
        assert_eq!(jks.certificates, p12.certificates);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for (bytes, password, key_password, cause) in [
            (JKS, "planted", "secret12", "password is wrong"),
            (JKS, "wso2carbon", "planted", "password of its key is wrong"),
            (PKCS12, "planted", "planted", "password is wrong"),
            (&JKS[..200], "wso2carbon", "secret12", "ends too early"),
            (&JKS[..22], "wso2carbon", "secret12", "ends too early"),
            (b"nonsense", "", "", "no certificate"),
        ] {
            let error = KeyStore::parse(bytes, password, Some(key_password)).expect_err(cause);
            assert!(
                error.contains(cause) && !error.contains("planted"),
                "{error}"
            );
        }
    }
}
