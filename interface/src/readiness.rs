//! Readiness, which poll and epoll look at: whether an object can be read, written or has ended, without asking a
//! resource.
//!
//! A resource sets and clears the bits of its object. Setting tells the object's subscribers: calls that wait, items of interest lists. A
//! list is readable by that, so its own subscribers are told next, in a loop. An event that one task can take for itself wakes the task of
//! one exclusive subscriber (EPOLLEXCLUSIVE).
//!
//! Setting never waits. It may take memory for an object with several subscribers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

bitflags::bitflags! {
    /// The events that an object is ready for. The values are those of Linux's EPOLL constants.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Ready: u32 {
        /// There is something to read (or to accept), or the end.
        const READ = 0x001;
        /// Urgent data.
        const URGENT = 0x002;
        /// Something can be written.
        const WRITE = 0x004;
        /// An error is pending.
        const ERROR = 0x008;
        /// Both directions have ended.
        const HANG_UP = 0x010;
        /// The peer will send no more.
        const READ_HANG_UP = 0x2000;
    }
}

/// An observer of an object's readiness. The thread that changes the object calls it: it must be short and never
/// wait.
pub trait Subscriber: Send + Sync {
    /// Tells that the object is now ready for `now`; called at each new event, even if its bits were set before
    /// (edge-triggered users need it). Returns the source that has become readable by that; the same caller tells its
    /// subscribers next.
    fn changed(&self, now: Ready) -> Option<Arc<dyn Source>>;

    /// Returns whether it need not hear of an event that wakes a task by another such subscriber (EPOLLEXCLUSIVE).
    fn is_exclusive(&self) -> bool {
        false
    }
}

/// Something that becomes readable when what it subscribes to does: an interest list.
pub trait Source: Send + Sync {
    /// Returns its own readiness.
    fn readiness(&self) -> &Readiness;
}

/// Most subscribers of one object; one change tells all of them.
pub const SUBSCRIBERS_MAX: usize = 8192;

/// An object has as many subscribers as it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crowded;

/// Events that no task can take from others.
const ENDS: Ready = Ready::ERROR.union(Ready::HANG_UP).union(Ready::READ_HANG_UP);

/// The state of an event with its exclusive subscribers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// None of them has a task that was woken by it.
    Free,
    /// One has.
    Taken,
}

/// The sources that have become readable by one change. Most changes have at most one, which takes no memory.
#[derive(Default)]
struct Told {
    first: Option<Arc<dyn Source>>,
    others: Vec<Arc<dyn Source>>,
}

impl Told {
    /// Tells the subscribers of these sources, and those that hear of it from them.
    fn pass_on(mut self) {
        let mut rest = Vec::new();
        while let Some(source) = self.first.take().or_else(|| self.others.pop()).or_else(|| rest.pop()) {
            rest.append(&mut self.others);
            self = source.readiness().set_here(Ready::READ).unwrap_or_default();
        }
    }
}

/// The readiness of one object, shared by the resource that sets it and the tasks that wait for it.
#[derive(Default)]
pub struct Readiness {
    bits: AtomicU32,
    changed: WaitQueue,
    subscribers: SpinLock<Vec<Arc<dyn Subscriber>>>,
}

impl Readiness {
    /// Makes the readiness of an object that is ready for `initial`.
    pub fn new(initial: Ready) -> Arc<Readiness> {
        Arc::new(Readiness { bits: AtomicU32::new(initial.bits()), ..Readiness::default() })
    }

    /// Returns the events that it is ready for now.
    pub fn now(&self) -> Ready {
        Ready::from_bits_truncate(self.bits.load(Ordering::Acquire))
    }

    /// Adds bits and tells all direct and indirect subscribers, in a loop, so that no chain of interest lists makes
    /// it recurse. An interest list is told once, however many ways lead to it.
    pub fn set(&self, bits: Ready) {
        if let Some(told) = self.set_here(bits) {
            told.pass_on();
        }
    }

    /// Adds bits and tells its own subscribers, if it has any; returns the sources that have become readable by that.
    #[inline]
    fn set_here(&self, bits: Ready) -> Option<Told> {
        self.bits.fetch_or(bits.bits(), Ordering::AcqRel);
        self.changed.wake_all();
        let subscribers = self.subscribers.lock();
        if subscribers.is_empty() {
            return None;
        }
        let mut all = subscribers.iter().cloned();
        let (first, others) = (all.next(), all.collect::<Vec<_>>());
        // Told outside of the lock: they may subscribe elsewhere.
        drop(subscribers);
        Some(self.tell(first, &others))
    }

    #[inline(never)]
    fn tell(&self, first: Option<Arc<dyn Subscriber>>, others: &[Arc<dyn Subscriber>]) -> Told {
        let mut turn = Turn::Free;
        let first = first.and_then(|subscriber| self.tell_one(&*subscriber, &mut turn));
        Told { first, others: others.iter().filter_map(|subscriber| self.tell_one(&**subscriber, &mut turn)).collect() }
    }

