//! E02xx: names that stand for nothing, or for something else.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::UNKNOWN_STREAM,
        "no such stream",
        "A query reads a stream, table, window or aggregation that is neither defined nor made by \
         an earlier query. Capitals count.",
        "Correct the name, or define the stream.",
        "define stream Trades (symbol string, price double);\n\
         from Trade select symbol insert into Out;",
        "define stream Trades (symbol string, price double);\n\
         from Trades select symbol insert into Out;",
    ),
    CodePage::new(
        super::USED_TOO_EARLY,
        "a stream is read before the query that makes it",
        "A stream without a definition is created by the first query that inserts into it. Earlier \
         queries cannot read it.",
        "Put the query that inserts first, or define the stream.",
        "define stream S (a int);\n\
         from Middle select a insert into Out;\n\
         from S select a insert into Middle;",
        "define stream S (a int);\n\
         from S select a insert into Middle;\n\
         from Middle select a insert into Out;",
    ),
    CodePage::new(
        super::UNKNOWN_ATTRIBUTE,
        "no such attribute",
        "The stream, table or window has no attribute of this name. Capitals count.",
        "Correct the name, or add the attribute to the definition.",
        "define stream Trades (symbol string, price double);\n\
         from Trades[pric > 10.0] select symbol insert into Out;",
        "define stream Trades (symbol string, price double);\n\
         from Trades[price > 10.0] select symbol insert into Out;",
    ),
    CodePage::new(
        super::UNKNOWN_PREFIX,
        "the name before the dot is not an input of the query",
        "The name before the dot is the stream that the query reads, its alias in a join, or the \
         name of an event in a pattern. An input with an alias is known only by the alias. \
         Conditions of update and delete refer to the selected attributes without a prefix.",
        "Write the name or alias of an input, or leave it out.",
        "define stream S (a int);\n\
         define table T (a int);\n\
         from S join T as t on S.a == T.a select t.a as a insert into Out;",
        "define stream S (a int);\n\
         define table T (a int);\n\
         from S join T as t on S.a == t.a select t.a as a insert into Out;",
    ),
    CodePage::new(
        super::AMBIGUOUS_ATTRIBUTE,
        "several inputs have this attribute",
        "In a join or a pattern more than one input has an attribute of this name, so the name \
         alone is ambiguous.",
        "Put the input before it.",
        "define stream S (a int);\n\
         define table T (a int, b string);\n\
         from S join T on S.a == T.a select a, b insert into Out;",
        "define stream S (a int);\n\
         define table T (a int, b string);\n\
         from S join T on S.a == T.a select S.a, b insert into Out;",
    ),
    CodePage::new(
        super::UNKNOWN_FUNCTION,
        "no such function",
        "There is no function or aggregator of this name, and the app defines none. Names are \
         case-sensitive, and all but the core functions need their namespace.",
        "Correct the name or put the namespace before it.",
        "define stream S (name string);\n\
         from S select str:uper(name) as name insert into Out;",
        "define stream S (name string);\n\
         from S select str:upper(name) as name insert into Out;",
    ),
    CodePage::new(
        super::UNKNOWN_WINDOW,
        "no such window",
        "There is no window of this name. Names are case-sensitive.",
        "Correct the name.",
        "define stream S (a int);\n\
         from S#window.lenght(5) select a insert into Out;",
        "define stream S (a int);\n\
         from S#window.length(5) select a insert into Out;",
    ),
    CodePage::new(
        super::UNKNOWN_STREAM_FUNCTION,
        "no such stream function",
        "The name after '#' is not a known stream function. Windows need 'window.' before their \
         name; functions that return a value belong in a filter or in the select clause.",
        "Correct the name, or write '#window.name(…)' for a window.",
        "define stream S (a int);\n\
         from S#length(5) select a insert into Out;",
        "define stream S (a int);\n\
         from S#window.length(5) select a insert into Out;",
    ),
    CodePage::new(
        super::UNKNOWN_TABLE,
        "no such table",
        "A query updates, deletes from or looks into a table that is not defined.",
        "Correct the name, or define the table.",
        "define stream S (a int);\n\
         define table Totals (a int);\n\
         from S select a update Total on Totals.a == a;",
        "define stream S (a int);\n\
         define table Totals (a int);\n\
         from S select a update Totals on Totals.a == a;",
    ),
    CodePage::new(
        super::INNER_OUTSIDE,
        "an inner stream outside a partition",
        "Streams with a '#' before the name live inside one partition and are not seen outside.",
        "Leave out the '#', or put the query into the partition.",
        "define stream S (a int);\n\
         from S select a insert into #Inner;",
        "define stream S (a int);\n\
         from S select a insert into Inner;",
    ),
    CodePage::new(
        super::NO_FAULT_STREAM,
        "the stream has no fault stream",
        "A stream '!S' with the events of S that failed exists only if the definition of S has \
         @OnError(action='STREAM').",
        "Put @OnError(action='STREAM') before the definition.",
        "define stream S (a int);\n\
         from !S select a insert into Failed;",
        "@OnError(action='STREAM')\n\
         define stream S (a int);\n\
         from !S select a insert into Failed;",
    ),
    CodePage::new(
        super::NOT_SELECTED,
        "an attribute that is not selected",
        "'having' and 'order by' of a query over one stream see the selected attributes only, as \
         in Siddhi.",
        "Select the attribute too, or move the condition into a filter of the stream.",
        "define stream S (a int, b int);\n\
         from S select a having b > 5 insert into Out;",
        "define stream S (a int, b int);\n\
         from S[b > 5] select a insert into Out;",
    ),
    CodePage::new(
        super::EVENT_AS_VALUE,
        "an event where a value is needed",
        "The name of an event of a pattern, or of an input of a join, refers to the whole event \
         and has no value. Only 'is null' and eventTimestamp(…) accept it.",
        "Take one of its attributes.",
        "define stream S (a int);\n\
         from every e1=S -> e2=S select e1 as first insert into Out;",
        "define stream S (a int);\n\
         from every e1=S -> e2=S select e1.a as first insert into Out;",
    ),
    CodePage::new(
        super::GROUP_BY_ALIAS,
        "group by a name that the select clause makes",
        "'group by' works on the attributes of the input; names given with 'as' come later.",
        "Group by an attribute of the input, or make the value in an earlier query.",
        "define stream S (name string, a int);\n\
         from S select str:upper(name) as upper, sum(a) as total group by upper insert into Out;",
        "define stream S (name string, a int);\n\
         from S select str:upper(name) as upper, a insert into Named;\n\
         from Named select upper, sum(a) as total group by upper insert into Out;",
    ),
    CodePage::new(
        super::NOT_A_STREAM,
        "a table or aggregation is read as a stream",
        "A query starts with events, and tables and aggregations send none. Patterns and \
         aggregations read streams alone.",
        "Join a stream with the table, or ask the table with an on-demand query.",
        "define table T (a int);\n\
         from T select a insert into Out;",
        "define stream S (a int);\n\
         define table T (a int);\n\
         from S join T on S.a == T.a select T.a insert into Out;",
    ),
    CodePage::new(
        super::NOT_A_TABLE,
        "a table is needed here",
        "Only tables can be updated, deleted from, or looked into with 'in'.",
        "Name a table.",
        "define stream S (a int);\n\
         define stream T (a int);\n\
         from S select a update T on T.a == a;",
        "define stream S (a int);\n\
         define table T (a int);\n\
         from S select a update T on T.a == a;",
    ),
    CodePage::new(
        super::NOT_A_TARGET,
        "an aggregation is inserted into",
        "An aggregation takes its events only from the stream after its 'from'.",
        "Insert into that stream.",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;\n\
         from S select a insert into A;",
        "define stream S (a int);\n\
         define aggregation A from S select sum(a) as total aggregate every sec ... hour;\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        super::NOT_A_STORE,
        "an on-demand query asks a stream",
        "Streams pass events on and keep none. Tables, named windows and aggregations can be \
         queried.",
        "Ask one of those.",
        "from S select a;",
        "from T select a;",
    )
    .on_demand(),
    CodePage::new(
        super::UNREAD_STREAM,
        "a stream that is never read",
        "The insert creates a stream that is never read, and a defined stream with a similar name \
         gets no events: the name is probably misspelt.",
        "Correct the name, or remove the definition that nothing fills.",
        "define stream S (a int);\n\
         @sink(type='log')\n\
         define stream Alerts (a int);\n\
         from S[a > 5] select a insert into Alert;",
        "define stream S (a int);\n\
         @sink(type='log')\n\
         define stream Alerts (a int);\n\
         from S[a > 5] select a insert into Alerts;",
    ),
];
