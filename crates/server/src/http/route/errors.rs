//! The rejected events of the apps: looked at, edited, replayed and purged.
//!
//! By paths of its own below `/errors`, and by those of Streaming Integrator's error store below
//! `/error-handler` (`si`). Filters are `number`, `app`, `stream`, `stage`, `cause`, `since`, `until`: in the
//! query of a GET, as fields of the object in the body of a POST. A body is at most [`BODY_MAX`] bytes.

pub(super) mod si;

use std::borrow::Cow;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use base64::Engine as _;
use memchr::memmem;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content, Param};
use crate::access::{Caller, Role};
use crate::http::Services;
use crate::http::answer::{body_of, json, refused};
use crate::http::gate::needs;
use crate::http::query::{pairs, value};
use crate::rejected::{Entry, Filter, NUMBERS_MAX, Refusal, Stage, group_json, missing_json};
use crate::replay;
use crate::secrets::{HIDDEN, Hidden};

/// Bytes of an edited payload with all around it.
const BODY_MAX: usize = 96 << 20;

/// Numbers of events from 1, with commas between them.
const NUMBERS: &str = "^[1-9][0-9]{0,17}(,[1-9][0-9]{0,17})*$";

/// How long ago, a time, or milliseconds since 1970. Other forms of a time are taken too.
const TIME: &str = "^([0-9]{1,15}(ms|s|sec|min|m|h|d|w)?|20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])\
     (T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?Z?)?)$";

/// Groups, logs and numbers.
const POSITION: &str =
    "^([0-9]{1,9}[.][0-9][.][0-9]{1,9}(-[0-9]{1,9}[.][0-9][.][0-9]{1,9}){0,99})?$";

/// Standard base64 with its padding.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

/// Events of a page, unless the request says fewer.
const PAGE_MAX: usize = 1000;

/// How long a request may wait for the end of a replay.
const WAIT_MAX: Duration = Duration::from_secs(20);

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/errors/groups",
        Role::Read,
        "Rejected events by cause, with their counts",
        |method| on(method, groups),
    )
    .query(FILTERS)
    .answers(&[Answer::new(200, "The groups, the largest first", GROUPS)]),
    Route::get(
        "/errors",
        Role::Read,
        "Rejected events one by one, in the order of rejection",
        |method| on(method, list),
    )
    .query(LIST)
    .answers(&[Answer::new(200, "A page", EVENTS)]),
    Route::post(
        "/errors/purge",
        Role::Operate,
        "Remove rejected events for good",
        |method| on(method, purge),
    )
    .bodies(&[Content::json(|| selection(&PURGE_FIELDS))])
    .answers(&[Answer::new(200, "They are removed", PURGED)]),
    Route::post(
        "/errors/replay",
        Role::Operate,
        "Replay rejected events to where they failed",
        |method| on(method, start_replay),
    )
    .bodies(&[Content::json(|| selection(&REPLAY_FIELDS))])
    .answers(&[Answer::new(202, "It has begun", REPLAY)]),
    Route::get(
        "/errors/replay",
        Role::Read,
        "How far the last replay is",
        |method| on(method, replay_state),
    )
    .query(&[Param {
        name: "wait",
        about: "Milliseconds to wait for its end",
        is_needed: false,
        schema: || json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MAX.as_millis() as u64 }),
    }])
    .answers(&[Answer::new(200, "Its state", REPLAY)]),
    Route::delete(
        "/errors/replay",
        Role::Operate,
        "Stop the replay that is at work",
        |method| on(method, cancel),
    )
    .answers(&[Answer::new(200, "Its state", REPLAY)]),
    Route::get(
        "/errors/{number}",
        Role::Read,
        "One rejected event with its payload",
        |method| on(method, show),
    )
    .answers(&[Answer::new(200, "The event", EVENT)]),
    Route::put(
        "/errors/{number}/payload",
        Role::Operate,
        "Give a rejected event another payload, which is replayed instead of its own",
        |method| on(method, edit),
    )
    .bodies(&[Content::json(|| {
        let of = |given: &str, schema: Json, other: &str| {
            json!({
                "type": "object",
                "required": [given],
                "properties": {
                    given: schema,
                    other: { "type": "null" },
                    "unchecked": {
                        "type": "boolean",
                        "description": "keep it even if it cannot be read as its source reads it",
                    },
                },
            })
        };
        let encoded = json!({ "type": "string", "pattern": BASE64 });
        json!({ "oneOf": [
            of("payload", json!({ "type": "string" }), "payload_base64"),
            of("payload_base64", encoded, "payload"),
        ] })
    })])
    .answers(&[Answer::new(200, "The event", EVENT)]),
    Route::delete(
        "/errors/{number}/payload",
        Role::Operate,
        "Give a rejected event back the payload that it came with",
        |method| on(method, discard),
    )
    .answers(&[Answer::new(200, "It has it", DISCARDED)]),
];

