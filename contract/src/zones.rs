//! Zones: parts of the machine with a kernel instance in each, as the machine file describes them, and as their owner sees and changes them.
//!
//! The first instance is the *supervisor*; it boots, owns what no zone holds, and keeps the module of each zone for its (re)start. A zone's
//! tenants stand in its own [`crate::boot::Machine`], inside its module. Source: Horizontal OS, sections 4 and 5 (RainForest's zones).
//!
//! * [`Zone`]: the description, part of the supervisor's machine. [`Neighbour`]: the other end of a link, part of each instance's.
//! * [`Wish`], [`WishDeed`], [`WishAnswer`]: a change by a zone itself.
//! * [`Command`], [`Orderer`], [`Answer`], [`Refusal`]: a change by the owner. A list of commands is one change: all of it or nothing.
//! * [`Zones`], [`View`], [`State`]: the zones at one time.
//! * [`Record`]: a line of the log of changes.

mod orderer;

use crate::address::Address;
use crate::last_words::{LastWords, cut};
use alloc::{string::String, vec::Vec};
pub use orderer::Orderer;
use serde::{Deserialize, Serialize};

/// Zones of a machine, the supervisor not counted.
pub const ZONES_MAX: usize = 8;
/// Bytes of the unit in which memory changes hands.
pub const LOT_BYTES: u64 = 2 << 20;
/// Bytes of a zone's name.
pub const NAME_BYTES_MAX: usize = 31;
/// Names that say something else: no zone has one of them.
pub const NAMES_TAKEN: [&str; 5] = ["supervisor", "free", "owner", "controller", "log"];
/// Bytes of the boot module of a zone that comes while the machine runs.
pub const MODULE_BYTES_MAX: u64 = 8 << 20;
/// Silence after which a zone counts as hung, ms: the bounds of [`Zone::patience_ms`].
pub const PATIENCE_MS: core::ops::RangeInclusive<u32> = 100..=3_600_000;
/// The bounds of [`Zone::share`].
pub const SHARES: core::ops::RangeInclusive<u32> = 1..=1_000_000;

/// Returns whether a text can be the name of a zone, [`NAMES_TAKEN`] apart: a-z, 0-9 and -, the first no -.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(is_good)
}

/// One zone, as the machine file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name, unique; at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Cores that it begins with, at least 1.
    pub cores: u16,
    /// Cores that it may grow to.
    pub cores_max: u16,
    /// Memory that it begins with in bytes, whole lots.
    pub memory_bytes: u64,
    /// PCI functions that are its own.
    pub devices: Vec<DeviceAddress>,
    /// The embedded file that is its boot module.
    pub module: String,
    /// The wall that holds it in.
    pub protection: Protection,
    /// The rule for its end.
    pub restart: Restart,
    /// It is created when the machine starts.
    pub starts: bool,
    /// It may hand cores and memory of its own to other zones, and make one of those that do not run with them.
    pub may_create: bool,
    /// Silence after which it counts as hung, ms.
    pub patience_ms: u32,
    /// Its part of the supervisor's processor, disks and link, relative to the supervisor's tenants and the other zones; in [`SHARES`].
    pub share: u32,
    /// Instances with a number below its own that it has a network link to; see [`Neighbour::number`]. A zone that comes names those with a
    /// higher number too.
    pub links: Vec<u16>,
    /// Disks of the supervisor that are served to it, by their numbers there, in the order of its tenants.
    pub disks: Vec<u16>,
    /// Zones that may borrow parts of it without its owner's order, by their places in the description.
    pub lends_to: Vec<u16>,
    /// A place for a zone that comes while the machine runs: [`Command::Describe`] says all, and chooses among its devices, disks and links.
    pub is_place: bool,
}

/// Another instance of the machine, as one that has a link to it knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its number: 0 is the supervisor, a zone's is one more than its place in the description.
    pub number: u16,
    /// The addresses of its tenants.
    pub addresses: Vec<Address>,
    /// The names of its tenants.
    pub tenants: Vec<String>,
    /// Its hardware address on the segment, if it has no card and the supervisor carries its frames.
    pub guest: Option<[u8; 6]>,
}

