//! Histories: money is conserved in them, they read back to what they were, and damage is refused by line.

use badbank::{
    Bank, Ticket,
    call::{Operation, RefusalCode, Request},
    fault::{Fault, Plan},
    grade::Grade,
    harness::Design,
    history::{Event, History},
    ledger::Caller,
    money::Total,
};

use crate::trial::{Trial, assert_log, fixture, held, told, told_of};

/// Refunds held at the start and commits of an order, as its history has them.
fn committed(history: &History, place: usize) -> Total {
    let order = &history.header().ticket.orders()[place];
    let commits = history.events().iter().filter_map(|event| match event {
        Event::Commit(call, ..) => Some(history.call(*call)),
        _ => None,
    });
    let amounts = commits.filter(|call| call.order.get() == place).filter_map(|call| call.amount);
    order.refunded().iter().copied().chain(amounts).sum()
}

#[test]
fn no_money_appears_or_disappears_in_a_thousand_runs() {
    let mut paid_twice = 0;
    for seed in 0..=1_000 {
        let run = Trial::plan("article", seed).drive(Design::Retries);
        let history = run.bank.history();
        let accounts = run.bank.ledger().accounts();
        for (place, account) in accounts.iter().enumerate() {
            let held: Total = account.refunds().iter().copied().sum();
            assert_eq!(account.refunded(), held, "seed {seed}");
            assert_eq!(committed(history, place), held, "seed {seed}");
        }
        let commits = history.events().iter();
        let commits = commits.filter(|event| matches!(event, Event::Commit(..)));
        let held: usize = accounts.iter().map(|account| account.refunds().len()).sum();
        assert_eq!(commits.count(), held, "seed {seed}");
        paid_twice += u32::from(held > accounts.len());
    }
    assert!(paid_twice > 500, "{paid_twice}");
}

#[test]
fn a_thousand_histories_read_back_to_what_they_were() {
    for seed in 0..=1_000 {
        let run = Trial::plan("article", seed).drive(Design::Retries);
        let history = run.bank.history();
        let text = history.to_string();
        let read = History::parse(&text).unwrap();
        assert_eq!(read.warning, None, "seed {seed}");
        assert_eq!(&read.history, history, "seed {seed}");
        assert_eq!(read.history.to_string(), text, "seed {seed}");
        let grade = Grade::of(&read.history, None);
        assert_eq!(grade.to_json(), run.grade.to_json(), "seed {seed}");
    }
}

/// A run in which every event there is happens.
fn eventful() -> Bank {
    let mut bank = Trial::orders(
        r#"{"id": "A-1", "amount": "50.00", "expect": ["20.00"], "refunded": ["10.00"]},
           {"id": "J-1", "amount": "900", "currency": "JPY"}"#,
    )
    .reject()
    .script("A-1 refund #1", Fault::DUPLICATE)
    .script("A-1 refund #2", Fault::TIMEOUT)
    .script("A-1 refund #4", "late".parse().unwrap())
    .script("A-1 get_order #2", "stale(9)".parse().unwrap())
    .script("J-1 refund #1", Fault::TRANSIENT)
    .open();
    assert_eq!(told_of(bank.call(&Request::get_order("A-1"))), "ok");
    assert_eq!(told(&bank.refund("A-1", "20.00", Some("k\"1"))), "ok");
    assert_eq!(told(&bank.refund("A-1", "10.00", None)), "no_reply");
    assert_eq!(told(&bank.refund("A-1", "99.00", None)), "over_refund");
    assert_eq!(told(&bank.refund("A-1", "1.00", None)), "no_reply");
    assert_eq!(told_of(bank.call(&Request::get_order("A-1"))), "ok");
    assert_eq!(told(&bank.refund("A-9", "1.00", None)), "unknown_order");
    assert_eq!(told(&bank.refund("J-1", "9.5", None)), "invalid_amount");
    bank.turn_away(None, Some("not an id"), RefusalCode::NotFound);
    assert_eq!(told(&bank.refund("J-1", "900", None)), "unavailable");
    bank.crash();
    bank.set_plan(
        Plan::parse(
            r#"{"version": 1, "dedupe": "off", "rules": [
                {"on": "refund", "order": "Z-1", "fault": "lost", "rate": 0.5},
                {"on": "*", "fault": "transient", "attempts": "9-"}]}"#,
        )
        .unwrap(),
    )
    .unwrap();
    let mut request = Request::refund("J-1", "900".into(), Some("k2"));
    request.caller = Some(Caller::from_credential(b"T1"));
    assert_eq!(told_of(bank.call(&request)), "ok");
    bank.report("REFUNDED: A-1\n\u{e9}t\u{e9} \"\u{2028}");
    bank.settle();
    bank
}

