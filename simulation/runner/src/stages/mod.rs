//! A chain of invented stages and a device behind a gate: what resources have in common, with more freedom than the real ones leave: dependency
//! labels, batches, small rings, tiny queues, programs that compute.

mod failures;
mod grid;
mod workload;
mod world;

pub use world::{Outcome, run};