const fn text_param(name: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        is_needed: false,
        schema: || json!({ "type": "string" }),
    }
}

const fn time_param(name: &'static str, about: &'static str) -> Param {
    Param {
        schema: || json!({ "type": "string", "pattern": TIME }),
        ..text_param(name, about)
    }
}

const fn flag_param(name: &'static str, about: &'static str) -> Param {
    Param {
        schema: || json!({ "type": "boolean" }),
        ..text_param(name, about)
    }
}

const FILTERS: &[Param; 7] = &[
    Param {
        schema: || {
            let numbers = json!({ "type": "string", "pattern": NUMBERS });
            json!({ "type": "array", "minItems": 1, "items": numbers })
        },
        ..text_param("number", "Numbers of events, with commas between them")
    },
    text_param("app", "Only events of this app"),
    text_param("stream", "Only events of this stream or table"),
    Param {
        schema: || {
            let names = Stage::NAMES.replace(" or ", ", ");
            json!({ "enum": names.split(", ").collect::<Vec<_>>() })
        },
        ..text_param("stage", "Only events that failed there")
    },
    text_param("cause", "Only events whose cause has this in it"),
    time_param(
        "since",
        "Only events from then on: how long ago (1h, 7d) or a time",
    ),
    time_param("until", "Only events before then"),
];

const LIST: &[Param] = &[
    FILTERS[0],
    FILTERS[1],
    FILTERS[2],
    FILTERS[3],
    FILTERS[4],
    FILTERS[5],
    FILTERS[6],
    Param {
        name: "limit",
        about: "Events of a page",
        is_needed: false,
        schema: || json!({ "type": "integer", "minimum": 1, "maximum": PAGE_MAX }),
    },
    Param {
        schema: || json!({ "type": "string", "pattern": POSITION }),
        ..text_param("from", "Begin of the page: `next` of the page before")
    },
    flag_param("newest", "The newest events alone, the newest last"),
    flag_param("payload", "With payloads, which need the role operate"),
];

/// Fields of a body beside the filters.
const PURGE_FIELDS: [&str; 1] = ["all"];
const REPLAY_FIELDS: [&str; 3] = ["all", "rate", "dry_run"];

/// The filters as fields of a body, with these fields beside them. One that is misspelt must not widen
/// what is meant, so others are refused; so is a body without any filter, unless it says `all`.
fn selection(beside: &[&str]) -> Json {
    let mut fields = serde_json::Map::new();
    let mut ways = vec![json!({ "required": ["all"], "properties": { "all": { "const": true } } })];
    for filter in FILTERS {
        let of_query = (filter.schema)();
        let schema = match filter.name {
            "number" => {
                let number = json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX });
                let text = of_query["items"].clone();
                let each = json!({ "anyOf": [number, text] });
                let list = json!({ "type": "array", "minItems": 1, "maxItems": NUMBERS_MAX, "items": each });
                json!({ "anyOf": [number, text, list] })
            }
            "since" | "until" => {
                let millis = json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX });
                json!({ "anyOf": [of_query, millis] })
            }
            _ => of_query,
        };
        let name = filter.name;
        ways.push(json!({ "required": [name], "properties": { name: schema } }));
        let mut field = json!({ "anyOf": [schema, { "type": "null" }] });
        field["description"] = json!(filter.about);
        fields.insert(name.to_owned(), field);
    }
    for &name in beside {
        let schema = match name {
            "rate" => json!({
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "description": "events per second",
            }),
            _ => json!({ "type": ["boolean", "null"] }),
        };
        fields.insert(name.to_owned(), schema);
    }
    json!({ "type": "object", "properties": fields, "additionalProperties": false, "anyOf": ways })
}

