//! The bank on the wire: two listeners, and a client.
