//! Writes through mappings that a file is being told of.
//!
//! A program may write a page of a file once the file counts it as dirty. Between the file's answer and the write the page may be written
//! back, or leave the space and be brought again, by other threads: it is clean then, and a write to it would be lost. So each telling
//! that is under way is noted here, and recalled by whatever makes its page clean or takes it away; the file is told again then.
//!
//! Called by faults, and by each change that takes pages out or protects them ([`Tellings::recall`]). Nothing here waits or fails.

use alloc::vec::Vec;
use core::ops::Range;

/// Names a telling that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(u64);

/// When a file was told of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// It counts the page as dirty.
    InTime,
    /// The page may be clean again, or gone.
    TooEarly,
}

struct Telling {
    ticket: Ticket,
    address: u64,
    told: Told,
}

/// The tellings of a space that are under way: at most one for each of its threads.
#[derive(Default)]
pub(crate) struct Tellings {
    open: Vec<Telling>,
    next: u64,
}

impl Tellings {
    /// Begins to tell of a write to the page at `address`.
    pub fn begin(&mut self, address: u64) -> Ticket {
        let ticket = Ticket(self.next);
        self.next = self.next.wrapping_add(1);
        self.open.push(Telling { ticket, address, told: Told::InTime });
        ticket
    }

    /// Pages at these addresses are clean, or leave.
    pub fn recall(&mut self, addresses: Range<u64>) {
        for telling in self.open.iter_mut().filter(|telling| addresses.contains(&telling.address)) {
            telling.told = Told::TooEarly;
        }
    }

    /// Ends a telling; one that is not known any more came too early.
    pub fn end(&mut self, ticket: Ticket) -> Told {
        let Some(index) = self.open.iter().position(|telling| telling.ticket == ticket) else {
            return Told::TooEarly;
        };
        self.open.swap_remove(index).told
    }
}
