//! The network path as resources: frames from the device to the owner's protocols and back, one label per connection.
//!
//! ```text
//!   device --frames--> reader (whose is it?) --packets--> tcp_input | udp_input | icmp_input
//!                                                             |  users: interface::tcp, interface::udp
//!   device <--frames-- [scheduler: who sends next] <-- writer (ARP, Ethernet, loopback) <-- packets
//!                                          tcp_timer --deadlines--> tcp_input
//! ```
//!
//! * [`tcp`]: the connection as a pure state machine. [`wire`]: formats.
//! * `reader`: demultiplexing to the activity before any protocol cost; [`packet::Admission`] bounds the waiting
//!   packets.
//! * [`tcp_resource`], [`udp`], [`icmp`], [`timer`], [`writer`]: the resources. [`protocols`]: their requests to each
//!   other.
//! * `echo`: sockets of ICMP, and what a tenant may know of its network.
//! * `bridge`: frames of neighbours without a card, which this one's card carries.
//! * `links`: links beside the card, each to one neighbour. Their frames are neither cut nor summed.
//! * TCP hands down large segments, each one message on the way; they are cut at the entry of the device's ring.
//!   `pace` says how large: on a slow link little more than a frame, so that others need not wait.
//! * `answers`: how long each tenant's servers take to answer.
//! * `guard`: the overload controller at a tenant's listeners.
//! * `receipt`: back-pressure from the device to the sender without loss or spinning.
//!
//! Invariants: no lock is held while a message is sent or awaited; everything a packet can make grow has a bound in
//! [`limits`]; the owner of its address pays for a received packet from demultiplexing on.
//!
//! Left out: IPv6, IP options (skipped), path MTU discovery, multicast, raw sockets of other protocols than ICMP.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

pub mod alarm;
mod answers;
mod bridge;
mod cards;
pub(crate) mod connection_key;
mod door;
mod echo;
mod fragments;
mod guard;
pub mod hash;
mod headers;
pub mod icmp;
pub mod limits;
mod links;
mod neighbours;
pub mod net;
mod pace;
pub mod packet;
pub mod protocols;
mod reader;
mod receipt;
mod shared;
pub mod statistics;
pub mod tcp;
pub mod tcp_resource;
mod tenant;
pub mod timer;
pub mod udp;
pub mod wire;
pub mod writer;

pub use cards::{CARDS_MAX, CardConfig, CardId};
pub use door::Door;
pub use guard::{Load, Protection, Refusal};
pub use limits::NetLimits;
pub use links::{Guest, LINK_ADDRESSES_MAX, LINKS_MAX, LinkConfig, LinkId, LinkStatistics, NoRoute, Role};
pub use net::Net;
pub use receipt::Receipt;
pub use shared::{NetConfig, NetPorts};
pub use statistics::{DropReason, NetStatistics, REASON_NAMES};
pub use tcp_resource::CONNECTIONS;
pub use tenant::Tenant;

#[cfg(test)]
mod tests;
