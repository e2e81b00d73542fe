//! What is read from files and bodies: large ones, and however their words are spelt.

use badbank::{
    Bank, Ticket,
    fault::{FaultLog, Plan, Truncation},
    grade::{Grade, Verdict},
    history::History,
};

/// A ticket of so many orders, a line each.
fn ticket(orders: u32) -> String {
    let orders = (1..=orders).map(|order| format!(r#"{{"id": "A-{order}", "amount": "1.00"}}"#));
    let orders = orders.collect::<Vec<_>>().join(",\n");
    format!("{{\"version\": 1, \"currency\": \"EUR\", \"orders\": [\n{orders}]}}")
}

/// A plan with a rule for each of the orders up to one, a line each.
fn plan(orders: u32, trigger: &str) -> String {
    let rules = (1..=orders).map(|order| {
        format!(r#"{{"on": "refund", "order": "A-{order}", "fault": "transient", {trigger}}}"#)
    });
    let rules = rules.collect::<Vec<_>>().join(",\n");
    format!("{{\"version\": 1, \"rules\": [\n{rules}]}}")
}

/// Were lines counted for each order, or orders found by walking them, this would take minutes.
#[test]
fn a_ticket_of_a_hundred_thousand_orders_is_read_in_one_go() {
    let ticket = Ticket::parse(&ticket(100_000)).unwrap();
    for order in ticket.orders() {
        assert_eq!(ticket.order(order.id()).unwrap().id(), order.id());
    }
    assert!(ticket.order("A-0").is_none());
}

/// Were each rule held against each order, or each unfired script against the others, this would take minutes.
#[test]
fn a_run_of_many_orders_and_rules_is_opened_graded_and_read_back_in_one_go() {
    const ORDERS: u32 = 5_000;
    let ticket = Ticket::parse(&ticket(ORDERS)).unwrap();
    let ids: Vec<&str> = ticket.orders().iter().map(|order| order.id().as_str()).collect();
    let report = format!("FAILED: {}", ids.join(" "));
    for trigger in
        [r#""attempts": "1-2""#, r#""rate": 1"#, r#""burst": {"good": 1, "bad": 1000000}"#]
    {
        let plan = Plan::parse(&plan(ORDERS + 1, trigger)).unwrap();
        assert_eq!(plan.warnings(&ticket).len(), 1);
        let mut bank = Bank::open(&ticket, plan);
        let idle = bank.preview();
        assert_eq!(idle.verdict(), Verdict::Fail);
        for order in ticket.orders() {
            let _met = bank.refund(order.id(), order.amount(), None);
        }
        let grade = bank.grade(&report);
        let recorded = History::parse(&bank.history().to_string()).unwrap().history;
        assert_eq!(Grade::of(&recorded, Some(&report)).to_json(), grade.to_json());
        let (name, met) = &grade.exposure()[0];
        assert_eq!(name, "transient");
        assert!(*met > u64::from(ORDERS) / 2, "{met}");
    }
}

#[test]
fn words_are_read_with_dashes_too() {
    let plan = |[on, fault, dedupe, truncation]: [&str; 4]| {
        let text = format!(
            r#"{{"version": 1, "dedupe": "{dedupe}", "truncation": "{truncation}", "rules": [
                {{"on": "{on}", "fault": "{fault}", "attempts": "1"}}]}}"#
        );
        Plan::parse(&text).unwrap()
    };
    let dashed = plan(["get-order", "rate-limited", "small-cache", "content-length"]);
    assert_eq!(dashed, plan(["get_order", "rate_limited", "small_cache", "content_length"]));
    assert_eq!(dashed.settings().truncation, Truncation::ContentLength);

    let log: FaultLog =
        "badbank faults v1 seed=7\nA-1 get-order #1 reset-before\n".parse().unwrap();
    assert_eq!(log.to_string(), "badbank faults v1 seed=7\nA-1 get_order #1 reset_before\n");
}

#[test]
fn a_history_is_read_with_dashes_too() {
    let ticket = Ticket::generate(7);
    let plan = r#"{"version": 1, "over_refund": "reject", "truncation": "chunked", "rules": [
        {"on": "get_order", "fault": "rate_limited", "attempts": "1"},
        {"on": "get_order", "fault": "server_error", "attempts": "2"}]}"#;
    let mut bank = Bank::open(&ticket, Plan::parse(plan).unwrap());
    for order in ticket.orders() {
        let _failed = (bank.get_order(order.id()), bank.get_order(order.id()));
        for _ in 0..2 {
            let _paid_or_not = bank.refund(order.id(), order.amount(), None);
        }
    }
    bank.settle();
    let text = bank.history().to_string();
    let dashed = ["get_order", "rate_limited", "server_error", "already_refunded"]
        .into_iter()
        .fold(text.clone(), |text, word| {
            assert!(text.contains(word), "{word}");
            text.replace(&format!(r#""{word}""#), &format!(r#""{}""#, word.replace('_', "-")))
        });
    assert_ne!(dashed, text);
    assert_eq!(History::parse(&dashed).unwrap().history, *bank.history());
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    const MARK: char = '\u{feff}';
    let ticket = Ticket::generate(7);
    assert_eq!(Ticket::parse(&format!("{MARK}{}", ticket.to_json())), Ok(ticket.clone()));
    assert_eq!(
        Plan::parse(&format!("{MARK}{{\"version\": 1}}")).unwrap(),
        Plan::parse(r#"{"version": 1}"#).unwrap()
    );
    assert_eq!(Plan::parse(&format!("{MARK}{{\"version\":\n2}}")).unwrap_err().line, 2);

    let bank = Bank::open(&ticket, Plan::calm());
    let history = format!("{MARK}{}", bank.history());
    assert!(History::is_one(&history));
    assert_eq!(History::parse(&history).unwrap().history, *bank.history());
    let log = format!("{MARK}{}", bank.fault_log());
    assert!(FaultLog::is_one(&log));
    assert_eq!(log.parse(), Ok(bank.fault_log()));
}

#[test]
fn a_list_is_no_object_even_where_it_has_as_many_fields() {
    for text in [
        "[1,null,\"off\"]",
        " [1, null, \"off\", \"allow\", 1, 0, \"status\", 1, \"seconds\", \"content_length\", 5, []]",
    ] {
        let error = Plan::parse(text).unwrap_err();
        assert_eq!(
            (error.line, error.message.as_str()),
            (1, "this is a list, and an object is wanted")
        );
        let error = Ticket::parse(text).unwrap_err();
        assert_eq!(error.message, "this is a list, and an object is wanted");
    }
    let rules = "{\"version\": 1,\n \"rules\": [\n [\"refund\", null, \"timeout\", 1]]}";
    assert_eq!(Plan::parse(rules).unwrap_err().line, 3);
}
