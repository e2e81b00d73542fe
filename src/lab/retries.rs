//! Who retries.
