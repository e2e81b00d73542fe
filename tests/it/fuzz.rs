//! Whatever is read, be it noise or a document with a few bytes changed: it never panics, what is refused is refused
//! at a line of the text, and what is taken reads back from its own text as the same.
//!
//! The inputs are the same in every run.

use std::{fmt, path::Path, str::FromStr};

use badbank::{
    Bank, DocumentError, Seed, Ticket,
    call::CallId,
    fault::{Attempts, Fault, FaultLog, MeanLength, NAMED_PLANS, On, Plan, Rate},
    grade::{Claim, Grade, Report},
    history::History,
    money::{Amount, Currency},
    ticket::OrderId,
};
use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_oneof},
    sample::{Index, select},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::trial::{Trial, fixture};

/// What may be put into a document, parted by blanks: words and signs of the formats, and numbers at their bounds.
const TOKENS: &str = r#"{ } [ ] : , " \ . - + # ( ) * 0 1 00 0.5 1e5 -1 4294967295 4294967296 18446744073709551615
 18446744073709551616 999999999999999 null true "" \u0030 \ud800 é EUR JPY KWD A-1 none late(2) stale(0) twice+timeout
 refund get_order "attempt":0 "attempt":1 "call":1 "key":"k" "expect":[] "seed":7 "rate":1 "fault":"lost" REFUNDED: ``` x"#;

/// The tokens, and what is hard to see between them.
fn tokens() -> impl Strategy<Value = &'static str> {
    let unseen = [" ", "\n", "\r\n", "\u{0}", "\u{feff}", "\u{2028}"];
    select(TOKENS.split_whitespace().chain(unseen).collect::<Vec<_>>())
}

/// A change to a text.
#[derive(Clone, Debug)]
enum Edit {
    Insert(Index, &'static str),
    Remove(Index, usize),
    Repeat(Index, usize),
    Set(Index, u8),
    Cut(Index),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let span = |at: &Index, length: usize| {
            let start = at.index(bytes.len() + 1);
            start..bytes.len().min(start + length)
        };
        match self {
            Self::Insert(at, token) => {
                let at = span(at, 0);
                bytes.splice(at, token.bytes());
            }
            Self::Remove(at, length) => {
                let span = span(at, *length);
                bytes.drain(span);
            }
            Self::Repeat(at, length) => {
                let span = span(at, *length);
                let again = bytes[span.clone()].to_vec();
                bytes.splice(span.start..span.start, again);
            }
            Self::Set(at, byte) => {
                let span = span(at, 1);
                bytes[span].fill(*byte);
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        4 => (any::<Index>(), tokens()).prop_map(|(at, token)| Edit::Insert(at, token)),
        2 => (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        2 => (any::<Index>(), 1..200_usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        1 => any::<Index>().prop_map(Edit::Cut),
    ];
    vec(edit, 0..5)
}

/// Noise, strings of tokens, and the documents with a few changes.
fn inputs(documents: Vec<String>) -> impl Strategy<Value = Vec<u8>> {
    let changed = (select(documents), edits()).prop_map(|(document, edits)| {
        let mut bytes = document.into_bytes();
        for edit in edits {
            edit.apply(&mut bytes);
        }
        bytes
    });
    let tokens = vec(tokens(), 0..12).prop_map(|tokens| tokens.concat().into_bytes());
    prop_oneof![1 => vec(any::<u8>(), 0..60), 1 => tokens, 8 => changed]
}

fn for_all(cases: u32, documents: Vec<String>, property: impl Fn(&[u8])) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let held = TestRunner::new_with_rng(config, rng).run(&inputs(documents), |bytes| {
        property(&bytes);
        Ok(())
    });
    if let Err(error) = held {
        panic!("{error}");
    }
}

/// The same for what is read from text.
fn for_all_texts(cases: u32, documents: Vec<String>, property: impl Fn(&str)) {
    for_all(cases, documents, |bytes| property(&String::from_utf8_lossy(bytes)));
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn assert_within(text: &str, error: &DocumentError) {
    let lines = text.matches('\n').count() + 1;
    assert!((1..=lines).contains(&error.line), "line {} of {lines}: {error}", error.line);
    assert!(error.message.chars().count() < 1000, "{error}");
}

/// Every history among the fixtures.
fn histories() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/histories");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.iter().map(|name| fixture(&format!("histories/{name}"))).collect()
}

const TICKET: &str = r#"{"version": 1, "currency": "EUR",
 "orders": [
  {"id": "A-1", "amount": "42.50"},
  {"id": "A-2", "amount": 80.5, "expect": ["30.00", "30.00"], "refunded": ["10.00"]},
  {"id": "J-1", "amount": "900", "currency": "JPY", "expect": []}]}"#;
const SETTINGS: &str = r#"{"version": 1, "seed": 7, "dedupe": "strict", "over_refund": "reject", "key_ttl_s": 86400,
 "latency_ms": 0, "lost_reply": "hang", "retry_after_s": 3, "retry_after": "date", "truncation": "chunked", "slow_ms": 10,
 "rules": [
  {"on": "refund", "order": "A-1", "attempts": "1-4", "fault": "late(2)"},
  {"on": "get-order", "burst": {"good": 6, "bad": 2.5}, "fault": "stale(2)"},
  {"on": "refund", "attempts": 2, "fault": "twice+timeout"},
  {"on": "*", "rate": 0.25, "fault": "rate-limited"}]}"#;

#[test]
fn plans() {
    let named = NAMED_PLANS.iter().map(|named| serde_json::to_string(&named.plan()).unwrap());
    for_all_texts(2000, named.chain([SETTINGS.to_owned()]).collect(), |text| {
        match Plan::parse(text) {
            Ok(plan) => {
                let written = serde_json::to_string(&plan).unwrap();
                assert_eq!(Plan::parse(&written), Ok(plan), "{written}");
            }
            Err(error) => assert_within(text, &error),
        }
    });
}

#[test]
fn tickets() {
    let generated = Ticket::generate(7).to_json();
    for_all_texts(2000, vec![TICKET.to_owned(), generated], |text| match Ticket::parse(text) {
        Ok(ticket) => {
            let written = ticket.to_json();
            assert_eq!(Ticket::parse(&written), Ok(ticket), "{written}");
        }
        Err(error) => assert_within(text, &error),
    });
}

#[test]
fn recorded_runs() {
    let run = Trial::plan("everything", 7).drive(badbank::harness::Design::Retries);
    let mut documents = histories();
    documents.push(run.bank.history().to_string());
    for has_ended in [false, true] {
        let mut cut = Trial::orders(r#"{"id": "A-1", "amount": "42.50"}"#)
            .script("A-1 refund #2", Fault::TIMEOUT)
            .open_with(4);
        for _ in 0..3 {
            let _paid_or_not = cut.refund("A-1", "42.50", None);
        }
        if has_ended {
            cut.settle();
        }
        documents.push(cut.history().to_string());
    }
    for_all_texts(2000, documents, |text| match History::parse(text) {
        Ok(read) => judge_and_read_again(&read.history),
        Err(error) => assert_within(text, &error),
    });
}

fn judge_and_read_again(history: &History) {
    let written = history.to_string();
    let again = History::parse(&written).unwrap();
    assert_eq!((again.warning, &again.history), (None, history), "{written}");
    let log = history.fault_log();
    assert_eq!(log.by_arrival().parse(), Ok(log));
    assert_eq!(history.to_plan().named_seed(), Some(history.header().seed));
    let grade = Grade::of(history, Some("REFUNDED: A-1"));
    assert!(!grade.to_string().is_empty() && !grade.to_json().is_empty());
}

#[test]
fn fault_logs() {
    let log = "badbank faults v1 seed=7\nA-2186 refund #1 duplicate\nA-3471 refund #2 timeout\nA-6991 get_order #1 stale(2)\n\nB refund #3 twice+timeout\n";
    for_all_texts(2000, owned(&[log]), |text| match text.parse::<FaultLog>() {
        Ok(log) => {
            let canonical = log.to_string();
            assert_eq!(canonical.parse::<FaultLog>().unwrap().to_string(), canonical);
            assert_eq!(Plan::replay(&log).unwrap().rules().len(), log.calls().len());
            assert_eq!(log.by_arrival().parse(), Ok(log));
        }
        Err(error) => assert_within(text, &error),
    });
}

#[test]
fn reports() {
    let documents = [
        "Done.\n\n**REFUNDED:** A-1, A-10\n- FAILED: none\n> DUPLICATED: (A-2); \"A-3.\"\nUNKNOWN: a-2 (no answer)\n",
        "```json\n{\"refunded\": [\"A-1\"], \"failed\": [], \"duplicated\": [\"A-2\"], \"unknown\": [\"A.3.\", \"x y\"]}\n```",
    ];
    for_all_texts(2000, owned(&documents), |text| {
        let report = Report::read(text);
        let ids: Vec<&OrderId> = report.ids().collect();
        assert!(report.is_readable() || ids.is_empty());
        let claimed = |claim: Claim| -> Vec<&str> {
            let is_claimed = |id: &&&OrderId| report.claims(id).any(|made| made == claim);
            ids.iter().filter(is_claimed).map(|id| id.as_str()).collect()
        };
        let lists = Claim::ALL.map(|claim| (claim.as_str(), claimed(claim)));
        let written = serde_json::to_string(&std::collections::BTreeMap::from(lists)).unwrap();
        let again = Report::read(&written);
        for id in ids {
            let sorted = |report: &Report| {
                let mut claims: Vec<Claim> = report.claims(id).collect();
                claims.sort();
                claims
            };
            assert_eq!(sorted(&again), sorted(&report), "{written}");
        }
    });
}

