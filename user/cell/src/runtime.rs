//! The runtime: everything between the trap of a program's thread and the return to the next one.
//!
//! 1. The ground saves the registers of the thread that runs and calls [`Runtime::on_call`] or [`Runtime::on_fault`].
//! 2. A call is answered here, or becomes a line, after its buffers were made present.
//! 3. If the thread waits now, answers are collected and the scheduler chooses the next one; without one the core rests, as the I/O
//!    policy says.
//! 4. Handlers of signals that have come are called in the thread that goes on.
//!
//! Several cores: one of them at a time is in here, which the ground sees to ([`Runtime::enter`], [`Runtime::leave`]); the others run the program,
//! wait for their turn, or rest. So nothing here is entered twice. The program's memory is read and written only where it is present.
//!
//! Cores that the kernel wants back go by themselves, each the next time that it is here ([`Runtime::or_go`]); the first one stays. The kernel tells
//! all cores of its wish, so each comes: one that computes by an interrupt, one that rests by the end of its rest. Cores that the owner offers come
//! into the places of those that have gone ([`Runtime::takes_core`]).

use core::fmt::Write as _;

use crate::{
    ahead::{Ahead, Files},
    call::{self, Outcome, card::OwnCard, disk::OwnDisk},
    error::Errno,
    fiber::{Call, FIBERS_MAX, Fiber, FiberId, NEVER, Scheduler, State},
    frames::Contents,
    io::{Io, Rest},
    lines::Calls,
    machine::{Machine, Wanted},
    memory::{Leaf, PAGE_BYTES, Rights, Space, page_down},
    signal::{Come, Info, Signals},
    text::Line,
};

/// Times that a call is sent if the kernel misses pages that can be made present.
const SENT_MAX: u32 = 16;
/// Bytes of a buffer that are made present before a call is sent.
const PRESENT_MAX_BYTES: u64 = 16 << 20;

/// The most cores of a cell.
pub const CORES_MAX: usize = 8;
/// The core that stays as long as the cell.
const FIRST_CORE: usize = 0;

/// The next deed of the ground after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// The current thread goes on.
    Run,
    /// No thread can: the core waits, so many nanoseconds at most, 0 without limit; then [`Runtime::again`].
    Rest(u64),
    /// No thread can: the core looks again soon; then [`Runtime::again`].
    Look,
    /// The core goes to the kernel for good.
    Go,
}

/// A runtime, of one core or several.
pub struct Runtime<M: Machine> {
    /// The ground.
    pub machine: M,
    /// The memory.
    pub space: Space,
    /// The threads.
    pub fibers: Box<[Fiber]>,
    /// Places from here on were never used.
    pub fibers_end: usize,
    /// The thread that runs on the core that is here.
    pub current: FiberId,
    /// That core.
    core: usize,
    /// The threads that run on the others.
    running: [FiberId; CORES_MAX],
    /// Cores that rest, a bit each.
    resting: u64,
    /// Threads that are ready and do not run.
    ready: usize,
    /// The order of fibers.
    pub scheduler: &'static mut dyn Scheduler,
    /// Signals of the program.
    pub signals: Signals,
    /// The number of the process.
    pub pid: u32,
    /// The disk of the cell, if it was started with one.
    pub disk: Option<&'static mut OwnDisk>,
    /// The network card of the cell, if it was started with one.
    pub card: Option<&'static mut OwnCard>,
    /// Files of which bytes are read ahead.
    pub files: Files,
    io: &'static mut dyn Io,
    /// Calls under way in the kernel.
    pub(crate) calls: Calls,
    bell: Bell,
    /// Parts that the kernel wants back and has not got yet, and cores that it offers.
    owed: Wanted,
    /// Cores that have gone, as bits.
    gone: u64,
}

/// Whether the kernel is to be told of new lines. Resting tells it too, so the bell is for cores that go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bell {
    Silent,
    Due,
}

/// The policies of a runtime beside those of its memory.
pub struct Policies {
    /// The order of fibers.
    pub scheduler: &'static mut dyn Scheduler,
    /// The core's behaviour while all wait.
    pub io: &'static mut dyn Io,
    /// How much is read ahead.
    pub ahead: &'static mut dyn Ahead,
}

