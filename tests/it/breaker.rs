//! Breakers: failures counted by their stamps, one probe after the pause, one log for all workers.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, UNIX_EPOCH},
};

use badbank::harness::{
    Admission, Change, CircuitBreaker, Entry, EvidenceError, EvidenceLog, Kind, Permit, Policy,
    SharedBreaker, Signal, State, Status, Timestamp,
};
use proptest::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const THREE_AN_HOUR: Policy = Policy::Window { failures: 3, within: HOUR };

/// A time of one day, from a text such as `12:01` or `12:05:10`.
fn at(time: &str) -> Timestamp {
    let parts = time.split(':').map(|part| part.parse::<u32>().unwrap());
    let units = [HOUR, MINUTE, Duration::from_secs(1)];
    let since_midnight: Duration = parts.zip(units).map(|(number, unit)| number * unit).sum();
    Timestamp::from_unix_ms(1_767_225_600_000).plus(since_midnight)
}

/// The breaker that these failures in its log lead to.
fn after(failures: &[Timestamp], pause: Duration, now: Timestamp) -> CircuitBreaker {
    let entries: Vec<Entry> = failures.iter().map(|at| Entry::new(*at, Kind::Failure)).collect();
    CircuitBreaker::replay(THREE_AN_HOUR, pause, &entries, now)
}

/// As many permits of a closed circuit.
fn admit<const N: usize>(breaker: &mut CircuitBreaker, now: Timestamp) -> [Permit; N] {
    std::array::from_fn(|_| breaker.admit(now).permit().unwrap())
}

fn counts(breaker: &mut CircuitBreaker, events: &[(&str, Signal)]) -> Vec<usize> {
    // All calls are under way before the first ends, as with parallel workers.
    let permits: Vec<Permit> =
        events.iter().map(|_| breaker.admit(at("11:55")).permit().unwrap()).collect();
    let count = |((time, signal), permit): (&(&str, Signal), Permit)| {
        breaker.record(permit, *signal, at(time));
        breaker.status(at(time)).count
    };
    events.iter().zip(permits).map(count).collect()
}

/// Case breaker-01, vert-x3/vertx-circuit-breaker#53, App-vNext/Polly#886 and #131: a success while the
/// circuit was closed cleared the window, so failures between successes never added up.
#[test]
fn a_success_of_another_worker_does_not_clear_the_window() {
    let events = [
        ("12:01", Signal::Failure),
        ("12:03", Signal::Failure),
        ("12:05", Signal::Success),
        ("12:09", Signal::Failure),
        ("12:14", Signal::Success),
    ];
    let mut window = CircuitBreaker::new(THREE_AN_HOUR, HOUR);
    assert_eq!(counts(&mut window, &events[..3]), [1, 2, 2]);
    let [third, late] = admit(&mut window, at("12:06"));
    let opened = Some(Change::Opened { until: at("13:09") });
    assert_eq!(window.record(third, Signal::Failure, at("12:09")), opened);
    assert_eq!(window.status(at("12:09")).count, 3);
    assert_eq!(window.record(late, Signal::Success, at("12:14")), None);
    assert_eq!(window.status(at("12:14")).state, State::Open { until: at("13:09") });
    let mut streak = CircuitBreaker::new(Policy::Streak { failures: 3 }, HOUR);
    assert_eq!(counts(&mut streak, &events[..4]), [1, 2, 0, 1]);
    assert_eq!(streak.status(at("12:09")).state, State::Closed);
}

/// The timeline of "The third failure never came", four fast failures in 17 minutes.
#[test]
fn the_third_failure_in_a_row_never_comes_but_the_third_in_an_hour_does() {
    let timeline = [
        ("12:01", Signal::Failure),
        ("12:03", Signal::Failure),
        ("12:05", Signal::Success),
        ("12:09", Signal::Failure),
        ("12:14", Signal::Success),
        ("12:18", Signal::Failure),
    ];
    let mut streak = CircuitBreaker::new(Policy::Streak { failures: 3 }, HOUR);
    assert_eq!(counts(&mut streak, &timeline), [1, 2, 0, 1, 0, 1]);
    assert_eq!(streak.status(at("12:18")).state, State::Closed);
    let mut window = CircuitBreaker::new(THREE_AN_HOUR, HOUR);
    assert_eq!(counts(&mut window, &timeline), [1, 2, 2, 3, 3, 4]);
    assert_eq!(window.status(at("12:18")).state, State::Open { until: at("13:09") });
    assert_eq!(window.admit(at("13:08:59")), Admission::Refused { until: at("13:09") });
    assert!(matches!(window.admit(at("13:09")), Admission::Probe(_)));
}

