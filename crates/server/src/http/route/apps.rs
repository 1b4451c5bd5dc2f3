//! Apps that run: listed, deployed, changed and undeployed, by the paths of Streaming Integrator.
//!
//! `POST /siddhi-apps` deploys the app in its body, `PUT` also changes one; both take the text of the
//! app, or `{"content":"…"}`, and `PUT` a list of them, which takes effect as a whole. `DELETE
//! /siddhi-apps/{app}` ends one, `DELETE /siddhi-apps?name=A&name=B` several as a whole. Who may not deploy
//! sees the text of an app without the secrets in it. Answers are `{"type":"…","message":"…"}`; what has changed stands
//! beside it, and the diagnostics of an app that is refused. A body is at most [`BODY_MAX`] bytes.

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content, NOT_BLANK, Param};
use crate::access::{Caller, Role};
use crate::deploy::{AppChange, AppStatus, DeployedApp, Order, Reason, Refusal, Report};
use crate::http::Services;
use crate::http::answer::{self, body_of, refused};
use crate::http::gate::Change;
use crate::http::query::{pairs, value};
use crate::summary::Summary;

/// Bytes of all apps of a request.
const BODY_MAX: usize = 8 << 20;

/// Characters of the name of a file.
const FILE_MAX: usize = 1024;

/// Apps of a request.
const APPS_MAX: usize = 1000;

const BODIES: &[Content] = &[
    Content::WORDS,
    Content {
        kind: "application/siddhi",
        ..Content::WORDS
    },
    Content::json(|| {
        let app = json!({
            "type": "object",
            "required": ["content"],
            "properties": {
                "content": {
                    "type": "string",
                    "pattern": NOT_BLANK,
                    "description": "the text of the app",
                },
                "file": {
                    "type": ["string", "null"],
                    "maxLength": FILE_MAX,
                    "description": "how its file is called in what is said about it",
                },
            },
        });
        let list = json!({ "type": "array", "minItems": 1, "maxItems": APPS_MAX, "items": app });
        json!({ "oneOf": [app, list] })
    }),
];

const DRY_RUN: Param = flag("dry-run", "Look what would happen, and change nothing");

const FLAGS: &[Param] = &[
    DRY_RUN,
    flag(
        "drop-state",
        "Drop saved state that an edited app cannot take back, instead of refusing it",
    ),
    flag("color", "Show faults in the colours of a terminal"),
];

const fn flag(name: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        is_needed: false,
        schema: || json!({ "type": "boolean" }),
    }
}

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

/// Where the text of an app is.
pub(super) const TEXT_PATH: &str = "/siddhi-apps/{app}";

