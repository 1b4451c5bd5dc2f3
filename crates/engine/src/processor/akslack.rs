//! `#reorder:akslack(t, x, …)`: as `kslack`, with a wait that follows how well windows are covered.

use std::collections::VecDeque;

use event::codec::{Error as StateError, Reader, Writer};
use event::{Batch, Column, Value};

use super::per_key::{PerKey, Rule};
use super::reorder::{Buffer, Settings, discards, long, time_of};
use crate::component::*;
use crate::spec::*;
use crate::window::{RowTypes, Stored};

pub struct AlphaKSlack;

const TS: Param = param("timestamp", Types::LONG, "Time of the event, in ms.");
const TIMEOUT: Param = param(
    "timeout",
    Types::LONG,
    "Releases what waits after so long, in ms.",
)
.constant();
const MAX_K: Param = param("max.k", Types::LONG, "Longest wait, in ms.").constant();
const DISCARD: Param = param(
    "discard.late.arrival",
    Types::BOOL,
    "Drops what comes too late.",
)
.constant();
const FIELD: Param = param(
    "correlation.field",
    Types::NUMBER,
    "Number whose quality decides the wait.",
);
const BATCH: Param = param("batch.size", Types::LONG, "Events between two adjustments.").constant();
const fn processor(
    name: &'static str,
    summary: &'static str,
    overloads: &'static [Overload],
) -> FunctionSpec {
    function(
        FunctionKind::StreamProcessor,
        "reorder",
        name,
        "execution-reorder",
        summary,
        overloads,
        Returns::Nothing,
    )
}

static SPEC: FunctionSpec = runs(
    processor(
        "akslack",
        "Orders events by a wait that follows their quality.",
        &[
            Overload::new(&[TS, FIELD]),
            Overload::new(&[TS, FIELD, BATCH]),
            Overload::new(&[TS, FIELD, BATCH, TIMEOUT]),
            Overload::new(&[TS, FIELD, BATCH, TIMEOUT, MAX_K]),
            Overload::new(&[TS, FIELD, BATCH, TIMEOUT, MAX_K, DISCARD]),
            Overload::new(&[
                TS,
                FIELD,
                BATCH,
                TIMEOUT,
                MAX_K,
                DISCARD,
                param("error.threshold", Types::DOUBLE, "Error allowed.").constant(),
                param("confidence.level", Types::DOUBLE, "How sure that is.").constant(),
            ]),
        ],
    ),
    "define stream S (t long, x double);
from S#reorder:akslack(t, x) select t, x insert into Out;
---
send S 1 1.0
send S 3 2.0
send S 2 3.0
send S 4 4.0
expect Out 1 1.0
expect Out 3 2.0
expect Out 2 3.0
",
);

const NAME: &str = "akslack";

/// Rows between two adjustments, where nothing else is said.
const BATCH_SIZE: i64 = 10_000;

/// Length of the window whose coverage is looked at, ms.
const WINDOW_SIZE: i64 = 10_000_000_000;

/// Weights of the error and of its change.
const PROPORTIONAL: f64 = 0.5;
const DERIVATIVE: f64 = 0.8;

impl Processor for AlphaKSlack {
    fn spec(&self) -> &'static FunctionSpec {
        &SPEC
    }

    fn bind(&self, setup: &ProcessorSetup<'_>) -> Result<Box<dyn ProcessorOperator>, Refused> {
        let double = |at: usize, default: f64| match setup.args.get(at) {
            None => Ok(default),
            Some(arg) => arg
                .constant
                .as_ref()
                .and_then(Value::to_double)
                .ok_or_else(|| Refused(format!("argument {} must be a constant", at + 1))),
        };
        let confidence = double(7, 0.95)?;
        let rule = Adjusted {
            batch_size: long(setup.args, 2, NAME)?.unwrap_or(BATCH_SIZE),
            error: double(6, 0.03)?,
            critical: normal_quantile((1.0 - confidence) / 2.0).abs(),
            settings: Settings {
                timeout: long(setup.args, 3, NAME)?,
                slack_max: long(setup.args, 4, NAME)?.unwrap_or(i64::MAX),
                discards: discards(setup.args),
                types: setup.types.to_vec(),
                times_out_first: true,
                is_partitioned: setup.is_partitioned,
            },
        };
        Ok(PerKey::operator(setup, rule))
    }
}

