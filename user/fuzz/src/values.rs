//! Arguments from chance: numbers that hurt, names, structures in scratch memory.
//!
//! Rules of chance: most values are good, so that calls get far; some are extremes, wrong addresses, long or odd
//! names. [`Maker::argument`] has an arm for each kind.
//!
//! * Structures lie in scratch memory, some so near its end that they reach over it.
//! * Descriptors come from slots of their kind; an empty slot leads to the next one that is not.
//! * Signals are mostly those that end no process. Masks leave the one that gets a thread out of a call. A process
//!   number is never that of all.
//! * Times are nothing or a moment: a thread that waits long makes no calls.

use fastrand::Rng;

use crate::{
    kinds::{Argument, Field, Kind},
    slots,
    sys::{SCRATCH_BYTES, Scratch},
};

/// The range in which calls map, unmap and write as they like.
pub const PLAYGROUND: u64 = 0x10_0000_0000;
/// Its pages.
pub const PLAYGROUND_PAGES: u64 = 4096;
const PAGE: u64 = 4096;
/// Numbers at which sums and products go over.
const EXTREMES: &[u64] = &[
    0,
    1,
    2,
    7,
    4095,
    4096,
    4097,
    65535,
    65536,
    65537,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    0x7fff_ffff_f000,
    0xfff_ffff_ffff_f000,
    0x4000_0000_0000_0000,
    0x7fff_ffff_ffff_f000,
    0x7fff_ffff_ffff_fffe,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_e000,
    0xffff_ffff_ffff_f000,
    0xffff_ffff_ffff_f001,
    0xffff_ffff_ffff_ffce,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];
const BAD_ADDRESSES: &[u64] = &[
    0,
    1,
    0xffff,
    0x7fff_ffff_efff,
    0x7fff_ffff_f000,
    0x8000_0000_0000,
    0xffff_8000_0000_0000,
    0xffff_ffff_8000_0000,
    u64::MAX,
    u64::MAX - 7,
];
const NAMES: &[&str] = &[
    "f0",
    "f1",
    "f2",
    "d0",
    "d1",
    "d0/f0",
    "d0/d1",
    "d0/d1/f1",
    "l0",
    "l1",
    "s0",
    "s1",
    "p0",
    "x0",
    "x1",
    "d0/../f1",
    ".",
    "..",
    "",
    "/",
    "/tmp",
    "/proc",
    "/proc/self/maps",
    "/proc/self/fd/5",
    "/proc/self/fd/9",
    "/proc/self/fd",
    "/proc/self/exe",
    "/proc/self/mem",
    "/proc/self/stat",
    "/proc/self/status",
    "/proc/self/smaps",
    "/proc/self/cmdline",
    "/proc/self/task",
    "/proc/meminfo",
    "/proc/1/stat",
    "/proc/sys",
    "/proc/self/cwd",
    "/proc/self/oom_score_adj",
    "/proc/mounts",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/urandom",
    "/dev/ptmx",
    "/dev/tty",
    "/dev/pts",
    "/dev/shm/m0",
    "/dev/fd/7",
    "d0/l1/../l0",
    "f0/",
    "d0//./d1/",
];
/// Texts that calls take; also names of queues.
pub const TEXTS: &[&str] = &[
    "",
    "a",
    "user.a",
    "user.b",
    "trusted.x",
    "security.capability",
    "system.posix_acl_access",
    "#!",
    "name with blanks",
    "\u{fffd}",
];

/// Makes arguments.
pub struct Maker {
    /// The sequence.
    pub random: Rng,
    /// The memory that structures lie in.
    pub scratch: Scratch,
    /// Addresses of functions that handle signals and return from handlers.
    pub handler: [u64; 2],
    next: u64,
}

impl Maker {
    /// Makes a maker with a sequence of its own.
    pub fn new(seed: u64, scratch: Scratch, handler: [u64; 2]) -> Self {
        Self { random: Rng::with_seed(seed), scratch, handler, next: scratch.base() }
    }

    /// Six arguments; those that the call does not have are 0.
    pub fn arguments(&mut self, kinds: &[Argument]) -> [u64; 6] {
        self.next = self.scratch.base() + 8 * self.random.u64(0..8);
        let mut all = [0; 6];
        all.iter_mut().zip(kinds).for_each(|(slot, kind)| *slot = self.argument(*kind));
        all
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(0..count) == 0
    }

