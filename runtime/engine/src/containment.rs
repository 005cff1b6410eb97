//! A failure in work done for a tenant ends that work, not the machine.
//!
//! Each poll and each drop of a task's future is guarded. The innermost one is given up: the engine never starts a handler with a lock
//! held, so all locks held are that one's, and the frames outside are whole. Its future stays as it lies, for ever; what the engine keeps
//! of it is released, its promised reply ends with `Gone`, and who asked for it is told ([`Obituary`]).

use crate::engine::Engine;
use crate::hot::Hot;
use crate::task::NIL;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, ResourceId, Span, current, set_current};
use gyre_machine::{FailedAt, Failure, GivenUp, Verdict};
use gyre_object::promise::{Note, end_promise, note_promise, noted_promise};

/// The state that is lost with work that is given up, because the work may have held parts of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Reach {
    /// State that the process has for itself.
    Process,
    /// State that its tenant's processes share.
    Tenant,
    /// State that tenants share: then the failure ends the machine.
    Machine,
}

impl Reach {
    pub(crate) fn of(word: u8) -> Reach {
        match word {
            0 => Reach::Process,
            1 => Reach::Tenant,
            _ => Reach::Machine,
        }
    }
}

/// Work that was given up.
pub struct Obituary {
    /// For whom it was done.
    pub activity: ActivityId,
    /// By which resource.
    pub resource: ResourceId,
    /// The resource whose code failed: another one if the work was a look at that.
    pub failed_in: ResourceId,
    /// Its task's number on the core.
    pub task: u32,
    /// Whether it was a thread, which is gone now without having left its process.
    pub kind: Lost,
    /// The state that is lost with it.
    pub reach: Reach,
    /// The message of the failure, and its place.
    pub failure: Failure,
}

/// A piece of work that was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// A thread of a process.
    Thread,
    /// A request, or a task without a program.
    Request,
}

/// Told of work that was given up, on its core, right after it. Must not wait.
pub type Mourner = &'static (dyn Fn(&Obituary) + Send + Sync);

/// How a core stood when it began what is guarded.
struct Before {
    activity: ActivityId,
    resource: ResourceId,
    depth: u32,
    callee: u32,
}

impl Engine {
    /// From now on failures in work for activities other than the infrastructure are contained, and `mourner` is told of each.
    pub fn contain_failures(&'static self, mourner: Mourner) {
        if self.mourner.set(mourner) {
            gyre_machine::set_judge(|at| match Engine::current() {
                Some(engine) => engine.judge(at),
                None => Verdict::EndMachine("there is no engine"),
            });
        }
    }

    /// Returns the reach of a failure in a resource's work; [`Reach::Machine`] if none was declared.
    pub fn set_reach(&self, resource: ResourceId, reach: Reach) {
        if let Some(known) = self.resources.get(resource.index()) {
            known.reach.store(reach as u8, Ordering::Relaxed);
        }
    }

    /// Says what a resource's work may hold of what all tenants share: the words with which a failure in it ends the machine. Once.
    pub fn set_shared(&self, resource: ResourceId, state: &'static str) {
        if let Some(known) = self.resources.get(resource.index()) {
            known.shared.set(state);
        }
    }

    /// The state that tenants share and that work of one of these resources may hold.
    fn shared_of(&self, resources: [ResourceId; 2]) -> &'static str {
        let at_machine = resources.iter().filter(|resource| self.reach_of(**resource) == Reach::Machine);
        let mut words = at_machine.filter_map(|resource| self.resources.get(resource.index())?.shared.get());
        words.next().unwrap_or("what all tenants share may be half changed")
    }

    fn reach_of(&self, resource: ResourceId) -> Reach {
        self.resources
            .get(resource.index())
            .map_or(Reach::Machine, |known| Reach::of(known.reach.load(Ordering::Relaxed)))
    }

    /// Does what belongs to a task: a step of its future, or its drop.
    ///
    /// # Errors
    /// [`GivenUp`]: it failed. The core stands as before; the task must be mourned.
    #[inline]
    pub(crate) fn guarded(&'static self, hot: &Hot, task: u32, work: impl FnMut()) -> Result<(), GivenUp> {
        let outer = hot.guarded.replace(task);
        let (activity, resource) = current();
        let before = Before { activity, resource, depth: hot.depth.get(), callee: hot.callee.get() };
        let promise = noted_promise();
        let done = gyre_machine::guarded(work);
        if done.is_err() {
            self.put_back(&before, promise);
        }
        hot.guarded.set(outer);
        done
    }

    #[cold]
    fn put_back(&'static self, before: &Before, promise: Note) {
        let hot = self.hot.here();
        gyre_object::give_up_locks();
        hot.failed_in.set(gyre_account::current_resource());
        hot.depth.set(before.depth);
        hot.callee.set(before.callee);
        // One stamp ends any open span, so that the books stay exact.
        self.line().stamp(Span::Handling(before.activity, before.resource));
        set_current(before.activity, before.resource);
        if noted_promise() != promise {
            // SAFETY: the future that was polled is never polled or dropped again: its task is mourned.
            unsafe { end_promise() };
        }
        note_promise(promise);
    }

    /// Releases a task whose future was given up, and tells of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn mourn(&'static self, task: u32) {
        let hot = self.hot.here();
        let owner = {
            let mut state = self.state.here().borrow_mut();
            state.tasks.get_mut(task).map(|header| {
                // Its memory is never used again: lists may lead to it.
                header.vtable = None;
                (header.activity, header.resource, if header.thread == NIL { Lost::Request } else { Lost::Thread })
            })
        };
        self.release(task);
        let (Some((activity, resource, kind)), Some(mourner)) = (owner, self.mourner.get()) else { return };
        let (reach, failed_in, failure) = (hot.reach.get(), hot.failed_in.get(), gyre_machine::last_failure());
        mourner(&Obituary { activity, resource, failed_in, task, kind, reach, failure });
    }

    /// Decides whether what this core does may be given up. Called in the middle of a failure: takes no lock and changes nothing but
    /// this core's note.
    fn judge(&self, at: FailedAt) -> Verdict {
        let (hot, held) = (self.hot.here(), gyre_object::locks_by_class());
        if held.of_machine > 0 {
            return Verdict::EndMachine("a lock of the machine is held");
        }
        if at == FailedAt::Anywhere && gyre_object::locks_held() > 0 {
            return Verdict::EndMachine("a lock is held at a failure between calls");
        }
        let Ok(state) = self.state.here().try_borrow() else {
            return Verdict::EndMachine("the engine's own state is open");
        };
        let Some(header) = state.tasks.get(hot.guarded.get()) else {
            return Verdict::EndMachine("no task is at work");
        };
        if self.lead(header.activity) == ActivityId::INFRASTRUCTURE {
            return Verdict::EndMachine("the work is the machine's own");
        }
        let is_polled = hot.running.get() == hot.guarded.get();
        let (activity, resource) = current();
        if is_polled && self.lead(activity) != self.lead(header.activity) {
            return Verdict::EndMachine("the work is done for somebody else just now");
        }
        let of_code = if is_polled { self.reach_of(resource) } else { Reach::Process };
        let of_locks = if held.of_tenant > 0 { Reach::Tenant } else { Reach::Process };
        let reach = self.reach_of(header.resource).max(of_code).max(of_locks);
        if reach == Reach::Machine {
            return Verdict::EndMachine(self.shared_of([header.resource, resource]));
        }
        hot.reach.set(reach);
        Verdict::Contain
    }
}
