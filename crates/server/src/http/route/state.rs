//! Saved state: what there is, backups, and revisions of apps by Streaming Integrator's paths.
//!
//! `GET /state` answers what `headwater state list --json` prints. `POST /state/backups?name=…` makes a checkpoint of
//! all apps and copies it; `GET /state/backups` lists backups, `GET /state/backups/{name}` answers one as a tar archive,
//! `DELETE` removes it. `POST /siddhi-apps/{app}/backup` answers 201 with `{"revision":"…"}`, `GET …/revisions` lists
//! them, and `POST …/restore?version=…` (or `revision`; without one: the newest) answers
//! `{"type":"success","message":"…"}` when the app goes on from there and that is durable. A refusal is
//! `{"code":…,"message":"…"}`. Requests have no body. Work takes [`WORK_MAX`] at most.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content, Param};
use crate::access::Role;
use crate::ask::Refusal;
use crate::backups::Fault;
use crate::http::Services;
use crate::http::answer::{self, refused};
use crate::http::pipe::{PipeWriter, pipe};
use crate::report::chain;
use crate::upkeep::backup::Manifest;

/// How long a checkpoint with its copy may take.
const WORK_MAX: Duration = Duration::from_secs(600);

pub(super) const ROUTES: &[Route] = &[
    Route::get("/state", Role::Read, "What is saved", |method| {
        on(method, survey)
    })
    .answers(SURVEY),
    Route::get("/state/backups", Role::Read, "The backups", |method| {
        on(method, list)
    })
    .answers(LIST),
    Route::post(
        "/state/backups",
        Role::Operate,
        "Make a checkpoint of all apps and copy it",
        |method| on(method, make),
    )
    .query(NAME)
    .answers(MADE),
    Route::get(
        "/state/backups/{name}",
        Role::Operate,
        "A backup as a tar archive",
        |method| on(method, archive),
    )
    .answers(ARCHIVE),
    Route::delete(
        "/state/backups/{name}",
        Role::Deploy,
        "Remove a backup, or a revision of an app",
        |method| on(method, remove),
    )
    .answers(REMOVED),
    Route::post(
        "/siddhi-apps/{app}/backup",
        Role::Operate,
        "Make a checkpoint of an app and keep it as a revision",
        |method| on(method, make_revision),
    )
    .answers(REVISION),
    Route::get(
        "/siddhi-apps/{app}/revisions",
        Role::Read,
        "The revisions of an app, oldest first",
        |method| on(method, revisions),
    )
    .answers(REVISIONS),
    Route::post(
        "/siddhi-apps/{app}/restore",
        Role::Deploy,
        "Restore an app to a revision while the others run on",
        |method| on(method, restore),
    )
    .query(VERSION)
    .answers(RESTORED),
];

const NAME: &[Param] = &[Param {
    name: "name",
    about: "Name of the backup; by default the time",
    is_needed: false,
    schema: || json!({ "type": "string" }),
}];

const VERSION: &[Param] = &[
    Param {
        name: "version",
        about: "The revision; by default the newest",
        is_needed: false,
        schema: || json!({ "type": "string" }),
    },
    Param {
        name: "revision",
        about: "The same, as older versions of Streaming Integrator call it",
        is_needed: false,
        schema: || json!({ "type": "string" }),
    },
];

const SURVEY: &[Answer] = &[Answer::new(
    200,
    "Groups of apps, their snapshots and what these hold",
    Content::json(|| json!({ "type": "object", "required": ["groups", "backups"] })),
)];

const LIST: &[Answer] = &[Answer::new(
    200,
    "Name, time and size of each",
    Content::json(|| json!({ "type": "object", "required": ["backups"] })),
)];

const MADE: &[Answer] = &[Answer::new(
    201,
    "It is there, and was verified",
    Content::json(|| json!({ "type": "object", "required": ["name", "groups"] })),
)];

const ARCHIVE: &[Answer] = &[Answer::new(
    200,
    "One directory with all files of the backup",
    Content {
        kind: "application/x-tar",
        schema: || json!({ "type": "string", "format": "binary" }),
    },
)];

const REMOVED: &[Answer] = &[Answer::new(
    200,
    "It is gone",
    Content::json(|| json!({ "type": "object", "required": ["removed"] })),
)];

const REVISION: &[Answer] = &[Answer::new(
    201,
    "It is kept",
    Content::json(|| {
        json!({
            "type": "object",
            "required": ["revision"],
            "properties": { "revision": { "type": "string" } },
        })
    }),
)];

const REVISIONS: &[Answer] = &[Answer::new(
    200,
    "Name, time and size of each",
    Content::json(|| json!({ "type": "object", "required": ["appName", "revisions"] })),
)];

const RESTORED: &[Answer] = &[Answer::new(
    200,
    "The app goes on from there, and that is durable",
    Content::json(|| json!({ "type": "object", "required": ["type", "message"] })),
)];

async fn survey(services: State<Services>) -> Response {
    match services.backups.survey().await {
        Ok(survey) => answer::json(StatusCode::OK, &survey.to_json()),
        Err(fault) => refusal(&fault),
    }
}

async fn list(services: State<Services>) -> Response {
    match services.backups.list().await {
        Ok(all) => {
            let all: Vec<Json> = all
                .iter()
                .map(|(name, m)| of_manifest("name", name, m))
                .collect();
            answer::json(StatusCode::OK, &json!({ "version": 1, "backups": all }))
        }
        Err(fault) => refusal(&fault),
    }
}

