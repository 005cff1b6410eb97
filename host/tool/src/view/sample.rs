//! One second of a machine, as the terminal and the page show it.

use gyre_config::{
    bill::Bill,
    monitor::{ActivityKind, Snapshot},
};
use serde::Serialize;

use crate::{bill::percent, wire::Figures};

/// One second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// What the link grants in each direction, in bits per second.
    pub link_bits_per_second: Option<u64>,
    /// Bits per second that the machine sent.
    pub sent_bits_per_second: f64,
    /// Bits per second that the machine received.
    pub received_bits_per_second: f64,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The cores; none where the machine's agent does not answer.
    pub cores: Vec<Core>,
    /// The bill since the start.
    pub bill: Option<Bill>,
    /// What is wrong, each a sentence.
    pub troubles: Vec<String>,
}

/// What is wrong with the tenants of a machine, each a sentence.
pub fn troubles(snapshot: &Snapshot) -> Vec<String> {
    snapshot.activities.iter().flat_map(gyre_config::monitor::Activity::troubles).collect()
}

/// One tenant in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// What it is entitled to among the customers, in percent; 0 for the system tenant.
    pub entitled_percent: f64,
    /// Its part of what the customers sent, in percent.
    pub sent_percent: f64,
    /// What it sent.
    pub sent_bits_per_second: f64,
    /// What it received.
    pub received_bits_per_second: f64,
    /// What has become of its first program; empty where the machine has not said.
    pub state: String,
    /// Its part of the machine's cores, in percent of all of them.
    pub cpu_percent: f64,
    /// Memory now.
    pub memory_bytes: u64,
    /// Memory that it may hold.
    pub memory_limit_bytes: u64,
    /// Messages handled for it per second.
    pub messages_per_second: f64,
    /// How long its messages waited on average, in microseconds.
    pub queued_us: f64,
}

/// One core in one second: parts in percent that sum to 100.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Core {
    /// Its index.
    pub core: u16,
    /// "gold", "scheduling", "idle", ...
    pub parts: Vec<(String, f64)>,
}

/// Everything that a sample is made of.
pub struct Window<'a> {
    /// Seconds since the start.
    pub at_s: f64,
    /// The window's length in seconds by the host's clock.
    pub seconds: f64,
    /// Names and shares of the tenants in order; the system tenant is the first and has no part in the customers' shares.
    pub shares: &'a [(String, u32)],
    /// The link's rate.
    pub link_bits_per_second: Option<u64>,
    /// The wire's counters before and after, where we hold the wire.
    pub wire: Option<(&'a [Figures], &'a [Figures])>,
    /// The machine's figures before and after, where its agent answers.
    pub machine: Option<(&'a Snapshot, &'a Snapshot)>,
}

impl Window<'_> {
    /// The tenants' shares as the machine has them now: its owner may have changed them.
    fn shares_now(&self) -> Vec<(&String, u32)> {
        let now = |name: &String| {
            let (_, machine) = self.machine?;
            machine.activities.iter().find(|activity| activity.name == *name).map(|activity| activity.share)
        };
        self.shares.iter().map(|(name, share)| (name, now(name).filter(|now| *now > 0).unwrap_or(*share))).collect()
    }
}

impl Sample {
    /// Makes the sample of a window.
    pub fn of(window: &Window) -> Self {
        let mut sample =
            Self { at_s: window.at_s, link_bits_per_second: window.link_bits_per_second, ..Self::default() };
        let shares = window.shares_now();
        let customers: u64 = shares.iter().skip(1).map(|(_, share)| u64::from(*share)).sum();
        for (index, (name, share)) in shares.iter().enumerate() {
            let entitled_percent = if index == 0 { 0.0 } else { percent((*share).into(), customers) };
            sample.tenants.push(Tenant { name: (*name).clone(), entitled_percent, ..Tenant::default() });
        }
        if let Some((before, after)) = window.machine {
            sample.machine(&after.since(before), after);
        }
        if let Some((before, after)) = window.wire {
            sample.wire(before, after, window.seconds);
        }
        sample.parts();
        sample
    }

    fn wire(&mut self, before: &[Figures], after: &[Figures], seconds: f64) {
        let rate = |after: u64, before: u64| (after.saturating_sub(before)) as f64 * 8.0 / seconds.max(1e-9);
        for (before, after) in before.iter().zip(after) {
            let sent = rate(after.sent_bytes, before.sent_bytes);
            let received = rate(after.received_bytes, before.received_bytes);
            self.sent_bits_per_second += sent;
            self.received_bits_per_second += received;
            if let Some(tenant) = self.tenants.iter_mut().find(|tenant| tenant.name == after.name) {
                (tenant.sent_bits_per_second, tenant.received_bits_per_second) = (sent, received);
            }
        }
    }

