//! TLS and logins, against a broker that asks for them.

use std::path::Path;
use std::process::Command;

use testservers::{Order, Running as Server};

use super::{Case, events, produce, received, tool};
use crate::network::{Running, free_port};

const STORE_PASSWORD: &str = "planted-store";
const LOGIN_PASSWORD: &str = "planted-login";

/// A broker with a listener of each kind, and what its clients need.
struct Guarded {
    broker: Server,
    folder: tempfile::TempDir,
    /// Ports of TLS with a certificate of the client, of a login alone, and of both TLS and a login.
    mutual: u16,
    login: u16,
    both: u16,
}

#[track_caller]
fn keytool(args: &[&str]) {
    let mut command = Command::new("keytool");
    command.args(args).args(["-storepass", STORE_PASSWORD]);
    let output = command.output().expect("keytool starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {said}");
}

/// A key of 127.0.0.1 as a JKS and as a PKCS12 file, and a store that trusts it.
fn make_stores(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, trust, certificate) = (path("key.p12"), path("trust.jks"), path("certificate"));
    keytool(&[
        "-genkeypair",
        "-alias",
        "one",
        "-keyalg",
        "RSA",
        "-dname",
        "CN=headwater",
        "-ext",
        "SAN=IP:127.0.0.1",
        "-storetype",
        "PKCS12",
        "-keystore",
        &key,
    ]);
    keytool(&[
        "-exportcert",
        "-alias",
        "one",
        "-keystore",
        &key,
        "-file",
        &certificate,
    ]);
    keytool(&[
        "-importcert",
        "-noprompt",
        "-alias",
        "one",
        "-file",
        &certificate,
        "-storetype",
        "JKS",
        "-keystore",
        &trust,
    ]);
}

impl Guarded {
    fn start() -> Option<Guarded> {
        let folder = tempfile::tempdir().expect("a folder");
        if !testservers::answers("keytool", &["-help"]) {
            eprintln!("skipped: there is no 'keytool'");
            return None;
        }
        make_stores(folder.path());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (mutual, login, both) = (free_port(), free_port(), free_port());
        let listeners = format!(
            "PLAINTEXT://127.0.0.1:{{port}},SSL://127.0.0.1:{mutual},\
             SASL_PLAINTEXT://127.0.0.1:{login},SASL_SSL://127.0.0.1:{both}"
        );
        let plain = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required \
             user_reader=\"{LOGIN_PASSWORD}\";"
        );
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let broker = Order::new()
            .with(
                "listeners",
                &format!("{listeners},CONTROLLER://127.0.0.1:{{inner}}"),
            )
            .with("advertised.listeners", &listeners)
            .with("ssl.keystore.location", &path("key.p12"))
            .with("ssl.keystore.password", STORE_PASSWORD)
            .with("ssl.truststore.location", &path("trust.jks"))
            .with("ssl.truststore.password", STORE_PASSWORD)
            .with("listener.name.ssl.ssl.client.auth", "required")
            .with(
                "sasl.enabled.mechanisms",
                "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            )
            .with(
                "listener.name.sasl_plaintext.plain.sasl.jaas.config",
                &plain,
            )
            .with(
                "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config",
                scram,
            )
            .with(
                "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config",
                scram,
            )
            .with("listener.name.sasl_ssl.plain.sasl.jaas.config", &plain)
            .with(
                "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
                scram,
            )
            .with(
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
                scram,
            )
            .start_or_skip("kafka")?;
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let added = format!("{mechanism}=[password={LOGIN_PASSWORD}]");
            let args = [
                "--alter",
                "--add-config",
                &added,
                "--entity-type",
                "users",
                "--entity-name",
                "reader",
            ];
            tool(&broker, "kafka.admin.ConfigCommand", &args, "");
        }
        Some(Guarded {
            broker,
            folder,
            mutual,
            login,
            both,
        })
    }

    fn trust(&self) -> String {
        let path = self.folder.path().join("trust.jks");
        format!(
            "ssl.truststore.location:{},ssl.truststore.password:{STORE_PASSWORD}",
            path.display()
        )
    }

    fn key(&self) -> String {
        let path = self.folder.path().join("key.p12");
        format!(
            "ssl.keystore.location:{},ssl.keystore.password:{STORE_PASSWORD}",
            path.display()
        )
    }

    /// From one topic to another over a port, with these properties of the client.
    fn pipe(&self, port: u16, topic: &str, properties: &str) -> Case {
        let text = "@app:name('Guarded')
@source(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic.list='guarded', partition.no.list='0', group.id='{topic}', threading.option='single.thread', optional.configuration='{properties}', @map(type='json'))
define stream S (n int);
@sink(type='kafka', bootstrap.servers='127.0.0.1:{port}', topic='{topic}', partition.no='0', optional.configuration='{properties}', @map(type='csv'))
define stream Out (n int);
from S select * insert into Out;
";
        let text = text.replace("{port}", &port.to_string());
        let text = text.replace("{topic}", topic);
        Case::new(&self.broker, &text.replace("{properties}", properties))
    }
}

fn login(module: &str, mechanism: &str, password: &str) -> String {
    format!(
        "sasl.mechanism:{mechanism},sasl.jaas.config:org.apache.kafka.common.security.{module} \
         required username=\"reader\" password=\"{password}\";"
    )
}

// shows: sink kafka tls, login
// shows: source kafka tls, login
#[test]
fn certificates_and_logins_open_the_broker_and_no_secret_is_told() {
    long_test!();
    let Some(guarded) = Guarded::start() else {
        return;
    };
    produce(&guarded.broker, "guarded", 0, events(0..100));
    let plain = |password| login("plain.PlainLoginModule", "PLAIN", password);
    let scram = |mechanism| login("scram.ScramLoginModule", mechanism, LOGIN_PASSWORD);
    let (trust, key) = (guarded.trust(), guarded.key());
    let expect: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for (port, topic, properties) in [
        (
            guarded.mutual,
            "mutual",
            format!("security.protocol:SSL,{trust},{key}"),
        ),
        (
            guarded.login,
            "plain",
            format!("security.protocol:SASL_PLAINTEXT,{}", plain(LOGIN_PASSWORD)),
        ),
        (
            guarded.login,
            "scram",
            format!(
                "security.protocol:SASL_PLAINTEXT,{}",
                scram("SCRAM-SHA-512")
            ),
        ),
        (
            guarded.both,
            "both",
            format!(
                "security.protocol:SASL_SSL,{trust},{}",
                scram("SCRAM-SHA-256")
            ),
        ),
    ] {
        guarded.pipe(port, topic, &properties).run();
        assert_eq!(received(&guarded.broker, topic), expect, "{topic}");
    }
    for (port, properties, cause) in [
        (
            guarded.mutual,
            format!("security.protocol:SSL,{trust}"),
            "cannot connect",
        ),
        (
            guarded.both,
            format!("security.protocol:SSL,{trust}"),
            "cannot connect",
        ),
        (
            guarded.mutual,
            "security.protocol:SSL".to_owned(),
            "certificate",
        ),
        (
            guarded.login,
            format!(
                "security.protocol:SASL_PLAINTEXT,{}",
                plain("planted-wrong")
            ),
            "Authentication failed",
        ),
    ] {
        let case = guarded.pipe(port, "closed", &properties);
        let run = Running::start(&[&case.app]);
        run.err_has("cannot connect source", 1);
        run.err_has(cause, 1);
        assert!(!run.err().contains("planted"), "{}", run.err());
        run.kill();
    }
    assert!(received(&guarded.broker, "closed").is_empty());
}
