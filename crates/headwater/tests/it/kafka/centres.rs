//! `kafkaMultiDC`: two clusters, one of which may be away.

use testservers::Running as Server;

use super::{Case, broker, consume, kcat, lent, produce, received};
use crate::network::{Running, eventually, free_port, number};

// row: sink kafkaMultiDC, source kafkaMultiDC | kafka
// n/a slow: it writes and reads as kafka does, see there
// n/a tls: it connects as kafka does, see there
// n/a login: it connects as kafka does, see there

const WRITER: &str = "@app:name('Writer')
@source(type='kafka', bootstrap.servers='{one}', topic.list='centres-in', group.id='centres-writer', threading.option='single.thread', @map(type='json'))
define stream S (n int);
@sink(type='kafkaMultiDC', bootstrap.servers='{one},{two}', topic='centres', partition.no='1', key='k{{n}}', sequence.id='here', on.error='WAIT', @map(type='json'))
define stream Out (n int);
from S select * insert into Out;
";

const READER: &str = "@app:name('Centres')
@source(type='kafkaMultiDC', bootstrap.servers='{one}, {two}', topic='centres', partition.no='1', @map(type='json'))
define stream S (n int);
@sink(type='file', file.uri='file:{dir}/out.csv', @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
";

/// With topics and groups of that name.
fn case(one: &Server, two: &Server, text: &str, name: &str) -> Case {
    let text = text
        .replace("centres", name)
        .replace("{one}", &one.endpoint());
    Case::new(one, &text.replace("{two}", &two.endpoint()))
}

// shows: sink kafkaMultiDC open, order
#[test]
fn what_goes_to_two_centres_comes_once_and_in_order() {
    long_test!();
    let (Some(one), Some(two)) = (broker(), lent()) else {
        return;
    };
    produce(one, "both-in", 0, super::events(0..2000));
    case(one, &two, WRITER, "both").run();
    for centre in [one, &*two] {
        let found = consume(centre, "both", "%p %k %s\n");
        assert_eq!(found.len(), 2000);
        assert!(found[7].starts_with("1 k7 here:"), "{}", found[7]);
        assert!(found[7].ends_with("~{\"event\":{\"n\":7}}"), "{}", found[7]);
    }
    // A record without a header is rejected by name; what is there again is dropped.
    produce(&two, "both", 1, ["bare".to_owned()]);
    produce(&two, "both", 1, received(one, "both").split_off(1990));
    let reader = case(one, &two, READER, "both");
    let run = Running::start(&[&reader.app, "--until-done"]);
    run.err_has("no sequence header", 1);
    assert_eq!(run.end().0, Some(4));
    assert_eq!(reader.numbers("out.csv"), (0..2000).collect::<Vec<u32>>());
}

// shows: sink kafkaMultiDC resume, lost, error
#[test]
fn a_centre_that_dies_takes_nothing_with_it() {
    long_test!();
    let (Some(one), Some(mut two)) = (broker(), lent()) else {
        return;
    };
    kcat(one, &["-P", "-t", "dies", "-p", "0"], "begin\n");
    let (writer, reader) = (
        case(one, &two, WRITER, "dies"),
        case(one, &two, READER, "dies"),
    );
    let state = reader.dir.path().join("state").display().to_string();
    let args = [
        reader.app.as_str(),
        "--state",
        &state,
        "--state-interval",
        "200ms",
    ];
    let (write, read) = (writer.start(), Running::start(&args));
    produce(one, "dies-in", 0, super::events(0..500));
    eventually("the first arrive", || reader.lines("out.csv").len() >= 500);
    two.kill();
    read.err_has("lost connection to a data centre", 1);
    produce(one, "dies-in", 0, super::events(500..1000));
    eventually("more arrive", || reader.lines("out.csv").len() >= 1000);
    // Killed and started again it goes on where it was; the centre has come back meanwhile.
    read.kill();
    two.restart().expect("the broker starts again");
    produce(one, "dies-in", 0, super::events(1000..1500));
    let read = Running::start(&args);
    eventually("all arrive", || {
        let mut numbers = reader.numbers("out.csv");
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len() >= 1500
    });
    assert_eq!((write.stop().0, read.stop().0), (Some(0), Some(0)));
    // A file has each event at least once: what came after the last save stands twice.
    let mut seen = std::collections::HashSet::new();
    let mut numbers = reader.numbers("out.csv");
    numbers.retain(|number| seen.insert(*number));
    assert_eq!(numbers, (0..1500).collect::<Vec<u32>>());
}

// shows: sink kafkaMultiDC bad, reload
#[test]
fn records_that_cannot_be_read_are_kept_and_a_reload_goes_on_where_each_centre_was() {
    long_test!();
    let (Some(one), Some(two)) = (broker(), lent()) else {
        return;
    };
    produce(one, "edited-in", 0, super::events(0..100));
    case(one, &two, WRITER, "edited").run();
    let reader = case(one, &two, READER, "edited");
    let edit = |note: u32| {
        let text = READER
            .replace("{one}", &one.endpoint())
            .replace("{two}", &two.endpoint())
            .replace("centres", "edited")
            .replace("{dir}", &reader.dir.path().display().to_string());
        std::fs::write(&reader.app, format!("-- edit {note}\n{text}")).expect("there is room");
    };
    let run = Running::connected(&[&reader.app], 1);
    eventually("the first", || reader.lines("out.csv").len() >= 100);
    for note in 1..=3 {
        edit(note);
        run.reload();
        run.err_has("apps reloaded change", note as usize);
        // A header that is right, and behind it nothing that could be read.
        let bad = format!("bad:{note}~no JSON");
        produce(one, "edited", 1, [bad.clone()]);
        produce(&two, "edited", 1, [bad]);
        let good = format!("good:{note}~{{\"event\":{{\"n\":{}}}}}", 1000 + note);
        produce(one, "edited", 1, [good.clone()]);
        produce(&two, "edited", 1, [good]);
        let wanted = 100 + note as usize;
        eventually("the good one", || reader.lines("out.csv").len() >= wanted);
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    let expect: Vec<u32> = (0..100).chain(1001..=1003).collect();
    assert_eq!(reader.numbers("out.csv"), expect);
    assert_eq!(number(&summary, "sources", "S", "rejected"), 3, "{summary}");
}

// shows: sink kafkaMultiDC error
#[test]
fn records_for_centres_that_are_both_away_go_where_on_error_says() {
    for (policy, failed, faults) in [("LOG", 3, 0), ("STREAM", 0, 3), ("STORE", 3, 0)] {
        let dir = tempfile::tempdir().expect("a folder");
        let text = "@app:name('Away')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream S (n int);
@OnError(action='STREAM')
@sink(type='kafkaMultiDC', bootstrap.servers='127.0.0.1:{one},127.0.0.1:{two}', topic='away', on.error='{policy}', optional.configuration='delivery.timeout.ms:2000,request.timeout.ms:1000', @map(type='json'))
define stream Out (n int);
@sink(type='log', prefix='fault')
define stream Faults (n int);
from S select * insert into Out;
from !Out select n insert into Faults;
"
        .replace("{dir}", &dir.path().display().to_string())
        .replace("{one}", &free_port().to_string())
        .replace("{two}", &free_port().to_string())
        .replace("{policy}", policy);
        let app = dir.path().join("app.siddhi");
        std::fs::write(&app, text).expect("the folder can be written");
        std::fs::write(dir.path().join("in.csv"), "1\n2\n3\n").expect("there is room");
        let app = app.display().to_string();
        let (_, summary) = Running::start(&[&app, "--until-done"]).end();
        let of = |stream, what| number(&summary, "sinks", stream, what);
        assert_eq!(of("Out", "failed"), failed, "{policy}: {summary}");
        assert_eq!(of("Faults", "events"), faults, "{policy}: {summary}");
    }
}