#[test]
fn every_event_is_written_and_read_back() {
    let bank = eventful();
    let history = bank.history();
    let text = history.to_string();
    let read = History::parse(&text).unwrap();
    assert_eq!(&read.history, history);
    assert_eq!(read.history.to_string(), text);
    let words: std::collections::BTreeSet<&str> =
        history.events().iter().map(Event::word).collect();
    let expected = [
        "arrive", "commit", "crash", "fail", "fault", "info", "invoke", "land", "ok", "plan",
        "refuse", "replay", "report", "settle",
    ];
    assert_eq!(words.into_iter().collect::<Vec<_>>(), expected);
    assert_log!("history", text.trim_end());
}

#[test]
fn a_late_delivery_lands_once_its_calls_have_had_their_effect() {
    let mut bank =
        Trial::orders(r#"{"id": "A-1", "amount": "50.00"}, {"id": "A-2", "amount": "1.00"}"#)
            .script("A-1 refund #1", "late(2)".parse().unwrap())
            .script("A-1 get_order #1", Fault::LOST)
            .open();
    assert_eq!(told(&bank.refund("A-1", "50.00", None)), "no_reply");
    // A faulted call counts, and one on another order does not.
    assert_eq!(told_of(bank.call(&Request::get_order("A-1"))), "no_reply");
    assert_eq!(told(&bank.refund("A-2", "1.00", None)), "ok");
    assert_eq!(held(&bank, "A-1"), [""; 0]);
    assert_eq!(bank.get_order("A-1").unwrap().refunds, []);
    assert_eq!(held(&bank, "A-1"), ["50.00"]);
    assert_eq!(bank.get_order("A-1").unwrap().refunds.len(), 1);
}

#[test]
fn at_the_end_what_is_under_way_finishes_and_then_what_is_late_lands_in_order() {
    let late = "late(9)".parse().unwrap();
    let mut bank =
        Trial::orders(r#"{"id": "B-1", "amount": "9.00"}, {"id": "A-1", "amount": "9.00"}"#)
            .script("B-1 refund #1", late)
            .script("A-1 refund #1", late)
            .script("A-1 refund #2", late)
            .open();
    for (order, amount) in [("B-1", "3.00"), ("A-1", "1.00"), ("A-1", "2.00")] {
        assert_eq!(told(&bank.refund(order, amount, None)), "no_reply");
    }
    let under_way = bank.arrive(&Request::refund("A-1", "4.00".into(), None));
    assert!(matches!(under_way, badbank::bank::Arrival::Pending(_)));
    bank.settle();
    assert_eq!(held(&bank, "A-1"), ["4.00", "1.00", "2.00"]);
    let history = bank.history();
    let commits = history.events().iter().filter_map(|event| match event {
        Event::Commit(call, ..) => Some(history.call_id(*call).to_string()),
        _ => None,
    });
    let in_order = ["A-1 refund #3", "A-1 refund #1", "A-1 refund #2", "B-1 refund #1"];
    assert_eq!(commits.collect::<Vec<_>>(), in_order);
}

#[test]
fn a_history_cut_anywhere_in_its_last_line_is_read_up_to_there() {
    let text = fixture("histories/duplicate_delivery.jsonl");
    let whole = History::parse(&text).unwrap().history;
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    let line = text.lines().count();
    for end in last..=text.len() {
        let read = History::parse(&text[..end]).unwrap();
        if end + 1 >= text.len() {
            assert_eq!(read.history, whole, "only the line's end is gone");
            assert_eq!(read.warning, None);
            continue;
        }
        assert_eq!(read.history.events().len(), whole.events().len() - 1);
        let warning = format!("line {line} is cut off; the history was read up to there");
        // Cut between two lines, nothing tells that there was another.
        assert_eq!(read.warning, (end > last).then_some(warning), "cut at {end}");
    }
}

#[test]
fn a_history_cut_anywhere_else_is_read_or_refused_and_never_misread() {
    let bank = eventful();
    let text = bank.history().to_string();
    let header = text.find('\n').unwrap();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        match History::parse(&text[..end]) {
            Err(error) => assert!(end < header && error.line == 1, "cut at {end}: {error}"),
            Ok(read) => {
                let kept = read.history.events();
                assert_eq!(kept, &bank.history().events()[..kept.len()], "cut at {end}");
                let lines = text[..end].trim_end().lines().count();
                assert!(kept.len() + 2 >= lines, "cut at {end}");
            }
        }
    }
}

#[test]
fn line_ends_of_either_kind_are_read() {
    let text = fixture("histories/clean.jsonl");
    let whole = History::parse(&text).unwrap().history;
    let read = History::parse(&text.replace('\n', "\r\n")).unwrap();
    assert_eq!(read.history, whole);
    assert_eq!(read.warning, None);

    let damaged = text.replace("\"seq\":2", "\"seq\":9").replace('\n', "\r\n");
    assert_eq!(History::parse(&damaged).unwrap_err().line, 3);
}

/// How a history is refused in which `from`, which stands in it once, is `to`.
fn refusal(from: &str, to: &str) -> (usize, String) {
    let text = fixture("histories/duplicate_delivery.jsonl");
    assert_eq!(text.matches(from).count(), 1, "{from}");
    let error = History::parse(&text.replace(from, to)).unwrap_err();
    (error.line, error.message)
}

#[test]
fn a_header_that_is_none_is_refused_at_the_first_line() {
    for (from, to, wanted) in [
        (r#""badbank":"history","version":1"#, r#""badbank":"history","version":2"#, "version 2"),
        (r#""badbank":"history""#, r#""badbank":"plan""#, "not a `history`"),
        (r#"{"badbank":"history","#, "{", "does not begin a history"),
        (r#""seed":7"#, r#""seed":-7"#, "does not begin a history"),
        (r#""dedupe":"first_reply""#, r#""dedupe":"maybe""#, "maybe"),
        (r#""orders":[{"id":"A-1""#, r#""orders":[{"id":"A 1""#, "A 1"),
        (r#","expect":["42.50"]"#, r#","expect":[]"#, "expects no refund"),
    ] {
        let (line, message) = refusal(from, to);
        assert_eq!(line, 1, "{message}");
        assert!(message.contains(wanted), "{message}");
    }
    for text in ["", "\n", "[]", "null", "badbank faults v1 seed=7\n"] {
        assert_eq!(History::parse(text).unwrap_err().line, 1, "{text:?}");
    }
}

#[test]
fn a_damaged_line_in_the_middle_is_refused_with_its_number() {
    for (from, to, line, wanted) in [
        (r#"{"seq":3"#, r#"{"seq":4"#, 4, "`seq` is 4, and 3 comes next"),
        (r#"{"seq":3,"#, r#"{"seq":3"#, 4, ""),
        (r#"{"seq":3,"event":"arrive""#, r#"{"seq":3,"event":"arrived""#, 4, "`arrived`"),
        (
            r#"{"seq":3,"event":"arrive","call":1"#,
            r#"{"seq":3,"event":"arrive","call":2"#,
            4,
            "never invoked",
        ),
        (
            r#"{"seq":3,"event":"arrive","call":1"#,
            r#"{"seq":3,"event":"arrive""#,
            4,
            "`call` is missing",
        ),
        (
            r#"{"seq":3,"event":"arrive""#,
            r#"{"seq":3,"by":1,"event":"arrive""#,
            4,
            "unknown field `by`",
        ),
        (r#"{"seq":7,"event":"ok""#, r#"{"seq":7,"event":"fail""#, 8, "`code` is missing"),
        (
            r#"{"seq":7,"event":"ok","call":1,"op":"refund""#,
            r#"{"seq":7,"event":"ok","call":1,"op":"get_order""#,
            8,
            "says otherwise",
        ),
        (r#""fault":"duplicate""#, r#""fault":"doubled""#, 3, "`doubled` is not a fault"),
        (
            r#""amount":"42.50","refund":1"#,
            r#""amount":"42.50","refund":2"#,
            5,
            "`refund` is 2, and 1 comes next",
        ),
        (r#""amount":"42.50","refund":1"#, r#""amount":"4.25","refund":1"#, 5, "says otherwise"),
        (
            r#""amount":"42.50","refund":1"#,
            r#""amount":"42.50","key":"k9","refund":1"#,
            5,
            "says otherwise",
        ),
        (
            r#"{"seq":1,"event":"invoke","call":1,"op":"refund","order":"A-1""#,
            r#"{"seq":1,"event":"invoke","call":1,"op":"refund","order":"A-2""#,
            2,
            "no order `A-2`",
        ),
        (
            r#"{"seq":1,"event":"invoke","call":1,"op":"refund""#,
            r#"{"seq":1,"event":"invoke","call":1,"op":"get_order""#,
            2,
            "a read has none",
        ),
    ] {
        let (at, message) = refusal(from, to);
        assert_eq!(at, line, "{to}: {message}");
        assert!(message.contains(wanted), "{to}: {message}");
    }
}

#[test]
fn a_missing_and_a_doubled_line_are_refused() {
    let text = fixture("histories/duplicate_delivery.jsonl");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for gone in 1..lines.len() - 1 {
        let mut shorter = lines.clone();
        shorter.remove(gone);
        let error = History::parse(&shorter.concat()).unwrap_err();
        assert_eq!(error.line, gone + 1);
        let mut longer = lines.clone();
        longer.insert(gone, lines[gone]);
        let error = History::parse(&longer.concat()).unwrap_err();
        assert_eq!(error.line, gone + 2);
    }
}

#[test]
fn a_call_that_is_invoked_twice_is_refused() {
    let text = fixture("histories/repeat_after_success.jsonl");
    let twice = text.replace(r#""call":2"#, r#""call":1"#);
    let error = History::parse(&twice).unwrap_err();
    assert_eq!(error.line, 6);
    assert!(error.message.contains("invoked twice"), "{error}");
}

/// A history of two orders, with reads, refunds, faults and calls that overlap.
fn long() -> String {
    let mut bank = Trial::plan("article", 7).drive(Design::Retries).bank;
    bank.settle();
    bank.history().to_string()
}

#[test]
fn an_attempt_that_is_out_of_sequence_is_refused() {
    let text = long();
    let invokes = text.lines().enumerate().filter(|(_, line)| line.contains(r#""event":"invoke""#));
    let mut changed = 0;
    for (index, line) in invokes {
        let at = line.find(r#""attempt":"#).unwrap() + r#""attempt":"#.len();
        let length = line[at..].find(|letter: char| !letter.is_ascii_digit()).unwrap();
        let attempt: u32 = line[at..at + length].parse().unwrap();
        for other in [0, attempt - 1, attempt + 1, u32::MAX] {
            let damaged = format!("{}{other}{}", &line[..at], &line[at + length..]);
            let error = History::parse(&text.replace(line, &damaged)).unwrap_err();
            let wanted = format!("`attempt` is {other}, and {attempt} comes next for a ");
            assert_eq!(error.line, index + 1, "{damaged}");
            assert!(error.message.starts_with(&wanted), "{error}");
        }
        changed += 1;
    }
    assert!(changed > 16, "{changed}");
}

#[test]
fn a_call_that_is_answered_twice_is_refused() {
    let text = fixture("histories/duplicate_delivery.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    let answer = lines.iter().position(|line| line.contains(r#""event":"ok""#)).unwrap();
    for (word, code) in
        [("ok", ""), ("fail", r#","code":"unavailable""#), ("info", r#","code":"timeout""#)]
    {
        let again = format!(
            r#"{{"seq":{},"event":"{word}","call":1,"op":"refund","order":"A-1","attempt":1{code}}}"#,
            answer + 1
        );
        let text = [&lines[..=answer], &[again.as_str()]].concat().join("\n") + "\n";
        let error = History::parse(&text).unwrap_err();
        assert_eq!(error.line, answer + 2);
        assert_eq!(error.message, "call 1, `A-1 refund #1`, is answered twice");
    }
}

#[test]
fn past_the_bound_attempts_may_be_missing_and_still_count_up() {
    let fault = Fault::TRANSIENT;
    let trial = Trial::orders(r#"{"id": "A-1", "amount": "50.00"}"#)
        .script("A-1 refund #2", fault)
        .script("A-1 refund #4", fault);
    let mut bank = trial.open_with(4);
    for _ in 0..5 {
        let _paid_or_not = bank.refund("A-1", "1.00", None);
    }
    bank.settle();
    let text = bank.history().to_string();
    assert_eq!(History::parse(&text).unwrap().history.to_string(), text);
    let damaged = text.replace(r#""attempt":4"#, r#""attempt":2"#);
    let error = History::parse(&damaged).unwrap_err();
    assert!(error.message.contains("`attempt` is 2, and 3 comes next"), "{error}");
}

#[test]
fn a_read_that_commits_is_refused() {
    let text = fixture("histories/clean.jsonl");
    let read = r#"{"seq":2,"event":"arrive","call":1,"op":"get_order","order":"A-1","attempt":1,"delivery":1}"#;
    let commit = r#"{"seq":2,"event":"commit","call":1,"op":"get_order","order":"A-1","attempt":1,"delivery":1,"refund":1}"#;
    assert!(text.contains(read));
    let error = History::parse(&text.replace(read, commit)).unwrap_err();
    assert_eq!((error.line, error.message.as_str()), (3, "a read commits nothing"));
}

#[test]
fn attempts_count_up_per_operation_and_order() {
    let bank = eventful();
    let history = bank.history();
    let mut seen = std::collections::BTreeMap::new();
    for event in history.events() {
        if let Event::Invoke(call) = event {
            let call = history.call(*call);
            let attempt: &mut u32 = seen.entry((call.order, call.operation)).or_default();
            *attempt += 1;
            assert_eq!(call.attempt, *attempt);
        }
    }
    let refunds = seen.iter().filter(|((_, operation), _)| *operation == Operation::Refund);
    assert_eq!(refunds.map(|(_, attempts)| *attempts).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn a_refused_request_is_no_call_and_moves_no_draw() {
    let ticket = Ticket::generate(7);
    let open = || Bank::open(&ticket, Plan::article().seed(7));
    let (mut bank, mut bothered) = (open(), open());
    for order in ticket.orders() {
        let _answer = bank.refund(order.id(), order.amount(), None);
        for amount in ["", "-1", "1e2", "0", "1.234"] {
            assert_eq!(told(&bothered.refund(order.id(), amount, None)), "invalid_amount");
        }
        assert_eq!(told(&bothered.refund(order.id(), "1", Some(" "))), "invalid_key");
        let _answer = bothered.refund(order.id(), order.amount(), None);
    }
    assert!(!bank.fault_log().calls().is_empty());
    assert_eq!(bothered.fault_log(), bank.fault_log());
    assert_eq!(bothered.history().call_count(), 8);
    assert_eq!(bothered.grade("").to_json(), bank.grade("").to_json());
}

#[test]
fn after_its_end_a_run_takes_nothing_more() {
    let mut bank = eventful();
    let text = bank.history().to_string();
    assert_eq!(told(&bank.refund("A-1", "1.00", None)), "run_ended");
    assert_eq!(told(&bank.refund("A-9", "1.00", None)), "run_ended");
    assert_eq!(told_of(bank.call(&Request::get_order("A-1"))), "run_ended");
    bank.report("FAILED: A-1");
    bank.crash();
    bank.turn_away(None, None, RefusalCode::NotFound);
    bank.settle();
    assert_eq!(bank.history().to_string(), text);
}
