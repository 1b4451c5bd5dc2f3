use event::Type;

use super::{Deployed, Given, Setting, Validated, View, options, sink, source, store};
use crate::Catalog;
use lang::ast::{Annotation, Element};
use lang::parse;
use lang::span::Span;
use plan::spec::{OptionStatus, Status};

/// The findings for the annotations of one definition: code and text under the span, then help.
fn judge(text: &str, deployed: &Deployed) -> Vec<String> {
    let parsed = parse(text);
    assert!(
        !parsed.has_errors(),
        "{text} is not parsed: {:?}",
        parsed.diagnostics
    );
    let (annotations, attributes) = match &parsed.app.elements[0] {
        Element::Stream(s) => (&s.annotations, &s.attributes),
        Element::Table(t) => (&t.annotations, &t.attributes),
        other => panic!("no definition: {other:?}"),
    };
    let names: Vec<&str> = attributes.iter().map(|a| a.name.text.as_str()).collect();
    assert!(attributes.iter().all(|a| Type::ALL.contains(&a.ty)));
    let view = View {
        name: "S",
        attributes: &names,
        is_open: false,
    };
    let catalog = crate::testing::catalog();
    let mut found = Vec::new();
    for annotation in annotations {
        let (diagnostics, waiting) = validate_one(annotation, &view, &catalog, deployed);
        for d in &diagnostics {
            assert!(
                crate::codes::page(d.code).is_some(),
                "{} has no page",
                d.code
            );
            assert!(d.help.is_some(), "{} says what to do", d.message);
            found.push(format!("{} {}", d.code, d.span.text(text)));
        }
        found.extend(waiting);
    }
    found
}

fn validate_one(
    annotation: &Annotation,
    view: &View,
    catalog: &Catalog,
    deployed: &Deployed,
) -> (Vec<lang::diagnostic::Diagnostic>, Vec<String>) {
    fn parts<T>(validated: Validated<T>) -> (Vec<lang::diagnostic::Diagnostic>, Vec<String>) {
        (
            validated.diagnostics,
            validated.not_runnable.into_iter().map(|(m, _)| m).collect(),
        )
    }
    if annotation.is("source") {
        parts(source(annotation, view, catalog, deployed))
    } else if annotation.is("sink") {
        parts(sink(annotation, view, catalog, deployed))
    } else {
        parts(store(annotation, catalog, deployed))
    }
}

/// The annotation stands on a stream (or, for a store, a table) with attributes `a int, b string`.
fn check(annotation: &str, expect: &[&str]) {
    let what = if annotation.starts_with("@store") {
        "table"
    } else {
        "stream"
    };
    let text = format!("{annotation} define {what} S (a int, b string);");
    assert_eq!(judge(&text, &Deployed::default()), expect, "{annotation}");
}

#[test]
fn numbers_out_of_range_are_found_at_their_place() {
    let queue = |option: &str| {
        format!(
            "@source(type='sqs', queue='q', access.key='k', secret.key='s', region='r', \
             polling.interval='10', {option}, @map(type='json'))"
        )
    };
    check(&queue("visibility.timeout='43200'"), &[]);
    check(&queue("visibility.timeout='50000'"), &["E0505 '50000'"]);
    check(
        "@store(type='redis', nodes='h:1@p', ttl.seconds='0')",
        &["E0505 '0'"],
    );
    check("@store(type='redis', nodes='h:1@p', ttl.seconds='-1')", &[]);
    let text = format!(
        "{} define stream S (a int);",
        queue("visibility.timeout='50000'")
    );
    let Element::Stream(stream) = &parse(&text).app.elements[0] else {
        panic!("a stream");
    };
    let view = View {
        name: "S",
        attributes: &["a"],
        is_open: false,
    };
    let catalog = crate::testing::catalog();
    let (found, _) = validate_one(
        &stream.annotations[0],
        &view,
        &catalog,
        &Deployed::default(),
    );
    assert_eq!(
        found[0].message,
        "option 'visibility.timeout' is 50000, and must be a number from -1 to 43200 seconds"
    );
    assert_eq!(
        found[0].help.as_deref(),
        Some("write a number from -1 to 43200 seconds, or leave the option out for -1")
    );
}

