//! A CApp of the shape of DAS's samples.

use std::fs::File;
use std::io::Write as _;

use super::*;

const ARTIFACTS: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<artifacts>
  <artifact name=\"Smart_Home\" version=\"1.0.0\" type=\"carbon/application\">
    <dependency artifact=\"stream\" version=\"1.0.0\" include=\"true\" serverRole=\"DataAnalyticsServer\"/>
  </artifact>
</artifacts>";

const STREAM: &str = r#"{"name":"org.acme.home","version":"1.0.0","nickName":"","description":"",
 "metaData":[{"name":"client","type":"STRING"}],
 "payloadData":[{"name":"house_id","type":"INT"},{"name":"power","type":"FLOAT"},{"name":"is_peak","type":"BOOL"}]}"#;

const RECEIVER: &str = "<eventReceiver name=\"home\" statistics=\"disable\" trace=\"disable\" xmlns=\"http://wso2.org/carbon/eventreceiver\">
  <from eventAdapterType=\"wso2event\"><property name=\"events.duplicated.in.cluster\">false</property></from>
  <mapping customMapping=\"disable\" type=\"wso2event\"/>
  <to streamName=\"org.acme.home\" version=\"1.0.0\"/>
</eventReceiver>";

const STORE: &str = "<EventStoreConfiguration>
  <TableSchema>
    <ColumnDefinition><Name>house_id</Name><EnableIndexing>true</EnableIndexing><IsPrimaryKey>false</IsPrimaryKey>
      <EnableScoreParam>false</EnableScoreParam><IsFacet>false</IsFacet><Type>INTEGER</Type></ColumnDefinition>
    <ColumnDefinition><Name>meta_client</Name><IsFacet>true</IsFacet><Type>STRING</Type></ColumnDefinition>
    <ColumnDefinition><Name>power</Name><Type>DOUBLE</Type></ColumnDefinition>
    <ColumnDefinition><Name>_timestamp</Name><Type>LONG</Type></ColumnDefinition>
    <ColumnDefinition><Name>_version</Name><Type>STRING</Type></ColumnDefinition>
  </TableSchema>
  <Source><StreamId>org.acme.home:1.0.0</StreamId></Source>
  <MergeSchema>false</MergeSchema>
  <RecordStoreName>EVENT_STORE</RecordStoreName>
</EventStoreConfiguration>";

const SCRIPT: &str = "<Analytics><Name>usage</Name><Script>SELECT 1;</Script></Analytics>";

const PURGE: &str =
    "<analytics-data-purging><purging-enable>true</purging-enable></analytics-data-purging>";

/// A CApp with these files beside its `artifacts.xml`.
fn made(files: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("home.car");
    let mut zip = zip::ZipWriter::new(File::create(&path).expect("a file"));
    for (name, text) in files {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(*name, options).expect("begun");
        zip.write_all(text.as_bytes()).expect("written");
    }
    zip.finish().expect("whole");
    (dir, path)
}

fn of(files: &[(&str, &str)]) -> Result<Capp, Error> {
    let (_dir, path) = made(&[&[("artifacts.xml", ARTIFACTS)], files].concat());
    assert!(is_capp(&path));
    read(&path)
}

#[test]
fn streams_receivers_and_stores_become_an_app_and_the_rest_is_named() {
    let capp = of(&[
        ("stream_1.0.0/artifact.xml", "<artifact/>"),
        ("stream_1.0.0/org.acme.home_1.0.0.json", STREAM),
        ("receiver_1.0.0/home.xml", RECEIVER),
        ("store_1.0.0/org_acme_home.xml", STORE),
        ("script_1.0.0/usage.xml", SCRIPT),
        ("purge_1.0.0/purge.xml", PURGE),
        ("publisher_1.0.0/log.xml", "<eventPublisher name=\"log\"/>"),
        ("plan_1.0.0/plan.siddhiql", "from a select b insert into c;"),
        ("gadget_1.0.0/gadget/index.html", "<html/>"),
        ("gadget_1.0.0/gadget/conf.json", "// no JSON"),
        (
            "dashboard_1.0.0/dashboard.json",
            "{\"name\": \"home\", \"pages\": []}",
        ),
    ]);
    let capp = capp.expect("read");
    assert_eq!(capp.name, "Smart_Home");
    assert_eq!(
        capp.app.as_deref(),
        Some(
            "@app:name('Smart_Home')

@source(type='wso2event', wso2.stream.id='org.acme.home:1.0.0', @map(type='wso2event'))
define stream org_acme_home (`meta_client` string, `house_id` int, `power` float, `is_peak` bool);

@store(type='eventstore', table.name='org_acme_home', schema='house_id -i, meta_client -f')
define table org_acme_home_store (`house_id` int, `meta_client` string, `power` double, `_version` string);
from org_acme_home select `house_id`, `meta_client`, convert(`power`, 'double') as `power`, '1.0.0' as `_version` insert into org_acme_home_store;
"
        )
    );
    let named = |name: &str, text: &str| [(name.to_owned(), text.to_owned())];
    assert_eq!(capp.scripts, named("script_1.0.0/usage.xml", SCRIPT));
    assert_eq!(capp.purges, named("purge_1.0.0/purge.xml", PURGE));
    assert_eq!(
        capp.notes,
        [
            "publisher_1.0.0/log.xml is not taken over: write a sink for what the publisher 'log' sends",
            "plan_1.0.0/plan.siddhiql is not taken over: run its queries, in the language of Siddhi 5, as an app of its own",
            "dashboard_1.0.0: 1 file is not taken over",
            "gadget_1.0.0: 2 files are not taken over",
        ]
    );
}

