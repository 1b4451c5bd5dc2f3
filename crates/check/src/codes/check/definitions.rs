//! E04xx: definitions and their annotations.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::NAME_TAKEN,
        "the name is taken",
        "Streams, tables, windows, triggers and aggregations share one set of names; functions \
         have one of their own.",
        "Give one of them another name.",
        "define stream S (a int);\n\
         define table S (a int);",
        "define stream S (a int);\n\
         define table SRows (a int);",
    ),
    CodePage::new(
        super::DUPLICATE_ATTRIBUTE,
        "an attribute would be there twice",
        "A stream function or the fault stream adds an attribute whose name the stream has \
         already.",
        "Give the attribute of the stream another name.",
        "define stream S (token string);\n\
         from S#str:tokenize(token, ',') select token insert into Out;",
        "define stream S (line string);\n\
         from S#str:tokenize(line, ',') select token insert into Out;",
    ),
    CodePage::new(
        super::MARKED_DEFINITION,
        "a definition with a mark before its name",
        "'#' streams are created inside a partition and '!' streams by @OnError; neither is \
         defined.",
        "Leave out the mark.",
        "define stream #S (a int);",
        "define stream S (a int);",
    ),
    CodePage::new(
        super::QUERY_NAME_TAKEN,
        "two queries have one name",
        "@info(name='…') names a query for tests, metrics and saved state, so each name may be \
         given once.",
        "Give one of them another name.",
        "define stream S (a int);\n\
         @info(name='q') from S select a insert into T;\n\
         @info(name='q') from S select a insert into U;",
        "define stream S (a int);\n\
         @info(name='q') from S select a insert into T;\n\
         @info(name='r') from S select a insert into U;",
    ),
    CodePage::new(
        super::KEY_ATTRIBUTE,
        "a key of an attribute that the table does not have",
        "@PrimaryKey and @Index name attributes of the table.",
        "Correct the name.",
        "@PrimaryKey('symbl')\n\
         define table T (symbol string, price double);",
        "@PrimaryKey('symbol')\n\
         define table T (symbol string, price double);",
    ),
    CodePage::new(
        super::INDEX_BY,
        "@IndexBy is @Index now",
        "Since Siddhi 4 a table is indexed with @Index.",
        "Write @Index.",
        "@IndexBy('symbol')\n\
         define table T (symbol string, price double);",
        "@Index('symbol')\n\
         define table T (symbol string, price double);",
    ),
    CodePage::new(
        super::INDEX_OF_SEVERAL,
        "an index of several attributes",
        "An index of a table in memory has one attribute; a table may have several indexes.",
        "Write one @Index for each attribute.",
        "@Index('symbol', 'price')\n\
         define table T (symbol string, price double);",
        "@Index('symbol') @Index('price')\n\
         define table T (symbol string, price double);",
    ),
    CodePage::new(
        super::ANNOTATION_AGAIN,
        "an annotation is given twice",
        "This annotation may occur only once.",
        "Keep one of them.",
        "@PrimaryKey('a') @PrimaryKey('b')\n\
         define table T (a int, b int);",
        "@PrimaryKey('a', 'b')\n\
         define table T (a int, b int);",
    ),
    CodePage::new(
        super::ANNOTATION_HERE,
        "an annotation that is not allowed here",
        "The key of an aggregation is the time and what it groups by; it takes no @PrimaryKey.",
        "Remove the annotation.",
        "define stream S (a int);\n\
         @PrimaryKey('total')\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;",
    ),
    CodePage::new(
        super::APP_ASYNC,
        "@app:async",
        "Streams are made asynchronous one by one.",
        "Put @async(…) before the definition of each stream that should have it.",
        "@app:async(buffer.size='64')\n\
         define stream S (a int);",
        "@async(buffer.size='64')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        super::DEFINED_AGAIN,
        "the same definition twice",
        "The same is defined a second time with the same attributes. That changes nothing.",
        "Remove one of the two.",
        "define stream S (a int);\n\
         define stream S (a int);",
        "define stream S (a int);",
    ),
    CodePage::new(
        super::UNKNOWN_ANNOTATION,
        "an annotation that is not known",
        "Unknown annotations are ignored, as in Siddhi; this one nearly has the name of a known \
         one.",
        "Correct the name, or remove the annotation.",
        "@sorce(type='inMemory', topic='in')\n\
         define stream S (a int);",
        "@source(type='inMemory', topic='in')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        super::BAD_CRON,
        "not a cron expression",
        "A trigger fires at 'start' or by a Quartz expression of six or seven fields, seconds \
         first. Anything else never fires.",
        "Write six or seven fields.",
        "define trigger T at '15 10 * * ?';",
        "define trigger T at '0 15 10 * * ?';",
    ),
    CodePage::new(
        super::ANNOTATION_WITHOUT_EFFECT,
        "an annotation without effect",
        "Sources and sinks belong to streams, stores to tables and aggregations. Elsewhere they \
         are ignored, as in Siddhi.",
        "Move the annotation.",
        "@sink(type='log')\n\
         define window W (a int) length(5);",
        "@sink(type='log')\n\
         define stream Out (a int);\n\
         define window W (a int) length(5);\n\
         from W select a insert into Out;",
    ),
    CodePage::new(
        super::APP_ANNOTATION_AGAIN,
        "an annotation of the app is given twice",
        "The first one applies.",
        "Keep one of them.",
        "@app:name('A') @app:name('B')\n\
         define stream S (a int);",
        "@app:name('A')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        super::FAULT_STREAM_MISSING,
        "on.error='STREAM' without a fault stream",
        "The sink sends undeliverable events to the fault stream, but the stream has none: they \
         are dropped and logged.",
        "Put @OnError(action='STREAM') before the definition.",
        "@sink(type='inMemory', topic='t', on.error='STREAM')\n\
         define stream S (a int);",
        "@sink(type='inMemory', topic='t', on.error='STREAM')\n\
         @OnError(action='STREAM')\n\
         define stream S (a int);",
    ),
];
