//! The agents, turn by turn, with answers written by hand.

use super::*;
use crate::{
    call::{Answer, CallError, OrderState, Refunded, Refusal, RefusalCode, Reply},
    money::{Amount, Currency, Total},
    ticket::Ticket,
};

const ONE_ORDER: &str = r#"{"id": "A-1", "amount": "42.50"}"#;
const TWO_ORDERS: &str = r#"{"id": "A-1", "amount": "42.50"}, {"id": "A-2", "amount": "12.00"}"#;
const TWO_PARTS: &str =
    r#"{"id": "A-1", "amount": "80.00", "expect": ["30.00", "30.00"], "refunded": ["10.00"]}"#;

fn ticket(orders: &str) -> Ticket {
    Ticket::parse(&format!(r#"{{"version": 1, "currency": "EUR", "orders": [{orders}]}}"#)).unwrap()
}

fn euros(amounts: &[&str]) -> Vec<Amount> {
    let parse = |text: &&str| Amount::parse(text, Currency::EUR).unwrap();
    amounts.iter().map(parse).collect()
}

/// An agent and its calls of the turn under way.
struct Table {
    agent: Agent,
    calls: Vec<ToolCall>,
}

impl Table {
    fn new(orders: &str) -> Self {
        Self::with(Manner::Careful, orders)
    }

    fn with(manner: Manner, orders: &str) -> Self {
        Self { agent: Agent::new(manner, &ticket(orders)), calls: Vec::new() }
    }

    /// The next turn, in short: `call-1 A-1 read, call-2 A-2 42.50`, or the report's claims.
    fn turn(&mut self) -> String {
        assert!(self.calls.is_empty(), "unanswered: {:?}", self.calls);
        match self.agent.turn() {
            Turn::Report(report) => report
                .lines()
                .filter(|line| !line.ends_with(" none"))
                .collect::<Vec<_>>()
                .join(", "),
            Turn::Calls(calls) => {
                let words: Vec<String> = calls.iter().map(in_short).collect();
                self.calls = calls;
                words.join(", ")
            }
        }
    }

    fn answer(&mut self, answer: &Answer) {
        let call = self.calls.remove(0);
        self.agent.answered(&call, answer);
    }

    fn shows(&mut self, refunds: &[&str]) {
        let refunds = euros(refunds);
        self.answer(&Ok(Reply::Order(OrderState {
            id: self.calls[0].order.clone(),
            currency: Currency::EUR,
            amount: euros(&["99.00"])[0],
            refunded: refunds.iter().copied().sum::<Total>(),
            refunds,
            unsettled: Vec::new(),
        })));
    }

    fn paid(&mut self, number: u32) {
        let Action::Refund(amount) = self.calls[0].action else {
            panic!("a read cannot be paid");
        };
        self.answer(&Ok(Reply::Refunded(Refunded {
            order: self.calls[0].order.clone(),
            number,
            amount,
            currency: Currency::EUR,
            is_replay: false,
            status: crate::call::RefundStatus::Succeeded,
        })));
    }

    fn fails(&mut self, error: CallError) {
        self.answer(&Err(error));
    }
}

fn in_short(call: &ToolCall) -> String {
    let action = match call.action {
        Action::GetOrder => "read".to_owned(),
        Action::Refund(amount) => amount.display(Currency::EUR).to_string(),
    };
    format!("{} {} {action}", call.id, call.order)
}

fn refusal(code: RefusalCode) -> CallError {
    Refusal::new(code, "no").into()
}

#[test]
fn all_is_read_then_all_is_refunded_then_it_reports() {
    let mut table = Table::new(TWO_ORDERS);
    assert_eq!(table.turn(), "call-1 A-1 read, call-2 A-2 read");
    table.shows(&[]);
    table.shows(&[]);
    assert_eq!(table.turn(), "call-3 A-1 42.50, call-4 A-2 12.00");
    table.paid(1);
    table.paid(1);
    assert_eq!(table.turn(), "REFUNDED: A-1, A-2");
}

#[test]
fn the_report_has_all_four_lines() {
    let mut agent = Agent::new(
        Manner::Careful,
        &ticket(r#"{"id": "A-1", "amount": "42.50", "expect": ["42.50"], "refunded": ["42.50"]}"#),
    );
    let Turn::Calls(calls) = agent.turn() else {
        panic!("a report before a read");
    };
    agent.answered(&calls[0], &Err(refusal(RefusalCode::RunEnded)));
    let report = "REFUNDED: none\nFAILED: none\nDUPLICATED: none\nUNKNOWN: A-1\n";
    assert_eq!(agent.turn(), Turn::Report(report.to_owned()));
}

#[test]
fn only_failed_reads_are_sent_again_and_no_refund_before_all_are_answered() {
    let mut table = Table::new(TWO_ORDERS);
    table.turn();
    table.shows(&[]);
    table.fails(CallError::Unavailable);
    assert_eq!(table.turn(), "call-3 A-2 read");
    table.fails(CallError::Timeout);
    assert_eq!(table.turn(), "call-4 A-2 read");
    table.shows(&[]);
    assert_eq!(table.turn(), "call-5 A-1 42.50, call-6 A-2 12.00");
}

#[test]
fn an_order_is_given_up_after_25_reads_without_an_answer() {
    let mut table = Table::new(ONE_ORDER);
    for number in 1..=25 {
        assert_eq!(table.turn(), format!("call-{number} A-1 read"));
        table.fails(CallError::Unavailable);
    }
    assert_eq!(table.turn(), "UNKNOWN: A-1");
}

#[test]
fn after_any_error_the_order_is_read_before_it_is_refunded_again() {
    for error in [
        CallError::Unavailable,
        CallError::Timeout,
        CallError::Broken { detail: "reset".to_owned() },
        refusal(RefusalCode::InFlight),
    ] {
        let mut table = Table::new(ONE_ORDER);
        table.turn();
        table.shows(&[]);
        assert_eq!(table.turn(), "call-2 A-1 42.50");
        table.fails(error);
        assert_eq!(table.turn(), "call-3 A-1 read");
        table.fails(CallError::Unavailable);
        assert_eq!(table.turn(), "call-4 A-1 read");
        table.shows(&[]);
        assert_eq!(table.turn(), "call-5 A-1 42.50");
        table.paid(1);
        assert_eq!(table.turn(), "REFUNDED: A-1");
    }
}

#[test]
fn an_order_that_holds_its_refund_after_an_error_is_done() {
    let mut table = Table::new(ONE_ORDER);
    table.turn();
    table.shows(&[]);
    table.turn();
    table.fails(CallError::Timeout);
    table.turn();
    table.shows(&["42.50"]);
    assert_eq!(table.turn(), "REFUNDED: A-1");
}

#[test]
fn an_order_gets_three_refund_calls_and_a_last_look() {
    let mut table = Table::new(ONE_ORDER);
    table.turn();
    table.shows(&[]);
    for _ in 0..3 {
        assert!(table.turn().ends_with("A-1 42.50"));
        table.fails(CallError::Unavailable);
        assert!(table.turn().ends_with("A-1 read"));
        table.shows(&[]);
    }
    assert_eq!(table.turn(), "FAILED: A-1");
}

#[test]
fn without_a_last_look_only_a_lost_reply_leaves_the_order_unknown() {
    for (error, claim) in
        [(CallError::Timeout, "UNKNOWN: A-1"), (CallError::Unavailable, "FAILED: A-1")]
    {
        let mut table = Table::new(ONE_ORDER);
        table.turn();
        table.shows(&[]);
        table.turn();
        table.fails(error);
        for _ in 0..25 {
            assert!(table.turn().ends_with("read"));
            table.fails(CallError::Unavailable);
        }
        assert_eq!(table.turn(), claim);
    }
}

#[test]
fn after_a_refusal_the_order_is_judged_by_what_it_shows() {
    for (shown, claim) in [(&[][..], "FAILED: A-1"), (&["42.50"], "REFUNDED: A-1")] {
        let mut table = Table::new(ONE_ORDER);
        table.turn();
        table.shows(&[]);
        table.turn();
        table.fails(refusal(RefusalCode::AlreadyRefunded));
        assert_eq!(table.turn(), "call-3 A-1 read");
        table.shows(shown);
        assert_eq!(table.turn(), claim);
    }
}

#[test]
fn a_refund_number_or_a_read_gives_a_double_away() {
    let mut table = Table::new(TWO_ORDERS);
    table.turn();
    table.shows(&[]);
    table.shows(&[]);
    table.turn();
    table.paid(2);
    table.fails(CallError::Timeout);
    assert_eq!(table.turn(), "call-5 A-2 read");
    table.shows(&["12.00", "12.00"]);
    assert_eq!(table.turn(), "DUPLICATED: A-1, A-2");
}

#[test]
fn parts_are_refunded_one_after_the_other_beside_what_was_held_before() {
    let mut table = Table::new(TWO_PARTS);
    table.turn();
    table.shows(&["10.00"]);
    assert_eq!(table.turn(), "call-2 A-1 30.00");
    table.paid(2);
    assert_eq!(table.turn(), "call-3 A-1 30.00");
    table.paid(3);
    assert_eq!(table.turn(), "REFUNDED: A-1");
}

#[test]
fn three_refund_calls_are_for_each_expected_refund() {
    let mut table = Table::new(TWO_PARTS);
    table.turn();
    table.shows(&["10.00"]);
    for _ in 0..6 {
        assert!(table.turn().ends_with("30.00"));
        table.fails(CallError::Unavailable);
        table.turn();
        table.shows(&["10.00"]);
    }
    assert_eq!(table.turn(), "FAILED: A-1");
}

#[test]
fn a_number_that_does_not_add_up_is_looked_into_before_the_next_part() {
    let mut table = Table::new(TWO_PARTS);
    table.turn();
    table.shows(&["10.00"]);
    table.turn();
    // The harness sent the first part twice; its number says that both were paid.
    table.paid(3);
    assert_eq!(table.turn(), "call-3 A-1 read");
    table.shows(&["10.00", "30.00", "30.00"]);
    assert_eq!(table.turn(), "REFUNDED: A-1");
}

#[test]
fn a_held_refund_that_equals_an_expected_one_fulfils_it() {
    let mut table = Table::new(
        r#"{"id": "A-1", "amount": "80.00", "expect": ["30.00"], "refunded": ["30.00"]}"#,
    );
    table.turn();
    table.shows(&["30.00"]);
    assert_eq!(table.turn(), "REFUNDED: A-1");
}

#[test]
fn orders_of_which_nothing_is_expected_are_left_alone() {
    let alone = r#"{"id": "A-0", "amount": "5.00", "expect": []}"#;
    let mut table = Table::new(&format!("{alone}, {ONE_ORDER}"));
    assert_eq!(table.turn(), "call-1 A-1 read");
    table.shows(&[]);
    assert_eq!(table.turn(), "call-2 A-1 42.50");
    table.paid(1);
    assert_eq!(table.turn(), "REFUNDED: A-1");
}

#[test]
fn a_refund_that_nobody_answered_is_looked_for() {
    let mut table = Table::new(ONE_ORDER);
    table.turn();
    table.shows(&[]);
    table.turn();
    table.calls.clear();
    assert_eq!(table.turn(), "call-3 A-1 read");
}

#[test]
fn the_hasty_one_never_looks_and_repeats_whatever_the_error() {
    let mut table = Table::with(Manner::Hasty, TWO_ORDERS);
    assert_eq!(table.turn(), "call-1 A-1 42.50, call-2 A-2 12.00");
    table.fails(CallError::Timeout);
    table.fails(refusal(RefusalCode::AlreadyRefunded));
    assert_eq!(table.turn(), "call-3 A-1 42.50, call-4 A-2 12.00");
    table.paid(2);
    table.fails(CallError::Unavailable);
    assert_eq!(table.turn(), "call-5 A-2 12.00");
    table.fails(CallError::Unavailable);
    assert_eq!(table.turn(), "FAILED: A-2, DUPLICATED: A-1");
}

#[test]
fn the_hasty_one_knows_from_the_ticket_what_an_order_holds() {
    let mut table = Table::with(Manner::Hasty, TWO_PARTS);
    assert_eq!(table.turn(), "call-1 A-1 30.00");
    table.paid(2);
    assert_eq!(table.turn(), "call-2 A-1 30.00");
    table.paid(3);
    assert_eq!(table.turn(), "REFUNDED: A-1");
}

#[test]
fn the_trusting_one_believes_what_the_error_says() {
    let mut table = Table::with(Manner::Trusting, TWO_ORDERS);
    assert_eq!(table.turn(), "call-1 A-1 read, call-2 A-2 read");
    table.shows(&[]);
    table.shows(&[]);
    table.turn();
    table.fails(CallError::Unavailable);
    table.fails(CallError::Timeout);
    // What may have happened is looked at; what is said not to have happened is done again.
    assert_eq!(table.turn(), "call-5 A-2 read");
    table.shows(&["12.00"]);
    assert_eq!(table.turn(), "call-6 A-1 42.50");
    table.fails(refusal(RefusalCode::OverRefund));
    assert_eq!(table.turn(), "REFUNDED: A-2, FAILED: A-1");
}

#[test]
fn the_forgetful_one_takes_the_error_of_a_look_for_the_answer_of_the_refund() {
    let mut table = Table::with(Manner::Forgetful, TWO_ORDERS);
    table.turn();
    table.shows(&[]);
    table.fails(CallError::Unavailable);
    // A look before any refund can be mixed up with nothing.
    assert_eq!(table.turn(), "call-3 A-2 read");
    table.shows(&[]);
    table.turn();
    table.fails(CallError::Timeout);
    table.fails(CallError::Timeout);
    assert_eq!(table.turn(), "call-6 A-1 read, call-7 A-2 read");
    table.fails(CallError::Unavailable);
    table.fails(CallError::Timeout);
    assert_eq!(table.turn(), "call-8 A-2 read");
    table.shows(&["12.00"]);
    assert_eq!(table.turn(), "call-9 A-1 42.50");
    table.paid(2);
    assert_eq!(table.turn(), "REFUNDED: A-2, DUPLICATED: A-1");
}

#[test]
fn the_paraphrasing_one_words_every_repeat_anew() {
    let mut table = Table::with(Manner::Paraphrasing, ONE_ORDER);
    table.turn();
    table.shows(&[]);
    let mut calls = Vec::new();
    for _ in 0..3 {
        table.turn();
        calls.push(table.calls[0].clone());
        table.fails(CallError::Timeout);
        table.turn();
        table.shows(&[]);
    }
    let words: Vec<_> = calls.iter().map(|call| (call.arguments(), call.chosen_key())).collect();
    assert_eq!(
        words,
        [
            (r#"{"order":"A-1","amount":"42.50"}"#.to_owned(), "refund:A-1".to_owned()),
            (r#"{"amount":"42.5","order":"A-1"}"#.to_owned(), "refund-A-1".to_owned()),
            (r#"{"order": "A-1", "amount": 42.5}"#.to_owned(), "refund_A-1".to_owned()),
        ]
    );
    for call in &calls {
        assert_eq!(call.canonical_arguments(), r#"{"order":"A-1","amount":"42.50"}"#);
        assert_eq!(call.intent, "refund:A-1");
    }
}

#[test]
fn another_part_is_worded_plainly_again() {
    let mut table = Table::with(Manner::Paraphrasing, TWO_PARTS);
    table.turn();
    table.shows(&["10.00"]);
    table.turn();
    table.fails(CallError::Unavailable);
    table.turn();
    table.shows(&["10.00"]);
    table.turn();
    assert_eq!(table.calls[0].wording, Wording::after(1));
    table.paid(2);
    table.turn();
    assert_eq!(table.calls[0].wording, Wording::FIRST);
}

#[test]
fn an_agent_goes_on_from_what_was_saved_of_it() {
    for manner in Manner::ALL {
        let mut table = Table::with(manner, TWO_PARTS);
        table.turn();
        if manner != Manner::Hasty {
            table.shows(&["10.00"]);
            table.turn();
        }
        table.fails(CallError::Timeout);
        let saved = serde_json::to_string(&table.agent).unwrap();
        let mut again: Agent = serde_json::from_str(&saved).unwrap();
        assert_eq!(again, table.agent);
        assert_eq!(again.turn(), table.agent.turn(), "{manner}");
    }
}

#[test]
fn calls_of_another_life_have_other_names() {
    let mut agent = Agent::new(Manner::Careful, &ticket(ONE_ORDER));
    let mut again = agent.clone();
    again.begin_life(2);
    let first = |agent: &mut Agent| match agent.turn() {
        Turn::Calls(calls) => calls[0].id.to_string(),
        Turn::Report(report) => panic!("{report}"),
    };
    assert_eq!((first(&mut agent), first(&mut again)), ("call-1".into(), "call-2-1".into()));
}
