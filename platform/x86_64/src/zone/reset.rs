//! Cores that are brought back into the parking loop by force: by NMI, then by INIT and startup through the trampoline.

use super::calls::{NoAnswer, lose, mailbox};
use super::mailbox::{IDLE, Mailbox};
use super::pool::pool;
use crate::instructions::rdtsc;
use crate::{apic, time};
use core::sync::atomic::Ordering;

/// A core gets so long to come by itself after an NMI, though it takes no microsecond: a host may not run it for a while, and by INIT its last words are
/// lost.
const ASKED_MS: u64 = 500;
/// After INIT the core needs so long before it takes a startup message.
const INIT_MS: u64 = 1;
/// A startup message is repeated after so long, so many times: a host may not run the core for a while.
const STARTUP_MS: u64 = 100;
const STARTUPS: u32 = 30;

/// The way in which a core is told to come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Force {
    /// By NMI, which its kernel answers by its last words; by INIT if it does not come. For a core whose kernel has its interrupt table loaded.
    Ask,
    /// By INIT at once.
    Init,
}

/// A reset under way, of which each step is short.
#[derive(Debug)]
pub struct Reset {
    id: u32,
    stage: Stage,
    /// How often the core had come by the trampoline before it was told to come that way.
    starts: u64,
    until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Asked,
    Initialised,
    Started(u32),
}

/// The state of a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Look again later.
    UnderWay,
    /// The core is idle in the loop.
    Parked,
    /// It is lost.
    Lost(NoAnswer),
}

impl Reset {
    /// Takes a core from its box and begins to bring it back.
    ///
    /// # Errors
    /// [`NoAnswer`] if the core is lost or not one of the pool: no core of this instance or another machine part is ever reset.
    pub fn begin(id: u32, force: Force) -> Result<Reset, NoAnswer> {
        let mailbox = mailbox(id).ok_or(NoAnswer(id))?;
        let starts = mailbox.starts.load(Ordering::Acquire);
        let mut reset = Reset { id, stage: Stage::Asked, starts, until: after(ASKED_MS) };
        if mailbox.leave_box() == IDLE {
            return Ok(reset);
        }
        match force {
            Force::Ask => apic::send_nmi_to(id),
            Force::Init => reset.initialise(mailbox),
        }
        Ok(reset)
    }

    /// Looks how far it is and does what is next.
    pub fn step(&mut self) -> Progress {
        let (Some(mailbox), Some(page)) = (mailbox(self.id), crate::boot::start::low_page()) else {
            return Progress::Lost(NoAnswer(self.id));
        };
        // A core to which INIT is on its way may still say that it is there: it is not before it has come by the trampoline.
        let is_there = self.stage == Stage::Asked || mailbox.starts.load(Ordering::Acquire) != self.starts;
        if is_there && mailbox.state() == IDLE {
            return Progress::Parked;
        }
        if rdtsc() < self.until {
            return Progress::UnderWay;
        }
        match self.stage {
            Stage::Asked => self.initialise(mailbox),
            Stage::Started(STARTUPS) => return Progress::Lost(lose(self.id)),
            Stage::Initialised => self.start_up(page, 1),
            Stage::Started(count) => self.start_up(page, count + 1),
        }
        Progress::UnderWay
    }

    fn initialise(&mut self, mailbox: &Mailbox) {
        apic::send_init(self.id);
        mailbox.forget();
        (self.stage, self.until) = (Stage::Initialised, after(INIT_MS));
    }

    fn start_up(&mut self, page: u64, count: u32) {
        apic::send_startup(self.id, page);
        (self.stage, self.until) = (Stage::Started(count), after(STARTUP_MS));
    }
}

fn after(ms: u64) -> u64 {
    rdtsc().saturating_add(ms * time::cycles_per_ms())
}

/// Brings a core of the pool back into the loop by INIT, wherever it is, within three seconds.
///
/// # Errors
/// [`NoAnswer`] if it does not come: then it is lost for good; or if it is none of the pool's.
pub fn reset_core(id: u32) -> Result<(), NoAnswer> {
    reset_core_by(id, Force::Init)
}

/// Like [`reset_core`], with a choice.
///
/// # Errors
/// As [`reset_core`].
pub fn reset_core_by(id: u32, force: Force) -> Result<(), NoAnswer> {
    let mut reset = Reset::begin(id, force)?;
    loop {
        match reset.step() {
            Progress::UnderWay => core::hint::spin_loop(),
            Progress::Parked => return Ok(()),
            Progress::Lost(error) => return Err(error),
        }
    }
}

/// Brings all cores of the pool into the loop, by reset; tells of those that do not come, which are lost.
pub(crate) fn gather() {
    for id in pool().cores() {
        if let Err(NoAnswer(id)) = reset_core(*id) {
            log::error!(target: "platform", "core with hardware id {id} does not come into the parking loop and is left out");
        }
    }
}
