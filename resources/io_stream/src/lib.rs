//! I/O streams (2013 paper, section IV-E, the resource IOR): the bytes that programs and flows move by reference pass
//! here.
//!
//! ```text
//!   flow, sendfile, splice --read(endpoint)-->  [ scheduler: bytes by activity ]  --take--> file, socket, pipe, stream
//!                          --write(endpoint)->                                    --give-->
//!   program --stream_write--> stream: queue of pages, small writes gathered, bounded --stream_read--> pages, read-only
//! ```
//!
//! A request's cost is the bytes that it has moved, reported afterwards. So a policy over bytes divides data in
//! memory as another one divides a disk. If this resource has no policy of its own, requests are handled in their
//! sender's turn and the bytes are only counted.
//!
//! Messages in: [`gyre_interface::io_stream`]. Messages out: those of the objects asked. A request waits for devices,
//! never for the other end of an object: one that cannot go on answers `Later`. Invariants: a stream holds at most
//! [`gyre_interface::io_stream::STREAM_BYTES_MAX`]; bytes come out in the order in which they went in, each once;
//! bytes that were handed out are not changed any more; the last holder of an end releases all that it alone could
//! read or write.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod server;
mod stream;

pub use server::IoStream;

#[cfg(test)]
mod tests;
