use bytes::BytesMut;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;
use crate::url::Url;

fn run<F: Future>(work: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build();
    let runtime = runtime.expect("a runtime can be had");
    let limit = std::time::Duration::from_secs(20);
    let limited = async { tokio::time::timeout(limit, work).await };
    runtime.block_on(limited).expect("it ends in time")
}

fn url() -> Url {
    Url::parse("http://h:8025/in?q=1").expect("it is a URL")
}

/// Both ends of a connection over a line that holds so many bytes.
async fn connected(room: usize, deflate: bool) -> (Opened<DuplexStream>, Opened<DuplexStream>) {
    let (near, far) = duplex(room);
    let (url, headers) = (url(), HeaderMap::new());
    let ask = Ask {
        url: &url,
        headers: &headers,
        message_max: 1 << 20,
        deflate,
    };
    let accepting = accept(far, 1 << 20, deflate, |_| Ok(None));
    let (client, server) = tokio::join!(shake(near, &ask), accepting);
    (
        client.expect("it is let in").0,
        server.expect("it asks well"),
    )
}

fn text(text: &str) -> Event {
    Event::Message {
        kind: Kind::Text,
        payload: Bytes::copy_from_slice(text.as_bytes()),
    }
}

// rules: S1, S2
#[test]
fn messages_go_both_ways_compressed_or_not() {
    for deflate in [false, true] {
        run(async {
            let (client, server) = connected(64, deflate).await;
            assert_eq!(client.agreed.is_some(), deflate);
            let (mut from_server, mut to_server) = client.split();
            let (mut from_client, mut to_client) = server.split();
            let long = "a long message ".repeat(5000);
            let serving = async {
                while let Ok(Some(Event::Message { kind, payload })) = from_client.next().await {
                    to_client.message(kind, &payload);
                    to_client.flush().await.expect("the client reads");
                }
                leave(from_client, to_client, None).await;
            };
            let asking = async {
                for said in ["a", "", &long, "é"] {
                    to_server.message(Kind::Text, &Bytes::copy_from_slice(said.as_bytes()));
                    let (flushed, heard) = tokio::join!(to_server.flush(), from_server.next());
                    flushed.expect("the server reads");
                    assert_eq!(heard.expect("it is right"), Some(text(said)));
                }
                leave(from_server, to_server, None).await;
            };
            tokio::join!(serving, asking);
        });
    }
}

// rules: S1
#[test]
fn pings_are_answered_though_nobody_writes() {
    run(async {
        let (client, server) = connected(1 << 10, false).await;
        let (mut from_server, mut to_server) = client.split();
        let (mut from_client, _to_client) = server.split();
        let serving = async {
            let mut pings = 0;
            while let Some(Event::Ping(_)) = from_client.next().await.expect("it is right") {
                pings += 1;
            }
            pings
        };
        let asking = async {
            for number in 0..200_u8 {
                to_server.ping(&[number; 100]);
            }
            to_server.message(Kind::Text, &Bytes::from_static(b"end"));
            let reading = async {
                for number in 0..200_u8 {
                    let pong = Event::Pong(Bytes::from(vec![number; 100]));
                    assert_eq!(from_server.next().await.expect("it is right"), Some(pong));
                }
            };
            let (flushed, ()) = tokio::join!(to_server.flush(), reading);
            flushed.expect("the server reads");
        };
        let (pings, ()) = tokio::join!(serving, asking);
        assert_eq!(pings, 200);
    });
}

// rules: S1
#[test]
fn who_takes_no_pongs_is_read_no_further() {
    run(async {
        let (client, server) = connected(512, false).await;
        let (_from_server, mut to_server) = client.split();
        let (mut from_client, to_client) = server.split();
        let serving = async { while from_client.next().await.is_ok() {} };
        let asking = async {
            let mut sent = 0;
            loop {
                to_server.ping(&[7; 125]);
                let flushed =
                    tokio::time::timeout(std::time::Duration::from_millis(50), to_server.flush());
                match flushed.await {
                    Ok(flushed) => flushed.expect("the server is there"),
                    Err(_) => return sent,
                }
                sent += 1;
            }
        };
        let sent = tokio::select! {
            () = serving => unreachable!("the client is there"),
            sent = asking => sent,
        };
        assert!(sent < 1000, "{sent}");
        let waiting = lock(&to_client.wire).pong_bytes;
        assert!(waiting < UNREAD_PONG_BYTES_MAX + BLOCK_BYTES, "{waiting}");
    });
}

// rules: S1
#[test]
fn a_close_is_answered_by_the_same_and_ends_the_line() {
    run(async {
        let (client, server) = connected(1 << 10, false).await;
        let (mut from_server, mut to_server) = client.split();
        let (mut from_client, to_client) = server.split();
        let close = Close::new(Code(4321), "enough");
        to_server.close(Some(&close));
        to_server.message(Kind::Text, &Bytes::from_static(b"too late"));
        let serving = async {
            let heard = from_client.next().await.expect("it is right");
            assert_eq!(heard, Some(Event::Close(Some(close.clone()))));
            leave(
                from_client,
                to_client,
                Some(&Close::new(Code::NORMAL, "unsaid")),
            )
            .await;
        };
        let asking = async {
            to_server.flush().await.expect("the server reads");
            let heard = from_server.next().await.expect("it is right");
            assert_eq!(heard, Some(Event::Close(Some(close.clone()))));
            assert!(matches!(from_server.next().await, Ok(None)));
            drop((from_server, to_server));
        };
        tokio::join!(serving, asking);
    });
}

