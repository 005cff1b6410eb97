//! The calls of a process, kept for who traces it (`gyre trace`).
//!
//! A trace has a bounded ring: each thread of the process puts its calls there when they have ended, the tracer takes them. A call that
//! finds no room is counted. The process pays: its threads copy, measure and allocate in their own turns.
//!
//! States of a process: alone; traced (one trace, of a process that lives). A trace whose owner has gone ends at the next call. A thread that is
//! not traced reads one word for this, which the loop of [`crate::run`] reads anyway ([`crate::task::dispatch`]).
//!
//! The assembly begins, reads and ends traces; the right to do so is checked there.

use crate::run::{self, Running};
use crate::time::monotonic_ns;
use crate::{Arguments, Errno, Process, Thread};
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use gyre_contract::trace::{EVENTS_MAX, Event, PIECE_BYTES, Piece, Pointer, pointers};
use gyre_object::TenantLock;

#[derive(Default)]
struct Ring {
    events: VecDeque<Event>,
    lost: u64,
}

/// Calls that wait for their reader.
pub struct Trace {
    ring: TenantLock<Ring>,
    owner: Weak<Process>,
}

/// The place of a process' trace.
#[derive(Default)]
pub struct Traced {
    trace: TenantLock<Option<Arc<Trace>>>,
}

impl Traced {
    /// Has a new thread's calls kept, too.
    pub(crate) fn join(&self, thread: &Thread) {
        if self.trace.lock().is_some() {
            thread.dispatch.begin_trace();
        }
    }

    fn trace(&self) -> Option<Arc<Trace>> {
        self.trace.lock().clone()
    }
}

/// Begins to keep the calls of a process, for a process that owns the trace.
///
/// # Errors
/// EBUSY if it is traced; ESRCH if it has ended.
pub fn begin(process: &Process, owner: &Arc<Process>) -> Result<Arc<Trace>, Errno> {
    if process.is_over() {
        return Err(Errno::ESRCH);
    }
    let trace = Arc::new(Trace { ring: TenantLock::default(), owner: Arc::downgrade(owner) });
    let mut place = process.traced.trace.lock();
    if place.as_ref().is_some_and(|trace| !trace.is_abandoned()) {
        return Err(Errno::EBUSY);
    }
    *place = Some(trace.clone());
    drop(place);
    let threads = process.threads.lock().clone();
    threads.iter().for_each(|thread| thread.dispatch.begin_trace());
    Ok(trace)
}

/// Ends a trace of a process; nothing if it has another one, or none.
pub fn end(process: &Process, trace: &Arc<Trace>) {
    let mut place = process.traced.trace.lock();
    if !place.as_ref().is_some_and(|own| Arc::ptr_eq(own, trace)) {
        return;
    }
    let ended = place.take();
    let threads = process.threads.lock().clone();
    threads.iter().for_each(|thread| thread.dispatch.end_trace());
    drop(place);
    drop(ended);
}

impl Trace {
    /// Returns whether the process that began it has gone.
    pub fn is_abandoned(&self) -> bool {
        self.owner.upgrade().is_none_or(|owner| owner.is_over())
    }

    /// Returns whether a process began it.
    pub fn is_of(&self, process: &Arc<Process>) -> bool {
        core::ptr::eq(self.owner.as_ptr(), Arc::as_ptr(process))
    }

    /// Takes the next events, at most so many, and the count of those that were lost since.
    pub fn take(&self, count_max: usize) -> (Vec<Event>, u64) {
        let mut ring = self.ring.lock();
        let count = ring.events.len().min(count_max);
        let events = ring.events.drain(..count).collect();
        (events, core::mem::take(&mut ring.lost))
    }

    fn put(&self, event: Event) {
        let mut ring = self.ring.lock();
        let is_full = ring.events.len() >= EVENTS_MAX || ring.events.try_reserve(1).is_err();
        match is_full {
            true => ring.lost = ring.lost.saturating_add(1),
            false => ring.events.push_back(event),
        }
    }
}

