//! What the checker says about small apps, and what their plans come to.

use crate::{CheckConfig, Checked, check};
use plan::{Expr, ExprKind, Input, Output, Plan, StreamKind};

const STREAMS: &str = "define stream S (a int, b string, c double, d bool); \
    define stream R (a int, x long); \
    define table T (a int, b string, n long); ";

fn checked(text: &str) -> Checked {
    let parsed = lang::parse(text);
    assert!(
        parsed.diagnostics.is_empty(),
        "{text}\n{:?}",
        parsed.diagnostics
    );
    check(
        &parsed.app,
        &crate::testing::catalog(),
        &CheckConfig::default(),
    )
}

/// Findings as `code 'text under the mark'`, without those about what does not run yet.
fn findings(text: &str) -> Vec<String> {
    checked(text)
        .diagnostics
        .iter()
        .filter(|d| !d.code.starts_with("W09"))
        .map(|d| format!("{} {}", d.code, d.span.text(text)))
        .collect()
}

/// A query over [`STREAMS`] and what is found in it.
#[track_caller]
fn query(text: &str, expect: &[&str]) {
    assert_eq!(findings(&format!("{STREAMS}{text};")), expect, "{text}");
}

#[track_caller]
fn plan(text: &str) -> Plan {
    let checked = checked(&format!("{STREAMS}{text};"));
    checked
        .plan
        .unwrap_or_else(|| panic!("{text}\n{:?}", checked.diagnostics))
}

fn selected(plan: &Plan) -> String {
    let query = plan.queries.last().expect("there is a query");
    let attributes: Vec<String> = query
        .selector
        .schema
        .attributes
        .iter()
        .map(|a| format!("{} {}", a.name, a.ty))
        .collect();
    attributes.join(", ")
}

#[track_caller]
fn select(items: &str, expect: &str) {
    assert_eq!(
        selected(&plan(&format!("from S select {items} insert into Out"))),
        expect,
        "{items}"
    );
}

#[test]
fn types_of_expressions() {
    select("a + 1 as r", "r int");
    select("a + 1L as r", "r long");
    select("a * 2.5f as r", "r float");
    select("a / c as r", "r double");
    select("1L % 2.5f as r", "r float");
    select("a > 1 and not d as r", "r bool");
    select("5 sec as r", "r long");
    select(
        "count() as r, sum(a) as s, sum(c) as t, avg(a) as u",
        "r long, s long, t double, u double",
    );
    select("max(c) as r, min(a) as s", "r double, s int");
    select(
        "convert(b, 'long') as r, cast(b, 'BOOL') as s",
        "r long, s bool",
    );
    select(
        "ifThenElse(d, 1, 2) as r, coalesce(b, 'x') as s",
        "r int, s string",
    );
    select(
        "eventTimestamp() as r, currentTimeMillis() as s",
        "r long, s long",
    );
    select("b is null as r, S is null as s", "r bool, s bool");
    select("(T.a == a) in T as r", "r bool");
    select("count(*) as r", "r long");
}

#[test]
fn operands() {
    query("from S[a == b] select a insert into Out", &["E0301 a == b"]);
    query("from S[b == d] select a insert into Out", &["E0301 b == d"]);
    query(
        "from S[d == true and b != 'x'] select a insert into Out",
        &[],
    );
    query(
        "from S[b < 'x'] select a insert into Out",
        &["E0302 b < 'x'"],
    );
    query("from S[d] select a insert into Out", &[]);
    query("from S[a] select a insert into Out", &["E0304 a"]);
    query("from S[not a == 1] select a insert into Out", &["E0304 a"]);
    query("from S select b + b as r insert into Out", &["E0303 b + b"]);
    query("from S select a + b as r insert into Out", &["W0310 b"]);
}

#[test]
fn one_fault_hides_what_hangs_on_it() {
    // An unknown attribute makes no second finding in the comparison, nor in the next query.
    query(
        "from S[q > 5] select q as r, a insert into Mid; from Mid[r == 'x'] select r, a, z insert into Out",
        &["E0203 q", "E0203 q", "E0203 z"],
    );
    query(
        "from Q select u, v insert into Mid; from Mid select u insert into Out",
        &["E0201 Q"],
    );
    query(
        "from S#no:such(a) select token insert into Mid; from Mid select token insert into Out",
        &["E0901 no:such"],
    );
    query(
        "from S join Q on S.a == Q.z select S.a, Q.y insert into Out",
        &["E0201 Q"],
    );
    query(
        "from S select a update Q set Q.x = a on Q.y == a",
        &["E0209 Q"],
    );
}

