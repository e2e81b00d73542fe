//! Slow answers: what the bank writes down of them, and when.

use badbank::{
    Bank, SharedBank,
    bank::{Arrival, Pending},
    call::{Request, Sent},
    fault::Fault,
    grade::{Cause, Grade},
    history::{Event, History},
};

use crate::trial::{Trial, causes, happened, held, told_of};

const ORDER: &str = r#"{"id": "A-1", "amount": "42.50"}"#;

fn refund() -> Request<'static> {
    Request::refund("A-1", "42.50".into(), None)
}

/// The first call of each operation is slow.
fn trial() -> Trial {
    let trial = Trial::orders(ORDER).script("A-1 refund #1", Fault::SLOW);
    trial.script("A-1 get_order #1", Fault::SLOW)
}

fn pending(arrival: Arrival) -> Pending {
    match arrival {
        Arrival::Pending(pending) => pending,
        Arrival::Answered(sent) => panic!("it was answered: {sent:?}"),
    }
}

fn words(bank: &Bank) -> String {
    happened(bank.history())
}

fn overlapped(bank: &Bank) -> usize {
    bank.preview().overlapped().len()
}

#[test]
fn in_process_nothing_waits_so_the_caller_has_it_at_once() {
    let mut bank = trial().open();
    assert_eq!(told_of(bank.call(&refund())), "ok");
    assert_eq!(told_of(bank.call(&Request::get_order("A-1"))), "ok");
    assert_eq!(words(&bank), "arrive commit ok arrive ok");

    let bank = SharedBank::new(trial().open());
    assert_eq!(told_of(bank.call(&refund())), "ok");
    assert_eq!(words(&bank.lock()), "arrive commit ok");
}

#[test]
fn a_thread_that_waited_for_its_key_has_a_slow_answer_at_once_too() {
    let keyed = Request::refund("A-1", "42.50".into(), Some("k"));
    let bank = SharedBank::new(Trial::orders(ORDER).script("A-1 refund #2", Fault::SLOW).open());
    let first = pending(bank.arrive(&keyed));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| bank.call(&keyed));
        while bank.lock().history().call_count() < 2 {
            std::thread::yield_now();
        }
        bank.finish(first).unwrap();
        assert_eq!(told_of(second.join().unwrap()), "replayed");
    });
    assert_eq!(words(&bank.lock()), "arrive arrive commit ok replay ok");
}

#[test]
fn a_face_says_what_became_of_it_and_only_the_first_time_counts() {
    type Say = fn(&mut Bank, &Sent);
    let ways: [(Say, &str); 2] = [(Bank::delivered, "ok"), (Bank::abandoned, "info(left)")];
    for (say, word) in ways {
        for (request, before) in
            [(refund(), "arrive commit"), (Request::get_order("A-1"), "arrive")]
        {
            let mut bank = trial().open();
            let sent = bank.send(&request);
            assert!(sent.is_on_its_way());
            assert_eq!(words(&bank), before);
            say(&mut bank, &sent);
            let after = format!("{before} {word}");
            assert_eq!(words(&bank), after);
            for (again, _) in ways {
                again(&mut bank, &sent);
            }
            assert_eq!(words(&bank), after);
        }
    }
}

#[test]
fn an_answer_that_arrives_or_is_lost_is_never_on_its_way() {
    for fault in ["timeout", "server_error", "closed", "truncated", "hang", "duplicate", "late"] {
        let mut bank = Trial::orders(ORDER).script("A-1 refund #1", fault.parse().unwrap()).open();
        let sent = bank.send(&refund());
        let before = words(&bank);
        assert!(!sent.is_on_its_way(), "{fault}");
        bank.abandoned(&sent);
        assert_eq!(words(&bank), before, "{fault}");
    }
}

