//! Frames: `0x02`, the length of the rest (32 bits, big-endian), then session, channel and data, each
//! with its length in front (`TCPNettyClient` and `MessageCodec` of siddhi-io-tcp).

use std::io;

use bytes::{BufMut as _, Bytes};
use connect::arrivals::Account;
use connect::net::{Clock, Crowd, Pace};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The first byte of every frame.
const START: u8 = 2;

/// Longest frame that is read.
pub(crate) const FRAME_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// A frame of which so many bytes are there is moved no more.
const MOVED_BYTES_MAX: usize = 1 << 20;

/// What a frame carries.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub channel: String,
    pub data: Bytes,
}

/// Appends a frame.
pub(crate) fn write(into: &mut Vec<u8>, session: &str, channel: &str, data: &[u8]) {
    let parts = [session.as_bytes(), channel.as_bytes(), data];
    let len: usize = parts.iter().map(|part| 4 + part.len()).sum();
    into.reserve(len + 5);
    into.push(START);
    into.extend_from_slice(&(len as u32).to_be_bytes());
    for part in parts {
        into.extend_from_slice(&(part.len() as u32).to_be_bytes());
        into.extend_from_slice(part);
    }
}

/// The next frame, which may take its time to begin, but comes at `pace` from then on; `None` at the end,
/// also where it cuts a frame off: that one comes again. Its bytes are held by `account`.
///
/// # Errors
/// What is no frame; [`io::ErrorKind::TimedOut`] with a `Late` for one that does not come.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    pace: Pace,
    crowd: &Crowd,
    account: &mut Account,
) -> io::Result<Option<Frame>> {
    let start = match from.read_u8().await {
        Ok(start) => start,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if start != START {
        return Err(wrong(format!(
            "a frame begins with byte {start} instead of 2: the client does not speak this protocol"
        )));
    }
    let whole = async {
        let mut clock = Clock::start(pace);
        let late = |late| io::Error::new(io::ErrorKind::TimedOut, late);
        let len = clock.wait(crowd, from.read_u32()).await.map_err(late)?? as usize;
        if len > FRAME_BYTES_MAX {
            return Err(wrong(format!(
                "a frame has {len} bytes, more than {FRAME_BYTES_MAX}"
            )));
        }
        if !account.fits(len) {
            return Err(wrong(format!(
                "a frame has {len} bytes, more than this server reads at once (a quarter of \
                 --memory-limit)"
            )));
        }
        // As it comes, so that a length alone takes no memory.
        let mut rest = Vec::new();
        let mut from = from.take(len as u64);
        while rest.len() < len {
            let piece = BLOCK_BYTES.min(len - rest.len());
            clock.stopped(account.hold(rest.len() + piece)).await;
            if rest.capacity() < rest.len() + piece {
                // Room for all of it is made when a part of it is there: pages of memory that nobody
                // writes to cost nothing, and bytes that are moved are there twice.
                let all = match rest.len() >= MOVED_BYTES_MAX {
                    true => len,
                    false => (2 * rest.len()).min(len),
                };
                rest.reserve_exact(all.max(rest.len() + piece) - rest.len());
            }
            let mut into = (&mut rest).limit(piece);
            let read = clock.wait(crowd, from.read_buf(&mut into)).await;
            if read.map_err(late)?? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Bytes::from(rest))
    };
    match whole.await {
        Ok(rest) => parse(rest).map(Some),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(mut rest: Bytes) -> io::Result<Frame> {
    part(&mut rest)?;
    let channel = part(&mut rest)?;
    let channel = std::str::from_utf8(&channel).map_err(|e| wrong(e.to_string()))?;
    let channel = channel.to_owned();
    let data = part(&mut rest)?;
    if !rest.is_empty() {
        return Err(wrong("a frame is longer than its parts".to_owned()));
    }
    Ok(Frame { channel, data })
}

fn part(rest: &mut Bytes) -> io::Result<Bytes> {
    let short = || wrong("a frame is shorter than its parts".to_owned());
    let len = rest.first_chunk().map(|len| u32::from_be_bytes(*len));
    let len = len.ok_or_else(short)? as usize;
    if rest.len() - 4 < len {
        return Err(short());
    }
    let mut part = rest.split_to(4 + len);
    Ok(part.split_off(4))
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use connect::arrivals::Arrivals;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn read_all(mut bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut frames = Vec::new();
            let crowd = Crowd::new(2);
            let mut account = Arc::<Arrivals>::default().open();
            while let Some(frame) = read(&mut bytes, Pace::default(), &crowd, &mut account)
                .await
                .map_err(|e| e.to_string())?
            {
                frames.push((frame.channel, frame.data.to_vec()));
            }
            Ok(frames)
        })
    }

    #[test]
    fn frames_come_back_and_a_torn_one_is_none() {
        let mut bytes = Vec::new();
        write(&mut bytes, "s", "a/b", b"data");
        let first = bytes.len();
        assert_eq!(
            bytes,
            b"\x02\0\0\0\x14\0\0\0\x01s\0\0\0\x03a/b\0\0\0\x04data"
        );
        write(&mut bytes, "s", "c", b"");
        let both = vec![
            ("a/b".to_owned(), b"data".to_vec()),
            ("c".to_owned(), Vec::new()),
        ];
        assert_eq!(read_all(&bytes), Ok(both.clone()));
        for len in 0..bytes.len() {
            let expect = if len < first { 0 } else { 1 };
            let found = read_all(&bytes[..len]).expect("an end is no fault");
            assert_eq!(found, both[..expect], "{len}");
        }
    }

    #[test]
    fn a_frame_that_has_begun_comes_in_its_time() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(64);
            let pace = Pace {
                gap: Some(Duration::from_millis(20)),
                whole: None,
            };
            let crowd = Crowd::new(2);
            let mut account = Arc::<Arrivals>::default().open();
            // What has not begun may take its time.
            let none = read(&mut far, pace, &crowd, &mut account);
            let waited = tokio::time::timeout(Duration::from_millis(60), none).await;
            assert!(waited.is_err());
            for half in [&b"\x02"[..], b"\x02\0", b"\x02\0\0\0\x14\0\0\0\x01s"] {
                near.write_all(half).await.expect("there is room");
                let error = read(&mut far, pace, &crowd, &mut account)
                    .await
                    .expect_err("it is late");
                assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
                assert!(
                    error.to_string().contains("nothing came for 20 ms"),
                    "{error}"
                );
            }
        });
    }

    #[test]
    fn what_is_no_frame_is_told() {
        for (bytes, cause) in [
            (&b"GET / HTTP/1.1\r\n"[..], "begins with byte 71"),
            (b"\x02\xff\xff\xff\xff", "more than"),
            (b"\x02\0\0\0\x04\0\0\0\x01", "shorter"),
            (b"\x02\0\0\0\x0d\0\0\0\0\0\0\0\0\0\0\0\0x", "longer"),
        ] {
            let error = read_all(bytes).expect_err("no frame");
            assert!(error.contains(cause), "{error}");
        }
    }
}
