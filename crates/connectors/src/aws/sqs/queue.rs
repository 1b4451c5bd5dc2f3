//! A queue and the requests to it: the JSON protocol of SQS.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use object_store::aws::AmazonS3Builder;
use serde_json::{Value as Json, json};

use crate::aws::{Account, Requests};
use connect::component::Environment;
use connect::error::Error;
use connect::net::http_client::Fetch;
use connect::net::{ClientTls, ClientTrust};
use connect::option::Settings;
use connect::url::Url;

/// How long the server may say nothing; beyond, it is lost.
const PATIENCE: Duration = Duration::from_millis(3500);

/// Longest time for which a question waits for messages at the server: less than its silence may last.
/// A longer wait is several questions.
pub(super) const WAIT_SECONDS_MAX: u64 = 2;

/// Ten messages of 1 MiB, in JSON.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Of an error, for people.
const CAUSE_BYTES_MAX: usize = 300;

pub(super) struct Queue {
    /// As the app writes it: a URL, or the name of a queue of the account.
    name: String,
    /// Found by its name when it is opened.
    url: OnceLock<String>,
    endpoint: Url,
    account: Account,
    fetch: Fetch,
}

/// What came of a request that was not done.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Fault {
    /// What the server calls it, as `QueueDoesNotExist`; empty where it could not be asked.
    pub code: String,
    pub cause: String,
}

impl Fault {
    fn lost(cause: impl ToString) -> Fault {
        Fault {
            code: String::new(),
            cause: cause.to_string(),
        }
    }

    /// Is it the content of the message that the queue does not take, however often it is sent?
    pub fn is_of_message(&self) -> bool {
        const CODES: [&str; 6] = [
            "BatchRequestTooLong",
            "InvalidAttributeValue",
            "InvalidMessageContents",
            "InvalidParameterValue",
            "MissingParameter",
            "UnsupportedOperation",
        ];
        CODES.iter().any(|code| self.code.contains(code))
    }
}

impl Queue {
    /// `kind`: `source` or `sink`.
    pub fn new(
        settings: Settings<'_>,
        environment: &Environment,
        kind: &str,
    ) -> Result<Queue, Error> {
        let of = |name: &str| settings.text(name).unwrap_or_default().trim();
        let (name, region) = (of("queue").to_owned(), of("region").to_owned());
        let deployed = environment.setting(kind, "sqs", "endpoint");
        let own = Url::parse(&name);
        let endpoint = match (deployed, &own) {
            (Some(url), _) => url.trim().to_owned(),
            (None, Some(url)) => format!("{}://{}/", url.scheme(), url.host_header()),
            (None, None) => format!("https://sqs.{region}.amazonaws.com/"),
        };
        let endpoint = Url::parse(&endpoint).ok_or_else(|| {
            settings.refused(
                "property 'endpoint' of extension 'sqs' is not a URL: write \
                          http://host:port",
            )
        })?;
        let url = OnceLock::new();
        if own.is_some() {
            url.get_or_init(|| name.clone());
        } else if !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return Err(settings.refused(format!(
                "option 'queue' is '{name}': write the URL of a queue, or its name"
            )));
        }
        let trust = ClientTrust {
            store: ClientTrust::deployed(environment, kind, "sqs"),
            ..ClientTrust::default()
        };
        let tls = match endpoint.is_tls {
            true => Some(ClientTls::trusting(settings, "TLS", trust)?),
            false => None,
        };
        let builder = match (settings.text("access.key"), settings.text("secret.key")) {
            (Some(key), Some(secret)) => AmazonS3Builder::new()
                .with_access_key_id(key.trim())
                .with_secret_access_key(secret.trim()),
            _ => AmazonS3Builder::from_env(),
        };
        // Only where its credentials come from is of interest.
        let store = builder
            .with_bucket_name("none")
            .with_region(&region)
            .with_http_connector(Requests::new(tls.clone()))
            .build()
            .map_err(|error| settings.refused(error.to_string()))?;
        Ok(Queue {
            name,
            url,
            endpoint,
            account: Account {
                credentials: Some(store.credentials().clone()),
                service: "sqs",
                region,
            },
            fetch: Fetch::new(tls, PATIENCE, ANSWER_BYTES_MAX),
        })
    }

    /// For messages.
    pub fn label(&self) -> String {
        format!("'{}'", self.name)
    }

    /// Does it hand messages on in order?
    pub fn is_ordered(&self) -> bool {
        self.name.ends_with(".fifo")
    }

    /// Finds the queue; how many seconds it lets a question wait by default.
    pub async fn open(&self) -> Result<u64, Fault> {
        if self.url.get().is_none() {
            let found = self
                .call("GetQueueUrl", &json!({ "QueueName": self.name }))
                .await?;
            let url = found["QueueUrl"].as_str();
            let url = url.ok_or_else(|| Fault::lost("the answer has no URL of the queue"))?;
            self.url.get_or_init(|| url.to_owned());
        }
        const WAIT: &str = "ReceiveMessageWaitTimeSeconds";
        match self
            .ask("GetQueueAttributes", json!({ "AttributeNames": [WAIT] }))
            .await
        {
            Ok(answer) => {
                let wait = answer["Attributes"][WAIT].as_str();
                Ok(wait.and_then(|seconds| seconds.parse().ok()).unwrap_or(0))
            }
            // Who may read and write need not be allowed to look.
            Err(fault) if fault.code.starts_with("AccessDenied") => Ok(0),
            Err(fault) => Err(fault),
        }
    }

    /// A request about the queue.
    pub async fn ask(&self, action: &str, mut body: Json) -> Result<Json, Fault> {
        body["QueueUrl"] = self.url.get().map(String::as_str).into();
        self.call(action, &body).await
    }

    async fn call(&self, action: &str, body: &Json) -> Result<Json, Fault> {
        let url = format!(
            "{}://{}{}",
            self.endpoint.scheme(),
            self.endpoint.host_header(),
            self.endpoint.target()
        );
        let body = Bytes::from(body.to_string());
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        headers.insert(CONTENT_TYPE, json);
        let target = HeaderValue::from_str(&format!("AmazonSQS.{action}")).map_err(Fault::lost)?;
        headers.insert("x-amz-target", target);
        let signed = self.account.sign(&Method::POST, &url, headers, &body).await;
        let headers = signed.map_err(Fault::lost)?;
        let asked = self
            .fetch
            .ask(&Method::POST, &self.endpoint, &headers, body);
        let (status, answer) = asked.await.map_err(Fault::lost)?;
        let json = serde_json::from_slice(&answer);
        match json {
            Ok(json) if status.is_success() => Ok(json),
            // An answer may be empty, where there is nothing to say.
            Err(_) if status.is_success() && answer.is_empty() => Ok(json!({})),
            Ok(json) => Err(said(&json, status.as_u16())),
            Err(_) => Err(Fault::lost(format!("the server answered {status}"))),
        }
    }
}

