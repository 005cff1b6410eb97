//! The processors that the program may use, looked up again and again while it runs: its number of virtual cores follows them.
//!
//! The kernel shows them as files of the program's control group (cgroups(7), version 2):
//!
//! | file | says |
//! |---|---|
//! | `cpu.max` | the processor time in a period: what the owner sets as `cpu.limit` on Gyre |
//! | `cpuset.cpus.effective` | the processors: on Gyre those of the tenant's cell in time, if it is one |
//!
//! The least of all groups from the program's own up to the root holds. A part of a processor counts as a whole one, so that no time is left
//! unused. A file that is not there, or says nothing that is known, sets no limit.
//!
//! No file tells of its change on every kernel, so a kernel thread of its own looks each [`LOOK`]. It notes what it finds; a virtual core begins the
//! change. It has no part in the program's scheduler.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crate::{Error, futex, runtime::Runtime};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The thread that looks needs little.
const STACK_BYTES: usize = 128 << 10;
/// `Watch::state`: it goes on.
const WATCHES: u32 = 0;
const ENDS: u32 = 1;

/// The fact that the number of virtual cores follows, besides the program's own [`crate::resize`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Follows {
    /// None.
    #[default]
    Nothing,
    /// The processors that the program may use, as its control group says: from 1 to those of [`crate::Options::cores`].
    Share,
}

/// The files that say it: those of a control group, and of all above it.
pub(crate) struct Source {
    groups: Vec<PathBuf>,
}

impl Source {
    /// The program's control group, as the kernel shows it.
    pub(crate) fn of_kernel() -> Source {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Source::at(Path::new("/sys/fs/cgroup"), own_group(&groups).unwrap_or("/"))
    }

    /// A group below a root.
    fn at(root: &Path, group: &str) -> Source {
        let own = root.join(group.trim_start_matches('/'));
        let groups = own.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_path_buf).collect();
        Source { groups }
    }

    /// Processors that may be used, one at least; `None` without any limit.
    fn processors(&self) -> Option<usize> {
        let read = |group: &PathBuf, name| fs::read_to_string(group.join(name)).ok();
        let limits = self.groups.iter().filter_map(|group| limit(&read(group, "cpu.max")?));
        let sets = self.groups.iter().filter_map(|group| count(&read(group, "cpuset.cpus.effective")?));
        limits.chain(sets).min().map(|least| least.max(1))
    }
}

/// The path of the group of version 2 in the lines of /proc/self/cgroup.
fn own_group(lines: &str) -> Option<&str> {
    lines.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The processors of a line of cpu.max: "QUOTA PERIOD" or "max PERIOD".
fn limit(line: &str) -> Option<usize> {
    let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (quota, period) = (numbers.next()??, numbers.next()??);
    (period != 0).then(|| usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX))
}

/// The number of processors in a list of ranges: "0-1,3".
fn count(list: &str) -> Option<usize> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    ranges.sum()
}

/// The thread that looks.
pub(crate) struct Watch {
    state: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Looks from now on.
    ///
    /// # Errors
    /// [`Error::Kernel`] without room for a thread.
    pub(crate) fn begin(source: Source, runtime: &'static Runtime) -> Result<Watch, Error> {
        let state = Arc::new(AtomicU32::new(WATCHES));
        let seen = state.clone();
        let thread = Builder::new().name("gyre-share".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || look(&source, runtime, &seen))?;
        Ok(Watch { state, thread })
    }

    /// Ends it.
    pub(crate) fn end(self) {
        self.state.store(ENDS, Ordering::Release);
        futex::wake_all(&self.state);
        // It does not panic; if it did, the number would stay as it is.
        let _ = self.thread.join();
    }
}

fn look(source: &Source, runtime: &Runtime, state: &AtomicU32) {
    let mut before = usize::MAX;
    while state.load(Ordering::Acquire) == WATCHES {
        let now = source.processors().unwrap_or(usize::MAX);
        if std::mem::replace(&mut before, now) != now {
            runtime.note_share(now);
        }
        futex::wait(state, WATCHES, LOOK);
    }
}

#[cfg(test)]
mod tests;
