//! Calls about the cell's disk: the program opens it by its path, reads and writes it as a file.
//!
//! The kernel sees a descriptor of `/dev/null` in its place. Reads come from buffers, and wait for the disk if it has not come yet; writes
//! wait for the disk. They are whole sectors, at whole sectors: EINVAL otherwise, as of a file with O_DIRECT.
//!
//! A call that waits keeps how far it has come in its own arguments; each answer of the disk lets all such threads go on. One of several buffers
//! does the first of them that holds something, which it may (readv(2): it can do less than was asked).
//!
//! Left out: the disk as a source or target of sendfile, splice and the like (EINVAL: programs then read and write), mappings (ENODEV),
//! and descriptors that go to other processes.

use core::sync::atomic::{AtomicU64, Ordering};

use gyre_cell_abi::device::{DEVICE_OPEN, DeviceFacts, DeviceRequest, SECTOR_BYTES};
use linux_raw_sys::general as nr;

use super::{
    Outcome,
    own_file::{self, Named, block},
    vector::{Buffers, Piece},
};
use crate::{
    device::{BUFFER_BYTES, Disk, Files, Grain, Name, RING_ORDER, Ring, SLOTS},
    error::Errno,
    fiber::{Call, FiberId, State},
    machine::Machine,
    memory::Rights,
    runtime::Runtime,
};

/// The file that the kernel has in place of the disk.
static STAND_IN: [u8; 10] = *b"/dev/null\0";
/// Flags of an open that the kernel sees.
const FLAGS: u32 = nr::O_ACCMODE | nr::O_CLOEXEC;
/// Frames of a buffer, as a power of two.
const BUFFER_ORDER: u8 = 4;
const _: () = assert!(4096 << BUFFER_ORDER == BUFFER_BYTES);
/// The size of a block device in bytes, and of its sectors (linux/fs.h).
const BLKGETSIZE64: u32 = 0x8008_1272;
const BLKSSZGET: u32 = 0x1268;
/// Arguments in which a call that waits keeps how far it has come, and the buffer that it waits for.
const DONE: usize = 5;
const BUFFER: usize = 4;

/// The disk of a cell, which is opened when the program opens it first.
#[derive(Debug)]
pub struct OwnDisk {
    name: Name,
    disk: Option<Disk>,
    files: Files,
    request: DeviceRequest,
    facts: [AtomicU64; 2],
}

impl OwnDisk {
    /// A disk that nobody has opened.
    pub fn new(name: Name) -> Self {
        let (files, request) = (Files::default(), DeviceRequest::default());
        Self { name, disk: None, files, request, facts: [const { AtomicU64::new(0) }; 2] }
    }

    /// Returns whether the kernel serves it.
    pub fn is_open(&self) -> bool {
        self.disk.is_some()
    }
}

/// Answers a call about the disk; `None` if it is about something else.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Option<Outcome> {
    let files = &runtime.disk.as_ref()?.files;
    match Named::by(&call) {
        Named::Path(argument) => by_path(runtime, call, argument),
        Named::File(file) => {
            let opened = files.find(file)?;
            on_descriptor(runtime, call, opened)
        }
        other => other.refused(files),
    }
}

/// Opens the disk in place of a path, or tells of it; the argument is the path's.
fn by_path<M: Machine>(runtime: &mut Runtime<M>, call: Call, argument: usize) -> Option<Outcome> {
    let path = |runtime: &Runtime<M>, place: usize| {
        let own = runtime.disk.as_ref();
        own.and_then(|own| own.name.path.as_bytes().get(place).copied())
    };
    if !own_file::has_path(runtime, call.arguments[argument], path) {
        return None;
    }
    if own_file::opens(&call)
        && let Err(errno) = open(runtime)
    {
        return Some(Outcome::refused(errno));
    }
    own_file::redirect(runtime.fiber(), argument, &STAND_IN, FLAGS);
    Some(Outcome::Line)
}

