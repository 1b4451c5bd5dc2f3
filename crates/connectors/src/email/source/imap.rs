//! The dialogue with an IMAP server, by async-imap over our own lines.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_imap::{Client, Session};
use futures_util::StreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use crate::email::slow_server;
use connect::error::Error;
use connect::net::{ClientTls, Line, dial};

/// Longest wait for a connection, and for an answer.
const CONNECT: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(60);

/// A folder of a mailbox, and how to get there.
pub(super) struct Mailbox {
    pub user: String,
    pub password: String,
    pub host: String,
    pub port: u16,
    pub folder: String,
    pub tls: Option<Arc<ClientTls>>,
}

/// A line that says no more of itself than that: what goes over it is secret.
struct Quiet(Box<dyn Line>);

impl fmt::Debug for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line")
    }
}

impl AsyncRead for Quiet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Quiet {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// An open folder.
pub(super) struct Wire {
    runtime: Runtime,
    session: Session<Quiet>,
    peer: String,
    can_move: bool,
    /// Single mails can be deleted for good.
    can_expunge: bool,
}

impl Mailbox {
    fn peer(&self) -> String {
        format!("mail server '{}:{}'", self.host, self.port)
    }

    /// Connects, logs in and opens the folder; with it the validity of its numbers.
    pub fn open(&self) -> Result<(Wire, u32), Error> {
        let peer = self.peer();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::unavailable(peer.clone(), error))?;
        let (session, validity, can_move, can_expunge) =
            runtime.block_on(within(&peer, CONNECT, self.session()))?;
        let wire = Wire {
            runtime,
            session,
            peer,
            can_move,
            can_expunge,
        };
        Ok((wire, validity))
    }

    async fn session(&self) -> Result<(Session<Quiet>, u32, bool, bool), Error> {
        let unavailable = |cause: String| Error::unavailable(self.peer(), cause);
        let place = (self.host.as_str(), self.port);
        let line = dial(place, CONNECT, self.tls.as_deref()).await;
        let line = line.map_err(|error| unavailable(error.to_string()))?;
        let mut client = Client::new(Quiet(line));
        let greeting = client.read_response().await;
        if greeting.map_err(|e| unavailable(e.to_string()))?.is_none() {
            return Err(unavailable("it closed the connection at once".to_owned()));
        }
        let login = client.login(&self.user, &self.password).await;
        let mut session = login.map_err(|(error, _)| {
            let cause = format!("it does not let '{}' in: {error}", self.user);
            match error {
                async_imap::error::Error::No(_) | async_imap::error::Error::Bad(_) => {
                    Error::denied(self.peer(), cause)
                }
                _ => unavailable(cause),
            }
        })?;
        let capabilities = session.capabilities().await;
        let capabilities = capabilities.map_err(|error| unavailable(error.to_string()))?;
        let can = |name: &str| capabilities.has_str(name);
        let (can_move, can_expunge) = (can("MOVE"), can("UIDPLUS"));
        let opened = session.select(&self.folder).await.map_err(|error| {
            unavailable(format!(
                "folder '{}' cannot be opened: {error}",
                self.folder
            ))
        })?;
        Ok((
            session,
            opened.uid_validity.unwrap_or(1),
            can_move,
            can_expunge,
        ))
    }
}

impl Wire {
    fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Session<Quiet>) -> async_imap::error::Result<T>,
    ) -> Result<T, Error> {
        let Wire {
            runtime,
            session,
            peer,
            ..
        } = self;
        let done = async {
            let done = work(session).await;
            done.map_err(|error| Error::unavailable(peer.clone(), error))
        };
        runtime.block_on(within(peer, ANSWER, done))
    }

    /// Numbers of the mails that the conditions hold for, ascending.
    pub fn search(&mut self, conditions: &str) -> Result<Vec<u32>, Error> {
        let text = match conditions.is_ascii() {
            true => conditions.to_owned(),
            false => format!("CHARSET UTF-8 {conditions}"),
        };
        let found = self.run(async |session| session.uid_search(&text).await)?;
        let mut uids: Vec<u32> = found.into_iter().collect();
        uids.sort_unstable();
        Ok(uids)
    }

    /// The whole mail; `None` where it is not there any more. It is not marked by that.
    pub fn fetch(&mut self, uid: u32) -> Result<Option<Vec<u8>>, Error> {
        self.run(async |session| {
            let mut mails = session
                .uid_fetch(uid.to_string(), "(UID BODY.PEEK[])")
                .await?;
            let mut found = None;
            while let Some(mail) = mails.next().await {
                let mail = mail?;
                if mail.uid == Some(uid) {
                    found = mail.body().map(<[u8]>::to_vec);
                }
            }
            Ok(found)
        })
    }

    pub fn mark(&mut self, uids: &[u32], mark: &str) -> Result<(), Error> {
        let change = format!("+FLAGS.SILENT (\\{mark})");
        self.run(async |session| {
            let mut changed = session.uid_store(list(uids), change).await?;
            while let Some(one) = changed.next().await {
                one?;
            }
            Ok(())
        })
    }

    /// Marks them as deleted and takes them out.
    pub fn delete(&mut self, uids: &[u32]) -> Result<(), Error> {
        self.mark(uids, "Deleted")?;
        let can_expunge = self.can_expunge;
        self.run(async |session| {
            if can_expunge {
                let gone = session.uid_expunge(list(uids)).await?;
                let mut gone = std::pin::pin!(gone);
                while let Some(one) = gone.next().await {
                    one?;
                }
            } else {
                let gone = session.expunge().await?;
                let mut gone = std::pin::pin!(gone);
                while let Some(one) = gone.next().await {
                    one?;
                }
            }
            Ok(())
        })
    }

    pub fn relocate(&mut self, uids: &[u32], folder: &str) -> Result<(), Error> {
        if self.can_move {
            return self.run(async |session| session.uid_mv(list(uids), folder).await);
        }
        self.run(async |session| session.uid_copy(list(uids), folder).await)?;
        self.delete(uids)
    }

    /// Says good-bye; nothing depends on the answer.
    pub fn leave(&mut self) {
        if let Err(error) = self.run(async |session| session.logout().await) {
            tracing::debug!(
                cause = connect::error::chain(&error),
                "mail server closed the connection first"
            );
        }
    }
}

fn list(uids: &[u32]) -> String {
    let texts: Vec<String> = uids.iter().map(u32::to_string).collect();
    texts.join(",")
}

async fn within<T>(
    peer: &str,
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let answered = slow_server::wait(peer, limit, work).await;
    answered.unwrap_or_else(|| {
        let cause = format!("no answer within {} s", limit.as_secs());
        Err(Error::unavailable(peer, cause))
    })
}
