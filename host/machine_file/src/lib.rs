//! The machine file: one TOML file per machine, read and checked.
//!
//! [`read`] gives a [`Description`]: the [`Machine`] for the kernel, and the things that only the host needs (images, port forwards,
//! load). Every error names file, line and column, says what was expected and, if possible, what was meant.
//!
//! * The kernel's part and the host's part stand apart: the kernel's side goes into the boot module as it is.
//! * All problems of a file are reported at once, each once.
//! * Paths are relative to the folder of the file.
#![forbid(unsafe_code)]

mod alone;
mod borrowing;
mod cell_pool;
mod cells;
mod check;
mod error;
mod goals;
mod health;
mod memory;
mod model;
mod neighbours;
pub mod outbound;
mod packages;
mod part;
mod places;
mod policies;
mod ports;
mod prices;
mod promises;
mod raw;
mod raw_policy;
mod spares;
mod suggest;
mod tenants;
pub mod units;
mod volumes;
pub mod words;
mod zones;

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

pub use cell_pool::LAUNCHER;
pub use error::{FileError, Finding, Problem};
use gyre_contract::{boot::Machine, health::Check};
pub use model::{Arrival, Model};
pub use outbound::{Destination, Outbound, Place};
pub use places::{Devices, Instance};
pub use policies::{parameters, policy_by_name};
pub use ports::{Forward, Protocol};
pub use prices::Prices;
pub use suggest::closest;
pub use volumes::HostVolume;

/// A machine file, read and checked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The file that it was read from.
    pub path: PathBuf,
    /// The file's text when it was read ([`read`]); empty for a text that is no file ([`parse`]).
    pub text: String,
    /// The machine for the kernel, or that of the supervisor. `seed`, `started_unix_s` and `files` are filled in when the module is made.
    pub machine: Machine,
    /// The host's side of each tenant, in the order of `machine.tenants` without the system tenant.
    pub tenants: Vec<HostTenant>,
    /// Its PCI functions.
    pub devices: Devices,
    /// The whole machine, if it has zones.
    pub whole: Option<Whole>,
    /// The zones, in the order of `machine.zones`.
    pub zones: Vec<ZonePart>,
    /// The images by name.
    pub images: BTreeMap<String, Image>,
    /// Debian packages, and their places in the text.
    pub packages: Vec<(Range<usize>, String)>,
    /// The disk that all tenants share, if they do.
    pub disk: Option<SharedDisk>,
    /// Prices for its bills, if the file names some.
    pub prices: Option<Prices>,
    /// Warnings: things that are legal but probably not meant.
    pub warnings: Vec<Problem>,
}

/// A machine that is split among kernel instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Its cores.
    pub cores: u16,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

/// The inside of a zone.
#[derive(Clone, Debug)]
pub struct ZonePart {
    /// The machine for its kernel.
    pub machine: Machine,
    /// The host's side of each of its tenants.
    pub tenants: Vec<HostTenant>,
    /// Its PCI functions.
    pub devices: Devices,
    /// The instances to which its `links` name it linked; `None` without that key: it is linked to all.
    pub links: Option<Vec<String>>,
}

/// One disk with a partition for each tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDisk {
    /// The emulator's limit, bytes per second, reads and writes together; `None` is unlimited.
    pub rate_bytes_per_second: Option<u64>,
    /// Requests per second that the emulator lets through; `None` is unlimited.
    pub requests_per_second: Option<u64>,
    /// How the machine speaks to it.
    pub bus: Bus,
}

/// How a machine speaks to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bus {
    /// As a virtio block device.
    #[default]
    Virtio,
    /// As a SCSI disk behind a virtio host adapter.
    Scsi,
}

/// The host's work for one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTenant {
    /// The tenant's name.
    pub name: String,
    /// Its image's name in [`Description::images`].
    pub image: String,
    /// Port forwards, host to guest.
    pub ports: Vec<Forward>,
    /// Its way out, if it has one.
    pub outbound: Option<Outbound>,
    /// The tenants that it finds by name.
    pub talks_to: Vec<String>,
    /// Clients that load it, if any.
    pub load: Option<Load>,
    /// The check by which the agent finds out whether it is well.
    pub health: Option<Check>,
    /// Its wants of the processor, for forecasts.
    pub model: Option<Model>,
    /// Its volumes.
    pub volumes: Vec<HostVolume>,
}

/// Clients that load a tenant from the other end of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The program.
    pub tool: LoadTool,
    /// Connections kept busy, each with one request at a time.
    pub connections: u32,
    /// The page that is requested.
    pub path: String,
    /// A script of wrk that chooses the requests.
    pub script: Option<PathBuf>,
    /// The tenant's TCP port.
    pub port: u16,
}

/// Programs that can load a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadTool {
    /// wrk: HTTP, keep-alive.
    Wrk,
    /// ab of the Apache project: HTTP, keep-alive.
    Ab,
}

/// The lot of packages' maintainer scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scripts {
    /// They do not run: files are unpacked.
    #[default]
    Left,
    /// They run when the image is made.
    Run,
}

/// A root file system to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Debian packages; what they depend on comes with them.
    pub packages: Vec<String>,
    /// Packages to leave out although something depends on them.
    pub exclude: Vec<String>,
    /// The lot of the packages' maintainer scripts.
    pub scripts: Scripts,
    /// A directory to copy into the root, after the packages.
    pub directory: Option<PathBuf>,
    /// A ready ext2 image in place of everything else.
    pub ready: Option<PathBuf>,
    /// An OCI layout folder, an archive of one, or a file of `docker save`, before everything else.
    pub oci: Option<PathBuf>,
    /// An image of a registry, in place of `oci`: `[HOST[:PORT]/]PATH[:TAG|@DIGEST]`.
    pub registry: Option<String>,
    /// Host files to put at absolute paths in the image.
    pub files: BTreeMap<String, PathBuf>,
    /// Files of generated text: absolute path and size in bytes.
    pub generate: BTreeMap<String, u64>,
    /// Size of the file system; `None` is what it holds plus a third, at least 32 MiB.
    pub size_bytes: Option<u64>,
}

impl Image {
    /// Returns whether it says itself which program it runs.
    #[must_use]
    pub fn is_oci(&self) -> bool {
        self.oci.is_some() || self.registry.is_some()
    }
}

/// Reads and checks a machine file.
///
/// # Errors
/// [`FileError`] holds the text and everything found wrong with it, in the order of the file.
pub fn read(path: &Path) -> Result<Description, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::unreadable(path, &error))?;
    parse(path, &text).map(|description| Description { text, ..description })
}

/// Checks the text of a machine file; `path` is for messages and for relative paths in it.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Description, FileError> {
    let raw = toml::from_str(text).map_err(|error| FileError::syntax(path, text, &error))?;
    check::check(path, raw).map_err(|problems| FileError::new(path, text, problems))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod zones_tests;
