//! The zones of a supervisor: instances that are made, ended, changed in size and watched.
//!
//! Messages in: [`gyre_interface::zones`]. Messages out: [`gyre_interface::leases`] for parts, and lines of
//! [`gyre_interface::zone_messages`] to and from the zones. The machine: [`Instances`].
//!
//! Reading order:
//!
//! * Pure: [`plan`] (a list of commands becomes an aim for each zone, or a refusal), [`rights`] (the orders that a zone may give), [`life`] (when a zone counts as dead, and when it is made
//!   again), [`tail`] (what it printed), [`journal`] (the log).
//! * [`slot`]: a zone's state; [`asks`]: questions to a zone; [`build`]: an instance made and ended; [`change`]: a plan carried out, with its
//!   undoing; [`end`]: the ends of its zones; [`watch`]: the task that looks after a zone; [`handler`]: the requests; [`views`]: what they show.
//! * [`staged`]: the boot module of a zone that comes, as it is handed over; [`comers`]: places that get a zone in a change.
//! * [`links`]: network links between instances that live; [`serving`]: disks that the supervisor serves to zones.
//!
//! One change is carried out at a time. A zone that dies in the middle of one makes that change fail and be undone. The watch of a zone
//! restarts it without any change, from the parts that it has: a change under way elsewhere delays no restart.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod asks;
mod build;
mod change;
mod cleaning;
mod comers;
mod end;
mod handler;
mod instances;
mod journal;
mod life;
mod links;
mod one_at_a_time;
mod plan;
mod rights;
mod serving;
mod slot;
mod staged;
mod tail;
mod undo;
mod views;
mod watch;
mod wishes;

pub use handler::{Setup, Zones};
pub use instances::{Fault, Instances, Life, Plan, Stopping};
pub use links::Wires;
pub use serving::{BackEnds, Work};

#[cfg(test)]
mod tests;