/// A PCI function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceAddress {
    /// Its bus.
    pub bus: u8,
    /// Its device.
    pub device: u8,
    /// Its function.
    pub function: u8,
}

impl core::fmt::Display for DeviceAddress {
    /// Writes it as lspci does: `00:1a.0`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.bus, self.device, self.function)
    }
}

impl core::str::FromStr for DeviceAddress {
    type Err = &'static str;

    /// Reads `BUS:DEVICE.FUNCTION` in hexadecimal digits, as lspci writes it. The error is the expectation.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "a PCI function as lspci writes it, such as 00:1a.0";
        let part = |digits: &str, most: u8| {
            let is_plain =
                !digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u8::from_str_radix(digits, 16).ok().filter(|number| is_plain && *number <= most);
            number.ok_or(expected)
        };
        let (bus, rest) = text.split_once(':').ok_or(expected)?;
        let (device, function) = rest.split_once('.').ok_or(expected)?;
        Ok(Self { bus: part(bus, u8::MAX)?, device: part(device, 31)?, function: part(function, 7)? })
    }
}

/// The wall around a zone; docs/threat-model.md says what each holds back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// None: as in the paper, each kernel trusts the others.
    None,
    /// Only its own memory is in its page tables; it scans and touches no other's device.
    #[default]
    Pages,
    /// Nested paging: memory, ports, model-specific registers.
    Nested,
    /// Nested paging, and the local interrupt controller behind calls.
    NestedApic,
}

/// The rule for the end of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// It stays ended.
    #[default]
    Never,
    /// A zone that panicked, hung or broke out is created again.
    OnCrash,
    /// So is one that ended in order.
    Always,
}

/// A change that the owner asks for: argument of [`crate::native::ZONE_CONTROL`]. Several are done together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Puts a zone that the machine was not started with into a place that is vacant, or that has one of this name that does not run.
    Describe {
        /// The place, by its number in the description.
        place: u16,
        /// The zone. Its devices, disks and links are among those of the place; its `module` says nothing.
        zone: Zone,
        /// The number under which its boot module was handed over whole ([`crate::native::ZONE_MODULE`]).
        module: u64,
    },
    /// Makes a described zone that does not run; with other sizes than described if they are given.
    Create {
        /// Its name.
        zone: String,
        /// Its cores.
        cores: Option<u16>,
        /// Its memory in bytes.
        memory_bytes: Option<u64>,
    },
    /// Ends a zone: in order within the grace time, then by force. Its parts go back.
    Destroy {
        /// Its name.
        zone: String,
        /// Time for an end in order, ms; 0 ends it at once.
        grace_ms: u32,
    },
    /// Ends it and makes it again.
    Restart {
        /// Its name.
        zone: String,
        /// As with `Destroy`.
        grace_ms: u32,
    },
    /// Changes how much a running zone holds, or the share of one, whether it runs or not.
    Set {
        /// Its name.
        zone: String,
        /// Its share, in [`SHARES`].
        #[serde(default)]
        share: Option<u32>,
        /// Cores.
        cores: Option<u16>,
        /// Memory in bytes, whole lots.
        memory_bytes: Option<u64>,
        /// How long a part that is in use is waited for, ms.
        deadline_ms: u32,
    },
    /// Gives a running zone a PCI function.
    Attach {
        /// Its name.
        zone: String,
        /// The function.
        device: DeviceAddress,
    },
    /// Takes a PCI function from a running zone.
    Detach {
        /// Its name.
        zone: String,
        /// The function.
        device: DeviceAddress,
        /// How long it is waited for, ms.
        deadline_ms: u32,
    },
    /// Lends parts of one running zone to another.
    Lend {
        /// The lender.
        from: String,
        /// The borrower.
        to: String,
        /// Cores.
        cores: u16,
        /// Memory in bytes, whole lots.
        memory_bytes: u64,
        /// How long a part that is in use is waited for, ms.
        deadline_ms: u32,
    },
    /// Hands the management of a zone to another zone, or back to the supervisor.
    Adopt {
        /// The zone.
        child: String,
        /// Its new parent; `None` is the supervisor.
        parent: Option<String>,
    },
}

