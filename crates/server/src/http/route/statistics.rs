//! How much is measured of the apps, read and changed while they run.
//!
//! `GET /siddhi-apps/{app}/statistics` answers `{"appName":"…","level":"BASIC","readings":[…],…}`; `PUT`
//! sets the level first, by `{"level":"DETAIL"}` or as Streaming Integrator does by
//! `{"statsEnable":true}`. `/siddhi-apps/statistics` is the same for all apps, under `apps`. A body is at
//! most [`BODY_MAX`] bytes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use plan::StatisticsLevel;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{self, body_of, refused};
use crate::http::gate::Change;
use crate::metrics::{AppMetrics, Metrics};
use crate::statistics::to_json;

/// Bytes of a level with all around it.
const BODY_MAX: usize = 1024;

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/siddhi-apps/statistics",
        Role::Read,
        "The statistics of all apps",
        |method| on(method, read_all),
    )
    .answers(ALL),
    Route::put(
        "/siddhi-apps/statistics",
        Role::Operate,
        "Set the statistics level of all apps",
        |method| on(method, set_all),
    )
    .bodies(LEVEL)
    .answers(ALL),
    Route::get(
        "/siddhi-apps/{app}/statistics",
        Role::Read,
        "The statistics of an app",
        |method| on(method, read_one),
    )
    .answers(ONE),
    Route::put(
        "/siddhi-apps/{app}/statistics",
        Role::Operate,
        "Set the statistics level of an app",
        |method| on(method, set_one),
    )
    .bodies(LEVEL)
    .answers(ONE),
];

const LEVEL: &[Content] = &[Content::json(|| {
    let level = json!({ "enum": ["OFF", "BASIC", "DETAIL"] });
    json!({ "oneOf": [
        {
            "type": "object",
            "required": ["level"],
            "properties": { "level": level, "statsEnable": { "type": "null" } },
        },
        {
            "type": "object",
            "required": ["statsEnable"],
            "properties": { "level": { "type": "null" }, "statsEnable": { "type": "boolean" } },
        },
    ] })
})];

const ONE: &[Answer] = &[Answer::new(
    200,
    "The level and the readings",
    Content::json(app_schema),
)];

const ALL: &[Answer] = &[Answer::new(
    200,
    "The level and the readings of each app",
    Content::json(|| {
        json!({
            "type": "object",
            "required": ["apps"],
            "properties": { "apps": { "type": "array", "items": app_schema() } },
        })
    }),
)];

fn app_schema() -> Json {
    json!({
        "type": "object",
        "required": ["appName", "level", "readings"],
        "properties": {
            "appName": { "type": "string" },
            "level": { "enum": ["OFF", "BASIC", "DETAIL"] },
            "readings": { "type": "array", "items": { "type": "object" } },
        },
    })
}

async fn read_all(State(services): State<Services>) -> Response {
    all(&services.metrics.apps.all())
}

async fn read_one(State(services): State<Services>, Path(name): Path<String>) -> Response {
    match app(&services.metrics, &name) {
        Ok(app) => answer::json(StatusCode::OK, &to_json(&app)),
        Err(refusal) => *refusal,
    }
}

async fn set_all(State(services): State<Services>, body: Body) -> Response {
    let apps = services.metrics.apps.all();
    match level_of(body).await {
        Ok(wanted) => {
            apps.iter().for_each(|app| wanted.set(app));
            let mut response = all(&apps);
            response.extensions_mut().insert(wanted.change());
            response
        }
        Err((status, message)) => refused(status, &message),
    }
}

async fn set_one(
    State(services): State<Services>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let app = match app(&services.metrics, &name) {
        Ok(app) => app,
        Err(refusal) => return *refusal,
    };
    match level_of(body).await {
        Ok(wanted) => {
            wanted.set(&app);
            let mut response = answer::json(StatusCode::OK, &to_json(&app));
            response.extensions_mut().insert(wanted.change());
            response
        }
        Err((status, message)) => refused(status, &message),
    }
}

fn all(apps: &[Arc<AppMetrics>]) -> Response {
    let apps: Vec<Json> = apps.iter().map(|app| to_json(app)).collect();
    answer::json(StatusCode::OK, &json!({ "apps": apps }))
}

