//! Cores that leave the instance and come back while it runs.
//!
//! [`Engine::withdraw_core`], a task of the infrastructure on the resident core:
//! 1. the slot's bit is cleared: no policy, label, thread or task is sent there from now on;
//! 2. each core looks once (a *round*): what was sent by the old bits lies in the inbox, threads know where they may run;
//! 3. the core sends its threads away, running ones at their next look; interrupt lines, notices and keepers go to the resident core;
//! 4. handlers that began there end there, up to the deadline: they cannot move;
//! 5. the core is not present any more, another round, and if its inbox and tables are empty it leaves by the function that the platform gave.
//!
//! If the deadline comes first everything goes back as it was, and [`WithdrawError::Busy`] says who holds the core.
//!
//! [`Engine::join_core`] is called by a core that has come to a slot that is vacant.
//!
//! Time: the last stamp of a core that leaves begins a span of its lessee at [`LEASE`], which the first stamp of its return ends. So taking
//! is on the lender's bill, giving back on the lessee's, and no cycle is on two bills or on none.
//!
//! Left out: the departure on the core itself (`depart.rs`), where the core goes (the platform), who may have it (`leases`).

use crate::engine::{Engine, LEASE};
use crate::event::EventPlace;
use crate::inbox::Message;
use crate::slots::{RESIDENT, SlotState};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, ResourceId, Span, set_current};
use gyre_machine::{CORES_MAX, Events, core_index};
use gyre_message::{Answer, Call, Gone, reply_pair, select, sleep_until, yield_now};

/// Pause between two looks at a core that still has handlers, ns: short against the goal of 100 us, long against a message.
const PAUSE_NS: u64 = 10_000;
/// How often a round is tried if memory is short.
const TRIES_MAX: usize = 100;

/// A core that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawal {
    /// The slot.
    pub slot: usize,
    /// The activity that gets the core's time; the infrastructure's if it does not live.
    pub lessee: ActivityId,
    /// The time, cycles, up to which handlers may end.
    pub deadline_cycles: u64,
}

/// A core that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawn {
    /// Its slot, for [`Engine::join_core`].
    pub slot: usize,
    /// How long it took, cycles.
    pub took_cycles: u64,
}

/// Work that could not end in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// In whose name.
    pub activity: ActivityId,
    /// The resource.
    pub resource: ResourceId,
    /// Handlers, tasks, threads.
    pub tasks: usize,
}

/// Why a core stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WithdrawError {
    /// The first slot keeps its core: it has what cannot move.
    Resident,
    /// There is no such slot, or no core in it.
    Vacant,
    /// It is being withdrawn already.
    Leaving,
    /// The platform gave no function by which a core leaves.
    NoWay,
    /// The resident core has no interrupt line left for those of this one.
    NoLine,
    /// These could not end before the deadline.
    Busy(Vec<Holder>),
    /// Memory is short.
    NoMemory,
    /// The engine is going down.
    Gone,
}

impl From<Gone> for WithdrawError {
    fn from(_: Gone) -> WithdrawError {
        WithdrawError::Gone
    }
}

/// Why a core cannot come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// The slot has a core, or does not exist.
    Occupied,
    /// The core that calls is not the one of that slot.
    OtherCore,
}

impl Engine {
    /// Returns the cores that take new work, a bit each.
    pub fn online_cores(&self) -> u64 {
        self.slots.online()
    }

    #[inline]
    pub(crate) fn is_online(&self, core: usize) -> bool {
        core < CORES_MAX && self.slots.online() >> core & 1 == 1
    }

    /// Returns true if no core is in a slot.
    pub fn is_vacant(&self, slot: usize) -> bool {
        self.slots.state(slot).is_vacant()
    }

    /// Returns the cores that take new work.
    pub fn online(&self) -> impl Iterator<Item = usize> + use<> {
        crate::bits::ones(self.slots.online()).map(|core| core as usize)
    }