/// A zone's own wish: argument of [`crate::native::ZONE_WISH`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// The other zone that it is about.
    pub to: String,
    /// Cores.
    #[serde(default)]
    pub cores: u16,
    /// Memory in bytes, whole lots.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The deed that it wishes.
    #[serde(default)]
    pub deed: WishDeed,
}

/// The deed that a zone wishes; the first three are about parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WishDeed {
    /// Parts of its own go to the other zone; one that does not run is made of them. It may create.
    #[default]
    Give,
    /// Parts of the other zone come to it. That one's description lets it, or it manages that one.
    Borrow,
    /// As many parts as the other zone has lent it go back, whichever they are.
    Return,
    /// A zone that it manages ends.
    Destroy,
    /// A zone that it manages ends and is made again.
    Restart,
    /// The management of a zone goes to whoever manages this one.
    Release,
}

impl WishDeed {
    /// All of them, by their numbers in a message.
    pub const ALL: [WishDeed; 6] =
        [WishDeed::Give, WishDeed::Borrow, WishDeed::Return, WishDeed::Destroy, WishDeed::Restart, WishDeed::Release];
}

/// The answer of [`crate::native::ZONE_WISH`]: why the supervisor refused, in at most 48 characters.
pub type WishAnswer = Result<(), String>;

/// The reason for which nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// There is no such zone.
    Unknown {
        /// The name that was given.
        zone: String,
    },
    /// It runs already, or does not run.
    State {
        /// The zone.
        zone: String,
        /// Its state.
        state: State,
    },
    /// There is not so much.
    Lacking {
        /// The kind of part.
        part: Part,
        /// So much was asked for: cores, bytes, or one device.
        wanted: u64,
        /// So much is free.
        free: u64,
    },
    /// Somebody holds the part and did not give it back in time.
    Busy {
        /// The kind of part.
        part: Part,
        /// The holder's name.
        holder: String,
        /// The use that keeps it.
        why: String,
    },
    /// The request makes no sense.
    Invalid {
        /// The mistake in it.
        why: String,
    },
    /// The machine did not do it: a core that does not answer, a device that does not reset.
    Machine {
        /// The event.
        why: String,
    },
}

/// A kind of thing that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A core.
    Core,
    /// A lot of memory.
    Memory,
    /// A PCI function.
    Device,
}

/// The answer of [`crate::native::ZONE_CONTROL`].
pub type Answer = Result<(), Refusal>;

/// The state of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Described, not created.
    Absent,
    /// Its kernel boots.
    Booting,
    /// It runs.
    Running,
    /// It was asked to end.
    Ending,
    /// It ended in order.
    Ended {
        /// Its exit code.
        code: u8,
    },
    /// It ended otherwise.
    Crashed {
        /// The cause.
        cause: Cause,
    },
    /// No zone: a place for one that comes.
    Vacant,
}

/// How a zone ended that did not end in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its kernel panicked.
    Panic,
    /// It gave no sign of life for its patience.
    Silence,
    /// It left its wall, and was stopped there.
    Violation,
    /// Its core shut itself down (triple fault).
    Shutdown,
}

/// All zones at one time: the postcard form of this is what [`crate::native::ZONES`] writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Cores that the supervisor runs on, and cores that nobody holds.
    pub supervisor: Holding,
    /// Parts that nobody holds.
    pub free: Holding,
    /// The zones, in the description's order.
    pub zones: Vec<View>,
    /// Changes since the machine's start; the log keeps the last [`LOG_RECORDS_MAX`].
    pub changes: u64,
}

/// Records that the log keeps.
pub const LOG_RECORDS_MAX: usize = 1024;

