//! A unit: serves the block protocol.

use crate::verdict::{Verdict, judge};
use crate::{command, start};
use alloc::vec::Vec;
use gyre_interface::BytesReport;
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES, block};
use gyre_interface::scsi::{COMMAND_BYTES, Command, Direction, HostError, scsi_host};
use gyre_message::sleep_ns;
use gyre_object::{Bytes, SpinLock};

/// Times that a command is sent at most.
const TRIES: usize = 8;
/// The pause after a first answer that the unit cannot now; each further one is twice as long, 127 ms in all.
const PAUSE_NS: u64 = 1_000_000;

/// A disk behind a host adapter. Lives as long as the instance.
pub struct Unit {
    host: scsi_host::Client,
    report: Option<BytesReport>,
    /// Known once it was asked.
    geometry: SpinLock<Option<Geometry>>,
}

fn total_bytes(data: &[Bytes]) -> usize {
    data.iter().map(Bytes::len).sum()
}

fn error_of(error: HostError) -> BlockError {
    match error {
        HostError::Refused => BlockError::Unsupported,
        HostError::Failed => BlockError::Io,
        HostError::Gone => BlockError::Gone,
    }
}

impl Unit {
    /// The unit behind a host adapter; `report` is told the bytes of each request, before its command is sent.
    pub fn new(host: scsi_host::Client, report: Option<BytesReport>) -> Unit {
        Unit { host, report, geometry: SpinLock::new(None) }
    }

    /// Sends a command once. Returns the meaning of its answer, with the data.
    pub(crate) async fn send(
        &self,
        block: [u8; COMMAND_BYTES],
        direction: Direction,
        data: Vec<Bytes>,
    ) -> Result<(Verdict, Vec<Bytes>), BlockError> {
        let bytes = total_bytes(&data);
        let answer = self.host.execute(Command { block, direction, data }).await.map_err(error_of)?;
        Ok((judge(&answer, bytes), answer.data))
    }

    /// Has a command done, and again if it could not be done just now. Returns the bytes moved, with the data.
    pub(crate) async fn perform(
        &self,
        block: [u8; COMMAND_BYTES],
        direction: Direction,
        mut data: Vec<Bytes>,
    ) -> Result<(usize, Vec<Bytes>), BlockError> {
        let mut pause_ns = PAUSE_NS;
        for _ in 1..TRIES {
            let (verdict, back) = self.send(block, direction, data).await?;
            match verdict {
                Verdict::Done { moved_bytes } => return Ok((moved_bytes, back)),
                Verdict::Again => {}
                Verdict::Later => {
                    sleep_ns(pause_ns).await;
                    pause_ns = pause_ns.saturating_mul(2);
                }
                refused => return Err(refused.error()),
            }
            data = back;
        }
        match self.send(block, direction, data).await? {
            (Verdict::Done { moved_bytes }, back) => Ok((moved_bytes, back)),
            (verdict, _) => Err(verdict.error()),
        }
    }

    /// Moves all of the data or fails.
    async fn transfer(
        &self,
        block: [u8; COMMAND_BYTES],
        direction: Direction,
        data: Vec<Bytes>,
    ) -> Result<Vec<Bytes>, BlockError> {
        let bytes = total_bytes(&data);
        if let Some(report) = self.report {
            report(bytes as u64);
        }
        let (moved, back) = self.perform(block, direction, data).await?;
        let is_whole = moved == bytes && total_bytes(&back) == bytes;
        if is_whole { Ok(back) } else { Err(BlockError::Io) }
    }

    /// Tells size and kind; the unit is asked the first time.
    async fn find_geometry(&self) -> Result<Geometry, BlockError> {
        let known = *self.geometry.lock();
        if let Some(geometry) = known {
            return Ok(geometry);
        }
        let found = start::geometry(self).await?;
        *self.geometry.lock() = Some(found);
        Ok(found)
    }
}

fn blocks(data: &[Bytes]) -> u32 {
    (total_bytes(data) / SECTOR_BYTES) as u32
}

impl block::Server for Unit {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        self.find_geometry().await
    }

    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        self.find_geometry().await?.check(first_sector, &into)?;
        let command = command::read(first_sector, blocks(&into));
        self.transfer(command, Direction::FromUnit, into).await
    }

    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        let geometry = self.find_geometry().await?;
        geometry.check(first_sector, &from)?;
        if geometry.read_only {
            return Err(BlockError::Unsupported);
        }
        let command = command::write(first_sector, blocks(&from));
        self.transfer(command, Direction::ToUnit, from).await.map(drop)
    }

    async fn flush(&'static self) -> Result<(), BlockError> {
        if self.find_geometry().await?.read_only {
            return Ok(());
        }
        self.perform(command::synchronize(), Direction::Nowhere, Vec::new()).await.map(drop)
    }
}