/// The process that a runtime works for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// The user that started it.
    pub user: u32,
}

impl<M: Machine> Runtime<M> {
    /// Makes a runtime; its first thread runs already.
    pub fn new(machine: M, space: Space, policies: Policies, process: Process) -> Self {
        let Process { id: pid, user } = process;
        // One after another: all of them at once would go over the stack, whose pages become the cell's too.
        let mut fibers: Box<[Fiber]> = (0..FIBERS_MAX).map(|_| Fiber::FREE).collect();
        fibers[0].state = State::Ready;
        fibers[0].tid = pid;
        let calls = Calls::new(machine.lines());
        let Policies { scheduler, io, ahead } = policies;
        Self {
            machine,
            space,
            fibers,
            fibers_end: 1,
            current: 0,
            core: 0,
            running: [0; CORES_MAX],
            resting: 0,
            ready: 0,
            scheduler,
            signals: Signals::new(pid, user),
            pid,
            disk: None,
            card: None,
            files: Files::new(ahead),
            io,
            calls,
            bell: Bell::Silent,
            owed: Wanted::default(),
            gone: 0,
        }
    }

    /// A core comes in.
    pub fn enter(&mut self, core: usize) {
        (self.core, self.current) = (core, self.running[core]);
        self.resting &= !(1 << core);
    }

    /// The last question of a core that is about to leave: [`Then::Go`] if the kernel wants it back. Its thread waits for its turn at another one.
    pub fn or_go(&mut self, then: Then) -> Then {
        if self.core == FIRST_CORE || self.owed.cores == 0 {
            return then;
        }
        self.owed.cores -= 1;
        self.gone |= 1 << self.core;
        if then == Then::Run {
            self.add(self.current);
        }
        // It may have counted on its rest to tell the kernel of new lines.
        self.bell = Bell::Silent;
        self.machine.bell();
        Then::Go
    }

    /// Returns the place for a core that is to be got, if the owner offers one and this core, which leaves like this, stays. It counts as one that
    /// rests: it looks for a thread when it comes.
    pub fn takes_core(&mut self, then: Then) -> Option<usize> {
        if self.owed.offered == 0 || then == Then::Go {
            return None;
        }
        self.owed.offered = self.owed.offered.min(self.gone.count_ones()).checked_sub(1)?;
        let core = self.gone.trailing_zeros() as usize;
        self.gone &= !(1 << core);
        self.resting |= 1 << core;
        Some(core)
    }

    /// No core comes into a place for which there was an offer.
    pub fn has_not_come(&mut self, core: usize) {
        self.owed.offered = 0;
        self.gone |= 1 << core;
        self.resting &= !(1 << core);
    }

    /// Returns whether cores are left beside the one that is here, which leaves like this.
    pub fn has_others(&self, then: Then) -> bool {
        then == Then::Go || self.machine.cores().saturating_sub(self.gone.count_ones()) > 1
    }

    /// The core that is here leaves; answers one that rests, if there is work for it.
    pub fn leave(&mut self, then: Then) -> Option<usize> {
        self.running[self.core] = self.current;
        if matches!(then, Then::Rest(_)) {
            self.resting |= 1 << self.core;
        }
        // One that goes may have been the only one that knew how long to rest.
        let is_wanted = self.ready > 0 || then == Then::Go;
        if !is_wanted || self.resting == 0 {
            return None;
        }
        let other = self.resting.trailing_zeros() as usize;
        self.resting &= !(1 << other);
        Some(other)
    }

    /// The thread that runs.
    pub fn fiber(&mut self) -> &mut Fiber {
        &mut self.fibers[self.current]
    }

    /// Answers a system call of the thread that runs, whose registers were saved. Another thread may run afterwards.
    pub fn on_call(&mut self) -> Then {
        let registers = &self.fiber().registers;
        let call = Call { number: registers.rax as u32, arguments: registers.arguments(), sent: 0 };
        let fiber = self.fiber();
        (fiber.call, fiber.is_interrupted) = (call, false);
        match call::answer(self, call) {
            Outcome::Value(value) => self.fiber().registers.rax = value.cast_unsigned(),
            Outcome::Registers => {}
            Outcome::Line => self.send(self.current),
            Outcome::First(first) => self.send_first(self.current, first),
            Outcome::Wait(state) => self.fiber().state = state,
            Outcome::GiveWay => self.give_way(),
        }
        self.go_on()
    }

