//! Work that has failed too often is set aside for a person, so that it holds up nothing else.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::call::CallError;

/// Sets work aside after so many attempts, and lists it; serde saves and loads it.
///
/// # Examples
///
/// ```
/// use badbank::{call::CallError, harness::DeadLetter};
///
/// let mut dead = DeadLetter::after(2);
/// assert!(!dead.failed("refund:A-1", &CallError::Timeout));
/// assert!(dead.failed("refund:A-1", &CallError::Unavailable));
/// let letters: Vec<String> = dead.letters().map(ToString::to_string).collect();
/// // The last error says that nothing has happened; the money may have moved all the same.
/// assert_eq!(
///     letters,
///     ["refund:A-1: set aside after attempt 2: The request may or may not have been processed."]
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    attempts_max: u32,
    letters: BTreeMap<String, Letter>,
}

/// A piece of work that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Letter {
    /// What the work is for.
    pub intent: String,
    /// How often it has failed.
    pub attempts: u32,
    /// The worst error it met, as [`Retrying::worst`](super::Retrying::worst) has it.
    pub error: CallError,
    is_dead: bool,
}

impl DeadLetter {
    /// Sets work aside once it has failed `attempts_max` times, and once at the least.
    pub const fn after(attempts_max: u32) -> Self {
        let attempts_max = if attempts_max == 0 { 1 } else { attempts_max };
        Self { attempts_max, letters: BTreeMap::new() }
    }

    /// Takes the outcome of an attempt; says whether the work is set aside now.
    ///
    /// A success ends the count, an error that is worth another attempt is counted, and what no further
    /// attempt would change is set aside at once.
    pub fn note<T>(&mut self, intent: &str, outcome: &Result<T, CallError>) -> bool {
        match outcome {
            Ok(_) => self.succeeded(intent),
            Err(error) if error.is_retryable() => {
                self.failed(intent, error);
            }
            Err(error) => self.set_aside(intent, error),
        }
        self.is_set_aside(intent)
    }

    /// Notes that an attempt has failed; says whether the work is set aside now.
    pub fn failed(&mut self, intent: &str, error: &CallError) -> bool {
        let attempts_max = self.attempts_max;
        let letter = self.count(intent, error);
        letter.is_dead |= letter.attempts >= attempts_max;
        letter.is_dead
    }

    /// Notes that an attempt has failed in a way that no further attempt would change.
    pub fn set_aside(&mut self, intent: &str, error: &CallError) {
        self.count(intent, error).is_dead = true;
    }

    fn count(&mut self, intent: &str, error: &CallError) -> &mut Letter {
        let letter = self.letters.entry(intent.to_owned()).or_insert_with(|| Letter {
            intent: intent.to_owned(),
            attempts: 0,
            error: error.clone(),
            is_dead: false,
        });
        letter.attempts = letter.attempts.saturating_add(1);
        letter.error.worsen(error);
        letter
    }

    /// Forgets the failures of work that has succeeded after all.
    pub fn succeeded(&mut self, intent: &str) {
        self.letters.remove(intent);
    }

    /// Whether work is set aside.
    pub fn is_set_aside(&self, intent: &str) -> bool {
        self.letter(intent).is_some()
    }

    /// What is known of work that is set aside.
    pub fn letter(&self, intent: &str) -> Option<&Letter> {
        self.letters.get(intent).filter(|letter| letter.is_dead)
    }

    /// The work that is set aside, by intent, for a person to look at.
    pub fn letters(&self) -> impl Iterator<Item = &Letter> {
        self.letters.values().filter(|letter| letter.is_dead)
    }

    /// Takes work back that a person has looked at; its attempts are counted anew.
    pub fn release(&mut self, intent: &str) -> Option<Letter> {
        if self.is_set_aside(intent) { self.letters.remove(intent) } else { None }
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: set aside after attempt {}: {}", self.intent, self.attempts, self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Refusal, RefusalCode};

    const UNAVAILABLE: Result<(), CallError> = Err(CallError::Unavailable);

    #[test]
    fn what_is_released_gets_all_its_attempts_again() {
        let mut dead = DeadLetter::after(2);
        assert_eq!(dead.release("a"), None);
        dead.failed("a", &CallError::Unavailable);
        assert_eq!(dead.release("a"), None);
        dead.failed("a", &CallError::Unavailable);
        assert!(dead.is_set_aside("a"));
        assert_eq!(dead.release("a").map(|letter| letter.attempts), Some(2));
        assert!(!dead.failed("a", &CallError::Unavailable));
    }

    #[test]
    fn a_letter_tells_of_a_timeout_whatever_came_last() {
        let mut dead = DeadLetter::after(3);
        for error in [CallError::Timeout, CallError::ServerError, CallError::Unavailable] {
            dead.failed("a", &error);
        }
        assert_eq!(dead.letter("a").map(|letter| &letter.error), Some(&CallError::Timeout));
    }

    #[test]
    fn a_success_ends_the_count() {
        let mut dead = DeadLetter::after(2);
        assert!(!dead.note("a", &UNAVAILABLE));
        assert!(!dead.note("a", &Ok(())));
        assert!(!dead.note("a", &UNAVAILABLE));
        assert_eq!(dead.letters().count(), 0);
        assert!(dead.note("a", &UNAVAILABLE));
    }

    #[test]
    fn what_no_further_attempt_would_change_is_set_aside_at_once() {
        let refusal = Refusal::new(RefusalCode::OverRefund, "no").into();
        let mut dead = DeadLetter::after(2);
        assert!(dead.note("a", &Err::<(), _>(refusal)));
        assert_eq!(dead.letter("a").map(|letter| letter.attempts), Some(1));
    }
}
