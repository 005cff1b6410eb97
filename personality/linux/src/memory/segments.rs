//! Shared memory by number (shmget(2), shmat(2), shmctl(2)): each tenant has numbers and keys of its own.
//!
//! A segment that was removed lives as long as it is attached somewhere; until then it can be attached by its number,
//! as on Linux. Attachments are not counted: the mappings hold the memory, and the table holds it until the removal.
//! Rights are those of the segment's mode (4 read, 2 write), for owner, group and others.
//!
//! States: present (it has a key or IPC_PRIVATE), removed (no key, attachable by number), gone (no attachment;
//! [`Table`] forgets it at the next look). A removed key is free at once. The table's lock is never held across a
//! wait: shmat copies what it needs, then maps.

use super::{PAGE, rights};
use crate::credentials::Capability;
use crate::file::permission::Asker;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use gyre_address_space::{MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_object::TenantLock;
use linux_raw_sys::general as raw;

const CREATE: u32 = 0o1000;
const HUGE_PAGES: u32 = 0o4000;
const EXCLUSIVE: u32 = 0o2000;
const READ_ONLY: u32 = 0o10_000;
const ROUND: u32 = 0o20_000;
const REMAP: u32 = 0o40_000;
const EXECUTE: u32 = 0o100_000;
/// Commands of shmctl.
const REMOVE: u32 = 0;
const SET: u32 = 1;
const STATUS: u32 = 2;
/// Shown in the mode of a segment that is removed (SHM_DEST).
const REMOVED: u32 = 0o1000;
/// Segments of a tenant (Linux: SHMMNI).
pub const SEGMENTS_MAX: usize = 4096;
/// Largest segment: the most bytes of one mapping.
pub const BYTES_MAX: u64 = 1 << 46;

#[derive(Clone)]
struct Segment {
    key: u32,
    bytes: u64,
    owner: (u32, u32),
    maker: (u32, u32),
    mode: u32,
    /// The segment's own hold of its memory; none once it is removed.
    held: Option<Arc<SharedMemory>>,
    memory: Weak<SharedMemory>,
    attached_s: u64,
    detached_s: u64,
    changed_s: u64,
    processes: (i32, i32),
}

#[derive(Default)]
struct Table {
    segments: BTreeMap<u32, Segment>,
    last: u32,
}

/// The segments of a tenant.
#[derive(Default)]
pub struct Segments(TenantLock<Table>);

impl Segment {
    /// Returns whether the mode gives these rights: 4 to read, 2 to write.
    fn allows(&self, asker: &Asker, wanted: u32) -> bool {
        let part = match () {
            () if asker.has(Capability::IpcOwner) => return true,
            () if asker.user == self.owner.0 || asker.user == self.maker.0 => self.mode >> 6,
            () if asker.in_group(self.owner.1) || asker.in_group(self.maker.1) => self.mode >> 3,
            () => self.mode,
        };
        part & wanted == wanted
    }

    fn owns(&self, asker: &Asker) -> bool {
        asker.has(Capability::SysAdmin) || asker.user == self.owner.0 || asker.user == self.maker.0
    }

    /// Returns the attachments: each mapping holds the memory, and a mapping that was split holds it more than once.
    fn attachments(&self) -> usize {
        self.memory.strong_count().saturating_sub(usize::from(self.held.is_some()))
    }

    /// Returns the segment as `struct shmid_ds` of x86-64: 112 bytes.
    fn encode(&self) -> [u8; 112] {
        let mut out = [0; 112];
        let removed = if self.held.is_none() { REMOVED } else { 0 };
        let head = [self.key, self.owner.0, self.owner.1, self.maker.0, self.maker.1, self.mode | removed];
        let words = [self.bytes, self.attached_s, self.detached_s, self.changed_s];
        let processes = [self.processes.0.cast_unsigned(), self.processes.1.cast_unsigned()];
        let parts = head.into_iter().flat_map(u32::to_le_bytes).chain([0; 24]);
        let parts = parts.chain(words.into_iter().flat_map(u64::to_le_bytes));
        let parts = parts.chain(processes.into_iter().flat_map(u32::to_le_bytes));
        let parts = parts.chain((self.attachments() as u64).to_le_bytes());
        out.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
        out
    }
}

impl Table {
    /// Forgets removed segments that are attached nowhere.
    fn tidy(&mut self) {
        self.segments.retain(|_, segment| segment.memory.strong_count() > 0);
    }

    fn find(&mut self, number: u32) -> Result<&mut Segment, Errno> {
        self.tidy();
        self.segments.get_mut(&number).ok_or(Errno::EINVAL)
    }
}

impl Segments {
    /// Returns the text of /proc/sysvipc/shm (proc(5)).
    pub(crate) fn text(&self) -> String {
        let head = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n";
        let line = |(number, one): (&u32, &Segment)| {
            let removed = if one.held.is_none() { REMOVED } else { 0 };
            format!(
                "{:10} {number:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {:21} {:21}\n",
                one.key.cast_signed(),
                one.mode | removed,
                one.bytes,
                one.processes.0,
                one.processes.1,
                one.attachments(),
                one.owner.0,
                one.owner.1,
                one.maker.0,
                one.maker.1,
                one.attached_s,
                one.detached_s,
                one.changed_s,
                0,
                0
            )
        };
        let mut table = self.0.lock();
        table.tidy();
        core::iter::once(String::from(head)).chain(table.segments.iter().map(line)).collect()
    }
}

fn now_s() -> u64 {
    gyre_machine::wall_clock_ns() / 1_000_000_000
}

/// `shmget(key, bytes, flags)`.
pub fn shmget(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (key, bytes, flags) = (a.unsigned(0), a.word(1), a.unsigned(2));
    let asker = Asker::of(thread);
    let mut table = thread.tenant().segments.0.lock();
    table.tidy();
    let known = table.segments.iter().find(|(_, segment)| key != 0 && segment.key == key && segment.held.is_some());
    if let Some((number, segment)) = known {
        let wanted = (flags | flags >> 3 | flags >> 6) & 6;
        return match () {
            () if flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE => Err(Errno::EEXIST),
            () if !segment.allows(&asker, wanted) => Err(Errno::EACCES),
            () if bytes > segment.bytes => Err(Errno::EINVAL),
            () => Ok(u64::from(*number)),
        };
    }
    if key != 0 && flags & CREATE == 0 {
        return Err(Errno::ENOENT);
    }
    if bytes == 0 || bytes > BYTES_MAX || flags & HUGE_PAGES != 0 {
        return Err(Errno::EINVAL);
    }
    if table.segments.len() >= SEGMENTS_MAX {
        return Err(Errno::ENOSPC);
    }
    let memory = Arc::new(SharedMemory::default());
    let number = (1..)
        .map(|step| table.last.wrapping_add(step) & 0x7fff_ffff)
        .find(|number| !table.segments.contains_key(number));
    table.last = number.unwrap_or(0);
    let segment = Segment {
        key,
        bytes,
        owner: (asker.user, asker.group),
        maker: (asker.user, asker.group),
        mode: flags & 0o777,
        memory: Arc::downgrade(&memory),
        held: Some(memory),
        attached_s: 0,
        detached_s: 0,
        changed_s: now_s(),
        processes: (thread.process().id(), 0),
    };
    let number = table.last;
    table.segments.insert(number, segment);
    Ok(u64::from(number))
}

/// `shmat(number, address, flags)`.
pub async fn shmat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (address, flags) = (a.word(1), a.unsigned(2));
    let mut protection = raw::PROT_READ;
    let mut wanted = 4;
    if flags & READ_ONLY == 0 {
        (protection, wanted) = (protection | raw::PROT_WRITE, wanted | 2);
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
        let segment = table.find(a.unsigned(0))?;
        if !segment.allows(&Asker::of(thread), wanted) {
            return Err(Errno::EACCES);
        }
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
        let segment = table.segments.values_mut().find(is_it).ok_or(Errno::EINVAL)?;
        (segment.detached_s, segment.processes.1) = (now_s(), thread.process().id());
        segment.bytes
    };
    thread.space().unmap_shared(a.word(0), bytes, &memory).await?;
    Ok(0)
}

