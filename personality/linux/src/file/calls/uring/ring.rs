//! A ring: the operations under way, the completions that are not yet seen, and the registered buffers and files.
//!
//! Protocol of use: [`Ring::begin`] enters an operation and gives it a number; [`Ring::turn_of`] waits until it may
//! begin (IOSQE_IO_DRAIN); [`Ring::complete`] ends it and puts a completion into the shared memory, or
//! [`Ring::complete_at_once`] for one that was never under way. No completion is lost: those without room wait in a
//! backlog.
//!
//! States of an operation: under way, asked to end ([`Flight::ask_to_end`]), completed. A closed ring begins nothing
//! more and asks all others to end. One lock guards the state; the program's words are read once each
//! ([`super::memory`]).

use super::memory::{COMPLETION_BYTES, RingMemory, at};
use crate::Errno;
use crate::file::buffer::Range;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::{Readiness, Ready};
use gyre_message::WaitQueue;
use gyre_object::held::OfObject;
use gyre_object::{LockGuard, ObjectLock};

/// The program must enter the kernel to get completions that found no room (IORING_SQ_CQ_OVERFLOW).
const FLAG_OVERFLOW: u32 = 1 << 1;
/// No eventfd notifications while the program says so (IORING_CQ_EVENTFD_DISABLED).
const FLAG_EVENT_DISABLED: u32 = 1 << 0;

/// Asks an operation to end before it is done.
#[derive(Default)]
pub struct Cancel {
    wanted: AtomicBool,
    told: WaitQueue,
}

impl Cancel {
    /// Asks the operation to end.
    pub fn ask(&self) {
        self.wanted.store(true, Ordering::Release);
        self.told.wake_all();
    }

    /// Returns whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Completes once it was asked.
    pub async fn asked(&self) {
        self.told.until(|| self.is_asked().then_some(())).await;
    }
}

/// An operation under way, as others look for it.
#[derive(Clone)]
pub struct Flight {
    pub user_data: u64,
    pub code: u8,
    pub file: Option<usize>,
    /// `None` for an operation at a device.
    pub cancel: Option<Arc<Cancel>>,
}

impl Flight {
    /// Asks it to end before it is done, if that is possible.
    pub fn ask_to_end(&self) {
        if let Some(cancel) = &self.cancel {
            cancel.ask();
        }
    }
}

/// A completion.
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
}

impl Completion {
    fn bytes(self) -> [u8; COMPLETION_BYTES] {
        let mut bytes = [0; COMPLETION_BYTES];
        let (data, rest) = bytes.split_at_mut(8);
        data.copy_from_slice(&self.user_data.to_le_bytes());
        rest.iter_mut().zip(self.result.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        bytes
    }
}

/// The registrations of a program.
#[derive(Default)]
pub struct Registered {
    pub buffers: Option<Vec<Range>>,
    pub files: Option<Vec<Option<Arc<OpenFile>>>>,
    pub event: Option<ToldEvent>,
}

/// An event counter that is told of completions.
#[derive(Clone)]
pub struct ToldEvent {
    pub file: Arc<OpenFile>,
    /// Not of those within the call that submits (IORING_REGISTER_EVENTFD_ASYNC).
    pub is_later_only: bool,
}

#[derive(Default)]
struct State {
    submit_head: u32,
    complete_tail: u32,
    /// Completions that found no room, in order: none is lost.
    backlog: VecDeque<Completion>,
    next: u64,
    flights: BTreeMap<u64, Flight>,
    /// Operations under way that go alone: earlier ones are done first, and later ones wait.
    drains: BTreeSet<u64>,
    /// Completions so far, those of timeouts left out.
    completions: u64,
    closed: bool,
}

/// A ring.
pub struct Ring {
    /// The memory that it shares with its program.
    pub memory: RingMemory,
    state: ObjectLock<State>,
    /// The registrations of its program.
    pub registered: ObjectLock<Registered>,
    readiness: Arc<Readiness>,
    /// Woken with each completion.
    pub changed: WaitQueue,
}

impl Ring {
    /// Makes a ring with nothing in it.
    pub fn new(memory: RingMemory) -> Ring {
        Ring {
            memory,
            state: ObjectLock::default(),
            registered: ObjectLock::default(),
            readiness: Readiness::new(Ready::WRITE),
            changed: WaitQueue::new(),
        }
    }

