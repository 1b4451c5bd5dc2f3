//! Codes of the options of sources, sinks, mappers and stores: E05xx and W05xx.

use super::CodePage;

pub const UNKNOWN_COMPONENT: &str = "E0501";
pub const NO_TYPE: &str = "E0502";
pub const UNKNOWN_REF: &str = "E0503";
pub const MISSING: &str = "E0504";
pub const BAD_VALUE: &str = "E0505";
pub const RULE: &str = "E0506";
pub const NOT_DYNAMIC: &str = "E0507";
pub const REFUSED: &str = "E0508";
pub const DEPLOYMENT_PROPERTY: &str = "E0509";
pub const UNKNOWN_ATTRIBUTE: &str = "E0510";
pub const UNMAPPED: &str = "E0511";
pub const MIXED_MAPPING: &str = "E0512";
pub const BAD_MAPPING: &str = "E0513";
pub const BAD_PAYLOAD: &str = "E0514";
pub const NO_COMMON_PAYLOAD: &str = "E0515";
pub const SAME_PRODUCER: &str = "E0516";
pub const MISSPELT: &str = "E0517";
pub const UNKNOWN: &str = "W0501";
pub const IGNORED: &str = "W0502";
pub const TWICE: &str = "W0503";
pub const READ_AS_FALSE: &str = "W0504";
pub const UNKNOWN_NESTED: &str = "W0505";
pub const EXTRA_MAPPING: &str = "W0506";
pub const UNKNOWN_PATTERN: &str = "W0507";
pub const UNKNOWN_PROPERTY: &str = "W0508";

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    CodePage::new(
        UNKNOWN_COMPONENT,
        "no such source, sink, mapper or store",
        "The `type` names a component that Headwater does not know. Names are matched as \
         written, capitals included.",
        "Write the name as `headwater connectors` lists it.",
        "@source(type='inMemry', topic='in')\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='in')\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        NO_TYPE,
        "source, sink, mapper or store without type",
        "`type` selects the component. The only alternative is a `ref` to a block of the \
         deployment file that has a `type`.",
        "Add `type='…'`.",
        "@sink(topic='out')\n\
         define stream S (a int);",
        "@sink(type='inMemory', topic='out')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        UNKNOWN_REF,
        "reference to a block that is not configured",
        "`ref='name'` takes the options of a block under `refs` in the deployment file, and \
         there is no such block.",
        "Give the deployment file with `--config`, or write the options into the app.",
        "@source(ref='orders')\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='orders')\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        MISSING,
        "a required option is missing",
        "The component cannot work without this option. Names of options are matched as \
         written, so a misspelt one counts as missing.",
        "Add the option; `headwater connectors NAME` describes it.",
        "@sink(type='inMemory', topc='out')\n\
         define stream S (a int);",
        "@sink(type='inMemory', topic='out')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        BAD_VALUE,
        "invalid value of an option",
        "The text of the option cannot be read as its type, is a number outside the range of the \
         option, or is not one of the allowed values. The reference lists the range, unit and \
         default of each option.",
        "Use one of the values listed in the help.",
        "@source(type='file', file.uri='in.csv', mode='lines', tailing='false', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='file', file.uri='in.csv', mode='line', tailing='false', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        RULE,
        "options that cannot be combined",
        "Each option is valid alone, but not in this combination. Remember the defaults: a file \
         source follows its file (`tailing`) unless told otherwise.",
        "Change one of the options as the help says.",
        "@source(type='file', dir.uri='in', action.after.process='move', move.after.process='done', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='file', dir.uri='in', tailing='false', action.after.process='move', move.after.process='done', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        NOT_DYNAMIC,
        "an attribute in an option that must be constant",
        "`{{attribute}}` is replaced by a value of each event. Only some options of sinks may vary \
         by event; sources, mappers and stores have none of these.",
        "Write a constant value.",
        "@sink(type='log', priority='{{level}}')\n\
         define stream S (level string);",
        "@sink(type='log', prefix='{{level}}')\n\
         define stream S (level string);",
    ),
    CodePage::new(
        REFUSED,
        "an option that Headwater does not support",
        "The option exists in Siddhi but is not supported here, and ignoring it would change what \
         the app does.",
        "Leave it out.",
        "@sink(type='file', file.uri='out.json', file.system.options='PASSIVE_MODE:true', @map(type='json'))\n\
         define stream S (a int);",
        "@sink(type='file', file.uri='out.json', @map(type='json'))\n\
         define stream S (a int);",
    ),
    CodePage::new(
        DEPLOYMENT_PROPERTY,
        "a deployment property on a component that exposes no service",
        "Options that begin with `dep:` describe how a service is reached. Only components that \
         listen have them.",
        "Leave it out.",
        "@sink(type='log', dep:port='80')\n\
         define stream S (a int);",
        "@sink(type='log')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        UNKNOWN_ATTRIBUTE,
        "no such attribute of the stream",
        "`{{name}}` in an option or payload, and the names in `@attributes` and `@payload`, are \
         attributes of the annotated stream. White space inside the braces is part of the name.",
        "Write the name of an attribute of the stream.",
        "@sink(type='log', prefix='{{symbl}}')\n\
         define stream S (symbol string);",
        "@sink(type='log', prefix='{{symbol}}')\n\
         define stream S (symbol string);",
    ),
    CodePage::new(
        UNMAPPED,
        "'@attributes' does not map every attribute",
        "`@attributes` must map every attribute of the stream.",
        "Add the missing entries.",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='0')))\n\
         define stream S (a int, b int);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='0', b='1')))\n\
         define stream S (a int, b int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        MIXED_MAPPING,
        "'@attributes' with and without names",
        "Either every entry of `@attributes` has the name of an attribute, or none has, and they \
         follow the order of the stream.",
        "Name all entries, or none.",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='0', '1')))\n\
         define stream S (a int, b int);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes('0', '1')))\n\
         define stream S (a int, b int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        BAD_MAPPING,
        "an entry that the mapper cannot use",
        "The csv mapper counts columns from 0. An annotation of a mapper may occur only once.",
        "Write the number of the column.",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='first')))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='0')))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        BAD_PAYLOAD,
        "a payload that the mapper cannot write",
        "`@payload` of a text mapper holds one template. The name of an attribute alone would pass \
         its value as an object, which these mappers do not support.",
        "Write one text, with attributes between double braces.",
        "@sink(type='log', @map(type='json', @payload('symbol')))\n\
         define stream S (symbol string);",
        "@sink(type='log', @map(type='json', @payload('\"{{symbol}}\"')))\n\
         define stream S (symbol string);",
    ),
    CodePage::new(
        NO_COMMON_PAYLOAD,
        "a mapper that does not fit its source or sink",
        "A file holds text or bytes, so a mapper of maps or of whole events has nothing to read. \
         Without '@map' the mapper is 'passThrough', which is for whole events.",
        "Add an '@map' with a suitable format.",
        "@source(type='file', file.uri='in.csv', tailing='false')\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='file', file.uri='in.csv', tailing='false', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        SAME_PRODUCER,
        "two sinks with the same transactional.id",
        "Kafka accepts writes only from the latest producer with a `transactional.id`. Two sinks \
         with the same id keep fencing each other off, also if they are in two apps that run \
         together, or are destinations of one `@distribution`.",
        "Give each sink, or each `@destination`, its own id in its `optional.configuration`.",
        "@sink(type='kafka', bootstrap.servers='localhost:9092', topic='sums', optional.configuration='transactional.id:shop', @map(type='json'))\n\
         define stream Sums (total long);\n\
         @sink(type='kafka', bootstrap.servers='localhost:9092', topic='orders', optional.configuration='transactional.id:shop', @map(type='json'))\n\
         define stream Orders (id long);",
        "@sink(type='kafka', bootstrap.servers='localhost:9092', topic='sums', optional.configuration='transactional.id:shop-sums', @map(type='json'))\n\
         define stream Sums (total long);\n\
         @sink(type='kafka', bootstrap.servers='localhost:9092', topic='orders', optional.configuration='transactional.id:shop-orders', @map(type='json'))\n\
         define stream Orders (id long);",
    ),
    CodePage::new(
        MISSPELT,
        "an option whose name is misspelt",
        "The component has no such option, but one of nearly that name. Siddhi ignores it and uses the \
         default of the other: an app that was to listen on one port listens on another. Names of \
         options are matched as written, capitals included.",
        "Correct the name. `--lenient` makes this a warning.",
        "@sink(type='log', prefx='S')\n\
         define stream S (a int);",
        "@sink(type='log', prefix='S')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        UNKNOWN,
        "an option that the component does not have",
        "The component has no such option and ignores it, as in Siddhi. Names of options are \
         matched as written, capitals included.",
        "Write the name as `headwater connectors NAME` lists it, or leave the option out.",
        "@sink(type='log', colour='red')\n\
         define stream S (a int);",
        "@sink(type='log', prefix='S')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        IGNORED,
        "an option without effect",
        "The option is known but changes nothing here; the help says why.",
        "Leave it out.",
        "@source(type='file', file.uri='in.csv', tailing='false', timeout='100', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='file', file.uri='in.csv', tailing='false', @map(type='csv'))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        TWICE,
        "an option that is given twice",
        "The last one applies.",
        "Keep the intended one.",
        "@sink(type='log', prefix='a', prefix='b')\n\
         define stream S (a int);",
        "@sink(type='log', prefix='b')\n\
         define stream S (a int);",
    ),
    CodePage::new(
        READ_AS_FALSE,
        "a switch that is neither true nor false",
        "As in Siddhi, any value except `true` is false.",
        "Write `true` or `false`.",
        "@sink(type='file', file.uri='out.json', append='yes', @map(type='json'))\n\
         define stream S (a int);",
        "@sink(type='file', file.uri='out.json', append='true', @map(type='json'))\n\
         define stream S (a int);",
    ),
    CodePage::new(
        UNKNOWN_NESTED,
        "an annotation without meaning in this place",
        "`@source` and `@sink` may contain `@map`, and `@map` may contain `@attributes` or \
         `@payload`. Others are ignored, as in Siddhi.",
        "Correct the name, or move the annotation to where it belongs.",
        "@sink(type='log', @mapp(type='json'))\n\
         define stream S (a int);",
        "@sink(type='log', @map(type='json'))\n\
         define stream S (a int);",
    ),
    CodePage::new(
        EXTRA_MAPPING,
        "a mapping for an attribute that the stream does not have",
        "The entry is ignored, as in Siddhi: the stream has no such attribute.",
        "Take it out, or add the attribute to the stream.",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='0', other='1')))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='in', @map(type='csv', @attributes(a='0')))\n\
         define stream S (a int);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        UNKNOWN_PATTERN,
        "a pattern that the text mapper does not have",
        "`@attributes(x='A[1]')` means group 1 of the pattern `regex.A`. Without the pattern \
         every message is dropped.",
        "Add the pattern, or correct its name.",
        "@source(type='inMemory', topic='in', @map(type='text', regex.A='(.*)', @attributes(a='B[1]')))\n\
         define stream S (a string);\n\
         from S select a insert into Out;",
        "@source(type='inMemory', topic='in', @map(type='text', regex.A='(.*)', @attributes(a='A[1]')))\n\
         define stream S (a string);\n\
         from S select a insert into Out;",
    ),
    CodePage::new(
        UNKNOWN_PROPERTY,
        "a transport property that the source does not have",
        "`trp:name` reads metadata of a message from its source, such as the path of its file. A \
         missing property is null, which drops the event unless the mapper allows nulls.",
        "Use one of the properties listed in the help.",
        "@source(type='file', file.uri='in.csv', tailing='false', @map(type='csv', @attributes(a='0', p='trp:file.pth')))\n\
         define stream S (a int, p string);\n\
         from S select a insert into Out;",
        "@source(type='file', file.uri='in.csv', tailing='false', @map(type='csv', @attributes(a='0', p='trp:file.path')))\n\
         define stream S (a int, p string);\n\
         from S select a insert into Out;",
    ),
];
