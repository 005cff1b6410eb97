//! Sending signals, to a process ([`Process::send`]) or to one thread ([`Thread::send`]).
//!
//! Steps: (1) SIGKILL ends the process at once; (2) the signal's immediate effects are applied (stop and continue
//! forget each other); (3) an ignored signal is dropped, unless all threads block it or one awaits it; (4) it is
//! queued, a standard one once, real-time ones up to a bound (EAGAIN); (5) a thread that takes it is notified, so
//! that its wait ends. Lock order: process's signals, thread's signals. Masks of threads and their temporary ones
//! are here, too.
//!
//! Anybody in the kernel may send: calls, timers, terminals, faults. A signal that a thread's own instruction caused
//! is forced ([`Thread::force`]): it can be neither ignored nor blocked.

use super::number::{self, STOPPING};
use super::places::Sending;
use super::{SignalInfo, SignalSet};
use crate::process::ProcessSignals;
use crate::ptrace::bond;
use crate::{Errno, Process, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

impl Process {
    /// Sends a signal from outside of the tenant: whoever ends the tenant, or its terminal.
    ///
    /// # Errors
    /// As [`Process::send`].
    pub fn send_from_outside(&self, info: SignalInfo) -> Result<(), Errno> {
        self.signals.lock().admit_from_outside(info.signal);
        self.send(info)
    }

    /// Sends a signal to the process: any thread that does not block it takes it. A tenant's first process gets none that it does not handle.
    ///
    /// # Errors
    /// EAGAIN if too many real-time signals wait (RLIMIT_SIGPENDING).
    pub fn send(&self, info: SignalInfo) -> Result<(), Errno> {
        self.deliver(Sending::Sent(info))
    }

    /// Sends a signal by what it comes.
    ///
    /// # Errors
    /// As [`Process::send`].
    pub(crate) fn deliver(&self, sending: Sending) -> Result<(), Errno> {
        let info = sending.info();
        if info.signal == number::SIGKILL {
            self.kill();
            return Ok(());
        }
        let threads = self.threads.lock().clone();
        self.prepare(info.signal, &threads);
        let mut signals = self.signals.lock();
        let taker = threads.iter().find(|thread| thread.takes(info.signal));
        if taker.is_some() && signals.ignores(info.signal) {
            // A tracer sees them all.
            let awaited =
                |thread: &Arc<Thread>| thread.tracee.is_on() || thread.signals.lock().awaited.has(info.signal);
            if !threads.iter().any(awaited) {
                return Ok(());
            }
        }
        self.queue(&mut signals.pending, sending)?;
        drop(signals);
        self.signal_files.arrived(info.signal);
        // A thread that was added meanwhile looks before it runs, or is found here.
        let added = || self.threads.lock().iter().find(|thread| thread.takes(info.signal)).cloned();
        // One that all hold back is told to who acts on signals in a program's place.
        let deputy = || threads.iter().find(|thread| thread.deputy.is_on()).cloned();
        if let Some(told) = taker.cloned().or_else(added).or_else(deputy) {
            told.notify();
        }
        Ok(())
    }

    /// SIGKILL of a program.
    fn kill(&self) {
        let is_protected = self.signals.lock().protects_from(number::SIGKILL);
        if !is_protected {
            self.end(number::SIGKILL);
        }
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

    /// Applies the immediate effects of a signal, blocked or not: SIGCONT forgets stops, stops forget SIGCONT.
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
            threads.iter().filter(|thread| thread.tracee.is_on()).for_each(|thread| _ = bond::wake_listener(thread));
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
        signals.stopped_by = signal;
        drop(signals);
        let threads = self.threads.lock().clone();
        for thread in &threads {
            thread.tracee.heed_stop();
            thread.notify();
        }
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
    /// Returns whether it would take this signal now.
    fn takes(&self, signal: i32) -> bool {
        let signals = self.signals.lock();
        !signals.blocked.has(signal) || signals.awaited.has(signal)
    }

    /// Sends a signal to this thread only.
    ///
    /// # Errors
    /// EAGAIN if too many real-time signals wait (RLIMIT_SIGPENDING).
    pub fn send(&self, info: SignalInfo) -> Result<(), Errno> {
        self.deliver(Sending::Sent(info))
    }

    /// Sends a signal to this thread only, by what it comes.
    ///
    /// # Errors
    /// As [`Thread::send`].
    pub(crate) fn deliver(&self, sending: Sending) -> Result<(), Errno> {
        let info = sending.info();
        if info.signal == number::SIGKILL {
            self.process().kill();
            return Ok(());
        }
        let threads = self.process().threads.lock().clone();
        self.process().prepare(info.signal, &threads);
        let process = self.process().signals.lock();
        let mut own = self.signals.lock();
        let blocked = own.blocked.has(info.signal);
        if process.ignores(info.signal) && !blocked && !self.tracee.is_on() {
            return Ok(());
        }
        self.process().queue(&mut own.pending, sending)?;
        let awaited = own.awaited.has(info.signal);
        drop(own);
        drop(process);
        self.process().signal_files.arrived(info.signal);
        if !blocked || awaited || self.deputy.is_on() {
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
        process.admit(info.signal);
        // A standard signal that waits already says the same; nobody may refuse this one a place.
        let _ = own.pending.push(info, None);
        drop(own);
        drop(process);
        self.notify();
    }

    /// Returns whether a signal waits that this thread takes, or it must stop or end.
    pub(crate) fn must_act(&self) -> bool {
        if self.is_dying() || self.deputy.gives_up() {
            return true;
        }
        if self.tracee.is_called() {
            return true;
        }
        let process = self.process().signals.lock();
        process.stopped && !self.tracee.passes_stop() || !self.ready(&process).is_empty()
    }

    /// Returns the signals that this thread may take now.
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

    /// Blocks another set for the time of one call (sigsuspend, ppoll, pselect, epoll_pwait). The former mask comes
    /// back with the return from a handler, or with the end of the call; [`Thread::end_temporary_mask`] if the call
    /// succeeds.
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
