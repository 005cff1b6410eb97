//! io_uring: io_uring_setup, io_uring_enter, io_uring_register.
//!
//! ```text
//!   program --submissions--> enter: each copied once, read, checked --chains--> asynchronous I/O resource
//!                            done at once if it is in memory
//!   program <--completions-- ring <--result-- operation: the work of the system call of that name, by a worker that gets no signals
//! ```
//!
//! The operations that a program has submitted end with it, also if others have the ring: they use its descriptors (`under_way`).
//!
//! Left out, and refused with EINVAL: a kernel thread that polls for submissions (SQPOLL), polled devices, submissions of 128 and completions
//! of 32 bytes, buffers that the kernel selects, direct descriptors, multishot operations, personalities.

mod at_once;
mod chain;
mod memory;
mod operation;
mod register;
mod ring;
mod ring_transfer;
mod submission;
mod submit;
mod under_way;

pub(super) use at_once::{begin as begin_at_once, transfer as transfer_at_once};
pub(super) use operation::{FileRange, Operation};
pub use register::register;
pub(super) use ring::Cancel;
pub use ring::Ring;
pub use under_way::UnderWay;

use super::{answer, install, usable_file};
use crate::file::buffer::{half, word};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::time::{TimeSpec, cycles_from_now};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use memory::{RingMemory, at};

/// `struct io_uring_params`, bytes.
const PARAMETERS_BYTES: usize = 120;
/// Most submissions of a ring; completions may be twice as many.
const ENTRIES_MAX: u32 = 4096;

const SETUP_COMPLETIONS: u32 = 1 << 3;
const SETUP_CLAMP: u32 = 1 << 4;
const SETUP_SUBMIT_ALL: u32 = 1 << 7;
const SETUP_COOPERATIVE: u32 = 1 << 8;
const SETUP_WORK_FLAG: u32 = 1 << 9;
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
const SETUP_KNOWN: u32 =
    SETUP_COMPLETIONS | SETUP_CLAMP | SETUP_SUBMIT_ALL | SETUP_COOPERATIVE | SETUP_WORK_FLAG | SETUP_SINGLE_ISSUER;

/// One mapping for both rings; no completion is lost; the memory a submission points to may change once it is taken;
/// reads and writes at the file's position; waits with a timeout; a worker needs no identity of its own.
const FEATURES: u32 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 8;

const ENTER_WAIT: u32 = 1 << 0;
const ENTER_WAKE: u32 = 1 << 1;
const ENTER_ROOM: u32 = 1 << 2;
const ENTER_EXTENDED: u32 = 1 << 3;

