//! A core of a cell: what the core itself, the cell's thread and the keeper have in common.
//!
//! ```text
//!   Away --keeper takes it out of the grid--> Here --cell is over, or it was given back--> Left --keeper takes it back--> Gone
//!    ^                                                                                                                  |
//!    '-------------- keeper has one of the pool ------------- Wanted <-------------- the cell wants a core in its place -'
//! ```
//! Each life of a place has a core of its own, which the pool chooses.
//!
//! The registers (`Core`) are with one of core and thread at a time: with the thread until the cell starts the core, with the core then, but for a
//! question that the core asks and waits for.
//!
//! Flags are set by one side before it looks at the other's: who says that it idles looks once more before it waits, and who has news sets it
//! before looking whether anybody idles. So no wake-up is lost.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_linux::Errno;
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
    /// Out of the cell, on its way back.
    Left,
    /// The place has no core.
    Gone,
    /// It has none, and the cell waits for one.
    Wanted,
}

/// A core of a cell.
pub struct Station {
    /// Its number in the cell.
    pub index: usize,
    /// Its slot in the grid; that of the core before if there is none.
    slot: AtomicUsize,
    /// Its hardware id.
    hardware_id: AtomicU32,
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
    /// That number when the core was chosen.
    first_stay: AtomicU64,
    /// The error for which a wanted core did not come; 0 for none.
    refusal: AtomicI32,
}

impl Station {
    /// Makes the station of a core that is in the grid.
    pub fn new(index: usize, slot: usize) -> Station {
        Station {
            index,
            slot: AtomicUsize::new(slot),
            hardware_id: AtomicU32::new(hardware_id_of(slot)),
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
            first_stay: AtomicU64::new(0),
            refusal: AtomicI32::new(0),
        }
    }

    /// Returns the core's slot in the grid.
    pub fn slot(&self) -> usize {
        self.slot.load(Ordering::SeqCst)
    }

    /// Has the core of a slot in this place, which has none: it is in the grid still.
    pub fn begin_again(&self, slot: usize) {
        // That of the core before.
        drop(self.take_core());
        self.slot.store(slot, Ordering::SeqCst);
        self.hardware_id.store(hardware_id_of(slot), Ordering::SeqCst);
        for flag in [&self.is_started, &self.is_dismissed, &self.has_news, &self.is_kicked] {
            flag.store(false, Ordering::SeqCst);
        }
        self.first_stay.store(self.stays(), Ordering::SeqCst);
        self.refusal.store(0, Ordering::SeqCst);
        self.set_place(Place::Away);
    }

    /// Says that the cell wants a core in this place.
    ///
    /// # Errors
    /// EAGAIN while the one before is on its way back, EBUSY if there is one.
    pub fn want(&self) -> Result<(), Errno> {
        let change =
            self.place.compare_exchange(Place::Gone as u8, Place::Wanted as u8, Ordering::SeqCst, Ordering::SeqCst);
        let goes = || self.place() == Place::Left || self.is_dismissed();
        change.map(drop).map_err(|_| if goes() { Errno::EAGAIN } else { Errno::EBUSY })
    }

    /// Says that no core comes here.
    pub fn refuse(&self, error: Errno) {
        self.refusal.store(error.0, Ordering::SeqCst);
        self.set_place(Place::Gone);
    }

    /// Returns whether a wanted core has come, or the error for which it has not; `None` before.
    pub fn arrival(&self) -> Option<Result<(), Errno>> {
        match (self.place(), self.refusal.load(Ordering::SeqCst)) {
            (Place::Wanted | Place::Away, _) => None,
            (_, 0) => Some(Ok(())),
            (_, error) => Some(Err(Errno(error))),
        }
    }

    /// Returns true if the cell has a core here, or has one on its way to it.
    pub fn is_held(&self) -> bool {
        matches!(self.place(), Place::Away | Place::Here)
    }

    /// Returns where the core is.
    pub fn place(&self) -> Place {
        match self.place.load(Ordering::SeqCst) {
            0 => Place::Away,
            1 => Place::Here,
            2 => Place::Left,
            3 => Place::Gone,
            _ => Place::Wanted,
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
        self.stays() > self.first_stay.load(Ordering::SeqCst)
    }

    /// Wakes it if it waits in the kernel.
    pub fn wake(&self) {
        if self.is_idle() {
            self.ring();
        }
    }

    /// Interrupts it: it leaves the cell, whatever that does.
    pub fn ring(&self) {
        gyre_x86_64::ring_core(self.hardware_id.load(Ordering::SeqCst));
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

/// Returns the number by which the core of a slot is interrupted. A slot without a core has none: nobody is ringed there.
fn hardware_id_of(slot: usize) -> u32 {
    gyre_x86_64::hardware_id(slot).unwrap_or(u32::MAX)
}

/// Whether the core waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idling {
    /// It does.
    Yes,
    /// It does not.
    No,
}
