#![allow(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "goodness of fit is a matter of floats; the counts are far below 2^53"
)]
//! Bursts: stretches of good attempts and bad ones, each state a pure function of the call's identity.

use badbank::{
    Bank, Ticket,
    call::Operation::{self, GetOrder, Refund},
    fault::{Fault, Injector},
    ledger::OrderIndex,
};
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::fault::{Orders, assert_plausible, fit, plan};

const BURST: &str = r#"{"on": "*", "fault": "transient", "burst": {"good": 4, "bad": 3}}"#;

/// Seeds under which ten orders are asked for ten attempts, which makes a million.
const SEEDS: u64 = 10_000;
const ATTEMPTS: u32 = 10;

/// The decisions of `decide` on ten orders under many seeds.
fn under_many_seeds<T>(rules: &str, decide: impl Fn(&Injector, OrderIndex) -> T) -> Vec<T> {
    let (orders, plan) = (Orders::ten(), plan(rules));
    let injectors = (0..SEEDS).map(|seed| orders.injector(&plan, seed));
    let of_seed =
        |injector: Injector| orders.places.iter().map(|place| decide(&injector, *place)).collect();
    injectors.flat_map(|injector| -> Vec<T> { of_seed(injector) }).collect()
}

/// A mark for each attempt, `#` where the injector strikes.
fn states(injector: &Injector, operation: Operation, place: OrderIndex, attempts: u32) -> String {
    let is_struck = |attempt| injector.decide(operation, place, attempt).is_some();
    (1..=attempts).map(|attempt| if is_struck(attempt) { '#' } else { '.' }).collect()
}

/// As [`fit`], of what is and of what is not.
fn fits(is: u64, of: u64, rate: f64) -> f64 {
    fit(&[is, of - is], &[rate, 1.0 - rate])
}

#[test]
fn the_first_hundred_states_of_seed_seven_are_frozen() {
    let orders = Orders::ten();
    let injector = orders.injector(&plan(BURST), 7);
    // Checked against an implementation of the recipe in another language.
    for (operation, place, frozen) in [
        (
            GetOrder,
            0,
            "...............#..########....###########.##.......##...#..##.####..##...........#.#..##.#..###.#.##",
        ),
        (
            Refund,
            0,
            ".........#......###..#.######...#####.###...#.##......####....#####...##.#####.######.#####.........",
        ),
        (
            Refund,
            1,
            "........#.........###....##.###...............#...###..#...##.......#..#....####......#####......#..",
        ),
    ] {
        let found = states(&injector, operation, orders.places[place], 100);
        assert_eq!(found, frozen, "{} {operation}", orders.ids[place]);
    }
}

#[test]
fn the_first_hundred_states_of_a_second_burst_are_frozen() {
    // The first is about the call, and as good as never strikes.
    let first = r#"{"on": "*", "fault": "lost", "burst": {"good": 1000000, "bad": 1}}"#;
    let orders = Orders::ten();
    let injector = orders.injector(&plan(&[first, BURST].join(",")), 7);
    assert_eq!(
        states(&injector, Refund, orders.places[0], 100),
        ".....##.....###.#........#######........#....####...##........##...####..#.#...###..........#.######"
    );
}

