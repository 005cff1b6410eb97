//! The messages between a supervisor and a zone, as lines of 64 bytes ([`gyre_line::Message`]).
//!
//! A question carries a token of its sender's; the answer repeats it. The supervisor asks a zone for parts, offers it parts, asks for its end
//! and its figures. A zone greets when it stands, answers, and may say a wish of its own (R8).
//!
//! Neither side trusts the other: [`ToZone::decode`] and [`FromZone::decode`] answer `None` for whatever is no message, and a receiver checks
//! that a part which is given is its sender's. Asking twice is harmless: who has nothing to give says [`FromZone::Refused`].
//!
//! | kind | words |
//! |---|---|
//! | 1 `CoreAsk` | hardware id, or [`ANY`]; ms in which the answer is wanted |
//! | 2 `CoreOffer` | hardware id, slot of its box in the zone page |
//! | 3 `LotAsk` | lots, ms in which the answer is wanted |
//! | 4 `LotOffer` | first lot, lots, lots that follow under this token |
//! | 5 `DeviceAsk`, 6 `DeviceOffer` | bus, device and function |
//! | 7 `End` | grace in ms |
//! | 8 `FiguresAsk` | |
//! | 9 `WishDone` | |
//! | 10 `WishRefused` | words of text |
//! | 11 `LinkOffer` | number of the peer, lot, hardware id of the peer's core, 1 for the end that is second |
//! | 12 `LinkDown` | number of the peer |
//! | 13 `LinkForget` | number of the peer |
//! | 16 `DiskOffer` | lot, hardware id of the supervisor's core, disks |
//! | 33 `Hello` | [`VERSION`] |
//! | 34 `CoreGiven` | hardware id: the core waits in its box |
//! | 35 `LotGiven` | as `LotOffer` |
//! | 36 `DeviceGiven` | as `DeviceAsk` |
//! | 37 `Taken` | |
//! | 38 `Refused` | [`Reason`] |
//! | 39 `Figures` | cycles: elapsed, handling, scheduling and interrupts, idle; bytes in use, bytes free |
//! | 40 `Wish` | name of the zone that it is about (4 words of text), cores below the deed's number (32 bits each), lots |
//! | 41 `Refused` by [`Reason::Kept`] | words of text |
//! | 42 `Refused` by [`Reason::Needs`] | words of text |

use crate::leases::Lots;
use core::fmt::Write as _;
use gyre_contract::zones::WishDeed;
use gyre_line::Message;
use gyre_machine::PciAddress;

/// Grows with each change of the messages; said in `Hello`.
pub const VERSION: u32 = 8;
/// A core, whichever the zone can spare.
pub const ANY: u64 = u64::MAX;

/// A message to a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToZone {
    /// Give a core back within so many milliseconds.
    CoreAsk {
        /// Its hardware id; `None` for one that you can spare.
        core: Option<u32>,
        /// The time, after which the answer finds nobody.
        within_ms: u32,
    },
    /// This core waits in the box of this slot.
    CoreOffer {
        /// Its hardware id.
        core: u32,
        /// The slot of its box.
        slot: u32,
    },
    /// Give so many lots back within so many milliseconds.
    LotAsk {
        /// Their number.
        lots: u32,
        /// The time, after which the answer finds nobody.
        within_ms: u32,
    },
    /// These lots are yours.
    LotOffer {
        /// The lots.
        lots: Lots,
        /// Lots that follow under the same token.
        left: u32,
    },
    /// Give this device back.
    DeviceAsk(PciAddress),
    /// This device is yours.
    DeviceOffer(PciAddress),
    /// End in order within so many milliseconds.
    End(u32),
    /// Say your figures.
    FiguresAsk,
    /// Your wish was done.
    WishDone,
    /// Your wish was not done: why.
    WishRefused(Keeper),
    /// Your network link to a peer lies in this lot.
    LinkOffer(LinkOffer),
    /// The peer of this number is gone: touch the lot of the link to it no more.
    LinkDown(u16),
    /// You are not linked to the instance of this number any more: your card is the way to its addresses.
    LinkForget(u16),
    /// Disks are served to you by this lot.
    DiskOffer(DiskOffer),
}

