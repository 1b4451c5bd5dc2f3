//! SQL by Flight SQL, with ADBC's driver as its users have it.

use std::path::Path;
use std::process::{Command, Output};

use testservers::wheel_or_skip;

use crate::access::certificate_in;
use crate::network::{Running, free_port, piped};
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
        let args = [&["--store", &*store, "--sql-flight", &address][..], more].concat();
        let run = Running::start(&args);
        run.err_has("SQL is answered by Flight SQL", 1);
        Served { place, port, run }
    }

    /// What a program says with `connect(**more)` and the arguments; `None` where there is no driver.
    fn adbc(&self, program: &str, args: &[&str]) -> Option<Output> {
        let wheels = ["adbc-driver-flightsql", "pyarrow"].map(wheel_or_skip);
        let [Some(driver), Some(arrow)] = wheels else {
            return None;
        };
        let paths = std::env::join_paths([driver, arrow]).expect("plain paths");
        let output = Command::new("python3")
            .args(["-c", &format!("{CONNECT}{program}"), &self.port.to_string()])
            .args(args)
            .env("PYTHONPATH", paths)
            .output();
        Some(output.expect("python starts"))
    }
}

const CONNECT: &str = "
import sys, warnings
warnings.simplefilter('ignore')
import adbc_driver_flightsql.dbapi as flight
from adbc_driver_flightsql import DatabaseOptions
port, arguments = sys.argv[1], sys.argv[2:]
def connect(scheme='grpc+tcp', **more):
    return flight.connect(f'{scheme}://localhost:{port}', db_kwargs=more, autocommit=True)
def error(ask):
    try:
        ask()
    except Exception as error:
        return str(error)
    return 'no error'
";

/// Types, tables and their columns, prepared statements, and what is refused.
const ASKED: &str = "
with connect() as connection, connection.cursor() as cursor:
    cursor.execute(\"select 1::int, 2::bigint, 0.5::double, true, 'ä', null, timestamp '2026-01-02 03:04:05.6'\")
    print(cursor.fetchone())
    for _ in range(2):
        cursor.execute('select metro_area, count(*) as n from smart_home group by 1 order by 1')
        table = cursor.fetch_arrow_table()
        print(table.column_names, table.num_rows, table.to_pylist()[0])
    objects = connection.adbc_get_objects(depth='all').read_all().to_pylist()
    tables = objects[0]['catalog_db_schemas'][0]['db_schema_tables']
    print(objects[0]['catalog_name'], [table['table_name'] for table in tables])
    print([column['column_name'] for column in tables[0]['table_columns']])
    print(connection.adbc_get_info()['vendor_name'])
    print(connection.adbc_get_table_schema('smart_home').field('house_id').type)
    for sql in ('select metro_aera\\nfrom smart_home', 'delete from smart_home', 'select * from smart_home'):
        print(error(lambda: cursor.execute(sql).fetchall()))
    print(error(lambda: cursor.execute('select 1 where 1 = ?', (1,))))
    print(cursor.execute('select 2').fetchone())
";

#[test]
fn adbc_asks_lists_and_describes_tables() {
    let served = Served::new(Place::new(), &["--sql-max-rows", "100"]);
    let Some(output) = served.adbc(ASKED, &[]) else {
        return;
    };
    let said = done(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "(1, 2, 0.5, True, 'ä', None, datetime.datetime(2026, 1, 2, 3, 4, 5, 600000))"
    );
    assert!(
        lines[1].starts_with("['metro_area', 'n'] 10 {'metro_area': 'Chicago', 'n': "),
        "{said}"
    );
    assert_eq!(lines[1], lines[2]);
    assert_eq!(lines[3], "store ['smart_home']");
    assert!(
        lines[4].contains("'metro_area'") && lines[4].contains("'_timestamp'"),
        "{said}"
    );
    assert_eq!(lines[5..7], ["Headwater", "int32"]);
    let place = "there is no column 'metro_aera' (line 1, column 8); did you mean 'metro_area'?";
    assert!(lines[7].contains(place), "{said}");
    assert!(lines[8].contains("only statements that read"), "{said}");
    assert!(lines[9].contains("more than 100 rows"), "{said}");
    assert!(lines[10].contains("placeholder"), "{said}");
    assert_eq!(lines[11], "(2,)");
    assert_eq!(served.run.stop().0, Some(0));
}

const PASSWORD: &str = "what-a-test-knows";

const LOGIN: &str = "
with open(arguments[0]) as file:
    roots = file.read()
def who(**more):
    with connect('grpc+tls', **{DatabaseOptions.TLS_ROOT_CERTS.value: roots}, **more) as connection:
        with connection.cursor() as cursor:
            cursor.execute('select 1')
            return cursor.fetchone()
print(who(username='anna', password=arguments[2]))
print(who(**{DatabaseOptions.AUTHORIZATION_HEADER.value: 'Bearer ' + arguments[1]}))
print(error(lambda: who(username='anna', password='wrong')))
print(error(who))
";

#[test]
fn users_log_in_over_tls() {
    let place = Place::new();
    let state = place.path("data/state");
    let mut add = Command::new(env!("CARGO_BIN_EXE_headwater"));
    add.args(["users", "add", "anna", "--role", "read", "--password-stdin"]);
    done(&piped(
        add.args(["--state", &state]),
        format!("{PASSWORD}\n").as_bytes(),
    ));
    let token = done(&headwater(&["users", "token", "anna", "--state", &state]));
    let [pem, key] = certificate_in(Path::new(&place.path("")), "localhost");
    let served = Served::new(place, &["--http-cert", &pem, "--http-key", &key]);
    let Some(output) = served.adbc(LOGIN, &[&pem, token.trim(), PASSWORD]) else {
        return;
    };
    let said = done(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["(1,)", "(1,)"]);
    assert!(
        lines[2].to_lowercase().contains("unauth") && lines[2].contains("the login is wrong"),
        "{said}"
    );
    assert!(said.contains("log in with the header"), "{said}");
    let audit = std::fs::read_to_string(served.place.path("data/state/audit.jsonl"));
    let audit = audit.expect("it is there");
    assert!(audit.contains("login refused"), "{audit}");
    assert_eq!(served.run.stop().0, Some(0));
}

#[test]
fn an_address_beyond_loopback_needs_users_and_tls() {
    let place = Place::new();
    let args = [
        "run",
        "--store",
        &place.path("other"),
        "--sql-flight",
        "0.0.0.0:0",
    ];
    let said = failed(&headwater(&args), 2);
    assert!(
        said.contains("--sql-flight 0.0.0.0:0") && said.contains("--insecure"),
        "{said}"
    );
}
