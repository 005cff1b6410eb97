//! Several kernels on one machine: how a supervisor makes more instances, and how an instance lives in the parts that it was given.
//!
//! An instance with parts from a supervisor is a *zone*; it touches nothing else. The word `zone=` of its command line names the page that both
//! share ([`gyre_platform::zone_page`]): the supervisor's plan in it stands for everything that a lone kernel asks the hardware and the
//! firmware. The word `supervisor` makes an instance one; what it does not keep is its pool.

pub(crate) mod breach;
pub(crate) mod instance_plan;
pub(crate) mod layout;
pub(crate) mod lots;
pub(crate) mod mailbox;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod start_info;
mod wall_apic;

#[cfg(all(target_os = "none", feature = "attacks"))]
pub(crate) mod attacks;
#[cfg(target_os = "none")]
pub(crate) mod calls;
#[cfg(target_os = "none")]
mod changes;
#[cfg(target_os = "none")]
pub(crate) mod clearing;
#[cfg(target_os = "none")]
pub(crate) mod cores;
#[cfg(target_os = "none")]
pub(crate) mod crossing;
#[cfg(target_os = "none")]
pub(crate) mod devices;
#[cfg(target_os = "none")]
pub(crate) mod end;
#[cfg(target_os = "none")]
pub(crate) mod functions;
#[cfg(target_os = "none")]
pub(crate) mod image;
#[cfg(target_os = "none")]
pub(crate) mod inside;
#[cfg(target_os = "none")]
pub(crate) mod instance;
#[cfg(target_os = "none")]
pub(crate) mod making;
#[cfg(target_os = "none")]
pub(crate) mod parking;
#[cfg(target_os = "none")]
mod parking_code;
#[cfg(target_os = "none")]
pub(crate) mod reset;
#[cfg(target_os = "none")]
pub(crate) mod shared_lot;
#[cfg(target_os = "none")]
pub(crate) mod stop;
#[cfg(target_os = "none")]
pub(crate) mod supervisor;
#[cfg(target_os = "none")]
mod told;
#[cfg(target_os = "none")]
pub(crate) mod wall;
#[cfg(target_os = "none")]
mod wall_calls;
#[cfg(target_os = "none")]
mod warden;
#[cfg(target_os = "none")]
mod warden_code;
#[cfg(target_os = "none")]
mod window;