/// `shmctl(number, command, status)`: IPC_RMID, IPC_SET, IPC_STAT.
pub async fn shmctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let asker = Asker::of(thread);
    let table = &thread.tenant().segments.0;
    match a.unsigned(1) {
        STATUS => {
            let status = {
                let mut table = table.lock();
                let segment = table.find(a.unsigned(0))?;
                if !segment.allows(&asker, 4) {
                    return Err(Errno::EACCES);
                }
                segment.encode()
            };
            thread.copy_out(a.word(2), &status).await?;
        }
        SET => {
            let wish = thread.read_vec(a.word(2), 24).await?;
            let field =
                |at: usize| wish.get(at..).and_then(|raw| raw.first_chunk()).map_or(0, |raw| u32::from_le_bytes(*raw));
            let mut table = table.lock();
            let segment = table.find(a.unsigned(0))?;
            if !segment.owns(&asker) {
                return Err(Errno::EPERM);
            }
            (segment.owner, segment.mode) = ((field(4), field(8)), field(20) & 0o777);
            segment.changed_s = now_s();
        }
        REMOVE => {
            let mut table = table.lock();
            let segment = table.find(a.unsigned(0))?;
            if !segment.owns(&asker) {
                return Err(Errno::EPERM);
            }
            // Its key may be had by another one from here on.
            segment.key = 0;
            let held = segment.held.take();
            drop(held);
            table.tidy();
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