#[test]
fn a_state_does_not_depend_on_what_was_asked_before() {
    let orders = Orders::ten();
    let injector = orders.injector(&plan(BURST), 7);
    let mut calls: Vec<(Operation, OrderIndex, u32)> = Vec::new();
    for place in &orders.places {
        for operation in Operation::ALL {
            calls.extend((1..=40).map(|attempt| (operation, *place, attempt)));
        }
    }
    let decide = |injector: &Injector, (operation, place, attempt): (_, _, _)| {
        injector.decide(operation, place, attempt)
    };
    let in_turn: Vec<Option<Fault>> = calls.iter().map(|call| decide(&injector, *call)).collect();
    let mut order: Vec<usize> = (0..calls.len()).collect();
    for seed in 0..10 {
        order.shuffle(&mut Pcg64::new(seed, 1));
        // A fresh injector may be asked for the last attempt first, and again.
        let fresh = orders.injector(&plan(BURST), 7);
        for place in &order {
            assert_eq!(decide(&fresh, calls[*place]), in_turn[*place]);
            assert_eq!(decide(&fresh, calls[*place]), in_turn[*place]);
        }
    }
    std::thread::scope(|scope| {
        for _thread in 0..4 {
            scope.spawn(|| {
                let again: Vec<_> = calls.iter().map(|call| decide(&injector, *call)).collect();
                assert_eq!(again, in_turn);
            });
        }
    });
}

#[test]
fn how_far_a_chain_was_walked_is_remembered_by_rule_operation_and_order() {
    let orders = Orders::ten();
    let rules = [
        BURST,
        r#"{"on": "refund", "order": "A-2186", "fault": "closed", "burst": {"good": 3, "bad": 2}}"#,
        r#"{"on": "*", "fault": "lost", "burst": {"good": 5, "bad": 2}}"#,
    ];
    let plan = plan(&rules.join(",")).seed(7);
    // As a layer does, which takes orders in as they come.
    let fresh = || {
        let mut injector = Injector::new(&plan, plan.orders());
        for order in orders.ids.iter().filter(|order| order.as_str() != "A-2186") {
            injector.insert(order);
        }
        injector
    };
    let mut used = fresh();
    for attempt in (1..=150).chain([7, 149, 200]) {
        for place in &orders.places {
            for operation in Operation::ALL {
                let expected = fresh().decide(operation, *place, attempt);
                assert_eq!(used.decide(operation, *place, attempt), expected, "#{attempt}");
            }
        }
        used = used.clone();
    }
}

#[test]
fn further_orders_and_further_rules_move_no_state() {
    let few = Orders::new(&["A-1", "A-2"]);
    let more = Orders::new(&["B-1", "A-1", "B-2", "A-2"]);
    let rules = [
        BURST,
        r#"{"on": "*", "fault": "lost", "rate": 0.2}"#,
        r#"{"on": "*", "fault": "closed", "burst": {"good": 2, "bad": 2}}"#,
        r#"{"on": "refund", "order": "A-1", "fault": "hang", "burst": {"good": 2, "bad": 2}}"#,
    ];
    let short = few.injector(&plan(BURST), 7);
    let long = more.injector(&plan(&rules.join(",")), 7);
    for (place, place_of_more) in [(0, 1), (1, 3)] {
        for operation in Operation::ALL {
            for attempt in 1..=200 {
                let before = short.decide(operation, few.places[place], attempt);
                let after = long.decide(operation, more.places[place_of_more], attempt);
                assert!(before.is_none() || after == before, "{operation} #{attempt}");
                assert_ne!((before, after), (None, Some(Fault::TRANSIENT)));
            }
        }
    }
}

#[test]
fn another_seed_order_or_operation_has_other_states() {
    let orders = Orders::ten();
    let [seven, eight] = [7, 8].map(|seed| orders.injector(&plan(BURST), seed));
    let of =
        |injector, operation, place: usize| states(injector, operation, orders.places[place], 100);
    let others = [of(&seven, GetOrder, 0), of(&seven, Refund, 1), of(&eight, Refund, 0)];
    assert!(others.iter().all(|other| *other != of(&seven, Refund, 0)));
}

/// How a million attempts go: marks by order.
fn a_million(rules: &str) -> Vec<Vec<bool>> {
    under_many_seeds(rules, |injector, place| {
        let is_struck = |attempt| injector.decide(Refund, place, attempt).is_some();
        (1..=ATTEMPTS).map(is_struck).collect()
    })
}