/// Disks of the supervisor that it serves to a zone, until that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskOffer {
    /// The lot that both map. The supervisor holds it.
    pub lot: u64,
    /// Hardware id of the supervisor's core that takes its interrupts.
    pub core: u32,
    /// How many disks its table names.
    pub disks: u16,
}

/// A network link to another instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOffer {
    /// The peer's number: 0 is the supervisor, a zone's is one more than its place in the description.
    pub peer: u16,
    /// The lot that both map. The supervisor holds it; it goes to nobody else.
    pub lot: u64,
    /// Hardware id of the peer's core that takes the link's interrupts.
    pub core: u32,
    /// The end that is meant.
    pub end: LinkEnd,
}

/// The two ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkEnd {
    /// The end with the lower number.
    First,
    /// The other one.
    Second,
}

/// A message from a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromZone {
    /// The zone stands and speaks this version.
    Hello(u32),
    /// This core waits in its box again.
    CoreGiven(u32),
    /// These lots are out of use.
    LotGiven {
        /// The lots.
        lots: Lots,
        /// Lots that follow under the same token.
        left: u32,
    },
    /// This device is out of use.
    DeviceGiven(PciAddress),
    /// The part that was offered is in use, or the part that was asked for is on its way.
    Taken,
    /// Not done.
    Refused(Reason),
    /// The zone's own figures.
    Figures(Figures),
    /// The sender wishes a change.
    Wish {
        /// The name of the other zone that it is about.
        to: ZoneName,
        /// The deed.
        deed: WishDeed,
        /// Cores.
        cores: u32,
        /// Lots.
        lots: u32,
    },
}

/// A zone's name in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneName([u64; 4]);

impl ZoneName {
    /// Writes a name down; `None` if it has more than 32 bytes.
    #[must_use]
    pub fn new(name: &str) -> Option<ZoneName> {
        let Keeper([a, b, c, d, ..]) = Keeper::new(name);
        (name.len() <= 32).then_some(ZoneName([a, b, c, d]))
    }
}

impl core::fmt::Display for ZoneName {
    /// Writes the name; a zone may say anything, so only plain characters of it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let ZoneName([a, b, c, d]) = *self;
        core::fmt::Display::fmt(&Keeper([a, b, c, d, 0, 0]), f)
    }
}

/// The reason why a zone did not do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It is in use, and did not become free in time.
    InUse,
    /// It is the last one, or one that the kernel itself stands on.
    Resident,
    /// The zone does not have it.
    NotMine,
    /// There is no room for one more.
    NoRoom,
    /// This kernel cannot do that.
    Unable,
    /// This work keeps it, and did not end in time.
    Kept(Keeper),
    /// The zone cannot use it now: why, in words of its kernel.
    Needs(Keeper),
}

/// The work that keeps a part, in words of the zone's kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keeper([u64; 6]);

impl Keeper {
    /// Notes as much of the words as there is room for: 48 bytes.
    #[must_use]
    pub fn new(words: &str) -> Keeper {
        let mut all = [0; 6];
        for (place, bytes) in all.iter_mut().zip(words.as_bytes().chunks(8)) {
            let mut one = [0; 8];
            one.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
            *place = u64::from_le_bytes(one);
        }
        Keeper(all)
    }
}

impl core::fmt::Display for Keeper {
    /// Writes the words; a zone may say anything, so only plain characters of them.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let bytes = self.0.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
        bytes.filter(|byte| matches!(byte, b' '..=b'~')).try_for_each(|byte| f.write_char(char::from(byte)))
    }
}

/// A zone's own figures: the first is the sum of the three that follow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Cycles of its cores since they came.
    pub elapsed_cycles: u64,
    /// Of these, for its tenants and its infrastructure.
    pub handling_cycles: u64,
    /// Of these, choosing work and in interrupts.
    pub overhead_cycles: u64,
    /// Of these, halted.
    pub idle_cycles: u64,
    /// Memory in use.
    pub used_bytes: u64,
    /// Memory free.
    pub free_bytes: u64,
}

