//! Which client reads for a source, and why: known from its options alone, so that `explain` says it.

use plan::Transport;

/// The option, and what it may be.
pub const OPTION: &str = "client";
pub const CLIENTS: &[&str] = &[AUTO, OWN, RDKAFKA];
pub const AUTO: &str = "auto";
const OWN: &str = "headwater";
const RDKAFKA: &str = "rdkafka";

const PROPERTIES: &str = "optional.configuration";

/// Properties that the own client heeds, those that are about the group, which librdkafka has beside it, and
/// those that change nothing. With any other, librdkafka reads.
const KNOWN: &[&str] = &[
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "auto.offset.reset",
    "auto.register.schemas",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "default.api.timeout.ms",
    "enable.auto.commit",
    "enable.metrics.push",
    "enable.ssl.certificate.verification",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "key.deserializer",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "schema.registry.url",
    "security.protocol",
    "session.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "socket.timeout.ms",
    "specific.avro.reader",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "value.deserializer",
];

/// Logins of the own client.
const MECHANISMS: &[&str] = &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    pub is_own: bool,
    /// The app leaves it to us.
    pub is_auto: bool,
    pub why: String,
}

/// Chooses by the option, and by the properties as the app writes them.
///
/// # Errors
/// The app wants the own client, and why that cannot read for it.
pub fn choose(client: Option<&str>, properties: &str) -> Result<Choice, String> {
    let client = client.map_or(AUTO, str::trim);
    let is_auto = client.eq_ignore_ascii_case(AUTO);
    let chosen = |is_own, why: &str| {
        Ok(Choice {
            is_own,
            is_auto,
            why: why.to_owned(),
        })
    };
    if client.eq_ignore_ascii_case(RDKAFKA) {
        return chosen(false, "option 'client' says so");
    }
    match (obstacle(properties), is_auto) {
        (None, true) => chosen(true, "it has all that the options ask for"),
        (None, false) => chosen(true, "option 'client' says so"),
        (Some(why), true) => chosen(false, &why),
        (Some(why), false) => Err(format!("option 'client' is '{OWN}', but {why}")),
    }
}

/// Why the own client cannot be used.
fn obstacle(properties: &str) -> Option<String> {
    let entries = || {
        let entries = properties
            .split(',')
            .filter_map(|entry| entry.split_once(':'));
        entries.map(|(name, value)| (name.trim(), value.trim()))
    };
    let value = |wanted: &[&str]| entries().rfind(|(name, _)| wanted.contains(name));
    if let Some((name, _)) = entries().find(|(name, _)| !KNOWN.contains(name)) {
        return Some(format!(
            "property '{name}' is heeded by client '{RDKAFKA}' alone"
        ));
    }
    let protocol = value(&["security.protocol"]).map_or("", |(_, protocol)| protocol);
    if protocol.to_ascii_uppercase().starts_with("SASL") {
        let mechanism = value(&["sasl.mechanism", "sasl.mechanisms"]);
        let mechanism = mechanism.map_or("GSSAPI", |(_, mechanism)| mechanism);
        if !MECHANISMS.contains(&mechanism) {
            return Some(format!("client '{RDKAFKA}' alone logs in by '{mechanism}'"));
        }
    }
    let is_packed = value(&["ssl.key.password"]).is_some();
    (is_packed && value(&["ssl.keystore.location"]).is_none())
        .then(|| format!("client '{RDKAFKA}' alone reads an encrypted key in PEM"))
}

/// For `explain`.
pub fn explain(transport: &Transport) -> Option<String> {
    let properties = transport.option(PROPERTIES).unwrap_or_default();
    // An app that cannot be made is told so by whoever makes it.
    let choice = choose(transport.option(OPTION), properties).ok()?;
    let Choice { is_own, why, .. } = choice;
    Some(match is_own {
        true => format!(
            "read by client '{OWN}' ({why}); group and commits are those of client '{RDKAFKA}'"
        ),
        false => format!("read by client '{RDKAFKA}' ({why})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_client_reads_unless_something_is_asked_for_that_it_has_not() {
        let check = |client, properties, is_own: bool, why: &str| {
            let choice = choose(client, properties).expect("it can be");
            assert_eq!(choice.is_own, is_own, "{properties}: {choice:?}");
            assert!(choice.why.contains(why), "{choice:?}");
        };
        check(None, "", true, "all that the options ask for");
        check(
            Some("auto"),
            "isolation.level:read_committed, client.id:x",
            true,
            "all",
        );
        check(Some("rdkafka"), "", false, "says so");
        check(Some("headwater"), "", true, "says so");
        check(None, "client.rack:a", false, "'client.rack'");
        check(None, "security.protocol:SASL_SSL", false, "'GSSAPI'");
        let scram = "security.protocol:SASL_SSL,sasl.mechanism:SCRAM-SHA-256";
        check(None, scram, true, "all");
        check(
            None,
            "ssl.key.location:k,ssl.key.password:p",
            false,
            "encrypted key",
        );
        check(
            None,
            "ssl.keystore.location:k,ssl.key.password:p",
            true,
            "all",
        );
        let refused = choose(Some("headwater"), "client.rack:planted").unwrap_err();
        assert!(
            refused.contains("'client.rack'") && !refused.contains("planted"),
            "{refused}"
        );
    }
}
