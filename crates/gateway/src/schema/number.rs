//! Numbers as the decimals that they are written as, and values as texts that are equal when the values are.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::Value as Json;

/// `digits` × 10^`exponent`, with no zero at the end of the digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// The shortest decimal of a number; `None`: it is none.
    pub fn of(value: &Json) -> Option<Decimal> {
        let number = value.as_number()?;
        if let Some(whole) = number.as_i128() {
            return Some(Decimal::new(whole < 0, whole.unsigned_abs(), 0));
        }
        // As it is printed: the shortest text that is this number.
        let text = format!("{:e}", number.as_f64()?);
        let (mantissa, exponent) = text.split_once('e')?;
        let is_negative = mantissa.starts_with('-');
        let (whole, rest) = mantissa
            .trim_start_matches('-')
            .split_once('.')
            .unwrap_or((mantissa.trim_start_matches('-'), ""));
        let digits = format!("{whole}{rest}").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(rest.len()).ok()?;
        Some(Decimal::new(is_negative, digits, exponent))
    }

    fn new(is_negative: bool, mut digits: u128, mut exponent: i32) -> Decimal {
        if digits == 0 {
            return Decimal {
                is_negative: false,
                digits: 0,
                exponent: 0,
            };
        }
        while digits.is_multiple_of(10) {
            (digits, exponent) = (digits / 10, exponent + 1);
        }
        Decimal {
            is_negative,
            digits,
            exponent,
        }
    }

    pub fn is_whole(self) -> bool {
        self.exponent >= 0
    }

    pub fn is_positive(self) -> bool {
        !self.is_negative && self.digits > 0
    }

    /// Is it so many times `of`, which is above 0?
    pub fn is_multiple_of(self, of: Decimal) -> bool {
        // Below the exponent of what it is to be a multiple of, nothing may be left.
        let shift = of.exponent - self.exponent;
        let (digits, of_digits, more) = match u32::try_from(shift) {
            Ok(shift) => match 10_u128
                .checked_pow(shift)
                .and_then(|ten| of.digits.checked_mul(ten))
            {
                Some(of_digits) => (self.digits, of_digits, 0),
                // It is larger than any number that is not 0 and has its end so far down.
                None => return self.digits == 0,
            },
            Err(_) => (self.digits, of.digits, -shift),
        };
        let mut rest = digits % of_digits;
        for _ in 0..more {
            if rest == 0 {
                break;
            }
            match rest.checked_mul(10) {
                Some(ten) => rest = ten % of_digits,
                None => return false,
            }
        }
        rest == 0
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let sign = |one: &Decimal| match (one.digits, one.is_negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        };
        let signs = sign(self).cmp(&sign(other));
        if signs != Ordering::Equal || self.digits == 0 {
            return signs;
        }
        let sizes = size(self).cmp(&size(other)).then_with(|| {
            // As many places before the point: the one with fewer digits gets zeros, which fit.
            let low = self.exponent.min(other.exponent);
            let scaled = |one: &Decimal| {
                let ten = 10_u128.checked_pow(one.exponent.abs_diff(low));
                ten.and_then(|ten| one.digits.checked_mul(ten))
                    .unwrap_or(u128::MAX)
            };
            scaled(self).cmp(&scaled(other))
        });
        match self.is_negative {
            true => sizes.reverse(),
            false => sizes,
        }
    }
}

/// Places before the point.
fn size(one: &Decimal) -> i64 {
    i64::from(one.digits.ilog10()) + i64::from(one.exponent)
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A text that is the same for two values when they are equal: numbers by their value, members in order.
pub(super) fn canonical(value: &Json) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Number(_) => match Decimal::of(value) {
            Some(one) => {
                let sign = if one.is_negative { "-" } else { "" };
                // Writing into a text cannot fail.
                write!(out, "{sign}{}e{}", one.digits, one.exponent).ok();
            }
            None => out.push_str(&value.to_string()),
        },
        Json::Array(items) => {
            out.push('[');
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            out.push('{');
            for name in names {
                out.push_str(&Json::from(name.as_str()).to_string());
                out.push(':');
                write(&members[name.as_str()], out);
                out.push(',');
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}
