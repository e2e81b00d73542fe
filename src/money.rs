//! Money: exact whole numbers of a currency's minor unit.
//!
//! An [`Amount`] is read from its text alone, never through a binary float, so `10`, `10.0` and `10.00`
//! EUR are one amount and 0.1 is exactly ten cents. What does not name one exact amount is refused.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Digits that an amount's text may have at the most, on both sides of the point together.
const DIGITS_MAX: usize = 15;

/// A currency with a minor unit, by its ISO 4217 code.
///
/// # Examples
///
/// ```
/// use badbank::money::Currency;
///
/// assert_eq!(Currency::from_code("JPY")?.decimals(), 0);
/// assert_eq!(Currency::from_code("KWD")?.decimals(), 3);
/// # Ok::<(), badbank::money::CurrencyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency {
    iso: iso_currency::Currency,
    decimals: u8,
}

/// A text that names no currency in which a refund can be paid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{code}` is not an ISO 4217 currency with a minor unit, such as EUR, USD, JPY or KWD")]
pub struct CurrencyError {
    /// The text that was given.
    pub code: String,
}

impl Currency {
    /// The euro, with two decimals.
    pub const EUR: Self = Self { iso: iso_currency::Currency::EUR, decimals: 2 };

    /// The currency of an ISO 4217 code in upper case.
    ///
    /// # Errors
    ///
    /// [`CurrencyError`] for an unknown code, and for one without a minor unit (gold, test codes).
    pub fn from_code(code: &str) -> Result<Self, CurrencyError> {
        let unknown = || CurrencyError { code: shorten(code) };
        let iso = iso_currency::Currency::from_code(code).ok_or_else(unknown)?;
        let decimals =
            iso.exponent().and_then(|places| u8::try_from(places).ok()).ok_or_else(unknown)?;
        Ok(Self { iso, decimals })
    }

    /// The three letters, such as `EUR`.
    pub fn code(self) -> &'static str {
        self.iso.code()
    }

    /// Decimals of the minor unit: 2 for EUR, 0 for JPY, 3 for KWD.
    pub fn decimals(self) -> u8 {
        self.decimals
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::from_code(&code).map_err(D::Error::custom)
    }
}

/// A sum of money above zero, in whole minor units of a currency that is known from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

/// Why a text or a number is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// No amount was given.
    #[error("an amount is missing; write digits with at most one point, such as 42.50")]
    Missing,
    /// Not digits with at most one point between digits.
    #[error(
        "`{text}` is not an amount; write digits with at most one point and digits on both sides of it, such as 42.50"
    )]
    Malformed {
        /// The text, shortened.
        text: String,
    },
    /// More decimals than the currency has.
    #[error("`{text}` has more decimals than {currency}, which has {}", currency.decimals())]
    TooPrecise {
        /// The text, shortened.
        text: String,
        /// The currency whose minor unit is coarser.
        currency: Currency,
    },
    /// Zero is not an amount.
    #[error("`{text}` is zero; an amount is above zero")]
    Zero {
        /// The text, shortened.
        text: String,
    },
    /// Longer than any amount may be.
    #[error("`{text}` is longer than 15 digits")]
    TooLong {
        /// The text, shortened.
        text: String,
    },
}

impl Amount {
    /// An amount in minor units; none for zero and for what no text of 15 digits could name.
    pub const fn from_minor(minor: u64) -> Option<Self> {
        // 15 digits, scaled by the finest minor unit there is (four decimals).
        if minor == 0 || minor >= 10_u64.pow(19) { None } else { Some(Self(minor)) }
    }

