//! SQL by the protocol of PostgreSQL, with `psql` and `psycopg` as their users have them.

use std::path::Path;
use std::process::{Command, Output};

use testservers::wheel_or_skip;

use crate::access::certificate_in;
use crate::network::{Running, free_port, text};
use crate::sql::{Place, done, failed, headwater};

/// A server over the readings of the example.
struct Served {
    place: Place,
    port: u16,
    run: Running,
}

impl Served {
    fn new(place: Place, more: &[&str]) -> Served {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let store = place.path("data");
        let args = [&["--store", &*store, "--sql-postgres", &address][..], more].concat();
        let run = Running::start(&args);
        run.err_has("by the protocol of PostgreSQL", 1);
        Served { place, port, run }
    }

    fn psql_as(&self, user: &str, password: &str, more: &str, args: &[&str]) -> Output {
        let url = format!(
            "host=localhost hostaddr=127.0.0.1 port={} user={user} dbname=store {more}",
            self.port
        );
        Command::new("psql")
            .args(["-X", "-d", &url, "-v", "ON_ERROR_STOP=1"])
            .args(args)
            .env("PGPASSWORD", password)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("psql is installed")
    }

    fn psql(&self, args: &[&str]) -> Output {
        self.psql_as("anna", "", "", args)
    }
}

const CITIES: &str = "select metro_area, count(*) as n from smart_home group by 1 order by 1";

#[test]
fn psql_asks_lists_and_describes_tables() {
    let served = Served::new(Place::new(), &[]);
    let cities = done(&served.psql(&["-A", "-t", "-c", CITIES]));
    let store = served.place.path("data");
    let want = done(&headwater(&[
        "sql", "--store", &store, CITIES, "--format", "csv",
    ]));
    let want: Vec<String> = want
        .lines()
        .skip(1)
        .map(|line| line.replace(',', "|"))
        .collect();
    assert_eq!(cities.lines().collect::<Vec<_>>(), want);
    let tables = done(&served.psql(&["-c", "\\dt"]));
    assert!(
        tables.contains(" public | smart_home | table | headwater"),
        "{tables}"
    );
    let columns = done(&served.psql(&["-c", "\\d smart_home"]));
    for part in [
        "Table \"public.smart_home\"",
        " metro_area    | text",
        " power_reading | real",
    ] {
        assert!(columns.contains(part), "{part}: {columns}");
    }
    let databases = done(&served.psql(&["-l"]));
    assert!(
        databases.contains(" store | headwater | UTF8"),
        "{databases}"
    );
    for command in [
        "\\dn",
        "\\d",
        "\\dt+",
        "\\di",
        "\\dv",
        "\\du",
        "\\df",
        "\\conninfo",
        "\\encoding",
    ] {
        done(&served.psql(&["-c", command]));
    }
    let several = done(&served.psql(&[
        "-A",
        "-t",
        "-c",
        "begin; set statement_timeout = '5s'; select 1; show statement_timeout; commit",
    ]));
    assert!(
        several.contains("1\n") && several.contains("5s"),
        "{several}"
    );
    assert_eq!(served.run.stop().0, Some(0));
}

#[test]
fn psql_shows_the_place_of_an_error_and_goes_on() {
    let served = Served::new(Place::new(), &["--sql-max-rows", "100"]);
    let said = failed(
        &served.psql(&["-c", "select metro_aera\nfrom smart_home"]),
        1,
    );
    let want = "ERROR:  there is no column 'metro_aera'\nLINE 1: select metro_aera\n               ^\nHINT:  did you mean 'metro_area'?\n";
    assert_eq!(said, want);
    let said = failed(&served.psql(&["-c", "delete from smart_home"]), 1);
    assert!(said.contains("only statements that read"), "{said}");
    let said = failed(&served.psql(&["-c", "select * from smart_home"]), 1);
    assert!(said.contains("more than 100 rows"), "{said}");
    let endless = "set statement_timeout = 300; select count(*) from generate_series(1, 100000000) a, generate_series(1, 100000000) b where a.value = b.value + 1";
    let said = failed(&served.psql(&["-c", endless]), 1);
    assert!(said.contains("takes longer than 300ms"), "{said}");
    let said = failed(
        &headwater(&[
            "run",
            "--store",
            &served.place.path("other"),
            "--sql-postgres",
            "0.0.0.0:0",
        ]),
        2,
    );
    assert!(
        said.contains("--sql-postgres 0.0.0.0:0") && said.contains("--insecure"),
        "{said}"
    );
    assert_eq!(served.run.stop().0, Some(0));
}

