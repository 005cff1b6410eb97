//! A tenant's overload controller at its listeners: how many connections may be open, from how long they wait.
//!
//! A connection *enters* when it stands in a listener's line and *leaves* when its user closes it. The wait in line is counted from the end of
//! the handshake, and the wait for the first answer from the last piece of the question: a slow peer adds nothing to either.
//! Connections within a tenant are not guarded: one that its own service waits for would be refused because of those who wait.

use crate::alarm::{Alarm, NEVER};
use crate::statistics::add;
use crate::tcp_resource::reserved_id;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use gyre_interface::tcp::SocketId;
use gyre_object::SpinLock;
use gyre_overload::{LOOK_NS, Law, Means, Sight};

/// The answer to a SYN above the limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Refusal {
    /// None: the peer asks again after a second, then after longer.
    #[default]
    Silence,
    /// A reset, at a limited rate: the peer knows at once.
    Reset,
}

/// The overload controller as the machine's owner wants it for a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protection {
    /// The delay that its connections may have, ns.
    pub delay_ns: u64,
    /// The answer to those above the limit.
    pub refusal: Refusal,
}

/// Figures of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Delay by target delay at the last look, in thousandths.
    pub level: u32,
    /// Connections that may be open.
    pub limit: u32,
}

/// The lines of a tenant's listeners at a look.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lines {
    pub waiting: usize,
    /// When the first of them that still waits came.
    pub oldest_ns: Option<u64>,
}

/// Sums since the last look. Each is written once for a connection, not for a packet.
#[derive(Default)]
struct Sums {
    accepted: AtomicU64,
    longest_in_line_ns: AtomicU64,
    answered: AtomicU64,
    answers_took_ns: AtomicU64,
    ended: AtomicU64,
}

/// See the module.
pub(crate) struct Guard {
    pub refusal: Refusal,
    /// The name under which the timer knows it.
    pub id: SocketId,
    pub alarm: Arc<Alarm>,
    /// Connections that may still enter; below zero if the limit has fallen below what is open.
    room: AtomicI64,
    sums: Sums,
    law: SpinLock<Law>,
}

impl Guard {
    pub(crate) fn new(protection: Protection, tenant: u16) -> Guard {
        let law = Law::new(protection.delay_ns, Means::Refuse, 0);
        Guard {
            refusal: protection.refusal,
            id: reserved_id(tenant),
            alarm: Arc::default(),
            room: AtomicI64::new(i64::from(law.limit())),
            sums: Sums::default(),
            law: SpinLock::new(law),
        }
    }

    /// Returns true if another connection may be opened: one load.
    pub(crate) fn admits(&self) -> bool {
        self.room.load(Ordering::Relaxed) > 0
    }

    /// A connection stands in line. Returns true if the timer must be told of the next look.
    #[must_use = "nobody would look"]
    pub(crate) fn enter(&self, now_ns: u64) -> bool {
        self.room.fetch_sub(1, Ordering::Relaxed);
        self.alarm.set_earlier(now_ns.saturating_add(LOOK_NS))
    }

    /// Its user has closed it.
    pub(crate) fn leave(&self) {
        self.room.fetch_add(1, Ordering::Relaxed);
        add(&self.sums.ended, 1);
    }

    fn on_accept(&self, waited_ns: u64) {
        add(&self.sums.accepted, 1);
        self.sums.longest_in_line_ns.fetch_max(waited_ns, Ordering::Relaxed);
    }

    fn on_first_answer(&self, took_ns: u64) {
        add(&self.sums.answered, 1);
        add(&self.sums.answers_took_ns, took_ns);
    }

    /// Looks, and moves the limit. Returns true if the timer must be told of the next look; with nothing open there is none.
    #[must_use = "nobody would look"]
    pub(crate) fn look(&self, lines: Lines, now_ns: u64) -> bool {
        let open = {
            let mut law = self.law.lock();
            let before = i64::from(law.limit());
            let open = before.saturating_sub(self.room.load(Ordering::Relaxed)).max(0);
            law.look(&self.seen(lines, open, now_ns), now_ns);
            self.room.fetch_add(i64::from(law.limit()).saturating_sub(before), Ordering::Relaxed);
            open
        };
        self.alarm.set(if open > 0 { now_ns.saturating_add(LOOK_NS) } else { NEVER })
    }

    fn seen(&self, lines: Lines, open: i64, now_ns: u64) -> Sight {
        let take = |sum: &AtomicU64| sum.swap(0, Ordering::Relaxed);
        let oldest_ns = lines.oldest_ns.map_or(0, |since| now_ns.saturating_sub(since));
        let in_line_ns = take(&self.sums.longest_in_line_ns).max(oldest_ns);
        let answers_ns = take(&self.sums.answers_took_ns).checked_div(take(&self.sums.answered)).unwrap_or(0);
        Sight {
            open: small(open),
            waiting: small(lines.waiting),
            left: small(take(&self.sums.accepted)),
            ended: small(take(&self.sums.ended)),
            waited_ns: in_line_ns.max(answers_ns),
        }
    }

    /// Keeps another delay, ns, from now on.
    pub(crate) fn set_delay(&self, delay_ns: u64) {
        self.law.lock().set_delay(delay_ns);
    }

    pub(crate) fn delay_ns(&self) -> u64 {
        self.law.lock().delay_ns()
    }

    pub(crate) fn load(&self) -> Load {
        let law = self.law.lock();
        Load { level: law.level(), limit: law.limit() }
    }
}

fn small(count: impl TryInto<u32>) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

/// A guarded connection's way from its listener's line to its first answer.
pub(crate) struct Visit {
    pub guard: &'static Guard,
    pub came_ns: u64,
    /// When the last piece of its first question came; [`NEVER`] before it came and after it was answered.
    asked_ns: AtomicU64,
    is_answered: core::sync::atomic::AtomicBool,
}

impl Visit {
    pub(crate) fn new(guard: &'static Guard, now_ns: u64) -> Visit {
        let is_answered = core::sync::atomic::AtomicBool::new(false);
        Visit { guard, came_ns: now_ns, asked_ns: AtomicU64::new(NEVER), is_answered }
    }

    pub(crate) fn on_accept(&self, now_ns: u64) {
        self.guard.on_accept(now_ns.saturating_sub(self.came_ns));
    }

    /// Data came: a load, and a store in the connection's own line until it is answered.
    pub(crate) fn on_question(&self, now_ns: u64) {
        if !self.is_answered.load(Ordering::Relaxed) {
            self.asked_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// The user sends: only the first time after a question counts.
    pub(crate) fn on_answer(&self, now_ns: u64) {
        if self.is_answered.load(Ordering::Relaxed) {
            return;
        }
        let asked_ns = self.asked_ns.load(Ordering::Relaxed);
        if asked_ns != NEVER && !self.is_answered.swap(true, Ordering::Relaxed) {
            self.guard.on_first_answer(now_ns.saturating_sub(asked_ns));
        }
    }
}
