//! Going on by the names of transactions (GTIDs) on another server, whose logs are called otherwise.

use super::*;

/// A server with a table `t`, and a replica of it with other names of logs.
fn replicated(name: &str) -> Option<(Running, Running)> {
    let primary = Order::new().start_or_skip(name)?;
    let replica = Order::new()
        .with("server-id", "2")
        .with("log-bin", "other")
        .with("relay-log", "relay")
        .with("log-slave-updates", "ON")
        .start_or_skip(name)?;
    let port = primary.port();
    let follow = match name {
        "mariadb" => format!(
            "RESET MASTER; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},
             MASTER_USER='headwater', MASTER_PASSWORD='headwater', MASTER_USE_GTID=slave_pos;
             START SLAVE"
        ),
        _ => format!(
            "RESET BINARY LOGS AND GTIDS; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',
             SOURCE_PORT={port}, SOURCE_USER='headwater', SOURCE_PASSWORD='headwater',
             SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
        ),
    };
    ask(&replica, &follow);
    ask(
        &primary,
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)); CREATE TABLE other (id INT PRIMARY KEY)",
    );
    follows(&replica, &primary);
    // As after years of its own.
    ask(&replica, "FLUSH BINARY LOGS; FLUSH BINARY LOGS");
    Some((primary, replica))
}

/// Waits until the replica has all that the primary has now.
fn follows(replica: &Running, primary: &Running) {
    let (done, wait) = match is_mariadb(primary) {
        true => ("SELECT @@gtid_binlog_pos", "MASTER_GTID_WAIT"),
        false => ("SELECT @@gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
    };
    let done = answer(primary, done).replace("\\n", "");
    let waited = answer(replica, &format!("SELECT {wait}('{}', 60)", done.trim()));
    assert_eq!(waited.trim(), "0", "{done}");
}

fn is_mariadb(server: &Running) -> bool {
    server.version().starts_with("MariaDB")
}

fn stop_following(replica: &Running) {
    let sql = match is_mariadb(replica) {
        true => "STOP SLAVE",
        false => "STOP REPLICA",
    };
    ask(replica, sql);
}

fn follow(replica: &Running) {
    let sql = match is_mariadb(replica) {
        true => "START SLAVE",
        false => "START REPLICA",
    };
    ask(replica, sql);
}

fn at(server: &Running, position: &[u8]) -> Box<dyn Source> {
    let mut source = source(&server.endpoint(), &LISTEN, &[], &[]).unwrap();
    source.restore(position).unwrap();
    source
}

// shows: source cdc@mariadb resume
#[test]
fn a_replica_of_mariadb_goes_on_where_its_primary_stopped() {
    check_replica("mariadb");
}

// shows: source cdc@mysql resume
#[test]
fn a_replica_of_mysql_goes_on_where_its_primary_stopped() {
    check_replica("mysql");
}

fn check_replica(name: &str) {
    let Some((mut primary, replica)) = replicated(name) else {
        return;
    };
    let begin = read(
        source(&primary.endpoint(), &LISTEN, &[], &[])
            .unwrap()
            .as_mut(),
    );
    let many: Vec<String> = (100..110).map(|n| format!("({n}, 'many')")).collect();
    let sql = format!(
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO other VALUES (1);
         UPDATE t SET s = NULL WHERE id <= 2;
         BEGIN; INSERT INTO t VALUES (4, 'd'); SAVEPOINT one; INSERT INTO t VALUES (5, 'e');
         SAVEPOINT two; INSERT INTO other VALUES (2); INSERT INTO t VALUES (6, 'f'); COMMIT;
         CREATE TABLE more (id INT); INSERT INTO t VALUES {}; DELETE FROM t WHERE id < 4;
         XA START 'x'; INSERT INTO t VALUES (7, 'g'); INSERT INTO t VALUES (8, 'h');
         XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'; INSERT INTO t VALUES (9, 'i')",
        many.join(", ")
    );
    ask(&primary, &sql);
    follows(&replica, &primary);
    let whole = read(at(&primary, &begin.position).as_mut());
    let all = whole.mapped;
    assert_eq!(all.len(), 24, "{all:#?}");
    assert_eq!(read(at(&replica, &begin.position).as_mut()).mapped, all);
    // Stopped after any number of changes it goes on with the other server, behind exactly those that
    // the position covers.
    for room in 1..=5 {
        let mut position = begin.position.clone();
        let mut seen: Vec<String> = Vec::new();
        for server in [&primary, &replica].into_iter().cycle() {
            let mut taken = Taken {
                wanted: room,
                room,
                ..Taken::default()
            };
            let ended = run(at(server, &position).as_mut(), &mut taken);
            if !taken.position.is_empty() {
                position.clone_from(&taken.position);
            }
            seen.extend(taken.mapped.drain(..taken.posted));
            match ended {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, Error::Stopped), "{}", chain(&error)),
            }
        }
        assert_eq!(seen, all, "batches of {room}");
    }
    // What an older version has saved means something to the same server only.
    let saved = String::from_utf8(begin.position.clone()).unwrap();
    let place: Vec<&str> = saved.lines().skip(1).take(2).collect();
    let older = format!("binlog 1\n{}\n0\n", place.join("\n"));
    let mut again = at(&primary, older.as_bytes());
    let mut read_again = read(again.as_mut());
    assert_eq!(read_again.mapped, all);
    if !is_mariadb(&primary) {
        // The next log says which transactions came before.
        ask(&primary, "FLUSH BINARY LOGS; INSERT INTO other VALUES (3)");
        ask(
            &primary,
            "INSERT INTO t VALUES (10, 'k'); DELETE FROM t WHERE id = 10",
        );
        read_again = read(again.as_mut());
        assert_eq!(read_again.mapped.len(), 2);
        follows(&replica, &primary);
    }
    primary.kill();
    stop_following(&replica);
    ask(&replica, "INSERT INTO t VALUES (20, 'z')");
    let expect = ["insert: id=20 before_id=0 s=z before_s="];
    assert_eq!(
        read(at(&replica, &read_again.position).as_mut()).mapped,
        expect
    );
}

