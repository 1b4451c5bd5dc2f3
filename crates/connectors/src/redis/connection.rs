//! The connection to a server: commands out, replies in, each within its time.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, Cmd, IntoConnectionInfo as _, Pipeline, RedisConnectionInfo, RedisResult};

pub(super) use redis::Value as Reply;

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
        let mut connection = Client::open(info)?.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        // One that wants a password says so now.
        command(&["PING"]).exec(&mut connection)?;
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
            .send_packed_command(&pipeline.get_packed_pipeline())?;
        (0..pipeline.len())
            .map(|_| self.0.recv_response())
            .collect()
    }
}
