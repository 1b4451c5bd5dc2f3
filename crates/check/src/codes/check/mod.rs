//! Codes of the checker, by area; E05xx, those of options, stand in `option`.

mod definitions;
mod names;
mod queries;
mod rulings;
mod tables;
mod types;
mod unsupported;

use super::CodePage;

pub use super::option::{BAD_VALUE, MISSING as MISSING_OPTION};

// Names.
pub const UNKNOWN_STREAM: &str = "E0201";
pub const USED_TOO_EARLY: &str = "E0202";
pub const UNKNOWN_ATTRIBUTE: &str = "E0203";
pub const UNKNOWN_PREFIX: &str = "E0204";
pub const AMBIGUOUS_ATTRIBUTE: &str = "E0205";
pub const UNKNOWN_FUNCTION: &str = "E0206";
pub const UNKNOWN_WINDOW: &str = "E0207";
pub const UNKNOWN_STREAM_FUNCTION: &str = "E0208";
pub const UNKNOWN_TABLE: &str = "E0209";
pub const INNER_OUTSIDE: &str = "E0210";
pub const NO_FAULT_STREAM: &str = "E0211";
pub const NOT_SELECTED: &str = "E0212";
pub const EVENT_AS_VALUE: &str = "E0213";
pub const GROUP_BY_ALIAS: &str = "E0214";
pub const NOT_A_STREAM: &str = "E0215";
pub const NOT_A_TABLE: &str = "E0216";
pub const NOT_A_TARGET: &str = "E0217";
pub const NOT_A_STORE: &str = "E0218";
pub const UNREAD_STREAM: &str = "W0219";

// Types.
pub const NOT_COMPARABLE: &str = "E0301";
pub const NOT_ORDERED: &str = "E0302";
pub const NO_ARITHMETIC: &str = "E0303";
pub const NOT_A_CONDITION: &str = "E0304";
pub const WRONG_ARGUMENTS: &str = "E0305";
pub const AGGREGATOR_HERE: &str = "E0306";
pub const ROW_COUNT: &str = "E0307";
/// Its page is that of the parser, which has the same limit for brackets.
pub const TOO_DEEP: &str = "E0136";
pub const OTHER_ROW: &str = "E0309";
pub const BAD_REGEX: &str = "E0311";
pub const SCRIPT_FAULT: &str = "E0312";
pub const ARITHMETIC_FAILS: &str = "W0310";

// Definitions.
pub const NAME_TAKEN: &str = "E0401";
pub const DUPLICATE_ATTRIBUTE: &str = "E0402";
pub const MARKED_DEFINITION: &str = "E0403";
pub const QUERY_NAME_TAKEN: &str = "E0404";
pub const KEY_ATTRIBUTE: &str = "E0405";
pub const INDEX_BY: &str = "E0406";
pub const INDEX_OF_SEVERAL: &str = "E0407";
pub const ANNOTATION_AGAIN: &str = "E0408";
pub const ANNOTATION_HERE: &str = "E0409";
pub const APP_ASYNC: &str = "E0410";
pub const DEFINED_AGAIN: &str = "W0411";
pub const UNKNOWN_ANNOTATION: &str = "W0412";
pub const BAD_CRON: &str = "W0413";
pub const ANNOTATION_WITHOUT_EFFECT: &str = "W0414";
pub const APP_ANNOTATION_AGAIN: &str = "W0415";
pub const FAULT_STREAM_MISSING: &str = "W0416";

// Patterns and joins by reference.
pub const REFERENCE_TAKEN: &str = "W0601";
pub const LATER_EVENT: &str = "E0602";
pub const BAD_COUNT: &str = "W0603";

// Tables and aggregations.
pub const NOT_IN_TABLE: &str = "E0701";
pub const DELETE_WITHOUT_ON: &str = "E0702";
pub const AGGREGATOR_IN_AGGREGATION: &str = "E0703";
pub const AGGREGATE_OF_EXPRESSION: &str = "E0704";
pub const AGGREGATE_BY: &str = "E0705";
pub const DURATIONS_REVERSED: &str = "E0707";
pub const PER_VALUE: &str = "E0708";
pub const WITHIN_VALUE: &str = "E0709";
pub const RETENTION: &str = "E0710";
pub const NO_SHARD_ID: &str = "E0711";
pub const SET_OTHER: &str = "W0712";
pub const SET_TYPE: &str = "W0713";
pub const PER_NOT_KEPT: &str = "W0714";
pub const SHARD_ID_UNKNOWN: &str = "W0715";

// Queries.
pub const SELECTED_TWICE: &str = "E0801";
pub const SELECT_ALL_CLASH: &str = "E0802";
pub const WINDOW_HERE: &str = "E0803";
pub const SNAPSHOT_EVENTS: &str = "E0805";
pub const STATIC_JOIN: &str = "E0806";
pub const STATIC_TRIGGER: &str = "W0807";
pub const HANDLER_ON_TABLE: &str = "E0808";
pub const RANGE_HERE: &str = "E0809";
pub const RANGE_MISSING: &str = "E0810";
pub const ANONYMOUS_INPUT: &str = "E0812";
pub const NOT_SEARCHABLE: &str = "W0813";
pub const FILTER_IGNORED: &str = "W0814";
pub const PARTITIONED_TWICE: &str = "E0815";
pub const NOTHING_FROM_OUTSIDE: &str = "E0816";
pub const FUNCTION_IN_PATTERN: &str = "E0817";

// What is not there, or does not run yet.
pub const UNSUPPORTED_COMPONENT: &str = "E0901";
pub const COMPONENT_PENDING: &str = "W0902";

// Where the output is not that of Siddhi 5.1, by the number of the ruling.
pub const RULING_BATCH_PER_KEY: &str = "W1023";
pub const RULING_BATCHES_IN_JOIN: &str = "W1028";
pub const RULING_SEQUENCE_COUNT: &str = "W1030";
pub const RULING_EMPTY_COUNT: &str = "W1032";
pub const RULING_LONE_AND: &str = "W1033";
pub const RULING_WITHIN_AT_START: &str = "W1034";
pub const RULING_SET_BY_KEY: &str = "W1038";
pub const RULING_HANDLED_AGGREGATION: &str = "W1044";
pub const RULING_SHARED_BY_GROUPS: &str = "W1055";
pub const RULING_CONDITION_PER_KEY: &str = "W1070";
pub const RULING_RUNNING_BUCKET: &str = "W1071";
pub const RULING_SHARED_ABSENCE: &str = "W1072";
pub const RULING_KEY_CHANGED: &str = "W1073";
pub const RULING_SET_BY_ROW: &str = "W1074";
pub const RULING_RETENTION_KEPT: &str = "W1077";
pub const RULING_UNTIMED_LOOKUP: &str = "W1078";
pub const RULING_SEARCHED_STAYS: &str = "W1079";
pub const RULING_FOUND_AND_KEPT: &str = "W1080";
pub const RULING_PROBED_BACKWARDS: &str = "W1081";
pub const RULING_LOST_END: &str = "W1082";
pub const RULING_STAYS_IN_PICTURE: &str = "W1083";

/// The pages, by area.
pub(super) const AREAS: [&[CodePage]; 7] = [
    names::CODES,
    types::CODES,
    definitions::CODES,
    tables::CODES,
    queries::CODES,
    unsupported::CODES,
    rulings::CODES,
];