    /// Reads an amount of `currency` from its decimal text.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::money::{Amount, Currency};
    ///
    /// let amount = Amount::parse("42.5", Currency::EUR)?;
    /// assert_eq!(amount.minor(), 4250);
    /// assert!(Amount::parse("1e2", Currency::EUR).is_err());
    /// # Ok::<(), badbank::money::AmountError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AmountError`] for everything but one to fifteen digits with at most one point, digits on both
    /// sides of it, no more decimals than the currency has, and a value above zero.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, AmountError> {
        if text.is_empty() {
            return Err(AmountError::Missing);
        }
        let (whole, decimals) = text.split_once('.').map_or((text, None), |(w, d)| (w, Some(d)));
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !decimals.is_none_or(is_number) {
            return Err(AmountError::Malformed { text: shorten(text) });
        }
        let decimals = decimals.unwrap_or("");
        if whole.len() + decimals.len() > DIGITS_MAX {
            return Err(AmountError::TooLong { text: shorten(text) });
        }
        let places = usize::from(currency.decimals());
        let Some(padding) = places.checked_sub(decimals.len()) else {
            return Err(AmountError::TooPrecise { text: shorten(text), currency });
        };
        let digits =
            whole.bytes().chain(decimals.bytes()).chain(std::iter::repeat_n(b'0', padding));
        // At most 15 digits and four zeros, which fits.
        let minor = digits.fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        Self::from_minor(minor).ok_or_else(|| AmountError::Zero { text: shorten(text) })
    }

    /// Reads what [`display`](Self::display) wrote: filled up with all decimals, it may have more digits than
    /// what is asked for may.
    pub(crate) fn read_back(text: &str, currency: Currency) -> Result<Self, AmountError> {
        Self::parse(text, currency).or_else(|error| {
            let minor = text.replacen('.', "", 1).parse().ok();
            let written = minor
                .and_then(Self::from_minor)
                .filter(|amount| amount.display(currency).to_string() == text);
            written.ok_or(error)
        })
    }

    /// The amount in minor units.
    pub const fn minor(self) -> u64 {
        self.0
    }

    /// The amount as decimal text with all the decimals that `currency` has.
    pub const fn display(self, currency: Currency) -> Decimal {
        Total(self.0 as u128).display(currency)
    }
}

/// Saved state holds minor units; documents and the wire hold decimal text.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let minor = u64::deserialize(deserializer)?;
        Self::from_minor(minor)
            .ok_or_else(|| D::Error::custom(format!("{minor} minor units are no amount")))
    }
}

/// An amount together with its currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    amount: Amount,
    currency: Currency,
}

impl Money {
    /// `amount` of `currency`.
    pub const fn new(amount: Amount, currency: Currency) -> Self {
        Self { amount, currency }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount.display(self.currency), self.currency)
    }
}

/// A sum of amounts, which may be nothing, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Total(u128);

impl Total {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The sum in minor units.
    pub const fn minor(self) -> u128 {
        self.0
    }

    /// The sum as decimal text with all the decimals that `currency` has.
    pub const fn display(self, currency: Currency) -> Decimal {
        Decimal { minor: self.0, currency }
    }

    /// What is left when `other` is taken away; nothing when that is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This sum and another.
    ///
    /// # Panics
    ///
    /// Past `u128`, which 2^64 of the largest amounts do not reach.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("2^64 amounts fit a u128"))
    }

    /// This sum as an amount; none if it is nothing or too much for one.
    pub fn to_amount(self) -> Option<Amount> {
        u64::try_from(self.0).ok().and_then(Amount::from_minor)
    }
}

impl From<Amount> for Total {
    fn from(amount: Amount) -> Self {
        Self(u128::from(amount.0))
    }
}

impl std::iter::Sum<Amount> for Total {
    fn sum<I: Iterator<Item = Amount>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, |sum, amount| sum.plus(amount.into()))
    }
}

/// A sum of money on its way to a reader: `42.50`, or `5800` in yen.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    minor: u128,
    currency: Currency,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = usize::from(self.currency.decimals());
        if let Ok(minor) = u64::try_from(self.minor) {
            return f.write_str(digits(minor, places, &mut [0; DECIMAL_MAX]));
        }
        if places == 0 {
            return write!(f, "{}", self.minor);
        }
        let unit = 10_u128.pow(u32::from(self.currency.decimals()));
        write!(f, "{}.{:0places$}", self.minor / unit, self.minor % unit)
    }
}

/// Letters of the longest text of a `u64`, with its point.
const DECIMAL_MAX: usize = 21;

