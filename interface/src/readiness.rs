//! What poll and epoll look at: whether something can be read, written or has ended, without asking a resource.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

bitflags::bitflags! {
    /// What an object is ready for. The values are those of Linux's EPOLL constants.
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

/// Told when an object becomes ready for more. Called by whoever changed it: must be short and never wait.
pub trait Subscriber: Send + Sync {
    /// The object is now ready for `now`; called at each new event, also when bits that were set are set again (edge-triggered users need it).
    /// Answers what has become readable by that: its subscribers are told next, by who told this one.
    fn changed(&self, now: Ready) -> Option<Arc<dyn Source>>;
}

/// Something that becomes readable when what it subscribes to does: an interest list.
pub trait Source: Send + Sync {
    /// What it is ready for.
    fn readiness(&self) -> &Readiness;
}

/// Subscribers of one object, at most: so many are told by whoever changes it.
pub const SUBSCRIBERS_MAX: usize = 8192;

/// An object has as many subscribers as it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crowded;

/// What has become readable by one change; most changes have at most one to tell of, which takes no memory.
struct Told {
    first: Option<Arc<dyn Source>>,
    others: Vec<Arc<dyn Source>>,
}

/// The readiness of one object, shared by the resource that sets it and those who wait.
#[derive(Default)]
pub struct Readiness {
    bits: AtomicU32,
    changed: WaitQueue,
    subscribers: SpinLock<Vec<Arc<dyn Subscriber>>>,
}

impl Readiness {
    /// An object that is ready for `initial`.
    pub fn new(initial: Ready) -> Arc<Readiness> {
        Arc::new(Readiness { bits: AtomicU32::new(initial.bits()), ..Readiness::default() })
    }

    /// What it is ready for now.
    pub fn now(&self) -> Ready {
        Ready::from_bits_truncate(self.bits.load(Ordering::Acquire))
    }

    /// Adds bits and tells everybody, and everybody who hears of it from them: in a loop, so that no depth follows from who is interested in
    /// whom. An interest list is told once, however many ways lead to it.
    pub fn set(&self, bits: Ready) {
        let mut next = self.set_here(bits);
        let mut rest = Vec::new();
        while let Some(source) = next.first.take().or_else(|| next.others.pop()).or_else(|| rest.pop()) {
            rest.append(&mut next.others);
            next = source.readiness().set_here(Ready::READ);
        }
    }

    /// Adds bits and tells its own subscribers; answers what has become readable by that.
    fn set_here(&self, bits: Ready) -> Told {
        self.bits.fetch_or(bits.bits(), Ordering::AcqRel);
        self.changed.wake_all();
        // Told outside of the lock: they may subscribe elsewhere. Nearly always there is none or one.
        let (first, others) = {
            let subscribers = self.subscribers.lock();
            let mut all = subscribers.iter().cloned();
            (all.next(), all.collect::<Vec<_>>())
        };
        let first = first.and_then(|subscriber| subscriber.changed(self.now()));
        Told { first, others: others.iter().filter_map(|subscriber| subscriber.changed(self.now())).collect() }
    }

    /// Removes bits. The owner of the state does this under the lock under which it looked, so that no `set` is lost.
    pub fn clear(&self, bits: Ready) {
        self.bits.fetch_and(!bits.bits(), Ordering::AcqRel);
    }

    /// Waits until one of `wanted` (or an error or hang-up) is there, and returns what is.
    pub async fn wait(&self, wanted: Ready) -> Ready {
        let wanted = wanted | Ready::ERROR | Ready::HANG_UP;
        self.changed.until(|| Some(self.now() & wanted).filter(|ready| !ready.is_empty())).await
    }

    /// Tells `subscriber` of every change from now on.
    ///
    /// # Errors
    /// [`Crowded`] beyond [`SUBSCRIBERS_MAX`].
    pub fn subscribe(&self, subscriber: Arc<dyn Subscriber>) -> Result<(), Crowded> {
        let mut subscribers = self.subscribers.lock();
        if subscribers.len() >= SUBSCRIBERS_MAX {
            return Err(Crowded);
        }
        subscribers.push(subscriber);
        Ok(())
    }

    /// Makes `next` the successor of this one (a socket that connects gets a new readiness): subscribers move there, and
    /// those who wait here are woken to look there.
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
