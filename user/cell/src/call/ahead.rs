//! Calls about files that are read ahead ([`crate::ahead`] says which, and why nobody can tell).
//!
//! * A read takes bytes of the buffer; the rest becomes a line that reads at a position, into the program's memory or into the buffer.
//! * Each other call that tells of the world outside empties the buffers.
//! * A call that uses a descriptor's position, or may pass the descriptor on, waits for a line that gives the kernel the position.
//! * Nothing of this happens while a program has several threads: `clone` forgets all files, and later ones are not noted.
//! * The kernel's answers say which files are opened and how long they are ([`after`]).
//! * Errors leave the position as it was; bytes that a read has given before one count.

use linux_raw_sys::general as nr;

use super::{Outcome, leave};
use crate::{
    ahead::{BUFFER_BYTES, Target, Under},
    error::Errno,
    fiber::{Call, FiberId},
    machine::Machine,
    memory::{PAGE_BYTES, Rights, page_down},
    runtime::Runtime,
};

/// Flags of an open that make a file no other than those that are known here.
const PLAIN_FLAGS: u32 = nr::O_CLOEXEC | nr::O_NOFOLLOW | nr::O_NONBLOCK | nr::O_NOCTTY | nr::O_NOATIME | LARGE_FILE;
const LARGE_FILE: u32 = 0o100_000;
/// Asks whether a descriptor is a terminal (asm-generic/ioctls.h).
const TCGETS: u32 = 0x5401;
/// Places in `struct stat`.
const MODE: u64 = 24;
const LENGTH: u64 = 48;

/// Answers a call about such a file; `None` if others do.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Option<Outcome> {
    // If a read was not sent after all.
    runtime.files.under = None;
    if shares_memory(&call) {
        runtime.files.stop();
    }
    let [first, second, third, ..] = call.arguments;
    let place = runtime.files.find(first).filter(|place| runtime.files.at(*place).length != 0);
    match (call.number, place) {
        (nr::__NR_read, Some(place)) => Some(read(runtime, call, place)),
        (nr::__NR_lseek, Some(place)) => {
            let file = runtime.files.at(place);
            let base = match third as u32 {
                nr::SEEK_SET => Some(0),
                nr::SEEK_CUR => Some(file.position),
                _ => None,
            };
            let done = base.and_then(|base| file.seek(base, second));
            done.map_or_else(|| others(runtime, &call), |position| Some(Outcome::Value(position.cast_signed())))
        }
        _ if is_own_affair(&call) => None,
        _ => others(runtime, &call),
    }
}

/// Returns whether others can write memory of the program after a call.
fn shares_memory(call: &Call) -> bool {
    let is_shared = |flags: u64| flags as u32 & nr::MAP_SHARED != 0;
    call.number == nr::__NR_shmat || call.number == nr::__NR_mmap && is_shared(call.arguments[3])
}

/// Returns whether a call tells the program nothing of the world outside.
fn is_own_affair(call: &Call) -> bool {
    match call.number {
        nr::__NR_mmap => call.arguments[3] as u32 & nr::MAP_ANONYMOUS != 0,
        nr::__NR_brk | nr::__NR_munmap | nr::__NR_mprotect | nr::__NR_mremap | nr::__NR_madvise => true,
        nr::__NR_getpid | nr::__NR_gettid | nr::__NR_rt_sigprocmask | nr::__NR_sigaltstack => true,
        nr::__NR_arch_prctl | nr::__NR_set_tid_address => true,
        _ => false,
    }
}

/// A call's use of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Nothing, or nothing with its position.
    None,
    /// It ends.
    Ends,
    /// Its position, or anything else: others may have it afterwards.
    Any,
}

