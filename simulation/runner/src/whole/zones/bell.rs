//! Interrupts from one instance to another. They may be lost or late; memory is never.

use crate::whole::plan::MS;
use gyre_engine::simulate::{Outside, Reach};
use gyre_machine::random::Random;
use gyre_machine::{Events, core_index, post_event, virtual_clock};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The line of a link's interrupts, behind that of the card.
pub const LINE: u32 = Events::FIRST_LINE + 2;
/// Time of an interrupt that is not late, ns.
const USUAL_NS: u64 = 600;
/// Of 1000 interrupts, how many are late, and how many are lost.
const LATE: u64 = 60;
const LOST: u64 = 40;

/// A bell, as the instances of both ends share it.
pub struct Bell {
    reach: Reach,
    due_ns: AtomicU64,
    random: Mutex<Random>,
    is_faulty: AtomicBool,
}

impl Bell {
    /// Makes a bell that loses interrupts.
    pub fn new(reach: Reach, seed: u64, number: u64) -> Arc<Bell> {
        let random = Mutex::new(Random::new(seed, 40 + number));
        Arc::new(Bell { reach, due_ns: AtomicU64::new(u64::MAX), random, is_faulty: AtomicBool::new(true) })
    }

    /// From now on every interrupt arrives in time.
    pub fn calm(&self) {
        self.is_faulty.store(false, Ordering::Relaxed);
    }

    /// Interrupts the instance that has the bell's [`Tower`], from the core of another one.
    pub fn ring(&self) {
        let mut random = self.random.lock().expect("no draw panics");
        let is_faulty = self.is_faulty.load(Ordering::Relaxed);
        if is_faulty && random.per_mille(LOST) {
            return;
        }
        let late_ns = if is_faulty && random.per_mille(LATE) { random.below(2 * MS) } else { 0 };
        let at_ns = virtual_clock(core_index()) + USUAL_NS + late_ns;
        self.due_ns.fetch_min(at_ns, Ordering::Relaxed);
        self.reach.tell();
    }
}

/// An instance that idles is not done: it may be rung for. So its tower acts now and then, and does nothing.
const BEAT_NS: u64 = 2 * MS;

/// The end of a bell at the instance that is interrupted.
pub struct Tower {
    bell: Arc<Bell>,
    beat_ns: Cell<u64>,
    sounds: Box<dyn Fn()>,
}

impl Tower {
    /// Makes it a part outside of an instance's cores, whose interrupts are those of the link.
    pub fn of_link(bell: Arc<Bell>) -> Rc<Tower> {
        Tower::new(bell, Box::new(|| post_event(0, 1 << LINE)))
    }

    /// Makes it a part outside of an instance's cores; each interrupt does this there.
    pub fn new(bell: Arc<Bell>, sounds: Box<dyn Fn()>) -> Rc<Tower> {
        Rc::new(Tower { bell, beat_ns: Cell::new(BEAT_NS), sounds })
    }
}

impl Outside for Tower {
    fn next_at(&self) -> Option<u64> {
        Some(self.bell.due_ns.load(Ordering::Relaxed).min(self.beat_ns.get()))
    }

    fn act(&self, at_ns: u64) {
        if self.beat_ns.get() <= at_ns {
            self.beat_ns.set(at_ns + BEAT_NS);
        }
        if self.bell.due_ns.load(Ordering::Relaxed) <= at_ns {
            self.bell.due_ns.store(u64::MAX, Ordering::Relaxed);
            (self.sounds)();
        }
    }
}
