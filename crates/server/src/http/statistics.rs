//! How much is measured of the apps, read and changed while they run.
//!
//! `GET /siddhi-apps/{app}/statistics` answers `{"appName":"…","level":"BASIC","readings":[…],…}`; `PUT`
//! sets the level first, by `{"level":"DETAIL"}` or as Streaming Integrator does by
//! `{"statsEnable":true}`. `/siddhi-apps/statistics` is the same for all apps, under `apps`. A body is at
//! most [`BODY_MAX`] bytes.

use std::sync::Arc;

use connect::file_uri::percent_decoded;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use plan::StatisticsLevel;
use serde_json::{Value as Json, json};

use super::{body_of, refused};
use crate::metrics::{AppMetrics, Metrics};
use crate::statistics::to_json;

/// Bytes of a level with all around it.
const BODY_MAX: usize = 1024;

/// Whose statistics a path asks for.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Of {
    All,
    App(String),
}

/// `None`: the path is another.
pub(super) fn asked(path: &str) -> Option<Of> {
    let app = path
        .strip_prefix("/siddhi-apps")?
        .strip_suffix("/statistics")?;
    if app.is_empty() {
        return Some(Of::All);
    }
    percent_decoded(app.strip_prefix('/')?).map(Of::App)
}

pub(super) async fn answer(
    request: Request<Incoming>,
    of: &Of,
    metrics: &Metrics,
) -> Response<Full<Bytes>> {
    let all = metrics.apps.all();
    let apps: Vec<&Arc<AppMetrics>> = match of {
        Of::All => all.iter().collect(),
        Of::App(name) => all.iter().filter(|app| app.label.app == *name).collect(),
    };
    if let (Of::App(name), []) = (of, &apps[..]) {
        let names: Vec<String> = all.iter().map(|a| format!("'{}'", a.label.app)).collect();
        let message = format!("there is no app '{name}' here, but {}", names.join(", "));
        return refused(StatusCode::NOT_FOUND, &message);
    }
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::PUT => {
            let body = body_of(request, "a level", BODY_MAX).await;
            match body.and_then(|body| wanted(&body)) {
                Ok(wanted) => apps.iter().for_each(|app| wanted.set(app)),
                Err((status, message)) => return refused(status, &message),
            }
        }
        _ => {
            let message = "statistics are read by GET, and their level is set by PUT";
            return refused(StatusCode::METHOD_NOT_ALLOWED, message);
        }
    }
    let said: Vec<Json> = apps.iter().map(|app| to_json(app)).collect();
    match (of, &said[..]) {
        (Of::App(_), [one]) => super::json(StatusCode::OK, one),
        _ => super::json(StatusCode::OK, &json!({ "apps": said })),
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    To(StatisticsLevel),
    /// An app that measures more goes on doing so.
    AtLeast(StatisticsLevel),
}

impl Wanted {
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
            "the level of statistics was set"
        );
    }
}

/// What a body asks for.
fn wanted(body: &[u8]) -> Result<Wanted, (StatusCode, String)> {
    const WRITE: &str = r#"send {"level":"OFF"}, {"level":"BASIC"} or {"level":"DETAIL"}, or {"statsEnable":true|false}"#;
    let wrong = |what: String| (StatusCode::BAD_REQUEST, what);
    let Ok(body) = serde_json::from_slice::<Json>(body) else {
        return Err(wrong(format!("the body is no JSON: {WRITE}")));
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
        _ => Err(wrong(format!("the body says no level: {WRITE}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_an_app_or_all() {
        let app = |name: &str| Some(Of::App(name.to_owned()));
        assert_eq!(asked("/siddhi-apps/statistics"), Some(Of::All));
        assert_eq!(asked("/siddhi-apps/Shop/statistics"), app("Shop"));
        assert_eq!(asked("/siddhi-apps/a%20%2F%C3%A4/statistics"), app("a /ä"));
        assert_eq!(
            asked("/siddhi-apps/statistics/statistics"),
            app("statistics")
        );
        for other in ["/siddhi-apps", "/siddhi-appsX/statistics", "/metrics", ""] {
            assert_eq!(asked(other), None, "{other}");
        }
    }

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
            ("nonsense", "the body is no JSON: send"),
            ("{}", "the body says no level: send"),
            ("[1]", "says no level"),
            (r#"{"level":2}"#, "says no level"),
            (r#"{"level":"OFF","statsEnable":true}"#, "says no level"),
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
