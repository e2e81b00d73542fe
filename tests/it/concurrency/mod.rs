//! Calls at the same time: what they are told has an order in which it could have happened one by one.

mod interleavings;
mod linearizable;

use std::{
    sync::{Barrier, mpsc},
    thread,
};

use badbank::{
    Bank, SharedBank,
    bank::{Arrival, Pending},
    call::{Answer, Request},
    fault::Fault,
    grade::{Cause, Verdict},
    history::Event,
    ledger::Dedupe,
};

use crate::trial::{Trial, causes, held, told_of};

const ONE: &str = r#"{"id": "A-1", "amount": "60.00", "expect": ["25.00"]}"#;

/// A refund on A-1, under the key `k`.
fn keyed(amount: &str) -> Request<'_> {
    Request::refund("A-1", amount.into(), Some("k"))
}

fn shared(trial: &Trial) -> SharedBank {
    SharedBank::new(trial.open())
}

#[track_caller]
fn pending(arrival: Arrival) -> Pending {
    match arrival {
        Arrival::Pending(pending) => pending,
        Arrival::Answered(sent) => panic!("answered at once: {sent:?}"),
    }
}

/// Waits until so many calls have come.
fn until_called(bank: &SharedBank, calls: u64) {
    while bank.lock().history().call_count() < calls {
        thread::yield_now();
    }
}

/// What a thread is told that waits for a call which `finish` ends.
fn woken_by(finish: impl FnOnce(&SharedBank, Pending)) -> &'static str {
    let bank = shared(&Trial::orders(ONE));
    let first = pending(bank.arrive(&keyed("25.00")));
    let (sender, answered) = mpsc::channel();
    thread::scope(|scope| {
        let waiting = bank.clone();
        scope.spawn(move || sender.send(waiting.call(&keyed("25.00"))).unwrap());
        until_called(&bank, 2);
        assert!(answered.try_recv().is_err());
        finish(&bank, first);
        told_of(answered.recv().unwrap())
    })
}

#[test]
fn a_thread_that_waits_is_woken_however_the_first_is_finished() {
    assert_eq!(woken_by(|bank, first| drop(bank.finish(first).unwrap())), "replayed");
    assert_eq!(woken_by(|bank, first| drop(bank.wait(first))), "replayed");
    assert_eq!(woken_by(|bank, first| drop(bank.lock().finish(first).unwrap())), "replayed");
    assert_eq!(woken_by(|bank, _first| bank.lock().settle()), "replayed");
    assert_eq!(woken_by(|bank, _first| drop(bank.lock().grade(""))), "replayed");
}

#[test]
fn many_threads_that_wait_are_all_woken() {
    let bank = shared(&Trial::orders(ONE));
    let first = pending(bank.arrive(&keyed("25.00")));
    let told: Vec<&str> = thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..8).map(|_| scope.spawn(|| told_of(bank.call(&keyed("25.00"))))).collect();
        until_called(&bank, 9);
        bank.finish(first).unwrap();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(told, ["replayed"; 8]);
    assert_eq!(held(&bank.lock(), "A-1"), ["25.00"]);
}

#[test]
fn a_repeat_is_answered_with_the_refund_that_it_waited_for_whoever_has_the_key_by_then() {
    let mut bank = Trial::orders(ONE).reject().open();
    let first = pending(bank.arrive(&keyed("99.00")));
    let waits = pending(bank.arrive(&keyed("99.00")));
    let waits = bank.finish(waits).unwrap_err();
    let told = |answer: Result<badbank::call::Sent, Pending>| told_of(answer.unwrap().received());
    assert_eq!(told(bank.finish(first)), "over_refund");
    // The key is free, and a third call reserves it before the second is collected.
    let third = pending(bank.arrive(&keyed("25.00")));
    let waits_for_third = pending(bank.arrive(&keyed("25.00")));
    assert_eq!(told(bank.finish(waits)), "over_refund");
    assert_eq!(told(bank.finish(third)), "ok");
    assert_eq!(told(bank.finish(waits_for_third)), "replayed");
    assert_eq!(held(&bank, "A-1"), ["25.00"]);
}

