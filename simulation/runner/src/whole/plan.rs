//! The plan of a seed: everything that is decided before the machine starts.
//!
//! A plan is drawn from the seed alone, in one order: equal seeds make equal plans. It says how many cores there are, which
//! policies the resources have, the tenants with their shares and limits, the wire's and the disk's faults, and whether cores
//! leave and come back. Memory stays as it is: lots move in cells, and on the machine.
//!
//! A test may change a plan before it runs (`of_cells`, for example); nothing changes afterwards. The machine that is
//! made of it is a [`Machine`] as the kernel reads it, so that no part of the assembly knows the simulator.
//!
//! Called by the worlds of `whole` only.

use crate::arguments::Cores;
use crate::whole::failures::Failing;
use gyre_contract::boot::{
    Choice, Dispatch, Limits, Link, LogLevel, Machine, Metric, Neighbours, Orphans, Policy, ResourcePolicy, Restart,
    Root, Tenant, TenantKind, Way,
};
use gyre_machine::random::Random;
use gyre_machine::wire::{CLEAN, Faults};
use gyre_schedulers::{Listed, POLICIES};

/// A millisecond, ns.
pub const MS: u64 = 1_000_000;
/// The peer's address.
pub const PEER: [u8; 4] = [10, 77, 0, 200];
/// Bits of the network.
const PREFIX: u8 = 24;

/// One seed of so many is a contest.
const CONTEST_EVERY: u64 = 8;
/// One seed of so many has another policy of the list before its disk, each in turn.
const POLICY_EVERY: u64 = 5;
/// One seed of so many has a SCSI disk.
const SCSI_EVERY: u64 = 3;
/// In one seed of so many the kernel fails.
const FAILURE_EVERY: u64 = 2;
/// How long a contest takes, ns.
const CONTEST_NS: u64 = 60 * MS;

/// Times and faults of the disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskPlan {
    /// Usual time of a request, ns.
    pub latency_ns: u64,
    /// Of 1000 requests, how many take twenty times as long.
    pub stalls: u64,
    /// Of 1000 requests, how many fail.
    pub errors: u64,
    /// Of 1000 requests, how many are not answered within the driver's patience.
    pub late: u64,
    /// Queues that the device offers.
    pub queues: u16,
    /// A unit behind a SCSI host, not a block device.
    pub is_scsi: bool,
}

impl DiskPlan {
    /// Returns true if requests may fail.
    pub fn is_faulty(&self) -> bool {
        self.errors + self.late > 0
    }
}

/// Times and faults of the card and the wire.
#[derive(Clone, Copy, Debug)]
pub struct WirePlan {
    /// Faults on the way.
    pub faults: Faults,
    /// The card's rate, ns for each byte.
    pub byte_ns: u64,
    /// Of 1000 frames, how many are followed by a time in which the card sends nothing.
    pub halts: u64,
    /// The card computes checksums.
    pub has_checksums: bool,
}

/// One tenant.
#[derive(Clone, Copy, Debug)]
pub struct TenantPlan {
    /// Its share.
    pub share: u32,
    /// Tasks that work on files.
    pub file_tasks: usize,
    /// Tasks that fetch from the peer.
    pub fetchers: usize,
    /// Block size of its file system.
    pub block_bytes: u32,
    /// Most memory that it may have.
    pub memory_bytes: u64,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// How often it has crashed.
    pub life: u32,
    /// Cores.
    pub cores: usize,
    /// The cost of a look at the clock, ns.
    pub tick_ns: u64,
    /// How long tenants begin new work, ns.
    pub busy_ns: u64,
    /// The tenants want all of the link, so that their shares of it can be measured; nothing is lost then and no tenant ends early.
    pub is_contest: bool,
    /// When the machine stops, if it does.
    pub crash_ns: Option<u64>,
    /// Which tenant is killed, and when.
    pub kill: Option<(usize, u64)>,
    /// The failure of the kernel in work for a tenant, if there is one.
    pub failing: Option<Failing>,
    /// Its cores stay, or leave and come back.
    pub moving: Cores,
    /// The disk.
    pub disk: DiskPlan,
    /// The network.
    pub wire: WirePlan,
    /// The tenants.
    pub tenants: Vec<TenantPlan>,
    dispatch: Dispatch,
    depth: u16,
    /// The policy before the disk, if it is not the usual one.
    policy: Option<&'static Listed>,
}

