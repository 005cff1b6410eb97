//! The network link between two instances on one machine, over memory that both map.
//!
//! ```text
//!   instance 0                           shared memory                              instance 1
//!   gate --> ZoneLink::send --copy--> [pages] [ring of frames] --interrupt, poll--> next() --by reference--> reader (resources/net)
//!        <-- room <-- [ring of returned pages] <-- page by page, once nobody above holds it --------------+
//! ```
//! and a second set of all that for the other direction.
//!
//! * `layout`: the places of rings and bells in the shared words. [`Arena`]: the memory, as whoever maps it offers it.
//! * `descriptor`: what a line of a ring of frames says. `outbound` and `inbound`: the two directions as one end sees them, each with a lock
//!   of its own. `patience`: how long a peer without room may hold senders back. `heads`: memory for headers.
//! * [`ZoneLink`]: both directions as a network device ([`gyre_device::LinkDevice`], [`gyre_interface::link::FrameStream`]).
//!
//! A frame's first bytes, with all headers, lie in a slot of its line; the receiver copies them before it looks at them. The rest lies in
//! pages and is never looked at here. The pages that a receiver reads are its own: if its peer dies, what its tenants hold stays theirs, and
//! a sender keeps nothing of a dead receiver after [`ZoneLink::detach`].
//!
//! States of a link: detached (frames are dropped and counted) and attached to an arena; it may be attached again, to the same memory too.
//!
//! The peer is not trusted. Every index and length that it writes is copied, then checked. A peer that lies loses the frame or the page that
//! it lied about; one that gives no pages back, or takes no frames, has its frames dropped; one that floods is read a turn at a time.
//! One that writes nothing but lines without sense is cut off until its link is attached again.
//!
//! Left out: who may be linked to whom, and the mapping of memory. The supervisor decides that.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod arena;
mod descriptor;
#[cfg(any(test, feature = "fake"))]
#[allow(clippy::arithmetic_side_effects, reason = "tests and the simulator only")]
pub mod fake;
mod heads;
mod inbound;
mod layout;
mod link;
mod outbound;
mod patience;
mod statistics;

#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;

pub use arena::{Arena, Side};
pub use layout::{CONTROL_PAGES, PAGES_MIN, prepare};
pub use link::{FRAME_BYTES_MAX, ZoneLink};
pub use statistics::ZoneLinkStatistics;
