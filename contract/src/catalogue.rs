//! The catalogue of resources: every resource that a kernel has, once.
//!
//! Everything else that knows resources derives from this table: the grid of the kernel and of the simulator (in this order), the numbers
//! by which their code names a resource, the words of the machine file, the texts of `gyre check`, the names in a bill, and a test of the
//! list in docs/guide/machine-file.md.
//!
//! One more resource is one line of [`catalogue!`], in the order of the paths through the machine:
//!
//! * the doc comment says which work the resource does;
//! * the variant is its name in code; `gyre_assembly::grid::id` turns it into the number that the engine knows;
//! * the first text is its name in a machine file, the second one its name in the engine and in figures (the same words, joined by `_`);
//! * `divides` is what is scarce there if the owner says nothing else. If that is not `Cycles`, the resource is a gate: it has a scheduler
//!   of its own;
//! * `reports` lists what its handlers tell the engine beside cycles and messages, which the engine counts by itself;
//! * `loses` says what its work for a tenant may hold beside what locks say, and whose that is: it is lost if that work fails in the
//!   middle ([`Reach`]).
//!
//! Then docs/guide/machine-file.md gets its name, and `system/assembly` or `system/kernel` gives it a port. [`Resource`] is part of a boot
//! module: [`crate::boot::VERSION`] grows with each change here.

use crate::policy::Metric;
use serde::{Deserialize, Serialize};

/// Whose state a resource's work may hold beside what its locks say, and so what ends if that work fails in the middle. `system/assembly`
/// tells the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The process' that it is done for.
    Process,
    /// The tenant's, whose processes share it: a directory's gate, a place in a commit.
    Tenant,
    /// All tenants': a queue of a device, a page that others wait for.
    Machine,
}

