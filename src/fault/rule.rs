//! A rule of a plan: which calls meet which fault.

use std::{fmt, str::FromStr};

use super::Fault;
use crate::{call::Operation, money::shorten, ticket::OrderId};

/// A probability, in whole billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u32);

/// A text that is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a rate; a rate is a decimal from 0 to 1 with at most nine places, such as 0.15"
)]
pub struct RateError {
    /// The text, shortened.
    pub text: String,
}

impl Rate {
    /// Billionths in a whole.
    pub const WHOLE: u32 = 1_000_000_000;

    /// A rate of so many billionths; none past a whole.
    pub const fn from_billionths(billionths: u32) -> Option<Self> {
        if billionths <= Self::WHOLE { Some(Self(billionths)) } else { None }
    }

    /// The rate in billionths.
    pub const fn billionths(self) -> u32 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let parsed = fixed_point(text, 9)
            .filter(|_| text.split('.').next().is_some_and(|whole| whole.len() == 1))
            .and_then(|billionths| u32::try_from(billionths).ok())
            .and_then(Self::from_billionths);
        parsed.ok_or_else(|| RateError { text: shorten(text) })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:09}", self.0 % Self::WHOLE);
        let decimals = decimals.trim_end_matches('0');
        let whole = self.0 / Self::WHOLE;
        if decimals.is_empty() { write!(f, "{whole}") } else { write!(f, "{whole}.{decimals}") }
    }
}

/// A range of attempts: `3`, `1-4`, or `5-` for all from the fifth on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    first: u32,
    last: Option<u32>,
}

/// A text that is not a range of attempts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a range of attempts; write `3`, `1-4` or `5-`, counted from 1")]
pub struct AttemptsError {
    /// The text, shortened.
    pub text: String,
}

impl Attempts {
    /// One attempt, counted from 1.
    pub const fn only(attempt: u32) -> Option<Self> {
        if attempt == 0 { None } else { Some(Self { first: attempt, last: Some(attempt) }) }
    }

    /// Whether the range holds `attempt`.
    pub fn contains(self, attempt: u32) -> bool {
        self.first <= attempt && self.last.is_none_or(|last| attempt <= last)
    }
}

impl FromStr for Attempts {
    type Err = AttemptsError;

    fn from_str(text: &str) -> Result<Self, AttemptsError> {
        let number = |part: &str| {
            let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u32>().ok().filter(|number| is_plain && *number > 0)
        };
        let parsed = match text.split_once('-') {
            None => number(text).and_then(Self::only),
            Some((first, "")) => number(first).map(|first| Self { first, last: None }),
            Some((first, last)) => match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => {
                    Some(Self { first, last: Some(last) })
                }
                _ => None,
            },
        };
        parsed.ok_or_else(|| AttemptsError { text: shorten(text) })
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) if last == self.first => write!(f, "{last}"),
            Some(last) => write!(f, "{}-{last}", self.first),
            None => write!(f, "{}-", self.first),
        }
    }
}

/// The operations that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// All of them.
    All,
    /// One.
    One(Operation),
}

impl On {
    /// The word in plans.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "*",
            Self::One(operation) => operation.as_str(),
        }
    }

    /// The operations.
    pub fn operations(self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().filter(move |operation| self.includes(*operation))
    }

    /// Whether the rule is about `operation`.
    pub fn includes(self, operation: Operation) -> bool {
        match self {
            Self::All => true,
            Self::One(only) => only == operation,
        }
    }
}

impl FromStr for On {
    type Err = OnError;

    fn from_str(text: &str) -> Result<Self, OnError> {
        match Operation::from_word(text) {
            Some(operation) => Ok(Self::One(operation)),
            None if text == "*" => Ok(Self::All),
            None => Err(OnError { text: shorten(text) }),
        }
    }
}

/// A text that names no operations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`on` is `{text}`; it is `get_order`, `refund` or `*`")]
pub struct OnError {
    /// The text, shortened.
    pub text: String,
}

/// The mean length of a stretch of attempts, in whole thousandths; 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeanLength(u32);

/// A text that is not a mean length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a mean length; a mean length is a decimal from 1 to 1000000 with at most three places, such as 2.5"
)]
pub struct MeanLengthError {
    /// The text, shortened.
    pub text: String,
}

impl MeanLength {
    const ONE: u32 = 1000;
    const MAX: u32 = 1_000_000 * Self::ONE;

