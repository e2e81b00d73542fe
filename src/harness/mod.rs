//! The reference designs around a call: retries and keys.
