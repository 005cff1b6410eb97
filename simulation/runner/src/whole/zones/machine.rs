//! An instance with a network path, a card at a wire without a peer, and a link to another instance.

use crate::whole::card::{Card, Wire};
use crate::whole::machine::{START_NS, plant, tenant_of};
use crate::whole::plan::{Plan, WirePlan};
use crate::whole::zones::bell::LINE;
use gyre_account::{Accounts, ActivityId, Column};
use gyre_assembly::grid;
use gyre_assembly::grid::id;
use gyre_assembly::network::{self, Network, Settings};
use gyre_contract::catalogue::Resource;
use gyre_device::InterruptLine;
use gyre_engine::Engine;
use gyre_machine::wire::CLEAN;
use gyre_net::LinkId;
use gyre_virtio_net::{NetOptions, VirtioNet};
use gyre_zone_link::fake::SharedArena;
use gyre_zone_link::{ZoneLink, ZoneLinkStatistics};
use std::rc::Rc;
use std::sync::Arc;

/// Pages of a link in each direction: 2 MiB.
pub const LINK_PAGES: usize = 512;
/// Tenants of each zone.
pub const TENANTS: usize = 2;

/// The instance, and what lies outside of its cores.
pub struct Zone {
    /// Its number: 0 or 1.
    pub number: usize,
    /// Queues, schedulers, tasks.
    pub engine: &'static Engine,
    /// The tenants' activities.
    pub activities: Vec<ActivityId>,
    /// The network path.
    pub network: Network,
    /// The link to the other instance.
    pub link: &'static ZoneLink,
    id: LinkId,
    /// The card.
    pub card: Rc<Card>,
}

/// Returns the address of a zone's tenant.
pub fn address(zone: usize, tenant: usize) -> [u8; 4] {
    [10, 77, 1 + zone as u8, 11 + tenant as u8]
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl Zone {
    /// Makes a zone with so many cores on the machine that the thread plays.
    pub fn new(number: usize, plan: &Plan) -> Rc<Zone> {
        gyre_machine::set_core_count(plan.cores);
        gyre_machine::set_virtual_time(START_NS);
        gyre_machine::set_virtual_tick(plan.tick_ns);
        gyre_machine::seed_random(plan.seed);
        let accounts = leak(Accounts::new(plan.cores));
        gyre_machine::set_memory_meter(&accounts.activities);
        let description = plan.description();
        let activities = plant(accounts, &description);
        let engine = grid::build(&description, accounts).expect("the plan's grid can be built");
        let wire = WirePlan { faults: CLEAN, byte_ns: 1, halts: 0, has_checksums: true };
        let card = Rc::new(Card::new(Wire::new(CLEAN), wire, plan.seed));
        let driver = VirtioNet::new(Box::new(card.device.clone()), 0, NetOptions::default()).expect("the card starts");
        let settings = Settings {
            addresses: activities
                .iter()
                .enumerate()
                .map(|(index, activity)| (*activity, address(number, index)))
                .collect(),
            gateway: [10, 77, 1 + number as u8, 1],
            prefix: 24,
            protected: Vec::new(),
            doors: Vec::new(),
            tenant_of: &tenant_of,
        };
        let network = network::connect(engine, leak(driver), settings).expect("there is a place for unowned frames");
        let link = leak(ZoneLink::new(InterruptLine { core: 0, line: LINE }));
        let id = network::add_link(engine, network.net, link, network::Role::Neighbour).expect("it is the first link");
        Rc::new(Zone { number, engine, activities, network, link, id, card })
    }

    /// Links it to the other zone.
    pub fn connect(&self, arena: Arc<SharedArena>) {
        let addresses: Vec<_> = (0..TENANTS).map(|tenant| address(1 - self.number, tenant)).collect();
        self.link.attach(arena).expect("it is not attached");
        self.network.net.connect_link(self.id, &addresses).expect("there is one other zone");
    }

    /// Its link goes down: the other end is gone.
    pub fn disconnect(&self) {
        self.network.net.disconnect_link(self.id);
        self.link.detach();
    }

    /// The other zone is gone for good.
    pub fn forget(&self) {
        self.disconnect();
        self.network.net.forget_link(self.id);
    }

    /// Returns the link's figures.
    pub fn figures(&self) -> ZoneLinkStatistics {
        self.link.statistics()
    }

    /// Checks that the bill adds up: no cycle is unaccounted for, and the tenants' bytes at the gate are the link's.
    ///
    /// # Panics
    /// If it does not.
    pub fn check_bill(&self) {
        let accounts = self.engine.accounts();
        let mut billed = 0;
        for line in accounts.lines() {
            let partition = line.partition();
            assert_eq!(partition.unattributed(), 0, "zone {}: {partition:?}", self.number);
            let gate = |activity: &ActivityId| line.table().cell(*activity, id(Resource::ZoneLink)).get(Column::Bytes);
            billed += self.activities.iter().map(gate).sum::<u64>();
        }
        let figures = self.figures();
        if figures.dropped_sending == 0 {
            assert_eq!(billed, figures.sent_bytes, "zone {}: bytes at the gate", self.number);
        }
        assert!(billed >= figures.sent_bytes, "zone {}: {billed} bytes at the gate, {figures:?}", self.number);
    }

    /// Returns the open sockets of all tenants.
    pub fn sockets(&self) -> u64 {
        self.network.net.statistics().iter().map(|(_, figures)| figures.sockets).sum()
    }
}
