//! TLS of listeners and clients.

use tokio::net::TcpStream;

use crate::component::Environment;
use crate::error::Error;
use crate::net::Settings;

/// How a listener proves itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ServerTls {}

impl ServerTls {
    pub fn new(settings: Settings<'_>, _: &Environment) -> Result<ServerTls, Error> {
        Err(settings.refused("TLS is not supported: use http"))
    }

    pub async fn accept(&self, _: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}

/// How a client judges the other end.
#[derive(Clone, Debug)]
pub(crate) enum ClientTls {}

impl ClientTls {
    pub fn new(settings: Settings<'_>, _: &Environment) -> Result<ClientTls, Error> {
        Err(settings.refused("TLS is not supported: use http"))
    }

    pub async fn connect(&self, _: &str, _: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}
