//! SQL by Flight SQL: what the crate `sql` answers, at the door of the server.

use std::borrow::Cow;
use std::sync::Arc;

use ::sql::flight::FlightSql;
use server::Error;
use server::access::Door;
use server::flight::Flight;
use server::http::HttpOptions;
use server::secrets::Hidden;

use super::ServedSql;

/// Answers SQL by Flight SQL.
///
/// # Errors
/// There is no store; it cannot listen.
pub fn serve_flight(
    options: &HttpOptions,
    door: Door,
    sql: &ServedSql,
    hidden: &Hidden,
) -> anyhow::Result<Flight> {
    let asked = match &sql.asked {
        Ok(asked) => asked,
        Err(why) => return Err(Error::Usage((*why).to_owned()).into()),
    };
    let hidden = hidden.clone();
    let hide = move |text: &str| match hidden.hide(text) {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    };
    let service = FlightSql::new(
        Arc::clone(&asked.engine),
        asked.dir.clone(),
        sql.http.turns(),
        Arc::new(hide),
    )?;
    Ok(server::flight::serve(options, door, service.router())?)
}
