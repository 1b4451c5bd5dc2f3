//! On-demand queries, by the path of Streaming Integrator (`POST /stores/query`).
//!
//! A query is `{"appName":"…","query":"…"}`, with `"details":true` for names and types. The answer
//! is `{"records":[[…],…]}`; a refusal is `{"code":…,"message":"…"}` with the diagnostics beside it.
//! A body is at most [`BODY_MAX`] bytes; an app that takes longer than [`ANSWER_MAX`] is not waited for.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use check::Catalog;
use engine::Answer;
use event::{Object, Value};
use lang::diagnostic::Diagnostic;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer as Answered, Content, NOT_BLANK};
use crate::access::{Caller, Role};
use crate::ask::{Asker, Refusal};
use crate::http::Services;
use crate::http::answer::{ANSWER_MAX, body_of, json, refused};
use crate::http::gate::{Change, needs};

/// Bytes of a query with all around it.
const BODY_MAX: usize = 1 << 20;

pub(super) const ROUTES: &[Route] = &[Route::post(
    "/stores/query",
    Role::Read,
    "Ask a table, named window or aggregation; a write needs the role operate",
    |method| on(method, query),
)
.reads()
.bodies(&[Content::json(|| {
    json!({
        "type": "object",
        "required": ["query"],
        "properties": {
            "appName": { "type": ["string", "null"], "description": "needed if several apps run" },
            "query": { "type": "string", "pattern": NOT_BLANK },
            "details": { "type": "boolean", "description": "names and types of the columns, too" },
        },
    })
})])
.answers(&[Answered::new(
    200,
    "The rows",
    Content::json(|| {
        json!({
            "type": "object",
            "required": ["records"],
            "properties": {
                "records": { "type": "array", "items": { "type": "array" } },
                "details": { "type": "array", "items": { "type": "object" } },
                "written": { "type": "object" },
            },
        })
    }),
)])];

async fn query(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Response {
    match body_of(body, "a query", BODY_MAX).await {
        Ok(body) => stores_query(&body, &services.asker, &caller).await,
        Err((status, message)) => refused(status, &message),
    }
}

async fn stores_query(body: &[u8], asker: &Asker, caller: &Caller) -> Response {
    let Ok(body) = serde_json::from_slice::<Json>(body) else {
        let message = r#"the body is not JSON: send {"appName":"…","query":"…"}"#;
        return refused(StatusCode::BAD_REQUEST, message);
    };
    let of = |name: &str| body[name].as_str().filter(|text| !text.trim().is_empty());
    let Some(query) = of("query") else {
        return refused(StatusCode::BAD_REQUEST, "the query is empty");
    };
    let refusal = |refusal| match refusal {
        Refusal::NoApp(message) => refused(StatusCode::NOT_FOUND, &message),
        Refusal::Gone(message) => refused(StatusCode::SERVICE_UNAVAILABLE, &message),
        Refusal::Query(faults) => json(
            StatusCode::BAD_REQUEST,
            &fault("query", query, &faults, asker.catalog()),
        ),
    };
    let prepared = match asker.prepare(of("appName"), query) {
        Ok(prepared) => prepared,
        Err(refused) => return refusal(refused),
    };
    let change = prepared
        .is_write()
        .then(|| Change(format!("app '{}': {query}", prepared.app())));
    let mut response = if change.is_some() && !caller.has(Role::Operate) {
        refused(StatusCode::FORBIDDEN, &needs(Role::Operate, caller))
    } else {
        let with_details = body["details"].as_bool().unwrap_or(false);
        answered(asker.ask(prepared), with_details, refusal).await
    };
    if let Some(change) = change {
        response.extensions_mut().insert(change);
    }
    response
}

async fn answered(
    answer: impl Future<Output = Result<Answer, Refusal>>,
    with_details: bool,
    refusal: impl Fn(Refusal) -> Response,
) -> Response {
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(Ok(answer)) => json(StatusCode::OK, &records(&answer, with_details)),
        Ok(Err(refused)) => refusal(refused),
        Err(_) => refused(
            StatusCode::GATEWAY_TIMEOUT,
            "the app took too long to answer; it may be waiting for a store",
        ),
    }
}

/// `{"records":[[…],…]}`, with names, types and what was written where that is asked for.
pub fn records(answer: &Answer, with_details: bool) -> Json {
    let rows = answer.rows.iter().flat_map(|batch| {
        (0..batch.len).map(|row| batch.row(row).iter().map(value).collect::<Json>())
    });
    let mut json = json!({ "records": rows.collect::<Vec<Json>>() });
    if with_details {
        let attributes = answer.schema.attributes.iter();
        let details = attributes
            .map(|a| json!({ "name": a.name, "dataType": a.ty.to_string().to_uppercase() }));
        json["details"] = details.collect();
        let written = answer.written;
        json["written"] = json!({
            "inserted": written.inserted,
            "updated": written.updated,
            "deleted": written.deleted,
        });
    }
    json
}

/// A value as JSON; numbers that JSON has not are texts.
pub fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(v) => json!(v),
        Value::Int(v) => json!(v),
        Value::Long(v) => json!(v),
        Value::Float(v) if v.is_finite() => {
            // The shortest digits of the float, not those of the double it would become.
            let digits = v.to_string().parse::<f64>();
            digits.map_or(Json::Null, |v| json!(v))
        }
        Value::Double(v) if v.is_finite() => json!(v),
        Value::Object(Object::List(list) | Object::Set(list)) => {
            list.lock().iter().map(self::value).collect()
        }
        other => Json::String(event::text::to_text(other)),
    }
}

/// A refusal with what is wrong in a text, and as a terminal shows it.
pub fn fault(name: &str, text: &str, faults: &[Diagnostic], catalog: &Catalog) -> Json {
    let message = faults.first().map_or("", |d| d.message.as_str());
    let diagnostics = faults.iter().map(|d| {
        json!({
            "code": d.code,
            "message": d.message,
            "start": d.span.start,
            "end": d.span.end,
            "help": d.help,
        })
    });
    json!({
        "code": StatusCode::BAD_REQUEST.as_u16(),
        "message": message,
        "diagnostics": diagnostics.collect::<Vec<Json>>(),
        "rendered": check::render::render(faults, name, text, catalog, false),
    })
}
