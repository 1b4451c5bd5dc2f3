//! A server that takes the place of a database and asks its clients for their files.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::network::{Running, eventually};

const SECRET: &str = "CANARY-OF-THIS-DISK";

/// Questions for the file that were answered, with something or nothing, and what was sent.
type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// The next packet: its number and what is in it.
fn read(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let [a, b, c, number] = head;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload)?;
    Ok((number, payload))
}

/// Version 10, with the capabilities of MySQL 5.7 and `LOCAL INFILE` among them.
fn greeting() -> Vec<u8> {
    let capabilities: u32 = 0x0008_a28f;
    let [low, high] = [capabilities as u16, (capabilities >> 16) as u16];
    let mut greeting = b"\x0a5.7.40-log\0\x01\0\0\0abcdefgh\0".to_vec();
    greeting.extend_from_slice(&low.to_le_bytes());
    greeting.extend_from_slice(&[45, 2, 0]);
    greeting.extend_from_slice(&high.to_le_bytes());
    greeting.push(21);
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    greeting
}

const OK: &[u8] = b"\0\0\0\x02\0\0\0";

/// Lets everybody in, and answers each query with the question for the file.
fn serve(mut stream: TcpStream, path: &str, sent: &Sent) -> std::io::Result<()> {
    stream.write_all(&packet(0, &greeting()))?;
    let (number, _) = read(&mut stream)?;
    stream.write_all(&packet(number + 1, OK))?;
    loop {
        let (number, command) = read(&mut stream)?;
        if command.first() != Some(&3) {
            stream.write_all(&packet(number + 1, OK))?;
            continue;
        }
        stream.write_all(&packet(number + 1, &[b"\xfb", path.as_bytes()].concat()))?;
        let mut all = Vec::new();
        let last = loop {
            let (number, part) = read(&mut stream)?;
            if part.is_empty() {
                break number;
            }
            all.extend_from_slice(&part);
        };
        sent.lock().expect("no panic").push(all);
        stream.write_all(&packet(last.wrapping_add(1), OK))?;
    }
}

/// Starts the server; it ends with the process.
fn start(path: PathBuf) -> (u16, Sent) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let sent = Sent::default();
    let own = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (path, own) = (path.display().to_string(), Arc::clone(&own));
            // It ends when the client goes.
            std::thread::spawn(move || serve(stream, &path, &own).ok());
        }
    });
    (port, sent)
}

#[test]
fn a_database_that_asks_for_a_file_gets_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let secret = dir.path().join("secret");
    fs::write(&secret, SECRET).expect("the folder can be written");
    let store = "@app:name('Store') define stream In (n int);
        @store(type='rdbms', jdbc.url='{url}') define table T (n int);
        from In select n insert into T;";
    let changes = "@app:name('Changes')
        @source(type='cdc', url='{url}', username='u', password='p', table.name='t', operation='insert', @map(type='keyvalue'))
        define stream In (n int);
        from In select n insert into Out;";
    for (name, app) in [("store", store), ("changes", changes)] {
        let (port, sent) = start(secret.clone());
        let url = format!("jdbc:mysql://127.0.0.1:{port}/d?user=u&password=p");
        let path = dir.path().join(format!("{name}.siddhi"));
        fs::write(&path, app.replace("{url}", &url)).expect("the folder can be written");
        let run = Running::start(&[&path.display().to_string()]);
        eventually("it has answered", || {
            sent.lock().expect("no panic").len() > 1
        });
        for all in sent.lock().expect("no panic").iter() {
            let text = String::from_utf8_lossy(all);
            assert!(!text.contains(SECRET), "{name}: {text}");
        }
        run.kill();
    }
}
