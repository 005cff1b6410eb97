//! The block protocol.

use crate::device::VirtioBlock;
use crate::request::{DATA_PIECES_MAX, Kind, total_bytes};
use alloc::vec::Vec;
use gyre_interface::block::block::Server;
use gyre_interface::block::{BlockError, Geometry, REQUEST_BYTES_MAX, SECTOR_BYTES};
use gyre_object::Bytes;

impl VirtioBlock {
    /// Refuses what the device could not do, before anything waits for it.
    fn check(&self, first_sector: u64, data: &[Bytes]) -> Result<(), BlockError> {
        let bytes = total_bytes(data);
        let aligned = data.iter().all(|view| {
            let (_, start) = view.location();
            !view.is_empty() && start.is_multiple_of(SECTOR_BYTES) && view.len().is_multiple_of(SECTOR_BYTES)
        });
        let end = first_sector.checked_add((bytes / SECTOR_BYTES) as u64);
        let inside = end.is_some_and(|end| end <= self.geometry.sectors);
        if data.is_empty() || !aligned || !inside || bytes > REQUEST_BYTES_MAX || data.len() > DATA_PIECES_MAX {
            return Err(BlockError::OutOfRange);
        }
        Ok(())
    }
}

impl Server for VirtioBlock {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        Ok(self.geometry)
    }

    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.check(first_sector, &into)?;
        self.submit(Kind::Read, first_sector, into).await.await
    }

    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        self.check(first_sector, &from)?;
        if self.geometry.read_only {
            return Err(BlockError::Unsupported);
        }
        self.submit(Kind::Write, first_sector, from).await.await.map(drop)
    }

    async fn flush(&'static self) -> Result<(), BlockError> {
        // Without the feature the device has no volatile cache (virtio 1.2 §5.2.5.2).
        if !self.has_flush || self.geometry.read_only {
            return Ok(());
        }
        self.submit(Kind::Flush, 0, Vec::new()).await.await.map(drop)
    }
}
