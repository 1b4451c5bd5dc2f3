//! Every production of the grammar, accepted and refused; faults with their places are in
//! `fault_tests.rs`.

use crate::ast::*;
use crate::diagnostic::{Diagnostic, Severity};
use crate::parser::*;
use crate::token::Keyword;

mod expressions;

use expressions::expr_refused;

const S: &str = "define stream S (a int, b string);";

fn errors(diagnostics: &[Diagnostic]) -> Vec<(&'static str, &str)> {
    diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| (d.code, d.message.as_str()))
        .collect()
}

/// The whole app is accepted.
#[track_caller]
fn app(text: &str) -> App {
    let parsed = parse(text);
    assert!(
        parsed.diagnostics.is_empty(),
        "{text}\n{:?}",
        errors(&parsed.diagnostics)
    );
    parsed.app
}

#[track_caller]
fn apps(texts: &[&str]) {
    for text in texts {
        app(text);
    }
}

/// The query, behind definitions, is accepted.
#[track_caller]
fn query(text: &str) -> Query {
    let mut app = app(&format!("{S}\n{text}"));
    match app.elements.pop() {
        Some(Element::Query(query)) => query,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn queries(texts: &[&str]) {
    for text in texts {
        query(text);
    }
}

#[track_caller]
fn refused(text: &str) {
    assert!(parse(text).has_errors(), "accepted: {text}");
}

#[track_caller]
fn query_refused(text: &str) {
    refused(&format!("{S}\n{text}"));
}

// ---- words ----

#[test]
fn comments_and_white_space() {
    apps(&[
        "-- c\ndefine /* c */ stream S(a int)--c",
        "/* a -- b */ define stream S (a int) /***/ ;",
        "define\tstream\r\nS\u{b}(a int);",
        "\u{feff}define stream S (a int);",
        "define stream S (a int); -- ${x} \u{1}",
    ]);
    let parsed = parse("define stream S (a int); /* open");
    let codes: Vec<_> = parsed.diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["W0102"]);
    refused("define stream S // c\n (a int);");
    refused("define stream S\u{a0}(a int);");
    refused("define stream S (a int)\u{c};");
}

#[test]
fn names() {
    apps(&[
        "define stream `define` (`a b` string, _x int, A9 int);",
        "define stream `x.y-z` (`1` int);",
    ]);
    for text in [
        "define stream 9S (a int);",
        "define stream S (a-b int);",
        "define stream S (`a int);",
    ] {
        refused(text);
    }
}

#[test]
fn every_keyword_is_a_name() {
    for keyword in Keyword::ALL {
        for word in keyword.texts() {
            let upper = word.to_ascii_uppercase();
            apps(&[
                &format!("define stream {word} ({word} int, {upper} int);"),
                &format!("define table {upper} ({word} int);"),
                &format!(
                    "@{word}({word}='x', a.{word}='y', {word}.b='z') define stream S (a int);"
                ),
                &format!("@app:{word}('x') define stream S (a int);"),
            ]);
            let queries = [
                format!("from S select a as {word} insert into {word};"),
                format!("from {word} select {word} insert into #{word};"),
                format!("from {word}[{word} > 5] select S.{word} as x insert into T;"),
                format!("from {word}#window.{word}({word}, 5) select * insert into T;"),
                format!("from S#{word}({word})#{word}:{word}() select * insert into T;"),
                format!("from S select {word}(a) as x, {word}:{word}(a) as y insert into T;"),
                format!(
                    "from S as {word} join T as {word} on {word}.a == T.a select * insert into U;"
                ),
                format!(
                    "from every {word}=S -> e2={word}[a == {word}.a] select e2.a insert into T;"
                ),
                format!("from S select a group by {word} order by {word} insert into T;"),
                format!("from S update {word} set {word}.a = a on {word}.a == a;"),
                format!("from S delete {word} on {word}.{word} == a;"),
                format!("from S[a in {word}] select a insert into T;"),
                format!("from S[not ({word}.a is null)] select a insert into T;"),
            ];
            for query in queries {
                // Something must be named `null` for it to be a value.
                app(&format!("{S} define table N (null int); {query}"));
            }
            let (_, diagnostics) = parse_on_demand(&format!("from {word} select {word}"));
            assert!(diagnostics.is_empty(), "{word}: {diagnostics:?}");
        }
    }
}

#[test]
fn no_keyword_where_only_a_plain_name_stands() {
    apps(&[
        "define trigger `every` at every 5 sec;",
        "define function `in`[`null`] return int { };",
        "define stream S (a int); define aggregation `from` from S select a aggregate every sec;",
    ]);
    refused("define trigger every at every 5 sec;");
    refused("define function order[js] return int { };");
    refused("define function f[object] return int { };");
    refused("define stream S (a int); define aggregation min from S select a aggregate every sec;");
}

// ---- apps and annotations ----

#[test]
fn apps_and_separators() {
    let found = app(
        "@app:name('x') @App:description(\"y\") define stream S (a int);\
                     define table T (b int); from S select a insert into T;",
    );
    assert_eq!(found.annotations.len(), 2);
    assert_eq!(found.annotations[0].name.text, "name");
    assert_eq!(found.elements.len(), 3);
    apps(&[
        "define stream S (a int)",
        "define stream S (a int);",
        "@app:x define stream S (a int)",
    ]);
    refused("");
    refused(";");
    refused("-- nothing");
    refused("@app:name('x')");
    refused("from S select a insert into T;");
    refused("define stream S (a int) define stream T (a int)");
    refused("define stream S (a int);;");
    refused("define stream S (a int);; define stream T (a int)");
    refused("define stream S (a int); from S insert into T; define stream U (a int);");
    refused("define stream S (a int); @app:name('x') define stream T (a int);");
    refused("@app:name(@x('y')) define stream S (a int);");
    refused("@app:name() define stream S (a int);");
    refused("define stream S (a int); @info(name='x')");
    refused("hello");
}

#[test]
fn annotations() {
    let found = app(
        "@a @b('x', 'y') @c(k='v', a.b-c:d=\"\"\"w\"\"\", 'q'='r', @d(@e('f')), 'z')\
                     define stream S (a int);",
    );
    let Element::Stream(stream) = &found.elements[0] else {
        panic!()
    };
    let keys: Vec<_> = stream.annotations[2]
        .elements
        .iter()
        .map(|e| {
            (
                e.key.as_ref().map(|k| k.text.as_str()),
                e.value.text.as_str(),
            )
        })
        .collect();
    let expect = [
        (Some("k"), "v"),
        (Some("a.b-c:d"), "w"),
        (Some("q"), "r"),
        (None, "z"),
    ];
    assert_eq!(keys, expect);
    assert_eq!(stream.annotations[2].annotations[0].name.text, "d");
    for annotation in [
        "@a()",
        "@a(5)",
        "@a(b=5)",
        "@a(b=c)",
        "@a(b='x',)",
        "@a('x' 'y')",
        "@a(b='x'",
        "@",
        "@'a'",
    ] {
        refused(&format!("{annotation} define stream S (a int);"));
    }
    for annotation in ["@a(l)", "@a(b='x', l)", "@a(l, b='x')"] {
        let parsed = parse(&format!("{annotation} define stream S (a int);"));
        let codes: Vec<_> = parsed.diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, ["W0101"], "{annotation}");
    }
}

