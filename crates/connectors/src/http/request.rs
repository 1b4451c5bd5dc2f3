//! What happens to one request: checked, read, handed to its source, answered.
//!
//! Without state a request is answered when the bounded queue of its source has taken it, with state
//! when what it brought is saved. Statuses are those of Siddhi's `HttpSourceListener` and
//! `HttpConnectorListener`: a body that cannot be mapped is rejected and counted, and answered 200.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use event::Value;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};

use super::Service;
use super::hub::{self, Desk};
use crate::origin::Origins;
use connect::arrivals::{Account, Arrivals};
use connect::net::{Clock, Crowd, Delivery, Ingress, Late, Outgoing, Pace};
use connect::retry::Burst;
use connect::url::decode;

/// A client is told to come again when what it has sent could not be taken or saved for so long, before
/// it gives up by itself and knows nothing.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Longest body where no limit is configured.
pub(super) const BODY_BYTES_MAX: usize = 64 << 20;

/// Bytes of the budget that are taken at once, before as many are read.
const BLOCK_BYTES: usize = 64 << 10;

/// A body of which so many bytes are there is moved no more.
const MOVED_BYTES_MAX: usize = 256 << 10;

/// Longest wait for bytes of the budget.
const ROOM_MAX: Duration = Duration::from_secs(60);

/// Where requests of one path go.
pub(crate) struct Route {
    /// `app/stream`, for messages.
    pub name: String,
    pub ingress: Arc<Ingress>,
    /// Transport properties that the mapping asks for.
    pub wanted: Vec<Wanted>,
    /// `user:password`, where one must be given.
    pub credentials: Option<String>,
    /// Answer when what the request brought is saved.
    pub is_durable: bool,
    /// A request of which something is rejected is answered with the cause.
    pub tells_rejected: bool,
    /// Requests are held for a response sink.
    pub service: Option<Arc<Service>>,
    /// Requests are subscriptions.
    pub desk: Option<Arc<Desk>>,
    pub limits: Limits,
    pub arrivals: Arc<Arrivals>,
    /// Bodies that did not come in their time.
    pub late: Burst,
    /// Bodies that were larger than the budget.
    pub unfit: Burst,
    /// Whose pages may send requests.
    pub origins: Origins,
    pub is_traced: bool,
}

impl Route {
    /// May a body of so many bytes be taken without a look at anything but its path?
    pub fn is_simple(&self, body: usize) -> bool {
        let limits = &self.limits;
        self.wanted.is_empty()
            && self.credentials.is_none()
            && !self.is_durable
            && !self.tells_rejected
            && self.service.is_none()
            && self.desk.is_none()
            && !self.is_traced
            && limits.request_line.is_none()
            && limits.headers.is_none()
            && body <= limits.body
    }
}

/// Limits of `request.size.validation.configurations` and `header.validation.configurations`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub body: usize,
    pub body_refusal: Refusal,
    /// `body.idle.timeout` and `body.timeout`.
    pub pace: Pace,
    /// Longest request line, and all headers together.
    pub request_line: Option<usize>,
    pub headers: Option<usize>,
    pub header_refusal: Refusal,
}

/// How a request beyond a limit is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub message: String,
    pub content_type: String,
}

/// A transport property, as `trp:` names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Header(HeaderName),
    Query(String),
    Path,
    Method,
    Version,
    Scheme,
    LocalPort,
    RemoteAddress,
    MessageId,
    /// No header can have this name.
    Nothing,
}

/// The other end of a connection.
pub(crate) struct Peer {
    pub address: SocketAddr,
    pub local_port: u16,
    pub is_tls: bool,
    /// What an answer without end has still to write.
    pub outgoing: Arc<Outgoing>,
}

pub(crate) type Answer = Response<Full<Bytes>>;

impl Wanted {
    /// Header names match in any case; a query parameter has a `_` before its name.
    pub fn new(name: &str) -> Wanted {
        match name {
            "messageId" => Wanted::MessageId,
            "TO" | "REQUEST_URL" => Wanted::Path,
            "HTTP_METHOD" => Wanted::Method,
            "HTTP_VERSION" => Wanted::Version,
            "PROTOCOL" => Wanted::Scheme,
            "LISTENER_PORT" => Wanted::LocalPort,
            "REMOTE_ADDRESS" => Wanted::RemoteAddress,
            _ => match name.strip_prefix('_') {
                Some(parameter) => Wanted::Query(parameter.to_owned()),
                None => {
                    HeaderName::from_bytes(name.as_bytes()).map_or(Wanted::Nothing, Wanted::Header)
                }
            },
        }
    }

