//! What a token says, checked (RFC 7519, 4.1; RFC 8725; RFC 9068).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::cause::Cause;
use super::issuer::Issuer;
use super::principal::Principal;

/// The end of the year 9999: a later `exp` is a mistake.
const TIME_MAX: f64 = 253_402_300_799.0;

/// Scopes of one token.
const SCOPES_MAX: usize = 1000;

/// `typ` of an access token; the prefix `application/` may be left out (RFC 7515, 4.1.9).
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// A header without `typ` passes: it is optional, and most issuers of today leave it out or write `JWT`.
pub(super) fn check_type(ty: Option<&str>) -> Result<(), Cause> {
    let Some(ty) = ty else { return Ok(()) };
    let ty = ty.to_ascii_lowercase();
    let bare = ty.strip_prefix("application/").unwrap_or(&ty);
    match TYPES.contains(&bare) {
        true => Ok(()),
        false => Err(Cause::Type),
    }
}

/// Who that is, if the claims of a token with a good signature hold for this issuer at this time.
///
/// # Errors
/// [`Cause::Expired`], [`Cause::NotYetValid`], [`Cause::Audience`], [`Cause::Claims`].
pub(super) fn check(
    claims: Map<String, Value>,
    issuer: &Issuer,
    now: SystemTime,
) -> Result<Principal, Cause> {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (now, leeway) = (since.as_secs_f64(), issuer.leeway.as_secs_f64());
    let expires = date(&claims, "exp")?.ok_or(Cause::Claims)?;
    if now >= expires + leeway {
        return Err(Cause::Expired);
    }
    let ends = match now < expires {
        true => expires,
        false => expires + leeway,
    };
    let issued = date(&claims, "iat")?;
    for begin in [date(&claims, "nbf")?, issued].into_iter().flatten() {
        if now + leeway < begin {
            return Err(Cause::NotYetValid);
        }
    }
    check_audience(&claims, issuer)?;
    let text = |name: &str| match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Cause::Claims),
    };
    let client = match text("azp")? {
        Some(client) => Some(client),
        None => text("client_id")?.or_else(|| application(&claims)),
    };
    let scopes = scopes(&claims)?;
    let subject = text("sub")?.or_else(|| client.clone());
    let id = text("jti")?;
    #[expect(clippy::cast_possible_truncation, reason = "`date` has bounded it")]
    Ok(Principal {
        subject: subject.unwrap_or_default(),
        application: client.clone(),
        scopes,
        // A stream ends when its token does. One that only the leeway lets in gets the leeway.
        expires: Some(UNIX_EPOCH + Duration::from_secs_f64(ends)),
        issued: issued.map(|issued| issued as i64),
        id,
        client,
        is_api_key: false,
        claims,
    })
}

/// `NumericDate`: seconds since 1970, maybe with a fraction.
fn date(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, Cause> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value.as_f64().ok_or(Cause::Claims)?;
    match (0.0..=TIME_MAX).contains(&seconds) {
        true => Ok(Some(seconds)),
        false => Err(Cause::Claims),
    }
}

/// One of `aud`, a text or a list, is one that the issuer's configuration has.
fn check_audience(claims: &Map<String, Value>, issuer: &Issuer) -> Result<(), Cause> {
    if issuer.audience.is_empty() {
        return Ok(());
    }
    let is_ours = |one: &Value| {
        let ours = &issuer.audience;
        one.as_str()
            .is_some_and(|one| ours.iter().any(|own| own == one))
    };
    let has_ours = match claims.get("aud") {
        Some(Value::Array(list)) => list.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    match has_ours {
        true => Ok(()),
        false => Err(Cause::Audience),
    }
}

/// Those of `scope` and of `scp`, each a text with blanks between or a list.
fn scopes(claims: &Map<String, Value>) -> Result<Vec<String>, Cause> {
    let mut scopes: Vec<String> = Vec::new();
    for name in ["scope", "scp"] {
        match claims.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                scopes.extend(text.split_ascii_whitespace().map(str::to_owned))
            }
            Some(Value::Array(list)) => {
                for one in list {
                    scopes.push(one.as_str().ok_or(Cause::Claims)?.to_owned());
                }
            }
            Some(_) => return Err(Cause::Claims),
        }
    }
    match scopes.len() <= SCOPES_MAX {
        true => Ok(scopes),
        false => Err(Cause::Claims),
    }
}

/// Older tokens of API Manager have the application as an object.
fn application(claims: &Map<String, Value>) -> Option<String> {
    let application = claims.get("application")?.as_object()?;
    let name = application.get("uuid").or_else(|| application.get("name"));
    name?.as_str().map(str::to_owned)
}