// ---- definitions ----

#[test]
fn streams_tables_and_windows() {
    apps(&[
        "define stream S (a string, b int, c long, d float, e double, f bool, g object);",
        "DEFINE Stream S (a STRING);",
        "define stream #S (a int);",
        "define stream !S (a int);",
        "@PrimaryKey('a') @Index('b') define table T (a int, b int);",
        "define window W (a int) length(5);",
        "define window W (a int) length(5) output all events;",
        "@x define window W (a int) ns:sort(3, a, 'desc') output expired events;",
        "define window W (a int) time(1 min) output current events;",
        "define window W (a int) time(1 min) output events;",
    ]);
    for text in [
        "define stream S;",
        "define stream S ();",
        "define stream S (a);",
        "define stream S (a int,);",
        "define stream S (a int b int);",
        "define stream S (a number);",
        "define stream S a int;",
        "define stream (a int);",
        "define stream S (a int, a int);",
        "define table T (a int) length(5);",
        "define window W (a int);",
        "define window W (a int) length;",
        "define window W (a int) length(5) output;",
        "define window W (a int) length(5) output raw events;",
        "define view V (a int);",
        "stream S (a int);",
    ] {
        refused(text);
    }
}

#[test]
fn triggers() {
    let found = app("define trigger T at every 1 hour 5 sec;");
    let Element::Trigger(trigger) = &found.elements[0] else {
        panic!()
    };
    assert!(matches!(
        trigger.at,
        TriggerAt::Every(TimeSpan {
            millis: 3_605_000,
            ..
        })
    ));
    apps(&[
        "define trigger T at 'start';",
        "define trigger T at '0 0 * * * ?'",
    ]);
    for text in [
        "define trigger T every 5 sec;",
        "define trigger T at 5 sec;",
        "define trigger T at every 5;",
        "define trigger T;",
        "@x define trigger T at 'start';",
    ] {
        refused(text);
    }
}

