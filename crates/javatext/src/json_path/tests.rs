//! What Jayway 2.9 finds, over a tree made for the tests.

use super::*;

#[derive(Clone, PartialEq, Debug)]
enum Tree {
    Null,
    Bool(bool),
    Number(&'static str),
    Text(&'static str),
    List(Vec<Tree>),
    Object(Vec<(&'static str, Tree)>),
}

impl Node for Tree {
    fn scalar(&self) -> Scalar {
        match self {
            Tree::Null => Scalar::Null,
            Tree::Bool(value) => Scalar::Bool(*value),
            Tree::Number(text) => {
                Scalar::Number(text.parse().expect("a number"), (*text).to_owned())
            }
            Tree::Text(text) => Scalar::Text((*text).to_owned()),
            Tree::List(list) => Scalar::List(list.iter().map(Node::scalar).collect()),
            Tree::Object(members) => {
                let members = members.iter();
                Scalar::Object(
                    members
                        .map(|(k, v)| ((*k).to_owned(), v.scalar()))
                        .collect(),
                )
            }
        }
    }

    fn size(&self) -> Option<usize> {
        match self {
            Tree::List(list) => Some(list.len()),
            Tree::Object(members) => Some(members.len()),
            _ => None,
        }
    }

    fn is_object(&self) -> bool {
        matches!(self, Tree::Object(_))
    }

    fn member(&self, name: &str) -> Option<Tree> {
        match self {
            Tree::Object(members) => {
                let found = members.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| value.clone())
            }
            _ => None,
        }
    }

    fn element(&self, index: usize) -> Option<Tree> {
        match self {
            Tree::List(list) => list.get(index).cloned(),
            _ => None,
        }
    }

    fn children(&self) -> Vec<Tree> {
        match self {
            Tree::List(list) => list.clone(),
            Tree::Object(members) => members.iter().map(|(_, value)| value.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joined = |texts: Vec<String>| texts.join(",");
        match self {
            Tree::Null => write!(f, "null"),
            Tree::Bool(value) => write!(f, "{value}"),
            Tree::Number(text) => write!(f, "{text}"),
            Tree::Text(text) => write!(f, "'{text}'"),
            Tree::List(list) => {
                write!(
                    f,
                    "[{}]",
                    joined(list.iter().map(Tree::to_string).collect())
                )
            }
            Tree::Object(members) => {
                let members = members.iter().map(|(k, v)| format!("{k}:{v}"));
                write!(f, "{{{}}}", joined(members.collect()))
            }
        }
    }
}

fn document() -> Tree {
    let number = Tree::Number;
    let text = Tree::Text;
    let book = |title, price, more: Option<(&'static str, Tree)>| {
        let mut members = vec![("title", text(title)), ("price", number(price))];
        members.extend(more);
        Tree::Object(members)
    };
    let mut first = book("A", "8.5", Some(("tags", Tree::List(vec![text("x")]))));
    if let Tree::Object(members) = &mut first {
        members.push(("ok", Tree::Bool(true)));
    }
    let books = vec![
        first,
        book("B", "12", Some(("n", Tree::Null))),
        book("it's", "22.0", None),
    ];
    let store = vec![
        ("book", Tree::List(books)),
        ("a.b", Tree::Object(vec![("c", number("7"))])),
    ];
    Tree::Object(vec![
        ("store", Tree::Object(store)),
        ("n", Tree::Null),
        (
            "list",
            Tree::List(vec![number("1"), number("2"), number("3")]),
        ),
        ("e", Tree::List(Vec::new())),
        ("s", text("abc")),
        ("names", Tree::List(vec![text("x"), text("y")])),
    ])
}

fn show(item: &Item<Tree>) -> String {
    match item {
        Item::Node(node) => node.to_string(),
        Item::Members(members) => {
            let members: Vec<String> = members.iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("{{{}}}", members.join(","))
        }
        Item::Number(number) => format!("{number:?}"),
        Item::Count(count) => count.to_string(),
        Item::Null => "null".to_owned(),
    }
}

fn found(path: &str) -> String {
    let path = match Path::new(path) {
        Ok(path) => path,
        Err(error) => return format!("!{error}"),
    };
    match path.find(&document()) {
        Ok(Found::Nothing) => "nothing".to_owned(),
        Ok(Found::One(item)) => show(&item),
        Ok(Found::Many(items)) => {
            let items: Vec<String> = items.iter().map(show).collect();
            format!("[{}]", items.join(","))
        }
        Err(error) => format!("!{error}"),
    }
}

fn check(path: &str, expect: &str) {
    assert_eq!(found(path), expect, "{path}");
}

/// The titles of the books that a filter accepts.
fn check_filter(filter: &str, expect: &str) {
    check(&format!("$.store.book[?({filter})].title"), expect);
}

#[test]
fn definite_paths_find_one_value() {
    check("$.store.book[1].title", "'B'");
    check("store.book[-1].price", "22.0");
    check("@.s", "'abc'");
    check(r#"$['store']["a.b"]['c']"#, "7");
    check("$.store.['a.b'].c", "7");
    check("$.store.book[ 0 ].title", "'A'");
    check("$.n", "null");
    check("$.n.x", "nothing");
    check("$.store.book.title", "nothing");
    check("$.list[9]", "nothing");
    check("$.s[0]", "nothing");
    check("$['n','zz']", "{n:null}");
    check("$[ 'n' , 's' ]", "{n:null,s:'abc'}");
}

#[test]
fn other_paths_find_lists() {
    check("$.list[0,2]", "[1,3]");
    check("$.list[0 , 9]", "[1]");
    check("$.list[1:]", "[2,3]");
    check("$.list[:-1]", "[1,2]");
    check("$.list[-2:9]", "[2,3]");
    check("$.list[2:1]", "[]");
    check("$.list[0:3:2]", "[1,2,3]");
    check(
        "$.store.book[*]['title','price']",
        "[{title:'A',price:8.5},{title:'B',price:12},{title:'it's',price:22.0}]",
    );
    check("$.store['book','a.b'].c", "[7]");
    check("$['n','s'].x", "[]");
    check("$.store.book.*.title", "['A','B','it's']");
    check("$..title", "['A','B','it's']");
    check("$..['title']", "['A','B','it's']");
    check("$..zz", "[]");
    check("$..book[0].title", "['A']");
    check("$.store.a.b..c", "nothing");
    check("$.zz[*]", "nothing");
    check("$.s[1:]", "nothing");
    check("$.s[*]", "[]");
    check("$.e[*]", "[]");
    check("$.e..x", "[]");
    check("$.names[?(@ == 'x')]", "['x']");
    check("$.store.book[1][?(@.title == 'B')].price", "[12]");
    check("$.store.book[?(@.price>10)][0].title", "[]");
}

#[test]
fn functions() {
    check("$.list.length()", "3");
    check("$.list.size()", "3");
    check("$.store.length()", "2");
    check("$.s.length()", "null");
    check("$.zz.length()", "nothing");
    check("$.store.book[*].length()", "[4,3,2]");
    check("$..book.length()", "3");
    check("$..price.max()", "22.0");
    check("$.list.max()", "3.0");
    check("$.list.min()", "1.0");
    check("$.list.sum()", "6.0");
    check("$.list.avg()", "2.0");
    check("$.list.stddev()", "0.8164965809277263");
    check("$.list.first()", "1");
    check("$.list.last()", "3");
    check("$.e.first()", "null");
    let fault = "!'max()' of the JSON path needs a list with a number in it";
    check("$.e.max()", fault);
    check("$.store.book[*].price.max()", fault);
}

#[test]
fn filters_compare() {
    check_filter("@.price > 10 && @.title != 'B'", "['it's']");
    check_filter("@.price>10||@.ok", "['A','B','it's']");
    check_filter("!(@.price >= 10)", "['A']");
    check_filter("!@.n", "['A','it's']");
    check_filter("@['title'] == \"B\"", "['B']");
    check_filter("'B' == @.title", "['B']");
    check_filter("@.title == 'it\\'s'", "['it's']");
    check_filter("@.ok == true", "['A']");
    check_filter("@.ok != true", "['B','it's']");
    check_filter("@.n == null", "['B']");
    check_filter("@.n != null", "['A','it's']");
    check_filter("@.zz != 5", "['A','B','it's']");
    check_filter("@.zz < 5", "[]");
    check_filter("@.price == '12'", "['B']");
    check_filter("@.price === '12'", "[]");
    check_filter("@.price !== 12", "['A','it's']");
    check_filter("@.price > '9'", "[]");
    check_filter("@.title > 'A'", "['B','it's']");
    check_filter("@.price == 1.2e1", "['B']");
    check_filter("@.tags == ['x']", "['A']");
    check_filter("@.price > $.list[2]", "['A','B','it's']");
    check_filter("@.tags.length() > 0", "['A']");
    check_filter("@.tags[0] == 'x'", "['A']");
    check_filter("1 == 1", "['A','B','it's']");
}

#[test]
fn filters_look_into_lists_and_texts() {
    check_filter("@.title =~ /[ab]/i", "['A','B']");
    check_filter("@.title =~ /a/", "[]");
    check_filter("@.title =~ '.*s'", "['it's']");
    check_filter("@.price =~ /1.*/", "['B']");
    check_filter("@.price in [12, 22]", "['B','it's']");
    check_filter("@.title nin ['A','B']", "['it's']");
    check_filter("@.zz nin ['A']", "['A','B','it's']");
    check_filter("@.zz in ['A']", "[]");
    check_filter("@.title in $.names", "[]");
    check_filter("@.tags contains 'x'", "['A']");
    check_filter("@.title contains 's'", "['it's']");
    check_filter("@.tags size 1", "['A']");
    check_filter("@.tags empty false", "['A']");
    check_filter("@.tags subsetof ['x','y']", "['A']");
    check_filter("@.tags anyof ['x','y']", "['A']");
}

#[test]
fn places_to_write_to() {
    let targets = |path: &str| match Path::new(path).expect(path).targets(&document()) {
        Ok(Targets::Root) => "root".to_owned(),
        Ok(Targets::Inside(slots)) => {
            let slots: Vec<String> = slots.iter().map(|(_, slot)| format!("{slot:?}")).collect();
            slots.join(" ")
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(targets("$"), "root");
    assert_eq!(targets("$.s"), "Member(\"s\")");
    assert_eq!(targets("$.zz"), "");
    assert_eq!(targets("$.list[-1,0]"), "Element(2) Element(0)");
    assert_eq!(targets("$.list[?(@ > 1)]"), "Element(1) Element(2)");
    assert_eq!(
        targets("$..price"),
        "Member(\"price\") Member(\"price\") Member(\"price\")"
    );
}

#[test]
fn what_is_no_path() {
    for bad in [
        "",
        "$.",
        "$[",
        "$[?(@.a",
        "$.a[b]",
        "$.a b",
        "$.x.foo()",
        "$['a",
        "$.store..",
        "$. a",
        "$['a'] ['b']",
        "$[0,]",
        "$...a",
        "$[?]",
        "$[?(@.a and @.b)]",
        "$[?(@.a =~ /(/)]",
        "$.sum($.list)",
    ] {
        assert!(Path::new(bad).is_err(), "{bad:?}");
    }
    for deep in [
        format!("${}", "..a".repeat(200)),
        format!("$[?({}1==1", "(".repeat(100_000)),
        format!("$[?({}", "@[?(".repeat(100_000)),
        format!("$[?(@.a in {}", "[".repeat(100_000)),
    ] {
        assert!(Path::new(&deep).is_err());
    }
}

#[test]
fn an_evaluation_is_bounded() {
    let deep = (0..40).fold(Tree::Null, |inner, _| Tree::List(vec![inner]));
    let path = Path::new("$..*..*..*..*..*..*").expect("a path");
    assert_eq!(path.find(&deep), Err(Error::TooMuch));
}
