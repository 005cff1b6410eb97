//! The thread of a cell while the cell lives: it serves lines and questions, and tells the cell of signals.
//!
//! Each line is a call of the process, made by the ordinary dispatch in the process's name. Calls that wait stand beside each other; each wake
//! of the thread looks at all of them. A line is copied before it is looked at.
//!
//! While lines come soon after the answer to the one before, the thread looks at them by itself; otherwise it sleeps, and the cell rings: a cell
//! that computes for long between two calls shall not cost another core the time that it looks in vain. Questions of the core are
//! answered between two looks: the stay is with the thread meanwhile.
//!
//! The signals that the cell holds back are the thread's mask, so that calls find them waiting here. Before each look at lines, and whenever a
//! signal comes, the mask becomes what the cell's word says. A call of a line that the cell gives up ends as by a signal.
//!
//! Left out: calls that change registers (fork, execve, sigreturn); they answer ENOSYS here, and the cell deals with them.

use super::Seats;
use super::enter::new_core;
use super::history::Event;
use super::keep;
use super::seat::{Ending, Phase, Reach, Seat};
use super::station::{Ask, Begin, Place, Station};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, pending, poll_fn};
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use gyre_address_space::{AddressSpace, Shown};
use gyre_cell_abi::{LOT_BYTES, LOTS_MAX, asks};
use gyre_cell_memory::{Bell, Call, CellMemory, Grant, TakenLot};
use gyre_contract::seats::Deed;
use gyre_linux::signal::news::{Deputy, SignalNews, Waiting};
use gyre_linux::{Arguments, Errno, Outcome, Thread, run};
use gyre_machine::{Access, MapError, PAGE_BYTES, Pa, Registers};
use gyre_message::wait::Either;
use gyre_message::{select, yield_now};
use gyre_x86_64::guest::{NestedTable, SharedTable};

/// A call under way.
struct Work {
    line: usize,
    /// Completes with its result.
    future: Pin<Box<dyn Future<Output = i64> + Send>>,
    patience: Patience,
}

/// How long the cell waits for a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// As long as it takes.
    Endless,
    /// It does not want to wait any longer.
    Over,
}

/// The service for one cell.
pub struct LineServer<'a> {
    seats: &'a Seats,
    thread: &'a Arc<Thread>,
    seat: &'a Arc<Seat>,
    space: &'a Arc<AddressSpace>,
    memory: &'a CellMemory,
    table: &'a SharedTable,
    work: Vec<Work>,
    signals: Deputy<'a>,
    /// Signals of which the cell knows.
    told: Waiting,
    watch: Watch,
    pace: Pace,
    /// The cycle of the last answer.
    answered_at: u64,
    /// Up to this cycle it looks at the lines by itself.
    polls_until: u64,
}

/// The time between an answer and the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// It was short the last time: looking is worth while.
    Quick,
    /// It was long.
    Slow,
}

/// The way in which lines are noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// The thread looks again and again.
    Polls,
    /// The cell rings.
    Sleeps,
}

/// The time for which the thread looks at lines after the last answer, ns: about what an exit of a cell costs.
const POLL_NS: u64 = 20_000;

/// Pages that a fault of the cell shows if they are present: as many as a fault of a file may bring.
const AROUND_PAGES: usize = 16;
const AROUND_BYTES: u64 = (AROUND_PAGES * PAGE_BYTES) as u64;

fn poll_cycles() -> u64 {
    POLL_NS.saturating_mul(gyre_x86_64::cycles_per_ms()).checked_div(1_000_000).unwrap_or(0)
}