const GROUPS: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["total", "groups"],
        "properties": {
            "total": { "type": "integer" },
            "groups": { "type": "array", "items": { "type": "object" } },
            "missing": { "type": "array", "items": { "type": "object" } },
        },
    })
});

const EVENT: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["number", "time", "app", "stream", "stage", "cause"],
        "properties": {
            "number": { "type": "integer" },
            "time": { "type": "integer", "description": "milliseconds since 1970" },
            "app": { "type": "string" },
            "stream": { "type": "string" },
            "stage": { "type": "string" },
            "cause": { "type": "string" },
            "payload": { "type": "string" },
        },
    })
});

const EVENTS: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["events"],
        "properties": {
            "events": { "type": "array", "items": { "type": "object" } },
            "next": { "type": ["string", "null"] },
        },
    })
});

const PURGED: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["purged"],
        "properties": { "purged": { "type": "integer" } },
    })
});

const DISCARDED: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["number", "discarded"],
        "properties": { "number": { "type": "integer" }, "discarded": { "type": "boolean" } },
    })
});

const REPLAY: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["id", "state", "total", "replayed", "failed_again"],
        "properties": {
            "id": { "type": "integer" },
            "state": { "enum": ["running", "done", "cancelled", "failed"] },
            "total": { "type": "integer" },
            "replayed": { "type": "integer" },
            "failed_again": { "type": "integer" },
        },
    })
});

fn filter_of(pairs: &[(String, String)]) -> Result<Filter, Box<Response>> {
    let pairs = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    Filter::from_pairs(pairs)
        .map_err(|message| Box::new(refused(StatusCode::BAD_REQUEST, &message)))
}

fn count_of(
    pairs: &[(String, String)],
    name: &str,
    default: usize,
) -> Result<usize, Box<Response>> {
    let Some(text) = value(pairs, name) else {
        return Ok(default);
    };
    text.parse().map_err(|_| {
        let message = format!("'{name}' is '{text}', not a number of events");
        Box::new(refused(StatusCode::BAD_REQUEST, &message))
    })
}

/// Files are read on a thread that may wait for them.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Box<Response>> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(refusal)) => Err(Box::new(refusal_answer(&refusal))),
        Err(_) => Err(Box::new(refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "an internal error: see the log",
        ))),
    }
}

fn refusal_answer(refusal: &Refusal) -> Response {
    match refusal {
        Refusal::NoEvent(number) => refused(
            StatusCode::NOT_FOUND,
            &format!("there is no rejected event {number}: it may have been replayed or purged"),
        ),
        Refusal::Payload(cause) => refused(StatusCode::BAD_REQUEST, cause),
        Refusal::Busy => refused(
            StatusCode::CONFLICT,
            "a replay or a purge is at work: wait until it is done",
        ),
        Refusal::Failed(cause) => refused(StatusCode::INTERNAL_SERVER_ERROR, cause),
    }
}

fn answered(answer: Result<Response, Box<Response>>) -> Response {
    answer.unwrap_or_else(|refusal| *refusal)
}

async fn groups(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    answered(groups_of(services, query).await)
}

async fn groups_of(services: Services, query: Option<String>) -> Result<Response, Box<Response>> {
    let filter = filter_of(&pairs(query.as_deref()))?;
    let store = services.errors;
    let (summary, missing) = blocking(move || Ok(store.summary(&filter)?)).await?;
    let mut groups: Vec<_> = summary.groups().collect();
    groups.sort_by_key(|(key, tally)| (std::cmp::Reverse(tally.count), key.clone()));
    let groups: Vec<Json> = groups.iter().map(|(k, t)| group_json(k, t)).collect();
    let missing: Vec<Json> = missing.iter().map(missing_json).collect();
    let body = json!({ "total": summary.total(), "groups": groups, "missing": missing });
    Ok(json(StatusCode::OK, &body))
}