/// Builds [`Resource`] and its facts from one line for each resource.
macro_rules! catalogue {
    ($($(#[$about:meta])* $variant:ident: $file_name:literal, $engine_name:literal, divides $usual:ident, reports [$($reported:ident),*], loses $lost:ident $state:literal;)*) => {
        /// A resource of the kernel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Resource {
            $($(#[$about])* #[serde(rename = $engine_name)] $variant,)*
        }

        const FACTS: &[Facts] = &[$(Facts {
            resource: Resource::$variant,
            file_name: $file_name,
            engine_name: $engine_name,
            usual_metric: Metric::$usual,
            reports: &[$(Metric::$reported),*],
            reach: Reach::$lost,
            loss: concat!($state, " may be half changed"),
        },)*];
    };
}

catalogue! {
    /// The processor: shared among all that run and all that is handled.
    Cpu: "cpu", "cpu", divides Cycles, reports [], loses Process "a step of a thread";
    /// Takes what devices are done with.
    DeviceInterrupt: "device-interrupt", "device_interrupt", divides Cycles, reports [], loses Machine "the answers of a device";
    /// Disks and SCSI hosts.
    Block: "block", "block", divides Bytes, reports [Bytes, DeviceTime], loses Machine "the queue of a disk";
    /// Serves disks of this instance to zones that have none of their own.
    DiskServer: "disk-server", "disk_server", divides Cycles, reports [], loses Machine "a disk that zones share";
    /// Disks behind SCSI hosts: makes commands of requests.
    Scsi: "scsi", "scsi", divides Cycles, reports [Bytes], loses Machine "the queue of a SCSI host";
    /// Partitions.
    Storage: "storage", "storage", divides Cycles, reports [Bytes], loses Machine "a file system that gives memory back";
    /// Budgets of memory.
    Memory: "memory", "memory", divides Cycles, reports [], loses Machine "memory that others give back";
    /// Pages of files.
    FileCache: "file-cache", "file_cache", divides Cycles, reports [Bytes], loses Machine "the table of the file cache";
    /// Gives pages of address spaces back.
    AddressSpace: "address-space", "address_space", divides Cycles, reports [], loses Machine "pages that others give back";
    /// Ext2 file systems.
    Ext2: "ext2", "ext2", divides Cycles, reports [Bytes], loses Tenant "a gate of a directory, a place in a commit";
    /// File systems in memory.
    Tmpfs: "tmpfs", "tmpfs", divides Cycles, reports [], loses Process "a request to files in memory";
    /// Work that programs do not wait for: io_uring, aio, flows.
    AsyncIo: "async-io", "async_io", divides Cycles, reports [Bytes], loses Process "work under way of a process";
    /// Data that is moved by reference.
    IoStream: "io-stream", "io_stream", divides Cycles, reports [Bytes], loses Process "a stream of a process";
    /// Hands frames to the network card.
    NetworkWrite: "network-write", "network_write", divides Bytes, reports [Bytes], loses Machine "the queue of a card";
    /// Hands frames to links that lead to other instances on the machine.
    ZoneLink: "zone-link", "zone_link", divides Bytes, reports [Bytes], loses Machine "the queue of a link";
    /// Makes frames.
    NetworkPrepare: "network-prepare", "network_prepare", divides Cycles, reports [], loses Machine "the table of neighbours";
    /// Takes frames from the network card and finds out whose they are.
    NetworkRead: "network-read", "network_read", divides Cycles, reports [], loses Machine "the frames that have come";
    /// TCP.
    Tcp: "tcp", "tcp", divides Cycles, reports [], loses Machine "the table of connections";
    /// TCP's time.
    TcpTimer: "tcp-timer", "tcp_timer", divides Cycles, reports [], loses Machine "the deadlines of connections";
    /// UDP.
    Udp: "udp", "udp", divides Cycles, reports [], loses Process "counts of a socket";
    /// ICMP.
    Icmp: "icmp", "icmp", divides Cycles, reports [], loses Process "counts of a socket";
    /// System calls of processes.
    Process: "process", "process", divides Cycles, reports [], loses Process "a call of a thread";
    /// Consoles of tenants.
    Console: "console", "console", divides Cycles, reports [], loses Machine "the console";
    /// Keeps the holders of the cores, lots and devices that zones are made of.
    Leases: "leases", "leases", divides Cycles, reports [], loses Machine "the holders of cores and memory";
    /// Zones: made, ended, changed, watched; in a zone, its answers to its supervisor.
    Zones: "zones", "zones", divides Cycles, reports [], loses Machine "the zones";
}

/// One line of the table.
struct Facts {
    resource: Resource,
    file_name: &'static str,
    engine_name: &'static str,
    usual_metric: Metric,
    reports: &'static [Metric],
    reach: Reach,
    loss: &'static str,
}

impl Resource {
    /// How many there are.
    pub const COUNT: usize = FACTS.len();

    /// Returns all resources, in the order of the table.
    pub fn all() -> impl Iterator<Item = Resource> + Clone {
        FACTS.iter().map(|facts| facts.resource)
    }

    /// Returns the position in the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in a machine file.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        FACTS[self.index()].file_name
    }

    /// Returns the name in the engine, in figures and in changes of a running machine.
    #[must_use]
    pub const fn engine_name(self) -> &'static str {
        FACTS[self.index()].engine_name
    }

    /// Finds a resource by what a person wrote: the name in a machine file, or with `_` in place of `-`.
    #[must_use]
    pub fn find(written: &str) -> Option<Resource> {
        let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
        Resource::all().find(|resource| resource.file_name().bytes().eq(written.bytes().map(plain)))
    }

    /// Returns the metric of what is scarce at the resource, unless the machine file names another.
    #[must_use]
    pub const fn usual_metric(self) -> Metric {
        FACTS[self.index()].usual_metric
    }

    /// Returns true if the resource has a scheduler of its own without being given one.
    #[must_use]
    pub const fn is_usually_gate(self) -> bool {
        !matches!(self.usual_metric(), Metric::Cycles)
    }

    /// Returns whose state is lost if the resource's work for a tenant fails in the middle.
    #[must_use]
    pub const fn reach(self) -> Reach {
        FACTS[self.index()].reach
    }

    /// Returns the words for that loss: the last ones of a kernel if that state is all tenants'.
    #[must_use]
    pub const fn loss(self) -> &'static str {
        FACTS[self.index()].loss
    }

    /// Returns true for the resources of the network path.
    #[must_use]
    pub const fn is_network(self) -> bool {
        matches!(
            self,
            Resource::NetworkWrite
                | Resource::ZoneLink
                | Resource::NetworkPrepare
                | Resource::NetworkRead
                | Resource::Tcp
                | Resource::TcpTimer
                | Resource::Udp
                | Resource::Icmp
        )
    }

    /// Returns whether the resource says how much of a metric a message used. A policy by another metric would divide and bound nothing.
    #[must_use]
    pub fn counts(self, metric: Metric) -> bool {
        matches!(metric, Metric::Cycles | Metric::Messages) || FACTS[self.index()].reports.contains(&metric)
    }
}

