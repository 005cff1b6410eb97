//! The frames of [`deadlines`](super::deadlines) under deadlines of the kernel's own: SCHED_DEADLINE of Linux (sched(7),
//! Documentation/scheduler/sched-deadline.rst).
//!
//! A thread says how long it works in each period, and all of them together get at most 95 % of a processor. Frames differ by a tenth, so each
//! decoder asks for as much more than its mean as is left, and may use what others leave (SCHED_FLAG_RECLAIM).

use std::{io, thread, time::Duration};

use gyre_pulse::{Error, now_ns};

use super::deadlines::{DECODERS, Decoder, Frame, decode};

const SCHED_DEADLINE: u32 = 6;
const SCHED_FLAG_RECLAIM: u64 = 2;
const SECOND_NS: u64 = 1_000_000_000;
/// Thousandths of the mean work that each decoder asks for: with both, 93 % of the processor.
const ASKED: u64 = 1_105;
/// Time until the first frame, ns.
const SOON_NS: u64 = 50_000_000;

/// `struct sched_attr` in its first form (linux/sched/types.h).
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Puts the calling thread under a deadline in each period.
fn promise(rate: u64, mean_us: u64) -> io::Result<()> {
    let period_ns = SECOND_NS / rate;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: SCHED_DEADLINE,
        flags: SCHED_FLAG_RECLAIM,
        nice: 0,
        priority: 0,
        runtime_ns: mean_us * ASKED,
        deadline_ns: period_ns,
        period_ns,
    };
    // SAFETY: the kernel reads the structure, which lives here.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait(frame: Frame) {
    thread::sleep(Duration::from_nanos(frame.release_ns.saturating_sub(now_ns())));
}

/// Measures it; `per_ms` are rounds of work in a millisecond.
pub(super) fn measure(per_ms: u64) -> Result<(), Error> {
    let begin_ns = now_ns() + SOON_NS;
    let decoders = DECODERS.map(|(rate, mean_us)| {
        let decoder = Decoder { rate, mean_us, per_ms, begin_ns };
        (rate, thread::spawn(move || promise(rate, mean_us).map(|()| decode(decoder, wait))))
    });
    for (rate, decoder) in decoders {
        let late = decoder.join().map_err(|_| Error::Outside)??;
        println!("deadlines: kernel-{rate} {late}");
    }
    Ok(())
}