/// Parts in one hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Hardware ids of cores.
    pub cores: Vec<u32>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// PCI functions.
    pub devices: Vec<DeviceAddress>,
}

/// One zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Its parts.
    pub holds: Holding,
    /// Its wall.
    pub protection: Protection,
    /// Its rule of restart.
    pub restart: Restart,
    /// The zone that manages it; `None` is the supervisor.
    pub parent: Option<String>,
    /// How often it was created.
    pub created: u32,
    /// How often it ended otherwise than in order.
    pub crashed: u32,
    /// From the order to create it until it stood, ns; 0 before.
    pub start_ns: u64,
    /// Time since its creation, ns.
    pub uptime_ns: u64,
    /// Bytes that it has printed.
    pub printed_bytes: u64,
    /// Words of the last crash; the log has those of each, with the trace.
    pub last_words: String,
    /// Its lease on the machine's bill: core cycles, since the machine's start.
    pub core_cycles: u64,
    /// Memory held times time, in byte-milliseconds, since the machine's start.
    pub memory_byte_ms: u64,
    /// Messages to it and from it.
    pub messages: u64,
    /// Its own figures, as its kernel says them; `None` until it has said some.
    pub own: Option<Own>,
    /// Parts of these that others have lent it.
    #[serde(default)]
    pub borrowed: Vec<Borrowed>,
    /// Of the core cycles of its lease, those since its present instance was ordered, or its last one.
    #[serde(default)]
    pub instance_cycles: u64,
    /// Its share of the supervisor's resources; see [`Zone::share`].
    #[serde(default)]
    pub share: u32,
}

/// Parts that a zone has of another one, until it gives as many back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Borrowed {
    /// The lender.
    pub from: String,
    /// Cores.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// A zone's figures of itself, since its creation. They are its own word: the lease beside them is what the supervisor knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// Cycles of its cores: the sum of the three that follow.
    pub elapsed_cycles: u64,
    /// Of these, for its tenants and its infrastructure.
    pub handling_cycles: u64,
    /// Of these, choosing work and in interrupts.
    pub overhead_cycles: u64,
    /// Of these, halted.
    pub idle_cycles: u64,
    /// Memory that it uses, bytes.
    pub used_bytes: u64,
    /// Memory that it has free, bytes.
    pub free_bytes: u64,
    /// Core cycles of its lease from its creation until the supervisor heard these figures.
    pub lease_cycles: u64,
}

impl Own {
    /// Returns true if the figures agree with the lease: they add up, and say no more than was leased. The rest of the lease is the time until
    /// its cores had started, and that of crossing between instances.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let parts = [self.handling_cycles, self.overhead_cycles, self.idle_cycles];
        let sum: u128 = parts.iter().map(|cycles| u128::from(*cycles)).sum();
        sum == u128::from(self.elapsed_cycles) && self.elapsed_cycles <= self.lease_cycles
    }
}

/// One record of the log of [`crate::native::ZONE_LOG`] (R9: every adjustment is recorded).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number, from 0.
    pub number: u64,
    /// When it was complete: ns since the machine's start.
    pub at_ns: u64,
    /// The deed.
    pub deed: Deed,
    /// Cores that moved, by hardware id.
    pub cores: Vec<u32>,
    /// Memory that moved in bytes.
    pub memory_bytes: u64,
    /// Devices that moved.
    pub devices: Vec<DeviceAddress>,
    /// From whom: a zone, "supervisor" or "free".
    pub from: String,
    /// To whom.
    pub to: String,
    /// By whose order: "owner", "controller", "supervisor" (a restart), or a zone.
    pub by: String,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Its result.
    pub result: Answer,
    /// Why the zone crashed; `None` in records of other deeds.
    #[serde(default)]
    pub last_words: Option<LastWords>,
}

/// Bytes of a sentence that a record keeps of its refusal.
const SENTENCE_BYTES_MAX: usize = 1024;
/// Bytes of the postcard form of a record whose texts are [`Record::bounded`].
pub const RECORD_BYTES_MAX: usize = 4 << 10;