#[test]
fn functions() {
    let found = app("define function f[js] return double { if (x) { return \"}\"; } // }\n };");
    let Element::Function(function) = &found.elements[0] else {
        panic!()
    };
    assert_eq!(function.body.text, " if (x) { return \"}\"; } // }\n ");
    apps(&[
        "define function f[js] return int {};",
        "define function f[js] return int { 'http://x' };",
        "define function f[js] return int { a = '\"'; };",
        "define function f[js] return int { \"a\"; }; define function g[js] return int { \"{\" };",
    ]);
    for text in [
        "define function f return int {};",
        "define function f[js] {};",
        "define function f[js] return int;",
        "define function f[js] return int { { };",
        "define function f(js) return int {};",
        "@x define function f[js] return int {};",
    ] {
        refused(text);
    }
}

#[test]
fn aggregations() {
    let head = "define stream S (a int, t long); define aggregation A from S";
    for tail in [
        "select a aggregate every sec",
        "select a, sum(a) as s group by a aggregate by t every sec ... year",
        "select * aggregate every seconds, minutes, hours, days, months, years",
        "[a > 5]#f(a) select a aggregate by S.t every min",
    ] {
        app(&format!("{head} {tail};"));
    }
    for tail in [
        "select a every sec",
        "select a aggregate",
        "select a aggregate every",
        "select a aggregate every 5 sec",
        "select a aggregate every week",
        "select a aggregate every sec ... week",
        "select a aggregate every sec .. year",
        "select a aggregate every sec, ",
        "aggregate every sec",
        "select a having a > 5 aggregate every sec",
    ] {
        refused(&format!("{head} {tail};"));
    }
}

// ---- partitions ----

#[test]
fn partitions() {
    let found = app(&format!(
        "{S} @info(name='p') partition with (a of S, a < 5 as 'low' or a >= 5 as 'high' of T) \
         begin @info(name='q') from S select a insert into #I; from #I select a insert into O; \
         end;"
    ));
    let Element::Partition(partition) = &found.elements[1] else {
        panic!()
    };
    assert_eq!((partition.keys.len(), partition.queries.len()), (2, 2));
    for text in [
        "partition with (a of S) begin from S select a insert into T end",
        "partition with (str:lower(b) of S) begin from S insert into T end;",
        "partition with (S.a of S) begin from S insert into T; end;",
    ] {
        app(&format!("{S} {text}"));
    }
    for text in [
        "partition with () begin from S insert into T; end;",
        "partition with (a) begin from S insert into T; end;",
        "partition with (a of #S) begin from S insert into T; end;",
        "partition with (a as x of S) begin from S insert into T; end;",
        "partition with (a of S) begin end;",
        "partition with (a of S) begin from S insert into T;",
        "partition with (a of S) from S insert into T; end;",
        "partition (a of S) begin from S insert into T; end;",
        "partition with (a of S) begin from S insert into T;; end;",
        "partition with (a of S) begin define stream X (a int); end;",
        "partition with (a of S) begin partition with (a of S) begin from S insert into T; end; end;",
    ] {
        refused(&format!("{S} {text}"));
    }
}

