//! Character devices of /dev that need no hardware: null, zero, full, random (mem(4), random(4)).

use super::attributes::{device_number, major, minor};
use super::buffer::UserBuffer;
use super::object::CHUNK_BYTES;
use crate::Errno;
use alloc::vec::Vec;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// Reads nothing, swallows all.
    Null,
    /// Reads zeroes, swallows all.
    Zero,
    /// Reads zeroes, has no space.
    Full,
    /// Reads random bytes.
    Random,
}

/// Names, numbers and permission bits of the nodes that /dev has from the start.
pub const NODES: &[(&str, u64, u16)] = &[
    ("null", device_number(1, 3), 0o666),
    ("zero", device_number(1, 5), 0o666),
    ("full", device_number(1, 7), 0o666),
    ("random", device_number(1, 8), 0o666),
    ("urandom", device_number(1, 9), 0o666),
    ("tty", device_number(5, 0), 0o666),
    ("console", device_number(5, 1), 0o600),
    ("ptmx", device_number(5, 2), 0o666),
];

/// Symbolic links that /dev has from the start.
pub const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Returns the device of a number, if this file knows it.
pub fn device_of_number(number: u64) -> Option<Device> {
    match (major(number), minor(number)) {
        (1, 3) => Some(Device::Null),
        (1, 5) => Some(Device::Zero),
        (1, 7) => Some(Device::Full),
        (1, 8 | 9) => Some(Device::Random),
        _ => None,
    }
}

impl Device {
    /// Fills a program's buffer.
    pub(super) async fn read(self, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
        let before = buffer.done();
        let mut turn_end = before.saturating_add(CHUNK_BYTES);
        while self != Device::Null && buffer.left() > 0 {
            match self.put_some(buffer).await {
                Err(error) if buffer.done() == before => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
            // Nothing here waits: without this one read of many MiB would keep the core to the end.
            if buffer.done() >= turn_end {
                turn_end = buffer.done().saturating_add(CHUNK_BYTES);
                if buffer.thread().breathe().await.is_err() {
                    break;
                }
            }
        }
        Ok(buffer.done_since(before))
    }

    async fn put_some(self, buffer: &mut UserBuffer<'_>) -> Result<(), Errno> {
        static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        if self != Device::Random {
            let count = buffer.left().min(ZEROES.len());
            return buffer.put(ZEROES.get(..count).unwrap_or(&[])).await.map(drop);
        }
        let mut chunk = [0; 256];
        gyre_machine::fill_random(&mut chunk);
        let count = buffer.left().min(chunk.len());
        buffer.put(chunk.get(..count).unwrap_or(&[])).await.map(drop)
    }

    /// Swallows a program's buffer, without looking at it, as Linux does.
    pub(super) async fn write(self, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
        if self == Device::Full && buffer.left() > 0 {
            return Err(Errno::ENOSPC);
        }
        Ok(buffer.skip())
    }

    /// Returns pages of contents, for sendfile.
    pub(super) fn take(self, bytes: usize) -> Result<Vec<Bytes>, Errno> {
        if self == Device::Null {
            return Ok(Vec::new());
        }
        let mut page = Page::zeroed()?;
        if self == Device::Random
            && let Some(contents) = page.as_mut_slice()
        {
            gyre_machine::fill_random(contents);
        }
        Ok(alloc::vec![Bytes::new(page, 0, bytes.min(PAGE_BYTES))])
    }

    /// Swallows pieces.
    pub(super) fn give(self, data: &[Bytes]) -> Result<usize, Errno> {
        if self == Device::Full {
            return Err(Errno::ENOSPC);
        }
        Ok(data.iter().map(Bytes::len).sum())
    }
}
