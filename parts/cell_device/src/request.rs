//! A request of a cell: a chain of descriptors that was copied and checked.

use crate::chain::{Chain, Descriptor};
use crate::place::Place;
use crate::queue::Lie;
use alloc::vec::Vec;
use gyre_cell_abi::device::{HEADER_BYTES, kind, status};
use gyre_cell_memory::CellMemory;
use gyre_interface::block::{BlockError, Geometry, block};
use gyre_object::Bytes;

/// The purpose of a request.
pub enum Work {
    /// Reads sectors into the data.
    Read(u64),
    /// Writes them from there.
    Write(u64),
    /// Makes writes durable.
    Flush,
    /// Nothing that a disk does.
    Unknown,
}

/// A request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Its first descriptor.
    pub head: u16,
    /// Bytes that the device has written to the cell's memory, the status among them.
    pub filled_bytes: u32,
    /// Bytes moved from the disk.
    pub read_bytes: u32,
    /// Bytes moved to the disk.
    pub written_bytes: u32,
}

/// A request of a cell.
pub struct Request {
    /// Its first descriptor.
    pub head: u16,
    /// Its purpose.
    pub work: Work,
    /// Its data, in the cell's lots.
    pub data: Vec<Bytes>,
    status: Place,
}

impl Request {
    /// Checks a chain.
    pub(crate) fn read(memory: &CellMemory, chain: &Chain) -> Result<Request, Lie> {
        let [first, data @ .., last] = chain.parts.as_slice() else { return Err(Lie::Shape) };
        let is_sound = !first.device_writes() && first.bytes == HEADER_BYTES && last.device_writes() && last.bytes == 1;
        if !is_sound {
            return Err(Lie::Shape);
        }
        let work = work(first.find(memory)?.read(0));
        let status = last.find(memory)?;
        let fits = match work {
            Work::Read(_) => data.iter().all(Descriptor::device_writes),
            Work::Write(_) => !data.iter().any(Descriptor::device_writes),
            Work::Flush | Work::Unknown => true,
        };
        if !fits {
            return Err(Lie::Shape);
        }
        let view = |one: &Descriptor| Ok(one.find(memory)?.view(one.bytes as usize));
        let data = data.iter().map(view).collect::<Result<_, Lie>>()?;
        Ok(Request { head: chain.head, work, data, status })
    }

    /// Has the disk do it.
    pub async fn perform(self, disk: block::Client, geometry: Geometry) -> Done {
        let Request { head, work, data, status } = self;
        let bytes = u32::try_from(data.iter().map(Bytes::len).sum::<usize>()).unwrap_or(0);
        let [reads, writes] = [matches!(work, Work::Read(_)), matches!(work, Work::Write(_))];
        let result = match work {
            Work::Read(sector) => match geometry.check(sector, &data) {
                Ok(()) => disk.read(sector, data).await.map(drop),
                Err(error) => Err(error),
            },
            Work::Write(_) if geometry.read_only => Err(BlockError::Io),
            Work::Write(sector) => match geometry.check(sector, &data) {
                Ok(()) => disk.write(sector, data).await,
                Err(error) => Err(error),
            },
            Work::Flush => disk.flush().await,
            Work::Unknown => Err(BlockError::Unsupported),
        };
        let word = match result {
            Ok(()) => status::DONE,
            Err(BlockError::Unsupported) => status::UNSUPPORTED,
            Err(_) => status::FAILED,
        };
        status.write(0, &[word]);
        let moved = |is_so: bool| if is_so && result.is_ok() { bytes } else { 0 };
        let [read_bytes, written_bytes] = [moved(reads), moved(writes)];
        Done { head, filled_bytes: read_bytes.saturating_add(1), read_bytes, written_bytes }
    }
}

fn work(header: [u8; HEADER_BYTES as usize]) -> Work {
    let [low, sector] = [0, 8].map(|at| {
        let eight = header.get(at..).and_then(|rest| rest.first_chunk());
        eight.map_or(0, |eight| u64::from_le_bytes(*eight))
    });
    match low as u32 {
        kind::READ => Work::Read(sector),
        kind::WRITE => Work::Write(sector),
        kind::FLUSH => Work::Flush,
        _ => Work::Unknown,
    }
}