async fn list(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Response {
    answered(list_of(services, &caller, query).await)
}

async fn list_of(
    services: Services,
    caller: &Caller,
    query: Option<String>,
) -> Result<Response, Box<Response>> {
    let pairs = pairs(query.as_deref());
    let filter = filter_of(&pairs)?;
    let limit = count_of(&pairs, "limit", PAGE_MAX)?.clamp(1, PAGE_MAX);
    let with_payload = value(&pairs, "payload") == Some("true") && caller.has(Role::Operate);
    let with_payload = with_payload.then_some(&services.hidden);
    let store = services.errors;
    let page = |entries: Vec<Entry>| -> Vec<Json> {
        entries
            .iter()
            .map(|entry| entry.json(with_payload))
            .collect()
    };
    if value(&pairs, "newest") == Some("true") {
        let (entries, total) = blocking(move || Ok(store.newest(&filter, limit)?)).await?;
        let body = json!({ "total": total, "events": page(entries) });
        return Ok(json(StatusCode::OK, &body));
    }
    let from = value(&pairs, "from").unwrap_or_default().to_owned();
    let (entries, next) = blocking(move || store.list(&filter, &from, 0, limit)).await?;
    let body = json!({ "events": page(entries), "next": next });
    Ok(json(StatusCode::OK, &body))
}

/// The number in a path.
fn number_of(text: &str) -> Result<u64, Box<Response>> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        let message = format!("'{text}' is no number of a rejected event: they count from 1");
        Box::new(refused(StatusCode::BAD_REQUEST, &message))
    })
}

async fn find(services: &Services, number: u64) -> Result<Entry, Box<Response>> {
    let store = services.errors.clone();
    blocking(move || store.find(number)?.ok_or(Refusal::NoEvent(number))).await
}

/// What is in events is shown to who may operate; who may read sees why they were rejected.
async fn show(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    Path(number): Path<String>,
) -> Response {
    let found = async {
        let entry = find(&services, number_of(&number)?).await?;
        let is_shown = caller.has(Role::Operate);
        let mut document = entry.json(is_shown.then_some(&services.hidden));
        if !is_shown {
            document["payload_withheld"] = json!(needs(Role::Operate, &caller));
        }
        Ok(json(StatusCode::OK, &document))
    };
    answered(found.await)
}

async fn json_body(body: Body) -> Result<Json, Box<Response>> {
    let bytes = body_of(body, "the body", BODY_MAX).await;
    let bytes = bytes.map_err(|(status, message)| Box::new(refused(status, &message)))?;
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("the body is not JSON: {error}");
        Box::new(refused(StatusCode::BAD_REQUEST, &message))
    })
}

/// What a body selects, where it has no fields but the filters and those beside them.
fn selected(body: &Json, beside: &[&str]) -> Result<Filter, Box<Response>> {
    let bad = |message: &str| Box::new(refused(StatusCode::BAD_REQUEST, message));
    let filters = FILTERS.iter().map(|filter| filter.name);
    let known: Vec<&str> = filters.chain(beside.iter().copied()).collect();
    let object = body
        .as_object()
        .ok_or_else(|| bad("send an object of filters"))?;
    if let Some(other) = object.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("there is no field '{other}': write {}", known.join(", "));
        return Err(bad(&message));
    }
    for name in ["all", "dry_run"] {
        if !matches!(body[name], Json::Null | Json::Bool(_)) {
            return Err(bad(&format!("'{name}' is true or false")));
        }
    }
    let is_number = |value: &Json| value.is_string() || value.is_number();
    for (name, value) in object {
        let is_one = match name.as_str() {
            "app" | "stream" | "stage" | "cause" => value.is_string() || value.is_null(),
            "number" => match value {
                // A list that is empty by mistake must not mean all.
                Json::Array(all) => !all.is_empty() && all.iter().all(is_number),
                value => value.is_null() || is_number(value),
            },
            _ => !value.is_object() && !value.is_array(),
        };
        if !is_one {
            return Err(bad(&format!("'{name}' cannot be {value}")));
        }
    }
    let filter = filter_of(&fields(body))?;
    if filter.is_all() && body["all"] != true {
        return Err(bad(r#"say which events: filters, or {"all":true}"#));
    }
    Ok(filter)
}

/// Fields of an object as names and values; a list is several values of a name.
fn fields(body: &Json) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        let values = match value {
            Json::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            match value {
                Json::Null => {}
                Json::String(text) => all.push((name.clone(), text.clone())),
                // 1.0 is a whole number in JSON.
                Json::Number(number) => {
                    let real = number
                        .as_f64()
                        .filter(|real| !number.is_i64() && is_exact(*real));
                    let text = real.map_or_else(|| number.to_string(), |real| format!("{real:.0}"));
                    all.push((name.clone(), text));
                }
                other => all.push((name.clone(), other.to_string())),
            }
        }
    }
    all
}

