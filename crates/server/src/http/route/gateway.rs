//! What the gateway manages: applications, plans, subscriptions, keys, tokens, quotas.
//!
//! A key, a token or a secret is in the answer to the request that makes it, and in no other. A body is at most
//! [`BODY_MAX`] bytes; fields that are unknown are refused, because one that is misspelt would not limit what it was
//! meant to.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use connect::net::gateway::Protocol;
use gateway::Gateway;
use gateway::access::{Access, plan};
use gateway::document;
use gateway::hub::HubError;
use gateway::model::{Binding, Operation, Topic};
use gateway::plan::Plan;
use gateway::registry::{Application, NewKey, Registry, RegistryError, Subscription};
use gateway::token::{ApiKey, Subject};
use serde_json::{Map, Value as Json, json};

use super::Route;
use super::table::{Answer, Content, Param};
use crate::access::Role;
use crate::http::Services;
use crate::http::answer::{self, body_of, refused};
use crate::http::gate::Change;
use crate::http::query::{pairs, value};

/// Bytes of a body.
const BODY_MAX: usize = 64 << 10;

/// The longest life of a key or token, in seconds: ten years.
const EXPIRES_MAX: u64 = 3650 * 24 * 3600;

/// The life of a token that is made without one.
const TOKEN_EXPIRES: u64 = 3600;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/gateway/apis", Role::Read, "The APIs that the gateway serves", |method| on(method, apis))
        .answers(&[Answer::new(200, "The APIs with their topics and plans", LIST)]),
    Route::get("/gateway/export", Role::Read, "An API as a document", |method| on(method, export))
        .query(&[
            needed("api", "The API, by name or NAME/VERSION"),
            Param {
                is_needed: false,
                schema: || json!({ "type": "string", "enum": document::Format::NAMES }),
                ..needed("format", "AsyncAPI 3.0 without it")
            },
        ])
        .answers(&[Answer::new(200, "The document, and what is not in it", OBJECT)]),
    Route::get(
        "/gateway/connections",
        Role::Read,
        "The streams that are open, the oldest first",
        |method| on(method, connections),
    )
    .query(&[Param {
        is_needed: false,
        schema: || json!({ "type": "integer", "minimum": 1, "maximum": LISTED_MAX }),
        ..needed("limit", "So many at most")
    }])
    .answers(&[Answer::new(200, "How many there are, and the first of them", LIST)]),
    Route::get("/gateway/apps", Role::Read, "The applications", |method| on(method, apps))
        .answers(&[Answer::new(200, "The applications", LIST)]),
    Route::post("/gateway/apps", Role::Admin, "Make an application, with a client for tokens", |method| {
        on(method, create_app)
    })
    .bodies(&[Content::json(|| {
        json!({
            "type": "object", "required": ["name"], "additionalProperties": false,
            "properties": { "name": name(), "owner": { "type": "string" }, "scopes": scopes() },
        })
    })])
    .answers(&[Answer::new(201, "The application, and the secret of its client", OBJECT)]),
    Route::delete(
        "/gateway/apps/{name}",
        Role::Admin,
        "Remove an application with its keys and subscriptions; its streams end",
        |method| on(method, remove_app),
    )
    .answers(&[Answer::new(200, "It is removed", OBJECT)]),
    Route::post(
        "/gateway/apps/{name}/secret",
        Role::Admin,
        "Give the client of an application another secret",
        |method| on(method, renew_client),
    )
    .answers(&[Answer::new(201, "The client and its new secret", OBJECT)]),
    Route::get("/gateway/plans", Role::Read, "The plans that were made by requests", |method| on(method, plans))
        .answers(&[Answer::new(200, "The plans with their limits", LIST)]),
    Route::put("/gateway/plans/{name}", Role::Admin, "Make a plan, or give it other limits", |method| {
        on(method, set_plan)
    })
    .bodies(&[Content::json(|| json!({ "type": "object" }))])
    .answers(&[Answer::new(200, "The plan", OBJECT)]),
    Route::delete("/gateway/plans/{name}", Role::Admin, "Remove a plan that nobody uses", |method| {
        on(method, remove_plan)
    })
    .answers(&[Answer::new(200, "It is removed", OBJECT)]),
    Route::get("/gateway/subscriptions", Role::Read, "Which application uses which API on which plan", |method| {
        on(method, subscriptions)
    })
    .answers(&[Answer::new(200, "The subscriptions", LIST)]),
    Route::post(
        "/gateway/subscriptions",
        Role::Admin,
        "Subscribe an application to an API, or put it on another plan",
        |method| on(method, subscribe),
    )
    .bodies(&[Content::json(|| {
        json!({
            "type": "object", "required": ["application", "api"], "additionalProperties": false,
            "properties": { "application": name(), "api": { "type": "string" }, "plan": { "type": "string" } },
        })
    })])
    .answers(&[Answer::new(200, "The subscription", OBJECT)]),
    Route::delete("/gateway/subscriptions", Role::Admin, "End a subscription", |method| on(method, unsubscribe))
        .query(&[needed("application", "The application"), needed("api", "The API")])
        .answers(&[Answer::new(200, "It has ended", OBJECT)]),
    Route::get("/gateway/keys", Role::Read, "The API keys, by their ids", |method| on(method, keys))
        .query(&[Param {
            is_needed: false,
            ..needed("application", "Only keys of this application")
        }])
        .answers(&[Answer::new(200, "The keys", LIST)]),
    Route::post("/gateway/keys", Role::Admin, "Make an API key", |method| on(method, create_key))
        .bodies(&[Content::json(|| {
            let texts = json!({ "type": "array", "items": { "type": "string" } });
            json!({
                "type": "object", "required": ["application"], "additionalProperties": false,
                "properties": {
                    "application": name(), "scopes": scopes(), "expires": expires(), "addresses": texts,
                    "referrers": texts,
                },
            })
        })])
        .answers(&[Answer::new(201, "The key, this once", OBJECT)]),
    Route::delete("/gateway/keys/{id}", Role::Admin, "Revoke an API key; its streams end", |method| {
        on(method, revoke_key)
    })
    .answers(&[Answer::new(200, "It is revoked", OBJECT)]),
    Route::post("/gateway/tokens", Role::Admin, "Make an access token for an application", |method| {
        on(method, create_token)
    })
    .bodies(&[Content::json(|| {
        json!({
            "type": "object", "required": ["application"], "additionalProperties": false,
            "properties": { "application": name(), "scopes": scopes(), "expires": expires() },
        })
    })])
    .answers(&[Answer::new(201, "The token, this once", OBJECT)]),
    Route::post(
        "/gateway/revocations",
        Role::Admin,
        "Withdraw a token, or all tokens of a user or an application up to now; their streams end",
        |method| on(method, revoke),
    )
    .bodies(&[Content::json(|| {
        let by = |field: &str| {
            json!({
                "type": "object", "required": [field], "additionalProperties": false,
                "properties": { field: { "type": "string", "minLength": 1 } },
            })
        };
        json!({ "oneOf": [by("jti"), by("user"), by("application")] })
    })])
    .answers(&[Answer::new(200, "It is revoked", OBJECT)]),
    Route::get(
        "/gateway/callbacks",
        Role::Read,
        "The WebSub subscriptions: callbacks, leases, and how far each has come",
        |method| on(method, callbacks),
    )
    .answers(&[Answer::new(200, "The subscriptions", LIST)]),
    Route::post(
        "/gateway/callbacks/{id}/replay",
        Role::Operate,
        "Deliver the events of a topic to a callback once more, from a time or a number on",
        |method| on(method, replay),
    )
    .bodies(&[Content::json(|| {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "from": { "type": "integer", "minimum": 0, "description": "milliseconds since 1970" },
                "number": { "type": "integer", "minimum": 1 },
            },
        })
    })])
    .answers(&[Answer::new(200, "The number from which it begins", OBJECT)]),
    Route::get(
        "/gateway/deliveries",
        Role::Read,
        "Attempts to deliver to callbacks, the newest first",
        |method| on(method, deliveries),
    )
    .query(&[
        Param {
            is_needed: false,
            ..needed("subscription", "Only those of this subscription")
        },
        Param {
            is_needed: false,
            schema: || json!({ "type": "integer", "minimum": 1, "maximum": LISTED_MAX }),
            ..needed("limit", "So many at most")
        },
    ])
    .answers(&[Answer::new(200, "The attempts", LIST)]),
    Route::post(
        "/gateway/deliveries/{id}/resend",
        Role::Operate,
        "Deliver the event of an attempt once more, now",
        |method| on(method, resend),
    )
    .answers(&[Answer::new(200, "What became of it", OBJECT)]),
    Route::get("/gateway/quota", Role::Read, "What is used of the limits of plans, in the windows that run", |method| {
        on(method, quota)
    })
    .answers(&[Answer::new(200, "The counters", LIST)]),
];

