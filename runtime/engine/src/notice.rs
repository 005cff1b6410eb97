//! Notices: messages that say only that something happened, for interrupts and timers.
//!
//! ```text
//!   interrupt handler: notice.send() --> its place in a queue of the core --> handle(), in a turn, stamped and charged like any message
//!   a turn: notice.send_after(cycles) --> timer --> the same
//! ```
//!
//! A notice's place is taken when it is made. So sending it takes no memory and no lock and cannot fail, and an interrupt handler may do it. Notices that
//! are sent before the first of them is handled are handled once: who handles it looks at what has happened, it does not count. One that is
//! sent while it is handled is handled again.
//!
//! It comes from one resource and goes to another one: it waits in a queue of the sender, with the weight and the priority that the machine's owner gave to that,
//! so that it never waits behind what its receiver holds back; its cycles are the receiver's, in the name of the infrastructure.

use crate::engine::Engine;
use crate::pinned::{NOWHERE, Pinned, name_here};
use crate::task::TaskRef;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::sync::atomic::Ordering;
use core::task::Poll;
use gyre_account::{ActivityId, ResourceId};
use gyre_message::Runtime;

/// The sender of a notice, and its handler and core.
#[derive(Clone, Copy, Debug)]
pub struct NoticeRoute {
    /// The resource in whose queue it waits.
    pub from: ResourceId,
    /// The resource that handles it, which its cycles go to.
    pub to: ResourceId,
    /// The core; the resident one while that is away.
    pub core: usize,
}

/// A message without contents.
#[derive(Clone, Copy)]
pub struct Notice {
    engine: &'static Engine,
    /// The task that handles it.
    task: &'static Pinned,
}

impl Engine {
    /// Makes a notice that `handle` is called for. It lives as long as the instance and is handled once at first, and once whenever it has moved
    /// to another core.
    pub fn notice(&'static self, route: NoticeRoute, handle: impl Fn() + Send + Sync + 'static) -> Notice {
        let handle = Arc::new(handle);
        let task = self.pin(route.core, move |engine| engine.start_notice(route, handle.clone()));
        Notice { engine: self, task }
    }

    fn start_notice(&self, route: NoticeRoute, handle: Arc<impl Fn() + 'static>) -> Option<TaskRef> {
        let future = poll_fn(move |_| {
            handle();
            Poll::Pending
        });
        let mut name = None;
        self.start_in(route.from, route.to, ActivityId::INFRASTRUCTURE, None, future, |state, task| {
            name = state.tasks.get(task).map(|header| name_here(task, header.generation));
        })?;
        name
    }
}

impl Notice {
    fn name(self) -> Option<TaskRef> {
        let place = self.task.place.load(Ordering::SeqCst);
        (place != NOWHERE).then(|| TaskRef::decode(place))
    }

    /// Sends it. One that has no place yet is handled once it has.
    #[inline]
    pub fn send(self) {
        if let Some(name) = self.name() {
            self.engine.wake(name);
        }
    }

    /// Sends it after so many cycles, by a timer of this core.
    pub fn send_after(self, cycles: u64) {
        if let Some(name) = self.name() {
            let deadline = gyre_machine::now().saturating_add(cycles);
            self.engine.wake_at(deadline, crate::waker::waker(name));
        }
    }
}
