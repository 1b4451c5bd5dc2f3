//! From what a project says of its API to the model.

use connect::net::websub::Digest;
use connect::url::Url;
use serde_json::{Map, Value as Json, json};

use super::files::Files;
use super::{Issuer, ProjectError};
use crate::document::{read_leniently, yaml};
use crate::hub::Receiver;
use crate::model::{
    Address, Api, Binding, Lifecycle, Operation, Origins, Protocols, Topic, Unfit, Upstream,
    bases_of,
};
use crate::plan::Plan;

/// Where the definition of an API may be.
const DEFINITIONS: &[&str] = &[
    "Definitions/asyncapi.yaml",
    "Definitions/asyncapi.yml",
    "Definitions/asyncapi.json",
];

/// Fields that have a meaning here, or whose default is what happens here.
const KNOWN: &[&str] = &[
    "advertiseInfo",
    "apiKeyHeader",
    "apiThrottlingPolicy",
    "asyncTransportProtocols",
    "authorizationHeader",
    "context",
    "corsConfiguration",
    "description",
    "enableSubscriberVerification",
    "endpointConfig",
    "id",
    "isDefaultVersion",
    "isRevision",
    "keyManagers",
    "lifeCycleStatus",
    "name",
    "operations",
    "policies",
    "provider",
    "revisionId",
    "scopes",
    "securityScheme",
    "transport",
    "type",
    "version",
    "websubSubscriptionConfiguration",
];

/// Fields of the portal, which is not taken over.
const PORTAL: &[&str] = &[
    "accessControl",
    "accessControlRoles",
    "additionalProperties",
    "additionalPropertiesMap",
    "businessInformation",
    "categories",
    "createdTime",
    "displayName",
    "gatewayType",
    "gatewayVendor",
    "hasThumbnail",
    "lastUpdatedTime",
    "lastUpdatedTimestamp",
    "monetization",
    "subscriptionAvailability",
    "subscriptionAvailableTenants",
    "tags",
    "visibility",
    "visibleRoles",
    "visibleTenants",
    "workflowStatus",
];

pub(super) struct Converted {
    pub api: Api,
    pub notes: Vec<String>,
}

/// A field of the project, with the notes that reading it leaves.
struct Reader<'a> {
    data: &'a Map<String, Json>,
    notes: Vec<String>,
}

fn refused(message: impl Into<String>) -> ProjectError {
    ProjectError::Refused(message.into())
}

/// The kinds of streaming APIs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    WebSocket,
    Sse,
    WebSub,
}

fn parsed(name: &str, text: &str) -> Result<Json, ProjectError> {
    yaml(text).map_err(|message| refused(format!("file '{name}': {message}")))
}

fn file<'a>(files: &'a Files, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
    let found = names
        .iter()
        .find_map(|name| Some((*name, files.texts.get(*name)?)));
    found.map(|(name, text)| (name, text.as_str()))
}

pub(super) fn convert(files: &Files, issuer: &Issuer) -> Result<Converted, ProjectError> {
    let (name, text) =
        file(files, &["api.yaml", "api.json"]).ok_or_else(|| refused("it has no 'api.yaml'"))?;
    let json = parsed(name, text)?;
    // Before 4.0 the fields were at the top.
    let data = json.get("data").unwrap_or(&json);
    let data = data
        .as_object()
        .ok_or_else(|| refused(format!("file '{name}' has no fields of an API")))?;
    let mut reader = Reader {
        data,
        notes: Vec::new(),
    };
    let kind = kind(&mut reader)?;
    let name = reader.needed("name")?;
    let version = reader.needed("version")?;
    let mut api = Api::new(&name, &version, "");
    bases(&mut reader, &mut api)?;
    api.protocols = Protocols::default();
    match kind {
        Kind::WebSocket => api.protocols.websocket = true,
        Kind::Sse => (api.protocols.sse, api.protocols.http) = (true, true),
        Kind::WebSub => (api.protocols.websub, api.protocols.http) = (true, true),
    }
    status(&mut reader, &mut api);
    let security = security(&mut reader);
    let backend = backend(&mut reader, kind)?;
    topics(
        &mut reader,
        files,
        kind,
        security,
        backend.as_ref(),
        &mut api,
    )?;
    schemas(&mut reader, files, &mut api);
    plans(&mut reader, &mut api);
    issuers(&mut reader, issuer, &mut api);
    origins(&mut reader, &mut api);
    if kind == Kind::WebSub {
        hub(&mut reader, &mut api)?;
    }
    rest(&mut reader, files);
    Ok(Converted {
        api,
        notes: reader.notes,
    })
}