    /// A mean of so many thousandths of an attempt; none under 1 and over a million.
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths >= Self::ONE && thousandths <= Self::MAX {
            Some(Self(thousandths))
        } else {
            None
        }
    }

    /// The mean in thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl FromStr for MeanLength {
    type Err = MeanLengthError;

    fn from_str(text: &str) -> Result<Self, MeanLengthError> {
        let thousandths = fixed_point(text, 3).and_then(|number| u32::try_from(number).ok());
        thousandths
            .and_then(Self::from_thousandths)
            .ok_or_else(|| MeanLengthError { text: shorten(text) })
    }
}

impl fmt::Display for MeanLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:03}", self.0 % Self::ONE);
        let decimals = decimals.trim_end_matches('0');
        let whole = self.0 / Self::ONE;
        if decimals.is_empty() { write!(f, "{whole}") } else { write!(f, "{whole}.{decimals}") }
    }
}

/// Digits with at most one point between them, as a whole number of units of so many places.
fn fixed_point(text: &str, places: usize) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').map_or((text, None), |(w, d)| (w, Some(d)));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || whole.len() > 9 || !decimals.is_none_or(is_number) {
        return None;
    }
    let decimals = decimals.unwrap_or("");
    let padding = places.checked_sub(decimals.len())?;
    let digits = whole.bytes().chain(decimals.bytes()).chain(std::iter::repeat_n(b'0', padding));
    Some(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// A chain of two states over the attempts of an operation on an order: good stretches and bad ones.
///
/// The first attempt is in the bad state as often as the means have it in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Mean length of a good stretch.
    pub good: MeanLength,
    /// Mean length of a bad one.
    pub bad: MeanLength,
}

/// What makes a rule strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A bad stretch; this beats every rate.
    Burst(Burst),
    /// The call's draw.
    Rate(Rate),
    /// The call's attempt; this beats every rate.
    Attempts(Attempts),
}

/// Which calls meet which fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The operations.
    pub on: On,
    /// The order; all of them if none is named.
    pub order: Option<OrderId>,
    /// The fault.
    pub fault: Fault,
    /// When it strikes.
    pub trigger: Trigger,
}

impl Rule {
    /// A rule that lets `fault` strike at a rate, on every order.
    pub const fn rate(on: On, fault: Fault, rate: Rate) -> Self {
        Self { on, order: None, fault, trigger: Trigger::Rate(rate) }
    }

    /// A rule that lets `fault` strike those attempts of an operation on an order.
    pub const fn scripted(
        operation: Operation,
        order: OrderId,
        attempts: Attempts,
        fault: Fault,
    ) -> Self {
        Self {
            on: On::One(operation),
            order: Some(order),
            fault,
            trigger: Trigger::Attempts(attempts),
        }
    }

    /// Whether the rule can strike at all.
    pub fn is_armed(&self) -> bool {
        self.trigger != Trigger::Rate(Rate(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_exact_and_reads_back() {
        for (text, billionths) in [
            ("0", 0),
            ("0.0", 0),
            ("0.15", 150_000_000),
            ("0.1", 100_000_000),
            ("0.000000001", 1),
            ("0.999999999", 999_999_999),
            ("1", 1_000_000_000),
            ("1.0", 1_000_000_000),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.billionths(), billionths, "{text}");
            assert_eq!(rate.to_string().parse(), Ok(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_decimal_from_0_to_1_is_no_rate() {
        for text in [
            "",
            ".",
            ".5",
            "0.",
            "-0.1",
            "1.1",
            "2",
            "15",
            "1e-1",
            "0.0000000001",
            "NaN",
            "+0.1",
            "00.1",
            "0,1",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mean_length_is_1_or_more() {
        for (text, thousandths) in
            [("1", 1000), ("2.5", 2500), ("1.001", 1001), ("1000000", 1_000_000_000)]
        {
            let mean: MeanLength = text.parse().unwrap();
            assert_eq!((mean.thousandths(), mean.to_string().as_str()), (thousandths, text));
        }
        for text in ["", "0", "0.999", "-1", "1.0001", "1e3", "1000000.1", ".5", "99999999999"] {
            assert!(text.parse::<MeanLength>().is_err(), "{text}");
        }
    }

    #[test]
    fn attempts_hold_what_they_say() {
        let held = |text: &str| -> Vec<u32> {
            let attempts: Attempts = text.parse().unwrap();
            assert_eq!(attempts.to_string(), text);
            (1..=6).filter(|attempt| attempts.contains(*attempt)).collect()
        };
        assert_eq!(held("3"), [3]);
        assert_eq!(held("1-4"), [1, 2, 3, 4]);
        assert_eq!(held("5-"), [5, 6]);
        for text in
            ["", "0", "-", "-3", "4-1", "1-0", "0-", "a", "1-2-3", "+1", "1 - 2", "4294967296"]
        {
            assert!(text.parse::<Attempts>().is_err(), "{text}");
        }
    }
}
