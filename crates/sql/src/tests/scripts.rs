//! Scripts over a store, each run twice, with rows in the log and in files.

use std::path::Path;
use std::sync::{Arc, Mutex};

use event::{Column, Type, Value};
use serde_json::{Value as Json, json};
use store::EventStore;

use super::{Writer, asked, engine, table};
use crate::{
    Call, Engine, Outcome, Outcomes, Run, Script, ScriptError, StreamWriter, Streams, UserFunction,
};

/// The columns of Smart Home.
const HOMES: [(&str, Type); 7] = [
    ("id", Type::Long),
    ("power_reading", Type::Double),
    ("is_peak", Type::Bool),
    ("house_id", Type::Int),
    ("metro_area", Type::String),
    ("state", Type::String),
    ("device_id", Type::Int),
];

/// As the sample writes it; the queries are word for word those of WSO2's report on performance.
const SMART_HOME: &str = r#"
CREATE TEMPORARY TABLE smartHomeData USING CarbonAnalytics OPTIONS (tableName "ORG_WSO2_DAS_SAMPLE_SMART_HOME_DATA",
    schema "id LONG, power_reading DOUBLE, is_peak BOOLEAN, house_id INT, metro_area STRING,
            state STRING, device_id INT ");
create temporary table cityUsage using CarbonAnalytics options (tableName "city_usage",
    schema "metro_area STRING, avg_usage FLOAT, min_usage FLOAT, max_usage FLOAT ") ;
CREATE TEMPORARY TABLE peakDeviceUsageRange USING CarbonAnalytics OPTIONS (tableName "peak_device_usage_range",
    schema "house_id INT, usage_range FLOAT");
CREATE TEMPORARY TABLE stateAvgUsage USING CarbonAnalytics OPTIONS (tableName "state_avg_usage",
    schema "state STRING, state_avg_usage FLOAT");
CREATE TEMPORARY TABLE stateUsageDifference USING CarbonAnalytics OPTIONS (tableName "state_usage_difference",
    schema "state STRING, avg_usage_difference FLOAT");
CREATE TEMPORARY TABLE ct USING CarbonAnalytics OPTIONS (tableName "ct", schema "n INT");
INSERT OVERWRITE TABLE cityUsage SELECT metro_area, avg(power_reading) AS avg_usage,min(power_reading) AS min_usage, max(power_reading) AS max_usage FROM smartHomeData GROUP BY metro_area;
INSERT OVERWRITE TABLE ct SELECT count(*) FROM smartHomeData;
INSERT OVERWRITE TABLE peakDeviceUsageRange SELECT house_id, (max(power_reading) - min(power_reading)) AS usage_range FROM smartHomeData WHERE is_peak = true AND metro_area = "Seattle" GROUP BY house_id;
INSERT OVERWRITE TABLE stateAvgUsage SELECT state, avg(power_reading) AS state_avg_usage FROM smartHomeData GROUP BY state;
INSERT OVERWRITE TABLE stateUsageDifference SELECT a2.state, (a2.state_avg_usage-a1.overall_avg) AS avg_usage_difference FROM (select avg(state_avg_usage) as overall_avg from stateAvgUsage) as a1 join stateAvgUsage as a2;
"#;

fn home(id: i64, power: f64, house: i32, city: &str, state: &str) -> Vec<Value> {
    vec![
        Value::Long(id),
        Value::Double(power),
        Value::Bool(id % 2 == 0),
        Value::Int(house),
        Value::str(city),
        Value::str(state),
        Value::Int(7),
    ]
}

/// Some rows are in files, others in the log.
fn homes(dir: &Path) {
    let homes = table("ORG_WSO2_DAS_SAMPLE_SMART_HOME_DATA", &HOMES, Vec::new());
    let mut writer = Writer::open(dir, &homes);
    writer.insert(&[
        home(0, 10.5, 1, "Seattle", "WA"),
        home(2, 40.0, 1, "Seattle", "WA"),
    ]);
    writer.close();
    let mut writer = Writer::open(dir, &homes);
    writer.insert(&[
        home(1, 0.5, 1, "Seattle", "WA"),
        home(4, 5.0, 2, "Austin", "TX"),
    ]);
    // The process ends without closing it: these rows are in the log.
    drop(writer);
}

pub(super) fn run(
    engine: &Engine,
    dir: &Path,
    text: &str,
    functions: &[UserFunction],
) -> (Vec<Outcome>, Option<ScriptError>) {
    all_of(engine.run(Run {
        store: Arc::new(EventStore::open(dir).expect("a store")),
        text: text.to_owned(),
        functions: functions.to_vec(),
        streams: None,
        stop: None,
        zone: String::new(),
    }))
}

fn all_of(mut outcomes: Outcomes) -> (Vec<Outcome>, Option<ScriptError>) {
    let mut all = Vec::new();
    while let Some(outcome) = outcomes.blocking_recv() {
        match outcome {
            Ok(outcome) => all.push(outcome),
            Err(error) => return (all, Some(error)),
        }
    }
    (all, None)
}

fn ran(engine: &Engine, dir: &Path, text: &str) -> Vec<Outcome> {
    let (all, error) = run(engine, dir, text, &[]);
    assert!(error.is_none(), "{error:?}");
    all
}

fn failed(engine: &Engine, dir: &Path, text: &str) -> ScriptError {
    let (_, error) = run(engine, dir, text, &[]);
    error.expect("refused")
}

fn rows(outcome: &Outcome) -> Json {
    match outcome {
        Outcome::Rows { answer, .. } => answer["records"].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn smart_home_gives_its_tables_anew_with_each_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    homes(dir);
    for _ in 0..2 {
        let written: Vec<(String, u64, bool)> = ran(&engine, dir, SMART_HOME)
            .into_iter()
            .map(|outcome| match outcome {
                Outcome::Written {
                    table,
                    rows,
                    is_overwrite,
                    ..
                } => (table, rows, is_overwrite),
                other => panic!("{other:?}"),
            })
            .collect();
        let expect = [
            ("city_usage", 2),
            ("ct", 1),
            ("peak_device_usage_range", 1),
            ("state_avg_usage", 2),
            ("state_usage_difference", 2),
        ];
        let expect: Vec<_> = expect
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n, true))
            .collect();
        assert_eq!(written, expect);
        let all = |sql: &str| asked(&engine, dir, sql);
        assert_eq!(
            all("select metro_area, avg_usage, min_usage, max_usage from city_usage order by 1"),
            json!([["Austin", 5.0, 5.0, 5.0], ["Seattle", 17.0, 0.5, 40.0]])
        );
        assert_eq!(all("select n from ct"), json!([[4]]));
        assert_eq!(
            all("select house_id, usage_range from peak_device_usage_range"),
            json!([[1, 29.5]])
        );
        assert_eq!(
            all("select state, avg_usage_difference from state_usage_difference order by 1"),
            json!([["TX", -6.0], ["WA", 6.0]])
        );
    }
}