impl ToZone {
    /// Writes the message down.
    #[must_use]
    pub fn encode(self, token: u32) -> Message {
        let (kind, words) = match self {
            ToZone::CoreAsk { core, within_ms } => (1, [core.map_or(ANY, u64::from), u64::from(within_ms), 0]),
            ToZone::CoreOffer { core, slot } => (2, [u64::from(core), u64::from(slot), 0]),
            ToZone::LotAsk { lots, within_ms } => (3, [u64::from(lots), u64::from(within_ms), 0]),
            ToZone::LotOffer { lots, left } => (4, lot_words(lots, left)),
            ToZone::DeviceAsk(device) => (5, device_words(device)),
            ToZone::DeviceOffer(device) => (6, device_words(device)),
            ToZone::End(grace_ms) => (7, [u64::from(grace_ms), 0, 0]),
            ToZone::FiguresAsk => (8, [0; 3]),
            ToZone::WishDone => (9, [0; 3]),
            ToZone::WishRefused(Keeper(words)) => return Message { kind: 10, token, words, ..Message::default() },
            ToZone::LinkOffer(offer) => return Message { kind: 11, token, words: offer.words(), ..Message::default() },
            ToZone::LinkDown(peer) => (12, [u64::from(peer), 0, 0]),
            ToZone::LinkForget(peer) => (13, [u64::from(peer), 0, 0]),
            ToZone::DiskOffer(DiskOffer { lot, core, disks }) => (16, [lot, u64::from(core), u64::from(disks)]),
        };
        line(kind, token, words)
    }

    /// Reads a message; `None` for whatever is none.
    #[must_use]
    pub fn decode(message: &Message) -> Option<ToZone> {
        let [first, second, third, ..] = message.words;
        Some(match message.kind {
            1 if first == ANY => ToZone::CoreAsk { core: None, within_ms: small(second)? },
            1 => ToZone::CoreAsk { core: Some(small(first)?), within_ms: small(second)? },
            2 => ToZone::CoreOffer { core: small(first)?, slot: small(second)? },
            3 => ToZone::LotAsk { lots: small(first)?, within_ms: small(second)? },
            4 => ToZone::LotOffer { lots: lots(first, second)?, left: small(third)? },
            5 => ToZone::DeviceAsk(device([first, second, third])?),
            6 => ToZone::DeviceOffer(device([first, second, third])?),
            7 => ToZone::End(small(first)?),
            8 => ToZone::FiguresAsk,
            9 => ToZone::WishDone,
            10 => ToZone::WishRefused(Keeper(message.words)),
            11 => ToZone::LinkOffer(LinkOffer::of(message.words)?),
            12 => ToZone::LinkDown(u16::try_from(first).ok()?),
            13 => ToZone::LinkForget(u16::try_from(first).ok()?),
            16 => ToZone::DiskOffer(DiskOffer { lot: first, core: small(second)?, disks: u16::try_from(third).ok()? }),
            _ => return None,
        })
    }
}

impl FromZone {
    /// Writes the message down.
    #[must_use]
    pub fn encode(self, token: u32) -> Message {
        let (kind, words) = match self {
            FromZone::Hello(version) => (33, [u64::from(version), 0, 0]),
            FromZone::CoreGiven(core) => (34, [u64::from(core), 0, 0]),
            FromZone::LotGiven { lots, left } => (35, lot_words(lots, left)),
            FromZone::DeviceGiven(device) => (36, device_words(device)),
            FromZone::Taken => (37, [0; 3]),
            FromZone::Refused(Reason::Needs(Keeper(words))) => {
                return Message { kind: 42, token, words, ..Message::default() };
            }
            FromZone::Refused(Reason::Kept(Keeper(words))) => {
                return Message { kind: 41, token, words, ..Message::default() };
            }
            FromZone::Refused(reason) => (38, [reason.number(), 0, 0]),
            FromZone::Figures(figures) => {
                return Message { kind: 39, token, words: figures.words(), ..Message::default() };
            }
            FromZone::Wish { to: ZoneName([a, b, c, d]), deed, cores, lots } => {
                let words = [a, b, c, d, deed_number(deed) << 32 | u64::from(cores), u64::from(lots)];
                return Message { kind: 40, token, words, ..Message::default() };
            }
        };
        line(kind, token, words)
    }

