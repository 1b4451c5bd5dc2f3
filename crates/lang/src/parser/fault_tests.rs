//! Faults and where they are reported: each `‸` in a text marks the start of one report.

use crate::parser::parse;

const MARK: char = '‸';

#[track_caller]
fn check(marked: &str, codes: &[&str]) {
    let mut text = String::new();
    let mut places = Vec::new();
    for c in marked.chars() {
        if c == MARK {
            places.push(text.len() as u32);
        } else {
            text.push(c);
        }
    }
    let expect: Vec<_> = codes.iter().copied().zip(places.iter().copied()).collect();
    assert_eq!(codes.len(), places.len(), "one mark for each code");
    let found = parse(&text).diagnostics;
    let short: Vec<_> = found.iter().map(|d| (d.code, d.span.start)).collect();
    assert_eq!(short, expect, "\n{text}\n{found:#?}");
}

/// A query behind a definition.
#[track_caller]
fn query(marked: &str, codes: &[&str]) {
    check(
        &format!("define stream S (a int, b string);\n{marked}"),
        codes,
    );
}

#[test]
fn missing_semicolons_are_reported_where_they_belong() {
    check(
        "define stream S (a int)‸\nfrom S\nselect a\ninsert into T;",
        &["E0111"],
    );
    check(
        "define stream S (a int)‸\n\n-- the second\n@x\ndefine stream T (a int);",
        &["E0111"],
    );
    query(
        "from S\nselect a\ninsert into T‸\n\nfrom T\nselect a\ninsert into U;",
        &["E0111"],
    );
    query(
        "from S select a insert into T‸ from T select a insert into U;",
        &["E0111"],
    );
    query(
        "from S insert into T‸\n@info(name='x')\nfrom T insert into U;",
        &["E0111"],
    );
    query(
        "from S insert into T‸\npartition with (a of T)\nbegin from T insert into U; end;",
        &["E0111"],
    );
    query(
        "partition with (a of S)\nbegin\n from S insert into T‸\n from T insert into U;\nend;",
        &["E0111"],
    );
    check(
        "define function f[js] return int { 1 }‸\ndefine stream S (a int);",
        &["E0111"],
    );
    query("from S select a insert into T;‸;", &["E0131"]);
}

#[test]
fn brackets() {
    check(
        "define stream S (a int, b string‸;\nfrom S insert into T;",
        &["E0112"],
    );
    check(
        "define stream S (a int, b string‸\nfrom S insert into T;",
        &["E0112"],
    );
    check("define stream S‸ a int, b string);", &["E0112"]);
    query(
        "from S select str:concat‸'a', b) as c insert into T;",
        &["E0112"],
    );
    check("define stream S (a int, b string)‸);", &["E0113"]);
    check(
        "@source(type='x', @map(type='y')‸\ndefine stream S (a int);",
        &["E0112"],
    );
    check(
        "@source(type='x', @map(type='y')‸\ndefine stream S (a int);",
        &["E0112"],
    );
    check("@sink(type='log')‸)\ndefine stream S (a int);", &["E0113"]);
    check("@sink‸ type='log')\ndefine stream S (a int);", &["E0112"]);
    query("from S[a > 5‸\nselect a\ninsert into T;", &["E0112"]);
    query("from S ‸a > 5]\nselect a\ninsert into T;", &["E0110"]);
}

#[test]
fn misspelt_keywords() {
    check("‸defin stream S (a int);", &["E0114"]);
    check("define ‸steam S (a int);", &["E0114"]);
    check("define ‸tabel T (a int);", &["E0114"]);
    query("‸form S select a insert into T;", &["E0114"]);
    query("‸fom S select a insert into T;", &["E0114"]);
    query("from S ‸selct a insert into T;", &["E0114"]);
    query("from S select a ‸inset into T;", &["E0114"]);
    query("from S select a insert ‸inot T;", &["E0114"]);
    query("from S select a ‸gruop by a insert into T;", &["E0114"]);
    query("from S select a group ‸yb a insert into T;", &["E0114"]);
    query(
        "from S select a ‸outptu every 5 events insert into T;",
        &["E0114"],
    );
    query(
        "from S select a output every 5 ‸evnts insert into T;",
        &["E0114"],
    );
    query(
        "from S#window.time(5 ‸secs) select a insert into T;",
        &["E0114"],
    );
    query(
        "from S#window.time(5 ‸mintues) select a insert into T;",
        &["E0114"],
    );
    query(
        "‸partiton with (a of S) begin from S insert into T; end;",
        &["E0114"],
    );
    query(
        "partition ‸wiht (a of S) begin from S insert into T; end;",
        &["E0114"],
    );
    check("define trigger T ‸ta every 5 sec;", &["E0114"]);
}

