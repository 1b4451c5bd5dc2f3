//! The connections to the servers behind the gateway, kept for all topics.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use connect::net::ClientTls;
use connect::net::http_client::{Client, ClientOptions};

/// Longest wait for a connection to a backend, and for the head of its answer.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The connections to backends.
#[derive(Default)]
pub(crate) struct Backends(OnceLock<Result<Client, String>>);

impl Backends {
    pub fn client(&self) -> io::Result<&Client> {
        let client = self.0.get_or_init(|| {
            Ok(Client::new(ClientOptions {
                connect_timeout: Some(CONNECT_MAX),
                idle_timeout: Some(ANSWER_MAX),
                tls: Some(ClientTls::of_trust(None)?),
                ..ClientOptions::default()
            }))
        });
        client
            .as_ref()
            .map_err(|cause| io::Error::other(cause.clone()))
    }
}
