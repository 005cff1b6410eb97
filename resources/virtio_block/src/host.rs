//! The protocol of host adapters.

use crate::bus::Verdict;
use crate::device::VirtioDisk;
use crate::request::{DATA_PIECES_MAX, Kind};
use crate::server::ns;
use gyre_interface::block::REQUEST_BYTES_MAX;
use gyre_interface::scsi::scsi_host::Server;
use gyre_interface::scsi::{Answer, Command, Direction, HostError};
use gyre_object::Bytes;

/// True of a command that goes into a chain.
fn fits(command: &Command) -> bool {
    command.data_bytes() <= REQUEST_BYTES_MAX
        && command.data.len() <= DATA_PIECES_MAX
        && !command.data.iter().any(Bytes::is_empty)
        && command.data.is_empty() == (command.direction == Direction::Nowhere)
}

impl VirtioDisk {
    /// Has the unit do a command; what it took of the device's time, ns.
    ///
    /// # Errors
    /// [`HostError`], inside; [`HostError::Refused`] also of a block device.
    pub async fn execute_timed(&'static self, command: Command) -> (Result<Answer, HostError>, u64) {
        if !self.is_scsi() || !fits(&command) {
            return (Err(HostError::Refused), 0);
        }
        let kind = Kind::Command(command.block, command.direction);
        let answered = self.perform(kind, 0, command.data).await;
        let answer = match answered.verdict {
            Verdict::Said(said) => Ok(Answer {
                status: said.status,
                sense: said.sense,
                residual_bytes: said.residual_bytes,
                data: answered.data,
            }),
            _ => Err(HostError::Failed),
        };
        (answer, ns(answered.device_cycles))
    }
}

impl Server for VirtioDisk {
    async fn execute(&'static self, command: Command) -> Result<Answer, HostError> {
        self.execute_timed(command).await.0
    }
}
