//! The machine as the kernel receives it: one boot module.
//!
//! ```text
//! offset 0    magic "GYREMACH"
//!        8    version            u32, little endian (all header fields are)
//!       12    flags              u32, 0
//!       16    body bytes         u64
//!       24    FNV-1a of body     u64
//!       32    body               postcard of `Machine`
//!  n * 4096   embedded files, each at a page boundary, named in `Machine::files`
//! ```
//! The version changes with any change of these types, because postcard has no field names: an older kernel must say
//! "version" and not misread. Everything is bounds-checked; a damaged module is an error, never a panic.

use alloc::{string::String, vec, vec::Vec};
use serde::{Deserialize, Serialize};

use crate::address::Address;
pub use crate::cells::Cell;
pub use crate::goals::{Broker, Goal};
pub use crate::policy::{Budget, Choice, Entitlement, Metric, Policy, ResourcePolicy};
pub use crate::zones::{DeviceAddress, Neighbour, Zone};

/// The version of [`Machine`] that this code writes and reads.
pub const VERSION: u32 = 18;
/// The first eight bytes of a module.
pub const MAGIC: [u8; 8] = *b"GYREMACH";
/// Embedded files start at multiples of this.
pub const PAGE_BYTES: usize = 4096;
const HEADER_BYTES: usize = 32;

/// A whole machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The machine's name, for people.
    pub name: String,
    /// Cores to start; the rest of the machine's cores stay halted.
    pub cores: u16,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
    /// Least severe level that reaches the serial console.
    pub log_level: LogLevel,
    /// A thread's time slice in microseconds.
    pub time_slice_us: u32,
    /// How messages between resources are handed on.
    pub messages: Dispatch,
    /// Seconds since 1970 when the machine was started, from the host.
    pub started_unix_s: u64,
    /// The tenants' shares are percentages in thousandths, which sum to 100,000: a change of one changes the others.
    pub has_percent_shares: bool,
    /// Entropy from the host, for hash keys and the random number generator.
    pub seed: [u8; 32],
    /// The network.
    pub link: Link,
    /// Most requests that are given to a disk at once; the rest waits in the order of its scheduler. 0 is the driver's own number.
    pub disk_depth: u16,
    /// Schedulers; a resource that is not listed gets the usual policy on `Cycles`, batch 1, on all cores.
    pub resources: Vec<ResourcePolicy>,
    /// Inner nodes of the activity tree, parents before children; tenants hang below them or below the root.
    pub activities: Vec<Activity>,
    /// The tenants; the system tenant is the first.
    pub tenants: Vec<Tenant>,
    /// How the broker follows their goals.
    pub broker: Broker,
    /// Zones that this instance supervises; none if it is a zone itself, or the only instance.
    pub zones: Vec<Zone>,
    /// Memory that this instance keeps for cells, in bytes: whole lots of 2 MiB. 0: there are no cells.
    pub cells_bytes: u64,
    /// SHA-256 of the runtimes that may become cells; all may if there are none.
    pub cells_runtimes: Vec<[u8; 32]>,
    /// Disks that cells can have, one cell at a time.
    pub cells_devices: Vec<DeviceAddress>,
    /// Other instances of the machine that this one has a link to.
    pub neighbours: Vec<Neighbour>,
    /// Disks that the supervisor serves to this zone: they have the numbers after those of its own.
    pub served_disks: u16,
    /// Files that came in the module (programs of the system tenant).
    pub files: Vec<EmbeddedFile>,
    /// So many of the last tenants are places: with disk and address, for tenants that come while the machine runs.
    pub places: u16,
}

/// How a message gets from its sender to its handler. Whichever it is, it is stamped and charged the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dispatch {
    /// A message is handled within its sender's turn if the scheduler would choose it next anyhow.
    #[default]
    Inline,
    /// Queued always; a tenant's queues are served in one turn until its quantum is spent.
    Turns,
    /// Queued always, and the scheduler is asked for each batch, as in the Omni-kernel's paper.
    Queued,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LogLevel {
    /// Something is lost.
    Error,
    /// Something is wrong, nothing is lost.
    Warn,
    /// Facts for the machine's owner.
    #[default]
    Info,
    /// Details for a developer.
    Debug,
    /// Everything.
    Trace,
}

/// The network device and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Hardware address of the machine's device.
    pub mac: [u8; 6],
    /// Default gateway.
    pub gateway: Address,
    /// Prefix length of the network in bits.
    pub prefix_bits: u8,
    /// Rate that the wire grants in each direction in bits per second, for the kernel's information; `None` is unlimited.
    pub rate_bits_per_second: Option<u64>,
    /// How this instance reaches the segment.
    pub way: Way,
}

/// How an instance reaches the network segment of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// By a card of its own.
    #[default]
    Card,
    /// By its link to the supervisor, whose card carries its frames.
    Supervisor,
}

/// An inner node of the activity tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Its name.
    pub name: String,
    /// Index of the parent in [`Machine::activities`]; `None` is the root.
    pub parent: Option<u16>,
    /// Weight among its siblings.
    pub share: u32,
    /// Memory that all below it may hold together, in bytes; `None` leaves only their own limits.
    pub memory_bytes: Option<u64>,
}

