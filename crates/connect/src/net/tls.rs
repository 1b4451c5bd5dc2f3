//! TLS of listeners and clients, from the options and key stores that Siddhi's connectors name.
//!
//! Only TLS 1.2 and 1.3 are spoken. Whoever switches verification off is told so in the log. Never: a
//! fall-back to a connection in the clear.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme, SupportedProtocolVersion,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::keystore::{Identity, KeyStore};
use super::pace::{Clock, Crowd, Pace};
use crate::component::Environment;
use crate::error::Error;
use crate::option::Settings;

/// Longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// The password that Siddhi's key stores have where none is given.
const PASSWORD: &str = "wso2carbon";

/// How a listener proves itself, and whom it lets in. Equal where made of equal settings.
#[derive(Clone)]
pub struct ServerTls {
    settings: String,
    config: Arc<ServerConfig>,
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &ServerTls) -> bool {
        self.settings == other.settings
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl ServerTls {
    /// The key store is that of the deployment file: `keyStoreLocation`, `keyStorePassword`,
    /// `keyPassword`, and for clients `trustStoreLocation`, `trustStorePassword`.
    pub fn new(settings: Settings<'_>, environment: &Environment) -> Result<ServerTls, Error> {
        let of = |key| environment.setting("source", "http", key);
        let refused = |message: String| settings.refused(message);
        let path = of("keyStoreLocation").ok_or_else(|| {
            settings.refused(
                "an https URL needs a key: set 'keyStoreLocation' and 'keyStorePassword' of \
                 extension 'http' (namespace 'source') in the file given by --config",
            )
        })?;
        let password = of("keyStorePassword").unwrap_or(PASSWORD);
        let key_password = of("keyPassword").unwrap_or(password);
        let store = KeyStore::read(path, password, key_password).map_err(refused)?;
        let identity = identity(store, path).map_err(refused)?;
        let choice = Choice::new(settings)?;
        let verify = settings
            .text("ssl.verify.client")
            .unwrap_or_default()
            .trim();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&choice.provider))
            .with_protocol_versions(&choice.versions)
            .map_err(|e| refused(e.to_string()))?;
        let builder = match verify.to_ascii_lowercase().as_str() {
            "" | "false" | "none" => builder.with_no_client_auth(),
            "require" | "optional" | "true" => {
                let trust = of("trustStoreLocation").ok_or_else(|| {
                    settings.refused(
                        "option 'ssl.verify.client' needs 'trustStoreLocation' of extension 'http' \
                         (namespace 'source') in the file given by --config",
                    )
                })?;
                let password = of("trustStorePassword").unwrap_or(PASSWORD);
                let roots = roots(trust, password).map_err(refused)?;
                let provider = Arc::clone(&choice.provider);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match verify {
                    "optional" => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build().map_err(|e| refused(e.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            other => {
                return Err(refused(format!(
                    "option 'ssl.verify.client' is '{other}': write require or optional"
                )));
            }
        };
        let config = builder
            .with_single_cert(identity.chain, identity.key)
            .map_err(|e| refused(format!("key store '{path}' cannot be used: {e}")))?;
        let own: Vec<&str> = ["ssl.protocol", "ssl.configurations"]
            .iter()
            .map(|name| settings.text(name).unwrap_or_default())
            .collect();
        Ok(ServerTls {
            settings: format!("{path} {verify} {own:?}"),
            config: Arc::new(config),
        })
    }

    /// Proves itself by the store that options name, as path and password. With `trust`, clients must
    /// show a certificate that it trusts.
    pub fn of_store(
        settings: Settings<'_>,
        (path, password): (&str, Option<&str>),
        trust: Option<(&str, Option<&str>)>,
    ) -> Result<ServerTls, Error> {
        let refused = |message: String| settings.refused(message);
        let password = password.unwrap_or(PASSWORD);
        let store = KeyStore::read(path, password, password).map_err(refused)?;
        let identity = identity(store, path).map_err(refused)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS12, &TLS13])
            .map_err(|e| refused(e.to_string()))?;
        let builder = match trust {
            None => builder.with_no_client_auth(),
            Some((path, password)) => {
                let roots = roots(path, password.unwrap_or(PASSWORD)).map_err(refused)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|e| refused(e.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(identity.chain, identity.key)
            .map_err(|e| refused(format!("key store '{path}' cannot be used: {e}")))?;
        Ok(ServerTls {
            settings: format!("{path} {trust:?}"),
            config: Arc::new(config),
        })
    }

    /// Proves itself as a configuration says that was made elsewhere, under a name that tells it from others.
    pub fn of_config(name: &str, config: Arc<ServerConfig>) -> ServerTls {
        ServerTls {
            settings: name.to_owned(),
            config,
        }
    }

    /// Names the protocol that is spoken inside.
    pub fn speaking(mut self, protocol: &[u8]) -> ServerTls {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.to_vec()];
        self
    }

    /// Names the protocols that may be spoken inside, the preferred first.
    pub fn speaking_any(mut self, protocols: &[&[u8]]) -> ServerTls {
        let protocols = protocols.iter().map(|protocol| protocol.to_vec());
        Arc::make_mut(&mut self.config).alpn_protocols = protocols.collect();
        self
    }

    /// Shakes hands with a client of a port, in bounded time.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] with a [`Late`] where the client does not go on.
    pub async fn accept(
        &self,
        stream: TcpStream,
        crowd: &Crowd,
    ) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        let accepting = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
        let mut clock = Clock::start(Pace {
            gap: None,
            whole: Some(HANDSHAKE),
        });
        let accepted = clock.wait(crowd, accepting).await;
        accepted.map_err(|late| io::Error::new(io::ErrorKind::TimedOut, late))?
    }
}

/// How a client judges the other end, and proves itself where asked.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

/// What a client trusts, and what it shows of itself.
#[derive(Clone, Copy, Default)]
pub struct ClientTrust<'a> {
    /// Path and password of the store of trusted certificates; else what the system trusts.
    pub store: Option<(&'a str, Option<&'a str>)>,
    /// Path, password and password of the key of the store with the client's own certificate.
    pub identity: Option<(&'a str, Option<&'a str>, Option<&'a str>)>,
    pub accepts_any_name: bool,
    /// Whoever the server says it is.
    pub accepts_any_server: bool,
}

/// The same, in PEM texts.
#[derive(Clone, Copy, Default)]
pub struct PemTrust<'a> {
    /// Certificates that are trusted; else what the system trusts.
    pub roots: Option<&'a str>,
    /// The client's own certificates and its key.
    pub identity: Option<(&'a str, &'a str)>,
    pub accepts_any_name: bool,
    /// Whoever the server says it is.
    pub accepts_any_server: bool,
}

impl ClientTls {
    /// Trusts and shows what PEM texts hold. The error is in words, without what is secret.
    pub fn of_pem(trust: PemTrust<'_>) -> Result<ClientTls, String> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = if trust.accepts_any_server {
            tracing::warn!("TLS certificates of servers are not verified");
            Arc::new(AnyServer(Arc::clone(&provider)))
        } else {
            let roots = match trust.roots {
                None => trusted(None)?,
                Some(text) => {
                    let mut store = RootCertStore::empty();
                    store.add_parsable_certificates(certificates(text)?);
                    Arc::new(store)
                }
            };
            let strict =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            let strict = strict.map_err(|e| format!("no certificate is trusted: {e}"))?;
            match trust.accepts_any_name {
                false => strict,
                true => Arc::new(AnyName(strict)),
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS12, &TLS13])
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match trust.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|e| format!("the private key cannot be read: {e}"))?;
                builder
                    .with_client_auth_cert(certificates(chain)?, key)
                    .map_err(|e| format!("the certificate cannot be used: {e}"))?
            }
        };
        Ok(ClientTls {
            config: Arc::new(config),
        })
    }

    /// Trusts what `https.truststore.file` holds, else the store of the deployment file, else what the
    /// system trusts.
    pub fn new(settings: Settings<'_>, environment: &Environment) -> Result<ClientTls, Error> {
        let of = |name| settings.text(name);
        let file = of("https.truststore.file").map(|p| (p, of("https.truststore.password")));
        let trust = ClientTrust {
            store: file.or_else(|| ClientTrust::deployed(environment, "sink", "http")),
            identity: of("https.keystore.file").map(|path| {
                let password = of("https.keystore.password");
                (path, password, of("https.keystore.key.password"))
            }),
            accepts_any_name: settings.is_set_to("hostname.verification.enabled", false),
            accepts_any_server: settings.is_set_to("ssl.verification.disabled", true),
        };
        ClientTls::of(settings, &Choice::new(settings)?, trust)
    }

    /// With the versions that `protocol` names (`TLS`: all).
    pub fn trusting(
        settings: Settings<'_>,
        protocol: &str,
        trust: ClientTrust<'_>,
    ) -> Result<ClientTls, Error> {
        let choice = Choice {
            provider: Arc::new(ring::default_provider()),
            versions: versions(settings, &[protocol.to_owned()])?,
        };
        ClientTls::of(settings, &choice, trust)
    }

    /// Trusts the certificates of a store, else what the system trusts. The error is in words.
    pub fn of_trust(store: Option<(&str, Option<&str>)>) -> Result<ClientTls, String> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(trusted(store)?)
            .with_no_client_auth();
        Ok(ClientTls {
            config: Arc::new(config),
        })
    }

    /// Names the protocol that is spoken inside.
    pub fn speaking(mut self, protocol: &[u8]) -> ClientTls {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.to_vec()];
        self
    }

    fn of(
        settings: Settings<'_>,
        choice: &Choice,
        trust: ClientTrust<'_>,
    ) -> Result<ClientTls, Error> {
        let refused = |message: String| settings.refused(message);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&choice.provider))
            .with_protocol_versions(&choice.versions)
            .map_err(|e| refused(e.to_string()))?
            .dangerous();
        let verifier: Arc<dyn ServerCertVerifier> = if trust.accepts_any_server {
            tracing::warn!(
                "TLS certificates of servers are not verified \
                            (ssl.verification.disabled)"
            );
            Arc::new(AnyServer(Arc::clone(&choice.provider)))
        } else {
            let roots = trusted(trust.store).map_err(refused)?;
            let provider = Arc::clone(&choice.provider);
            let strict = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|e| refused(format!("no certificate is trusted: {e}")))?;
            match trust.accepts_any_name {
                false => strict,
                true => Arc::new(AnyName(strict)),
            }
        };
        let builder = builder.with_custom_certificate_verifier(verifier);
        let config = match trust.identity {
            None => builder.with_no_client_auth(),
            Some((path, password, key_password)) => {
                let password = password.unwrap_or(PASSWORD);
                let store = KeyStore::read(path, password, key_password.unwrap_or(PASSWORD))
                    .map_err(refused)?;
                let identity = identity(store, path).map_err(refused)?;
                builder
                    .with_client_auth_cert(identity.chain, identity.key)
                    .map_err(|e| refused(format!("key store '{path}' cannot be used: {e}")))?
            }
        };
        Ok(ClientTls {
            config: Arc::new(config),
        })
    }

    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<tokio_rustls::client::TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(name, stream).await
    }
}

