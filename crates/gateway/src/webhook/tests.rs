use serde_json::json;

use super::*;

fn hook(said: Json) -> Webhook {
    let hook = Webhook::from_json(&said).expect("it is right");
    assert_eq!(Webhook::from_json(&hook.to_json(true)).as_ref(), Ok(&hook));
    let shown = format!("{hook:?}{}", hook.to_json(false));
    for secret in &hook.secrets {
        assert!(!shown.contains(secret.as_str()), "{shown}");
    }
    hook
}

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, value.parse().expect("it is a value"));
    }
    headers
}

/// Right as it is; wrong with another body, another secret, and without each header that is needed.
#[track_caller]
fn check(said: Json, all: &[(&'static str, &str)], body: &[u8], now: u64, id: Option<&str>) {
    let own = hook(said.clone());
    let judged = own.judge(&headers(all), body, now);
    assert_eq!(judged.map(|genuine| genuine.id), Ok(id.map(str::to_owned)));
    let other = [body, b" "].concat();
    assert_eq!(own.judge(&headers(all), &other, now), Err(Fake::Wrong));
    let mut wrong = said;
    wrong["secret"] = "V3JvbmcgYnV0IGxvbmcgZW5vdWdoIGZvciBhbGw=".into();
    assert_eq!(
        hook(wrong).judge(&headers(all), body, now),
        Err(Fake::Wrong)
    );
    for (at, (name, _)) in all.iter().enumerate() {
        if !name.contains("sign") && !name.contains("hmac") && !name.contains("timestamp") {
            continue;
        }
        let mut fewer = all.to_vec();
        fewer.remove(at);
        assert!(
            own.judge(&headers(&fewer), body, now).is_err(),
            "without {name}"
        );
        let mut twice = all.to_vec();
        twice.push(all[at]);
        assert!(
            own.judge(&headers(&twice), body, now).is_err(),
            "twice {name}"
        );
    }
}

#[test]
fn events_of_each_sender_are_known_by_their_signatures() {
    // The example of GitHub's documentation, and the older header.
    let github = json!({ "from": "github", "secret": "It's a Secret to Everybody" });
    let body = b"Hello, World!";
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let id = ("x-github-delivery", "72d3162e");
    check(
        github.clone(),
        &[("x-hub-signature-256", signature), id],
        body,
        0,
        Some("72d3162e"),
    );
    let signature = "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59";
    check(github, &[("x-hub-signature", signature)], body, 0, None);
    // The example of Slack's documentation.
    let slack = json!({ "from": "slack", "secret": "8f742231b10e8888abcd99yyyzzz85a5" });
    let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let signed = [
        (
            "x-slack-signature",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        ),
        ("x-slack-request-timestamp", "1531420618"),
    ];
    check(slack.clone(), &signed, body, 1_531_420_618, None);
    for now in [1_531_420_618 + 301, 1_531_420_618 - 301] {
        assert_eq!(
            hook(slack.clone()).judge(&headers(&signed), body, now),
            Err(Fake::Late)
        );
    }
    // The example of Standard Webhooks.
    let standard =
        json!({ "from": "standard", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" });
    let signed = [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        (
            "webhook-signature",
            "v1,bm90aGluZw== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,x",
        ),
    ];
    let id = Some("msg_p5jXN8AQM9LWM0D4loKWxJek");
    check(
        standard,
        &signed,
        b"{\"test\": 2432232314}",
        1_614_265_330,
        id,
    );
    // Made by Python's hmac and cryptography.
    let public = json!({ "from": "standard", "secret": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="] });
    let signed = [
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "1614265330"),
        (
            "webhook-signature",
            "v1a,G+FOcjOrQw25LBHP01nQRuFFFOWFpq7Zx0a8WbB9EYLleGrIWLEnEZWXrjCl+uy/iS1RUZxWElSsyZWD1VtsBA==",
        ),
    ];
    check(public, &signed, b"{}", 1_614_265_330 + 300, Some("msg_1"));
    let stripe = json!({ "from": "stripe", "secret": "whsec_test", "tolerance": "10s" });
    let signed = [(
        "stripe-signature",
        "t=1614556800,v1=00,v1=e326b9127f526dab808bd39e79a44ab61b0dc0517386b06a7abf563ce203409b,v0=x",
    )];
    let body = b"{\"id\":\"evt_1\"}";
    check(stripe.clone(), &signed, body, 1_614_556_810, Some("evt_1"));
    assert_eq!(
        hook(stripe).judge(&headers(&signed), body, 1_614_556_811),
        Err(Fake::Late)
    );
    let shopify = json!({ "from": "shopify", "secret": ["old", "hush"] });
    let signed = [
        (
            "x-shopify-hmac-sha256",
            "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY=",
        ),
        ("x-shopify-webhook-id", "b54557e4"),
    ];
    check(shopify, &signed, b"{\"id\":1}", 0, Some("b54557e4"));
    // RFC 2202 and RFC 4231, second cases.
    for (digest, tag) in [
        ("sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (
            "sha256",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            "sha256",
            "SHA256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        ("sha256", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="),
    ] {
        let own = json!({ "from": "hmac", "secret": "Jefe", "header": "X-Sign", "digest": digest });
        check(
            own,
            &[("x-sign", tag)],
            b"what do ya want for nothing?",
            0,
            None,
        );
    }
}

#[test]
fn what_is_no_event_is_answered_and_ids_are_those_of_their_source() {
    let events = hook(json!({ "from": "cloudevents" }));
    let id = |all: &[(&'static str, &str)], body: &[u8]| {
        events
            .judge(&headers(all), body, 0)
            .map(|genuine| genuine.id)
    };
    assert_eq!(
        id(&[("ce-id", "1"), ("ce-source", "/s")], b"x"),
        Ok(Some("/s 1".to_owned()))
    );
    assert_eq!(
        id(&[], b"{\"id\":\"1\",\"source\":\"/s\",\"data\":{}}"),
        Ok(Some("/s 1".to_owned()))
    );
    assert_eq!(id(&[], b"{}"), Ok(None));
    let slack = hook(json!({ "from": "slack", "secret": "planted" }));
    let body = b"{\"type\":\"url_verification\",\"challenge\":\"abc\"}";
    let key = Digest::Sha256.key(b"planted");
    let signed = [b"v0:5:", &body[..]].concat();
    let tag = Digest::Sha256
        .signature(&key, &signed)
        .expect("it is a value");
    let tag = tag.to_str().expect("it is text").replace("sha256=", "v0=");
    let all = headers(&[
        ("x-slack-signature", &tag),
        ("x-slack-request-timestamp", "5"),
    ]);
    let judged = slack.judge(&all, body, 5).expect("it is genuine");
    assert_eq!(judged.reply.as_deref(), Some("abc"));
}

#[test]
fn what_cannot_be_is_named() {
    for (said, cause) in [
        (json!([]), "is not a map"),
        (json!({}), "says not whom events are from"),
        (json!({ "from": "gitlab" }), "there is cloudevents, github"),
        (json!({ "from": "github" }), "needs the secret"),
        (
            json!({ "from": "github", "secret": 5 }),
            "neither a text nor a list",
        ),
        (json!({ "from": "github", "secret": "" }), "1 to 1024 bytes"),
        (
            json!({ "from": "github", "secret": "s", "sekret": "t" }),
            "no key 'sekret'",
        ),
        (
            json!({ "from": "github", "secret": "s", "digest": "sha1" }),
            "has its own",
        ),
        (json!({ "from": "hmac", "secret": "s" }), "needs the header"),
        (
            json!({ "from": "hmac", "secret": "s", "header": "a b" }),
            "no name of a header",
        ),
        (
            json!({ "from": "hmac", "secret": "s", "header": "a", "digest": "md5" }),
            "no digest",
        ),
        (
            json!({ "from": "standard", "secret": "whsec_c2hvcnQ=" }),
            "24 to 64 bytes",
        ),
        (
            json!({ "from": "standard", "secret": "whpk_c2hvcnQ=" }),
            "32 bytes",
        ),
        (json!({ "from": "standard", "secret": "*" }), "base64"),
        (
            json!({ "from": "cloudevents", "secret": "s" }),
            "not signed",
        ),
        (
            json!({ "from": "stripe", "secret": "s", "tolerance": "soon" }),
            "a time such as 5min",
        ),
    ] {
        let wrong = Webhook::from_json(&said).expect_err("it is wrong");
        assert!(wrong.contains(cause), "{said}: {wrong}");
    }
}