impl<'a> LineServer<'a> {
    /// Makes the service of a seat.
    pub fn new(
        seats: &'a Seats,
        thread: &'a Arc<Thread>,
        seat: &'a Arc<Seat>,
        space: &'a Arc<AddressSpace>,
        reach: &'a Reach,
    ) -> LineServer<'a> {
        LineServer {
            seats,
            thread,
            seat,
            space,
            memory: &reach.memory,
            table: &reach.table,
            work: Vec::new(),
            signals: Deputy::new(thread),
            told: Waiting::default(),
            watch: Watch::Sleeps,
            pace: Pace::Quick,
            answered_at: gyre_x86_64::now(),
            polls_until: 0,
        }
    }

    /// Serves until the cell is over.
    pub async fn serve(&mut self) -> Ending {
        let seat = self.seat;
        loop {
            let call = seat.called.wait();
            match seat.phase() {
                Phase::Out(ending) | Phase::Over(ending) => return ending,
                _ => {}
            }
            if self.answer_cores().await == Watch::Polls {
                continue;
            }
            let watch = self.look();
            self.note_given_up();
            let pause = async {
                match watch {
                    Watch::Polls => {
                        core::hint::spin_loop();
                        yield_now().await;
                    }
                    Watch::Sleeps => pending::<()>().await,
                }
            };
            let (lines, signals) = (&self.memory.lines, &self.signals);
            let news = signals.news(self.told, || lines.held());
            let ended = some_end(&mut self.work, signals);
            match select(select(select(call, pause), ended), news).await {
                Either::First(Either::First(_)) => {}
                Either::First(Either::Second(ended)) => self.finish(&ended),
                Either::Second(SignalNews::Waiting(waiting)) => self.tell(waiting),
                Either::Second(SignalNews::Ends) => return self.end().await,
            }
        }
    }

    /// Ends the cell, as its process ends, and waits until its cores are out.
    async fn end(&mut self) -> Ending {
        let seat = self.seat;
        seat.finish(Ending::Ended);
        let out = || match seat.phase() {
            Phase::Out(ending) | Phase::Over(ending) => Some(ending),
            _ => None,
        };
        seat.changed.until(out).await
    }

    /// Begins the calls of all lines that ask. While calls come the kernel looks by itself: the cell need not leave to say so.
    fn look(&mut self) -> Watch {
        let now = gyre_x86_64::now();
        if self.take_lines() {
            // Twice: who sleeps hears of a line by an exit, which takes its time.
            let is_quick = now.saturating_sub(self.answered_at) <= poll_cycles().saturating_mul(2);
            self.pace = if is_quick { Pace::Quick } else { Pace::Slow };
        }
        let watch = if now < self.polls_until { Watch::Polls } else { Watch::Sleeps };
        if watch != self.watch {
            self.watch = watch;
            self.memory.lines.set_bell(if watch == Watch::Polls { Bell::NotWanted } else { Bell::Wanted });
            // A line that was written before the bell was wanted.
            if watch == Watch::Sleeps {
                self.take_lines();
            }
        }
        self.watch
    }

    /// Begins the calls of all lines that ask, under the mask that the cell says; false if none does.
    fn take_lines(&mut self) -> bool {
        let (mut from, before, lines) = (0, self.work.len(), &self.memory.lines);
        while let Some(call) = lines.take_from(from) {
            from = call.line.saturating_add(1);
            // It has made a line ask whose call waits: of a cell that keeps the rules no more wait than there are lines.
            if self.work.len() >= lines.count() {
                lines.answer(call.line, Errno::EAGAIN.negated());
                self.tell_of(lines.shape.core_of(call.line));
                continue;
            }
            let future = begin(self.thread.clone(), call);
            self.work.push(Work { line: call.line, future, patience: Patience::Endless });
        }
        // What the cell has said before it asked counts for the call.
        self.signals.hold(lines.held());
        let is_some = self.work.len() > before;
        // A cell that has seen the ask, and takes signals by a line now, is told of the rest.
        if is_some && lines.asks() & asks::SIGNAL == 0 {
            self.told.open = 0;
        }
        is_some
    }

    /// Notes the calls that the cell has given up; their waits look once more.
    fn note_given_up(&mut self) {
        let lines = &self.memory.lines;
        let mut are_called = false;
        for work in self.work.iter_mut().filter(|work| work.patience == Patience::Endless) {
            if lines.is_given_up(work.line) {
                work.patience = Patience::Over;
                are_called = true;
            }
        }
        if are_called {
            self.signals.call();
        }
    }

    fn finish(&mut self, ended: &[(usize, i64)]) {
        self.answered_at = gyre_x86_64::now();
        if self.pace == Pace::Quick {
            self.polls_until = self.answered_at.saturating_add(poll_cycles());
        }
        // A signal that a call has sent is told before the call is answered: its handler runs first.
        let lines = &self.memory.lines;
        if self.thread.has_signal()
            && let Some(SignalNews::Waiting(waiting)) = self.signals.look(self.told, || lines.held())
        {
            self.tell(waiting);
        }
        for (line, result) in ended {
            self.memory.lines.answer(*line, *result);
            self.tell_of(self.memory.lines.shape.core_of(*line));
        }
    }

    /// Tells a core that a line of it is answered; if it works meanwhile, or has gone, one that idles is told too, or all if none does: each may
    /// have looked at the lines before the answer, and be about to idle.
    fn tell_of(&self, core: usize) {
        let Some(asker) = self.seat.stations.get(core) else { return };
        let is_busy = !asker.is_idle();
        asker.tell();
        if !is_busy {
            return;
        }
        let others = || self.seat.stations.iter().filter(|other| other.index != core && other.has_begun());
        match others().find(|other| other.is_idle()) {
            Some(other) => other.tell(),
            None => others().for_each(Station::tell),
        }
    }

    fn tell(&mut self, waiting: Waiting) {
        self.told = waiting;
        self.memory.lines.tell_signals(waiting.open, waiting.held);
        if waiting.open != 0 {
            self.seat.tell();
        }
    }

    /// Answers the questions of cores that wait for that; `Polls` if there were some, so that others may have come meanwhile.
    async fn answer_cores(&mut self) -> Watch {
        let (seat, mut watch) = (self.seat, Watch::Sleeps);
        for station in &seat.stations {
            if let Some(ask) = station.take_ask() {
                self.answer(station, ask).await;
                watch = Watch::Polls;
            }
        }
        watch
    }

    async fn answer(&mut self, station: &Station, ask: Ask) {
        let outcome = match ask {
            Ask::More(bytes) => self.more(bytes),
            Ask::Give(start) => self.give(start).await,
            Ask::Fault(address, kind) => self.fault(address, kind).await,
            Ask::Start(begin) => self.start(begin),
        };
        if let Some(mut core) = station.take_core() {
            core.registers.rax = outcome.unwrap_or_else(|error| error.negated() as u64);
            station.put_core(core);
            station.answered();
        }
    }

    /// Changes the nested table while no core is in the cell. `None` if the cell ends meanwhile, or by the change's own word.
    async fn on_closed<T>(&mut self, change: impl FnOnce(&mut NestedTable) -> Option<T>) -> Option<T> {
        self.table.close();
        self.seat.stations.iter().for_each(Station::ring);
        let mut change = Some(change);
        let changed = loop {
            // A core that is about to see that the table is closed counts as inside for that moment.
            match self.table.shrink(|table| change.take().and_then(|change| change(table))) {
                Some(changed) => break changed,
                None if self.seat.is_ended() => break None,
                None => yield_now().await,
            }
        };
        self.table.open();
        self.seat.stations.iter().for_each(Station::wake);
        changed
    }

    /// Starts a further core.
    fn start(&self, begin: Begin) -> Outcome {
        let station = usize::try_from(begin.core).ok().and_then(|index| self.seat.stations.get(index));
        let station = station.filter(|station| station.index != 0 && station.place() == Place::Here);
        let station = station.filter(|station| !station.is_dismissed()).ok_or(Errno::EINVAL)?;
        if station.is_started() {
            return Err(Errno::EBUSY);
        }
        let registers = Registers { rip: begin.rip, rsp: begin.rsp, rdi: begin.core, ..Registers::default() };
        station.start(Box::new(new_core(Pa(self.memory.lines.root()), &registers)?));
        Ok(0)
    }

    fn more(&mut self, bytes: u64) -> Outcome {
        let count = bytes.checked_div(LOT_BYTES).filter(|_| bytes != 0 && bytes.is_multiple_of(LOT_BYTES));
        let count = count.and_then(|count| u32::try_from(count).ok()).ok_or(Errno::EINVAL)?;
        let began = gyre_x86_64::now();
        let has = self.memory.lot_count();
        if self.seat.is_asked.load(Ordering::SeqCst) || has.saturating_add(count as usize) > LOTS_MAX {
            return Err(Errno::ENOMEM);
        }
        let lots = self.seats.pool.take_more(self.seat.number, count, self.seat.payer);
        let words = lots.as_ref().map_or_else(|error| format!("refused: {error:?}"), |_| String::new());
        self.note(Deed::More, bytes, (began, words));
        let lots = lots?;
        if !self.seat.add_lots(&lots) {
            self.seats.pool.give(self.seat.number, lots, self.seat.payer);
            return Err(Errno::EINTR);
        }
        for lot in lots {
            let grant = self.memory.add_lot(lot).map_err(|_| Errno::ENOMEM)?;
            self.table.grow(|table| table.map(grant.range, grant.rights)).map_err(|_| Errno::ENOMEM)?;
        }
        Ok(0)
    }

    fn note(&self, deed: Deed, memory_bytes: u64, (began, result): (u64, String)) {
        let by = keep::by_whom(self.seat);
        self.seats.history.note(self.seat, Event { deed, cores: Vec::new(), memory_bytes, by, began, result });
    }

    async fn give(&mut self, start: u64) -> Outcome {
        let began = gyre_x86_64::now();
        if self.seats.devices.lies_in(self.seat.number, start) {
            return Err(Errno::EBUSY);
        }
        let TakenLot { page: lot, is_reached } = self.memory.remove_lot(start).ok_or(Errno::EINVAL)?;
        let range = keep::range_of(&lot);
        // If the table has no memory to be cut by: a lot is never a part of an entry that has other owners, so none is needed.
        let take = |table: &mut NestedTable| {
            let is_written = table.is_written(range);
            table.unmap(range).ok().map(|()| is_written)
        };
        let is_written = self.on_closed(take).await.ok_or(Errno::ENOMEM)?;
        if is_reached || is_written {
            // The seat has it too.
            keep::clear(&lot, 2).await;
        }
        // Up to here it is the keeper's too: this thread may be dropped at any wait, or the cell end meanwhile.
        if !self.seat.forget_lot(&lot) {
            return Err(Errno::EINTR);
        }
        self.seats.pool.give(self.seat.number, alloc::vec![lot], self.seat.payer);
        self.note(Deed::Give, LOT_BYTES, (began, String::new()));
        self.seat.changed.wake_all();
        Ok(0)
    }

    /// Lets the cell reach a page. One that it did not reach is added while cores are in; other rights need all of them out.
    async fn grant(&mut self, grant: Grant) -> Result<(), Errno> {
        match self.table.grow(|table| table.map(grant.range, grant.rights)) {
            Ok(()) => return Ok(()),
            Err(MapError::Occupied) => {}
            Err(_) => return Err(Errno::ENOMEM),
        }
        let regrant = |table: &mut NestedTable| {
            table.unmap(grant.range).ok()?;
            table.map(grant.range, grant.rights).ok()
        };
        self.on_closed(regrant).await.ok_or(Errno::ENOMEM)
    }

    /// Makes a page of the process present; answers the entry for it.
    async fn fault(&mut self, address: u64, kind: u64) -> Outcome {
        let access = if kind == 1 { Access::Write } else { Access::Read };
        self.space.fault_own(address, access).await?;
        let shown = self.space.shown(address).ok_or(Errno::EFAULT)?;
        let pinned = self.memory.pin(&shown, address);
        if let Some(grant) = pinned.grant {
            self.grant(grant).await?;
        }
        self.show_around(address);
        Ok(pinned.entry)
    }

    /// Shows the pages around one that are present too: a fault of a file brings those that are cached, and each fault costs an exit.
    fn show_around(&self, address: u64) {
        let start = address & !(AROUND_BYTES - 1);
        let mut found: Vec<Shown> = Vec::new();
        self.space.shown_in(start..start.saturating_add(AROUND_BYTES), |shown| {
            // The page itself is the cell's to enter.
            if address.wrapping_sub(shown.address) >= PAGE_BYTES as u64 {
                found.push(shown);
            }
        });
        // Rights of a page that it reaches already change only when it asks for that.
        self.memory.show_around(&found, |grant| self.table.grow(|table| table.map(grant.range, grant.rights)).is_ok());
    }
}

