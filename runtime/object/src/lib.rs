//! Objects of the kernel: locks with a contention profile, pages and byte buffers that move by reference.
#![no_std]
extern crate alloc;

pub mod buffer;
pub mod lock;

pub use buffer::{Bytes, Page};
pub use lock::{LockGuard, LockProfile, SpinLock};
