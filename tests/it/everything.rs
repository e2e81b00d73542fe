//! The plan that has every fault gives the same bytes on threads, in process and over HTTP.

use std::{fs, path::Path};

use badbank::{
    Bank, Seed, SharedBank, Ticket,
    call::Payments,
    fault::Plan,
    harness::{self, Design, Outcome, VirtualTime},
    ticket::Order,
};

/// A plan that has every fault, and does not keep anybody waiting.
fn plan(seed: u64) -> Plan {
    let plan = Plan::find("everything").unwrap().seed(seed);
    let mut settings = *plan.settings();
    settings.slow_ms = 1;
    plan.with_settings(settings)
}

fn run(design: Design, ticket: &Ticket, bank: &mut impl Payments, seed: u64) -> Outcome {
    harness::run(design, ticket, bank, &mut VirtualTime, Seed::new(seed))
}

/// A fault's name, or its pair, without the number.
fn kind(fault: &str) -> &str {
    fault.split('(').next().unwrap()
}

#[test]
fn it_has_every_fault_of_the_readme_but_one() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"));
    let readme = readme.unwrap();
    let rows = readme.lines().skip_while(|line| !line.starts_with("| fault | the money |")).skip(2);
    let cells = rows.map_while(|row| row.strip_prefix("| ")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(kind);
    let rules = plan(1).rules().iter().map(|rule| rule.fault.to_string()).collect::<Vec<_>>();
    let is_missing = |name: &&str| !rules.iter().any(|fault| kind(fault) == *name);
    // To the ledger and to its caller it is a lost reply, and it would keep a program for half a minute.
    assert_eq!(names.filter(is_missing).collect::<Vec<_>>(), ["hang"]);
}

/// Fault log and grade of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Evidence {
    log: String,
    grade: String,
}

fn evidence(bank: &mut Bank, report: &str) -> Evidence {
    let grade = bank.grade(report).to_json();
    Evidence { log: bank.fault_log().to_string(), grade }
}

#[test]
fn a_run_repeated_gives_the_same_bytes() {
    for design in Design::ALL {
        for seed in 0..50 {
            let ticket = Ticket::generate(seed);
            let again = || {
                let mut bank = Bank::open(&ticket, plan(seed));
                let outcome = run(design, &ticket, &mut bank, seed);
                (evidence(&mut bank, &outcome.report), bank.history().to_string(), outcome)
            };
            assert_eq!(again(), again(), "{design}, seed {seed}");
        }
    }
}

/// An order of a ticket as a ticket of its own.
fn alone(order: &Order) -> Ticket {
    let amount = order.amount().display(order.currency());
    Ticket::parse(&format!(
        r#"{{"version": 1, "currency": "EUR", "orders": [{{"id": "{}", "amount": "{amount}"}}]}}"#,
        order.id()
    ))
    .unwrap()
}