/// The regression of the same source: failure, success, failure, failure, block.
#[test]
fn failure_success_failure_failure_blocks() {
    let run = |policy| {
        let mut breaker = CircuitBreaker::new(policy, HOUR);
        let signals = [Signal::Failure, Signal::Success, Signal::Failure, Signal::Failure];
        for (signal, time) in signals.into_iter().zip(["12:00", "12:01", "12:02", "12:03"]) {
            let [permit] = admit(&mut breaker, at(time));
            breaker.record(permit, signal, at(time));
        }
        breaker.status(at("12:03")).state
    };
    assert_eq!(run(THREE_AN_HOUR), State::Open { until: at("13:03") });
    assert_eq!(run(Policy::Streak { failures: 3 }), State::Closed);
}

const AHEAD: [&str; 3] = ["10:00:05", "10:00:06", "10:00:07"];
/// 2099-01-01 00:00:00 UTC.
const YEAR_2099: Timestamp = Timestamp::from_unix_ms(4_070_908_800_000);

/// Case breaker-03, hew-lang/hew#2039 and symfony/symfony#44354: failures were stamped by one clock and
/// counted by another, and the guard against future times dropped them without a word.
#[test]
fn failures_of_the_future_are_kept_reported_and_counted_once_their_time_has_come() {
    let mut failures = AHEAD.map(at).to_vec();
    failures.push(YEAR_2099);
    let (first, second) = (at("10:00:04"), at("10:00:08"));
    let mut breaker = after(&failures, HOUR, first);
    let [one, two] = admit(&mut breaker, first);
    assert_eq!(breaker.record(one, Signal::Failure, first), None);
    assert_eq!(breaker.status(first), Status { state: State::Closed, count: 1, future: 4 });
    let until = at("11:00:08");
    assert_eq!(breaker.record(two, Signal::Failure, second), Some(Change::Opened { until }));
    assert_eq!(
        breaker.status(second),
        Status { state: State::Open { until }, count: 5, future: 1 }
    );
}

/// The same case, from the log that the worker with the fast clock has written to.
#[test]
fn a_log_keeps_failures_of_the_future_for_every_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("breaker.log");
    let ahead = AHEAD.map(at).into_iter().chain([YEAR_2099]);
    let line = |at: Timestamp| format!("{{\"at_ms\":{},\"kind\":\"failure\"}}\n", at.unix_ms());
    // A trip of 2099 blocks nobody either.
    let opened =
        format!("{{\"at_ms\":{0},\"kind\":\"opened\",\"until_ms\":{0}}}\n", YEAR_2099.unix_ms());
    fs::write(&path, ahead.map(line).collect::<String>() + &opened).unwrap();
    let breaker = SharedBreaker::at(&path, THREE_AN_HOUR, HOUR);
    let (first, second, until) = (at("10:00:04"), at("10:00:08"), at("11:00:08"));
    for (now, change) in [(first, None), (second, Some(Change::Opened { until }))] {
        let permit = breaker.admit(|| now).unwrap().permit().unwrap();
        assert_eq!(breaker.record(permit, Signal::Failure, || now).unwrap(), change);
    }
    let reading = |now| breaker.read(|| now).unwrap().status;
    // The trip holds at once, also for a worker whose clock is behind.
    assert_eq!(reading(first), Status { state: State::Open { until }, count: 1, future: 6 });
    assert_eq!(reading(second), Status { state: State::Open { until }, count: 5, future: 2 });
}

