//! Who a client is, and whether it may do what it asks for.

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};

use super::Port;
use super::answer::{Answer, refused};
use crate::model::Operation;

/// Lets a client through, or says why not.
pub(super) fn judge(operation: &Operation, port: &Port) -> Result<(), Box<Answer>> {
    if !operation.is_secured {
        return Ok(());
    }
    port.gateway.counts.refused.access.add(1);
    let mut answer = refused(StatusCode::UNAUTHORIZED, "a token is missing");
    let bearer = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    Err(Box::new(answer))
}