// rules: S1
#[test]
fn who_breaks_the_protocol_or_goes_is_told_apart() {
    run(async {
        let (client, server) = connected(1 << 10, false).await;
        let (mut from_client, to_client) = server.split();
        let mut line = client.line;
        line.write_all(b"\x81\x05Hello").await.expect("it is open");
        let fault = from_client.next().await.expect_err("no mask");
        let Unread::Fault(fault) = fault else {
            panic!("{fault}");
        };
        let close = Close::new(fault.code(), fault.to_string());
        let leaving = leave(from_client, to_client, Some(&close));
        let hearing = async {
            let mut heard = Vec::new();
            line.read_to_end(&mut heard)
                .await
                .expect("it ends in order");
            assert_eq!(&heard[..4], [0x88, heard.len() as u8 - 2, 3, 0xea]);
            drop(line);
        };
        tokio::join!(leaving, hearing);
        let (client, server) = connected(1 << 10, false).await;
        let (mut from_client, _to_client) = server.split();
        drop(client);
        assert!(matches!(from_client.next().await, Err(Unread::Gone)));
    });
}

// rules: S3
#[test]
fn requests_that_are_no_handshakes_are_refused() {
    const GOOD: &str = "GET /a HTTP/1.1\r\nHost: h\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let answer = |request: String| {
        run(async {
            let (mut near, far) = duplex(64 << 10);
            near.write_all(request.as_bytes())
                .await
                .expect("it is open");
            let choose = |headers: &HeaderMap| match headers.contains_key("origin") {
                true => Err(Refusal::new(StatusCode::FORBIDDEN, "no pages")),
                false => Ok(Some(HeaderValue::from_static("b"))),
            };
            let accepted = accept(far, 99, false, choose).await;
            let is_in = accepted.is_ok();
            drop(accepted);
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.expect("it is text");
            assert_eq!(is_in, answer.starts_with("HTTP/1.1 101 "), "{answer}");
            answer
        })
    };
    let accepted = answer(GOOD.to_owned());
    assert!(
        accepted.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{accepted}"
    );
    assert!(
        accepted.contains("sec-websocket-protocol: b\r\n"),
        "{accepted}"
    );
    for (from, to, status) in [
        ("GET /a", "POST /a", "400"),
        ("HTTP/1.1", "HTTP/1.0", "400"),
        ("Upgrade: WebSocket", "Upgrade: h2c", "400"),
        ("keep-alive, Upgrade", "keep-alive", "400"),
        ("Version: 13", "Version: 8", "426"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhl", "400"),
        (
            "Host: h",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "400",
        ),
        ("Host: h", "Origin: http://other", "403"),
        ("Host: h", "no header", "400"),
    ] {
        let refused = answer(GOOD.replace(from, to));
        assert!(
            refused.starts_with(&format!("HTTP/1.1 {status} ")),
            "{to}: {refused}"
        );
        assert_eq!(
            refused.contains("sec-websocket-version: 13"),
            status == "426"
        );
    }
    let endless = format!("GET /a HTTP/1.1\r\nA: {}", "a".repeat(40_000));
    assert_eq!(answer(endless), "");
}

// rules: S2, S3
#[test]
fn answers_that_do_not_fit_are_refused() {
    let asked = |answer: &'static str| {
        run(async {
            let (near, mut far) = duplex(64 << 10);
            let url = url();
            let mut headers = HeaderMap::new();
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("a, b"));
            let ask = Ask {
                url: &url,
                headers: &headers,
                message_max: 99,
                deflate: false,
            };
            let answering = async {
                let mut request = BytesMut::new();
                while !request.ends_with(b"\r\n\r\n") {
                    far.read_buf(&mut request).await.expect("it asks");
                }
                let text = String::from_utf8(request.to_vec()).expect("it is text");
                assert!(text.starts_with("GET /in?q=1 HTTP/1.1\r\n"), "{text}");
                assert!(text.contains("\r\nhost: h:8025\r\n"), "{text}");
                let key = text
                    .split("sec-websocket-key: ")
                    .nth(1)
                    .and_then(|rest| rest.lines().next());
                let key = ::websocket::accept_key(key.expect("it has a key"));
                let answer = answer.replace("KEY", &key);
                far.write_all(answer.as_bytes()).await.expect("it is open");
                drop(far);
            };
            let (shaken, ()) = tokio::join!(shake(near, &ask), answering);
            shaken.map(|(opened, answered)| (opened.read, answered.protocol))
        })
    };
    let head = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n";
    let good: &'static str =
        Box::leak(format!("{head}Sec-WebSocket-Protocol: b\r\n\r\n\u{1}a").into_boxed_str());
    let (read, protocol) = asked(good).expect("it fits");
    assert_eq!(
        (&read[..], protocol),
        (&b"\x01a"[..], Some(HeaderValue::from_static("b")))
    );
    for (from, to, why) in [
        ("101 x", "403 no", "answered 403"),
        ("Accept: KEY", "Accept: x", "Accept"),
        ("Upgrade: websocket", "a: b", "Upgrade"),
        ("Connection: Upgrade", "Connection: close", "Connection"),
        ("Protocol: b", "Protocol: c", "sub-protocol"),
        (
            "Sec-WebSocket-Protocol: b",
            "Sec-WebSocket-Extensions: permessage-deflate",
            "not offered",
        ),
        ("HTTP/1.1", "ICY", "no answer of HTTP"),
    ] {
        let bad: &'static str = Box::leak(good.replace(from, to).into_boxed_str());
        let error = asked(bad).expect_err(to);
        assert!(error.contains(why), "{to}: {error}");
    }
    assert!(asked("HTTP/1.1 101 x\r\n").is_err());
}
