use super::*;
use crate::registry::NewKey;
use crate::token::Subject;
use hyper::header::AUTHORIZATION;
use serde_json::{Value as Json, json};
use std::time::Duration;

fn api() -> Api {
    let mut api = Api::new("Ticks", "1.0.0", "ticks.yaml");
    api.plans = vec![
        (
            "Small".to_owned(),
            json!({"events": "3/day", "connections": 2, "message": "10B"}),
        ),
        ("AsyncGold".to_owned(), Json::Null),
    ];
    api
}

fn secured() -> Operation {
    Operation {
        is_secured: true,
        scopes: vec!["ticks:read".to_owned()],
        messages: Vec::new(),
    }
}

fn asked<'a>(api: &'a Api, operation: &'a Operation, headers: &'a HeaderMap) -> Asked<'a> {
    Asked {
        api,
        topic: "/prices",
        operation,
        headers,
        query: None,
        address: IpAddr::from([127, 0, 0, 1]),
    }
}

fn bearing(secret: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&format!("Bearer {secret}")).expect("printable");
    headers.insert(AUTHORIZATION, value);
    headers
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

/// A server whose application `Shop` has a key with the scope.
fn access() -> (Arc<Access>, String, String) {
    let now = SystemTime::now();
    let access = Access::open(None, now).expect("in memory");
    access.set_apis(&[api()]);
    let scopes = vec!["ticks:read".to_owned()];
    access
        .registry()
        .create_application("Shop", None, &scopes, now)
        .expect("made");
    let key = NewKey {
        scopes,
        ..NewKey::default()
    };
    let key = access
        .registry()
        .create_key("Shop", &key, now)
        .expect("made");
    (access, key.text, key.id)
}

#[test]
fn keys_and_own_tokens_are_let_in_and_others_told_what_is_missing() {
    let (access, key, _) = access();
    let (api, operation, now) = (api(), secured(), SystemTime::now());
    let client = access.registry().applications()[0].client.clone();
    let token = |scopes: &[&str]| {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let made = access
            .mint()
            .token(&client, &scopes, Duration::from_secs(60), now);
        made.expect("signed").0
    };
    block_on(async {
        for secret in [key.clone(), token(&["ticks:read"])] {
            let headers = bearing(&secret);
            let admission = access
                .admit(&asked(&api, &operation, &headers), false, now)
                .await;
            let admission = admission.expect("let in");
            let principal = admission.principal().expect("shown");
            assert_eq!(principal.application.as_deref(), Some("Shop"));
        }
        for (headers, status, cause) in [
            (HeaderMap::new(), 401, "missing"),
            (bearing("x.y.z"), 401, "malformed"),
            (bearing(&token(&["other"])), 403, "insufficient scope"),
        ] {
            let turned = access
                .admit(&asked(&api, &operation, &headers), false, now)
                .await;
            let turned = turned.err().expect("refused");
            assert_eq!((turned.status().as_u16(), turned.cause()), (status, cause));
            let mut answer = HeaderMap::new();
            turned.add_headers(&mut answer, now);
            assert!(
                answer[WWW_AUTHENTICATE]
                    .to_str()
                    .expect("text")
                    .starts_with("Bearer realm=")
            );
        }
        assert_eq!(
            access.refused(),
            [("insufficient scope", 1), ("malformed", 1), ("missing", 1)]
        );
        // Nobody asks who it is where nothing is secured.
        let (open, headers) = (Operation::default(), HeaderMap::new());
        let admission = access
            .admit(&asked(&api, &open, &headers), false, now)
            .await;
        assert!(admission.expect("let in").principal().is_none());
    });
}

