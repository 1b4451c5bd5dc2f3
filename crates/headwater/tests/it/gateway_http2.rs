//! HTTP/2 at the gateway: curl, and WebSocket in a stream by the client of the `h2` crate.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use h2::ext::Protocol;
use hyper::Request;
use websocket::{Close, Code, Decoder, Encoder, Event, Kind, Role};

use crate::network::gateway::Server;
use crate::network::{Reader, curl, eventually};

const DOCUMENT: &str = "asyncapi: 2.6.0
info: { title: Chat, version: '1' }
channels: { '/rooms/{room}': { subscribe: {}, publish: {} } }
x-headwater: { protocols: [ sse, ws ] }
";

fn address(server: &Server) -> String {
    let url = server.url("");
    let rest = url.strip_prefix("http://").expect("it is plain");
    rest.trim_end_matches('/').to_owned()
}

// rules: S9
#[test]
fn requests_and_streams_come_by_http_2() {
    let server = Server::start(&[("chat.yaml", DOCUMENT)]);
    let topic = server.url("/chat/1/rooms/a");
    const PRIOR: &str = "--http2-prior-knowledge";
    let dir = tempfile::tempdir().expect("a folder");
    let heard = dir.path().join("heard").display().to_string();
    let hearer = Reader::open(heard, &[PRIOR, &topic]);
    // Longer than the window of a stream, and than what waits for a line of HTTP/1.
    let long = "x".repeat(200_000);
    for (number, body) in ["one", &long, "three"].into_iter().enumerate() {
        let file = dir.path().join(number.to_string());
        std::fs::write(&file, body).expect("it can be written");
        let data = format!("@{}", file.display());
        let (status, head) = curl(&[PRIOR, "-i", "--data-binary", &data, &topic]);
        assert!(
            status == "202" && head.starts_with("HTTP/2 202"),
            "{status} {head}"
        );
    }
    eventually("the events", || hearer.data() == ["one", &long, "three"]);
    let (status, _) = curl(&[PRIOR, &server.url("/chat/1/nowhere")]);
    assert_eq!(status, "404");
    let origin = ["-H", "Origin: http://elsewhere"];
    let (status, _) = curl(&[&[PRIOR][..], &origin, &[topic.as_str()]].concat());
    assert_eq!(status, "403");
    // What is no frame ends its connection, and no other.
    let mut broken = TcpStream::connect(address(&server)).expect("it listens");
    let begun = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    broken.write_all(begun).expect("it reads");
    let mut rest = Vec::new();
    broken.read_to_end(&mut rest).ok();
    // In pieces, and as a request that begins like the preface.
    let mut pieces = TcpStream::connect(address(&server)).expect("it listens");
    pieces.write_all(b"P").expect("it reads");
    pieces
        .write_all(b"ROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it reads");
    let mut head = [0; 12];
    pieces.read_exact(&mut head).expect("it answers");
    assert_eq!(&head, b"HTTP/1.1 404");
    let (status, _) = curl(&["--data-binary", "four", &topic]);
    assert_eq!(status, "202");
    eventually("the last", || {
        hearer.data().last().is_some_and(|last| last == "four")
    });
    server.run.stop();
}

async fn heard(body: &mut h2::RecvStream, decoder: &mut Decoder) -> Option<Event> {
    loop {
        let bytes = body.data().await?.expect("the stream is sound");
        body.flow_control()
            .release_capacity(bytes.len())
            .expect("it was taken");
        let (count, event) = decoder.decode(&bytes).expect("it is right");
        assert_eq!(count, bytes.len(), "one at a time");
        if event.is_some() {
            return event;
        }
    }
}

// rules: S7
#[test]
fn a_websocket_is_a_stream_of_http_2() {
    let server = Server::start(&[("chat.yaml", DOCUMENT)]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let talking = async {
        let line = tokio::net::TcpStream::connect(address(&server))
            .await
            .expect("it listens");
        let (send, connection) = h2::client::handshake(line).await.expect("it speaks HTTP/2");
        tokio::spawn(async move { connection.await.ok() });
        let mut send = send.ready().await.expect("it is there");
        let open = |version: Option<&str>| {
            let mut request = Request::builder()
                .method("CONNECT")
                .uri("http://h/chat/1/rooms/a");
            if let Some(version) = version {
                request = request.header("sec-websocket-version", version);
            }
            let mut request = request.body(()).expect("it can be");
            request
                .extensions_mut()
                .insert(Protocol::from_static("websocket"));
            request
        };
        // A plain request first: with its answer the settings of the server are there.
        let plain = Request::builder()
            .uri("http://h/chat/1/nowhere")
            .body(())
            .expect("it can be");
        let (answer, _) = send.send_request(plain, true).expect("it is open");
        assert_eq!(answer.await.expect("it answers").status(), 404);
        assert!(send.is_extended_connect_protocol_enabled());
        let (answer, _) = send.send_request(open(None), false).expect("it is open");
        assert_eq!(answer.await.expect("it answers").status(), 400);
        let (answer, mut stream) = send
            .send_request(open(Some("13")), false)
            .expect("it is open");
        let answer = answer.await.expect("it answers");
        assert_eq!(answer.status(), 200);
        for name in ["upgrade", "connection", "sec-websocket-accept"] {
            assert!(!answer.headers().contains_key(name), "{name}");
        }
        let mut body = answer.into_body();
        let (mut encoder, mut decoder) = (
            Encoder::new(Role::Client, None),
            Decoder::new(Role::Server, 999, None),
        );
        let payload = bytes::Bytes::from_static(b"hello");
        let sent = encoder.message(Kind::Text, &payload).concat();
        stream.send_data(sent.into(), false).expect("it is open");
        let message = Event::Message {
            kind: Kind::Text,
            payload,
        };
        assert_eq!(heard(&mut body, &mut decoder).await, Some(message));
        let close = Close::new(Code::NORMAL, "enough");
        stream
            .send_data(encoder.close(Some(&close)), true)
            .expect("it is open");
        assert_eq!(
            heard(&mut body, &mut decoder).await,
            Some(Event::Close(Some(close)))
        );
        assert_eq!(
            heard(&mut body, &mut decoder).await,
            None,
            "the stream has ended in order"
        );
        // One that is cut off is gone, and the connection serves on.
        let (answer, mut stream) = send
            .send_request(open(Some("13")), false)
            .expect("it is open");
        assert_eq!(answer.await.expect("it answers").status(), 200);
        stream.send_reset(h2::Reason::CANCEL);
        let (answer, _stream) = send
            .send_request(open(Some("13")), false)
            .expect("it is open");
        assert_eq!(answer.await.expect("it answers").status(), 200);
    };
    runtime.expect("a runtime").block_on(talking);
    server.run.stop();
}
