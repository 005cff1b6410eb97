//! Shared memory by number (shmget(2), shmat(2), shmctl(2)): each tenant has numbers and keys of its own.
//!
//! A segment that was removed lives as long as it is attached somewhere; until then it can be attached by its number,
//! as on Linux. Attachments are not counted: the mappings hold the memory, and the table holds it until the removal.
//! Rights are those of the segment's mode (4 read, 2 write), for owner, group and others.
//!
//! States: present (it has a key or IPC_PRIVATE), removed (no key, attachable by number), gone (no attachment;
//! [`Table`] forgets it at the next look). A removed key is free at once. The table's lock is never held across a
//! wait: shmat copies what it needs, then maps.

use super::segment_locks::{Locker, Locks};
use super::{PAGE, rights};
use crate::file::permission::Asker;
use crate::ipc::ids::{Entry, Ids, Request};
use crate::ipc::{LIMITS, LINES_AT_ONCE, READ, REMOVE, SET, STATUS, WRITE, now_s, permission};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use gyre_address_space::{MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_object::TenantLock;
use linux_raw_sys::general as raw;

const HUGE_PAGES: u32 = 0o4000;
const READ_ONLY: u32 = 0o10_000;
const ROUND: u32 = 0o20_000;
const REMAP: u32 = 0o40_000;
const EXECUTE: u32 = 0o100_000;
/// Commands of shmctl (linux/shm.h).
const STATUS_AT: u32 = 13;
const INFO: u32 = 14;
const STATUS_AT_ANY: u32 = 15;
const LOCK: u32 = 11;
const UNLOCK: u32 = 12;
/// Shown in the mode of a segment that is removed (SHM_DEST), and of one that is locked (SHM_LOCKED).
const REMOVED: u32 = 0o1000;
const LOCKED: u32 = 0o2000;
/// Segments of a tenant (Linux: SHMMNI).
pub const SEGMENTS_MAX: usize = 4096;
/// Largest segment: the most bytes of one mapping.
pub const BYTES_MAX: u64 = 1 << 46;

/// A segment.
pub(crate) struct Segment {
    bytes: u64,
    /// The segment's own hold of its memory; none once it is removed.
    held: Option<Arc<SharedMemory>>,
    memory: Weak<SharedMemory>,
    attached_s: u64,
    detached_s: u64,
    changed_s: u64,
    processes: (i32, i32),
    /// The user that locked it.
    locked_by: Option<u32>,
}

#[derive(Default)]
struct Table {
    segments: Ids<Segment>,
    locks: Locks,
    /// Those that are removed and were attached at the last look.
    removed: Vec<u32>,
}

/// The segments of a tenant.
#[derive(Default)]
pub struct Segments(TenantLock<Table>);

impl Segment {
    fn new(bytes: u64, process: i32, count: &Arc<AtomicU64>) -> Segment {
        let memory = Arc::new(SharedMemory::counted(count));
        Segment {
            bytes,
            memory: Arc::downgrade(&memory),
            held: Some(memory),
            attached_s: 0,
            detached_s: 0,
            changed_s: now_s(),
            processes: (process, 0),
            locked_by: None,
        }
    }

    /// Returns the bits that the mode shows of a segment that is removed or locked.
    fn mark(&self) -> u32 {
        let removed = if self.held.is_none() { REMOVED } else { 0 };
        removed | if self.locked_by.is_some() { LOCKED } else { 0 }
    }

    fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE)
    }

    /// Returns the attachments: each mapping holds the memory, and a mapping that was split holds it more than once.
    fn attachments(&self) -> usize {
        self.memory.strong_count().saturating_sub(usize::from(self.held.is_some()))
    }
}

/// Returns a segment as `struct shmid_ds` of x86-64: 112 bytes.
fn encode(entry: &Entry<Segment>) -> [u8; 112] {
    let (mut out, segment) = ([0; 112], &entry.item);
    let words = [segment.bytes, segment.attached_s, segment.detached_s, segment.changed_s];
    let processes = [segment.processes.0.cast_unsigned(), segment.processes.1.cast_unsigned()];
    let parts = entry.permission.encode(entry.sequence(), segment.mark()).into_iter();
    let parts = parts.chain(words.into_iter().flat_map(u64::to_le_bytes));
    let parts = parts.chain(processes.into_iter().flat_map(u32::to_le_bytes));
    let parts = parts.chain((segment.attachments() as u64).to_le_bytes());
    out.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    out
}

