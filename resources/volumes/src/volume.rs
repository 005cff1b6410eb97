//! One partition as a disk.

use crate::table::{HEADER_SECTOR, Table, VolumeError};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::BytesReport;
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES, block};
use gyre_object::{Bytes, Page};

/// Sectors that a page holds.
const SECTORS_PER_PAGE: usize = 4096 / SECTOR_BYTES;

/// Bytes that went through a volume.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct VolumeStatistics {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
}

/// A partition: serves `block::Server`.
pub struct Volume {
    disk: block::Client,
    first: u64,
    geometry: Geometry,
    report: BytesReport,
    read: AtomicU64,
    written: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Volume {
    /// Opens partition `number` of a disk, counted from 1; `report` is told the bytes of each request.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub async fn open(disk: block::Client, number: u16, report: BytesReport) -> Result<Volume, VolumeError> {
        let Geometry { sectors, read_only } = disk.geometry().await?;
        let header = read(disk, HEADER_SECTOR, 1).await?;
        let table = Table::parse(&header, sectors)?;
        let entries = read(disk, table.entries_sector, table.sectors()).await?;
        let (first, sectors) = table.partition(&entries, number, sectors)?;
        log::debug!("volume {number}: {sectors} sectors from {first} on");
        let geometry = Geometry { sectors, read_only };
        Ok(Volume {
            disk,
            first,
            geometry,
            report,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        })
    }

    /// Returns the bytes that went through it.
    pub fn statistics(&self) -> VolumeStatistics {
        VolumeStatistics {
            read_bytes: self.read.load(Ordering::Relaxed),
            written_bytes: self.written.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
        }
    }

    /// Returns the place of a request on the disk, and its bytes.
    fn place(&self, sector: u64, views: &[Bytes]) -> Result<(u64, u64), BlockError> {
        let bytes: u64 = views.iter().map(|view| view.len() as u64).sum();
        let end = sector.checked_add(bytes.div_ceil(SECTOR_BYTES as u64)).ok_or(BlockError::OutOfRange)?;
        let place = self.first.checked_add(sector).filter(|_| end <= self.geometry.sectors);
        place.map(|sector| (sector, bytes)).ok_or(BlockError::OutOfRange)
    }
}

/// Sectors of the table, read page by page.
async fn read(disk: block::Client, first: u64, count: usize) -> Result<Vec<u8>, VolumeError> {
    let mut found = Vec::new();
    for done in (0..count).step_by(SECTORS_PER_PAGE) {
        let bytes = count.saturating_sub(done).min(SECTORS_PER_PAGE).saturating_mul(SECTOR_BYTES);
        let page = Page::zeroed().map_err(|_| VolumeError::Disk(BlockError::OutOfMemory))?;
        let sector = first.checked_add(done as u64).ok_or(VolumeError::Damaged)?;
        let views = disk.read(sector, vec![Bytes::new(page, 0, bytes)]).await?;
        let before = found.len();
        found.extend(views.iter().flat_map(|view| view.as_slice().iter().copied()));
        if found.len().checked_sub(before) != Some(bytes) {
            return Err(VolumeError::Disk(BlockError::Io));
        }
    }
    Ok(found)
}

impl block::Server for Volume {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        Ok(self.geometry)
    }

    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        let (sector, bytes) = self.place(first_sector, &into)?;
        (self.report)(bytes);
        let answer = self.disk.read(sector, into).await?;
        self.read.fetch_add(bytes, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }

    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        let (sector, bytes) = self.place(first_sector, &from)?;
        (self.report)(bytes);
        self.disk.write(sector, from).await?;
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn flush(&'static self) -> Result<(), BlockError> {
        self.disk.flush().await
    }
}

#[cfg(test)]
mod tests;
