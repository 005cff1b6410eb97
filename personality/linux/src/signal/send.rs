//! Sending signals.

use super::number::{self, STOPPING};
use super::{SignalInfo, SignalSet};
use crate::process::ProcessSignals;
use crate::{Errno, Process, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

impl Process {
    /// Sends a signal to the process: any thread that does not block it takes it.
    ///
    /// # Errors
    /// EAGAIN where too many real-time signals wait.
    pub fn send(&self, info: SignalInfo) -> Result<(), Errno> {
        if info.signal == number::SIGKILL {
            self.end(number::SIGKILL);
            return Ok(());
        }
        let threads = self.threads.lock().clone();
        self.prepare(info.signal, &threads);
        let mut signals = self.signals.lock();
        let taker = threads.iter().find(|thread| thread.takes(info.signal));
        if taker.is_some() && signals.actions.get(info.signal).ignores(info.signal) {
            let awaited = |thread: &Arc<Thread>| thread.signals.lock().awaited.has(info.signal);
            if !threads.iter().any(awaited) {
                return Ok(());
            }
        }
        if !signals.pending.push(info) {
            return Err(Errno::EAGAIN);
        }
        drop(signals);
        self.signal_files.arrived(info.signal);
        // A thread that was added meanwhile looks before it runs, or is found here.
        let added = || self.threads.lock().iter().find(|thread| thread.takes(info.signal)).cloned();
        if let Some(taker) = taker.cloned().or_else(added) {
            taker.notify();
        }
        Ok(())
    }

    /// A signal was taken from those that wait: the timer that sent it counts on. Answers the signal with what its timer missed.
    pub(crate) fn count_taken(&self, info: SignalInfo) -> SignalInfo {
        match info.timer_id() {
            Some(id) => info.with_overrun(self.timers.taken(id)),
            None => {
                if info.signal == number::SIGALRM {
                    self.interval_timers.taken();
                }
                info
            }
        }
    }

    /// What a signal does at once: continuing forgets stops, stopping forgets continues, whatever is blocked.
    fn prepare(&self, signal: i32, threads: &[Arc<Thread>]) {
        let forgotten = match signal {
            number::SIGCONT => STOPPING,
            _ if STOPPING.has(signal) => SignalSet::of(number::SIGCONT),
            _ => return,
        };
        let mut signals = self.signals.lock();
        signals.pending.forget(forgotten);
        for thread in threads {
            thread.signals.lock().pending.forget(forgotten);
        }
        let was_stopped = signal == number::SIGCONT && core::mem::take(&mut signals.stopped);
        drop(signals);
        if was_stopped {
            self.continued.wake_all();
            self.tenant().tree.lock().note_continued(self.id());
            crate::task::exit::tell_parent(self, crate::task::tree::Change::Continued);
        }
    }

    /// Stops all threads.
    pub(crate) fn stop(&self, signal: i32) {
        let mut signals = self.signals.lock();
        if core::mem::replace(&mut signals.stopped, true) {
            return;
        }
        drop(signals);
        let threads = self.threads.lock().clone();
        threads.iter().for_each(|thread| thread.notify());
        self.tenant().tree.lock().note_stopped(self.id(), signal);
        crate::task::exit::tell_parent(self, crate::task::tree::Change::Stopped(signal));
    }

    /// Tells a thread that may take them of process-wide signals that another one has just blocked.
    pub(crate) fn retarget(&self, except: &Thread) {
        let pending = self.signals.lock().pending.set();
        if pending.is_empty() {
            return;
        }
        let threads = self.threads.lock().clone();
        threads
            .iter()
            .filter(|thread| thread.id() != except.id())
            .filter(|thread| !pending.without(thread.signals.lock().blocked).is_empty())
            .for_each(|thread| thread.notify());
    }
}

impl Thread {
    /// True where it would take this signal now.
    fn takes(&self, signal: i32) -> bool {
        let signals = self.signals.lock();
        !signals.blocked.has(signal) || signals.awaited.has(signal)
    }

    /// Sends a signal to this thread only.
    ///
    /// # Errors
    /// EAGAIN where too many real-time signals wait.
    pub fn send(&self, info: SignalInfo) -> Result<(), Errno> {
        if info.signal == number::SIGKILL {
            self.process().end(number::SIGKILL);
            return Ok(());
        }
        let threads = self.process().threads.lock().clone();
        self.process().prepare(info.signal, &threads);
        let process = self.process().signals.lock();
        let mut own = self.signals.lock();
        let blocked = own.blocked.has(info.signal);
        if process.actions.get(info.signal).ignores(info.signal) && !blocked {
            return Ok(());
        }
        if !own.pending.push(info) {
            return Err(Errno::EAGAIN);
        }
        let awaited = own.awaited.has(info.signal);
        drop(own);
        drop(process);
        self.process().signal_files.arrived(info.signal);
        if !blocked || awaited {
            self.notify();
        }
        Ok(())
    }

    /// Sends a signal that the thread's own instruction caused: it cannot be ignored or blocked, else the process ends.
    pub fn force(&self, info: SignalInfo) {
        let mut process = self.process().signals.lock();
        let mut own = self.signals.lock();
        let refused =
            own.blocked.has(info.signal) || process.actions.get(info.signal).handler == super::action::SIG_IGN;
        if refused {
            process.actions.set(info.signal, super::Action::default());
            own.blocked = own.blocked.without(SignalSet::of(info.signal));
        }
        // A standard signal that waits already says the same.
        own.pending.push(info);
        drop(own);
        drop(process);
        self.notify();
    }

    /// True where a signal waits that this thread takes, or it must stop or end.
    pub(crate) fn must_act(&self) -> bool {
        if self.is_dying() {
            return true;
        }
        let process = self.process().signals.lock();
        process.stopped || !self.ready(&process).is_empty()
    }

    /// The signals that this thread may take now.
    pub(crate) fn ready(&self, process: &ProcessSignals) -> SignalSet {
        let own = self.signals.lock();
        let closed = own.blocked.without(own.awaited);
        own.pending.set().and(process.pending.set()).without(closed)
    }

    /// Replaces the mask of blocked signals and answers the former.
    pub fn set_blocked(&self, blocked: SignalSet) -> SignalSet {
        let blocked = blocked.without(number::UNSTOPPABLE);
        let before = core::mem::replace(&mut self.signals.lock().blocked, blocked);
        if !blocked.without(before).is_empty() {
            self.process().retarget(self);
        }
        if !before.without(blocked).is_empty() && self.must_act() {
            self.notify();
        }
        before
    }

    /// Blocks another set for the time of one call (sigsuspend, ppoll, pselect, epoll_pwait). The former mask comes back with
    /// the return from a handler, or with the end of the call; [`Thread::end_temporary_mask`] where the call succeeds.
    pub fn set_temporary_mask(&self, blocked: SignalSet) {
        let before = self.set_blocked(blocked);
        self.signals.lock().saved = Some(before);
        self.has_temporary_mask.store(true, Ordering::Release);
    }

    /// Ends [`Thread::set_temporary_mask`] for a call that was not interrupted.
    pub fn end_temporary_mask(&self) {
        if !self.has_temporary_mask.load(Ordering::Acquire) {
            return;
        }
        self.has_temporary_mask.store(false, Ordering::Release);
        let saved = self.signals.lock().saved.take();
        if let Some(saved) = saved {
            self.set_blocked(saved);
        }
    }

    /// Takes a waiting signal of the set (sigtimedwait, signalfd).
    pub fn take_signal(&self, wanted: SignalSet) -> Option<SignalInfo> {
        let mut process = self.process().signals.lock();
        let mut own = self.signals.lock();
        let info = own.pending.take(wanted).or_else(|| process.pending.take(wanted))?;
        drop((own, process));
        Some(self.process().count_taken(info))
    }
}