/// Source C's rule for stamps holds for failures in a row, too: nothing from the future adds to a streak or ends
/// it, and everything counts once its time has come.
#[test]
fn a_streak_knows_nothing_of_the_future() {
    let policy = Policy::Streak { failures: 3 };
    let count = |entries: &[(&str, Kind)], now| {
        let entries: Vec<Entry> =
            entries.iter().map(|(time, kind)| Entry::new(at(time), *kind)).collect();
        let status = CircuitBreaker::replay(policy, HOUR, &entries, at(now)).status(at(now));
        (status.count, status.future)
    };
    let ahead = [("10:00:05", Kind::Failure), ("10:00:06", Kind::Failure)];
    assert_eq!(count(&ahead, "10:00:04"), (0, 2));
    assert_eq!(count(&ahead, "10:00:05"), (1, 1));
    assert_eq!(count(&ahead, "10:00:06"), (2, 0));
    // A success of the worker whose clock is ahead, and failures of one whose clock is right.
    let success = [("10:00:05", Kind::Success), ("10:00:01", Kind::Failure)];
    assert_eq!(count(&success, "10:00:04"), (1, 1));
    assert_eq!(count(&success, "10:00:05"), (0, 0));
    let later = [success[1], success[0], ("10:00:04", Kind::Failure), ("10:00:07", Kind::Failure)];
    assert_eq!(count(&later, "10:00:04"), (2, 2));
    assert_eq!(count(&later, "10:00:05"), (0, 1));
    assert_eq!(count(&later, "10:00:07"), (1, 0));

    // Two failures of 2099 are no reason to trip at the first of today.
    let failures = [Entry::new(YEAR_2099, Kind::Failure); 2];
    let mut breaker = CircuitBreaker::replay(policy, HOUR, &failures, at("10:00"));
    let [permit] = admit(&mut breaker, at("10:00"));
    assert_eq!(breaker.record(permit, Signal::Failure, at("10:00")), None);
    assert_eq!(breaker.status(at("10:00")), Status { state: State::Closed, count: 1, future: 2 });
}

/// Two workers, one whose clock is three seconds ahead, over a circuit that is open until 12:05.
#[test]
fn clocks_that_differ_by_seconds_have_one_probe_and_its_answer_holds_for_all() {
    let folder = tempfile::tempdir().unwrap();
    for (name, signal, state, change) in [
        ("closed", Signal::Success, State::Closed, Some(Change::Closed)),
        ("void", Signal::Neutral, State::HalfOpen, None),
        (
            "opened",
            Signal::Failure,
            State::Open { until: at("12:10:05") },
            Some(Change::Opened { until: at("12:10:05") }),
        ),
    ] {
        let policy = Policy::Window { failures: 1, within: HOUR };
        let breaker = SharedBreaker::at(folder.path().join(name), policy, 5 * MINUTE);
        let late = [(); 2].map(|()| admit_shared(&breaker, at("11:59")));
        breaker
            .record(admit_shared(&breaker, at("12:00")), Signal::Failure, || at("12:00"))
            .unwrap();
        let Admission::Probe(probe) = breaker.admit(|| at("12:05:03")).unwrap() else {
            panic!("no probe");
        };
        let refused = Admission::Refused { until: at("12:10:03") };
        assert_eq!(breaker.admit(|| at("12:05:01")).unwrap(), refused, "{name}");
        assert_eq!(breaker.record(probe, signal, || at("12:05:05")).unwrap(), change, "{name}");
        for time in ["12:05:02", "12:05:06"] {
            let status = breaker.read(|| at(time)).unwrap().status;
            assert_eq!(status.state, state, "{name} at {time}");
        }
        // What was sent before the trip says nothing about the time after the probe.
        for permit in late {
            breaker.record(permit, Signal::Failure, || at("12:05:06")).unwrap();
        }
        assert_eq!(breaker.read(|| at("12:05:06")).unwrap().status.state, state, "{name}");
    }
}