/// A client that takes any certificate, one that is trusted, or one that is trusted and names the host;
/// `roots` (PEM) are trusted instead of what the system trusts.
pub fn judged_client(
    is_trust_needed: bool,
    is_name_needed: bool,
    roots: Option<&Path>,
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = if is_trust_needed {
        let mut trusted = RootCertStore::empty();
        match roots {
            Some(path) => {
                let unreadable = |error| {
                    format!(
                        "certificates in '{}' cannot be read: {error}",
                        path.display()
                    )
                };
                for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                    trusted
                        .add(certificate.map_err(unreadable)?)
                        .map_err(|error| error.to_string())?;
                }
            }
            None => {
                trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let strict =
            WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(&provider))
                .build()
                .map_err(|error| format!("no certificate is trusted: {error}"))?;
        match is_name_needed {
            true => strict,
            false => Arc::new(AnyName(strict)),
        }
    } else {
        Arc::new(AnyServer(Arc::clone(&provider)))
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS12, &TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| format!("the certificates cannot be read: {e}"))
}

fn identity(store: KeyStore, path: &str) -> Result<Identity, String> {
    store
        .identity
        .ok_or_else(|| format!("key store '{path}' has no private key"))
}

impl<'a> ClientTrust<'a> {
    /// The trust store that the deployment file names for an extension.
    pub fn deployed(
        environment: &'a Environment,
        namespace: &str,
        name: &str,
    ) -> Option<(&'a str, Option<&'a str>)> {
        let of = |key| environment.setting(namespace, name, key);
        of("trustStoreLocation").map(|path| (path, of("trustStorePassword")))
    }
}

