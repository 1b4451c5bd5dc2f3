//! Extensions that are archived or rarely used: names and the attributes they add, argument lists
//! only as far as they are documented.

use event::Type;

use super::{DOUBLE, STRING, known, param};
use lang::ast::Literal;
use plan::spec::{Argument, FunctionKind, FunctionSpec, Overload, Param, Returns, Types};

const VALUE: Param = param("value", Types::ANY, "The value.");
const NUMBER: Param = param("value", Types::NUMBER, "The number.");
const ERROR: Param = param("relative.error", Types::REAL, "Error allowed.").constant();
const CONFIDENCE: Param = param("confidence", Types::REAL, "How sure that is.").constant();
const SETTING: Param = param(
    "setting",
    Types::ANY,
    "Settings and features in their order.",
);

/// Any arguments, at least one.
const ANY: &[Overload] = &[Overload::repeating(&[SETTING], 1)];
const ONE: &[Overload] = &[Overload::new(&[VALUE])];
const SKETCH: &[Overload] = &[
    Overload::new(&[VALUE]),
    Overload::new(&[VALUE, ERROR]),
    Overload::new(&[VALUE, ERROR, CONFIDENCE]),
];
const EXTREME: &[Overload] = &[Overload::new(&[
    param("attribute", Types::NUMBER, "The value."),
    param(
        "length.or.time",
        Types::INT_LONG,
        "How many events, or how long in ms.",
    )
    .constant(),
])];

const fn processor(
    namespace: &'static str,
    name: &'static str,
    origin: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    adds: &'static [(&'static str, Type)],
) -> FunctionSpec {
    FunctionSpec {
        adds,
        ..known(
            FunctionKind::StreamProcessor,
            namespace,
            name,
            origin,
            summary,
            overloads,
            Returns::Nothing,
        )
    }
}

const fn computed(
    namespace: &'static str,
    name: &'static str,
    origin: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
    adds_with: fn(&[Argument]) -> Vec<(String, Type)>,
) -> FunctionSpec {
    FunctionSpec {
        adds_with: Some(adds_with),
        ..processor(namespace, name, origin, summary, overloads, &[])
    }
}

const fn extreme(name: &'static str, summary: &'static str) -> FunctionSpec {
    known(
        FunctionKind::Window,
        "extrema",
        name,
        "execution-extrema",
        summary,
        EXTREME,
        Returns::Nothing,
    )
}

const fn learner(
    name: &'static str,
    summary: &'static str,
    adds: &'static [(&'static str, Type)],
) -> FunctionSpec {
    processor(
        "streamingml",
        name,
        "execution-streamingml",
        summary,
        ANY,
        adds,
    )
}

const fn series(name: &'static str, summary: &'static str) -> FunctionSpec {
    computed(
        "timeseries",
        name,
        "execution-timeseries",
        summary,
        ANY,
        betas,
    )
}

/// The largest k that attributes are made for; a larger one is a mistake.
const RANKS_MAX: i64 = 1_000;

/// `top1Element, top1Frequency, …` (`Top…` in releases for Siddhi 3) up to the last whole number
/// among the constants.
fn ranks(arguments: &[Argument], prefix: &str) -> Vec<(String, Type)> {
    let k = arguments.iter().rev().find_map(|a| match a.literal {
        Some(Literal::Int(k)) => Some(i64::from(k)),
        Some(Literal::Long(k)) => Some(k),
        _ => None,
    });
    let element = arguments.first().map_or(Type::Object, |a| a.ty);
    (1..=k.unwrap_or(0).clamp(0, RANKS_MAX))
        .flat_map(|rank| {
            [
                (format!("{prefix}{rank}Element"), element),
                (format!("{prefix}{rank}Frequency"), Type::Long),
            ]
        })
        .collect()
}

fn top_ranks(arguments: &[Argument]) -> Vec<(String, Type)> {
    ranks(arguments, "top")
}

fn bottom_ranks(arguments: &[Argument]) -> Vec<(String, Type)> {
    ranks(arguments, "bottom")
}

/// One coordinate of the centre for each feature, a feature being an attribute.
fn centroid(arguments: &[Argument]) -> Vec<(String, Type)> {
    let features = arguments.iter().filter(|a| a.attribute).count();
    std::iter::once("euclideanDistanceToClosestCentroid".to_owned())
        .chain((1..=features).map(|i| format!("closestCentroidCoordinate{i}")))
        .map(|name| (name, Type::Double))
        .collect()
}

