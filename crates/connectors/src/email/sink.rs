//! The `email` sink: each payload is a mail, sent over one connection in the order of events.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lettre::Message as Mail;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, Mailboxes, MultiPart, SinglePart};

use super::smtp::{Fault, Secured, Server, Session};
use connect::component::{Environment, Payload, Sink, SinkSetup};
use connect::error::Error;
use connect::message::Message;
use connect::net::{ClientTls, ClientTrust, Network};
use connect::option::Dynamic;
use connect::option::{Settings, number};

/// Where the deployment file does not say (`mail.smtp.connectiontimeout`, `mail.smtp.timeout`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of all attachments of a mail.
const ATTACHED_BYTES_MAX: u64 = 64 << 20;

pub(super) struct EmailSink {
    network: Arc<Network>,
    server: Arc<Server>,
    label: String,
    from: Mailbox,
    to: Dynamic,
    cc: Dynamic,
    bcc: Dynamic,
    subject: Dynamic,
    content_type: Dynamic,
    attachments: Dynamic,
    session: Option<Session>,
}

impl EmailSink {
    pub fn new(setup: &SinkSetup<'_>) -> Result<EmailSink, Error> {
        let settings = Settings::of_sink(setup.transport, crate::email::CONNECTORS);
        let of = |name: &str| settings.text_or_default(name).trim().to_owned();
        let address = of("address");
        let from: Mailbox = address
            .parse()
            .map_err(|e| settings.refused(format!("option 'address' is '{address}': {e}")))?;
        let host = of("host");
        let port: u16 = settings.number("port")?;
        let login = settings
            .flag("auth")
            .then(|| (of("username"), of("password")));
        let (mut server, upgrade) = deployed(settings, setup.environment)?;
        let tls = || {
            let trust = ClientTrust {
                store: ClientTrust::deployed(setup.environment, "sink", "email"),
                ..ClientTrust::default()
            };
            ClientTls::trusting(settings, "TLS", trust)
        };
        server.secured = match (settings.flag("ssl.enable"), upgrade) {
            (true, _) => Secured::First(tls()?),
            (false, Upgrade::Required) => Secured::Required(tls()?),
            (false, Upgrade::Offered) => Secured::Offered(tls()?),
            (false, Upgrade::Never) => Secured::Never,
        };
        host.clone_into(&mut server.host);
        (server.port, server.login) = (port, login);
        let sink = EmailSink {
            network: setup.environment.network(),
            server: Arc::new(server),
            label: format!("'smtp://{host}:{port}'"),
            from,
            to: Dynamic::new(setup, settings, "to"),
            cc: Dynamic::new(setup, settings, "cc"),
            bcc: Dynamic::new(setup, settings, "bcc"),
            subject: Dynamic::new(setup, settings, "subject"),
            content_type: Dynamic::new(setup, settings, "content.type"),
            attachments: Dynamic::new(setup, settings, "attachments"),
            session: None,
        };
        for (name, option) in [("to", &sink.to), ("cc", &sink.cc), ("bcc", &sink.bcc)] {
            if let Dynamic::Constant(text) = option {
                let read = recipients(text);
                read.map_err(|cause| settings.refused(format!("option '{name}': {cause}")))?;
            }
        }
        if let Dynamic::Constant(text) = &sink.content_type {
            content_type(text).map_err(|cause| settings.refused(cause))?;
        }
        Ok(sink)
    }

    fn failed(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::failed(format!("sending by {}", self.label), cause)
    }

    fn unavailable(&self, cause: impl Into<connect::error::Cause>) -> Error {
        Error::unavailable(self.label.clone(), cause)
    }

    fn mail(&self, message: &Message<'_>) -> Result<Mail, String> {
        let text = match message.payload {
            Payload::Text(text) => text.to_owned(),
            Payload::Bytes(bytes) => String::from_utf8(bytes.to_vec())
                .map_err(|_| "the payload is not text: use a mapper that writes text".to_owned())?,
            _ => return Err("the payload is neither text nor bytes".to_owned()),
        };
        let mut mail = Mail::builder()
            .from(self.from.clone())
            .subject(self.subject.of(message))
            .message_id(None);
        for to in recipients(self.to.of(message))? {
            mail = mail.to(to);
        }
        for cc in recipients(self.cc.of(message))? {
            mail = mail.cc(cc);
        }
        for bcc in recipients(self.bcc.of(message))? {
            mail = mail.bcc(bcc);
        }
        let text = SinglePart::builder()
            .header(content_type(self.content_type.of(message))?)
            .body(text);
        let files = attached(self.attachments.of(message))?;
        let made = if files.is_empty() {
            mail.singlepart(text)
        } else {
            let mut parts = MultiPart::mixed().singlepart(text);
            for (name, bytes) in files {
                let kind = ContentType::parse("application/octet-stream");
                let kind = kind.map_err(|error| error.to_string())?;
                parts = parts.singlepart(Attachment::new(name).body(bytes, kind));
            }
            mail.multipart(parts)
        };
        made.map_err(|error| match self.to.of(message).trim() {
            "" => "there is no recipient".to_owned(),
            _ => error.to_string(),
        })
    }
}

/// When a connection in the clear becomes one of TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    Never,
    Offered,
    Required,
}

