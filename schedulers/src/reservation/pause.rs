//! A pause before a device for clients with a limit, after one without a limit was served.
//!
//! A program that syncs sends its next request as soon as it has the answer to the last one. If a bounded client
//! begins in between, each step of the sync waits for a whole request, which the device does not interrupt. So
//! clients with a limit wait until those without one have been silent for a while, but never for long: they get what
//! their limit says, a little later. As "anticipatory scheduling" (Iyer, Druschel, 2001), for the bounded only.

/// The time that clients without a limit take from one request's answer to the next request, ns.
const SILENCE_NS: u64 = 2_000_000;
/// The longest time that a client waits for silence, ns: as a sync of some steps takes.
const PATIENCE_NS: u64 = 20_000_000;

/// The pause of one core's order.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    is_on: bool,
    until_ns: u64,
}

impl Pause {
    /// Makes a pause that never comes, or one that comes when asked for.
    pub fn new(is_on: bool) -> Self {
        Pause { is_on, until_ns: 0 }
    }

    /// Says whether there are pauses at all.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Says that a client without a limit was served.
    pub fn begin(&mut self, now_ns: u64) {
        self.until_ns = now_ns.saturating_add(SILENCE_NS);
    }

    /// Returns when a client with a limit may be served that could have been since `due_ns`.
    pub fn ends_ns(&self, due_ns: u64) -> u64 {
        self.until_ns.clamp(due_ns, Pause::latest_ns(due_ns))
    }

    /// Returns the latest time at which such a client is served, under any load.
    pub fn latest_ns(due_ns: u64) -> u64 {
        due_ns.saturating_add(PATIENCE_NS)
    }
}