impl Table {
    /// Forgets removed segments that are attached nowhere.
    fn tidy(&mut self) {
        let (segments, locks) = (&mut self.segments, &mut self.locks);
        self.removed.retain(|number| {
            let is_attached = segments.find(*number).is_ok_and(|entry| entry.item.memory.strong_count() > 0);
            if !is_attached
                && let Some(Segment { locked_by: Some(user), bytes, .. }) =
                    segments.remove(*number).map(|entry| entry.item)
            {
                locks.remove(user, bytes.div_ceil(PAGE));
            }
            is_attached
        });
    }

    fn find(&mut self, number: u32) -> Result<&mut Entry<Segment>, Errno> {
        self.tidy();
        self.segments.find(number)
    }
}

/// The first line of /proc/sysvipc/shm.
pub(crate) const HEAD: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n";

impl Segments {
    /// Takes all segments out of the table.
    pub(crate) fn take_all(&self) -> Ids<Segment> {
        core::mem::take(&mut *self.0.lock()).segments
    }

    /// Returns lines of /proc/sysvipc/shm (proc(5)) from an index on.
    pub(crate) fn lines(&self, first: u32) -> Vec<(u32, String)> {
        let mut table = self.0.lock();
        table.tidy();
        table.segments.lines(first, LINES_AT_ONCE, line)
    }
}

fn line(entry: &Entry<Segment>) -> String {
    let (who, one) = (entry.permission, &entry.item);
    format!(
        "{:10} {:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {:21} {:21}\n",
        who.key.cast_signed(),
        entry.number(),
        who.mode | one.mark(),
        one.bytes,
        one.processes.0,
        one.processes.1,
        one.attachments(),
        who.owner.0,
        who.owner.1,
        who.maker.0,
        who.maker.1,
        one.attached_s,
        one.detached_s,
        one.changed_s,
        0,
        0
    )
}

/// `shmget(key, bytes, flags)`.
pub fn shmget(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (bytes, flags) = (a.word(1), a.unsigned(2));
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().segments.0.lock();
    table.tidy();
    let request = Request { asker: &asker, key: a.unsigned(0), flags, most: SEGMENTS_MAX };
    let fits = |segment: &Segment| if bytes > segment.bytes { Err(Errno::EINVAL) } else { Ok(()) };
    let make = || match bytes == 0 || bytes > BYTES_MAX || flags & HUGE_PAGES != 0 {
        true => Err(Errno::EINVAL),
        false => Ok(Segment::new(bytes, thread.process().id(), &thread.tenant().shared_pages)),
    };
    Ok(u64::from(table.segments.get(&request, fits, make)?))
}

/// `shmat(number, address, flags)`.
pub async fn shmat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (address, flags) = (a.word(1), a.unsigned(2));
    let mut protection = raw::PROT_READ;
    let mut wanted = READ;
    if flags & READ_ONLY == 0 {
        (protection, wanted) = (protection | raw::PROT_WRITE, wanted | WRITE);
    }
    if flags & EXECUTE != 0 {
        protection |= raw::PROT_EXEC;
    }
    let start = if flags & ROUND != 0 { address & !(PAGE - 1) } else { address };
    if !start.is_multiple_of(PAGE) || start == 0 && flags & REMAP != 0 {
        return Err(Errno::EINVAL);
    }
    let (bytes, memory) = {
        let mut table = thread.tenant().segments.0.lock();
        let entry = table.find(a.unsigned(0))?;
        entry.permission.check(&Asker::effective(thread), wanted)?;
        let segment = &mut entry.item;
        (segment.attached_s, segment.processes.1) = (now_s(), thread.process().id());
        (segment.bytes, segment.memory.upgrade().ok_or(Errno::EINVAL)?)
    };
    let place = match (start, flags & REMAP != 0) {
        (0, _) => Place::Anywhere(0),
        (start, true) => Place::Fixed(start),
        (start, false) => Place::FixedNew(start),
    };
    let request = MapRequest {
        place,
        bytes,
        rights: rights(protection)?,
        rights_max: if flags & READ_ONLY == 0 { Rights::all() } else { Rights::READ | Rights::EXECUTE },
        options: Options::SHARED,
        provider: Provider::Memory(memory),
        first_index: PageIndex::FIRST,
    };
    match thread.space().map(request).await.map_err(Errno::from) {
        Err(Errno::EEXIST) => Err(Errno::EINVAL),
        outcome => outcome,
    }
}

/// `shmdt(address)`.
pub async fn shmdt(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let memory = thread.space().shared_memory_at(a.word(0)).ok_or(Errno::EINVAL)?;
    let bytes = {
        let mut table = thread.tenant().segments.0.lock();
        let is_it = |segment: &&mut Segment| core::ptr::eq(segment.memory.as_ptr(), Arc::as_ptr(&memory));
        let segment = table.segments.items_mut().find(is_it).ok_or(Errno::EINVAL)?;
        (segment.detached_s, segment.processes.1) = (now_s(), thread.process().id());
        segment.bytes
    };
    thread.space().unmap_shared(a.word(0), bytes, &memory).await?;
    Ok(0)
}

