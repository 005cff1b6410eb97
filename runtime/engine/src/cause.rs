//! The payers of a core's looks: for choosing, interrupts, expiries of timers, and coming back to a program that was displaced.
//!
//! | what the core does | who pays |
//! |---|---|
//! | it chooses after a service that ended by itself, or yielded | the one that was served |
//! | it chooses after a program was displaced | the one that is chosen |
//! | it returns to a program that was displaced | the one that paid for that choice |
//! | a timer expires, and the interrupt for it | the one that armed it |
//! | another core wakes a task here, or sends a request | the one that is woken, the sender |
//! | a device interrupts, and its notice is handled | the one whose request ends first in that |
//! | an interrupt that none of these explains | the next of these; nobody if the core goes idle first |
//!
//! The cycles stand on the payer's row of the resource RUNTIME. They count before the CPU's policy, too: summed up per tenant, and told when
//! another tenant causes something, so that tenants which cause much have less of the core, not only a larger bill.

use crate::dispatch::Job;
use crate::engine::Engine;
use crate::task::NIL;
use gyre_account::{ActivityId, Cause, Cell, Column, ResourceId, Span};

impl Engine {
    /// From the last stamp on, this one causes what the core looks at; it lives.
    #[inline]
    pub(crate) fn blame(&self, activity: ActivityId) {
        let (hot, line) = (self.hot.here(), self.line());
        let (owing, before) = hot.owes.get();
        let cycles = before.wrapping_add(line.take_caused());
        line.blame(Cause::Of(activity));
        if owing.lead_index() == activity.lead_index() && cycles < self.granularity_cycles {
            hot.owes.set((activity, cycles));
            return;
        }
        hot.owes.set((activity, 0));
        self.charge_owed(owing, cycles);
    }

    /// Tells the CPU's policy what somebody caused.
    fn charge_owed(&self, activity: ActivityId, cycles: u64) {
        if cycles == 0 {
            return;
        }
        if let Some(payer) = self.accounts.activities.living(activity) {
            let now_ns = self.ns(self.line().last());
            self.state.here().borrow_mut().charge_cycles(NIL, payer, cycles, &self.facts(), now_ns);
        }
    }

    /// This one, which may have ended, causes what the core looks at, if no cause is known yet.
    pub(crate) fn blame_if_open(&self, activity: ActivityId) {
        if self.line().is_open() {
            self.blame(self.accounts.activities.living(activity).unwrap_or(ActivityId::INFRASTRUCTURE));
        }
    }

    /// As `blame_if_open`; what was until now stays with the cause before, if there is one.
    pub(crate) fn blame_from_now(&self, activity: ActivityId) {
        if !self.line().is_open() {
            self.line().restamp();
        }
        self.blame(self.accounts.activities.living(activity).unwrap_or(ActivityId::INFRASTRUCTURE));
    }

    /// Another core has woken a task of this one.
    pub(crate) fn blame_for_task(&self, task: u32) {
        if self.line().is_open() {
            let activity = self.state.here().borrow().tasks.get(task).map(|header| header.activity);
            activity.into_iter().for_each(|activity| self.blame_if_open(activity));
        }
    }

    /// A service has ended, which `payer` had; says who pays for the choice that follows.
    #[inline]
    pub(crate) fn blame_after(&self, payer: ActivityId) {
        let hot = self.hot.here();
        match hot.is_displaced.replace(false) {
            true => self.line().blame(Cause::Next),
            false => self.blame(payer),
        }
    }

    /// A program that was displaced is about to go on: all since its service began was a part of the choice.
    /// Answers the time.
    #[cold]
    #[inline(never)]
    pub(crate) fn return_to_program(&self, activity: ActivityId, kernel: ResourceId) -> u64 {
        let (hot, line) = (self.hot.here(), self.line());
        let now = line.stamp(Span::Scheduling);
        hot.mark.set(now);
        let used = line.table().cell(activity, kernel).get(Column::Cycles);
        line.transfer_to_cause(activity, kernel, used.saturating_sub(hot.cycles_before.get()));
        now
    }

    /// The infrastructure's service ends requests of an activity, which lives: the first one pays for it.
    #[inline]
    pub(crate) fn note_cause(&self, activity: ActivityId) {
        let hot = self.hot.here();
        if hot.ends_for.get() == ActivityId::INFRASTRUCTURE {
            hot.ends_for.set(activity);
        }
    }

    /// The service of the infrastructure that ends here, charged to this cell, ended requests of somebody: gives him its cycles. Answers who pays
    /// for what follows.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_cause(&self, payer: ActivityId, cell: &Cell, job: &Job) -> ActivityId {
        let hot = self.hot.here();
        let ended_for = hot.ends_for.replace(ActivityId::INFRASTRUCTURE);
        // A handler of somebody's that found no payer has used its cycles in two names: they stay where they are.
        if payer != ActivityId::INFRASTRUCTURE || job.activity != payer {
            return payer;
        }
        let Some(cause) = self.accounts.activities.living(ended_for) else { return payer };
        let cycles = cell.get(Column::Cycles).wrapping_sub(hot.cycles_before.get());
        self.line().transfer(payer, cause, job.resource, cycles);
        self.charge_owed(cause, cycles);
        cause
    }
}
