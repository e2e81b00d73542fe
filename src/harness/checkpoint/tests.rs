//! Checkpoints in files and in memory, and what is left of a life in them.

use super::*;
use crate::{
    Seed,
    agent::Turn,
    call::{CallError, OrderState, Payments, Refunded},
    harness::{Key, Retry, VirtualTime},
    money::{Amount, Currency, Total},
    ticket::OrderId,
};

const TICKET: &str = r#"{"version": 1, "id": "T-1", "currency": "EUR", "orders": [
    {"id": "A-1", "amount": "42.50"}, {"id": "A-2", "amount": "12.00"}]}"#;

fn ticket() -> Ticket {
    Ticket::parse(TICKET).unwrap()
}

/// A bank that ignores keys and writes down what it is asked.
#[derive(Default)]
struct Teller {
    log: Vec<String>,
}

impl Payments for Teller {
    fn get_order(&mut self, order: &str) -> Result<OrderState, CallError> {
        self.log.push(format!("{order} read"));
        let id = OrderId::new(order).unwrap();
        let amount = Amount::from_minor(99_00).unwrap();
        let refunded = Total::ZERO;
        Ok(OrderState {
            id,
            currency: Currency::EUR,
            amount,
            refunded,
            refunds: Vec::new(),
            unsettled: Vec::new(),
        })
    }

    fn refund(
        &mut self,
        order: &str,
        amount: Amount,
        key: Option<&str>,
    ) -> Result<Refunded, CallError> {
        self.log.push(format!("{order} {}", key.unwrap_or("none")));
        let order = OrderId::new(order).unwrap();
        Ok(Refunded {
            order,
            number: 1,
            amount,
            currency: Currency::EUR,
            status: crate::call::RefundStatus::Succeeded,
            is_replay: false,
        })
    }
}

fn program(recovery: Recovery, key: Key) -> Program {
    Program { manner: Manner::Careful, retry: Retry::default(), key, recovery }
}

/// What the bank is asked after a crash.
fn asked_after(recovery: Recovery, key: Key, crash: Crash) -> Vec<String> {
    let ticket = ticket();
    let store = MemoryStore::default();
    let mut runner = Runner::new(program(recovery, key), &ticket, store, Seed::new(7));
    let mut bank = Teller::default();
    assert_eq!(runner.run(&mut bank, &mut VirtualTime, Some(crash)).unwrap(), Ending::Crashed);
    bank.log.clear();
    let ending = runner.run(&mut bank, &mut VirtualTime, None).unwrap();
    assert!(matches!(ending, Ending::Reported(_)));
    bank.log
}

const AFTER_REPLY: Crash = Crash { step: 2, moment: Moment::AfterReply };

#[test]
fn a_restart_looks_again_and_a_stale_checkpoint_pays_again_under_other_ids() {
    assert_eq!(
        asked_after(Recovery::Restart, Key::CallId, AFTER_REPLY),
        ["A-1 read", "A-2 read", "A-1 call-2-3", "A-2 call-2-4"]
    );
    assert_eq!(
        asked_after(Recovery::Stale, Key::CallId, AFTER_REPLY),
        ["A-1 call-2-3", "A-2 call-2-4"]
    );
}

#[test]
fn calls_that_were_written_ahead_are_sent_again_with_their_ids() {
    for moment in [
        Moment::BeforeSending,
        Moment::AfterCommit { calls: 1 },
        Moment::AfterCommit { calls: 9 },
        Moment::AfterReply,
    ] {
        let crash = Crash { step: 2, moment };
        let asked = asked_after(Recovery::WriteAhead, Key::CallId, crash);
        assert_eq!(asked, ["A-1 call-3", "A-2 call-4"], "{moment:?}");
        let asked = asked_after(Recovery::WriteAhead, Key::Fresh, crash);
        assert_eq!(asked, ["A-1 call-3/2-1", "A-2 call-4/2-1"], "{moment:?}");
    }
}

#[test]
fn after_a_save_nothing_is_sent_again_and_a_report_is_written_again() {
    for recovery in [Recovery::Stale, Recovery::WriteAhead] {
        for crash in [
            Crash { step: 2, moment: Moment::AfterSave },
            Crash { step: 3, moment: Moment::BeforeSending },
        ] {
            assert_eq!(asked_after(recovery, Key::None, crash), [""; 0]);
        }
    }
}

#[test]
fn a_program_dies_where_it_is_told_and_in_the_middle_of_a_batch() {
    let ticket = ticket();
    let asked = |moment| {
        let program = program(Recovery::Stale, Key::None);
        let mut runner = Runner::new(program, &ticket, MemoryStore::default(), Seed::new(7));
        let mut bank = Teller::default();
        let crash = Some(Crash { step: 2, moment });
        assert_eq!(runner.run(&mut bank, &mut VirtualTime, crash).unwrap(), Ending::Crashed);
        bank.log.len()
    };
    assert_eq!(asked(Moment::BeforeSending), 2);
    assert_eq!(asked(Moment::AfterCommit { calls: 1 }), 3);
    assert_eq!(asked(Moment::AfterReply), 4);
    assert_eq!(asked(Moment::AfterSave), 4);
}