#[test]
fn a_probe_of_a_fast_clock_that_never_returns_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy::Window { failures: 1, within: HOUR };
    let breaker = SharedBreaker::at(folder.path().join("log"), policy, 5 * MINUTE);
    breaker.record(admit_shared(&breaker, at("12:00")), Signal::Failure, || at("12:00")).unwrap();
    assert!(matches!(breaker.admit(|| at("12:05:03")).unwrap(), Admission::Probe(_)));
    assert!(matches!(breaker.admit(|| at("12:10:02")).unwrap(), Admission::Refused { .. }));
    let Admission::Probe(probe) = breaker.admit(|| at("12:10:03")).unwrap() else {
        panic!("no probe");
    };
    assert_eq!(
        breaker.record(probe, Signal::Success, || at("12:10")).unwrap(),
        Some(Change::Closed)
    );
}

/// As above, with a trip: the worker that is told of it is the only one.
#[test]
fn clocks_that_differ_by_seconds_have_one_trip() {
    let folder = tempfile::tempdir().unwrap();
    let breaker = SharedBreaker::at(folder.path().join("log"), THREE_AN_HOUR, HOUR);
    let permits = [(); 4].map(|()| admit_shared(&breaker, at("12:00")));
    let times = ["12:00:10", "12:00:11", "12:00:17", "12:00:14"].map(at);
    let changes: Vec<Option<Change>> = permits
        .into_iter()
        .zip(times)
        .map(|(permit, time)| breaker.record(permit, Signal::Failure, || time).unwrap())
        .collect();
    // The third is ahead: its own count is right, and so is what follows from it, for the others as well.
    let until = at("13:00:17");
    assert_eq!(changes, [None, None, Some(Change::Opened { until }), None]);
    assert_eq!(breaker.admit(|| at("12:00:13")).unwrap(), Admission::Refused { until });
}

/// What one wrong clock has written blocks nobody for ever.
#[test]
fn what_lies_further_in_the_future_than_a_pause_is_passed_over() {
    let (id, until) = (7, YEAR_2099);
    for (kind, state) in [
        (Kind::Opened { until }, State::Closed),
        (Kind::Probe { id, until }, State::Closed),
        (Kind::Void, State::Closed),
        (Kind::Closed, State::Closed),
    ] {
        let entries = [Entry::new(at("13:00:01"), kind)];
        let status = |now| CircuitBreaker::replay(THREE_AN_HOUR, HOUR, &entries, now).status(now);
        assert_eq!(status(at("12:00")), Status { state, count: 0, future: 1 }, "{kind:?}");
    }
    // An answer that answers no probe is as good as its stamp.
    let failures = [("12:00", Kind::Failure), ("12:01", Kind::Failure), ("12:05", Kind::Closed)];
    let entries = failures.map(|(time, kind)| Entry::new(at(time), kind));
    let count = |now| CircuitBreaker::replay(THREE_AN_HOUR, HOUR, &entries, now).status(now).count;
    assert_eq!((count(at("12:04")), count(at("12:05"))), (2, 0));
}

#[test]
fn the_last_number_that_a_probe_can_have_is_followed_by_another() {
    let id = u64::MAX;
    let entries = [
        Entry::new(at("12:00"), Kind::Opened { until: at("12:05") }),
        Entry::new(at("12:05"), Kind::Probe { id, until: at("12:10") }),
    ];
    let mut breaker = CircuitBreaker::replay(THREE_AN_HOUR, 5 * MINUTE, &entries, at("12:10"));
    let Admission::Probe(probe) = breaker.admit(at("12:10")) else { panic!("no probe") };
    assert_eq!(breaker.record(probe, Signal::Success, at("12:11")), Some(Change::Closed));
}

