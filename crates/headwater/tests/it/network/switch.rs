//! An address that leads to one server after the other, as where a replica takes over.

use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Bytes that are taken at once.
const PIECE: usize = 64 << 10;

/// Gone when dropped, with its connections.
pub struct Switch {
    pub port: u16,
    shared: Arc<Mutex<Shared>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// `None`: to nobody.
    to: Option<u16>,
    is_stopped: bool,
    open: Vec<TcpStream>,
}

impl Switch {
    pub fn start(to: u16) -> Switch {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Mutex::new(Shared {
            to: Some(to),
            ..Shared::default()
        }));
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for client in listener.incoming() {
                    let mut shared = shared.lock().expect("no panic");
                    if shared.is_stopped {
                        return;
                    }
                    let (Ok(client), Some(to)) = (client, shared.to) else {
                        continue;
                    };
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", to)) {
                        join(&client, &server);
                        shared.open.extend([client, server]);
                    }
                }
            }
        });
        Switch {
            port,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Ends the connections; who comes from now on finds that server, or nobody.
    pub fn lead(&self, to: Option<u16>) {
        let mut shared = self.shared.lock().expect("no panic");
        shared.to = to;
        for stream in shared.open.drain(..) {
            // It may have ended by itself.
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn join(client: &TcpStream, server: &TcpStream) {
    for (from, to) in [(client, server), (server, client)] {
        let handle = |stream: &TcpStream| stream.try_clone().expect("another handle");
        let (mut from, mut to) = (handle(from), handle(to));
        std::thread::spawn(move || {
            let mut piece = vec![0; PIECE];
            while let Ok(len @ 1..) = from.read(&mut piece) {
                if to.write_all(&piece[..len]).is_err() {
                    break;
                }
            }
            from.shutdown(Shutdown::Both).ok();
            to.shutdown(Shutdown::Both).ok();
        });
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.lead(None);
        self.shared.lock().expect("no panic").is_stopped = true;
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        if let Some(accepting) = self.accepting.take() {
            accepting.join().ok();
        }
    }
}