#[test]
fn stretches_of_a_million_attempts_are_as_long_as_the_plan_says() {
    let orders = a_million(BURST);
    for (is_bad, mean) in [(false, 4.0), (true, 3.0)] {
        // Each attempt in a stretch but the last of all ends it with a chance of 1 in its mean.
        let steps = orders.iter().flat_map(|states| states.windows(2));
        let within = steps.filter(|step| step[0] == is_bad);
        let (stays, ends): (Vec<_>, Vec<_>) = within.partition(|step| step[1] == is_bad);
        let (stays, ends) = (stays.len() as u64, ends.len() as u64);
        let found = (stays + ends) as f64 / ends as f64;
        assert!((found - mean).abs() < 0.02, "bad: {is_bad}, {found} instead of {mean}");
        assert_plausible(fits(ends, stays + ends, 1.0 / mean), "ends");

        // The lengths, of stretches that begin early enough to be seen in full.
        let mut lengths = [0_u64; 5];
        for states in &orders {
            for begin in (1..6).filter(|at| states[*at] == is_bad && states[at - 1] != is_bad) {
                let length = states[begin..].iter().take_while(|state| **state == is_bad).count();
                lengths[length.min(5) - 1] += 1;
            }
        }
        let ends = 1.0 / mean;
        let geometric = |length: i32| (1.0 - ends).powi(length - 1) * ends;
        let mut chances: Vec<f64> = (1..=4).map(geometric).collect();
        chances.push((1.0 - ends).powi(4));
        assert_plausible(fit(&lengths, &chances), "lengths");
    }
}

#[test]
fn every_attempt_from_the_first_on_is_as_likely_to_be_bad_as_in_the_long_run() {
    let orders = a_million(BURST);
    for attempt in [0, 1, 2, 9] {
        let bad = orders.iter().filter(|states| states[attempt]).count() as u64;
        assert_plausible(
            fits(bad, orders.len() as u64, 3.0 / 7.0),
            &format!("attempt {}", attempt + 1),
        );
    }
}

/// First attempts by whether they meet something under the one and the other.
fn first_attempts(pair: [(&str, Operation); 2]) -> [u64; 4] {
    let [one, other] = pair.map(|(rules, operation)| {
        under_many_seeds(rules, |injector, place| injector.decide(operation, place, 1).is_some())
    });
    let mut counts = [0; 4];
    for (one, other) in one.into_iter().zip(other) {
        counts[usize::from(one) * 2 + usize::from(other)] += 1;
    }
    counts
}

#[test]
fn states_tell_nothing_of_the_rates_nor_of_the_other_operation() {
    let rate = r#"{"on": "*", "fault": "lost", "rate": 0.3}"#;
    let (bad, met) = (3.0 / 7.0, 0.3);
    for (pair, [one, other]) in [
        ([(BURST, Refund), (rate, Refund)], [bad, met]),
        ([(BURST, GetOrder), (rate, GetOrder)], [bad, met]),
        ([(BURST, Refund), (BURST, GetOrder)], [bad, bad]),
    ] {
        let chances =
            [(1.0 - one) * (1.0 - other), (1.0 - one) * other, one * (1.0 - other), one * other];
        assert_plausible(fit(&first_attempts(pair), &chances), &format!("{pair:?}"));
    }
}

#[test]
fn two_bursts_have_stretches_of_their_own() {
    let first = r#"{"on": "*", "fault": "transient", "burst": {"good": 4, "bad": 3}}"#;
    let second = r#"{"on": "*", "fault": "lost", "burst": {"good": 4, "bad": 3}}"#;
    let third = r#"{"on": "*", "fault": "closed", "burst": {"good": 4, "bad": 3}}"#;
    let rules = [first, second, third].join(",");
    let mut counts = [0; 4];
    for met in under_many_seeds(&rules, |injector, place| injector.decide(Refund, place, 1)) {
        let place = match met {
            Some(Fault::TRANSIENT) => 0,
            Some(Fault::LOST) => 1,
            Some(Fault::CLOSED) => 2,
            _ => 3,
        };
        counts[place] += 1;
    }
    let (good, bad) = (4.0 / 7.0, 3.0 / 7.0);
    let chances = [bad, good * bad, good * good * bad, good * good * good];
    assert_plausible(fit(&counts, &chances), &format!("{counts:?}"));
}

