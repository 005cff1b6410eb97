//! SCSI: what the host adapter and the disk behind it are told, and what their answers mean (virtio 1.2 §5.6, SPC-4, SBC-3).
//!
//! ```text
//!   start   INQUIRY (is it a disk?)  TEST UNIT READY (until attention is over)  READ CAPACITY(16)  MODE SENSE(6) (may it be written?)
//!   then    READ and WRITE (10), beyond 2 TiB (16); SYNCHRONIZE CACHE(10) for flush
//! ```
//!
//! Left out: other units than 0 of target 0, other block lengths than 512 bytes, UNMAP (nobody asks the block protocol for it), task
//! management and events: a unit that is late is reset with its host.

pub(crate) mod command;
pub(crate) mod sense;
pub(crate) mod start;
pub(crate) mod wire;

#[cfg(test)]
mod tests;