#[test]
fn rows_that_are_inserted_add_up_and_those_of_a_key_are_replaced() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    homes(dir);
    let script = r#"
        CREATE TEMPORARY TABLE homes USING CarbonAnalytics OPTIONS (tableName "org_wso2_das_sample_smart_home_data");
        CREATE TEMPORARY TABLE total USING CarbonAnalytics OPTIONS (tableName "total", schema "total_pages LONG");
        CREATE TEMPORARY TABLE byCity USING CarbonAnalytics OPTIONS (tableName "by_city",
            schema "City STRING, Houses INT -i, n INT", primaryKeys "city, houses");
        INSERT INTO TABLE total SELECT COUNT(*) as total_pages FROM homes;
        insert into table byCity select metro_area, house_id, count(*) from homes group by metro_area, house_id;
        insert into table BYCITY select "Ulm", 3, 9;
        INSERT INTO byCity SELECT "Ulm", 3, 1;
        SELECT City, n FROM byCity ORDER BY city"#;
    for run in 1..=2 {
        let outcomes = ran(&engine, dir, script);
        assert_eq!(
            rows(&outcomes[4]),
            json!([["Austin", 1], ["Seattle", 3], ["Ulm", 1]])
        );
        let count = asked(&engine, dir, "select count(*), sum(total_pages) from total");
        assert_eq!(count, json!([[run, 4 * run]]));
    }
    // A key twice in what is selected: the table has it once; an overwrite leaves no other.
    let again = r#"
        CREATE TEMPORARY TABLE byCity USING CarbonAnalytics OPTIONS (tableName "by_city");
        INSERT OVERWRITE TABLE byCity SELECT "Ulm", 3, 1 UNION ALL SELECT "Ulm", 3, 1 UNION ALL SELECT "Bonn", 1, 1;
        SELECT City, Houses FROM byCity ORDER BY City"#;
    assert_eq!(
        rows(&ran(&engine, dir, again)[1]),
        json!([["Bonn", 1], ["Ulm", 3]])
    );
    // Numbers of rows are not used again after a restart.
    let ids = asked(
        &engine,
        dir,
        "select count(distinct _id) from (select _id from total union all select _id from by_city)",
    );
    assert_eq!(ids, json!([[4]]));
}

