//! The block protocol.

use crate::bus::Bus;
use crate::device::VirtioDisk;
use crate::request::{DATA_PIECES_MAX, Kind, total_bytes};
use crate::scsi;
use alloc::vec::Vec;
use gyre_interface::block::block::Server;
use gyre_interface::block::{BlockError, Geometry, REQUEST_BYTES_MAX, SECTOR_BYTES};
use gyre_machine::cycles_per_ms;
use gyre_object::Bytes;

/// An answer, and what it took of the device's time, ns: the time from its submission, or from the answer before, to its own.
pub type Timed<T> = (Result<T, BlockError>, u64);

fn ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000 / u128::from(cycles_per_ms().max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl VirtioDisk {
    /// Tells size and kind; a SCSI unit is asked the first time.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn find_geometry(&self) -> Result<Geometry, BlockError> {
        let known = *self.geometry.lock();
        if let Some(geometry) = known {
            return Ok(geometry);
        }
        let found = scsi::start::geometry(self).await?;
        *self.geometry.lock() = Some(found);
        Ok(found)
    }

    /// Refuses what the device could not do, before anything waits for it.
    async fn check(&self, first_sector: u64, data: &[Bytes]) -> Result<Geometry, BlockError> {
        let geometry = self.find_geometry().await?;
        let bytes = total_bytes(data);
        let aligned = data.iter().all(|view| {
            let (_, start) = view.location();
            !view.is_empty() && start.is_multiple_of(SECTOR_BYTES) && view.len().is_multiple_of(SECTOR_BYTES)
        });
        let end = first_sector.checked_add((bytes / SECTOR_BYTES) as u64);
        let inside = end.is_some_and(|end| end <= geometry.sectors);
        if data.is_empty() || !aligned || !inside || bytes > REQUEST_BYTES_MAX || data.len() > DATA_PIECES_MAX {
            return Err(BlockError::OutOfRange);
        }
        Ok(geometry)
    }

    /// Reads, as the protocol says.
    pub async fn read_timed(&self, first_sector: u64, into: Vec<Bytes>) -> Timed<Vec<Bytes>> {
        if let Err(error) = self.check(first_sector, &into).await {
            return (Err(error), 0);
        }
        let (answer, cycles) = self.perform(Kind::Read, first_sector, into).await;
        (answer, ns(cycles))
    }

    /// Writes, as the protocol says.
    pub async fn write_timed(&self, first_sector: u64, from: Vec<Bytes>) -> Timed<()> {
        match self.check(first_sector, &from).await {
            Err(error) => return (Err(error), 0),
            Ok(geometry) if geometry.read_only => return (Err(BlockError::Unsupported), 0),
            Ok(_) => {}
        }
        let (answer, cycles) = self.perform(Kind::Write, first_sector, from).await;
        (answer.map(drop), ns(cycles))
    }

    /// Flushes, as the protocol says.
    pub async fn flush_timed(&self) -> Timed<()> {
        let geometry = self.find_geometry().await;
        // Without the feature the device has no volatile cache (virtio 1.2 §5.2.5.2).
        match geometry {
            Err(error) => return (Err(error), 0),
            Ok(geometry) if !self.has_flush || geometry.read_only => return (Ok(()), 0),
            Ok(_) => {}
        }
        let (answer, cycles) = self.perform(Kind::Flush, 0, Vec::new()).await;
        (answer.map(drop), ns(cycles))
    }

    /// True where this is a unit of a SCSI host.
    pub fn is_scsi(&self) -> bool {
        self.bus() == Bus::Scsi
    }
}

impl Server for VirtioDisk {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        self.find_geometry().await
    }

    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.read_timed(first_sector, into).await.0
    }

    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        self.write_timed(first_sector, from).await.0
    }

    async fn flush(&'static self) -> Result<(), BlockError> {
        self.flush_timed().await.0
    }
}
