//! Codes of the lexer and the parser: E01xx and W01xx.

use super::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        "E0101",
        "a character has no meaning here",
        "The text holds a character that SiddhiQL does not know, such as a curly quote or a \
         no-break space from a word processor. Names have letters of the English alphabet, \
         digits and _.",
        "Remove it, replace it by the plain character that was meant, or put the name between \
         back-quotes.",
        "define stream S (a int, price€ double);",
        "define stream S (a int, price_eur double);",
    ),
    CodePage::new(
        "E0102",
        "a string is not closed",
        "A string between ' or \" must end on the line on which it begins. There are no \
         escapes, so a quote cannot be put inside by a \\.",
        "Close the string on its line. Put a text of several lines, or with both kinds of quotes, \
         between \"\"\" and \"\"\".",
        "@sink(type='log, prefix='x')\n\
         define stream S (a int);",
        "@sink(type='log', prefix='x')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "E0103",
        "a string holds a control character",
        "Strings between ' or \" may hold no tab and no other control character.",
        "Write a space, or put the text between \"\"\" and \"\"\", where everything is \
         allowed.",
        "@sink(type='log', prefix='a\tb')\n\
         define stream S (a int);",
        "@sink(type='log', prefix=\"\"\"a\tb\"\"\")\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "E0104",
        "a quoted name is not closed",
        "A name between back-quotes must be closed on the same line.",
        "Add the missing back-quote, or leave both out if the name is a plain one.",
        "define stream S (`order int);",
        "define stream S (`order` int);",
    ),
    CodePage::new(
        "E0105",
        "a number is too large for its type",
        "A whole number without a suffix is an int of 32 bits; with L it is a long of 64 \
         bits.",
        "Write the suffix L, or a fraction for a double.",
        "define stream S (a long);\n\
         from S[a > 3000000000] select a insert into T;",
        "define stream S (a long);\n\
         from S[a > 3000000000L] select a insert into T;",
    ),
    CodePage::new(
        "E0106",
        "a number is malformed",
        "Letters follow a number directly. Only L, F and D, and an exponent, belong to a number: \
         `5day` is read as the double 5d and the letters ay.",
        "Write a space between the number and the unit, or correct the number.",
        "define stream S (a int);\n\
         from S#window.time(5day) select a insert into T;",
        "define stream S (a int);\n\
         from S#window.time(5 days) select a insert into T;",
    ),
    CodePage::new(
        "E0107",
        "the body of a script is not closed",
        "The braces around the body of a script function do not balance. Braces inside \"…\" \
         and after // do not count.",
        "Add the missing }.",
        "define function f[javascript] return int {\n\
           if (data[0] > 1) { return 1;\n\
           return 0;\n\
         };\n\
         define stream S (a int);",
        "define function f[javascript] return int {\n\
           if (data[0] > 1) { return 1; }\n\
           return 0;\n\
         };\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "E0108",
        "'//' does not start a comment",
        "Comments are written -- to the end of the line, or between /* and */. Only bodies of \
         scripts know //.",
        "Write -- instead.",
        "// the input\n\
         define stream S (a int);",
        "-- the input\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "E0110",
        "something else was expected here",
        "The text departs from the grammar at this place. The message shows what is expected here \
         and what was found.",
        "Add what is missing, or remove what is superfluous.",
        "define stream S (a int, b string);\n\
         from S select a insert T;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0111",
        "a ';' is missing",
        "Definitions, queries and partitions are separated by ';'. The mark shows where the \
         one before ends.",
        "Add the ';'.",
        "define stream S (a int)\n\
         from S select a insert into T;",
        "define stream S (a int);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0112",
        "a bracket, or a sign that belongs here, is missing",
        "A '(' or '[' is not closed before the clause or the element ends, a partition has no \
         'end', or a required sign is missing.",
        "Add what the message lists.",
        "define stream S (a int;\n\
         from S select a insert into T;",
        "define stream S (a int);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0113",
        "a closing bracket closes nothing",
        "There is one ')' or ']' more than was opened.",
        "Remove it, or add the opening one.",
        "define stream S (a int));",
        "define stream S (a int);",
    ),
    CodePage::new(
        "E0114",
        "a keyword is misspelt",
        "A word in the place of a keyword is close to one.",
        "Write the keyword given in the message.",
        "define stream S (a int, b string);\n\
         form S select a insert into T;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0115",
        "a type is missing or unknown",
        "Every attribute has one of the types string, int, long, float, double, bool and \
         object. Types of databases and other languages (varchar, integer, boolean) are not \
         known.",
        "Write one of the seven types.",
        "define stream S (a integer, b strng);",
        "define stream S (a int, b string);",
    ),
    CodePage::new(
        "E0116",
        "a calculated attribute has no name",
        "Only a plain attribute keeps its own name in 'select'. A call, a sum or a constant \
         needs 'as' and a name.",
        "Add 'as name'.",
        "define stream S (a int, b string);\n\
         from S select a, a * 2 insert into T;",
        "define stream S (a int, b string);\n\
         from S select a, a * 2 as twice insert into T;",
    ),
    CodePage::new(
        "E0117",
        "'=' and '==' are confused",
        "'==' compares. '=' only sets: in options of annotations, in 'set', and in naming an \
         event of a pattern.",
        "Write == in conditions and = in 'set'.",
        "define stream S (a int, b string);\n\
         from S[b = 'x'] select a insert into T;",
        "define stream S (a int, b string);\n\
         from S[b == 'x'] select a insert into T;",
    ),
    CodePage::new(
        "E0118",
        "a comparison is written as in another language",
        "The comparisons are ==, !=, <, <=, > and >=.",
        "Write <= for =<, >= for =>, != for <>.",
        "define stream S (a int, b string);\n\
         from S[a =< 5] select a insert into T;",
        "define stream S (a int, b string);\n\
         from S[a <= 5] select a insert into T;",
    ),
    CodePage::new(
        "E0119",
        "a logical operator is written as in another language",
        "Conditions are joined by the words 'and' and 'or', and negated by 'not'. The signs \
         &, &&, |, || and ! are not operators.",
        "Write the word.",
        "define stream S (a int, b string);\n\
         from S[a > 5 && b == 'x'] select a insert into T;",
        "define stream S (a int, b string);\n\
         from S[a > 5 and b == 'x'] select a insert into T;",
    ),
    CodePage::new(
        "E0120",
        "'null' is not a value",
        "There is no literal null: the word would be read as the name of an attribute. \
         Besides, a comparison with null is always false.",
        "Test with 'x is null' and 'not (x is null)'.",
        "define stream S (a int, b string);\n\
         from S[b == null] select a insert into T;",
        "define stream S (a int, b string);\n\
         from S[b is null] select a insert into T;",
    ),
    CodePage::new(
        "E0121",
        "an app without a definition",
        "An app begins with at least one definition; queries alone are refused, also by \
         Siddhi. Only one that is nothing but the document of an API (`@App:asyncAPI`) needs none.",
        "Define the stream that the queries read.",
        "from S select a insert into T;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0122",
        "a definition is too late",
        "All definitions come before the first query or partition, and none is inside a partition.",
        "Move the definition up.",
        "define stream S (a int, b string);\n\
         from S select a insert into T;\n\
         define stream U (a int);",
        "define stream S (a int, b string);\n\
         define stream U (a int);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0123",
        "an annotation of the app is too late",
        "Annotations that begin with @app: are read only at the very start of the text.",
        "Move it before the first definition.",
        "define stream S (a int);\n\
         @app:name('Late')\n\
         from S select a insert into T;",
        "@app:name('Early')\n\
         define stream S (a int);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0124",
        "an annotation is not allowed here",
        "An annotation belongs to the definition, query or partition that follows it. Triggers and \
         script functions take none, and those of the app hold no others.",
        "Move or remove it.",
        "@info(name='t')\n\
         define trigger T at every 5 sec;",
        "define trigger T at every 5 sec;",
    ),
    CodePage::new(
        "E0125",
        "the value of an option is not a string",
        "All options of annotations are strings, numbers and truth values too.",
        "Put the value between quotes.",
        "@async(buffer.size=1024)\n\
         define stream S (a int);",
        "@async(buffer.size='1024')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "E0126",
        "a query has no output",
        "A query ends with the target of its result: 'insert into', 'update', 'delete', 'update or \
         insert into' or 'return'.",
        "Add the output.",
        "define stream S (a int, b string);\n\
         from S select a;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0127",
        "a query does not begin with 'from'",
        "The input of a query comes first, before 'select'.",
        "Write from Stream select … insert into Target.",
        "define stream S (a int, b string);\n\
         select a from S insert into T;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0128",
        "'*' is not allowed here",
        "'*' must be alone: select * takes all attributes, f(*) gives all of them to a function. \
         It cannot be combined with others or with the name of a stream.",
        "Write only *, or name the attributes.",
        "define stream S (a int, b string);\n\
         from S select *, a + 1 as next insert into T;",
        "define stream S (a int, b string);\n\
         from S select a, b, a + 1 as next insert into T;",
    ),
    CodePage::new(
        "E0129",
        "two attributes have one name",
        "Names of attributes are unique within a definition.",
        "Rename one of them.",
        "define stream S (a int, a string);",
        "define stream S (a int, b string);",
    ),
    CodePage::new(
        "E0130",
        "a list is empty",
        "At least one item is needed: an attribute in a definition, an option between the \
         brackets of an annotation, a condition in a filter, a query in a partition.",
        "Add one, or remove the brackets.",
        "@PrimaryKey()\n\
         define table T (a int);",
        "@PrimaryKey('a')\n\
         define table T (a int);",
    ),
    CodePage::new(
        "E0131",
        "one ';' too many",
        "';' separates elements; two in a row have nothing between them.",
        "Remove one.",
        "define stream S (a int);;\n\
         from S select a insert into T;",
        "define stream S (a int);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0132",
        "a sign before something that is not a number",
        "'-' and '+' are allowed only before a number. There is no minus of an attribute, a call \
         or a bracket.",
        "Write 0 - x.",
        "define stream S (a int, b string);\n\
         from S select -a as negative insert into T;",
        "define stream S (a int, b string);\n\
         from S select 0 - a as negative insert into T;",
    ),
    CodePage::new(
        "E0133",
        "a time is malformed",
        "A time is a whole number with a unit, or several from the largest unit to the \
         smallest: 1 hour 30 min. It has no sign.",
        "Add the unit, or put the parts in order.",
        "define stream S (a int, b string);\n\
         from S select a output every 5 insert into T;",
        "define stream S (a int, b string);\n\
         from S select a output every 5 sec insert into T;",
    ),
    CodePage::new(
        "E0134",
        "an absent event without a time",
        "'not S' must say how long S has to be absent, unless it is joined by 'and' to an event \
         that ends the waiting.",
        "Add 'for 5 sec', or 'and' with another stream.",
        "define stream A (x int);\n\
         define stream B (x int);\n\
         from every a=A -> not B[x == a.x] select a.x insert into T;",
        "define stream A (x int);\n\
         define stream B (x int);\n\
         from every a=A -> not B[x == a.x] for 5 sec select a.x insert into T;",
    ),
    CodePage::new(
        "E0135",
        "a comma at the end of a list",
        "Nothing follows the last comma.",
        "Remove it, or add what is missing.",
        "define stream S (a int, b string);\n\
         from S select a, insert into T;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0136",
        "the text is too long or nested too deep",
        "Brackets nest at most 64 deep, a chain has at most 1,000 operators, and a text at \
         most 256 MiB, so that no app can exhaust the memory of a server.",
        "Split the expression; look long lists of values up in a table with 'in'.",
        "define stream S (a int, b string);\n\
         from S[(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((a > 1)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))] select a insert into T;",
        "define stream S (a int, b string);\n\
         from S[((a > 1))] select a insert into T;",
    ),
    CodePage::new(
        "E0137",
        "a keyword where only a plain name is allowed",
        "Names of functions, script languages, triggers and aggregations cannot be keywords. \
         Everywhere else keywords are allowed as names.",
        "Choose another name, or put it between back-quotes.",
        "define trigger Every at every 5 sec;",
        "define trigger EveryFive at every 5 sec;",
    ),
    CodePage::new(
        "E0138",
        "an outer join without its side",
        "An outer join is left, right or full, and the word 'outer' is always written.",
        "Write left outer join, right outer join or full outer join.",
        "define stream A (x int);\n\
         define table B (x int);\n\
         from A outer join B on A.x == B.x select A.x as x insert into T;",
        "define stream A (x int);\n\
         define table B (x int);\n\
         from A left outer join B on A.x == B.x select A.x as x insert into T;",
    ),
    CodePage::new(
        "E0139",
        "'group by' and 'order by' take only attributes",
        "Calls and calculations are not allowed in 'group by' and 'order by'.",
        "Calculate the value in a query before, and group by the attribute.",
        "define stream S (a int, b string);\n\
         from S select count() as n group by str:lower(b) insert into T;",
        "define stream S (a int, b string);\n\
         from S select str:lower(b) as key insert into K;\n\
         from K select key, count() as n group by key insert into T;",
    ),
    CodePage::new(
        "E0140",
        "a clause is in the wrong place",
        "The clauses of a query have one order: from, select, group by, having, order by, limit, \
         offset, output, and last the output of the query. In a join, filters and windows come \
         before 'as'.",
        "Move the clause.",
        "define stream S (a int, b string);\n\
         from S select a, count() as n having n > 5 group by a insert into T;",
        "define stream S (a int, b string);\n\
         from S select a, count() as n group by a having n > 5 insert into T;",
    ),
    CodePage::new(
        "E0141",
        "a malformed pattern or sequence",
        "'->' makes a pattern and ',' a sequence; they do not mix. 'every' is allowed only at the \
         start of a sequence. *, + and ? count in sequences, <n:m> in both. 'and' and 'or' join \
         two elements that are not counted.",
        "Use one kind of separator, and the counts that belong to it.",
        "define stream A (x int);\n\
         from every e=A+ -> f=A select f.x insert into T;",
        "define stream A (x int);\n\
         from every e=A<1:> -> f=A select f.x insert into T;",
    ),
    CodePage::new(
        "E0142",
        "there is no 'where'",
        "Inputs are filtered in brackets after the name of the stream, results by 'having'.",
        "Write from Stream[condition].",
        "define stream S (a int, b string);\n\
         from S select a where a > 5 insert into T;",
        "define stream S (a int, b string);\n\
         from S[a > 5] select a insert into T;",
    ),
    CodePage::new(
        "E0144",
        "a variable has no value",
        "Every ${NAME} in an app, in strings and comments too, is replaced by a setting or an \
         environment variable before the app is read, ${file:PATH} by what a file holds, ${secret:NAME} by a \
         secret of the key store. ${app:dir} is the folder of the app's file.",
        "Set the variable (headwater secrets set NAME for a secret), or correct its name.",
        "@source(type='file', dir.uri='file:${DATA_DRI}', @map(type='csv'))\n\
         define stream S (a int);",
        "@source(type='file', dir.uri='file:${DATA_DIR}', @map(type='csv'))\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "E0145",
        "an aggregation by weeks",
        "Aggregations have the granularities sec, min, hour, day, month and year.",
        "Use days or months.",
        "define stream S (a int, b string);\n\
         define aggregation A from S select b, sum(a) as total group by b aggregate every day, week;",
        "define stream S (a int, b string);\n\
         define aggregation A from S select b, sum(a) as total group by b aggregate every day, month;",
    ),
    CodePage::new(
        "E0146",
        "an update without a condition",
        "'update' and 'update or insert into' must specify the rows of the table.",
        "Add 'on' and a condition.",
        "define stream S (a int, b string);\n\
         define table T (a int, b string);\n\
         from S select a, b update T;",
        "define stream S (a int, b string);\n\
         define table T (a int, b string);\n\
         from S select a, b update T on T.a == a;",
    ),
    CodePage::new(
        "E0147",
        "a single input is renamed",
        "Only the inputs of a join can be given another name by 'as'.",
        "Remove 'as …' and use the name of the stream, or none.",
        "define stream S (a int, b string);\n\
         from S as s select a insert into T;",
        "define stream S (a int, b string);\n\
         from S select a insert into T;",
    ),
    CodePage::new(
        "E0148",
        "a window is not allowed here",
        "A stream takes one window at most, inputs of patterns none, and in a join nothing \
         follows the window.",
        "Put the filter before the window, or make two queries.",
        "define stream S (a int, b string);\n\
         from S#window.length(5)#window.time(1 sec) select a insert into T;",
        "define stream S (a int, b string);\n\
         from S#window.length(5) select a insert into U;\n\
         from U#window.time(1 sec) select a insert into T;",
    ),
    CodePage::new(
        "E0149",
        "'is null' applies to something it cannot",
        "'is null' tests an attribute, an event or the result of a call; constants and \
         expressions in brackets are refused. 'is not null' does not exist.",
        "Write x is null, or not (x is null).",
        "define stream S (a int, b string);\n\
         from S[b is not null] select a insert into T;",
        "define stream S (a int, b string);\n\
         from S[not (b is null)] select a insert into T;",
    ),
    CodePage::new(
        "E0150",
        "a comma is missing",
        "Two items of a list have no comma between them.",
        "Add the comma.",
        "define stream S (a int b string);",
        "define stream S (a int, b string);",
    ),
    CodePage::new(
        "E0151",
        "a malformed on-demand query",
        "An on-demand query finds (from Table on … select …) or writes (select … insert into \
         Table, update, delete); it cannot do both.",
        "Split it into two.",
        "from T select a insert into U",
        "from T select a",
    ).on_demand(),
    CodePage::new(
        "W0101",
        "a bare name in an annotation",
        "An option is a string or key='value'. Siddhi refuses a bare name; since published \
         apps have one, it is ignored here.",
        "Remove it, or write key='value'.",
        "@sink(type='log', l, prefix='x')\n\
         define stream S (a int);",
        "@sink(type='log', prefix='x')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        "W0102",
        "a comment is not closed",
        "A comment that begins with /* and has no */ extends to the end of the text: the rest is \
         not read.",
        "Add the */.",
        "define stream S (a int);\n\
         /* from S select a insert into T;",
        "define stream S (a int);\n\
         /* from S select a insert into T; */",
    ),
];