#[test]
fn right_annotations_are_quiet() {
    check("@source(type='inMemory', topic='t')", &[]);
    check("@sink(type='inMemory', topic='{{b}}', on.error='log')", &[]);
    check(
        "@sink(type='log', prefix='{{a}}/{{b}}', priority='info')",
        &[],
    );
    check(
        "@source(type='file', mode='LINE', dir.uri='file:/in', action.after.process='MOVE', \
         move.after.process='file:/done', tailing='false', header.present='true', \
         @map(type='csv', delimiter='|', @attributes(a='0', b='trp:file.path')))",
        &[],
    );
    check(
        "@source(type='inMemory', topic='t', @map(type='text', regex.A='(.*)', \
         fail.on.missing.attribute='false', @attributes('A[1]', 'A')))",
        &[],
    );
    check(
        "@sink(type='log', @map(type='json', @payload(\"\"\"{\"x\":{{a}}}\"\"\")))",
        &[],
    );
    check(
        "@sink(type='log', @map(type='keyvalue', @payload(k='{{a}}', l='b')))",
        &[],
    );
    check(
        "@sink(type='log', @map(type='csv', @payload(b='0', a='1')))",
        &[],
    );
    check(
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x.db', @cache(size='10'))",
        &[],
    );
    check(
        "@store(type='rdbms', jdbc.url='jdbc:h2:./x', username='sa')",
        &[],
    );
}

#[test]
fn components() {
    check("@source(type='kafak', topic='t')", &["E0501 'kafak'"]);
    check("@source(type='jms', destination='d')", &["E0501 'jms'"]);
    check("@sink(topic='t')", &["E0502 @sink"]);
    check(
        "@source(type='inMemory', topic='t', @map(type='jsn'))",
        &["E0501 'jsn'"],
    );
    check("@source(type='inMemory', topic='t', @map)", &["E0502 @map"]);
    check(
        "@store(type='rdbms', jdbc.url='jdbc:db2://h:50000/X')",
        &["store 'rdbms' does not run yet with 'jdbc:db2:' in option 'jdbc.url'"],
    );
    check(
        "@source(type='file', file.uri='sftp://h/f', tailing='false', @map(type='csv'))",
        &["source 'file' does not run yet with 'sftp:' in option 'file.uri'"],
    );
}

#[test]
fn options_that_are_missing_or_unknown() {
    check("@source(type='inMemory')", &[]);
    check("@sink(type='inMemory')", &["E0504 @sink"]);
    check("@sink(type='inMemory', tpoic='t')", &["E0504 tpoic"]);
    check("@sink(type='log', prefx='t')", &["W0501 prefx"]);
    check(
        "@sink(type='log', prefix='t', prefix='u')",
        &["W0503 prefix"],
    );
    check("@sink(type='log', dep:x='t')", &["E0509 dep:x"]);
    check("@store(type='rdbms', username='u')", &["E0504 @store"]);
    check(
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x', isAutoCommit='true')",
        &["W0502 isAutoCommit"],
    );
    check(
        "@sink(type='file', file.uri='f', file.system.options='A:b')",
        &["E0508 file.system.options"],
    );
    check(
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x', @cache(size='many'))",
        &["E0505 'many'"],
    );
    check(
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x', @cache(cache.policy='LRU'))",
        &["E0504 @cache"],
    );
    check("@sink(type='log', @mapp(type='json'))", &["W0505 mapp"]);
}

