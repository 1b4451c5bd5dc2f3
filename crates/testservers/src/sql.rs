//! The databases' own clients: what a test asks of a database behind our back.

use std::process::Command;

use crate::{Error, run};

/// Runs SQL in the database of the tests: a line for each row, columns between tabs, null as `NULL`.
/// `server` is the name of its recipe.
///
/// # Errors
/// Those of [`run`]; the words are the client's.
pub fn sql(server: &str, port: u16, text: &str) -> Result<String, Error> {
    let port = port.to_string();
    if server == "postgres" {
        return run(Command::new("psql")
            .env("PGPASSWORD", "headwater")
            .args(["-X", "-q", "-t", "-A", "-F", "\t", "-P", "null=NULL"])
            .args(["-h", "127.0.0.1", "-p", &port, "-U", "headwater"])
            .args(["-c", text, "headwater"]));
    }
    run(Command::new("mariadb")
        .args(["--no-defaults", "-h127.0.0.1", "-uheadwater", "-pheadwater"])
        .args(["--default-character-set=utf8mb4", "-N", "-B", "-P", &port])
        .args(["-e", text, "headwater"]))
}
