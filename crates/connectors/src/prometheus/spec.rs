//! Prometheus: metrics out, and metrics scraped.

use plan::spec::{
    ConnectorKind, ConnectorSpec, OptionSpec, OptionType, Payload, Status, choice, int, list,
    pairs, text,
};

const SCRAPED: &str = "headwater::prometheus::metrics_of_every_type_are_scraped_from_one_port";
const PUSHED: &str =
    "headwater::prometheus::a_push_gateway_gets_what_was_counted_even_when_it_was_away";
const CIRCLE: &str = "headwater::prometheus::a_source_gives_each_sample_of_its_metric";
const ASKED: &str = "headwater::prometheus::a_target_is_asked_as_the_options_say";

const METRIC_TYPE: OptionSpec = choice(
    "metric.type",
    &["counter", "gauge", "histogram", "summary"],
    "",
    "Type of the metric.",
)
.test(SCRAPED)
.required();

pub const SINK: ConnectorSpec = ConnectorSpec {
    status: Status::Runs,
    example: "@sink(type='prometheus', metric.type='counter', value.attribute='amount', @map(type='keyvalue'))
define stream Sweets (name string, amount double);",
    payloads: &[Payload::Map],
    options: &[
        text("job", "Name of the job.")
            .test(PUSHED)
            .default("siddhiJob"),
        choice(
            "publish.mode",
            &["server", "pushgateway"],
            "server",
            "Waits to be scraped, or pushes.",
        )
        .test(PUSHED),
        text(
            "server.url",
            "Address to scrape, at every path; sinks with the same address share it.",
        )
        .test(SCRAPED)
        .default("http://localhost:9080"),
        text("push.url", "Address of the push gateway.")
            .test(PUSHED)
            .default("http://localhost:9091"),
        choice(
            "push.operation",
            &["push", "pushadd"],
            "pushadd",
            "Replaces the metrics of the group, or adds to them.",
        )
        .test(PUSHED),
        METRIC_TYPE,
        text(
            "metric.name",
            "Name of the metric; that of the stream by default.",
        )
        .test(SCRAPED),
        text("metric.help", "Help text; type and name by default.").test(SCRAPED),
        text("value.attribute", "Attribute that holds the value.")
            .test(SCRAPED)
            .default("value"),
        list(
            "buckets",
            "Upper bounds of a histogram; by default 0.005 to 10, as the Java client has them.",
        )
        .test(SCRAPED),
        list("quantiles", "Quantiles of a summary, over ten minutes.").test(SCRAPED),
        OptionSpec::new(
            "quantile.error",
            OptionType::Double,
            "Error allowed for quantiles.",
        ).below(0.0, 1.0)
        .test(SCRAPED)
        .default("0.001"),
        pairs(
            "grouping.key",
            "Labels of the group when pushing, `'k:v','k:v'`.",
        )
        .test(PUSHED),
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
    status: Status::Runs,
    example: "@source(type='prometheus', target.url='http://localhost:9080/metrics', metric.type='counter', metric.name='sweets', @map(type='keyvalue'))
define stream Sweets (metric_name string, metric_type string, help string, subtype string, name string, value double);",
    payloads: &[Payload::Map],
    options: &[
        text("target.url", "What is scraped.").test(CIRCLE).required(),
        int("scrape.interval", "60", "Seconds between two scrapes.").at_least(1).unit("seconds").test(CIRCLE),
        int("scrape.timeout", "10", "Seconds to wait for the answer.").at_least(1).unit("seconds").test(ASKED),
        text("scheme", "HTTP or HTTPS, as in the target.")
            .test(ASKED),
        text(
            "metric.name",
            "The metric to take; the name of the stream by default.",
        )
        .test(CIRCLE),
        METRIC_TYPE.test(CIRCLE),
        text("username", "User at the target.").test(ASKED),
        text("password", "Password at the target.").test(ASKED),
        text(
            "client.truststore.file",
            "Key store of the certificates to trust; that of the deployment file by default, else what \
             the system trusts.",
        )
        .test(ASKED),
        text("client.truststore.password", "Password of the trust store.").test(ASKED),
        text("headers", "Headers of the request, as `'k:v','k:v'`.").test(ASKED),
        text("job", "Takes samples of this job only.").test(CIRCLE),
        text("instance", "Takes samples of this instance only.").test(CIRCLE),
        text("grouping.key", "Takes samples of this group only.").test(CIRCLE),
    ],
    ..ConnectorSpec::new(
        ConnectorKind::Source,
        "prometheus",
        "io-prometheus",
        "Scrapes a metric again and again.",
    )
};

pub const CONNECTORS: &[ConnectorSpec] = &[SOURCE, SINK];
