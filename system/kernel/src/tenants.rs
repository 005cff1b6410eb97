//! The tenants: which of them run, how their first programs are, and which were ended as a whole.
//!
//! * [`Running`] is a tenant that runs; a tenant that a failure of the kernel ended has another one in its next life.
//! * [`Duty`] is what its program is, and what follows the program's end: as described, until its owner says otherwise.
//! * [`First`] is its first program, while it runs; [`Wish`] is what its owner wishes for it.
//!
//! Indices are those of the description. `crate::living` reads wishes and sets states; everything here may be called by any core and
//! never waits, but for [`Tenants::until`].

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_contract::boot::{Program, Restart, Tenant as Description};
use gyre_contract::monitor::State;
use gyre_linux::file::tenant_files::TenantFiles;
use gyre_linux::{Process, Tenant};
use gyre_message::WaitQueue;
use gyre_object::{SetOnce, SpinLock};
use gyre_tmpfs::Tmpfs;

/// A running tenant.
pub struct Running {
    /// Its processes.
    pub tenant: Arc<Tenant>,
    /// Its files.
    pub files: Arc<TenantFiles>,
    /// Its file systems in memory.
    pub memory: Vec<&'static Tmpfs>,
    /// Kernel failures in work for it.
    pub failures: Failures,
}

/// The kernel failures in work for a tenant.
#[derive(Default)]
pub struct Failures {
    count: AtomicU32,
    has_ended: AtomicBool,
}

/// Whether a tenant had been ended before it was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The caller ends it.
    Now,
    /// Somebody else does, or did.
    Before,
}

impl Failures {
    /// Counts one more, and returns how many there are.
    pub fn add_one(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Notes that the tenant as a whole is ended.
    pub fn end_tenant(&self) -> Ended {
        if self.has_ended.swap(true, Ordering::AcqRel) { Ended::Before } else { Ended::Now }
    }

    /// Returns true once the tenant as a whole was ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Returns the number of kernel failures in work for the tenant.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

/// The program of a tenant, and what follows its end.
#[derive(Clone)]
pub struct Duty {
    /// The program.
    pub program: Arc<Program>,
    /// The deed that follows its end.
    pub restart: Restart,
}

/// The first program of a tenant, which runs.
pub struct First {
    /// Its process.
    pub process: Arc<Process>,
    /// The signal that asks it to end.
    pub stop_signal: i32,
}

/// Lives of a tenant at most, those that its owner ended to give it another image among them.
pub const LIVES_MAX: usize = LIVES_AT_ONCE * LIVES_AT_ONCE;
const LIVES_AT_ONCE: usize = 8;

/// A tenant of the description.
#[derive(Default)]
struct Slot {
    /// Its lives so far; the last one is its present one, or was.
    lives: [[SetOnce<&'static Running>; LIVES_AT_ONCE]; LIVES_AT_ONCE],
    /// Its program, if it is another one than that of the description.
    duty: SpinLock<Option<Duty>>,
    /// How its first program is.
    state: SpinLock<State>,
    /// Its first program, while it runs.
    first: SpinLock<Option<First>>,
    /// The owner's wish for it.
    wish: SpinLock<Wish>,
    /// The wish has changed.
    changed: WaitQueue,
    /// Times that its program was started again.
    restarts: AtomicU64,
    /// Times that its file systems were read anew, or begun to be.
    readings: AtomicU32,
    /// The wish that stands again when it comes back, while it is away.
    kept_wish: SpinLock<Option<Wish>>,
}

impl Slot {
    fn last(&self) -> Option<&'static Running> {
        self.lives().rev().find_map(SetOnce::get)
    }

    fn lives(&self) -> impl DoubleEndedIterator<Item = &SetOnce<&'static Running>> {
        self.lives.iter().flatten()
    }
}

/// An owner's wish for a tenant's program.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Wish {
    /// It runs; after its end follows what the description says.
    #[default]
    Runs,
    /// It does not run.
    Stopped,
    /// It ends and is started again at once.
    Again,
}

/// The tenants, in the description's order.
pub struct Tenants(Vec<Slot>);

impl Tenants {
    /// Makes places for so many tenants, none of which runs yet.
    pub fn new(count: usize) -> Tenants {
        Tenants((0..count).map(|_| Slot::default()).collect())
    }

    /// Notes that a tenant runs, or runs again.
    pub fn begin(&self, index: usize, running: &'static Running) {
        let lives = self.0.get(index).into_iter().flat_map(Slot::lives);
        for life in lives {
            if life.set(running) {
                return;
            }
        }
    }

    /// Returns how many lives a tenant has had, its present one among them.
    pub fn lives(&self, index: usize) -> usize {
        self.0.get(index).map_or(0, |slot| slot.lives().filter(|life| life.get().is_some()).count())
    }

