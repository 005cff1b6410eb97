//! The operations of a ring: read from the program when they are submitted, done later.
//!
//! [`Operation::prepare`] copies everything that a submission points to (names, pieces, addresses) and holds its
//! files; from then on the program may use its memory again. [`Operation::perform`] does it as the system call of
//! that name, by a worker thread that gets no signals.
//!
//! Some are done within the submitting call ([`Operation::is_immediate`], [`super::at_once`]); all others are steps
//! of a [`super::chain`]. To add one: a variant, its line in `prepare` and in `perform`, and its code in
//! [`super::register`]'s list of offered operations.

use super::ring::{Flight, Ring};
use super::submission::{FIXED_FILE, FLAGS, Submission, code};
use crate::file::buffer::{Range, Ranges, UserBuffer, read_iovecs};
use crate::file::calls::socket::{accept_on, connect_to, read_address, socket_of};
use crate::file::calls::watched::{Patience, Watched, wait_for};
use crate::file::calls::{descriptors, message, open, read_write, stat, usable_file};
use crate::file::losses;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::socket::{Address, Ancillary};
use crate::file::timer_file::Clock;
use crate::file::walk::retry_stale;
use crate::time::{TimeSpec, cycles_from_now};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use gyre_message::{select, sleep_until};
use linux_raw_sys::{general as raw, net};

/// Flags of timeouts (IORING_TIMEOUT_*).
const TIMEOUT_ABSOLUTE: u32 = 1 << 0;
const TIMEOUT_BOOT_TIME: u32 = 1 << 2;
const TIMEOUT_REAL_TIME: u32 = 1 << 3;
/// Flags of cancelling (IORING_ASYNC_CANCEL_*).
const CANCEL_ALL: u32 = 1 << 0;
const CANCEL_FILE: u32 = 1 << 1;
const CANCEL_ANY: u32 = 1 << 2;
const CANCEL_FIXED: u32 = 1 << 3;
/// fdatasync instead of fsync; both do the same here.
const SYNC_DATA: u32 = 1 << 0;

/// A file, and the range of a read or write.
pub struct FileRange {
    /// The file.
    pub file: Arc<OpenFile>,
    /// The memory of the program.
    pub ranges: Ranges,
    /// The offset in the file; `None` is its position, or it has none.
    pub at: Option<u64>,
    /// A write is answered when it is durable.
    pub durable: bool,
}

/// An operation that can be done.
pub enum Operation {
    Nothing,
    Read(FileRange),
    Write(FileRange),
    Sync(Arc<OpenFile>),
    Poll(Arc<OpenFile>, u32),
    Timeout { deadline_cycles: u64, completions: Option<u64> },
    Cancel { by: Wanted, all: bool },
    Accept(Arc<OpenFile>, Submission),
    Connect(Arc<OpenFile>, Address),
    Send(FileRange, u32),
    Receive(FileRange, u32),
    SendMessage(Arc<OpenFile>, Submission),
    ReceiveMessage(Arc<OpenFile>, Submission),
    Call(Submission),
    Refused(Errno),
}

/// Which operations are to be cancelled.
#[derive(Clone, Copy)]
pub enum Wanted {
    Data(u64),
    DataOf(u64, u8),
    File(usize),
    Any,
}

impl Wanted {
    fn is(self, flight: &Flight) -> bool {
        match self {
            Wanted::Data(data) => flight.user_data == data,
            Wanted::DataOf(data, code) => flight.user_data == data && flight.code == code,
            Wanted::File(file) => flight.file == Some(file),
            Wanted::Any => true,
        }
    }
}

/// Returns the identity of an open file, to find operations on it.
pub fn identity(file: &Arc<OpenFile>) -> usize {
    Arc::as_ptr(file) as usize
}

impl Operation {
    /// Reads the parts of a submission from the program's memory, and its files.
    pub async fn prepare(thread: &Arc<Thread>, ring: &Ring, wish: &Submission) -> Operation {
        match prepare(thread, ring, wish).await {
            Ok(operation) => operation,
            Err(error) => Operation::Refused(error),
        }
    }