#[test]
fn two_deliveries_of_a_call_finish_one_by_one_and_others_come_in_between() {
    for (dedupe, is_doubled, held_between, held_then) in [
        (Dedupe::Off, true, 1, 2),
        (Dedupe::FirstReply, true, 1, 1),
        (Dedupe::Racy, true, 1, 2),
        // The second was refused on its arrival.
        (Dedupe::Strict, false, 1, 1),
    ] {
        let fault = "twice_overlapping+reply".parse().unwrap();
        let mut bank = Trial::orders(ONE).script("A-1 refund #1", fault).dedupe(dedupe).open();
        let call = pending(bank.arrive(&keyed("25.00")));
        assert_eq!((call.is_doubled(), held(&bank, "A-1").len()), (is_doubled, 0), "{dedupe:?}");
        assert!(bank.finish_first(&call) && bank.finish_first(&call));
        assert_eq!(bank.get_order("A-1").unwrap().refunds.len(), held_between, "{dedupe:?}");
        assert_eq!(told_of(bank.finish(call).unwrap().received()), "ok");
        assert_eq!(held(&bank, "A-1").len(), held_then, "{dedupe:?}");
    }
}

#[test]
fn the_first_of_two_deliveries_waits_for_the_call_that_has_its_key() {
    let fault = "twice_overlapping+reply".parse().unwrap();
    let mut bank = Trial::orders(ONE).script("A-1 refund #2", fault).open();
    let first = pending(bank.arrive(&keyed("25.00")));
    let doubled = pending(bank.arrive(&keyed("25.00")));
    assert!(!first.is_doubled() && doubled.is_doubled());
    assert!(!bank.finish_first(&doubled));
    bank.settle();
    // The end of the run has finished them all.
    assert!(bank.finish_first(&doubled) && bank.finish_first(&first));
    assert_eq!(told_of(bank.finish(doubled).unwrap().received()), "replayed");
    assert_eq!(held(&bank, "A-1"), ["25.00"]);
}

#[test]
fn what_waits_is_decided_when_the_first_has_finished_unless_it_has_to_execute_after_all() {
    // The first asks for so much and more than is left is refused; the repeat meets the fault.
    for (amount, fault, is_decided) in [
        ("25.00", "timeout", true),
        ("25.00", "duplicate", true),
        ("25.00", "twice_overlapping+reply", true),
        ("99.00", "timeout", true),
        ("99.00", "twice_overlapping+reply", true),
        // Its second delivery will find the key free.
        ("99.00", "duplicate", false),
    ] {
        let trial = Trial::orders(ONE).script("A-1 refund #2", fault.parse().unwrap());
        let mut bank = trial.reject().open();
        let first = pending(bank.arrive(&keyed(amount)));
        let repeat = pending(bank.arrive(&keyed("25.00")));
        assert_eq!((first.is_waiting(), repeat.is_waiting()), (false, true), "{fault}");
        assert!(!bank.is_decided(&first) && !bank.is_decided(&repeat), "{fault}");
        bank.finish(first).unwrap();
        assert_eq!(bank.is_decided(&repeat), is_decided, "{amount} {fault}");
        bank.settle();
        assert!(bank.is_decided(&repeat), "{amount} {fault}");
    }
}

#[test]
fn a_second_delivery_that_has_to_wait_for_a_third_call_is_answered_with_it() {
    let trial = Trial::orders(ONE).script("A-1 refund #2", Fault::DUPLICATE);
    let mut bank = trial.reject().open();
    let first = pending(bank.arrive(&keyed("99.00")));
    let doubled = pending(bank.arrive(&keyed("25.00")));
    bank.finish(first).unwrap();
    // The key is free, and a third call reserves it before the doubled one goes on.
    let third = pending(bank.arrive(&keyed("25.00")));
    assert_eq!(told_of(bank.finish(doubled).unwrap().received()), "over_refund");
    assert_eq!(told_of(bank.finish(third).unwrap().received()), "ok");
    bank.settle();
    assert_eq!(held(&bank, "A-1"), ["25.00"]);
    let history = bank.history();
    let ends = history.events().iter().filter_map(|event| match event {
        Event::Replay(call, delivery, _) => Some((history.call_id(*call).attempt, *delivery)),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(2, 2)]);
}

