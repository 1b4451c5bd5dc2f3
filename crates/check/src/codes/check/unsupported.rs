//! E09xx: what is not there, and what does not run yet.

use crate::codes::CodePage;

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        super::UNSUPPORTED_COMPONENT,
        "a function or language that is not supported",
        "The app calls a function of a namespace that Headwater does not have, or has a script \
         in a language other than javascript.",
        "Use what `headwater connectors` and the reference list; sources, sinks and stores have \
         their own code, E0501.",
        "define stream S (a string);\n\
         from S select tensor:predict(a) as p insert into Out;",
        "define stream S (a string);\n\
         from S select str:upper(a) as p insert into Out;",
    ),
    CodePage::new(
        super::COMPONENT_PENDING,
        "a component that does not run yet",
        "The component and its options are known, so that the app can be checked, but Headwater \
         does not implement it. `run` refuses the app, and so does `check --runnable`.",
        "Do without it.",
        "define stream S (a string);\n\
         from S#rdbms:procedure('SHOP', 'b int', '{call p(?)}', a) select a, b insert into Out;",
        "define stream S (a string);\n\
         from S#rdbms:query('SHOP', 'b int', 'SELECT b FROM t WHERE a = ?', a) select a, b insert into Out;",
    ),
];
