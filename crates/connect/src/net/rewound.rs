//! A connection whose first bytes were looked at, to find out what it speaks.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection of which something was read already: that comes again, before the rest.
pub struct Rewound<S> {
    read: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S> Rewound<S> {
    /// Reads `read` first, and then what `stream` has.
    pub fn new(read: Vec<u8>, stream: S) -> Rewound<S> {
        Rewound {
            read,
            at: 0,
            stream,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.at == this.read.len() {
            return Pin::new(&mut this.stream).poll_read(context, into);
        }
        let count = into.remaining().min(this.read.len() - this.at);
        into.put_slice(&this.read[this.at..][..count]);
        this.at += count;
        if this.at == this.read.len() {
            (this.read, this.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn what_was_read_comes_again_before_the_rest() {
        let mut line = Rewound::new(b"abc".to_vec(), &b"def"[..]);
        let mut all = String::new();
        let read = line.read_to_string(&mut all).await;
        assert_eq!((read.ok(), all.as_str()), (Some(6), "abcdef"));
    }
}
