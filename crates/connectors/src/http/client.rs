//! What all who send requests read of their options: how connections are made, and the headers that
//! every request has.

use std::time::Duration;

use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT,
};

use connect::error::Error;
use connect::net::http_client::{ClientOptions, Proxy, content_type, headers};
use connect::option::{Settings, number};

pub(super) fn common_headers(
    settings: Settings<'_>,
    options: &ClientOptions,
    mapper: &str,
) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let kind = HeaderValue::from_static(content_type(mapper));
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(USER_AGENT, HeaderValue::from_static("headwater"));
    let user = settings.text("basic.auth.username");
    let password = settings.text("basic.auth.password");
    match (user, password) {
        (Some(user), Some(password)) => {
            headers.insert(AUTHORIZATION, headers::basic(user, password));
        }
        (None, None) => {}
        _ => {
            return Err(settings
                .refused("options 'basic.auth.username' and 'basic.auth.password' go together"));
        }
    }
    let proxy = options.proxy.as_ref();
    let authorization = proxy.and_then(|proxy| proxy.authorization.as_deref());
    if let Some(value) = authorization.and_then(headers::secret) {
        headers.insert(PROXY_AUTHORIZATION, value);
    }
    Ok(headers)
}

pub(super) fn client_options(settings: Settings<'_>) -> Result<ClientOptions, Error> {
    // The source of events has none of these options of its own.
    let settings = settings.with_defaults_of(&crate::spec::http::SINK);
    const OPTION: &str = "client.bootstrap.configurations";
    let mut options = ClientOptions {
        idle_timeout: settings.millis("socket.idle.timeout")?,
        idle_max: settings
            .number::<i64>("max.pool.idle.connections")?
            .try_into()
            .unwrap_or(usize::MAX),
        evict_after: settings.millis("min.evictable.idle.time")?,
        proxy: proxy(settings)?,
        ..ClientOptions::default()
    };
    for (key, value) in settings.list(OPTION)? {
        let wrong = || {
            settings.refused(format!(
                "option '{OPTION}' has '{key}' with the value '{value}': write a number"
            ))
        };
        let flag = value.eq_ignore_ascii_case("true");
        match key.as_str() {
            "client.bootstrap.connect.timeout" => {
                let millis = number(&value).ok_or_else(wrong)?;
                options.connect_timeout = Some(Duration::from_millis(millis));
            }
            "client.bootstrap.socket.timeout" => {
                let seconds = number(&value).ok_or_else(wrong)?;
                options.idle_timeout = Some(Duration::from_secs(seconds));
            }
            "client.bootstrap.nodelay" => options.no_delay = flag,
            "client.bootstrap.keepalive" => options.keep_alive = flag,
            // A client takes any free port of its own.
            "client.bootstrap.socket.reuse" => {}
            "client.bootstrap.sendbuffersize" => {
                options.send_buffer = Some(number(&value).ok_or_else(wrong)?);
            }
            "client.bootstrap.recievebuffersize" => {
                options.receive_buffer = Some(number(&value).ok_or_else(wrong)?);
            }
            _ => {
                return Err(
                    settings.refused(format!("option '{OPTION}' has the unknown key '{key}'"))
                );
            }
        }
    }
    Ok(options)
}

fn proxy(settings: Settings<'_>) -> Result<Option<Proxy>, Error> {
    let Some(host) = settings.text("proxy.host").filter(|h| !h.trim().is_empty()) else {
        return Ok(None);
    };
    let user = settings.text("proxy.username");
    let authorization = user.map(|user| {
        let password = settings.text_or_default("proxy.password");
        let value = headers::basic(user, password);
        value.to_str().unwrap_or_default().to_owned()
    });
    Ok(Some(Proxy {
        host: host.trim().to_owned(),
        port: settings.number("proxy.port")?,
        authorization,
    }))
}
