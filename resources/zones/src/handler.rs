//! The resource: its state, and its requests.
//!
//! * [`Setup`]: all that it is made of; [`Zones::start`] begins its tasks, once.
//! * The server: `change` is work of its own, which goes on if the client is gone; the other requests only look.
//! * [`Zones::refresh`]: parts and debts of all zones, as the pool has them now. Whoever is about to decide about them asks for that first.
//!
//! A change is paid by the first zone that it names, and so is the watch of each zone by that zone.
//!
//! Left out: how a change is carried out (`change.rs`), and the looking after zones (`watch.rs`).

use crate::instances::Instances;
use crate::journal::Journal;
use crate::links::Wires;
use crate::one_at_a_time::OneAtATime;
use crate::serving::BackEnds;
use crate::slot::{Debt, Slot};
use crate::staged::{Piece, Staged};
use alloc::string::String;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_contract::zones::{Command, Holding, Record, Refusal, Zone, Zones as AllZones};
use gyre_interface::leases::{Holder, Parts, leases};
use gyre_interface::zones::{By, Printed, ZonesError, zones};
use gyre_message::{WaitQueue, reply_pair, spawn, spawn_on};
use gyre_object::SpinLock;

/// Commands of one change.
const COMMANDS_MAX: usize = 64;
/// Bytes of a console that are read at once.
const CONSOLE_ROOM_MAX: usize = 64 << 10;

/// Nanoseconds of the machine's clock.
pub(crate) fn now_ns() -> u64 {
    ns(gyre_machine::now())
}