/// Has the kernel serve the disk, if it does not yet.
fn open<M: Machine>(runtime: &mut Runtime<M>) -> Result<(), Errno> {
    let own = runtime.disk.as_ref().ok_or(Errno::NODEV)?;
    if !own.files.has_room() {
        return Err(Errno::MFILE);
    }
    if own.disk.is_some() {
        return Ok(());
    }
    let base = block(runtime, RING_ORDER)?;
    let mut memory = [0; SLOTS];
    for place in &mut memory {
        *place = block(runtime, BUFFER_ORDER)?;
    }
    let ring = Ring::new(&mut runtime.machine, base);
    let own = runtime.disk.as_mut().ok_or(Errno::NODEV)?;
    own.request = ring.describe(own.name.device);
    let addresses = [(&raw const own.request) as u64, (&raw const own.facts) as u64];
    let result = runtime.machine.call(DEVICE_OPEN as u32, [addresses[0], addresses[1], 0, 0, 0, 0]);
    Errno::of_result(result)?;
    let [sectors, more] = own.facts.each_ref().map(|word| word.load(Ordering::Acquire));
    let facts = DeviceFacts { sectors, request_bytes_max: more as u32, is_read_only: (more >> 32) as u32 };
    own.disk = Some(Disk::new(ring, facts, memory));
    Ok(())
}

fn on_descriptor<M: Machine>(runtime: &mut Runtime<M>, call: Call, opened: usize) -> Option<Outcome> {
    let [_, second, third, offset, ..] = call.arguments;
    match call.number {
        nr::__NR_pread64 | nr::__NR_pwrite64 if offset.cast_signed() < 0 => Some(Outcome::refused(Errno::INVAL)),
        nr::__NR_read | nr::__NR_pread64 | nr::__NR_write | nr::__NR_pwrite64 | nr::__NR_fsync | nr::__NR_fdatasync => {
            runtime.fiber().call.arguments[BUFFER..].fill(0);
            Some(begin(runtime))
        }
        nr::__NR_readv
        | nr::__NR_writev
        | nr::__NR_preadv
        | nr::__NR_pwritev
        | nr::__NR_preadv2
        | nr::__NR_pwritev2 => Some(first_buffer(runtime, call).unwrap_or_else(Outcome::refused)),
        nr::__NR_lseek => Some(Outcome::of(seek(runtime, opened, [second, third]))),
        nr::__NR_ioctl => Some(Outcome::done(control(runtime, second as u32, third))),
        _ => None,
    }
}

/// Begins the call of the thread that runs.
fn begin<M: Machine>(runtime: &mut Runtime<M>) -> Outcome {
    match advance(runtime, runtime.current) {
        Some(result) => Outcome::Value(result),
        None => Outcome::Wait(State::Disk),
    }
}

/// Does the first buffer that holds something of a read or write of several.
fn first_buffer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Result<Outcome, Errno> {
    let (number, offset) = with_one_buffer(&call)?;
    let mut found = None;
    Buffers::of(&call)?.each(runtime, u64::MAX, |_, piece| {
        found = Some(piece);
        Ok(false)
    })?;
    let Some(Piece { address, bytes, .. }) = found else { return Ok(Outcome::Value(0)) };
    runtime.fiber().call = Call { number, arguments: [call.arguments[0], address, bytes, offset, 0, 0], sent: 0 };
    Ok(begin(runtime))
}

/// Returns the call that does the same with one buffer, and its position.
///
/// # Errors
/// `EOPNOTSUPP` for flags (preadv2(2)), `EINVAL` for a position before the beginning.
fn with_one_buffer(call: &Call) -> Result<(u32, u64), Errno> {
    let [.., position, _, flags] = call.arguments;
    let at_position = |number: u32| match position.cast_signed() {
        0.. => Ok((number, position)),
        _ => Err(Errno::INVAL),
    };
    match call.number {
        nr::__NR_readv => Ok((nr::__NR_read, 0)),
        nr::__NR_writev => Ok((nr::__NR_write, 0)),
        nr::__NR_preadv => at_position(nr::__NR_pread64),
        nr::__NR_pwritev => at_position(nr::__NR_pwrite64),
        _ if flags as u32 != 0 => Err(Errno::OPNOTSUPP),
        // The file's own position.
        nr::__NR_preadv2 if position == u64::MAX => Ok((nr::__NR_read, 0)),
        nr::__NR_pwritev2 if position == u64::MAX => Ok((nr::__NR_write, 0)),
        nr::__NR_preadv2 => at_position(nr::__NR_pread64),
        _ => at_position(nr::__NR_pwrite64),
    }
}