    fn value<B>(&self, request: &Request<B>, peer: &Peer, message_id: Option<&str>) -> Value {
        match self {
            Wanted::Header(name) => match request.headers().get(name) {
                Some(value) => Value::str(&String::from_utf8_lossy(value.as_bytes())),
                None => Value::Null,
            },
            Wanted::Query(name) => {
                let query = request.uri().query().unwrap_or_default();
                parameter(query, name).map_or(Value::Null, |value| Value::str(&value))
            }
            Wanted::Path => Value::str(
                request
                    .uri()
                    .path_and_query()
                    .map_or("/", |target| target.as_str()),
            ),
            Wanted::Method => Value::str(request.method().as_str()),
            Wanted::Version => Value::str(match request.version() {
                hyper::Version::HTTP_10 => "1.0",
                _ => "1.1",
            }),
            Wanted::Scheme => Value::str(if peer.is_tls { "https" } else { "http" }),
            Wanted::LocalPort => Value::Int(i32::from(peer.local_port)),
            Wanted::RemoteAddress => Value::str(&peer.address.ip().to_string()),
            Wanted::MessageId => message_id.map_or(Value::Null, Value::str),
            Wanted::Nothing => Value::Null,
        }
    }
}

/// The first value of a parameter, decoded.
fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key) == name).then(|| decode(value))
    })
}

/// An answer with a text.
pub(super) fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *answer.status_mut() = status;
    if !text.is_empty() {
        let kind = HeaderValue::from_static("text/plain");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
    }
    answer
}

fn empty(status: StatusCode) -> Answer {
    plain(status, "")
}

impl Refusal {
    fn answer(&self) -> Answer {
        let mut answer = last(self.status, &self.message);
        if let Ok(kind) = HeaderValue::from_str(&self.content_type) {
            answer.headers_mut().insert(CONTENT_TYPE, kind);
        }
        answer
    }
}

