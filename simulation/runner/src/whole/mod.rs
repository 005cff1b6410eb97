//! The whole machine under one seed: the real grid (`gyre_assembly`), its drivers over simulated virtio devices, file systems and TCP, and
//! tenants that use all of it at once.
//!
//! ```text
//!   tenants' tasks ── files ── ext2, file cache ── volumes ── block merge, (scsi,) gate ── virtio_block ── [disk]
//!                 └── tcp, tcp_timer ── network_prepare ── network_write (gate) ── virtio_net ── [card] ── wire ── [peer: smoltcp]
//! ```
//! The parts in brackets lie outside of the cores and act at times of their own (`gyre_engine::simulate::Outside`). All of it draws from
//! the seed, each from a stream of its own.
//!
//! * [`plan`]: what a seed makes of the machine. [`machine`]: puts it together. [`disk`], [`card`], [`peer`]: outside.
//! * [`tenant`] starts [`files`] and [`streams`]; [`promises`] knows what must be on a disk, [`exchange`] what must come over the wire.
//! * [`failures`]: the kernel fails in work for a tenant.
//! * [`life`]: from power on to a crash or an orderly end. [`run`]: the lives of a seed. [`checks`]: what must hold.
//! * [`cells`]: cells as scripts.
//! * [`instances`]: up to eight machines in one world. [`zones`]: two instances that are linked.

mod card;
mod cells;
mod checks;
mod disk;
#[cfg(test)]
mod disk_shares;
mod exchange;
mod failures;
mod files;
mod image;
mod instances;
mod life;
mod machine;
mod peer;
mod plan;
mod promises;
mod run;
mod scsi;
mod streams;
mod tenant;
mod zones;

pub use cells::{Outcome as CellsOutcome, run as run_cells};
pub use image::is_possible;
pub use instances::{Hit, INSTANCES_MAX, Outcome as InstancesOutcome, run as run_instances};
pub use run::{Outcome, describe, run};
pub use zones::{Outcome as ZonesOutcome, rate, run as run_zones};
