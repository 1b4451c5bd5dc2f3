//! The style by examples. Meaning, comments and idempotence are tested over the corpus in
//! `tests/shared.rs`.

use super::format;

#[track_caller]
fn check(text: &str, expect: &str) {
    let expect = expect.trim_start_matches('\n');
    let once = format(text).expect("an app without errors");
    assert_eq!(once, expect);
    assert_eq!(format(&once).as_deref(), Ok(expect), "not idempotent");
}

#[test]
fn short_elements_stand_on_one_line() {
    check(
        "@App:name( 'x' ) define  stream S(a   int,b STRING) ;DEFINE Table T ( a int )",
        "
@app:name('x')

define stream S (a int, b string);
define table T (a int);
",
    );
}

#[test]
fn every_clause_begins_a_line() {
    check(
        "define stream S (a int, b string); @info(name = 'q') FROM S [ a>5 ] # window . length ( 5 ) \
         SELECT a , count( ) AS n GROUP BY a HAVING n > 5 ORDER BY n DESC LIMIT 5 OFFSET 2 \
         OUTPUT LAST EVERY 5 sec INSERT ALL EVENTS INTO # T",
        "
define stream S (a int, b string);

@info(name='q')
from S[a > 5]#window.length(5)
select a, count() as n
group by a
having n > 5
order by n desc
limit 5
offset 2
output last every 5 sec
insert all events into #T;
",
    );
}

#[test]
fn long_lists_are_broken_item_by_item() {
    check(
        "@source(type='file', dir.uri='file:/a/long/enough/path/to/break', tailing='false', \
         @map(type='csv', delimiter='|'))\
         define stream S (firstAttribute string, secondAttribute string, theThirdAttribute string, fourth int);\
         from S select firstAttribute, secondAttribute as another, theThirdAttribute as third, fourth as theVeryVeryLast \
         insert into T;",
        "
@source(
    type='file',
    dir.uri='file:/a/long/enough/path/to/break',
    tailing='false',
    @map(type='csv', delimiter='|')
)
define stream S (
    firstAttribute string,
    secondAttribute string,
    theThirdAttribute string,
    fourth int
);

from S
select
    firstAttribute,
    secondAttribute as another,
    theThirdAttribute as third,
    fourth as theVeryVeryLast
insert into T;
",
    );
}

#[test]
fn joins_patterns_and_long_conditions() {
    check(
        "define stream S (a int, b string);\
         from S#window.length(5) as left1 unidirectional left outer join T#window.time(5 sec) as right1 \
         on left1.a == right1.a and left1.b == right1.b select left1.a insert into U;\
         from every e1 = S [ a > 5 ] < 2 : 5 > -> not T [ a == e1.a ] for 5 sec -> event3 = S and event4 = U \
         within 10 min 30 sec select e1 [ last ] . a as x insert into V;\
         from S[a > 1000000000 and a < 2000000000 and b == 'a rather long text' or b == 'another one of them' ] \
         insert into W; from e1=S + , e2=T ? insert into X;",
        "
define stream S (a int, b string);

from S#window.length(5) as left1 unidirectional
    left outer join T#window.time(5 sec) as right1
    on left1.a == right1.a and left1.b == right1.b
select left1.a
insert into U;

from every e1=S[a > 5]<2:5>
    -> not T[a == e1.a] for 5 sec
    -> event3=S and event4=U
    within 10 min 30 sec
select e1[last].a as x
insert into V;

from S[a > 1000000000
    and a < 2000000000
    and b == 'a rather long text'
    or b == 'another one of them']
insert into W;

from e1=S+, e2=T?
insert into X;
",
    );
}

#[test]
fn partitions_scripts_aggregations_and_writes() {
    check(
        "define trigger T at every 1 hour 5 min; define window W(a int) length(5) output expired events;\
         define function f[js] return int {\n  return  1; };\
         define aggregation A from S select a, sum(b) as s group by a aggregate by t every sec...year;\
         partition with (a of S, b<5 as 'low' or b>=5 as 'high' of U) begin from S insert into #I; \
         from #I update or insert into T set T.a=a, T.b = - 5 on T.a==a and not (b is null) end; \
         from S delete T for all events on T.a == a",
        "
define trigger T at every 1 hour 5 min;
define window W (a int) length(5) output expired events;
define function f[js] return int {
  return  1; };
define aggregation A
    from S
    select a, sum(b) as s
    group by a
    aggregate by t every sec ... year;

partition with (a of S, b < 5 as 'low' or b >= 5 as 'high' of U)
begin
    from S
    insert into #I;

    from #I
    update or insert into T set T.a = a, T.b = -5 on T.a == a and not (b is null);
end;

from S
delete T for all events on T.a == a;
",
    );
}

#[test]
fn comments_stay_where_they_are() {
    check(
        "-- first\n\n\n/* second\n   lines */\n@app:name('x') -- name\n\n-- about S\ndefine stream S (\n\
         a int, -- the a\n-- before b\nb int /* the b */\n) ; -- end of S\n-- about the query\nfrom S -- all\n\
         -- of it\nselect a, /* inline */ b\ninsert into T -- done\n\n-- last",
        "
-- first

/* second
   lines */
@app:name('x') -- name

-- about S
define stream S (
    a int, -- the a
    -- before b
    b int /* the b */
); -- end of S

-- about the query
from S -- all
-- of it
select a, /* inline */ b
insert into T; -- done

-- last
",
    );
}

#[test]
fn names_and_texts_are_left_alone() {
    check(
        "define stream Select (`Order by` int, EVENTS int);\
         from Select select EVENTS as Insert, 'a  \"b\"' as b, \"\"\"x\n  y\"\"\" as c, TRUE as d, 5 SEC as e \
         insert into INTO;",
        "
define stream Select (`Order by` int, EVENTS int);

from Select
select
    EVENTS as Insert,
    'a  \"b\"' as b,
    \"\"\"x
  y\"\"\" as c,
    true as d,
    5 sec as e
insert into INTO;
",
    );
}

#[test]
fn a_text_with_errors_is_refused() {
    let found = format("define stream S (a int)\nfrom S insert into T;").expect_err("no ';'");
    assert_eq!(found[0].code, "E0111");
}
