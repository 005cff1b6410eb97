//! Tasks of the instance that live on one core, and go elsewhere while that core is away: notices of devices, keepers of file systems.
//!
//! Such a task is made again where it goes, so it must not mind being dropped between two polls. It is stopped on the core that leaves and
//! started on the resident one; when the core has come back it goes home in the same way. A notice is handled once when it has arrived, so what
//! was sent meanwhile is not missed.

use crate::engine::Engine;
use crate::slots::RESIDENT;
use crate::task::{State, TaskRef};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_account::{ActivityId, ResourceId};
use gyre_machine::core_index;
use gyre_object::SpinLock;

/// No place yet.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// Starts the task on the core that calls, and answers its name.
type Start = Box<dyn Fn(&'static Engine) -> Option<TaskRef> + Send + Sync>;

/// A task that is bound to a core.
pub(crate) struct Pinned {
    home: usize,
    /// The core on which it is, or to which it is on its way.
    core: AtomicUsize,
    /// Its name there.
    pub(crate) place: AtomicU64,
    start: Start,
}

/// All of an instance.
pub(crate) struct PinnedTasks {
    list: SpinLock<Vec<&'static Pinned>>,
}

impl PinnedTasks {
    pub(crate) fn new() -> PinnedTasks {
        PinnedTasks { list: SpinLock::new(Vec::new()) }
    }

    fn of_home(&self, home: usize) -> Vec<&'static Pinned> {
        self.list.lock().iter().filter(|pinned| pinned.home == home).copied().collect()
    }
}

impl Engine {
    /// Keeps a task of the infrastructure on a core, and on the resident core while that one is away. `make` is called again after each
    /// move, on the core to which it went: the future that it made before is dropped then, between two polls.
    pub fn keep_on<F: Future<Output = ()> + 'static>(
        &'static self,
        core: usize,
        resource: ResourceId,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) {
        self.pin(core, move |engine| {
            let mut name = None;
            let _started = engine.start(resource, ActivityId::INFRASTRUCTURE, make(), |state, task| {
                name =
                    state.tasks.get(task).map(|header| header.generation).map(|generation| name_here(task, generation));
            });
            name
        });
    }

    /// Notes a task that is bound to a core, and starts it.
    pub(crate) fn pin(
        &'static self,
        home: usize,
        start: impl Fn(&'static Engine) -> Option<TaskRef> + Send + Sync + 'static,
    ) -> &'static Pinned {
        let pinned: &'static Pinned = Box::leak(Box::new(Pinned {
            home,
            core: AtomicUsize::new(home),
            place: AtomicU64::new(NOWHERE),
            start: Box::new(start),
        }));
        self.pinned.list.lock().push(pinned);
        self.start_pinned(pinned);
        pinned
    }

    /// Starts it where it belongs now.
    fn start_pinned(&'static self, pinned: &'static Pinned) {
        let core = if self.is_online(pinned.home) { pinned.home } else { RESIDENT };
        pinned.core.store(core, Ordering::SeqCst);
        self.errand(core, move |engine| {
            // The core may have begun to leave meanwhile.
            if core != RESIDENT && !engine.is_online(core) {
                return engine.start_pinned(pinned);
            }
            match (pinned.start)(engine) {
                Some(name) => pinned.place.store(name.encode(), Ordering::SeqCst),
                None => log::error!("no memory for a task that is bound to core {core}: a device may not be heard"),
            }
        });
    }

    /// Stops the tasks of `home` that are on this core, and starts them where they belong now. They are dropped between two polls.
    pub(crate) fn repin(&'static self, home: usize) {
        let here = core_index();
        for pinned in self.pinned.of_home(home) {
            let name = TaskRef::decode(pinned.place.load(Ordering::SeqCst));
            let is_here = pinned.core.load(Ordering::SeqCst) == here && self.stop_pinned(name);
            if is_here {
                pinned.place.store(NOWHERE, Ordering::SeqCst);
                self.start_pinned(pinned);
            }
        }
    }

    /// Drops a task of this core that is not being polled. False if there is none of that name.
    fn stop_pinned(&'static self, name: TaskRef) -> bool {
        let claimed = {
            let mut state = self.state.here().borrow_mut();
            let state = &mut *state;
            let known = state.tasks.get_mut(name.index).filter(|header| {
                header.generation == name.generation && matches!(header.state, State::Queued | State::Waiting)
            });
            let Some(header) = known else {
                return false;
            };
            let was_queued = core::mem::replace(&mut header.state, State::Running) == State::Queued;
            let claimed = header.vtable.map(|vtable| (header.memory, vtable));
            if was_queued {
                state.queues.unlink(&mut state.tasks, name.index);
            }
            claimed
        };
        if let Some((memory, vtable)) = claimed {
            self.finish(name.index, memory, vtable);
        }
        claimed.is_some()
    }

    /// Has the notices and keepers of `home` look once, wherever they are: something may have been lost on the way.
    pub(crate) fn wake_pinned(&self, home: usize) {
        for pinned in self.pinned.of_home(home) {
            let place = pinned.place.load(Ordering::SeqCst);
            if place != NOWHERE {
                self.wake(TaskRef::decode(place));
            }
        }
    }
}

/// Returns the name of a task of this core that is no thread.
pub(crate) fn name_here(task: u32, generation: u32) -> TaskRef {
    TaskRef { core: core_index() as u8, is_thread: false, index: task, generation }
}
