//! Working on an image that may be damaged: it ends, and without a panic.

use super::exercise::{Endings, Explorer, note};
use crate::support::{RamDisk, mount_on, new_cache};
use gyre_message::direct::block_on;
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};
use gyre_mutate::Computed;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

/// Virtual time and requests of the disk, of which sound and damaged images need a thousandth.
const NS_MAX: u64 = 600_000_000_000;
const REQUESTS_MAX: u64 = 1_000_000;
/// The processor time of one image: a loop without requests to the disk is found by it.
const COMPUTED_MAX: Duration = Duration::from_secs(120);

/// The outcome.
pub struct Survival {
    /// Names that led somewhere.
    pub answers: usize,
    pub endings: Endings,
}

/// Works on an image; of a disk, `prepare` may make one that fails.
pub fn survive(image: Vec<u8>, what: &str, prepare: impl FnOnce(&'static RamDisk)) -> Survival {
    let watched = Watched::new(what);
    let survival = block_on(async {
        let disk = RamDisk::leak(image);
        prepare(disk);
        let survival = to_its_end(disk, what, work(disk)).await;
        disk.discard();
        survival
    });
    drop(watched);
    survival
}

/// Waits for work on a disk, which may take only so much time and so many requests.
pub async fn to_its_end<T>(disk: &RamDisk, what: &str, work: impl Future<Output = T>) -> T {
    let Either::First(done) = select(work, sleep_ns(NS_MAX)).await else { panic!("{what}: no end") };
    assert!(disk.0.lock().requests < REQUESTS_MAX, "{what}: too many requests");
    done
}

async fn work(disk: &'static RamDisk) -> Survival {
    let mut endings = Endings::new();
    let mounted = mount_on(disk, new_cache(512)).await;
    let Some(fs) = note(&mut endings, "mount", mounted) else { return Survival { answers: 0, endings } };
    let mut explorer = Explorer::new(fs);
    explorer.exercise().await;
    endings.append(&mut explorer.endings);
    Survival { answers: explorer.answers, endings }
}

/// An image that is worked on now.
struct Work {
    serial: u64,
    thread: Computed,
    /// How long the thread had computed before.
    before: Duration,
    what: String,
}

static NOW: Mutex<Vec<Work>> = Mutex::new(Vec::new());

/// An image that is worked on; one that takes too long, or panics, is said on the console.
struct Watched(u64);

impl Watched {
    fn new(what: &str) -> Watched {
        static STARTED: std::sync::Once = std::sync::Once::new();
        static SERIAL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        STARTED.call_once(|| drop(std::thread::spawn(watch)));
        let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let thread = Computed::by_this_thread();
        let work = Work { serial, before: thread.so_far(), thread, what: what.into() };
        NOW.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(work);
        Watched(serial)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut now = NOW.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let ended = now.iter().position(|work| work.serial == self.0).map(|index| now.swap_remove(index));
        if let Some(work) = ended.filter(|_| std::thread::panicking()) {
            eprintln!("while this was worked on: {}", work.what);
        }
    }
}

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = NOW.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_late = |work: &&Work| work.thread.so_far().saturating_sub(work.before) > COMPUTED_MAX;
        if let Some(work) = now.iter().find(is_late) {
            eprintln!("no end after {COMPUTED_MAX:?} of computing: {}", work.what);
            std::process::abort();
        }
    }
}
