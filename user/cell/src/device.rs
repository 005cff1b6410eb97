//! The devices of a cell: drivers for the queues that the kernel serves (`gyre_cell_abi::device`, `gyre_cell_abi::card`), polled.
//!
//! * [`split`]: a ring of virtio, which the drivers have in common.
//! * [`Card`]: a network card, with a buffer for each frame.
//! * [`Ring`]: the queue of a disk.
//! * [`Buffer`]: what was read, and requests under way.
//! * [`Disk`]: both; it reads ahead of a program that reads in a row.
//! * [`Files`]: which descriptors of the program are a device's.
//!
//! The calls of programs are in `call/disk.rs` and `call/card.rs`. A program opens a device by a path that the launcher was told (`--disk`,
//! `--card`).

mod buffer;
mod card;
mod disk;
mod files;
mod ring;
pub mod split;

pub use buffer::{Buffer, Use};
pub use card::{Card, Direction, FRAMES_ORDER, Frame};
pub use disk::{BUFFER_BYTES, Disk, Grain, Name, Stored};
pub use files::Files;
pub use ring::{Answer, RING_ORDER, Ring, SLOTS};
