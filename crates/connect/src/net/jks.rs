//! Java's own key store: what `keytool -storetype JKS` writes.
//!
//! The format is that of `sun.security.provider.JavaKeyStore` and `KeyProtector`: entries one after
//! the other, a SHA-1 digest of all after them, keys hidden by a stream of SHA-1 digests. SHA-1 is
//! used only to read existing files. The crate `jks` takes as much memory as a length in the file
//! claims before it has read so much; `p12-keystore` reads PKCS12 alone.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::keystore::{Identity, KeyStore};

pub(super) const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

const DIGEST_BYTES: usize = 20;

/// In front of the digest, after the password.
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// Most entries that are read.
const ENTRIES_MAX: u32 = 10_000;

struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.bytes(4)?;
        Ok(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }

    fn text(&mut self) -> Result<(), String> {
        let len = self.bytes(2)?;
        let len = usize::from(len[0]) << 8 | usize::from(len[1]);
        self.bytes(len).map(drop)
    }

    fn long_bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, String> {
        if version >= 2 {
            self.text()?;
        }
        Ok(CertificateDer::from(self.long_bytes()?.to_vec()))
    }
}

/// Without the password of its keys their certificates are read as if they stood alone.
pub(super) fn parse(
    bytes: &[u8],
    password: &str,
    key_password: Option<&str>,
) -> Result<KeyStore, String> {
    let body = bytes.len().checked_sub(DIGEST_BYTES);
    let (body, digest) = bytes.split_at(body.ok_or("it ends too early")?);
    let mut front = Front(body);
    front.bytes(MAGIC.len())?;
    let version = front.u32()?;
    let count = front.u32()?;
    if !(1..=2).contains(&version) || count > ENTRIES_MAX {
        return Err(format!(
            "it is a JKS file of version {version} with {count} entries"
        ));
    }
    let mut store = KeyStore::default();
    for _ in 0..count {
        let tag = front.u32()?;
        front.text()?;
        front.bytes(8)?;
        match tag {
            1 => {
                let hidden = front.long_bytes()?;
                let chain = front.u32()?.min(ENTRIES_MAX);
                let chain = (0..chain)
                    .map(|_| front.certificate(version))
                    .collect::<Result<Vec<_>, _>>()?;
                let Some(key_password) = key_password else {
                    store.certificates.extend(chain);
                    continue;
                };
                if store.identity.is_none() {
                    let key = reveal(encrypted_part(hidden)?, key_password)?;
                    store.identity = Some(Identity {
                        key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
                        chain,
                    });
                }
            }
            2 => store.certificates.push(front.certificate(version)?),
            other => return Err(format!("it has an entry of the unknown kind {other}")),
        }
    }
    if sha1(&[&utf16(password), WHITENER, body]) != digest {
        return Err("it is damaged, or the password is wrong".to_owned());
    }
    Ok(store)
}

/// The octets of an `EncryptedPrivateKeyInfo`: a sequence of an algorithm and them.
fn encrypted_part(der: &[u8]) -> Result<&[u8], String> {
    let (whole, _) = element(der)?;
    let (_, after_algorithm) = element(whole)?;
    let (octets, _) = element(after_algorithm)?;
    Ok(octets)
}

/// Content of a DER element, and what follows it.
fn element(der: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let mut front = Front(der);
    front.bytes(1)?;
    let first = front.bytes(1)?[0];
    let len = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x84 => {
            let bytes = front.bytes(usize::from(first & 0x7f))?;
            bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b))
        }
        _ => return Err("its key is not DER".to_owned()),
    };
    let content = front.bytes(len)?;
    Ok((content, front.0))
}

/// Salt, the key under a stream of digests, and a digest to tell a wrong password.
fn reveal(hidden: &[u8], password: &str) -> Result<Vec<u8>, String> {
    let password = utf16(password);
    let mut front = Front(hidden);
    let salt = front.bytes(DIGEST_BYTES)?;
    let len = front.0.len().checked_sub(DIGEST_BYTES);
    let key = front.bytes(len.ok_or("it ends too early")?)?;
    let mut plain = key.to_vec();
    let mut stream = salt.to_vec();
    for block in plain.chunks_mut(DIGEST_BYTES) {
        stream = sha1(&[&password, &stream]);
        block.iter_mut().zip(&stream).for_each(|(b, s)| *b ^= s);
    }
    if sha1(&[&password, &plain]) != front.0 {
        return Err("the password of its key is wrong".to_owned());
    }
    Ok(plain)
}

fn utf16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn sha1(parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}
