//! The `http` source, and the `http-service` source whose requests wait for an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use plan::Transport;

use super::hub::Desk;
use super::listener::{Lease, Listeners, PortOptions, Target};
use super::{Service, Services};
use crate::http::request::{BODY_BYTES_MAX, Limits, Refusal, Route, Wanted};
use crate::origin::Origins;
use connect::component::{Connection, Environment, Finished, Source, SourceLink, SourceSetup};
use connect::error::Error;
use connect::net::{Network, Pace, Receiver, STOP_GRACE, ServerTls, SocketOptions, tell_if_open};
use connect::option::{Settings, number, property_names};
use connect::retry::Burst;
use connect::url::Url;

/// An app that stops is given so long to answer the requests that it has; shorter than a listener waits
/// for its connections to end.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

pub(super) struct HttpSource {
    network: Arc<Network>,
    /// Where clients send requests.
    url: Url,
    receiver: Receiver,
    lease: Lease,
    service: Option<Registered>,
    /// That of a hub.
    desk: Option<Arc<Desk>>,
    /// Name and address, where nobody has to say who he is.
    open: Option<(String, String, u16)>,
}

/// A service that is known under its id until dropped.
struct Registered {
    services: Arc<Services>,
    id: String,
    service: Arc<Service>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.services.remove(&self.id);
    }
}

impl HttpSource {
    pub fn new(setup: &SourceSetup<'_>) -> Result<HttpSource, Error> {
        let settings = Settings::of_source(setup.transport, crate::http::SPECS)
            .with_defaults_of(&super::http_service::SOURCE);
        let environment = setup.environment;
        let url = receiver_url(setup, settings)?;
        let name = format!("{}/{}", environment.app, setup.schema.name);
        let service = is_service(setup.transport)
            .then(|| register(environment, settings))
            .transpose()?;
        let desk = Desk::new(setup.transport, environment)?.map(Arc::new);
        let names = property_names(setup.transport);
        let receiver = Receiver::new(names);
        let route = Route {
            name,
            ingress: Arc::clone(&receiver.ingress),
            wanted: receiver.names.iter().map(|n| Wanted::new(n)).collect(),
            credentials: credentials(environment, settings)?,
            is_durable: environment.state.is_some(),
            tells_rejected: settings.is_set_to("answer.rejected", true),
            service: service.as_ref().map(|s| Arc::clone(&s.service)),
            desk: desk.clone(),
            limits: limits(settings)?,
            arrivals: environment.shared.get(),
            late: Burst::default(),
            unfit: Burst::default(),
            origins: Origins::new(settings, environment),
            is_traced: settings.flag("trace.log.enabled"),
        };
        let tls = url
            .is_tls
            .then(|| ServerTls::new(settings, environment))
            .transpose()?;
        let is_open = route.credentials.is_none() && !asks_for_certificate(settings);
        let open = is_open.then(|| (route.name.clone(), url.host.clone(), url.port));
        let listeners = environment.shared.get::<Listeners>();
        let lease = listeners
            .reserve(
                (&url.host, url.port),
                (url.path.clone(), Target::Source(Arc::new(route))),
                port_options(settings)?,
                tls,
            )
            .map_err(|message| settings.refused(message))?;
        Ok(HttpSource {
            network: environment.network(),
            url,
            receiver,
            lease,
            service,
            desk,
            open,
        })
    }
}

/// Is a client let in by its certificate alone?
fn asks_for_certificate(settings: Settings<'_>) -> bool {
    settings
        .text("ssl.verify.client")
        .is_some_and(|asked| asked.eq_ignore_ascii_case("require"))
}

fn is_service(transport: &Transport) -> bool {
    matches!(transport.ty.as_str(), "http-service" | "http-request")
}

fn receiver_url(setup: &SourceSetup<'_>, settings: Settings<'_>) -> Result<Url, Error> {
    if let Some(text) = settings.text("receiver.url") {
        return Url::parse(text).ok_or_else(|| {
            settings.refused(format!(
                "option 'receiver.url' is '{text}': write http://host:port/path"
            ))
        });
    }
    let text = default_url(setup);
    Url::parse(&text).ok_or_else(|| {
        settings.refused(format!(
            "the address '{text}' of the configuration is not a URL; correct defaultScheme, \
             defaultHost or defaultHttpPort of source 'http'"
        ))
    })
}

/// Where the app names no URL: scheme, host and port of the deployment file.
pub(super) fn default_url(setup: &SourceSetup<'_>) -> String {
    let of = |key, default| {
        let found = setup.environment.setting("source", "http", key);
        found.unwrap_or(default)
    };
    let scheme = of("defaultScheme", "http");
    let port = match scheme {
        "https" => of("defaultHttpsPort", "8243"),
        _ => of("defaultHttpPort", "8280"),
    };
    let host = of("defaultHost", "0.0.0.0");
    let (app, stream) = (&setup.environment.app, &setup.schema.name);
    format!("{scheme}://{host}:{port}/{app}/{stream}")
}