#[test]
fn scopes() {
    query(
        "from S select S.a, b having a > 5 order by b insert into Out",
        &[],
    );
    query(
        "from S select a having c > 5.0 insert into Out",
        &["E0212 c"],
    );
    query(
        "from S select a as k group by k insert into Out",
        &["E0214 k"],
    );
    query(
        "from S as s join T as t on s.a == t.a select s.a, t.n insert into Out",
        &[],
    );
    query(
        "from S as s join T as t on S.a == t.a select s.a, t.n insert into Out",
        &["E0204 S"],
    );
    query(
        "from S join T on S.a == T.a select a insert into Out",
        &["E0205 a"],
    );
    query(
        "from S join T on S.a == T.a select n having c > 1.0 insert into Out",
        &[],
    );
    query(
        "from S join T on S.a == T.a select * insert into Out",
        &["E0802 select *"],
    );
    query(
        "from S#window.length(5) as l join R as r on l.a == r.a select l.a, x insert into Out",
        &[],
    );
    query("from S select a as k, b as k insert into Out", &["E0801 k"]);
    query(
        "from S select a limit 5 - 1 insert into Out",
        &["E0307 5 - 1"],
    );
}

#[test]
fn inserts() {
    query("from S select a, b insert into R", &["E0309 b"]);
    query("from S select a insert into R", &["E0309 select a"]);
    query(
        "from S select a insert into Out; from R select x as a insert into Out",
        &["E0309 a"],
    );
    query(
        "from Out select a insert into O; from S select a insert into Out",
        &["E0202 Out"],
    );
    query(
        "from S select a insert into Out; from Out select a insert into O",
        &[],
    );
    query("from T select a insert into Out", &["E0215 T"]);
    query("from S select a insert into #In", &["E0210 #In"]);
    query("from !S select a insert into Out", &["E0211 !S"]);
}

#[test]
fn writes_to_tables() {
    query("from S select a, b update T on T.a == a", &[]);
    query("from S select a, c update T on T.a == a", &["E0701 c"]);
    query(
        "from S select a, b update T set T.n = 5L, b = 'x' on T.a == a",
        &[],
    );
    query(
        "from S select a, b update T set T.n = a on T.a == a",
        &["W0713 a"],
    );
    query(
        "from S select a, b update T set S.n = 5L on T.a == a",
        &["W0712 S"],
    );
    query("from S select a, b update T on T.a == S.a", &["E0204 S"]);
    query("from S select a, b update T on T.a == n", &["E0203 n"]);
    query(
        "from S select a, b update or insert into T on T.a == a",
        &["E0309 select a, b"],
    );
    query(
        "from S select a, b, 1L as n update or insert into T on T.a == a",
        &[],
    );
    query("from S select a delete T", &["E0702 delete T"]);
    query(
        "from S select a delete T on T.a == a and sum(a) > 1L",
        &["E0306 sum(a)"],
    );
    query(
        "from S[(T.a == a and T.b == b) in T] select a insert into Out",
        &[],
    );
    query(
        "from S[(T.q == a) in T] select a insert into Out",
        &["E0203 q"],
    );
}