    /// Returns the file it works on, by address.
    pub fn file(&self) -> Option<usize> {
        match self {
            Operation::Read(transfer)
            | Operation::Write(transfer)
            | Operation::Send(transfer, _)
            | Operation::Receive(transfer, _) => Some(identity(&transfer.file)),
            Operation::Sync(file)
            | Operation::Poll(file, _)
            | Operation::Accept(file, _)
            | Operation::Connect(file, _)
            | Operation::SendMessage(file, _)
            | Operation::ReceiveMessage(file, _) => Some(identity(file)),
            _ => None,
        }
    }

    /// Returns the bytes that it must move to be a success to those that are linked to it.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Operation::Read(transfer) | Operation::Write(transfer) => Some(transfer.ranges.bytes() as u64),
            _ => None,
        }
    }

    /// Returns whether it is done within the submitting call: it needs no request, or only one about names.
    pub fn is_immediate(&self) -> bool {
        matches!(self, Operation::Nothing | Operation::Cancel { .. } | Operation::Call(_) | Operation::Refused(_))
    }

    /// Does it, as a thread of its own that gets no signals.
    pub async fn perform(self, worker: &Arc<Thread>, ring: &Ring) -> Outcome {
        match self {
            Operation::Timeout { deadline_cycles, completions } => timeout(ring, deadline_cycles, completions).await,
            Operation::Cancel { by, all } => cancel(ring, by, all),
            other => other.perform_alone(worker).await,
        }
    }

    /// Does an operation that needs no ring, as [`Operation::perform`].
    pub async fn perform_alone(self, worker: &Arc<Thread>) -> Outcome {
        match self {
            Operation::Read(transfer) => {
                let mut buffer = UserBuffer::from_ranges(worker, transfer.ranges);
                read_write::read_file(worker, &transfer.file, &mut buffer, transfer.at).await
            }
            Operation::Write(transfer) => {
                let mut buffer = UserBuffer::from_ranges(worker, transfer.ranges);
                let written = read_write::write_file(worker, &transfer.file, &mut buffer, transfer.at).await?;
                if transfer.durable {
                    read_write::make_durable(&transfer.file).await?;
                }
                Ok(written)
            }
            other => Box::pin(other.perform_rarely(worker)).await,
        }
    }

    /// Does the operations other than reads and writes; the tasks of those have no room for them.
    async fn perform_rarely(self, worker: &Arc<Thread>) -> Outcome {
        match self {
            Operation::Nothing => Ok(0),
            Operation::Refused(error) => Err(error),
            Operation::Read(_) | Operation::Write(_) | Operation::Timeout { .. } | Operation::Cancel { .. } => {
                Err(Errno::EINVAL)
            }
            Operation::Sync(file) => match (file.object(), file.place()) {
                (Object::Regular | Object::Directory, Some(place)) => losses::sync(&file, place).await.map(|()| 0),
                _ => Err(Errno::EINVAL),
            },
            Operation::Poll(file, wanted) => {
                let watched = [Watched::for_poll(file, wanted)];
                let found = wait_for(worker, &watched, Patience::Endless).await?;
                Ok(found.first().copied().map_or(0, u64::from))
            }
            Operation::Accept(file, wish) => {
                accept_on(worker, &file, (wish.address, wish.offset), wish.operation_flags).await
            }
            Operation::Connect(file, address) => connect_to(worker, &file, address).await,
            Operation::Send(transfer, flags) => {
                let buffer = UserBuffer::from_ranges(worker, transfer.ranges);
                message::send(worker, &transfer.file, buffer, None, Ancillary::default(), flags | net::MSG_NOSIGNAL)
                    .await
            }
            Operation::Receive(transfer, flags) => {
                let mut buffer = UserBuffer::from_ranges(worker, transfer.ranges);
                message::receive_bytes(worker, &transfer.file, &mut buffer, flags).await
            }
            Operation::SendMessage(file, wish) => {
                message::send_message(worker, &file, wish.address, wish.operation_flags | net::MSG_NOSIGNAL).await
            }
            Operation::ReceiveMessage(file, wish) => {
                message::receive_message(worker, &file, wish.address, wish.operation_flags).await
            }
            Operation::Call(wish) => call(worker, &wish).await,
        }
    }
}