struct Adjusted {
    batch_size: i64,
    /// Error that is allowed.
    error: f64,
    /// Quantile of the normal distribution at the confidence asked for.
    critical: f64,
    settings: Settings,
}

struct State {
    buffer: Buffer,
    tuning: Tuning,
}

/// What the wait is adjusted by.
struct Tuning {
    alpha: f64,
    /// The slack of the last adjustment; 0: there was none.
    adjusted: i64,
    previous_alpha: f64,
    previous_error: f64,
    /// Rows since the last adjustment.
    count: i64,
    /// Values since the last adjustment.
    values: Vec<f64>,
    /// Times that may lie in a window still, at most [`TIMES_MAX`].
    times: VecDeque<i64>,
}

/// The window is so long that its times would never leave.
const TIMES_MAX: usize = 1_000_000;

impl Stored for State {
    fn new(types: &RowTypes) -> State {
        State {
            buffer: Buffer::new(types),
            tuning: Tuning {
                alpha: 1.0,
                adjusted: 0,
                previous_alpha: 0.0,
                previous_error: 0.0,
                count: 0,
                values: Vec::new(),
                times: VecDeque::new(),
            },
        }
    }

    fn bytes(&self) -> usize {
        let Tuning { values, times, .. } = &self.tuning;
        self.buffer.bytes() + size_of_val(&values[..]) + times.len() * size_of::<i64>()
    }

    fn save(&self, _types: &RowTypes, writer: &mut Writer) {
        self.buffer.save(writer);
        let tuning = &self.tuning;
        for value in [tuning.alpha, tuning.previous_alpha, tuning.previous_error] {
            writer.f64(value);
        }
        writer.i64(tuning.adjusted);
        writer.i64(tuning.count);
        writer.count(tuning.values.len());
        tuning.values.iter().for_each(|&v| writer.f64(v));
        writer.count(tuning.times.len());
        tuning.times.iter().for_each(|&t| writer.i64(t));
    }

    fn restore(types: &RowTypes, reader: &mut Reader<'_>) -> Result<State, StateError> {
        let buffer = Buffer::restore(types, reader)?;
        let mut tuning = Tuning {
            alpha: reader.f64()?,
            previous_alpha: reader.f64()?,
            previous_error: reader.f64()?,
            adjusted: reader.i64()?,
            count: reader.i64()?,
            values: Vec::new(),
            times: VecDeque::new(),
        };
        for _ in 0..reader.count()? {
            tuning.values.push(reader.f64()?);
        }
        for _ in 0..reader.count()? {
            tuning.times.push_back(reader.i64()?);
        }
        Ok(State { buffer, tuning })
    }
}

impl Tuning {
    fn take(&mut self, time: i64, value: f64) {
        if self.times.len() == TIMES_MAX {
            self.times.pop_front();
        }
        self.times.push_back(time);
        self.values.push(value);
    }

    /// A new alpha from how far the coverage is from what the values ask for.
    fn adjust(&mut self, rule: &Adjusted, now: i64, slack: i64) {
        let threshold = coverage_threshold(rule.critical, rule.error, &self.values);
        let coverage = if self.adjusted == 0 {
            1.0
        } else {
            self.coverage(now)
        };
        let error = threshold - coverage;
        let change = PROPORTIONAL * error + DERIVATIVE * (error - self.previous_error);
        self.alpha = (self.previous_alpha + change).abs();
        self.previous_error = error;
        self.previous_alpha = self.alpha;
        self.adjusted = round(self.alpha * slack as f64).min(slack);
        self.count = 0;
        self.values.clear();
    }

