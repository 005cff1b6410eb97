//! The machine file: one TOML file per machine, read and checked.
//!
//! [`read`] gives a [`Description`]: the [`Machine`] for the kernel, and what only the host needs (images, port forwards,
//! load). Every error names file, line and column, says what was expected and, where it can, what was meant.

mod check;
mod error;
mod packages;
mod policies;
mod promises;
mod raw;
mod suggest;
mod tenants;
pub mod units;
pub mod words;

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use crate::boot::Machine;
pub use check::CORES_MAX;
pub use error::{FileError, Finding, Problem};
pub use policies::policy_by_name;
pub use suggest::closest;

/// A machine file, read and checked.
#[derive(Clone, Debug)]
pub struct Description {
    /// Where it was read from.
    pub path: PathBuf,
    /// The machine for the kernel. `seed`, `started_unix_s` and `files` are filled in when the module is made.
    pub machine: Machine,
    /// The host's side of each tenant, in the order of `machine.tenants` without the system tenant.
    pub tenants: Vec<HostTenant>,
    /// The images by name.
    pub images: BTreeMap<String, Image>,
    /// Debian packages, and where in the text they are named.
    pub packages: Vec<(Range<usize>, String)>,
    /// The disk that all tenants share, if they do.
    pub disk: Option<SharedDisk>,
    /// What is legal but probably not meant.
    pub warnings: Vec<Problem>,
}

/// One disk with a partition for each tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDisk {
    /// What the emulator lets through, bytes per second, reads and writes together; `None` is unlimited.
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

/// What the host does for one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTenant {
    /// The tenant's name.
    pub name: String,
    /// Its image's name in [`Description::images`].
    pub image: String,
    /// Port forwards, host to guest.
    pub ports: Vec<Forward>,
    /// Clients that load it, if any.
    pub load: Option<Load>,
}

/// One port forward: what connects to 127.0.0.1:`host` reaches the tenant's `guest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// TCP port on the host.
    pub host: u16,
    /// TCP port of the tenant.
    pub guest: u16,
}

/// Clients that load a tenant from the other end of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The program.
    pub tool: LoadTool,
    /// Connections kept busy, each with one request at a time.
    pub connections: u32,
    /// What is requested.
    pub path: String,
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

/// A root file system to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Debian packages; what they depend on comes with them.
    pub packages: Vec<String>,
    /// Packages to leave out although something depends on them.
    pub exclude: Vec<String>,
    /// A directory to copy into the root, after the packages.
    pub directory: Option<PathBuf>,
    /// A ready ext2 image in place of everything else.
    pub ready: Option<PathBuf>,
    /// Host files to put at absolute paths in the image.
    pub files: BTreeMap<String, PathBuf>,
    /// Files of generated text: absolute path and size in bytes.
    pub generate: BTreeMap<String, u64>,
    /// Size of the file system; `None` is what it holds plus a third, at least 32 MiB.
    pub size_bytes: Option<u64>,
}

/// Reads and checks a machine file.
///
/// # Errors
/// [`FileError`] holds the text and everything found wrong with it, in the order of the file.
pub fn read(path: &Path) -> Result<Description, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::unreadable(path, &error))?;
    parse(path, &text)
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