/// Case breaker-05, takapi327/ldbc#731, nodeshift/opossum#119, resilience4j/resilience4j#547 and
/// App-vNext/Polly#217: after the pause every waiting caller was a probe, a late success closed the circuit
/// although a probe had just failed, and old failures were still counted after it had closed.
#[test]
fn one_probe_among_all_callers_decides_and_its_success_clears_the_window() {
    let mut breaker = CircuitBreaker::new(THREE_AN_HOUR, 5 * MINUTE);
    for time in ["11:58", "11:59"] {
        let [permit] = admit(&mut breaker, at(time));
        assert_eq!(breaker.record(permit, Signal::Failure, at(time)), None);
    }
    let [c0, third] = admit(&mut breaker, at("11:59:50"));
    let opened = |until| Some(Change::Opened { until: at(until) });
    assert_eq!(breaker.record(third, Signal::Failure, at("12:00")), opened("12:05"));

    let [c1, c2, c3] = std::array::from_fn(|_| breaker.admit(at("12:05")));
    let Admission::Probe(c1) = c1 else { panic!("{c1:?} is no probe") };
    assert!(c2.permit().is_none() && c3.permit().is_none());
    assert_eq!(breaker.record(c1, Signal::Failure, at("12:05:10")), opened("12:10:10"));

    assert_eq!(breaker.record(c0, Signal::Success, at("12:05:20")), None);
    let still_open = State::Open { until: at("12:10:10") };
    assert_eq!(breaker.status(at("12:05:20")).state, still_open);

    let Admission::Probe(c4) = breaker.admit(at("12:10:10")) else { panic!("no probe") };
    assert_eq!(breaker.record(c4, Signal::Success, at("12:10:12")), Some(Change::Closed));
    assert_eq!(
        breaker.status(at("12:10:12")),
        Status { state: State::Closed, count: 0, future: 0 }
    );

    let [permit] = admit(&mut breaker, at("12:11"));
    assert_eq!(breaker.record(permit, Signal::Failure, at("12:11")), None);
    assert_eq!(breaker.status(at("12:11")), Status { state: State::Closed, count: 1, future: 0 });
}

/// The same case over a shared log: exactly one of many threads gets the probe.
#[test]
fn one_probe_among_all_threads_of_a_shared_log() {
    let folder = tempfile::tempdir().unwrap();
    let breaker = SharedBreaker::at(folder.path().join("log"), THREE_AN_HOUR, 5 * MINUTE);
    for _ in 0..3 {
        let permit = admit_shared(&breaker, at("12:00"));
        breaker.record(permit, Signal::Failure, || at("12:00")).unwrap();
    }
    let barrier = Barrier::new(8);
    let probes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                match breaker.admit(|| at("12:05")).unwrap() {
                    Admission::Probe(permit) => probes.lock().unwrap().push(permit),
                    admission => {
                        assert_eq!(admission, Admission::Refused { until: at("12:10") });
                    }
                }
            });
        }
    });
    let mut probes = probes.into_inner().unwrap();
    assert_eq!(probes.len(), 1);
    let change = breaker.record(probes.remove(0), Signal::Success, || at("12:06")).unwrap();
    assert_eq!(change, Some(Change::Closed));
    assert_eq!(breaker.read(|| at("12:06")).unwrap().status.count, 0);
}

fn admit_shared(breaker: &SharedBreaker, now: Timestamp) -> Permit {
    breaker.admit(|| now).unwrap().permit().unwrap()
}

/// What case breaker-07 finds in the log before: a line that is none, and one without its end.
const DAMAGED: &str = "not json {\n{\"time\": \"12:00\"";

/// Whether a log is as three failures at 12:30 leave it.
#[track_caller]
fn assert_three_failed(path: &Path, opened: usize) {
    let now = at("12:30");
    let breaker = SharedBreaker::at(path, THREE_AN_HOUR, HOUR);
    let reading = breaker.read(|| now).unwrap();
    let until = at("13:30");
    assert_eq!(reading.status, Status { state: State::Open { until }, count: 3, future: 0 });
    assert_eq!(reading.malformed, 2);
    assert_eq!(opened, 1, "exactly one worker opened the circuit");
    let entries = EvidenceLog::at(path).read().unwrap().entries;
    let failures = entries.iter().filter(|entry| entry.kind == Kind::Failure);
    assert_eq!(failures.count(), 3);
    assert!(fs::read_to_string(path).unwrap().starts_with(&format!("{DAMAGED}\n{{")));
}

/// Case breaker-07, massgen/MassGen#1061 and prognostikos/cb2#1: workers that failed together read, added
/// one and wrote back, and failures were lost.
#[test]
fn three_threads_that_fail_together_are_three_failures() {
    let folder = tempfile::tempdir().unwrap();
    for repetition in 0..200 {
        let path = folder.path().join(format!("{repetition}.log"));
        fs::write(&path, DAMAGED).unwrap();
        let barrier = Barrier::new(3);
        let fail = || {
            let breaker = SharedBreaker::at(&path, THREE_AN_HOUR, HOUR);
            let permit = admit_shared(&breaker, at("12:30"));
            barrier.wait();
            breaker.record(permit, Signal::Failure, || at("12:30")).unwrap().is_some()
        };
        let opened = thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(fail)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
        });
        assert_three_failed(&path, opened.iter().filter(|opened| **opened).count());
    }
}