fn use_of(call: &Call, descriptor: u64) -> Use {
    let arguments = match call.number {
        // Whoever the process becomes has all of them.
        _ if leave::is_it(call) => return Use::Any,
        nr::__NR_pread64 | nr::__NR_preadv | nr::__NR_fstat | nr::__NR_newfstatat | nr::__NR_statx => return Use::None,
        nr::__NR_mmap | nr::__NR_fadvise64 | nr::__NR_readahead | nr::__NR_open | nr::__NR_openat => return Use::None,
        nr::__NR_ioctl if call.arguments[1] as u32 == TCGETS => return Use::None,
        nr::__NR_fcntl if matches!(call.arguments[1] as u32, nr::F_GETFD | nr::F_SETFD | nr::F_GETFL) => {
            return Use::None;
        }
        nr::__NR_close if call.arguments[0] as u32 == descriptor as u32 => return Use::Ends,
        // These say which by memory, may pass on all there are, or begin another thread.
        nr::__NR_sendmsg | nr::__NR_sendmmsg | nr::__NR_close_range | nr::__NR_clone | nr::__NR_clone3 => {
            return Use::Any;
        }
        nr::__NR_io_submit | nr::__NR_io_uring_enter | nr::__NR_io_uring_register => return Use::Any,
        nr::__NR_close | nr::__NR_read | nr::__NR_write | nr::__NR_pwrite64 | nr::__NR_lseek | nr::__NR_ioctl => 1,
        _ => call.arguments.len(),
    };
    let is_named = call.arguments[..arguments].iter().any(|argument| *argument as u32 == descriptor as u32);
    if is_named { Use::Any } else { Use::None }
}

/// Sees to the descriptors that a call uses before it is answered elsewhere: the kernel gets their positions back.
fn others<M: Machine>(runtime: &mut Runtime<M>, call: &Call) -> Option<Outcome> {
    runtime.files.drop_bytes();
    for descriptor in runtime.files.descriptors().into_iter().flatten() {
        let place = runtime.files.find(descriptor)?;
        let file = *runtime.files.at(place);
        match use_of(call, descriptor) {
            Use::None => {}
            Use::Any if file.kernel != file.position => {
                let arguments = [descriptor, file.position, nr::SEEK_SET.into(), 0, 0, 0];
                return Some(Outcome::First(Call { number: nr::__NR_lseek, arguments, sent: 0 }));
            }
            // The kernel moves the position; it is followed ([`after`]).
            Use::Any if matches!(call.number, nr::__NR_read | nr::__NR_lseek) => {}
            Use::Any | Use::Ends => runtime.files.forget(descriptor),
        }
    }
    None
}

/// Reads: from the buffer, and what is missing by a line, with more than that if it pays.
fn read<M: Machine>(runtime: &mut Runtime<M>, call: Call, place: usize) -> Outcome {
    let [descriptor, address, count, ..] = call.arguments;
    let now = runtime.machine.now();
    let held = runtime.files.at(place).held(now).map_or(0, |held| held.bytes);
    let done = count.min(held);
    if let Err(errno) = take(runtime, place, [address, done]) {
        return Outcome::refused(errno);
    }
    if done == count && count != 0 {
        return Outcome::Value(done.cast_signed());
    }
    let rest = [address.wrapping_add(done), count - done];
    let wanted = runtime.files.wanted(place, rest[1]);
    let buffer = if wanted > rest[1] { buffer(runtime, place) } else { None };
    let (at, bytes, target) = match buffer {
        Some(buffer) => (buffer, wanted, Target::Buffer(now)),
        None => (rest[0], rest[1], Target::Program),
    };
    let position = runtime.files.at(place).position;
    runtime.files.under = Some(Under { place, done, rest, target });
    let arguments = [descriptor, at, bytes, position, 0, 0];
    runtime.fiber().call = Call { number: nr::__NR_pread64, arguments, sent: 0 };
    Outcome::Line
}

/// Returns the address of a file's buffer; `None` without memory for one.
fn buffer<M: Machine>(runtime: &mut Runtime<M>, place: usize) -> Option<u64> {
    if runtime.files.at(place).buffer.is_none() {
        let (machine, space) = (&mut runtime.machine, &mut runtime.space);
        runtime.files.at(place).buffer = space.map(machine, BUFFER_BYTES, Rights::READ | Rights::WRITE).ok();
    }
    let buffer = runtime.files.at(place).buffer?;
    // A program may unmap what it does not know.
    runtime.ensure(buffer, BUFFER_BYTES, Rights::WRITE).ok().map(|()| buffer)
}

