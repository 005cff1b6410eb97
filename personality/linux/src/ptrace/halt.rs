//! Halts: a tracee stands still, with an image of its registers, until its tracer has it go on.
//!
//! * The thread's own task calls [`halt`], or one of the functions that say when, in its loop ([`crate::run`], [`crate::signal::deliver`]). It waits
//!   there: only its tracer and its death end that, no signal does.
//! * The tracer gets SIGCHLD, and wait tells of each halt once ([`Told`]).
//! * A tracee that its tracer leaves goes on as if there had been no halt.
//!
//! A halt has a word, as wait's status has it (signal, event from bit 8 on), and details of the signal, which the tracer may change. Halts at signals are
//! those of ptrace(2), "Signal-delivery-stop"; a stop of a process is "Group-stop".

use super::bond::{Go, Way};
use super::registers::Image;
use super::{Event, Options};
use crate::run::{Next, Running};
use crate::signal::{SignalInfo, action, number};
use crate::task::tree::Change;
use crate::{Process, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use linux_raw_sys::ptrace;

/// Marks the signal of a halt at a call, if the tracer wants that.
const CALL_MARK: i32 = 0x80;

/// Why a tracee halts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// It is about to take a signal.
    Signal(SignalInfo),
    /// A signal has stopped its process.
    Stop(i32),
    /// Its tracer wants it to, or it has made a step.
    Trap,
    /// It is about to make a call.
    Entry {
        /// The call's arguments.
        arguments: [u64; 6],
    },
    /// It has made a call.
    Exit,
    /// Something has happened, with a word about it.
    Event(Event, u64),
}

/// How far a tracer knows of a halt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// Wait has not told of it.
    No,
    /// It has.
    Yes,
    /// The tracer wants to hear when the stop of its process ends (PTRACE_LISTEN).
    Listens,
}

/// A halt of a tracee.
pub(super) struct Halt {
    pub(super) reason: Reason,
    /// The signal of the status, and the event from bit 8 on.
    word: i32,
    /// None for a stop of a process, which has none.
    pub(super) info: Option<SignalInfo>,
    pub(super) told: Told,
    pub(super) image: Image,
    /// The signal with which it goes on, 0 for none, once it does.
    release: Option<i32>,
}

impl Halt {
    /// Has the tracee go on with a signal, 0 for none.
    pub(super) fn release(&mut self, signal: i32) {
        self.release = Some(signal);
    }

    /// Returns whether requests may look at it: it stands still, and not for another's sake.
    pub(super) fn is_open(&self) -> bool {
        self.release.is_none() && self.told != Told::Listens
    }

    /// Turns a stop that a listener waits in into a halt that is told of.
    pub(super) fn become_trap(&mut self) {
        self.reason = Reason::Trap;
        self.word = event_word(ptrace::PTRACE_EVENT_STOP, number::SIGTRAP);
        self.info = Some(SignalInfo::new(number::SIGTRAP, self.word));
        self.told = Told::No;
    }

    /// Returns the word about the halt (PTRACE_GETEVENTMSG).
    pub(super) fn message(&self) -> u64 {
        match self.reason {
            Reason::Event(_, message) => message,
            Reason::Entry { .. } => u64::from(ptrace::PTRACE_EVENTMSG_SYSCALL_ENTRY),
            Reason::Exit => u64::from(ptrace::PTRACE_EVENTMSG_SYSCALL_EXIT),
            _ => 0,
        }
    }

    /// Returns the news for wait.
    pub(super) fn change(&self) -> Change {
        Change::Trapped(self.word)
    }
}

fn event_word(event: u32, signal: i32) -> i32 {
    (event as i32) << 8 | signal
}

/// Returns the word and the details of a halt.
fn words(reason: Reason, way: Way, options: Options) -> (i32, Option<SignalInfo>) {
    let trap = |word| (word, Some(SignalInfo::new(number::SIGTRAP, word)));
    match reason {
        Reason::Signal(info) => (info.signal, Some(info)),
        Reason::Stop(signal) if way == Way::Seized => trap_of_stop(signal),
        Reason::Stop(signal) => (signal, None),
        Reason::Trap if way == Way::Seized => trap(event_word(ptrace::PTRACE_EVENT_STOP, number::SIGTRAP)),
        Reason::Trap => trap(number::SIGTRAP),
        Reason::Entry { .. } | Reason::Exit if options.contains(Options::MARKED_CALLS) => {
            trap(number::SIGTRAP | CALL_MARK)
        }
        Reason::Entry { .. } | Reason::Exit => trap(number::SIGTRAP),
        Reason::Event(event, _) => trap(event_word(event.number(), number::SIGTRAP)),
    }
}

fn trap_of_stop(signal: i32) -> (i32, Option<SignalInfo>) {
    let word = event_word(ptrace::PTRACE_EVENT_STOP, signal);
    (word, Some(SignalInfo::new(number::SIGTRAP, word)))
}

/// The end of a halt.
pub(super) struct Released {
    /// The signal to take, 0 for none.
    pub(super) signal: i32,
    /// Its details, as they were or as the tracer wants them.
    pub(super) info: Option<SignalInfo>,
}

