//! Events as they pass a place of a running app (see [`crate::tap`]).
//!
//! `GET /siddhi-apps/{app}/tap?on=Orders&where=…&rate=…&limit=…` answers lines of JSON that come while
//! events pass, until the client goes away: first `{"type":"tap",…}`, with the attributes; then
//! `{"type":"event","timestamp":…,"kind":"current","data":{…}}` for each row, `{"type":"counts",…}` with
//! what has passed and was not shown, every [`COUNTS_EVERY`] while that changes and every
//! [`ALIVE_EVERY`] otherwise, and `{"type":"end",…}`. A text is cut at [`TEXT_MAX`] bytes.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use axum::routing::on;
use connect::file_uri::percent_decoded;
use event::{Batch, Schema};
use hyper::body::Frame;
use serde_json::{Map, Value as Json, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::Route;
use super::query::{fault, value};
use super::table::{Answer, Content, Param};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{self, refused};
use crate::tap::{Passed, RATE_MAX, TapClient, TapRefusal, TapRequest};

/// Rows per second where nothing else is asked for.
const RATE_DEFAULT: f64 = 100.0;

/// Bytes of a text in a row; of a longer one the beginning is shown.
const TEXT_MAX: usize = 16 << 10;

/// How often it is said what has passed.
const COUNTS_EVERY: Duration = Duration::from_secs(1);

/// How often it is said where nothing has changed, so that a client that has gone is noticed.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Events may hold what not everybody who looks at rates may see.
pub(super) const ROUTES: &[Route] = &[Route::get(
    "/siddhi-apps/{app}/tap",
    Role::Operate,
    "Events as they pass a stream, query, source or sink, one JSON object per line",
    |method| on(method, tap),
)
.query(&[
    Param {
        name: "on",
        about: "A stream, query:NAME, source:STREAM[N] or sink:STREAM[N]",
        is_needed: true,
        schema: || json!({ "type": "string" }),
    },
    Param {
        name: "where",
        about: "A condition in SiddhiQL on the attributes of the event",
        is_needed: false,
        schema: || json!({ "type": "string" }),
    },
    Param {
        name: "rate",
        about: "Events per second that are shown",
        is_needed: false,
        schema: || json!({ "type": "number", "exclusiveMinimum": 0, "maximum": RATE_MAX }),
    },
    Param {
        name: "limit",
        about: "Events after which the answer ends; without it, it ends with the connection",
        is_needed: false,
        schema: || json!({ "type": "integer", "minimum": 1 }),
    },
])
.answers(&[Answer::new(
    200,
    "Lines of type tap, event, counts and end",
    Content {
        kind: KIND,
        schema: || json!({ "type": "string" }),
    },
)])];

/// Type of the answer.
const KIND: &str = "application/x-ndjson";

async fn tap(State(services): State<Services>, Path(app): Path<String>, uri: Uri) -> Response {
    let asked = match Asked::read(uri.query().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(message) => return refused(StatusCode::BAD_REQUEST, &message),
    };
    match services.taps.open(&services.asker, &app, &asked.request) {
        Ok(client) => {
            let mut response = Response::new(Body::new(TapBody::new(client, &asked)));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(TapRefusal::NoPlace(message)) => refused(StatusCode::NOT_FOUND, &message),
        Err(TapRefusal::TooMany(message)) => refused(StatusCode::TOO_MANY_REQUESTS, &message),
        Err(TapRefusal::Gone(message)) => refused(StatusCode::SERVICE_UNAVAILABLE, &message),
        Err(TapRefusal::Condition(faults)) => {
            let text = asked.request.condition.as_deref().unwrap_or_default();
            let status = StatusCode::BAD_REQUEST;
            answer::json(
                status,
                &fault("where", text, &faults, services.asker.catalog()),
            )
        }
    }
}

/// What the query of the address asks for.
#[derive(Clone, Debug)]
struct Asked {
    request: TapRequest,
    /// Rows after which the answer ends.
    limit: Option<u64>,
}

impl Asked {
    fn read(query: &str) -> Result<Asked, String> {
        let (mut on, mut condition, mut rate, mut limit) = (None, None, RATE_DEFAULT, None);
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, text) = field.split_once('=').unwrap_or((field, ""));
            let decoded = percent_decoded(&text.replace('+', " "));
            let text = decoded.ok_or_else(|| format!("parameter '{name}' is not UTF-8"))?;
            match name {
                "on" => on = Some(text),
                "where" => condition = Some(text).filter(|text| !text.trim().is_empty()),
                "rate" => {
                    let number = text.parse::<f64>().ok();
                    let fits = number.filter(|r| *r > 0.0 && *r <= RATE_MAX);
                    rate = fits.ok_or_else(|| {
                        format!(
                            "'rate' is '{text}': write rows per second, above 0 and up to {RATE_MAX}"
                        )
                    })?;
                }
                "limit" => {
                    let number = text.parse::<u64>().ok().filter(|n| *n > 0);
                    let wrong = || format!("'limit' is '{text}': write a number of rows, from 1");
                    limit = Some(number.ok_or_else(wrong)?);
                }
                _ => {
                    return Err(format!(
                        "there is no parameter '{name}': write on, where, rate or limit"
                    ));
                }
            }
        }
        let on = on.filter(|on| !on.is_empty()).ok_or(
            "parameter 'on' is missing: write a stream, query:NAME, source:STREAM[N] or sink:STREAM[N]",
        )?;
        Ok(Asked {
            request: TapRequest {
                on,
                condition,
                rate,
            },
            limit,
        })
    }
}

