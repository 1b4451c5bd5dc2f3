//! `kafkaMultiDC`: two clusters, one of which may be away.

use servers::Running as Server;

use super::{Case, consume, kcat, produce, received, start};
use crate::network::{Running, eventually};

const WRITER: &str = "@app:name('Writer')
@source(type='kafka', bootstrap.servers='{one}', topic.list='centres-in', group.id='writer', threading.option='single.thread', @map(type='json'))
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

fn case(one: &Server, two: &Server, text: &str) -> Case {
    let text = text.replace("{one}", &one.endpoint());
    Case::new(one, &text.replace("{two}", &two.endpoint()))
}

#[test]
fn what_goes_to_two_centres_comes_once_and_in_order() {
    let (Some(one), Some(two)) = (start(), start()) else {
        return;
    };
    produce(&one, "centres-in", 0, super::events(0..2000));
    case(&one, &two, WRITER).run();
    for centre in [&one, &two] {
        let found = consume(centre, "centres", "%p %k %s\n");
        assert_eq!(found.len(), 2000);
        assert!(found[7].starts_with("1 k7 here:"), "{}", found[7]);
        assert!(found[7].ends_with("~{\"event\":{\"n\":7}}"), "{}", found[7]);
    }
    // A record without a header is rejected by name; what is there again is dropped.
    produce(&two, "centres", 1, ["bare".to_owned()]);
    produce(
        &two,
        "centres",
        1,
        received(&one, "centres").split_off(1990),
    );
    let reader = case(&one, &two, READER);
    let run = Running::start(&[&reader.app, "--until-done"]);
    run.err_has("no sequence header", 1);
    assert_eq!(run.end().0, Some(4));
    assert_eq!(reader.numbers("out.csv"), (0..2000).collect::<Vec<u32>>());
}

#[test]
fn a_centre_that_dies_takes_nothing_with_it() {
    let (Some(one), Some(mut two)) = (start(), start()) else {
        return;
    };
    kcat(&one, &["-P", "-t", "centres", "-p", "0"], "begin\n");
    let (writer, reader) = (case(&one, &two, WRITER), case(&one, &two, READER));
    let state = reader.dir.path().join("state").display().to_string();
    let args = [
        reader.app.as_str(),
        "--state",
        &state,
        "--state-interval",
        "200ms",
    ];
    let (write, read) = (writer.start(), Running::start(&args));
    produce(&one, "centres-in", 0, super::events(0..500));
    eventually("the first arrive", || reader.lines("out.csv").len() >= 500);
    two.kill();
    read.err_has("a data centre is lost", 1);
    produce(&one, "centres-in", 0, super::events(500..1000));
    eventually("more arrive", || reader.lines("out.csv").len() >= 1000);
    // Killed and started again it goes on where it was; the centre has come back meanwhile.
    read.kill();
    two.restart().expect("the broker starts again");
    produce(&one, "centres-in", 0, super::events(1000..1500));
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