#[test]
fn the_end_of_the_run_finds_who_has_not_got_an_answer_in_the_order_of_the_calls() {
    let mut bank =
        Trial::orders(r#"{"id": "A-1", "amount": "9.00"}, {"id": "A-2", "amount": "9.00"}"#)
            .script("A-2 refund #1", Fault::SLOW)
            .script("A-1 refund #1", Fault::SLOW)
            .script("A-1 refund #2", Fault::SLOW)
            .open();
    let ask = |order| Request::refund(order, "9.00".into(), None);
    // The first to come is the last to finish.
    let first = pending(bank.arrive(&ask("A-2")));
    let second = bank.send(&ask("A-1"));
    let third = bank.send(&ask("A-1"));
    bank.delivered(&second);
    assert_eq!(bank.finish(first).map(|sent| sent.is_on_its_way()), Ok(true));
    let preview = bank.preview();
    bank.settle();
    let then = "arrive arrive commit arrive commit ok commit info(left) info(left) settle";
    assert_eq!(words(&bank), then);
    let events = bank.history().events();
    let left: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, Event::Info(..)))
        .map(|event| bank.history().call_id(event.call().unwrap()).to_string())
        .collect();
    assert_eq!(left, ["A-2 refund #1", "A-1 refund #2"]);
    // What is heard of afterwards changes nothing any more.
    bank.delivered(&third);
    assert_eq!(words(&bank), then);
    assert_eq!(bank.grade("").to_json(), preview.to_json());
}

#[test]
fn what_is_under_way_when_the_run_ends_is_not_heard_either() {
    let mut bank = trial().open();
    let call = pending(bank.arrive(&refund()));
    bank.settle();
    assert_eq!(words(&bank), "arrive commit info(left) settle");
    let sent = bank.finish(call).unwrap();
    bank.delivered(&sent);
    assert_eq!(told_of(sent.received()), "ok");
    assert_eq!(words(&bank), "arrive commit info(left) settle");
}

#[test]
fn a_caller_that_left_before_its_call_finished_has_not_got_it() {
    let mut bank = trial().open();
    let call = pending(bank.arrive(&refund()));
    bank.leave(&call);
    assert!(!bank.finish(call).unwrap().is_on_its_way());
    assert_eq!(words(&bank), "arrive commit info(left)");
}

#[test]
fn the_cause_is_what_the_caller_had_got_when_it_asked_again() {
    type Step = fn(&mut Bank, &Sent);
    let nothing: Step = |_, _| ();
    let rows: [(Step, Step, Cause); 4] = [
        (Bank::delivered, nothing, Cause::RepeatAfterSuccess),
        (Bank::abandoned, nothing, Cause::RepeatAfterTimeout),
        (nothing, Bank::delivered, Cause::RepeatInFlight),
        (nothing, Bank::abandoned, Cause::RepeatInFlight),
    ];
    for (before, after, cause) in rows {
        let mut bank = trial().open();
        let sent = bank.send(&refund());
        before(&mut bank, &sent);
        assert_eq!(told_of(bank.call(&refund())), "ok");
        after(&mut bank, &sent);
        let grade = bank.grade("");
        assert_eq!((causes(&grade), grade.overlapped().len()), (vec![cause], 0));
    }
}

#[test]
fn a_repeat_while_the_answer_is_withheld_overlaps_nothing_and_before_that_it_does() {
    for fault in ["slow", "twice+slow", "twice_overlapping+slow"] {
        let trial = Trial::orders(ORDER).script("A-1 refund #1", fault.parse().unwrap());
        let mut bank = trial.open();
        let _on_its_way = bank.send(&refund());
        let _repeat = bank.call(&refund());
        assert_eq!(overlapped(&bank), 0, "{fault}");

        let mut bank = trial.open();
        let first = pending(bank.arrive(&refund()));
        let _repeat = bank.call(&refund());
        bank.finish(first).unwrap();
        assert_eq!(overlapped(&bank), 1, "{fault}");
    }
}

