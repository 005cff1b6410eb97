//! Channels between tenants of two instances (R5), over memory that both map.
//!
//! ```text
//!   program -- End == near end --> Carrier --copy--> [pages] [ring of lines] --interrupt, poll--> Trunk --> Carrier --> near end == End -- program
//! ```
//! * [`Trunk`]: the channels to one neighbour. It is attached to memory when the supervisor says that both stand, and detached when one ends.
//! * `carrier`: a task for each channel, in the name of the tenant that has its near end. To the program, that end is the peer: all that
//!   channels within an instance promise follows from it. It copies messages out of the program's pages and into them.
//! * `live`: the memory as one side uses it; `line`: the lines of 64 bytes; `layout`: the places of rings and words.
//! * [`Trunks`]: the trunk behind which a tenant's name lies.
//!
//! A message goes when the other side has room for it: [`WINDOW`] messages of a channel are under way at most, so a reader that does not read
//! holds up no other channel. Pages that programs map lie in the half of who asked for them; each side publishes which pages it still holds, and
//! a page is given to another channel only when neither does.
//!
//! An instance that is gone is heard: whoever reads gets what has come, then that the connection is lost; whoever writes, that the peer is gone.
//!
//! The peer is not trusted: each number that it writes is copied, then checked; the name of the tenant for which it speaks must be one of its
//! own. One that writes nothing but lines without sense, or more than is asked, is cut off until it is made again.
//!
//! Left out: who may be linked to whom, and the mapping of memory. The supervisor decides that.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod carrier;
mod layout;
mod line;
mod live;
mod opening;
mod trunk;
mod trunks;

#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;

pub use layout::{CONTROL_PAGES, DATA_PAGES, PAGES, SHARED_PAGES, prepare};
pub use line::WINDOW;
pub use trunk::{Payer, Setup, Trunk};
pub use trunks::Trunks;
