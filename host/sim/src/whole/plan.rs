//! What a seed makes of the machine: everything that is decided before it starts.

use gyre_config::boot::{Dispatch, Limits, Link, LogLevel, Machine, Root, Tenant, TenantKind};
use gyre_machine::random::Random;
use gyre_machine::wire::{CLEAN, Faults};

/// A millisecond, ns.
pub const MS: u64 = 1_000_000;
/// The peer's address.
pub const PEER: [u8; 4] = [10, 77, 0, 200];
/// Bits of the network.
const PREFIX: u8 = 24;

/// One seed of so many is a contest.
const CONTEST_EVERY: u64 = 8;
/// One seed of so many has a SCSI disk.
const SCSI_EVERY: u64 = 3;
/// How long a contest takes, ns.
const CONTEST_NS: u64 = 60 * MS;

/// What the disk does.
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
    /// True where requests may fail.
    pub fn is_faulty(&self) -> bool {
        self.errors + self.late > 0
    }
}

/// What the card and the wire do.
#[derive(Clone, Copy, Debug)]
pub struct WirePlan {
    /// What happens to frames on the way.
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
    /// What a look at the clock costs, ns.
    pub tick_ns: u64,
    /// How long tenants begin new work, ns.
    pub busy_ns: u64,
    /// The tenants want all of the link, so that their shares of it can be measured; nothing is lost then and nobody ends early.
    pub is_contest: bool,
    /// When the machine stops, if it does.
    pub crash_ns: Option<u64>,
    /// Which tenant is killed, and when.
    pub kill: Option<(usize, u64)>,
    /// The disk.
    pub disk: DiskPlan,
    /// The network.
    pub wire: WirePlan,
    /// The tenants.
    pub tenants: Vec<TenantPlan>,
    dispatch: Dispatch,
    depth: u16,
}

impl Plan {
    /// The plan of a seed.
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
            disk: disk(seed % SCSI_EVERY == 0, &mut random),
            wire: wire(seed, &mut random),
            tenants,
            dispatch: [Dispatch::Inline, Dispatch::Inline, Dispatch::Turns, Dispatch::Queued][random.below(4) as usize],
            depth: 2 + random.below(30) as u16,
        };
        if seed % CONTEST_EVERY == 0 { plan.contest() } else { plan }
    }

    /// Two tenants with these shares and a disk without faults, on one core.
    #[cfg(test)]
    pub fn for_disk_shares(shares: [u32; 2], is_scsi: bool, depth: u16) -> Plan {
        let plan = Plan { cores: 1, dispatch: Dispatch::Inline, depth, crash_ns: None, kill: None, ..Plan::new(1) };
        let disk = DiskPlan { latency_ns: 400_000, stalls: 0, errors: 0, late: 0, queues: 1, is_scsi };
        let memory_bytes = 16 << 20;
        let tenants = shares.map(|share| TenantPlan { share, memory_bytes, ..plan.tenants[0] }).to_vec();
        Plan { disk, tenants, ..plan }
    }

    /// The same as a contest for the link.
    fn contest(mut self) -> Plan {
        let faults = Faults { seed: self.wire.faults.seed, delay_us: self.wire.faults.delay_us, ..CLEAN };
        self.wire = WirePlan { faults, byte_ns: 30 + self.seed % 30, halts: 0, ..self.wire };
        self.tenants.iter_mut().for_each(|tenant| tenant.memory_bytes = 16 << 20);
        Plan { is_contest: true, crash_ns: None, kill: None, busy_ns: CONTEST_NS, ..self }
    }

    /// The same machine after a crash: it starts again, and neither stops nor fails.
    pub fn after_crash(&self) -> Plan {
        let disk = DiskPlan { errors: 0, late: 0, ..self.disk };
        Plan { crash_ns: None, kill: None, busy_ns: 3 * MS, disk, life: self.life + 1, ..self.clone() }
    }

    /// The description as the kernel would get it.
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
            seed: [0; 32],
            link: Link { mac: MAC, gateway: [10, 77, 0, 1], prefix_bits: PREFIX, rate_bits_per_second: None },
            disk_depth: self.depth,
            resources: Vec::new(),
            activities: Vec::new(),
            tenants,
            files: Vec::new(),
        }
    }
}

/// The card's hardware address.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A tenant's address.
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
    }
}