    /// Reads a message; `None` for whatever is none.
    #[must_use]
    pub fn decode(message: &Message) -> Option<FromZone> {
        let [first, second, third, ..] = message.words;
        Some(match message.kind {
            33 => FromZone::Hello(small(first)?),
            34 => FromZone::CoreGiven(small(first)?),
            35 => FromZone::LotGiven { lots: lots(first, second)?, left: small(third)? },
            36 => FromZone::DeviceGiven(device([first, second, third])?),
            37 => FromZone::Taken,
            38 => FromZone::Refused(Reason::of(first)?),
            39 => FromZone::Figures(Figures::of(message.words)),
            40 => {
                let [a, b, c, d, first, lots] = message.words;
                let deed = *WishDeed::ALL.get(usize::try_from(first >> 32).ok()?)?;
                FromZone::Wish { to: ZoneName([a, b, c, d]), deed, cores: first as u32, lots: small(lots)? }
            }
            41 => FromZone::Refused(Reason::Kept(Keeper(message.words))),
            42 => FromZone::Refused(Reason::Needs(Keeper(message.words))),
            _ => return None,
        })
    }
}

impl LinkOffer {
    fn words(self) -> [u64; 6] {
        let second = u64::from(self.end == LinkEnd::Second);
        [u64::from(self.peer), self.lot, u64::from(self.core), second, 0, 0]
    }

    fn of(words: [u64; 6]) -> Option<LinkOffer> {
        let [peer, lot, core, end, ..] = words;
        let end = match end {
            0 => LinkEnd::First,
            1 => LinkEnd::Second,
            _ => return None,
        };
        Some(LinkOffer { peer: u16::try_from(peer).ok()?, lot, core: small(core)?, end })
    }
}

const REASONS: [Reason; 5] = [Reason::InUse, Reason::Resident, Reason::NotMine, Reason::NoRoom, Reason::Unable];

impl Reason {
    fn number(self) -> u64 {
        REASONS.iter().position(|reason| *reason == self).unwrap_or(0) as u64
    }

    fn of(word: u64) -> Option<Reason> {
        REASONS.get(usize::try_from(word).ok()?).copied()
    }
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Reason::Kept(keeper) => return write!(f, "{keeper} keeps it"),
            Reason::Needs(words) => return write!(f, "{words}"),
            Reason::InUse => "it is in use",
            Reason::Resident => "the kernel stands on it",
            Reason::NotMine => "the zone does not have it",
            Reason::NoRoom => "the zone has no room for it",
            Reason::Unable => "the zone's kernel cannot give or take such parts while it runs",
        })
    }
}

impl Figures {
    /// Returns true if the parts of the elapsed cycles are the whole.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let sum = u128::from(self.handling_cycles).saturating_add(u128::from(self.overhead_cycles));
        sum.saturating_add(u128::from(self.idle_cycles)) == u128::from(self.elapsed_cycles)
    }

    fn words(self) -> [u64; 6] {
        let Figures { elapsed_cycles, handling_cycles, overhead_cycles, idle_cycles, used_bytes, free_bytes } = self;
        [elapsed_cycles, handling_cycles, overhead_cycles, idle_cycles, used_bytes, free_bytes]
    }

    fn of(words: [u64; 6]) -> Figures {
        let [elapsed_cycles, handling_cycles, overhead_cycles, idle_cycles, used_bytes, free_bytes] = words;
        Figures { elapsed_cycles, handling_cycles, overhead_cycles, idle_cycles, used_bytes, free_bytes }
    }
}

fn deed_number(deed: WishDeed) -> u64 {
    WishDeed::ALL.iter().position(|one| *one == deed).unwrap_or(0) as u64
}

fn line(kind: u16, token: u32, words: [u64; 3]) -> Message {
    let [first, second, third] = words;
    Message { kind, token, words: [first, second, third, 0, 0, 0], ..Message::default() }
}

fn small(word: u64) -> Option<u32> {
    u32::try_from(word).ok()
}

fn lot_words(lots: Lots, left: u32) -> [u64; 3] {
    [lots.first, u64::from(lots.count), u64::from(left)]
}

fn lots(first: u64, count: u64) -> Option<Lots> {
    first.checked_add(count)?;
    Some(Lots { first, count: small(count).filter(|count| *count > 0)? })
}