    /// The share of a window's rows that came before the window was over; times that no window can
    /// hold any more are forgotten (`WindowCoverage`).
    fn coverage(&mut self, now: i64) -> f64 {
        let high = now.wrapping_sub(self.adjusted);
        let low = high.wrapping_sub(WINDOW_SIZE);
        let (mut is_begun, mut is_over) = (false, false);
        let (mut covered, mut total) = (0u64, 0u64);
        self.times.retain(|&time| {
            is_begun |= low <= time;
            is_over |= high <= time;
            if is_begun && (low..=high).contains(&time) {
                covered += u64::from(!is_over);
                total += 1;
            }
            time > low
        });
        if total == 0 {
            1.0
        } else {
            covered as f64 / total as f64
        }
    }
}

/// `Math.round`.
fn round(value: f64) -> i64 {
    (value + 0.5).floor() as i64
}

/// The smallest share that satisfies both bounds of the allowed error (`WindowCoverage`).
fn coverage_threshold(critical: f64, error: f64, values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (mean - v).powi(2)).sum::<f64>() / count;
    let ratio = (mean.powi(2) + variance.powi(2)) / (count * mean.powi(2));
    let term = critical.powi(2) * ratio.sqrt().powi(2);
    let a = 1.0 + term;
    // The smaller root of `a x² + b x + c`, and of the other bound.
    let root = |b: f64, c: f64| {
        let inner = b.powi(2) - 4.0 * a * c;
        (inner >= 0.0).then(|| {
            let (low, high) = (-b - inner.sqrt(), -b + inner.sqrt());
            (low / (2.0 * a)).min(high / (2.0 * a))
        })
    };
    let lower = root(2.0 * error - 2.0 - term, (1.0 - error).powi(2));
    let upper = root(-(2.0 + 2.0 * error + term), (1.0 + error).powi(2));
    match (lower, upper) {
        (Some(a), Some(b)) => a.min(b),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => 0.0,
    }
}

/// The value below which a normal variable lies with probability `p` (Wichura's AS 241).
fn normal_quantile(p: f64) -> f64 {
    let polynomial = |c: &[f64], x: f64| c.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&CENTRE[0], r) / polynomial(&CENTRE[1], r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let value = if r <= 5.0 {
        polynomial(&MIDDLE[0], r - 1.6) / polynomial(&MIDDLE[1], r - 1.6)
    } else {
        polynomial(&FAR[0], r - 5.0) / polynomial(&FAR[1], r - 5.0)
    };
    if q < 0.0 { -value } else { value }
}

const CENTRE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];

const MIDDLE: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];

const FAR: [[f64; 8]; 2] = [
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_887_9,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_7e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
];

impl Rule for Adjusted {
    type State = State;

    /// `AlphaKSlackExtension`.
    fn process(
        &mut self,
        state: &mut State,
        batch: Batch,
        args: &[Column],
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        let State { buffer, tuning } = state;
        let settings = &self.settings;
        settings.each_row(buffer, &batch, context, |turn, row, out| {
            let value = args[1].value(row).to_double();
            let (Some(time), Some(value)) = (time_of(&args[0], row), value) else {
                return Err("the time or the value of '#reorder:akslack' is null");
            };
            tuning.take(time, value);
            if settings.discards && time < *turn.last_sent {
                return Ok(());
            }
            turn.add(time, row, batch.is_expired(row));
            tuning.count += 1;
            if tuning.count > self.batch_size {
                tuning.adjust(self, time, *turn.slack);
            }
            let slack = |spread: i64| match spread < settings.slack_max {
                true => round(spread as f64 * tuning.alpha),
                false => settings.slack_max,
            };
            turn.advance(time, slack, out);
            Ok(())
        })
    }

    fn on_timer(
        &mut self,
        state: &mut State,
        due: i64,
        context: &mut WindowContext<'_>,
    ) -> Option<Batch> {
        self.settings.look(&mut state.buffer, due, context)
    }

    fn start(&mut self, _state: &mut State, context: &mut WindowContext<'_>) {
        self.settings.start(context);
    }

    fn held(&self, state: &State) -> usize {
        self.settings.held(&state.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution() {
        let check = |p: f64, expect: f64| {
            assert!((normal_quantile(p) - expect).abs() < 1e-13, "{p}");
        };
        check(0.5, 0.0);
        check(0.025, -1.959_963_984_540_054);
        check(0.975, 1.959_963_984_540_054);
        check(1e-4, -3.719_016_485_455_709);
    }
}
