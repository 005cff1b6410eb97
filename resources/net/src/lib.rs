//! The network path as resources (V18): frames from the device to the owner's protocols and back, one label per connection.
//!
//! ```text
//!   device --frames--> reader (whose is it?) --packets--> tcp_input | udp_input | icmp_input
//!                                                             |  users: interface::tcp, interface::udp
//!   device <--frames-- [scheduler: who sends next] <-- writer (ARP, Ethernet, loopback) <-- packets
//!                                          tcp_timer --deadlines--> tcp_input
//! ```
//!
//! * [`tcp`]: the connection as a pure state machine. [`wire`]: formats.
//! * `reader`: demultiplexing to the activity before any protocol cost; [`packet::Admission`] bounds what waits.
//! * [`tcp_resource`], [`udp`], [`icmp`], [`timer`], [`writer`]: the resources. [`protocols`]: what they ask each other.
//! * TCP hands down large segments, each one message on the way; they are cut where the device's ring begins. `pace` says how large:
//!   on a slow link little more than a frame, so that others need not wait.
//! * `receipt`: back-pressure from the device to the sender without loss or spinning.
//!
//! Invariants: no lock is held while a message is sent or awaited; everything a packet can make grow has a bound in
//! [`limits`]; what is received is paid by the owner of its address from demultiplexing on.
//!
//! Left out: IPv6, IP options (skipped), path MTU discovery, multicast, raw sockets.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

pub mod alarm;
pub(crate) mod flow;
mod fragments;
pub mod hash;
mod headers;
pub mod icmp;
pub mod limits;
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

pub use limits::NetLimits;
pub use net::Net;
pub use receipt::Receipt;
pub use shared::{NetConfig, NetPorts};
pub use statistics::{DropReason, NetStatistics, REASON_NAMES};
pub use tcp_resource::CONNECTIONS;
pub use tenant::Tenant;

#[cfg(test)]
mod tests;