fn of_manifest(key: &str, name: &str, manifest: &Option<Manifest>) -> Json {
    json!({
        key: name,
        "time": manifest.as_ref().map(|m| m.taken),
        "bytes": manifest.as_ref().map(Manifest::bytes),
        "damaged": manifest.is_none(),
    })
}

async fn make(services: State<Services>, RawQuery(query): RawQuery) -> Response {
    let name = parameter(query.as_deref(), &["name"]);
    let made = services.backups.make(name.as_deref(), &services.asker);
    match tokio::time::timeout(WORK_MAX, made).await {
        Ok(Ok((name, backup))) => {
            let groups = backup.manifest.groups.iter();
            let groups = groups.map(|(name, epoch)| json!({ "group": name, "epoch": epoch }));
            let body = json!({
                "version": 1,
                "name": name,
                "backup": backup.path.display().to_string(),
                "time": backup.manifest.taken,
                "groups": groups.collect::<Vec<Json>>(),
                "files": backup.manifest.files(),
                "bytes": backup.manifest.bytes(),
            });
            answer::json(StatusCode::CREATED, &body)
        }
        Ok(Err(fault)) => refusal(&fault),
        Err(_) => late(),
    }
}

async fn archive(services: State<Services>, Path(name): Path<String>) -> Response {
    let path = match services.backups.find(&name) {
        Ok(path) => path,
        Err(fault) => return refusal(&fault),
    };
    let (writer, body) = pipe();
    let disposition = format!("attachment; filename=\"{name}.tar\"");
    tokio::task::spawn_blocking(move || write_archive(path, &name, writer));
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    response
}

/// Below one directory, named as the backup is.
fn write_archive(path: PathBuf, name: &str, writer: PipeWriter) {
    let mut archive = tar::Builder::new(writer);
    let written = archive.append_dir_all(name, &path);
    match written
        .and_then(|()| archive.into_inner())
        .and_then(PipeWriter::end)
    {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            tracing::warn!(backup = name, %cause, "cannot send backup");
        }
        _ => {}
    }
}

async fn remove(services: State<Services>, Path(name): Path<String>) -> Response {
    match services.backups.remove(&name).await {
        Ok(()) => answer::json(StatusCode::OK, &json!({ "version": 1, "removed": name })),
        Err(fault) => refusal(&fault),
    }
}

async fn make_revision(services: State<Services>, Path(app): Path<String>) -> Response {
    let made = services.backups.make_revision(&app, &services.asker);
    match tokio::time::timeout(WORK_MAX, made).await {
        Ok(Ok(revision)) => answer::json(StatusCode::CREATED, &json!({ "revision": revision })),
        Ok(Err(fault)) => refusal(&fault),
        Err(_) => late(),
    }
}

async fn revisions(services: State<Services>, Path(app): Path<String>) -> Response {
    let known = services.asker.app(Some(&app)).map_err(Fault::App);
    let found = match known {
        Ok(_) => services.backups.revisions(&app).await,
        Err(fault) => Err(fault),
    };
    match found {
        Ok(all) => {
            let all = all.iter().map(|(name, m)| of_manifest("revision", name, m));
            let body = json!({ "appName": app, "revisions": all.collect::<Vec<Json>>() });
            answer::json(StatusCode::OK, &body)
        }
        Err(fault) => refusal(&fault),
    }
}

async fn restore(
    services: State<Services>,
    Path(app): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let revision = parameter(query.as_deref(), &["version", "revision"]);
    let restored = services
        .backups
        .restore(&app, revision.as_deref(), &services.asker);
    let (name, linked) = match tokio::time::timeout(WORK_MAX, restored).await {
        Ok(Ok(restored)) => restored,
        Ok(Err(fault)) => return refusal(&fault),
        Err(_) => return late(),
    };
    let to = match revision {
        Some(_) => format!("revision {name}"),
        None => "last revision".to_owned(),
    };
    let mut message = format!("State restored to {to} for Siddhi App :{app}");
    if !linked.is_empty() {
        message += &format!(
            "; linked apps go on as they are and may get events of it again: {}",
            linked.join(", ")
        );
    }
    let body = json!({ "type": "success", "message": message, "revision": name });
    answer::json(StatusCode::OK, &body)
}

/// A parameter of the request by one of its names; names of backups need no decoding.
fn parameter(query: Option<&str>, names: &[&str]) -> Option<String> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(key, value)| names.contains(key) && !value.is_empty());
    value.map(|(_, value)| value.to_owned())
}

fn refusal(fault: &Fault) -> Response {
    match fault {
        Fault::NoState => refused(
            StatusCode::CONFLICT,
            "this server saves no state: start it with --state DIR",
        ),
        Fault::App(Refusal::NoApp(message)) | Fault::Unknown(message) => {
            refused(StatusCode::NOT_FOUND, message)
        }
        Fault::App(Refusal::Gone(message)) => refused(StatusCode::SERVICE_UNAVAILABLE, message),
        Fault::App(Refusal::Query(_)) => refused(StatusCode::BAD_REQUEST, "this is no query"),
        Fault::Refused(message) => refused(StatusCode::CONFLICT, message),
        Fault::Failed(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &chain(error)),
    }
}

fn late() -> Response {
    refused(
        StatusCode::GATEWAY_TIMEOUT,
        "the checkpoint took too long: an app waits for a sink or store",
    )
}
