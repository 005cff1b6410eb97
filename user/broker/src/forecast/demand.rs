//! Demands: a model of what one tenant wants of the processor.

use std::fmt;

/// How a tenant's work comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// Always more, and nobody counts it.
    Always,
    /// So many clients ask, each again as soon as it has its answer. One client is a program that beats as fast as it can.
    Clients(u32),
    /// So many a second, whatever the answers take.
    PerSecond(f64),
    /// So many a second by a clock, as frames are due.
    ByClock(f64),
    /// Nothing.
    Never,
}

/// The demand of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The tenant.
    pub tenant: String,
    /// How its work comes.
    pub arrival: Arrival,
    /// The work of one beat, ns of one core.
    pub work_ns: f64,
    /// By how much the logarithm of the work deviates.
    pub varies: f64,
    /// Time of each beat beside its work: disks, wires, other cores; ns.
    pub beside_ns: f64,
}

/// The largest work and time of a beat that is believed, ns.
const NS_MAX: f64 = 1e12;

impl Demand {
    /// Makes one that varies by a quarter.
    #[must_use]
    pub fn new(tenant: &str, arrival: Arrival, work_ns: f64) -> Demand {
        Demand { tenant: tenant.into(), arrival, work_ns, varies: 0.25, beside_ns: 0.0 }
    }

    /// Returns the demand with numbers that can be played, whatever was measured.
    #[must_use]
    pub fn sound(&self) -> Demand {
        let number = |value: f64, least: f64, most: f64| if value > least { value.min(most) } else { least };
        let arrival = match self.arrival {
            Arrival::Clients(0) => Arrival::Never,
            Arrival::Clients(count) => Arrival::Clients(count.min(100_000)),
            Arrival::PerSecond(rate) if rate > 0.0 => Arrival::PerSecond(rate.min(1e9)),
            Arrival::ByClock(rate) if rate > 0.0 => Arrival::ByClock(rate.min(1e9)),
            Arrival::PerSecond(_) | Arrival::ByClock(_) => Arrival::Never,
            other => other,
        };
        Demand {
            tenant: self.tenant.clone(),
            arrival,
            work_ns: number(self.work_ns, 1.0, NS_MAX),
            varies: number(self.varies, 0.0, 2.0),
            beside_ns: number(self.beside_ns, 0.0, NS_MAX),
        }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work_ms = self.work_ns / 1e6;
        match self.arrival {
            Arrival::Always => write!(f, "all that it can get"),
            Arrival::Never => write!(f, "nothing"),
            Arrival::Clients(1) => write!(f, "beats of {work_ms:.2} ms, one after the other"),
            Arrival::Clients(count) => write!(f, "{count} clients, {work_ms:.2} ms an answer"),
            Arrival::PerSecond(rate) => write!(f, "{rate:.1}/s of {work_ms:.2} ms"),
            Arrival::ByClock(rate) => write!(f, "{rate:.1}/s by a clock, {work_ms:.2} ms each"),
        }
    }
}
