//! Prometheus against its real push gateway, `curl`, and our own sink and source.

use std::fs;
use std::io::Write as _;

use crate::broker::Apps;
use crate::network::{Gate, Running, Stub, curl, eventually, free_port, number, ok};
use testservers::Order;

// row: sink prometheus, source prometheus | pushgateway
// n/a order: a metric has no order
// n/a resume: a metric begins anew with its process

const SCRAPED: &str = "@app:name('Scraped')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='true', @map(type='csv'))
define stream In (n long, text string);
@sink(type='prometheus', server.url='http://127.0.0.1:{port}', metric.type='counter', metric.name='total', metric.help='all of them', value.attribute='n', @map(type='keyvalue'))
define stream Counted (n long, parity string);
@sink(type='prometheus', server.url='http://127.0.0.1:{port}', metric.type='gauge', @map(type='keyvalue'))
define stream Level (value float);
@sink(type='prometheus', server.url='http://127.0.0.1:{port}', metric.type='histogram', metric.name='h', buckets='1, 2', @map(type='keyvalue'))
define stream Histogram (value int);
@sink(type='prometheus', server.url='http://127.0.0.1:{port}', metric.type='summary', metric.name='s', quantiles='0.5,0.99', quantile.error='0.01', @map(type='keyvalue'))
define stream Summary (value double);
from In select n, ifThenElse(n % 2L == 0L, 'even', 'odd') as parity insert into Counted;
from In[n != 3L] select 0.1f as value insert into Level;
from In select convert(n, 'int') as value insert into Histogram;
from In select convert(n, 'double') as value insert into Summary;
";

// shows: sink prometheus open
#[test]
fn metrics_of_every_type_are_scraped_from_one_port() {
    let port = free_port();
    let apps = Apps::new(port, 4);
    let run = Running::connected(&[&apps.write("scraped", SCRAPED, "")], 1);
    let url = format!("http://127.0.0.1:{port}/metrics");
    let expect = "# HELP total all of them\n# TYPE total counter\n\
                  total{parity=\"even\"} 2.0\ntotal{parity=\"odd\"} 4.0\n";
    eventually("the counter", || {
        curl(&[&format!("{url}?name%5B%5D=total")]).1 == expect
    });
    eventually("all metrics", || curl(&[&url]).1.contains("s_count 4.0"));
    let (status, text) = curl(&[&url]);
    assert_eq!(status, "200");
    for part in [
        expect,
        "# HELP Level help for gauge Level\n# TYPE Level gauge\nLevel 0.3",
        "# TYPE h histogram\nh_bucket{le=\"1.0\"} 2.0\nh_bucket{le=\"2.0\"} 3.0\nh_bucket{le=\"+Inf\"} 4.0\nh_count 4.0\nh_sum 6.0\n",
        "# TYPE s summary\ns{quantile=\"0.5\"} 1.0\ns{quantile=\"0.99\"} ",
        "s_count 4.0\ns_sum 6.0\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Counted", "events"), 4);
    // The port is free again.
    assert_eq!(curl(&[&url]).0, "000");
}

const PUSHED: &str = "@app:name('Pushed')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='prometheus', publish.mode='pushgateway', push.url='http://127.0.0.1:{port}', metric.type='counter', metric.name='pushed', value.attribute='n', on.error='WAIT', {options}, @map(type='keyvalue'))
define stream Out (n long, label string);
from In select n, 'x' as label insert into Out;
";

