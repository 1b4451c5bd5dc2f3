//! Apps that run: listed, deployed, changed and undeployed, by the paths of Streaming Integrator.
//!
//! `POST /siddhi-apps` deploys the app in its body, `PUT` also changes one; both take the text of the
//! app, or `{"content":"…"}`, and `PUT` a list of them, which takes effect as a whole. `DELETE
//! /siddhi-apps/{app}` ends one. Answers are `{"type":"…","message":"…"}`; what has changed stands
//! beside it, and the diagnostics of an app that is refused. A body is at most [`BODY_MAX`] bytes.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content, Param};
use crate::access::Role;
use crate::deploy::{AppChange, Order, Reason, Refusal, Report};
use crate::http::Services;
use crate::http::answer::{self, body_of, refused};
use crate::summary::Summary;

/// Bytes of all apps of a request.
const BODY_MAX: usize = 8 << 20;

/// Apps of a request.
const APPS_MAX: usize = 1000;

const BODIES: &[Content] = &[
    Content::TEXT,
    Content {
        kind: "application/siddhi",
        ..Content::TEXT
    },
    Content::json(|| {
        let app = json!({
            "type": "object",
            "required": ["content"],
            "properties": { "content": { "type": "string", "description": "the text of the app" } },
        });
        json!({ "oneOf": [app, { "type": "array", "items": app }] })
    }),
];

const FLAGS: &[Param] = &[
    Param {
        name: "dry-run",
        about: "true: look what would happen, and change nothing",
        is_needed: false,
        schema: || json!({ "type": "boolean" }),
    },
    Param {
        name: "drop-state",
        about: "true: drop saved state that an edited app cannot take back, instead of refusing it",
        is_needed: false,
        schema: || json!({ "type": "boolean" }),
    },
];

const SAID: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["type", "message"],
        "properties": {
            "type": { "type": "string" },
            "message": { "type": "string" },
            "added": { "type": "array", "items": { "type": "string" } },
            "changed": { "type": "array", "items": { "type": "string" } },
            "removed": { "type": "array", "items": { "type": "string" } },
            "state": { "type": "array", "items": { "type": "object" } },
        },
    })
});

pub(super) const ROUTES: &[Route] = &[
    Route::get("/siddhi-apps", Role::Read, "The apps that run", |method| {
        on(method, list)
    })
    .query(&[
        Param {
            name: "isActive",
            about: "false: those that do not run, of which there are none",
            is_needed: false,
            schema: || json!({ "type": "boolean" }),
        },
        Param {
            name: "details",
            about: "true: objects with what each has read, written and rejected",
            is_needed: false,
            schema: || json!({ "type": "boolean" }),
        },
    ])
    .answers(&[Answer::new(
        200,
        "Their names, or objects",
        Content::json(|| json!({ "type": "array", "items": { "type": ["string", "object"] } })),
    )]),
    Route::post("/siddhi-apps", Role::Deploy, "Deploy a new app", |method| {
        on(method, create)
    })
    .query(FLAGS)
    .bodies(BODIES)
    .answers(&[Answer::new(201, "It runs", SAID)]),
    Route::put(
        "/siddhi-apps",
        Role::Deploy,
        "Deploy apps, or change those that run; all or none",
        |method| on(method, put),
    )
    .query(FLAGS)
    .bodies(BODIES)
    .answers(&[
        Answer::new(200, "They run", SAID),
        Answer::new(201, "They run, and one is new", SAID),
    ]),
    Route::get(
        "/siddhi-apps/{app}",
        Role::Read,
        "The text of an app",
        |method| on(method, text),
    )
    .answers(&[Answer::new(
        200,
        "Its text, as it was deployed",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["content"],
                "properties": { "content": { "type": "string" } },
            })
        }),
    )]),
    Route::delete(
        "/siddhi-apps/{app}",
        Role::Deploy,
        "Undeploy an app",
        |method| on(method, delete),
    )
    .query(FLAGS)
    .answers(&[Answer::new(200, "It does not run any more", SAID)]),
    Route::get(
        "/siddhi-apps/{app}/status",
        Role::Read,
        "Whether an app runs",
        |method| on(method, status),
    )
    .answers(&[Answer::new(
        200,
        "It runs",
        Content::json(
            || json!({ "type": "object", "properties": { "status": { "const": "active" } } }),
        ),
    )]),
];

