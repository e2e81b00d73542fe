//! Idempotency keys and what is stored under them.

use std::{borrow::Borrow, collections::BTreeMap, collections::HashMap, fmt, sync::Arc};

use foldhash::fast::FixedState;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::{LedgerError, OrderIndex, Receipt};
use crate::money::{Amount, shorten};

/// Letters that a key may have at the most.
const LENGTH_MAX: usize = 255;

/// A client's label for one intended refund: 1 to 255 printable ASCII characters, not all blank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// Why a text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Empty, or nothing but blanks.
    #[error("the idempotency key is blank; a key has 1 to 255 printable ASCII characters")]
    Blank,
    /// Longer than 255 characters.
    #[error(
        "the idempotency key has {length} characters; a key has 1 to 255 printable ASCII characters"
    )]
    TooLong {
        /// Characters of the refused key.
        length: usize,
    },
    /// A character that is not printable ASCII.
    #[error(
        "the idempotency key `{text}` is not printable ASCII; a key has 1 to 255 printable ASCII characters"
    )]
    NotPrintable {
        /// The text, shortened.
        text: String,
    },
}

impl IdempotencyKey {
    /// Takes a text for a key.
    ///
    /// # Errors
    ///
    /// [`KeyError`] unless it is 1 to 255 printable ASCII characters, not all of them blank.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        if text.trim_ascii().is_empty() {
            return Err(KeyError::Blank);
        }
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(KeyError::NotPrintable { text: shorten(text) });
        }
        if text.len() > LENGTH_MAX {
            return Err(KeyError::TooLong { length: text.len() });
        }
        Ok(Self(text.into()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for IdempotencyKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Who sends a call: keys of two callers never meet. Known by a one-way hash of the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller(u64);

impl Caller {
    /// The caller that a credential names, such as the value of an `Authorization` header.
    pub fn from_credential(credential: &[u8]) -> Self {
        let mut hasher = SipHasher13::new_with_keys(0x6261_6462_616e_6b00, 0x6361_6c6c_6572_0000);
        std::hash::Hasher::write(&mut hasher, credential);
        Self(hasher.finish128().h1)
    }

    /// The caller of a hash, as [`Display`](fmt::Display) writes it.
    pub(crate) fn from_hash(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Place of a key in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyIndex(usize);

/// One use of a key: what it was first used for, and what has come of that.
///
/// A key that is free again gets a new record, so that whoever waits on an old one learns how that ended.
#[derive(Clone, Debug)]
pub(super) struct KeyRecord {
    pub(super) order: OrderIndex,
    pub(super) amount: Amount,
    pub(super) first_use_ms: u64,
    pub(super) state: KeyState,
}

#[derive(Clone, Debug)]
pub(super) enum KeyState {
    /// Deliveries that hold nothing race for it, and none has finished.
    Raced,
    /// A delivery holds the key and has not finished.
    Reserved,
    /// The ledger's answer, for every repeat.
    Bound(Receipt),
    /// A failure, for every repeat.
    Failed(LedgerError),
    /// The ledger refused the delivery that held the key: it is free again, and those who waited learn why.
    Released(LedgerError),
}

type Names = HashMap<IdempotencyKey, KeyIndex, FixedState>;

/// All keys of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyStore {
    anonymous: Names,
    callers: BTreeMap<Caller, Names>,
    records: Vec<KeyRecord>,
}

impl KeyStore {
    /// The place of the newest record of `key`.
    pub(super) fn find(&self, caller: Option<Caller>, key: &IdempotencyKey) -> Option<KeyIndex> {
        let names = match caller {
            None => &self.anonymous,
            Some(caller) => self.callers.get(&caller)?,
        };
        names.get(key).copied()
    }

    /// Makes a record the newest of `key`.
    pub(super) fn put(
        &mut self,
        caller: Option<Caller>,
        key: &IdempotencyKey,
        record: KeyRecord,
    ) -> KeyIndex {
        let names = match caller {
            None => &mut self.anonymous,
            Some(caller) => self.callers.entry(caller).or_default(),
        };
        let index = KeyIndex(self.records.len());
        names.insert(key.clone(), index);
        self.records.push(record);
        index
    }

    /// Records that were made after this one.
    pub(super) fn newer_than(&self, index: KeyIndex) -> u64 {
        (self.records.len() - 1 - index.0) as u64
    }

    pub(super) fn record(&self, index: KeyIndex) -> &KeyRecord {
        &self.records[index.0]
    }

    pub(super) fn record_mut(&mut self, index: KeyIndex) -> &mut KeyRecord {
        &mut self.records[index.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_printable_and_not_blank() {
        let longest = "k".repeat(255);
        for text in ["k", "a b", "~!\"", longest.as_str()] {
            assert!(IdempotencyKey::new(text).is_ok(), "{text}");
        }
        assert_eq!(IdempotencyKey::new(""), Err(KeyError::Blank));
        assert_eq!(IdempotencyKey::new("   "), Err(KeyError::Blank));
        assert_eq!(IdempotencyKey::new(&"k".repeat(256)), Err(KeyError::TooLong { length: 256 }));
        for text in ["schlüssel", "a\tb", "a\u{7f}", "k\n"] {
            assert!(
                matches!(IdempotencyKey::new(text), Err(KeyError::NotPrintable { .. })),
                "{text:?}"
            );
        }
    }
}