/// The answer, made as its lines are read.
struct TapBody {
    client: TapClient,
    /// What is said at the beginning, until it is said.
    head: Option<String>,
    /// Rows that may still be shown.
    left: u64,
    shown: u64,
    ticks: Interval,
    /// What was last said of what has passed, and when.
    said: (Passed, u64, Instant),
    is_ended: bool,
}

impl TapBody {
    fn new(client: TapClient, asked: &Asked) -> TapBody {
        let attributes = client.schema.attributes.iter();
        let attributes: Vec<Json> = attributes
            .map(|a| json!({ "name": a.name, "type": a.ty.to_string() }))
            .collect();
        let head = json!({
            "type": "tap",
            "version": 1,
            "app": client.app,
            "on": client.on,
            "rate": asked.request.rate,
            "attributes": attributes,
        });
        let mut ticks = interval(COUNTS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        TapBody {
            client,
            head: Some(format!("{head}\n")),
            left: asked.limit.unwrap_or(u64::MAX),
            shown: 0,
            ticks,
            said: (Passed::default(), 0, Instant::now()),
            is_ended: false,
        }
    }

    /// The rows of a batch, as many as are still wanted.
    fn rows(&mut self, batch: &Batch) -> String {
        self.client.taken(batch);
        let rows = usize::try_from(self.left).map_or(batch.len, |left| left.min(batch.len));
        self.left -= rows as u64;
        self.shown += rows as u64;
        (0..rows)
            .map(|row| line(&self.client.schema, batch, row))
            .collect()
    }

    fn counts(&mut self, passed: Passed) -> String {
        self.said = (passed, self.shown, Instant::now());
        let counts = passed.counts;
        let line = json!({
            "type": "counts",
            "seen": counts.seen,
            "matched": counts.matched,
            "shown": self.shown,
            "unexamined": counts.unexamined,
            "failed": counts.failed,
        });
        format!("{line}\n")
    }

    /// The last lines.
    fn end(&mut self) -> String {
        self.is_ended = true;
        let cause = match self.client.shared.end() {
            _ if self.left == 0 => "the limit is reached".to_owned(),
            Some(cause) => cause,
            None => format!("app '{}' was stopped or reloaded", self.client.app),
        };
        let passed = self.client.shared.passed();
        let counts = self.counts(passed);
        format!("{counts}{}\n", json!({ "type": "end", "cause": cause }))
    }

    fn poll_text(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(head));
        }
        if self.is_ended {
            return Poll::Ready(None);
        }
        if self.left == 0 {
            return Poll::Ready(Some(self.end()));
        }
        match self.client.rows.poll_recv(context) {
            Poll::Ready(Some(batch)) => return Poll::Ready(Some(self.rows(&batch))),
            Poll::Ready(None) => return Poll::Ready(Some(self.end())),
            Poll::Pending => {}
        }
        while self.ticks.poll_tick(context).is_ready() {
            let passed = self.client.shared.passed();
            let (said, shown, at) = self.said;
            if (said, shown) != (passed, self.shown) || at.elapsed() >= ALIVE_EVERY {
                return Poll::Ready(Some(self.counts(passed)));
            }
        }
        Poll::Pending
    }
}

impl HttpBody for TapBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let text = self.get_mut().poll_text(context);
        text.map(|text| text.map(|text| Ok(Frame::data(Bytes::from(text)))))
    }
}

/// One row of a batch.
fn line(schema: &Schema, batch: &Batch, row: usize) -> String {
    let mut data = Map::new();
    for (attribute, column) in schema.attributes.iter().zip(&batch.columns) {
        let shown = match value(&column.value(row)) {
            Json::String(text) => Json::String(cut(text)),
            other => other,
        };
        data.insert(attribute.name.clone(), shown);
    }
    let kind = match batch.is_expired(row) {
        true => "expired",
        false => "current",
    };
    let line = json!({
        "type": "event",
        "timestamp": batch.times.at(row),
        "kind": kind,
        "data": data,
    });
    format!("{line}\n")
}

/// The beginning of a text that is too long.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(TEXT_MAX));
        text.push_str(&format!("… ({bytes} bytes)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_from_the_address() {
        let asked =
            Asked::read("on=source:S%5B2%5D&where=a+%3E+1%2B2&rate=5&limit=3").expect("read");
        assert_eq!(asked.request.on, "source:S[2]");
        assert_eq!(asked.request.condition.as_deref(), Some("a > 1+2"));
        assert_eq!((asked.request.rate, asked.limit), (5.0, Some(3)));
        for (query, part) in [
            ("", "'on' is missing"),
            ("on=S&rate=0", "'rate' is '0'"),
            ("on=S&rate=1e9", "up to 10000"),
            ("on=S&limit=x", "'limit' is 'x'"),
            ("on=S&size=1", "no parameter 'size'"),
            ("on=%ff", "'on' is not UTF-8"),
        ] {
            let said = Asked::read(query).expect_err(query);
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short".to_owned()), "short");
        let long = cut("ä".repeat(TEXT_MAX));
        assert!(long.ends_with(&format!("ä… ({} bytes)", 2 * TEXT_MAX)));
        assert!(long.len() < TEXT_MAX + 32);
    }
}