const WORKER: &str = "BADBANK_TEST_BREAKER_LOG";

/// One of the processes of the test below; alone it does nothing.
#[test]
#[allow(clippy::print_stdout, reason = "this is how it speaks to the test that started it")]
fn a_worker_process_fails_once() {
    let Some(path) = std::env::var_os(WORKER) else { return };
    let breaker = SharedBreaker::at(&path, THREE_AN_HOUR, HOUR);
    let permit = admit_shared(&breaker, at("12:30"));
    println!("\nready");
    std::io::stdout().flush().unwrap();
    // The gate is locked until all workers are ready.
    let gate = File::open(Path::new(&path).with_extension("gate")).unwrap();
    gate.lock_shared().unwrap();
    let change = breaker.record(permit, Signal::Failure, || at("12:30")).unwrap();
    println!("\n{}", if change.is_some() { "opened" } else { "recorded" });
}

/// Case breaker-07 again, with processes.
#[test]
fn three_processes_that_fail_together_are_three_failures() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    for repetition in 0..20 {
        let path = folder.path().join(format!("{repetition}.log"));
        fs::write(&path, DAMAGED).unwrap();
        let gate = File::create(path.with_extension("gate")).unwrap();
        gate.lock().unwrap();
        let worker = || {
            let mut worker = Command::new(&program);
            worker.args(["--exact", "breaker::a_worker_process_fails_once", "--nocapture"]);
            worker.env(WORKER, &path).stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut workers = [worker(), worker(), worker()];
        let mut outputs = workers.each_mut().map(|worker| {
            BufReader::new(worker.stdout.take().unwrap()).lines().map(Result::unwrap)
        });
        for output in &mut outputs {
            assert!(output.any(|line| line == "ready"));
        }
        gate.unlock().unwrap();
        let opened = outputs.map(|output| output.filter(|line| line == "opened").count() == 1);
        assert!(workers.iter_mut().all(|worker| worker.wait().unwrap().success()));
        assert_three_failed(&path, opened.iter().filter(|opened| **opened).count());
    }
}

/// Found by thinking breaker-03 through: a clock read before the lock was free is behind what the faster
/// workers have written, and their failures would lie in its future.
#[test]
fn the_clock_is_read_under_the_lock_so_no_worker_is_in_anothers_future() {
    let folder = tempfile::tempdir().unwrap();
    for repetition in 0..50 {
        let path = folder.path().join(format!("{repetition}.log"));
        let breaker = SharedBreaker::at(&path, THREE_AN_HOUR, HOUR);
        let ticks = AtomicU64::new(at("12:30").unix_ms());
        let clock = || Timestamp::from_unix_ms(ticks.fetch_add(1, Ordering::SeqCst));
        let permits: Vec<Permit> = (0..3).map(|_| admit_shared(&breaker, clock())).collect();
        thread::scope(|scope| {
            for permit in permits {
                scope.spawn(|| breaker.record(permit, Signal::Failure, clock).unwrap());
            }
        });
        let status = breaker.read(clock).unwrap().status;
        assert_eq!((status.count, status.future), (3, 0));
        assert!(matches!(status.state, State::Open { .. }));
    }
}

