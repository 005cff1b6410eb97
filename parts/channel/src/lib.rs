//! Channels between programs, of one tenant or of two (R5: RFcom's open, close, read, write, map, unmap).
//!
//! ```text
//!   listen "shop/orders" --> Listener <-- connect: a pair of ends; one waits in the backlog until it is accepted
//!   End ==messages, by reference==> inbox of the other End; pages that both map
//! ```
//! * [`Name`]: a tenant's name and a name within. A tenant listens under its own name only, so nobody poses as another one.
//! * [`Channels`]: the listeners of an instance by name. [`Listener`]: connections that wait.
//! * [`Abroad`]: names of other instances' tenants.
//! * [`End`]: sends and receives messages; its readiness tells pollers. Dropping it ends the channel for the peer, who still reads what is there.
//!
//! A message arrives whole, in order, once. An inbox holds [`MESSAGES_MAX`] messages and little more than [`INBOX_BYTES`]; the sender pays for
//! its pages until they are read. Nothing here waits: a call that cannot go on answers [`ChannelError::Again`].
//!
//! Peers need not trust each other: all that one can do is not to read, to send, to write into the shared pages, or to go.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod abroad;
mod channels;
mod end;
mod name;

#[cfg(test)]
mod tests;

pub use abroad::{Abroad, Connecting};
pub use channels::{BACKLOG_MAX, Channels, Listener};
pub use end::{End, Figures, INBOX_BYTES, MESSAGE_BYTES_MAX, MESSAGES_MAX, Message, PAGES_MAX};
pub use name::{NAME_BYTES_MAX, Name};

/// The reason why a call on a channel did not do its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelError {
    /// Nothing has come yet, or there is no room: try again when the end is ready.
    Again,
    /// A name, a size or a number of pages that cannot be.
    Invalid,
    /// The message is longer than messages are, or longer than the room that is there to read it.
    TooLong,
    /// Somebody listens under this name already.
    InUse,
    /// This name has no listener.
    Refused,
    /// The peer is gone.
    Ended,
    /// The instance in which the peer was is gone.
    Lost,
    /// The instance of this name's tenant is away, or its kernel does not answer.
    Unreachable,
    /// The tenant may not speak in this name.
    Forbidden,
    /// There is no memory for it.
    NoMemory,
}