/// What `text` is worth in units of so many decimals, by another way than the crate's: letter by letter, wide.
fn worth(text: &str, decimals: usize) -> Option<u128> {
    let places = text.len() - text.find('.').map_or(text.len(), |at| at + 1);
    let is_plain = |letter: char| letter == '.' || letter.is_ascii_digit();
    let is_number = text.chars().all(is_plain)
        && text.matches('.').count() <= 1
        && text.starts_with(|letter: char| letter != '.')
        && !text.ends_with('.');
    let digits = text.chars().filter_map(|letter| letter.to_digit(10));
    if !is_number || digits.clone().count() > 15 || places > decimals {
        return None;
    }
    let value = digits.fold(0, |value: u128, digit| value * 10 + u128::from(digit));
    let scale = 10_u128.pow(u32::try_from(decimals - places).unwrap());
    Some(value * scale).filter(|minor| *minor > 0)
}

#[test]
fn amounts() {
    let currencies = ["EUR", "JPY", "KWD", "UYW"].map(|code| Currency::from_code(code).unwrap());
    assert_eq!(currencies.map(Currency::decimals), [2, 0, 3, 4]);
    let texts = ["42.50", "999999999999999", "0.1", "000000000000.001", "10"];
    for_all_texts(4000, owned(&texts), |text| {
        for currency in currencies {
            let amount = Amount::parse(text, currency).ok();
            let minor = amount.map(|amount| u128::from(amount.minor()));
            assert_eq!(minor, worth(text, currency.decimals().into()), "{text:?} {currency}");
            let written = amount.map(|amount| amount.display(currency).to_string());
            if let Some(written) = written.filter(|written| written.len() <= 15) {
                assert_eq!(Amount::parse(&written, currency).ok(), amount);
            }
        }
    });
}