/// Source C: a counter of the old kind keeps its expiry by its modification time as long as there is no log.
#[test]
fn a_legacy_counter_holds_until_it_expires_and_its_failures_move_into_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("failures");
    let write = |text: &str| {
        fs::write(&counter, text).unwrap();
        let modified = UNIX_EPOCH + Duration::from_millis(at("12:00").unix_ms());
        File::options().write(true).open(&counter).unwrap().set_modified(modified).unwrap();
        let _missing = fs::remove_file(folder.path().join("log"));
        SharedBreaker::at(folder.path().join("log"), THREE_AN_HOUR, HOUR)
            .with_legacy_counter(&counter)
    };
    let status = |breaker: &SharedBreaker, time| breaker.read(|| at(time)).unwrap().status;

    let breaker = write("3\n");
    assert_eq!(status(&breaker, "12:59").state, State::Open { until: at("13:00") });
    let expired = Status { state: State::Closed, count: 0, future: 0 };
    assert_eq!(status(&breaker, "13:00"), expired);
    assert_eq!(status(&breaker, "11:59").state, State::Closed);

    // A counter of the future counts later, whatever is counted.
    let log = folder.path().join("log");
    let streak = SharedBreaker::at(&log, Policy::Streak { failures: 3 }, HOUR);
    let streak = streak.with_legacy_counter(&counter);
    let later = Status { state: State::Closed, count: 0, future: 3 };
    assert_eq!((status(&streak, "11:59"), status(&breaker, "11:59")), (later, later));
    assert_eq!(status(&streak, "12:00").count, 3);

    // More than can be counted is a lot, not nothing.
    let breaker = write("99999999999999999999999");
    assert_eq!(status(&breaker, "12:30").state, State::Open { until: at("13:00") });

    let breaker = write("2");
    assert_eq!(status(&breaker, "12:30").count, 2);
    let permit = admit_shared(&breaker, at("12:30"));
    let change = breaker.record(permit, Signal::Failure, || at("12:30")).unwrap();
    assert_eq!(change, Some(Change::Opened { until: at("13:30") }));
    // From here on the log alone counts, for readers that know nothing of the counter too.
    let reader = SharedBreaker::at(folder.path().join("log"), THREE_AN_HOUR, HOUR);
    assert_eq!(status(&reader, "12:30"), status(&breaker, "12:30"));
    assert_eq!(status(&reader, "12:30").count, 3);
    assert_eq!(fs::read_to_string(&counter).unwrap(), "2");

    assert_eq!(status(&write("many"), "12:30"), expired);
}

#[test]
fn a_log_that_cannot_be_used_is_a_clear_error_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let breaker = SharedBreaker::at(folder.path(), THREE_AN_HOUR, HOUR);
    let error = breaker.admit(|| at("12:00")).unwrap_err();
    assert!(matches!(&error, EvidenceError::Open { path, .. } if path == folder.path()));
    assert!(error.to_string().contains("cannot be opened"), "{error}");
    assert!(std::error::Error::source(&error).is_some());

    let inside = folder.path().join("none").join("log");
    let breaker = SharedBreaker::at(&inside, THREE_AN_HOUR, HOUR);
    assert!(breaker.admit(|| at("12:00")).is_err());
    assert_eq!(breaker.read(|| at("12:00")).unwrap().status.state, State::Closed);
    assert!(!inside.exists());
}

/// A process that was stopped while it held the lock stops nobody else.
#[test]
fn a_log_that_somebody_keeps_locked_is_a_clear_error_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let holder = File::create(&path).unwrap();
    holder.lock().unwrap();
    let breaker = SharedBreaker::at(&path, THREE_AN_HOUR, HOUR);
    thread::scope(|scope| {
        let reader = scope.spawn(|| breaker.read(|| at("12:00")).unwrap_err());
        let writer = scope.spawn(|| breaker.admit(|| at("12:00")).unwrap_err());
        for error in [reader.join().unwrap(), writer.join().unwrap()] {
            assert!(matches!(error, EvidenceError::Locked { .. }), "{error:?}");
            assert!(error.to_string().contains("is locked by another process; see"), "{error}");
        }
    });
    holder.unlock().unwrap();
    assert!(matches!(breaker.admit(|| at("12:00")).unwrap(), Admission::Allowed(_)));
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_is_no_regular_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [folder.path(), &pipe, Path::new("/dev/zero"), Path::new("/dev/full")] {
        let breaker = SharedBreaker::at(path, THREE_AN_HOUR, HOUR);
        let errors =
            [breaker.admit(|| at("12:00")).map(drop), breaker.read(|| at("12:00")).map(drop)];
        for error in errors.map(Result::unwrap_err) {
            let EvidenceError::Open { source, .. } = error else { panic!("{error:?}") };
            assert_eq!(source.to_string(), "it is no regular file");
        }
        let log = folder.path().join("log");
        let breaker = SharedBreaker::at(log, THREE_AN_HOUR, HOUR).with_legacy_counter(path);
        let error = breaker.admit(|| at("12:00")).unwrap_err();
        assert!(matches!(error, EvidenceError::Read { .. }), "{error:?}");
    }
}