/// As many orders as there are threads.
fn many_orders() -> Ticket {
    let orders: Vec<String> =
        (1..=64).map(|order| format!(r#"{{"id": "A-{order}", "amount": "{order}.50"}}"#)).collect();
    let orders = orders.join(",");
    Ticket::parse(&format!(r#"{{"version": 1, "currency": "EUR", "orders": [{orders}]}}"#)).unwrap()
}

#[test]
fn threads_change_nothing() {
    let ticket = many_orders();
    // The keys of one agent would be another's: `keyed` numbers its calls, and here each order has an agent.
    for design in [Design::ModelOnly, Design::Retries, Design::BusinessKey] {
        for seed in 1..=5 {
            let work = |bank: &mut SharedBank, orders: &[Order]| {
                for order in orders {
                    run(design, &alone(order), bank, seed);
                }
            };
            let mut in_turn = SharedBank::new(Bank::open(&ticket, plan(seed)));
            work(&mut in_turn, ticket.orders());
            let expected = evidence(&mut in_turn.lock(), "");
            for threads in [1, 4, 64] {
                let bank = SharedBank::new(Bank::open(&ticket, plan(seed)));
                std::thread::scope(|scope| {
                    for orders in ticket.orders().chunks(ticket.orders().len() / threads) {
                        let mut bank = bank.clone();
                        scope.spawn(move || work(&mut bank, orders));
                    }
                });
                let found = evidence(&mut bank.lock(), "");
                assert_eq!(found, expected, "{design}, seed {seed}, {threads} threads");
            }
        }
    }
}

#[cfg(feature = "http")]
mod over_http {
    //! The same over the wire, where answers are really cut short and connections really broken.

    use std::collections::{BTreeMap, BTreeSet};

    use badbank::{
        call::{CallError, OrderState, Refunded},
        http::Client,
        money::Amount,
    };

    use super::{
        Bank, Design, Evidence, Outcome, Payments, Plan, Ticket, alone, evidence, many_orders,
        plan, run,
    };
    use crate::support::{TestServer, scripted, ticket};

    /// Somebody who listens to what a bank answers.
    struct Heard<'a, P> {
        bank: &'a mut P,
        answers: Vec<String>,
    }

    impl<P: Payments> Heard<'_, P> {
        /// An answer, without what only a transport says.
        fn note<T: std::fmt::Debug>(
            &mut self,
            answer: Result<T, CallError>,
        ) -> Result<T, CallError> {
            let noted = match &answer {
                Err(CallError::Broken { .. }) => "broken".to_owned(),
                other => format!("{other:?}"),
            };
            self.answers.push(noted);
            answer
        }
    }

    impl<P: Payments> Payments for Heard<'_, P> {
        fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
            let answer = self.bank.get_order(order);
            self.note(answer)
        }

        fn refund(
            &mut self,
            order: &str,
            amount: Amount,
            key: Option<&str>,
        ) -> Result<Refunded, CallError> {
            let answer = self.bank.refund(order, amount, key);
            self.note(answer)
        }
    }

    /// All there is to compare of a run: what the ledger saw, what the program did, and what it heard.
    #[derive(Debug, PartialEq)]
    struct Whole {
        evidence: Evidence,
        history: String,
        outcome: Outcome,
        answers: Vec<String>,
    }

    fn listen(
        design: Design,
        ticket: &Ticket,
        bank: &mut impl Payments,
        seed: u64,
    ) -> (Outcome, Vec<String>) {
        let mut heard = Heard { bank, answers: Vec::new() };
        let outcome = run(design, ticket, &mut heard, seed);
        (outcome, heard.answers)
    }

    fn in_process(design: Design, ticket: &Ticket, plan: Plan, seed: u64) -> Whole {
        let mut bank = Bank::open(ticket, plan);
        let (outcome, answers) = listen(design, ticket, &mut bank, seed);
        let evidence = evidence(&mut bank, &outcome.report);
        Whole { evidence, history: bank.history().to_string(), outcome, answers }
    }

    fn over_http(
        server: &TestServer,
        design: Design,
        ticket: &Ticket,
        plan: Plan,
        seed: u64,
    ) -> Whole {
        let handle = server.open(ticket, plan);
        let mut client = Client::new(&handle.url()).unwrap();
        let (outcome, answers) = listen(design, ticket, &mut client, seed);
        let (evidence, history) =
            handle.with_bank(|bank| (evidence(bank, &outcome.report), bank.history().to_string()));
        handle.close();
        Whole { evidence, history, outcome, answers }
    }

    #[test]
    fn the_wire_changes_nothing() {
        let server = TestServer::start();
        let mut met = BTreeSet::new();
        for (design, seeds) in [
            (Design::BusinessKey, 1..=100),
            (Design::Keyed, 1..=25),
            (Design::Retries, 1..=25),
            (Design::ModelOnly, 1..=25),
        ] {
            for seed in seeds {
                let ticket = Ticket::generate(seed);
                let expected = in_process(design, &ticket, plan(seed), seed);
                let found = over_http(&server, design, &ticket, plan(seed), seed);
                assert_eq!(found, expected, "{design}, seed {seed}");
                let log: badbank::fault::FaultLog = found.evidence.log.parse().unwrap();
                met.extend(
                    log.calls().iter().map(|(call, fault)| format!("{} {fault}", call.operation)),
                );
            }
        }
        // Ten faults on reads and seventeen on refunds are all that the plan has.
        assert_eq!(met.len(), 27, "{met:?}");
    }

    /// What happened to each order, in turn; the numbers of calls tell how orders mingled, and are left out.
    fn by_order(bank: &Bank) -> BTreeMap<String, Vec<serde_json::Value>> {
        let mut orders: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
        for line in bank.history().to_string().lines().skip(1) {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            let order = line["order"].as_str().unwrap_or_default().to_owned();
            line["seq"].take();
            line["call"].take();
            orders.entry(order).or_default().push(line);
        }
        orders
    }

    #[test]
    fn neither_do_clients_at_the_same_time() {
        let server = TestServer::start();
        let ticket = many_orders();
        let (design, seed) = (Design::BusinessKey, 3);
        let mut bank = Bank::open(&ticket, plan(seed));
        for order in ticket.orders() {
            run(design, &alone(order), &mut bank, seed);
        }
        let expected = (evidence(&mut bank, ""), by_order(&bank));
        for threads in [1, 4, 64] {
            let handle = server.open(&ticket, plan(seed));
            std::thread::scope(|scope| {
                for orders in ticket.orders().chunks(ticket.orders().len() / threads) {
                    let mut client = Client::new(&handle.url()).unwrap();
                    scope.spawn(move || {
                        for order in orders {
                            run(design, &alone(order), &mut client, seed);
                        }
                    });
                }
            });
            let found = handle.with_bank(|bank| (evidence(bank, ""), by_order(bank)));
            assert_eq!(found, expected, "{threads} threads");
        }
        assert!(expected.0.log.contains(" slow\n"), "{}", expected.0.log);
    }

    #[test]
    fn neither_does_how_a_lost_reply_or_a_cut_looks() {
        use badbank::fault::{LostReply, Truncation};
        let server = TestServer::start();
        for lost_reply in [LostReply::Close, LostReply::Reset] {
            for seed in 1..=15 {
                let plan = plan(seed);
                let mut settings = *plan.settings();
                settings.lost_reply = lost_reply;
                settings.truncation = Truncation::Chunked;
                let plan = plan.with_settings(settings);
                let ticket = Ticket::generate(seed);
                let expected = in_process(Design::BusinessKey, &ticket, plan.clone(), seed);
                let found = over_http(&server, Design::BusinessKey, &ticket, plan, seed);
                // A caller in process hears of a timeout where the connection breaks, and concludes the same.
                assert_eq!(found.evidence, expected.evidence, "seed {seed}");
                assert_eq!((found.history, found.outcome), (expected.history, expected.outcome));
            }
        }
    }

    #[test]
    fn a_caller_concludes_the_same_from_each_fault_on_the_wire() {
        let server = TestServer::start();
        let amount = ticket().orders()[0].amount();
        for fault in [
            "transient",
            "timeout",
            "duplicate",
            "lost",
            "rate_limited",
            "server_error",
            "reset_before",
            "reset_after",
            "closed",
            "hang",
            "truncated",
            "slow",
            "stored_error",
            "late",
            "late+server_error",
            "late+reset",
            "twice+truncated",
            "twice+closed",
            "twice_overlapping+reply",
        ] {
            for call in ["refund", "get_order"] {
                let name = format!("A-1 {call} #1");
                let call_id: badbank::call::CallId = name.parse().unwrap();
                let is_possible = fault
                    .parse::<badbank::fault::Fault>()
                    .unwrap()
                    .check_on(call_id.operation)
                    .is_ok();
                if !is_possible {
                    continue;
                }
                let calm = scripted(&[(&name, fault)]);
                let mut settings = *calm.settings();
                settings.slow_ms = 1;
                let plan = calm.with_settings(settings);
                let hear = |bank: &mut dyn Payments| {
                    let error = match call {
                        "refund" => bank.refund("A-1", amount, Some("k")).err(),
                        _ => bank.get_order("A-1").err(),
                    };
                    error.map(|error| match error {
                        CallError::Broken { detail } => {
                            assert!(!detail.is_empty(), "{fault}");
                            CallError::Broken { detail: String::new() }
                        }
                        other => other,
                    })
                };
                let handle = server.open(&ticket(), plan.clone());
                let limit =
                    tokio::time::Duration::from_millis(if fault == "hang" { 100 } else { 20_000 });
                let mut client = Client::new(&handle.url()).unwrap();
                client.ticket().unwrap();
                let mut client = client.timeout(limit);
                let over_http = hear(&mut client);
                assert_eq!(over_http, hear(&mut Bank::open(&ticket(), plan)), "{fault} on {call}");
                // The connection that broke is not used again.
                assert!(client.get_order("A-1").is_ok(), "{fault} on {call}");
            }
        }
    }
}
