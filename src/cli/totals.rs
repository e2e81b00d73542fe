//! What many runs come to.

use serde::Serialize;

use crate::{
    grade::{Grade, Verdict},
    stats::Proportion,
};

/// Counts over many runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    runs: u64,
    pass: u64,
    fail: u64,
    not_exposed: u64,
    double_runs: u64,
    extra_refunds: u64,
}

#[derive(Serialize)]
pub(super) struct TotalsDocument {
    runs: u64,
    pass: u64,
    fail: u64,
    not_exposed: u64,
    double_runs: u64,
    extra_refunds: u64,
    fail_rate: Rate,
    double_rate: Rate,
}

/// A share with its 95 % Wilson interval, to six places.
#[derive(Serialize)]
struct Rate {
    share: f64,
    low: f64,
    high: f64,
}

impl From<Proportion> for Rate {
    #[allow(
        clippy::float_arithmetic,
        reason = "rounding what is printed: further digits differ between platforms"
    )]
    fn from(proportion: Proportion) -> Self {
        let round = |value: f64| (value * 1e6).round() / 1e6;
        Self {
            share: round(proportion.share),
            low: round(proportion.low),
            high: round(proportion.high),
        }
    }
}

impl Totals {
    /// Counts a run.
    pub(super) fn add(&mut self, grade: &Grade) {
        self.runs += 1;
        match grade.verdict() {
            Verdict::Pass => self.pass += 1,
            Verdict::Fail => self.fail += 1,
            Verdict::NotExposed => self.not_exposed += 1,
        }
        self.double_runs += u64::from(grade.extra_refunds() > 0);
        self.extra_refunds += grade.extra_refunds();
    }

    /// The verdict over all of them.
    pub(super) fn verdict(&self) -> Verdict {
        let verdicts = [(self.fail, Verdict::Fail), (self.pass, Verdict::Pass)];
        Verdict::over(
            verdicts.into_iter().filter(|(count, _)| *count > 0).map(|(_, verdict)| verdict),
        )
    }

    /// The counts as a document.
    pub(super) fn document(&self) -> TotalsDocument {
        TotalsDocument {
            runs: self.runs,
            pass: self.pass,
            fail: self.fail,
            not_exposed: self.not_exposed,
            double_runs: self.double_runs,
            extra_refunds: self.extra_refunds,
            fail_rate: Proportion::wilson(self.fail, self.runs).into(),
            double_rate: Proportion::wilson(self.double_runs, self.runs).into(),
        }
    }

    /// The counts for people.
    pub(super) fn text(&self) -> String {
        let mut table = super::chart::table();
        table.set_header(["", "runs", "share", "95 % interval"]);
        for (name, count) in [
            ("pass", self.pass),
            ("fail", self.fail),
            ("not exposed", self.not_exposed),
            ("with a double refund", self.double_runs),
        ] {
            let Proportion { share, low, high } = Proportion::wilson(count, self.runs);
            let interval = format!("{} to {}", percent(low), percent(high));
            table.add_row([name.to_owned(), count.to_string(), percent(share), interval]);
        }
        table.add_row(["all".to_owned(), self.runs.to_string()]);
        format!("{}\nextra refunds: {}\n", super::chart::lines(&table), self.extra_refunds)
    }
}

#[allow(clippy::float_arithmetic, reason = "this is where a share is written for people")]
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