/// Returns a cycle of the machine's clock in ns.
pub(crate) fn ns(cycle: u64) -> u64 {
    let ns = u128::from(cycle).saturating_mul(1_000_000).checked_div(u128::from(gyre_machine::cycles_per_ms()));
    u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// All that the resource is made of.
pub struct Setup {
    /// The machine.
    pub machine: &'static dyn Instances,
    /// The memory of links, and the supervisor's own ends of them.
    pub wires: &'static dyn Wires,
    /// The back ends of the disks that are served to zones.
    pub back_ends: &'static dyn BackEnds,
    /// The pool.
    pub leases: leases::Client,
    /// The zones.
    pub zones: &'static [Zone],
    /// An activity for each of them, which pays for it.
    pub activities: Vec<ActivityId>,
    /// Parts of the supervisor itself.
    pub supervisor: Holding,
}

/// The zones of a supervisor.
pub struct Zones {
    pub(crate) machine: &'static dyn Instances,
    pub(crate) wires: &'static dyn Wires,
    pub(crate) back_ends: &'static dyn BackEnds,
    pub(crate) leases: leases::Client,
    pub(crate) slots: Vec<Slot>,
    pub(crate) one_change: OneAtATime,
    pub(crate) journal: SpinLock<Journal>,
    /// The boot module that is handed over for a zone that comes.
    pub(crate) staged: SpinLock<Option<Staged>>,
    pub(crate) supervisor: Holding,
    pub(crate) begun_ns: u64,
    /// Woken when lots may have become free and dirty.
    pub(crate) dirty: WaitQueue,
}

impl Zones {
    /// Makes the resource. Nothing runs until [`Zones::start`].
    #[must_use]
    pub fn new(setup: Setup) -> Zones {
        let slots = setup.zones.iter().zip(setup.activities).map(|(zone, activity)| Slot::new(zone, activity));
        Zones {
            machine: setup.machine,
            wires: setup.wires,
            back_ends: setup.back_ends,
            leases: setup.leases,
            slots: slots.collect(),
            one_change: OneAtATime::default(),
            journal: SpinLock::new(Journal::default()),
            staged: SpinLock::new(None),
            supervisor: setup.supervisor,
            begun_ns: now_ns(),
            dirty: WaitQueue::new(),
        }
    }

    /// Starts the links and the watches of all zones, then creates those that start with the machine. Each watch works in its zone's name.
    pub fn start(&'static self) {
        self.start_links();
        self.start_serving();
        spawn(self.clean());
        for (place, slot) in self.slots.iter().enumerate() {
            spawn_on(
                gyre_machine::core_index(),
                slot.activity,
                alloc::boxed::Box::new(move || alloc::boxed::Box::pin(self.watch(place))),
            );
            if slot.first.starts {
                let create = Command::Create { zone: slot.first.name.clone(), cores: None, memory_bytes: None };
                // Its end is in the log.
                drop(self.work(slot.activity, alloc::vec![create], By::Supervisor));
            }
        }
    }

    /// A zone has rung: its watch looks. For the handling of the bell's notice.
    pub fn rung(&self) {
        self.slots.iter().for_each(|slot| slot.rung.wake_all());
    }

    /// Starts a change as work of an activity that nobody can end in the middle.
    fn work(
        &'static self,
        payer: ActivityId,
        commands: Vec<Command>,
        by: By,
    ) -> gyre_message::Call<Result<(), ZonesError>> {
        let (reply, call) = reply_pair();
        let work = move || -> gyre_message::runtime::LocalTask {
            alloc::boxed::Box::pin(async move {
                let result = self.change(&commands, by).await;
                if let Err(refusal) = &result {
                    log::warn!("a change of zones was refused: {refusal:?}");
                }
                reply.send(result.map_err(ZonesError::Refused));
            })
        };
        spawn_on(gyre_machine::core_index(), payer, alloc::boxed::Box::new(work));
        call
    }

    /// Returns who pays for a change: the first zone that it names.
    fn payer(&self, commands: &[Command]) -> ActivityId {
        let names = |slot: &&Slot| commands.iter().any(|command| is_about(command, &slot.name()));
        self.slots.iter().find(names).map_or(ActivityId::INFRASTRUCTURE, |slot| slot.activity)
    }

    /// Brings what is known of the zones' parts up to date; answers the free cores and lots.
    pub(crate) async fn refresh(&self) -> (u64, u64) {
        let Ok(holders) = self.leases.holders().await else { return (0, 0) };
        let parts = |holder: Holder| {
            holders.iter().find(|one| one.holder == holder).map(|one| one.parts.clone()).unwrap_or_default()
        };
        for (place, slot) in self.slots.iter().enumerate() {
            let own = Holder::Zone(place as u16);
            let (parts, borrowed) = (parts(own), Debt::all(&holders, own));
            let mut inner = slot.inner.lock();
            (inner.known.parts, inner.known.borrowed) = (parts, borrowed);
        }
        let free: Parts = parts(Holder::Free);
        (free.cores.len() as u64, free.lot_count())
    }

    /// Returns the core cycles of a zone in the pool so far.
    pub(crate) async fn lease_of(&self, place: usize) -> u128 {
        let holders = self.leases.holders().await.unwrap_or_default();
        let own = holders.iter().find(|one| one.holder == Holder::Zone(place as u16));
        own.map_or(0, |one| one.held.core_cycles)
    }

    pub(crate) fn name_of(&self, place: usize) -> String {
        self.slots.get(place).map_or_else(|| "?".into(), Slot::name)
    }
}

fn is_about(command: &Command, name: &str) -> bool {
    match command {
        Command::Describe { zone, .. } => zone.name == name,
        Command::Create { zone, .. }
        | Command::Destroy { zone, .. }
        | Command::Restart { zone, .. }
        | Command::Set { zone, .. }
        | Command::Attach { zone, .. }
        | Command::Detach { zone, .. } => zone == name,
        Command::Lend { from, .. } => from == name,
        Command::Adopt { child, .. } => child == name,
    }
}

impl zones::Server for Zones {
    async fn change(&'static self, commands: Vec<Command>, by: By) -> Result<(), ZonesError> {
        if commands.len() > COMMANDS_MAX {
            let why = alloc::format!("a change has at most {COMMANDS_MAX} commands");
            return Err(ZonesError::Refused(Refusal::Invalid { why }));
        }
        self.work(self.payer(&commands), commands, by).await
    }

    async fn stage(&'static self, module: u64, whole: u64, offset: u64, bytes: Vec<u8>) -> Result<u64, ZonesError> {
        Staged::add(&mut self.staged.lock(), Piece { module, whole, offset, bytes })
    }

    async fn view(&'static self) -> Result<AllZones, ZonesError> {
        self.all().await
    }

    async fn console(&'static self, zone: u16, position: u64, room: u32) -> Result<Printed, ZonesError> {
        let slot = self.slots.get(usize::from(zone)).ok_or(ZonesError::Unknown)?;
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(CONSOLE_ROOM_MAX);
        let (position, bytes) = slot.inner.lock().tail.read(position, room);
        Ok(Printed { position, bytes })
    }

    async fn log(&'static self, number: u64, room: u32) -> Result<Vec<Record>, ZonesError> {
        Ok(self.journal.lock().read(number, usize::try_from(room).unwrap_or(usize::MAX)))
    }
}