/// `shmctl(number, command, argument)`.
pub async fn shmctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    match a.unsigned(1) {
        LIMITS => tell_limits(thread, a).await,
        INFO => tell_sums(thread, a).await,
        STATUS | STATUS_AT | STATUS_AT_ANY => tell_status(thread, a).await,
        SET => change(thread, a).await,
        REMOVE => remove(thread, a),
        LOCK => lock(thread, a),
        UNLOCK => unlock(thread, a),
        _ => Err(Errno::EINVAL),
    }
}

/// Writes `struct shminfo64`: the most bytes of a segment, the fewest, the most segments, those of a process, pages of
/// all.
async fn tell_limits(thread: &Thread, a: Arguments) -> Outcome {
    let segments = SEGMENTS_MAX as u64;
    let limits = [BYTES_MAX, 1, segments, segments, segments.saturating_mul(BYTES_MAX / PAGE), 0, 0, 0, 0];
    let bytes: Vec<u8> = limits.into_iter().flat_map(u64::to_le_bytes).collect();
    let highest = thread.tenant().segments.0.lock().segments.highest();
    thread.copy_out(a.word(2), &bytes).await?;
    Ok(highest)
}

/// Writes `struct shm_info`: how many segments there are, and their pages.
async fn tell_sums(thread: &Thread, a: Arguments) -> Outcome {
    let (highest, count, pages) = {
        let mut table = thread.tenant().segments.0.lock();
        table.tidy();
        let pages = table.segments.iter().map(|entry| entry.item.pages()).fold(0, u64::saturating_add);
        (table.segments.highest(), table.segments.count() as u64, pages)
    };
    let bytes: Vec<u8> = [count, pages, 0, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect();
    thread.copy_out(a.word(2), &bytes).await?;
    Ok(highest)
}

async fn tell_status(thread: &Thread, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let (status, number) = {
        let mut table = thread.tenant().segments.0.lock();
        table.tidy();
        let entry = match a.unsigned(1) {
            STATUS => table.segments.find(a.unsigned(0))?,
            _ => table.segments.at(a.unsigned(0))?,
        };
        if a.unsigned(1) != STATUS_AT_ANY {
            entry.permission.check(&asker, READ)?;
        }
        (encode(entry), entry.number())
    };
    thread.copy_out(a.word(2), &status).await?;
    Ok(if a.unsigned(1) == STATUS { 0 } else { u64::from(number) })
}

async fn change(thread: &Thread, a: Arguments) -> Outcome {
    let wish = thread.read_vec(a.word(2), permission::BYTES).await?;
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().segments.0.lock();
    let entry = table.find(a.unsigned(0))?;
    entry.permission.check_owner(&asker)?;
    entry.permission.set(&wish)?;
    entry.item.changed_s = now_s();
    Ok(0)
}

/// Locks a segment; nothing if it is locked already, whoever did.
fn lock(thread: &Thread, a: Arguments) -> Outcome {
    let locker = Locker::of(thread);
    let mut table = thread.tenant().segments.0.lock();
    table.tidy();
    let Table { segments, locks, .. } = &mut *table;
    let entry = segments.find(a.unsigned(0))?;
    locker.check(|asker| entry.permission.is_owned_by(asker))?;
    locker.check_limit()?;
    if entry.item.locked_by.is_none() {
        locks.add(&locker, entry.item.pages())?;
        entry.item.locked_by = Some(locker.user);
    }
    Ok(0)
}

fn unlock(thread: &Thread, a: Arguments) -> Outcome {
    let locker = Locker::of(thread);
    let mut table = thread.tenant().segments.0.lock();
    table.tidy();
    let Table { segments, locks, .. } = &mut *table;
    let entry = segments.find(a.unsigned(0))?;
    locker.check(|asker| entry.permission.is_owned_by(asker))?;
    if let Some(user) = entry.item.locked_by.take() {
        locks.remove(user, entry.item.pages());
    }
    Ok(0)
}

fn remove(thread: &Thread, a: Arguments) -> Outcome {
    let asker = Asker::effective(thread);
    let mut table = thread.tenant().segments.0.lock();
    let entry = table.find(a.unsigned(0))?;
    entry.permission.check_owner(&asker)?;
    let held = entry.item.held.take();
    if held.is_some() {
        table.removed.push(a.unsigned(0));
    }
    // Its key may be had by another one from here on.
    table.segments.forget_key(a.unsigned(0));
    // The memory may be large: it is given up without the lock. The next look forgets the segment.
    drop(table);
    drop(held);
    Ok(0)
}
