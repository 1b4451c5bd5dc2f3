//! Tokens that nobody has issued (reliability case S08). Each is refused, whatever its claims say.

use super::*;

/// An API whose issuer signs by RS256 with the key of RFC 7515, A.2, and by ES256 with `signer`.
fn api(signer: &Signer) -> (Api, tempfile::TempDir) {
    let rsa = json!({
        "kty": "RSA", "kid": "rsa", "e": "AQAB", "alg": "RS256",
        "n": RSA_MODULUS,
    });
    let jwks = json!({ "keys": [rsa, signer.jwk()] }).to_string();
    Api::of_keys(&jwks, &["RS256", "ES256"])
}

const RSA_MODULUS: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

fn unsigned(header: &str) -> String {
    format!(
        "{}.{}",
        encode(header),
        encode(claims(json!({})).to_string())
    )
}

// rules: J1
#[test]
fn no_spelling_of_none_is_an_algorithm() {
    let signer = Signer::new("k1");
    let (api, _dir) = api(&signer);
    block_on(async {
        for name in [
            "none", "None", "NONE", "nOnE", "none ", "", "null", "HS1", "es256", "ES256 ",
            "ES256K", "ES512",
        ] {
            let signed = unsigned(&json!({"alg": name, "typ": "JWT", "kid": "k1"}).to_string());
            for token in [format!("{signed}."), signer.sign(&signed)] {
                assert_eq!(
                    api.cause(&token, NOW).await,
                    Some(Cause::Algorithm),
                    "{name}"
                );
            }
        }
        for header in [r#"{"typ":"JWT"}"#, r#"{"kid":"k1"}"#] {
            assert_eq!(
                api.cause(&signer.sign(&unsigned(header)), NOW).await,
                Some(Cause::Algorithm)
            );
        }
        for header in [r#"{"alg":null}"#, r#"{"alg":["ES256"]}"#, r#"{"alg":256}"#] {
            assert_eq!(
                api.cause(&signer.sign(&unsigned(header)), NOW).await,
                Some(Cause::Malformed)
            );
        }
    });
}

// rules: J1
#[test]
fn a_public_key_is_no_secret() {
    let signer = Signer::new("k1");
    let (api, _dir) = api(&signer);
    // As attackers take it: the modulus, the set, the point, in several spellings.
    let point = signer.pair.public_key().as_ref().to_vec();
    let modulus = URL_SAFE_NO_PAD.decode(RSA_MODULUS).expect("base64url");
    let secrets = [
        point,
        modulus,
        RSA_MODULUS.as_bytes().to_vec(),
        signer.jwk().to_string().into_bytes(),
    ];
    block_on(async {
        for secret in secrets {
            for (name, digest) in [
                ("HS256", ring::hmac::HMAC_SHA256),
                ("HS384", ring::hmac::HMAC_SHA384),
                ("HS512", ring::hmac::HMAC_SHA512),
            ] {
                for kid in ["rsa", "k1"] {
                    let signed = unsigned(&json!({"alg": name, "kid": kid}).to_string());
                    let key = ring::hmac::Key::new(digest, &secret);
                    let tag = ring::hmac::sign(&key, signed.as_bytes());
                    let token = format!("{signed}.{}", encode(tag.as_ref()));
                    assert_eq!(
                        api.cause(&token, NOW).await,
                        Some(Cause::Algorithm),
                        "{name} {kid}"
                    );
                }
            }
        }
    });
}

// rules: J1
#[test]
fn an_algorithm_of_another_key_or_one_that_is_not_configured_is_refused() {
    let signer = Signer::new("k1");
    let (api, _dir) = api(&signer);
    block_on(async {
        // The key of `rsa` takes RS256 alone.
        let token = signer.token_of(
            r#"{"alg":"ES256","kid":"rsa"}"#,
            &claims(json!({})).to_string(),
        );
        assert_eq!(api.cause(&token, NOW).await, Some(Cause::Algorithm));
        let token = signer.token_of(
            r#"{"alg":"RS256","kid":"k1"}"#,
            &claims(json!({})).to_string(),
        );
        assert_eq!(api.cause(&token, NOW).await, Some(Cause::Algorithm));
        for name in ["PS256", "RS512", "EdDSA", "ES384"] {
            let header = json!({"alg": name, "kid": "rsa"}).to_string();
            let token = signer.token_of(&header, &claims(json!({})).to_string());
            assert_eq!(
                api.cause(&token, NOW).await,
                Some(Cause::Algorithm),
                "{name}"
            );
        }
    });
}

