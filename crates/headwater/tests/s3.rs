//! Objects of S3, on Moto, looked at by Amazon's own client.

mod broker;
mod network;

use std::process::Command;

use broker::Apps;
use network::{Running, free_port, number};
use servers::Order;

const SENDER: &str = "@app:name('Sender')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
@sink(type='s3', bucket.name='rows', {options}, on.error='{policy}', @map(type='json', @payload('{\"n\":{{n}}}')))
define stream Out (n long, kind string);
from In select n, ifThenElse(n % 2L == 0L, 'even', 'odd') as kind insert into Out;
";

const KEYS: &str = "aws.access.key='us', aws.secret.key='geheim-17'";

/// What Amazon's client says.
fn asked(server: &servers::Running, script: &str) -> String {
    let scheme = server.place().setting("tls").map_or("http", |_| "https");
    let endpoint = format!("{scheme}://127.0.0.1:{}", server.port());
    let head = format!(
        "import boto3\ns3 = boto3.client('s3', endpoint_url='{endpoint}', aws_access_key_id='x', \
         aws_secret_access_key='x', region_name='eu-west-1', verify=False)\n"
    );
    let output = Command::new("python3")
        .env("PYTHONPATH", server.place().installed().join("lib"))
        .args(["-c", &(head + script)])
        .output()
        .expect("python3 is there");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
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

#[test]
fn payloads_are_objects_whose_numbers_go_on_after_a_restart() {
    let Some(server) = Order::new().start_or_skip("s3") else {
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

#[test]
fn a_server_that_was_away_gets_every_object() {
    let port = free_port();
    let apps = Apps::new(port, 40);
    let sending = write(&apps, "WAIT", &format!("{KEYS}, object.path='all'"));
    let config = endpoint(&apps, port);
    let sender = Running::start(&[&sending, "--config", &config, "--until-done"]);
    sender.err_has("sink cannot be reached", 1);
    let Some(server) = Order::new().port(port).start_or_skip("s3") else {
        return;
    };
    let said = format!("{}{}", sender.err(), sender.out());
    assert!(!said.contains("geheim"), "{said}");
    assert_eq!(sender.end().0, Some(0));
    assert_eq!(asked(&server, LIST).lines().count(), 40);
}

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
        let kept = broker::errors(&state);
        assert!(kept.contains("even") && kept.contains("odd"), "{kept}");
    }
}

#[test]
fn tls_trusts_what_the_deployment_names() {
    let pem = broker::key_file("server.pem");
    let Some(server) = Order::new().with("tls", &pem).start_or_skip("s3") else {
        return;
    };
    let apps = Apps::new(server.port(), 5);
    let sending = write(&apps, "WAIT", &format!("{KEYS}, object.path='all'"));
    let url = format!("https://localhost:{}", server.port());
    let store = broker::key_file("server.p12");
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

#[test]
fn where_credentials_cannot_come_from_is_told() {
    let apps = Apps::new(1, 1);
    let class = "credential.provider.class='com.amazonaws.auth.profile.ProfileCredentialsProvider', object.path='a'";
    let run = Running::start(&[&write(&apps, "WAIT", class)]);
    run.err_has("write 'aws.access.key' and 'aws.secret.key'", 1);
}
