//! The contracts between resources. A resource uses another one only through these protocols; read this crate first.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

pub mod async_io;
pub mod begun;
pub mod block;
pub mod files;
pub mod io_stream;
pub mod link;
pub mod memory;
pub mod near;
pub mod position;
pub mod readiness;
pub mod scsi;
pub mod tcp;
pub mod udp;

pub use position::Position;
pub use readiness::{Readiness, Ready};

/// Tells the scheduler and the ledger of bytes that the request being handled has moved. To be called in its turn.
pub type BytesReport = &'static (dyn Fn(u64) + Send + Sync);