#[test]
fn what_executes_something_itself_waits_for_nobody() {
    for (dedupe, key, fault) in [
        (Dedupe::Off, "k", "timeout"),
        (Dedupe::Racy, "k", "twice_overlapping+reply"),
        (Dedupe::FirstReply, "another", "twice_overlapping+reply"),
        // It fails inside, whatever becomes of the first.
        (Dedupe::FirstReply, "k", "stored_error"),
    ] {
        let trial = Trial::orders(ONE).script("A-1 refund #2", fault.parse().unwrap());
        let mut bank = trial.dedupe(dedupe).open();
        let first = pending(bank.arrive(&keyed("25.00")));
        let second = pending(bank.arrive(&Request::refund("A-1", "25.00".into(), Some(key))));
        bank.finish(first).unwrap();
        assert!(!second.is_waiting() && !bank.is_decided(&second), "{dedupe:?} {fault}");
    }
}

/// Case keys-07, runvendo/vendo#1297: look-up and store were two steps, so two requests with one key both ran,
/// and a loser was told of a conflict after its write had been made.
#[test]
fn two_hundred_times_one_key_is_one_commit_and_the_loser_writes_nothing() {
    for (dedupe, second, third) in [
        (Dedupe::Strict, "in_flight", "key_mismatch"),
        (Dedupe::FirstReply, "replayed", "replayed"),
    ] {
        let trial = Trial::orders(ONE).dedupe(dedupe);
        for round in 0..200 {
            let bank = shared(&trial);
            let (has_come, may_finish) = (Barrier::new(3), Barrier::new(3));
            let told = thread::scope(|scope| {
                let first = scope.spawn(|| {
                    let call = pending(bank.arrive(&keyed("25.00")));
                    has_come.wait();
                    may_finish.wait();
                    told_of(bank.wait(call).received())
                });
                let other = |amount| {
                    let (bank, has_come, may_finish) = (&bank, &has_come, &may_finish);
                    scope.spawn(move || {
                        has_come.wait();
                        let arrival = bank.arrive(&keyed(amount));
                        may_finish.wait();
                        told_of(match arrival {
                            Arrival::Answered(sent) => sent.received(),
                            Arrival::Pending(call) => bank.wait(call).received(),
                        })
                    })
                };
                let (same, different) = (other("25.00"), other("30.00"));
                [first, same, different].map(|thread| thread.join().unwrap())
            });
            assert_eq!(told, ["ok", second, third], "{dedupe:?}, round {round}");
            let last = scope_call(&bank, "25.00");
            assert_eq!(told_of(last), "replayed");
            assert_eq!(held(&bank.lock(), "A-1"), ["25.00"], "{dedupe:?}, round {round}");
        }
    }
}

/// A call from a thread of its own.
fn scope_call(bank: &SharedBank, amount: &str) -> Answer {
    thread::scope(|scope| scope.spawn(|| bank.call(&keyed(amount))).join().unwrap())
}

