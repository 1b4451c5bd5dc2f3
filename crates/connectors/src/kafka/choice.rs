//! Which client reads for a source or writes for a sink, and why: known from its options alone, so that
//! `explain` says it.

use plan::Transport;

/// The option, and what it may be.
pub const OPTION: &str = "client";
pub const CLIENTS: &[&str] = &[AUTO, OWN, RDKAFKA];
pub const AUTO: &str = "auto";
const OWN: &str = "headwater";
const RDKAFKA: &str = "rdkafka";

const PROPERTIES: &str = "optional.configuration";

/// Properties of the connection that the own client heeds, and those that change nothing. With any other
/// than these lists have, librdkafka reads or writes.
const CONNECTING: &[&str] = &[
    "auto.include.jmx.reporter",
    "auto.register.schemas",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "enable.ssl.certificate.verification",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "schema.registry.url",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.timeout.ms",
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
];

/// As well, of a source: also what is about the group, which librdkafka has beside it.
const READING: &[&str] = &[
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "enable.auto.commit",
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
    "partition.assignment.strategy",
    "receive.message.max.bytes",
    "request.timeout.ms",
    "session.timeout.ms",
    "specific.avro.reader",
    "value.deserializer",
];

/// As well, of a sink.
const WRITING: &[&str] = &[
    "acks",
    "batch.num.messages",
    "batch.size",
    "buffer.memory",
    "compression.codec",
    "compression.level",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "key.serializer",
    "linger.ms",
    "max.block.ms",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "message.max.bytes",
    "message.timeout.ms",
    "partitioner",
    "producer.type",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.ms",
    "topic.metadata.refresh.interval.ms",
    "value.serializer",
];

/// Logins of the own client.
const MECHANISMS: &[&str] = &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// Partitioners by which the own client chooses.
const PARTITIONERS: &[&str] = &["murmur2_random"];

/// Who asks for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Source,
    Sink,
}

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
/// The app wants the own client, and why that cannot read or write for it.
pub fn choose(side: Side, client: Option<&str>, properties: &str) -> Result<Choice, String> {
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
    match (obstacle(side, properties), is_auto) {
        (None, true) => chosen(true, "it has all that the options ask for"),
        (None, false) => chosen(true, "option 'client' says so"),
        (Some(why), true) => chosen(false, &why),
        (Some(why), false) => Err(format!("option 'client' is '{OWN}', but {why}")),
    }
}

/// Why the own client cannot be used.
fn obstacle(side: Side, properties: &str) -> Option<String> {
    let entries = || {
        let entries = properties
            .split(',')
            .filter_map(|entry| entry.split_once(':'));
        entries.map(|(name, value)| (name.trim(), value.trim()))
    };
    let value = |wanted: &[&str]| {
        let found = entries().rfind(|(name, _)| wanted.contains(name));
        found.map(|(_, value)| value)
    };
    if side == Side::Sink {
        if value(&["transactional.id"]).is_some() {
            return Some(format!("transactions are those of client '{RDKAFKA}'"));
        }
        if value(&["acks"]).is_some_and(|acks| acks == "0") {
            return Some(format!("client '{RDKAFKA}' alone writes without an answer"));
        }
        let partitioner = value(&["partitioner"]);
        if let Some(name) = partitioner.filter(|name| !PARTITIONERS.contains(name)) {
            return Some(format!("client '{RDKAFKA}' alone has partitioner '{name}'"));
        }
        let codec = value(&["compression.type", "compression.codec"]);
        if codec == Some("lz4") && value(&["compression.level"]).is_some() {
            return Some(format!("client '{RDKAFKA}' alone has levels of lz4"));
        }
    }
    let own = match side {
        Side::Source => READING,
        Side::Sink => WRITING,
    };
    let is_known = |name: &str| CONNECTING.contains(&name) || own.contains(&name);
    if let Some((name, _)) = entries().find(|(name, _)| !is_known(name)) {
        return Some(format!(
            "property '{name}' is heeded by client '{RDKAFKA}' alone"
        ));
    }
    let protocol = value(&["security.protocol"]).unwrap_or_default();
    if protocol.to_ascii_uppercase().starts_with("SASL") {
        let mechanism = value(&["sasl.mechanism", "sasl.mechanisms"]).unwrap_or("GSSAPI");
        if !MECHANISMS.contains(&mechanism) {
            return Some(format!("client '{RDKAFKA}' alone logs in by '{mechanism}'"));
        }
    }
    let is_packed = value(&["ssl.key.password"]).is_some();
    (is_packed && value(&["ssl.keystore.location"]).is_none())
        .then(|| format!("client '{RDKAFKA}' alone reads an encrypted key in PEM"))
}

