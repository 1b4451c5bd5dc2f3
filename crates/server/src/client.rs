//! Asks a running server over HTTP or HTTPS, and reads answers that come line by line.
//!
//! Promises: a refused login and a missing role are errors that say what to do; a certificate that is not
//! trusted ends the connection. Never: a token in a message.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
pub use hyper::Method;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use plan::StatisticsLevel;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::error::Error;
use crate::tls;

/// How long a server may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long it may take over a backup.
const BACKUP_MAX: Duration = Duration::from_secs(630);

/// Bytes of an answer.
const BODY_MAX: usize = 1 << 30;

/// Bytes of a line of an answer that comes line by line, and of what comes with it at once.
const LINE_MAX: usize = 64 << 20;

/// Ends what reads lines, from another thread.
#[derive(Clone, Debug, Default)]
pub struct StopReading(Arc<Notify>);

impl StopReading {
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// What a server said: the status, and the JSON with it.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub json: Json,
}

/// A server, and how to get in.
pub struct Client {
    /// As it was given, for messages.
    url: String,
    authority: Authority,
    port: u16,
    /// In front of each path.
    prefix: String,
    token: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// `url` as people write it: `https://host:port`, `host:port`, `:port` or `port`. `roots` is a PEM file
    /// of certificates to trust instead of those of the system.
    ///
    /// # Errors
    /// [`Error::Usage`] if the URL, the token or the certificates cannot be used.
    pub fn new(url: &str, token: Option<&str>, roots: Option<&Path>) -> Result<Client, Error> {
        let (is_tls, authority, port, prefix) = address(url)?;
        let token = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            value.map_err(|_| Error::Usage("the token has characters that no token has".to_owned()))
        });
        let token = token.transpose()?.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let host = authority.host().trim_matches(['[', ']']);
        let is_local = host.eq_ignore_ascii_case("localhost")
            || host
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if token.is_some() && !is_tls && !is_local {
            tracing::warn!(
                server = url,
                "the token is sent unencrypted, and whoever can listen on the way can use it: \
                 serve HTTPS with --http-cert and --http-key"
            );
        }
        let tls = match is_tls {
            false => None,
            true => Some(tls::client(roots).map_err(Error::Usage)?),
        };
        Ok(Client {
            url: url.to_owned(),
            authority,
            port,
            prefix,
            token,
            tls,
        })
    }

    /// Sends a query.
    pub fn query(&self, app: Option<&str>, query: &str) -> Result<Reply, Error> {
        let body = json!({ "appName": app, "query": query, "details": true });
        self.ask(Method::POST, "/stores/query", &body.to_string())
    }

    /// Asks for the statistics of an app, or of all; with a level they are set to it first.
    pub fn statistics(
        &self,
        app: Option<&str>,
        level: Option<StatisticsLevel>,
    ) -> Result<Reply, Error> {
        let app = app.map_or_else(String::new, |app| format!("/{}", percent_encoded(app)));
        let path = format!("/siddhi-apps{app}/statistics");
        match level {
            None => self.ask(Method::GET, &path, ""),
            Some(level) => {
                let body = json!({ "level": level.name() }).to_string();
                self.ask(Method::PUT, &path, &body)
            }
        }
    }

    /// Asks where the server stands.
    pub fn status(&self) -> Result<Reply, Error> {
        self.ask(Method::GET, "/status", "")
    }

    /// Asks for the streams of an app, with their attributes.
    pub fn streams(&self, app: &str) -> Result<Reply, Error> {
        let path = format!("/siddhi-apps/{}/streams", percent_encoded(app));
        self.ask(Method::GET, &path, "")
    }

    /// Sends rows, one JSON value per line, to a stream of an app.
    pub fn send_rows(&self, app: &str, stream: &str, rows: &str) -> Result<Reply, Error> {
        let (app, stream) = (percent_encoded(app), percent_encoded(stream));
        let path = format!("/siddhi-apps/{app}/streams/{stream}/events");
        self.ask(Method::POST, &path, rows)
    }

    /// Sends a request with a JSON body, or an empty one, and waits for the answer. The path is encoded
    /// (see [`percent_encoded`]) and may have a query behind it.
    ///
    /// # Errors
    /// [`Error::Connect`] if the server cannot be reached or breaks off; [`Error::Refused`] if it wants a
    /// login, or a role that the user does not have. All other answers are replies.
    pub fn ask(&self, method: Method, path: &str, body: &str) -> Result<Reply, Error> {
        self.ask_with(method, path, "application/json", body.to_owned())
    }

    /// As [`Client::ask`], with a body of another type.
    pub fn ask_with(
        &self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: impl Into<Bytes>,
    ) -> Result<Reply, Error> {
        let request = self.request(method, path, kind, body.into())?;
        self.reply(request, ANSWER_MAX)
    }

    fn reply(&self, request: Request<Full<Bytes>>, at_most: Duration) -> Result<Reply, Error> {
        let reply = self.runtime()?.block_on(async {
            let reply = async { read_reply(self.open(request).await?).await };
            let reply = tokio::time::timeout(at_most, reply).await;
            reply
                .map_err(|_| self.away(&late(at_most)))?
                .map_err(|cause| self.away(&cause))
        })?;
        match self.kept_out(&reply) {
            None => Ok(reply),
            Some(message) => Err(Error::Refused(message)),
        }
    }

    /// Asks what is saved.
    pub fn state(&self) -> Result<Reply, Error> {
        self.ask(Method::GET, "/state", "")
    }

    /// Has a backup made of a checkpoint; with a large state that takes its time.
    pub fn back_up(&self, name: &str) -> Result<Reply, Error> {
        let path = format!("/state/backups?name={}", percent_encoded(name));
        let request = self.request(Method::POST, &path, "application/json", Bytes::new())?;
        self.reply(request, BACKUP_MAX)
    }

    /// Removes a backup.
    pub fn remove_backup(&self, name: &str) -> Result<Reply, Error> {
        let path = format!("/state/backups/{}", percent_encoded(name));
        self.ask(Method::DELETE, &path, "")
    }

    /// Writes a backup into a new file, as a tar archive; its bytes. After an error there is no such file.
    ///
    /// # Errors
    /// As [`Client::ask`]; the file cannot be written; there is no such backup.
    pub fn archive(&self, name: &str, to: &Path) -> Result<u64, Error> {
        let path = format!("/state/backups/{}", percent_encoded(name));
        let request = self.request(Method::GET, &path, "application/json", Bytes::new())?;
        let mut options = std::fs::File::options();
        let file = crate::state::private(options.write(true).create_new(true)).open(to);
        let mut file = file.map_err(Error::file("create", to))?;
        let received = self.runtime()?.block_on(async {
            let opened = tokio::time::timeout(ANSWER_MAX, self.open(request)).await;
            let response = opened.map_err(|_| late(ANSWER_MAX))??;
            if response.status() != StatusCode::OK {
                return Err(format!("it answered {}", response.status()));
            }
            receive(response.into_body(), &mut file).await
        });
        let received = received.map_err(|cause| self.away(&cause));
        let received = received.and_then(|bytes| {
            file.sync_all().map_err(Error::file("sync", to))?;
            Ok(bytes)
        });
        if received.is_err() {
            // The first error says what went wrong.
            std::fs::remove_file(to).ok();
        }
        received
    }

    /// Reads the answer to a GET line by line as it comes: each is given to `line`, until that says
    /// `false`, the answer ends or `stop` is called. An answer with another status than 200 is `Some`.
    ///
    /// # Errors
    /// As [`Client::ask`], and if the connection breaks.
    pub fn lines(
        &self,
        path: &str,
        stop: &StopReading,
        line: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<Reply>, Error> {
        let request = self.request(Method::GET, path, "application/json", Bytes::new())?;
        let reply = self.runtime()?.block_on(async {
            let reading = async {
                let opened = tokio::time::timeout(ANSWER_MAX, self.open(request)).await;
                let response = opened.map_err(|_| late(ANSWER_MAX))??;
                if response.status() != StatusCode::OK {
                    return read_reply(response).await.map(Some);
                }
                read_lines(response, line).await.map(|()| None)
            };
            tokio::select! {
                () = stop.0.notified() => Ok(None),
                outcome = reading => outcome.map_err(|cause| self.away(&cause)),
            }
        })?;
        match reply.as_ref().and_then(|reply| self.kept_out(reply)) {
            None => Ok(reply),
            Some(message) => Err(Error::Refused(message)),
        }
    }

    /// Asks a statement of SQL; what is answered is given to `write` as it comes, until that says `false`. An answer
    /// with another status than 200 is `Some`. The server ends a statement at its own limits.
    ///
    /// # Errors
    /// As [`Client::ask`], and if the connection breaks.
    pub fn sql(
        &self,
        sql: &str,
        accept: &'static str,
        write: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Reply>, Error> {
        let request = self.sql_request("/sql", sql, accept)?;
        self.rows(request, write)
    }

    /// Makes a statement of SQL a job; the answer is what is known of it.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn sql_job(&self, sql: &str, accept: &'static str) -> Result<Reply, Error> {
        let request = self.sql_request("/sql?async=true", sql, accept)?;
        self.reply(request, ANSWER_MAX)
    }

    /// As [`Client::sql`], for the result of a job that has ended.
    ///
    /// # Errors
    /// As there.
    pub fn sql_result(
        &self,
        id: &str,
        write: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Reply>, Error> {
        let path = format!("/sql/jobs/{}/result", percent_encoded(id));
        let request = self.request(Method::GET, &path, "application/json", Bytes::new())?;
        self.rows(request, write)
    }

    fn sql_request(
        &self,
        path: &str,
        sql: &str,
        accept: &'static str,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let body = Bytes::copy_from_slice(sql.as_bytes());
        let mut request = self.request(Method::POST, path, "application/sql", body)?;
        let accept = HeaderValue::from_static(accept);
        request.headers_mut().insert(ACCEPT, accept);
        Ok(request)
    }

    /// Gives the body of an answer to `write` as it comes; one with another status than 200 is `Some`.
    fn rows(
        &self,
        request: Request<Full<Bytes>>,
        write: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Reply>, Error> {
        let reply = self.runtime()?.block_on(async {
            let reading = async {
                let response = self.open(request).await?;
                if response.status() != StatusCode::OK {
                    return read_reply(response).await.map(Some);
                }
                let mut body = response.into_body();
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
                    if let Ok(data) = frame.into_data()
                        && !write(&data)
                    {
                        break;
                    }
                }
                Ok(None)
            };
            reading.await.map_err(|cause: String| self.away(&cause))
        })?;
        match reply.as_ref().and_then(|reply| self.kept_out(reply)) {
            None => Ok(reply),
            Some(message) => Err(Error::Refused(message)),
        }
    }

    fn runtime(&self) -> Result<tokio::runtime::Runtime, Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| self.away(&e))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let path = format!("{}{path}", self.prefix);
        let path: Uri = path
            .parse()
            .map_err(|_| Error::Usage(format!("'{path}' is not a path of a server")))?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.authority.as_str())
            .header(CONTENT_TYPE, kind);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        request.body(Full::new(body)).map_err(|e| self.away(&e))
    }

    /// Sends a body with headers of its own, and reads no more of the answer than its status.
    ///
    /// # Errors
    /// If the server cannot be reached, breaks off or takes longer than `at_most`.
    pub(crate) fn push(
        &self,
        path: &str,
        kind: &'static str,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
        at_most: Duration,
    ) -> Result<u16, Error> {
        let mut request = self.request(Method::POST, path, kind, body.into())?;
        request.headers_mut().extend(headers.iter().cloned());
        self.runtime()?.block_on(async {
            let opened = tokio::time::timeout(at_most, self.open(request)).await;
            let late = format!("no answer within {} s", at_most.as_secs());
            let response = opened
                .map_err(|_| self.away(&late))?
                .map_err(|cause| self.away(&cause))?;
            Ok(response.status().as_u16())
        })
    }

    /// Why the server let nobody in, and what to do.
    fn kept_out(&self, reply: &Reply) -> Option<String> {
        let url = &self.url;
        let said = reply.json["message"].as_str().unwrap_or("no reason given");
        match reply.status {
            401 if self.token.is_some() => Some(format!(
                "the server at {url} does not accept the token: it is wrong, expired or removed; ask \
                 for a new one (headwater users token NAME, on the server) and set HEADWATER_TOKEN"
            )),
            401 => Some(format!(
                "the server at {url} needs a login: set HEADWATER_TOKEN to a token \
                 (headwater users token NAME, on the server), or give --token-file"
            )),
            403 => Some(format!("the server at {url} refuses: {said}")),
            429 if reply.json["login"] == true => {
                Some(format!("the server at {url} refuses: {said}"))
            }
            _ => None,
        }
    }

    /// Sends a request; what follows the head of the answer is not read yet.
    async fn open(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await.map_err(said)?;
        let Some(tls) = &self.tls else {
            return send(stream, request).await;
        };
        let name = ServerName::try_from(host.to_owned()).map_err(said)?;
        let connector = TlsConnector::from(Arc::clone(tls));
        send(
            connector.connect(name, stream).await.map_err(said)?,
            request,
        )
        .await
    }

    fn away(&self, cause: &dyn fmt::Display) -> Error {
        Error::Connect {
            what: format!("the server at {}", self.url),
            message: cause.to_string(),
        }
    }
}