#[test]
fn a_file_is_gone_on_from_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.checkpoint");
    let ticket = ticket();
    let start = |lives| {
        let store = FileStore::new(&path);
        Runner::new(program(Recovery::WriteAhead, Key::CallId), &ticket, store, Seed::new(7))
            .after_lives(lives)
    };
    let mut bank = Teller::default();
    let died = start(0).run(&mut bank, &mut VirtualTime, Some(AFTER_REPLY)).unwrap();
    assert_eq!(died, Ending::Crashed);
    bank.log.clear();
    let ending = start(1).run(&mut bank, &mut VirtualTime, None).unwrap();
    assert_eq!(bank.log, ["A-1 call-3", "A-2 call-4"]);
    let Ending::Reported(outcome) = ending else { panic!("it died again") };
    // This process knows of its own turns alone: the batch was not asked for again.
    assert_eq!(outcome.agent_calls, 1);
    assert!(outcome.report.contains("REFUNDED: A-1, A-2"));
}

#[test]
fn a_process_that_knows_of_no_other_gives_its_calls_new_ids() {
    let folder = tempfile::tempdir().unwrap();
    let ticket = ticket();
    for recovery in [Recovery::Restart, Recovery::Stale, Recovery::WriteAhead] {
        let path = folder.path().join(format!("{recovery:?}"));
        let mut bank = Teller::default();
        let mut live = |crash| {
            let program = program(recovery, Key::CallId);
            let mut runner = Runner::new(program, &ticket, FileStore::new(&path), Seed::new(7));
            bank.log.clear();
            let ending = runner.run(&mut bank, &mut VirtualTime, crash).unwrap();
            assert_eq!(matches!(ending, Ending::Crashed), crash.is_some());
            bank.log.iter().filter(|call| !call.ends_with("read")).cloned().collect::<Vec<_>>()
        };
        // The second and third life save no step.
        let lives = [Some(AFTER_REPLY), Some(AFTER_REPLY), Some(AFTER_REPLY), None].map(&mut live);
        let first = ["A-1 call-3", "A-2 call-4"];
        let again = |life| [format!("A-1 call-{life}-3"), format!("A-2 call-{life}-4")];
        assert_eq!(lives[0], first);
        for (life, calls) in (1..).zip(&lives).skip(1) {
            match recovery {
                Recovery::WriteAhead => assert_eq!(*calls, first),
                _ => assert_eq!(*calls, again(life), "{recovery:?}"),
            }
        }
    }
}

#[test]
fn a_process_that_died_before_its_first_step_was_saved_is_a_life_too() {
    let folder = tempfile::tempdir().unwrap();
    let ticket = ticket();
    let mut bank = Teller::default();
    for (crash, calls) in [
        (Some(Crash { step: 1, moment: Moment::AfterReply }), ["A-1 call-1", "A-2 call-2"]),
        (None, ["A-1 call-2-1", "A-2 call-2-2"]),
    ] {
        let program = Program { manner: Manner::Hasty, ..program(Recovery::Stale, Key::CallId) };
        let store = FileStore::new(folder.path().join("run.checkpoint"));
        let mut runner = Runner::new(program, &ticket, store, Seed::new(7));
        let _ending = runner.run(&mut bank, &mut VirtualTime, crash).unwrap();
        assert_eq!(bank.log, calls);
        bank.log.clear();
    }
}

#[test]
fn a_save_that_is_cut_off_leaves_the_checkpoint_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FileStore::new(folder.path().join("run.checkpoint"));
    assert_eq!(store.load().unwrap(), None);
    store.save("first").unwrap();
    // The process dies while it writes the next one beside it.
    std::fs::write(folder.path().join("run.checkpoint.tmp"), "sec").unwrap();
    assert_eq!(store.load().unwrap().as_deref(), Some("first"));
    store.save("second").unwrap();
    assert_eq!(store.load().unwrap().as_deref(), Some("second"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_checkpoint_that_cannot_be_gone_on_from_is_refused() {
    let ticket = ticket();
    let checkpoint = Checkpoint::new(Manner::Careful, &ticket);
    let text = checkpoint.to_json();
    assert_eq!(Checkpoint::parse(&text, &ticket).unwrap(), checkpoint);
    let error = |text: &str| Checkpoint::parse(text, &ticket).unwrap_err().to_string();
    assert_eq!(error(&text[..text.len() / 2]), "the checkpoint is damaged");
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    assert_eq!(error(&newer), "checkpoint version 2 is not known; this badbank reads version 1");
    let other = text.replacen("T-1", "T-2", 1);
    assert_eq!(error(&other), "the checkpoint is of ticket T-2, not of T-1");
    // Another ticket of the same name.
    let longer = Ticket::parse(&TICKET.replace("12.00", "12.01")).unwrap();
    let other = Checkpoint::parse(&text, &longer).unwrap_err();
    assert!(matches!(other, CheckpointError::OtherTicket { .. }));
    assert_eq!(other.to_string(), "the checkpoint is of another ticket T-1, not of T-1");
    let mut written_ahead = checkpoint;
    let Turn::Calls(calls) = written_ahead.agent.turn() else { panic!("a report before a call") };
    written_ahead.pending = calls;
    let text = written_ahead.to_json();
    assert_eq!(Checkpoint::parse(&text, &ticket).unwrap(), written_ahead);
    for task in ["\"task\":0", "\"task\":7"] {
        assert_eq!(error(&text.replace("\"task\":1", task)), "the checkpoint is damaged");
    }
    let lost = FileStore::new("no/such/folder/run.checkpoint").save("{}").unwrap_err();
    assert_eq!(lost.to_string(), "the checkpoint no/such/folder/run.checkpoint is out of reach");
}
