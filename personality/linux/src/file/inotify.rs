//! File system events for a program (inotify(7)): a queue behind a descriptor, which [`super::notices`] fills.
//!
//! * The queue is bounded: beyond it only the loss is kept (IN_Q_OVERFLOW).
//! * It knows the numbers of its watches and their nodes; a closed descriptor removes them in pieces.
//! * Reads give whole events in Linux's layout.
//!
//! Threads of any process of the tenant may read it at the same time, as they share the descriptor; who makes an event adds it
//! and wakes the readers.

use super::notices::Key;
use super::remains::Remain;
use super::tenant_files::TenantFiles;
use crate::Errno;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::{Readiness, Ready};
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;

/// Events that wait at most (Linux: /proc/sys/fs/inotify/max_queued_events).
pub const EVENTS_MAX: usize = 16_384;
/// Bytes of `struct inotify_event` without the name, and the unit to which names are filled up.
const HEADER_BYTES: usize = 16;

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The number of the watch; -1 if events were lost.
    pub watch: i32,
    /// The kind of the event.
    pub mask: u32,
    /// The number that connects the two ends of a move.
    pub cookie: u32,
    /// The name in the watched directory, or empty.
    pub name: Vec<u8>,
}

impl Event {
    /// Returns its bytes. A name ends with at least one NUL and is filled up to a multiple of the header
    /// (inotify(7)).
    fn bytes(&self) -> usize {
        let name = if self.name.is_empty() {
            0
        } else {
            (self.name.len() / HEADER_BYTES).saturating_add(1).saturating_mul(HEADER_BYTES)
        };
        name.saturating_add(HEADER_BYTES)
    }

    fn encode(&self, into: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let name_bytes = bytes.saturating_sub(HEADER_BYTES) as u32;
        let head = [self.watch.cast_unsigned(), self.mask, self.cookie, name_bytes];
        let head = head.into_iter().flat_map(u32::to_le_bytes);
        let all = head.chain(self.name.iter().copied()).chain(core::iter::repeat(0));
        into.iter_mut().zip(all).take(bytes).for_each(|(place, byte)| *place = byte);
        bytes
    }
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    bytes: usize,
    numbers: BTreeMap<i32, Key>,
    last: i32,
    /// Its descriptor is gone: nobody reads any more.
    closed: bool,
}

/// Events of one descriptor, and the numbers of its watches.
pub struct Queue {
    state: ObjectLock<State>,
    readiness: Arc<Readiness>,
    /// Whose limits it counts against.
    pub(super) user: u32,
}

impl Queue {
    /// Makes an empty one.
    pub fn new(user: u32) -> Arc<Queue> {
        Arc::new(Queue { state: ObjectLock::default(), readiness: Readiness::new(Ready::empty()), user })
    }

    /// Adds an event. One that equals the last is merged with it; a full queue only notes the loss.
    pub fn push(&self, event: Event) {
        let mut state = self.state.lock();
        if state.closed || state.events.back() == Some(&event) {
            return;
        }
        let event = match state.events.len() {
            0..EVENTS_MAX => event,
            EVENTS_MAX => Event { watch: -1, mask: raw::IN_Q_OVERFLOW, cookie: 0, name: Vec::new() },
            _ => return,
        };
        state.bytes = state.bytes.saturating_add(event.bytes());
        state.events.push_back(event);
        self.readiness.set(Ready::READ);
    }

    /// Returns a number for a watch of `node`.
    pub(super) fn number(&self, node: Key) -> i32 {
        let mut state = self.state.lock();
        state.last = state.last.wrapping_add(1).max(1);
        let number = state.last;
        state.numbers.insert(number, node);
        number
    }

    /// Returns the node of a watch, and forgets the number.
    pub(super) fn forget(&self, number: i32) -> Option<Key> {
        self.state.lock().numbers.remove(&number)
    }

    /// Notes that nobody reads any more; returns how many watches there are.
    pub(super) fn close(&self) -> usize {
        let mut state = self.state.lock();
        state.closed = true;
        state.numbers.len()
    }