    /// Answers a fault of the thread that runs. `write` is among the rights that it lacked if it wrote.
    pub fn on_fault(&mut self, address: u64, access: Rights) {
        match self.make_present(address, access) {
            Ok(()) => {}
            Err(Errno::NOMEM) => {
                self.machine.say("gyre-cell: the program needs more memory than the cell has (--memory)\n");
                self.machine.die(linux_raw_sys::general::SIGKILL);
            }
            Err(_) => self.on_trap(linux_raw_sys::general::SIGSEGV, Info::of_fault(self.fault_code(address), address)),
        }
        self.deliver();
    }

    /// `si_code` of a fault: whether memory is there, without the right.
    fn fault_code(&self, address: u64) -> i32 {
        let is_there = self.space.rights(address).is_some() || self.space.table.walk(&self.machine, address).is_some();
        (if is_there { linux_raw_sys::general::SEGV_ACCERR } else { linux_raw_sys::general::SEGV_MAPERR }) as i32
    }

    /// The thread that runs has done what a signal stands for.
    pub fn on_trap(&mut self, signal: u32, info: Info) {
        if !self.deliver_trap(Come { signal, info }) {
            let address = info.details[0];
            let (mut line, at) = (Line::default(), self.fiber().registers.rip);
            // A line that is too long is cut.
            let _ = writeln!(line, "gyre-cell: the program ends by signal {signal} at {at:#x}, address {address:#x}");
            self.machine.say(line.text());
            self.machine.die(signal);
        }
    }

    /// Lets a thread go on that can: the one that runs, if it does not wait.
    pub fn go_on(&mut self) -> Then {
        if self.fiber().state != State::Ready {
            self.end_own_wait();
            return self.again();
        }
        self.deliver();
        Then::Run
    }

    /// Lets the next thread go on, if there is one that can.
    pub fn again(&mut self) -> Then {
        self.collect();
        if self.ready == 0 {
            self.rouse();
        }
        if let Some(next) = self.next() {
            self.ring();
            self.change_to(next);
            self.deliver();
            return Then::Run;
        }
        self.give_back();
        match self.io.rest() {
            Rest::Look => {
                self.ring();
                Then::Look
            }
            Rest::Idle => self.rest(),
        }
    }

    /// Answers a step on a ground that has one core: waits as long as no thread can go on.
    pub fn settle(&mut self, then: Then) {
        let mut then = then;
        while then != Then::Run {
            if let Then::Rest(nanoseconds) = then {
                self.machine.idle(nanoseconds);
            }
            then = self.again();
        }
    }

    /// A thread is ready, and waits for its turn.
    pub fn add(&mut self, id: FiberId) {
        self.ready += 1;
        self.scheduler.add(id);
    }

    fn next(&mut self) -> Option<FiberId> {
        let next = self.scheduler.next()?;
        self.ready -= 1;
        Some(next)
    }

    fn give_way(&mut self) {
        self.fiber().registers.rax = 0;
        self.collect();
        self.ready += 1;
        self.scheduler.give_way(self.current);
        if let Some(next) = self.next() {
            self.change_to(next);
        }
    }

    fn change_to(&mut self, next: FiberId) {
        let before = core::mem::replace(&mut self.current, next);
        match self.fibers.get_disjoint_mut([before, next]) {
            Ok([from, to]) => self.machine.switch(from, to),
            // While this core rested another one may have ended that thread and begun a new one in its place.
            Err(_) if self.machine.cores() > 1 => self.machine.set_fs(self.fibers[next].fs),
            Err(_) => {}
        }
    }

    fn ring(&mut self) {
        if core::mem::replace(&mut self.bell, Bell::Silent) == Bell::Due {
            self.machine.bell();
        }
    }

    /// The core leaves until somebody can go on: the kernel is told by that, too.
    fn rest(&mut self) -> Then {
        let until = self.soonest();
        self.bell = Bell::Silent;
        match until {
            NEVER => Then::Rest(0),
            _ => Then::Rest(until.saturating_sub(self.machine.now()).max(1)),
        }
    }

