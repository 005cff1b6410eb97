//! A supervisor over fakes: its pool, its zones, and the checks that hold at any time.

use super::fake::{Fake, MS, Temper};
use crate::handler::{Setup, Zones, now_ns};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_contract::zones::{Command, LOT_BYTES, Protection, Record, Refusal, Restart, State, View, Zone, Zones as All};
use gyre_interface::leases::{Holder, Lots, Parts, leases};
use gyre_interface::zones::{By, ZonesError, zones};
use gyre_leases::{Leases, Pool};
use gyre_machine::PciAddress;
use gyre_message::direct::direct_link;
use gyre_message::sleep_ns;

pub(super) const NAMES: [&str; 3] = ["search", "crunch", "spare"];
pub(super) const CORES: u32 = 5;
pub(super) const LOTS: u32 = 60;

pub(super) struct World {
    pub(super) fake: &'static Fake,
    pub(super) leases: &'static Leases,
    pub(super) client: zones::Client,
    begun: u64,
}

pub(super) fn device(number: u8) -> PciAddress {
    PciAddress { bus: 0, device: number, function: 0 }
}

pub(crate) fn zone(name: &str) -> Zone {
    Zone {
        name: name.into(),
        cores: 1,
        cores_max: 4,
        memory_bytes: 16 * LOT_BYTES,
        devices: Vec::new(),
        module: String::new(),
        protection: Protection::Pages,
        restart: Restart::OnCrash,
        starts: false,
        may_create: false,
        patience_ms: 200,
        share: 1,
        links: Vec::new(),
        disks: Vec::new(),
        lends_to: Vec::new(),
        is_place: false,
    }
}

impl World {
    pub(super) fn new(describe: impl FnOnce(&mut Vec<Zone>)) -> World {
        let mut described: Vec<Zone> = NAMES.iter().map(|name| zone(name)).collect();
        describe(&mut described);
        let parts = Parts {
            cores: (1..=CORES).collect(),
            lots: vec![Lots { first: 256, count: 40 }, Lots { first: 400, count: 20 }],
            devices: vec![device(4), device(5)],
        };
        // Time stands still until all wait: only then it is virtual.
        gyre_machine::begin_virtual_time();
        let begun = gyre_machine::now();
        let leases: &'static Leases = Box::leak(Box::new(Leases::new(Pool::new(parts, begun))));
        let fake: &'static Fake = Box::leak(Box::new(Fake::new(described.len())));
        let activities = (0..described.len() as u32).map(|number| ActivityId(number + 1)).collect();
        let setup = Setup {
            machine: fake,
            wires: fake,
            back_ends: fake,
            leases: leases::Client::new(direct_link(|request| Box::pin(leases::serve(leases, request)))),
            zones: described.leak(),
            activities,
            supervisor: Default::default(),
        };
        let server: &'static Zones = Box::leak(Box::new(Zones::new(setup)));
        gyre_message::set_runtime(&gyre_message::direct::Direct);
        server.start();
        let client = zones::Client::new(direct_link(|request| Box::pin(zones::serve(server, request))));
        World { fake, leases, client, begun }
    }

    pub(super) fn temper(&self, zone: usize, temper: Temper) {
        self.fake.on(zone, |zone| zone.temper = temper);
    }

    pub(super) async fn change(&self, commands: &[Command]) -> Result<(), Refusal> {
        match self.client.change(commands.to_vec(), By::Owner).await {
            Ok(()) => Ok(()),
            Err(ZonesError::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("{other:?}"),
        }
    }

    pub(super) async fn all(&self) -> All {
        self.client.view().await.unwrap()
    }

    pub(super) async fn view(&self, zone: usize) -> View {
        self.all().await.zones.remove(zone)
    }

    pub(super) async fn state(&self, zone: usize) -> State {
        self.view(zone).await.state
    }

    pub(super) async fn log(&self) -> Vec<Record> {
        self.client.log(0, 1024).await.unwrap()
    }

    /// Cores and lots of each zone, then those that are free.
    pub(super) async fn sizes(&self) -> Vec<(usize, u64)> {
        let all = self.all().await;
        let size = |holding: &gyre_contract::zones::Holding| (holding.cores.len(), holding.memory_bytes / LOT_BYTES);
        all.zones.iter().map(|view| size(&view.holds)).chain([size(&all.free)]).collect()
    }

    /// Checks that the pool, the zones' views and the machine agree, and that the bill is the machine's time.
    pub(super) async fn check(&self) {
        let now = gyre_machine::now();
        let elapsed = u128::from(now - self.begun);
        let holders = self.leases.holders_at(now);
        assert_eq!(holders.iter().map(|one| one.held.core_cycles).sum::<u128>(), elapsed * u128::from(CORES));
        assert_eq!(holders.iter().map(|one| one.held.lot_cycles).sum::<u128>(), elapsed * u128::from(LOTS));
        assert_eq!(holders.iter().map(|one| one.parts.cores.len()).sum::<usize>(), CORES as usize);
        let all = self.all().await;
        for (place, view) in all.zones.iter().enumerate() {
            let of_pool = holders.iter().find(|one| one.holder == Holder::Zone(place as u16));
            let parts = of_pool.map(|one| one.parts.clone()).unwrap_or_default();
            assert_eq!(view.holds.cores, parts.cores, "{view:?}");
            let running = self.fake.on(place, |zone| zone.running.clone());
            let stubborn = self.fake.state.lock().stubborn_cores.clone();
            assert!(
                running.iter().all(|core| parts.cores.contains(core) || stubborn.contains(core)),
                "{running:?} {parts:?}"
            );
            let lots = Parts { lots: self.fake.on(place, |zone| zone.lots.clone()), ..Parts::default() };
            assert!(lots.without(&parts).is_empty(), "{lots:?} {parts:?}");
        }
    }

    pub(super) async fn sleep_ms(&self, ms: u64) {
        sleep_ns(ms * MS).await;
    }
}

pub(super) fn create(zone: usize) -> Command {
    Command::Create { zone: NAMES[zone].into(), cores: None, memory_bytes: None }
}

pub(super) fn create_with(zone: usize, cores: u16, lots: u64) -> Command {
    Command::Create { zone: NAMES[zone].into(), cores: Some(cores), memory_bytes: Some(lots * LOT_BYTES) }
}

pub(super) fn destroy(zone: usize, grace_ms: u32) -> Command {
    Command::Destroy { zone: NAMES[zone].into(), grace_ms }
}

pub(super) fn restart(zone: usize, grace_ms: u32) -> Command {
    Command::Restart { zone: NAMES[zone].into(), grace_ms }
}

pub(super) fn set(zone: usize, cores: Option<u16>, lots: Option<u64>) -> Command {
    let memory_bytes = lots.map(|lots| lots * LOT_BYTES);
    Command::Set { zone: NAMES[zone].into(), share: None, cores, memory_bytes, deadline_ms: 500 }
}

pub(super) fn share(zone: usize, share: u32) -> Command {
    Command::Set { zone: NAMES[zone].into(), share: Some(share), cores: None, memory_bytes: None, deadline_ms: 0 }
}

pub(super) fn lend(from: usize, to: usize, cores: u16, lots: u64) -> Command {
    Command::Lend {
        from: NAMES[from].into(),
        to: NAMES[to].into(),
        cores,
        memory_bytes: lots * LOT_BYTES,
        deadline_ms: 500,
    }
}

pub(super) fn ms_now() -> u64 {
    now_ns() / MS
}