    /// Returns whether its descriptor is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns a node that is watched.
    pub(super) fn first_node(&self) -> Option<Key> {
        self.state.lock().numbers.first_key_value().map(|(_, node)| *node)
    }

    /// Drops an event; false if there is none.
    pub(super) fn drop_event(&self) -> bool {
        let event = self.state.lock().events.pop_front();
        event.is_some()
    }

    /// Takes events, as many as fit.
    ///
    /// # Errors
    /// EAGAIN: there are none; EINVAL: the first one does not fit.
    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if state.events.is_empty() {
            return Err(Errno::EAGAIN);
        }
        let mut at = 0;
        while let Some(event) = state.events.front() {
            let bytes = event.bytes();
            let Some(place) = into.get_mut(at..).and_then(|rest| rest.get_mut(..bytes)) else { break };
            at = usize::saturating_add(at, event.encode(place));
            state.bytes = state.bytes.saturating_sub(bytes);
            state.events.pop_front();
        }
        if state.events.is_empty() {
            self.readiness.clear(Ready::READ);
        }
        if at == 0 { Err(Errno::EINVAL) } else { Ok(at) }
    }
}

/// An inotify descriptor.
pub struct Inotify {
    queue: Arc<Queue>,
    tenant: Arc<TenantFiles>,
}

impl Inotify {
    /// Makes a descriptor's events.
    ///
    /// # Errors
    /// EMFILE if the user has too many.
    pub fn new(tenant: &Arc<TenantFiles>, user: u32) -> Result<Inotify, Errno> {
        tenant.notices.open(user)?;
        Ok(Inotify { queue: Queue::new(user), tenant: tenant.clone() })
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.queue.readiness
    }

    /// Returns the queue of its events.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Returns the bytes that wait to be read (FIONREAD).
    pub fn bytes(&self) -> usize {
        self.queue.state.lock().bytes
    }

    /// Takes events.
    ///
    /// # Errors
    /// EAGAIN: there are none; EINVAL: the first one does not fit.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.queue.read(into)
    }
}

impl Inotify {
    /// Ends it when its descriptor is closed for good: watches and events go in pieces.
    pub(super) fn close(&self) {
        self.tenant.notices.close(&self.queue);
        self.tenant.close_in_pieces(|| self.tenant.leave_behind(Remain::Watches(self.queue.clone())));
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        // One that got no descriptor has no watches.
        if !self.queue.is_closed() {
            self.tenant.notices.close(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(mask: u32, name: &[u8]) -> Event {
        Event { watch: 1, mask, cookie: 0, name: name.to_vec() }
    }

    #[test]
    fn names_are_filled_up_and_what_does_not_fit_stays() {
        let queue = Queue::new(0);
        queue.push(event(raw::IN_CREATE, b"sixteen-bytes-ab"));
        queue.push(event(raw::IN_OPEN, b""));
        let mut buffer = [0xff; 64];
        assert_eq!(queue.read(&mut buffer[..40]), Err(Errno::EINVAL));
        assert_eq!(queue.read(&mut buffer[..63]), Ok(48));
        assert_eq!(buffer[12..16], 32u32.to_le_bytes());
        assert_eq!(&buffer[16..48], b"sixteen-bytes-ab\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(queue.read(&mut buffer), Ok(16));
        assert_eq!(queue.read(&mut buffer), Err(Errno::EAGAIN));
    }

    #[test]
    fn a_full_queue_says_so_once_and_alike_ones_are_one() {
        let queue = Queue::new(0);
        for turn in 0..2 * EVENTS_MAX {
            queue.push(event(1 << (turn % 2), b""));
            queue.push(event(1 << (turn % 2), b""));
        }
        let state = queue.state.lock();
        assert_eq!(state.events.len(), EVENTS_MAX + 1);
        assert_eq!(state.events.back().map(|event| (event.watch, event.mask)), Some((-1, raw::IN_Q_OVERFLOW)));
        assert_eq!(state.bytes, (EVENTS_MAX + 1) * HEADER_BYTES);
    }
}
