//! A number of an experiment, with all that is known about it.
//!
//! Whatever the table, a figure says the same of its number: what the source has, what was measured and in which
//! interval, and what must come out. CSV and JSON hold figures; tables for people show what they have room for.

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::round;
use crate::stats::{Proportion, Sums};

/// What is said of a number: another number, or words.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any number; a share is from 0 to 1.
    Number(f64),
    /// Words, where there is no number.
    Words(String),
}

/// A number of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The table that it belongs to.
    pub table: &'static str,
    /// Its place in that table: the names of columns, and what they hold.
    pub place: Vec<(&'static str, Value)>,
    /// What is measured.
    pub measure: String,
    /// What the source says.
    pub article: Option<Value>,
    /// How many it counted, where it says so.
    pub article_count: Option<u64>,
    /// Of how many.
    pub article_of: Option<u64>,
    /// What was measured; none if there was nothing to measure it by.
    pub measured: Option<Value>,
    /// How many were counted.
    pub count: Option<u64>,
    /// Of how many, or over how many.
    pub of: Option<u64>,
    /// Lower end of the 95 % interval: Wilson's for a share, the normal one for a mean.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
    /// What must come out, or come out on average.
    pub exact: Option<Value>,
    is_share: bool,
}

impl Figure {
    /// A figure of which nothing is known yet.
    pub(super) fn new(measure: impl Into<String>) -> Self {
        Self {
            table: "",
            place: Vec::new(),
            measure: measure.into(),
            article: None,
            article_count: None,
            article_of: None,
            measured: None,
            count: None,
            of: None,
            low: None,
            high: None,
            exact: None,
            is_share: false,
        }
    }

    /// A share that was counted; nothing is measured if there was nothing to count.
    pub(super) fn share(measure: impl Into<String>, hits: u64, of: u64) -> Self {
        let (count, all) = (Some(hits), Some(of));
        let figure = Self { count, of: all, is_share: true, ..Self::new(measure) };
        if of == 0 {
            return figure;
        }
        let Proportion { share, low, high } = Proportion::wilson(hits, of);
        Self { low: Some(round(low)), high: Some(round(high)), ..figure.measured(share) }
    }

    /// The mean of so many whole numbers, each of them `unit`s.
    pub(super) fn mean(measure: impl Into<String>, sums: &Sums, of: u64, unit: f64) -> Self {
        let Some(mean) = sums.mean(of) else {
            return Self::new(measure);
        };
        let scaled = |value: f64| round(value * unit);
        let interval = sums.interval(of);
        Self {
            of: Some(of),
            low: interval.map(|(low, _)| scaled(low)),
            high: interval.map(|(_, high)| scaled(high)),
            ..Self::new(measure).measured(mean * unit)
        }
    }

    /// The same, measured to be this.
    pub(super) fn measured(self, value: impl Into<Value>) -> Self {
        Self { measured: Some(value.into()), ..self }
    }

    /// The same, of which the source says this; empty words are nothing.
    pub(super) fn article(self, value: impl Into<Value>) -> Self {
        let value = value.into();
        let is_said = value != Value::Words(String::new());
        Self { article: is_said.then_some(value), ..self }
    }

    /// The same, of which the source counted so many, of or in so many.
    #[allow(clippy::cast_precision_loss, reason = "articles count to a hundred")]
    pub(super) fn article_counts(self, count: u64, of: u64) -> Self {
        let (article_count, article_of) = (Some(count), Some(of));
        Self { article_count, article_of, ..self.article(count as f64 / of as f64) }
    }

    /// The same, of which the source may have counted so many, of or in so many.
    pub(super) fn article_may_count(self, counts: Option<(u64, u64)>) -> Self {
        match counts {
            Some((count, of)) => self.article_counts(count, of),
            None => self,
        }
    }

    /// The same, for which this must come out.
    pub(super) fn exact(self, value: impl Into<Value>) -> Self {
        Self { exact: Some(value.into()), ..self }
    }

    /// The same, in its table, at its place there.
    pub(super) fn at(
        self,
        table: &'static str,
        place: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        Self { table, place: place.into_iter().collect(), ..self }
    }

    /// What is in the columns behind the place.
    fn values(&self) -> [(&'static str, Option<Value>); 9] {
        [
            ("article", self.article.clone()),
            ("article_count", self.article_count.map(Value::Count)),
            ("article_of", self.article_of.map(Value::Count)),
            ("measured", self.measured.clone()),
            ("count", self.count.map(Value::Count)),
            ("of", self.of.map(Value::Count)),
            ("low", self.low.map(Value::Number)),
            ("high", self.high.map(Value::Number)),
            ("exact", self.exact.clone()),
        ]
    }

    fn shown(&self, value: Option<&Value>) -> String {
        match value {
            None => "-".to_owned(),
            Some(Value::Number(share)) if self.is_share => percent(*share),
            Some(Value::Number(mean)) => thousandths(*mean),
            Some(value) => value.to_string(),
        }
    }

    /// What people read of the source.
    fn shown_article(&self) -> String {
        match (&self.article, self.article_count, self.article_of) {
            (article, Some(count), Some(of)) => {
                let preposition = if self.is_share { "of" } else { "in" };
                format!("{} ({count} {preposition} {of})", self.shown(article.as_ref()))
            }
            // As the source has it, to the tenth.
            (Some(Value::Number(mean)), ..) => format!("{mean:?}"),
            (article, ..) => self.shown(article.as_ref()),
        }
    }

    fn shown_interval(&self) -> String {
        let shown = |bound| self.shown(Some(&Value::Number(bound)));
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{} to {}", shown(low), shown(high)),
            _ => "-".to_owned(),
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("table", self.table)?;
        for (name, value) in &self.place {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("measure", &self.measure)?;
        for (name, value) in self.values() {
            if let Some(value) = value {
                map.serialize_entry(name, &value)?;
            }
        }
        map.end()
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(round(number))
    }
}

impl From<&str> for Value {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl Value {
    /// The number, if it is one.
    #[allow(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::Words(_) => None,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Number(number) if *number != 0.0 && number.abs() < 1e-4 => {
                write!(f, "{number:e}")
            }
            Self::Number(number) => number.fmt(f),
            Self::Words(words) => words.fmt(f),
        }
    }
}

