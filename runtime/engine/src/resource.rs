//! The state of a resource that all cores share.

use crate::labels::LabelTable;
use crate::limits::WEIGHT_UNIT;
use crate::placement::Placements;
use crate::slots::RESIDENT;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use gyre_object::{SetOnce, SpinLock};
use gyre_schedulers::policy::WEIGHT_MAX;
use gyre_schedulers::{ClientParams, Metric, Policy};

/// A resource of the grid.
pub(crate) struct Resource {
    pub(crate) name: String,
    pub(crate) is_gate: bool,
    pub(crate) metric: Metric,
    /// The gate's policy, or the CPU's, which also answers to which core requests go.
    pub(crate) policy: SpinLock<Arc<dyn Policy>>,
    /// The policy's name as configured: the tree that it is put into hides it.
    pub(crate) policy_name: SpinLock<&'static str>,
    /// Cores that it is configured for, a bit each, whether they are online or not.
    pub(crate) wish: AtomicU64,
    /// Of those the ones that are online; the resident one if there is none.
    pub(crate) cores: AtomicU64,
    pub(crate) batch: AtomicU32,
    pub(crate) queue_bound: AtomicU32,
    pub(crate) weight: AtomicU32,
    pub(crate) priority: AtomicU32,
    /// Cores on which it is suspended, a bit each.
    pub(crate) suspended_cores: AtomicU64,
    /// Times that it was suspended.
    pub(crate) suspensions: AtomicU64,
    pub(crate) placements: Placements,
    pub(crate) labels: SpinLock<LabelTable>,
    /// A [`crate::containment::Reach`].
    pub(crate) reach: AtomicU8,
    /// The state that all tenants share, if its work may hold such.
    pub(crate) shared: SetOnce<&'static str>,
}

impl Resource {
    /// Returns the cores that may handle its requests now.
    pub(crate) fn cores(&self) -> u64 {
        self.cores.load(Ordering::Relaxed)
    }

    /// Uses the cores that are online.
    pub(crate) fn follow(&self, online: u64) {
        let cores = match self.wish.load(Ordering::Relaxed) & online {
            0 => 1 << RESIDENT,
            cores => cores,
        };
        self.cores.store(cores, Ordering::Relaxed);
    }

    /// Returns true if a core may handle its requests.
    #[inline]
    pub(crate) fn runs_on(&self, core: usize) -> bool {
        self.cores.load(Ordering::Relaxed) >> core & 1 == 1
    }

    /// Returns true if more than one core may.
    pub(crate) fn is_on_several(&self) -> bool {
        self.cores.load(Ordering::Relaxed).count_ones() > 1
    }

    /// Parameters of its queues below their activity's node.
    pub(crate) fn queue_params(&self) -> ClientParams {
        let weight = self.weight.load(Ordering::Relaxed).max(1).saturating_mul(WEIGHT_UNIT).min(WEIGHT_MAX);
        ClientParams { priority: self.priority.load(Ordering::Relaxed) as u8, ..ClientParams::weighted(weight) }
    }
}