/// Returns the cores that a resource runs on if the machine file says nothing, a bit each.
///
/// A scheduler before a device runs on one core by default: with one on each core, the device would serve the cores equally, against the
/// tenants' shares.
#[must_use]
pub fn usual_cores(metric: Metric, cores: u16) -> u64 {
    match metric {
        Metric::Cycles => u64::MAX >> (64 - cores.clamp(1, 64)),
        Metric::Bytes | Metric::Messages | Metric::DeviceTime => 1,
    }
}

/// Returns true if two names are the same words, joined by `-` in one and by `_` in the other.
const fn is_same_name(file_name: &str, engine_name: &str) -> bool {
    let (file, engine) = (file_name.as_bytes(), engine_name.as_bytes());
    let mut at = 0;
    while at < file.len() && at < engine.len() {
        let joined = file[at] == b'-' && engine[at] == b'_';
        if !joined && (file[at] != engine[at] || file[at] == b'_' || file[at] == b'-') {
            return false;
        }
        at += 1;
    }
    file.len() == engine.len()
}

const _: () = {
    assert!(FACTS.len() <= crate::figures::RESOURCES_MAX, "a process' figures have room for every resource");
    let mut at = 0;
    while at < FACTS.len() {
        assert!(FACTS[at].resource.index() == at, "a resource's index is its place in the table");
        assert!(is_same_name(FACTS[at].file_name, FACTS[at].engine_name), "a resource has two different names");
        assert!(FACTS[at].engine_name.len() <= 16, "a process' figures have 16 bytes for a name");
        at += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_either_spelling_and_by_nothing_else() {
        assert_eq!(Resource::find("network-write"), Some(Resource::NetworkWrite));
        assert_eq!(Resource::find("network_write"), Some(Resource::NetworkWrite));
        assert_eq!(Resource::find("network"), None);
        assert_eq!(Resource::find(""), None);
        for resource in Resource::all() {
            assert_eq!(Resource::find(resource.file_name()), Some(resource));
            assert_eq!(Resource::find(resource.engine_name()), Some(resource), "no other has its name");
        }
        assert_eq!(Resource::all().count(), Resource::COUNT);
    }

    #[test]
    fn what_is_divided_is_counted() {
        assert!(Resource::all().all(|resource| resource.counts(resource.usual_metric())));
        assert!(Resource::Block.counts(Metric::DeviceTime) && !Resource::NetworkWrite.counts(Metric::DeviceTime));
        assert!(Resource::Tcp.counts(Metric::Messages) && !Resource::Tcp.counts(Metric::Bytes));
        let gates: std::vec::Vec<_> = Resource::all().filter(|resource| resource.is_usually_gate()).collect();
        assert_eq!(gates, [Resource::Block, Resource::NetworkWrite, Resource::ZoneLink]);
    }

    #[test]
    fn names_that_differ_in_more_than_the_joint_are_refused() {
        assert!(is_same_name("a-b", "a_b") && is_same_name("ab", "ab"));
        assert!(!is_same_name("a-b", "a-b") && !is_same_name("a_b", "a_b"));
        assert!(!is_same_name("ab", "abc") && !is_same_name("ab", "ac"));
    }
}