fn reads_back<T: FromStr + fmt::Display + fmt::Debug + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string().parse().ok();
        assert_eq!(again, Some(value), "{text:?}");
    }
}

#[test]
fn words_of_plans_and_logs() {
    let texts = [
        "0.15",
        "1-4",
        "5-",
        "2.5",
        "A-2186 refund #1",
        "late(2)",
        "twice+timeout",
        "*",
        "18446744073709551615",
    ];
    for_all_texts(4000, owned(&texts), |text| {
        reads_back::<Rate>(text);
        reads_back::<Attempts>(text);
        reads_back::<MeanLength>(text);
        reads_back::<CallId>(text);
        reads_back::<Fault>(text);
        reads_back::<OrderId>(text);
        reads_back::<Seed>(text);
        let is_on = |on: On| on.as_str() == text.replace('-', "_");
        assert!(text.parse().ok().is_none_or(is_on));
    });
}

/// A history of these events on the ticket of the fixtures.
fn recorded(events: &[&str]) -> String {
    let clean = fixture("histories/clean.jsonl");
    let header = clean.lines().next().unwrap();
    [&[header], events].concat().join("\n") + "\n"
}

#[test]
fn a_recorded_call_has_an_attempt() {
    let zeroth = r#"{"seq":1,"event":"fault","call":0,"op":"refund","order":"A-1","attempt":0,"fault":"late(1)"}"#;
    let error = History::parse(&recorded(&[zeroth])).unwrap_err();
    assert_eq!(error.line, 2);
    assert!(error.message.starts_with("`attempt` is 0, and 1 comes next"), "{error}");
}