#[test]
fn a_signature_that_is_empty_cut_or_of_another_is_bad() {
    let (signer, other) = (Signer::new("k1"), Signer::new("k1"));
    let (api, _dir) = api(&signer);
    let token = signer.token(&claims(json!({})));
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    let bytes = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    let altered = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x80;
        bytes
    };
    // r and s of nothing (CVE-2022-21449), the form in DER, more bytes than there are.
    let mut signatures = vec![
        Vec::new(),
        vec![0; 64],
        vec![0xff; 64],
        [&bytes[..], &[0]].concat(),
    ];
    signatures.push(
        [
            &[0x30, 0x44, 0x02, 0x20],
            &bytes[..32],
            &[0x02, 0x20],
            &bytes[32..],
        ]
        .concat(),
    );
    signatures.extend((0..64).map(altered));
    signatures.extend((1..64).map(|length| bytes[..length].to_vec()));
    block_on(async {
        for signature in signatures {
            let token = format!("{signed}.{}", encode(&signature));
            assert_eq!(
                api.cause(&token, NOW).await,
                Some(Cause::Signature),
                "{} bytes",
                signature.len()
            );
        }
        assert_eq!(
            api.cause(&other.token(&claims(json!({}))), NOW).await,
            Some(Cause::Signature)
        );
        // Claims of one token under the signature of another.
        let richer = encode(claims(json!({"scope": "admin"})).to_string());
        let header = signed.split('.').next().expect("a header");
        let token = format!("{header}.{richer}.{signature}");
        assert_eq!(api.cause(&token, NOW).await, Some(Cause::Signature));
        api.judge(&format!("{signed}.{signature}"), NOW)
            .await
            .expect("the real one");
    });
}

// rules: J4
#[test]
fn the_header_never_chooses_where_keys_come_from() {
    let (signer, attacker) = (Signer::new("k1"), Signer::new("evil"));
    let (api, dir) = api(&signer);
    std::fs::write(dir.path().join("evil.json"), Signer::jwks(&[&attacker])).expect("written");
    let here = dir.path().join("evil.json").display().to_string();
    block_on(async {
        for (kid, expect) in [
            ("../evil.json", Cause::UnknownKey),
            (&*here, Cause::UnknownKey),
            ("/dev/null", Cause::UnknownKey),
            ("k1' UNION SELECT 'AAAA' --", Cause::UnknownKey),
            ("k1\u{0}", Cause::UnknownKey),
            ("", Cause::UnknownKey),
            ("K1", Cause::UnknownKey),
            (&"k".repeat(513), Cause::Malformed),
        ] {
            let header = json!({"alg": "ES256", "kid": kid}).to_string();
            let token = attacker.token_of(&header, &claims(json!({})).to_string());
            assert_eq!(api.cause(&token, NOW).await, Some(expect), "{kid}");
        }
        for (name, value) in [
            ("jwk", attacker.jwk()),
            ("jku", json!(format!("file://{here}"))),
            ("x5u", json!("http://127.0.0.1:1/evil.pem")),
            ("x5c", json!(["MIIB"])),
        ] {
            for (kid, expect) in [("evil", Cause::UnknownKey), ("k1", Cause::Signature)] {
                let header = json!({"alg": "ES256", "kid": kid, name: value}).to_string();
                let token = attacker.token_of(&header, &claims(json!({})).to_string());
                assert_eq!(api.cause(&token, NOW).await, Some(expect), "{name} {kid}");
            }
        }
        // Extensions that must be understood are not.
        for header in [
            r#"{"alg":"ES256","kid":"k1","crit":["exp"],"exp":1}"#,
            r#"{"alg":"ES256","kid":"k1","crit":[]}"#,
            r#"{"alg":"ES256","kid":"k1","b64":false,"crit":["b64"]}"#,
        ] {
            let token = signer.token_of(header, &claims(json!({})).to_string());
            assert_eq!(
                api.cause(&token, NOW).await,
                Some(Cause::Malformed),
                "{header}"
            );
        }
    });
}