/// `?name=value&…`; empty without any.
pub fn query_text<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text += &format!("{name}={}", percent_encoded(value));
    }
    text
}

/// One segment of a path.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn said(error: impl fmt::Display) -> String {
    error.to_string()
}

/// Is it TLS; host and port; what stands in front of each path.
fn address(url: &str) -> Result<(bool, Authority, u16, String), Error> {
    let wrong = || {
        Error::Usage(format!(
            "'{url}' is not a URL of a server: write https://host:port, host:port or a port of this machine"
        ))
    };
    let text = url.trim();
    let port = text.strip_prefix(':').unwrap_or(text);
    let whole = if port.parse::<u16>().is_ok() {
        format!("http://127.0.0.1:{port}")
    } else if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: Uri = whole.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?.clone();
    let is_doubled = uri.path().starts_with("//");
    if authority.as_str().contains('@') || uri.query().is_some() || is_doubled {
        return Err(wrong());
    }
    let (is_tls, default) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        _ => return Err(wrong()),
    };
    let port = match authority.port_u16() {
        Some(port) => port,
        None if authority.as_str() == authority.host() => default,
        // Something stands behind the colon, or nothing does.
        None => return Err(wrong()),
    };
    let prefix = uri.path().trim_end_matches('/').to_owned();
    Ok((is_tls, authority, port, prefix))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(said)?;
    // It ends with the answer; what goes wrong shows there.
    tokio::task::spawn(async move { connection.await.ok() });
    sender.send_request(request).await.map_err(said)
}

