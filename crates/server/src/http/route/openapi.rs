//! `GET /openapi.json`: all routes as an OpenAPI 3.1 document, made from their table.

use axum::Extension;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Map, Value as Json, json};

use super::table::{Answer, Content};
use super::{Access, Route, all};
use crate::access::{Caller, Role};
use crate::http::answer;

pub(super) const ROUTES: &[Route] =
    &[
        Route::get("/openapi.json", Role::Read, "This document", |method| {
            on(method, openapi)
        })
        .answers(&[Answer::new(
            200,
            "The routes as OpenAPI 3.1",
            Content::json(|| json!({ "type": "object" })),
        )]),
    ];

async fn openapi(Extension(caller): Extension<Caller>) -> Response {
    // Where there are users, nobody else gets here.
    answer::json(StatusCode::OK, &document(caller.user.is_some()))
}

/// The whole document. The same in every run of a build, but that it asks for a login only where there are
/// users.
fn document(needs_login: bool) -> Json {
    let mut paths = Map::new();
    for route in all() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.name().to_lowercase()] = operation(route, needs_login);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Headwater",
            "summary": "What a running server answers over HTTP",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "password": { "type": "http", "scheme": "basic" },
            },
            "schemas": {
                "DasRefusal": {
                    "type": "object",
                    "required": ["status", "message"],
                    "properties": {
                        "status": {
                            "enum": ["failed", "non-existent", "unauthenticated", "unauthorized"],
                        },
                        "message": {
                            "type": "string",
                            "description": "what is wrong, and what to do",
                        },
                    },
                },
                "Refusal": {
                    "type": "object",
                    "required": ["code", "message"],
                    "properties": {
                        "code": { "type": "integer", "description": "the status" },
                        "message": {
                            "type": "string",
                            "description": "what is wrong, and what to do",
                        },
                    },
                },
            },
        },
    })
}

fn operation(route: &Route, needs_login: bool) -> Json {
    let mut answers: Map<String, Json> = route
        .answers
        .iter()
        .map(|answer| {
            let status = answer.status.to_string();
            let contents = [&answer.content].into_iter().chain(answer.others);
            (status, response(answer.about, contents))
        })
        .collect();
    let refusal = match route.is_of_das() {
        true => Content::json(|| json!({ "$ref": "#/components/schemas/DasRefusal" })),
        false => Content::json(|| json!({ "$ref": "#/components/schemas/Refusal" })),
    };
    answers.insert("default".to_owned(), response("Refused", [&refusal]));
    let (role, security) = match route.access {
        Access::Anyone => ("anyone", json!([])),
        Access::Role(role) if !needs_login => (role.name(), json!([])),
        Access::Role(role) => (role.name(), json!([{ "token": [] }, { "password": [] }])),
    };
    let mut operation = json!({
        "operationId": identifier(route),
        "summary": route.summary,
        "description": format!("Role: {role}"),
        "x-role": role,
        "security": security,
        "parameters": parameters(route),
        "responses": answers,
    });
    if !route.bodies.is_empty() {
        let content: Map<String, Json> = route.bodies.iter().map(content).collect();
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn response<'a>(about: &str, contents: impl IntoIterator<Item = &'a Content>) -> Json {
    let content: Map<String, Json> = contents.into_iter().map(content).collect();
    json!({ "description": about, "content": content })
}

fn content(of: &Content) -> (String, Json) {
    (of.kind.to_owned(), json!({ "schema": (of.schema)() }))
}

/// Those of the path, which are always needed, and those behind the question mark.
fn parameters(route: &Route) -> Json {
    let of_path = names(route.path).map(|name| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "schema": of_path(name),
        })
    });
    let of_query = route.query.iter().map(|param| {
        json!({
            "name": param.name,
            "in": "query",
            "description": param.about,
            "required": param.is_needed,
            "schema": (param.schema)(),
        })
    });
    of_path.chain(of_query).collect()
}

/// What stands in the place of a parameter of a path.
fn of_path(name: &str) -> Json {
    match name {
        "id" | "number" => json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// `get_siddhi_apps_app_streams`.
fn identifier(route: &Route) -> String {
    let path = route.path.trim_matches('/');
    let path: String = path
        .chars()
        .filter(|c| !matches!(c, '{' | '}'))
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    format!("{}_{path}", route.verb.name().to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_in_the_document_with_its_role_and_an_answer() {
        let document = document(true);
        let mut identifiers = BTreeSet::new();
        for route in all() {
            let (path, verb) = (route.path, route.verb.name().to_lowercase());
            let operation = &document["paths"][path][&verb];
            let expect = match route.access {
                Access::Anyone => "anyone",
                Access::Role(role) => role.name(),
            };
            assert_eq!(operation["x-role"], expect, "{verb} {path}");
            assert_eq!(operation["summary"], route.summary);
            assert!(!route.summary.is_empty() && !route.summary.ends_with('.'));
            assert!(!route.answers.is_empty(), "{verb} {path} says no answer");
            let answers = operation["responses"].as_object().expect("answers");
            assert_eq!(answers.len(), route.answers.len() + 1, "{verb} {path}");
            let needed = names(path).count() + route.query.len();
            assert_eq!(
                operation["parameters"].as_array().map(Vec::len),
                Some(needed)
            );
            let id = operation["operationId"].as_str().expect("a text");
            assert!(identifiers.insert(id.to_owned()), "{id} is there twice");
        }
        let listed = document["paths"].as_object().expect("paths").values();
        let listed: usize = listed.map(|p| p.as_object().map_or(0, Map::len)).sum();
        assert_eq!(listed, all().count());
    }

    #[test]
    fn a_login_is_asked_for_where_there_are_users() {
        let security = |needs_login: bool, path: &str| {
            document(needs_login)["paths"][path]["get"]["security"].clone()
        };
        assert_eq!(security(false, "/status"), json!([]));
        assert_eq!(security(true, "/ready"), json!([]));
        let asked = security(true, "/status");
        assert_eq!(asked, json!([{ "token": [] }, { "password": [] }]));
    }

    #[test]
    fn a_path_is_written_without_a_slash_at_its_end() {
        for route in all() {
            assert!(
                route.path.starts_with('/') && !route.path.ends_with('/'),
                "{}",
                route.path
            );
        }
    }
}
