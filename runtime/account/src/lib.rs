//! Who pays. Activities form a tree (tenant > container > process > ...); every message carries one.
#![no_std]
#![forbid(unsafe_code)]

pub mod activity;
pub mod current;

pub use activity::ActivityId;
pub use current::{current_activity, set_current_activity};