/// Serves a call of a traced thread and keeps it.
pub(crate) async fn serve(thread: &Arc<Thread>, running: &mut Running) {
    let Some(trace) = thread.process().traced.trace() else {
        thread.dispatch.end_trace();
        return run::serve(thread, running).await;
    };
    if trace.is_abandoned() {
        end(thread.process(), &trace);
        return run::serve(thread, running).await;
    }
    let (number, arguments) = run::call_of(running);
    let mut begun = Begun::new(trace, thread, number, arguments);
    begun.keep_inputs().await;
    begun.start();
    run::serve(thread, running).await;
    begun.finish(running.context.registers.rax as i64).await;
}

/// A call under way. Dropped before it has finished it is kept without a result: its thread ended in it.
struct Begun<'a> {
    trace: Arc<Trace>,
    thread: &'a Arc<Thread>,
    event: Event,
    /// Cycles by resource when it began.
    before: Vec<(u16, u64)>,
    /// Cycles that looking at these takes.
    overhead: Vec<(u16, u64)>,
}

impl<'a> Begun<'a> {
    fn new(trace: Arc<Trace>, thread: &'a Arc<Thread>, number: u64, arguments: Arguments) -> Begun<'a> {
        let event = Event { thread: thread.id(), number, arguments: arguments.0, ..Event::default() };
        Begun { trace, thread, event, before: Vec::new(), overhead: Vec::new() }
    }

    fn cycles(&self) -> Vec<(u16, u64)> {
        self.thread.tenant().kernel().cycles_by_resource(self.thread.process().activity())
    }

    /// Looks twice, so that the look itself is not counted.
    fn start(&mut self) {
        let first = self.cycles();
        self.event.began_ns = monotonic_ns();
        self.before = self.cycles();
        self.overhead = without(&self.before, &first);
    }

    fn measure(&mut self) {
        let used = without(&self.cycles(), &self.before);
        self.event.cycles = without(&used, &self.overhead);
        self.event.duration_ns = monotonic_ns().saturating_sub(self.event.began_ns);
    }

    async fn finish(mut self, result: i64) {
        self.measure();
        self.event.result = Some(result);
        self.keep_outputs(result).await;
    }

    async fn keep_inputs(&mut self) {
        for pointer in pointers(self.event.number) {
            match *pointer {
                Pointer::Text(argument) => self.keep_text(argument).await,
                Pointer::Input(argument, count) => self.keep_bytes(argument, self.argument(count)).await,
                Pointer::Output(_) => {}
            }
        }
    }

    async fn keep_outputs(&mut self, result: i64) {
        for pointer in pointers(self.event.number) {
            if let (Pointer::Output(argument), Ok(bytes)) = (*pointer, u64::try_from(result)) {
                self.keep_bytes(argument, bytes).await;
            }
        }
    }

    fn argument(&self, index: u8) -> u64 {
        self.event.arguments.get(usize::from(index)).copied().unwrap_or(0)
    }

    async fn keep_text(&mut self, argument: u8) {
        let address = self.argument(argument);
        match self.thread.space().read_string(address, PIECE_BYTES).await {
            Ok(Some(bytes)) => self.event.memory.push(Piece { argument, bytes, is_cut: false }),
            Ok(None) => self.keep_bytes(argument, u64::MAX).await,
            // The call itself will say what is wrong with it.
            Err(_) => {}
        }
    }

    async fn keep_bytes(&mut self, argument: u8, bytes: u64) {
        let mut kept = [0; PIECE_BYTES];
        let count = usize::try_from(bytes).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let into = kept.get_mut(..count).unwrap_or_default();
        if count > 0 && self.thread.space().copy_in(self.argument(argument), into).await.is_ok() {
            let is_cut = bytes > count as u64;
            self.event.memory.push(Piece { argument, bytes: into.to_vec(), is_cut });
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.event.result.is_none() {
            self.event.duration_ns = monotonic_ns().saturating_sub(self.event.began_ns);
        }
        self.trace.put(core::mem::take(&mut self.event));
    }
}

/// Returns what is more in `all` than in `part`, by resource; nothing for those without more.
fn without(all: &[(u16, u64)], part: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let before = |resource: u16| part.iter().find(|row| row.0 == resource).map_or(0, |row| row.1);
    let more = all.iter().map(|&(resource, cycles)| (resource, cycles.saturating_sub(before(resource))));
    more.filter(|(_, cycles)| *cycles != 0).collect()
}
