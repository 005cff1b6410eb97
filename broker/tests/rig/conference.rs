//! A conference on 8 cores and a link of 1,500 kbit/s: nine streams, one large at a time, an indexer that wants cores, and a hog
//! that wants the link. Source: the PACORA paper's Fig. 7.

use gyre_broker::pacora::Pacora;
use gyre_broker::{Goal, Observation, Parts, Resource, ResourceSet, Sample, Tenant, TenantId, Window};

use crate::rig::{Seed, UNLIMITED, decide};

pub const STREAMS: usize = 9;
pub const TENANTS: usize = 11;
pub const SECONDS: usize = 80;
const INDEXER: usize = 9;
const HOG: usize = 10;
const BEATS: usize = 30;
const CORES: f64 = 8.0;
const KBIT: f64 = 1500.0;
const DEADLINE_MS: f64 = 33.3;
const SHARE: Parts = [1.0 / 11.0, 0.08, 0.0, 0.0, 0.0];
const LARGE: [(usize, std::ops::Range<usize>); 4] = [(0, 25..35), (1, 35..52), (2, 52..58), (3, 58..65)];

/// One stream-second in which the answers came late.
pub struct Late {
    pub stream: usize,
    pub second: usize,
}

/// The world and all that was seen of it.
pub struct Conference {
    seed: Seed,
    parts: [Parts; TENANTS],
    limits: [Parts; TENANTS],
    /// The tenant that reports ten times its response time.
    liar: Option<usize>,
    pub late: Vec<Late>,
    pub most: [Parts; TENANTS],
    /// The mean part of the link that the hog held.
    pub mean_hog: f64,
}

impl Conference {
    pub fn new(seed: u64) -> Conference {
        let (limits, most) = ([UNLIMITED; TENANTS], [[0.0; 5]; TENANTS]);
        let parts = [SHARE; TENANTS];
        Conference { seed: Seed(seed), parts, limits, liar: None, late: Vec::new(), most, mean_hog: 0.0 }
    }

    /// Lets a tenant lie, who may get at most `limit`.
    pub fn with_liar(mut self, liar: usize, limit: Parts) -> Conference {
        self.liar = Some(liar);
        self.limits[liar] = limit;
        self
    }

    pub fn run(mut self) -> Conference {
        let mut policy = Pacora::new();
        for second in 0..SECONDS {
            self.second(&mut policy, second);
        }
        self
    }

    fn second(&mut self, policy: &mut Pacora, second: usize) {
        self.note_late(second);
        let samples: Vec<Vec<Sample>> = (0..TENANTS).map(|tenant| self.samples(tenant, second)).collect();
        let tenants: Vec<Tenant<'_>> = (0..TENANTS).map(|tenant| self.tenant(tenant, &samples[tenant])).collect();
        let movable = ResourceSet::of(&[Resource::Cpu, Resource::Link]);
        let now_ns = second as u64 * 1_000_000_000;
        let window = Window { now_ns, length_ns: 1_000_000_000, movable, tenants: &tenants };
        let plan = decide(policy, &window);
        for tenant in 0..TENANTS {
            for resource in [Resource::Cpu, Resource::Link] {
                let part = plan.part(TenantId(tenant as u64), resource);
                self.parts[tenant][resource.index()] = part;
                let most = &mut self.most[tenant][resource.index()];
                *most = most.max(part);
            }
        }
        self.mean_hog += self.parts[HOG][1] / SECONDS as f64;
    }

    fn note_late(&mut self, second: usize) {
        for stream in 0..STREAMS {
            if truth_ms(stream, second, &self.parts[stream]) > 33.4 {
                self.late.push(Late { stream, second });
            }
        }
    }

    /// Returns the responses of a second: the parts that are granted vary a little, and so does the work.
    fn samples(&mut self, tenant: usize, second: usize) -> Vec<Sample> {
        let lie = if self.liar == Some(tenant) { 10.0 } else { 1.0 };
        let [cpu, link, ..] = self.parts[tenant];
        let beat = |_| {
            let mut vary = |part: f64| part * (1.0 + 0.04 * self.seed.gauss()).clamp(0.8, 1.2);
            let granted = [vary(cpu), vary(link), 0.0, 0.0, 0.0];
            let response_ms = truth_ms(tenant, second, &granted) * (1.0 + 0.05 * self.seed.gauss()) * lie;
            Sample { granted, response_ms, ..Sample::default() }
        };
        (0..BEATS).map(beat).collect()
    }

    fn tenant<'a>(&self, tenant: usize, samples: &'a [Sample]) -> Tenant<'a> {
        let stream = Goal::Response { percentile: 99.0, target_ms: DEADLINE_MS };
        let (goal, penalty) = match tenant {
            0..STREAMS => (stream, 100.0),
            INDEXER => (Goal::Soon, 1.0),
            _ => (Goal::Soon, 0.1),
        };
        let seen = Observation { beats: samples.len() as u64, samples, ..Observation::default() };
        let (limit, granted) = (self.limits[tenant], self.parts[tenant]);
        Tenant { id: TenantId(tenant as u64), goal, penalty, share: SHARE, limit, granted, seen }
    }
}

fn is_large(tenant: usize, second: usize) -> bool {
    LARGE.iter().any(|(stream, seconds)| *stream == tenant && seconds.contains(&second))
}

/// The true response time in milliseconds: a stream decodes on a core and receives over the link.
fn truth_ms(tenant: usize, second: usize, parts: &Parts) -> f64 {
    let (cores, kbit) = (parts[0] * CORES, parts[1] * KBIT);
    match tenant {
        0..STREAMS => {
            let (work, rate) = if is_large(tenant, second) { (3.0, 275.0) } else { (2.2, 90.0) };
            (work / cores).max(1.0) + 33.3 * rate * 0.93 / kbit
        }
        INDEXER => 40.0 / cores,
        _ => 30000.0 / kbit,
    }
}

/// Returns the seconds since the start, or since a stream was resized.
pub fn since_resize(second: usize) -> usize {
    let moments = LARGE.iter().flat_map(|(_, seconds)| [seconds.start, seconds.end]).chain([0]);
    moments.filter(|moment| *moment <= second).map(|moment| second - moment).min().unwrap_or(0)
}