/// Gives the program bytes of the buffer, from the file's position on, and moves on.
///
/// # Errors
/// `EFAULT`, `ENOMEM`; the position stays.
fn take<M: Machine>(runtime: &mut Runtime<M>, place: usize, [address, bytes]: [u64; 2]) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    let file = runtime.files.at(place);
    let from = file.held(0).filter(|held| held.bytes >= bytes).map(|held| held.address).ok_or(Errno::FAULT)?;
    runtime.ensure(address, bytes, Rights::WRITE)?;
    let mut done = 0;
    while done < bytes {
        let part = (PAGE_BYTES - (from + done) % PAGE_BYTES).min(bytes - done);
        let page = page_down(from + done);
        let leaf = runtime.space.table.walk(&runtime.machine, page).ok_or(Errno::FAULT)?;
        let physical = leaf.physical + (from + done) % leaf.size.bytes();
        runtime.machine.copy_out(physical, address + done, part)?;
        done += part;
    }
    runtime.files.at(place).position += bytes;
    Ok(())
}

/// Sees to what a call of the kernel says of files; answers the call's result.
pub fn after<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, result: i64) -> i64 {
    if let Some(under) = runtime.files.under.take() {
        // A handler that lets it go on makes the call of the program again.
        runtime.fibers[id].call.number = nr::__NR_read;
        return end(runtime, under, result);
    }
    let call = runtime.fibers[id].call;
    let Ok(value) = u64::try_from(result) else { return result };
    let [first, second, third, fourth, ..] = call.arguments;
    let place = runtime.files.find(first);
    match (call.number, place) {
        (nr::__NR_open, _) => open(runtime, value, second),
        (nr::__NR_openat, _) => open(runtime, value, third),
        (nr::__NR_read, Some(place)) => follow(runtime, place, |position| position.saturating_add(value)),
        (nr::__NR_lseek, Some(place)) => follow(runtime, place, |_| value),
        (nr::__NR_fstat, Some(place)) => learn(runtime, place, second),
        (nr::__NR_newfstatat, Some(place)) if fourth as u32 & nr::AT_EMPTY_PATH != 0 => {
            if runtime.read(second) == Ok([0]) {
                learn(runtime, place, third);
            }
        }
        _ => {}
    }
    result
}

/// Ends a read with what the kernel has read.
fn end<M: Machine>(runtime: &mut Runtime<M>, under: Under, result: i64) -> i64 {
    let Under { place, done, rest: [address, room], target } = under;
    let Ok(bytes) = u64::try_from(result) else {
        // The bytes that the program has already count.
        return if done > 0 { done.cast_signed() } else { result };
    };
    let given = match target {
        Target::Program => {
            runtime.files.at(place).position += bytes;
            Ok(bytes)
        }
        Target::Buffer(since) => {
            runtime.files.at(place).hold(bytes, since);
            let given = bytes.min(room);
            take(runtime, place, [address, given]).map(|()| given)
        }
    };
    match given {
        Ok(given) => (done + given).cast_signed(),
        Err(errno) if done == 0 => errno.result(),
        Err(_) => done.cast_signed(),
    }
}

/// Notes a file that was opened for reading alone.
fn open<M: Machine>(runtime: &mut Runtime<M>, descriptor: u64, flags: u64) {
    runtime.files.forget(descriptor);
    if flags as u32 & !PLAIN_FLAGS == nr::O_RDONLY && runtime.fibers_end == 1 {
        runtime.files.open(descriptor);
    }
}

/// Follows a position that the kernel has moved.
fn follow<M: Machine>(runtime: &mut Runtime<M>, place: usize, new: impl FnOnce(u64) -> u64) {
    let file = runtime.files.at(place);
    file.position = new(file.position);
    file.kernel = file.position;
}

/// Reads in a state that the kernel has told whether the file is a regular one, and its length.
fn learn<M: Machine>(runtime: &mut Runtime<M>, place: usize, state: u64) {
    let (Ok(mode), Ok(length)) = (runtime.read(state.wrapping_add(MODE)), runtime.read(state.wrapping_add(LENGTH)))
    else {
        return;
    };
    let is_regular = u32::from_le_bytes(mode) & nr::S_IFMT == nr::S_IFREG;
    let file = runtime.files.at(place);
    // Once known it stays so: the position is here then.
    if is_regular {
        file.length = file.length.max(u64::try_from(i64::from_le_bytes(length)).unwrap_or(0));
    }
}