/// Every option that is ignored or refused is said to be, at its place.
#[test]
fn options_without_effect_and_refused_ones_are_said() {
    let running = catalog::connector_specs().filter(|c| c.status == Status::Runs);
    let mut count = 0;
    for spec in running {
        for option in spec
            .options
            .iter()
            .filter(|o| o.status != OptionStatus::Honoured)
        {
            let span = Span::new(3, 9);
            let given = Given {
                name: option.name,
                name_span: span,
                value: "1",
                value_span: span,
            };
            let code = match option.status {
                OptionStatus::Refused => "E0508",
                _ => "W0502",
            };
            let found = options(spec, &[given], Span::default(), None);
            let is_said = found.iter().any(|d| d.code == code && d.span == span);
            assert!(is_said, "{} {}", spec.name, option.name);
            count += 1;
        }
    }
    assert!(count > 5, "there are such options");
}

#[test]
fn values_of_options() {
    check("@sink(type='log', priority='LOUD')", &["E0505 'LOUD'"]);
    check("@sink(type='log', priority='{{b}}')", &["E0507 '{{b}}'"]);
    check(
        "@source(type='inMemory', topic='{{b}}')",
        &["E0507 '{{b}}'"],
    );
    check("@sink(type='inMemory', topic='x{{c}}')", &["E0510 c"]);
    check(
        "@sink(type='file', file.uri='f', append='yes')",
        &["W0504 'yes'"],
    );
    check(
        "@source(type='file', file.uri='f', tailing='false', header.line.count='two', @map(type='csv'))",
        &["E0505 'two'"],
    );
}

#[test]
fn rules_of_the_file_source() {
    check(
        "@source(type='file', tailing='false', @map(type='csv'))",
        &["E0504 @source"],
    );
    check(
        "@source(type='file', dir.uri='d', file.uri='f', tailing='false', @map(type='csv'))",
        &["E0506 file.uri"],
    );
    check(
        "@source(type='file', file.uri='f', mode='text.full', @map(type='csv'))",
        &[],
    );
    check(
        "@source(type='file', file.uri='f', mode='text.full', tailing='true', @map(type='csv'))",
        &["E0506 tailing"],
    );
    check(
        "@source(type='file', file.uri='f', action.after.process='move', move.after.process='d', @map(type='csv'))",
        &["E0506 move.after.process"],
    );
    check(
        "@source(type='file', file.uri='f', tailing='false', action.after.process='move', @map(type='csv'))",
        &["E0506 action.after.process"],
    );
    check(
        "@source(type='file', dir.uri='d', tailing='false', cron.expression='0 * * * * ?', @map(type='csv'))",
        &["E0506 cron.expression"],
    );
    check(
        "@source(type='file', file.uri='f', skip.trailer='true', @map(type='csv'))",
        &["E0506 skip.trailer"],
    );
}

#[test]
fn mappers_fit_their_transports() {
    check(
        "@source(type='file', file.uri='f', tailing='false')",
        &["E0515 @source"],
    );
    check(
        "@source(type='file', file.uri='f', tailing='false', @map(type='keyvalue'))",
        &["E0515 'keyvalue'"],
    );
    check(
        "@source(type='inMemory', topic='t', @map(type='json'))",
        &[],
    );
    check("@sink(type='file', file.uri='f')", &[]);
    check("@sink(type='log', @map(type='keyvalue'))", &[]);
}

