//! Prometheus: metrics out, and metrics scraped.

use super::{choice, int, list, pairs, text};
use crate::spec::{ConnectorKind, ConnectorSpec, OptionSpec, OptionType, Payload};

const METRIC_TYPE: OptionSpec = choice(
    "metric.type",
    &["counter", "gauge", "histogram", "summary"],
    "",
    "Type of the metric.",
)
.required();

pub const SINK: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Map],
    options: &[
        text("job", "Name of the job.").default("siddhiJob"),
        choice(
            "publish.mode",
            &["server", "pushgateway"],
            "server",
            "Waits to be scraped, or pushes.",
        ),
        text("server.url", "Where it is scraped.").default("http://localhost:9080"),
        text("push.url", "Where it pushes to.").default("http://localhost:9091"),
        choice(
            "push.operation",
            &["push", "pushadd"],
            "pushadd",
            "Replaces the metrics of the group, or adds to them.",
        ),
        METRIC_TYPE,
        text(
            "metric.name",
            "Name of the metric; that of the stream by default.",
        ),
        text("metric.help", "Help text; name and type by default."),
        text("value.attribute", "Attribute that holds the value.").default("value"),
        list("buckets", "Upper bounds of a histogram."),
        list("quantiles", "Quantiles of a summary."),
        OptionSpec::new(
            "quantile.error",
            OptionType::Double,
            "Error allowed for quantiles.",
        )
        .default("0.001"),
        pairs(
            "grouping.key",
            "Labels of the group when pushing, `'k:v','k:v'`.",
        ),
    ],
    exposes_service: true,
    ..ConnectorSpec::new(
        ConnectorKind::Sink,
        "prometheus",
        "io-prometheus",
        "Turns events into metrics: one attribute is the value, the others are labels.",
    )
};

pub const SOURCE: ConnectorSpec = ConnectorSpec {
    payloads: &[Payload::Map],
    options: &[
        text("target.url", "What is scraped.").required(),
        int("scrape.interval", "60", "Seconds between two scrapes."),
        int("scrape.timeout", "10", "Seconds to wait for the answer."),
        text("scheme", "HTTP or HTTPS.").default("HTTP"),
        text(
            "metric.name",
            "The metric to take; the name of the stream by default.",
        ),
        METRIC_TYPE,
        text("username", "User at the target."),
        text("password", "Password at the target."),
        text(
            "client.truststore.file",
            "Key store of the certificates to trust.",
        ),
        text("client.truststore.password", "Password of the trust store."),
        text("headers", "Headers of the request."),
        text("job", "Takes metrics of this job only."),
        text("instance", "Takes metrics of this instance only."),
        text("grouping.key", "Takes metrics of this group only."),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "prometheus",
        "io-prometheus",
        "Scrapes a metric again and again.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
