//! Databases as a run of the binary sees them.

mod network;

use std::process::Command;
use std::time::{Duration, Instant};

use network::{Running, free_port, post_all};
use servers::Order;

/// Lines that the database's own client gives.
fn ask(name: &str, port: u16, sql: &str) -> String {
    let port = port.to_string();
    let mut client = match name {
        "mariadb" => {
            let mut client = Command::new("mariadb");
            client
                .args(["--no-defaults", "-h127.0.0.1", "-uheadwater", "-pheadwater"])
                .args(["-P", &port, "-N", "-B", "-e", sql, "headwater"]);
            client
        }
        _ => {
            let mut client = Command::new("psql");
            client
                .env("PGPASSWORD", "headwater")
                .args(["-X", "-q", "-t", "-A", "-h", "127.0.0.1", "-p", &port])
                .args(["-U", "headwater", "-c", sql, "headwater"]);
            client
        }
    };
    let output = client.output().expect("the client starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_server_that_is_stopped_is_noticed_and_waited_for() {
    for name in ["mariadb", "postgres"] {
        let Some(server) = Order::new().start_or_skip(name) else {
            continue;
        };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let app = dir.path().join("app.siddhi");
        let url = server.endpoint();
        let text = format!(
            "@App:name('Stopped')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (n int);
@store(type='rdbms', jdbc.url='{url}')
define table Kept (n int);
from In select n insert into Kept;
"
        );
        std::fs::write(&app, text).expect("the folder can be written");
        let app = app.display().to_string();
        let running = Running::connected(&[&app], 1);
        let post = |n: u32| {
            let body = format!("{{\"event\": {{\"n\": {n}}}}}");
            let url = format!("http://127.0.0.1:{port}/in");
            assert_eq!(post_all(&url, [body]), [200]);
        };
        post(1);
        server.freeze();
        let since = Instant::now();
        post(2);
        running.err_has("does not answer", 1);
        assert!(
            since.elapsed() < Duration::from_secs(6),
            "{name}: {:?}",
            since.elapsed()
        );
        server.thaw();
        running.err_has("answers again", 1);
        let (code, _) = running.stop();
        assert_eq!(code, Some(0), "{name}");
        let rows = ask(name, server.port(), "SELECT n FROM Kept ORDER BY n");
        assert_eq!(rows, "1\n2\n", "{name}");
    }
}
