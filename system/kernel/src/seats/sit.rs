//! A core of a cell: it is out of the grid, enters the cell, and deals with what the cell leaves for.
//!
//! Nothing here takes memory or gives it back, and no lock is held while the cell runs. Each turn of a loop ends by an interrupt at the
//! latest, and looks whether the cell is to end.
//!
//! If the thread changes what the cell reaches (`SharedTable::close`), each core comes out once and waits. A core that forgets translations for
//! another one has come out, too: it forgets them when it enters.
//!
//! May be called: on a core that has left the grid for this seat.

use super::seat::{Ending, Phase, Reach, Seat};
use super::station::{Ask, Begin, Idling, Place, Station};
use alloc::boxed::Box;
use core::sync::atomic::Ordering;
use gyre_cell_abi::{KICK_VECTOR, exit};
use gyre_linux::Errno;
use gyre_machine::{Access, MapFlags, Pa};
use gyre_x86_64::guest::{self, Core, End, Exit};

/// Looks before a core waits for an interrupt: an answer of another core often comes soon, and nobody else has this core's cycles.
const LOOKS: u32 = 32;
/// Entries that touch the same memory again and again, though it is granted.
const VIOLATIONS_MAX: u32 = 1_000;

/// Runs the cell on a core until it is over, or not at all if it was ended before.
pub fn sit(seat: &Seat, station: &Station) {
    station.set_place(Place::Here);
    seat.arrive();
    if let Some(core) = wait_for_start(seat, station)
        && let Some(reach) = seat.reach()
    {
        let sitter = Sitter { seat, station, reach: &reach, violations: 0 };
        if let Some(mut core) = sitter.run(core) {
            core.park();
            station.put_core(core);
        }
    }
    gyre_x86_64::clear_timer();
    station.set_place(Place::Left);
    seat.changed.wake_all();
}

/// Waits until this core begins; `None` if it never does.
fn wait_for_start(seat: &Seat, station: &Station) -> Option<Box<Core>> {
    let is_first = station.index == 0;
    let begins = || if is_first { seat.is_complete() } else { station.is_started() };
    wait(seat, station, u64::MAX, || begins() || station.is_dismissed());
    if seat.is_ended() || !begins() {
        return None;
    }
    let mut core = station.take_core()?;
    core.set_core_number(u32::try_from(station.slot()).unwrap_or(0));
    if is_first {
        seat.entered.store(gyre_x86_64::now(), Ordering::Relaxed);
        seat.set_phase(Phase::Inside);
    }
    Some(core)
}

/// Waits for an interrupt until something is so, the time is over, or the cell is to end.
fn wait(seat: &Seat, station: &Station, deadline: u64, is_so: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        core::hint::spin_loop();
    }
    station.set_idle(Idling::Yes);
    while !is_so() && !seat.is_ended() && gyre_x86_64::now() < deadline {
        if deadline != u64::MAX {
            gyre_x86_64::set_timer(deadline);
        }
        gyre_x86_64::idle();
        gyre_x86_64::take_events();
    }
    station.set_idle(Idling::No);
    gyre_x86_64::clear_timer();
}

/// A turn's end: the core goes on, or is out, with its registers if they are not the thread's.
enum Turn {
    GoOn(Box<Core>),
    Out(Option<Box<Core>>),
}

struct Sitter<'a> {
    seat: &'a Seat,
    station: &'a Station,
    reach: &'a Reach,
    /// Violations in a row that were none.
    violations: u32,
}