#[test]
fn users_log_in_over_tls_alone() {
    let place = Place::new();
    let state = place.path("data/state");
    let token = {
        done(&headwater(&[
            "users", "add", "anna", "--role", "read", "--state", &state,
        ]));
        done(&headwater(&["users", "token", "anna", "--state", &state]))
    };
    let [pem, key] = certificate_in(Path::new(&place.path("")), "localhost");
    let served = Served::new(place, &["--http-cert", &pem, "--http-key", &key]);
    let verified = format!("sslmode=verify-full sslrootcert={pem}");
    let who = ["-A", "-t", "-c", "select current_user"];
    assert_eq!(
        done(&served.psql_as("anna", token.trim(), &verified, &who)),
        "anna\n"
    );
    let said = failed(&served.psql_as("anna", "wrong", &verified, &who), 2);
    assert!(said.contains("the login is wrong"), "{said}");
    let said = failed(
        &served.psql_as("anna", token.trim(), "sslmode=disable", &who),
        2,
    );
    assert!(said.contains("TLS alone"), "{said}");
    let audit =
        std::fs::read_to_string(served.place.path("data/state/audit.jsonl")).expect("it is there");
    assert!(
        audit.contains("--sql-postgres") && audit.contains("login refused"),
        "{audit}"
    );
    assert_eq!(served.run.stop().0, Some(0));
}

/// Values of each kind, as text and binary, parameters, cursors and an error.
const PSYCOPG: &str = "
import sys, psycopg, datetime, decimal
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        cursor.execute(\"select 1::int, 2::bigint, 0.5::double precision, true, 'ä', timestamp '2026-01-02 03:04:05.6', \"
                       \"date '1999-12-31', cast('-12345.67' as decimal(10,2)), null\")
        print(cursor.fetchone())
        cursor.execute('select metro_area, count(*) from smart_home where house_id > %s and metro_area = %s group by 1',
                       (1, 'Seattle'), prepare=True)
        print(cursor.fetchall())
        for value in (7, -3000000000, 2.5, 'it\\'s', True, datetime.date(2026, 1, 2), decimal.Decimal('1.50')):
            cursor.execute('select %b' if binary else 'select %s', (value,))
            assert cursor.fetchone() == (value,), value
    with connection.transaction():
        cursor = connection.cursor()
        try:
            cursor.execute('select nothing from smart_home')
        except psycopg.errors.UndefinedColumn as error:
            print(error.diag.statement_position, error.diag.message_primary)
            raise psycopg.Rollback
    print(connection.execute('select 1').fetchone(), connection.info.server_version)
";

#[test]
fn psycopg_binds_and_reads_each_type() {
    let Some(wheel) = wheel_or_skip("psycopg") else {
        return;
    };
    let served = Served::new(Place::new(), &[]);
    let url = format!("host=127.0.0.1 port={} user=anna dbname=store", served.port);
    let output = Command::new("python3")
        .args(["-c", PSYCOPG, &url])
        .env("PYTHONPATH", &wheel)
        .output()
        .expect("python starts");
    let said = done(&output);
    let lines: Vec<&str> = said.lines().collect();
    let first = "(1, 2, 0.5, True, 'ä', datetime.datetime(2026, 1, 2, 3, 4, 5, 600000), datetime.date(1999, 12, 31), \
                 Decimal('-12345.67'), None)";
    assert_eq!(lines[0], first);
    assert_eq!(lines[2], first);
    assert_eq!(lines[1], lines[3]);
    assert!(lines[1].starts_with("[('Seattle', "), "{said}");
    assert_eq!(lines[4], "8 there is no column 'nothing'");
    assert_eq!(lines[5], "(1,) 150000");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(served.run.stop().0, Some(0));
}
