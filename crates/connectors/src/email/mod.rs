//! E-mail: `@sink(type='email')`, by SMTP, and `@source(type='email')`, by IMAP ([`source`]).
//!
//! Mails and the dialogue are lettre's, the line is ours, because the TLS of an app may lie in Java key
//! stores; what a server says decides where an event goes. Promises: a mail counts as sent
//! when the server has taken it; one that the server wants later, or that met a server that is away,
//! goes to `on.error`; one that it never wants is kept with the server's words; a server that keeps us
//! waiting is named within five seconds. Never: a mail to some
//! of its recipients only, a password over a connection that should have been TLS.

mod sink;
mod slow_server;
mod smtp;
mod source;

#[cfg(all(feature = "full", any(test, feature = "testing")))]
pub(crate) use source::Mail;

use crate::spec::email::CONNECTORS;

use connect::connector_def::ConnectorDef;

/// `@sink(type='email')` and `@source(type='email')`.
pub const EMAIL: ConnectorDef = ConnectorDef {
    source: Some(|setup| Ok(Box::new(source::EmailSource::new(setup)?))),
    sink: Some(|setup| Ok(Box::new(sink::EmailSink::new(setup)?))),
    position_text: Some(source::position_text),
    ..ConnectorDef::of_payloads(CONNECTORS)
};