#[test]
fn an_entry_is_on_a_line_of_its_own_after_any_ending() {
    let folder = tempfile::tempdir().unwrap();
    let entry = "{\"at_ms\":1,\"kind\":\"failure\"}";
    for (before, expected) in [
        (String::new(), format!("{entry}\n")),
        (format!("{entry}\n"), format!("{entry}\n{entry}\n")),
        (entry.to_owned(), format!("{entry}\n{entry}\n")),
        ("{\"at_ms\"".to_owned(), format!("{{\"at_ms\"\n{entry}\n")),
    ] {
        let path = folder.path().join("log");
        fs::write(&path, &before).unwrap();
        let failure = Entry::new(Timestamp::from_unix_ms(1), Kind::Failure);
        EvidenceLog::at(&path).update(|_| ((), vec![failure])).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
}

/// A writer that died between a failure and the trip that it caused: the next failure makes up for it.
#[test]
fn a_trip_that_was_never_written_is_made_up_for_by_the_next_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let line = format!("{{\"at_ms\":{},\"kind\":\"failure\"}}\n", at("12:00").unix_ms());
    fs::write(&path, line.repeat(3) + "{\"at_ms\":17,\"kind\":\"ope").unwrap();
    let breaker = SharedBreaker::at(&path, THREE_AN_HOUR, HOUR);
    let permit = admit_shared(&breaker, at("12:01"));
    let change = breaker.record(permit, Signal::Failure, || at("12:01")).unwrap();
    assert_eq!(change, Some(Change::Opened { until: at("13:01") }));
    let reading = breaker.read(|| at("12:01")).unwrap();
    assert_eq!((reading.status.count, reading.malformed), (4, 1));
}

/// What a worker does next in the test below.
#[derive(Clone, Copy, Debug)]
enum Do {
    Admit,
    Record(usize, Signal),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Do)>> {
    let signal = prop_oneof![Just(Signal::Success), Just(Signal::Failure), Just(Signal::Neutral)];
    let record = (0..8_usize, signal).prop_map(|(which, signal)| Do::Record(which, signal));
    let action = prop_oneof![Just(Do::Admit), record];
    proptest::collection::vec((0..40 * 60_000_u64, action), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_leads_every_reader_to_what_one_breaker_in_memory_knows(
        steps in steps(),
        is_streak in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let policy = if is_streak { Policy::Streak { failures: 3 } } else { THREE_AN_HOUR };
        let shared = SharedBreaker::at(folder.path().join("log"), policy, HOUR);
        let mut breaker = CircuitBreaker::new(policy, HOUR);
        let mut permits: Vec<(Permit, Permit)> = Vec::new();
        let mut now = at("12:00");
        for (passed_ms, step) in steps {
            now = now.plus(Duration::from_millis(passed_ms));
            let before = breaker.status(now).state;
            match step {
                Do::Admit => {
                    let (mine, theirs) = (breaker.admit(now), shared.admit(|| now).unwrap());
                    prop_assert_eq!(&mine, &theirs);
                    if let State::Open { until } = before {
                        prop_assert_eq!(&mine, &Admission::Refused { until });
                    }
                    permits.extend(mine.permit().zip(theirs.permit()));
                }
                Do::Record(which, signal) if !permits.is_empty() => {
                    let (mine, theirs) = permits.remove(which % permits.len());
                    let change = breaker.record(mine, signal, now);
                    prop_assert_eq!(change, shared.record(theirs, signal, || now).unwrap());
                    if let State::Open { .. } = before {
                        prop_assert_eq!(change, None);
                    }
                }
                Do::Record(..) => {}
            }
            prop_assert_eq!(breaker.status(now), shared.read(|| now).unwrap().status);
        }
    }
}
