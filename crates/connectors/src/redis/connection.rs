//! The connection to a server: commands out, replies in, each within its time.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, Cmd, IntoConnectionInfo as _, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
};

pub(super) use redis::Value as Reply;

use connect::error::unanswered;

/// How long a connection, and then each reply, may take. A server of this kind does one thing at a time,
/// so that another connection would tell no more of it.
const PATIENCE: Duration = Duration::from_millis(3500);

/// A command of its name and what follows.
pub(super) fn command(parts: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for part in parts {
        command.arg(part);
    }
    command
}

/// A reply that is text.
pub(super) fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::SimpleString(text) => Some(text),
        Reply::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Why the server refuses a command, where a reply says so.
pub(super) fn refusal(reply: &Reply) -> Option<String> {
    match reply {
        Reply::ServerError(error) => Some(match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        }),
        _ => None,
    }
}

pub(super) struct Connection(redis::Connection);

impl Connection {
    pub fn open(host: &str, port: u16, password: Option<&str>) -> RedisResult<Connection> {
        let mut login = RedisConnectionInfo::default();
        if let Some(password) = password {
            login = login.set_password(password);
        }
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_user_timeout(PATIENCE);
        let info = (host, port).into_connection_info()?;
        let info = info.set_tcp_settings(tcp).set_redis_settings(login);
        let opened = Client::open(info)?.get_connection_with_timeout(PATIENCE);
        let mut connection = opened.map_err(late)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        // One that wants a password says so now.
        command(&["PING"]).exec(&mut connection).map_err(late)?;
        Ok(Connection(connection))
    }

    /// Sends commands and gives their replies, one each. A pipeline of the library would wait for each
    /// reply of a server that is silent.
    pub fn ask(&mut self, commands: Vec<Cmd>) -> RedisResult<Vec<Reply>> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command);
        }
        self.0
            .send_packed_command(&pipeline.get_packed_pipeline())
            .map_err(late)?;
        (0..pipeline.len())
            .map(|_| self.0.recv_response().map_err(late))
            .collect()
    }
}

/// What the system says of a reply that did not come in time is not understood by anybody.
fn late(error: RedisError) -> RedisError {
    match error.is_timeout() {
        true => unanswered(PATIENCE).into(),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_silent_is_named_as_that() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = silent.local_addr().expect("an address").port();
        let Err(error) = Connection::open("127.0.0.1", port, None) else {
            panic!("nobody answers");
        };
        let said = error.to_string();
        assert!(said.contains("no answer within 3500 ms"), "{said}");
    }
}
