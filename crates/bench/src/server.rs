//! A small server of this process, for what is measured to talk to: one thread of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Ends, with its connections, when it is dropped.
pub(crate) struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on a free port of this address and has `answer` talk to each client. What ends a connection ends
    /// that one alone: its client tries again.
    ///
    /// # Errors
    /// No port or no thread can be had.
    pub fn start<A, F>(name: &str, at: Ipv4Addr, answer: A) -> anyhow::Result<Server>
    where
        A: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output: Send> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind((at, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let serve = async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).ok();
                tokio::spawn(answer(stream));
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Server {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A thread that has ended needs no telling.
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
