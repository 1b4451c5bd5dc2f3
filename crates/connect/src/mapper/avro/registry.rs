//! The client of a schema registry, by the REST interface that Confluent's and others' speak.
//!
//! Promises: each address of the list is tried; anything except an answer to the request is
//! [`Error::Unavailable`] and can be retried; messages contain no credentials. Never: caching of
//! schemas (the caller does that).

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use lang::span::Span;
use plan::Transport;
use serde_json::Value as Json;
use tokio::runtime::{Builder, Runtime};

use super::shape::Shapes;
use crate::error::Error;
use crate::mapper::Options;
use crate::net::http_client::{Fetch, basic};
use crate::net::{ClientTls, ClientTrust};
use crate::option::Settings;
use crate::url::Url;

/// The number of a schema in its registry.
pub(super) type SchemaId = u32;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Schemas that one may refer to, with those they refer to.
const REFERRED_MAX: usize = 256;

const CONTENT: &str = "application/vnd.schemaregistry.v1+json";

pub(super) struct Registry {
    component: String,
    urls: Vec<Url>,
    headers: HeaderMap,
    fetch: Fetch,
    /// Runs while somebody waits for an answer; made for the first question.
    runtime: Option<Runtime>,
}

/// What a registry said.
enum Answer {
    Json(Json),
    /// It does not have what is asked for, in its words.
    Absent(String),
}

impl Registry {
    /// `urls`: one, or a list with commas; `login`: `user:password`.
    pub fn new(
        options: &Options<'_>,
        urls: &str,
        login: Option<String>,
    ) -> Result<Registry, Error> {
        let mut login = login;
        let mut list = Vec::new();
        for text in urls.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let Some(mut url) = Url::parse(text) else {
                return Err(options.refused(
                    "option 'schema.registry' is not a URL: write http://host:port or https://…",
                ));
            };
            let authority = text.split("://").nth(1).unwrap_or_default();
            let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
            if let (None, Some((user, _))) = (&login, authority.rsplit_once('@')) {
                login = Some(user.to_owned());
            }
            url.path = url.path.trim_end_matches('/').to_owned();
            list.push(url);
        }
        if list.is_empty() {
            return Err(options.refused("option 'schema.registry' has no URL"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(CONTENT));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or((&login, ""));
            headers.insert(AUTHORIZATION, basic(user, password));
        }
        let tls = match list.iter().any(|url| url.is_tls) {
            true => Some(tls(options)?),
            false => None,
        };
        Ok(Registry {
            component: options.component.clone(),
            urls: list,
            headers,
            fetch: Fetch::new(tls, TIMEOUT, ANSWER_BYTES_MAX),
            runtime: None,
        })
    }

    /// What makes the mapper of no use.
    pub fn refused(&self, cause: String) -> Error {
        Error::refused(self.component.clone(), cause)
    }

    /// The schema of a number; `Ok(Err)`: there is none, or it cannot be read.
    ///
    /// # Errors
    /// The registry does not answer.
    pub fn schema(&mut self, id: SchemaId) -> Result<Result<Shapes, String>, Error> {
        let answer = match self.ask(&Method::GET, &format!("/schemas/ids/{id}"), Bytes::new())? {
            Answer::Json(answer) => answer,
            Answer::Absent(said) => {
                return Ok(Err(format!("the registry has no schema {id}: {said}")));
            }
        };
        let of = format!("schema {id} of the registry");
        let kind = answer["schemaType"].as_str().unwrap_or("AVRO");
        if kind != "AVRO" {
            return Ok(Err(format!("{of} is of type {kind}: use a mapper for it")));
        }
        let Some(text) = answer["schema"].as_str() else {
            return Ok(Err(format!("{of} has no text")));
        };
        let referred = match self.referred(&answer)? {
            Ok(referred) => referred,
            Err(cause) => return Ok(Err(format!("{of}: {cause}"))),
        };
        Ok(Shapes::parse(text, &referred).map_err(|cause| format!("{of} cannot be read: {cause}")))
    }

    /// The schemas that an answer refers to, with those they refer to.
    fn referred(&mut self, answer: &Json) -> Result<Result<Vec<String>, String>, Error> {
        let references = |of: &Json| of["references"].as_array().cloned().unwrap_or_default();
        let mut waiting = references(answer);
        let (mut known, mut found) = (Vec::new(), Vec::new());
        while let Some(reference) = waiting.pop() {
            let subject = reference["subject"].as_str().unwrap_or_default();
            let place = format!(
                "/subjects/{}/versions/{}",
                encoded(subject),
                reference["version"]
            );
            if known.contains(&place) {
                continue;
            }
            if known.len() == REFERRED_MAX {
                return Ok(Err(format!("it refers to more than {REFERRED_MAX} others")));
            }
            match self.ask(&Method::GET, &place, Bytes::new())? {
                Answer::Json(answer) => {
                    waiting.extend(references(&answer));
                    found.push(answer["schema"].as_str().unwrap_or_default().to_owned());
                }
                Answer::Absent(said) => {
                    return Ok(Err(format!("it refers to subject '{subject}': {said}")));
                }
            }
            known.push(place);
        }
        Ok(Ok(found))
    }

