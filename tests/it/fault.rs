#![allow(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "goodness of fit is a matter of floats; the counts are far below 2^53"
)]
//! Golden vectors: which call meets which fault never moves between releases.
//!
//! The vectors were checked against an implementation of the recipe in another language. Where one of
//! them fails, every recorded run of every user would replay differently: mend the code, not the vector.

use std::{collections::BTreeMap, fmt::Write as _};

use badbank::{
    Bank, Ticket,
    call::Operation,
    fault::{Fault, Injector, On, OrderHash, Plan, Rate, Rule},
    ledger::OrderIndex,
    ticket::OrderId,
};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::trial::{Trial, assert_log};

/// Ten orders, with their places in a ledger that holds them in this order.
pub(crate) struct Orders {
    pub(crate) ids: Vec<OrderId>,
    pub(crate) places: Vec<OrderIndex>,
}

impl Orders {
    pub(crate) fn new(ids: &[&str]) -> Self {
        let orders: Vec<String> =
            ids.iter().map(|id| format!(r#"{{"id": "{id}", "amount": "1.00"}}"#)).collect();
        let bank = Trial::orders(&orders.join(",")).open();
        Self {
            ids: ids.iter().map(|id| OrderId::new(id).unwrap()).collect(),
            places: ids.iter().map(|id| bank.ledger().find(id).unwrap()).collect(),
        }
    }

    pub(crate) fn ten() -> Self {
        Self::new(&[
            "A-1791", "A-2186", "A-3471", "A-4025", "A-5508", "A-6991", "A-7310", "A-8254",
            "A-9003", "A-9999",
        ])
    }

    pub(crate) fn injector(&self, plan: &Plan, seed: u64) -> Injector {
        Injector::new(&plan.clone().seed(seed), &self.ids)
    }
}

fn article() -> Plan {
    Plan::article()
}

pub(crate) fn plan(rules: &str) -> Plan {
    Plan::parse(&format!(r#"{{"version": 1, "rules": [{rules}]}}"#)).unwrap()
}

#[test]
fn the_hash_of_an_order_is_frozen() {
    for (id, hash) in HASHES {
        let hashed = OrderHash::of(&OrderId::new(id).unwrap()).number();
        assert_eq!(hashed, hash, "{id}: {hashed:#034x}");
    }
}

#[test]
fn the_first_thousand_decisions_of_three_seeds_are_frozen() {
    let orders = Orders::ten();
    let mut text = String::new();
    let mut met = 0;
    for seed in [1, 7, u64::MAX] {
        let injector = orders.injector(&article(), seed);
        for (id, place) in orders.ids.iter().zip(&orders.places) {
            for operation in Operation::ALL {
                let letters: String = (1..=50)
                    .map(|attempt| letter(injector.decide(operation, *place, attempt)))
                    .collect();
                met += letters.bytes().filter(|letter| *letter != b'.').count();
                writeln!(text, "{seed} {id} {operation:9} {letters}").unwrap();
            }
        }
    }
    // 15 % of 1,500 reads and 40 % of 1,500 refunds would be 825.
    assert_eq!(met, 796);
    assert_log!("fault", text);
}

fn letter(fault: Option<Fault>) -> char {
    match fault {
        None => '.',
        Some(Fault::TRANSIENT) => 'u',
        Some(Fault::TIMEOUT) => 't',
        Some(Fault::DUPLICATE) => '2',
        Some(other) => panic!("the article has no {other}"),
    }
}

#[test]
fn the_first_decisions_of_seed_seven_in_words() {
    let orders = Orders::ten();
    let injector = orders.injector(&article(), 7);
    let decisions: Vec<String> = (1..=8)
        .filter_map(|attempt| {
            let fault = injector.decide(Operation::Refund, orders.places[1], attempt)?;
            Some(format!("A-2186 refund #{attempt} {fault}"))
        })
        .collect();
    assert_eq!(
        decisions,
        ["A-2186 refund #3 transient", "A-2186 refund #4 transient", "A-2186 refund #8 timeout",]
    );
}

#[test]
fn where_a_call_falls_is_frozen_to_the_billionth() {
    let orders = Orders::ten();
    for (seed, operation, id, attempt, billionth) in [
        (7, Operation::Refund, "A-1791", 1, 673_209_987),
        (7, Operation::GetOrder, "A-1791", 1, 758_523_431),
        (0, Operation::Refund, "A-9999", 4_000_000_000, 809_020_906),
        (u64::MAX, Operation::GetOrder, "A-4025", 3, 440_096_828),
    ] {
        let place = orders.ids.iter().position(|known| known.as_str() == id).unwrap();
        let met = |billionths| {
            let rate = Rate::from_billionths(billionths).unwrap();
            let rule = Rule::rate(On::All, Fault::LOST, rate);
            let injector = orders.injector(&Plan::calm().rule(rule).unwrap(), seed);
            injector.decide(operation, orders.places[place], attempt)
        };
        assert_eq!(met(billionth), None, "{id} {operation} #{attempt}");
        assert_eq!(met(billionth + 1), Some(Fault::LOST), "{id} {operation} #{attempt}");
    }
}

#[test]
fn a_rate_of_nine_places_divides_the_unit_interval_exactly() {
    let thirds = plan(
        r#"{"on": "refund", "fault": "transient", "rate": 0.333333333},
           {"on": "refund", "fault": "timeout", "rate": 0.333333333},
           {"on": "refund", "fault": "duplicate", "rate": 0.333333334}"#,
    );
    let orders = Orders::ten();
    let injector = orders.injector(&thirds, 7);
    let mut counts = BTreeMap::new();
    for attempt in 1..=30_000 {
        let fault = injector.decide(Operation::Refund, orders.places[0], attempt);
        *counts.entry(fault.unwrap().to_string()).or_insert(0) += 1;
    }
    assert_eq!(
        counts,
        BTreeMap::from([
            ("duplicate".to_owned(), 9_982),
            ("timeout".to_owned(), 10_102),
            ("transient".to_owned(), 9_916),
        ])
    );
}

#[test]
fn the_tickets_of_three_seeds_are_frozen() {
    let tickets = [1, 7, u64::MAX].map(Ticket::generate);
    for ticket in &tickets {
        assert_eq!(ticket.orders().len(), 8);
        assert!(ticket.orders().iter().all(|order| {
            order.expect() == [order.amount()] && (500..20_000).contains(&order.amount().minor())
        }));
    }
    let lines = tickets.map(|ticket| ticket.to_json());
    assert_log!("ticket", lines.join("\n"));
}

/// Counts of what a call met against what another met: `transient`, `timeout`, `duplicate`, none.
type Table = [[u64; 4]; 4];

fn kind(fault: Option<Fault>) -> usize {
    match fault {
        Some(Fault::TRANSIENT) => 0,
        Some(Fault::TIMEOUT) => 1,
        Some(Fault::DUPLICATE) => 2,
        _ => 3,
    }
}

/// The chance of a sum of squares as large as this one, or larger.
fn chance(sum: f64, freedom: usize) -> f64 {
    ChiSquared::new(freedom as f64).unwrap().sf(sum)
}

/// The chance of counts as far from the expected ones as these, or farther.
pub(crate) fn fit(counts: &[u64], rates: &[f64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let sum = counts.iter().zip(rates).map(|(count, rate)| {
        let expected = rate * total as f64;
        (*count as f64 - expected).powi(2) / expected
    });
    chance(sum.sum(), counts.len() - 1)
}

/// The chance of a table as lopsided as this one, or more so, if its two sides were independent.
fn independence(table: &Table) -> f64 {
    let rows: Vec<u64> = table.iter().map(|row| row.iter().sum()).collect();
    let columns: Vec<u64> =
        (0..4).map(|column| table.iter().map(|row| row[column]).sum()).collect();
    let total: u64 = rows.iter().sum();
    let mut sum = 0.0;
    for (row, counts) in rows.iter().zip(table) {
        for (column, count) in columns.iter().zip(counts) {
            if *row == 0 || *column == 0 {
                continue;
            }
            let expected = *row as f64 * *column as f64 / total as f64;
            sum += (*count as f64 - expected).powi(2) / expected;
        }
    }
    let kinds = |sums: &[u64]| sums.iter().filter(|sum| **sum > 0).count();
    chance(sum, (kinds(&rows) - 1) * (kinds(&columns) - 1))
}

/// Neither too far from what is expected nor too close to it.
pub(crate) fn assert_plausible(chance: f64, what: &str) {
    assert!((0.001..0.999).contains(&chance), "{what}: p = {chance}");
}

/// Pairs of decisions, counted over ten orders and so many attempts.
fn table(attempts: u32, pair: impl Fn(OrderIndex, u32) -> [Option<Fault>; 2]) -> Table {
    let mut table = Table::default();
    for place in Orders::ten().places {
        for attempt in 1..=attempts {
            let [one, other] = pair(place, attempt);
            table[kind(one)][kind(other)] += 1;
        }
    }
    table
}

#[test]
fn a_million_decisions_agree_with_the_rates() {
    let orders = Orders::ten();
    let injector = orders.injector(&article(), 7);
    let mut refunds = [0; 4];
    let mut reads = [0; 2];
    for place in &orders.places {
        for attempt in 1..=50_000 {
            refunds[kind(injector.decide(Operation::Refund, *place, attempt))] += 1;
            let read = injector.decide(Operation::GetOrder, *place, attempt);
            reads[usize::from(read.is_none())] += 1;
        }
    }
    assert_plausible(fit(&refunds, &[0.15, 0.15, 0.10, 0.60]), "refunds");
    assert_plausible(fit(&reads, &[0.15, 0.85]), "reads");
}

#[test]
fn rates_that_are_off_by_a_percent_would_be_noticed() {
    let orders = Orders::ten();
    let skewed = plan(r#"{"on": "refund", "fault": "transient", "rate": 0.153}"#);
    let injector = orders.injector(&skewed, 7);
    let mut counts = [0; 2];
    for place in &orders.places {
        for attempt in 1..=50_000 {
            let met = injector.decide(Operation::Refund, *place, attempt);
            counts[usize::from(met.is_none())] += 1;
        }
    }
    assert!(fit(&counts, &[0.15, 0.85]) < 0.001);
}

#[test]
fn adjacent_seeds_are_independent() {
    for seed in [0, 7, 1 << 32, u64::MAX - 1] {
        let orders = Orders::ten();
        let [one, next] = [seed, seed + 1].map(|seed| orders.injector(&article(), seed));
        let table = table(10_000, |place, attempt| {
            [&one, &next].map(|injector| injector.decide(Operation::Refund, place, attempt))
        });
        assert_plausible(independence(&table), &format!("seeds {seed} and the next"));
    }
}

#[test]
fn adjacent_attempts_are_independent() {
    for step in [1, 2, 3] {
        let injector = Orders::ten().injector(&article(), 7);
        let table = table(20_000, |place, attempt| {
            [attempt, attempt + step]
                .map(|attempt| injector.decide(Operation::Refund, place, attempt))
        });
        assert_plausible(independence(&table), &format!("attempts {step} apart"));
    }
}

#[test]
fn the_two_operations_are_independent() {
    let injector = Orders::ten().injector(&article(), 7);
    let table = table(20_000, |place, attempt| {
        Operation::ALL.map(|operation| injector.decide(operation, place, attempt))
    });
    assert_plausible(independence(&table), "reads and refunds");
}

#[test]
fn orders_whose_names_differ_in_a_letter_are_independent() {
    let orders = Orders::new(&["A-1791", "A-1792"]);
    let injector = orders.injector(&article(), 7);
    let mut table = Table::default();
    for attempt in 1..=200_000 {
        let [one, other] = [0, 1]
            .map(|place| injector.decide(Operation::Refund, orders.places[place], attempt))
            .map(kind);
        table[one][other] += 1;
    }
    assert_plausible(independence(&table), "A-1791 and A-1792");
}

#[test]
fn dependence_would_be_noticed() {
    let injector = Orders::ten().injector(&article(), 7);
    let table = table(20_000, |place, attempt| {
        // The same draw again for one call in fifty.
        let other = if attempt % 50 == 0 { attempt } else { attempt + 1 };
        [attempt, other].map(|attempt| injector.decide(Operation::Refund, place, attempt))
    });
    assert!(independence(&table) < 0.001);
}

#[test]
fn a_rule_at_the_end_moves_nobodys_draw() {
    let orders = Orders::ten();
    let rule = plan(r#"{"on": "*", "fault": "lost", "rate": 0.2}"#).rules()[0].clone();
    let longer = article().rule(rule).unwrap();
    let [short, long] = [article(), longer].map(|plan| orders.injector(&plan, 7));
    let mut lost = 0;
    for place in &orders.places {
        for attempt in 1..=1_000 {
            for operation in Operation::ALL {
                let before = short.decide(operation, *place, attempt);
                let after = long.decide(operation, *place, attempt);
                assert!(after == before || before.is_none() && after == Some(Fault::LOST));
                lost += u32::from(after != before);
            }
        }
    }
    assert!((3_800..4_200).contains(&lost), "a fifth of 20,000: {lost}");
}

#[test]
fn further_orders_move_nobodys_draw_wherever_they_stand() {
    let eight = ["A-1", "A-2", "A-3", "A-4", "A-5", "A-6", "A-7", "A-8"];
    let few = Orders::new(&eight);
    let behind = Orders::new(&[&eight[..], &["A-9"]].concat());
    let before = Orders::new(&[&["A-9"], &eight[..]].concat());
    let [few_faults, behind_faults, before_faults] =
        [&few, &behind, &before].map(|orders| orders.injector(&article(), 7));
    let mut met = 0;
    for place in 0..8 {
        for attempt in 1..=500 {
            for operation in Operation::ALL {
                let fault = few_faults.decide(operation, few.places[place], attempt);
                let last = behind_faults.decide(operation, behind.places[place], attempt);
                let first = before_faults.decide(operation, before.places[place + 1], attempt);
                assert_eq!([last, first], [fault, fault]);
                met += u32::from(fault.is_some());
            }
        }
    }
    assert!(met > 1_000, "{met}");
}

/// What the first attempts at refunds of A-1791 meet under a plan.
fn met(rules: &str, attempts: u32) -> Vec<String> {
    let orders = Orders::ten();
    let injector = orders.injector(&plan(rules), 7);
    (1..=attempts)
        .map(|attempt| injector.decide(Operation::Refund, orders.places[0], attempt))
        .map(|fault| fault.map_or_else(|| "-".to_owned(), |fault| fault.to_string()))
        .collect()
}

#[test]
fn a_scripted_fault_beats_the_rates_wherever_it_stands() {
    let script = r#"{"on": "refund", "order": "A-1791", "attempts": "2", "fault": "timeout"}"#;
    let always = r#"{"on": "*", "fault": "transient", "rate": 1}"#;
    for rules in [[script, always], [always, script]] {
        let met = met(&rules.join(","), 3);
        assert_eq!(met, ["transient", "timeout", "transient"]);
    }
}

#[test]
fn of_two_scripted_faults_the_first_in_the_file_wins() {
    let own = r#"{"on": "refund", "order": "A-1791", "attempts": "1-2", "fault": "timeout"}"#;
    let all = r#"{"on": "*", "attempts": "2-", "fault": "lost"}"#;
    assert_eq!(met(&[own, all].join(","), 3), ["timeout", "timeout", "lost"]);
    assert_eq!(met(&[all, own].join(","), 3), ["timeout", "lost", "lost"]);
    let late = r#"{"on": "refund", "order": "A-1791", "attempts": "2", "fault": "duplicate"}"#;
    assert_eq!(met(&[own, late].join(","), 3), ["timeout", "timeout", "-"]);
    assert_eq!(met(&[late, own].join(","), 3), ["timeout", "duplicate", "-"]);
}

#[test]
fn a_rate_of_an_order_takes_its_place_among_those_of_all() {
    let rules = r#"{"on": "refund", "fault": "transient", "rate": 0.5},
                   {"on": "refund", "order": "A-1791", "fault": "timeout", "rate": 0.5}"#;
    let orders = Orders::ten();
    let injector = orders.injector(&plan(rules), 7);
    let mut counts = BTreeMap::new();
    for attempt in 1..=1_000 {
        for place in [0, 1] {
            let fault = injector.decide(Operation::Refund, orders.places[place], attempt);
            *counts.entry((place, fault.map(|fault| fault.to_string()))).or_insert(0) += 1;
        }
    }
    let own: u32 = counts[&(0, Some("transient".to_owned()))];
    assert_eq!(counts[&(0, Some("timeout".to_owned()))], 1_000 - own);
    assert!((450..550).contains(&own), "{own}");
    assert!(!counts.contains_key(&(1, Some("timeout".to_owned()))));
    assert!(counts.contains_key(&(1, None)));
}

#[test]
fn a_rate_of_zero_never_strikes_and_a_rate_of_one_always() {
    let orders = Orders::ten();
    let never = plan(r#"{"on": "*", "fault": "transient", "rate": 0}"#);
    let always = plan(r#"{"on": "*", "fault": "transient", "rate": 1}"#);
    for seed in 0..50 {
        let [never, always] = [&never, &always].map(|plan| orders.injector(plan, seed));
        for place in &orders.places {
            for attempt in 1..=100 {
                for operation in Operation::ALL {
                    assert_eq!(never.decide(operation, *place, attempt), None);
                    let fault = always.decide(operation, *place, attempt);
                    assert_eq!(fault, Some(Fault::TRANSIENT));
                }
            }
        }
    }
}

#[test]
fn a_fault_strikes_the_call_that_the_injector_names() {
    let ticket = Ticket::generate(7);
    let orders: Vec<&OrderId> = ticket.orders().iter().map(badbank::ticket::Order::id).collect();
    let injector = Injector::new(&article().seed(7), orders.iter().copied());
    let mut bank = Bank::open(&ticket, article().seed(7));
    let mut expected = vec![];
    for attempt in 1..=20 {
        for order in ticket.orders() {
            let place = bank.ledger().find(order.id()).unwrap();
            let fault = injector.decide(Operation::Refund, place, attempt);
            expected.extend(fault.map(|fault| format!("{} refund #{attempt} {fault}", order.id())));
            let _answer = bank.refund(order.id(), order.amount(), None);
        }
    }
    let arrived = bank.fault_log().by_arrival();
    let arrived: Vec<&str> = arrived.lines().skip(1).collect();
    assert_eq!(arrived, expected);
    assert!(arrived.len() > 40, "40 % of 160 would be 64");
}

/// SipHash-1-3-128 of ids, key 0.
const HASHES: [(&str, u128); 6] = [
    ("A-1", 0x9957_c8e6_59dc_9283_00e2_6272_1237_eb6c),
    ("A-1791", 0x2db0_6044_d1c3_1279_b6ce_4e12_0a5d_d3d6),
    ("A-2186", 0x26d3_1963_74a5_c74a_0235_f3d1_d28b_677b),
    ("a.b_c-9", 0x3783_5d50_dc35_d6d3_0a4e_2094_0817_2708),
    ("ABCDEFGH", 0xf0c8_2eec_097f_f6c8_e939_53ed_dbda_ccfa),
    (
        "YYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYYY",
        0x3db0_eff9_7e90_4360_d138_bc31_fcc5_54f3,
    ),
];
