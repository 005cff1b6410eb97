//! Cores that one process keeps for its own threads while they stay in the instance: those of plain cells.
//!
//! [`Engine::keep_cores`] marks the cores, has each core look once, and sends away threads that may not run there any more, also those that
//! wait there. From then on threads of the keeper alone are placed there; labels of requests are placed elsewhere. [`Engine::give_cores`] takes
//! the marks away. The keeper's threads may use other cores too, as they are bound.
//!
//! Time in which a kept core idles is its keeper's, at [`LEASE`]: nobody else has the cycles that it does not use.
//!
//! Left out: interrupts of devices and requests that were sent there before, which the core handles as ever. A core that is kept cannot
//! leave, nor can a cell in time have it. The caller says who may keep cores.

use crate::elastic::{Holder, WithdrawError};
use crate::engine::{COMPUTE, Engine, LEASE};
use crate::slots::{RESIDENT, SlotState};
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::{ActivityId, ResourceId, Span};
use gyre_machine::{CORES_MAX, core_index};
use gyre_message::{Call, reply_pair};
use gyre_object::SpinLock;

/// The keepers of cores.
pub(crate) struct Kept {
    /// Cores that somebody keeps, a bit each.
    cores: AtomicU64,
    keepers: SpinLock<[Option<ActivityId>; CORES_MAX]>,
}

impl Kept {
    pub(crate) fn new() -> Kept {
        Kept { cores: AtomicU64::new(0), keepers: SpinLock::new([None; CORES_MAX]) }
    }

    /// Returns the cores that somebody keeps, a bit each.
    #[inline]
    pub(crate) fn cores(&self) -> u64 {
        self.cores.load(Ordering::SeqCst)
    }

    /// Returns who keeps a core.
    pub(crate) fn keeper(&self, core: usize) -> Option<ActivityId> {
        if self.cores() >> core & 1 == 0 {
            return None;
        }
        self.keepers.lock().get(core).copied().flatten()
    }

    /// Returns the cores that an activity keeps, a bit each.
    pub(crate) fn cores_of(&self, activity: ActivityId) -> u64 {
        if self.cores() == 0 {
            return 0;
        }
        let keepers = self.keepers.lock();
        keepers
            .iter()
            .enumerate()
            .filter(|(_, keeper)| **keeper == Some(activity))
            .fold(0, |all, (core, _)| all | 1 << core)
    }

    fn set(&self, cores: u64, keeper: Option<ActivityId>) {
        let mut keepers = self.keepers.lock();
        for core in crate::bits::ones(cores) {
            if let Some(known) = keepers.get_mut(core as usize) {
                *known = keeper;
            }
        }
        match keeper {
            Some(_) => self.cores.fetch_or(cores, Ordering::SeqCst),
            None => self.cores.fetch_and(!cores, Ordering::SeqCst),
        };
    }
}

impl Engine {
    /// Returns the cores that take anybody's new threads and labels, a bit each.
    pub(crate) fn open_cores(&self) -> u64 {
        self.slots.online() & !self.kept.cores()
    }

    /// Keeps cores, a bit each, for the threads of one process: all of them or none. The answer comes when no other thread runs there. The work
    /// is the infrastructure's and goes on if nobody waits for the answer.
    ///
    /// # Errors
    /// [`WithdrawError`], as for a core that leaves: `Resident`, `Vacant`, `Leaving`, `Busy` with who has the core, `NoMemory`.
    pub fn keep_cores(&'static self, cores: u64, keeper: ActivityId) -> Call<Result<(), WithdrawError>> {
        let (reply, call) = reply_pair();
        self.spawn_for_on(RESIDENT, ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, move || async move {
            reply.send(self.keep(cores, keeper).await);
        });
        call
    }

    /// Gives kept cores back to all, a bit each. Threads that only their keeper's right held there go elsewhere at each core's next look.
    pub fn give_cores(&'static self, cores: u64) {
        self.kept.set(cores, None);
        self.follow_slots();
        self.on_all_cores(Engine::refresh_threads);
    }

    async fn keep(&'static self, cores: u64, keeper: ActivityId) -> Result<(), WithdrawError> {
        self.mark_kept(cores, keeper)?;
        // Whoever sets cells in time sees the marks, or is seen here.
        let cell = crate::bits::ones(cores).find_map(|core| self.cell_on(core as usize));
        let outcome = match cell {
            Some(cell) => Err(WithdrawError::Busy(alloc::vec![cell])),
            None => {
                self.follow_slots();
                self.round(RESIDENT, Engine::refresh_threads).await
            }
        };
        match outcome {
            Ok(()) => self.round(RESIDENT, Engine::clear_kept).await,
            Err(_) => {
                self.give_cores(cores);
                outcome
            }
        }
    }

    fn mark_kept(&self, cores: u64, keeper: ActivityId) -> Result<(), WithdrawError> {
        // Keeps all slots as they are.
        let _still = self.slots.change();
        for core in crate::bits::ones(cores).map(|core| core as usize) {
            match self.slots.state(core) {
                _ if core == RESIDENT => return Err(WithdrawError::Resident),
                SlotState::Online => {}
                SlotState::Absent | SlotState::Away => return Err(WithdrawError::Vacant),
                SlotState::Leaving | SlotState::Finishing => return Err(WithdrawError::Leaving),
            }
            if let Some(holder) = self.keeper_on(core) {
                return Err(WithdrawError::Busy(alloc::vec![holder]));
            }
        }
        self.kept.set(cores, Some(keeper));
        Ok(())
    }

    /// The process that keeps a core, if there is one.
    pub(crate) fn keeper_on(&self, core: usize) -> Option<Holder> {
        self.kept.keeper(core).map(|activity| Holder { activity, resource: COMPUTE, tasks: 1 })
    }

    /// Sends away threads of others that wait on this core, if somebody keeps it.
    fn clear_kept(&'static self) {
        if self.kept.keeper(core_index()).is_some() {
            self.free_waiting_threads();
        }
    }

    /// Returns whose the time is in which this core idles.
    pub(crate) fn idle_span(&self) -> Span {
        let keeper = self.kept.keeper(core_index());
        let living = keeper.and_then(|keeper| self.accounts.activities.living(keeper));
        living.map_or(Span::Idle, |keeper| Span::Handling(keeper, LEASE))
    }
}