#[test]
fn transactions_that_a_server_does_not_give_are_said_with_the_remedy() {
    check_gone("mariadb");
    check_gone("mysql");
}

fn check_gone(name: &str) {
    let Some((primary, replica)) = replicated(name) else {
        return;
    };
    let said = |server: &Running, position: &[u8]| {
        let mut taken = Taken::default();
        let ended = run(at(server, position).as_mut(), &mut taken);
        let Err(error) = ended else {
            panic!("it gives {:?}", taken.mapped)
        };
        (error.is_unavailable(), chain(&error))
    };
    let begin = read(
        source(&primary.endpoint(), &LISTEN, &[], &[])
            .unwrap()
            .as_mut(),
    );
    // A replica that lags has the transaction later; one of MySQL passes it over when it comes.
    stop_following(&replica);
    ask(&primary, "INSERT INTO t VALUES (1, 'a')");
    let ahead = read(at(&primary, &begin.position).as_mut());
    assert_eq!(ahead.mapped.len(), 1);
    let nothing = Vec::<String>::new();
    if is_mariadb(&replica) {
        let (is_unavailable, said) = said(&replica, &ahead.position);
        assert!(is_unavailable && said.contains(" yet ("), "{said}");
    } else {
        let lagging = read(at(&replica, &ahead.position).as_mut());
        assert_eq!(lagging.mapped, nothing);
    }
    follow(&replica);
    follows(&replica, &primary);
    assert_eq!(read(at(&replica, &ahead.position).as_mut()).mapped, nothing);
    // It has thrown its logs away.
    ask(&primary, "INSERT INTO t VALUES (2, 'b')");
    follows(&replica, &primary);
    throw_away_logs(&replica);
    let (is_unavailable, gone) = said(&replica, &begin.position);
    assert!(!is_unavailable, "{gone}");
    for part in ["no longer has the log", "GTID", "expire_logs_days"] {
        assert!(gone.contains(part), "{gone}");
    }
    // It has gone its own way.
    if is_mariadb(&replica) {
        stop_following(&replica);
        ask(&primary, "INSERT INTO t VALUES (3, 'c')");
        let ahead = read(at(&primary, &ahead.position).as_mut());
        ask(
            &replica,
            "INSERT INTO t VALUES (4, 'd'); INSERT INTO t VALUES (5, 'e')",
        );
        let (is_unavailable, gone) = said(&replica, &ahead.position);
        assert!(
            !is_unavailable && gone.contains("different ones in their place"),
            "{gone}"
        );
    } else {
        ask(&primary, "RESET BINARY LOGS AND GTIDS");
        let (is_unavailable, gone) = said(&primary, &ahead.position);
        assert!(
            !is_unavailable && gone.contains("different ones in their place"),
            "{gone}"
        );
    }
}

#[test]
fn a_position_of_the_other_kind_of_server_is_refused() {
    let Some(server) = Order::new().start_or_skip("mariadb") else {
        return;
    };
    ask(&server, "CREATE TABLE t (id INT PRIMARY KEY)");
    let position = b"binlog 2\nf\n4\nmysql 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5\n";
    let error = run(at(&server, position).as_mut(), &mut Taken::default()).unwrap_err();
    let said = chain(&error);
    assert!(said.contains("another kind of server"), "{said}");
}
