//! Messages of 64 bytes over shared memory (R3: fast inter-subOS messages; X6: calls of a cell).
//!
//! * [`Message`]: a kind, a sender, the activity that pays, a token that names the answer, and six words.
//! * [`Ring`]: one sender and one receiver, a page of 64 lines. Each line carries its own sequence number, so the fast path shares no index:
//!   a message is one cache line that moves once each way.
//! * [`Bell`]: tells a sender whether its receiver polls or must be interrupted (interrupt, then poll).
//! * [`cast`]: one message to several receivers, or to all.
//! * [`Inbox`]: the rings of all peers of one receiver, served in turn, so that a peer that floods delays only itself.
//!
//! The peer is not trusted. It may write anything into the shared memory at any time: no number that it writes leads to an access, a wait or a
//! loop. A peer that breaks the order of sequence numbers stops its own ring and nothing else.
//!
//! Left out: who may send to whom and the meaning of kinds. The owner of the memory decides that.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod bell;
mod cast;
mod inbox;
mod message;
mod ring;
mod sync;

#[cfg(all(test, loom))]
mod loom_tests;

pub use bell::{Bell, BellAt};
pub use cast::{Target, cast};
pub use inbox::Inbox;
pub use message::Message;
pub use ring::{Full, LINES, Receiver, Ring, Sender, words_of};
