//! E03xx: types that do not go together.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::NOT_COMPARABLE,
        "values that cannot be compared",
        "'==' and '!=' compare numbers with numbers, texts with texts and bools with bools.",
        "Write the constant in the type of the other side, or convert one side.",
        "define stream S (a int);\n\
         from S[a == '5'] select a insert into Out;",
        "define stream S (a int);\n\
         from S[a == 5] select a insert into Out;",
    ),
    CodePage::new(
        super::NOT_ORDERED,
        "only numbers are ordered",
        "'<', '<=', '>' and '>=' compare numbers with numbers.",
        "Compare numbers; texts can be tested with '==' or with functions of str and regex.",
        "define stream S (name string);\n\
         from S[name > 'm'] select name insert into Out;",
        "define stream S (name string);\n\
         from S[str:strcmp(name, 'm') > 0] select name insert into Out;",
    ),
    CodePage::new(
        super::NO_ARITHMETIC,
        "arithmetic without numbers",
        "Operators + - * / % work on numbers. There is no operator that concatenates texts.",
        "Join texts with str:concat(…); turn a text into a number with convert(…).",
        "define stream S (a string, b string);\n\
         from S select a + b as both insert into Out;",
        "define stream S (a string, b string);\n\
         from S select str:concat(a, b) as both insert into Out;",
    ),
    CodePage::new(
        super::NOT_A_CONDITION,
        "a condition is needed",
        "Filters, 'having', 'on', and the sides of 'and', 'or' and 'not' must be true or false.",
        "Compare the value with something.",
        "define stream S (a int, b int);\n\
         from S[a and b > 5] select a insert into Out;",
        "define stream S (a int, b int);\n\
         from S[a > 0 and b > 5] select a insert into Out;",
    ),
    CodePage::new(
        super::WRONG_ARGUMENTS,
        "arguments that the function does not take",
        "The number or the types of the arguments match no form of the function. Types must match \
         exactly: an int is not a double. Some arguments must be constants, some plain attributes.",
        "Give what the function takes; convert(…) turns a value into another type.",
        "define stream S (a int);\n\
         from S select str:length(a) as n insert into Out;",
        "define stream S (a string);\n\
         from S select str:length(a) as n insert into Out;",
    ),
    CodePage::new(
        super::AGGREGATOR_HERE,
        "an aggregator in a place without aggregation",
        "Aggregators work over the events of a query. In conditions on tables, keys of partitions \
         and arguments of windows there are none.",
        "Select the aggregate in one query and use its result in the next.",
        "define stream S (a int);\n\
         define table T (a long);\n\
         from S select a delete T on T.a == sum(a);",
        "define stream S (a int);\n\
         define table T (a long);\n\
         from S select sum(a) as total delete T on T.a == total;",
    ),
    CodePage::new(
        super::ROW_COUNT,
        "a number of rows that is not a constant",
        "'limit' and 'offset' take a constant whole number that is not negative.",
        "Write a number.",
        "define stream S (a int);\n\
         from S select a limit 2.5 insert into Out;",
        "define stream S (a int);\n\
         from S select a limit 2 insert into Out;",
    ),
    CodePage::new(
        super::OTHER_ROW,
        "the selected attributes are not those of the target",
        "What is inserted must have the attributes of the target: names, types and order. For a \
         stream without a definition the first query that inserts determines them.",
        "Select the same attributes in the same order; 'as' gives a name, convert(…) a type.",
        "define stream S (a int, b string);\n\
         define stream Out (a long, b string);\n\
         from S select a, b insert into Out;",
        "define stream S (a int, b string);\n\
         define stream Out (a long, b string);\n\
         from S select convert(a, 'long') as a, b insert into Out;",
    ),
    CodePage::new(
        super::SCRIPT_FAULT,
        "not a script",
        "The body of a script function has to be the body of a JavaScript function with one parameter, 'data', the array of its arguments.",
        "Correct the line that is shown.",
        "define function f[javascript] return int { var a = ; return a; };\n\
         define stream S (a int);\n\
         from S select f(a) as b insert into Out;",
        "define function f[javascript] return int { var a = data[0]; return a; };\n\
         define stream S (a int);\n\
         from S select f(a) as b insert into Out;",
    ),
    CodePage::new(
        super::BAD_REGEX,
        "not a regular expression",
        "A constant regular expression has to be one when the app is made.",
        "Close brackets, and put a \\ before characters that are meant as they are.",
        "define stream S (a string);\n\
         from S#str:tokenize(a, '*') select token insert into Out;",
        "define stream S (a string);\n\
         from S#str:tokenize(a, '\\*') select token insert into Out;",
    ),
    CodePage::new(
        super::ARITHMETIC_FAILS,
        "arithmetic with something that is not a number",
        "One side is a number and the other is not. Siddhi accepts that and fails for every \
         event; so does Headwater.",
        "Turn the other side into a number with convert(…).",
        "define stream S (a int, b string);\n\
         from S select a + b as total insert into Out;",
        "define stream S (a int, b string);\n\
         from S select a + convert(b, 'int') as total insert into Out;",
    ),
];