/// For `explain`, of a source.
pub fn explain_source(transport: &Transport) -> Option<String> {
    let Choice { is_own, why, .. } = explained(Side::Source, transport)?;
    Some(match is_own {
        true => format!(
            "read by client '{OWN}' ({why}); group and commits are those of client '{RDKAFKA}'"
        ),
        false => format!("read by client '{RDKAFKA}' ({why})"),
    })
}

/// For `explain`, of a sink.
pub fn explain_sink(transport: &Transport) -> Option<String> {
    let Choice { is_own, why, .. } = explained(Side::Sink, transport)?;
    let client = if is_own { OWN } else { RDKAFKA };
    Some(format!("written by client '{client}' ({why})"))
}

fn explained(side: Side, transport: &Transport) -> Option<Choice> {
    let properties = transport.option(PROPERTIES).unwrap_or_default();
    // An app that cannot be made is told so by whoever makes it.
    choose(side, transport.option(OPTION), properties).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_client_is_taken_unless_something_is_asked_for_that_it_has_not() {
        let check = |side, client, properties, is_own: bool, why: &str| {
            let choice = choose(side, client, properties).expect("it can be");
            assert_eq!(choice.is_own, is_own, "{properties}: {choice:?}");
            assert!(choice.why.contains(why), "{choice:?}");
        };
        for side in [Side::Source, Side::Sink] {
            let check = |client, properties, is_own, why: &str| {
                check(side, client, properties, is_own, why);
            };
            check(None, "", true, "all that the options ask for");
            check(Some("rdkafka"), "", false, "says so");
            check(Some("headwater"), "", true, "says so");
            check(None, "client.dns.lookup:a", false, "'client.dns.lookup'");
            check(None, "security.protocol:SASL_SSL", false, "'GSSAPI'");
            let scram = "security.protocol:SASL_SSL,sasl.mechanism:SCRAM-SHA-256";
            check(None, scram, true, "all");
            let pem = "ssl.key.location:k,ssl.key.password:p";
            check(None, pem, false, "encrypted key");
            let store = "ssl.keystore.location:k,ssl.key.password:p";
            check(None, store, true, "all");
        }
        let read = "isolation.level:read_committed, client.id:x";
        check(Side::Source, Some("auto"), read, true, "all");
        check(Side::Sink, None, read, false, "'isolation.level'");
        let written = "acks:1, linger.ms:20,compression.type:zstd,compression.level:3";
        check(Side::Sink, Some("auto"), written, true, "all");
        check(Side::Source, None, written, false, "'acks'");
        check(Side::Sink, None, "acks:0", false, "without an answer");
        check(
            Side::Sink,
            None,
            "transactional.id:t",
            false,
            "transactions",
        );
        check(Side::Sink, None, "partitioner:fnv1a", false, "'fnv1a'");
        let levels = "compression.type:lz4,compression.level:3";
        check(Side::Sink, None, levels, false, "lz4");
        let refused = choose(Side::Source, Some("headwater"), "client.rack:planted").unwrap_err();
        assert!(
            refused.contains("'client.rack'") && !refused.contains("planted"),
            "{refused}"
        );
    }
}
