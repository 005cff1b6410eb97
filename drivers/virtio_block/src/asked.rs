//! For tests: the driver asked as a resource asks it, its answers waited for.

use crate::VirtioDisk;
use alloc::vec::Vec;
use gyre_device::{DiskDevice, DiskKind, Operation, Transfer};
use gyre_interface::block::{BlockError, Geometry, block};
use gyre_interface::scsi::{Answer, Command, HostError, scsi_host};
use gyre_message::direct::direct_link;
use gyre_message::{sleep_ns, sleep_until, spawn};
use gyre_object::Bytes;

/// A driver.
pub(crate) struct Asked(pub(crate) &'static VirtioDisk);

impl Asked {
    fn device(&self) -> &'static dyn DiskDevice {
        self.0
    }

    async fn transfer(
        &self,
        operation: Operation,
        first_sector: u64,
        data: Vec<Bytes>,
    ) -> Result<Vec<Bytes>, BlockError> {
        self.device().transfer(Transfer { operation, first_sector, data }).await.answer
    }
}

impl block::Server for Asked {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        match self.0.kind() {
            DiskKind::Sectors(geometry) => Ok(geometry),
            DiskKind::ScsiHost => Err(BlockError::Unsupported),
        }
    }
    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.transfer(Operation::Read, first_sector, into).await
    }
    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        self.transfer(Operation::Write, first_sector, from).await.map(drop)
    }
    async fn flush(&'static self) -> Result<(), BlockError> {
        self.transfer(Operation::Flush, 0, Vec::new()).await.map(drop)
    }
}

impl scsi_host::Server for Asked {
    async fn execute(&'static self, command: Command) -> Result<Answer, HostError> {
        self.device().command(command).await.answer
    }
}

fn asked(driver: &'static VirtioDisk) -> &'static Asked {
    alloc::boxed::Box::leak(alloc::boxed::Box::new(Asked(driver)))
}

/// A client of a block device.
pub(crate) fn block_client(driver: &'static VirtioDisk) -> block::Client {
    let asked = asked(driver);
    block::Client::new(direct_link(move |request| alloc::boxed::Box::pin(block::serve(asked, request))))
}

/// A client of a SCSI host.
pub(crate) fn host_client(driver: &'static VirtioDisk) -> scsi_host::Client {
    let asked = asked(driver);
    scsi_host::Client::new(direct_link(move |request| alloc::boxed::Box::pin(scsi_host::serve(asked, request))))
}

/// Ticks the driver for ever.
pub(crate) fn tick(driver: &'static VirtioDisk) {
    spawn(async move {
        loop {
            match driver.on_tick() {
                Some(cycles) => sleep_until(gyre_machine::now() + cycles).await,
                None => sleep_ns(1_000_000).await,
            }
        }
    });
}