    /// Returns its readiness: READ while there are completions.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Brings the readiness up to date: the program takes completions without telling.
    pub fn refresh(&self) {
        let state = self.state.lock();
        if self.waiting(&state) == 0 {
            self.readiness.clear(Ready::READ);
        }
    }

    fn waiting(&self, state: &State) -> u32 {
        let there =
            state.complete_tail.wrapping_sub(self.memory.load(at::COMPLETE_HEAD)).min(self.memory.complete_entries);
        there.saturating_add(u32::try_from(state.backlog.len()).unwrap_or(u32::MAX))
    }

    /// Completions that the program has not taken; those without room move up as far as there is some now.
    pub fn ready(&self) -> u32 {
        let mut state = self.state.lock();
        self.move_up(&mut state);
        self.waiting(&state)
    }

    /// Returns whether completions wait for room: nothing is submitted then.
    pub fn is_overflown(&self) -> bool {
        let mut state = self.state.lock();
        self.move_up(&mut state);
        !state.backlog.is_empty()
    }

    fn move_up(&self, state: &mut State) {
        if state.backlog.is_empty() {
            return;
        }
        while let Some(completion) = state.backlog.front().copied() {
            if !self.put(state, completion) {
                return;
            }
            state.backlog.pop_front();
        }
        self.memory.store(at::SUBMIT_FLAGS, self.memory.load(at::SUBMIT_FLAGS) & !FLAG_OVERFLOW);
    }

    /// Puts a completion into the ring; false if it is full. A head beyond the tail is the program's error: the ring is full then.
    fn put(&self, state: &mut State, completion: Completion) -> bool {
        let used = state.complete_tail.wrapping_sub(self.memory.load(at::COMPLETE_HEAD));
        if used >= self.memory.complete_entries {
            return false;
        }
        self.memory.put_completion(state.complete_tail, completion.bytes());
        state.complete_tail = state.complete_tail.wrapping_add(1);
        self.memory.store(at::COMPLETE_TAIL, state.complete_tail);
        true
    }

    /// Takes the next submission, at most up to `tail`: `None` at the end, an inner `None` for an index that names nothing.
    pub fn take_submission(&self, tail: u32) -> Option<Option<[u8; super::memory::SUBMISSION_BYTES]>> {
        let mut state = self.state.lock();
        let left = tail.wrapping_sub(state.submit_head);
        if left == 0 || left > self.memory.submit_entries {
            return None;
        }
        let found = self.memory.submission(self.memory.submission_index(state.submit_head));
        state.submit_head = state.submit_head.wrapping_add(1);
        self.memory.store(at::SUBMIT_HEAD, state.submit_head);
        if found.is_none() {
            self.memory.store(at::DROPPED, self.memory.load(at::DROPPED).wrapping_add(1));
        }
        Some(found)
    }

    /// Returns whether one more operation may be under way.
    pub fn has_room(&self) -> bool {
        self.state.lock().flights.len() < (self.memory.complete_entries as usize).saturating_mul(2)
    }

    /// Returns whether an operation goes alone.
    pub fn is_held_back(&self) -> bool {
        !self.state.lock().drains.is_empty()
    }

    /// Notes an operation under way and answers its number; `None` once the ring is closed, or has as much under way as it may.
    pub fn begin(&self, flight: Flight, drains: bool) -> Option<u64> {
        let mut state = self.state.lock();
        let most = (self.memory.complete_entries as usize).saturating_mul(2);
        if state.closed || state.flights.len() >= most {
            return None;
        }
        let number = state.next;
        state.next = state.next.wrapping_add(1);
        state.flights.insert(number, flight);
        if drains {
            state.drains.insert(number);
        }
        Some(number)
    }

    /// Waits until an operation may begin: one that goes alone waits for all earlier ones, and later ones wait for
    /// it.
    pub async fn turn_of(&self, number: u64) {
        let may_begin = || {
            let state = self.state.lock();
            let alone = state.drains.contains(&number);
            let is_first = state.flights.first_key_value().is_none_or(|(first, _)| *first >= number);
            let nobody_alone = state.drains.first().is_none_or(|first| *first >= number);
            (if alone { is_first } else { nobody_alone }).then_some(())
        };
        if may_begin().is_none() {
            self.changed.until(may_begin).await;
        }
    }