#[test]
fn four_threads_that_race_for_a_key_commit_once() {
    for dedupe in [Dedupe::Strict, Dedupe::FirstReply] {
        let trial = Trial::orders(ONE).dedupe(dedupe);
        for round in 0..200 {
            let bank = shared(&trial);
            let start = Barrier::new(4);
            let told: Vec<&str> = thread::scope(|scope| {
                let race = |gap: usize| {
                    let (bank, start) = (&bank, &start);
                    scope.spawn(move || {
                        start.wait();
                        match bank.arrive(&keyed("25.00")) {
                            Arrival::Answered(sent) => told_of(sent.received()),
                            Arrival::Pending(call) => {
                                (0..gap).for_each(|_| thread::yield_now());
                                told_of(bank.wait(call).received())
                            }
                        }
                    })
                };
                let threads: Vec<_> = (0..4).map(|place| race(place * (round % 5))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let paid = told.iter().filter(|word| **word == "ok").count();
            assert_eq!(paid, 1, "{dedupe:?}, round {round}: {told:?}");
            let others = ["ok", "replayed", "in_flight"];
            assert!(told.iter().all(|word| others.contains(word)), "{told:?}");
            assert_eq!(held(&bank.lock(), "A-1"), ["25.00"], "{dedupe:?}, round {round}");
        }
    }
}

#[test]
fn eight_threads_never_pay_more_than_is_left() {
    let trial = Trial::orders(ONE).dedupe(Dedupe::Off).reject();
    for round in 0..100 {
        let bank = shared(&trial);
        let start = Barrier::new(8);
        thread::scope(|scope| {
            for place in 0..8_usize {
                let (bank, start) = (&bank, &start);
                scope.spawn(move || {
                    start.wait();
                    for amount in ["7.00", "25.00", "0.50"] {
                        let call = bank.arrive(&Request::refund("A-1", amount.into(), None));
                        (0..(place + round) % 4).for_each(|_| thread::yield_now());
                        drop(bank.wait(pending(call)));
                    }
                });
            }
        });
        let bank = bank.lock();
        let account = &bank.ledger().accounts()[0];
        let paid: u128 = account.refunds().iter().map(|amount| u128::from(amount.minor())).sum();
        assert_eq!(account.refunded().minor(), paid);
        // What is left is less than the largest of what was refused.
        assert!(paid <= 6000 && paid > 6000 - 2500, "round {round}: {paid}");
    }
}

/// The orders of a run's grade that are listed as overlapped.
fn overlapped(bank: &mut Bank) -> Vec<String> {
    bank.grade("").overlapped().iter().map(ToString::to_string).collect()
}

const TWO: &str = r#"{"id": "A-1", "amount": "60.00"}, {"id": "A-2", "amount": "60.00"}"#;

#[test]
fn an_order_is_overlapped_when_a_call_comes_while_another_is_unanswered() {
    for (calls, listed) in [
        ("a1 f1 a1 f1", &[][..]),
        ("a1 a2 f1 f2", &[]),
        ("a1 a1 f1 f1", &["A-1"]),
        ("a1 r1 f1", &["A-1"]),
        ("a2 a1 r2 f1 f2 r1", &["A-2"]),
        ("a1 a2 r1 r2 f1 f2", &["A-1", "A-2"]),
    ] {
        let mut bank = Trial::orders(TWO).open();
        let mut under_way = [Vec::new(), Vec::new()];
        for step in calls.split(' ') {
            let place = usize::from(step.ends_with('2'));
            let order = ["A-1", "A-2"][place];
            match &step[..1] {
                "a" => {
                    let refund = Request::refund(order, "1.00".into(), None);
                    under_way[place].push(pending(bank.arrive(&refund)));
                }
                "r" => drop(bank.get_order(order).unwrap()),
                _ => drop(bank.finish(under_way[place].remove(0)).unwrap()),
            }
        }
        assert_eq!(overlapped(&mut bank), listed, "{calls}");
    }
}

#[test]
fn an_answer_that_the_bank_withholds_does_not_count_as_unanswered() {
    for fault in [Fault::TIMEOUT, Fault::LOST, Fault::DUPLICATE, "late(3)".parse().unwrap()] {
        let mut bank = Trial::orders(ONE).script("A-1 refund #1", fault).open();
        for _ in 0..3 {
            let _lost_or_not = bank.refund("A-1", "25.00", Some("k"));
        }
        assert_eq!(overlapped(&mut bank), [""; 0], "{fault}");
    }
}

#[test]
fn threads_on_one_order_at_a_time_overlap_nowhere() {
    let bank = shared(&Trial::orders(TWO));
    thread::scope(|scope| {
        for order in ["A-1", "A-2"] {
            let bank = &bank;
            scope.spawn(move || {
                for _ in 0..200 {
                    let call = bank.arrive(&Request::refund(order, "60.00".into(), Some(order)));
                    thread::yield_now();
                    if let Arrival::Pending(call) = call {
                        drop(bank.wait(call));
                    }
                }
            });
        }
    });
    let grade = bank.lock().grade("");
    assert_eq!(grade.overlapped(), []);
    assert_eq!(grade.verdict(), Verdict::Pass);
}

#[test]
fn what_overlaps_is_still_judged() {
    let bank = shared(&Trial::orders(ONE).dedupe(Dedupe::Racy));
    let calls = [(); 2].map(|()| pending(bank.arrive(&keyed("25.00"))));
    for call in calls {
        drop(bank.wait(call));
    }
    let grade = bank.lock().grade("");
    assert_eq!(grade.verdict(), Verdict::Fail);
    assert_eq!(causes(&grade), [Cause::RacyDedupe]);
    assert_eq!(grade.overlapped().len(), 1);
}