async fn prepare(thread: &Arc<Thread>, ring: &Ring, wish: &Submission) -> Result<Operation, Errno> {
    if wish.flags & !FLAGS != 0 || wish.personality != 0 {
        return Err(Errno::EINVAL);
    }
    let file = || match wish.flags & FIXED_FILE != 0 {
        true => ring.registered_file(wish.descriptor),
        false => usable_file(thread, wish.descriptor),
    };
    let is_simple = wish.priority == 0 && wish.file_index == 0;
    Ok(match wish.code {
        code::NOP => Operation::Nothing,
        code::READ | code::READ_FIXED | code::READV => Operation::Read(transfer(thread, ring, file()?, wish).await?),
        code::WRITE | code::WRITE_FIXED | code::WRITEV => {
            Operation::Write(transfer(thread, ring, file()?, wish).await?)
        }
        code::FSYNC if wish.operation_flags & !SYNC_DATA == 0 => Operation::Sync(file()?),
        // Polls that go on, or change others, are not offered.
        code::POLL_ADD if wish.bytes == 0 => Operation::Poll(file()?, wish.operation_flags),
        code::POLL_REMOVE if wish.bytes == 0 => {
            Operation::Cancel { by: Wanted::DataOf(wish.address, code::POLL_ADD), all: false }
        }
        code::TIMEOUT | code::LINK_TIMEOUT => timeout_of(thread, ring, wish).await?,
        code::TIMEOUT_REMOVE if wish.operation_flags == 0 => {
            Operation::Cancel { by: Wanted::DataOf(wish.address, code::TIMEOUT), all: false }
        }
        code::ASYNC_CANCEL => cancel_of(thread, ring, wish)?,
        code::ACCEPT if is_simple => {
            let file = file()?;
            socket_of(&file)?;
            Operation::Accept(file, *wish)
        }
        code::CONNECT if is_simple => {
            let file = file()?;
            socket_of(&file)?;
            let bytes = u32::try_from(wish.offset).map_err(|_| Errno::EINVAL)?;
            Operation::Connect(file, read_address(thread, wish.address, bytes).await?)
        }
        code::SEND | code::RECV if is_simple => {
            let file = file()?;
            socket_of(&file)?;
            let ranges = Ranges::One(Range { address: wish.address, bytes: wish.bytes as usize });
            let transfer = FileRange { file, ranges, at: None, durable: false };
            match wish.code == code::SEND {
                true => Operation::Send(transfer, wish.operation_flags),
                false => Operation::Receive(transfer, wish.operation_flags),
            }
        }
        code::SENDMSG if is_simple => Operation::SendMessage(file()?, *wish),
        code::RECVMSG if is_simple => Operation::ReceiveMessage(file()?, *wish),
        code::OPENAT | code::CLOSE | code::STATX if wish.file_index == 0 => {
            if wish.flags & FIXED_FILE != 0 {
                return Err(Errno::EBADF);
            }
            Operation::Call(*wish)
        }
        _ => return Err(Errno::EINVAL),
    })
}

/// Returns the range of a read or write. The list of pieces is read now, so that the program may use its memory
/// again.
async fn transfer(thread: &Thread, ring: &Ring, file: Arc<OpenFile>, wish: &Submission) -> Result<FileRange, Errno> {
    let durable = raw::RWF_DSYNC | raw::RWF_SYNC;
    if wish.operation_flags & !(durable | raw::RWF_HIPRI) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let one = Range { address: wish.address, bytes: wish.bytes as usize };
    let ranges = match wish.code {
        code::READV | code::WRITEV => Ranges::Many(read_iovecs(thread, wish.address, wish.bytes as usize).await?),
        code::READ_FIXED | code::WRITE_FIXED => {
            ring.check_buffer(wish.buffer, one)?;
            Ranges::One(one)
        }
        _ => Ranges::One(one),
    };
    // -1 is the position of the file; objects without one ignore it.
    let at = match file.object().is_seekable() {
        true if wish.offset != u64::MAX => Some(i64::try_from(wish.offset).map_err(|_| Errno::EINVAL)? as u64),
        _ => None,
    };
    Ok(FileRange { file, ranges, at, durable: wish.operation_flags & durable != 0 })
}

