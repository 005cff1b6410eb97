//! The vocabulary of the platform layer: what the rest of Gyre may know of a machine.
//!
//! Nothing here touches hardware. `gyre-x86-64` and `gyre-sim` implement one set of functions over these types;
//! `gyre-machine` selects one of them by target, and every crate above uses only that.
#![no_std]
#![forbid(unsafe_code)]

pub mod address;
pub mod breakpoints;
pub mod clock;
pub mod device;
pub mod event;
pub mod failure;
pub mod frame_word;
pub mod function_registers;
pub mod mapping;
pub mod meter;
pub mod own_time;
pub mod user;
pub mod viewing;
pub mod work;
pub mod zone;
pub mod zone_page;

pub use address::{PAGE_BYTES, Pa, USER_END, Va};
pub use breakpoints::{BREAKPOINT_SLOTS, Breakpoint, Breakpoints, causes};
pub use clock::ClockScale;
pub use device::{DeviceError, PciAddress, PciId};
pub use event::Events;
pub use failure::{FailedAt, Failure, GivenUp, Verdict};
pub use frame_word::FrameWord;
pub use function_registers::{FunctionRegisters, RegisterKind};
pub use mapping::{Access, MapError, MapFlags, Mapping};
pub use meter::{MemoryMeter, OutOfMemory, UNCHARGED};
pub use own_time::OwnTime;
pub use user::{Exit, Registers, Trap};
pub use viewing::{Like, Share, Step, Viewing};
pub use work::{LockWeight, WORK_TURNS};
pub use zone::{MemoryRegion, ZoneDescription};
pub use zone_page::{CoreBox, ZoneLife, ZonePage, ZonePlan};

/// Upper bound on the cores of one instance.
pub const CORES_MAX: usize = 8;
