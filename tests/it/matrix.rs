//! Every design under every plan that badbank brings along: the README's table, and why it is so.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    sync::LazyLock,
};

use badbank::{
    Bank, Seed, Ticket,
    fault::{NAMED_PLANS, Plan},
    grade::{Cause, Grade, Verdict},
    harness::{self, Design, VirtualTime},
};

use crate::trial::{assert_log, causes};

/// The designs of the table; `paraphrasing`, which sends no keys, is `model-only` in every cell.
const DESIGNS: [Design; 8] = [
    Design::ModelOnly,
    Design::Retries,
    Design::Keyed,
    Design::BusinessKey,
    Design::ModelKey,
    Design::Hasty,
    Design::Trusting,
    Design::Forgetful,
];

/// The seeds of the table.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=200;

/// What came of a design under a plan, over all seeds.
#[derive(Clone, Debug, Default)]
struct Cell {
    double_runs: u32,
    other_failed_runs: u32,
    not_exposed: u32,
    /// Findings by cause.
    causes: BTreeMap<Cause, u32>,
    false_reports: u32,
}

impl Cell {
    fn of(design: Design, plan: &Plan) -> Self {
        SEEDS.fold(Self::default(), |mut cell, seed| {
            cell.add(&grade(design, plan, seed));
            cell
        })
    }

    fn add(&mut self, grade: &Grade) {
        if grade.extra_refunds() > 0 {
            self.double_runs += 1;
        } else if grade.verdict() == Verdict::Fail {
            self.other_failed_runs += 1;
        }
        self.not_exposed += u32::from(grade.verdict() == Verdict::NotExposed);
        self.false_reports += u32::from(grade.report_true() == Some(false));
        for cause in causes(grade) {
            *self.causes.entry(cause).or_default() += 1;
        }
    }

    fn has_only(&self, causes: &[Cause]) -> bool {
        self.causes.keys().all(|cause| causes.contains(cause))
    }
}

fn grade(design: Design, plan: &Plan, seed: u64) -> Grade {
    let ticket = Ticket::generate(seed);
    let mut bank = Bank::open(&ticket, plan.clone().seed(seed));
    let outcome = harness::run(design, &ticket, &mut bank, &mut VirtualTime, Seed::new(seed));
    bank.grade(&outcome.report)
}

static CELLS: LazyLock<BTreeMap<(Design, &str), Cell>> = LazyLock::new(|| {
    let plans = NAMED_PLANS.iter().map(|named| (named.name, named.plan()));
    let of_plan =
        |(name, plan): (_, Plan)| DESIGNS.map(|design| ((design, name), Cell::of(design, &plan)));
    plans.flat_map(of_plan).collect()
});

fn cell(design: Design, plan: &str) -> &'static Cell {
    let found = CELLS.iter().find(|((of, name), _)| (*of, *name) == (design, plan));
    found.map(|(_, cell)| cell).unwrap()
}

/// The table as the README has it.
fn table() -> String {
    let mut table = "| design |".to_owned();
    for plan in NAMED_PLANS {
        write!(table, " `{}` |", plan.name).unwrap();
    }
    table.push_str("\n|---|");
    table.push_str(&"---|".repeat(NAMED_PLANS.len()));
    for design in DESIGNS {
        write!(table, "\n| `{design}` |").unwrap();
        for plan in NAMED_PLANS {
            let Cell { double_runs, other_failed_runs, .. } = cell(design, plan.name);
            write!(table, " {double_runs} / {other_failed_runs} |").unwrap();
        }
    }
    table + "\n"
}

#[test]
fn the_table_of_the_readme_is_what_comes_out() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    let readme = readme.unwrap();
    let rows = readme.lines().skip_while(|line| !line.starts_with("| design | `"));
    let shown: String =
        rows.take_while(|line| line.starts_with('|')).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(shown, table());
    assert_log!("matrix", table());
}

#[test]
fn what_went_wrong_in_each_cell_is_pinned() {
    let mut text = String::new();
    for design in DESIGNS {
        for plan in NAMED_PLANS {
            let Cell { causes, not_exposed, false_reports, .. } = cell(design, plan.name);
            write!(text, "{design} {}:", plan.name).unwrap();
            for (cause, count) in causes {
                write!(text, " {count} {}", cause.as_str()).unwrap();
            }
            writeln!(text, "; {not_exposed} not exposed, {false_reports} false reports").unwrap();
        }
    }
    // Without faults nothing goes wrong, and nothing is too little to tell.
    for design in DESIGNS {
        let Cell { causes, not_exposed, false_reports, .. } = cell(design, "calm");
        assert!(causes.is_empty() && (not_exposed, false_reports) == (&0, &0), "{design}");
    }
    assert_log!("matrix", text);
}

