//! E06xx and E08xx: patterns, clauses, joins and partitions.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::REFERENCE_TAKEN,
        "two inputs have one name",
        "Two events of a pattern, or both sides of a join, are named alike. The name means the \
         first of them, and of two sides of `and` or `or` the right one.",
        "Give the other one another name.",
        "define stream S (a int);\n\
         from every e=S[a == 1] -> e=S[a == 2] select e.a as a insert into Out;",
        "define stream S (a int);\n\
         from every e=S[a == 1] -> f=S[a == 2] select e.a as a, f.a as b insert into Out;",
    ),
    CodePage::new(
        super::LATER_EVENT,
        "a filter looks at a later event",
        "When the filter of an element runs, the elements after it have matched nothing yet.",
        "Move the condition to the filter of the later event.",
        "define stream S (a int);\n\
         from every e1=S[a < e2.a] -> e2=S select e1.a as a, e2.a as b insert into Out;",
        "define stream S (a int);\n\
         from every e1=S -> e2=S[e1.a < a] select e1.a as a, e2.a as b insert into Out;",
    ),
    CodePage::new(
        super::BAD_COUNT,
        "a count that cannot be reached",
        "The least number of events is above the most, or the most is none. Siddhi accepts that, \
         and the pattern never matches.",
        "Write the smaller number first.",
        "define stream S (a int);\n\
         from every e=S<5:2> select e[0].a as a insert into Out;",
        "define stream S (a int);\n\
         from every e=S<2:5> select e[0].a as a insert into Out;",
    ),
    CodePage::new(
        super::SELECTED_TWICE,
        "two selected attributes have one name",
        "The selection becomes a row, and each of its attributes needs its own name.",
        "Rename one with 'as'.",
        "define stream S (a int, b int);\n\
         from S select a, b as a insert into Out;",
        "define stream S (a int, b int);\n\
         from S select a, b as c insert into Out;",
    ),
    CodePage::new(
        super::SELECT_ALL_CLASH,
        "'select *' selects a name twice",
        "Without a list, all attributes of all inputs are selected, and two inputs have one of \
         the same name.",
        "Name the attributes, and rename one of the two with 'as'.",
        "define stream S (a int);\n\
         define table T (a int, b string);\n\
         from S join T on S.a == T.a select * insert into Out;",
        "define stream S (a int);\n\
         define table T (a int, b string);\n\
         from S join T on S.a == T.a select S.a, b insert into Out;",
    ),
    CodePage::new(
        super::WINDOW_HERE,
        "a window is not allowed here",
        "A named window keeps its events already, a stream of a pattern has 'within', and an \
         aggregation keeps sums by time instead of events.",
        "Remove the window.",
        "define window W (a int) length(5);\n\
         from W#window.length(2) select a insert into Out;",
        "define window W (a int) length(5);\n\
         from W select a insert into Out;",
    ),
    CodePage::new(
        super::SNAPSHOT_EVENTS,
        "a snapshot of a part of the events",
        "'output snapshot' follows what enters and what leaves, so it needs all events.",
        "Write 'insert all events into', or leave the kind of events out.",
        "define stream S (a int);\n\
         from S#window.length(5) select a output snapshot every 1 sec \
         insert expired events into Out;",
        "define stream S (a int);\n\
         from S#window.length(5) select a output snapshot every 1 sec insert into Out;",
    ),
    CodePage::new(
        super::STATIC_JOIN,
        "a join that nothing starts",
        "Tables and aggregations send no events; one side of a join must be a stream or a window.",
        "Join a stream with each of them, or ask with an on-demand query.",
        "define table T (a int);\n\
         define table U (b int);\n\
         from T join U on T.a == U.b select a, b insert into Out;",
        "define stream S (a int);\n\
         define table U (b int);\n\
         from S join U on S.a == U.b select a, b insert into Out;",
    ),
    CodePage::new(
        super::STATIC_TRIGGER,
        "'unidirectional' at a table",
        "The side that is marked starts the join alone, and a table sends no events: nothing is \
         ever joined, as in Siddhi.",
        "Mark the stream, or leave the mark out.",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S join T unidirectional on S.a == T.b select a, b insert into Out;",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S unidirectional join T on S.a == T.b select a, b insert into Out;",
    ),
    CodePage::new(
        super::HANDLER_ON_TABLE,
        "a function on a table in a join",
        "The rows of a table are looked up, they do not pass by.",
        "Apply the function to the selected attributes, or put a condition into 'on'.",
        "define stream S (a int);\n\
         define table T (b int, line string);\n\
         from S join T#str:tokenize(line, ',') on S.a == T.b select a, b insert into Out;",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S join T on S.a == T.b select a, b insert into Out;",
    ),
    CodePage::new(
        super::RANGE_HERE,
        "'within … per …' without an aggregation",
        "'within' and 'per' choose the buckets of an aggregation.",
        "Leave them out; a window says how long events of a stream are kept.",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S join T on S.a == T.b within '2024-**-** **:**:**' per 'days' \
         select a, b insert into Out;",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S join T on S.a == T.b select a, b insert into Out;",
    ),
    CodePage::new(
        super::RANGE_MISSING,
        "an aggregation without 'within … per …'",
        "Reading an aggregation needs the time and the duration of its buckets.",
        "Add both.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A select total insert into Out;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... day;\n\
         from S join A within '2024-**-** **:**:**' per 'days' select total insert into Out;",
    ),
    CodePage::new(
        super::ANONYMOUS_INPUT,
        "a query inside 'from'",
        "Siddhi's grammar knows queries inside 'from (…)', but refuses every app that has one.",
        "Let the inner query insert into a stream, and read that.",
        "define stream S (a int);\n\
         from (from S[a > 5] select a return) select a insert into Out;",
        "define stream S (a int);\n\
         from S[a > 5] select a insert into Large;\n\
         from Large select a insert into Out;",
    ),
    CodePage::new(
        super::NOT_SEARCHABLE,
        "a side of a join that finds nothing",
        "Some windows keep their events in a form that cannot be searched, so the other side of \
         the join finds none.",
        "Use another window, or make this side 'unidirectional'.",
        "define stream S (a int);\n\
         define stream T (b int);\n\
         from S#window.cron('0 * * * * ?') join T#window.length(5) on S.a == T.b \
         select a, b insert into Out;",
        "define stream S (a int);\n\
         define stream T (b int);\n\
         from S#window.time(1 min) join T#window.length(5) on S.a == T.b \
         select a, b insert into Out;",
    ),
    CodePage::new(
        super::FILTER_IGNORED,
        "a filter on a table in a join",
        "Siddhi ignores a filter after a table, and so does Headwater: all rows that 'on' finds \
         are joined.",
        "Put the condition into 'on'.",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S join T[b > 5] on S.a == T.b select a, b insert into Out;",
        "define stream S (a int);\n\
         define table T (b int);\n\
         from S join T on S.a == T.b and T.b > 5 select a, b insert into Out;",
    ),
    CodePage::new(
        super::PARTITIONED_TWICE,
        "a stream is partitioned twice",
        "Each stream of a partition has one key.",
        "Keep one of them; a key of several attributes is made with str:concat(…).",
        "define stream S (a int, b string);\n\
         partition with (a of S, b of S) begin\n\
         \x20 from S select a insert into Out;\n\
         end;",
        "define stream S (a int, b string);\n\
         partition with (str:concat(a, ':', b) of S) begin\n\
         \x20 from S select a insert into Out;\n\
         end;",
    ),
    CodePage::new(
        super::NOTHING_FROM_OUTSIDE,
        "'in', or a function with side effects, where neither is allowed",
        "A condition of a join, of a write to a table or of another 'in', a value of 'set', an \
         argument of a window and the key of a partition can look neither into a table nor at \
         files. Siddhi 5.1 refuses such an 'in' or fails on every event that reaches it.",
        "Look in a query in front, and use its result.",
        "define stream S (k string);\n\
         define table T (k string);\n\
         define table U (k string);\n\
         from S delete U on U.k == k and (T.k == k) in T;",
        "define stream S (k string);\n\
         define table T (k string);\n\
         define table U (k string);\n\
         from S[(T.k == k) in T] delete U on U.k == k;",
    ),
    CodePage::new(
        super::FUNCTION_IN_PATTERN,
        "a stream function in a pattern",
        "An element of a pattern takes filters only. Siddhi 5.1 knows one stream function there, \
         pol2Cart, whose attributes are then always null; it refuses all others.",
        "Put the function into a query in front, and its output into the pattern.",
        "define stream S (a int);\n\
         from every e1 = S#log('seen') -> e2 = S select e1.a insert into Out;",
        "define stream S (a int);\n\
         from S#log('seen') select a insert into Seen;\n\
         from every e1 = Seen -> e2 = Seen select e1.a insert into Out;",
    ),
];