fn late(at_most: Duration) -> String {
    format!("no answer within {} s", at_most.as_secs())
}

/// The body goes into a file as it comes. A server that is silent for too long has gone.
async fn receive(mut body: Incoming, file: &mut std::fs::File) -> Result<u64, String> {
    let mut bytes = 0;
    loop {
        let late = |_| format!("nothing came for {} s", ANSWER_MAX.as_secs());
        let frame = tokio::time::timeout(ANSWER_MAX, body.frame()).await;
        let Some(frame) = frame.map_err(late)? else {
            return Ok(bytes);
        };
        if let Ok(data) = frame.map_err(said)?.into_data() {
            std::io::Write::write_all(file, &data).map_err(said)?;
            bytes += data.len() as u64;
        }
    }
}

async fn read_reply(response: Response<Incoming>) -> Result<Reply, String> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
    let body = body.map_err(said)?.to_bytes();
    let json = serde_json::from_slice(&body)
        .map_err(|_| format!("it answered {status} without JSON: is it a Headwater server?"))?;
    Ok(Reply { status, json })
}

/// Gives each line of a body to `line` as it comes.
async fn read_lines(
    response: Response<Incoming>,
    line: &mut dyn FnMut(&str) -> bool,
) -> Result<(), String> {
    let mut body = response.into_body();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the connection broke: {error}"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        rest.extend_from_slice(&data);
        if rest.len() > LINE_MAX {
            return Err(format!("it sent a line of more than {LINE_MAX} bytes"));
        }
        let mut begin = 0;
        while let Some(end) = rest[begin..].iter().position(|&byte| byte == b'\n') {
            if !line(&String::from_utf8_lossy(&rest[begin..begin + end])) {
                return Ok(());
            }
            begin += end + 1;
        }
        rest.drain(..begin);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_segment_of_a_path() {
        assert_eq!(percent_encoded("Shop-1.b_~"), "Shop-1.b_~");
        assert_eq!(percent_encoded("a /ä%"), "a%20%2F%C3%A4%25");
    }

    #[test]
    fn a_server_is_named_as_people_write_it() {
        for (url, expect) in [
            ("9090", (false, "127.0.0.1:9090", 9090, "")),
            (":9090", (false, "127.0.0.1:9090", 9090, "")),
            ("localhost:9090", (false, "localhost:9090", 9090, "")),
            ("http://a.example/", (false, "a.example", 80, "")),
            ("https://a.example/sub/", (true, "a.example", 443, "/sub")),
            ("http://[::1]:7", (false, "[::1]:7", 7, "")),
        ] {
            let (is_tls, authority, port, prefix) = address(url).expect(url);
            assert_eq!(
                (is_tls, authority.as_str(), port, &*prefix),
                expect,
                "{url}"
            );
        }
        for url in [
            "",
            "ftp://a",
            "http://",
            "http://anna:secret@a",
            "http://a?x=1",
            "ht:/x",
            "http//a",
            "http://a:99999",
            "a b",
        ] {
            let error = address(url).expect_err(url);
            assert_eq!(error.exit_code(), 2, "{url}");
        }
    }

    #[test]
    fn a_token_is_in_no_text_of_the_client() {
        let client = Client::new("9090", Some("hw_secret"), None).expect("a client");
        assert!(!format!("{client:?} {:?}", client.token).contains("hw_secret"));
        let refused = Client::new("9090", Some("hw_sec\nret"), None).expect_err("no token");
        assert!(!format!("{refused}").contains("hw_"), "{refused}");
    }
}
