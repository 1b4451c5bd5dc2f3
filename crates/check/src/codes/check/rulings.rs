//! W10xx: where the output is not that of Siddhi 5.1, with the number of the ruling in `COMPAT.md`.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::RULING_BATCH_PER_KEY,
        "timeBatch in a partition flushes every key",
        "In Siddhi 5.1 the timer of such a window flushes one key; rows of the others come later or \
         never. Headwater flushes each key when its time has come (ruling 23).",
        "Expect a batch of every key, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int);\n\
         partition with (k of S) begin\n\
         \x20 from S#window.timeBatch(1 sec) select k, sum(n) as total insert into Out;\n\
         end;",
        "define stream S (k string, n int);\n\
         from S#window.timeBatch(1 sec) select k, sum(n) as total group by k insert into Out;",
    ),
    CodePage::new(
        super::RULING_BATCHES_IN_JOIN,
        "a join finds the last batch",
        "A join that searches a lengthBatch or timeBatch window without expired output finds all \
         batches since the start in Siddhi 5.1, which grow without bound. Headwater finds the last \
         one (ruling 28).",
        "Expect the last batch, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int);\n\
         define stream Q (k string);\n\
         from Q join S#window.lengthBatch(2) on Q.k == S.k select S.n insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream S (k string, n int);\n\
         define stream Q (k string);\n\
         from Q join S#window.lengthBatch(2) on Q.k == S.k select S.n insert into Out;",
    ),
    CodePage::new(
        super::RULING_SEQUENCE_COUNT,
        "a count in a sequence matches",
        "In a sequence of Siddhi 5.1 a count of at least two never matches, and a count at the end \
         never fires. Headwater gathers the events, and the last element fires when it has enough \
         (ruling 30).",
        "Expect the matches, or write @app:compat('siddhi-5.1').",
        "define stream A (n int);\n\
         define stream B (n int);\n\
         from every a=A<2>, b=B select a[0].n as n, b.n as m insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream A (n int);\n\
         define stream B (n int);\n\
         from every a=A<2>, b=B select a[0].n as n, b.n as m insert into Out;",
    ),
    CodePage::new(
        super::RULING_EMPTY_COUNT,
        "'every e<0:n>' begins again",
        "In Siddhi 5.1 a pattern that begins like this never matches again after a match without \
         an event. Headwater begins again whenever the next element has taken its event (ruling \
         32).",
        "Expect the later matches, or write @app:compat('siddhi-5.1').",
        "define stream A (n int);\n\
         define stream B (n int);\n\
         from every a=A<0:2> -> b=B select b.n as m insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream A (n int);\n\
         define stream B (n int);\n\
         from every a=A<0:2> -> b=B select b.n as m insert into Out;",
    ),
    CodePage::new(
        super::RULING_LONE_AND,
        "a lone 'and' matches whichever side comes last",
        "A pattern that is one 'X and Y' loses matches whose left side comes last in Siddhi 5.1. \
         Headwater has them (ruling 33).",
        "Expect these matches, or write @app:compat('siddhi-5.1').",
        "define stream A (n int);\n\
         define stream B (n int);\n\
         from every (a=A and b=B) select a.n as n, b.n as m insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream A (n int);\n\
         define stream B (n int);\n\
         from every (a=A and b=B) select a.n as n, b.n as m insert into Out;",
    ),
    CodePage::new(
        super::RULING_WITHIN_AT_START,
        "'within' counts where the first element is absent or logical",
        "In Siddhi 5.1 'within' has no effect if the first element is an absence, and after an \
         expiry 'every (X or Y)' gives matches twice. In Headwater the age counts from the first \
         event, and a match comes once (ruling 34).",
        "Expect late matches to be gone, or write @app:compat('siddhi-5.1').",
        "define stream A (n int);\n\
         define stream B (n int);\n\
         from not A for 1 sec -> b=B -> a=A within 1 sec select a.n as n, b.n as m insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream A (n int);\n\
         define stream B (n int);\n\
         from not A for 1 sec -> b=B -> a=A within 1 sec select a.n as n, b.n as m insert into Out;",
    ),
    CodePage::new(
        super::RULING_SET_BY_KEY,
        "'set' counts where the condition is the primary key",
        "In Siddhi 5.1 'update or insert into … set …' ignores 'set' if the condition is the \
         primary key, and replaces the whole row by the selected one. Headwater changes what 'set' \
         names (ruling 38).",
        "Leave 'set' out to replace the row, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int, m int);\n\
         @PrimaryKey('k') define table T (k string, n int, m int);\n\
         from S update or insert into T set T.n = n on T.k == k;",
        "define stream S (k string, n int, m int);\n\
         @PrimaryKey('k') define table T (k string, n int, m int);\n\
         from S update or insert into T on T.k == k;",
    ),
    CodePage::new(
        super::RULING_HANDLED_AGGREGATION,
        "the filter of an aggregation applies",
        "In Siddhi 5.1 an aggregation whose 'from' has a filter or a stream function receives \
         nothing. Headwater applies it (ruling 44).",
        "Expect buckets, or write @app:compat('siddhi-5.1'); a query in front of the aggregation does \
         the same in both.",
        "define stream S (n int);\n\
         define aggregation A from S[n > 0] select sum(n) as total aggregate every sec ... min;",
        "define stream S (n int);\n\
         define stream Some (n int);\n\
         define aggregation A from Some select sum(n) as total aggregate every sec ... min;\n\
         from S[n > 0] select n insert into Some;",
    ),
    CodePage::new(
        super::RULING_SHARED_BY_GROUPS,
        "an aggregator keeps its groups apart",
        "math:percentile and json:groupAsObject mix the values of all groups and keys in Siddhi \
         5.1. Headwater keeps those of each group apart (ruling 55).",
        "Expect values of each group; the old output is not available.",
        "define stream S (k string, n double);\n\
         from S#window.length(9) select k, math:percentile(n, 50.0) as half group by k\n\
         insert into Out;",
        "define stream S (k string, n double);\n\
         from S#window.length(9) select math:percentile(n, 50.0) as half insert into Out;",
    ),
    CodePage::new(
        super::RULING_CONDITION_PER_KEY,
        "the condition of a window in a partition is that of its key",
        "In a partition the condition of 'expression' and 'expressionBatch' has one state for all \
         keys in Siddhi 5.1. Headwater has one for each key (ruling 70).",
        "Expect windows of each key; the old output is not available.",
        "define stream S (k string, n int);\n\
         partition with (k of S) begin\n\
         \x20 from S#window.expression('count() <= 5') select k, sum(n) as total insert into Out;\n\
         end;",
        "define stream S (k string, n int);\n\
         partition with (k of S) begin\n\
         \x20 from S#window.length(5) select k, sum(n) as total insert into Out;\n\
         end;",
    ),
    CodePage::new(
        super::RULING_RUNNING_BUCKET,
        "a join in a partition finds the running bucket of an aggregation",
        "In Siddhi 5.1 a query of a partition looks for the bucket that is being filled among the \
         state of its key, where it is not: the values of the running second are missing, and an \
         aggregation without groups gives an empty bucket that begins at 0. Headwater finds the \
         running bucket (ruling 71).",
        "Expect the values of the running bucket, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int);\n\
         define aggregation A from S select sum(n) as total aggregate every sec;\n\
         partition with (k of S) begin\n\
         \x20 from S join A within 0L, 9999999999999L per 'seconds' select S.k, A.total insert into Out;\n\
         end;",
        "@app:compat('siddhi-5.1')\n\
         define stream S (k string, n int);\n\
         define aggregation A from S select sum(n) as total aggregate every sec;\n\
         partition with (k of S) begin\n\
         \x20 from S join A within 0L, 9999999999999L per 'seconds' select S.k, A.total insert into Out;\n\
         end;",
    ),
    CodePage::new(
        super::RULING_SHARED_ABSENCE,
        "an event that ends a pattern and is not an absent one ends all matches",
        "In Siddhi 5.1 an event that ends several matches gives only the first of them if an \
         earlier 'X and not Y[...]' of the pattern reads the same stream and its filter does not \
         hold. Headwater gives them all (ruling 72).",
        "Expect every match; the old output is not available.",
        "define stream A (n int);\n\
         define stream B (n int);\n\
         define stream C (n int);\n\
         from every a=A -> (b=B and not C[n > 7]) -> c=C select a.n as n, c.n as m insert into Out;",
        "define stream A (n int);\n\
         define stream B (n int);\n\
         define stream C (n int);\n\
         define stream High (n int);\n\
         from C[n > 7] select n insert into High;\n\
         from every a=A -> (b=B and not High) -> c=C select a.n as n, c.n as m insert into Out;",
    ),
    CodePage::new(
        super::RULING_KEY_CHANGED,
        "a row whose key changes is found by its new key",
        "In Siddhi 5.1 a row of a table with several primary keys stays under its old key when an \
         update changes one of them: it is not deleted any more, and another row may come to have \
         the same keys. Headwater moves it (ruling 73).",
        "Expect it to be deleted; the old output is not available. An unchanged key behaves the \
         same in both.",
        "define stream S (k string, n int, v int);\n\
         @PrimaryKey('k', 'n') define table T (k string, n int, v int);\n\
         from S insert into T;\n\
         from S update T on T.k == k;",
        "define stream S (k string, n int, v int);\n\
         @PrimaryKey('k', 'n') define table T (k string, n int, v int);\n\
         from S insert into T;\n\
         from S update T set T.v = v on T.k == k;",
    ),
    CodePage::new(
        super::RULING_SET_BY_ROW,
        "'set' may use attributes of the row",
        "In Siddhi 5.1 the attributes of the row are null in 'set' if the table has a primary key \
         or an index, so that 'set T.n = T.n + n' writes null. Headwater gives their values \
         (ruling 74).",
        "Expect the values, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int);\n\
         @PrimaryKey('k') define table T (k string, n int);\n\
         from S update T set T.n = T.n + n on T.k == k;",
        "@app:compat('siddhi-5.1')\n\
         define stream S (k string, n int);\n\
         @PrimaryKey('k') define table T (k string, n int);\n\
         from S update T set T.n = T.n + n on T.k == k;",
    ),
    CodePage::new(
        super::RULING_RETENTION_KEPT,
        "a retention period holds for every duration",
        "In Siddhi 5.1 rows of a duration are purged only where the next longer one is aggregated \
         too; those of the longest go together with the ones before, or never if it is the only \
         one, whatever the period. Headwater deletes them when the given period is over (ruling \
         77). Without its own period, a single duration is kept for ever in both.",
        "Expect the rows to be deleted, write 'all', or write @app:compat('siddhi-5.1').",
        "define stream S (n int);\n\
         @purge(enable = 'true', interval = '1 min', @retentionPeriod(sec = '10 min'))\n\
         define aggregation A from S select sum(n) as total aggregate every sec;",
        "define stream S (n int);\n\
         @purge(enable = 'true', interval = '1 min', @retentionPeriod(sec = 'all'))\n\
         define aggregation A from S select sum(n) as total aggregate every sec;",
    ),
    CodePage::new(
        super::RULING_UNTIMED_LOOKUP,
        "an event has its time also in conditions on tables",
        "In Siddhi 5.1 'eventTimestamp()' is -1 in the 'on' of a join, in the conditions and 'set' of \
         tables and in '[... in T]'. Headwater gives the time of the event (ruling 78).",
        "Expect the time, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, at long);\n\
         @PrimaryKey('k') define table T (k string, at long);\n\
         from S update T set T.at = eventTimestamp() on T.k == k;",
        "define stream S (k string, at long);\n\
         @PrimaryKey('k') define table T (k string, at long);\n\
         from S select k, eventTimestamp() as at update T set T.at = at on T.k == k;",
    ),
    CodePage::new(
        super::RULING_FOUND_AND_KEPT,
        "rows are deleted by an index and more",
        "In Siddhi 5.1 'delete' keeps every row where one side of an 'and' asks a primary key or an \
         index and the other side a column without one: the rows are found, and then nothing is done. \
         Headwater deletes the rows that satisfy the condition (ruling 80).",
        "Expect the rows to be deleted, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int);\n\
         @PrimaryKey('k') define table T (k string, n int);\n\
         from S delete T on T.k == k and T.n < n;",
        "@app:compat('siddhi-5.1')\n\
         define stream S (k string, n int);\n\
         @PrimaryKey('k') define table T (k string, n int);\n\
         from S delete T on T.k == k and T.n < n;",
    ),
    CodePage::new(
        super::RULING_PROBED_BACKWARDS,
        "'in' compares a key as it is written",
        "In Siddhi 5.1 '[(T.n <= n) in T]' looks for a row with 'T.n >= n', and '>=' for one with \
         '<=', where 'n' is the primary key or has an index. Headwater evaluates the condition as \
         written (ruling 81).",
        "Expect the condition as written, or write @app:compat('siddhi-5.1').",
        "define stream S (n int);\n\
         @PrimaryKey('n') define table T (n int);\n\
         from S[(T.n <= n) in T] select n insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream S (n int);\n\
         @PrimaryKey('n') define table T (n int);\n\
         from S[(T.n <= n) in T] select n insert into Out;",
    ),
    CodePage::new(
        super::RULING_LOST_END,
        "rows are kept after the last one was deleted",
        "In Siddhi 5.1 a table without a primary key and an index loses every row that is inserted \
         after its last row was deleted while others stayed, until no row is left. Headwater keeps \
         them (ruling 82).",
        "Expect the rows; a primary key or an index keeps them in both.",
        "define stream S (k string, n int);\n\
         define table T (k string, n int);\n\
         from S insert into T;\n\
         from S delete T on T.k == k;",
        "define stream S (k string, n int);\n\
         @Index('k') define table T (k string, n int);\n\
         from S insert into T;\n\
         from S delete T on T.k == k;",
    ),
    CodePage::new(
        super::RULING_STAYS_IN_PICTURE,
        "rows leave a snapshot that has several aggregators",
        "Siddhi 5.1 takes an expired row out of an 'output snapshot' by its attributes without the \
         aggregators, but mistakes some aggregators for such attributes by their position, such as \
         all but the first if the first item is one: the rows stay for ever. Headwater takes them \
         out (ruling 83).",
        "Select another attribute first and all aggregators after it, and both do the same.",
        "define stream S (k string, n int);\n\
         from S#window.length(2) select sum(n) as s, count() as c, k\n\
         output snapshot every 1 sec insert into Out;",
        "define stream S (k string, n int);\n\
         from S#window.length(2) select k, sum(n) as s, count() as c\n\
         output snapshot every 1 sec insert into Out;",
    ),
    CodePage::new(
        super::RULING_SEARCHED_STAYS,
        "rows that a join has searched expire",
        "In Siddhi 5.1 events of an expressionBatch window that the other side of a join has looked \
         through never expire: aggregates of the join keep them for ever. Headwater lets them expire \
         with their batch (ruling 79).",
        "Expect them to expire, or write @app:compat('siddhi-5.1').",
        "define stream S (k string, n int);\n\
         define stream Q (k string);\n\
         from Q join S#window.expressionBatch('count() <= 2') as S on Q.k == S.k\n\
         select sum(S.n) as n insert into Out;",
        "@app:compat('siddhi-5.1')\n\
         define stream S (k string, n int);\n\
         define stream Q (k string);\n\
         from Q join S#window.expressionBatch('count() <= 2') as S on Q.k == S.k\n\
         select sum(S.n) as n insert into Out;",
    ),
];
