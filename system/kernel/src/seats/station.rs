//! A core of a cell: what the core itself, the cell's thread and the keeper have in common.
//!
//! ```text
//!   Away --keeper takes it out of the grid--> Here --cell is over, or it was given back--> Gone
//! ```
//! The registers (`Core`) are with one of core and thread at a time: with the thread until the cell starts the core, with the core then, but for a
//! question that the core asks and waits for.
//!
//! Flags are set by one side before it looks at the other's: who says that it idles looks once more before it waits, and who has news sets it
//! before looking whether anybody idles. So no wake-up is lost.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use gyre_object::SpinLock;
use gyre_x86_64::guest::Core;

/// A question of a core to the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// More memory, bytes.
    More(u64),
    /// To give a lot back.
    Give(u64),
    /// A page of the process at this address; write access if 1.
    Fault(u64, u64),
    /// To start another core.
    Start(Begin),
}

/// The beginning of a further core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Its number in the cell.
    pub core: u64,
    /// The first instruction.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
}

/// The place of a core of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the grid still, or on its way.
    Away,
    /// Out of the grid, for this cell.
    Here,
    /// Out of the cell for good.
    Gone,
}

/// A core of a cell.
pub struct Station {
    /// Its number in the cell.
    pub index: usize,
    /// Its slot in the grid.
    pub slot: usize,
    /// Its hardware id.
    hardware_id: u32,
    core: SpinLock<Option<Box<Core>>>,
    ask: SpinLock<Option<Ask>>,
    place: AtomicU8,
    /// The core was started.
    is_started: AtomicBool,
    /// It is to leave without having been started.
    is_dismissed: AtomicBool,
    /// It waits for an interrupt.
    is_idle: AtomicBool,
    /// A question stands.
    is_asking: AtomicBool,
    /// Something came for which a core that idles is woken.
    has_news: AtomicBool,
    /// Another core wants it interrupted.
    is_kicked: AtomicBool,
    /// Odd while it is in the cell; a change says that it has forgotten translations.
    stays: AtomicU64,
}

impl Station {
    /// Makes the station of a core that is in the grid.
    pub fn new(index: usize, slot: usize) -> Station {
        // A slot without a core has no number: nobody is ringed there.
        let hardware_id = gyre_x86_64::hardware_id(slot).unwrap_or(u32::MAX);
        Station {
            index,
            slot,
            hardware_id,
            core: SpinLock::new(None),
            ask: SpinLock::new(None),
            place: AtomicU8::new(Place::Away as u8),
            is_started: AtomicBool::new(false),
            is_dismissed: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            is_kicked: AtomicBool::new(false),
            stays: AtomicU64::new(0),
        }
    }

    /// Returns where the core is.
    pub fn place(&self) -> Place {
        match self.place.load(Ordering::SeqCst) {
            0 => Place::Away,
            1 => Place::Here,
            _ => Place::Gone,
        }
    }

    /// Says where it is.
    pub fn set_place(&self, place: Place) {
        self.place.store(place as u8, Ordering::SeqCst);
    }

    /// Takes the registers for oneself.
    pub fn take_core(&self) -> Option<Box<Core>> {
        self.core.lock().take()
    }

    /// Gives the registers to whoever is next.
    pub fn put_core(&self, core: Box<Core>) {
        *self.core.lock() = Some(core);
    }

    /// Gives the registers to a core that begins.
    pub fn start(&self, core: Box<Core>) {
        self.put_core(core);
        self.is_started.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Returns true once it was started.
    pub fn is_started(&self) -> bool {
        self.is_started.load(Ordering::SeqCst)
    }

    /// Has a core leave that was not started.
    pub fn dismiss(&self) {
        self.is_dismissed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Returns true if it is to leave without having been started.
    pub fn is_dismissed(&self) -> bool {
        self.is_dismissed.load(Ordering::SeqCst)
    }

    /// Notes that there is news for a core that idles.
    pub fn tell(&self) {
        self.has_news.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Returns true if there was news since this was asked last.
    pub fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::SeqCst)
    }

    /// Returns true if it waits in the kernel.
    pub fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::SeqCst)
    }

    /// Returns true if it has been in the cell.
    pub fn has_begun(&self) -> bool {
        self.stays() > 0
    }

    /// Wakes it if it waits in the kernel.
    pub fn wake(&self) {
        if self.is_idle() {
            self.ring();
        }
    }

    /// Interrupts it: it leaves the cell, whatever that does.
    pub fn ring(&self) {
        gyre_x86_64::ring_core(self.hardware_id);
    }

    /// Has the cell interrupted on it.
    pub fn kick(&self) {
        self.is_kicked.store(true, Ordering::SeqCst);
        if self.stays() % 2 == 1 {
            self.ring();
        }
    }

    /// Returns true if the cell is to be interrupted on it, once.
    pub fn take_kick(&self) -> bool {
        self.is_kicked.swap(false, Ordering::SeqCst)
    }

    /// Says that it goes into the cell, or has come out.
    pub fn turn(&self) {
        self.stays.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns a number that is odd while it is in the cell, and grows with each turn.
    pub fn stays(&self) -> u64 {
        self.stays.load(Ordering::SeqCst)
    }

    /// Says whether the core is about to wait for an interrupt. It looks once more between this and the wait.
    pub fn set_idle(&self, idles: Idling) {
        self.is_idle.store(idles == Idling::Yes, Ordering::SeqCst);
    }

    /// Asks the thread something, which is to be told; the core waits until [`Station::is_asking`] is false.
    pub fn ask(&self, ask: Ask) {
        self.is_asking.store(true, Ordering::SeqCst);
        *self.ask.lock() = Some(ask);
    }

    /// Takes the question.
    pub fn take_ask(&self) -> Option<Ask> {
        self.ask.lock().take()
    }

    /// Says that the question is answered: the answer stands in the registers.
    pub fn answered(&self) {
        self.is_asking.store(false, Ordering::SeqCst);
        self.wake();
    }

    /// Returns true while a question stands.
    pub fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::SeqCst)
    }
}

/// Whether the core waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idling {
    /// It does.
    Yes,
    /// It does not.
    No,
}
