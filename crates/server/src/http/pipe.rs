//! A body that a thread writes while it is sent.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

/// Bytes of a block, and blocks that wait to be sent: the writer waits beyond that.
const BLOCK: usize = 64 << 10;
const BLOCKS_MAX: usize = 4;

/// What is sent.
pub(super) struct PipeBody(mpsc::Receiver<io::Result<Bytes>>);

/// Where it is written. Dropped without [`PipeWriter::end`], the client sees a body that broke off.
pub(super) struct PipeWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    block: Vec<u8>,
    is_ended: bool,
}

pub(super) fn pipe() -> (PipeWriter, PipeBody) {
    let (sender, receiver) = mpsc::channel(BLOCKS_MAX);
    let writer = PipeWriter {
        sender,
        block: Vec::with_capacity(BLOCK),
        is_ended: false,
    };
    (writer, PipeBody(receiver))
}

impl PipeWriter {
    /// Sends bytes as a frame of their own, behind what was written before.
    pub fn frame(&mut self, bytes: Bytes) -> io::Result<()> {
        self.flush()?;
        let sent = self.sender.blocking_send(Ok(bytes));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone"))
    }

    /// All of it has been written.
    pub fn end(mut self) -> io::Result<()> {
        self.flush()?;
        self.is_ended = true;
        Ok(())
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..count]);
        if self.block.len() == BLOCK {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        let sent = self.sender.blocking_send(Ok(block.into()));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone"))
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        if !self.is_ended {
            let broken = io::Error::other("it could not be read to its end");
            // A client that has gone needs no word.
            self.sender.blocking_send(Err(broken)).ok();
        }
    }
}

impl Body for PipeBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = self.get_mut().0.poll_recv(context);
        next.map(|block| block.map(|block| block.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn received(write: impl FnOnce(PipeWriter) + Send + 'static) -> io::Result<usize> {
        let (writer, body) = pipe();
        let thread = std::thread::spawn(move || write(writer));
        let body = body.collect().await.map(|body| body.to_bytes().len());
        thread.join().expect("no panic");
        body
    }

    #[test]
    fn a_body_comes_whole_or_is_seen_to_break_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            let bytes = 5 * BLOCK * BLOCKS_MAX + 7;
            let whole = received(move |mut writer| {
                writer.write_all(&vec![7; bytes]).expect("it is read");
                writer.end().expect("it is read");
            });
            assert_eq!(whole.await.expect("whole"), bytes);
            let broken = received(|mut writer| writer.write_all(b"half").expect("there is room"));
            broken.await.expect_err("it broke off");
        });
    }
}
