//! Ports of loopback for servers that are told where to listen.
//!
//! Promises: a port that was given is given to nobody else who asks here while this process runs, in
//! this process or another; the system gives it to no connection of its own accord, because it lies
//! below those that it chooses from. Never: a port on which somebody listens now.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// The first port that is given.
const FIRST: u16 = 10_000;

/// Ports that a process takes hold of at once.
const BLOCK: u16 = 64;

/// Where the system says from which ports it chooses, and from where it does so by default.
const SYSTEM: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const SYSTEM_FIRST: u16 = 32_768;

/// What this process holds. The ports of a block are each given once.
static HELD: Mutex<Vec<Block>> = Mutex::new(Vec::new());

struct Block {
    left: Range<u16>,
    /// Locked by this process, until it ends, however it ends.
    _lock: File,
}

/// A port on which nobody listens, and which nobody else is given.
///
/// # Errors
/// All are taken, or the folder of the locks cannot be written.
pub fn free_port() -> Result<u16, Error> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let last = held.last_mut().and_then(|block| block.left.next());
        match last {
            Some(port) if is_free(port) => return Ok(port),
            // Somebody who does not ask here has it.
            Some(_) => {}
            None => held.push(hold()?),
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// The next block that nobody holds.
fn hold() -> Result<Block, Error> {
    let folder = std::env::temp_dir().join("headwater-servers/ports");
    fs::create_dir_all(&folder).map_err(|e| Error::failed("no folder for ports", e))?;
    let count = (end() - FIRST) / BLOCK;
    // Who comes next begins elsewhere: the ports of a process that has just ended may rest a while.
    let begin = (std::process::id() % u32::from(count)) as u16;
    let blocks = (0..count).map(|at| FIRST + (begin + at) % count * BLOCK);
    let mut held = blocks.filter_map(|first| {
        Some(Block {
            left: first..first + BLOCK,
            _lock: locked(&folder.join(first.to_string()))?,
        })
    });
    held.next()
        .ok_or_else(|| Error::failed("no free port", "other processes hold them all"))
}

/// `None` where another holds it, or it is another account's.
fn locked(path: &Path) -> Option<File> {
    let file = File::options().create(true).append(true).open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Behind the last port that is given: where the system's own begin. Where those leave too little room
/// below them, the usual ones.
fn end() -> u16 {
    let text = fs::read_to_string(SYSTEM).unwrap_or_default();
    let first = text.split_whitespace().next();
    first
        .and_then(|first| first.parse().ok())
        .filter(|first| (2 * FIRST..=SYSTEM_FIRST).contains(first))
        .unwrap_or(SYSTEM_FIRST)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice_nor_one_that_is_taken() {
        let first = free_port().expect("there are some");
        let taken = (first + 1..first + BLOCK)
            .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .next();
        let taken = taken.and_then(|listener| Some((listener.local_addr().ok()?, listener)));
        let (address, _listener) = taken.expect("one of them can be listened on");
        let ports: Vec<u16> = (0..3 * BLOCK).map(|_| free_port().expect("more")).collect();
        let all: HashSet<u16> = ports.iter().copied().chain([first]).collect();
        assert_eq!(all.len(), ports.len() + 1);
        assert!(!all.contains(&address.port()));
        assert!(ports.iter().all(|port| (FIRST..end()).contains(port)));
    }

    #[test]
    fn a_block_that_is_held_is_held_by_one() {
        let folder = std::env::temp_dir().join("headwater-servers/ports");
        free_port().expect("there are some");
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        for block in held.iter() {
            let path = folder.join((block.left.end - BLOCK).to_string());
            assert!(locked(&path).is_none(), "{}", path.display());
        }
    }
}