/// Is it a whole number, and no other than was written?
fn is_exact(real: f64) -> bool {
    real.fract() == 0.0 && real.abs() <= 9_007_199_254_740_992.0
}

/// A number of an event in JSON, where 1.0 is a whole number too.
fn whole(value: &Json) -> Option<u64> {
    let of_real = || {
        value
            .as_f64()
            .filter(|real| is_exact(*real) && *real >= 0.0)
    };
    let whole = value.as_u64().or_else(|| of_real().map(|real| real as u64));
    whole.filter(|number| i64::try_from(*number).is_ok())
}

async fn edit(
    State(services): State<Services>,
    Path(number): Path<String>,
    body: Body,
) -> Response {
    answered(edit_one(services, &number, body).await)
}

async fn edit_one(services: Services, number: &str, body: Body) -> Result<Response, Box<Response>> {
    let number = number_of(number)?;
    let body = json_body(body).await?;
    let bad = |message: &str| Box::new(refused(StatusCode::BAD_REQUEST, message));
    let payload = match (body["payload"].as_str(), body["payload_base64"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .map_err(|_| bad("'payload_base64' is not base64"))?,
        _ => {
            return Err(bad(
                r#"send {"payload":"…"}, or {"payload_base64":"…"} where it is no text"#,
            ));
        }
    };
    let unchecked = body["unchecked"] == true;
    let Services {
        errors,
        asker,
        registry,
        hidden,
        ..
    } = services;
    let edited = blocking(move || {
        if let Some(entry) = errors.find(number)? {
            has_its_secrets(&hidden, &entry.payload(), &payload)?;
        }
        if !unchecked {
            replay::check_payload(&errors, number, &payload, &asker, registry)?;
        }
        errors.edit(number, &payload)
    });
    let entry = edited.await?;
    Ok(json(StatusCode::OK, &entry.json(None)))
}

/// Refuses a payload that was edited as it is shown, without its secrets.
fn has_its_secrets(hidden: &Hidden, before: &[u8], after: &[u8]) -> Result<(), Refusal> {
    let is_hidden = matches!(hidden.hide_bytes(before), Cow::Owned(_));
    match is_hidden && memmem::find(after, HIDDEN.as_bytes()).is_some() {
        true => Err(Refusal::Payload(
            "the payload has a secret, which is shown as '…': give a payload without it, or with the secret \
             itself, or edit the app"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

async fn discard(State(services): State<Services>, Path(number): Path<String>) -> Response {
    let discarded = async {
        let number = number_of(&number)?;
        let store = services.errors.clone();
        let was_edited = blocking(move || store.discard_edit(number)).await?;
        Ok(json(
            StatusCode::OK,
            &json!({ "number": number, "discarded": was_edited }),
        ))
    };
    answered(discarded.await)
}

async fn purge(State(services): State<Services>, body: Body) -> Response {
    let purged = async {
        let body = json_body(body).await?;
        let filter = selected(&body, &PURGE_FIELDS)?;
        let (store, asker) = (services.errors, services.asker);
        let purged = blocking(move || store.purge(&filter, |until| asker.save_all(until))).await?;
        let body = json!({
            "purged": purged.events,
            "not_saved_yet": purged.uncovered,
            "of_older_version": purged.fixed,
        });
        Ok(json(StatusCode::OK, &body))
    };
    answered(purged.await)
}

async fn start_replay(State(services): State<Services>, body: Body) -> Response {
    let begun = async {
        let body = json_body(body).await?;
        let filter = selected(&body, &REPLAY_FIELDS)?;
        let rate = body["rate"].as_f64();
        let is_rate = rate.is_some_and(|rate| rate.is_finite() && rate > 0.0);
        if !is_rate && !body["rate"].is_null() {
            let message = "'rate' is events per second, above 0";
            return Err(Box::new(refused(StatusCode::BAD_REQUEST, message)));
        }
        let request = replay::Request {
            filter,
            rate,
            is_dry_run: body["dry_run"] == true,
        };
        let Services {
            errors,
            asker,
            registry,
            ..
        } = services;
        let job = blocking(move || replay::start(&errors, request, &asker, registry)).await?;
        Ok(json(StatusCode::ACCEPTED, &job.json()))
    };
    answered(begun.await)
}

fn no_replay() -> Response {
    refused(
        StatusCode::NOT_FOUND,
        "nothing has been replayed since the server started",
    )
}

async fn replay_state(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let state = async {
        let millis = count_of(&pairs(query.as_deref()), "wait", 0)?;
        let Some(job) = services.errors.job() else {
            return Ok(no_replay());
        };
        let wait = Duration::from_millis(millis as u64).min(WAIT_MAX);
        job.wait(wait).await;
        Ok(json(StatusCode::OK, &job.json()))
    };
    answered(state.await)
}

async fn cancel(State(services): State<Services>) -> Response {
    let Some(job) = services.errors.job() else {
        return no_replay();
    };
    job.cancel();
    job.wait(WAIT_MAX).await;
    json(StatusCode::OK, &job.json())
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn fields_of_a_body_are_filters() {
        let body = json!({ "number": [1, 2], "app": "A", "until": null, "all": true });
        let filter = filter_of(&fields(&body)).expect("a filter");
        let expect = Filter::from_pairs([("number", "1,2"), ("app", "A")]);
        assert_eq!(Ok(filter), expect);
        let real = filter_of(&fields(&json!({ "number": 2.0 }))).expect("a filter");
        assert_eq!(real, Filter::of_number(2));
    }

    #[test]
    fn a_selection_says_which_events_and_nothing_else() {
        let status = |body: Json| match selected(&body, &PURGE_FIELDS) {
            Ok(_) => 200,
            Err(response) => response.status().as_u16(),
        };
        for taken in [
            json!({ "all": true }),
            json!({ "app": "A", "all": null, "since": null }),
            json!({ "number": "1,2" }),
            json!({ "until": -1.0 }),
        ] {
            assert_eq!(status(taken.clone()), 200, "{taken}");
        }
        for refused in [
            json!({}),
            json!([]),
            json!({ "all": false, "app": null }),
            json!({ "all": "true" }),
            json!({ "app": "A", "strem": "S" }),
            json!({ "app": "A", "dry_run": true }),
            json!({ "number": 1.5 }),
            json!({ "number": u64::MAX }),
            json!({ "app": "A", "number": [] }),
            json!({ "app": "A", "number": [null] }),
            json!({ "app": 0 }),
            json!({ "until": [1] }),
        ] {
            assert_eq!(status(refused.clone()), 400, "{refused}");
        }
    }

    #[test]
    fn what_a_pattern_allows_is_read() {
        let is_time = |text: &str| Regex::new(TIME).expect("a pattern").is_match(text);
        for time in [
            "1h",
            "7d",
            "90s",
            "0",
            "999999999999999w",
            "1769850000000",
            "2026-01-28",
            "2026-02-28T23:59:59.5Z",
            "2026-02-28T23:59",
        ] {
            let read = Filter::from_pairs([("since", time)]);
            assert!(is_time(time) && read.is_ok(), "{time}");
        }
        for other in ["", "1 fortnight", "2026-13-01", "2026-02-30T00:00Z"] {
            assert!(!is_time(other), "{other}");
        }
    }
}