/// One tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name, unique.
    pub name: String,
    /// Its kind, which decides its rights.
    pub kind: TenantKind,
    /// Index of its parent in [`Machine::activities`]; `None` is the root.
    pub parent: Option<u16>,
    /// Weight among its siblings at every resource.
    pub share: u32,
    /// Resources at which it is promised something else than `share`.
    pub entitlements: Vec<Entitlement>,
    /// Bounds.
    pub limits: Limits,
    /// True if its processes may read each other's figures, not only their own.
    pub monitor: bool,
    /// Its IPv4 address.
    pub address: Address,
    /// Its root file system.
    pub root: Root,
    /// The program that it runs; `None` starts nothing (programs come by `exec`).
    pub program: Option<Program>,
    /// TCP ports that the host forwards to it; the kernel needs them only for its log.
    pub ports: Vec<u16>,
    /// The overload controller at its listeners; `None` lets in all for whom a listener has room.
    pub overload: Option<Overload>,
    /// Its goal, which the broker follows.
    pub goal: Option<Goal>,
    /// The cores that it has together with itself, and when; `None` shares the processor as its share says.
    pub cell: Option<Cell>,
    /// The policy for the end of its program.
    pub restart: Restart,
    /// Further file systems of its own.
    pub volumes: Vec<Volume>,
    /// The one that waits for processes that lost their parent.
    pub orphans: Orphans,
    /// The other tenants that it reaches by the network, and that reach it.
    pub neighbours: Neighbours,
}

/// The other tenants that one reaches by the network, and that reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Neighbours {
    /// All that are so too.
    #[default]
    All,
    /// Those that it names, and those that name it.
    Named {
        /// Addresses to which it may begin something.
        calls: Vec<Address>,
        /// Addresses that may begin something with it.
        callers: Vec<Address>,
    },
}

/// The one that waits for those of a tenant's processes that lost their parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Orphans {
    /// Its program, as process 1: for programs that know how.
    #[default]
    Program,
    /// The kernel. Its program is process 2, signals do to it what they do to others, and with it end all others.
    Kernel,
}

/// When a tenant's program is started again after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// Only if the owner says so.
    #[default]
    Never,
    /// If it failed: ended with another code than 0, by a signal, or could not start.
    OnFailure,
    /// However it ended.
    Always,
}

/// A file system of a tenant beside its root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Absolute path of the directory that it covers; made if it is missing.
    pub path: String,
    /// Its place: a disk or a partition, ext2, writable.
    pub root: Root,
}

/// How many connections a tenant's listeners let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overload {
    /// The delay that a connection may have until it is accepted, and then until its first answer, in nanoseconds.
    pub delay_ns: u64,
    /// The answer to connections above the limit that follows from it.
    pub refuse: Refusal,
}

/// The answer to a connection that is not let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// None: the peer asks again later.
    #[default]
    Silence,
    /// A reset.
    Reset,
}

/// The kind of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantKind {
    /// The machine owner's own: may read every record and start programs in every tenant.
    System,
    /// A customer: sees itself only.
    #[default]
    Customer,
}

/// The place of a tenant's root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    /// The files of the module, read-only, and nothing else.
    Embedded,
    /// The virtio block device with this index in PCI order, ext2, writable.
    Disk(u16),
    /// A partition of a virtio block device that tenants share, ext2, writable.
    Volume {
        /// The device's index in PCI order.
        disk: u16,
        /// The partition's number in the table, from 1.
        number: u16,
    },
}

/// Bounds of one tenant; reaching one is an error for the tenant, never for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory in bytes, kernel objects included.
    pub memory_bytes: u64,
    /// Memory that each of its processes may hold, in bytes; `None` leaves only the tenant's limit.
    pub process_memory_bytes: Option<u64>,
    /// Memory that is never taken from it, in bytes; at most `memory_bytes`.
    pub memory_reservation_bytes: u64,
    /// Its part of the memory that no reservation covers, relative to the others; 0 takes the tenant's share.
    pub memory_share: u32,
    /// Processes and threads.
    pub processes: u32,
    /// Open files of one process.
    pub files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            process_memory_bytes: None,
            memory_reservation_bytes: 0,
            memory_share: 0,
            processes: 256,
            files: 1024,
        }
    }
}

/// A program to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Arguments; the first is the absolute path in the tenant's root file system.
    pub argv: Vec<String>,
    /// Environment, `NAME=value`.
    pub environment: Vec<String>,
    /// Working directory.
    pub directory: String,
    /// The user that it begins as.
    pub user: User,
    /// The signal that asks it to end; SIGTERM without one.
    pub stop_signal: Option<u8>,
}