async fn list(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let apps = services.deployer.apps();
    if is_set(&query, "isActive", "false") {
        return answer::json(StatusCode::OK, &json!([]));
    }
    if !is_set(&query, "details", "true") {
        let names = apps.iter().map(|app| app.name.as_str());
        return answer::json(StatusCode::OK, &names.collect());
    }
    let summary = Summary::new(&services.metrics, services.process, Vec::new()).to_json();
    let measured = summary["apps"].as_array();
    let all = apps.iter().map(|app| {
        let measured = measured.into_iter().flatten();
        let found = measured
            .into_iter()
            .find(|m| m["name"] == app.name.as_str());
        let mut one = found
            .cloned()
            .unwrap_or_else(|| json!({ "name": app.name }));
        one["status"] = json!("active");
        one["file"] = json!(app.file);
        one
    });
    answer::json(StatusCode::OK, &all.collect())
}

async fn text(State(services): State<Services>, Path(name): Path<String>) -> Response {
    match services.deployer.apps().iter().find(|app| app.name == name) {
        Some(app) => answer::json(StatusCode::OK, &json!({ "content": app.text })),
        None => unknown(&services, &name),
    }
}

async fn status(State(services): State<Services>, Path(name): Path<String>) -> Response {
    match services.deployer.apps().iter().any(|app| app.name == name) {
        true => answer::json(StatusCode::OK, &json!({ "status": "active" })),
        false => unknown(&services, &name),
    }
}

fn unknown(services: &Services, name: &str) -> Response {
    let apps = services.deployer.apps();
    let names: Vec<String> = apps.iter().map(|app| format!("'{}'", app.name)).collect();
    let message = format!("there is no app '{name}'; running: {}", names.join(", "));
    refusal(&Refusal::new(Reason::Unknown, message))
}

async fn create(services: State<Services>, query: RawQuery, body: Body) -> Response {
    deploy(&services, query, body, true).await
}

async fn put(services: State<Services>, query: RawQuery, body: Body) -> Response {
    deploy(&services, query, body, false).await
}

async fn deploy(
    services: &Services,
    RawQuery(query): RawQuery,
    body: Body,
    is_new: bool,
) -> Response {
    let body = match body_of(body, "an app", BODY_MAX).await {
        Ok(body) => body,
        Err((status, message)) => return refused(status, &message),
    };
    let texts = match texts(&body) {
        Ok(texts) => texts,
        Err(message) => return refused(StatusCode::BAD_REQUEST, &message),
    };
    let changes = texts.into_iter().map(AppChange::Put).collect();
    let result = order(services, &query.unwrap_or_default(), changes, is_new).await;
    match result {
        Ok((report, is_dry_run)) => {
            let is_created = report.put.iter().any(|(_, is_new)| *is_new);
            let status = match is_created && !is_dry_run {
                true => StatusCode::CREATED,
                false => StatusCode::OK,
            };
            let names: Vec<&str> = report.put.iter().map(|(name, _)| name.as_str()).collect();
            let done = match (is_dry_run, names.len()) {
                (true, 1) => "can be deployed",
                (true, _) => "can be deployed together",
                (false, 1) => "is deployed",
                (false, _) => "are deployed",
            };
            said(
                status,
                &format!("Siddhi App {} {done}", names.join(", ")),
                &report,
            )
        }
        Err(refused) => refusal(&refused),
    }
}

async fn delete(
    State(services): State<Services>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let changes = vec![AppChange::Remove(name.clone())];
    match order(&services, &query.unwrap_or_default(), changes, false).await {
        Ok((report, is_dry_run)) => {
            let done = if is_dry_run {
                "can be undeployed"
            } else {
                "is undeployed"
            };
            said(
                StatusCode::OK,
                &format!("Siddhi App {name} {done}"),
                &report,
            )
        }
        Err(refused) => refusal(&refused),
    }
}

