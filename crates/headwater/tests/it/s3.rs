//! Objects of S3, on Moto, looked at by Amazon's own client.

use std::fs;
use std::io::Write as _;
use std::time::Instant;

use crate::broker::Apps;
use crate::network::{NOTICED, Running, Throttle, eventually, free_port, number};
use testservers::Order;

// row: sink s3 | s3
// n/a bad: a sink reads no payload

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='s3', bucket.name='rows', {options}, on.error='{policy}', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, kind string);
from In select n, ifThenElse(n % 2L == 0L, 'even', 'odd') as kind insert into Out;
";

const KEYS: &str = "aws.access.key='us', aws.secret.key='geheim-17'";

/// What Amazon's client says.
fn asked(server: &testservers::Running, script: &str) -> String {
    crate::amazon::asked(server, "s3", script)
}

const LIST: &str = "
for found in s3.list_objects_v2(Bucket='rows').get('Contents', []):
    whole = s3.get_object(Bucket='rows', Key=found['Key'])
    print(found['Key'], found['StorageClass'], whole['ContentType'], whole['Body'].read().decode())
";

fn write(apps: &Apps, policy: &str, options: &str) -> String {
    apps.write("sender", &SENDER.replace("{policy}", policy), options)
}

fn endpoint(apps: &Apps, port: u16) -> String {
    let url = format!("http://127.0.0.1:{port}");
    apps.deployment(&[("sink", "s3", vec![("endpoint", &url)])])
}

// shows: sink s3 open, order
#[test]
fn payloads_are_objects_whose_numbers_go_on_after_a_restart() {
    let Some(server) = crate::amazon::lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 30);
    let options = format!(
        "{KEYS}, aws.region='eu-west-1', object.path='out/{{{{kind}}}}', node.id='n1', versioning.enabled='true', \
         content.type='application/{{{{kind}}}}', storage.class='reduced-redundancy', bucket.acl='private'"
    );
    let sending = write(&apps, "WAIT", &options);
    let config = endpoint(&apps, server.port());
    for run in 1..=2 {
        let sender = Running::start(&[&sending, "--config", &config, "--until-done"]);
        let (code, summary) = sender.end();
        assert_eq!(code, Some(0), "{summary}");
        assert_eq!(number(&summary, "sinks", "Out", "events"), 30);
        let mut found: Vec<String> = asked(&server, LIST).lines().map(str::to_owned).collect();
        let mut expect: Vec<String> = (0..30 * run)
            .map(|at| {
                let (n, kind) = (at % 30, if at % 2 == 0 { "even" } else { "odd" });
                let number = at / 2;
                format!(
                    "out/{kind}/Out-n1-{number}.json REDUCED_REDUNDANCY application/{kind} {{\"n\":{n}}}"
                )
            })
            .collect();
        found.sort();
        expect.sort();
        assert_eq!(found, expect);
    }
    let versions = asked(
        &server,
        "print(s3.get_bucket_versioning(Bucket='rows')['Status'])",
    );
    assert_eq!(versions, "Enabled\n");
}

// shows: sink s3 resume, lost
#[test]
fn a_server_that_was_away_gets_every_object() {
    let Some(mut server) = crate::amazon::lent() else {
        return;
    };
    let port = server.port();
    server.stop();
    let apps = Apps::new(port, 40);
    let sending = write(&apps, "WAIT", &format!("{KEYS}, object.path='all'"));
    let config = endpoint(&apps, port);
    let sender = Running::start(&[&sending, "--config", &config, "--until-done"]);
    sender.err_has("cannot connect sink", 1);
    server.restart().expect("it starts again");
    let said = format!("{}{}", sender.err(), sender.out());
    assert!(!said.contains("geheim"), "{said}");
    assert_eq!(sender.end().0, Some(0));
    assert_eq!(asked(&server, LIST).lines().count(), 40);
}

// shows: sink s3 error
#[test]
fn objects_for_a_server_that_is_away_go_where_on_error_says() {
    for policy in ["LOG", "STORE"] {
        let port = free_port();
        let apps = Apps::new(port, 3);
        let sending = write(&apps, policy, &format!("{KEYS}, object.path='all'"));
        let (config, state) = (endpoint(&apps, port), apps.path("state"));
        let args = [
            &sending,
            "--config",
            &config,
            "--until-done",
            "--state",
            &state,
        ];
        let (code, summary) = Running::start(&args).end();
        assert_eq!(code, Some(4), "{summary}");
        assert_eq!(number(&summary, "sinks", "Out", "failed"), 3, "{summary}");
        let kept = crate::broker::errors(&state);
        assert!(kept.contains("even") && kept.contains("odd"), "{kept}");
    }
}

