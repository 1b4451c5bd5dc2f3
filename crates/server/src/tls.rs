//! TLS of the `--http` and `--gateway` addresses, and of the commands that ask a server.
//!
//! Only TLS 1.2 and 1.3 are spoken. Never: a certificate that is not verified; a part of a key in a message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connect::net::ServerTls;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::Error;

/// The files of a server: PEM, the certificate in front of those of its issuers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TlsFiles {
    /// # Errors
    /// [`Error::Usage`] if a file cannot be read, or they do not belong together.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, Error> {
        self.try_server().map_err(Error::Usage)
    }

    /// For a listener of the gateway.
    ///
    /// # Errors
    /// [`Error::Usage`] if a file cannot be read, or they do not belong together.
    pub fn listener(&self) -> Result<ServerTls, Error> {
        let name = format!("{} {}", self.certificate.display(), self.key.display());
        Ok(ServerTls::of_config(&name, self.server()?))
    }

    fn try_server(&self) -> Result<Arc<ServerConfig>, String> {
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            let path = self.key.display();
            format!("the private key in '{path}' cannot be read: {error}")
        })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS12, &TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(certificates(&self.certificate)?, key)
            .map_err(|error| {
                let (certificate, key) = (self.certificate.display(), self.key.display());
                format!("the certificate in '{certificate}' and the key in '{key}' cannot be used: {error}")
            })?;
        Ok(Arc::new(config))
    }
}

/// Trusts the certificates of a PEM file, or what the system trusts.
///
/// # Errors
/// In words, with the name of the file.
pub(crate) fn client(roots: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut trusted = RootCertStore::empty();
    match roots {
        Some(path) => {
            for certificate in certificates(path)? {
                let added = trusted.add(certificate);
                added.map_err(|error| unreadable(path, &error))?;
            }
        }
        None => {
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS12, &TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// At least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, &error))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| unreadable(path, &error))?;
    match all.is_empty() {
        true => Err(unreadable(path, &"it holds none in PEM")),
        false => Ok(all),
    }
}

fn unreadable(path: &Path, cause: &dyn std::fmt::Display) -> String {
    let path = path.display();
    format!("certificates in '{path}' cannot be read: {cause}")
}
