//! A connection to a broker: TLS, versions, login, and one request after the other; a writer has several
//! on their way.
//!
//! Promises: no response is longer than the client allows, and its bytes are held in the server's
//! budget before there is room for them; a broker that has said nothing for a while is known by its
//! [`Pulse`]. Never: a request that is sent twice.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::config::Config;
use super::message::{self, Api, Malformed, Versions};
use super::sasl::Mechanism;
use connect::arrivals::Account;
use connect::error::{chain, unanswered};
use connect::net::{Line, dial};

/// Longest response that is about no records.
const WORDS_MAX: usize = 64 << 20;

/// Since when a broker owes an answer, or has last said some of it.
#[derive(Debug)]
pub(super) struct Pulse {
    begin: Instant,
    /// Milliseconds since `begin`, from 1; 0 while nothing is owed.
    since: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse {
            begin: Instant::now(),
            since: AtomicU64::new(0),
        }
    }
}

impl Pulse {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64 + 1
    }

    fn beat(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
    }

    fn rest(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// How it is said that it has owed an answer for too long.
    pub fn quiet(&self, silent: Duration) -> Option<String> {
        let silence = self.silence().filter(|silence| *silence >= silent)?;
        Some(format!("has not answered for {} s", silence.as_secs()))
    }

    /// For how long it has been silent, where it owes an answer.
    pub fn silence(&self) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_millis(self.now().saturating_sub(since)))
    }
}

/// Nothing is owed any more, however a wait ends.
struct Waiting<'a>(&'a Pulse);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.rest();
    }
}

pub(super) struct Connection {
    line: Box<dyn Line>,
    config: Arc<Config>,
    pulse: Arc<Pulse>,
    versions: Versions,
    correlation: i32,
    /// Bytes of responses to requests that several are on their way of, and how many those are.
    arrived: BytesMut,
    owed: usize,
}

/// A connection that is given up owes nothing.
impl Drop for Connection {
    fn drop(&mut self) {
        self.pulse.rest();
    }
}

impl Connection {
    /// Connects, asks for the versions and logs in.
    ///
    /// # Errors
    /// Why that came to nothing.
    pub async fn open(
        config: &Arc<Config>,
        (host, port): (&str, u16),
        pulse: &Arc<Pulse>,
    ) -> Result<Connection, String> {
        pulse.beat();
        let waiting = Waiting(pulse);
        let line = dial((host, port), config.connect, config.tls.as_ref()).await;
        drop(waiting);
        let mut connection = Connection {
            line: line.map_err(|error| chain(&error))?,
            config: Arc::clone(config),
            pulse: Arc::clone(pulse),
            versions: Versions::default(),
            correlation: 0,
            arrived: BytesMut::new(),
            owed: 0,
        };
        let body = connection
            .exchange(Api::Versions, 0, |_, _| {}, None)
            .await?;
        connection.versions = Versions::decode(&body).map_err(|Malformed(cause)| cause)?;
        connection.log_in().await?;
        Ok(connection)
    }

    async fn log_in(&mut self) -> Result<(), String> {
        let config = Arc::clone(&self.config);
        let Some(login) = &config.login else {
            return Ok(());
        };
        let name = login.mechanism.name();
        let put = |out: &mut Vec<u8>, _| message::put_text(out, name);
        let body = self.exchange(Api::SaslHandshake, 1, put, None).await?;
        message::handshaken(&body)?;
        match login.mechanism {
            Mechanism::Plain => self.say(login.plain()).await.map(|_| ()),
            _ => {
                let mut scram = login.scram()?;
                let said = self.say(scram.first()).await?;
                let said = self.say(scram.answer(&said)?).await?;
                scram.judge(&said)
            }
        }
    }

    /// One turn of a login.
    async fn say(&mut self, words: Vec<u8>) -> Result<Vec<u8>, String> {
        let put = |out: &mut Vec<u8>, _| message::put_bytes(out, &words);
        let body = self.exchange(Api::SaslAuthenticate, 0, put, None).await?;
        message::authenticated(&body).map(<[u8]>::to_vec)
    }

