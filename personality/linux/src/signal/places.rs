//! RLIMIT_SIGPENDING: how many signals may wait for the processes of a user of the tenant (setrlimit(2); Linux: kernel/signal.c).
//!
//! A signal that a program sends takes a place while it waits. A timer has one place as long as there is the timer, and its signal comes by it.

use super::info::SI_USER;
use super::set::SIGNAL_REALTIME;
use super::{Pending, SignalInfo};
use crate::{Errno, Process};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use gyre_object::TenantLock;
use linux_raw_sys::general as raw;

/// How many places each user of a tenant has taken.
#[derive(Default)]
pub struct Places {
    taken: TenantLock<BTreeMap<u32, u64>>,
}

/// One of them; free again when it is dropped.
pub struct Taken {
    places: Arc<Places>,
    user: u32,
}

impl Places {
    /// Takes a place of a user who may have `most`; none if they are taken.
    fn take(self: &Arc<Places>, user: u32, most: u64) -> Option<Taken> {
        let mut taken = self.taken.lock();
        let count = taken.entry(user).or_default();
        if *count >= most {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Taken { places: self.clone(), user })
    }

    /// How many a user has taken.
    pub fn taken_by(&self, user: u32) -> u64 {
        self.taken.lock().get(&user).copied().unwrap_or(0)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        match taken.get_mut(&self.user) {
            Some(count) if *count > 1 => *count = count.saturating_sub(1),
            _ => _ = taken.remove(&self.user),
        }
    }
}

/// A signal on its way to those that wait, and by what it comes there.
#[derive(Clone, Copy)]
pub enum Sending {
    /// It takes a place of its user.
    Sent(SignalInfo),
    /// It comes by the place of the timer that sends it.
    OfTimer(SignalInfo),
}

impl Sending {
    /// The signal with its details.
    pub fn info(&self) -> SignalInfo {
        match self {
            Sending::Sent(info) | Sending::OfTimer(info) => *info,
        }
    }
}

impl Process {
    /// A place for a timer.
    ///
    /// # Errors
    /// EAGAIN if its user has as many as the process may take.
    pub(crate) fn place_for_timer(&self) -> Result<Taken, Errno> {
        self.take_place(self.limit(raw::RLIMIT_SIGPENDING)).ok_or(Errno::EAGAIN)
    }

    /// How many places its user has taken.
    pub(crate) fn signal_places_taken(&self) -> u64 {
        self.tenant().signal_places.taken_by(self.with_credentials(|who| who.user))
    }

    fn take_place(&self, most: u64) -> Option<Taken> {
        let user = self.with_credentials(|who| who.user);
        self.tenant().signal_places.take(user, most)
    }

    /// Puts a signal among those that wait here. Beyond the limit an ordinary one, and one of kill, comes without its details.
    ///
    /// # Errors
    /// EAGAIN for another real-time signal beyond the limit, and if too many wait here.
    pub(crate) fn queue(&self, pending: &mut Pending, sending: Sending) -> Result<(), Errno> {
        let info = sending.info();
        if pending.says_already(&info) {
            return Ok(());
        }
        if let Sending::OfTimer(_) = sending {
            return pending.push(info, None);
        }
        match self.take_place(self.places_for(&info)) {
            Some(place) => pending.push(info, Some(place)),
            None if info.signal >= SIGNAL_REALTIME && info.code != SI_USER => Err(Errno::EAGAIN),
            None => pending.push_bare(info.signal),
        }
    }

    /// The limit that counts for a signal: ordinary ones of the kernel, of kill and the like always get a place.
    fn places_for(&self, info: &SignalInfo) -> u64 {
        match info.signal < SIGNAL_REALTIME && info.code >= SI_USER {
            true => u64::MAX,
            false => self.limit(raw::RLIMIT_SIGPENDING),
        }
    }
}