// rules: T7
#[test]
fn a_plan_bounds_messages_and_connections() {
    let (access, key, _) = access();
    let (api, operation, headers) = (api(), secured(), bearing(&key));
    let now = SystemTime::now();
    block_on(async {
        let first = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await
            .expect("let in");
        let second = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await
            .expect("let in");
        let third = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await;
        assert_eq!(third.err().expect("too many").status(), 429);
        drop(second);
        access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await
            .expect("a place is free");
        assert_eq!((first.message_max(1000), first.message_max(5)), (10, 5));
        let mut answer = HeaderMap::new();
        first.take_one(5, &mut answer, now).expect("one");
        assert_eq!(answer["ratelimit-limit"], "3");
        assert_eq!(answer["ratelimit-remaining"], "2");
        first.take(5, now).expect("two");
        first.take(5, now).expect("three");
        let denied = first.take(5, now).expect_err("no more");
        assert_eq!(denied.limit.limit, "3/day");
        // A plan with more room, at once for what begins.
        access
            .registry()
            .subscribe("Shop", "Ticks", Some("AsyncGold"), now)
            .expect("subscribed");
        let more = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await
            .expect("let in");
        more.take(5, now).expect("it has used 3 of 50000");
    });
}

#[test]
fn streams_end_with_their_key_or_token() {
    let (access, key, id) = access();
    let (api, operation, headers) = (api(), secured(), bearing(&key));
    block_on(async {
        let now = SystemTime::now();
        let admission = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await
            .expect("let in");
        let revoke = async {
            access
                .registry()
                .revoke_key(&id, SystemTime::now())
                .expect("revoked")
        };
        let (ended, ()) = tokio::join!(admission.ended(), revoke);
        assert_eq!(ended, Ended::Revoked);
        let again = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await;
        assert!(again.is_err());
        // A token may be renewed in band, by one of the same subject.
        let client = access.registry().applications()[0].client.clone();
        let scopes = ["ticks:read".to_owned()];
        let make = |who: &str, seconds| {
            let made = access
                .mint()
                .token(who, &scopes, Duration::from_secs(seconds), now);
            made.expect("signed").0
        };
        let headers = bearing(&make(&client, 1));
        let admission = access
            .admit(&asked(&api, &operation, &headers), true, now)
            .await
            .expect("let in");
        let other = admission.renew(&make("other", 60), &scopes, now).await;
        assert_eq!(other.expect_err("another's").cause, Cause::Claims);
        admission
            .renew("x.y.z", &scopes, now)
            .await
            .expect_err("none");
        let renewed = make(&client, 60);
        admission
            .renew(&renewed, &scopes, now)
            .await
            .expect("its own");
        let lasted = tokio::time::timeout(Duration::from_millis(1500), admission.ended()).await;
        assert!(lasted.is_err(), "it goes on beyond the first token");
        let revoked = async {
            let subject = Subject::Client("Shop".to_owned());
            access
                .registry()
                .revoke(subject, None, SystemTime::now())
                .expect("revoked");
        };
        let (ended, ()) = tokio::join!(admission.ended(), revoked);
        assert_eq!(ended, Ended::Revoked);
    });
}

#[test]
fn documents_are_judged() {
    assert_eq!(
        plan("AsyncGold", &Json::Null).expect("known").limits.events[0].to_string(),
        "50000/day"
    );
    let fault = plan("P", &json!({"event": "1/s"})).expect_err("misspelt");
    assert!(
        fault.message.contains("plan 'P'") && fault.help.contains("events"),
        "{fault:?}"
    );
    assert_eq!(
        issuer(&json!("own"), "a.yaml").expect("known").issuer,
        OWN_ISSUER
    );
    let fault = issuer(
        &json!({"issuer": "https://i", "algorithms": ["none"]}),
        "a/b.yaml",
    )
    .expect_err("none");
    assert!(fault.message.contains("'none'"), "{fault:?}");
}

// rules: J6
#[test]
fn keys_that_cannot_be_had_are_no_fault_of_the_token() {
    let turned = Turned::Refused(Refusal::new(Cause::KeysUnavailable));
    assert_eq!(turned.status(), 503);
    let mut answer = HeaderMap::new();
    turned.add_headers(&mut answer, SystemTime::now());
    assert_eq!(answer[hyper::header::RETRY_AFTER], KEYS_RETRY);
    assert!(!answer.contains_key(WWW_AUTHENTICATE));
    assert!(turned.body(SystemTime::now()).contains("come again"));
}
