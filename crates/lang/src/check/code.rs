//! The codes of the checker, by area. What each means stands in `codes/check.rs`; E05xx are those of
//! options.

pub(super) use crate::codes::option::{BAD_VALUE, MISSING as MISSING_OPTION};

// Names.
pub(super) const UNKNOWN_STREAM: &str = "E0201";
pub(super) const USED_TOO_EARLY: &str = "E0202";
pub(super) const UNKNOWN_ATTRIBUTE: &str = "E0203";
pub(super) const UNKNOWN_PREFIX: &str = "E0204";
pub(super) const AMBIGUOUS_ATTRIBUTE: &str = "E0205";
pub(super) const UNKNOWN_FUNCTION: &str = "E0206";
pub(super) const UNKNOWN_WINDOW: &str = "E0207";
pub(super) const UNKNOWN_STREAM_FUNCTION: &str = "E0208";
pub(super) const UNKNOWN_TABLE: &str = "E0209";
pub(super) const INNER_OUTSIDE: &str = "E0210";
pub(super) const NO_FAULT_STREAM: &str = "E0211";
pub(super) const NOT_SELECTED: &str = "E0212";
pub(super) const EVENT_AS_VALUE: &str = "E0213";
pub(super) const GROUP_BY_ALIAS: &str = "E0214";
pub(super) const NOT_A_STREAM: &str = "E0215";
pub(super) const NOT_A_TABLE: &str = "E0216";
pub(super) const NOT_A_TARGET: &str = "E0217";
pub(super) const NOT_A_STORE: &str = "E0218";

// Types.
pub(super) const NOT_COMPARABLE: &str = "E0301";
pub(super) const NOT_ORDERED: &str = "E0302";
pub(super) const NO_ARITHMETIC: &str = "E0303";
pub(super) const NOT_A_CONDITION: &str = "E0304";
pub(super) const WRONG_ARGUMENTS: &str = "E0305";
pub(super) const AGGREGATOR_HERE: &str = "E0306";
pub(super) const ROW_COUNT: &str = "E0307";
pub(super) const TOO_DEEP: &str = "E0308";
pub(super) const OTHER_ROW: &str = "E0309";
pub(super) const BAD_REGEX: &str = "E0311";
pub(super) const ARITHMETIC_FAILS: &str = "W0310";

// Definitions.
pub(super) const NAME_TAKEN: &str = "E0401";
pub(super) const DUPLICATE_ATTRIBUTE: &str = "E0402";
pub(super) const MARKED_DEFINITION: &str = "E0403";
pub(super) const QUERY_NAME_TAKEN: &str = "E0404";
pub(super) const KEY_ATTRIBUTE: &str = "E0405";
pub(super) const INDEX_BY: &str = "E0406";
pub(super) const INDEX_OF_SEVERAL: &str = "E0407";
pub(super) const ANNOTATION_AGAIN: &str = "E0408";
pub(super) const ANNOTATION_HERE: &str = "E0409";
pub(super) const APP_ASYNC: &str = "E0410";
pub(super) const DEFINED_AGAIN: &str = "W0411";
pub(super) const UNKNOWN_ANNOTATION: &str = "W0412";
pub(super) const BAD_CRON: &str = "W0413";
pub(super) const ANNOTATION_WITHOUT_EFFECT: &str = "W0414";
pub(super) const APP_ANNOTATION_AGAIN: &str = "W0415";

// Patterns and joins by reference.
pub(super) const REFERENCE_TAKEN: &str = "W0601";
pub(super) const LATER_EVENT: &str = "E0602";
pub(super) const BAD_COUNT: &str = "E0603";

// Tables and aggregations.
pub(super) const NOT_IN_TABLE: &str = "E0701";
pub(super) const DELETE_WITHOUT_ON: &str = "E0702";
pub(super) const AGGREGATOR_IN_AGGREGATION: &str = "E0703";
pub(super) const AGGREGATE_OF_EXPRESSION: &str = "E0704";
pub(super) const AGGREGATE_BY: &str = "E0705";
pub(super) const WEEKS: &str = "E0706";
pub(super) const DURATIONS_REVERSED: &str = "E0707";
pub(super) const PER_VALUE: &str = "E0708";
pub(super) const WITHIN_VALUE: &str = "E0709";
pub(super) const RETENTION: &str = "E0710";
pub(super) const NO_SHARD_ID: &str = "E0711";
pub(super) const SET_OTHER: &str = "W0712";
pub(super) const SET_TYPE: &str = "W0713";
pub(super) const PER_NOT_KEPT: &str = "W0714";
pub(super) const SHARD_ID_UNKNOWN: &str = "W0715";

// Queries.
pub(super) const SELECTED_TWICE: &str = "E0801";
pub(super) const SELECT_ALL_CLASH: &str = "E0802";
pub(super) const WINDOW_HERE: &str = "E0803";
pub(super) const SECOND_WINDOW: &str = "E0804";
pub(super) const SNAPSHOT_EVENTS: &str = "E0805";
pub(super) const STATIC_JOIN: &str = "E0806";
pub(super) const STATIC_TRIGGER: &str = "E0807";
pub(super) const HANDLER_ON_TABLE: &str = "E0808";
pub(super) const RANGE_HERE: &str = "E0809";
pub(super) const RANGE_MISSING: &str = "E0810";
pub(super) const EMPTY_PARTITION: &str = "E0811";
pub(super) const ANONYMOUS_INPUT: &str = "E0812";
pub(super) const NOT_SEARCHABLE: &str = "W0813";

// What is not there, or does not run yet.
pub(super) const UNSUPPORTED_COMPONENT: &str = "E0901";
pub(super) const COMPONENT_PENDING: &str = "W0902";
pub(super) const FEATURE_PENDING: &str = "W0903";