/// Returns the ring behind a file.
fn ring_of(file: &OpenFile) -> Result<&Arc<Ring>, Errno> {
    match file.object() {
        Object::Ring(ring) => Ok(ring),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// `io_uring_setup(entries, parameters)`.
pub async fn setup(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.tenant().kernel().async_io().ok_or(Errno::ENOSYS)?;
    let mut parameters = thread.read_vec(a.word(1), PARAMETERS_BYTES).await?;
    let flags = half(&parameters, 8);
    let is_reserved_clear = parameters.get(28..40).is_some_and(|reserved| reserved.iter().all(|byte| *byte == 0));
    if flags & !SETUP_KNOWN != 0 || !is_reserved_clear {
        return Err(Errno::EINVAL);
    }
    if flags & SETUP_WORK_FLAG != 0 && flags & SETUP_COOPERATIVE == 0 {
        return Err(Errno::EINVAL);
    }
    let clamp = flags & SETUP_CLAMP != 0;
    let submissions = entries(a.unsigned(0), ENTRIES_MAX, clamp)?;
    let completions = match flags & SETUP_COMPLETIONS != 0 {
        true => entries(half(&parameters, 4), 2 * ENTRIES_MAX, clamp)?,
        false => submissions.saturating_mul(2),
    };
    if completions < submissions {
        return Err(Errno::EINVAL);
    }
    let ring = Arc::new(Ring::new(RingMemory::new(submissions, completions)?));
    describe(&mut parameters, submissions, completions);
    thread.copy_out(a.word(1), &parameters).await?;
    let files = thread.process().files();
    let file = OpenFile::new(files.tenant(), Object::Ring(ring), raw::O_RDWR, None)?;
    answer(install(thread, file, true)?)
}

/// Returns a number of entries: the next power of two, within bounds.
fn entries(wanted: u32, most: u32, clamp: bool) -> Result<u32, Errno> {
    match wanted {
        0 => Err(Errno::EINVAL),
        wanted if wanted > most => {
            if clamp {
                Ok(most)
            } else {
                Err(Errno::EINVAL)
            }
        }
        wanted => Ok(wanted.next_power_of_two().min(most)),
    }
}

/// Writes the ring's sizes and the offsets of its words.
fn describe(parameters: &mut [u8], submissions: u32, completions: u32) {
    let mut put = |offset: usize, value: u32| {
        if let Some(place) = parameters.get_mut(offset..).and_then(|rest| rest.get_mut(..4)) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    };
    put(0, submissions);
    put(4, completions);
    put(20, FEATURES);
    let array = RingMemory::array_at(completions);
    let submit =
        [at::SUBMIT_HEAD, at::SUBMIT_TAIL, at::SUBMIT_MASK, at::SUBMIT_ENTRIES, at::SUBMIT_FLAGS, at::DROPPED, array];
    let complete = [
        at::COMPLETE_HEAD,
        at::COMPLETE_TAIL,
        at::COMPLETE_MASK,
        at::COMPLETE_ENTRIES,
        at::OVERFLOW,
        at::COMPLETIONS,
        at::COMPLETE_FLAGS,
    ];
    for (start, words) in [(40, submit), (80, complete)] {
        words.iter().zip((start..).step_by(4)).for_each(|(word, offset)| put(offset, *word as u32));
    }
}

/// `io_uring_enter(fd, submit, wait, flags, mask or argument, bytes)`.
pub async fn enter(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(3);
    if flags & !(ENTER_WAIT | ENTER_WAKE | ENTER_ROOM | ENTER_EXTENDED) != 0 {
        return Err(Errno::EINVAL);
    }
    let file = usable_file(thread, a.int(0))?;
    let ring = ring_of(&file)?;
    let submitted = match a.unsigned(1) {
        0 => 0,
        count => submit::submit(thread, ring, count).await?,
    };
    if flags & ENTER_WAIT == 0 {
        ring.ready();
        return Ok(u64::from(submitted));
    }
    let (mask, mask_bytes, deadline) = match flags & ENTER_EXTENDED != 0 {
        false => (a.word(4), a.word(5), None),
        true => extended(thread, a.word(4), a.size(5)).await?,
    };
    let wanted = a.unsigned(2).min(ring.memory.complete_entries);
    if ring.ready() >= wanted {
        return Ok(u64::from(submitted));
    }
    let wait = wait(thread, ring, wanted, deadline);
    let waited = super::poll::with_mask(thread, mask, mask_bytes, wait).await;
    // The submitted count is the answer, even if the wait has failed.
    if submitted > 0 && !waited.is_err_and(Errno::asks_restart) {
        Ok(u64::from(submitted))
    } else {
        finish(waited, submitted)
    }
}

fn finish(waited: Outcome, submitted: u32) -> Outcome {
    match waited {
        Err(error) if error.asks_restart() && submitted > 0 => Ok(u64::from(submitted)),
        other => other,
    }
}

/// `struct io_uring_getevents_arg`: mask, its bytes, and a timeout.
async fn extended(thread: &Thread, address: u64, bytes: usize) -> Result<(u64, u64, Option<u64>), Errno> {
    const ARGUMENT_BYTES: usize = 24;
    if bytes != ARGUMENT_BYTES {
        return Err(Errno::EINVAL);
    }
    let argument = thread.read_vec(address, ARGUMENT_BYTES).await?;
    let deadline = match word(&argument, 16) {
        0 => None,
        timeout => {
            let time: TimeSpec = thread.read_struct(timeout).await?;
            Some(cycles_from_now(time.ns()?))
        }
    };
    Ok((word(&argument, 0), u64::from(half(&argument, 8)), deadline))
}

/// Waits until so many completions are there.
async fn wait(thread: &Thread, ring: &Ring, wanted: u32, deadline: Option<u64>) -> Outcome {
    let enough = || (ring.ready() >= wanted).then_some(());
    if enough().is_some() {
        return Ok(0);
    }
    let waited = thread.interruptible_until(deadline, ring.changed.until(enough)).await;
    match waited {
        Ok(Some(())) => Ok(0),
        Ok(None) => Err(Errno::ETIME),
        // Never restarted by a handler (signal(7) of its kind).
        Err(_) => Err(Errno::ERESTARTNOHAND),
    }
}
