//! Files of a control group as kernels write them, and a scheduler whose program's share changes while it runs.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize},
    time::Instant,
};

use super::*;
use crate::{Held, Options, Scheduler, Vcore, resize, run, runtime::run_from, schedulers::RoundRobin, spawn};

#[global_allocator]
static HEAP: crate::Allocator = crate::Allocator;

/// For hangs only: a busy host may be slow.
const LATEST: Duration = Duration::from_secs(60);

/// A folder that is a control group's root, for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("gyre-pulse-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("a/b")).unwrap();
        Folder(path)
    }

    /// Writes a file as a whole, as a kernel's are.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join("new"), text).unwrap();
        fs::rename(self.0.join("new"), self.0.join(name)).unwrap();
    }

    fn processors(&self, group: &str) -> Option<usize> {
        Source::at(&self.0, group).processors()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_quota_is_so_many_processors_and_a_part_of_one_counts_as_one() {
    for (line, processors) in [("100000 100000\n", 1), ("50000 100000", 1), ("200000 100000", 2), ("200001 100000", 3)]
    {
        assert_eq!(limit(line), Some(processors), "{line}");
    }
    for line in ["max 100000\n", "", "100000", "100000 0", "-1 100000", "much of it"] {
        assert_eq!(limit(line), None, "{line}");
    }
}

#[test]
fn a_list_of_processors_is_counted() {
    for (list, processors) in [("0\n", 1), ("0-1,3\n", 3), ("7", 1), ("0-7", 8)] {
        assert_eq!(count(list), Some(processors), "{list}");
    }
    for list in ["\n", "3-1", "0-18446744073709551615", "0,,1", "all"] {
        assert_eq!(count(list), None, "{list}");
    }
}

#[test]
fn the_least_of_all_groups_up_to_the_root_holds() {
    assert_eq!(own_group("9:name=systemd:/x\n0::/a/b\n"), Some("/a/b"));
    let folder = Folder::new("least");
    assert_eq!(folder.processors("/a/b"), None);
    folder.write("a/cpu.max", "300000 100000\n");
    folder.write("a/b/cpu.max", "max 100000\n");
    assert_eq!((folder.processors("/a/b"), folder.processors("/")), (Some(3), None));
    folder.write("cpuset.cpus.effective", "0-1\n");
    assert_eq!((folder.processors("/a/b"), folder.processors("/")), (Some(2), Some(2)));
    folder.write("a/b/cpu.max", "0 100000\n");
    assert_eq!(folder.processors("/a/b"), Some(1), "one at least");
}

/// Round robin that notes what it is told, and the virtual cores that have ticks.
struct Noted {
    policy: &'static RoundRobin,
    after: AtomicUsize,
    calls: AtomicUsize,
    seen: AtomicU64,
}

impl Noted {
    fn leaked(cores: usize) -> &'static Noted {
        let (after, calls) = (AtomicUsize::new(cores), AtomicUsize::new(0));
        Box::leak(Box::new(Noted { policy: RoundRobin::leaked(), after, calls, seen: AtomicU64::new(0) }))
    }

    /// Waits until the program has so many virtual cores, and each of them, but no other, has ticks.
    fn wait_for(&self, cores: usize) {
        let begun = Instant::now();
        let is_told = || self.after.load(Ordering::Acquire) == cores;
        while !is_told() {
            assert!(begun.elapsed() < LATEST, "not told of {cores}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.seen.store(0, Ordering::Release);
        while self.seen.load(Ordering::Acquire) != (1 << cores) - 1 {
            assert!(begun.elapsed() < LATEST, "ticks on {:b}, not on {cores}", self.seen.load(Ordering::Acquire));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Scheduler for Noted {
    fn ready(&self, core: Vcore, held: Held) {
        self.policy.ready(core, held);
    }

    fn enter(&self, core: Vcore) -> Option<Held> {
        self.policy.enter(core)
    }

    fn tick(&self, core: Vcore, running: Held) -> Option<Held> {
        self.seen.fetch_or(1 << core.0, Ordering::AcqRel);
        self.policy.tick(core, running)
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        self.policy.yielded(core, running)
    }

    fn adapt(&self, before: usize, after: usize) {
        self.policy.adapt(before, after);
        self.calls.fetch_add(1, Ordering::AcqRel);
        self.after.store(after, Ordering::Release);
    }
}

fn options(follows: Follows) -> Options {
    let usual = Options::new(3, Duration::from_millis(1));
    Options { limit: LATEST, follows, ..usual }
}

/// Runs threads that compute until `outside` has returned, which is another kernel thread.
fn beside(
    source: Source,
    noted: &'static Noted,
    follows: Follows,
    first: fn(),
    outside: impl FnOnce() + Send + 'static,
) {
    let is_over = Arc::new(AtomicU32::new(0));
    let (ends, watched) = (is_over.clone(), is_over);
    let other = std::thread::spawn(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(outside));
        ends.store(1, Ordering::Release);
        assert!(done.is_ok());
    });
    let ran = run_from(
        || source,
        noted,
        options(follows),
        move || {
            for _ in 0..4 {
                let watched = watched.clone();
                let compute = move || {
                    while watched.load(Ordering::Acquire) == 0 {
                        std::hint::spin_loop();
                    }
                };
                assert!(spawn(compute).is_ok());
            }
            first();
        },
    );
    assert!(ran.is_ok(), "{ran:?}");
    other.join().unwrap();
}

#[test]
fn the_number_of_virtual_cores_follows_the_share_while_the_program_runs() {
    let folder = Folder::new("follows");
    let noted = Noted::leaked(3);
    beside(
        Source::at(&folder.0, "/a"),
        noted,
        Follows::Share,
        || (),
        move || {
            noted.wait_for(3);
            assert_eq!(noted.calls.load(Ordering::Acquire), 0, "nothing has changed");
            folder.write("a/cpu.max", "100000 100000\n");
            noted.wait_for(1);
            folder.write("a/cpu.max", "800000 100000\n");
            noted.wait_for(3);
            folder.write("cpuset.cpus.effective", "4-5\n");
            noted.wait_for(2);
            folder.write("cpuset.cpus.effective", "4-6\n");
            noted.wait_for(3);
        },
    );
    assert_eq!(noted.calls.load(Ordering::Acquire), 4, "each change is told once");
}

#[test]
fn a_limit_that_is_there_before_the_program_holds_from_its_beginning() {
    let folder = Folder::new("before");
    folder.write("a/cpu.max", "150000 100000\n");
    let noted = Noted::leaked(3);
    beside(Source::at(&folder.0, "/a"), noted, Follows::Share, || (), move || noted.wait_for(2));
}

#[test]
fn who_follows_nothing_keeps_what_it_asked_for() {
    let folder = Folder::new("nothing");
    folder.write("a/cpu.max", "100000 100000\n");
    let noted = Noted::leaked(3);
    let shrink = || assert!(resize(2).is_ok());
    beside(Source::at(&folder.0, "/a"), noted, Follows::Nothing, shrink, move || noted.wait_for(2));
    assert_eq!(noted.calls.load(Ordering::Acquire), 1);
}

#[test]
fn the_share_of_this_kernel_can_be_followed() {
    let ran = run(Noted::leaked(3), options(Follows::Share), || ());
    assert!(ran.is_ok(), "{ran:?}");
}