// ---- queries ----

#[test]
fn single_inputs() {
    let found = query(
        "from S[a > 5]#[a < 9]#str:tok(b, ' ')#window.length(5)#f()[b == 'x'] insert into T;",
    );
    let Input::Single(input) = found.input else {
        panic!()
    };
    assert_eq!(input.handlers.len(), 6);
    assert!(found.selector.all);
    queries(&[
        "from S insert into T;",
        "from #S insert into T;",
        "from !S insert into T;",
        "from S#window.ns:w() insert into T;",
        "from S#window.w(*) insert into T;",
        "from (from S select a return) select a insert into T;",
        "from ((from S return all events)) insert into T;",
        "from from S select a return insert into T;",
    ]);
    for text in [
        "from insert into T;",
        "from S[] insert into T;",
        "from S[a > 5 insert into T;",
        "from S[a > 5]] insert into T;",
        "from S#window insert into T;",
        "from S#window.length insert into T;",
        "from S#window.length(5)#window.length(5) insert into T;",
        "from S.window.length(5) insert into T;",
        "from S as s insert into T;",
        "from S U insert into T;",
        "from (from S select a insert into X) insert into T;",
    ] {
        query_refused(text);
    }
}

#[test]
fn joins() {
    let found = query(
        "from S[a > 1]#window.length(5) as x unidirectional left outer join #T as y \
         on x.a == y.a and y.b is null select x.a insert into T;",
    );
    let Input::Join(join) = found.input else {
        panic!()
    };
    assert_eq!(
        (join.kind, join.trigger),
        (JoinKind::LeftOuter, JoinTrigger::Left)
    );
    queries(&[
        "from S join T select * insert into U;",
        "from S inner join T unidirectional on S.a == T.a insert into U;",
        "from S right outer join T insert into U;",
        "from S full outer join T insert into U;",
        "from S#window.w() join S#window.w() as t on S.a == t.a insert into U;",
        "from S join A as x on S.a == x.a within '2020-**' per 'days' insert into U;",
        "from S as s join A as x within s.a, s.b per \"day\" select x.a insert into U;",
    ]);
    for text in [
        "from S outer join T insert into U;",
        "from S left join T insert into U;",
        "from S join insert into U;",
        "from S unidirectional join T unidirectional insert into U;",
        "from S as x[a > 5] join T insert into U;",
        "from S#window.w()[a > 5] join T insert into U;",
        "from S join T within 'x' insert into U;",
        "from S join T per 'x' insert into U;",
        "from S join T join U insert into V;",
        "from S, T join U insert into V;",
    ] {
        query_refused(text);
    }
}

