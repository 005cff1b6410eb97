//! Activities pay. They form a tree (tenant > container > process > ...); every message carries one.
//!
//! * [`tree`]: who exists, under whom, with which weight; [`memory`]: what they hold, and their limits; `viewers`, `sharing`: what they
//!   hold together.
//! * [`ledger`]: per core, what each activity used at each resource; [`storage`]: its bytes of disks and files; [`timeline`]: the gapless division of a core's time.
//! * [`grant`]: the right of a service to work at another one's expense.
//! * [`current`]: for whom a core works now.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod accounts;
pub mod activity;
mod batch;
pub mod current;
pub mod grant;
pub mod ledger;
pub mod limits;
pub mod memory;
mod part;
mod sharing;
pub mod storage;
pub mod timeline;
pub mod tree;
mod viewers;

pub use accounts::Accounts;
pub use activity::{ActivityId, PayerOf, ResourceId};
pub use current::{current, current_activity, current_resource, set_current, set_current_activity, set_current_tenant};
pub use grant::Grant;
pub use ledger::{Cell, Column, Table};
pub use memory::MemoryUse;
pub use storage::Storage;
pub use timeline::{Cause, Partition, Span, TimeLine};
pub use tree::{Activities, ActivityError, ActivityInfo, ActivityParams};