impl Plan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut random = Random::new(seed, 10);
        let tenants: Vec<TenantPlan> = (0..2 + random.below(2)).map(|_| tenant(&mut random)).collect();
        let busy_ns = (15 + random.below(30)) * MS;
        let kill = random.once_in(2).then(|| (random.below(tenants.len() as u64) as usize, random.below(busy_ns)));
        let plan = Plan {
            seed,
            life: 0,
            is_contest: false,
            cores: 1 + random.below(4) as usize,
            tick_ns: 10 + random.below(60),
            busy_ns,
            crash_ns: random.once_in(2).then(|| 2 * MS + random.below(busy_ns + 10 * MS)),
            kill,
            failing: None,
            moving: Cores::Still,
            disk: disk(seed % SCSI_EVERY == 0, &mut random),
            wire: wire(seed, &mut random),
            tenants,
            dispatch: [Dispatch::Inline, Dispatch::Inline, Dispatch::Turns, Dispatch::Queued][random.below(4) as usize],
            depth: 2 + random.below(30) as u16,
            policy: (seed % POLICY_EVERY == 1).then(|| POLICIES[(seed / POLICY_EVERY) as usize % POLICIES.len()]),
        };
        if seed % CONTEST_EVERY == 0 { plan.contest() } else { plan }
    }

    /// Returns the plan with cores that move, or stay.
    pub fn with(self, moving: Cores) -> Plan {
        Plan { moving, ..self }
    }

    /// Returns the plan with a failure of the kernel in work for a tenant, in each second seed: none of a contest. Each resource has its turn.
    /// Nobody is killed then, and the machine stops only if the failure ends it, so that all others are seen to their end.
    pub fn with_failure(self) -> Plan {
        if self.seed % FAILURE_EVERY != 1 {
            return self;
        }
        let number = self.seed / FAILURE_EVERY;
        self.failing_as(number)
    }

    /// Returns the plan with the failure of this number, whatever its seed.
    pub fn failing_as(self, number: u64) -> Plan {
        let failing = Failing::of(self.seed, number, &self);
        Plan { failing: Some(failing), kill: None, crash_ns: None, is_contest: false, ..self }
    }

    /// Returns true for the tenant whose end comes in the middle of this life, if it does.
    pub fn ends_early(&self, index: usize) -> bool {
        self.kill.is_some_and(|(killed, _)| killed == index) || self.failing.is_some_and(|one| one.tenant == index)
    }

    /// Returns true if tenants keep tasks on every core: then cores stay busy. In the other half of the seeds they leave.
    pub fn binds_tasks(&self) -> bool {
        self.moving == Cores::Still || self.seed.is_multiple_of(4)
    }

    /// Two tenants with these shares and a disk without faults, on one core.
    #[cfg(test)]
    pub fn for_disk_shares(shares: [u32; 2], is_scsi: bool, depth: u16) -> Plan {
        let plan = Plan {
            cores: 1,
            dispatch: Dispatch::Inline,
            depth,
            policy: None,
            crash_ns: None,
            kill: None,
            ..Plan::new(1)
        };
        let disk = DiskPlan { latency_ns: 400_000, stalls: 0, errors: 0, late: 0, queues: 1, is_scsi };
        let memory_bytes = 16 << 20;
        let tenants = shares.map(|share| TenantPlan { share, memory_bytes, ..plan.tenants[0] }).to_vec();
        Plan { disk, tenants, ..plan }
    }

    /// Makes it that of a zone: so many cores, two tenants with memory for their buffers.
    pub fn of_zone(mut self, cores: usize) -> Plan {
        self.tenants.truncate(2);
        self.tenants.iter_mut().for_each(|tenant| tenant.memory_bytes = 64 << 20);
        Plan { cores, ..self }
    }

    /// Makes it that of a machine with cells: a tenant with memory for all of them, a disk that does not fail.
    pub fn of_cells(mut self) -> Plan {
        self.tenants.truncate(1);
        self.tenants.iter_mut().for_each(|tenant| tenant.memory_bytes = 64 << 20);
        let disk = DiskPlan { errors: 0, late: 0, is_scsi: false, ..self.disk };
        let wire = WirePlan { halts: 0, ..self.wire };
        Plan { is_contest: false, crash_ns: None, kill: None, disk, wire, ..self }
    }

    /// Makes it a contest for the link.
    fn contest(mut self) -> Plan {
        let faults = Faults { seed: self.wire.faults.seed, delay_us: self.wire.faults.delay_us, ..CLEAN };
        self.wire = WirePlan { faults, byte_ns: 30 + self.seed % 30, halts: 0, ..self.wire };
        self.tenants.iter_mut().for_each(|tenant| tenant.memory_bytes = 16 << 20);
        Plan { is_contest: true, crash_ns: None, kill: None, busy_ns: CONTEST_NS, ..self }
    }

    /// Returns the plan of the machine after a crash: it starts again, and neither stops nor fails.
    pub fn after_crash(&self) -> Plan {
        let disk = DiskPlan { errors: 0, late: 0, ..self.disk };
        Plan { crash_ns: None, kill: None, failing: None, busy_ns: 3 * MS, disk, life: self.life + 1, ..self.clone() }
    }

    /// Returns the description as the kernel would get it.
    pub fn description(&self) -> Machine {
        let tenants = self.tenants.iter().enumerate().map(|(index, plan)| describe(index, plan)).collect();
        Machine {
            name: "simulated".into(),
            cores: self.cores as u16,
            memory_bytes: 64 << 20,
            log_level: LogLevel::Warn,
            time_slice_us: 2000,
            messages: self.dispatch,
            started_unix_s: 0,
            has_percent_shares: false,
            broker: Default::default(),
            seed: [self.seed as u8; 32],
            link: Link {
                mac: MAC,
                gateway: [10, 77, 0, 1],
                prefix_bits: PREFIX,
                rate_bits_per_second: None,
                way: Way::Card,
            },
            disk_depth: self.depth,
            resources: self.policy.map(at_the_disk).into_iter().collect(),
            activities: Vec::new(),
            tenants,
            zones: Vec::new(),
            cells_bytes: 0,
            cells_runtimes: Vec::new(),
            cells_devices: vec![],
            neighbours: Vec::new(),
            served_disks: 0,
            files: Vec::new(),
            places: 0,
        }
    }
}