/// The app of that name, or the refusal, which names those that there are.
fn app(metrics: &Metrics, name: &str) -> Result<Arc<AppMetrics>, Box<Response>> {
    let all = metrics.apps.all();
    if let Some(app) = all.iter().find(|app| app.label.app == name) {
        return Ok(Arc::clone(app));
    }
    let names: Vec<String> = all.iter().map(|a| format!("'{}'", a.label.app)).collect();
    let message = format!("there is no app '{name}'; running: {}", names.join(", "));
    Err(Box::new(refused(StatusCode::NOT_FOUND, &message)))
}

async fn level_of(body: Body) -> Result<Wanted, (StatusCode, String)> {
    wanted(&body_of(body, "a level", BODY_MAX).await?)
}

#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    To(StatisticsLevel),
    /// An app that measures more goes on doing so.
    AtLeast(StatisticsLevel),
}

impl Wanted {
    fn change(&self) -> Change {
        let (Wanted::To(level) | Wanted::AtLeast(level)) = self;
        Change(format!("level {}", level.name()))
    }

    fn set(&self, app: &AppMetrics) {
        let before = app.level.get();
        let level = match *self {
            Wanted::To(level) => level,
            Wanted::AtLeast(level) => before.max(level),
        };
        app.level.set(level);
        tracing::info!(
            app = app.label.app,
            before = before.name(),
            level = level.name(),
            "statistics level changed"
        );
    }
}

/// What a body asks for.
fn wanted(body: &[u8]) -> Result<Wanted, (StatusCode, String)> {
    const WRITE: &str = r#"send {"level":"OFF"}, {"level":"BASIC"} or {"level":"DETAIL"}, or {"statsEnable":true|false}"#;
    let wrong = |what: String| (StatusCode::BAD_REQUEST, what);
    let Ok(body) = serde_json::from_slice::<Json>(body) else {
        return Err(wrong(format!("the body is not JSON: {WRITE}")));
    };
    match (&body["level"], &body["statsEnable"]) {
        (Json::String(name), Json::Null) => {
            let level = StatisticsLevel::from_name(name);
            let needed = StatisticsLevel::NAMES;
            let unknown = || wrong(format!("there is no level '{name}': write {needed}"));
            level.map(Wanted::To).ok_or_else(unknown)
        }
        (Json::Null, Json::Bool(true)) => Ok(Wanted::AtLeast(StatisticsLevel::Basic)),
        (Json::Null, Json::Bool(false)) => Ok(Wanted::To(StatisticsLevel::Off)),
        _ => Err(wrong(format!("the body has no level: {WRITE}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 653
    #[test]
    fn a_level_is_set_while_the_app_runs_and_stays() {
        let set = |body: &str| wanted(body.as_bytes());
        let app = AppMetrics::default();
        let mut plan = plan::Plan::default();
        app.level.begin(&plan);
        let check = |body: &str, level| {
            set(body).expect("a level").set(&app);
            assert_eq!(app.level.get(), level, "{body}");
        };
        check(r#"{"statsEnable":true}"#, StatisticsLevel::Basic);
        check(r#"{"level":"detail"}"#, StatisticsLevel::Detail);
        check(r#"{"statsEnable":true}"#, StatisticsLevel::Detail);
        check(r#"{"statsEnable":false}"#, StatisticsLevel::Off);
        plan.options.statistics = Some(plan::Statistics {
            is_console: true,
            interval_seconds: 60,
            include: Vec::new(),
            level: StatisticsLevel::Basic,
        });
        // Begun anew, as by a reload.
        app.level.begin(&plan);
        assert_eq!(app.level.get(), StatisticsLevel::Off);
        let other = AppMetrics::default();
        other.level.begin(&plan);
        assert_eq!(other.level.get(), StatisticsLevel::Basic);
        for (body, part) in [
            ("nonsense", "the body is not JSON: send"),
            ("{}", "the body has no level: send"),
            ("[1]", "has no level"),
            (r#"{"level":2}"#, "has no level"),
            (r#"{"level":"OFF","statsEnable":true}"#, "has no level"),
            (
                r#"{"level":"ALL"}"#,
                "there is no level 'ALL': write OFF, BASIC or DETAIL",
            ),
        ] {
            let (status, message) = set(body).expect_err("refused");
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(message.contains(part), "{message}");
        }
    }
}
