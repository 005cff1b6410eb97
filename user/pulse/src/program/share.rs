//! The number of virtual cores follows the program's share: threads compute while the owner changes it.
//!
//! `share FILE COUNT...`: waits until there is each COUNT of virtual cores, one after the other, and says each in a line of FILE, so that who
//! changes the share knows when. A count is there if the scheduler was told of it last, and just so many virtual cores have ticks.

use std::{
    fs::OpenOptions,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gyre_pulse::{
    Error, Follows, Held, Options, Scheduler, Vcore, masked, now_ns, run, schedulers::RoundRobin, sleep_until, spawn,
};

/// The most virtual cores.
const CORES: usize = 2;
/// Threads that compute.
const THREADS: usize = 4;
const TICK: Duration = Duration::from_millis(1);
/// Time in which each virtual core has ticks, and one that has left has none, ns.
const WINDOW_NS: u64 = 500_000_000;
/// A change that has not come by then does not come, ns.
const LATEST_NS: u64 = 120_000_000_000;

/// Round robin that notes what it is told.
struct Noted {
    policy: &'static RoundRobin,
    /// The virtual cores that it was told of last.
    cores: AtomicUsize,
    /// Those that have had a tick, a bit each.
    ticked: AtomicU64,
}

impl Scheduler for Noted {
    fn ready(&self, core: Vcore, held: Held) {
        self.policy.ready(core, held);
    }

    fn enter(&self, core: Vcore) -> Option<Held> {
        self.policy.enter(core)
    }

    fn tick(&self, core: Vcore, running: Held) -> Option<Held> {
        self.ticked.fetch_or(1 << core.0, Ordering::AcqRel);
        self.policy.tick(core, running)
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        self.policy.yielded(core, running)
    }

    fn adapt(&self, _before: usize, after: usize) {
        self.cores.store(after, Ordering::Release);
    }
}

impl Noted {
    /// True if the scheduler was told of so many virtual cores, and just these have ticks from now on.
    fn has(&self, cores: usize) -> bool {
        self.ticked.store(0, Ordering::Release);
        // On an error this is no thread of a scheduler, and no virtual core has a tick.
        let _ = sleep_until(now_ns().saturating_add(WINDOW_NS));
        self.cores.load(Ordering::Acquire) == cores
            && self.ticked.load(Ordering::Acquire).count_ones() as usize == cores
    }
}

fn say(file: &str, count: usize) -> std::io::Result<()> {
    writeln!(OpenOptions::new().create(true).append(true).open(file)?, "{count}")
}

pub(crate) fn show(mut words: impl Iterator<Item = String>) -> Result<(), Error> {
    let file = words.next().unwrap_or_default();
    let counts: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
    let noted: &'static Noted = Box::leak(Box::new(Noted {
        policy: RoundRobin::leaked(),
        cores: AtomicUsize::new(CORES),
        ticked: AtomicU64::new(0),
    }));
    let (seen, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (met, wanted) = (seen.clone(), counts.len());
    run(noted, Options { follows: Follows::Share, ..Options::new(CORES, TICK) }, move || {
        for _ in 0..THREADS {
            let is_over = is_over.clone();
            let spawned = spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            });
            assert!(spawned.is_ok(), "there is room for the threads");
        }
        let until_ns = now_ns().saturating_add(LATEST_NS);
        for count in counts {
            while !noted.has(count) && now_ns() < until_ns {}
            if now_ns() >= until_ns || masked(|| say(&file, count)).is_err() {
                break;
            }
            met.fetch_add(1, Ordering::AcqRel);
        }
        is_over.store(true, Ordering::Release);
    })?;
    let seen = seen.load(Ordering::Acquire);
    println!("share: changes {seen}");
    if seen == wanted { Ok(()) } else { Err(Error::Busy) }
}