#[test]
fn types() {
    check("define stream S (a ‸strng, b int);", &["E0115"]);
    check(
        "define stream S (a ‸integer, b ‸varchar, c ‸boolean);",
        &["E0115", "E0115", "E0115"],
    );
    check("define stream S (a‸, b int);", &["E0115"]);
    check("define stream S (a int, b‸);", &["E0115"]);
    check("define stream S (a int‸ b int);", &["E0150"]);
    check("define stream S (a int‸, );", &["E0135"]);
    check("define stream S (a int, ‸a string);", &["E0129"]);
}

#[test]
fn quotes() {
    check("@sink(type=‸'log)\ndefine stream S (a int);", &["E0102"]);
    check(
        "@sink(type='log, prefix='x‸')\ndefine stream S (a int);",
        &["E0102"],
    );
    check(
        "@sink(type='x', @map(\n  a='x, b='y‸',\n  c='z'))\ndefine stream S (a int);",
        &["E0102"],
    );
    check(
        "@sink(type=‸\u{2019}log', b='c')\ndefine stream S (a int);",
        &["E0101"],
    );
    query("from S[b == ‸'x]\nselect a\ninsert into T;", &["E0102"]);
    query(
        "from S[b == ‸\"x]\nselect a\ninsert into T;\nfrom T insert into ‸;",
        &["E0102", "E0110"],
    );
    query(
        "from S[b == ‸\"\"\"x]\nselect a\ninsert into T;",
        &["E0102"],
    );
}

#[test]
fn operators_of_other_languages() {
    query("from S[b ‸= 'x'] insert into T;", &["E0117"]);
    query(
        "from S[a ‸=< 5 ‸&& a ‸=> 2] insert into T;",
        &["E0118", "E0119", "E0118"],
    );
    query(
        "from S[a ‸<> 5 ‸|| ‸!a] insert into T;",
        &["E0118", "E0119", "E0119"],
    );
    query("from S[a == ‸null] insert into T;", &["E0120"]);
    query("from S[b is ‸not null] insert into T;", &["E0149"]);
    query("from S select ‸-a as x insert into T;", &["E0132"]);
    query("from S select a ‸where a > 5 insert into T;", &["E0142"]);
    query("‸// note\nfrom S insert into T;", &["E0108"]);
}

#[test]
fn select() {
    query("from S select ‸a + 1 insert into T;", &["E0116"]);
    query("from S select count()‸ n insert into T;", &["E0116"]);
    query("from S select a‸ b insert into T;", &["E0150"]);
    query("from S select a‸, insert into T;", &["E0135"]);
    query("from S select‸\ninsert into T;", &["E0130"]);
    query("from S select a‸;", &["E0126"]);
    query("from S select a ‸into T;", &["E0126"]);
    query("from S select a insert‸ T;", &["E0110"]);
    query(
        "from S select count() as n having n > 5 ‸group by a insert into T;",
        &["E0140"],
    );
    query("‸select a from S insert into T;", &["E0127"]);
}

#[test]
fn several_faults_are_all_reported() {
    query(
        "from S[a ‸= 5]\nselect a, ‸a + 1\ngroup by a\ninsert ‸int T;\n\n\
         from S\n‸selct a\ninsert into U;",
        &["E0117", "E0116", "E0114", "E0114"],
    );
}

#[test]
fn a_fault_keeps_the_rest_of_the_tree() {
    let parsed = parse(
        "define stream S (a int, b strng, c long);\ndefine stream T (a int);\n\
         from S select a + 1, c insert into U;\nfrom T select a insert into V;",
    );
    assert_eq!(parsed.app.elements.len(), 4);
}