impl Record {
    /// Cuts names and sentences, which others choose, to what the log keeps of them: names to [`NAME_BYTES_MAX`].
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let cut_to = |text: &mut String, bytes: usize| text.truncate(cut(text, bytes).len());
        [&mut self.from, &mut self.to, &mut self.by].into_iter().for_each(|name| cut_to(name, NAME_BYTES_MAX));
        match &mut self.result {
            Ok(()) | Err(Refusal::Lacking { .. }) => {}
            Err(Refusal::Unknown { zone } | Refusal::State { zone, .. }) => cut_to(zone, NAME_BYTES_MAX),
            Err(Refusal::Busy { holder, why, .. }) => {
                cut_to(holder, NAME_BYTES_MAX);
                cut_to(why, SENTENCE_BYTES_MAX);
            }
            Err(Refusal::Invalid { why } | Refusal::Machine { why }) => cut_to(why, SENTENCE_BYTES_MAX),
        }
        self
    }
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// A zone was made.
    Create,
    /// A zone was ended.
    Destroy,
    /// A zone crashed.
    Crash,
    /// Parts came.
    Give,
    /// Parts went.
    Take,
    /// Parts were lent.
    Lend,
    /// A zone got another parent.
    Adopt,
    /// A zone got another share.
    Share,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn a_name_is_short_and_plain() {
        assert!(["a", "late-2", &"x".repeat(31)].iter().all(|name| is_name(name)));
        assert!(["", "-a", "A", "a b", "a/b", "\u{e9}", &"x".repeat(32)].iter().all(|name| !is_name(name)));
    }

    #[test]
    fn the_fullest_record_is_bounded_whoever_chose_its_texts() {
        let long = || "x".repeat(1 << 16);
        let device = DeviceAddress { bus: u8::MAX, device: 31, function: 7 };
        let record = Record {
            number: u64::MAX,
            at_ns: u64::MAX,
            deed: Deed::Adopt,
            cores: alloc::vec![u32::MAX; gyre_platform::CORES_MAX],
            memory_bytes: u64::MAX,
            devices: alloc::vec![device; gyre_platform::zone_page::ZONE_DEVICES_MAX],
            from: long(),
            to: long(),
            by: long(),
            took_ns: u64::MAX,
            result: Err(Refusal::Busy { part: Part::Device, holder: long(), why: long() }),
            last_words: Some(LastWords::new(&long(), &[u64::MAX; 64])),
        };
        let bytes = |record: Record| postcard::to_allocvec(&record).unwrap().len();
        assert!(bytes(record.clone()) > RECORD_BYTES_MAX);
        for result in [
            record.result.clone(),
            Err(Refusal::Unknown { zone: long() }),
            Err(Refusal::State { zone: long(), state: State::Running }),
            Err(Refusal::Invalid { why: long() }),
            Err(Refusal::Machine { why: long() }),
        ] {
            let bytes = bytes(Record { result, ..record.clone() }.bounded());
            assert!(bytes <= RECORD_BYTES_MAX, "{bytes}");
        }
    }

    #[test]
    fn an_orderer_has_one_name_and_one_number_and_no_zone_has_that_name() {
        for (number, one) in Orderer::ALL.into_iter().enumerate() {
            assert_eq!((one as usize, Orderer::named(one.name())), (number, Some(one)));
            assert!(NAMES_TAKEN.contains(&one.name()));
        }
        assert_eq!(Orderer::named("supervisor"), None);
    }

    #[test]
    fn a_function_is_read_as_it_is_written() {
        let device = DeviceAddress { bus: 0, device: 26, function: 7 };
        assert_eq!(device.to_string(), "00:1a.7");
        assert_eq!("00:1a.7".parse(), Ok(device));
        for wrong in ["", "00:1a", "00.1a:7", "00:20.0", "00:1a.8", "100:1a.0", "0x:1.0", "+0:1.0", "00:1a.0 "] {
            assert!(wrong.parse::<DeviceAddress>().is_err(), "{wrong}");
        }
    }
}