#[test]
fn an_update_without_set_writes_equal_names() {
    let plan = plan("from S select b, a update T on T.a == a");
    let Output::Update { set, .. } = &plan.queries[0].output else {
        panic!("{plan:?}")
    };
    let pairs: Vec<(usize, usize)> = set
        .iter()
        .map(|(target, value)| match value.kind {
            ExprKind::Attribute {
                input: 0,
                attribute,
                ..
            } => (*target, attribute),
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(pairs, [(1, 0), (0, 1)]);
}

#[test]
fn partitions() {
    let plan = plan(
        "partition with (b of S) begin \
           @info(name='one') from S select a, sum(a) as t insert into #In; \
           from #In select t insert into Out; \
         end; \
         from Out select t insert into Last",
    );
    let names: Vec<&str> = plan.queries.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["one", "query_2", "query_3"]);
    assert_eq!(plan.partitions[0].name, "partition_1");
    assert_eq!(plan.queries[1].partition, Some(0));
    assert_eq!(plan.queries[2].partition, None);
    let kinds: Vec<(String, StreamKind)> = plan.streams[2..]
        .iter()
        .map(|s| (s.display_name(), s.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("#In".to_owned(), StreamKind::Inner(0)),
            ("Out".to_owned(), StreamKind::Plain),
            ("Last".to_owned(), StreamKind::Plain),
        ]
    );
    query(
        "partition with (q of S) begin from S select a insert into Out; end",
        &["E0203 q"],
    );
    query(
        "partition with (b of S) begin from #No select a insert into Out; end",
        &["E0201 #No"],
    );
    query(
        "partition with (b of T) begin from S select a insert into Out; end",
        &["E0215 T"],
    );
    query(
        "partition with (a < 5 as 'low' or a as 'high' of S) begin from S select a insert into Out; end",
        &["E0304 a"],
    );
}

#[test]
fn fault_streams_have_the_error() {
    let text = "@OnError(action='stream') define stream S (a int); \
        from !S select a, convert(_error, 'string') as e insert into Out;";
    let plan = checked(text).plan.expect("it is right");
    assert_eq!(plan.streams[1].kind, StreamKind::Fault(0));
    assert_eq!(selected(&plan), "a int, e string");
}

/// Input, index and type of each selected attribute of a pattern.
fn references(text: &str) -> Vec<String> {
    let plan = plan(text);
    let Input::Pattern(_) = &plan.queries[0].input else {
        panic!("{plan:?}")
    };
    plan.queries[0]
        .selector
        .items
        .iter()
        .map(|(expr, _)| match expr {
            Expr {
                ty,
                kind: ExprKind::Attribute { input, index, .. },
                ..
            } => {
                format!("{input} {index:?} {ty}")
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn patterns() {
    assert_eq!(
        references(
            "from every e1=S<1:> -> e2=R select e1.a as p, e1[0].a as q, e1[last].a as r, x insert into Out"
        ),
        [
            "0 None object",
            "0 Some(At(0)) int",
            "0 Some(Last(0)) int",
            "1 None long"
        ]
    );
    query(
        "from every e1=S -> e2=R[x > e1.a] select e1.a as p, e2.x insert into Out",
        &[],
    );
    query(
        "from every e1=S[a > e2.x] -> e2=R select e1.a as p insert into Out",
        &["E0602 e2"],
    );
    query(
        "from every e1=S -> e2=R select e1 as p insert into Out",
        &["E0213 e1"],
    );
    query(
        "from every e1=S -> e2=R select eventTimestamp(e1) as p, e2 is null as n insert into Out",
        &[],
    );
    query(
        "from every e1=S -> e2=R select a insert into Out",
        &["E0205 a"],
    );
    query(
        "from every e1=S[S.a > 1] -> e2=R select e1.b insert into Out",
        &["E0204 S"],
    );
    query(
        "from every e1=S -> e1=R select e1.b insert into Out",
        &["W0601 e1"],
    );
    query(
        "from e1=S and e2=R[x > e1.a] select e1.b insert into Out",
        &["W1033 e1=S and e2=R[x > e1.a]"],
    );
    query(
        "from every e1=S<5:2> select e1[0].a as p insert into Out",
        &["W0603 e1=S<5:2>"],
    );
    query(
        "from every not S for 0 sec select 1 as p insert into Out",
        &["E0505 0 sec"],
    );
    query(
        "from every not S for 0 sec, e2=R select e2.x as p insert into Out",
        &["E0505 0 sec"],
    );
    query(
        "from e1=S -> every (e2=R<0:2> -> not S for 0 sec) select 1 as p insert into Out",
        &["E0505 0 sec"],
    );
    query(
        "from every (e1=S -> not R for 0 sec) select e1.a as p insert into Out",
        &[],
    );
    query(
        "from not S for 0 sec -> e2=R select e2.x as p insert into Out",
        &[],
    );
}

#[test]
fn all_of_a_pattern_in_the_order_of_states() {
    let text = "define stream A (a int); define stream B (b int); define stream C (c int); \
        from e1=A and e2=B -> e3=C select * insert into Out;";
    let plan = checked(text).plan.expect("it is right");
    assert_eq!(selected(&plan), "b int, a int, c int");
}

#[test]
fn names_are_shared() {
    let both = |second: &str| findings(&format!("define stream S (a int); {second}"));
    assert_eq!(both("define table S (a int);"), ["E0401 S"]);
    assert_eq!(both("define stream S (a string);"), ["E0401 S"]);
    assert_eq!(both("define stream S (a int);"), ["W0411 S"]);
    assert_eq!(both("define trigger S at every 5 sec;"), ["E0401 S"]);
    assert_eq!(both("define window S (a int) length(5);"), ["E0401 S"]);
}

#[test]
fn a_transactional_id_is_that_of_one_sink() {
    let sink = |brokers: &str, properties: &str| {
        format!(
            "@sink(type='kafka', bootstrap.servers='{brokers}', topic='t', \
             optional.configuration='{properties}', @map(type='csv'))"
        )
    };
    let codes = |annotations: &str| -> Vec<String> {
        let found = findings(&format!("{annotations} define stream S (a int, b int);"));
        let code = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
        found.iter().map(code).collect()
    };
    let mine = sink("b1:9092, b2:9092", "acks:all,transactional.id:mine");
    // One broker in common is one cluster.
    let twin = sink("b3:9092,b2:9092", "transactional.id:mine");
    assert_eq!(codes(&format!("{mine} {twin}")), ["E0516"]);
    assert_eq!(codes(&format!("{mine} {twin} {twin}")), ["E0516", "E0516"]);
    let elsewhere = sink("b3:9092", "transactional.id:mine");
    // The last entry counts.
    let other = sink("b1:9092", "transactional.id:mine, transactional.id : other");
    let none = sink("b1:9092", "acks:all");
    for fine in [elsewhere, other, none] {
        assert_eq!(codes(&format!("{mine} {fine}")), [""; 0]);
    }
    let spread = |of_second: &str| {
        let ids = "@distribution(strategy='roundRobin', @destination(partition.no='0'), \
                   @destination(partition.no='1'";
        codes(&mine.replace("@map", &format!("{ids}{of_second})), @map")))
    };
    assert_eq!(spread(""), ["E0516"]);
    let own = ", optional.configuration='transactional.id:second'";
    assert_eq!(spread(own), [""; 0]);
}

#[test]
fn annotations() {
    let stream = |a: &str| findings(&format!("{a} define stream S (a int);"));
    assert_eq!(stream("@async(buffer.size='100')"), ["E0505 '100'"]);
    assert_eq!(stream("@async(workers='0')"), ["E0505 '0'"]);
    assert_eq!(stream("@OnError"), ["E0504 @OnError"]);
    assert_eq!(stream("@OnError(action='STREM')"), ["E0505 'STREM'"]);
    assert_eq!(stream("@sinc(type='log')"), ["W0412 sinc"]);
    assert_eq!(
        stream("@sink(type='log', on.error='stream')"),
        ["W0416 'stream'"]
    );
    assert_eq!(
        stream("@app:playback(idle.time='1 sec')"),
        ["E0504 @app:playback(idle.time='1 sec')"]
    );
    let table = |a: &str| findings(&format!("{a} define table T (a int, b int);"));
    assert_eq!(table("@PrimaryKey('a', 'b') @Index('b')"), [""; 0]);
    assert_eq!(table("@PrimaryKey('z')"), ["E0405 'z'"]);
    assert_eq!(table("@Index('a') @Index('a')"), ["E0408 @Index('a')"]);
    assert_eq!(table("@Index('a', 'b')"), ["E0407 @Index('a', 'b')"]);
}

#[test]
fn windows() {
    query(
        "from S#window.expression('count() <= 5 and last.a - first.a < 10') select a insert into Out",
        &[],
    );
    query(
        "from S#window.expression('count() <= ') select a insert into Out",
        &["E0110 'count() <= '"],
    );
    query(
        "from S#window.expression('last.q > 5') select a insert into Out",
        &["E0203 'last.q > 5'"],
    );
    query(
        "from S#window.sort(2, b, 'asc', c) select a insert into Out",
        &[],
    );
    query(
        "from S#window.sort(2, 'b') select a insert into Out",
        &["E0305 'b'"],
    );
    query(
        "from S#window.session(1 sec, 2 sec) select a insert into Out",
        &["E0305 2 sec"],
    );
    query(
        "from S#length(5) select a insert into Out",
        &["E0208 length"],
    );
    query(
        "from S#window.time(a) select a insert into Out",
        &["E0305 a"],
    );
}

#[test]
fn long_chains_and_deep_brackets_end() {
    let chain = vec!["a"; 900].join(" + ");
    query(&format!("from S select {chain} as r insert into Out"), &[]);
    let deep = format!("{}a{}", "(".repeat(50), ")".repeat(50));
    query(&format!("from S select {deep} as r insert into Out"), &[]);
}

#[test]
fn what_does_not_run_is_a_warning_or_an_error() {
    let text = "define stream S (a int); \
        from S#rdbms:procedure('D', 'b int', '{call p(?)}', a) select a, b insert into Out;";
    let parsed = lang::parse(text);
    let catalog = crate::testing::catalog();
    let lenient = check(&parsed.app, &catalog, &CheckConfig::default());
    let plan = lenient.plan.expect("it is accepted");
    assert_eq!(plan.not_runnable.len(), 1);
    let config = CheckConfig {
        must_run: true,
        ..CheckConfig::default()
    };
    let strict = check(&parsed.app, &catalog, &config);
    assert!(strict.plan.is_none());
    assert_eq!(strict.diagnostics.len(), 1);
}