const OBJECT: Content = Content::json(|| json!({ "type": "object" }));

const LIST: Content = Content::json(|| {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": { "items": { "type": "array", "items": { "type": "object" } } },
    })
});

const fn needed(name: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        is_needed: true,
        schema: || json!({ "type": "string" }),
    }
}

fn name() -> Json {
    json!({ "type": "string", "minLength": 1, "maxLength": 100 })
}

fn scopes() -> Json {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// Seconds from now.
fn expires() -> Json {
    json!({ "type": "integer", "minimum": 1, "maximum": EXPIRES_MAX })
}

/// Attempts or connections of one answer.
const LISTED_MAX: u32 = 1000;

type Refusal = Box<Response>;

fn bad(message: &str) -> Refusal {
    Box::new(refused(StatusCode::BAD_REQUEST, message))
}

fn gateway(services: &Services) -> Result<&Arc<Gateway>, Refusal> {
    let message = "this server has no gateway: start it with --gateway ADDRESS";
    let none = || Box::new(refused(StatusCode::NOT_FOUND, message));
    services.gateway.as_ref().ok_or_else(none)
}

fn access(services: &Services) -> Result<&Arc<Access>, Refusal> {
    Ok(gateway(services)?.access())
}

fn registry(services: &Services) -> Result<&Arc<Registry>, Refusal> {
    Ok(access(services)?.registry())
}

impl From<RegistryError> for Failed {
    fn from(error: RegistryError) -> Failed {
        let status = match &error {
            RegistryError::Refused(_) => StatusCode::BAD_REQUEST,
            RegistryError::Missing(_) => StatusCode::NOT_FOUND,
            _ => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(cause, "{error}");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Failed(Box::new(refused(status, &error.to_string())))
    }
}

impl From<HubError> for Failed {
    fn from(error: HubError) -> Failed {
        let status = match &error {
            HubError::Missing(_) => StatusCode::NOT_FOUND,
            _ => {
                tracing::error!(cause = %error, "the hub failed");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Failed(Box::new(refused(status, &error.to_string())))
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed(refusal)
    }
}

/// What is answered instead.
struct Failed(Refusal);

fn answered(result: Result<Response, Failed>) -> Response {
    result.unwrap_or_else(|Failed(refusal)| *refusal)
}

/// A change, as the audit log has it: never with a secret.
fn changed(status: StatusCode, body: &Json, change: String) -> Response {
    let mut response = answer::json(status, body);
    if let Ok(no_store) = "no-store".parse() {
        response
            .headers_mut()
            .insert(axum::http::header::CACHE_CONTROL, no_store);
    }
    response.extensions_mut().insert(Change(change));
    response
}

fn list(items: Vec<Json>) -> Response {
    answer::json(StatusCode::OK, &json!({ "items": items }))
}

/// The fields of a body.
struct Fields(Map<String, Json>);

impl Fields {
    async fn read(body: Body, known: &[&str]) -> Result<Fields, Refusal> {
        let body = body_of(body, "the body", BODY_MAX).await;
        let body = body.map_err(|(status, message)| Box::new(refused(status, &message)))?;
        let members = match serde_json::from_slice(&body) {
            Ok(Json::Object(members)) => members,
            _ => return Err(bad("the body is not a JSON object")),
        };
        if let Some(other) = members.keys().find(|name| !known.contains(&name.as_str())) {
            let message = format!("there is no field '{other}'; there is {}", known.join(", "));
            return Err(bad(&message));
        }
        Ok(Fields(members))
    }

    fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(bad(&format!("field '{name}' is not a text"))),
        }
    }

    fn needed(&self, name: &str) -> Result<&str, Refusal> {
        let text = self.text(name)?;
        text.ok_or_else(|| bad(&format!("field '{name}' is missing")))
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, Refusal> {
        let wrong = || bad(&format!("field '{name}' is not a list of texts"));
        let list = match self.0.get(name) {
            None | Some(Json::Null) => return Ok(Vec::new()),
            Some(list) => list.as_array().ok_or_else(wrong)?,
        };
        let texts = list.iter().map(|one| one.as_str().map(str::to_owned));
        texts.collect::<Option<_>>().ok_or_else(wrong)
    }

    /// Seconds from now.
    fn expires(&self) -> Result<Option<Duration>, Refusal> {
        let wrong = || {
            bad(&format!(
                "field 'expires' is not a number of seconds from 1 to {EXPIRES_MAX}"
            ))
        };
        match self.0.get("expires") {
            None | Some(Json::Null) => Ok(None),
            Some(seconds) => {
                let seconds = seconds
                    .as_u64()
                    .filter(|seconds| (1..=EXPIRES_MAX).contains(seconds));
                Ok(Some(Duration::from_secs(seconds.ok_or_else(wrong)?)))
            }
        }
    }
}

async fn apis(State(services): State<Services>) -> Response {
    answered(gateway(&services).map_err(Failed::from).map(|gateway| {
        let addresses: Vec<String> = gateway.addresses().iter().map(ToString::to_string).collect();
        let apis = gateway.apis().into_iter().map(|api| {
            let topics = api.topics.iter().map(topic_json);
            let plans: Vec<&String> = api.plans.iter().map(|(name, _)| name).collect();
            let protocols = [
                ("sse", api.protocols.sse),
                ("ws", api.protocols.websocket),
                ("http", api.protocols.http),
                ("websub", api.protocols.websub),
            ];
            let protocols = protocols.into_iter().filter(|(_, is_spoken)| *is_spoken);
            let protocols: Vec<&str> = protocols.map(|(name, _)| name).collect();
            json!({
                "name": api.name, "version": api.version, "paths": api.bases, "protocols": protocols,
                "topics": topics.collect::<Vec<Json>>(), "plans": plans,
                "addresses": addresses, "tls": gateway.is_tls(),
                "ownTokens": api.issuers.is_empty() || api.issuers.iter().any(|one| one == "own"),
            })
        });
        list(apis.collect())
    }))
}

fn topic_json(topic: &Topic) -> Json {
    let operation = |operation: &Option<Operation>| {
        let asked = operation.as_ref();
        asked.map(|asked| json!({ "secured": asked.is_secured, "scopes": asked.scopes }))
    };
    let behind = match &topic.binding {
        Binding::Own => "its publishers".to_owned(),
        Binding::Stream { app, stream, .. } => format!("stream {app}/{stream}"),
        Binding::Backend { .. } => "a backend".to_owned(),
        Binding::Attached => "connectors of an app".to_owned(),
    };
    json!({
        "address": topic.address(), "subscribe": operation(&topic.subscribe),
        "publish": operation(&topic.publish), "behind": behind,
    })
}

async fn export(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let export = || {
        let gateway = gateway(&services)?;
        let pairs = pairs(query.as_deref());
        let wanted = value(&pairs, "api").ok_or_else(|| bad("parameter 'api' is missing"))?;
        let api = gateway
            .api(wanted)
            .map_err(|message| Box::new(refused(StatusCode::NOT_FOUND, &message)))?;
        let format = value(&pairs, "format").unwrap_or("3.0");
        let format = document::Format::parse(format).ok_or_else(|| {
            bad(&format!(
                "'format' is one of {}",
                document::Format::NAMES.join(", ")
            ))
        })?;
        let address = gateway.addresses().first().map(ToString::to_string);
        let exported = document::export(&api, format, address.as_deref());
        let exported = exported.map_err(|message| bad(&message))?;
        let json = json!({ "api": api.name, "document": exported.text, "notes": exported.notes });
        Ok(answer::json(StatusCode::OK, &json))
    };
    answered(export())
}

async fn connections(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let read = || {
        let limit = limit_of(&pairs(query.as_deref()))?;
        let (count, listed) = gateway(&services)?.connections().list(limit as usize);
        let items = listed.into_iter().map(|one| {
            let protocol = match one.protocol {
                Protocol::Sse => "sse",
                Protocol::WebSocket => "ws",
            };
            json!({
                "id": one.id, "api": one.api, "topic": one.topic, "protocol": protocol,
                "peer": one.peer.to_string(), "application": one.application, "user": one.user,
                "since": seconds(one.since),
            })
        });
        let items: Vec<Json> = items.collect();
        Ok(answer::json(
            StatusCode::OK,
            &json!({ "count": count, "items": items }),
        ))
    };
    answered(read())
}

fn app_json(app: &Application) -> Json {
    json!({
        "name": app.name, "owner": app.owner, "client": app.client, "scopes": app.scopes, "created": app.created,
    })
}

async fn apps(State(services): State<Services>) -> Response {
    answered(
        registry(&services)
            .map_err(Failed::from)
            .map(|registry| list(registry.applications().iter().map(app_json).collect())),
    )
}

async fn create_app(State(services): State<Services>, body: Body) -> Response {
    let create = async {
        let registry = registry(&services)?;
        let fields = Fields::read(body, &["name", "owner", "scopes"]).await?;
        let (name, owner) = (fields.needed("name")?, fields.text("owner")?);
        let scopes = fields.texts("scopes")?;
        let (app, secret) = registry.create_application(name, owner, &scopes, SystemTime::now())?;
        let mut json = app_json(&app);
        json["secret"] = secret.text.into();
        Ok(changed(
            StatusCode::CREATED,
            &json,
            format!("application {name}"),
        ))
    };
    answered(create.await)
}

async fn remove_app(State(services): State<Services>, Path(name): Path<String>) -> Response {
    let remove = || {
        registry(&services)?.remove_application(&name, SystemTime::now())?;
        Ok(changed(
            StatusCode::OK,
            &json!({ "name": name }),
            format!("application {name} removed"),
        ))
    };
    answered(remove())
}

async fn renew_client(State(services): State<Services>, Path(name): Path<String>) -> Response {
    let renew = || {
        let secret = registry(&services)?.renew_client(&name)?;
        let json = json!({ "client": secret.id, "secret": secret.text });
        Ok(changed(
            StatusCode::CREATED,
            &json,
            format!("secret of application {name}"),
        ))
    };
    answered(renew())
}

fn plan_json(plan: &Plan) -> Json {
    json!({ "name": plan.name, "limits": plan.to_json() })
}

async fn plans(State(services): State<Services>) -> Response {
    answered(registry(&services).map_err(Failed::from).map(|registry| {
        list(
            registry
                .plans()
                .iter()
                .map(|plan| plan_json(plan))
                .collect(),
        )
    }))
}

async fn set_plan(
    State(services): State<Services>,
    Path(name): Path<String>,
    body: Body,
) -> Response {
    let set = async {
        let registry = registry(&services)?;
        let body = body_of(body, "a plan", BODY_MAX).await;
        let body = body.map_err(|(status, message)| Box::new(refused(status, &message)))?;
        let limits: Json =
            serde_json::from_slice(&body).map_err(|_| bad("the body is not a JSON object"))?;
        let plan = plan(&name, &limits)
            .map_err(|fault| bad(&format!("{}: {}", fault.message, fault.help)))?;
        registry.set_plan(&plan)?;
        Ok(changed(
            StatusCode::OK,
            &plan_json(&plan),
            format!("plan {name}"),
        ))
    };
    answered(set.await)
}

async fn remove_plan(State(services): State<Services>, Path(name): Path<String>) -> Response {
    let remove = || {
        registry(&services)?.remove_plan(&name)?;
        Ok(changed(
            StatusCode::OK,
            &json!({ "name": name }),
            format!("plan {name} removed"),
        ))
    };
    answered(remove())
}

fn subscription_json(one: &Subscription) -> Json {
    json!({ "application": one.application, "api": one.api, "plan": one.plan, "created": one.created })
}

async fn subscriptions(State(services): State<Services>) -> Response {
    answered(registry(&services).map_err(Failed::from).map(|registry| {
        list(
            registry
                .subscriptions()
                .iter()
                .map(subscription_json)
                .collect(),
        )
    }))
}

async fn subscribe(State(services): State<Services>, body: Body) -> Response {
    let subscribe = async {
        let registry = registry(&services)?;
        let fields = Fields::read(body, &["application", "api", "plan"]).await?;
        let (app, api) = (fields.needed("application")?, fields.needed("api")?);
        let made = registry.subscribe(app, api, fields.text("plan")?, SystemTime::now())?;
        let change = format!("subscription of {app} to {api} on {}", made.plan);
        Ok(changed(StatusCode::OK, &subscription_json(&made), change))
    };
    answered(subscribe.await)
}

async fn unsubscribe(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let end = || {
        let pairs = pairs(query.as_deref());
        let of = |name: &str| value(&pairs, name).unwrap_or_default().to_owned();
        let (app, api) = (of("application"), of("api"));
        registry(&services)?.unsubscribe(&app, &api)?;
        let json = json!({ "application": app, "api": api });
        Ok(changed(
            StatusCode::OK,
            &json,
            format!("subscription of {app} to {api} ended"),
        ))
    };
    answered(end())
}

fn key_json(key: &ApiKey) -> Json {
    let addresses = key.addresses.iter().map(ToString::to_string);
    json!({
        "id": key.id, "application": key.application, "scopes": key.scopes, "created": key.created,
        "expires": key.expires, "addresses": addresses.collect::<Vec<String>>(), "referrers": key.referrers,
    })
}

async fn keys(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    answered(registry(&services).map_err(Failed::from).map(|registry| {
        let pairs = pairs(query.as_deref());
        let keys = registry.keys(value(&pairs, "application"));
        list(keys.iter().map(|key| key_json(key)).collect())
    }))
}

async fn create_key(State(services): State<Services>, body: Body) -> Response {
    let create = async {
        let registry = registry(&services)?;
        let known = ["application", "scopes", "expires", "addresses", "referrers"];
        let fields = Fields::read(body, &known).await?;
        let (app, now) = (fields.needed("application")?, SystemTime::now());
        let new = NewKey {
            scopes: fields.texts("scopes")?,
            expires: fields.expires()?.map(|life| seconds(now + life)),
            addresses: fields.texts("addresses")?,
            referrers: fields.texts("referrers")?,
        };
        let secret = registry.create_key(app, &new, now)?;
        let json = json!({ "id": secret.id, "application": app, "key": secret.text, "expires": new.expires });
        Ok(changed(
            StatusCode::CREATED,
            &json,
            format!("key {} of {app}", secret.id),
        ))
    };
    answered(create.await)
}

async fn revoke_key(State(services): State<Services>, Path(id): Path<String>) -> Response {
    let revoke = || {
        registry(&services)?.revoke_key(&id, SystemTime::now())?;
        Ok(changed(
            StatusCode::OK,
            &json!({ "id": id }),
            format!("key {id} revoked"),
        ))
    };
    answered(revoke())
}

async fn create_token(State(services): State<Services>, body: Body) -> Response {
    let create = async {
        let access = access(&services)?;
        let fields = Fields::read(body, &["application", "scopes", "expires"]).await?;
        let (name, now) = (fields.needed("application")?, SystemTime::now());
        let app = access.registry().application(name)?;
        let scopes = match fields.texts("scopes")? {
            none if none.is_empty() => app.scopes.clone(),
            scopes => scopes,
        };
        let life = fields
            .expires()?
            .unwrap_or(Duration::from_secs(TOKEN_EXPIRES));
        let made = access.mint().token(&app.client, &scopes, life, now);
        let (token, id) = made.map_err(|error| {
            Box::new(refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                &error.to_string(),
            ))
        })?;
        let json = json!({
            "token": token, "jti": id, "application": name, "scopes": scopes, "expires": seconds(now + life),
        });
        Ok(changed(
            StatusCode::CREATED,
            &json,
            format!("token {id} of {name}"),
        ))
    };
    answered(create.await)
}

async fn revoke(State(services): State<Services>, body: Body) -> Response {
    let revoke = async {
        let registry = registry(&services)?;
        let fields = Fields::read(body, &["jti", "user", "application"]).await?;
        let by = (
            fields.text("jti")?,
            fields.text("user")?,
            fields.text("application")?,
        );
        let (subject, what) = match by {
            (Some(id), None, None) => (Subject::Token(id.to_owned()), format!("token {id}")),
            (None, Some(user), None) => (
                Subject::User(user.to_owned()),
                format!("tokens of user {user}"),
            ),
            (None, None, Some(app)) => {
                let app = registry.application(app)?.name;
                (
                    Subject::Client(app.clone()),
                    format!("tokens of application {app}"),
                )
            }
            _ => return Err(Failed(bad("send one of jti, user and application"))),
        };
        registry.revoke(subject, None, SystemTime::now())?;
        Ok(changed(
            StatusCode::OK,
            &json!({ "revoked": what }),
            format!("{what} revoked"),
        ))
    };
    answered(revoke.await)
}

async fn quota(State(services): State<Services>) -> Response {
    answered(access(&services).map_err(Failed::from).map(|access| {
        let usage = access.meter().usage(SystemTime::now());
        let counters = usage.iter().map(|one| {
            json!({
                "level": one.level, "of": one.of, "what": one.what, "window": one.window, "used": one.used,
                "reset": seconds(one.reset),
            })
        });
        list(counters.collect())
    }))
}

async fn callbacks(State(services): State<Services>) -> Response {
    let read = || {
        let all = gateway(&services)?.hub().subscriptions()?;
        let all = all.into_iter().map(|one| {
            json!({
                "id": one.id, "api": one.api, "topic": one.topic, "callback": one.callback,
                "application": one.application, "ends": one.ends, "next": one.next, "head": one.head,
                "attempts": one.attempts, "due": one.due,
            })
        });
        Ok(list(all.collect()))
    };
    answered(read())
}

async fn replay(State(services): State<Services>, Path(id): Path<String>, body: Body) -> Response {
    let replay = async {
        let hub = gateway(&services)?.hub();
        let fields = Fields::read(body, &["from", "number"]).await?;
        let of = |name: &str| fields.0.get(name).filter(|value| !value.is_null());
        let (time, number) = (of("from").map(Json::as_i64), of("number").map(Json::as_u64));
        if time == Some(None) || number == Some(None) {
            return Err(Failed(bad("'from' and 'number' are whole numbers")));
        }
        let begin = hub.replay(&id, time.flatten(), number.flatten())?;
        let change = format!("replay to callback {id} from event {begin}");
        Ok(changed(
            StatusCode::OK,
            &json!({ "id": id, "number": begin }),
            change,
        ))
    };
    answered(replay.await)
}

/// How many are asked for.
fn limit_of(pairs: &[(String, String)]) -> Result<u32, Refusal> {
    let limit = value(pairs, "limit").map_or(Ok(100), str::parse::<u32>);
    let limit = limit.ok().filter(|limit| (1..=LISTED_MAX).contains(limit));
    limit.ok_or_else(|| bad(&format!("'limit' is from 1 to {LISTED_MAX}")))
}

async fn deliveries(State(services): State<Services>, RawQuery(query): RawQuery) -> Response {
    let read = || {
        let pairs = pairs(query.as_deref());
        let limit = limit_of(&pairs)?;
        let all = gateway(&services)?
            .hub()
            .attempts(value(&pairs, "subscription"), limit)?;
        let all = all.into_iter().map(|one| {
            json!({
                "id": one.id, "subscription": one.subscription, "number": one.number, "at": one.at,
                "attempt": one.attempt, "outcome": one.outcome, "status": one.status, "cause": one.cause,
            })
        });
        Ok(list(all.collect()))
    };
    answered(read())
}

async fn resend(State(services): State<Services>, Path(id): Path<String>) -> Response {
    let resend = async {
        let hub = gateway(&services)?.hub();
        let number = id
            .parse()
            .map_err(|_| bad("a delivery is named by its number"))?;
        let done = hub.resend(number).await?;
        let json =
            json!({ "delivered": done.is_taken, "status": done.status, "cause": done.cause });
        Ok(changed(
            StatusCode::OK,
            &json,
            format!("delivery {id} once more"),
        ))
    };
    answered(resend.await)
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