// shows: sink s3 tls
#[test]
fn tls_trusts_what_the_deployment_names() {
    let pem = crate::broker::key_file("server.pem");
    let Some(server) = Order::new().with("tls", &pem).start_or_skip("s3") else {
        return;
    };
    let apps = Apps::new(server.port(), 5);
    let sending = write(&apps, "WAIT", &format!("{KEYS}, object.path='all'"));
    let url = format!("https://localhost:{}", server.port());
    let store = crate::broker::key_file("server.p12");
    let trust = [
        ("trustStoreLocation", &*store),
        ("trustStorePassword", "wso2carbon"),
    ];
    let named = [&[("endpoint", &*url)][..], &trust].concat();
    let config = apps.deployment(&[("sink", "s3", named)]);
    let sender = Running::start(&[&sending, "--config", &config, "--until-done"]);
    assert_eq!(sender.end().0, Some(0));
    assert_eq!(asked(&server, LIST).lines().count(), 5);
    let config = apps.deployment(&[("sink", "s3", vec![("endpoint", &url)])]);
    let strange = Running::start(&[&sending, "--config", &config]);
    strange.err_has("certificate", 1);
    strange.stop();
}

// shows: sink s3 login
#[test]
fn only_who_has_the_keys_may_store() {
    let Some(server) = crate::amazon::lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 5);
    let config = endpoint(&apps, server.port());
    // The bucket is looked for, made and given versions; then objects are looked for and stored.
    let (key, secret) = crate::amazon::user(&server, "'s3:*'");
    let sending = |key: &str, secret: &str, policy: &str| {
        let options = format!(
            "aws.access.key='{key}', aws.secret.key='{secret}', object.path='all', versioning.enabled='true'"
        );
        write(&apps, policy, &options)
    };
    let args = ["--config", &config, "--until-done"];
    for (name, password) in [("us", "geheim-17"), (&*key, "geheim-17")] {
        let app = sending(name, password, "LOG");
        let strange = Running::start(&[&[&*app], &args[..]].concat());
        strange.err_has("the server answers 403", 1);
        let said = format!("{}{}", strange.err(), strange.out());
        assert!(
            !said.contains("geheim") && !said.contains(&secret),
            "{said}"
        );
        assert_eq!(strange.end().0, Some(4));
    }
    let app = sending(&key, &secret, "WAIT");
    let known = Running::start(&[&[&*app], &args[..]].concat());
    let said = format!("{}{}", known.err(), known.out());
    assert!(!said.contains(&secret), "{said}");
    let (code, summary) = known.end();
    assert_eq!(code, Some(0), "{summary}");
    crate::amazon::judge_no_more(&server);
    assert_eq!(asked(&server, LIST).lines().count(), 5);
}

// shows: sink s3 lost
#[test]
fn a_server_that_stands_still_is_named_and_waited_for() {
    let Some(server) = crate::amazon::lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 1);
    let config = endpoint(&apps, server.port());
    let app = SENDER.replace("{policy}", "WAIT").replace(
        "tailing='false'",
        "tailing='true', file.polling.interval='50'",
    );
    let sending = apps.write("sender", &app, &format!("{KEYS}, object.path='all'"));
    let run = Running::connected(&[&sending, "--config", &config], 1);
    let count = || asked(&server, LIST).lines().count();
    eventually("the first object", || count() == 1);
    server.freeze();
    let frozen = Instant::now();
    let mut file = fs::File::options()
        .append(true)
        .open(apps.path("in.csv"))
        .expect("it is there");
    writeln!(file, "1,more").expect("there is room");
    run.err_has("is not responding", 1);
    assert!(frozen.elapsed() < NOTICED, "{:?}", frozen.elapsed());
    server.thaw();
    run.err_has("server is responding again", 1);
    eventually("the other object", || count() == 2);
    assert_eq!(run.stop().0, Some(0));
}

#[test]
fn where_credentials_cannot_come_from_is_told() {
    let apps = Apps::new(1, 1);
    let class = "credential.provider.class='com.amazonaws.auth.profile.ProfileCredentialsProvider', object.path='a'";
    let run = Running::start(&[&write(&apps, "WAIT", class)]);
    run.err_has("write 'aws.access.key' and 'aws.secret.key'", 1);
}

