//! Video frames under deadlines (T9): two decoders on one virtual core, 60 frames of 9.0 ms and 30 frames of 10.0 ms in a second, sigma 10 %.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gyre_pulse::{
    Error, Options, Scheduler, Way, now_ns, run,
    schedulers::{EarliestDeadline, RoundRobin},
    set_deadline, sleep_until, spawn_due,
};

use super::{kernel_deadlines, ticks::work};

/// Frames in a second, and the mean of a frame's work, us.
pub(super) const DECODERS: [(u64, u64); 2] = [(60, 9_000), (30, 10_000)];
const SECONDS: u64 = 10;
const SIGMA_PERCENT: i64 = 10;
const SECOND_NS: u64 = 1_000_000_000;
const TICK: Duration = Duration::from_millis(1);
const SEED: u64 = 0x5eed_0004;

/// Sums of random numbers: near a normal distribution of mean 0 and deviation 1,000.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> i64 {
        let sum: i64 = (0..12).map(|_| (self.step() % 1_001) as i64).sum();
        sum - 6_000
    }

    fn step(&mut self) -> u64 {
        // xorshift (Marsaglia 2003)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Rounds of work in a millisecond of an idle machine: the most of some batches, since the machine may have begun a moment ago.
fn rounds_per_ms() -> u64 {
    const ROUNDS: u64 = 400_000;
    let batch = |_| {
        let begun = now_ns();
        work(ROUNDS);
        ROUNDS * 1_000_000 / (now_ns() - begun).max(1)
    };
    (0..20).map(batch).max().unwrap_or(1)
}

/// A frame's times, ns of [`now_ns`].
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// When its work may begin.
    pub(super) release_ns: u64,
    /// When it must have been done.
    pub(super) due_ns: u64,
}

/// A decoder's frames, and the machine's speed.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    /// Frames in a second.
    pub(super) rate: u64,
    /// Mean work of a frame, us.
    pub(super) mean_us: u64,
    /// Rounds of work in a millisecond.
    pub(super) per_ms: u64,
    /// When the first frame is released, ns.
    pub(super) begin_ns: u64,
}

/// Decodes; `wait` waits for a frame's release. Answers the frames that were late, in thousandths.
pub(super) fn decode(decoder: Decoder, wait: impl Fn(Frame)) -> u64 {
    let Decoder { rate, mean_us, per_ms, begin_ns } = decoder;
    let mut noise = Noise(SEED ^ rate);
    let mut late = 0;
    for frame in 0..rate * SECONDS {
        let due_ns = begin_ns + (frame + 1) * SECOND_NS / rate;
        wait(Frame { release_ns: begin_ns + frame * SECOND_NS / rate, due_ns });
        let part = 1_000 * 100 + noise.next() * SIGMA_PERCENT;
        work(mean_us * per_ms / 1_000 * part.max(0) as u64 / 100_000);
        late += u64::from(now_ns() > due_ns);
    }
    late * 1_000 / (rate * SECONDS)
}

/// Waits in a thread of a scheduler of the program's own.
fn wait_with_deadline(frame: Frame) {
    let slept = set_deadline(frame.due_ns).and_then(|()| sleep_until(frame.release_ns));
    assert!(slept.is_ok(), "this is a thread of a scheduler");
}

/// Late frames of each decoder, in thousandths.
fn late(policy: &'static dyn Scheduler, per_ms: u64) -> Result<[u64; 2], Error> {
    let late = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let seen = late.clone();
    run(policy, Options::new(1, TICK), move || {
        let begin = now_ns() + 5_000_000;
        for (at, (rate, mean_us)) in DECODERS.into_iter().enumerate() {
            let late = seen.clone();
            let decoder = Decoder { rate, mean_us, per_ms, begin_ns: begin };
            let decoder = move || late[at].store(decode(decoder, wait_with_deadline), Ordering::Relaxed);
            assert!(spawn_due(begin, decoder).is_ok(), "there is room for two threads");
        }
    })?;
    Ok([0, 1].map(|at| late[at].load(Ordering::Relaxed)))
}

/// Measures both policies on the same frames, and on Linux its own deadlines.
pub(crate) fn measure() -> Result<(), Error> {
    let per_ms = rounds_per_ms();
    let policies: [(&str, &dyn Scheduler); 2] = [("edf", EarliestDeadline::leaked()), ("rr", RoundRobin::leaked())];
    for (name, policy) in policies {
        let late = late(policy, per_ms)?;
        println!("deadlines: {name}-60 {}", late[0]);
        println!("deadlines: {name}-30 {}", late[1]);
    }
    if Way::of_kernel() == Way::Signals {
        kernel_deadlines::measure(per_ms)?;
    }
    Ok(())
}