#[test]
fn patterns() {
    let found = query(
        "from every e1=S[a > 5]<2:5> -> not T[a == e1.a] for 5 sec -> e2=S and e3=T within 1 min select e1[last].a as x insert into U;",
    );
    let Input::Pattern(pattern) = found.input else {
        panic!()
    };
    assert_eq!(pattern.kind, PatternKind::Pattern);
    assert_eq!(pattern.within.map(|t| t.millis), Some(60_000));
    let PatternElement::Chain(chain, _) = pattern.root else {
        panic!()
    };
    assert_eq!(chain.len(), 3);
    assert!(matches!(&chain[0], PatternElement::Every(inner, _)
        if matches!(**inner, PatternElement::Count { min: 2, max: Some(5), .. })));
    assert!(matches!(
        &chain[1],
        PatternElement::Absent { wait: Some(_), .. }
    ));
    queries(&[
        "from e1=S select e1.a insert into U;",
        "from every e1=S select e1.a insert into U;",
        "from every S -> T insert into U;",
        "from every (e1=S -> e2=T) -> e3=U insert into V;",
        "from (e1=S -> e2=T) within 5 sec insert into V;",
        "from S<2> -> T<:3> -> U<4:> insert into V;",
        "from every (not S for 5 sec) -> T insert into V;",
        "from every not S for 5 sec -> T insert into V;",
        "from not S and e2=T insert into V;",
        "from e1=S and not T insert into V;",
        "from e1=S or not T for 1 sec insert into V;",
        "from not S for 1 sec and not T for 2 sec insert into V;",
        "from e1=S or e2=T -> e3=U insert into V;",
        "from every (e1=S and e2=T) -> e3=U insert into V;",
        "from every #S -> #T insert into V;",
        "from S<2:> select e.a insert into V;",
        "from S within 5 sec insert into V;",
        "from every e1=#S#f(a)[a > 5] -> !T insert into V;",
        "from A and B insert into V;",
    ]);
    for text in [
        "from e1=S -> insert into U;",
        "from e1=S -> not T insert into U;",
        "from not S insert into U;",
        "from not S or e2=T insert into U;",
        "from e1=S or not T insert into U;",
        "from e1=S -> e2=T, e3=U insert into V;",
        "from e1=S+ -> e2=T insert into V;",
        "from e1=S<2:1 -> e2=T insert into V;",
        "from e1=S<> -> e2=T insert into V;",
        "from e1=S<:> -> e2=T insert into V;",
        "from e1=S#window.length(5) -> e2=T insert into V;",
        "from e1=S and e2=T and e3=U insert into V;",
        "from e1=S<2> and e2=T insert into V;",
        "from (e1=S -> e2=T insert into V;",
        "from every every e1=S insert into V;",
        "from e1=S -> e2=T within 5 insert into V;",
        "from not S for 5 -> T insert into V;",
    ] {
        query_refused(text);
    }
}

#[test]
fn sequences() {
    let found =
        query("from every e1=S, e2=T[a > e1.a]+, e3=S within 5 sec select e1.a insert into U;");
    let Input::Pattern(pattern) = found.input else {
        panic!()
    };
    assert_eq!(pattern.kind, PatternKind::Sequence);
    let PatternElement::Every(chain, _) = pattern.root else {
        panic!()
    };
    let PatternElement::Chain(chain, _) = *chain else {
        panic!()
    };
    assert!(matches!(
        chain[1],
        PatternElement::Count {
            min: 1,
            max: None,
            ..
        }
    ));
    queries(&[
        "from S, T insert into U;",
        "from e1=S*, e2=T?, e3=S<2:> insert into U;",
        "from every e1=S and e2=T, e3=U insert into V;",
        "from not S for 5 sec, e2=T insert into V;",
        "from e1=S, not T for 5 sec insert into V;",
        "from e1=S, not T and e3=U insert into V;",
        "from e1=S, (e2=T, e3=U) insert into V;",
        "from every e1=S, e2=S[not (e1.a is null)] select e1.a insert into V;",
    ]);
    for text in [
        "from e1=S, insert into U;",
        "from e1=S, every e2=T insert into U;",
        "from e1=S, not T insert into U;",
        "from e1=S, e2=T -> e3=U insert into V;",
        "from ,e1=S insert into V;",
    ] {
        query_refused(text);
    }
}