/// What streams have taken; they take only so many rows.
#[derive(Default)]
struct Taken {
    rows: Arc<Mutex<Vec<Vec<Value>>>>,
    room: usize,
}

impl Streams for Taken {
    fn open(
        &self,
        stream: &str,
        columns: &[(&str, Type)],
    ) -> Result<Box<dyn StreamWriter>, String> {
        match (stream, columns) {
            ("org.wso2.overused", [("house_id", Type::Int), ("power", Type::Float)]) => {
                Ok(Box::new(Taken {
                    rows: Arc::clone(&self.rows),
                    room: self.room,
                }))
            }
            _ => Err(format!("no app has the stream '{stream}'")),
        }
    }
}

impl StreamWriter for Taken {
    fn send(&mut self, columns: &[Column], rows: usize) -> Result<(), String> {
        let mut taken = self.rows.lock().expect("not poisoned");
        if taken.len() + rows > self.room {
            return Err("its app has ended".to_owned());
        }
        taken.extend((0..rows).map(|row| columns.iter().map(|c| c.value(row)).collect()));
        Ok(())
    }
}

#[test]
fn rows_become_events_of_a_stream_of_the_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    homes(dir);
    // The last query of Smart Home, by the name of the provider's class.
    let script = |stream: &str| {
        format!(
            r#"CREATE TEMPORARY TABLE h USING CarbonAnalytics OPTIONS (tableName "ORG_WSO2_DAS_SAMPLE_SMART_HOME_DATA");
CREATE TEMPORARY TABLE overused USING org.wso2.carbon.analytics.spark.event.EventStreamProvider
    OPTIONS (streamName "{stream}", version "1.0.0", payload "house_id INT, power FLOAT");
INSERT OVERWRITE TABLE overused SELECT house_id, power_reading FROM h WHERE power_reading > 9 ORDER BY power_reading;"#
        )
    };
    let run = |text: &str, room: Option<usize>| {
        let taken = room.map(|room| Taken {
            room,
            ..Taken::default()
        });
        let rows = taken.as_ref().map(|taken| Arc::clone(&taken.rows));
        let outcomes = engine.run(Run {
            store: Arc::new(EventStore::open(dir).expect("a store")),
            text: text.to_owned(),
            functions: Vec::new(),
            streams: taken.map(|taken| Arc::new(taken) as Arc<dyn Streams>),
            stop: None,
            zone: String::new(),
        });
        let rows = rows.map_or_else(Vec::new, |rows| rows.lock().expect("not poisoned").clone());
        (all_of(outcomes), rows)
    };
    let text = script("org.wso2.overused");
    let ((outcomes, error), _) = run(&text, Some(2));
    assert!(error.is_none(), "{error:?}");
    assert!(
        matches!(&outcomes[..], [Outcome::Sent { stream, rows: 2, .. }] if stream == "org.wso2.overused"),
        "{outcomes:?}"
    );
    for (text, room, said) in [
        (
            script("org.other"),
            Some(9),
            "no app has the stream 'org.other'",
        ),
        (text.clone(), None, "only inside a server"),
        (
            text.clone(),
            Some(1),
            "has taken 0 rows, and not those behind them: its app has ended",
        ),
        (
            format!("{text} SELECT * FROM overused"),
            Some(9),
            "is a stream",
        ),
        (
            format!("{text} INSERT INTO overused SELECT 1"),
            Some(9),
            "the stream has 2",
        ),
    ] {
        let ((_, error), _) = run(&text, room);
        let error = error.expect("refused").error.to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_script_that_is_stopped_ends_in_the_middle_of_a_statement() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut outcomes = engine.run(Run {
        store: Arc::new(EventStore::open(dir.path()).expect("a store")),
        // Rows of the fifth power of 1,000, of which the first takes none of the time.
        text: format!(
            "SELECT 1; WITH v AS (VALUES {}) SELECT count(*) FROM v a, v b, v c, v d, v e \
             WHERE a.column1 + b.column1 + c.column1 < d.column1 * e.column1",
            (0..1000)
                .map(|n| format!("({n})"))
                .collect::<Vec<_>>()
                .join(",")
        ),
        functions: Vec::new(),
        streams: None,
        stop: Some(stopped),
        zone: String::new(),
    });
    assert!(matches!(
        outcomes.blocking_recv(),
        Some(Ok(Outcome::Rows { .. }))
    ));
    stop.send(true).expect("it runs");
    let next = outcomes.blocking_recv();
    assert!(next.is_none(), "{next:?}");
}