pub(super) const ROUTES: &[Route] = &[
    Route::get("/siddhi-apps", Role::Read, "The apps that run", |method| {
        on(method, list)
    })
    .query(&[
        flag("isActive", "true: those that are active; false: the others"),
        flag(
            "details",
            "Objects with what each has read, written and rejected",
        ),
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
    .answers(&[
        Answer::new(200, "It can be deployed, says the dry run", SAID),
        Answer::new(201, "It runs", SAID),
    ]),
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
    Route::delete(
        "/siddhi-apps",
        Role::Deploy,
        "Undeploy apps; all or none",
        |method| on(method, delete_all),
    )
    .query(&[
        Param {
            name: "name",
            about: "The name of an app, once for each",
            is_needed: true,
            schema: || {
                let name = json!({ "type": "string", "minLength": 1 });
                json!({ "type": "array", "minItems": 1, "maxItems": APPS_MAX, "items": name })
            },
        },
        DRY_RUN,
    ])
    .answers(&[Answer::new(200, "They do not run any more", SAID)]),
    Route::get(
        TEXT_PATH,
        Role::Read,
        "The text of an app, without its secrets unless the role is deploy",
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
    Route::delete(TEXT_PATH, Role::Deploy, "Undeploy an app", |method| {
        on(method, delete)
    })
    .query(&[DRY_RUN])
    .answers(&[Answer::new(200, "It does not run any more", SAID)]),
    Route::get(
        "/siddhi-apps/{app}/status",
        Role::Read,
        "How an app is",
        |method| on(method, status),
    )
    .answers(&[Answer::new(
        200,
        "Active; starting, until its sources were connected once; or failed, with the reason",
        Content::json(|| {
            json!({
                "type": "object",
                "required": ["status"],
                "properties": {
                    "status": { "enum": ["active", "starting", "failed"] },
                    "reason": { "type": "string" },
                },
            })
        }),
    )]),
];

async fn list(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let query = pairs(query.as_deref());
    let apps = services.deployer.apps();
    let is_active = |app: &&DeployedApp| services.deployer.status(&app.name) == AppStatus::Active;
    let wanted = value(&query, "isActive").map(|wanted| wanted == "true");
    let apps = apps
        .iter()
        .filter(|app| wanted.is_none_or(|wanted| is_active(app) == wanted));
    if !is_set(&query, "details") {
        let names = apps.map(|app| app.name.as_str());
        return answer::json(StatusCode::OK, &names.collect());
    }
    let summary = Summary::new(&services.metrics, services.process, Vec::new()).to_json();
    let measured = summary["apps"].as_array();
    let all = apps.map(|app| {
        let measured = measured.into_iter().flatten();
        let found = measured
            .into_iter()
            .find(|m| m["name"] == app.name.as_str());
        let mut one = found
            .cloned()
            .unwrap_or_else(|| json!({ "name": app.name }));
        put_status(&mut one, &services.deployer.status(&app.name));
        one["file"] = json!(app.file);
        one
    });
    answer::json(StatusCode::OK, &all.collect())
}

fn put_status(json: &mut Json, status: &AppStatus) {
    let (word, reason) = match status {
        AppStatus::Active => ("active", None),
        AppStatus::Starting(reason) => ("starting", reason.as_ref()),
        AppStatus::Failed(reason) => ("failed", Some(reason)),
    };
    json["status"] = json!(word);
    if let Some(reason) = reason {
        json["reason"] = json!(reason);
    }
}

async fn text(
    State(services): State<Services>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Response {
    let apps = services.deployer.apps();
    let Some(app) = apps.iter().find(|app| app.name == name) else {
        return unknown(&services, &name);
    };
    // Who may deploy it has to get back what he has to edit.
    let content = match caller.has(Role::Deploy) {
        true => app.text.clone(),
        false => check::secret::hidden(&app.text, services.asker.catalog()),
    };
    answer::json(StatusCode::OK, &json!({ "content": content }))
}

async fn status(State(services): State<Services>, Path(name): Path<String>) -> Response {
    if !services.deployer.apps().iter().any(|app| app.name == name) {
        return unknown(&services, &name);
    }
    let mut body = json!({});
    put_status(&mut body, &services.deployer.status(&name));
    answer::json(StatusCode::OK, &body)
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
    let result = order(services, query.as_deref(), texts, is_new).await;
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
    undeploy(&services, vec![name], query.as_deref()).await
}

async fn delete_all(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let pairs = pairs(query.as_deref());
    let names = pairs.into_iter().filter(|(name, _)| name == "name");
    let names: Vec<String> = names.map(|(_, app)| app).collect();
    if names.len() > APPS_MAX {
        let message = format!("name at most {APPS_MAX} apps");
        return refused(StatusCode::BAD_REQUEST, &message);
    }
    undeploy(&services, names, query.as_deref()).await
}

async fn undeploy(services: &Services, names: Vec<String>, query: Option<&str>) -> Response {
    let changes = names.iter().cloned().map(AppChange::Remove).collect();
    match order(services, query, changes, false).await {
        Ok((report, is_dry_run)) => {
            let done = match (is_dry_run, names.len()) {
                (true, 1) => "can be undeployed",
                (true, _) => "can be undeployed together",
                (false, 1) => "is undeployed",
                (false, _) => "are undeployed",
            };
            let message = format!("Siddhi App {} {done}", names.join(", "));
            said(StatusCode::OK, &message, &report)
        }
        Err(refused) => refusal(&refused),
    }
}

async fn order(
    services: &Services,
    query: Option<&str>,
    changes: Vec<AppChange>,
    is_new: bool,
) -> Result<(Report, bool), Refusal> {
    let query = pairs(query);
    let is_dry_run = is_set(&query, "dry-run");
    let order = Order {
        changes,
        is_new,
        is_dry_run,
        drops_state: is_set(&query, "drop-state"),
        is_coloured: is_set(&query, "color"),
    };
    Ok((services.deployer.ask(order).await?, is_dry_run))
}

/// The apps in a body, each to be put.
fn texts(body: &[u8]) -> Result<Vec<AppChange>, String> {
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
            false => Ok(vec![AppChange::Put {
                text: text.to_owned(),
                file: None,
            }]),
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
    apps.iter().map(of_json).collect()
}

fn of_json(app: &Json) -> Result<AppChange, String> {
    let Some(text) = app["content"].as_str() else {
        return Err(r#"send {"content":"…"} for each app"#.to_owned());
    };
    let file = match &app["file"] {
        Json::Null => None,
        Json::String(file) if file.chars().count() <= FILE_MAX => Some(file),
        _ => {
            return Err(format!(
                "'file' is no text of at most {FILE_MAX} characters"
            ));
        }
    };
    // It is shown on terminals.
    let shown = |file: &String| file.replace(char::is_control, " ");
    Ok(AppChange::Put {
        text: text.to_owned(),
        file: file.map(shown),
    })
}

fn is_set(query: &[(String, String)], name: &str) -> bool {
    value(query, name) == Some("true")
}

fn said(status: StatusCode, message: &str, report: &Report) -> Response {
    let mut body = json!({ "type": "success", "message": message });
    if let (Json::Object(to), Json::Object(from)) = (&mut body, report.to_json()) {
        to.extend(from);
    }
    let mut response = answer::json(status, &body);
    response.extensions_mut().insert(Change(message.to_owned()));
    response
}

/// In the words of Streaming Integrator, as far as it has them.
fn refusal(refusal: &Refusal) -> Response {
    let (status, kind) = match refusal.reason {
        Reason::Invalid => (StatusCode::BAD_REQUEST, "validation error"),
        Reason::Exists | Reason::LosesState | Reason::Fixed | Reason::Edited => {
            (StatusCode::CONFLICT, "conflict")
        }
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
        let found = |body: &str| texts(body.as_bytes());
        let put = |text: &str, file: Option<&str>| AppChange::Put {
            text: text.to_owned(),
            file: file.map(str::to_owned),
        };
        assert_eq!(
            found("@app:name('A')"),
            Ok(vec![put("@app:name('A')", None)])
        );
        assert_eq!(found(r#" {"content":"a"}"#), Ok(vec![put("a", None)]));
        assert_eq!(
            found(r#"[{"content":"a","file":"a\u001b[1m"},{"content":"b","file":null}]"#),
            Ok(vec![put("a", Some("a [1m")), put("b", None)])
        );
        for (body, part) in [
            ("  ", "empty"),
            ("[]", "between 1 and"),
            (r#"{"text":"a"}"#, "content"),
            (r#"{"content":"a","file":1}"#, "file"),
            ("{", "neither"),
        ] {
            assert!(found(body).unwrap_err().contains(part), "{body}");
        }
        assert!(texts(b"a\xff").unwrap_err().contains("byte 1"));
    }
}