/// Returns a policy of the list before the disk, with all its parameters at their defaults.
fn at_the_disk(listed: &'static Listed) -> ResourcePolicy {
    ResourcePolicy {
        resource: gyre_contract::catalogue::Resource::Block,
        policy: Policy::flat(Choice::of(listed)),
        metric: Metric::Bytes,
        batch: 1,
        cores: 1,
        priority: 0,
        queue_depth: 256,
    }
}

/// The card's hardware address.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Returns a tenant's address.
pub fn address(index: usize) -> [u8; 4] {
    [10, 77, 0, 11 + index as u8]
}

fn tenant(random: &mut Random) -> TenantPlan {
    TenantPlan {
        share: 1 + random.below(50) as u32,
        file_tasks: 1 + random.below(3) as usize,
        fetchers: random.below(3) as usize,
        block_bytes: if random.once_in(2) { 1024 } else { 4096 },
        memory_bytes: if random.once_in(3) { 600 << 10 } else { 16 << 20 },
    }
}

fn disk(is_scsi: bool, random: &mut Random) -> DiskPlan {
    let is_faulty = random.once_in(4);
    DiskPlan {
        latency_ns: 5_000 + random.below(60_000),
        stalls: random.below(8),
        errors: if is_faulty { random.below(10) } else { 0 },
        late: if is_faulty { random.below(4) } else { 0 },
        queues: 1 + random.below(4) as u16,
        is_scsi,
    }
}

fn wire(seed: u64, random: &mut Random) -> WirePlan {
    let is_clean = random.once_in(3);
    let percent = |random: &mut Random, most| if is_clean { 0 } else { random.below(most) };
    let faults = Faults {
        seed: seed ^ 0x5eed,
        loss_percent: percent(random, 6),
        duplicate_percent: percent(random, 6),
        corrupt_percent: percent(random, 4),
        jitter_us: percent(random, 400),
        delay_us: 20 + random.below(300),
        ..CLEAN
    };
    WirePlan { faults, byte_ns: 1 + random.below(40), halts: percent(random, 10), has_checksums: random.once_in(2) }
}

fn describe(index: usize, plan: &TenantPlan) -> Tenant {
    Tenant {
        name: format!("tenant {index}"),
        kind: TenantKind::Customer,
        parent: None,
        share: plan.share,
        entitlements: Vec::new(),
        limits: Limits { memory_bytes: plan.memory_bytes, ..Limits::default() },
        monitor: false,
        address: address(index),
        root: Root::Volume { disk: 0, number: index as u16 + 1 },
        program: None,
        ports: Vec::new(),
        overload: None,
        cell: None,
        restart: Restart::Never,
        volumes: Vec::new(),
        orphans: Orphans::Program,
        neighbours: Neighbours::All,
        goal: None,
    }
}
