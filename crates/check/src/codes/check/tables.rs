//! E07xx: writing to tables, and aggregations.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::NOT_IN_TABLE,
        "an update of an attribute that the table does not have",
        "Without 'set' every selected attribute is written to the table's of the same name.",
        "Rename it with 'as', select less, or list the written attributes with 'set'.",
        "define stream S (a int, b string);\n\
         define table T (a int, text string);\n\
         from S select a, b update T on T.a == a;",
        "define stream S (a int, b string);\n\
         define table T (a int, text string);\n\
         from S select a, b update T set T.text = b on T.a == a;",
    ),
    CodePage::new(
        super::DELETE_WITHOUT_ON,
        "a delete without a condition",
        "'delete' needs to know which rows.",
        "Add 'on'; 'on true == true' deletes all rows.",
        "define stream S (a int);\n\
         define table T (a int);\n\
         from S select a delete T;",
        "define stream S (a int);\n\
         define table T (a int);\n\
         from S select a delete T on T.a == a;",
    ),
    CodePage::new(
        super::AGGREGATOR_IN_AGGREGATION,
        "an aggregator that cannot be kept by durations",
        "An aggregation keeps sum, count, avg, min, max and distinctCount; the others cannot be \
         combined from shorter durations.",
        "Use one of those.",
        "define stream S (a int);\n\
         define aggregation A from S select stdDev(a) as d aggregate every sec ... hour;",
        "define stream S (a int);\n\
         define aggregation A from S select avg(a) as m aggregate every sec ... hour;",
    ),
    CodePage::new(
        super::AGGREGATE_OF_EXPRESSION,
        "an aggregation of a computed value",
        "Aggregators of an aggregation take plain attributes.",
        "Compute the value in a query, and aggregate its output.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a * 2) as total aggregate every sec ... hour;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
    ),
    CodePage::new(
        super::AGGREGATE_BY,
        "'aggregate by' something that is not a time",
        "The attribute holds milliseconds as a long, or a text such as '2024-06-05 12:30:00'.",
        "Name such an attribute, or leave 'by' out to use the time of arrival.",
        "define stream S (a int, ts int);\n\
         define aggregation A from S select sum(a) as total aggregate by ts every sec ... hour;",
        "define stream S (a int, ts long);\n\
         define aggregation A from S select sum(a) as total aggregate by ts every sec ... hour;",
    ),
    CodePage::new(
        super::DURATIONS_REVERSED,
        "a range of durations the wrong way round",
        "A range goes from the shorter to the longer duration.",
        "Write the shorter one first.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every hour ... sec;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
    ),
    CodePage::new(
        super::PER_VALUE,
        "'per' something that is not a duration",
        "'per' names the duration of the buckets: 'seconds', 'minutes', 'hours', 'days', 'months' \
         or 'years'.",
        "Write one of them.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A within '2024-**-** **:**:**' per 'dais' select total insert into Out;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A within '2024-**-** **:**:**' per 'days' select total insert into Out;",
    ),
    CodePage::new(
        super::WITHIN_VALUE,
        "'within' something that is not a time",
        "A range is two times, as milliseconds or texts, or one text with wildcards.",
        "Write such a range.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A within 2024 per 'days' select total insert into Out;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A within '2024-**-** **:**:**' per 'days' select total insert into Out;",
    ),
    CodePage::new(
        super::RETENTION,
        "a retention that does not fit the aggregation",
        "@retentionPeriod names durations that the aggregation keeps, and each must be kept long \
         enough for the next longer one to be made from it: seconds 120 sec, minutes 120 min, \
         hours 25 hours, days 32 days, months 13 months.",
        "Name kept durations, and keep them long enough.",
        "define stream S (a int);\n\
         @purge(enable='true', @retentionPeriod(sec='60 sec'))\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
        "define stream S (a int);\n\
         @purge(enable='true', @retentionPeriod(sec='120 sec'))\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
    ),
    CodePage::new(
        super::NO_SHARD_ID,
        "@PartitionById without a shard id",
        "A sharded aggregation needs to know which shard this server is: the property 'shardId' \
         of the deployment file.",
        "Set 'shardId', or remove the annotation.",
        "define stream S (a int);\n\
         @PartitionById\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
    ),
    CodePage::new(
        super::SET_OTHER,
        "'set' writes to the table only",
        "The name before the dot in 'set' is ignored: it is always the table's attribute.",
        "Write the name of the table.",
        "define stream S (a int, b string);\n\
         define table T (a int, b string);\n\
         from S select a, b update T set S.b = b on T.a == a;",
        "define stream S (a int, b string);\n\
         define table T (a int, b string);\n\
         from S select a, b update T set T.b = b on T.a == a;",
    ),
    CodePage::new(
        super::SET_TYPE,
        "'set' writes another type",
        "Siddhi writes the value as it is, and it fails where it is next used as what the table \
         says it is.",
        "Convert the value.",
        "define stream S (a int);\n\
         define table T (a int, total long);\n\
         from S select a update T set T.total = a on T.a == a;",
        "define stream S (a int);\n\
         define table T (a int, total long);\n\
         from S select a update T set T.total = convert(a, 'long') on T.a == a;",
    ),
    CodePage::new(
        super::PER_NOT_KEPT,
        "'per' a duration that the aggregation does not keep",
        "The aggregation has no buckets of this duration, so every event that asks for them \
         fails.",
        "Ask for a duration that it keeps, or let it keep this one.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;\n\
         from S join A within '2024-**-** **:**:**' per 'days' select total insert into Out;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A within '2024-**-** **:**:**' per 'days' select total insert into Out;",
    ),
    CodePage::new(
        super::SHARD_ID_UNKNOWN,
        "@PartitionById needs a shard id",
        "A sharded aggregation needs the property 'shardId' of the deployment file, and the check \
         was made without one.",
        "Check with the deployment file (`--config`), or remove the annotation.",
        "define stream S (a int);\n\
         @PartitionById\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
    ),
];
