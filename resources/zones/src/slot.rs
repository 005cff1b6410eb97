//! One zone as the supervisor knows it.
//!
//! * [`Described`]: what it is to be. A place gets another description in a change, while there is no instance.
//! * [`Known`]: its state and its parts, with [`Debt`]s to other zones. Decisions are made over a copy of it.
//! * [`Inner`]: what is known of its instance, and of those before it.
//! * [`Slot`]: all of it, with the work on it that one task does at a time: its instance is made or ended.
//!
//! Left out: what is done with it (`change.rs`, `watch.rs`).

use crate::asks::Asks;
use crate::life::{Backoff, Signs};
use crate::one_at_a_time::OneAtATime;
use crate::tail::Tail;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{LOT_BYTES, State, Zone};
use gyre_interface::leases::{Holder, Holding, Lots, Part, Parts};
use gyre_interface::zone_messages::Figures;
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

/// A zone's state and parts.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) state: State,
    /// Its parts, as the pool has them.
    pub(crate) parts: Parts,
    /// The zone that manages it.
    pub(crate) parent: Option<usize>,
    /// Its share of the supervisor's resources.
    pub(crate) share: u32,
    /// Of its parts, those that others have lent it: at most one debt for each lender.
    pub(crate) borrowed: Vec<Debt>,
}

/// Parts that a zone has of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Debt {
    /// The lender.
    pub(crate) from: usize,
    pub(crate) parts: Parts,
}

impl Debt {
    /// Returns the parts that a holder has of other zones.
    pub(crate) fn all(holders: &[Holding], own: Holder) -> Vec<Debt> {
        let lent = holders.iter().find(|one| one.holder == own).map_or(&[][..], |one| &one.lent);
        let mut debts: Vec<Debt> = Vec::new();
        for (part, lender) in lent {
            let Holder::Zone(lender) = lender else { continue };
            let (from, parts) = (usize::from(*lender), single(*part));
            match debts.iter_mut().find(|debt| debt.from == from) {
                Some(debt) => debt.parts.extend(parts),
                None => debts.push(Debt { from, parts }),
            }
        }
        debts
    }
}

fn single(part: Part) -> Parts {
    match part {
        Part::Core(core) => Parts { cores: alloc::vec![core], ..Parts::default() },
        Part::Lot(first) => Parts { lots: alloc::vec![Lots { first, count: 1 }], ..Parts::default() },
        Part::Device(device) => Parts { devices: alloc::vec![device], ..Parts::default() },
    }
}

impl Known {
    /// Returns true if there is an instance.
    pub(crate) fn lives(&self) -> bool {
        matches!(self.state, State::Booting | State::Running | State::Ending)
    }

    /// Returns true if it has as much of another zone.
    pub(crate) fn owes(&self, lender: usize, cores: u32, memory_bytes: u64) -> bool {
        self.borrowed.iter().find(|debt| debt.from == lender).is_some_and(|debt| {
            let bytes = debt.parts.lot_count().saturating_mul(LOT_BYTES);
            u64::from(cores) <= debt.parts.cores.len() as u64 && memory_bytes <= bytes
        })
    }

    /// Returns true if it ended by itself and waits with its parts to be made again.
    pub(crate) fn waits(&self) -> bool {
        !self.lives() && !self.parts.is_empty()
    }
}

/// Whether something of an instance is in the zone's parts: a core that runs there, a device that may write there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    There,
    Gone,
}