fn register(environment: &Environment, settings: Settings<'_>) -> Result<Registered, Error> {
    let id = settings
        .text("source.id")
        .ok_or_else(|| settings.refused("option 'source.id' is missing"))?;
    let services = environment.shared.get::<Services>();
    let timeout = settings.millis("connection.timeout")?;
    let service = services.register(id, timeout).ok_or_else(|| {
        settings.refused(format!(
            "another source has the id '{id}'; give each service its own 'source.id'"
        ))
    })?;
    Ok(Registered {
        services,
        id: id.to_owned(),
        service,
    })
}

/// Who asks for authentication must say whom to let in: an open door would be no answer.
fn credentials(environment: &Environment, settings: Settings<'_>) -> Result<Option<String>, Error> {
    if !settings.flag("basic.auth.enabled") {
        return Ok(None);
    }
    let of = |key| environment.setting("source", "http", key);
    match (of("basic.auth.username"), of("basic.auth.password")) {
        (Some(user), Some(password)) => Ok(Some(format!("{user}:{password}"))),
        _ => Err(settings.refused(
            "option 'basic.auth.enabled' needs the properties 'basic.auth.username' and \
             'basic.auth.password' of extension 'http' (namespace 'source') in the file given by \
             --config",
        )),
    }
}

fn limits(settings: Settings<'_>) -> Result<Limits, Error> {
    const SIZE: &str = "request.size.validation.configurations";
    const HEADER: &str = "header.validation.configurations";
    let mut body = None;
    let (mut checks_size, mut checks_headers) = (false, false);
    let (mut request_line, mut headers) = (None, None);
    let refusal = |status, message: &str| Refusal {
        status,
        message: message.to_owned(),
        content_type: "text/plain".to_owned(),
    };
    let mut body_refusal = refusal(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large\n");
    let mut header_refusal = refusal(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "the headers of the request are too large\n",
    );
    let bad = |option: &str, key: &str, value: &str| {
        settings.refused(format!(
            "option '{option}' has '{key}' with the value '{value}', which is not a number of the \
             right kind"
        ))
    };
    for (key, value) in settings.list(SIZE)? {
        let wrong = || bad(SIZE, &key, &value);
        match key.strip_prefix("request.size.validation") {
            Some("") => checks_size = value.eq_ignore_ascii_case("true"),
            Some(".maximum.value") => body = Some(number(&value).ok_or_else(wrong)?),
            Some(rest) => set_refusal(&mut body_refusal, rest, &value).ok_or_else(wrong)?,
            None => return Err(unknown_key(settings, SIZE, &key)),
        }
    }
    for (key, value) in settings.list(HEADER)? {
        let wrong = || bad(HEADER, &key, &value);
        match key.as_str() {
            "header.size.validation" => checks_headers = value.eq_ignore_ascii_case("true"),
            "header.validation.maximum.request.line" => {
                request_line = Some(number(&value).ok_or_else(wrong)?);
            }
            "header.validation.maximum.size" => headers = Some(number(&value).ok_or_else(wrong)?),
            // Bodies are read as they come, in pieces of our own size.
            "header.validation.maximum.chunk.size" => {}
            _ => match key.strip_prefix("header.validation") {
                Some(rest) => set_refusal(&mut header_refusal, rest, &value).ok_or_else(wrong)?,
                None => return Err(unknown_key(settings, HEADER, &key)),
            },
        }
    }
    Ok(Limits {
        body: body.filter(|_| checks_size).unwrap_or(BODY_BYTES_MAX),
        body_refusal,
        pace: pace(settings)?,
        request_line: request_line.filter(|_| checks_headers),
        headers: headers.filter(|_| checks_headers),
        header_refusal,
    })
}

/// How long a body may take.
fn pace(settings: Settings<'_>) -> Result<Pace, Error> {
    Ok(Pace {
        gap: settings.millis("body.idle.timeout")?,
        whole: settings.millis("body.timeout")?,
    })
}

fn unknown_key(settings: Settings<'_>, option: &str, key: &str) -> Error {
    settings.refused(format!("option '{option}' has the unknown key '{key}'"))
}

fn set_refusal(refusal: &mut Refusal, key: &str, value: &str) -> Option<()> {
    match key {
        ".reject.status.code" => refusal.status = value.trim().parse().ok()?,
        ".reject.message" => value.clone_into(&mut refusal.message),
        ".reject.message.content.type" => value.clone_into(&mut refusal.content_type),
        _ => return None,
    }
    Some(())
}

pub(super) fn port_options(settings: Settings<'_>) -> Result<PortOptions, Error> {
    // The server of events has none of these options of its own.
    let settings = settings.with_defaults_of(&super::http_service::SOURCE);
    const OPTION: &str = "server.bootstrap.configurations";
    let mut options = PortOptions {
        socket: SocketOptions::default(),
        idle: settings.millis("socket.idle.timeout")?,
    };
    let socket = &mut options.socket;
    for (key, value) in settings.list(OPTION)? {
        let wrong = || {
            settings.refused(format!(
                "option '{OPTION}' has '{key}' with the value '{value}': write a number"
            ))
        };
        let flag = value.eq_ignore_ascii_case("true");
        match key.as_str() {
            "server.bootstrap.nodelay" => socket.no_delay = flag,
            "server.bootstrap.keepalive" => socket.keep_alive = flag,
            "server.bootstrap.sendbuffersize" => {
                socket.send_buffer = Some(number(&value).ok_or_else(wrong)?);
            }
            "server.bootstrap.recievebuffersize" => {
                socket.receive_buffer = Some(number(&value).ok_or_else(wrong)?);
            }
            "server.bootstrap.socket.backlog" => {
                socket.backlog = number(&value).ok_or_else(wrong)?;
            }
            "server.bootstrap.socket.timeout" => {
                let seconds: u64 = number(&value).ok_or_else(wrong)?;
                options.idle = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            // A listener connects to nobody.
            "server.bootstrap.connect.timeout" => {}
            _ => return Err(unknown_key(settings, OPTION, &key)),
        }
    }
    Ok(options)
}

impl Source for HttpSource {
    fn run(&mut self, link: &mut dyn SourceLink) -> Result<Finished, Error> {
        let workers = self
            .network
            .workers()
            .map_err(|e| Error::unavailable("the network", e))?;
        self.receiver.ingress.open();
        let mut stay = self.lease.open(workers)?;
        link.set_address(&self.url.to_string());
        if let Some((name, host, port)) = &self.open {
            tell_if_open(
                name,
                (host, *port),
                "name an address in 'receiver.url', or set 'basic.auth.enabled' or 'ssl.verify.client'",
            );
        }
        link.report(Connection::Connected);
        let desk = self.desk.as_deref();
        if let Some(desk) = desk {
            desk.open();
        }
        let mut stopped = None;
        let service = self.service.as_ref().map(|registered| &registered.service);
        let result = self.receiver.run_until(link, || {
            // What the app has not answered by now will have no answer, and its client is to hear that.
            let stopped = *stopped.get_or_insert_with(Instant::now);
            if let Some(service) = service.filter(|_| stopped.elapsed() >= ANSWER_GRACE) {
                service.give_up();
            }
            // A callback that has been asked may confirm what is then to be kept.
            let asks = desk.is_some_and(|desk| {
                desk.leave();
                !desk.is_idle() && stopped.elapsed() < STOP_GRACE
            });
            stay.is_drained() && !asks
        });
        if let Some(service) = service {
            service.give_up();
        }
        self.lease.close(stay);
        result
    }

    fn restore(&mut self, _position: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    fn source(options: &[(&str, &str)]) -> Result<HttpSource, Error> {
        testing::source("http", options, HttpSource::new)
    }

    fn refusal(options: &[(&str, &str)]) -> String {
        source(options)
            .err()
            .map_or_else(String::new, |e| e.to_string())
    }

    #[test]
    fn what_cannot_be_is_refused_when_the_app_is_made() {
        for (option, value, cause) in [
            ("receiver.url", "nope", "write http://host:port/path"),
            ("basic.auth.enabled", "true", "'basic.auth.username'"),
            ("socket.idle.timeout", "soon", "write a whole number"),
            (
                "server.bootstrap.configurations",
                "'a:b'",
                "unknown key 'a'",
            ),
            (
                "header.validation.configurations",
                "'a:b'",
                "unknown key 'a'",
            ),
            (
                "request.size.validation.configurations",
                "'request.size.validation.maximum.value:x'",
                "not a number",
            ),
        ] {
            let message = refusal(&[(option, value)]);
            assert!(message.contains(cause), "{option}: {message}");
        }
    }

    #[test]
    fn limits_hold_where_their_check_is_on() {
        let limits_of = |check: &str| {
            let size = format!(
                "'request.size.validation:{check}','request.size.validation.maximum.value:10',\
                 'request.size.validation.reject.status.code:414'"
            );
            let transport =
                testing::transport("http", &[("request.size.validation.configurations", &size)]);
            limits(Settings::of_source(&transport, crate::http::SPECS)).unwrap()
        };
        assert_eq!(limits_of("true").body, 10);
        assert_eq!(
            limits_of("true").body_refusal.status,
            StatusCode::URI_TOO_LONG
        );
        assert_eq!(limits_of("false").body, BODY_BYTES_MAX);
    }
}
