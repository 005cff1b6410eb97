//! The broker's policies: they turn measured performance into allocations.
//!
//! * [`window`]: everything that a policy is told; [`resource`]: whatever is divided.
//! * [`plan`]: the allocations, one owner per knob; [`reason`]: why each stands as it does.
//! * [`policy`]: the contract; one file per policy: [`static_shares`], [`threshold`], [`pressure`], [`pota`],
//!   [`pacora`].
//!
//! The crate is pure: it reads no clock, allocates nothing and knows no kernel. It uses floating-point numbers, so it runs in a user
//! program and in the simulator, never in the kernel.
#![no_std]
#![forbid(unsafe_code)]

mod book;
mod number;
mod silence;
mod wish;

pub mod overload;
pub mod pacora;
pub mod plan;
pub mod policy;
pub mod pota;
pub mod pressure;
pub mod reason;
pub mod resource;
pub mod static_shares;
pub mod threshold;
pub mod window;

pub use plan::{Decision, Knob, Owner, Plan};
pub use policy::Policy;
pub use reason::Reason;
pub use resource::{Parts, RESOURCES, Resource, ResourceSet};
pub use window::{Goal, Observation, Sample, Tenant, TenantId, Window};