fn seek<M: Machine>(runtime: &mut Runtime<M>, opened: usize, [offset, whence]: [u64; 2]) -> Result<u64, Errno> {
    let own = runtime.disk.as_mut().ok_or(Errno::NODEV)?;
    let size = own.disk.as_ref().map_or(0, Disk::bytes);
    let position = own.files.position(opened);
    let base = match whence as u32 {
        nr::SEEK_SET => 0,
        nr::SEEK_CUR => *position,
        nr::SEEK_END => size,
        _ => return Err(Errno::INVAL),
    };
    let wanted = base.checked_add_signed(offset.cast_signed()).filter(|wanted| *wanted <= size).ok_or(Errno::INVAL)?;
    *position = wanted;
    Ok(wanted)
}

fn control<M: Machine>(runtime: &mut Runtime<M>, request: u32, address: u64) -> Result<(), Errno> {
    let size = runtime.disk.as_ref().and_then(|own| own.disk.as_ref()).map_or(0, Disk::bytes);
    match request {
        BLKGETSIZE64 => runtime.write(address, &size.to_le_bytes()),
        BLKSSZGET => runtime.write(address, &(SECTOR_BYTES as u32).to_le_bytes()),
        _ => Err(Errno::NOTTY),
    }
}

/// Sees to what a call of the kernel has done to descriptors.
pub fn after<M: Machine>(runtime: &mut Runtime<M>, call: &Call, result: i64) -> i64 {
    let Some(own) = &mut runtime.disk else { return result };
    let Ok(new) = u64::try_from(result) else { return result };
    let [first, second, ..] = call.arguments;
    let stand_in = STAND_IN.as_ptr() as u64;
    let is_noted = match call.number {
        nr::__NR_open if first == stand_in => own.files.open(new),
        nr::__NR_openat if second == stand_in => own.files.open(new),
        _ => own.files.follow(call, new),
    };
    if is_noted {
        return result;
    }
    // A number that cannot be noted would be read as an empty file.
    runtime.machine.call(nr::__NR_close, [new, 0, 0, 0, 0, 0]);
    Errno::MFILE.result()
}

/// Goes on with all threads that wait for the disk, if it has answered something.
pub fn collect<M: Machine>(runtime: &mut Runtime<M>) -> bool {
    let disk = runtime.disk.as_mut().and_then(|own| own.disk.as_mut());
    if !disk.is_some_and(|disk| disk.collect(&runtime.machine)) {
        return false;
    }
    for id in 0..runtime.fibers.len() {
        if runtime.fibers[id].state == State::Disk
            && let Some(result) = advance(runtime, id)
        {
            runtime.wake(id, result);
        }
    }
    true
}

/// A call on the disk, as far as it has come.
struct Under {
    number: u32,
    opened: usize,
    address: u64,
    bytes: u64,
    done: u64,
    /// The position in the disk at which it goes on.
    at: u64,
    has_position: bool,
}

/// Goes on with a thread's call; returns its result, or `None` if it waits for the disk.
fn advance<M: Machine>(runtime: &mut Runtime<M>, id: FiberId) -> Option<i64> {
    let result = step(runtime, id);
    if runtime.disk.as_mut().and_then(|own| own.disk.as_mut()).is_some_and(Disk::takes_bell) {
        runtime.machine.ring();
    }
    match result {
        Ok(None) => None,
        Ok(Some(done)) => Some(done.cast_signed()),
        // The part that was done before counts.
        Err(errno) => Some(match runtime.fibers[id].call.arguments[DONE] {
            0 => errno.result(),
            done => done.cast_signed(),
        }),
    }
}

fn step<M: Machine>(runtime: &mut Runtime<M>, id: FiberId) -> Result<Option<u64>, Errno> {
    let Call { number, arguments, .. } = runtime.fibers[id].call;
    let [descriptor, address, bytes, offset, _, done] = arguments;
    let own = runtime.disk.as_mut().ok_or(Errno::NODEV)?;
    let opened = own.files.find(descriptor).ok_or(Errno::BADF)?;
    let has_position = matches!(number, nr::__NR_read | nr::__NR_write);
    let at = if has_position { *own.files.position(opened) } else { offset.saturating_add(done) };
    let under = Under { number, opened, address, bytes, done, at, has_position };
    match number {
        nr::__NR_read | nr::__NR_pread64 => read(runtime, id, under),
        _ => write(runtime, id, under),
    }
}

/// Notes that more bytes are done.
fn go_on<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, under: &mut Under, bytes: u64) {
    under.done += bytes;
    under.at += bytes;
    runtime.fibers[id].call.arguments[DONE] = under.done;
    if let Some(own) = runtime.disk.as_mut().filter(|_| under.has_position) {
        *own.files.position(under.opened) = under.at;
    }
}