    fn machine(&mut self, window: &Snapshot, now: &Snapshot) {
        let seconds = (window.uptime_ns as f64 / 1e9).max(1e-9);
        let bill = Bill::of(window);
        for line in &bill.tenants {
            let Some(tenant) = self.tenants.iter_mut().find(|tenant| tenant.name == line.tenant) else {
                continue;
            };
            tenant.cpu_percent = percent(line.cycles, bill.machine_cycles);
            tenant.memory_bytes = line.memory_bytes;
            tenant.messages_per_second = line.messages as f64 / seconds;
            tenant.queued_us = line.queued_ns as f64 / 1000.0 / line.messages.max(1) as f64;
            tenant.sent_bits_per_second = line.sent_bytes as f64 * 8.0 / seconds;
            tenant.received_bits_per_second = line.received_bytes as f64 * 8.0 / seconds;
            let limit = now.activities.iter().find(|activity| activity.name == line.tenant);
            tenant.memory_limit_bytes = limit.map_or(0, |activity| activity.memory_bytes_limit);
            tenant.state = limit.map_or_else(String::new, |activity| activity.state.to_string());
        }
        self.cores = window.cores.iter().map(|core| parts(core, window)).collect();
        self.bill = Some(Bill::of(now));
    }

    /// Each customer's part of what all customers sent.
    fn parts(&mut self) {
        let customers = |tenant: &&mut Tenant| tenant.entitled_percent > 0.0;
        let sum: f64 = self.tenants.iter_mut().filter(customers).map(|tenant| tenant.sent_bits_per_second).sum();
        for tenant in self.tenants.iter_mut().filter(customers) {
            tenant.sent_percent = if sum > 0.0 { tenant.sent_bits_per_second * 100.0 / sum } else { 0.0 };
        }
    }
}

/// A core's time by tenant (parts of a tenant with it), then what is nobody's.
fn parts(core: &gyre_config::monitor::CoreTime, window: &Snapshot) -> Core {
    let one = Snapshot { cores: vec![core.clone()], activities: window.activities.clone(), ..Snapshot::default() };
    let bill = Bill::of(&one);
    let part = |cycles| percent(cycles, bill.machine_cycles);
    let mut parts: Vec<(String, f64)> =
        bill.tenants.iter().map(|line| (line.tenant.clone(), part(line.cycles))).collect();
    // A kernel that knows no tenants yet still has a time line.
    let kinds = window.activities.iter().filter(|activity| activity.kind == ActivityKind::Tenant).count();
    parts.retain(|(_, percent)| kinds > 0 || *percent > 0.0);
    parts.push(("infrastructure".into(), part(bill.infrastructure_cycles)));
    parts.push(("scheduling".into(), part(bill.scheduling_cycles)));
    parts.push(("interrupt".into(), part(bill.interrupt_cycles)));
    parts.push(("unattributed".into(), part(bill.unattributed_cycles)));
    parts.push(("idle".into(), part(bill.idle_cycles)));
    Core { core: core.core, parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, sent_bytes: u64) -> Figures {
        Figures { name: name.into(), sent_bytes, ..Figures::default() }
    }

    #[test]
    fn parts_of_the_link_are_among_the_customers_only() {
        let shares = [("system".to_owned(), 5), ("gold".to_owned(), 60), ("silver".to_owned(), 40)];
        let before = [figures("system", 0), figures("gold", 100), figures("silver", 0)];
        let after = [figures("system", 1_000_000), figures("gold", 400), figures("silver", 100)];
        let window = Window {
            at_s: 1.0,
            seconds: 2.0,
            shares: &shares,
            link_bits_per_second: None,
            wire: Some((&before, &after)),
            machine: None,
        };
        let sample = Sample::of(&window);
        assert_eq!(sample.tenants[1].sent_percent, 75.0);
        assert_eq!(sample.tenants[2].sent_percent, 25.0);
        assert_eq!(sample.tenants[1].sent_bits_per_second, 1200.0);
        assert_eq!((sample.tenants[1].entitled_percent, sample.tenants[0].entitled_percent), (60.0, 0.0));
    }
}