/// Error and coefficients of a regression, one for each attribute.
fn betas(arguments: &[Argument]) -> Vec<(String, Type)> {
    let attributes = arguments.iter().filter(|a| a.attribute).count();
    std::iter::once("stderr".to_owned())
        .chain((0..attributes).map(|i| format!("beta{i}")))
        .map(|name| (name, Type::Double))
        .chain([
            ("forecastY".to_owned(), Type::Double),
            ("outlier".to_owned(), Type::Bool),
        ])
        .collect()
}

pub const FUNCTIONS: &[FunctionSpec] = &[
    learner(
        "bayesianRegression",
        "Predicts a value by a Bayesian model.",
        &[("prediction", Type::Double), ("confidence", Type::Double)],
    ),
    learner(
        "updateBayesianRegression",
        "Trains a Bayesian model.",
        &[("loss", Type::Double)],
    ),
    learner(
        "perceptronClassifier",
        "Predicts a class by a perceptron.",
        &[
            ("prediction", Type::Bool),
            ("confidenceLevel", Type::Double),
        ],
    ),
    learner(
        "updatePerceptronClassifier",
        "Trains a perceptron.",
        &[("featureWeight", Type::Double)],
    ),
    computed(
        "streamingml",
        "kMeansIncremental",
        "execution-streamingml",
        "Finds the cluster of each event, learning with each.",
        ANY,
        centroid,
    ),
    computed(
        "streamingml",
        "kMeansMiniBatch",
        "execution-streamingml",
        "Finds the cluster of each event, learning in batches.",
        ANY,
        centroid,
    ),
    processor(
        "approximate",
        "count",
        "execution-approximate",
        "About how often a value occurred.",
        SKETCH,
        &[
            ("count", Type::Long),
            ("countLowerBound", Type::Long),
            ("countUpperBound", Type::Long),
        ],
    ),
    processor(
        "approximate",
        "distinctCount",
        "execution-approximate",
        "About how many different values the window holds.",
        SKETCH,
        &[
            ("distinctCount", Type::Long),
            ("distinctCountLowerBound", Type::Long),
            ("distinctCountUpperBound", Type::Long),
        ],
    ),
    processor(
        "approximate",
        "distinctCountEver",
        "execution-approximate",
        "About how many different values there were.",
        SKETCH,
        &[
            ("distinctCountEver", Type::Long),
            ("distinctCountEverLowerBound", Type::Long),
            ("distinctCountEverUpperBound", Type::Long),
        ],
    ),
    computed(
        "extrema",
        "topK",
        "execution-extrema",
        "The k most frequent values.",
        ANY,
        top_ranks,
    ),
    computed(
        "extrema",
        "bottomK",
        "execution-extrema",
        "The k least frequent values.",
        ANY,
        bottom_ranks,
    ),
    computed(
        "extrema",
        "topKLengthBatch",
        "execution-extrema",
        "The k most frequent values of each n events.",
        ANY,
        top_ranks,
    ),
    computed(
        "extrema",
        "bottomKLengthBatch",
        "execution-extrema",
        "The k least frequent values of each n events.",
        ANY,
        bottom_ranks,
    ),
    computed(
        "extrema",
        "topKTimeBatch",
        "execution-extrema",
        "The k most frequent values of each T.",
        ANY,
        top_ranks,
    ),
    computed(
        "extrema",
        "bottomKTimeBatch",
        "execution-extrema",
        "The k least frequent values of each T.",
        ANY,
        bottom_ranks,
    ),
    processor(
        "extrema",
        "minMax",
        "execution-extrema",
        "Turning points of a curve.",
        ANY,
        &[
            ("extremaType", Type::String),
            ("preChange", Type::Double),
            ("postChange", Type::Double),
        ],
    ),
    processor(
        "extrema",
        "kalmanMinMax",
        "execution-extrema",
        "Turning points of a curve smoothed by a Kalman filter.",
        ANY,
        &[("extremaType", Type::String)],
    ),
    processor(
        "extrema",
        "kernelMinMax",
        "execution-extrema",
        "Turning points of a curve smoothed by a kernel.",
        ANY,
        &[("extremaType", Type::String)],
    ),
    series("regress", "Coefficients of a regression."),
    series("forecast", "The next value by a regression."),
    series("outlier", "Whether a value lies far from a regression."),
    series(
        "lengthTimeRegress",
        "Coefficients over the last n events and T.",
    ),
    series(
        "lengthTimeForecast",
        "The next value, over the last n events and T.",
    ),
    series(
        "lengthTimeOutlier",
        "Whether a value lies far, over the last n events and T.",
    ),
    processor(
        "timeseries",
        "kalmanMinMax",
        "execution-timeseries",
        "Turning points of a curve smoothed by a Kalman filter.",
        ANY,
        &[("extremaType", Type::String)],
    ),
    processor(
        "timeseries",
        "kernelMinMax",
        "execution-timeseries",
        "Turning points of a curve smoothed by a kernel.",
        ANY,
        &[("extremaType", Type::String)],
    ),
    processor(
        "priority",
        "time",
        "execution-priority",
        "A priority that decays with time.",
        &[Overload::new(&[
            param("unique.key", Types::ANY, "Whose priority it is."),
            param("priority", Types::INT_LONG, "The priority."),
            param(
                "timeout",
                Types::INT_LONG,
                "After so long it goes down by one, in ms.",
            )
            .constant(),
        ])],
        &[
            ("priorityKey", Type::String),
            ("currentPriority", Type::Long),
        ],
    ),
    processor(
        "geo",
        "geocode",
        "execution-geo",
        "Coordinates of an address.",
        ONE,
        &[
            ("formattedAddress", Type::String),
            ("latitude", Type::Double),
            ("longitude", Type::Double),
        ],
    ),
    processor(
        "geo",
        "reversegeocode",
        "execution-geo",
        "Address of coordinates.",
        &[Overload::new(&[
            param("latitude", Types::DOUBLE, "Latitude."),
            param("longitude", Types::DOUBLE, "Longitude."),
        ])],
        &[
            ("streetNumber", Type::String),
            ("neighborhood", Type::String),
            ("route", Type::String),
            ("administrativeAreaLevelTwo", Type::String),
            ("administrativeAreaLevelOne", Type::String),
            ("country", Type::String),
            ("countryCode", Type::String),
            ("postalCode", Type::String),
            ("formattedAddress", Type::String),
        ],
    ),
    processor(
        "geo",
        "geocoordinate",
        "execution-geo",
        "Coordinates of an internet address.",
        ONE,
        &[("latitude", Type::Double), ("longitude", Type::Double)],
    ),
    known(
        FunctionKind::Scalar,
        "geo",
        "findCityFromIP",
        "execution-geo",
        "City of an internet address.",
        &[Overload::new(&[param("ip", Types::STRING, "The address.")])],
        STRING,
    ),
    known(
        FunctionKind::Scalar,
        "geo",
        "findCountryFromIP",
        "execution-geo",
        "Country of an internet address.",
        &[Overload::new(&[param("ip", Types::STRING, "The address.")])],
        STRING,
    ),
    known(
        FunctionKind::Scalar,
        "kf",
        "kalmanFilter",
        "execution-kalmanfilter",
        "A value smoothed by a Kalman filter.",
        &[Overload::repeating(&[NUMBER], 1)],
        DOUBLE,
    ),
    known(
        FunctionKind::Aggregator,
        "stats",
        "median",
        "execution-stats",
        "The value in the middle.",
        &[Overload::new(&[NUMBER])],
        DOUBLE,
    ),
    extreme(
        "maxByLength",
        "The event with the largest value of the last n.",
    ),
    extreme(
        "minByLength",
        "The event with the smallest value of the last n.",
    ),
    extreme(
        "maxByLengthBatch",
        "The event with the largest value of each n.",
    ),
    extreme(
        "minByLengthBatch",
        "The event with the smallest value of each n.",
    ),
    extreme(
        "maxbytime",
        "The event with the largest value of the last T.",
    ),
    extreme(
        "minbytime",
        "The event with the smallest value of the last T.",
    ),
    extreme(
        "maxbytimebatch",
        "The event with the largest value of each T.",
    ),
    extreme(
        "minbytimebatch",
        "The event with the smallest value of each T.",
    ),
];