impl Sitter<'_> {
    fn run(mut self, core: Box<Core>) -> Option<Box<Core>> {
        let mut core = core;
        // Ends with the cell: an interrupt, which `Seat::finish` sends, ends each stay.
        loop {
            if self.seat.is_ended() {
                return Some(core);
            }
            let Some(exit) = self.enter(&mut core) else { continue };
            core = match self.deal_with(core, exit) {
                Turn::GoOn(core) => core,
                Turn::Out(core) => return core,
            };
        }
    }

    /// One stay; `None` if there was none, or nothing is to be done.
    fn enter(&self, core: &mut Core) -> Option<Exit> {
        // Before the look: who kicks afterwards sees that it is in, and rings.
        self.station.turn();
        if self.station.take_kick() {
            // If one waits still, the cell has not seen that one: both are one.
            let _ = core.post_interrupt(KICK_VECTOR);
        }
        let exit = guest::enter_shared(core, &self.reach.table);
        self.station.turn();
        let Some(exit) = exit else {
            wait(self.seat, self.station, u64::MAX, || !self.reach.table.is_closed());
            return None;
        };
        let exits = self.seat.exits.fetch_add(1, Ordering::Relaxed);
        self.reach.memory.lines.set_exits(exits.saturating_add(1));
        guest::settle(exit, core)
    }

    fn finish(&self, ending: Ending, core: Box<Core>) -> Turn {
        self.seat.finish(ending);
        Turn::Out(Some(core))
    }

    fn deal_with(&mut self, core: Box<Core>, exit: Exit) -> Turn {
        match exit {
            Exit::Call => return self.deal_with_call(core),
            Exit::Interrupt => _ = gyre_x86_64::take_events(),
            Exit::Halt => self.idle(0),
            Exit::Violation { address, access, .. } if self.is_granted_by_now(address, access) => {}
            other => {
                let why = guest::end_by(other).unwrap_or(End::Shutdown);
                let rip = core.registers.rip;
                return self.finish(Ending::Failed { why, rip }, core);
            }
        }
        Turn::GoOn(core)
    }

    /// Returns true if the thread has granted an access since the core tried it.
    fn is_granted_by_now(&mut self, address: Pa, access: Access) -> bool {
        self.violations = self.violations.saturating_add(1);
        let Some(rights) = self.reach.table.grow(|table| table.rights_of(address)) else { return false };
        let is_granted = match access {
            Access::Read => true,
            Access::Write => rights.contains(MapFlags::WRITE),
            Access::Execute => rights.contains(MapFlags::EXECUTE),
        };
        is_granted && self.violations < VIOLATIONS_MAX
    }

    fn deal_with_call(&mut self, mut core: Box<Core>) -> Turn {
        self.violations = 0;
        let number = core::mem::replace(&mut core.registers.rax, 0);
        let [first, second, third] = [core.registers.rdi, core.registers.rsi, core.registers.rdx];
        let ask = match number {
            exit::MORE => Ask::More(first),
            exit::GIVE => Ask::Give(first),
            exit::FAULT => Ask::Fault(first, second),
            exit::START => Ask::Start(Begin { core: first, rip: second, rsp: third }),
            exit::LEAVE => return self.finish(Ending::Left(self.station.index), core),
            exit::EXIT => return self.finish(Ending::Exited(first as i32), core),
            exit::GIVE_CORE if first == self.station.index as u64 && first != 0 => return Turn::Out(Some(core)),
            _ => {
                let answer = self.answer_at_once(number, [first, second]);
                core.registers.rax = answer.map_or_else(|error| error.negated() as u64, |()| 0);
                return Turn::GoOn(core);
            }
        };
        self.ask(core, ask)
    }

    /// Answers a call that needs nobody else.
    fn answer_at_once(&self, number: u64, [first, second]: [u64; 2]) -> Result<(), Errno> {
        match number {
            exit::IDLE => self.idle(first),
            exit::BELL => self.seat.called.wake_all(),
            exit::KICK => self.kick(self.other(first)?, second)?,
            exit::FLUSH => self.flush(),
            exit::GIVE_CORE => dismiss(self.other(first)?)?,
            exit::GET_CORE => self.get(first)?,
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }

    fn other(&self, number: u64) -> Result<&Station, Errno> {
        self.station(number).filter(|station| station.is_held()).ok_or(Errno::EINVAL)
    }

    fn station(&self, number: u64) -> Option<&Station> {
        usize::try_from(number).ok().and_then(|number| self.seat.stations.get(number))
    }

    /// Has the keeper bring a core into a place that has none, and waits for it.
    fn get(&self, number: u64) -> Result<(), Errno> {
        let place = self.station(number).ok_or(Errno::EINVAL)?;
        place.want()?;
        self.seat.changed.wake_all();
        wait(self.seat, self.station, u64::MAX, || place.arrival().is_some());
        place.arrival().unwrap_or(Err(Errno::EINTR))
    }

    fn kick(&self, target: &Station, how: u64) -> Result<(), Errno> {
        match how {
            0 => {}
            1 => target.kick(),
            _ => return Err(Errno::EINVAL),
        }
        target.tell();
        Ok(())
    }

    /// Has all other cores that are in the cell come out once: a core that enters has forgotten translations.
    fn flush(&self) {
        let others = || self.seat.stations.iter().filter(|other| other.index != self.station.index);
        let mut seen = [0u64; gyre_machine::CORES_MAX];
        for other in others() {
            let stays = other.stays();
            if stays % 2 == 1 {
                other.ring();
            }
            if let Some(place) = seen.get_mut(other.index) {
                *place = stays;
            }
        }
        for other in others() {
            let before = seen.get(other.index).copied().unwrap_or(0);
            // An interrupt ends the stay that was seen.
            while before % 2 == 1 && other.stays() == before && !self.seat.is_ended() {
                core::hint::spin_loop();
            }
        }
    }

    /// Waits until there is news, or for so many nanoseconds; 0 is for as long as it takes. News that came since the last wait end it at once.
    fn idle(&self, ns: u64) {
        let lines = &self.reach.memory.lines;
        if lines.has_asked() {
            self.seat.called.wake_all();
        }
        let cycles = u128::from(ns).saturating_mul(u128::from(gyre_x86_64::cycles_per_ms())).checked_div(1_000_000);
        let cycles = u64::try_from(cycles.unwrap_or(0)).unwrap_or(u64::MAX);
        let deadline = if ns == 0 { u64::MAX } else { gyre_x86_64::now().saturating_add(cycles) };
        wait(self.seat, self.station, deadline, || self.station.take_news() || lines.asks() != 0);
    }

    /// Asks the thread, which has the registers meanwhile.
    fn ask(&self, mut core: Box<Core>, ask: Ask) -> Turn {
        core.park();
        self.station.put_core(core);
        self.station.ask(ask);
        self.seat.called.wake_all();
        wait(self.seat, self.station, u64::MAX, || !self.station.is_asking());
        if self.station.is_asking() {
            // It was ended meanwhile. The thread that has the registers, if it does, is gone or will see that.
            return Turn::Out(None);
        }
        match self.station.take_core() {
            Some(core) => Turn::GoOn(core),
            None => Turn::Out(None),
        }
    }
}

/// Has a core leave that was not started.
fn dismiss(station: &Station) -> Result<(), Errno> {
    if station.index == 0 {
        return Err(Errno::EINVAL);
    }
    if station.is_started() {
        return Err(Errno::EBUSY);
    }
    station.dismiss();
    Ok(())
}