/// Has the calling task's thread halt until its tracer has it go on; `None`, and nothing done, without a tracer.
pub(super) async fn halt(thread: &Arc<Thread>, running: &mut Running, reason: Reason) -> Option<Released> {
    let image = Image::of(running);
    {
        let mut inner = thread.tracee.inner.lock();
        let bond = inner.bond.as_ref()?;
        let (word, info) = words(reason, bond.way, bond.options);
        inner.halt = Some(Halt { reason, word, info, told: Told::No, image, release: None });
        // As on Linux: an interrupt that meets a halt has what it wants.
        thread.tracee.take_call();
        thread.tracee.begin_halt();
    }
    tell(thread);
    let ended = thread.tracee.released.until(|| take_end(thread)).await;
    let release = ended.release.unwrap_or(0);
    ended.image.apply(thread, running);
    if thread.tracee.go() == Go::Step {
        running.look_before_step(&thread.space()).await;
    }
    Some(Released { signal: release, info: ended.info })
}

fn take_end(thread: &Thread) -> Option<Halt> {
    let mut inner = thread.tracee.inner.lock();
    if inner.halt.as_ref().is_some_and(|halt| halt.release.is_none()) {
        return None;
    }
    thread.tracee.end_halt();
    inner.halt.take()
}

/// Tells the tracer that its tracee has halted.
pub(super) fn tell(thread: &Arc<Thread>) {
    let Some(tracer) = thread.tracee.tracer() else { return };
    tracer.tracees.has_news(thread.id());
    signal_tracer(&tracer, thread);
    tracer.children_changed.wake_all();
}

// recursion: at most 1, because SIGCHLD, which it sends, ends no stop
/// Sends SIGCHLD, unless the tracer does not want to hear of stops.
fn signal_tracer(tracer: &Process, thread: &Thread) {
    let wanted = tracer.signals.lock().actions.get(number::SIGCHLD);
    if wanted.handler == action::SIG_IGN || wanted.has(raw::SA_NOCLDSTOP) {
        return;
    }
    let word = thread.tracee.inner.lock().halt.as_ref().map_or(number::SIGTRAP, |halt| halt.word);
    let user = thread.with_credentials(|who| who.user);
    let _ = tracer.send(SignalInfo::child(raw::CLD_TRAPPED as i32, thread.id(), user, word & 0x7f));
}

/// Halts a tracee that is called, or whose process is stopped. Nothing without a tracer.
pub(crate) async fn before_program(thread: &Arc<Thread>, running: &mut Running) -> Next {
    while thread.tracee.is_on() {
        if thread.is_dying() {
            return Next::End;
        }
        let stopped = thread.process().signals.lock().stop_signal();
        let is_called = thread.tracee.take_call();
        let reason = match stopped {
            Some(signal) if is_called || !thread.tracee.passes_stop() => Reason::Stop(signal),
            _ if is_called => Reason::Trap,
            _ => return Next::Continue,
        };
        thread.tracee.begin_to_pass_stop();
        halt(thread, running, reason).await;
    }
    Next::Continue
}

/// Shows a signal to the tracer before it is taken; returns what is to be taken in its place, `None` for nothing.
pub(crate) async fn before_signal(thread: &Arc<Thread>, running: &mut Running, info: SignalInfo) -> Option<SignalInfo> {
    let Some(released) = halt(thread, running, Reason::Signal(info)).await else { return Some(info) };
    let kept = released.info.filter(|info| info.signal == released.signal);
    let info = match (released.signal, kept) {
        (0, _) => return None,
        (_, Some(info)) => info,
        (signal, None) => SignalInfo::sent(signal, crate::signal::info::SI_USER, tracer_id(thread), 0),
    };
    if thread.signals.lock().blocked.has(info.signal) {
        // It waits until it is not blocked any more.
        let _ = thread.send(info);
        return None;
    }
    Some(info)
}

fn tracer_id(thread: &Thread) -> i32 {
    thread.tracee.tracer().map_or(0, |tracer| tracer.id())
}

/// Halts at an event that the tracer wants to know of.
pub(crate) async fn at_event(thread: &Arc<Thread>, running: &mut Running, event: Event, message: u64) {
    if thread.tracee.is_on() && thread.tracee.wants(event.option()) {
        halt(thread, running, Reason::Event(event, message)).await;
    }
}

/// Halts in a new program: at the event, or by a signal as it was before there were events.
pub(crate) async fn in_new_program(thread: &Arc<Thread>, running: &mut Running, former_id: i32) {
    let Some(bond) = thread.tracee.bond() else { return };
    if bond.options.contains(Options::EXEC) {
        halt(thread, running, Reason::Event(Event::Exec, former_id as u64)).await;
    } else if bond.way == Way::Attached {
        let _ = thread.send(SignalInfo::sent(number::SIGTRAP, crate::signal::info::SI_USER, thread.process().id(), 0));
    }
}

/// Halts before the first instruction of a handler, if the tracer goes step by step.
pub(crate) async fn in_handler(thread: &Arc<Thread>, running: &mut Running) {
    if thread.tracee.is_on() && thread.tracee.go() == Go::Step {
        step(thread, running).await;
    }
}

/// Halts behind a step that ended in the kernel.
pub(super) async fn step(thread: &Arc<Thread>, running: &mut Running) {
    let info = SignalInfo::new(number::SIGTRAP, number::SIGTRAP);
    halt(thread, running, Reason::Signal(info)).await;
}

/// Halts once more before a signal ends the program, if the tracer wants that.
pub(crate) async fn before_end(thread: &Arc<Thread>, running: &mut Running, status: i32) {
    at_event(thread, running, Event::Exit, status as u64).await;
}
