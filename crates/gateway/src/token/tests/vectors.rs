//! The examples of RFC 7515 (appendix A), RFC 7519 (3.1) and RFC 8037 (appendix A).

use super::*;
use crate::token::jws::Jws;
use crate::token::key::{Key, KeySet};

const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

/// Is the signature good by the key, and bad once any part has changed?
fn check(key: &Key, token: &str) {
    let is_good = |token: &str| {
        let jws = Jws::parse(token).expect("three parts");
        key.verify(jws.algorithm, jws.signed.as_bytes(), &jws.signature)
    };
    assert!(is_good(token), "{token}");
    let other_payload = token.replacen(".ey", ".eY", 1).replacen(".RX", ".RY", 1);
    assert_ne!(token, other_payload);
    assert!(!is_good(&other_payload));
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    bytes[10] ^= 1;
    assert!(!is_good(&format!("{signed}.{}", encode(&bytes))));
    assert!(!is_good(&format!(
        "{signed}.{}",
        encode(&bytes[..bytes.len() - 1])
    )));
    assert!(!is_good(&format!("{signed}.")));
}

fn key_of(jwk: &Value) -> Key {
    Key::from_jwk(jwk.as_object().expect("an object")).expect("a key")
}

// rules: J2
#[test]
fn rfc_7515_a1_hs256() {
    let secret =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let secret = URL_SAFE_NO_PAD.decode(secret).expect("base64url");
    let token = format!(
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{PAYLOAD}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    );
    check(&Key::secret(&secret), &token);
    let claims = strict_json::object(&Jws::parse(&token).expect("a token").payload).expect("JSON");
    assert_eq!(claims["iss"], "joe");
    assert_eq!(claims["exp"], 1_300_819_380);
}

// rules: J2
#[test]
fn rfc_7515_a2_rs256() {
    let key = key_of(&json!({
        "kty": "RSA", "e": "AQAB",
        "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-\
              SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQ\
              OS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGN\
              j8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
    }));
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5\
                     jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07\
                     Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8\
                     np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    check(&key, &format!("eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.{signature}"));
}

// rules: J2
#[test]
fn rfc_7515_a3_es256() {
    let key = key_of(&json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }));
    let signature =
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    check(&key, &format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}.{signature}"));
}

// rules: J2
#[test]
fn rfc_8037_a4_ed25519() {
    let key = key_of(&json!({
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    }));
    check(
        &key,
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcN\
         R4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    );
}

/// RFC 7515, A.5: a token without a signature.
#[test]
fn rfc_7515_a5_none() {
    let token = format!("eyJhbGciOiJub25lIn0.{PAYLOAD}.");
    assert!(matches!(Jws::parse(&token), Err(Cause::Algorithm)));
}

#[test]
fn keys_that_cannot_be_used_are_left_out_with_the_reason() {
    let good = Signer::new("a").jwk();
    let with = |name: &str, value: Value| {
        let mut jwk = good.clone();
        jwk[name] = value;
        jwk
    };
    let rsa = |bytes: usize| json!({"kty": "RSA", "e": "AQAB", "n": encode(vec![0xff; bytes])});
    for (jwk, why) in [
        (with("use", json!("enc")), "`use`"),
        (with("key_ops", json!(["sign"])), "`key_ops`"),
        (with("alg", json!("ES384")), "does not fit"),
        (with("alg", json!("RS256")), "does not fit"),
        (with("alg", json!("ES256K")), "not supported"),
        (with("crv", json!("P-521")), "not supported"),
        (with("crv", json!("secp256k1")), "not supported"),
        (with("crv", json!("P-384")), "size of its curve"),
        (with("x", json!("a")), "base64url"),
        (with("y", Value::Null), "missing"),
        (rsa(128), "2048 to 8192"),
        (rsa(1025), "2048 to 8192"),
        (
            json!({"kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}),
            "secret",
        ),
        (
            json!({"kty": "OKP", "crv": "X25519", "x": "AA"}),
            "not supported",
        ),
        (
            json!({"kty": "OKP", "crv": "Ed25519", "x": "AA"}),
            "32 bytes",
        ),
        (json!("x"), "not an object"),
    ] {
        let set = json!({ "keys": [jwk, good] }).to_string();
        let set = KeySet::from_json(set.as_bytes()).expect("a set");
        assert_eq!(set.len(), 1, "{jwk}");
        assert!(set.left_out[0].contains(why), "{jwk}: {}", set.left_out[0]);
    }
    for text in ["", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[],\"keys\":[]}"] {
        assert!(KeySet::from_json(text.as_bytes()).is_err(), "{text}");
    }
    let many = json!({ "keys": vec![good; 257] }).to_string();
    assert!(KeySet::from_json(many.as_bytes()).is_err());
}
