//! `map:`, maps of keys and values.

use event::Type;

use super::{BOOL, INT, NONE, OBJECT, STRING, known, param};
use plan::spec::{FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const MAP: Param = param("map", Types::OBJECT, "A map.");
const TO: Param = param("to.map", Types::OBJECT, "The map that is changed.");
const FROM: Param = param("from.map", Types::OBJECT, "The map that is read.");
const KEY: Param = param("key", Types::ANY, "The key.");
const VALUE: Param = param("value", Types::ANY, "The value.");
const BASIC_KEY: Param = param("key", Types::BASIC, "The key.");
const BASIC_VALUE: Param = param("value", Types::BASIC, "The value.");

const fn scalar(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    returns: Returns,
) -> FunctionSpec {
    known(
        FunctionKind::Scalar,
        "map",
        name,
        "execution-map",
        summary,
        overloads,
        returns,
    )
}

const ONE: &[Overload] = &[Overload::new(&[MAP])];
const TWO: &[Overload] = &[Overload::new(&[TO, FROM])];

pub const FUNCTIONS: &[FunctionSpec] = &[
    scalar("clear", "Empties a map.", ONE, OBJECT),
    scalar("clone", "A copy of a map.", ONE, OBJECT),
    scalar(
        "combineByKey",
        "Lists of the values that several maps have for each key.",
        &[Overload::repeating(&[MAP, MAP], 1)],
        OBJECT,
    ),
    scalar(
        "containsKey",
        "Whether a map has a key.",
        &[Overload::new(&[MAP, KEY])],
        BOOL,
    ),
    scalar(
        "containsValue",
        "Whether a map has a value.",
        &[Overload::new(&[MAP, BASIC_VALUE])],
        BOOL,
    ),
    scalar(
        "create",
        "A map of the given keys and values.",
        &[NONE, Overload::repeating(&[KEY, VALUE], 2)],
        OBJECT,
    ),
    scalar(
        "createFromJSON",
        "The map of a JSON text.",
        &[Overload::new(&[param(
            "json.string",
            Types::STRING,
            "JSON as text.",
        )])],
        OBJECT,
    ),
    scalar(
        "createFromXML",
        "The map of an XML text.",
        &[Overload::new(&[param(
            "xml.string",
            Types::STRING,
            "XML as text.",
        )])],
        OBJECT,
    ),
    scalar(
        "get",
        "The value of a key.",
        &[
            Overload::new(&[MAP, KEY]),
            Overload::new(&[
                MAP,
                KEY,
                param(
                    "default.value",
                    Types::ANY,
                    "The value where the key is missing.",
                ),
            ]),
        ],
        OBJECT,
    ),
    scalar("isEmpty", "Whether a map is empty.", ONE, BOOL),
    scalar(
        "isMap",
        "Whether a value is a map.",
        &[Overload::new(&[param("arg", Types::ANY, "The value.")])],
        BOOL,
    ),
    scalar("keys", "The keys as a list.", ONE, OBJECT),
    scalar(
        "put",
        "Sets a key.",
        &[Overload::new(&[MAP, KEY, VALUE])],
        OBJECT,
    ),
    scalar("putAll", "Sets all keys of another map.", TWO, OBJECT),
    scalar(
        "putIfAbsent",
        "Sets a key that is missing.",
        &[Overload::new(&[MAP, BASIC_KEY, BASIC_VALUE])],
        OBJECT,
    ),
    scalar(
        "remove",
        "Takes a key out.",
        &[Overload::new(&[MAP, KEY])],
        OBJECT,
    ),
    scalar(
        "replace",
        "Sets a key that is there.",
        &[Overload::new(&[MAP, BASIC_KEY, BASIC_VALUE])],
        OBJECT,
    ),
    scalar(
        "replaceAll",
        "Sets the keys that both maps have.",
        TWO,
        OBJECT,
    ),
    scalar("size", "How many keys there are.", ONE, INT),
    scalar("toJSON", "The map as JSON text.", ONE, STRING),
    scalar(
        "toXML",
        "The map as XML text.",
        &[
            Overload::new(&[MAP]),
            Overload::new(&[
                MAP,
                param(
                    "root.element.name",
                    Types::STRING,
                    "Name of the root element.",
                ),
            ]),
        ],
        STRING,
    ),
    scalar("values", "The values as a list.", ONE, OBJECT),
    known(
        FunctionKind::Aggregator,
        "map",
        "collect",
        "execution-map",
        "A map of all pairs.",
        &[Overload::new(&[BASIC_KEY, VALUE])],
        OBJECT,
    ),
    known(
        FunctionKind::Aggregator,
        "map",
        "merge",
        "execution-map",
        "All maps as one.",
        ONE,
        OBJECT,
    ),
    FunctionSpec {
        adds: &[("key", Type::Object), ("value", Type::Object)],
        ..known(
            FunctionKind::StreamProcessor,
            "map",
            "tokenize",
            "execution-map",
            "One event for each key.",
            &[Overload::repeating(&[MAP], 1)],
            Returns::Nothing,
        )
    },
];
