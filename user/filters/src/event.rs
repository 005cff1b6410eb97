//! Events, and the mailbox of a filter.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// Events that a filter may have waiting, and events that it may have emitted and nobody has taken yet.
pub const QUEUE_EVENTS: usize = 64;

/// A word of a stream, or of a filter to its client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// The stream from which it comes.
    pub stream: u32,
    /// The thing that it speaks of: a share, a place, a headline.
    pub key: u32,
    /// The number that is said of it.
    pub value: f64,
}

/// The queues between a filter and the service.
#[derive(Debug, Default)]
pub struct Mailbox {
    inbox: RefCell<VecDeque<Event>>,
    outbox: RefCell<VecDeque<Event>>,
    /// Events that its program has been given.
    pub taken: Cell<u64>,
    /// Events for which there was no room.
    pub lost: Cell<u64>,
    /// Events that it has emitted.
    pub emitted: Cell<u64>,
    /// Of those, events for which there was no room.
    pub unsaid: Cell<u64>,
    stream: Cell<u32>,
}

fn add_one(count: &Cell<u64>) {
    count.set(count.get().wrapping_add(1));
}

/// Puts an event at the end, or counts it.
fn put(queue: &RefCell<VecDeque<Event>>, event: Event, lost: &Cell<u64>) {
    let mut queue = queue.borrow_mut();
    match queue.len() < QUEUE_EVENTS {
        true => queue.push_back(event),
        false => add_one(lost),
    }
}

impl Mailbox {
    /// Offers an event to the filter; lost if its queue is full.
    pub fn offer(&self, event: Event) {
        put(&self.inbox, event, &self.lost);
    }

    /// Returns true if events wait.
    pub fn has_events(&self) -> bool {
        !self.inbox.borrow().is_empty()
    }

    /// Takes the next event for the program.
    pub fn take(&self) -> Option<Event> {
        let event = self.inbox.borrow_mut().pop_front()?;
        self.stream.set(event.stream);
        add_one(&self.taken);
        Some(event)
    }

    /// Says something to the filter's client.
    pub fn emit(&self, key: u32, value: f64) {
        add_one(&self.emitted);
        put(&self.outbox, Event { stream: self.stream.get(), key, value }, &self.unsaid);
    }

    /// Takes what was emitted.
    pub fn said(&self) -> Vec<Event> {
        self.outbox.borrow_mut().drain(..).collect()
    }
}
