//! How servers that wait for connections show that they are ready.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::Place;

/// How long a server may take to say a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// The port takes connections.
pub(crate) fn listens(place: &Place) -> Result<(), String> {
    connect(place).map(drop).map_err(|error| error.to_string())
}

/// A connection is greeted by `word`. A port that speaks TLS (`tls` of the order) only takes connections.
pub(crate) fn greets(place: &Place, word: &[u8]) -> Result<(), String> {
    match place.setting("tls") {
        Some(_) => listens(place),
        None => answers_with(place, b"", &[word]),
    }
}

/// Who asks this is answered by one of these words.
pub(crate) fn answers_with(place: &Place, question: &[u8], words: &[&[u8]]) -> Result<(), String> {
    let asked = connect(place).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(question)?;
        let mut said = Vec::new();
        let mut byte = [0];
        while words
            .iter()
            .any(|word| word.starts_with(&said) && *word != said)
        {
            stream.read_exact(&mut byte)?;
            said.push(byte[0]);
        }
        Ok(said)
    });
    match asked {
        Ok(said) if words.contains(&said.as_slice()) => Ok(()),
        Ok(said) => Err(format!("it says '{}'", String::from_utf8_lossy(&said))),
        Err(error) => Err(error.to_string()),
    }
}

fn connect(place: &Place) -> io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", place.port()))
}