#[test]
fn a_recorded_call_comes_once_and_meets_one_fault() {
    let first = r#"{"seq":1,"event":"invoke","call":1,"op":"get_order","order":"A-1","attempt":1}"#;
    let again = r#"{"seq":2,"event":"invoke","call":2,"op":"get_order","order":"A-1","attempt":1}"#;
    let error = History::parse(&recorded(&[first, again])).unwrap_err();
    assert_eq!(error.line, 3);
    assert!(error.message.starts_with("`attempt` is 1, and 2 comes next"), "{error}");
    let fault = |seq: u32| format!(r#"{{"seq":{seq},"event":"fault","call":1,"fault":"lost"}}"#);
    let error = History::parse(&recorded(&[first, &fault(2), &fault(3)])).unwrap_err();
    assert_eq!(error.line, 4);
    assert!(error.message.contains("second fault"), "{error}");
}

#[test]
fn of_a_call_that_was_dropped_only_its_fault_is_known() {
    let fault = r#"{"seq":1,"event":"fault","call":9,"op":"refund","order":"A-1","attempt":3,"fault":"lost","key":"k","caller":"00000000000000000000000000000000"}"#;
    judge_and_read_again(&History::parse(&recorded(&[fault])).unwrap().history);
}

#[test]
fn a_history_that_is_full_reads_back_too() {
    let ticket = Ticket::parse(TICKET).unwrap();
    for events_max in 0..40 {
        let plan = Plan::find("everything").unwrap().seed(3);
        let mut bank = Bank::with_events_max(&ticket, plan, events_max);
        for key in ["a", "b", "b", "c"] {
            let _answers = (bank.get_order("A-1"), bank.refund("A-1", "42.50", Some(key)));
        }
        bank.settle();
        judge_and_read_again(bank.history());
    }
}

#[test]
fn a_number_of_an_attempt_is_digits() {
    assert!("A-1 refund #+1".parse::<CallId>().is_err());
    assert!("badbank faults v1 seed=+7\n".parse::<FaultLog>().is_err());
}

#[test]
fn an_amount_with_more_digits_in_full_than_may_be_asked_for_reads_back() {
    let mut bank = Trial::orders(r#"{"id": "A-1", "amount": "42.50"}"#).open();
    bank.refund("A-1", "999999999999999", Some("k")).unwrap();
    bank.refund("A-1", "1", Some("k")).unwrap();
    judge_and_read_again(bank.history());
    assert!(bank.history().to_string().contains("999999999999999.00"));
}

#[cfg(feature = "http")]
mod over_http {
    //! The same of a refund's body, as bytes on a socket.

    use std::collections::BTreeMap;

    use badbank::{fault::Plan, http::RunHandle};
    use serde_json::value::RawValue;

    use super::{for_all, owned, worth};
    use crate::support::{Answer, Connection, TestServer, scripted, ticket};

    const PATH: &str = "/runs/1/orders/A-1/refunds";

    fn paid(run: &RunHandle) -> Vec<u128> {
        run.with_bank(|bank| {
            let refunds = bank.ledger().accounts()[0].refunds().iter();
            refunds.map(|amount| u128::from(amount.minor())).collect()
        })
    }

    /// What the amount in a body is worth, if it is one: by serde's word, not the server's.
    fn asked(body: &[u8]) -> Option<u128> {
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).ok()?;
        let raw = fields.get("amount")?.get();
        let text = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
        worth(&text, 2)
    }

    fn send(connection: &mut Connection, body: &[u8]) -> Answer {
        let head =
            format!("POST {PATH} HTTP/1.1\r\nHost: b\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.send(&[head.as_bytes(), body].concat());
        connection.read().unwrap()
    }

    #[test]
    fn bodies() {
        let server = TestServer::start();
        let run = server.open(&ticket(), Plan::calm());
        let connection = std::cell::RefCell::new(server.connect());
        let documents = [
            r#"{"amount": "42.50", "currency": "EUR"}"#,
            r#"{"amount": 10.0}"#,
            r#"{"amount":"1"}"#,
        ];
        for_all(1500, owned(&documents), |body| {
            let before = paid(&run);
            let answer = send(&mut connection.borrow_mut(), body);
            let after = paid(&run);
            match answer.status {
                201 => assert_eq!(after, [before, vec![asked(body).unwrap()]].concat()),
                400 | 422 => assert_eq!((after, answer.code().is_empty()), (before, false)),
                status => panic!("{status}"),
            }
        });
        assert!(paid(&run).len() > 100, "too few bodies were sound");
    }

    #[test]
    fn a_wait_past_all_dates_is_the_last_date() {
        let server = TestServer::start();
        let plan = r#"{"version":1,"retry_after_s":18446744073709551615,"retry_after":"date"}"#;
        let settings = *Plan::parse(plan).unwrap().settings();
        let plan = scripted(&[("A-1 get_order #1", "rate_limited")]).with_settings(settings);
        server.open(&ticket(), plan);
        let answer = server.ask("GET", "/runs/1/orders/A-1", &[], "");
        assert_eq!(answer.header("retry-after"), Some("Fri, 31 Dec 9999 23:59:59 GMT"));
    }
}