    /// The time at which the first thread goes on by itself.
    fn soonest(&self) -> u64 {
        let used = self.fibers.iter().take(self.fibers_end);
        used.map(|fiber| fiber.state.deadline()).min().unwrap_or(NEVER)
    }

    /// Wakes whose line was answered and whose time has come.
    fn collect(&mut self) {
        while let Some(answer) = self.calls.take() {
            self.io.answered();
            self.take_answer(answer.fiber, answer.result);
        }
        if call::disk::collect(self) {
            self.io.answered();
        }
        if call::card::collect(self) {
            self.io.answered();
        }
        if self.soonest() == NEVER {
            return;
        }
        let now = self.machine.now();
        for id in 0..self.fibers_end {
            if self.fibers[id].state.deadline() <= now {
                // A sleep is over; no file is ready.
                let is_done = matches!(self.fibers[id].state, State::Asleep(_) | State::Card(_));
                self.wake(id, if is_done { 0 } else { Errno::TIMEDOUT.result() });
            }
        }
    }

    /// Makes a thread that waits ready, with the result of its call.
    pub fn wake(&mut self, id: FiberId, result: i64) {
        self.fibers[id].registers.rax = result.cast_unsigned();
        self.fibers[id].state = State::Ready;
        self.add(id);
    }

    /// Sends a thread's call to the kernel.
    fn send(&mut self, id: FiberId) {
        let mut call = self.fibers[id].call;
        if call.sent == 0 {
            call::shape::each(&call, |part| {
                let bytes = part.bytes.min(PRESENT_MAX_BYTES);
                let _ = self.ensure(part.start, bytes, part.access);
            });
        }
        call.sent += 1;
        self.fibers[id].call = call;
        let first = self.core * self.machine.own_lines();
        match self.calls.send(id, &call, first) {
            Some(line) => {
                self.fibers[id].state = State::Line(line);
                self.bell = Bell::Due;
            }
            None => self.wake(id, Errno::AGAIN.result()),
        }
    }

    /// The kernel is to be told of something in the lines.
    pub(crate) fn bell_is_due(&mut self) {
        self.bell = Bell::Due;
    }

    /// Another core that may run a thread at this moment.
    pub(crate) fn core_of(&self, id: FiberId) -> Option<usize> {
        let cores = (self.machine.cores() as usize).min(CORES_MAX);
        let away = self.resting | self.gone | 1 << self.core;
        (0..cores).find(|core| away >> core & 1 == 0 && self.running[*core] == id)
    }

    pub(crate) fn take_answer(&mut self, id: FiberId, result: i64) {
        if let Some(result) = call::signals::taken_meanwhile(self, id, result) {
            return self.wake(id, result);
        }
        let call = self.fibers[id].call;
        let misses = result == Errno::FAULT.result() && call.sent < SENT_MAX;
        let is_interrupted = result == Errno::INTR.result();
        self.fibers[id].is_interrupted = is_interrupted;
        // The kernel does not know which signals the program holds back.
        let is_for_nothing = is_interrupted && call.sent < SENT_MAX && !self.has_signal_for(id);
        if is_for_nothing || misses && self.provide(&call) == Progress::Some {
            return self.send(id);
        }
        let result = call::memory::after(self, &call, result);
        let result = call::disk::after(self, &call, result);
        let result = call::card::after(self, &call, result);
        let result = call::ahead::after(self, id, result);
        let result = call::signals::after(self, id, result);
        call::signals::end_mask(self, id, result);
        match self.fibers[id].then.take() {
            Some(call) if result >= 0 => self.answer_then(id, call),
            _ => self.wake(id, result),
        }
    }

    /// Sends a call before that of a thread.
    fn send_first(&mut self, id: FiberId, first: Call) {
        let fiber = &mut self.fibers[id];
        (fiber.then, fiber.call) = (Some(fiber.call), first);
        self.send(id);
    }