#[test]
fn a_burst_beats_the_rates_and_is_beaten_by_a_script_wherever_they_stand() {
    let orders = Orders::ten();
    let place = orders.places[0];
    let rate = r#"{"on": "*", "fault": "timeout", "rate": 1}"#.replace('*', "refund");
    let script = r#"{"on": "refund", "order": "A-1791", "attempts": "10-17", "fault": "closed"}"#;
    let bursts = orders.injector(&plan(BURST), 7);
    for rules in [[BURST, &rate, script], [script, &rate, BURST], [&rate, BURST, script]] {
        let injector = orders.injector(&plan(&rules.join(",")), 7);
        for attempt in 1..=100 {
            let wanted = match bursts.decide(Refund, place, attempt) {
                _ if (10..=17).contains(&attempt) => Fault::CLOSED,
                Some(fault) => fault,
                None => Fault::TIMEOUT,
            };
            assert_eq!(injector.decide(Refund, place, attempt), Some(wanted), "#{attempt}");
        }
    }
}

#[test]
fn of_two_bursts_that_strike_the_first_in_the_file_wins() {
    let orders = Orders::ten();
    // A bad stretch of a million attempts, and a good one of one.
    let always = |fault: &str| {
        format!(r#"{{"on": "*", "fault": "{fault}", "burst": {{"good": 1, "bad": 1000000}}}}"#)
    };
    let rules = [always("lost"), always("transient")].join(",");
    let injector = orders.injector(&plan(&rules), 7);
    for attempt in 1..=20 {
        assert_eq!(injector.decide(Refund, orders.places[0], attempt), Some(Fault::LOST));
    }
}

#[test]
fn a_burst_of_one_order_or_operation_strikes_no_other() {
    let rule = r#"{"on": "refund", "order": "A-2186", "fault": "lost", "burst": {"good": 1, "bad": 1000000}}"#;
    let orders = Orders::ten();
    let injector = orders.injector(&plan(rule), 7);
    for (at, place) in orders.places.iter().enumerate() {
        for operation in Operation::ALL {
            let is_it = at == 1 && operation == Refund;
            let states = states(&injector, operation, *place, 20);
            assert_eq!(states, if is_it { "#" } else { "." }.repeat(20));
        }
    }
}

#[test]
fn means_of_one_alternate() {
    let rule = r#"{"on": "refund", "fault": "lost", "burst": {"good": 1, "bad": 1}}"#;
    let orders = Orders::ten();
    let injector = orders.injector(&plan(rule), 7);
    let mut first = [0, 0];
    for place in &orders.places {
        let states = states(&injector, Refund, *place, 10);
        assert!([".#.#.#.#.#", "#.#.#.#.#."].contains(&states.as_str()), "{states}");
        first[usize::from(states.starts_with('#'))] += 1;
    }
    assert!(first[0] > 0 && first[1] > 0, "{first:?}");
}

#[test]
fn a_bank_meets_the_states_call_by_call() {
    let ticket = Ticket::generate(7);
    let plan = plan(BURST).seed(7);
    let mut bank = Bank::open(&ticket, plan.clone());
    let injector = Injector::new(&plan, ticket.orders().iter().map(badbank::ticket::Order::id));
    for order in ticket.orders() {
        let place = bank.ledger().find(order.id()).unwrap();
        let told: String = (1..=50)
            .map(|_| if bank.refund(order.id(), "0.01", None).is_err() { '#' } else { '.' })
            .collect();
        assert_eq!(told, states(&injector, Refund, place, 50), "{}", order.id());
    }
}