fn read<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, mut under: Under) -> Result<Option<u64>, Errno> {
    // Each turn moves bytes or ends.
    loop {
        let disk = runtime.disk.as_mut().and_then(|own| own.disk.as_mut()).ok_or(Errno::NODEV)?;
        let left = (under.bytes - under.done).min(disk.bytes().saturating_sub(under.at));
        if left == 0 {
            return Ok(Some(under.done));
        }
        match disk.look(under.at) {
            Grain::Here(stored) => {
                let bytes = stored.bytes.min(left);
                disk.has_read(&mut runtime.machine, under.at, bytes);
                let address = under.address.wrapping_add(under.done);
                runtime.ensure(address, bytes, Rights::WRITE)?;
                runtime.machine.copy_out(stored.physical, address, bytes)?;
                go_on(runtime, id, &mut under, bytes);
            }
            Grain::Coming => return Ok(None),
            Grain::Lost => return Err(Errno::IO),
            Grain::Unknown => {
                disk.load(&mut runtime.machine, under.at, left);
                return Ok(None);
            }
        }
    }
}

/// Writes, and makes writes durable: one request after the other, each in a buffer.
fn write<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, mut under: Under) -> Result<Option<u64>, Errno> {
    let slot = runtime.fibers[id].call.arguments[BUFFER] as usize;
    let is_flush = matches!(under.number, nr::__NR_fsync | nr::__NR_fdatasync);
    let disk = runtime.disk.as_mut().and_then(|own| own.disk.as_mut()).ok_or(Errno::NODEV)?;
    if let Some(slot) = slot.checked_sub(1) {
        let Some(ended) = disk.ended(slot) else { return Ok(None) };
        runtime.fibers[id].call.arguments[BUFFER] = 0;
        let bytes = ended.map_err(|()| Errno::IO)?;
        if is_flush {
            return Ok(Some(0));
        }
        go_on(runtime, id, &mut under, bytes);
    }
    let disk = runtime.disk.as_mut().and_then(|own| own.disk.as_mut()).ok_or(Errno::NODEV)?;
    let left = (under.bytes - under.done).min(disk.bytes().saturating_sub(under.at));
    let is_whole = (under.at | under.bytes).is_multiple_of(SECTOR_BYTES);
    match () {
        () if is_flush => {}
        () if under.done == under.bytes => return Ok(Some(under.done)),
        () if disk.facts.is_read_only != 0 => return Err(Errno::PERM),
        () if !is_whole => return Err(Errno::INVAL),
        () if left == 0 => return Err(Errno::NOSPC),
        () => {}
    }
    let Some((slot, physical)) = disk.take_buffer() else { return Ok(None) };
    let bytes = left.min(BUFFER_BYTES);
    if !is_flush {
        let address = under.address.wrapping_add(under.done);
        runtime.ensure(address, bytes, Rights::READ)?;
        runtime.machine.copy_in(physical, address, bytes)?;
    }
    let disk = runtime.disk.as_mut().and_then(|own| own.disk.as_mut()).ok_or(Errno::NODEV)?;
    match is_flush {
        true => disk.flush(&mut runtime.machine, slot),
        false => disk.store(&mut runtime.machine, slot, under.at, bytes),
    }
    runtime.fibers[id].call.arguments[BUFFER] = slot as u64 + 1;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(number: u32, position: u64, flags: u64) -> Result<(u32, u64), Errno> {
        with_one_buffer(&Call { number, arguments: [3, 0x1000, 2, position, 0, flags], sent: 0 })
    }

    #[test]
    fn a_call_of_several_buffers_is_one_of_the_first() {
        assert_eq!(alone(nr::__NR_readv, 77, 0), Ok((nr::__NR_read, 0)));
        assert_eq!(alone(nr::__NR_pwritev, 77, 1), Ok((nr::__NR_pwrite64, 77)));
        assert_eq!(alone(nr::__NR_preadv, u64::MAX, 0), Err(Errno::INVAL));
        assert_eq!(alone(nr::__NR_preadv2, u64::MAX, 0), Ok((nr::__NR_read, 0)));
        assert_eq!(alone(nr::__NR_pwritev2, 5, 0), Ok((nr::__NR_pwrite64, 5)));
        assert_eq!(alone(nr::__NR_preadv2, 5, 1), Err(Errno::OPNOTSUPP));
        assert_eq!(alone(nr::__NR_pwritev2, 1 << 63, 0), Err(Errno::INVAL));
    }
}
