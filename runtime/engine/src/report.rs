//! The state of a core in words, for whoever looks at a machine that has fallen silent: queues, tasks, timers, and what the other cores seem to do.
//!
//! Called in a core's own code between two pieces of work, or while it runs a program. Lists are cut: a machine with thousands of tasks shows the
//! ones that have waited longest.

use crate::engine::Engine;
use crate::state::CoreState;
use crate::task::{Header, NIL, State};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Arguments;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, ResourceId};
use gyre_machine::core_index;

/// Queues, and tasks, that are named one by one.
const LINES_MAX: usize = 48;

/// Takes the lines of a report.
pub type Say<'a> = &'a mut dyn FnMut(Arguments<'_>);

impl Engine {
    /// Says what this core has to do and what waits here.
    pub fn tell_state(&self, say: Say<'_>) {
        self.tell_others(say);
        let Ok(state) = self.state.here().try_borrow() else {
            return say(format_args!("this core's state is open"));
        };
        self.tell_sums(&state, say);
        self.tell_queues(&state, say);
        self.tell_tasks(&state, say);
    }

    /// The other cores, as they can be seen from here.
    fn tell_others(&self, say: Say<'_>) {
        for (core, inbox) in self.inboxes.iter().enumerate().filter(|(core, _)| *core != core_index()) {
            let idles = self.is_idle.get(core).is_some_and(|flag| flag.load(Ordering::Relaxed));
            let presence = match (idles, inbox.sleeper.seems_away()) {
                (true, true) => "idles",
                (true, false) => "idles, and was interrupted",
                (false, true) => "is in a program",
                (false, false) => "is in the kernel, or was interrupted",
            };
            let mail = if inbox.is_ready() { "messages wait for it" } else { "no message waits for it" };
            let since_ms = self.ms_since(gyre_machine::work_mark_of(core));
            say(format_args!("core {core} seen from here: {presence}, last work began {since_ms} ms ago, {mail}"));
        }
    }

    fn tell_sums(&self, state: &CoreState, say: Say<'_>) {
        let hot = self.hot.here();
        let queued: u32 = state.queues.iter().map(|(_, queue)| queue.len).sum();
        let timer = state.timers.next().map_or_else(|| String::from("none"), |at| self.until(at));
        let running = state.tasks.get(hot.running.get()).map_or_else(|| String::from("none"), |task| self.owner(task));
        say(format_args!(
            "running: {running}; {} tasks, {queued} queued; {} timers, next {timer}; hardware timer {}",
            state.tasks.live(),
            state.timers.armed(),
            self.until(hot.armed.get()),
        ));
        let suspended: Vec<&str> =
            self.resource_ids().filter(|id| state.is_suspended(*id)).map(|id| self.resource_name(id)).collect();
        if !suspended.is_empty() {
            say(format_args!("suspended, because what is behind them is full: {}", suspended.join(" ")));
        }
    }

    fn tell_queues(&self, state: &CoreState, say: Say<'_>) {
        for (_, queue) in state.queues.iter().filter(|(_, queue)| queue.len > 0).take(LINES_MAX) {
            let gate = if queue.is_gated { ", before a gate" } else { "" };
            say(format_args!(
                "queue of {} from {} for {}: {} wait, {:?}{gate}",
                self.resource_name(queue.resource),
                self.resource_name(queue.source),
                self.activity_name(queue.activity),
                queue.len,
                queue.state,
            ));
        }
    }

    /// The tasks that have waited longest; a place of a notice, which always waits, is not among them.
    fn tell_tasks(&self, state: &CoreState, say: Say<'_>) {
        let all = (0..state.tasks.len()).filter_map(|task| Some((task, state.tasks.get(task)?)));
        let mut all: Vec<(u32, &Header)> = all.filter(|(_, task)| is_told(task)).collect();
        all.sort_unstable_by_key(|(_, task)| task.queued_at);
        let left = all.len().saturating_sub(LINES_MAX);
        for (number, task) in all.into_iter().take(LINES_MAX) {
            let woken = if task.woken { ", woken" } else { "" };
            let since_ms = self.ms_since(task.queued_at);
            say(format_args!("task {number} {}: {:?} for {since_ms} ms{woken}", self.owner(task), task.state));
        }
        if left > 0 {
            say(format_args!("and {left} tasks more"));
        }
    }

    fn owner(&self, task: &Header) -> String {
        let kind = if task.thread == NIL { "of" } else { "thread of" };
        format!("{kind} {} for {}", self.resource_name(task.resource), self.activity_name(task.activity))
    }

    fn activity_name(&self, activity: ActivityId) -> String {
        let name = self.accounts.activities.info(activity).map_or_else(String::new, |info| info.name);
        format!("{name} ({})", activity.0)
    }

    fn ms_since(&self, at: u64) -> u64 {
        self.ns(gyre_machine::now().saturating_sub(at)) / 1_000_000
    }

    fn until(&self, at: u64) -> String {
        match at.checked_sub(gyre_machine::now()) {
            _ if at == u64::MAX => String::from("not set"),
            Some(cycles) => format!("in {} us", self.ns(cycles) / 1000),
            None => format!("due for {} us", self.ns(gyre_machine::now().saturating_sub(at)) / 1000),
        }
    }
}

/// The infrastructure's tasks without a queue wait for ever by design, but those that are woken or queued count.
fn is_told(task: &Header) -> bool {
    match task.state {
        State::Free => false,
        State::Waiting => task.activity != ActivityId::INFRASTRUCTURE || task.resource == ResourceId::RUNTIME,
        _ => true,
    }
}
