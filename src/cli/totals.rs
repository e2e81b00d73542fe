//! What many runs come to.

use serde::Serialize;

use crate::{
    grade::Verdict,
    lab::percent,
    render::columns,
    stats::{Proportion, pass_hat, pass_hats},
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
    /// For runs of one seed: the chance that k in a row pass, for k from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pass_hat: Option<Vec<f64>>,
}

/// A share with its 95 % Wilson interval, to six places.
#[derive(Serialize)]
struct Rate {
    share: f64,
    low: f64,
    high: f64,
}

impl From<Proportion> for Rate {
    fn from(proportion: Proportion) -> Self {
        let Proportion { share, low, high } = proportion;
        Self { share: round(share), low: round(low), high: round(high) }
    }
}

impl Totals {
    /// Counts a run.
    pub(super) fn add(&mut self, verdict: Verdict, extra_refunds: u64) {
        self.runs += 1;
        match verdict {
            Verdict::Pass => self.pass += 1,
            Verdict::Fail => self.fail += 1,
            Verdict::NotExposed => self.not_exposed += 1,
        }
        self.double_runs += u64::from(extra_refunds > 0);
        self.extra_refunds += extra_refunds;
    }

    /// The verdict over all of them.
    pub(super) fn verdict(&self) -> Verdict {
        let verdicts = [(self.fail, Verdict::Fail), (self.pass, Verdict::Pass)];
        Verdict::over(
            verdicts.into_iter().filter(|(count, _)| *count > 0).map(|(_, verdict)| verdict),
        )
    }

    /// The counts as a document.
    pub(super) fn document(&self, is_repeat: bool) -> TotalsDocument {
        TotalsDocument {
            runs: self.runs,
            pass: self.pass,
            fail: self.fail,
            not_exposed: self.not_exposed,
            double_runs: self.double_runs,
            extra_refunds: self.extra_refunds,
            fail_rate: Proportion::wilson(self.fail, self.runs).into(),
            double_rate: Proportion::wilson(self.double_runs, self.runs).into(),
            pass_hat: is_repeat.then(|| self.pass_hats()),
        }
    }

    /// The chance that k runs in a row pass, for every k up to the number of runs.
    fn pass_hats(&self) -> Vec<f64> {
        pass_hats(self.pass, self.runs).map(round).collect()
    }

    /// The counts for people.
    pub(super) fn text(&self, is_repeat: bool) -> String {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut rows = vec![row(&["", "runs", "share", "95 % interval"])];
        for (name, count) in [
            ("pass", self.pass),
            ("fail", self.fail),
            ("not exposed", self.not_exposed),
            ("with a double refund", self.double_runs),
        ] {
            let Proportion { share, low, high } = Proportion::wilson(count, self.runs);
            let interval = format!("{} to {}", percent(low), percent(high));
            rows.push(row(&[name, &count.to_string(), &percent(share), &interval]));
        }
        rows.push(row(&["all", &self.runs.to_string()]));
        let mut text = columns(&rows);
        if is_repeat {
            // 1, 2, 4, 8, … and all of them.
            let powers = (0..).map(|power| 1 << power).take_while(|k| *k < self.runs);
            let hats = powers
                .chain([self.runs])
                .map(|k| format!("{k}: {}", percent(pass_hat(self.pass, self.runs, k))));
            let hats = hats.collect::<Vec<_>>().join(", ");
            text += &["\nk runs in a row pass (pass^k): ", &hats, "\n"].concat();
        }
        format!("{text}\nextra refunds: {}\n", self.extra_refunds)
    }
}

/// To six places.
#[allow(clippy::float_arithmetic, reason = "this is where digits are cut off")]
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
