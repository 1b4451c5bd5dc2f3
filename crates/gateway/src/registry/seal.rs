//! Seals secrets that must be read again: AES-256-GCM with a key in a file for its owner alone.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::RegistryError;

/// Name of the file in a state directory.
const FILE: &str = "gateway.key";

const KEY_BYTES: usize = 32;

/// The key.
pub struct Seal {
    key: LessSafeKey,
}

impl Seal {
    /// Reads the key of a state directory, made if there is none; without one the key ends with the process.
    ///
    /// # Errors
    /// The file cannot be read or made, or is no key.
    pub(super) fn open(dir: Option<&Path>) -> Result<Seal, RegistryError> {
        let mut bytes = [0; KEY_BYTES];
        match dir {
            None => SystemRandom::new().fill(&mut bytes)?,
            Some(dir) => read_or_make(&dir.join(FILE), &mut bytes)?,
        }
        let key = UnboundKey::new(&AES_256_GCM, &bytes)?;
        Ok(Seal {
            key: LessSafeKey::new(key),
        })
    }

    /// Seals a secret for one purpose: what it belongs to.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn seal(&self, secret: &[u8], purpose: &str) -> Result<Vec<u8>, RegistryError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce)?;
        let mut sealed = secret.to_vec();
        let purpose = Aad::from(purpose.as_bytes());
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(unique, purpose, &mut sealed)?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// `None` where it was sealed by another key or for another purpose, or has changed since.
    pub fn open_sealed(&self, sealed: &[u8], purpose: &str) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = rest.to_vec();
        let purpose = Aad::from(purpose.as_bytes());
        let length = self
            .key
            .open_in_place(nonce, purpose, &mut bytes)
            .ok()?
            .len();
        bytes.truncate(length);
        Some(bytes)
    }
}

fn read_or_make(path: &Path, bytes: &mut [u8; KEY_BYTES]) -> Result<(), RegistryError> {
    let failed = |action| {
        move |cause| RegistryError::File {
            action,
            path: path.display().to_string(),
            cause,
        }
    };
    match File::open(path) {
        Ok(mut file) => {
            let is_longer = file.metadata().map_err(failed("read"))?.len() != KEY_BYTES as u64;
            if is_longer {
                let message = format!(
                    "'{}' is not the key of a gateway: restore it",
                    path.display()
                );
                return Err(RegistryError::Refused(message));
            }
            file.read_exact(bytes).map_err(failed("read"))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            SystemRandom::new().fill(bytes)?;
            let make = || {
                let mut options = File::options();
                options.write(true).create_new(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let mut file = options.open(path)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                path.parent().map_or(Ok(()), connect::folder::sync)
            };
            make().map_err(failed("make"))
        }
        Err(cause) => Err(failed("open")(cause)),
    }
}