/// What the system trusts.
pub fn system_certificates() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

fn trusted(store: Option<(&str, Option<&str>)>) -> Result<Arc<RootCertStore>, String> {
    if let Some((path, password)) = store {
        return roots(path, password.unwrap_or(PASSWORD));
    }
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(system_certificates());
    match added {
        0 => Err("the system trusts no certificates: name a store of trusted ones".to_owned()),
        _ => Ok(Arc::new(store)),
    }
}

fn roots(path: &str, password: &str) -> Result<Arc<RootCertStore>, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(KeyStore::trusted(path, password)?);
    match store.is_empty() {
        true => Err(format!("key store '{path}' has no certificate to trust")),
        false => Ok(Arc::new(store)),
    }
}

/// Versions and ciphers.
struct Choice {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl Choice {
    fn new(settings: Settings<'_>) -> Result<Choice, Error> {
        let mut provider = ring::default_provider();
        let mut names = vec![settings.text("ssl.protocol").unwrap_or("TLS").to_owned()];
        for (key, value) in settings.list("ssl.configurations")? {
            match key.as_str() {
                "sslEnabledProtocols" => {
                    names = value
                        .split(',')
                        .map(|name| name.trim().to_owned())
                        .collect();
                }
                "ciphers" => {
                    let wanted: Vec<String> = value.split(',').map(cipher_name).collect();
                    provider.cipher_suites.retain(|suite| {
                        wanted.contains(&cipher_name(&format!("{:?}", suite.suite())))
                    });
                    if provider.cipher_suites.is_empty() {
                        return Err(settings.refused(format!(
                            "option 'ssl.configurations' lists no supported cipher: '{value}'"
                        )));
                    }
                }
                "client.enable.session.creation"
                | "server.suported.server.names"
                | "server.supported.snimatchers" => {
                    tracing::warn!(key, "ignoring unsupported key of 'ssl.configurations'");
                }
                _ => {
                    return Err(settings.refused(format!(
                        "option 'ssl.configurations' has the unknown key '{key}'"
                    )));
                }
            }
        }
        let versions = versions(settings, &names)?;
        Ok(Choice {
            provider: Arc::new(provider),
            versions,
        })
    }
}

/// The versions that protocol names of Java allow.
fn versions(
    settings: Settings<'_>,
    names: &[String],
) -> Result<Vec<&'static SupportedProtocolVersion>, Error> {
    let mut versions = Vec::new();
    for name in names {
        match name.to_ascii_uppercase().as_str() {
            "TLS" | "SSL" => versions.extend([&TLS12, &TLS13]),
            "TLSV1.2" => versions.push(&TLS12),
            "TLSV1.3" => versions.push(&TLS13),
            // Broken long ago; with a newer one beside them, that one is spoken.
            _ => {}
        }
    }
    if versions.is_empty() {
        return Err(settings.refused(format!(
            "protocol '{}' is not supported: use TLS, TLSv1.2 or TLSv1.3",
            names.join(",")
        )));
    }
    Ok(versions)
}

/// Java says `TLS_AES_128_GCM_SHA256` where rustls says `TLS13_AES_128_GCM_SHA256`.
fn cipher_name(text: &str) -> String {
    text.trim().to_ascii_uppercase().replace("TLS13_", "TLS_")
}

/// Accepts every certificate.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Judges the chain of a certificate and not its name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self
            .0
            .verify_server_cert(certificate, intermediates, name, ocsp, now);
        match judged {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