// rules: J7
#[test]
fn what_two_parsers_may_read_differently_is_refused() {
    let signer = Signer::new("k1");
    let (api, _dir) = api(&signer);
    let header = r#"{"alg":"ES256","kid":"k1"}"#;
    let good = claims(json!({})).to_string();
    let twice = good.replacen('{', "{\"scope\":\"admin\",", 1);
    let escaped = good.replacen('{', "{\"\\u0073ub\":\"root\",", 1);
    let deep = good.replacen(
        '{',
        &format!("{{\"x\":{}{},", "[".repeat(50), "]".repeat(50)),
        1,
    );
    block_on(async {
        for claims in [
            &*twice,
            &escaped,
            &deep,
            "",
            "[]",
            "\"x\"",
            "{",
            &format!("{good}{good}"),
        ] {
            let token = signer.token_of(header, claims);
            assert_eq!(
                api.cause(&token, NOW).await,
                Some(Cause::Malformed),
                "{claims}"
            );
        }
        for header in [
            r#"{"alg":"ES256","alg":"none","kid":"k1"}"#,
            r#"{"alg":"none","alg":"ES256","kid":"k1"}"#,
            r#"{"alg":"ES256","kid":"k1","kid":"k2"}"#,
        ] {
            assert_eq!(
                api.cause(&signer.token_of(header, &good), NOW).await,
                Some(Cause::Malformed)
            );
        }
        let token = signer.token_of(header, &good);
        // Other spellings of the same bytes: padding, blanks, the other alphabet, spare bits.
        let (signed, signature) = token.rsplit_once('.').expect("three parts");
        let spare = {
            let mut text = signature.to_owned();
            let last = text.pop().expect("not empty");
            // 64 bytes leave four bits of the last character unused.
            text.push(char::from_u32(u32::from(last) + 1).expect("a character"));
            text
        };
        for token in [
            format!("{token}=="),
            format!(" {token}"),
            format!("{token}\n"),
            format!("{signed}.{spare}"),
            token.replace('.', ".."),
            format!("{token}.{signature}"),
            format!("{token}.x.y"),
            signed.to_owned(),
            "..".to_owned(),
            ".".to_owned(),
            "x".to_owned(),
            token.replace('.', "%2E"),
            token.replace('e', "é"),
        ] {
            assert_eq!(
                api.cause(&token, NOW).await,
                Some(Cause::Malformed),
                "{token}"
            );
        }
    });
}

// rules: J7
#[test]
fn a_huge_token_costs_nothing() {
    let signer = Signer::new("k1");
    let (api, _dir) = api(&signer);
    block_on(async {
        let large = signer.token(&claims(json!({"x": "x".repeat(11_000)})));
        assert!(large.len() < TOKEN_BYTES_MAX);
        api.judge(&large, NOW).await.expect("not too large");
        for bytes in [TOKEN_BYTES_MAX + 1, 1 << 20] {
            let huge = signer.token(&claims(json!({"x": "x".repeat(bytes)})));
            assert_eq!(api.cause(&huge, NOW).await, Some(Cause::TooLarge));
            assert_eq!(
                api.cause(&"a".repeat(bytes), NOW).await,
                Some(Cause::TooLarge)
            );
        }
    });
}

#[test]
fn a_token_for_one_api_or_issuer_counts_for_no_other() {
    let (one, two) = (Signer::new("k1"), Signer::new("k1"));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, signer: &Signer| {
        std::fs::write(dir.path().join(name), Signer::jwks(&[signer])).expect("written");
    };
    write("one.json", &one);
    write("two.json", &two);
    let issuer = |name: &str, audience: &str| {
        json!({
            "issuer": format!("https://{name}"), "jwks": format!("file:{name}.json"), "audience": audience,
            "algorithms": ["ES256"],
        })
    };
    let orders = Api::new(
        &[issuer("one", "orders"), issuer("two", "orders")],
        dir.path(),
    );
    let prices = Api::new(&[issuer("one", "prices")], dir.path());
    let of = |signer: &Signer, iss: &str, aud: &str| {
        signer.token(&claims(json!({"iss": iss, "aud": aud})))
    };
    block_on(async {
        let token = of(&one, "https://one", "orders");
        orders.judge(&token, NOW).await.expect("its own");
        assert_eq!(prices.cause(&token, NOW).await, Some(Cause::Audience));
        orders
            .judge(&of(&two, "https://two", "orders"), NOW)
            .await
            .expect("its own");
        // One issuer cannot speak for the other.
        let token = of(&two, "https://one", "orders");
        assert_eq!(orders.cause(&token, NOW).await, Some(Cause::Signature));
        let token = of(&two, "https://two", "prices");
        assert_eq!(prices.cause(&token, NOW).await, Some(Cause::UnknownIssuer));
    });
}

#[test]
fn a_refusal_shows_nothing_of_what_was_sent() {
    let signer = Signer::new("canary-kid");
    let (api, _dir) = api(&Signer::new("k1"));
    let token = signer.token(&claims(json!({"sub": "canary-sub"})));
    block_on(async {
        let refused = api
            .verifier
            .verify(&Credentials::of_token(&token), at(NOW))
            .await;
        let refused = refused.expect_err("another's");
        let all = format!("{refused:?} {} {}", refused.body(), refused.authenticate);
        assert!(
            !all.contains("canary") && !all.contains(&token[..20]),
            "{all}"
        );
        assert!(refused.authenticate.contains("error=\"invalid_token\""));
        assert!(
            !all.contains("kid\""),
            "the client is not told which part was wrong"
        );
    });
}