/// `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"…"}`.
fn said(json: &Json, status: u16) -> Fault {
    let code = json["__type"].as_str().unwrap_or_default();
    let code = code.rsplit('#').next().unwrap_or_default().to_owned();
    let message = json["message"].as_str().or(json["Message"].as_str());
    // What follows the first line repeats the whole request.
    let line = message.and_then(|message| message.lines().next());
    let line: String = line
        .unwrap_or_default()
        .chars()
        .take(CAUSE_BYTES_MAX)
        .collect();
    let cause = format!("the server answered {status} {code}: {line}");
    // A server that is out of order, or asked too often, says nothing about the request.
    match status >= 500 || code.contains("Throttl") {
        true => Fault::lost(cause),
        false => Fault { code, cause },
    }
}

/// How many whole messages of a batch were taken, and what became of the others: index, whether the
/// message itself is at fault, and why.
pub(super) fn outcome(answer: &Json) -> (Vec<usize>, Vec<(usize, bool, String)>) {
    let list = |name: &str| answer[name].as_array().into_iter().flatten();
    let id = |entry: &Json| entry["Id"].as_str()?.parse().ok();
    let taken = list("Successful").filter_map(id).collect();
    let failed = list("Failed").filter_map(|entry| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let cause = format!("{}: {}", text("Code"), text("Message"));
        let is_of_message = entry["SenderFault"].as_bool().unwrap_or(false);
        Some((id(entry)?, is_of_message, cause))
    });
    (taken, failed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_read() {
        let gone = json!({"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "No such.\nPOST\n/"});
        let fault = said(&gone, 400);
        assert_eq!(fault.code, "QueueDoesNotExist");
        assert_eq!(
            fault.cause,
            "the server answered 400 QueueDoesNotExist: No such."
        );
        assert!(!fault.is_of_message());
        assert!(said(&json!({"__type": "InvalidMessageContents"}), 400).is_of_message());
        assert_eq!(said(&json!({"__type": "RequestThrottled"}), 400).code, "");
        assert_eq!(said(&json!({"Message": "busy"}), 503).code, "");
        let answer = json!({
            "Successful": [{"Id": "0"}, {"Id": "2"}, {"Id": "x"}],
            "Failed": [{"Id": "1", "SenderFault": true, "Code": "InvalidMessageContents", "Message": "no"}],
        });
        let failed = vec![(1, true, "InvalidMessageContents: no".to_owned())];
        assert_eq!(outcome(&answer), (vec![0, 2], failed));
        assert_eq!(outcome(&json!({})), (vec![], vec![]));
    }
}