/// Begins a call.
fn begin(thread: Arc<Thread>, call: Call) -> Pin<Box<dyn Future<Output = i64> + Send>> {
    Box::pin(async move {
        match run::system_call(&thread, call.number, Arguments(call.arguments)).await {
            Ok(value) => value as i64,
            // The cell repeats a call itself.
            Err(error) if error.asks_restart() => Errno::EINTR.negated(),
            Err(error) => error.negated(),
        }
    })
}

/// Completes when some calls have ended, with their lines and results.
fn some_end(work: &mut Vec<Work>, signals: &Deputy<'_>) -> impl Future<Output = Vec<(usize, i64)>> {
    poll_fn(move |context: &mut Context<'_>| {
        let mut ended = Vec::new();
        work.retain_mut(|work| match poll(work, signals, context) {
            Poll::Ready(result) => {
                ended.push((work.line, result));
                false
            }
            Poll::Pending => true,
        });
        if ended.is_empty() { Poll::Pending } else { Poll::Ready(ended) }
    })
}

fn poll(work: &mut Work, signals: &Deputy<'_>, context: &mut Context<'_>) -> Poll<i64> {
    match work.patience {
        Patience::Endless => work.future.as_mut().poll(context),
        Patience::Over => signals.give_up(|| work.future.as_mut().poll(context)),
    }
}