/// The last answer on its connection: the rest of the request is not read.
fn last(status: StatusCode, text: &str) -> Answer {
    let mut answer = plain(status, text);
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

/// The source takes nothing: it has stopped, or has not begun.
pub(super) fn stopped() -> Answer {
    unavailable("the source is not running\n")
}

/// Nothing is taken now; the client is to come again.
pub(super) fn unavailable(why: &str) -> Answer {
    let mut answer = last(StatusCode::SERVICE_UNAVAILABLE, why);
    let again = HeaderValue::from_static("1");
    answer.headers_mut().insert(RETRY_AFTER, again);
    answer
}

/// Takes a request to its source.
pub(super) async fn answer(
    request: Request<Incoming>,
    route: &Arc<Route>,
    peer: &Peer,
    crowd: &Crowd,
) -> Answer {
    if let Some(refused) = refuse(&request, route) {
        return refused;
    }
    let message_id = route.service.as_ref().map(|service| service.new_id());
    let properties: Vec<Value> = route
        .wanted
        .iter()
        .map(|wanted| wanted.value(&request, peer, message_id.as_deref()))
        .collect();
    let (body, account) = match read(request.into_body(), route, crowd).await {
        Ok(read) => read,
        Err(Unread::TooLong) => return route.limits.body_refusal.answer(),
        Err(Unread::Broken) => return empty(StatusCode::BAD_REQUEST),
        Err(Unread::NoRoom) => return no_room(route, peer),
        Err(Unread::Crowded) => return unavailable("other requests take all memory for bodies\n"),
        Err(Unread::Late(late)) => return too_late(route, peer, late),
    };
    if route.is_traced {
        tracing::info!(source = route.name, peer = %peer.address, body = %String::from_utf8_lossy(&body), "request");
    }
    if body.is_empty() {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    if let Some(desk) = &route.desk {
        return hub::answer(route, desk, &text(body), properties, peer).await;
    }
    let delivery = Delivery::text(text(body), properties).holding(account);
    match (&route.service, message_id) {
        (Some(service), Some(id)) => hold(route, service, id, delivery).await,
        _ if route.tells_rejected => judged(route, delivery).await,
        _ if route.is_durable => {
            let (delivery, told) = delivery.with_receipt();
            let saved = async { route.ingress.push(delivery).await.is_ok() && told.await.is_ok() };
            taken(saved).await
        }
        _ => taken(async { route.ingress.push(delivery).await.is_ok() }).await,
    }
}

/// As an answer without it, but 400 with the cause where something of the request is rejected.
async fn judged(route: &Route, delivery: Delivery) -> Answer {
    let (delivery, verdict) = delivery.with_verdict();
    let (delivery, saved) = match route.is_durable {
        true => {
            let (delivery, saved) = delivery.with_receipt();
            (delivery, Some(saved))
        }
        false => (delivery, None),
    };
    let mut refusal = None;
    let is_taken = async {
        let is_pushed = route.ingress.push(delivery).await.is_ok();
        let Some(Ok(found)) = is_pushed.then_some(verdict.await) else {
            return false;
        };
        refusal = found;
        match saved {
            Some(saved) if refusal.is_none() => saved.await.is_ok(),
            _ => true,
        }
    };
    let answer = taken(is_taken).await;
    match refusal {
        Some(cause) => plain(StatusCode::BAD_REQUEST, &format!("rejected: {cause}\n")),
        None => answer,
    }
}

/// The answer once `is_taken` says whether the source has taken the request.
pub(super) async fn taken(is_taken: impl Future<Output = bool>) -> Answer {
    match tokio::time::timeout(ANSWER_MAX, is_taken).await {
        Ok(true) => empty(StatusCode::OK),
        Ok(false) => stopped(),
        Err(_) => unavailable("the app is busy: what it writes to takes nothing now\n"),
    }
}

/// Waits for the response sink.
async fn hold(route: &Route, service: &Service, id: String, delivery: Delivery) -> Answer {
    let mut pending = service.wait_for(&id);
    if route.ingress.push(delivery).await.is_err() {
        return stopped();
    }
    let timeout = service.timeout.unwrap_or(Duration::MAX);
    match tokio::time::timeout(timeout, &mut pending.answer).await {
        Ok(Ok(answer)) => answer,
        // Too late, or the app has stopped.
        Ok(Err(_)) | Err(_) => empty(StatusCode::GATEWAY_TIMEOUT),
    }
}

/// What is answered without a look at the body.
fn refuse(request: &Request<Incoming>, route: &Route) -> Option<Answer> {
    let limits = &route.limits;
    if let Some(max) = limits.request_line {
        let target = request.uri().path_and_query().map_or("", |t| t.as_str());
        let line = request.method().as_str().len() + target.len() + " HTTP/1.1".len() + 1;
        if line > max {
            return Some(limits.header_refusal.answer());
        }
    }
    if limits
        .headers
        .is_some_and(|max| size_of_headers(request.headers()) > max)
    {
        return Some(limits.header_refusal.answer());
    }
    match *request.method() {
        Method::POST => {}
        Method::OPTIONS => return Some(preflight(request.headers(), &route.origins)),
        _ => {
            let why = "this source takes POST requests only\n";
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, why);
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            return Some(answer);
        }
    }
    if let Some(credentials) = &route.credentials
        && !is_allowed(request.headers(), credentials)
    {
        let mut answer = empty(StatusCode::UNAUTHORIZED);
        let basic = HeaderValue::from_static("Basic realm=\"headwater\"");
        answer.headers_mut().insert(WWW_AUTHENTICATE, basic);
        return Some(answer);
    }
    if route.ingress.is_closed() {
        return Some(stopped());
    }
    let announced = request.body().size_hint().lower();
    (announced > limits.body as u64).then(|| limits.body_refusal.answer())
}

fn size_of_headers(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum()
}

/// CORS, as `HttpSourceListener` answers it, but for the origins: it reflects any.
fn preflight(headers: &HeaderMap, origins: &Origins) -> Answer {
    let mut answer = empty(StatusCode::OK);
    let into = answer.headers_mut();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    if let Some(origin) = headers.get(ORIGIN)
        && (origin.to_str()).is_ok_and(|origin| origins.allow(origin, host))
    {
        into.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
    let methods = HeaderValue::from_static("POST");
    into.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    let names = HeaderValue::from_static("content-type, user-agent, origin, referer, accept");
    into.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    answer
}

fn is_allowed(headers: &HeaderMap, credentials: &str) -> bool {
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
        .and_then(|(_, encoded)| BASE64.decode(encoded.trim()).ok());
    given.is_some_and(|given| is_equal(&given, credentials.as_bytes()))
}

/// In a time that depends on the length alone.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |found, (a, b)| found | (a ^ b)) == 0
}

/// The client is to begin again, on a connection of its own.
fn too_late(route: &Route, peer: &Peer, late: Late) -> Answer {
    route.arrivals.count_late();
    if let Some(times) = route.late.note() {
        tracing::warn!(
            source = route.name,
            peer = %peer.address,
            times,
            cause = %late,
            "refusing request with 408: its body came too slowly; for slower clients raise \
             'body.idle.timeout' or 'body.timeout'"
        );
    }
    last(
        StatusCode::REQUEST_TIMEOUT,
        &format!("the body came too slowly: {late}\n"),
    )
}

/// No limit of the source is at fault, but that of the server.
fn no_room(route: &Route, peer: &Peer) -> Answer {
    let max = route.arrivals.max();
    route.arrivals.count_refused();
    if let Some(times) = route.unfit.note() {
        tracing::warn!(
            source = route.name,
            peer = %peer.address,
            times,
            bytes_max = max,
            "refusing request with 413: its body is larger than a quarter of --memory-limit; raise the \
             limit or have it sent in parts"
        );
    }
    last(
        StatusCode::PAYLOAD_TOO_LARGE,
        &format!("this server reads {max} bytes at once at most\n"),
    )
}

/// Why a body was not read.
enum Unread {
    TooLong,
    Broken,
    Late(Late),
    /// It is larger than the budget.
    NoRoom,
    /// The budget was taken by others, for too long.
    Crowded,
}

/// Reads a body in its time, and with bytes of the budget, which are held until it has been mapped.
async fn read(
    mut body: Incoming,
    route: &Route,
    crowd: &Crowd,
) -> Result<(Vec<u8>, Account), Unread> {
    let mut account = route.arrivals.open();
    let announced = body.size_hint().exact().map(|all| all as usize);
    if announced.is_some_and(|all| !account.fits(all)) {
        return Err(Unread::NoRoom);
    }
    let mut clock = Clock::start(route.limits.pace);
    let mut whole: Vec<u8> = Vec::new();
    while !body.is_end_stream() {
        let left = announced.map_or(BLOCK_BYTES, |all| all.saturating_sub(whole.len()));
        make_room(
            &mut clock,
            &mut account,
            whole.len() + left.min(BLOCK_BYTES),
        )
        .await?;
        let Some(frame) = (clock.wait(crowd, body.frame()).await).map_err(Unread::Late)? else {
            break;
        };
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else {
            continue;
        };
        let len = whole.len() + data.len();
        if len > route.limits.body {
            return Err(Unread::TooLong);
        }
        make_room(&mut clock, &mut account, len).await?;
        if whole.capacity() < len {
            // Room for all that was announced is made when a part of it is there: pages of memory that
            // nobody writes to cost nothing, and bytes that are moved are there twice.
            let all = match announced {
                Some(all) if len >= MOVED_BYTES_MAX => all,
                announced => (2 * whole.len()).min(announced.unwrap_or(usize::MAX)),
            };
            whole.reserve_exact(all.max(len) - whole.len());
        }
        whole.extend_from_slice(&data);
    }
    account.keep(whole.len());
    Ok((whole, account))
}

/// Waits for so many bytes of the budget; the client is not to blame for the time.
async fn make_room(clock: &mut Clock, account: &mut Account, bytes: usize) -> Result<(), Unread> {
    if bytes <= account.held() {
        return Ok(());
    }
    if !account.fits(bytes.saturating_sub(BLOCK_BYTES)) {
        return Err(Unread::NoRoom);
    }
    let held = tokio::time::timeout(ROOM_MAX, account.hold(bytes));
    clock.stopped(held).await.map_err(|_| Unread::Crowded)
}

/// The body as `HttpWorkerThread` reads it: lines joined by `\n`, so that the last line end is lost and
/// `\r\n` becomes `\n`.
pub(super) fn text(body: Vec<u8>) -> String {
    // Not copied, where it is text.
    let lossy = |e: std::string::FromUtf8Error| String::from_utf8_lossy(e.as_bytes()).into_owned();
    let mut text = String::from_utf8(body).unwrap_or_else(lossy);
    if text.contains('\r') {
        text = text.replace("\r\n", "\n").replace('\r', "\n");
    }
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_its_lines() {
        fn check(body: &str, expect: &str) {
            assert_eq!(text(body.into()), expect, "{body:?}");
        }
        check("{}", "{}");
        check("{}\n", "{}");
        check("a\r\nb\r\n", "a\nb");
        check("a\rb\n\n", "a\nb\n");
        assert_eq!(text(b"a\xffb".to_vec()), "a\u{fffd}b");
    }

    #[test]
    fn query_parameters_are_decoded() {
        let query = "a=1&b=x%20y+z&c&%64=4%";
        for (name, value) in [("a", "1"), ("b", "x y z"), ("c", ""), ("d", "4%")] {
            assert_eq!(parameter(query, name).as_deref(), Some(value));
        }
        assert_eq!(parameter(query, "e"), None);
    }

    #[test]
    fn credentials_are_compared_as_a_whole() {
        let mut headers = HeaderMap::new();
        assert!(!is_allowed(&headers, "u:p"));
        for (given, is_right) in [("u:p", true), ("u:q", false), ("u:p1", false), ("", false)] {
            let value = format!("Basic {}", BASE64.encode(given));
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&value).unwrap());
            assert_eq!(is_allowed(&headers, "u:p"), is_right, "{given}");
        }
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer dTpw"));
        assert!(!is_allowed(&headers, "u:p"));
    }
}