/// A number of minor units as decimal text, written in one piece: it stands in every answer.
fn digits(mut minor: u64, places: usize, text: &mut [u8; DECIMAL_MAX]) -> &str {
    let mut start = DECIMAL_MAX;
    let mut written = 0;
    while minor > 0 || written <= places {
        if written == places && places > 0 {
            start -= 1;
            text[start] = b'.';
        }
        start -= 1;
        text[start] = b'0' + (minor % 10) as u8;
        minor /= 10;
        written += 1;
    }
    std::str::from_utf8(&text[start..]).expect("digits and a point are ASCII")
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The start of a text that may be of any length, for a message.
pub(crate) fn shorten(text: &str) -> String {
    const KEPT: usize = 40;
    match text.char_indices().nth(KEPT) {
        None => text.escape_debug().collect(),
        Some((end, _)) => format!("{}…", text[..end].escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minor(text: &str, code: &str) -> Result<u64, AmountError> {
        Amount::parse(text, Currency::from_code(code).unwrap()).map(Amount::minor)
    }

    #[test]
    fn ten_with_any_decimals_is_one_amount() {
        for text in ["10", "10.0", "10.00", "010"] {
            assert_eq!(minor(text, "EUR"), Ok(1000), "{text}");
        }
    }

    #[test]
    fn decimals_follow_the_currency() {
        assert_eq!(minor("5800", "JPY"), Ok(5800));
        assert_eq!(minor("1.234", "KWD"), Ok(1234));
        assert_eq!(minor("145.05", "EUR"), Ok(14505));
        for (text, code) in [
            ("1.234", "EUR"),
            ("1.000", "EUR"),
            ("10.5", "JPY"),
            ("10.0", "JPY"),
            ("1.2345", "KWD"),
        ] {
            assert!(
                matches!(minor(text, code), Err(AmountError::TooPrecise { .. })),
                "{text} {code}"
            );
        }
    }

    #[test]
    fn what_is_not_digits_around_a_point_is_malformed() {
        for text in [
            "-1", "+1", "1e2", "1E2", "NaN", "inf", ".5", "5.", ".", "1.2.3", " 1", "1 ", "1_000",
            "1,000", "0x1", "１２", "\u{0}", "1\n",
        ] {
            assert!(matches!(minor(text, "EUR"), Err(AmountError::Malformed { .. })), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_not_an_amount() {
        assert_eq!(minor("", "EUR"), Err(AmountError::Missing));
        for text in ["0", "0.0", "0.00", "000"] {
            assert!(matches!(minor(text, "EUR"), Err(AmountError::Zero { .. })), "{text}");
        }
    }

    #[test]
    fn fifteen_digits_are_the_most() {
        assert_eq!(minor("999999999999999", "JPY"), Ok(999_999_999_999_999));
        assert_eq!(minor("999999999999999", "EUR"), Ok(99_999_999_999_999_900));
        assert_eq!(minor("9999999999999.99", "EUR"), Ok(999_999_999_999_999));
        for text in ["1000000000000000", "10000000000000.00", &"9".repeat(30), &"9".repeat(100_000)]
        {
            assert!(
                matches!(minor(text, "EUR"), Err(AmountError::TooLong { .. })),
                "{}",
                shorten(text)
            );
        }
    }

    #[test]
    fn every_amount_reads_back_from_its_text() {
        for code in ["EUR", "JPY", "KWD", "UYW"] {
            let currency = Currency::from_code(code).unwrap();
            for minor in [1, 99, 999_999_999_999_999, 99_999_999_999_999_900, 10_u64.pow(19) - 1] {
                let amount = Amount::from_minor(minor).unwrap();
                let text = amount.display(currency).to_string();
                assert_eq!(Amount::read_back(&text, currency), Ok(amount), "{text}");
            }
            for text in ["", "0", "-1", "0999999999999999.00", "10000000000000000000", "1.2.3"] {
                assert!(Amount::read_back(text, currency).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn an_amount_is_shown_with_all_its_decimals() {
        for (text, code) in [("42.50", "EUR"), ("0.07", "EUR"), ("5800", "JPY"), ("0.005", "KWD")] {
            let currency = Currency::from_code(code).unwrap();
            assert_eq!(Amount::parse(text, currency).unwrap().display(currency).to_string(), text);
        }
    }

    #[test]
    fn a_total_of_any_size_is_shown_in_full() {
        for (minor, code, text) in [
            (0, "EUR", "0.00"),
            (0, "JPY", "0"),
            (7, "KWD", "0.007"),
            (u128::from(u64::MAX), "EUR", "184467440737095516.15"),
            (u128::from(u64::MAX), "JPY", "18446744073709551615"),
            (u128::from(u64::MAX) + 1, "EUR", "184467440737095516.16"),
            (u128::from(u64::MAX) + 1, "JPY", "18446744073709551616"),
        ] {
            let currency = Currency::from_code(code).unwrap();
            assert_eq!(Total(minor).display(currency).to_string(), text);
        }
    }

    #[test]
    fn a_currency_without_a_minor_unit_is_refused() {
        for code in ["XAU", "XTS", "ZZZ", "eur", "", "EURO"] {
            assert!(Currency::from_code(code).is_err(), "{code}");
        }
    }
}
