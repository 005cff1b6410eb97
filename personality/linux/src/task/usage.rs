//! Consumption of processes: getrusage, times.

use crate::tenant::Consumption;
use crate::time::TimeVal;
use crate::time::cpu_clock::used_by;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Clock ticks a second, as programs are told (AT_CLKTCK).
pub const TICKS_PER_SECOND: u64 = 100;

/// `struct rusage`. Fields that Gyre does not count are 0, as Linux leaves several.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Usage {
    user: TimeVal,
    system: TimeVal,
    resident_kib_max: i64,
    unused: [i64; 6],
    disk_reads: i64,
    disk_writes: i64,
    unused_too: [i64; 5],
}

/// getrusage(2): the calling thread.
const RUSAGE_THREAD: i32 = 1;
/// The unit of `ru_inblock` and `ru_oublock`, bytes.
const BLOCK_BYTES: u64 = 512;

const _: () = assert!(size_of::<Usage>() == 144);

impl Usage {
    /// Makes it from the consumption of an activity and `resident_bytes` of memory.
    pub fn of(used: Consumption, resident_bytes: u64) -> Usage {
        Usage {
            user: TimeVal::from_ns(used.user_ns),
            system: TimeVal::from_ns(used.system_ns),
            resident_kib_max: (resident_bytes / 1024) as i64,
            unused: [0; 6],
            disk_reads: (used.io.read_bytes / BLOCK_BYTES) as i64,
            disk_writes: (used.io.written_bytes / BLOCK_BYTES) as i64,
            unused_too: [0; 5],
        }
    }
}

/// `getrusage(who, usage)`.
pub async fn getrusage(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let process = thread.process();
    let usage = match a.int(0) {
        0 => Usage::of(process.used(), process.space().resident_bytes()),
        RUSAGE_THREAD => Usage::of(used_by(thread), process.space().resident_bytes()),
        -1 => Usage::of(*process.children_used.lock(), 0),
        _ => return Err(Errno::EINVAL),
    };
    thread.write_struct(a.word(1), &usage).await?;
    Ok(0)
}

/// `times(buffer)`.
pub async fn times(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let process = thread.process();
    let own = process.used();
    let children = *process.children_used.lock();
    let ticks = |ns: u64| ns / (1_000_000_000 / TICKS_PER_SECOND);
    let all = [own.user_ns, own.system_ns, children.user_ns, children.system_ns].map(ticks);
    thread.write_optional(a.word(0), &all).await?;
    Ok(ticks(crate::time::monotonic_ns()))
}