#[test]
fn a_read_whose_answer_is_withheld_overlaps_nothing_and_hides_no_other_overlap() {
    let mut bank = trial().open();
    let read = bank.send(&Request::get_order("A-1"));
    let refunds = [(); 2].map(|()| bank.send(&refund()));
    assert_eq!(overlapped(&bank), 0);
    let third = pending(bank.arrive(&refund()));
    assert_eq!(overlapped(&bank), 0);
    bank.delivered(&read);
    bank.delivered(&refunds[0]);
    // The third is unanswered, and nobody withholds it.
    let fourth = pending(bank.arrive(&refund()));
    assert_eq!(overlapped(&bank), 1);
    for call in [third, fourth] {
        bank.finish(call).unwrap();
    }
}

#[test]
fn what_a_call_sets_off_does_not_wait_for_its_answer() {
    for (fault, then) in [
        ("late(1)", "info(timeout) arrive commit land commit"),
        ("accepted_then_failed(1)", "arrive commit ok arrive commit revert"),
    ] {
        let mut bank = Trial::orders(ORDER)
            .script("A-1 refund #1", fault.parse().unwrap())
            .script("A-1 refund #2", Fault::SLOW)
            .open();
        let _first = bank.call(&refund());
        let sent = bank.send(&refund());
        assert_eq!(words(&bank), then, "{fault}");
        bank.delivered(&sent);
        assert_eq!(words(&bank), format!("{then} ok"), "{fault}");
    }
}

/// Makes slow calls whose answers come after the next call, and in the end not at all.
fn straggle(bank: &mut Bank, mut after: impl FnMut(&mut Bank)) {
    let mut last: Option<Sent> = None;
    for turn in 0..12 {
        let sent = bank.send(&if turn % 3 == 0 { Request::get_order("A-1") } else { refund() });
        after(bank);
        if let Some(last) = last.replace(sent) {
            if turn % 4 == 0 {
                bank.abandoned(&last);
            } else {
                bank.delivered(&last);
            }
            after(bank);
        }
    }
    bank.settle();
    after(bank);
}

#[test]
fn past_the_bound_an_answer_that_comes_late_is_dropped_and_in_the_file_it_is_there() {
    let trial = (1..=12).fold(Trial::orders(ORDER), |trial, attempt| {
        let trial = trial.script(&format!("A-1 refund #{attempt}"), Fault::SLOW);
        trial.script(&format!("A-1 get_order #{attempt}"), Fault::SLOW)
    });
    let mut full = trial.open();
    straggle(&mut full, |_| ());
    let grade = full.grade("");
    for events_max in 0..=full.history().events().len() {
        let mut bank = trial.open_with(events_max);
        let mut file = bank.drain_history();
        straggle(&mut bank, |bank| {
            file += &bank.drain_history();
            let text = bank.history().to_string();
            assert_eq!(&History::parse(&text).unwrap().history, bank.history(), "{events_max}");
        });
        assert_eq!(file, full.history().to_string(), "{events_max}");
        assert_eq!(
            Grade::of(&History::parse(&file).unwrap().history, None).to_json(),
            grade.to_json()
        );
        let cut = bank.grade("");
        assert_eq!((cut.verdict(), cut.extra_refunds()), (grade.verdict(), grade.extra_refunds()));
        // Beside what is kept up to the bound there are the faults of the calls past it, and the end.
        let kept = bank.history().events().iter().skip(events_max);
        assert!(
            kept.clone().all(|event| matches!(event, Event::Fault(..) | Event::Settle)),
            "{events_max}: {kept:?}"
        );
    }
}

#[test]
fn a_copy_of_a_bank_hears_of_what_is_on_its_way_by_itself() {
    let mut bank = trial().open();
    let sent = bank.send(&refund());
    let mut copy = bank.clone();
    copy.delivered(&sent);
    assert_eq!((words(&copy), words(&bank)), ("arrive commit ok".into(), "arrive commit".into()));
    bank.abandoned(&sent);
    assert_eq!(words(&bank), "arrive commit info(left)");
    assert_eq!(held(&bank, "A-1"), ["42.50"]);
}
