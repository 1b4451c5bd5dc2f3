//! The error store of Streaming Integrator, by its paths and in its words.
//!
//! `GET /error-handler/erroneous-events?siddhiApp=…&limit=…&offset=…` lists, `GET …/count` counts, `GET …/{id}` has
//! one, `DELETE …/{id}` and `DELETE …?siddhiApp=…&retentionDays=…` discard, `POST /error-handler` replays a list
//! of them, with other payloads if it has any.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::super::Route;
use super::super::table::{Answer, Content, Param};
use super::{
    PAGE_MAX, answered, blocking, count_of, find, has_its_secrets, json_body, number_of,
    text_param, whole,
};
use crate::access::{Caller, Role};
use crate::clock;
use crate::http::Services;
use crate::http::answer::{json, refused};
use crate::http::query::{pairs, value};
use crate::rejected::{Entry, Filter, NUMBERS_MAX, Refusal, Stage};
use crate::replay;

/// How long a replay may take that is waited for.
const REPLAY_MAX: Duration = Duration::from_secs(30);

const DAY: i64 = 24 * 60 * 60 * 1000;

pub(in super::super) const ROUTES: &[Route] = &[
    Route::get(
        "/error-handler/erroneous-events",
        Role::Read,
        "Rejected events, as the error store of Streaming Integrator lists them",
        |method| on(method, list),
    )
    .query(LIST)
    .answers(&[Answer::new(
        200,
        "The events",
        Content::json(|| json!({ "type": "array", "items": { "type": "object" } })),
    )]),
    Route::delete(
        "/error-handler/erroneous-events",
        Role::Operate,
        "Discard the rejected events of an app, or those that are old",
        |method| on(method, discard_many),
    )
    .query(OLD)
    .answers(&[Answer::new(200, "They are removed", DELETED)]),
    Route::get(
        "/error-handler/erroneous-events/count",
        Role::Read,
        "How many rejected events there are",
        |method| on(method, count),
    )
    .query(&[APP])
    .answers(&[Answer::new(
        200,
        "Their number",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["entriesCount"],
                "properties": { "entriesCount": { "type": "integer" } },
            })
        }),
    )]),
    Route::get(
        "/error-handler/erroneous-events/{id}",
        Role::Read,
        "One rejected event",
        |method| on(method, show),
    )
    .answers(&[Answer::new(
        200,
        "The event",
        Content::json(|| json!({ "type": "object" })),
    )]),
    Route::delete(
        "/error-handler/erroneous-events/{id}",
        Role::Operate,
        "Discard one rejected event",
        |method| on(method, discard),
    )
    .answers(&[Answer::new(200, "It is removed", DELETED)]),
    Route::post(
        "/error-handler",
        Role::Operate,
        "Replay rejected events, with other payloads if the list has any",
        |method| on(method, start_replay),
    )
    .bodies(&[Content::json(|| {
        json!({
            "type": "array",
            "minItems": 1,
            "maxItems": NUMBERS_MAX,
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": { "type": "integer", "minimum": 1, "maximum": i64::MAX },
                    "event": { "type": ["string", "null"] },
                },
            },
        })
    })])
    .answers(&[Answer::new(
        200,
        "What became of them",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["success"],
                "properties": { "success": { "type": "boolean" } },
            })
        }),
    )]),
];

const APP: Param = text_param("siddhiApp", "Only events of this app");

const fn count_param(name: &'static str, about: &'static str, schema: fn() -> Json) -> Param {
    Param {
        schema,
        ..text_param(name, about)
    }
}

/// Ten times the age of the oldest rejected event that there can be.
const DAYS_MAX: u32 = 1_000_000;

const LIST: &[Param] = &[
    APP,
    count_param(
        "limit",
        "Events at most",
        || json!({ "type": "integer", "minimum": 1, "maximum": PAGE_MAX }),
    ),
    count_param(
        "offset",
        "Events that are left out first",
        || json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
    ),
];

const OLD: &[Param] = &[
    APP,
    count_param(
        "retentionDays",
        "Only events that are older",
        || json!({ "type": "integer", "minimum": 0, "maximum": DAYS_MAX }),
    ),
];

const DELETED: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["deleted"],
        "properties": { "deleted": { "type": "integer" } },
    })
});

/// An event in the words of Streaming Integrator.
fn erroneous_event(entry: &Entry, caller: &Caller) -> Json {
    let rejection = &entry.rejection;
    let (occurrence, ty) = match rejection.stage {
        Stage::Source => ("BEFORE_SOURCE_MAPPING", "MAPPING"),
        Stage::Query | Stage::Function => ("STORE_ON_STREAM_ERROR", "TRANSPORT"),
        Stage::SinkMapper => ("STORE_ON_SINK_ERROR", "MAPPING"),
        Stage::Sink | Stage::Store => ("STORE_ON_SINK_ERROR", "TRANSPORT"),
    };
    let shown = rejection.shown();
    let payload = String::from_utf8_lossy(&shown);
    let event_type = match rejection.attributes.is_empty() {
        true => "PAYLOAD_STRING",
        false => "EVENT",
    };
    // As in `GET /errors/{number}`, what is in events is for who may operate.
    let is_shown = caller.has(Role::Operate);
    json!({
        "id": entry.number,
        "timestamp": rejection.time,
        "siddhiAppName": rejection.app,
        "streamName": rejection.stream,
        "event": is_shown.then(|| String::from_utf8_lossy(&entry.payload()).into_owned()),
        "originalPayload": is_shown.then_some(payload),
        "cause": rejection.cause,
        "stackTrace": format!("{}: {}", rejection.place, rejection.cause),
        "eventType": event_type,
        "errorOccurrence": occurrence,
        "errorType": ty,
    })
}