#[test]
fn sections() {
    let found = query(
        "from S select a, b as c, S.a as d, count() as n, true group by a, S.b having n > 5 \
         order by a desc, S.b asc, c limit 5 offset 2 * 3 insert into T;",
    );
    let selector = found.selector;
    assert_eq!(
        (
            selector.items.len(),
            selector.group_by.len(),
            selector.order_by.len()
        ),
        (5, 2, 3)
    );
    assert!(selector.order_by[0].descending && !selector.order_by[1].descending);
    assert!(
        matches!(&selector.items[4].expr.kind, ExprKind::Attribute(a) if a.name.text == "true")
    );
    queries(&[
        "from S select * having a > 5 insert into T;",
        "from S select * limit 5 insert into T;",
        "from S select e1[0].a, e[last].b insert into T;",
    ]);
    for text in [
        "from S select insert into T;",
        "from S select a, insert into T;",
        "from S select a b insert into T;",
        "from S select a b, c insert into T;",
        "from S select 5 insert into T;",
        "from S select a + 1 insert into T;",
        "from S select (a) insert into T;",
        "from S select count() insert into T;",
        "from S select f(a) x insert into T;",
        "from S select S.* insert into T;",
        "from S select *, a insert into T;",
        "from S group by a insert into T;",
        "from S having a > 5 insert into T;",
        "from S select a group a insert into T;",
        "from S select a group by f(a) insert into T;",
        "from S select a having insert into T;",
        "from S select a order by insert into T;",
        "from S select a having a > 5 group by a insert into T;",
        "from S select a limit insert into T;",
        "from S select a offset 5 limit 5 insert into T;",
        "from S select a where a > 5 insert into T;",
    ] {
        query_refused(text);
    }
}

#[test]
fn output_rates() {
    let rate = |text: &str| query(text).rate.map(|r| (r.kind, r.every));
    let found = rate("from S output last every 5 events insert into T;");
    assert_eq!(found, Some((RateKind::Last, RateEvery::Events(5))));
    queries(&[
        "from S output every 5 events insert into T;",
        "from S output all every 5 sec insert into T;",
        "from S output first every 1 min 2 sec insert into T;",
        "from S select a output snapshot every 5 sec insert into T;",
    ]);
    for text in [
        "from S output 5 events insert into T;",
        "from S output every 5 insert into T;",
        "from S output every insert into T;",
        "from S output every 5L events insert into T;",
        "from S output snapshot every 5 events insert into T;",
        "from S output snapshot insert into T;",
        "from S output every a events insert into T;",
        "from S output every 5 events select a insert into T;",
    ] {
        query_refused(text);
    }
}

#[test]
fn outputs() {
    let found = query(
        "from S select a update or insert into T for expired events set T.a = a + 1, T.b = 'x' on T.a == a;",
    );
    assert!(matches!(found.output, Output::UpdateOrInsert { ref set, .. } if set.len() == 2));
    queries(&[
        "from S insert all events into T;",
        "from S insert expired events into T;",
        "from S insert current events into T;",
        "from S insert events into T;",
        "from S insert into #T;",
        "from S insert into !T;",
        "from S delete T;",
        "from S delete T on T.a == a;",
        "from S delete T for all events on T.a == a;",
        "from S update T on T.a == a;",
        "from S update T set T.a = a on T.a == a;",
        "from S update T for current events set a = S.a on a == S.a;",
        "from S update or insert into T on T.a == a;",
        "from S return;",
        "from S select a return expired events;",
    ]);
    for text in [
        "from S;",
        "from S select a;",
        "from S insert T;",
        "from S insert into;",
        "from S insert into T, U;",
        "from S insert raw events into T;",
        "from S insert all into T;",
        "from S update T;",
        "from S update T set on T.a == a;",
        "from S update T set T.a == a on T.a == a;",
        "from S update T set T.a = a;",
        "from S update or insert T on T.a == a;",
        "from S update or insert into T;",
        "from S delete;",
        "from S delete from T on T.a == a;",
        "from S delete T where T.a == a;",
        "from S insert into T on a == 5;",
    ] {
        query_refused(text);
    }
}