    /// Tells a subscriber, unless it is an exclusive one and the event has woken another one's task. An end concerns all of them.
    fn tell_one(&self, subscriber: &dyn Subscriber, turn: &mut Turn) -> Option<Arc<dyn Source>> {
        let now = self.now();
        if !subscriber.is_exclusive() || now.intersects(ENDS) {
            return subscriber.changed(now);
        }
        if *turn == Turn::Taken {
            return None;
        }
        let source = subscriber.changed(now)?;
        if !source.readiness().changed.is_empty() {
            *turn = Turn::Taken;
        }
        Some(source)
    }

    /// Removes bits. The owner calls this under the lock of the state it has looked at, so that no `set` is lost.
    pub fn clear(&self, bits: Ready) {
        self.bits.fetch_and(!bits.bits(), Ordering::AcqRel);
    }

    /// Waits until one of `wanted` (or an error or hang-up) is set, and returns those that are.
    pub async fn wait(&self, wanted: Ready) -> Ready {
        let wanted = wanted | Ready::ERROR | Ready::HANG_UP;
        self.changed.until(|| Some(self.now() & wanted).filter(|ready| !ready.is_empty())).await
    }

    /// Tells `subscriber` of every change from now on, once for each change if it was the last one to subscribe, too.
    ///
    /// # Errors
    /// [`Crowded`] beyond [`SUBSCRIBERS_MAX`].
    pub fn subscribe(&self, subscriber: Arc<dyn Subscriber>) -> Result<(), Crowded> {
        let mut subscribers = self.subscribers.lock();
        if subscribers.last().is_some_and(|last| Arc::ptr_eq(last, &subscriber)) {
            return Ok(());
        }
        if subscribers.len() >= SUBSCRIBERS_MAX {
            return Err(Crowded);
        }
        subscribers.push(subscriber);
        Ok(())
    }

    /// Makes `next` the successor of this object (a connecting socket gets a new readiness): its subscribers move
    /// there, and waiting tasks are woken to look there.
    pub fn hand_over(&self, next: &Readiness) {
        let moved = core::mem::take(&mut *self.subscribers.lock());
        next.subscribers.lock().extend(moved);
        next.set(Ready::empty());
        self.set(Ready::HANG_UP);
    }

    /// Forgets a subscriber.
    pub fn unsubscribe(&self, subscriber: &Arc<dyn Subscriber>) {
        self.subscribers.lock().retain(|other| !Arc::ptr_eq(other, subscriber));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::Future;
    use core::pin::pin;
    use core::sync::atomic::AtomicUsize;
    use core::task::{Context, Waker};

    /// An interest list of one object.
    #[derive(Default)]
    struct List {
        readiness: Readiness,
        told: AtomicUsize,
        is_exclusive: bool,
        this: alloc::sync::Weak<List>,
    }

    impl List {
        fn of(object: &Readiness, is_exclusive: bool) -> Arc<List> {
            let list = Arc::new_cyclic(|this| List { is_exclusive, this: this.clone(), ..List::default() });
            object.subscribe(list.clone()).unwrap();
            list
        }

        fn told(&self) -> usize {
            self.told.load(Ordering::Relaxed)
        }
    }

    impl Source for List {
        fn readiness(&self) -> &Readiness {
            &self.readiness
        }
    }

    impl Subscriber for List {
        fn changed(&self, _now: Ready) -> Option<Arc<dyn Source>> {
            self.told.fetch_add(1, Ordering::Relaxed);
            self.this.upgrade().map(|list| -> Arc<dyn Source> { list })
        }

        fn is_exclusive(&self) -> bool {
            self.is_exclusive
        }
    }

    #[test]
    fn an_event_goes_to_the_first_exclusive_list_that_a_task_waits_for_and_an_end_to_all() {
        let object = Readiness::default();
        let lists = [true, true, false, true].map(|is_exclusive| List::of(&object, is_exclusive));
        let told = || [0, 1, 2, 3].map(|index: usize| lists[index].told());
        object.set(Ready::READ);
        assert_eq!(told(), [1, 1, 1, 1], "nobody waits: whoever comes first finds it");
        let mut waits = pin!(lists[1].readiness.changed.wait());
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        object.set(Ready::READ);
        assert_eq!(told(), [2, 2, 2, 1]);
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        let mut waits = pin!(lists[0].readiness.changed.wait());
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        object.set(Ready::HANG_UP);
        assert_eq!(told(), [3, 3, 3, 2]);
    }

    #[test]
    fn a_subscriber_that_subscribes_twice_in_a_row_is_told_once() {
        let object = Readiness::default();
        let list = List::of(&object, false);
        object.subscribe(list.clone()).unwrap();
        object.set(Ready::READ);
        assert_eq!(list.told(), 1);
    }
}