#[cfg(test)]
mod tests {
    use crate::codes::Example;
    use lang::diagnostic::Diagnostic;
    use lang::parser::{parse, parse_on_demand};
    use lang::substitute::substitute;

    fn diagnostics(example: Example, text: &str) -> Vec<Diagnostic> {
        let (text, mut found) = substitute(text, &|name| {
            (name == "DATA_DIR").then(|| "/data".to_owned())
        });
        found.extend(match example {
            Example::App => parse(&text.text).diagnostics,
            Example::OnDemand => parse_on_demand(&text.text).1,
            Example::Document => Vec::new(),
        });
        found
    }

    #[test]
    fn examples_fail_and_are_mended() {
        let mut wrong = Vec::new();
        for page in super::CODES {
            let found = diagnostics(page.example, page.failing);
            let other = found.iter().any(|d| d.code != page.code);
            if found.is_empty() || other {
                wrong.push(format!("{} gives {found:?}", page.code));
            }
            let left = diagnostics(page.example, page.fixed);
            if !left.is_empty() {
                wrong.push(format!("{} is not mended: {left:?}", page.code));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Fixes that are offered mend the example.
    #[test]
    fn fixes_mend_the_examples() {
        let mut wrong = Vec::new();
        for page in super::CODES.iter().filter(|p| p.example == Example::App) {
            let mut text = page.failing.to_owned();
            let found = diagnostics(page.example, &text);
            if found.iter().any(|d| d.fix.is_none()) {
                continue;
            }
            for fix in found.iter().rev().filter_map(|d| d.fix.as_ref()) {
                let range = fix.span.start as usize..fix.span.end as usize;
                text.replace_range(range, &fix.replacement);
            }
            let left = diagnostics(page.example, &text);
            if !left.is_empty() {
                wrong.push(format!("{}: {text}: {left:?}", page.code));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
