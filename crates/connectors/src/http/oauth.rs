//! OAuth 2 tokens for requests: obtained where none is known, refreshed when one is refused.
//!
//! The grant is that of Siddhi's `HttpSink`: the refresh token where one is known, else user and
//! password where they are given, else the client's own credentials. A refresh token that comes with
//! an answer takes the place of the one before. Nothing of a token is ever logged.

use std::sync::Mutex;
use std::sync::PoisonError;

use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};

use connect::error::Error;
use connect::net::http_client::{Client, OutgoingRequest};
use connect::net::http_client::{basic, form};
use connect::option::Settings;
use connect::url::Url;

/// Longest answer of a token server.
const ANSWER_BYTES_MAX: usize = 1 << 20;

pub(super) struct OAuth {
    token_url: Url,
    client: Credentials,
    user: Option<(String, String)>,
    scope: String,
    tokens: Mutex<Tokens>,
}

/// How the client says who it is.
enum Credentials {
    Header(HeaderValue),
    /// In the form.
    Body(String, String),
}

#[derive(Default)]
struct Tokens {
    access: Option<String>,
    refresh: Option<String>,
}

impl OAuth {
    /// `None` where the options name no client. `sink` is for messages.
    pub fn new(settings: Settings<'_>) -> Result<Option<OAuth>, Error> {
        let pair = |key: &str, secret: &str| match (settings.text(key), settings.text(secret)) {
            (Some(key), Some(secret)) => Ok(Some((key.to_owned(), secret.to_owned()))),
            (None, None) => Ok(None),
            _ => Err(settings.refused(format!("options '{key}' and '{secret}' go together"))),
        };
        let client = match (
            pair("consumer.key", "consumer.secret")?,
            pair("body.consumer.key", "body.consumer.secret")?,
        ) {
            (Some((key, secret)), _) => Credentials::Header(basic(&key, &secret)),
            (None, Some((key, secret))) => Credentials::Body(key, secret),
            (None, None) => return Ok(None),
        };
        let text = settings.text_or_default("token.url");
        let token_url = Url::parse(text).ok_or_else(|| {
            settings.refused(
                "option 'token.url' is missing or no URL: tokens of OAuth are obtained there",
            )
        })?;
        Ok(Some(OAuth {
            token_url,
            client,
            user: pair("oauth.username", "oauth.password")?,
            scope: settings.text_or_default("oauth.scope").to_owned(),
            tokens: Mutex::default(),
        }))
    }

    pub fn uses_tls(&self) -> bool {
        self.token_url.is_tls
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token in use, obtained where there is none.
    pub async fn token(&self, client: &Client, given_refresh: &str) -> std::io::Result<String> {
        let known = self.tokens().access.clone();
        match known {
            Some(token) => Ok(token),
            None => self.obtain(client, given_refresh).await,
        }
    }

    /// Another token, after `refused` was answered 401.
    pub async fn renew(
        &self,
        client: &Client,
        given_refresh: &str,
        refused: &str,
    ) -> std::io::Result<String> {
        let newer = {
            let tokens = self.tokens();
            tokens.access.clone().filter(|token| token != refused)
        };
        match newer {
            Some(token) => Ok(token),
            None => self.obtain(client, given_refresh).await,
        }
    }

    async fn obtain(&self, client: &Client, given_refresh: &str) -> std::io::Result<String> {
        let known = self.tokens().refresh.clone();
        let given = Some(given_refresh.to_owned()).filter(|t| !t.is_empty());
        let form = self.grant(known.or(given).as_deref());
        let mut headers = HeaderMap::new();
        let host = HeaderValue::from_str(&self.token_url.host_header());
        headers.insert(HOST, host.map_err(std::io::Error::other)?);
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Credentials::Header(value) = &self.client {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let request = OutgoingRequest {
            method: &Method::POST,
            target: &client.request_target(&self.token_url)?,
            headers: &headers,
            extra: None,
            body: form.as_bytes(),
            has_length: true,
        };
        let answer = client.send(&self.token_url, &request).await?;
        let status = answer.response.status();
        let body = client.read_body(answer, ANSWER_BYTES_MAX).await?;
        let refused = |why: &str| {
            let text = format!("the token server {} {why}", self.token_url.authority());
            std::io::Error::other(text)
        };
        if !status.is_success() {
            // A refresh token that is no longer taken is not tried again.
            self.tokens().refresh = None;
            return Err(refused(&format!("answered {status}")));
        }
        let json: serde_json::Value =
            serde_json::from_slice(&body).map_err(|_| refused("answered no JSON"))?;
        let of = |key: &str| json.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        let access = of("access_token").ok_or_else(|| refused("gave no access_token"))?;
        let mut tokens = self.tokens();
        tokens.access = Some(access.clone());
        tokens.refresh = of("refresh_token").or(tokens.refresh.take());
        Ok(access)
    }

    fn grant(&self, refresh: Option<&str>) -> String {
        let mut pairs: Vec<(&str, &str)> = match (refresh, &self.user) {
            (Some(token), _) => vec![("grant_type", "refresh_token"), ("refresh_token", token)],
            (None, Some((user, password))) => vec![
                ("grant_type", "password"),
                ("username", user),
                ("password", password),
            ],
            (None, None) => vec![("grant_type", "client_credentials")],
        };
        pairs.push(("scope", &self.scope));
        if let Credentials::Body(key, secret) = &self.client {
            pairs.extend([("client_id", key.as_str()), ("client_secret", secret)]);
        }
        form(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connect::net::testing;

    fn grant(options: &[(&str, &str)], refresh: Option<&str>) -> String {
        let mut all = vec![("token.url", "http://t/token")];
        all.extend(options);
        let transport = testing::transport("http", &all);
        let oauth = OAuth::new(Settings::of_sink(&transport, crate::http::SPECS))
            .unwrap()
            .unwrap();
        oauth.grant(refresh)
    }

    #[test]
    fn the_grant_follows_from_what_is_known() {
        let client = [("consumer.key", "k"), ("consumer.secret", "s")];
        assert_eq!(
            grant(&client, None),
            "grant_type=client_credentials&scope=default"
        );
        assert_eq!(
            grant(&client, Some("r")),
            "grant_type=refresh_token&refresh_token=r&scope=default"
        );
        let user = [
            ("body.consumer.key", "k"),
            ("body.consumer.secret", "s"),
            ("oauth.username", "u"),
            ("oauth.password", "p"),
            ("oauth.scope", "x"),
        ];
        assert_eq!(
            grant(&user, None),
            "grant_type=password&username=u&password=p&scope=x&client_id=k&client_secret=s"
        );
    }

    #[test]
    fn half_of_a_pair_is_refused() {
        for options in [
            &[("consumer.key", "k")][..],
            &[("consumer.key", "k"), ("consumer.secret", "s")],
        ] {
            let transport = testing::transport("http", options);
            assert!(OAuth::new(Settings::of_sink(&transport, crate::http::SPECS)).is_err());
        }
        let transport = testing::transport("http", &[]);
        assert!(matches!(
            OAuth::new(Settings::of_sink(&transport, crate::http::SPECS)),
            Ok(None)
        ));
    }
}
