//! Names of orders, tickets and runs.

use std::{borrow::Borrow, fmt, ops::Deref, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::money::shorten;

/// Letters that a name may have at the most.
const LENGTH_MAX: usize = 64;

/// A text that cannot be the name of an order, a ticket or a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id; an id has 1 to 64 of A-Z a-z 0-9 . _ - and is not `none`")]
pub struct IdError {
    /// The text, shortened.
    pub text: String,
}

/// Whether `text` is 1 to 64 of `A-Z a-z 0-9 . _ -`, and not `none`.
fn is_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LENGTH_MAX).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !text.eq_ignore_ascii_case("none")
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text for a name.
            ///
            /// # Errors
            ///
            /// [`IdError`] unless it is 1 to 64 of `A-Z a-z 0-9 . _ -`, and not `none`.
            pub fn new(text: &str) -> Result<Self, IdError> {
                if is_id(text) { Ok(Self(text.into())) } else { Err(IdError { text: shorten(text) }) }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

id! {
    /// The name of an order, such as `A-1791`; orders sort by its bytes.
    OrderId
}

id! {
    /// The name of a ticket, such as `T-5f0c21aa`.
    TicketId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_plain_and_not_none() {
        let long = "a".repeat(64);
        for text in ["A-1", "a.b_c-9", "-", long.as_str()] {
            assert!(OrderId::new(text).is_ok(), "{text}");
        }
        let too_long = "a".repeat(65);
        for text in ["", "none", "None", "A 1", "A/1", "Ä", "A-1\n", too_long.as_str()] {
            assert!(OrderId::new(text).is_err(), "{text}");
        }
    }
}