#[test]
fn a_script_is_looked_at_without_a_store() {
    let wrong = |text: &str| {
        let script = Script::read("x.sql", text).expect("statements");
        script.check().err().map(|failed| failed.error.to_string())
    };
    assert_eq!(wrong(SMART_HOME), None);
    for (text, said) in [
        ("SELECT 1; SELEC 2", "SELEC"),
        (
            "CREATE TEMPORARY TABLE x USING CarbonAnalytics OPTIONS ()",
            "no table is named",
        ),
        ("DROP TABLE x", "this is no statement of a script"),
    ] {
        let wrong = wrong(text).expect(text);
        assert!(wrong.contains(said), "{wrong}");
    }
}

#[test]
fn an_error_has_its_place_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    homes(dir);
    let begin = r#"CREATE TEMPORARY TABLE h USING CarbonAnalytics OPTIONS (tableName "ORG_WSO2_DAS_SAMPLE_SMART_HOME_DATA");
CREATE TEMPORARY TABLE t USING CarbonAnalytics OPTIONS (tableName "t", schema "name STRING, n INT");
INSERT OVERWRITE TABLE t SELECT "old", 1;
"#;
    ran(&engine, dir, begin);
    for (statement, message, line) in [
        (
            "INSERT OVERWRITE TABLE t SELECT metro_area, nothing FROM h",
            "there is no column 'nothing'",
            Some(4),
        ),
        (
            "INSERT OVERWRITE TABLE t SELECT metro_area FROM h",
            "1 columns are selected, and the table has 2",
            Some(4),
        ),
        (
            "INSERT OVERWRITE TABLE u SELECT metro_area FROM h",
            "there is no table 'u' in the script",
            Some(4),
        ),
        ("DROP TABLE t", "this is no statement of a script", Some(4)),
        (
            "INSERT INTO t SELECT a FROM",
            "expected: identifier, found: EOF",
            Some(4),
        ),
        (
            "INSERT OVERWRITE TABLE t SELECT state, 3000000000 FROM h",
            "row 1, column 'n': '3000000000' does not fit Int32",
            None,
        ),
        (
            "INSERT OVERWRITE TABLE t SELECT state, power_reading FROM h ORDER BY power_reading DESC",
            "row 2, column 'n': '10.5' does not fit Int32",
            None,
        ),
    ] {
        let failed = failed(&engine, dir, &format!("{begin}{statement};"));
        let said = failed.error.to_string();
        assert!(said.contains(message), "{statement}: {said}");
        if let (Some(line), crate::Error::Statement(fault)) = (line, &failed.error) {
            let before = &failed.text[..fault.span.start as usize];
            assert_eq!(before.matches('\n').count() + 1, line, "{statement}");
        } else {
            assert!(line.is_none(), "{said}");
        }
        assert_eq!(
            asked(&engine, dir, "select name, n from t"),
            json!([["old", 1]]),
            "{statement}"
        );
    }
}

#[test]
fn an_incremental_table_gives_what_has_come_since() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    let setup = r#"
        CREATE TEMPORARY TABLE w USING CarbonAnalytics OPTIONS (tableName "events", schema "v INT, _timestamp LONG");
        CREATE TEMPORARY TABLE e USING CarbonAnalytics OPTIONS (tableName "events", schema "v INT",
            incrementalParams "seen");
        CREATE TEMPORARY TABLE h USING CarbonAnalytics OPTIONS (tableName "events", schema "v INT, _timestamp LONG",
            incrementalParams "hours, HOUR");"#;
    let with = |rest: &str| ran(&engine, dir, &format!("{setup}{rest}"));
    let unset = i64::MIN;
    with("INSERT INTO w SELECT 1, 3600000; INSERT INTO w SELECT 2, 7200001;");
    let all = with(
        "SELECT v FROM e ORDER BY v; SELECT v FROM h ORDER BY v; INCREMENTAL_TABLE_SHOW seen, hours, none",
    );
    assert_eq!(rows(&all[0]), json!([[1], [2]]));
    assert_eq!(
        rows(&all[2]),
        json!([
            ["seen", 7_200_001, unset],
            ["hours", 7_200_001, unset],
            ["none", unset, unset]
        ])
    );
    // What was not committed is read again.
    let all = with("SELECT count(*) FROM e; INCREMENTAL_TABLE_COMMIT seen, hours;");
    assert_eq!(rows(&all[0]), json!([[2]]));
    assert_eq!(
        rows(&all[1]),
        json!([["seen", unset, 7_200_001], ["hours", unset, 7_200_001]])
    );
    with("INSERT INTO w SELECT 3, 7300000; INSERT INTO w SELECT 4, 100;");
    // Row 4 has come late; by the hour, that of the last row and one before it are read again.
    let all = with("SELECT v FROM e; SELECT v, _timestamp FROM h ORDER BY v;");
    assert_eq!(rows(&all[0]), json!([[3]]));
    assert_eq!(
        rows(&all[1]),
        json!([[1, 3_600_000], [2, 7_200_001], [3, 7_300_000]])
    );
    let all = with("INCREMENTAL_TABLE_RESET seen; SELECT count(*) FROM e;");
    assert_eq!(rows(&all[1]), json!([[4]]));
}