impl Reader<'_> {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// A text, without the `// comment` that WSO2's own samples have behind values.
    fn text(&mut self, field: &str) -> Option<String> {
        let value = match self.data.get(field)? {
            Json::String(text) => text.clone(),
            Json::Null => return None,
            other => other.to_string(),
        };
        match value.split_once(" //") {
            Some((value, _)) => {
                self.note(format!("{field}: the comment behind the value is left out"));
                Some(value.trim().to_owned())
            }
            None => Some(value.trim().to_owned()),
        }
    }

    fn needed(&mut self, field: &str) -> Result<String, ProjectError> {
        let text = self.text(field).filter(|text| !text.is_empty());
        text.ok_or_else(|| refused(format!("the API has no '{field}'")))
    }

    fn is(&mut self, field: &str) -> bool {
        self.text(field)
            .is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    fn texts(&self, field: &str) -> Vec<String> {
        texts(self.data.get(field))
    }
}

/// The texts of a list, or one alone.
fn texts(json: Option<&Json>) -> Vec<String> {
    match json {
        Some(Json::Array(list)) => list
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect(),
        Some(Json::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

fn kind(reader: &mut Reader<'_>) -> Result<Kind, ProjectError> {
    let ty = reader.needed("type")?;
    match ty.to_ascii_uppercase().as_str() {
        "WS" => Ok(Kind::WebSocket),
        "SSE" => Ok(Kind::Sse),
        "WEBSUB" | "WEBHOOK" => Ok(Kind::WebSub),
        _ => Err(refused(format!(
            "the API is of type '{ty}', which is no streaming API: WS, SSE and WEBSUB are imported"
        ))),
    }
}

fn bases(reader: &mut Reader<'_>, api: &mut Api) -> Result<(), ProjectError> {
    let context = reader.needed("context")?;
    let path: Vec<&str> = context.split('/').filter(|part| !part.is_empty()).collect();
    let fixed: Vec<&str> = path
        .iter()
        .copied()
        .filter(|part| *part != "{version}")
        .collect();
    let fixed = format!("/{}", fixed.join("/"));
    let address = Address::parse(&fixed)
        .ok()
        .filter(|address| address.parameters().is_empty());
    if address.is_none() {
        return Err(refused(format!(
            "'context' is '{context}', which is no path"
        )));
    }
    api.bases = bases_of(&fixed, &api.version);
    if path
        .iter()
        .position(|part| *part == "{version}")
        .is_some_and(|at| at + 1 < path.len())
    {
        let base = &api.bases[0];
        reader.note(format!(
            "context: '{context}' has the version before its end; here the API is at '{base}'"
        ));
    }
    if !reader.is("isDefaultVersion") {
        api.bases.truncate(1);
    }
    Ok(())
}

fn status(reader: &mut Reader<'_>, api: &mut Api) {
    let Some(status) = reader.text("lifeCycleStatus") else {
        return;
    };
    match Lifecycle::parse(&status.to_ascii_lowercase()) {
        Some(known) => api.status = known,
        None => reader.note(format!(
            "lifeCycleStatus: '{status}' is not known; the API is served"
        )),
    }
}

/// Does the API ask who a client is, where an operation does not say otherwise?
fn security(reader: &mut Reader<'_>) -> bool {
    let schemes = reader.texts("securityScheme");
    for scheme in &schemes {
        match scheme.as_str() {
            "oauth2" | "api_key" | "oauth_basic_auth_api_key_mandatory" => {}
            "basic_auth" => reader.note("securityScheme basic_auth: names and passwords are not taken; clients show a token or key"),
            "mutualssl" | "mutualssl_mandatory" => {
                reader.note(format!("securityScheme {scheme}: certificates of clients are not asked for"));
            }
            other => reader.note(format!("securityScheme {other}: not known")),
        }
    }
    for (field, default) in [
        ("authorizationHeader", "Authorization"),
        ("apiKeyHeader", "ApiKey"),
    ] {
        let name = reader
            .text(field)
            .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(default));
        if let Some(name) = name {
            let read = if field == "apiKeyHeader" {
                "apikey"
            } else {
                default
            };
            reader.note(format!(
                "{field}: header '{name}' is not read; clients use '{read}'"
            ));
        }
    }
    true
}

/// The server behind the API.
struct Behind {
    url: String,
    is_websocket: bool,
}

fn backend(reader: &mut Reader<'_>, kind: Kind) -> Result<Option<Behind>, ProjectError> {
    if kind == Kind::WebSub {
        return Ok(None);
    }
    let config = reader
        .data
        .get("endpointConfig")
        .cloned()
        .unwrap_or_default();
    // Older exports have it as JSON within a text.
    let config = match &config {
        Json::String(text) => serde_json::from_str(text).unwrap_or_default(),
        _ => config,
    };
    let urls = |name: &str| -> Vec<String> {
        let endpoints = config.get(name);
        let list = match endpoints {
            Some(Json::Array(list)) => list.as_slice(),
            Some(one @ Json::Object(_)) => std::slice::from_ref(one),
            _ => &[],
        };
        let urls = list.iter().filter_map(|one| one.get("url")?.as_str());
        urls.map(|url| {
            url.split(" //")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        })
        .collect()
    };
    let production = urls("production_endpoints");
    let sandbox = urls("sandbox_endpoints");
    let url = match (production.first(), sandbox.first()) {
        (Some(url), _) => url.clone(),
        (None, Some(url)) => {
            reader.note(
                "endpointConfig.production_endpoints: there is none; the sandbox is the backend",
            );
            url.clone()
        }
        (None, None) => return Err(refused("'endpointConfig' names no server behind the API")),
    };
    if production.len() > 1 {
        reader.note(format!(
            "endpointConfig: {} endpoints with load balancing; the first is the backend",
            production.len()
        ));
    }
    if !production.is_empty() && !sandbox.is_empty() {
        reader.note("endpointConfig.sandbox_endpoints: left out; serve them as an API of its own");
    }
    if config
        .get("endpoint_security")
        .is_some_and(|security| !security.is_null())
    {
        reader.note("endpointConfig.endpoint_security: the backend is asked without a login");
    }
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| refused(format!("'{url}' is no URL of a backend")))?;
    let is_websocket = matches!(scheme, "ws" | "wss");
    if is_websocket != (kind == Kind::WebSocket) {
        return Err(refused(format!(
            "the backend '{url}' does not speak what the API is for"
        )));
    }
    let http = match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    Ok(Some(Behind {
        url: format!("{http}://{}", rest.trim_end_matches('/')),
        is_websocket,
    }))
}

/// An operation, or what the definition says in its place.
struct Said {
    target: String,
    is_publish: bool,
    is_open: bool,
    scopes: Vec<String>,
    mapping: Option<String>,
}

fn said_by_operations(reader: &mut Reader<'_>) -> Vec<Said> {
    let operations = reader.data.get("operations").and_then(Json::as_array);
    let operations = operations.cloned().unwrap_or_default();
    let mut all = Vec::new();
    for one in &operations {
        let text = |name: &str| one.get(name).and_then(Json::as_str).map(str::trim);
        let target = text("target").unwrap_or_default().to_owned();
        let policy =
            text("throttlingPolicy").filter(|name| !name.is_empty() && *name != "Unlimited");
        if let Some(policy) = policy {
            reader.note(format!("operations '{target}': throttlingPolicy '{policy}' is not kept: give the topic's scope a plan of its own"));
        }
        all.push(Said {
            is_publish: text("verb").is_some_and(|verb| verb.eq_ignore_ascii_case("publish")),
            is_open: text("authType").is_some_and(|ty| ty.eq_ignore_ascii_case("none")),
            scopes: texts(one.get("scopes")),
            mapping: text("uriMapping")
                .filter(|path| !path.is_empty())
                .map(str::to_owned),
            target,
        });
    }
    all
}

fn said_by_definition(files: &Files) -> Result<Vec<Said>, ProjectError> {
    let Some((name, text)) = file(files, DEFINITIONS) else {
        return Ok(Vec::new());
    };
    let json = parsed(name, text)?;
    let channels = json.get("channels").and_then(Json::as_object);
    let mut all = Vec::new();
    for (target, channel) in channels.into_iter().flatten() {
        for (key, is_publish) in [("subscribe", false), ("publish", true)] {
            let Some(operation) = channel.get(key) else {
                continue;
            };
            let text = |name: &str| {
                operation
                    .get(name)
                    .or(channel.get(name))
                    .and_then(Json::as_str)
            };
            let scopes = operation.get("x-scopes").and_then(Json::as_object);
            let scopes = scopes.into_iter().flat_map(|scopes| scopes.values());
            all.push(Said {
                target: target.clone(),
                is_publish,
                is_open: text("x-auth-type").is_some_and(|ty| ty.eq_ignore_ascii_case("none")),
                scopes: scopes.filter_map(Json::as_str).map(str::to_owned).collect(),
                mapping: text("x-uri-mapping").map(str::to_owned),
            });
        }
    }
    Ok(all)
}

fn topics(
    reader: &mut Reader<'_>,
    files: &Files,
    kind: Kind,
    is_secured: bool,
    backend: Option<&Behind>,
    api: &mut Api,
) -> Result<(), ProjectError> {
    let mut said = said_by_operations(reader);
    if said.is_empty() {
        said = said_by_definition(files)?;
    }
    for one in said {
        let written = match one.target.as_str() {
            "/*" | "*" | "" => "/",
            other => other,
        };
        if written != one.target {
            reader.note(format!(
                "operations '{}': stands for every path in API Manager; here it is the topic '/'",
                one.target
            ));
        }
        let address = match Address::parse(written) {
            Ok(address) => address,
            Err(cause) => {
                reader.note(format!(
                    "operations '{}': left out, because it is no address of a topic: {cause}",
                    one.target
                ));
                continue;
            }
        };
        let at = api.topics.iter().position(|topic| topic.address == address);
        if at.is_none()
            && api
                .topics
                .iter()
                .any(|topic| topic.address.overlaps(&address))
        {
            reader.note(format!(
                "operations '{}': left out, because another topic has the same paths",
                one.target
            ));
            continue;
        }
        let at = match at {
            Some(at) => at,
            None => {
                let binding = bound(&one, &address, backend)?;
                api.topics.push(Topic {
                    binding,
                    ..Topic::new(address)
                });
                api.topics.len() - 1
            }
        };
        let operation = Operation {
            is_secured: is_secured && !one.is_open,
            scopes: if one.is_open { Vec::new() } else { one.scopes },
            messages: Vec::new(),
        };
        let topic = &mut api.topics[at];
        // Events of a WebSub API come to its receiver, and of SSE from the backend.
        match (kind, one.is_publish) {
            (Kind::WebSocket, true) => topic.publish = Some(operation),
            (_, false) => topic.subscribe = Some(operation),
            (_, true) => reader.note(format!(
                "operations '{}': PUBLISH has no meaning for an API of this type",
                one.target
            )),
        }
    }
    api.topics
        .retain(|topic| topic.subscribe.is_some() || topic.publish.is_some());
    match api.topics.is_empty() {
        true => Err(refused("the API has no operation that clients could use")),
        false => Ok(()),
    }
}

/// The schemas of messages are those of the definition. API Manager looks at none.
fn schemas(reader: &mut Reader<'_>, files: &Files, api: &mut Api) {
    let Some((name, text)) = file(files, DEFINITIONS) else {
        return;
    };
    let Some(mut said) = read_leniently(text) else {
        return;
    };
    let mut is_any = false;
    for topic in &mut api.topics {
        let same = |one: &&mut Topic| one.address == topic.address;
        let Some(defined) = said.topics.iter_mut().find(same) else {
            continue;
        };
        let pairs = [
            (&mut topic.subscribe, &mut defined.subscribe),
            (&mut topic.publish, &mut defined.publish),
        ];
        for (own, defined) in pairs {
            if let (Some(own), Some(defined)) = (own, defined) {
                own.messages = std::mem::take(&mut defined.messages);
                is_any |= own.messages.iter().any(|message| message.schema.is_some());
            }
        }
        topic.unfit = Unfit::Pass;
    }
    if is_any {
        api.schemas = said.schemas;
        reader.note(format!(
            "{name}: schemas of payloads are kept and not looked at, as in API Manager: write 'payloads: reject' where they are to hold"
        ));
    } else {
        api.topics
            .iter_mut()
            .for_each(|topic| topic.unfit = Unfit::default());
    }
}

/// The backend of a topic: the endpoint with the path of the topic, or with the one that it is mapped to.
fn bound(one: &Said, address: &Address, backend: Option<&Behind>) -> Result<Binding, ProjectError> {
    let Some(backend) = backend else {
        return Ok(Binding::Own);
    };
    let path = one.mapping.as_deref().unwrap_or(address.text());
    let path = path.trim_start_matches('/').trim_end_matches('*');
    let url = match path {
        "" => backend.url.clone(),
        path => format!("{}/{path}", backend.url),
    };
    let parsed =
        Url::parse(&url).ok_or_else(|| refused(format!("'{url}' is no URL of a backend")))?;
    let target = parsed.target();
    let mut names = target
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let unknown = names.find(|name| !address.parameters().iter().any(|own| own == name));
    if let Some(name) = unknown {
        return Err(refused(format!(
            "the path of the backend has the parameter '{name}', and topic '{}' none",
            address.text()
        )));
    }
    Ok(Binding::Backend {
        url: parsed,
        is_websocket: backend.is_websocket,
        upstream: Upstream::Each,
    })
}

fn plans(reader: &mut Reader<'_>, api: &mut Api) {
    for name in reader.texts("policies") {
        match Plan::known(&name) {
            Some(_) => api.plans.push((name, json!({}))),
            None => reader.note(format!(
                "policies '{name}': not one of API Manager's own; make it with 'headwater gateway plans set', and name it below 'plans'"
            )),
        }
    }
    let policy = reader
        .text("apiThrottlingPolicy")
        .filter(|name| !name.is_empty() && name != "Unlimited");
    if let Some(policy) = policy {
        reader.note(format!(
            "apiThrottlingPolicy '{policy}': not kept; a plan limits each application"
        ));
    }
}

fn issuers(reader: &mut Reader<'_>, issuer: &Issuer, api: &mut Api) {
    let is_secured = api.topics.iter().any(|topic| {
        [&topic.subscribe, &topic.publish]
            .into_iter()
            .flatten()
            .any(|one| one.is_secured)
    });
    if !is_secured {
        return;
    }
    let managers = reader.texts("keyManagers");
    match &issuer.issuer {
        Some(name) => {
            let mut one = json!({ "name": "api-manager", "issuer": name, "algorithms": ["RS256"] });
            if let Some(jwks) = &issuer.jwks {
                one["jwks"] = jwks.as_str().into();
            }
            api.issuers = vec![one];
        }
        None => reader.note(format!(
            "keyManagers [{}]: tokens of this server's own issuer count; with --issuer URL (and --jwks URL) those of API Manager",
            managers.join(", ")
        )),
    }
    let scopes = reader
        .data
        .get("scopes")
        .and_then(Json::as_array)
        .cloned()
        .unwrap_or_default();
    for scope in &scopes {
        let scope = scope.get("scope").unwrap_or(scope);
        let has_roles = scope
            .get("bindings")
            .is_some_and(|roles| roles.as_array().is_some_and(|roles| !roles.is_empty()));
        if let (Some(name), true) = (scope.get("name").and_then(Json::as_str), has_roles) {
            reader.note(format!(
                "scopes '{name}': who gets it by which role is for the issuer of tokens to say"
            ));
        }
    }
}

fn origins(reader: &mut Reader<'_>, api: &mut Api) {
    let Some(cors) = reader
        .data
        .get("corsConfiguration")
        .and_then(Json::as_object)
    else {
        return;
    };
    if cors.get("corsConfigurationEnabled").and_then(Json::as_bool) != Some(true) {
        return;
    }
    let origins = texts(cors.get("accessControlAllowOrigins"));
    api.origins = Origins(
        origins
            .iter()
            .map(|text| text.trim_end_matches('/').to_owned())
            .collect(),
    );
}

fn hub(reader: &mut Reader<'_>, api: &mut Api) -> Result<(), ProjectError> {
    let config = reader
        .data
        .get("websubSubscriptionConfiguration")
        .and_then(Json::as_object);
    let config = config.cloned().unwrap_or_default();
    let text = |name: &str| {
        config
            .get(name)
            .and_then(Json::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let digest = match text("signingAlgorithm") {
        None => Digest::Sha1,
        Some(name) => Digest::parse(name).ok_or_else(|| {
            refused(format!(
                "'signingAlgorithm' is '{name}', which is not known"
            ))
        })?,
    };
    // Deliveries are signed by the same.
    api.hub.digest = digest;
    let is_on = config.get("enable").and_then(Json::as_bool) == Some(true);
    api.hub.receiver = Some(match (is_on, text("secret")) {
        (true, Some(secret)) => Receiver::new(secret, digest, text("signatureHeader"))
            .map_err(|message| refused(format!("websubSubscriptionConfiguration: {message}")))?,
        _ => {
            reader.note("websubSubscriptionConfiguration: it has no secret, so whoever reaches the receiver of events can post them");
            Receiver::open()
        }
    });
    if !reader.is("enableSubscriberVerification") {
        reader
            .note("enableSubscriberVerification: every callback has to repeat the challenge here");
    }
    reader.note("callbacks: those at private addresses are refused, unless 'callback-networks' names their network");
    Ok(())
}

/// What nothing above has looked at.
fn rest(reader: &mut Reader<'_>, files: &Files) {
    let is_empty = |value: &Json| match value {
        Json::Null | Json::Bool(false) => true,
        Json::String(text) => text.is_empty(),
        Json::Array(list) => list.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Bool(true) | Json::Number(_) => false,
    };
    let given = reader.data.iter().filter(|(_, value)| !is_empty(value));
    let others = given.filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    let (portal, others): (Vec<String>, Vec<String>) = others
        .map(|(name, _)| name.clone())
        .partition(|name| PORTAL.contains(&name.as_str()));
    if !portal.is_empty() {
        reader.note(format!(
            "of the portal, without effect: {}",
            portal.join(", ")
        ));
    }
    if !others.is_empty() {
        reader.note(format!("without effect: {}", others.join(", ")));
    }
    for (folder, why) in [
        (
            "Client-certificates/",
            "certificates of clients are not asked for",
        ),
        (
            "Endpoint-certificates/",
            "the backend's certificate is judged by what the system trusts",
        ),
        ("Policies/", "policies do not run"),
        ("Sequences/", "sequences do not run"),
        ("Docs/", "documents of the portal are not taken over"),
        ("Image/", "pictures of the portal are not taken over"),
    ] {
        if files.others.iter().any(|name| name.starts_with(folder)) {
            reader.note(format!("{folder}: {why}"));
        }
    }
    for name in [
        "params.yaml",
        "api_params.yaml",
        "deployment_environments.yaml",
    ] {
        if files.texts.contains_key(name) {
            reader.note(format!("{name}: environments are not known here; where the gateway listens is said by --gateway"));
        }
    }
}