    /// Answers a call that another one has gone before. The program has one thread, which is the current one.
    fn answer_then(&mut self, id: FiberId, call: Call) {
        self.fibers[id].call = call;
        match call::answer(self, call) {
            Outcome::Value(value) => self.wake(id, value),
            Outcome::Registers | Outcome::GiveWay => self.wake(id, 0),
            Outcome::Line => self.send(id),
            Outcome::First(first) => self.send_first(id, first),
            Outcome::Wait(state) => self.fibers[id].state = state,
        }
    }

    /// Makes the pages present that the arguments of a call point to.
    fn provide(&mut self, call: &Call) -> Progress {
        let mut progress = Progress::None;
        for address in call.arguments {
            // Structures may reach over the end of a page.
            for page in [page_down(address), page_down(address).saturating_add(PAGE_BYTES)] {
                let before = self.space.table.walk(&self.machine, page);
                let made = self.make_present(page, Rights::WRITE).or_else(|_| self.make_present(page, Rights::READ));
                if made.is_ok() && self.space.table.walk(&self.machine, page) != before {
                    progress = Progress::Some;
                }
            }
        }
        progress
    }

    /// Makes a range present, so that the runtime or the kernel can use it.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`.
    pub fn ensure(&mut self, start: u64, bytes: u64, access: Rights) -> Result<(), Errno> {
        let end = start.checked_add(bytes).ok_or(Errno::FAULT)?;
        let mut address = start;
        while address < end {
            let leaf = self.space.table.walk(&self.machine, address);
            if !leaf.is_some_and(|leaf| leaf.rights.contains(access)) {
                self.make_present(address, access)?;
            }
            address = page_down(address).saturating_add(PAGE_BYTES);
        }
        Ok(())
    }

    /// Makes the page of an address present: by the pager in the arena, elsewhere by the kernel.
    fn make_present(&mut self, address: u64, access: Rights) -> Result<(), Errno> {
        if self.space.arena.touches(address, 1) {
            return match self.space.fault(&mut self.machine, address, access) {
                Err(Errno::NOMEM) => self.grow().and_then(|()| self.space.fault(&mut self.machine, address, access)),
                other => other,
            };
        }
        let Some(entry) = self.machine.fault(address, access)? else {
            return Ok(());
        };
        let (machine, space) = (&mut self.machine, &mut self.space);
        space.table.map(machine, space.frames, address, Leaf::of_entry(entry)).map_err(|_| Errno::NOMEM)
    }

    /// Asks the kernel for more memory.
    ///
    /// # Errors
    /// The kernel's.
    pub fn grow(&mut self) -> Result<(), Errno> {
        let frames = &mut *self.space.frames;
        let mut refused = false;
        self.machine.more(MORE_BYTES, &mut |lot| refused |= frames.add(lot, 0).is_err())?;
        if refused { Err(Errno::NOMEM) } else { Ok(()) }
    }

    /// Hears what the kernel wants back or offers, and gives lots, as far as they are free. The rest goes as soon as it is.
    pub fn give_back(&mut self) {
        let Wanted { lots, cores, offered } = self.machine.wanted();
        if offered > 0 && cores == 0 {
            // Nothing is offered while an order stands.
            (self.owed.cores, self.owed.offered) = (0, offered);
        }
        self.owed.lots = self.owed.lots.saturating_add(lots);
        self.owed.cores = self.owed.cores.saturating_add(cores);
        while self.owed.lots > 0 {
            let Some(lot) = self.space.frames.take_lot() else {
                return;
            };
            if self.machine.give_lot(lot).is_err() {
                // It was there a moment ago, so there is room.
                let _ = self.space.frames.add_lot(lot, 0, Contents::Old);
                return;
            }
            self.owed.lots -= 1;
        }
    }

    /// Reads a word of the program.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn read<const BYTES: usize>(&mut self, address: u64) -> Result<[u8; BYTES], Errno> {
        self.ensure(address, BYTES as u64, Rights::READ)?;
        let mut bytes = [0; BYTES];
        self.machine.read_user(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes bytes to the program.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.ensure(address, bytes.len() as u64, Rights::WRITE)?;
        self.machine.write_user(address, bytes)
    }
}

#[cfg(test)]
mod tests;

/// More memory is asked for in steps of a lot.
const MORE_BYTES: u64 = gyre_cell_abi::LOT_BYTES;

/// Whether something has become present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    None,
    Some,
}