/// Figures as records, the names of the columns first.
pub(super) fn records(figures: &[Figure]) -> Vec<Vec<String>> {
    let mut places: Vec<&'static str> = Vec::new();
    for (name, _) in figures.iter().flat_map(|figure| &figure.place) {
        if !places.contains(name) {
            places.push(name);
        }
    }
    let values = Figure::new("").values().map(|(name, _)| name);
    let header = ["table"].into_iter().chain(places.iter().copied()).chain(["measure"]);
    let header = header.chain(values).map(str::to_owned).collect();
    let record = |figure: &Figure| {
        let cell = |value: Option<&Value>| value.map_or_else(String::new, ToString::to_string);
        let at = |place: &&str| figure.place.iter().find(|(name, _)| name == place);
        let place = places.iter().map(|place| cell(at(place).map(|(_, value)| value)));
        let mut record = vec![figure.table.to_owned()];
        record.extend(place);
        record.push(figure.measure.clone());
        record.extend(figure.values().iter().map(|(_, value)| cell(value.as_ref())));
        record
    };
    std::iter::once(header).chain(figures.iter().map(record)).collect()
}

/// The columns of a table of figures for people, behind those of their places.
pub(super) const COLUMNS: [&str; 5] = ["measure", "article", "measured", "95 % interval", "exact"];

/// Figures as rows for people.
pub(super) fn rows<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Vec<Vec<String>> {
    let row = |figure: &Figure| {
        let place = figure.place.iter().map(|(_, value)| value.to_string());
        let cells = [
            figure.measure.clone(),
            figure.shown_article(),
            figure.shown(figure.measured.as_ref()),
            figure.shown_interval(),
            figure.shown(figure.exact.as_ref()),
        ];
        place.chain(cells).collect()
    };
    figures.into_iter().map(row).collect()
}

/// What was measured, and what must come out if that is something else.
pub(super) fn unless_exact(measured: &str, exact: &str) -> String {
    if measured == exact { measured.to_owned() } else { format!("{measured} (exact: {exact})") }
}

/// A share as people read it; 0 and 100 are said of nothing that is only close to them.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", hundredths(share))
}

/// As [`percent`], without the sign.
pub(crate) fn hundredths(share: f64) -> String {
    match format!("{:.1}", share * 100.0) {
        text if text == "0.0" && share > 0.0 => "< 0.1".to_owned(),
        text if text == "100.0" && share < 1.0 => "> 99.9".to_owned(),
        text => text,
    }
}

/// A mean as people read it; 0 is said of nothing that is only close to it.
fn thousandths(mean: f64) -> String {
    match format!("{mean:.3}") {
        text if text == "0.000" && mean > 0.0 => "< 0.001".to_owned(),
        text if text == "-0.000" => "0.000".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_reads_so() {
        for (share, text) in [
            (0.0, "0.0 %"),
            (3.1e-7, "< 0.1 %"),
            (0.000_6, "0.1 %"),
            (0.631_4, "63.1 %"),
            (0.999_4, "99.9 %"),
            (1.0 - 3.1e-7, "> 99.9 %"),
            (1.0, "100.0 %"),
        ] {
            assert_eq!(percent(share), text);
        }
        assert_eq!([thousandths(0.0), thousandths(3.1e-7)], ["0.000", "< 0.001"]);
        assert_eq!(Value::from(1.0 - 3.1e-7).to_string(), "0.99999969");
        assert_eq!(Value::from(3.1e-57).to_string(), "3.1e-57");
        assert_eq!(serde_json::to_string(&Value::from(3.1e-57)).unwrap(), "3.1e-57");
        assert!(Value::from(1.0 - 1e-15).number() < Some(1.0));
    }

    #[test]
    fn records_have_every_place_once_and_one_width() {
        let figures = [
            Figure::share("s", 0, 0).at("one", [("k", Value::from(2_u64))]),
            Figure::share("s", 1, 4).article_counts(19, 30).at("two", [("way", "a, b".into())]),
        ];
        let records = records(&figures);
        assert_eq!(records[0][..4], ["table", "k", "way", "measure"]);
        assert_eq!(records[1][..4], ["one", "2", "", "s"]);
        assert_eq!(records[1][7..10], ["", "0", "0"]);
        assert_eq!(records[2][5..10], ["19", "30", "0.25", "1", "4"]);
        assert!(records.iter().all(|record| record.len() == records[0].len()));
        let rows = rows(&figures);
        assert_eq!(rows[0][2..], ["-", "-", "-", "-"]);
        assert_eq!(rows[1][2..4], ["63.3 % (19 of 30)", "25.0 %"]);
    }
}