#[test]
fn what_comes_after_an_incremental_table_was_read_is_read_by_the_next_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    let setup = r#"
        CREATE TEMPORARY TABLE w USING CarbonAnalytics OPTIONS (tableName "events", schema "v INT, _timestamp LONG");
        CREATE TEMPORARY TABLE e USING CarbonAnalytics OPTIONS (tableName "events", schema "v INT",
            incrementalParams "seen");"#;
    let with = |rest: &str| ran(&engine, dir, &format!("{setup}{rest}"));
    with("INSERT INTO w SELECT 1, 1000");
    // Row 2 comes between reading and commit; the statements there do not read the table.
    let all = with(
        "SELECT v FROM e; INSERT INTO w SELECT 2, 2000; SELECT count(*) FROM w; INCREMENTAL_TABLE_COMMIT seen",
    );
    assert_eq!(rows(&all[0]), json!([[1]]));
    assert_eq!(rows(&all[3]), json!([["seen", i64::MIN, 1000]]));
    assert_eq!(rows(&with("SELECT v FROM e")[0]), json!([[2]]));
}

struct Country;

impl Call for Country {
    fn call(&mut self, arguments: &[Value]) -> Result<Value, String> {
        match arguments {
            [Value::Str(ip)] if ip.starts_with("10.") => Ok(Value::str("Ruritania")),
            [Value::Str(_)] => Ok(Value::Null),
            other => Err(format!("{} arguments", other.len())),
        }
    }
}

/// Of the shape of DAS's sample over the log of a web server.
#[test]
fn functions_of_das_and_of_users_are_called() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, engine) = (dir.path(), engine());
    let functions = [UserFunction {
        name: "toCountryName".to_owned(),
        returns: Type::String,
        call: Arc::new(Mutex::new(Country)),
    }];
    let script = r#"
        create temporary table logs using CarbonAnalytics options (tableName "httpd", schema "ip STRING, response INT");
        insert overwrite table logs select "10.0.0.1", 200 union all select "10.0.0.1", 404 union all select "11.1.1.1", 200;
        create temporary table summary using CarbonAnalytics
            options (tableName "summary", schema "countryName STRING, requests INT", primaryKeys "countryName");
        insert overwrite table summary select CAST(toCountryName(first(ip)) As STRING), sum(c) from
            (select ip, count(*) as c from logs where response >= 200 and response <= 404 group by ip)ips
            group by toCountryName(ip) order by 2;
        select countryName, requests from summary order by requests;
        select concat("a", cast(null as string)), facet2("x", 1), timestamp("1970-01-02"),
            timestamp("1970-01-01 01:00:00 UTC"), now() > 1600000000000;
        select geometricMean(response), harmonicMean(response) from (select 1 as response union all select 4)r;"#;
    for _ in 0..2 {
        let (outcomes, error) = run(&engine, dir, script, &functions);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(rows(&outcomes[2]), json!([[null, 1], ["Ruritania", 2]]));
        assert_eq!(
            rows(&outcomes[3]),
            json!([["anull", "x,1", 86_400_000, 3_600_000, true]])
        );
        let means = rows(&outcomes[4]);
        let near = |at: usize, value: f64| {
            let mean = means[0][at].as_f64().expect("a number");
            assert!((mean - value).abs() < 1e-9, "{means}");
        };
        near(0, 2.0);
        near(1, 1.6);
    }
    let (_, error) = run(&engine, dir, "select toCountryName(1, 2)", &functions);
    let error = error.expect("it fails").error.to_string();
    assert!(
        error.contains("function 'toCountryName': 2 arguments"),
        "{error}"
    );
}
