use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Instant;

use super::*;
use crate::rdbms::server::Login;

fn parse(kind: &str, place: &str) -> Result<Server, String> {
    let login = Login {
        user: Some("sa"),
        password: Some("s3cret"),
        pool: None,
    };
    Server::parse_sqlserver(kind, place, &login)
}

#[test]
fn urls_of_both_drivers() {
    #[track_caller]
    fn check(kind: &str, place: &str, shown: &str, tls: Tls) {
        let server = parse(kind, place).expect(place);
        assert_eq!(server.to_string(), shown);
        assert_eq!(server.tls, tls);
        assert!(!format!("{server:?}").contains("s3cret"));
    }
    let own = "sqlserver";
    check(
        own,
        "//h;databaseName=d",
        "sqlserver://h:1433/d",
        Tls::VerifyFull,
    );
    check(
        own,
        "//h:1;database={d};encrypt=false",
        "sqlserver://h:1/d",
        Tls::Off,
    );
    check(
        own,
        "//h\\i:7;trustServerCertificate=true",
        "sqlserver://h:7/",
        Tls::Require,
    );
    check(
        own,
        "//;serverName=h;portNumber=9;databaseName=d",
        "sqlserver://h:9/d",
        Tls::VerifyFull,
    );
    check("jtds", "sqlserver://h/d", "sqlserver://h:1433/d", Tls::Off);
    check(
        "jtds",
        "sqlserver://h:2/d;ssl=require",
        "sqlserver://h:2/d",
        Tls::Require,
    );
    let from_url = Server::parse_sqlserver(
        own,
        "//h;user=u;password=p;loginTimeout=2",
        &Login::default(),
    );
    let from_url = from_url.expect("a URL");
    assert_eq!(
        (from_url.user.as_str(), from_url.password.as_str()),
        ("u", "p")
    );
    assert_eq!(from_url.connect_timeout, Duration::from_secs(2));
    for (kind, place, cause) in [
        (own, "h", "write jdbc:sqlserver://"),
        ("jtds", "sybase://h", "write jdbc:jtds:sqlserver://"),
        (own, "//h\\instance", "the port of the instance"),
        (own, "//h;integratedSecurity=true", "Windows logins"),
        (own, "//h;trustStore=store.jks", "export the certificate"),
        (own, "//h;encrypt=strict", "strict"),
        (own, "//h:x", "'x' is not a port"),
    ] {
        let error = parse(kind, place).expect_err(place);
        assert!(error.contains(cause), "{error}");
    }
}

#[test]
fn inserts_have_a_place_for_each_value() {
    let to = Append {
        table: "[T]".into(),
        columns: vec!["[a]".into(), "[b]".into()],
    };
    assert_eq!(
        insert(&to, 2, 2),
        "INSERT INTO [T] ([a], [b]) VALUES (@P1, @P2), (@P3, @P4)"
    );
}

#[test]
fn times_are_texts() {
    assert_eq!(date(0).as_deref(), Some("0001-01-01"));
    assert_eq!(date(DAYS_TO_1900).as_deref(), Some("1900-01-01"));
    assert_eq!(clock(3661.5), "01:01:01.500");
    assert_eq!(text(&ColumnData::Bit(Some(true))).as_deref(), Some("1"));
    assert_eq!(text(&ColumnData::I32(None)), None);
}

/// A server of the test: it answers with these bytes, and tells what it was sent.
fn peer(answer: &'static [u8]) -> (Server, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (tell, told) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).unwrap_or(0);
        bytes.truncate(read);
        tell.send(bytes).ok();
        stream.write_all(answer).ok();
        // Until the client goes.
        stream.read_exact(&mut [0; 1]).ok();
    });
    let mut server =
        parse("sqlserver", &format!("//127.0.0.1:{port};encrypt=false")).expect("a URL");
    server.connect_timeout = Duration::from_millis(400);
    (server, told)
}

fn opened(server: &Server) -> Fault {
    match SqlServer::open(server) {
        Ok(_) => panic!("there is no server"),
        Err(fault) => fault,
    }
}

// shows: store rdbms@sqlserver lost
#[test]
fn nobody_listens() {
    let server = parse("sqlserver", "//127.0.0.1:1;encrypt=false").expect("a URL");
    let Fault::Lost(cause) = opened(&server) else {
        panic!("it may come back");
    };
    assert!(!cause.to_string().contains("s3cret"), "{cause}");
}

// shows: store rdbms@sqlserver slow
#[test]
fn a_silent_peer_is_given_up_in_time() {
    let (server, told) = peer(b"");
    let begun = Instant::now();
    assert!(matches!(opened(&server), Fault::Lost(_)));
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    // A packet of type 18, the first of the protocol.
    let first = told.recv().expect("it was sent something");
    assert_eq!(first.first(), Some(&18));
}

// shows: store rdbms@sqlserver bad
#[test]
fn what_is_no_sql_server_is_no_crash() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0xff; 64],
        &[4, 1, 0, 8, 0, 0, 1, 0],
    ] {
        let (server, _told) = peer(answer);
        assert!(matches!(
            opened(&server),
            Fault::Lost(_) | Fault::Refused(_)
        ));
    }
}
