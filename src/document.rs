//! Reading JSON documents of ours, refusing what is wrong by line.
//!
//! serde says what a document may hold; this module adds where the fault lies, also for rules that
//! only show once a part has been read, and takes numbers from their text.

use std::{fmt, path::Path, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::money::shorten;

/// A document that was refused: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct DocumentError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong there, and what is allowed.
    pub message: String,
}

impl DocumentError {
    /// An error at `line` of a text.
    pub(crate) fn new(line: usize, message: impl fmt::Display) -> Self {
        Self { line, message: message.to_string() }
    }

    /// The error as one sentence about the file at `path`.
    pub fn in_file(&self, path: &Path) -> String {
        format!("{}:{}: {}", path.display(), self.line, self.message)
    }
}

impl From<serde_json::Error> for DocumentError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Self::new(error.line().max(1), text.strip_suffix(&place).unwrap_or(&text))
    }
}

/// A part of a document, still as text, with its place in the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// The document, whose lines are counted for a refusal and not before: a document has many parts.
    whole: &'a str,
    text: &'a str,
}

impl<'a> Part<'a> {
    /// A whole document.
    pub(crate) fn whole(text: &'a str) -> Self {
        let text = unmarked(text);
        Self { whole: text, text }
    }

    /// The part of this one that `raw` was borrowed from.
    pub(crate) fn inner(self, raw: &'a RawValue) -> Self {
        Self { whole: self.whole, text: raw.get() }
    }

    /// Reads the part.
    pub(crate) fn read<T: Deserialize<'a>>(self) -> Result<T, DocumentError> {
        serde_json::from_str(self.text).map_err(|error| {
            let mut error = DocumentError::from(error);
            error.line += self.line() - 1;
            error
        })
    }

    /// Reads the part, which is to be an object: serde would take a list for a struct, too.
    pub(crate) fn read_object<T: Deserialize<'a>>(self) -> Result<T, DocumentError> {
        if self.text.trim_start().starts_with('[') {
            return Err(self.error("this is a list, and an object is wanted"));
        }
        self.read()
    }

    /// Reads the part, a string or a number, from its text.
    pub(crate) fn parse<T: FromStr<Err: fmt::Display>>(self) -> Result<T, DocumentError> {
        let NumberText(text) = self.read()?;
        text.parse().map_err(|error| self.error(error))
    }

    /// An error about this part.
    pub(crate) fn error(self, message: impl fmt::Display) -> DocumentError {
        DocumentError::new(self.line(), message)
    }

    /// The line of the document on which the part begins.
    fn line(self) -> usize {
        let offset = (self.text.as_ptr() as usize).saturating_sub(self.whole.as_ptr() as usize);
        line_breaks(self.whole.as_bytes().get(..offset).unwrap_or_default()) + 1
    }
}

/// A text without the byte order mark that some editors put before it.
pub(crate) fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// How many lines end in `bytes`.
pub(crate) fn line_breaks(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

/// The text of a JSON number, or the content of a JSON string: what an amount or a rate is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberText(pub(crate) String);

impl<'de> Deserialize<'de> for NumberText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_raw(&raw).ok_or_else(|| {
            D::Error::custom(format!("`{}` is neither a string nor a number", shorten(raw.get())))
        })
    }
}

impl NumberText {
    /// The text, if the value is a string or a number.
    pub(crate) fn from_raw(raw: &RawValue) -> Option<Self> {
        match raw.get().as_bytes().first()? {
            b'"' => serde_json::from_str(raw.get()).ok().map(Self),
            b'-' | b'0'..=b'9' => Some(Self(raw.get().to_owned())),
            _ => None,
        }
    }
}

/// Refuses every version of a format but the first.
pub(crate) fn check_version(format: &str, part: Part<'_>) -> Result<(), DocumentError> {
    let version: u32 = part.read()?;
    if version == 1 {
        return Ok(());
    }
    Err(part
        .error(format!("{format} version {version} is not known; this badbank reads version 1")))
}