#[test]
fn on_demand_queries() {
    for text in [
        "from T",
        "from T;",
        "from T on a > 5 select a, sum(b) as s group by a having s > 5 order by s limit 5 offset 1;",
        "from T as t on t.a > 5",
        "from A within '2020-01-01', '2021-01-01' per 'days' select a",
        "select 'x' as a, 5 as b insert into T",
        "select 'x' as a update or insert into T set T.a = a on T.a == a",
        "select 5 as x delete T on T.a == x",
        "delete T on a == 5",
        "delete T",
        "update T set T.a = 5 on T.b == 'x'",
        "select 5 as x update T set T.a = x on T.a == 1;",
    ] {
        let (query, diagnostics) = parse_on_demand(text);
        assert!(
            diagnostics.is_empty() && query.is_some(),
            "{text}: {diagnostics:?}"
        );
    }
    for text in [
        "",
        ";",
        "from",
        "from #T",
        "from T[a > 5]",
        "from T select a insert into U",
        "from T select a return",
        "insert into T",
        "update or insert into T on T.a == 5",
        "update T set T.a = 5",
        "select 5 as x",
        "select sum(a) total insert into T",
        "from T; from T",
        "delete T for all events",
        "update T for all events on T.a == 5",
        "define table T (a int)",
    ] {
        let (_, diagnostics) = parse_on_demand(text);
        assert!(!diagnostics.is_empty(), "accepted: {text}");
    }
}

#[test]
fn null_is_no_value_but_may_be_a_name() {
    query_refused("from S[a == null] insert into T;");
    query_refused("from S select f(null) as x insert into T;");
    apps(&[
        "define stream S (`null` int); from S[null > 5] insert into T;",
        "define stream S (a int); from S select a as null insert into T; from T[null > 5] insert into U;",
        "define stream S (a int); from S[`null` > 5] insert into T;",
    ]);
    assert!(parse_query("from S[a == null] insert into T").1.is_empty());
}

#[test]
fn depth_is_limited() {
    let deep = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(parse_expression(&deep(60)).1.is_empty());
    for text in [
        deep(100_000),
        "not ".repeat(100_000) + "a",
        "- ".repeat(100_000) + "a",
        "!".repeat(100_000) + "a",
        "f(".repeat(100_000),
        "a = ".repeat(100_000) + "a",
        "a + ".repeat(100_000) + "a",
        "a in T ".repeat(100_000),
    ] {
        expr_refused(&text);
    }
    assert!(
        parse_expression(&("a == 1 or ".repeat(900) + "b"))
            .1
            .is_empty()
    );
    for text in [
        "@a(".repeat(100_000),
        "from ".to_owned() + &"(".repeat(100_000),
        "from ".to_owned() + &"(from ".repeat(100_000),
        "from ".to_owned() + &"from ".repeat(100_000),
        "from ".to_owned() + &"every (".repeat(100_000),
        "partition with (a of S) begin ".repeat(10_000),
        "define function f[js] return int {".repeat(10_000),
        "{".repeat(100_000),
        "define stream S (".repeat(50_000),
        "from S select ".repeat(50_000),
    ] {
        query_refused(&text);
    }
}

#[test]
fn entry_points_take_one_thing() {
    let ok = |entry, text: &str| assert!(parse_as(entry, text).is_empty(), "{text}");
    let bad = |entry, text: &str| assert!(!parse_as(entry, text).is_empty(), "{text}");
    ok(Entry::Stream, "@x define stream S (a int);");
    bad(Entry::Stream, "define table S (a int);");
    bad(
        Entry::Stream,
        "define stream S (a int); define stream T (a int);",
    );
    ok(Entry::Table, "define table S (a int)");
    ok(Entry::Window, "define window W (a int) length(5)");
    ok(Entry::Trigger, "define trigger T at 'start'");
    ok(Entry::Function, "define function f[js] return int {}");
    ok(
        Entry::Aggregation,
        "define aggregation A from S select a aggregate every sec",
    );
    ok(
        Entry::Partition,
        "partition with (a of S) begin from S insert into T; end;",
    );
    ok(Entry::Query, "@info(name='x') from S insert into T;");
    ok(Entry::Time, "5 sec");
    bad(Entry::Time, "5");
    ok(Entry::Expression, "a + 1");
    ok(Entry::OnDemandQuery, "from T");
    assert_eq!(
        Entry::from_name("parseStoreQuery"),
        Some(Entry::OnDemandQuery)
    );
    assert_eq!(Entry::from_name("parseX"), None);
}