#[test]
fn model_only_pays_twice_where_looking_does_not_help() {
    use Cause::{DuplicateDelivery, GaveUp, LateCommit, StaleRead};
    let of = |plan| cell(Design::ModelOnly, plan);
    // It looks before it repeats, so a lost reply is seen: only the three attempts that it has may all fail.
    assert_eq!(of("lost-replies").double_runs, 0);
    assert!(of("lost-replies").has_only(&[GaveUp]));
    // It cannot see a delivery that comes twice, nor one that comes later, nor past a stale read.
    assert!(of("article").has_only(&[DuplicateDelivery, GaveUp]));
    assert!(of("late-commits").has_only(&[LateCommit]));
    assert!(of("stale-reads").has_only(&[StaleRead]));
    for plan in ["article", "late-commits", "stale-reads", "everything"] {
        assert!(of(plan).double_runs > 100, "{plan}: {:?}", of(plan));
    }
    // Three attempts with nobody to wait in between are too few for a stretch of 503s.
    for plan in ["brown-out", "poison"] {
        assert!(of(plan).has_only(&[GaveUp]) && of(plan).double_runs == 0, "{plan}");
    }
}

#[test]
fn retries_without_a_key_pay_twice_whenever_a_reply_is_lost() {
    let of = |plan| cell(Design::Retries, plan);
    for plan in
        ["article", "lost-replies", "late-commits", "stale-reads", "brown-out", "everything"]
    {
        assert!(of(plan).double_runs > 100, "{plan}: {:?}", of(plan));
    }
    assert!(of("lost-replies").has_only(&[Cause::RepeatAfterTimeout, Cause::GaveUp]));
    assert!(of("article").causes.contains_key(&Cause::DuplicateDelivery));
    assert!(of("late-commits").has_only(&[Cause::LateCommit, Cause::RepeatAfterTimeout]));
    // Nothing commits under poison, so there is nothing to pay twice.
    assert!(of("poison").has_only(&[Cause::GaveUp]));
}

#[test]
fn a_key_by_tool_call_saves_until_the_agent_writes_the_call_anew() {
    let of = |plan| cell(Design::Keyed, plan);
    // Three lost replies in a row make the harness give up; the agent looks, and sees the refund, unless the
    // read is stale: then it makes a new call, and a new call has a new key.
    for plan in ["stale-reads", "everything"] {
        assert!(of(plan).double_runs > 0, "{plan}: {:?}", of(plan));
    }
    assert!(of("stale-reads").has_only(&[Cause::KeyChanged]), "{:?}", of("stale-reads"));
    // Under everything there are also those that reach the ledger once the agent has looked, and those that fail
    // once it has been answered.
    let causes = [Cause::KeyChanged, Cause::LateCommit, Cause::FailedLater];
    assert!(of("everything").has_only(&causes), "{:?}", of("everything"));
    // Elsewhere a read tells the truth once the harness has given up.
    for plan in ["article", "calm", "lost-replies", "late-commits", "brown-out", "poison"] {
        assert_eq!(of(plan).double_runs, 0, "{plan}");
        assert!(of(plan).has_only(&[Cause::GaveUp]), "{plan}: {:?}", of(plan));
    }
}

#[test]
fn a_key_by_intent_never_pays_twice_and_may_miss() {
    let of = |plan| cell(Design::BusinessKey, plan);
    for plan in NAMED_PLANS {
        assert_eq!(of(plan.name).double_runs, 0, "{}", plan.name);
        // What it misses it never got through to the ledger, or its key is bound to an error or to a refund that
        // failed later.
        let causes = [Cause::GaveUp, Cause::Refused, Cause::FailedLater];
        assert!(of(plan.name).has_only(&causes), "{}: {:?}", plan.name, of(plan.name));
    }
    for plan in ["article", "calm", "lost-replies", "late-commits", "stale-reads"] {
        assert!(of(plan).causes.is_empty(), "{plan}: {:?}", of(plan));
    }
    assert!(of("brown-out").has_only(&[Cause::GaveUp]) && of("poison").has_only(&[Cause::GaveUp]));
    assert!(of("everything").causes.contains_key(&Cause::Refused));
}

#[test]
fn what_was_accepted_and_failed_later_is_missed_by_every_design() {
    // An answer that says `pending` is an answer: no agent looks again, and most claim that it was refunded.
    for design in DESIGNS {
        let Cell { causes, false_reports, .. } = cell(design, "everything");
        assert!((30..=35).contains(&causes[&Cause::FailedLater]), "{design}: {causes:?}");
        assert!(*false_reports >= 30, "{design}: {false_reports}");
        for plan in NAMED_PLANS.iter().filter(|plan| plan.name != "everything") {
            assert!(!cell(design, plan.name).causes.contains_key(&Cause::FailedLater));
        }
    }
}

#[test]
fn poison_is_the_same_for_every_design_and_strikes_about_every_eighth_order() {
    let missed: BTreeSet<(u32, u32)> = DESIGNS
        .map(|design| cell(design, "poison"))
        .map(|cell| (cell.other_failed_runs, cell.causes[&Cause::GaveUp]))
        .into();
    let [(_, orders)] = missed.iter().copied().collect::<Vec<_>>()[..] else {
        panic!("designs differ: {missed:?}");
    };
    assert!((160..240).contains(&orders), "{orders} of 1,600");
}