    /// Returns the cores that run this instance.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> + use<> {
        crate::bits::ones(self.slots.present()).map(|core| core as usize)
    }

    /// Says how a core leaves: `leave` is called on it with its slot, as its last act in this instance. Only the first call counts.
    pub fn on_leave(&self, leave: fn(usize) -> !) {
        self.leave.set(leave);
    }

    /// Takes the core of a slot out of this instance. The work is the infrastructure's and goes on if nobody waits for the answer.
    pub fn withdraw_core(&'static self, withdrawal: Withdrawal) -> Call<Result<Withdrawn, WithdrawError>> {
        let (reply, call) = reply_pair();
        self.spawn_for_on(RESIDENT, ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, move || async move {
            reply.send(self.withdraw(withdrawal).await);
        });
        call
    }

    async fn withdraw(&'static self, withdrawal: Withdrawal) -> Result<Withdrawn, WithdrawError> {
        let (slot, began) = (withdrawal.slot, gyre_machine::now());
        self.begin_leaving(slot)?;
        self.follow_slots();
        let outcome = self.empty(withdrawal).await;
        match outcome {
            Ok(()) => self.after_departure(slot).await,
            Err(_) => self.stay_here(slot).await,
        }
        outcome.map(|()| Withdrawn { slot, took_cycles: gyre_machine::now().saturating_sub(began) })
    }

    fn begin_leaving(&self, slot: usize) -> Result<(), WithdrawError> {
        if slot == RESIDENT {
            return Err(WithdrawError::Resident);
        }
        if self.leave.get().is_none() && !self.is_simulated.load(Ordering::Relaxed) {
            return Err(WithdrawError::NoWay);
        }
        if let Some(cell) = self.cell_on(slot) {
            return Err(WithdrawError::Busy(alloc::vec![cell]));
        }
        let change = self.slots.change();
        if let Some(keeper) = self.keeper_on(slot) {
            return Err(WithdrawError::Busy(alloc::vec![keeper]));
        }
        match self.slots.state(slot) {
            SlotState::Online => change.set(slot, SlotState::Leaving),
            SlotState::Absent | SlotState::Away => return Err(WithdrawError::Vacant),
            SlotState::Leaving | SlotState::Finishing => return Err(WithdrawError::Leaving),
        }
        Ok(())
    }

    /// Empties the core of a slot until it has left.
    async fn empty(&'static self, withdrawal: Withdrawal) -> Result<(), WithdrawError> {
        let slot = withdrawal.slot;
        self.round(slot, Engine::refresh_threads).await?;
        // A place that was chosen by the old bits may have been noted after they were cleared.
        self.follow_slots();
        self.take_lines(slot)?;
        loop {
            let left = self.left.wait();
            let load = self.ask(slot, move |engine| engine.clear_out(slot)).await.ok_or(WithdrawError::NoMemory)?;
            if load.is_empty() && self.finish_leaving(withdrawal).await? {
                return Ok(());
            }
            let now = gyre_machine::now();
            if now >= withdrawal.deadline_cycles {
                return Err(WithdrawError::Busy(load.holders));
            }
            let pause_ends = now.saturating_add(self.cycles(PAUSE_NS)).min(withdrawal.deadline_cycles);
            select(left, sleep_until(pause_ends)).await;
        }
    }

    /// Has the core look for the last time. False if something came in between.
    async fn finish_leaving(&'static self, withdrawal: Withdrawal) -> Result<bool, WithdrawError> {
        let slot = withdrawal.slot;
        {
            let mut change = self.slots.change();
            change.set(slot, SlotState::Finishing);
            change.set_lessee(
                slot,
                self.accounts.activities.living(withdrawal.lessee).unwrap_or(ActivityId::INFRASTRUCTURE),
            );
        }
        let has_left = match self.round(slot, |_| ()).await {
            Ok(()) => self.depart(slot).await,
            Err(_) => false,
        };
        match has_left {
            true => self.until_away(slot).await,
            false => self.slots.change().set(slot, SlotState::Leaving),
        }
        Ok(has_left)
    }

    /// Asks the core to leave if it has nothing.
    async fn depart(&'static self, slot: usize) -> bool {
        let (reply, call) = reply_pair::<Result<bool, Gone>>();
        let has_asked = self.post(slot, Message::Errand(Box::new(move |engine| engine.begin_departure(reply))));
        has_asked && call.await.unwrap_or(false)
    }

    /// Waits until the core has done its last word: it has answered, and is some instructions before its end. It may be back by then.
    async fn until_away(&'static self, slot: usize) {
        while self.slots.state(slot) == SlotState::Finishing {
            yield_now().await;
        }
    }

    /// Deals with what was on the way to a core that has left.
    async fn after_departure(&'static self, slot: usize) {
        // Errors are of memory: then the message stays for the core's return.
        let _ = self.round(slot, |_| ()).await;
        self.forward_left(slot);
        self.wake_lines(slot);
        self.wake_pinned(slot);
    }

    /// Undoes a withdrawal.
    async fn stay_here(&'static self, slot: usize) {
        self.slots.change().set(slot, SlotState::Online);
        self.follow_slots();
        self.bring_home(slot).await;
    }

    /// Gives a core that is online its lines and tasks again, and tells all threads.
    async fn bring_home(&'static self, slot: usize) {
        self.return_lines(slot);
        self.repin(slot);
        self.wake_pinned(slot);
        let _ = self.round(slot, Engine::refresh_threads).await;
    }

    /// Runs an errand on every core that is present, and on the one of `slot`, and waits for all of them.
    pub(crate) async fn round(&'static self, slot: usize, work: fn(&'static Engine)) -> Result<(), WithdrawError> {
        let mut left = self.slots.present();
        for _ in 0..TRIES_MAX {
            let mut calls: Vec<(usize, Call<Result<(), Gone>>)> = Vec::new();
            for core in crate::bits::ones(left).map(|core| core as usize) {
                let (reply, call) = reply_pair();
                self.errand(core, move |engine| {
                    work(engine);
                    reply.send(Ok(()));
                });
                calls.push((core, call));
            }
            for (core, call) in calls {
                if call.await.is_ok() {
                    left &= !(1 << core);
                }
            }
            if left == 0 {
                return Ok(());
            }
            yield_now().await;
            left &= self.slots.present() | 1 << slot;
        }
        Err(WithdrawError::NoMemory)
    }

    /// Runs a closure on a core at its next look; `None` if memory is short.
    async fn ask<T: Send + 'static>(
        &'static self,
        core: usize,
        work: impl FnOnce(&'static Engine) -> T + Send + 'static,
    ) -> Option<T>
    where
        Result<T, Gone>: Answer,
    {
        let (reply, call) = reply_pair::<Result<T, Gone>>();
        self.errand(core, move |engine| reply.send(Ok(work(engine))));
        call.await.ok()
    }

    /// Makes all that chooses a core follow the slots: resources, and so labels and threads.
    pub(crate) fn follow_slots(&self) {
        let online = self.slots.online();
        for resource in &self.resources {
            resource.follow(online);
            resource.placements.clear();
        }
        self.bump_placements();
    }

    /// Waits until it is decided whether the core of a slot is there; true if it is. A caller that sends it an errand does so before the
    /// next await.
    pub(crate) async fn is_there(&self, slot: usize) -> bool {
        loop {
            match self.slots.state(slot) {
                SlotState::Online | SlotState::Leaving => return true,
                SlotState::Absent | SlotState::Away => return false,
                SlotState::Finishing => yield_now().await,
            }
        }
    }

    /// Sends the interrupt lines of a core to the resident one.
    fn take_lines(&self, slot: usize) -> Result<(), WithdrawError> {
        let lines = Events(self.handlers.of(slot) & !((1 << Events::FIRST_LINE) - 1));
        gyre_machine::move_interrupts(slot, RESIDENT, lines, |old, new| {
            self.handlers.copy(EventPlace { core: slot, bit: old }, EventPlace { core: RESIDENT, bit: new });
        })
        .map_err(|_| WithdrawError::NoLine)
    }

    fn return_lines(&self, slot: usize) {
        gyre_machine::return_interrupts(slot, |core, line| self.handlers.forget(core, line));
    }

    /// Calls the handlers of a core's lines once: an interrupt may have gone to the core after its last look.
    fn wake_lines(&self, slot: usize) {
        let lines = Events(self.handlers.of(slot));
        lines.lines().filter_map(|line| self.handlers.get(slot, line)).for_each(|handler| handler());
    }

    /// Handles here what came to a core after its last look.
    fn forward_left(&'static self, slot: usize) {
        let change = self.slots.change();
        let is_away = change.lessee(slot).is_some();
        let Some(inbox) = self.inboxes.get(slot).filter(|_| is_away) else { return };
        // The guard keeps the core away, so this is the one receiver.
        let mut found = Vec::new();
        while let Some(message) = inbox.pop() {
            found.push(message);
        }
        drop(change);
        for message in found {
            match message {
                Message::Request(parcel) => parcel.deliver(),
                Message::Errand(errand) => errand(self),
                // It is for the core's own state, and waits for it.
                Message::Resume(_) => drop(inbox.push(message)),
                Message::CancelTimer(..) => {}
            }
        }
    }

    /// The core that calls has come to a vacant slot and works for this instance from now on. Returns only if it cannot.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join_core(&'static self, slot: usize) -> Result<Infallible, JoinError> {
        self.arrive(slot)?;
        self.run_core()
    }

    /// Takes the core that calls into a vacant slot.
    pub(crate) fn arrive(&'static self, slot: usize) -> Result<(), JoinError> {
        if slot != core_index() || slot >= self.cores {
            return Err(JoinError::OtherCore);
        }
        let line = self.accounts.line(slot);
        {
            let change = self.slots.change();
            match self.slots.state(slot) {
                SlotState::Absent => line.begin(gyre_machine::now()),
                SlotState::Away => {
                    line.stamp(Span::Scheduling);
                }
                _ => return Err(JoinError::Occupied),
            }
            gyre_machine::come_online();
            self.unpack();
            change.set(slot, SlotState::Online);
        }
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
        self.follow_slots();
        self.spawn_for_on(RESIDENT, ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, move || self.bring_home(slot));
        Ok(())
    }

    /// Adds the figures of activities that have ended to those above them, on a core that is away. False if it is not.
    pub(crate) fn close_vacant(
        &self,
        slot: usize,
        members: &[ActivityId],
        heir: impl Fn(ActivityId) -> ActivityId,
    ) -> bool {
        let mut change = self.slots.change();
        if !self.slots.state(slot).is_vacant() {
            return false;
        }
        let line = self.accounts.line(slot);
        for &member in members.iter().filter(|&&member| self.accounts.activities.exists(member)) {
            if change.lessee(slot) == Some(member) {
                line.stamp(Span::Handling(heir(member), LEASE));
                change.set_lessee(slot, heir(member));
            }
            line.merge(member, heir(member));
        }
        true
    }
}
