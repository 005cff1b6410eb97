//! TCP as a pure state machine (RFC 9293): `(state, event, now) -> actions`, without clock, queue or packet.
//!
//! [`Machine`] is one connection behind the handshake's first half. Events go in by [`Machine::on_segment`], [`Machine::on_timer`]
//! and the user's calls (`user.rs`); what is to be sent comes out of [`Machine::next_segment`] as long as that answers `Some`, so
//! that the holder of the machine decides when it may send (back-pressure); [`Machine::deadline_ns`] says when to call again.
//!
//! Half-open connections of a listener are not machines: see `cookie.rs` and the listener of the resource. A connection in
//! TIME-WAIT is only a few words: `time_wait.rs`.
//!
//! Left out: urgent data (delivered in line), ECN, F-RTO.

mod ack;
mod congestion;
pub mod cookie;
mod expire;
mod input;
mod machine;
mod output;
mod reassembly;
mod reset;
mod rtt;
mod scoreboard;
mod seq;
mod store;
pub mod time_wait;
mod user;

#[cfg(test)]
mod tests;

pub use congestion::Algorithm;
pub use machine::{Figures, Machine, Peer, Settings, State};
pub use output::Outgoing;
pub use reset::reset_for;
pub use seq::Seq;
pub use store::{COPY_BYTES_MAX, Store};
pub use user::Close;
