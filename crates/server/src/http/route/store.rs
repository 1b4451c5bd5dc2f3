//! Keeping house in the event store.
//!
//! `GET /store/tables` and `GET /store/tables/{table}/versions` look. `POST /store/purge`, `vacuum`, `reindex` and
//! `verify` take a JSON object: `tables` (patterns of names; all without), `before` (a time, or milliseconds) or
//! `olderThan` (`30 days`) of a purge, `grace` of a vacuum, `dryRun`. The answer is `{"id":N,"work":…,"millis":…,
//! "result":…}`; work that takes longer than [`ANSWER_MAX`] goes on, is answered with 202 and its `id`, and is looked
//! for under `GET /store/work`; `DELETE /store/work` ends it. One piece of work is done at a time, others get 409.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value as Json, json};

use super::Route;
use super::table::{Answer, Content};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{ANSWER_MAX, body_of, json, refused};
use crate::http::store::{Busy, StoreKeeper, StoreRefusal, StoreWork};

/// Bytes of an order.
const BODY_MAX: usize = 64 << 10;

const OBJECT: Content = Content::json(|| json!({ "type": "object" }));

const ORDER: &[Content] = &[Content::json(|| {
    json!({
        "type": "object",
        "properties": {
            "tables": { "type": "array", "items": { "type": "string" }, "description": "patterns of names" },
            "before": { "type": ["string", "integer"], "description": "a time, or milliseconds since 1970" },
            "olderThan": { "type": "string", "description": "such as 30 days" },
            "grace": { "type": "string", "description": "how long files are kept that are out of a table" },
            "force": { "type": "boolean", "description": "allow a grace below an hour" },
            "dryRun": { "type": "boolean", "description": "only count" },
        },
    })
})];

const DONE: &[Answer] = &[
    Answer::new(200, "It is done", OBJECT),
    Answer::new(202, "It goes on", OBJECT),
];

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/store/tables",
        Role::Read,
        "The tables of the event store",
        |method| on(method, tables),
    )
    .answers(&[Answer::new(200, "All tables", OBJECT)]),
    Route::get(
        "/store/tables/{table}/versions",
        Role::Read,
        "The versions of a table that can still be read",
        |method| on(method, versions),
    )
    .answers(&[Answer::new(200, "Oldest first", OBJECT)]),
    Route::get(
        "/store/work",
        Role::Read,
        "What is done to the event store, and was last",
        |method| on(method, work),
    )
    .answers(&[Answer::new(200, "What runs, and the last", OBJECT)]),
    Route::delete(
        "/store/work",
        Role::Deploy,
        "End what is done to the event store",
        |method| on(method, stop),
    )
    .answers(&[Answer::new(200, "It ends soon", OBJECT)]),
    Route::post(
        "/store/purge",
        Role::Deploy,
        "Take old rows out of tables",
        |method| on(method, purge),
    )
    .bodies(ORDER)
    .answers(DONE),
    Route::post(
        "/store/vacuum",
        Role::Deploy,
        "Remove files that no table names",
        |method| on(method, vacuum),
    )
    .bodies(ORDER)
    .answers(DONE),
    Route::post(
        "/store/reindex",
        Role::Operate,
        "Make search indexes again",
        |method| on(method, reindex),
    )
    .bodies(ORDER)
    .answers(DONE),
    Route::post(
        "/store/verify",
        Role::Operate,
        "Read every byte of the event store",
        |method| on(method, verify),
    )
    .bodies(ORDER)
    .answers(DONE),
];

/// Looks, on a thread that may wait for the disk.
async fn look(
    services: Services,
    look: impl FnOnce(&dyn StoreKeeper) -> Result<Json, StoreRefusal> + Send + 'static,
) -> Response {
    let keeper = match services.store.keeper() {
        Ok(keeper) => keeper,
        Err(why) => return refused(StatusCode::NOT_IMPLEMENTED, why),
    };
    match tokio::task::spawn_blocking(move || look(&*keeper)).await {
        Ok(Ok(found)) => json(StatusCode::OK, &found),
        Ok(Err(StoreRefusal::Wrong(message))) => refused(StatusCode::NOT_FOUND, &message),
        Ok(Err(StoreRefusal::Failed(message))) => {
            refused(StatusCode::INTERNAL_SERVER_ERROR, &message)
        }
        Err(_) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal error: see the log",
        ),
    }
}

async fn tables(State(services): State<Services>) -> Response {
    look(services, |keeper| keeper.tables()).await
}

async fn versions(State(services): State<Services>, Path(table): Path<String>) -> Response {
    look(services, move |keeper| keeper.versions(&table)).await
}

async fn work(State(services): State<Services>) -> Response {
    json(StatusCode::OK, &services.store.show())
}

async fn stop(State(services): State<Services>) -> Response {
    match services.store.stop() {
        true => json(
            StatusCode::OK,
            &json!({ "message": "it ends with the file that it is at" }),
        ),
        false => refused(StatusCode::NOT_FOUND, "nothing is done to the event store"),
    }
}

async fn purge(State(services): State<Services>, body: Body) -> Response {
    run(services, StoreWork::Purge, body).await
}

async fn vacuum(State(services): State<Services>, body: Body) -> Response {
    run(services, StoreWork::Vacuum, body).await
}

async fn reindex(State(services): State<Services>, body: Body) -> Response {
    run(services, StoreWork::Reindex, body).await
}

async fn verify(State(services): State<Services>, body: Body) -> Response {
    run(services, StoreWork::Verify, body).await
}

async fn run(services: Services, work: StoreWork, body: Body) -> Response {
    let keeper = match services.store.keeper() {
        Ok(keeper) => keeper,
        Err(why) => return refused(StatusCode::NOT_IMPLEMENTED, why),
    };
    let body = match body_of(body, "what to do", BODY_MAX).await {
        Ok(body) => body,
        Err((status, message)) => return refused(status, &message),
    };
    let order = match body.is_empty() {
        true => json!({}),
        false => match serde_json::from_slice::<Json>(&body) {
            Ok(order @ Json::Object(_)) => order,
            Ok(_) => return refused(StatusCode::BAD_REQUEST, "the body is no JSON object"),
            Err(cause) => {
                let message = format!("the body is not JSON: {cause}");
                return refused(StatusCode::BAD_REQUEST, &message);
            }
        },
    };
    let (id, ended) = match services.store.begin(keeper, work, order) {
        Ok(begun) => begun,
        Err(Busy(work)) => {
            let message = format!(
                "{} runs already: wait for it (GET /store/work), or end it (DELETE /store/work)",
                work.name()
            );
            return refused(StatusCode::CONFLICT, &message);
        }
    };
    match tokio::time::timeout(ANSWER_MAX, ended).await {
        Ok(Ok(done)) => match done.get("error") {
            None => json(StatusCode::OK, &done),
            Some(error) => {
                let code = error["code"]
                    .as_u64()
                    .and_then(|code| u16::try_from(code).ok());
                let code = code.and_then(|code| StatusCode::from_u16(code).ok());
                json(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error)
            }
        },
        Ok(Err(_)) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the work has ended by an internal error: see the log",
        ),
        Err(_) => {
            let message = "it goes on: look for it at /store/work";
            json(
                StatusCode::ACCEPTED,
                &json!({ "id": id, "message": message }),
            )
        }
    }
}