/// The user that a program begins as; the superuser unless told otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A file in the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedFile {
    /// Absolute path in the system tenant's root.
    pub path: String,
    /// Unix permission bits.
    pub mode: u16,
    /// Offset of the first byte in the module, a multiple of [`PAGE_BYTES`].
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// The reason why a module cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleError {
    /// It does not begin with [`MAGIC`]: the module is something else. Give the file that `gyre` wrote.
    NotAModule,
    /// Another version wrote it. Build tool and kernel from one source.
    Version {
        /// The version found.
        found: u32,
    },
    /// It ends before its own lengths say.
    Truncated,
    /// The checksum differs: it was damaged on the way.
    Damaged,
    /// The checksum is right, the contents make no sense: our own bug.
    Malformed,
}

impl core::fmt::Display for ModuleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAModule => f.write_str("the boot module is not a Gyre machine"),
            Self::Version { found } => {
                write!(f, "the boot module has version {found}, this kernel reads version {VERSION}")
            }
            Self::Truncated => f.write_str("the boot module is cut short"),
            Self::Damaged => f.write_str("the boot module is damaged (checksum)"),
            Self::Malformed => f.write_str("the boot module does not decode"),
        }
    }
}

impl core::error::Error for ModuleError {}

/// A decoded module; the embedded files stay in its bytes.
#[derive(Debug)]
pub struct Module<'a> {
    /// The machine.
    pub machine: Machine,
    bytes: &'a [u8],
}

impl<'a> Module<'a> {
    /// Decodes a module.
    ///
    /// # Errors
    /// [`ModuleError`] says what is wrong with the bytes; embedded files are checked to lie inside them.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ModuleError> {
        let body = checked_body(bytes)?;
        let machine: Machine = postcard::from_bytes(body).map_err(|_| ModuleError::Malformed)?;
        let module = Self { machine, bytes };
        if module.machine.files.iter().any(|file| module.contents(file).is_none()) {
            return Err(ModuleError::Truncated);
        }
        Ok(module)
    }

    /// Returns the bytes of an embedded file, or `None` when it lies outside the module.
    #[must_use]
    pub fn contents(&self, file: &EmbeddedFile) -> Option<&'a [u8]> {
        let start = usize::try_from(file.offset).ok()?;
        let end = start.checked_add(usize::try_from(file.length).ok()?)?;
        self.bytes.get(start..end)
    }

    /// Returns the bytes of the embedded file at `path`.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&'a [u8]> {
        self.contents(self.machine.files.iter().find(|file| file.path == path)?)
    }
}

fn checked_body(bytes: &[u8]) -> Result<&[u8], ModuleError> {
    if bytes.get(..8) != Some(&MAGIC[..]) {
        return Err(ModuleError::NotAModule);
    }
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let long = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let found = word(8).ok_or(ModuleError::Truncated)?;
    if found != VERSION {
        return Err(ModuleError::Version { found });
    }
    let length = long(16).and_then(|n| usize::try_from(n).ok()).ok_or(ModuleError::Truncated)?;
    let sum = long(24).ok_or(ModuleError::Truncated)?;
    let end = HEADER_BYTES.checked_add(length).ok_or(ModuleError::Truncated)?;
    let body = bytes.get(HEADER_BYTES..end).ok_or(ModuleError::Truncated)?;
    if checksum(body) != sum { Err(ModuleError::Damaged) } else { Ok(body) }
}

/// Encodes a machine and its files (path, mode, bytes) into one module; `machine.files` is filled in here.
///
/// # Errors
/// [`ModuleError::Malformed`] when postcard refuses, which these types never cause.
pub fn encode(machine: &Machine, files: &[(&str, u16, &[u8])]) -> Result<Vec<u8>, ModuleError> {
    let mut machine = machine.clone();
    // Varint offsets change the body's length: a first pass with the largest offsets gives an upper bound.
    machine.files = files.iter().map(|(path, mode, bytes)| embedded(path, *mode, u64::MAX, bytes)).collect();
    let bound = to_body(&machine)?.len();
    let mut offset = pages(HEADER_BYTES + bound);
    for (file, (_, _, bytes)) in machine.files.iter_mut().zip(files) {
        file.offset = offset as u64;
        offset = pages(offset + bytes.len());
    }
    let body = to_body(&machine)?;
    let mut module = header(&body);
    module.extend_from_slice(&body);
    for (file, (_, _, bytes)) in machine.files.iter().zip(files) {
        let padding = (file.offset as usize).saturating_sub(module.len());
        module.extend(core::iter::repeat_n(0, padding));
        module.extend_from_slice(bytes);
    }
    Ok(module)
}

fn embedded(path: &str, mode: u16, offset: u64, bytes: &[u8]) -> EmbeddedFile {
    EmbeddedFile { path: path.into(), mode, offset, length: bytes.len() as u64 }
}

fn to_body(machine: &Machine) -> Result<Vec<u8>, ModuleError> {
    postcard::to_allocvec(machine).map_err(|_| ModuleError::Malformed)
}

fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

fn header(body: &[u8]) -> Vec<u8> {
    let mut header = vec![];
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&0u32.to_le_bytes());
    header.extend_from_slice(&(body.len() as u64).to_le_bytes());
    header.extend_from_slice(&checksum(body).to_le_bytes());
    header
}

/// Returns the FNV-1a hash, 64 bits: against damage, not against malice (the module comes from the machine's owner).
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
#[path = "boot_tests.rs"]
mod tests;