/// What the properties `mail.smtp.*` of the deployment file say; those without a meaning here are
/// named.
fn deployed(settings: Settings<'_>, environment: &Environment) -> Result<(Server, Upgrade), Error> {
    let mut upgrade = Upgrade::Never;
    let mut server = Server {
        host: String::new(),
        port: 0,
        secured: Secured::Never,
        login: None,
        name: "localhost".to_owned(),
        connect_timeout: CONNECT_TIMEOUT,
        timeout: TIMEOUT,
    };
    let own = environment
        .settings
        .iter()
        .filter(|s| s.namespace == "sink" && s.name == "email" && s.key.starts_with("mail."));
    for setting in own {
        let (key, value) = (setting.key.as_str(), setting.value.trim());
        let is_true = value.eq_ignore_ascii_case("true");
        let millis = || {
            let millis = number::<u64>(value).filter(|millis| *millis > 0);
            millis.map(Duration::from_millis).ok_or_else(|| {
                settings.refused(format!("property '{key}' is '{value}': write milliseconds"))
            })
        };
        match key {
            "mail.smtp.starttls.required" if is_true => upgrade = Upgrade::Required,
            "mail.smtp.starttls.enable" if is_true && upgrade == Upgrade::Never => {
                upgrade = Upgrade::Offered;
            }
            "mail.smtp.starttls.required" | "mail.smtp.starttls.enable" => {}
            "mail.smtp.localhost" => value.clone_into(&mut server.name),
            "mail.smtp.connectiontimeout" => server.connect_timeout = millis()?,
            "mail.smtp.timeout" => server.timeout = millis()?,
            _ => tracing::warn!(key, "ignoring unsupported property of extension 'email'"),
        }
    }
    Ok((server, upgrade))
}

/// The addresses of a list.
fn recipients(text: &str) -> Result<Mailboxes, String> {
    let text = text.trim();
    if text.is_empty() || text == "null" {
        return Ok(Mailboxes::new());
    }
    text.parse()
        .map_err(|error| format!("'{text}' is not a list of addresses: {error}"))
}

fn content_type(text: &str) -> Result<ContentType, String> {
    let text = text.trim();
    let whole = match text.contains("charset") {
        true => text.to_owned(),
        false => format!("{text}; charset=utf-8"),
    };
    ContentType::parse(&whole)
        .map_err(|_| format!("content type '{text}' is none: write text/plain or text/html"))
}

/// Names and contents of the files of a list; of a directory, those in it.
fn attached(list: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut files = Vec::new();
    for path in list.split(',').map(str::trim) {
        if path.is_empty() || path == "null" {
            continue;
        }
        let path = PathBuf::from(path);
        let said = |error: std::io::Error| {
            format!("attachment '{}' cannot be read: {error}", path.display())
        };
        if path.is_dir() {
            let mut inside = Vec::new();
            for entry in fs::read_dir(&path).map_err(said)? {
                inside.push(entry.map_err(said)?.path());
            }
            inside.sort();
            files.extend(inside.into_iter().filter(|path| path.is_file()));
        } else {
            files.push(path);
        }
    }
    let mut left = ATTACHED_BYTES_MAX;
    files.iter().map(|path| read(path, &mut left)).collect()
}

fn read(path: &Path, left: &mut u64) -> Result<(String, Vec<u8>), String> {
    let said =
        |error: std::io::Error| format!("attachment '{}' cannot be read: {error}", path.display());
    let len = fs::metadata(path).map_err(said)?.len();
    *left = left.checked_sub(len).ok_or_else(|| {
        format!("the attachments have more than {ATTACHED_BYTES_MAX} bytes together")
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok((name.into_owned(), fs::read(path).map_err(said)?))
}

impl Sink for EmailSink {
    fn connect(&mut self) -> Result<(), Error> {
        if self.session.is_some() {
            return Ok(());
        }
        let server = Arc::clone(&self.server);
        let workers = self.network.workers().map_err(|e| self.unavailable(e))?;
        let opened = workers.wait_for(async move { Session::open(&server).await });
        let opened = opened.map_err(|e| self.unavailable(e))?;
        let opened = opened.map_err(|fault| match fault {
            Fault::Lost(cause) | Fault::Later(cause) => self.unavailable(cause),
            Fault::Never(cause) => Error::denied(self.label.clone(), cause),
        });
        self.session = Some(opened?);
        Ok(())
    }

    fn publish(&mut self, message: &Message<'_>) -> Result<(), Error> {
        let mail = self.mail(message).map_err(|cause| self.failed(cause))?;
        let Some(mut session) = self.session.take() else {
            return Err(self.unavailable("there is no connection"));
        };
        let workers = self.network.workers().map_err(|e| self.unavailable(e))?;
        let sent = workers.wait_for(async move {
            let sent = session.send(mail.envelope(), &mail.formatted()).await;
            (session, sent)
        });
        let (session, sent) = sent.map_err(|e| self.unavailable(e))?;
        if !matches!(sent, Err(Fault::Lost(_))) {
            self.session = Some(session);
        }
        sent.map_err(|fault| match fault {
            Fault::Lost(cause) | Fault::Later(cause) => self.unavailable(cause),
            Fault::Never(cause) => self.failed(cause),
        })
    }

    /// Each mail was taken, or given back, when `publish` returned.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some(session) = self.session.take()
            && let Ok(workers) = self.network.workers()
        {
            workers.wait_for(session.quit()).ok();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_recipients() {
        let found = |text: &str| recipients(text).map(|all| all.to_string());
        assert_eq!(found(""), Ok(String::new()));
        assert_eq!(
            found(" a@x.org, B <b@y.org>"),
            Ok("a@x.org, B <b@y.org>".into())
        );
        assert!(found("nobody").is_err());
        assert!(found("a@x.org\r\nRCPT TO:<c@z.org>").is_err());
    }

    #[test]
    fn content_types() {
        assert!(content_type("text/html").is_ok());
        assert!(content_type("text/plain; charset=utf-8").is_ok());
        assert!(content_type("html").is_err());
    }
}