async fn order(
    services: &Services,
    query: &str,
    changes: Vec<AppChange>,
    is_new: bool,
) -> Result<(Report, bool), Refusal> {
    let is_dry_run = is_set(query, "dry-run", "true");
    let order = Order {
        changes,
        is_new,
        is_dry_run,
        drops_state: is_set(query, "drop-state", "true"),
    };
    Ok((services.deployer.ask(order).await?, is_dry_run))
}

/// The texts of the apps in a body.
fn texts(body: &[u8]) -> Result<Vec<String>, String> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if !matches!(first, Some(b'{' | b'[')) {
        let text = std::str::from_utf8(body).map_err(|e| {
            format!(
                "the app is not UTF-8 (byte {}): save it in that encoding",
                e.valid_up_to()
            )
        })?;
        return match text.trim().is_empty() {
            true => Err("the body is empty: send the text of an app".to_owned()),
            false => Ok(vec![text.to_owned()]),
        };
    }
    let json: Json = serde_json::from_slice(body)
        .map_err(|cause| format!("the body is neither an app nor JSON: {cause}"))?;
    let apps = match &json {
        Json::Array(apps) => apps.as_slice(),
        app => std::slice::from_ref(app),
    };
    if apps.is_empty() || apps.len() > APPS_MAX {
        return Err(format!("send between 1 and {APPS_MAX} apps"));
    }
    let content = |app: &Json| app["content"].as_str().map(str::to_owned);
    let texts = apps.iter().map(content).collect::<Option<Vec<String>>>();
    texts.ok_or_else(|| r#"send {"content":"…"} for each app"#.to_owned())
}

fn is_set(query: &str, name: &str, value: &str) -> bool {
    query
        .split('&')
        .any(|pair| pair.split_once('=').map_or((pair, "true"), |(n, v)| (n, v)) == (name, value))
}

fn said(status: StatusCode, message: &str, report: &Report) -> Response {
    let mut body = json!({ "type": "success", "message": message });
    if let (Json::Object(to), Json::Object(from)) = (&mut body, report.to_json()) {
        to.extend(from);
    }
    answer::json(status, &body)
}

/// In the words of Streaming Integrator, as far as it has them.
fn refusal(refusal: &Refusal) -> Response {
    let (status, kind) = match refusal.reason {
        Reason::Invalid => (StatusCode::BAD_REQUEST, "validation error"),
        Reason::Exists | Reason::LosesState | Reason::Fixed => (StatusCode::CONFLICT, "conflict"),
        Reason::Unknown => (StatusCode::NOT_FOUND, "not found"),
        Reason::NoFolder => (StatusCode::FORBIDDEN, "forbidden"),
        Reason::CannotStart | Reason::CannotKeep => {
            (StatusCode::INTERNAL_SERVER_ERROR, "file processing error")
        }
        Reason::Stopping | Reason::Busy => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        Reason::Late => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
    };
    answer::json(
        status,
        &json!({
            "type": kind,
            "code": status.as_u16(),
            "message": refusal.message,
            "diagnostics": refusal.diagnostics,
            "rendered": refusal.rendered,
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_an_app_or_a_list_of_them() {
        let one = |body: &str| texts(body.as_bytes());
        assert_eq!(one("@app:name('A')"), Ok(vec!["@app:name('A')".to_owned()]));
        assert_eq!(one(r#" {"content":"a"}"#), Ok(vec!["a".to_owned()]));
        assert_eq!(
            one(r#"[{"content":"a"},{"content":"b"}]"#),
            Ok(vec!["a".to_owned(), "b".to_owned()])
        );
        for (body, part) in [
            ("  ", "empty"),
            ("[]", "between 1 and"),
            (r#"{"text":"a"}"#, "content"),
            ("{", "neither"),
        ] {
            assert!(one(body).unwrap_err().contains(part), "{body}");
        }
        assert!(texts(b"a\xff").unwrap_err().contains("byte 1"));
    }

    #[test]
    fn a_parameter_without_a_value_is_set() {
        assert!(is_set("a=1&dry-run", "dry-run", "true"));
        assert!(is_set("dry-run=true", "dry-run", "true"));
        assert!(!is_set("dry-run=false", "dry-run", "true"));
    }
}
