//! `str:`, functions on text.

use event::Type;

use super::{BOOL, INT, LONG, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const S: Param = param("input.string", Types::STRING, "The text.");
const PART: Param = param("search.string", Types::STRING, "What to look for.");
const REGEX: Param = param("regex", Types::STRING, "A regular expression.");
const REPLACEMENT: Param = param(
    "replacement.string",
    Types::STRING,
    "Text instead; `$1` stands for a group.",
);
const GROUP: Param = param("group.number", Types::INT, "Which group or part.");
const VALUE: Param = param("arg", Types::BASIC, "The value.");
const A: Param = param("arg1", Types::STRING, "The first text.");
const B: Param = param("arg2", Types::STRING, "The second text.");
const INDEX: Param = param("index", Types::INT, "Place, from 0.");
const BEGIN: Param = param("begin.index", Types::INT, "First place, from 0.");
const TEMPLATE: Param = param(
    "template",
    Types::STRING,
    "Text with `{{1}}`, `{{2}}` or `{{key}}`.",
);
const KEY: Param = param("key", Types::ANY, "The value.");
const SEPARATOR: Param = param(
    "separator",
    Types::STRING,
    "Text between values; default `,`.",
);
const DISTINCT: Param = param(
    "distinct",
    Types::BOOL,
    "Takes each value once; default false.",
)
.constant();
const ORDER: Param = param("order", Types::STRING, "`ASC` or `DESC`.").constant();
const SPLIT: Param = param("regex", Types::STRING, "What stands between parts.").constant();

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "str",
        name,
        "execution-string",
        summary,
        overloads,
        returns,
    )
}

const ONE: &[Overload] = &[Overload::new(&[S])];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar(
        "charAt",
        "The character at a place.",
        &[Overload::new(&[S, INDEX])],
        STRING,
    ),
    scalar(
        "charFrequency",
        "How often a character occurs.",
        &[Overload::new(&[
            S,
            param("character", Types::STRING, "One character."),
        ])],
        LONG,
    ),
    scalar(
        "coalesce",
        "The first argument that is not null.",
        &[Overload::repeating(&[VALUE], 1).same_type()],
        Returns::Argument(0),
    ),
    scalar(
        "concat",
        "The texts one after the other; nulls are left out.",
        &[Overload::repeating(&[VALUE], 1)],
        STRING,
    ),
    scalar(
        "contains",
        "Whether a text holds another.",
        &[Overload::new(&[S, PART])],
        BOOL,
    ),
    scalar(
        "equalsIgnoreCase",
        "Whether two texts are equal but for case.",
        &[Overload::new(&[A, B])],
        BOOL,
    ),
    scalar(
        "fillTemplate",
        "Puts values into a template.",
        &[
            Overload::repeating(&[TEMPLATE, VALUE], 1),
            Overload::new(&[TEMPLATE, param("map", Types::OBJECT, "Values by key.")]),
        ],
        STRING,
    ),
    scalar("hex", "Hexadecimal form of the characters.", ONE, STRING),
    scalar("length", "How many characters there are.", ONE, INT),
    scalar(
        "locate",
        "Where a text occurs in another, -1 where it does not.",
        &[Overload::new(&[PART, S]), Overload::new(&[PART, S, BEGIN])],
        INT,
    ),
    scalar("lower", "The text in lower case.", ONE, STRING),
    scalar(
        "regexp",
        "Whether the whole text matches.",
        &[Overload::new(&[S, REGEX])],
        BOOL,
    ),
    scalar(
        "repeat",
        "The text several times.",
        &[Overload::new(&[
            S,
            param("times", Types::INT, "How often."),
        ])],
        STRING,
    ),
    scalar(
        "replaceAll",
        "Replaces every match.",
        &[Overload::new(&[S, REGEX, REPLACEMENT])],
        STRING,
    ),
    scalar(
        "replaceFirst",
        "Replaces the first match.",
        &[Overload::new(&[S, REGEX, REPLACEMENT])],
        STRING,
    ),
    scalar("reverse", "The text backwards.", ONE, STRING),
    scalar(
        "split",
        "One part of a text.",
        &[Overload::new(&[S, REGEX, GROUP])],
        STRING,
    ),
    scalar(
        "strcmp",
        "Order of two texts: negative, 0 or positive.",
        &[Overload::new(&[A, B])],
        INT,
    ),
    scalar(
        "substr",
        "A part of a text, by place or by pattern.",
        &[
            Overload::new(&[S, BEGIN]),
            Overload::new(&[
                S,
                BEGIN,
                param("length", Types::INT, "How many characters."),
            ]),
            Overload::new(&[S, REGEX]),
            Overload::new(&[S, REGEX, GROUP]),
        ],
        STRING,
    ),
    scalar("trim", "The text without blanks around it.", ONE, STRING),
    scalar("unhex", "The text of a hexadecimal form.", ONE, STRING),
    scalar("upper", "The text in upper case.", ONE, STRING),
    known(
        FunctionKind::Aggregator,
        "str",
        "groupConcat",
        "execution-string",
        "The values as one text.",
        &[
            Overload::new(&[KEY]),
            Overload::new(&[KEY, SEPARATOR]),
            Overload::new(&[KEY, SEPARATOR, DISTINCT]),
            Overload::new(&[KEY, SEPARATOR, DISTINCT, ORDER]),
        ],
        STRING,
    ),
    FunctionSpec {
        adds: &[("token", Type::String)],
        ..known(
            FunctionKind::StreamProcessor,
            "str",
            "tokenize",
            "execution-string",
            "One event for each part of a text.",
            &[
                Overload::new(&[S, SPLIT]),
                Overload::new(&[S, SPLIT, DISTINCT]),
            ],
            Returns::Nothing,
        )
    },
];