    /// Asks, and waits for the answer: its bytes and its version. With an account, its bytes are held by that
    /// before they are read.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn ask(
        &mut self,
        api: Api,
        put: impl FnOnce(&mut Vec<u8>, i16),
        account: Option<&mut Account>,
    ) -> Result<(Bytes, i16), String> {
        let version = self.versions.of(api).map_err(|Malformed(cause)| cause)?;
        let body = self.exchange(api, version, put, account).await?;
        Ok((body, version))
    }

    // ---- several requests on their way ----

    /// The header of the next request that is sent by [`Connection::send`], and its version.
    ///
    /// # Errors
    /// The broker speaks no version of it that is spoken here.
    pub fn begin(&mut self, api: Api) -> Result<(Vec<u8>, i16), String> {
        let version = self.versions.of(api).map_err(|Malformed(cause)| cause)?;
        self.correlation = self.correlation.wrapping_add(1);
        let header = message::begin(api, version, self.correlation, &self.config.client);
        Ok((header, version))
    }

    /// The number of the last request that was begun, by which its answer is known.
    pub fn correlation(&self) -> i32 {
        self.correlation
    }

    /// Writes a whole request, which lies in pieces. Its answer comes by [`Connection::answer`].
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn send(&mut self, mut pieces: &mut [IoSlice<'_>]) -> Result<(), String> {
        if self.owed == 0 {
            self.pulse.beat();
        }
        self.owed += 1;
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let writing = self.line.write_vectored(pieces);
            let written = tokio::time::timeout(self.config.answer, writing).await;
            let written = written.unwrap_or_else(|_| Err(unanswered(self.config.answer)));
            match written.map_err(|error| chain(&error))? {
                0 => return Err("it closed the connection".to_owned()),
                written => IoSlice::advance_slices(&mut pieces, written),
            }
        }
        // What TLS has kept back.
        self.line.flush().await.map_err(|error| chain(&error))
    }

    /// The next response and the number of its request. A call that is dropped takes nothing with it.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn answer(&mut self) -> Result<(i32, Bytes), String> {
        loop {
            if let Some(length) = self.arrived.first_chunk().copied() {
                let length = usize::try_from(i32::from_be_bytes(length)).ok();
                let length = length.filter(|length| (4..=WORDS_MAX).contains(length));
                let length = length.ok_or("it answers with a length that is no response")?;
                if self.arrived.len() >= 4 + length {
                    let mut response = self.arrived.split_to(4 + length);
                    let head = response.split_to(8);
                    let number = head.last_chunk().copied();
                    if self.owed == 0 {
                        return Err("it answers a request that was not sent".to_owned());
                    }
                    self.owed -= 1;
                    match self.owed {
                        0 => self.pulse.rest(),
                        _ => self.pulse.beat(),
                    }
                    let number = number.map_or(0, i32::from_be_bytes);
                    return Ok((number, response.freeze()));
                }
            }
            let read = self.line.read_buf(&mut self.arrived).await;
            if read.map_err(|error| chain(&error))? == 0 {
                return Err("it closed the connection".to_owned());
            }
            if self.owed > 0 {
                self.pulse.beat();
            }
        }
    }

    async fn exchange(
        &mut self,
        api: Api,
        version: i16,
        put: impl FnOnce(&mut Vec<u8>, i16),
        account: Option<&mut Account>,
    ) -> Result<Bytes, String> {
        self.correlation = self.correlation.wrapping_add(1);
        let mut request = message::begin(api, version, self.correlation, &self.config.client);
        put(&mut request, version);
        message::end(&mut request);
        let pulse = Arc::clone(&self.pulse);
        pulse.beat();
        let _waiting = Waiting(&pulse);
        let written = tokio::time::timeout(self.config.answer, self.line.write_all(&request)).await;
        let written = written.unwrap_or_else(|_| Err(unanswered(self.config.answer)));
        written.map_err(|error| chain(&error))?;
        self.receive(account).await
    }

    /// The body of the next response.
    async fn receive(&mut self, account: Option<&mut Account>) -> Result<Bytes, String> {
        let length = self.read(4).await?;
        let length = length.first_chunk().copied().map_or(-1, i32::from_be_bytes);
        let bytes_max = match account {
            Some(_) => self.config.response_bytes_max,
            None => WORDS_MAX,
        };
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (4..=bytes_max).contains(length));
        let length = length.ok_or_else(|| {
            format!(
                "it answers with a length that is no response of at most {bytes_max} bytes: it may \
                 expect TLS, or be no Kafka broker (property 'receive.message.max.bytes')"
            )
        })?;
        if let Some(account) = account {
            if !account.fits(length) {
                return Err(format!(
                    "its response of {length} bytes is more than the server may hold \
                     (--memory-limit): lower property 'fetch.max.bytes'"
                ));
            }
            // Waiting for room is not the broker's silence.
            self.pulse.rest();
            account.hold(length).await;
            self.pulse.beat();
        }
        let mut body = self.read(length).await?;
        let correlation = body.split_to(4);
        if correlation[..] != self.correlation.to_be_bytes() {
            return Err("it answers another request than the one that was sent".to_owned());
        }
        Ok(body.freeze())
    }

    /// So many bytes, the first of them soon enough and the others one after the other.
    async fn read(&mut self, length: usize) -> Result<BytesMut, String> {
        let mut bytes = BytesMut::with_capacity(length);
        while bytes.len() < length {
            let missing = length - bytes.len();
            let mut rest = (&mut bytes).limit(missing);
            let reading = self.line.read_buf(&mut rest);
            let read = tokio::time::timeout(self.config.answer, reading).await;
            let read = read.unwrap_or_else(|_| Err(unanswered(self.config.answer)));
            if read.map_err(|error| chain(&error))? == 0 {
                return Err("it closed the connection".to_owned());
            }
            self.pulse.beat();
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_silent_only_while_it_owes_an_answer() {
        let pulse = Pulse::default();
        assert_eq!(pulse.silence(), None);
        pulse.beat();
        let waiting = Waiting(&pulse);
        assert!(pulse.silence().is_some());
        drop(waiting);
        assert_eq!(pulse.silence(), None);
    }
}