/// Returns TIMEOUT or LINK_TIMEOUT with its end.
async fn timeout_of(thread: &Thread, ring: &Ring, wish: &Submission) -> Result<Operation, Errno> {
    let flags = wish.operation_flags;
    let clocks = TIMEOUT_BOOT_TIME | TIMEOUT_REAL_TIME;
    if flags & !(TIMEOUT_ABSOLUTE | clocks) != 0 || flags & clocks == clocks || wish.bytes != 1 {
        return Err(Errno::EINVAL);
    }
    let time: TimeSpec = thread.read_struct(wish.address).await?;
    let clock = if flags & TIMEOUT_REAL_TIME != 0 { Clock::Real } else { Clock::Monotonic };
    let ns = match flags & TIMEOUT_ABSOLUTE != 0 {
        true => time.ns()?.saturating_sub(clock.now_ns()),
        false => time.ns()?,
    };
    let completions =
        (wish.code == code::TIMEOUT && wish.offset > 0).then(|| ring.completions().saturating_add(wish.offset));
    Ok(Operation::Timeout { deadline_cycles: cycles_from_now(ns), completions })
}

fn cancel_of(thread: &Thread, ring: &Ring, wish: &Submission) -> Result<Operation, Errno> {
    let flags = wish.operation_flags;
    if flags & !(CANCEL_ALL | CANCEL_FILE | CANCEL_ANY | CANCEL_FIXED) != 0 {
        return Err(Errno::EINVAL);
    }
    let by = match (flags & CANCEL_ANY != 0, flags & CANCEL_FILE != 0) {
        (true, _) => Wanted::Any,
        (_, true) => {
            let file = match flags & CANCEL_FIXED != 0 {
                true => ring.registered_file(wish.descriptor)?,
                false => usable_file(thread, wish.descriptor)?,
            };
            Wanted::File(identity(&file))
        }
        _ => Wanted::Data(wish.address),
    };
    Ok(Operation::Cancel { by, all: flags & (CANCEL_ALL | CANCEL_ANY) != 0 })
}

/// Waits for the time, or for so many completions: ETIME, or 0.
async fn timeout(ring: &Ring, deadline_cycles: u64, completions: Option<u64>) -> Outcome {
    let Some(wanted) = completions else {
        sleep_until(deadline_cycles).await;
        return Err(Errno::ETIME);
    };
    let enough = ring.changed.until(|| (ring.completions() >= wanted).then_some(()));
    match select(enough, sleep_until(deadline_cycles)).await {
        gyre_message::wait::Either::First(()) => Ok(0),
        gyre_message::wait::Either::Second(()) => Err(Errno::ETIME),
    }
}

/// Cancels operations under way. Returns how many with `all`, else 0 for the first; ENOENT for none, also if a device
/// has it.
fn cancel(ring: &Ring, by: Wanted, all: bool) -> Outcome {
    let may_end = |flight: &Flight| flight.cancel.is_some() && flight.code != code::ASYNC_CANCEL;
    let mut found = ring.find(|flight| by.is(flight) && may_end(flight));
    found.truncate(if all { usize::MAX } else { 1 });
    found.iter().for_each(Flight::ask_to_end);
    match (found.len(), all) {
        (0, false) => Err(Errno::ENOENT),
        (count, true) => Ok(count as u64),
        _ => Ok(0),
    }
}

/// Returns the operations on names and descriptors, which are calls.
async fn call(worker: &Arc<Thread>, wish: &Submission) -> Outcome {
    let descriptor = u64::from(wish.descriptor as u32);
    let flags = u64::from(wish.operation_flags);
    let words = |rest: [u64; 5]| Arguments([descriptor, rest[0], rest[1], rest[2], rest[3], rest[4]]);
    match wish.code {
        code::OPENAT => {
            let arguments = words([wish.address, flags, u64::from(wish.bytes), 0, 0]);
            retry_stale(|| open::openat(worker, arguments)).await
        }
        code::CLOSE => {
            if let Ok(file) = usable_file(worker, wish.descriptor)
                && matches!(file.object(), Object::Ring(_))
            {
                return Err(Errno::EBADF);
            }
            descriptors::close(worker, words([0; 5])).await
        }
        code::STATX => {
            let arguments = words([wish.address, flags, u64::from(wish.bytes), wish.offset, 0]);
            retry_stale(|| stat::statx(worker, arguments)).await
        }
        _ => Err(Errno::EINVAL),
    }
}