// shows: sink s3 slow
#[test]
fn a_server_that_takes_objects_slowly_holds_the_sender_and_gets_all() {
    const BYTES_PER_SECOND: u64 = 4 << 20;
    let Some(server) = crate::amazon::lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    let text = "x".repeat(100_000);
    let rows: String = (0..200).map(|n| format!("{n},{text}\n")).collect();
    fs::write(apps.path("in.csv"), &rows).expect("the folder can be written");
    let app = SENDER
        .replace("{policy}", "WAIT")
        .replace("{\"n\":{{n}}}", "{{kind}}")
        .replace("ifThenElse(n % 2L == 0L, 'even', 'odd')", "text");
    let sending = apps.write("sender", &app, &format!("{KEYS}, object.path='all'"));
    let throttle = Throttle::start(0, server.port(), BYTES_PER_SECOND);
    let config = endpoint(&apps, throttle.port);
    let begun = Instant::now();
    let (code, summary) = Running::start(&[&sending, "--config", &config, "--until-done"]).end();
    assert_eq!(code, Some(0), "{summary}");
    let took = begun.elapsed();
    assert!(
        throttle.passed() >= rows.len() as u64 && took >= throttle.least(),
        "{took:?}"
    );
    let script = "
pages = s3.get_paginator('list_objects_v2').paginate(Bucket='rows')
print(*{found['Size'] for page in pages for found in page['Contents']}, sum(len(page['Contents']) for page in pages))
";
    assert_eq!(asked(&server, script), "100000 200\n");
}

// shows: sink s3 reload
#[test]
fn reloads_while_objects_are_stored_store_each_once() {
    let Some(server) = crate::amazon::lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 0);
    let config = endpoint(&apps, server.port());
    let options = format!("{KEYS}, object.path='all'");
    let edit = |note: &str| {
        let app = SENDER
            .replace("{policy}", "WAIT")
            .replace("tailing='false'", "tailing='true'");
        apps.write("sender", &format!("-- {note}\n{app}"), &options)
    };
    let run = Running::connected(&[&edit("first"), "--config", &config], 1);
    for block in 0..4_u64 {
        let mut file = fs::File::options()
            .append(true)
            .open(apps.path("in.csv"))
            .expect("it is there");
        for n in block * 20..(block + 1) * 20 {
            writeln!(file, "{n},x").expect("there is room");
        }
        edit(&format!("edit {block}"));
        run.reload();
        run.err_has("apps reloaded change", block as usize + 1);
    }
    let numbers = || -> Vec<u64> {
        let listed = asked(&server, LIST);
        let of = |line: &str| {
            let (_, rest) = line.split_once("{\"n\":")?;
            rest.trim_end_matches('}').parse().ok()
        };
        let mut numbers: Vec<u64> = listed.lines().filter_map(of).collect();
        numbers.sort_unstable();
        numbers
    };
    eventually("all objects", || numbers().len() >= 80);
    assert_eq!(run.stop().0, Some(0));
    assert_eq!(numbers(), (0..80).collect::<Vec<_>>());
}

const FILES: &str = "@app:name('Files')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='log', prefix='gone')
define stream Gone (n long);
from In#s3:uploadFile(str:concat('{dir}/file', n), 'files', str:concat('up/', n), false, '', 'eu-west-1', 'standard', 'us', 'geheim-17', 'true') select n insert into Up;
from Up#s3:copy('files', str:concat('up/', n), 'kept', str:concat('a b/', n), true, '', 'eu-west-1', 'reduced-redundancy', 'us', 'geheim-17') select n insert into Kept;
from Kept[n == 0L]#s3:delete('files', 'up/0', false, '', 'eu-west-1', 'us', 'geheim-17') select n insert into Gone;
";

#[test]
fn files_are_stored_and_objects_copied_and_removed() {
    let Some(server) = crate::amazon::lent() else {
        return;
    };
    let apps = Apps::new(server.port(), 3);
    let config = endpoint(&apps, server.port());
    // One of them takes several requests; the last is not there.
    let large: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(apps.path("file0"), &large).expect("the folder can be written");
    fs::write(apps.path("file1"), "small").expect("the folder can be written");
    let files = apps.write("files", FILES, "");
    let run = Running::start(&[&files, "--config", &config, "--until-done"]);
    run.out_has("\"type\":\"summary\"", 1);
    run.err_has("file2' cannot be read", 1);
    let (out, err) = (run.out(), run.err());
    run.end();
    assert_eq!(out.matches("data=[0]").count(), 1, "{out}");
    assert!(!err.contains("geheim"), "{err}");
    let script = "
import hashlib
for bucket in ('files', 'kept'):
    for found in s3.list_objects_v2(Bucket=bucket).get('Contents', []):
        body = s3.get_object(Bucket=bucket, Key=found['Key'])['Body'].read()
        wanted = bytes(n % 251 for n in range(20_000_000)) if found['Key'].endswith('0') else b'small'
        print(bucket, found['Key'], found['StorageClass'], len(body), body == wanted)
print(s3.get_bucket_versioning(Bucket='files')['Status'])
";
    assert_eq!(
        asked(&server, script).lines().collect::<Vec<_>>(),
        [
            "files up/1 STANDARD 5 True",
            "kept a b/0 REDUCED_REDUNDANCY 20000000 True",
            "kept a b/1 REDUCED_REDUNDANCY 5 True",
            "Enabled",
        ]
    );
}
