//! The rules of a breaker in memory.

use super::*;
use crate::call::{Refusal, RefusalCode};

const MINUTE: Duration = Duration::from_secs(60);

fn window(failures: u32) -> CircuitBreaker {
    CircuitBreaker::new(Policy::Window { failures, within: 60 * MINUTE }, 5 * MINUTE)
}

fn at(minute: u32) -> Timestamp {
    Timestamp::from_unix_ms(1_700_000_000_000).plus(minute * MINUTE)
}

/// A call that begins and ends within a minute.
fn call(breaker: &mut CircuitBreaker, signal: Signal, minute: u32) -> Option<Change> {
    let permit = breaker.admit(at(minute)).permit().unwrap();
    breaker.record(permit, signal, at(minute))
}

#[test]
fn a_failure_counts_as_long_as_the_window_is_and_no_longer() {
    let mut breaker = window(3);
    call(&mut breaker, Signal::Failure, 0);
    let count = |now: Timestamp| breaker.status(now).count;
    assert_eq!(count(at(60)), 1);
    assert_eq!(count(at(60).plus(Duration::from_millis(1))), 0);
}

#[test]
fn a_refusal_of_the_clients_own_making_is_neutral() {
    let refused: Result<(), CallError> =
        Err(Refusal::new(RefusalCode::InFlight, "still under way").into());
    assert_eq!(Signal::of(&refused), Signal::Neutral);
    assert_eq!(Signal::of(&Ok(())), Signal::Success);
    for error in [CallError::Timeout, CallError::RateLimited { retry_after_s: 1 }] {
        assert_eq!(Signal::of(&Err::<(), _>(error)), Signal::Failure);
    }
    let mut streak = CircuitBreaker::new(Policy::Streak { failures: 2 }, MINUTE);
    for breaker in [&mut window(2), &mut streak] {
        call(breaker, Signal::Failure, 0);
        assert_eq!(call(breaker, Signal::Neutral, 1), None);
        assert_eq!(breaker.status(at(1)).count, 1);
        assert!(call(breaker, Signal::Failure, 2).is_some());
    }
}

#[test]
fn a_refused_probe_proves_nothing_and_the_next_call_is_the_probe() {
    let mut breaker = window(1);
    call(&mut breaker, Signal::Failure, 0);
    let probe = breaker.admit(at(5)).permit().unwrap();
    assert_eq!(breaker.record(probe, Signal::Neutral, at(6)), None);
    assert_eq!(breaker.status(at(6)).state, State::HalfOpen);
    let Admission::Probe(probe) = breaker.admit(at(6)) else { panic!("no probe") };
    assert_eq!(breaker.record(probe, Signal::Success, at(6)), Some(Change::Closed));
}

#[test]
fn a_probe_that_never_ends_is_given_up_after_a_pause() {
    let mut breaker = window(1);
    call(&mut breaker, Signal::Failure, 0);
    let Admission::Probe(lost) = breaker.admit(at(5)) else { panic!("no probe") };
    assert_eq!(breaker.admit(at(9)), Admission::Refused { until: at(10) });
    let Admission::Probe(second) = breaker.admit(at(10)) else { panic!("no probe") };
    // It turns up again, but is no longer the probe.
    assert_eq!(breaker.record(lost, Signal::Success, at(11)), None);
    assert_eq!(breaker.status(at(11)).state, State::HalfOpen);
    let until = at(17);
    assert_eq!(breaker.record(second, Signal::Failure, at(12)), Some(Change::Opened { until }));
}

#[test]
fn a_failure_from_before_the_trip_does_not_lengthen_the_pause_or_undo_a_probe() {
    let mut breaker = window(1);
    let [early, late] = [0, 0].map(|minute| breaker.admit(at(minute)).permit().unwrap());
    call(&mut breaker, Signal::Failure, 0);
    assert_eq!(breaker.record(early, Signal::Failure, at(4)), None);
    assert_eq!(breaker.status(at(4)).state, State::Open { until: at(5) });
    assert_eq!(call(&mut breaker, Signal::Success, 5), Some(Change::Closed));
    assert_eq!(breaker.record(late, Signal::Failure, at(6)), None);
    assert_eq!(breaker.status(at(6)), Status { state: State::Closed, count: 0, future: 0 });
}

#[test]
fn a_streak_forgets_at_a_success_and_a_window_does_not() {
    let mut streak = CircuitBreaker::new(Policy::Streak { failures: 3 }, MINUTE);
    let mut window = window(3);
    for breaker in [&mut streak, &mut window] {
        call(breaker, Signal::Failure, 0);
        call(breaker, Signal::Success, 1);
    }
    assert_eq!((streak.status(at(1)).count, window.status(at(1)).count), (0, 1));
}

#[test]
fn old_failures_take_no_room() {
    let mut breaker = window(3);
    for minute in 0..1000 {
        call(&mut breaker, Signal::Failure, minute * 61);
    }
    assert_eq!(breaker.outcomes.0.len(), 1);
    let mut streak = CircuitBreaker::new(Policy::Streak { failures: 3 }, MINUTE);
    for minute in 0..1000 {
        let signal = if minute % 2 == 0 { Signal::Failure } else { Signal::Success };
        call(&mut streak, signal, minute);
    }
    assert_eq!(streak.outcomes.0.len(), 0);
}

#[test]
fn one_probe_is_under_way_at_a_time_also_where_there_is_no_pause() {
    for pause in [Duration::ZERO, Duration::from_micros(1), Duration::from_millis(1)] {
        let mut breaker =
            CircuitBreaker::new(Policy::Window { failures: 1, within: MINUTE }, pause);
        call(&mut breaker, Signal::Failure, 0);
        let admissions: Vec<Admission> = (0..5).map(|_| breaker.admit(at(1))).collect();
        let probes = admissions.iter().filter(|one| matches!(one, Admission::Probe(_)));
        assert_eq!(probes.count(), 1, "{pause:?}");
        // It never returns, and is given up.
        assert!(matches!(breaker.admit(at(2)), Admission::Probe(_)), "{pause:?}");
    }
}
