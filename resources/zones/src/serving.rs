//! Disks that the supervisor serves to zones without any (R7): the memory for it, and when that is used by whom.
//!
//! ```text
//!   waiting --the zone stands--> memory taken, back end ready --offered--> served
//!      ^                                                                    | the zone's instance is gone
//!      +-- the zone will be made again: the memory is kept <-- nothing is under way any more
//!      +-- it has no parts any more: the memory goes back <---+
//! ```
//! A task for each such zone, in its name. The back end serves until the instance is gone, not only until it is asked to end: a zone writes
//! its files back on its way.
//!
//! Left out: the requests themselves (`resources/disk_server`), and which disks those are (the description).

use crate::asks::micros;
use crate::handler::{Zones, now_ns};
use crate::instances::Fault;
use crate::slot::Presence;
use crate::views::Adjustment;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use gyre_contract::zones::{Deed, State, Zone};
use gyre_interface::leases::{Holder, LeaseError, Lots, Parts, Wish};
use gyre_interface::zone_messages::{DiskOffer, ToZone};
use gyre_interface::zones::By;
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};

/// How long a zone may take to answer, ms.
const ANSWER_MS: u32 = 5_000;
/// How often memory is looked for, if there is none, ns.
const MEMORY_NS: u64 = 100_000_000;
/// How often it is looked whether a zone that is gone has parts, ns.
const PARTS_NS: u64 = 500_000_000;

/// Work of the kernel that takes a while.
pub type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// The back ends of disks, as the resource of zones needs them.
pub trait BackEnds: Sync + 'static {
    /// Makes a lot ready that nobody uses, opens the zone's wall for it, and begins to serve the disks of its description there in the activity
    /// that asks. Answers how many they are, and the hardware id of the core that the zone rings.
    ///
    /// # Errors
    /// [`Fault`]: a disk does not work, or the lot cannot be reached. Nothing is served then.
    fn begin(&'static self, zone: usize, description: Zone, lot: u64) -> Work<Result<(u16, u32), Fault>>;
    /// Ends that. Comes back when nothing reaches the lot any more.
    fn end(&'static self, zone: usize) -> Work<()>;
}

/// The next thing that happens to a zone that is served.
enum Next {
    /// This instance of it stands.
    Stands(u32),
    /// It has no parts, and will not be made again by itself: this lot goes back.
    Gone(u64),
}

impl Zones {
    /// Starts the tasks of zones with served disks, and of places that have such disks for whoever comes. Called once, when the zones' watches start.
    pub(crate) fn start_serving(&'static self) {
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, slot)| !slot.first.disks.is_empty()) {
            let core = gyre_machine::core_index();
            gyre_message::spawn_on(core, slot.activity, Box::new(move || Box::pin(self.keep_served(place))));
        }
    }

    /// Serves each life of a zone, for ever.
    async fn keep_served(&'static self, place: usize) {
        let mut lot: Option<u64> = None;
        loop {
            let instance = match self.next_of(place, lot).await {
                Next::Stands(instance) => instance,
                Next::Gone(kept) => {
                    self.give_back(place, kept).await;
                    lot = None;
                    continue;
                }
            };
            if lot.is_none() {
                lot = self.take_disk_lot(place).await;
            }
            match lot {
                Some(lot) => self.serve_once(place, instance, lot).await,
                None => sleep_ns(MEMORY_NS).await,
            }
        }
    }

    /// Waits until the zone stands, or is gone for longer.
    async fn next_of(&self, place: usize, lot: Option<u64>) -> Next {
        let Some(slot) = self.slots.get(place) else { return core::future::pending().await };
        let look = || {
            let is_served = !slot.described().zone.disks.is_empty();
            let inner = slot.inner.lock();
            let is_gone = inner.presence == Presence::Gone && inner.known.parts.is_empty();
            match inner.known.state {
                State::Running if is_served => Some(Next::Stands(inner.created)),
                _ if is_gone => lot.map(Next::Gone),
                _ => None,
            }
        };
        loop {
            // that its parts are free is not announced
            match select(slot.changed.until(look), sleep_ns(PARTS_NS)).await {
                Either::First(next) => return next,
                Either::Second(()) => {}
            }
        }
    }

    /// Serves an instance until it is gone and nothing of it is under way.
    async fn serve_once(&'static self, place: usize, instance: u32, lot: u64) {
        let (Some(slot), begun_ns) = (self.slots.get(place), now_ns()) else { return };
        let name = self.name_of(place);
        let description = slot.described().zone.clone();
        match self.back_ends.begin(place, description, lot).await {
            Ok((disks, core)) => {
                let offer = DiskOffer { lot, core, disks };
                match self.offer(place, ToZone::DiskOffer(offer), ANSWER_MS).await {
                    Ok(()) => log::info!("{disks} disks are served to zone {name} after {} us", micros(begun_ns)),
                    Err(failure) => log::warn!("zone {name} does not take its disks: {failure}"),
                }
            }
            Err(fault) => log::error!("zone {name} gets no disks: {}", fault.0),
        }
        let is_gone = || {
            let inner = slot.inner.lock();
            (inner.presence == Presence::Gone || inner.created != instance).then_some(())
        };
        slot.changed.until(is_gone).await;
        self.back_ends.end(place).await;
    }

    /// Takes a lot from the pool, in the supervisor's name.
    async fn take_disk_lot(&self, place: usize) -> Option<u64> {
        let begun_ns = now_ns();
        let parts = match self.leases.take(Holder::Supervisor, Wish { lots: 1, ..Wish::default() }).await {
            Ok(parts) => parts,
            Err(LeaseError::Lacking { .. } | LeaseError::Scattered { .. }) => {
                log::debug!("the disks of zone {} wait for 2 MiB that nobody holds", self.name_of(place));
                return None;
            }
            Err(error) => {
                log::error!("the disks of zone {} get no memory: {error:?}", self.name_of(place));
                return None;
            }
        };
        let lot = parts.lots.first().map(|run| run.first)?;
        self.machine.clear(lot);
        let to = alloc::format!("disks of {}", self.name_of(place));
        self.record(Adjustment { deed: Deed::Give, parts, from: "free".into(), to }, By::Supervisor, begun_ns, Ok(()));
        Some(lot)
    }

    /// Gives a lot back, cleared: what the zone read and wrote was in it.
    async fn give_back(&self, place: usize, lot: u64) {
        let begun_ns = now_ns();
        self.machine.clear(lot);
        let lots = Lots { first: lot, count: 1 };
        let parts = Parts { lots: alloc::vec![lots], ..Parts::default() };
        if let Err(error) = self.leases.give(Holder::Supervisor, parts.clone()).await {
            log::error!("the memory of the disks of zone {} does not go back: {error:?}", self.name_of(place));
            return;
        }
        // It is clean: a lot that never was in a zone is not looked at by who cleans.
        let _ = self.leases.cleaned(lots).await;
        let from = alloc::format!("disks of {}", self.name_of(place));
        self.record(Adjustment { deed: Deed::Take, parts, from, to: "free".into() }, By::Supervisor, begun_ns, Ok(()));
        self.refresh().await;
    }
}