/// The app that a query names; both names are in use.
fn app_of(pairs: &[(String, String)]) -> Option<&str> {
    value(pairs, "siddhiApp").or_else(|| value(pairs, "siddhiAppName"))
}

async fn list(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Response {
    let listed = async {
        let pairs = pairs(query.as_deref());
        let filter = Filter::of_app_before(app_of(&pairs), None);
        let limit = count_of(&pairs, "limit", PAGE_MAX)?.clamp(1, PAGE_MAX);
        let offset = count_of(&pairs, "offset", 0)?;
        let store = services.errors;
        let (entries, _) = blocking(move || store.list(&filter, "", offset, limit)).await?;
        let entries: Vec<Json> = entries
            .iter()
            .map(|entry| erroneous_event(entry, &caller))
            .collect();
        Ok(json(StatusCode::OK, &Json::Array(entries)))
    };
    answered(listed.await)
}

async fn count(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let counted = async {
        let filter = Filter::of_app_before(app_of(&pairs(query.as_deref())), None);
        let store = services.errors;
        let (summary, _) = blocking(move || Ok(store.summary(&filter)?)).await?;
        Ok(json(
            StatusCode::OK,
            &json!({ "entriesCount": summary.total() }),
        ))
    };
    answered(counted.await)
}

async fn show(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Response {
    let found = async {
        let entry = find(&services, number_of(&id)?).await?;
        Ok(json(StatusCode::OK, &erroneous_event(&entry, &caller)))
    };
    answered(found.await)
}

async fn discard(State(services): State<Services>, Path(id): Path<String>) -> Response {
    let discarded = async {
        let number = number_of(&id)?;
        let (store, asker) = (services.errors, services.asker);
        let purged = blocking(move || {
            let purged = store.purge(&Filter::of_number(number), |until| asker.save_all(until))?;
            match (purged.events, purged.uncovered + purged.fixed) {
                (0, 0) => Err(Refusal::NoEvent(number)),
                _ => Ok(purged),
            }
        });
        let purged = purged.await?;
        Ok(json(StatusCode::OK, &json!({ "deleted": purged.events })))
    };
    answered(discarded.await)
}

async fn discard_many(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let discarded = async {
        let pairs = pairs(query.as_deref());
        let app = app_of(&pairs);
        let days = value(&pairs, "retentionDays");
        let bad = |message: &str| Box::new(refused(StatusCode::BAD_REQUEST, message));
        if app.is_none() && days.is_none() {
            return Err(bad(
                "say of which app ('siddhiApp') or how old ('retentionDays')",
            ));
        }
        let until = match days.map(str::parse::<u32>) {
            None => None,
            Some(Ok(days)) => Some(clock::wall_millis() - i64::from(days) * DAY),
            Some(Err(_)) => return Err(bad("'retentionDays' is a number of days")),
        };
        let filter = Filter::of_app_before(app, until);
        let (store, asker) = (services.errors, services.asker);
        let purged = blocking(move || store.purge(&filter, |until| asker.save_all(until))).await?;
        Ok(json(StatusCode::OK, &json!({ "deleted": purged.events })))
    };
    answered(discarded.await)
}

async fn start_replay(State(services): State<Services>, body: Body) -> Response {
    let replayed = async {
        let body = json_body(body).await?;
        let bad = |message: &str| Box::new(refused(StatusCode::BAD_REQUEST, message));
        let Some(entries) = body.as_array().filter(|all| !all.is_empty()) else {
            return Err(bad(r#"send a list of events: [{"id":…}, …]"#));
        };
        let mut numbers = Vec::new();
        let mut edits = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let id = &entry["id"];
            let Some(number) = whole(id).filter(|number| *number > 0) else {
                let message = format!("[{at}].id is {id}: write the number of an event, from 1");
                return Err(bad(&message));
            };
            numbers.push(number.to_string());
            match &entry["event"] {
                Json::Null => {}
                Json::String(payload) => edits.push((number, payload.to_owned())),
                _ => return Err(bad(&format!("[{at}].event is no text"))),
            }
        }
        let numbers = numbers.join(",");
        let filter = Filter::from_pairs([("number", numbers.as_str())]);
        let filter = filter.map_err(|message| bad(&message))?;
        let Services {
            errors,
            asker,
            registry,
            hidden,
            ..
        } = services;
        let job = blocking(move || {
            for (number, payload) in edits {
                let entry = errors.find(number)?.ok_or(Refusal::NoEvent(number))?;
                let before = entry.payload();
                let shown = String::from_utf8_lossy(&before);
                // Clients send back what they were shown.
                if shown != payload && hidden.hide(&shown) != payload {
                    has_its_secrets(&hidden, &before, payload.as_bytes())?;
                    errors.edit(number, payload.as_bytes())?;
                }
            }
            let request = replay::Request {
                filter,
                ..replay::Request::default()
            };
            replay::start(&errors, request, &asker, registry)
        });
        let job = job.await?;
        job.wait(REPLAY_MAX).await;
        let done = job.json();
        let is_whole = job.is_done() && done["replayed"] == done["total"];
        let body = json!({
            "success": is_whole && done["failed_again"] == 0,
            "replayed": done["replayed"],
            "failedAgain": done["failed_again"],
            "skipped": done["skipped"],
        });
        Ok(json(StatusCode::OK, &body))
    };
    answered(replayed.await)
}
