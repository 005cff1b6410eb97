//! The contracts between resources. A resource uses another one only through these protocols; read this crate first.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

pub mod around;
pub mod async_io;
pub mod begun;
pub mod block;
pub mod files;
pub mod icmp;
pub mod io_stream;
pub mod leases;
pub mod link;
pub mod memory;
pub mod near;
pub mod position;
pub mod readiness;
pub mod scsi;
pub mod tcp;
pub mod udp;
pub mod zone_messages;
pub mod zones;

pub use position::Position;
pub use readiness::{Readiness, Ready};

/// Tells the scheduler and the ledger how many bytes the request being handled has moved. Call it in that request's
/// turn.
pub type BytesReport = &'static (dyn Fn(u64) + Send + Sync);