    fn any<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.random.usize(0..list.len().max(1))).copied()
    }

    /// Returns a number of any size.
    pub fn number(&mut self) -> u64 {
        match self.random.u32(0..10) {
            0..4 => self.random.u64(0..16),
            4..6 => self.random.u64(0..70_000),
            6 => self.random.u64(..),
            7 => self.extreme().wrapping_add(self.random.u64(0..3)).wrapping_sub(1),
            _ => self.extreme(),
        }
    }

    fn extreme(&mut self) -> u64 {
        self.any(EXTREMES).unwrap_or(0)
    }

    /// Returns an argument of a kind.
    pub fn argument(&mut self, kind: Argument) -> u64 {
        match kind {
            Argument::Fd(kind) => self.descriptor(kind as usize),
            Argument::AnyFd => self.any_descriptor(),
            Argument::Loose => self.loose(),
            Argument::Made(kind) => self.made(kind),
            Argument::At => self.at(),
            Argument::Path => self.path(),
            Argument::Text => self.text(),
            Argument::Buffer => self.buffer(),
            Argument::Page => self.page(),
            Argument::Length => self.length(),
            Argument::Offset => self.offset(),
            Argument::Count => self.count(),
            Argument::Depth => self.any(&[1, 3, 10, 40, 100, 250, 600, 1500, 3000]).unwrap_or(1),
            Argument::Number => self.number(),
            Argument::Fixed(value) => value,
            Argument::OneOf(values) => self.one_of(values),
            Argument::Flags(bits) => self.flags(bits),
            Argument::Either(kinds) => self.either(kinds),
            Argument::In(fields) => self.row(fields, 1),
            Argument::Row(fields) => self.some_of(fields),
            Argument::Pointers(fields) => self.pointers(fields),
            Argument::Name => self.socket_name(),
            Argument::Seconds => self.seconds(),
            Argument::Fraction => self.fraction(),
            Argument::Signal => self.signal(),
            Argument::Mask => self.mask(),
            Argument::Handler => self.any(&[0, 1, self.handler[0]]).unwrap_or(0),
            Argument::Restorer => self.handler[1],
            Argument::Pid => self.process(),
            Argument::Owner => self.any(&[0, 1, 65534, 65534, 1000, u64::MAX]).unwrap_or(0),
        }
    }

    fn descriptor(&mut self, kind: usize) -> u64 {
        let (is_other, index, extreme) = (self.one_in(40), self.random.usize(0..slots::SLOTS), self.number());
        let held = slots::get(kind, index);
        // An empty slot: the next one that is not.
        let held = if held == u64::MAX { slots::after(kind, index) } else { held };
        if is_other { extreme } else { held }
    }

    fn any_descriptor(&mut self) -> u64 {
        let kind = self.random.usize(0..Kind::DESCRIPTORS);
        self.descriptor(kind)
    }

    fn loose(&mut self) -> u64 {
        let (kind, index) =
            (self.random.usize(0..Kind::DESCRIPTORS), self.random.usize(slots::FIRST_LOOSE..slots::SLOTS));
        slots::get(kind, index)
    }

    fn made(&mut self, kind: Kind) -> u64 {
        self.descriptor(kind as usize)
    }

    fn at(&mut self) -> u64 {
        let directory = self.descriptor(Kind::Directory as usize);
        if self.random.bool() { libc::AT_FDCWD as u64 } else { directory }
    }

    /// Returns room in the scratch memory; the last bytes of it if nothing is left.
    fn room(&mut self, bytes: u64) -> u64 {
        let end = self.scratch.base() + SCRATCH_BYTES;
        let at = self.next;
        self.next = (at + bytes + 7) & !7;
        if self.next > end { end - bytes.min(PAGE) } else { at }
    }

    /// Seldom an address that is none, in place of a good one.
    fn address(&mut self, good: u64) -> u64 {
        match self.random.u32(0..64) {
            0 => self.any(BAD_ADDRESSES).unwrap_or(0),
            1 => self.page().wrapping_add(self.random.u64(0..PAGE)),
            // So that what lies there goes over the end.
            2 => self.scratch.base() + SCRATCH_BYTES - self.random.u64(1..64),
            _ => good,
        }
    }

    fn path(&mut self) -> u64 {
        let name = self.any(NAMES).unwrap_or("");
        let at = match self.random.u32(0..50) {
            0 => self.long_path(),
            _ => {
                let at = self.room(name.len() as u64 + 1);
                self.scratch.text(at, name.as_bytes());
                at
            }
        };
        self.address(at)
    }

    /// Returns a name, or a path, as long as it may be, or a byte longer.
    fn long_path(&mut self) -> u64 {
        let (bytes, piece) =
            self.any(&[(255, "n"), (256, "n"), (4095, "./"), (4096, "d0/../"), (4000, "/")]).unwrap_or((1, "n"));
        let text: Vec<u8> = piece.bytes().cycle().take(bytes).collect();
        let at = self.room(bytes as u64 + 1);
        self.scratch.text(at, &text);
        at
    }

    fn text(&mut self) -> u64 {
        let text = self.any(TEXTS).unwrap_or("");
        let at = self.room(text.len() as u64 + 1);
        self.scratch.text(at, text.as_bytes());
        self.address(at)
    }

    fn buffer(&mut self) -> u64 {
        let at = self.room(256);
        for index in 0..self.random.u64(0..5) {
            let value = self.number();
            self.scratch.write(at + 8 * index, value, 8);
        }
        self.address(at)
    }

    fn page(&mut self) -> u64 {
        let pages = if self.random.bool() { 16 } else { PLAYGROUND_PAGES };
        let page = PLAYGROUND + PAGE * self.random.u64(0..pages);
        match self.random.u32(0..40) {
            0 => self.extreme(),
            1 => page + self.random.u64(0..PAGE),
            _ => page,
        }
    }

    fn length(&mut self) -> u64 {
        match self.random.u32(0..16) {
            0..6 => self.random.u64(0..256),
            6..10 => PAGE * self.random.u64(0..20),
            10..13 => self.random.u64(0..70_000),
            13 => self.random.u64(0..1 << 23),
            _ => self.extreme(),
        }
    }

    fn offset(&mut self) -> u64 {
        match self.random.u32(0..8) {
            0..3 => PAGE * self.random.u64(0..20),
            3..6 => self.random.u64(0..100_000),
            6 => self.random.u64(0..1 << 33),
            _ => self.extreme(),
        }
    }

    fn count(&mut self) -> u64 {
        if self.one_in(12) { self.number() } else { self.random.u64(0..9) }
    }

    fn one_of(&mut self, values: &[u64]) -> u64 {
        let value = self.any(values).unwrap_or(0);
        if self.one_in(40) { self.number() } else { value }
    }

    fn flags(&mut self, bits: &[u64]) -> u64 {
        if self.one_in(40) {
            return self.number();
        }
        let chosen = self.random.u32(0..4);
        (0..chosen).fold(0, |all, _| all | self.any(bits).unwrap_or(0))
    }

    fn either(&mut self, kinds: &[Argument]) -> u64 {
        match self.any(kinds) {
            Some(kind) => self.argument(kind),
            None => 0,
        }
    }

    /// Structures in a row.
    fn row(&mut self, fields: &[Field], count: u64) -> u64 {
        let bytes: u64 = fields.iter().map(|field| field.bytes).sum();
        let at = self.room(bytes * count);
        let mut place = at;
        for field in (0..count).flat_map(|_| fields) {
            let value = self.argument(field.is);
            self.scratch.write(place, value, field.bytes);
            place += field.bytes;
        }
        self.address(at)
    }

    fn some_of(&mut self, fields: &[Field]) -> u64 {
        let count = self.random.u64(1..9);
        self.row(fields, count)
    }

    fn pointers(&mut self, fields: &[Field]) -> u64 {
        let at = self.room(8 * 8);
        for index in 0..8 {
            let structure = self.row(fields, 1);
            self.scratch.write(at + 8 * index, structure, 8);
        }
        self.address(at)
    }

    /// struct sockaddr_un or sockaddr_in.
    fn socket_name(&mut self) -> u64 {
        let at = self.room(128);
        let (port, host) =
            (20_000 + self.random.u64(0..6), self.any(&[0x0100_007f, 0, 0x0202_000a, 0xffff_ffff]).unwrap_or(0));
        match self.random.u32(0..5) {
            0 => {
                self.scratch.write(at, 1, 2);
                self.scratch.text(at + 2, b"s0");
            }
            1 => self.scratch.write(at, 0x61_0000_0001 + port, 8),
            2 => self.scratch.write(at, self.random.u64(..), 8),
            _ => {
                let port = (port >> 8) | (port & 0xff) << 8;
                self.scratch.write(at, 2 | port << 16 | host << 32, 8);
                self.scratch.write(at + 8, 0, 8);
            }
        }
        self.address(at)
    }

    /// Mostly nothing or a moment: who waits long makes no calls.
    fn seconds(&mut self) -> u64 {
        if self.one_in(8) { self.extreme() } else { 0 }
    }

    fn fraction(&mut self) -> u64 {
        match self.random.u32(0..8) {
            0 => self.extreme(),
            1 => 999_999_999,
            2 => 1,
            3 => 0,
            _ => self.random.u64(0..5_000_000),
        }
    }

    /// Picks a signal, mostly one that ends no process.
    fn signal(&mut self) -> u64 {
        let mild = self.any(&[0, 17, 18, 23, 28, 12, 34, 35, 40, 64, 13]).unwrap_or(0);
        let other = self.number();
        if self.one_in(24) && other != crate::sys::POKE as u64 { other } else { mild }
    }

    /// Makes a mask without the signal that gets a thread out of a call.
    fn mask(&mut self) -> u64 {
        let value = if self.random.bool() { self.random.u64(..) } else { self.number() };
        value & !(1 << (crate::sys::POKE - 1))
    }

    /// Picks oneself, a worker or no process; never all.
    fn process(&mut self) -> u64 {
        let (slot, number) = (self.random.usize(0..slots::SLOTS), self.number());
        let own = crate::sys::short(libc::SYS_getpid as u64, []) as u64;
        match self.random.u32(0..10) {
            0..3 => slots::get(Kind::Child as usize, slot),
            3 => 0,
            // The first process is who reports.
            4 if ![-1, 1].contains(&(number as i32)) => number,
            _ => own,
        }
    }
}