    /// The number of a schema under a subject; registered where it is new and `registers`.
    ///
    /// # Errors
    /// The registry does not answer, or does not take the schema.
    pub fn id_of(
        &mut self,
        subject: &str,
        schema: &str,
        registers: bool,
    ) -> Result<SchemaId, Error> {
        let body = serde_json::json!({"schema": schema}).to_string();
        let versions = if registers { "/versions" } else { "" };
        let place = format!("/subjects/{}{versions}", encoded(subject));
        let said = match self.ask(&Method::POST, &place, body.into())? {
            Answer::Json(answer) => {
                let id = answer["id"]
                    .as_u64()
                    .and_then(|id| SchemaId::try_from(id).ok());
                match id {
                    Some(id) => return Ok(id),
                    None => "its answer has no schema id".to_owned(),
                }
            }
            Answer::Absent(said) => said,
        };
        let cause = format!("the registry rejects the schema for '{subject}': {said}");
        Err(self.refused(cause))
    }

    /// Asks each address until one answers.
    fn ask(&mut self, method: &Method, place: &str, body: Bytes) -> Result<Answer, Error> {
        let mut last = None;
        for at in 0..self.urls.len() {
            let mut url = self.urls[at].clone();
            url.path.push_str(place);
            match self.ask_one(method, &url, body.clone()) {
                Ok(answer) => return Ok(answer),
                Err(cause) => {
                    let peer = format!("schema registry '{}://{}'", url.scheme(), url.authority());
                    last = Some(Error::unavailable(peer, cause));
                }
            }
        }
        Err(last.expect("there is an address"))
    }

    fn ask_one(&mut self, method: &Method, url: &Url, body: Bytes) -> Result<Answer, String> {
        let runtime = match &mut self.runtime {
            Some(runtime) => runtime,
            none => {
                let made = Builder::new_current_thread().enable_all().build();
                none.insert(made.map_err(|error| error.to_string())?)
            }
        };
        let asked = runtime.block_on(self.fetch.ask(method, url, &self.headers, body));
        let (status, body) = asked.map_err(|error| error.to_string())?;
        let json: Option<Json> = serde_json::from_slice(&body).ok();
        let said = |json: &Option<Json>| {
            let message = json.as_ref().and_then(|json| json["message"].as_str());
            message.map_or_else(|| format!("status {status}"), str::to_owned)
        };
        match (status, json) {
            (StatusCode::OK, Some(json)) => Ok(Answer::Json(json)),
            (StatusCode::OK, None) => Err("its answer is not JSON".to_owned()),
            // Not found, or found to be wrong: with a code of the registry's own it has understood.
            (
                StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY,
                json @ Some(_),
            ) if json
                .as_ref()
                .is_some_and(|json| json["error_code"].is_u64()) =>
            {
                Ok(Answer::Absent(said(&json)))
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => Err(format!(
                "it answers {status}: check 'basic.auth.username' and 'basic.auth.password'"
            )),
            (_, json) => Err(format!("it answers {status}: {}", said(&json))),
        }
    }
}

/// A subject as part of a path.
fn encoded(subject: &str) -> String {
    let mut text = String::with_capacity(subject.len());
    for byte in subject.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

fn tls(options: &Options<'_>) -> Result<ClientTls, Error> {
    let store = |of: &str| {
        let path = options.text(&format!("ssl.{of}.path"))?;
        Some((path, options.text(&format!("ssl.{of}.password"))))
    };
    let (key, key_password) = ("ssl.keystore.path", "ssl.keystore.password");
    let trust = ClientTrust {
        store: store("truststore"),
        identity: options
            .text(key)
            .map(|path| (path, options.text(key_password), options.text(key_password))),
        accepts_any_name: false,
        accepts_any_server: false,
    };
    // For its messages alone.
    let transport = Transport {
        ty: "avro".to_owned(),
        options: Vec::new(),
        map: options.mapping().clone(),
        distribution: None,
        span: Span::default(),
    };
    let made = ClientTls::trusting(Settings::of_source(&transport, &[]), "TLS", trust);
    made.map_err(|error| match error {
        Error::Refused { message, .. } => options.refused(message),
        other => other,
    })
}