#[test]
fn keys_are_kept_and_what_a_stream_lacks_is_said() {
    let store = STORE
        .replace("<IsPrimaryKey>false", "<IsPrimaryKey>true")
        .replace(
            "<Name>power</Name><Type>DOUBLE",
            "<Name>other</Name><Type>LONG",
        );
    let capp = of(&[("s/a.json", STREAM), ("t/t.xml", &store)]).expect("read");
    let app = capp.app.expect("an app");
    for part in [
        "@PrimaryKey('house_id')\n",
        "convert(convert('', 'int'), 'long') as `other`",
    ] {
        assert!(app.contains(part), "{part}: {app}");
    }
    assert_eq!(
        capp.notes,
        [
            "t/t.xml: column 'other' is empty for stream 'org.acme.home:1.0.0', which has no such attribute"
        ]
    );
}

/// The source of a receiver with this adapter and mapping, or why there is none.
fn source(from: &str, mapping: &str) -> (String, Vec<String>) {
    let receiver = format!(
        "<eventReceiver name=\"home\">{from}{mapping}<to streamName=\"org.acme.home\" version=\"1.0.0\"/></eventReceiver>"
    );
    let capp = of(&[("s/a.json", STREAM), ("r/r.xml", &receiver)]).expect("read");
    let app = capp.app.expect("an app");
    let source = app.lines().find(|line| line.starts_with("@source"));
    (source.unwrap_or_default().to_owned(), capp.notes)
}

const BY_LISTS: &str = "@map(type='json', fail.on.missing.attribute='false', @attributes(\
    meta_client='$.event.metaData.client', house_id='$.event.payloadData.house_id', \
    power='$.event.payloadData.power', is_peak='$.event.payloadData.is_peak')))";

#[test]
fn a_receiver_becomes_a_source_with_its_mapper() {
    let json = "<mapping customMapping=\"disable\" type=\"json\"/>";
    let (http, notes) = source(
        "<from eventAdapterType=\"http\"><property name=\"transports\">all</property></from>",
        json,
    );
    let begin = "@source(type='http', receiver.url='http://0.0.0.0:9763/endpoints/home', basic.auth.enabled='false', ";
    assert_eq!(http, format!("{begin}{BY_LISTS}"));
    assert!(notes.is_empty(), "{notes:?}");
    let (kafka, notes) = source(
        "<from eventAdapterType=\"kafka\"><property name=\"zookeeper.connect\">zk:2181</property>\
         <property name=\"topic\">home</property><property name=\"group.id\">das</property></from>",
        json,
    );
    let begin = "@source(type='kafka', bootstrap.servers='${KAFKA_BOOTSTRAP_SERVERS}', topic.list='home', group.id='das', \
                 threading.option='single.thread', ";
    assert_eq!(kafka, format!("{begin}{BY_LISTS}"));
    assert!(
        notes[0].starts_with("r/r.xml: the brokers are those of the variable"),
        "{notes:?}"
    );
    let mqtt = "<from eventAdapterType=\"mqtt\"><property name=\"url\">tcp://broker:1883</property>\
                <property name=\"topic\">it's</property><property name=\"qos\">1</property></from>";
    let (mqtt, _) = source(mqtt, json);
    assert!(
        mqtt.contains("topic=\"it's\", quality.of.service='1', @map"),
        "{mqtt}"
    );
    let (tail, _) = source(
        "<from eventAdapterType=\"file-tail\"><property name=\"filepath\">/var/log/a</property></from>",
        "<mapping type=\"xml\"/>",
    );
    for part in [
        "file.uri='file:/var/log/a'",
        "enclosing.element='/events'",
        "meta_client='metaData/client'",
    ] {
        assert!(tail.contains(part), "{part}: {tail}");
    }
}