    /// Returns in how many of them the kernel failed.
    pub fn losses(&self, index: usize) -> usize {
        let lost = |life: &&SetOnce<&'static Running>| life.get().is_some_and(|running| running.failures.count() > 0);
        self.0.get(index).map_or(0, |slot| slot.lives().filter(lost).count())
    }

    /// Keeps what the owner wishes for a tenant that goes away.
    pub fn keep_wish(&self, index: usize, wish: Wish) {
        if let Some(slot) = self.0.get(index) {
            *slot.kept_wish.lock() = Some(wish);
        }
    }

    /// Returns whether it goes away, or is away.
    pub fn is_going(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|slot| slot.kept_wish.lock().is_some())
    }

    /// Returns what was kept, once.
    pub fn take_kept_wish(&self, index: usize) -> Option<Wish> {
        self.0.get(index)?.kept_wish.lock().take()
    }

    /// Returns a tenant by its index in the description, once it runs and until it was ended as a whole.
    pub fn running(&self, index: usize) -> Option<&'static Running> {
        self.begun(index).filter(|running| !running.failures.has_ended())
    }

    /// Returns a tenant by its index once it runs, also after its end: its log and its figures stay.
    pub fn begun(&self, index: usize) -> Option<&'static Running> {
        self.0.get(index).and_then(Slot::last)
    }

    /// Returns a tenant by its activity, once it runs and until it was ended as a whole.
    pub fn of_activity(&self, activity: ActivityId) -> Option<&'static Running> {
        let mut all = self.0.iter().filter_map(Slot::last);
        let running = all.find(|running| running.tenant.activity() == activity);
        running.filter(|running| !running.failures.has_ended())
    }

    /// Returns what a tenant runs when its program starts next; `None` for one that runs what comes by `gyre exec`.
    pub fn duty(&self, index: usize, description: &Description) -> Option<Duty> {
        let described = || {
            let program = Arc::new(description.program.clone()?);
            Some(Duty { program, restart: description.restart })
        };
        let slot = self.0.get(index)?;
        let changed = slot.duty.lock().clone();
        changed.or_else(described)
    }

    /// Sets what a tenant runs when its program starts next.
    pub fn set_duty(&self, index: usize, duty: Duty) {
        if let Some(slot) = self.0.get(index) {
            let before = slot.duty.lock().replace(duty);
            // Outside of the lock.
            drop(before);
        }
    }

    /// Returns how a tenant's first program is, by the tenant's index in the description.
    pub fn state(&self, index: usize) -> State {
        self.0.get(index).map_or(State::Starting, |slot| slot.state.lock().clone())
    }

    /// Returns a tenant's first program, while it runs.
    pub fn first(&self, index: usize) -> Option<Arc<Process>> {
        self.0.get(index).and_then(|slot| slot.first.lock().as_ref().map(|first| first.process.clone()))
    }

    /// Returns the signal that asks a tenant's first program to end, while it runs.
    pub fn stop_signal(&self, index: usize) -> Option<i32> {
        self.0.get(index).and_then(|slot| slot.first.lock().as_ref().map(|first| first.stop_signal))
    }

    /// Notes a tenant's first program, or its end.
    pub fn set_first(&self, index: usize, first: Option<First>) {
        if let Some(slot) = self.0.get(index) {
            let before = core::mem::replace(&mut *slot.first.lock(), first);
            drop(before);
        }
    }

    /// Returns what the owner wishes for a tenant's program.
    pub fn wished(&self, index: usize) -> Wish {
        self.0.get(index).map_or(Wish::Stopped, |slot| *slot.wish.lock())
    }

    /// Notes what the owner wishes for a tenant's program.
    pub fn wish(&self, index: usize, wish: Wish) {
        if let Some(slot) = self.0.get(index) {
            *slot.wish.lock() = wish;
            slot.changed.wake_all();
        }
    }

    /// Waits until the owner's wish is so.
    pub async fn until(&self, index: usize, is_so: impl Fn(Wish) -> bool) {
        if let Some(slot) = self.0.get(index) {
            slot.changed.until(|| is_so(*slot.wish.lock()).then_some(())).await;
        }
    }

    /// Counts that a tenant's program is started again.
    pub fn count_restart(&self, index: usize) {
        if let Some(slot) = self.0.get(index) {
            slot.restarts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how often a tenant's file systems were read before, and counts that they are read.
    pub fn count_reading(&self, index: usize) -> u32 {
        self.0.get(index).map_or(0, |slot| slot.readings.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns how often a tenant's program was started again.
    pub fn restarts(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |slot| slot.restarts.load(Ordering::Relaxed))
    }

    /// Notes how a tenant's first program is.
    pub fn set_state(&self, index: usize, state: State) {
        if let Some(slot) = self.0.get(index) {
            *slot.state.lock() = state;
        }
    }
}