fn device_words(device: PciAddress) -> [u64; 3] {
    [u64::from(device.bus), u64::from(device.device), u64::from(device.function)]
}

fn device(words: [u64; 3]) -> Option<PciAddress> {
    let [bus, device, function] = words.map(u8::try_from);
    let (device, function) = (device.ok().filter(|number| *number < 32)?, function.ok().filter(|number| *number < 8)?);
    Some(PciAddress { bus: bus.ok()?, device, function })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_written_is_read_and_belongs_to_one_side() {
        let device = PciAddress { bus: 1, device: 31, function: 7 };
        let lots = Lots { first: 300, count: 4 };
        let to = [
            ToZone::CoreAsk { core: None, within_ms: 100 },
            ToZone::CoreAsk { core: Some(3), within_ms: u32::MAX },
            ToZone::CoreOffer { core: 3, slot: 1 },
            ToZone::LotAsk { lots: 9, within_ms: 100 },
            ToZone::LotOffer { lots, left: 2 },
            ToZone::DeviceAsk(device),
            ToZone::DeviceOffer(device),
            ToZone::End(500),
            ToZone::FiguresAsk,
            ToZone::WishDone,
            ToZone::WishRefused(Keeper::new("zone batch is absent")),
            ToZone::LinkOffer(LinkOffer { peer: 8, lot: 2047, core: 254, end: LinkEnd::Second }),
            ToZone::LinkOffer(LinkOffer { peer: 0, lot: 0, core: 0, end: LinkEnd::First }),
            ToZone::LinkDown(8),
            ToZone::LinkForget(8),
            ToZone::DiskOffer(DiskOffer { lot: 2047, core: 254, disks: 3 }),
        ];
        for message in to {
            assert_eq!(ToZone::decode(&message.encode(7)), Some(message));
            assert_eq!((message.encode(7).token, FromZone::decode(&message.encode(7))), (7, None));
        }
        let figures =
            Figures { elapsed_cycles: 6, handling_cycles: 1, overhead_cycles: 2, idle_cycles: 3, ..Figures::default() };
        let mut from = alloc::vec![
            FromZone::Hello(VERSION),
            FromZone::CoreGiven(2),
            FromZone::LotGiven { lots, left: 0 },
            FromZone::DeviceGiven(device),
            FromZone::Taken,
            FromZone::Figures(figures),
        ];
        let to = ZoneName::new("a-name-of-thirty-one-characters").unwrap();
        from.extend(WishDeed::ALL.map(|deed| FromZone::Wish { to, deed, cores: u32::MAX, lots: 3 }));
        from.extend(REASONS.map(FromZone::Refused));
        from.push(FromZone::Refused(Reason::Kept(Keeper::new("work of gold at files"))));
        from.push(FromZone::Refused(Reason::Needs(Keeper::new("no driver"))));
        for message in from {
            assert_eq!(FromZone::decode(&message.encode(9)), Some(message));
            assert_eq!((message.encode(9).token, ToZone::decode(&message.encode(9))), (9, None));
        }
        assert!(figures.adds_up() && !Figures { idle_cycles: u64::MAX, ..figures }.adds_up());
    }

    #[test]
    fn nonsense_is_no_message() {
        let wild = |kind: u16| Message { kind, words: [u64::MAX; 6], ..Message::default() };
        let read = |kind| (ToZone::decode(&wild(kind)), FromZone::decode(&wild(kind)));
        let kept: alloc::vec::Vec<u16> = (0..=u16::MAX).filter(|kind| read(*kind) != (None, None)).collect();
        assert_eq!(kept, [8, 9, 10, 37, 39, 41, 42], "those that carry no number, or any");
    }

    #[test]
    fn words_of_a_zone_are_cut_and_plain() {
        let said = |words: &str| alloc::format!("{}", Keeper::new(words));
        assert_eq!(said("work of gold at files"), "work of gold at files");
        assert_eq!(said("\u{1b}[2Jgold\n"), "[2Jgold");
        assert_eq!(said(&"x".repeat(100)), "x".repeat(48));
        assert_eq!(alloc::format!("{}", Keeper([u64::MAX; 6])), "");
    }
}