#[test]
fn mappings() {
    let source = |map: &str, expect: &[&str]| {
        check(
            &format!("@source(type='inMemory', topic='t', @map({map}))"),
            expect,
        );
    };
    source("type='csv', @attributes(a='0')", &["E0511 @attributes"]);
    source("type='csv', @attributes('0')", &["E0511 @attributes"]);
    source("type='csv', @attributes(a='0', '1')", &["E0512 '1'"]);
    source("type='csv', @attributes(a='0', b='one')", &["E0513 'one'"]);
    source(
        "type='csv', @attributes(a='0', b='1', elsewhere='2')",
        &["W0506 elsewhere"],
    );
    source(
        "type='json', @attributes(a='$.a', b='trp:key')",
        &["W0508 'trp:key'"],
    );
    source(
        "type='text', regex.A='(x)', @attributes('A[1]', 'B[1]')",
        &["W0507 'B[1]'"],
    );
    source(
        "type='text', regex.A='(x', @attributes('A[1]', 'A')",
        &["E0505 '(x'"],
    );
    source(
        "type='xml', enable.streaming.xml.content='true'",
        &["E0506 enable.streaming.xml.content"],
    );
    let sink = |map: &str, expect: &[&str]| {
        check(&format!("@sink(type='log', @map({map}))"), expect);
    };
    sink("type='json', @payload('a')", &["E0514 'a'"]);
    sink(
        "type='json', @payload('{{a}}', '{{b}}')",
        &["E0514 '{{b}}'"],
    );
    sink("type='text', @payload('{{c}}')", &["E0510 c"]);
    sink(
        "type='text', mustache.enabled='true', @payload('{{#a}}{{.}}{{/a}}')",
        &[],
    );
    sink("type='csv', @payload(c='0')", &["E0510 c"]);
    sink("type='csv', @payload(a='x')", &["E0513 'x'"]);
}

#[test]
fn distribution_judges_each_destination() {
    check(
        "@sink(type='inMemory', @distribution(strategy='partitioned', partitionKey='b', \
         @destination(topic='x'), @destination(topic='y')))",
        &[],
    );
    check(
        "@sink(type='inMemory', @distribution(strategy='partitioned', partitionKey='c', \
         @destination(topc='x')))",
        &["E0504 topc", "E0510 'c'"],
    );
    check(
        "@sink(type='log', @distribution)",
        &["E0504 @distribution", "E0504 @distribution"],
    );
    check(
        "@sink(type='log', @distribution(strategy='robin', @destination(prefix='x')))",
        &["E0501 'robin'"],
    );
}

#[test]
fn settings_of_an_extension_are_options_that_nobody_gives() {
    let setting = |namespace: &str, key: &str, value: &str| Setting {
        namespace: namespace.to_owned(),
        name: "inMemory".to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let deployed = Deployed {
        settings: vec![
            setting("source", "topic", "orders"),
            setting("source", "somethingElse", "x"),
            setting("sink", "on.error", "later"),
        ],
        ..Deployed::default()
    };
    let check = |annotation: &str, expect: &[&str]| {
        let text = format!("{annotation} define stream S (a int, b string);");
        assert_eq!(judge(&text, &deployed), expect, "{annotation}");
    };
    check("@source(type='inMemory')", &[]);
    check("@sink(type='inMemory', topic='t')", &["E0505 'inMemory'"]);
    check("@sink(type='inMemory', topic='t', on.error='log')", &[]);
}

#[test]
fn references_bring_type_and_options() {
    let block = vec![
        ("type".to_owned(), "inMemory".to_owned()),
        ("topic".to_owned(), "orders".to_owned()),
    ];
    let deployed = Deployed {
        refs: [("orders".to_owned(), block)].into(),
        ..Deployed::default()
    };
    let check = |annotation: &str, expect: &[&str]| {
        let text = format!("{annotation} define stream S (a int, b string);");
        assert_eq!(judge(&text, &deployed), expect, "{annotation}");
    };
    check("@source(ref='orders')", &[]);
    check("@source(ref='orders', topic='other')", &[]);
    check("@source(ref='ordres')", &["E0503 'ordres'"]);
}

#[test]
fn options_reach_the_connector_under_their_own_names() {
    let text = "@source(type='inMemory', topic='x', @map(type='csv', header.present='false', \
                header='true')) define stream S (a int);";
    let parsed = parse(text);
    let Element::Stream(stream) = &parsed.app.elements[0] else {
        panic!("a stream")
    };
    let view = View {
        name: "S",
        attributes: &["a"],
        is_open: false,
    };
    let validated = source(
        &stream.annotations[0],
        &view,
        &crate::testing::catalog(),
        &Deployed::default(),
    );
    let transport = validated.value.expect("it is right");
    assert_eq!(transport.map.option("header"), Some("true"));
    assert_eq!(transport.map.option("header.present"), None);
}
