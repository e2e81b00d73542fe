//! The programs that decide what to refund.