/// The supervisor's knowledge of a zone's instance, and of those before it.
pub(crate) struct Inner {
    pub(crate) known: Known,
    pub(crate) presence: Presence,
    pub(crate) signs: Signs,
    pub(crate) backoff: Backoff,
    /// When it is made again, ns.
    pub(crate) again_ns: Option<u64>,
    /// When its instance was ordered, ns; 0 before the first.
    pub(crate) begun_ns: u64,
    /// From the order until it stood, ns; 0 before.
    pub(crate) start_ns: u64,
    /// When it stood, ns; `None` before.
    pub(crate) stood_ns: Option<u64>,
    pub(crate) created: u32,
    pub(crate) crashed: u32,
    /// Those of its last crash.
    pub(crate) last_words: LastWords,
    pub(crate) tail: Tail,
    /// Bytes of its present console that were read.
    pub(crate) console_at: u64,
    pub(crate) messages: u64,
    /// Its own figures, as it said them last.
    pub(crate) own: Option<Figures>,
    /// When its present instance was last asked for them, ns.
    pub(crate) figures_asked_ns: Option<u64>,
    /// Cycles of its cores in the pool when its instance was ordered, and when it last said its figures.
    pub(crate) lease_begun: u128,
    pub(crate) lease_said: u128,
    pub(crate) asks: Asks,
    /// A wish of the zone's own is being seen to.
    pub(crate) is_wishing: bool,
}

/// A zone as it is to be.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) zone: Zone,
    /// Its boot module, if it came while the machine runs.
    pub(crate) module: Option<Vec<u8>>,
}

/// A zone, or a place for one that comes.
pub(crate) struct Slot {
    /// As the machine was started with it.
    pub(crate) first: &'static Zone,
    /// As it is now; changed only in a change, while there is no instance.
    described: SpinLock<Arc<Described>>,
    /// Pays for what it holds, and for the supervisor's work for it.
    pub(crate) activity: ActivityId,
    /// The task at it makes or ends the zone's instance, or moves its parts.
    pub(crate) work: OneAtATime,
    pub(crate) inner: SpinLock<Inner>,
    /// Its watch looks: the zone has rung, or there is a new instance.
    pub(crate) rung: WaitQueue,
    /// Its state or its answers have changed.
    pub(crate) changed: WaitQueue,
}

impl Slot {
    /// Makes a zone that does not run.
    pub(crate) fn new(zone: &'static Zone, activity: ActivityId) -> Slot {
        let state = if zone.is_place { State::Vacant } else { State::Absent };
        let described = SpinLock::new(Arc::new(Described { zone: zone.clone(), module: None }));
        let inner = Inner {
            known: Known { state, parts: Parts::default(), parent: None, share: zone.share, borrowed: Vec::new() },
            presence: Presence::Gone,
            signs: Signs::new(0),
            backoff: Backoff::default(),
            again_ns: None,
            begun_ns: 0,
            start_ns: 0,
            stood_ns: None,
            created: 0,
            crashed: 0,
            last_words: LastWords::default(),
            tail: Tail::default(),
            console_at: 0,
            messages: 0,
            own: None,
            figures_asked_ns: None,
            lease_begun: 0,
            lease_said: 0,
            asks: Asks::default(),
            is_wishing: false,
        };
        Slot {
            first: zone,
            described,
            activity,
            work: OneAtATime::default(),
            inner: SpinLock::new(inner),
            rung: WaitQueue::new(),
            changed: WaitQueue::new(),
        }
    }

    /// Returns what the zone is to be.
    pub(crate) fn described(&self) -> Arc<Described> {
        self.described.lock().clone()
    }

    /// Makes it another zone, and answers what it was to be before.
    pub(crate) fn describe(&self, described: Arc<Described>) -> Arc<Described> {
        core::mem::replace(&mut *self.described.lock(), described)
    }

    pub(crate) fn name(&self) -> String {
        self.described().zone.name.clone()
    }

    pub(crate) fn known(&self) -> Known {
        self.inner.lock().known.clone()
    }

    pub(crate) fn state(&self) -> State {
        self.inner.lock().known.state.clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        self.inner.lock().known.state = state;
        self.changed.wake_all();
        self.rung.wake_all();
    }

    pub(crate) fn patience_ns(&self) -> u64 {
        u64::from(self.described().zone.patience_ms.max(1)).saturating_mul(1_000_000)
    }
}
