use super::*;
use crate::rdbms::server::{Login, Tls};

fn parse(place: &str) -> Result<Server, String> {
    let login = Login {
        user: Some("scott"),
        password: Some("s3cret"),
        pool: None,
    };
    Server::parse_oracle(place, &login)
}

#[test]
fn urls_of_oracle() {
    #[track_caller]
    fn check(place: &str, shown: &str, descriptor: &str, tls: Tls) {
        let server = parse(place).expect(place);
        assert_eq!(server.to_string(), shown);
        assert_eq!(server.oracle_descriptor(), descriptor);
        assert_eq!(server.tls, tls);
        assert!(!format!("{server:?}").contains("s3cret"));
    }
    let to = |addresses: &str, database: &str| {
        format!(
            "(DESCRIPTION=(CONNECT_TIMEOUT=5)(TRANSPORT_CONNECT_TIMEOUT=5)(ADDRESS_LIST={addresses})\
             (CONNECT_DATA=({database})))"
        )
    };
    let service = to(
        "(ADDRESS=(PROTOCOL=TCP)(HOST=h)(PORT=1522))",
        "SERVICE_NAME=shop.x",
    );
    check(
        "thin:@//h:1522/shop.x",
        "oracle://h:1522/shop.x",
        &service,
        Tls::Off,
    );
    check(
        "oci:@h:1522/shop.x:dedicated",
        "oracle://h:1522/shop.x",
        &service,
        Tls::Off,
    );
    let sid = to(
        "(ADDRESS=(PROTOCOL=TCP)(HOST=localhost)(PORT=1521))",
        "SID=XE",
    );
    check(
        "thin:@localhost:1521:XE",
        "oracle://localhost:1521/XE",
        &sid,
        Tls::Off,
    );
    let safe = to(
        "(ADDRESS=(PROTOCOL=TCPS)(HOST=a)(PORT=2484))(ADDRESS=(PROTOCOL=TCPS)(HOST=b)(PORT=1521))",
        "SERVICE_NAME=s",
    );
    check(
        "thin:@tcps://a:2484,b/s",
        "oracle://a:2484,b:1521/s",
        &safe,
        Tls::VerifyFull,
    );
    let own = "(DESCRIPTION=(ADDRESS_LIST=(ADDRESS=(PROTOCOL=TCP)(HOST=h)(PORT=7)))(CONNECT_DATA=(SID=x)))";
    check(&format!("thin:@{own}"), "oracle://h:7/", own, Tls::Off);
    check("thin:@orders", "oracle:///", "orders", Tls::Off);
}

#[test]
fn the_login_may_stand_in_the_url() {
    let place = "thin:u/p@q@//h/s";
    let server = Server::parse_oracle(place, &Login::default()).expect(place);
    assert_eq!(
        (server.user.as_str(), server.password.as_str()),
        ("u", "p@q")
    );
    assert_eq!(parse(place).expect(place).user, "scott");
}

#[test]
fn what_is_wrong_with_a_url_is_said_without_secrets() {
    for place in [
        "thin",
        "thin:@",
        "thin:u/s3cret",
        "kprb:@h:1:x",
        "thin:@h:1521",
        "thin:u/s3cret@//h/s?wallet_location=s3cret",
        "thin:@//h/s)(SECURITY=x",
        "thin:@http://h/s",
        "thin:@h:port:x",
    ] {
        let error = parse(place).expect_err(place);
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn inserts_have_a_place_for_each_column() {
    let to = Append {
        table: "T".into(),
        columns: vec!["a".into(), "\"ORDER\"".into()],
    };
    assert_eq!(
        insert(&to, 2),
        "INSERT INTO T (a, \"ORDER\") VALUES (:1, :2)"
    );
}

#[test]
fn calls_are_as_large_as_their_room() {
    assert_eq!(rows_at_once(&[]), ROWS_MAX);
    assert_eq!(rows_at_once(&[OracleType::Int64]), ROWS_MAX);
    assert_eq!(
        rows_at_once(&[OracleType::Varchar2(1 << 20), OracleType::Raw(1 << 20)]),
        8
    );
    assert_eq!(rows_at_once(&[OracleType::Varchar2(u32::MAX)]), 1);
}

#[test]
fn floats_keep_their_digits() {
    assert_eq!(as_decimal(0.1), 0.1);
    assert_eq!(as_decimal(f32::MAX), 3.402_823_5e38);
}

// shows: store rdbms@oracle lost
#[test]
fn errors_of_the_server_are_told_apart() {
    let kind = |code| match fault(code, String::new()) {
        Fault::Lost(_) => "lost",
        Fault::Undone(_) => "undone",
        Fault::Passing(_) => "passing",
        Fault::Refused(_) => "refused",
    };
    for (code, expect) in [
        (3113, "lost"),
        (12_541, "lost"),
        (12_514, "lost"),
        (60, "undone"),
        (54, "passing"),
        (1653, "passing"),
        // Login refused, unique key, too long, no such table.
        (1017, "refused"),
        (1, "refused"),
        (12_899, "refused"),
        (942, "refused"),
    ] {
        assert_eq!(kind(code), expect, "ORA-{code:05}");
    }
}

/// Where Oracle's library is there, nobody listens at the port.
// shows: store rdbms@oracle open
#[test]
fn a_machine_without_the_library_is_told_what_to_install() {
    let server = parse("thin:@//127.0.0.1:1/s").expect("a URL");
    match Oracle::open(&server) {
        Err(Fault::Refused(cause)) => {
            let cause = cause.to_string();
            assert!(cause.contains("Oracle Instant Client"), "{cause}");
        }
        Err(Fault::Lost(cause)) => assert!(!cause.to_string().contains("s3cret"), "{cause}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("there is no server"),
    }
}
