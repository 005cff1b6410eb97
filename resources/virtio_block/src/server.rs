//! The block protocol, of block devices.

use crate::bus::Bus;
use crate::device::VirtioDisk;
use crate::request::{Answered, Kind};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_interface::block::block::Server;
use gyre_interface::block::{BlockError, Geometry};
use gyre_machine::cycles_per_ms;
use gyre_object::Bytes;

/// An answer, and what it took of the device's time, ns: the time from its submission, or from the answer before, to its own.
pub type Timed<T> = (Result<T, BlockError>, u64);

#[expect(clippy::arithmetic_side_effects, reason = "64 bits times 20 fit; the divisor is at least 1")]
pub(crate) fn ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000 / u128::from(cycles_per_ms().max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl VirtioDisk {
    /// Tells size and kind.
    ///
    /// # Errors
    /// [`BlockError::Unsupported`] behind a SCSI host: that takes commands only.
    pub fn find_geometry(&self) -> Result<Geometry, BlockError> {
        self.geometry.ok_or(BlockError::Unsupported)
    }

    /// Refuses what the device could not do, before anything waits for it.
    fn check(&self, first_sector: u64, data: &[Bytes]) -> Result<Geometry, BlockError> {
        let geometry = self.find_geometry()?;
        geometry.check(first_sector, data)?;
        Ok(geometry)
    }

    /// Begins to read or write, as the protocol says. `then` gets the answer: in the turn of who takes it from the device, or at once where
    /// it could not do that.
    pub fn start(
        &'static self,
        is_write: bool,
        first_sector: u64,
        data: Vec<Bytes>,
        then: impl FnOnce(Answered) + Send + 'static,
    ) {
        match self.check(first_sector, &data) {
            Err(error) => then(Answered::refused(error)),
            Ok(geometry) if is_write && geometry.read_only => then(Answered::refused(BlockError::Unsupported)),
            Ok(_) => {
                let kind = if is_write { Kind::Write } else { Kind::Read };
                self.begin(kind, first_sector, data, Box::new(then));
            }
        }
    }

    async fn transfer(&'static self, kind: Kind, first_sector: u64, data: Vec<Bytes>) -> Timed<Vec<Bytes>> {
        self.perform(kind, first_sector, data).await.transferred()
    }

    /// Reads, as the protocol says.
    pub async fn read_timed(&'static self, first_sector: u64, into: Vec<Bytes>) -> Timed<Vec<Bytes>> {
        if let Err(error) = self.check(first_sector, &into) {
            return (Err(error), 0);
        }
        self.transfer(Kind::Read, first_sector, into).await
    }

    /// Writes, as the protocol says.
    pub async fn write_timed(&'static self, first_sector: u64, from: Vec<Bytes>) -> Timed<()> {
        match self.check(first_sector, &from) {
            Err(error) => return (Err(error), 0),
            Ok(geometry) if geometry.read_only => return (Err(BlockError::Unsupported), 0),
            Ok(_) => {}
        }
        let (answer, ns) = self.transfer(Kind::Write, first_sector, from).await;
        (answer.map(drop), ns)
    }

    /// Flushes, as the protocol says.
    pub async fn flush_timed(&'static self) -> Timed<()> {
        let geometry = self.find_geometry();
        // Without the feature the device has no volatile cache (virtio 1.2 §5.2.5.2).
        match geometry {
            Err(error) => return (Err(error), 0),
            Ok(geometry) if !self.has_flush || geometry.read_only => return (Ok(()), 0),
            Ok(_) => {}
        }
        let (answer, ns) = self.transfer(Kind::Flush, 0, Vec::new()).await;
        (answer.map(drop), ns)
    }

    /// True where this is a SCSI host: it serves [`gyre_interface::scsi`] in place of the block protocol.
    pub fn is_scsi(&self) -> bool {
        self.bus() == Bus::Scsi
    }
}

impl Server for VirtioDisk {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        self.find_geometry()
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