    /// Completes an operation: it is not under way any more, and the program is told.
    pub fn complete(&self, number: u64, result: i32, is_told: bool, counts: bool) {
        let mut state = self.state.lock();
        let Some(flight) = state.flights.remove(&number) else { return };
        state.drains.remove(&number);
        state.completions = state.completions.wrapping_add(u64::from(counts));
        let completion = Completion { user_data: flight.user_data, result };
        self.tell(state, is_told.then_some(completion), false);
    }

    /// Completes, as [`Ring::complete`] does, an operation that was never under way: the submitting call has done it.
    pub fn complete_at_once(&self, user_data: u64, result: i32, is_told: bool) {
        let mut state = self.state.lock();
        state.completions = state.completions.wrapping_add(1);
        self.tell(state, is_told.then_some(Completion { user_data, result }), true);
    }

    fn tell(&self, mut state: LockGuard<'_, State, OfObject>, completion: Option<Completion>, is_at_once: bool) {
        // An event counter that is registered later, after this completion was seen, is not told of it.
        let event = completion.and_then(|_| self.event(is_at_once));
        if let Some(completion) = completion {
            self.move_up(&mut state);
            if !state.backlog.is_empty() || !self.put(&mut state, completion) {
                state.backlog.push_back(completion);
                self.memory.store(at::SUBMIT_FLAGS, self.memory.load(at::SUBMIT_FLAGS) | FLAG_OVERFLOW);
            }
        }
        drop(state);
        self.changed.wake_all();
        if completion.is_some() {
            self.readiness.set(Ready::READ);
        }
        if let Some(Object::Event(counter)) = event.as_ref().map(|event| event.object()) {
            // A full counter is as readable as it gets.
            let _ = counter.add(1);
        }
    }

    /// Returns the event counter that is told of completions now.
    fn event(&self, is_at_once: bool) -> Option<Arc<OpenFile>> {
        let is_disabled = self.memory.load(at::COMPLETE_FLAGS) & FLAG_EVENT_DISABLED != 0;
        if is_disabled {
            return None;
        }
        let event = self.registered.lock().event.clone();
        event.filter(|event| !(is_at_once && event.is_later_only)).map(|event| event.file)
    }

    /// Completions so far, those of timeouts left out.
    pub fn completions(&self) -> u64 {
        self.state.lock().completions
    }

    /// Operations under way that `is_it`, in order.
    pub fn find(&self, is_it: impl Fn(&Flight) -> bool) -> Vec<Flight> {
        self.state.lock().flights.values().filter(|flight| is_it(flight)).cloned().collect()
    }

    /// Ends everything that is under way: the last descriptor is gone.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.find(|_| true).iter().for_each(Flight::ask_to_end);
        *self.registered.lock() = Registered::default();
        self.changed.wake_all();
    }

    /// Returns a registered file.
    ///
    /// # Errors
    /// EBADF.
    pub fn registered_file(&self, index: i32) -> Result<Arc<OpenFile>, Errno> {
        let registered = self.registered.lock();
        let index = usize::try_from(index).map_err(|_| Errno::EBADF)?;
        registered.files.as_ref().and_then(|files| files.get(index)?.clone()).ok_or(Errno::EBADF)
    }

    /// Checks that a range lies in a registered buffer.
    ///
    /// # Errors
    /// EFAULT.
    pub fn check_buffer(&self, index: u16, range: Range) -> Result<(), Errno> {
        let registered = self.registered.lock();
        let buffer =
            registered.buffers.as_ref().and_then(|buffers| buffers.get(usize::from(index))).ok_or(Errno::EFAULT)?;
        let end = range.address.checked_add(range.bytes as u64).ok_or(Errno::EFAULT)?;
        let inside = range.address >= buffer.address && end <= buffer.address.saturating_add(buffer.bytes as u64);
        if inside { Ok(()) } else { Err(Errno::EFAULT) }
    }
}
