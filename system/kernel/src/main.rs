//! The bootable kernel: puts the system together from the machine description that came as boot module.
//!
//! Reading order: [`assembly`] (what happens at boot, in order), `gyre_assembly::grid` (resources and their schedulers), `storage`, `network`, `memory`,
//! `tenants` (what each tenant gets), `native` (calls of the system tenant), `snapshot` (figures for the monitor).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod assembly;
#[cfg(target_os = "none")]
mod bounds;
#[cfg(target_os = "none")]
mod change;
#[cfg(target_os = "none")]
mod containment;
#[cfg(target_os = "none")]
mod ending;
#[cfg(target_os = "none")]
mod entitlements;
#[cfg(all(target_os = "none", feature = "fault-injection"))]
mod fault;
#[cfg(target_os = "none")]
mod figures;
#[cfg(target_os = "none")]
mod host;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod native;
#[cfg(target_os = "none")]
mod network;
#[cfg(target_os = "none")]
mod pci;
#[cfg(target_os = "none")]
mod processes;
#[cfg(target_os = "none")]
mod snapshot;
#[cfg(target_os = "none")]
mod storage;
#[cfg(target_os = "none")]
mod tables;
#[cfg(target_os = "none")]
mod tenants;
#[cfg(target_os = "none")]
mod tree;

/// On a host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it with --target x86_64-unknown-none, run it with the gyre tool");
    std::process::exit(2);
}