// shows: sink prometheus lost, error
#[test]
fn a_push_gateway_gets_what_was_counted_even_when_it_was_away() {
    let Some(mut gateway) = Order::new().start_or_skip("pushgateway") else {
        return;
    };
    let apps = Apps::new(gateway.port(), 1_000);
    let scraped = || curl(&[&format!("{}/metrics", gateway_url(apps.port()))]).1;
    let pushing = apps.write(
        "pushed",
        PUSHED,
        "job='my/job', grouping.key=\"'instance:one','zone:a b'\"",
    );
    let (code, summary) = Running::start(&[&pushing, "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    let text = scraped();
    let line = text.lines().find(|line| line.starts_with("pushed{"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    for part in [
        "instance=\"one\"",
        "job=\"my/job\"",
        "zone=\"a b\"",
        "label=\"x\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert!(line.ends_with(" 499500"), "{line}");
    // `push` replaces what the group had.
    let more = "job='my/job', grouping.key=\"'instance:one','zone:a b'\", push.operation='push', metric.help='h'";
    let other = PUSHED.replace("metric.name='pushed'", "metric.name='other'");
    let other = apps.write("other", &other, more);
    gateway.stop();
    let run = Running::start(&[&other, "--until-done"]);
    run.err_has("cannot connect sink", 1);
    gateway.restart().expect("it starts again");
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    let text = scraped();
    assert!(text.contains("# HELP other h\n"), "{text}");
    let line = text.lines().find(|line| line.starts_with("other{"));
    assert!(line.is_some_and(|line| line.ends_with(" 499500")), "{text}");
    assert!(!text.contains("pushed{"), "{text}");
}

fn gateway_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

const SAMPLES: &str = "@app:name('Samples')
@source(type='prometheus', target.url='http://127.0.0.1:{port}/metrics', scrape.interval='1', metric.type='{type}', {options}, @map(type='keyvalue', fail.on.missing.attribute='false'))
define stream In (metric_name string, metric_type string, help string, subtype string, name string, le string, value long);
@sink(type='log', prefix='in')
define stream Log (metric_name string, metric_type string, help string, subtype string, name string, le string, value long);
from In select * insert into Log;
";

// shows: sink prometheus open
#[test]
fn a_source_gives_each_sample_of_its_metric() {
    let text = "# HELP sweets how many\n# TYPE sweets counter\n\
                sweets{name=\"a,b\",job=\"j\",instance=\"i\",zone=\"z\"} 3\n\
                sweets{name=\"other\",job=\"k\",instance=\"i\",zone=\"z\"} 4.0\nsweetsmore 5\n\
                # TYPE size histogram\nsize_bucket{le=\"+Inf\"} 2\nsize_count 2\nsize_sum 7\n";
    let stub = Stub::start(0, move |_| ok(text));
    let apps = Apps::new(stub.port, 1);
    let write = |ty: &str, options: &str| apps.write(ty, &SAMPLES.replace("{type}", ty), options);
    let only = "metric.name='sweets', job='J', instance='i', grouping.key=\"'zone:z'\"";
    let run = Running::connected(&[&write("counter", only)], 1);
    run.out_has("data=[sweets, counter, how many, null, a,b, null, 3]", 1);
    // What is the same as before brings nothing.
    stub.wait_for(3);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sources", "In", "events"), 1);
    let run = Running::connected(&[&write("histogram", "metric.name='size'")], 1);
    run.out_has("data=[size, histogram, , bucket, null, +Inf, 2]", 1);
    run.out_has("data=[size, histogram, , count, null, , 2]", 1);
    run.out_has("data=[size, histogram, , sum, null, , 7]", 1);
    run.stop();
    let state = apps.path("state");
    let run = Running::connected(
        &[&write("gauge", "metric.name='sweets'"), "--state", &state],
        1,
    );
    stub.wait_for(8);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    let errors = crate::broker::errors(&state);
    assert!(
        errors.contains("is a counter, the source asks for a gauge"),
        "{errors}"
    );
}

// shows: sink prometheus tls, login
#[test]
fn a_target_is_asked_as_the_options_say() {
    let stub = Stub::start(0, |got| {
        if got.has("authorization: Basic YW5uYTpnZWhlaW0=") && got.has("x-more: a:b") {
            return ok("# TYPE m gauge\nm 1\n");
        }
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let apps = Apps::new(stub.port, 1);
    let write = |options: &str| apps.write("asked", &SAMPLES.replace("{type}", "gauge"), options);
    let right = "metric.name='m', username='anna', password='geheim', headers=\"'X-More:a:b'\", scheme='http'";
    let run = Running::connected(&[&write(right)], 1);
    run.out_has("data=[m, gauge, , null, null, null, 1]", 1);
    run.stop();
    let run = Running::start(&[&write("metric.name='m'")]);
    run.err_has("it answered 401", 1);
    run.stop();
    let run = Running::start(&[&write("scheme='https'")]);
    run.err_has("write the same in both", 1);
    drop(run);
    // A target that takes a connection and says nothing is given up.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    let apps = Apps::new(port, 1);
    let app = SAMPLES.replace("{type}", "gauge");
    let run = Running::start(&[&apps.write("silent", &app, "scrape.timeout='1'")]);
    run.err_has("no answer within 1000 ms", 1);
    run.stop();
    // Ours is asked over TLS: nobody is trusted without a store.
    let keys = crate::broker::key_file("server.p12");
    let apps = Apps::new(free_port(), 1);
    let config = apps.deployment(&[(
        "source",
        "http",
        vec![
            ("keyStoreLocation", keys.as_str()),
            ("keyStorePassword", "wso2carbon"),
        ],
    )]);
    let listener = "@app:name('Listener') @source(type='http', receiver.url='https://localhost:{port}/metrics', @map(type='json')) define stream In (n long);
from In select n insert into Out;";
    let listening = apps.write("listener", listener, "");
    let listener = Running::connected(&[&listening, "--config", &config], 1);
    let app = app.replace("http://127.0.0.1", "https://localhost");
    let options = format!(
        "client.truststore.file='{keys}', client.truststore.password='wso2carbon', scheme='HTTPS'"
    );
    let run = Running::start(&[&apps.write("trusting", &app, &options)]);
    // The listener takes no GET: it was asked.
    run.err_has("it answered 405", 1);
    run.stop();
    let run = Running::start(&[&apps.write("strange", &app, "scheme='HTTPS'")]);
    run.err_has("certificate", 1);
    run.stop();
    listener.stop();
}

// shows: sink prometheus slow
#[test]
fn a_gateway_that_answers_slowly_gets_what_was_counted() {
    let gate = Gate::default();
    let at_stub = gate.clone();
    let stub = Stub::start(0, move |_| {
        at_stub.pass();
        ok("")
    });
    let apps = Apps::new(stub.port, 2_000);
    let pushing = apps.write("pushed", PUSHED, "job='j'");
    let run = Running::start(&[&pushing, "--until-done"]);
    eventually("it is asked", || gate.waiting() == 1);
    gate.open();
    let (code, summary) = run.end();
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(number(&summary, "sinks", "Out", "events"), 2_000);
    // One push at a time, and the last one has all.
    assert_eq!(gate.most(), 1);
    let got = stub.got();
    let last = got.last().expect("it was asked");
    assert!(last.body.contains(" 1999000"), "{}", last.body);
}

// shows: sink prometheus bad
#[test]
fn a_page_that_cannot_be_read_is_said_and_the_next_one_is_taken() {
    let count = std::sync::atomic::AtomicU32::new(0);
    let stub = Stub::start(0, move |_| {
        match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => ok("# TYPE m gauge\nm{ 1 no page\n\u{1}"),
            _ => ok("# TYPE m gauge\nm 7\n"),
        }
    });
    let apps = Apps::new(stub.port, 1);
    let state = apps.path("state");
    let app = apps.write(
        "pages",
        &SAMPLES.replace("{type}", "gauge"),
        "metric.name='m'",
    );
    let run = Running::connected(&[&app, "--state", &state], 1);
    run.out_has("data=[m, gauge, , null, null, null, 7]", 1);
    let (code, summary) = run.stop();
    assert_eq!(code, Some(4), "{summary}");
    assert_eq!(
        number(&summary, "sources", "In", "rejected"),
        1,
        "{summary}"
    );
    let errors = crate::broker::errors(&state);
    assert!(errors.contains("m{ 1 no page"), "{errors}");
}

// shows: sink prometheus reload
#[test]
fn a_reload_leaves_the_port_to_the_metrics_that_go_on() {
    let port = free_port();
    let apps = Apps::new(port, 4);
    let write = |note: u32| apps.write("scraped", &format!("-- edit {note}\n{SCRAPED}"), "");
    let run = Running::connected(&[&write(0)], 1);
    let url = format!("http://127.0.0.1:{port}/metrics");
    let has = |text: &str| curl(&[&url]).1.contains(text);
    eventually("the counter", || has("total{parity=\"odd\"} 4.0"));
    for edit in 1..=3 {
        write(edit);
        run.reload();
        run.err_has("apps reloaded change", edit as usize);
        // What the file brings from now on is counted, on the same port.
        let mut input = fs::File::options()
            .append(true)
            .open(apps.path("in.csv"))
            .expect("it is there");
        writeln!(input, "{},more", 10 + edit * 2).expect("there is room");
        eventually("more is counted", || has("total{parity=\"even\"}"));
    }
    let (code, summary) = run.stop();
    assert_eq!(code, Some(0), "{summary}");
}
