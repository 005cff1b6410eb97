//! The kernel, put together from the machine description that came as boot module.
//!
//! Reading order:
//!
//! * [`boot`]: the boot, in order; [`base`]: what every part is made from; [`kernel`]: the parts, once all of them stand.
//! * Parts that know nothing of the kernel: [`payer`], [`roll`] (who is a tenant), [`processes`], [`tables`], [`storage`], [`network`], [`memory`], [`tenants`] (their
//!   state), [`programs`] (started from outside), [`pages`] (figures that are kept up to date), [`dying`].
//! * Work on the kernel as a whole: [`starting`] (what each tenant gets), [`services`] (for the Linux personality), [`native`] (calls of the
//!   system tenant), [`change`], [`together`] (several as one, over [`promises`]), [`moving`] (tenants that come and go), [`goals`] (with the pages of [`beats`]), [`figures`], [`snapshot`], [`containment`], [`ending`], [`heartbeat`] (in a zone),
//!   [`report`] (what everybody waits for, when asked from outside).
//! * [`zones`]: other instances, if this one supervises some.
//!
//! The kernel has no state in statics but [`kernel::KERNEL`], for the cores that wait for the boot.
#![cfg(target_os = "none")]
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

mod again;
mod aggregates;
mod away;
mod base;
mod beats;
mod behalf;
pub mod boot;
mod bounds;
mod cards;
mod cells_in_time;
mod change;
mod containment;
mod dying;
mod embedded;
mod ending;
mod entitlements;
#[cfg(feature = "fault-injection")]
mod fault;
mod figures;
mod flush;
mod goals;
mod heartbeat;
mod kernel;
mod living;
mod memory;
mod moving;
mod native;
mod network;
mod pages;
mod payer;
mod pci;
mod processes;
mod programs;
mod promises;
mod report;
mod rest;
mod roll;
mod seats;
mod services;
mod snapshot;
mod start_error;
mod starting;
mod storage;
mod tables;
mod tenant_files;
mod tenants;
mod together;
mod traces;
mod tree;
mod zones;