#[test]
fn a_mapping_of_its_own_becomes_attributes() {
    let property = |from: &str, to: &str| {
        format!("<property><from {from}/><to name=\"{to}\" type=\"int\"/></property>")
    };
    let all = |from: [&str; 4]| {
        let names = ["meta_client", "house_id", "power", "is_peak"];
        from.iter()
            .zip(names)
            .map(|(from, to)| property(from, to))
            .collect::<String>()
    };
    let http = "<from eventAdapterType=\"http\"/>";
    let paths = all([
        "jsonPath=\"$.c\"",
        "jsonPath=\"house\"",
        "jsonPath=\"$['p']\"",
        "jsonPath=\"$.a[0]\"",
    ]);
    let mapping = format!("<mapping customMapping=\"enable\" type=\"json\">{paths}</mapping>");
    let (json, _) = source(http, &mapping);
    let attributes =
        "@attributes(meta_client='$.c', house_id='$.house', power=\"$['p']\", is_peak='$.a[0]')))";
    assert!(json.ends_with(attributes), "{json}");
    let lists = all([
        "name=\"c\" dataType=\"meta\"",
        "name=\"h\"",
        "name=\"p\" dataType=\"correlation\"",
        "name=\"i\"",
    ]);
    let mapping = format!(
        "<mapping customMapping=\"enable\" type=\"wso2event\"><from streamName=\"other\" version=\"2.0.0\"/>{lists}</mapping>"
    );
    let (event, _) = source("<from eventAdapterType=\"wso2event\"/>", &mapping);
    assert_eq!(
        event,
        "@source(type='wso2event', wso2.stream.id='other:2.0.0', @map(type='wso2event', \
         @attributes(meta_client='meta_c', house_id='h', power='correlation_p', is_peak='i')))"
    );
}

#[test]
fn a_receiver_without_its_like_is_named_with_the_way_out() {
    let json = "<mapping type=\"json\"/>";
    let http = "<from eventAdapterType=\"http\"/>";
    let secret = "<from eventAdapterType=\"websocket\"><property name=\"websocket.server.url\">ws://a/${secret:db}</property></from>";
    for (from, mapping, says) in [
        (
            "<from eventAdapterType=\"soap\"/>",
            json,
            "there is no source here for 'soap'",
        ),
        (
            http,
            "<mapping type=\"text\"/>",
            "its mapping 'text' is not taken over",
        ),
        (
            http,
            "<mapping customMapping=\"enable\" type=\"json\"/>",
            "no property for 'meta_client'",
        ),
        (
            "<from eventAdapterType=\"kafka\"/>",
            json,
            "has no property 'topic'",
        ),
        (secret, json, "names a variable"),
    ] {
        let (source, notes) = source(from, mapping);
        assert!(source.is_empty(), "{source}");
        let notes = notes.join("\n");
        assert!(
            notes.contains(says) && notes.contains("write a source of stream 'org_acme_home'"),
            "{says}: {notes}"
        );
    }
}

#[test]
fn a_capp_that_means_harm_or_is_none_is_refused() {
    let quote = STREAM.replace("org.acme.home", "x') define stream y (z int); --");
    let other = STREAM.replace("org.acme.home", "org_acme_home");
    for (files, says) in [
        (&[("s/a.json", &*quote)][..], "is no name of letters"),
        (
            &[("s/a.json", &STREAM.replace("house_id", "a` int, b"))],
            "is no name of letters",
        ),
        (&[("s/a.json", "{")], "not JSON"),
        (
            &[("s/a.json", &STREAM.replace("\"INT\"", "\"BLOB\""))],
            "has no type: 'BLOB'",
        ),
        (
            &[("s/a.json", STREAM), ("s/b.json", STREAM)],
            "defined twice",
        ),
        (
            &[("s/a.json", STREAM), ("s/b.json", &other)],
            "would both be 'org_acme_home'",
        ),
        (
            &[("s/a.json", "{\"name\":\"a\",\"payloadData\":[]}")],
            "has no attribute",
        ),
        (
            &[("s/a.json", STREAM), ("t/t.xml", STORE), ("u/u.xml", STORE)],
            "keep the same table",
        ),
        (&[("r/r.xml", "<eventReceiver")], "not XML"),
        (&[("r/r.xml", &"<a>".repeat(100))], "nested deeper"),
        (
            &[("t/t.xml", "<EventStoreConfiguration/>")],
            "no element 'TableSchema'",
        ),
        (&[("../x.xml", "<a/>")], "no place below"),
        (&[("a/b.xml", &" ".repeat(5 << 20))], "is longer than"),
    ] {
        let refused = of(files).expect_err("refused").to_string();
        assert!(refused.contains(says), "{says}: {refused}");
    }
    let (_dir, path) = made(&[("other.txt", "")]);
    let refused = read(&path).expect_err("none").to_string();
    assert!(refused.contains("no CApp of WSO2 DAS"), "{refused}");
    std::fs::write(&path, "PK").expect("written");
    let refused = read(&path).expect_err("none").to_string();
    assert!(refused.contains("the zip cannot be read"), "{refused}");
}
