//! One second of a machine, as the terminal and the page show it.
//!
//! * [`Sample::of`] makes the sample of one kernel instance from its figures before and after; [`Sample::join`] adds
//!   those of the others.
//! * [`Tenant`], [`Core`] and [`Zone`] are its rows. Their `zone` says whose they are.
//! * [`troubles`] and [`zone_troubles`] are sentences for the machine's owner.
//!
//! Everything here is pure: figures in, figures out.

use gyre_contract::{
    bill::Bill,
    monitor::{Activity, ActivityKind, Snapshot},
    zones::{State, View, Zones},
};
use serde::Serialize;

use super::{goals::Goals, latency::Answers};
use crate::{bill::percent, instances::full_name, wire::Figures, zone::words};

/// One second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Seconds since the machine's start; none if its agent did not answer: figures of tenants and cores are missing then.
    pub uptime_s: Option<f64>,
    /// The rate that the link grants in each direction, in bits per second.
    pub link_bits_per_second: Option<u64>,
    /// Bits per second that the machine sent.
    pub sent_bits_per_second: f64,
    /// Bits per second that the machine received.
    pub received_bits_per_second: f64,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The cores; none if the machine's agent does not answer.
    pub cores: Vec<Core>,
    /// The bill since the start.
    pub bill: Option<Bill>,
    /// The zones; none if the machine has none.
    pub zones: Vec<Zone>,
    /// Goals and the broker's last window; none if nobody has one.
    pub goals: Option<Goals>,
    /// The troubles, each a sentence.
    pub troubles: Vec<String>,
}

/// Seconds without figures that are no news: an answer that comes a little late.
const LATE_MAX: usize = 3;

/// Returns samples without the last ones that lack figures, if they are few.
pub fn settled(samples: &[Sample]) -> &[Sample] {
    let late = samples.iter().rev().take_while(|sample| sample.uptime_s.is_none()).count();
    let answered = samples.len().saturating_sub(late);
    if late <= LATE_MAX && answered > 0 { samples.get(..answered).unwrap_or(samples) } else { samples }
}

/// The part of a sample that a watcher wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// All of it but what is only shown of the last one: bill, cores, zones and goals.
    Lines,
    /// One tenant, by its full name.
    Tenant(String),
}

impl Part {
    /// Returns this part of a sample.
    pub fn of(&self, sample: Sample) -> Sample {
        let lines = |sample: Sample| Sample { bill: None, cores: vec![], zones: vec![], goals: None, ..sample };
        match self {
            Self::Whole => sample,
            Self::Lines => lines(sample),
            Self::Tenant(name) => {
                let is_it = |one: &Tenant| full_name(one.zone.as_deref(), &one.name) == *name;
                let tenants = sample.tenants.iter().filter(|one| is_it(one)).cloned().collect();
                Sample { tenants, troubles: vec![], ..lines(sample) }
            }
        }
    }
}

/// One zone now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Its state, in words.
    pub state: String,
    /// Cores that it holds.
    pub cores: usize,
    /// Memory that it holds.
    pub memory_bytes: u64,
    /// How often it was made again.
    pub restarts: u32,
    /// How often it ended otherwise than in order.
    pub crashed: u32,
    /// Seconds since its creation.
    pub uptime_s: f64,
    /// The last line that its kernel has printed.
    pub last_line: String,
    /// Its own bill since its creation; none if its agent does not answer.
    pub bill: Option<Bill>,
}

impl Zone {
    /// Makes it from what the supervisor says.
    pub fn of(view: &View) -> Self {
        Self {
            name: view.name.clone(),
            state: words::state(&view.state),
            cores: view.holds.cores.len(),
            memory_bytes: view.holds.memory_bytes,
            restarts: view.created.saturating_sub(1),
            crashed: view.crashed,
            uptime_s: if view.holds.cores.is_empty() { 0.0 } else { view.uptime_ns as f64 / 1e9 },
            ..Self::default()
        }
    }
}

/// Lists the zones that crashed and were not made again, each a sentence.
pub fn zone_troubles(zones: &Zones) -> Vec<String> {
    let crashed = zones.zones.iter().filter_map(|zone| match zone.state {
        State::Crashed { cause } => Some((zone, words::cause(cause))),
        _ => None,
    });
    let line = |zone: &View| zone.last_words.lines().next().map_or_else(String::new, |line| format!(": {line}"));
    crashed.map(|(zone, cause)| format!("zone {} does not run: {cause}{}", zone.name, line(zone))).collect()
}

/// Lists the troubles of a machine's tenants, each a sentence.
pub fn troubles(snapshot: &Snapshot) -> Vec<String> {
    snapshot.activities.iter().flat_map(gyre_contract::monitor::Activity::troubles).collect()
}

/// One tenant in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its zone; none for tenants of the supervisor, and of a machine without zones.
    pub zone: Option<String>,
    /// Its entitlement among the customers, in percent; 0 for the system tenant.
    pub entitled_percent: f64,
    /// Its part of what the customers sent, in percent.
    pub sent_percent: f64,
    /// Bits per second that it sent.
    pub sent_bits_per_second: f64,
    /// Bits per second that it received.
    pub received_bits_per_second: f64,
    /// The state of its first program; empty if the machine has not said.
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
    /// Bytes per second that it read from its disk.
    pub read_bytes_per_second: f64,
    /// Bytes per second that it wrote to its disk.
    pub written_bytes_per_second: f64,
    /// Its entitlement among the customers that sent anything in this second, in percent; 0 for who did not.
    pub entitled_now_percent: f64,
    /// TLB shootdowns that its programs caused, per second.
    pub tlb_shootdowns_per_second: f64,
    /// Its answers at TCP between the last two looks at them; none if it gave none.
    pub answers: Option<Answers>,
}

/// One core in one second: parts in percent that sum to 100.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Core {
    /// Its index in its instance.
    pub core: u16,
    /// The zone that has it, if one does.
    pub zone: Option<String>,
    /// "gold", "scheduling", "idle", ...
    pub parts: Vec<(String, f64)>,
}

/// Everything that a sample is made of.
pub struct Window<'a> {
    /// The zone that is looked at, if it is one.
    pub zone: Option<&'a str>,
    /// Seconds since the start.
    pub at_s: f64,
    /// The window's length in seconds by the host's clock.
    pub seconds: f64,
    /// Names and shares of the tenants in order; the system tenant is the first and has no part in the customers' shares.
    pub shares: &'a [(String, u32)],
    /// The link's rate.
    pub link_bits_per_second: Option<u64>,
    /// The wire's counters before and after, if this program holds the wire.
    pub wire: Option<(&'a [Figures], &'a [Figures])>,
    /// The machine's figures before and after, if its agent answers.
    pub machine: Option<(&'a Snapshot, &'a Snapshot)>,
}

impl Window<'_> {
    /// Returns the tenants with their shares as the machine has them now: its owner may have changed both.
    fn shares_now(&self) -> Vec<(&String, u32)> {
        let Some((_, machine)) = self.machine else {
            return self.shares.iter().map(|(name, share)| (name, *share)).collect();
        };
        let is_tenant = |one: &&Activity| matches!(one.kind, ActivityKind::System | ActivityKind::Tenant);
        let here = machine.activities.iter().filter(is_tenant).filter(|one| !one.state.has_left());
        let here: Vec<&Activity> = here.collect();
        let known = |name: &String| self.shares.iter().any(|(other, _)| other == name);
        let find = |name: &String| here.iter().find(|one| one.name == *name);
        // A kernel that knows no tenants yet has those of its file.
        let share = |(name, share): &'_ (String, u32)| find(name).map_or(*share, |one| one.share.max(1));
        let of_file = self.shares.iter().filter(|(name, _)| here.is_empty() || find(name).is_some());
        let of_file = of_file.map(|one| (&one.0, share(one)));
        let comers = here.iter().filter(|one| !known(&one.name)).map(|one| (&one.name, one.share));
        of_file.chain(comers).collect()
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
            let zone = window.zone.map(str::to_owned);
            sample.tenants.push(Tenant { name: (*name).clone(), zone, entitled_percent, ..Tenant::default() });
        }
        if let Some((before, after)) = window.machine {
            sample.machine(&after.since(before), after);
        }
        match window.wire {
            Some((before, after)) => sample.wire(before, after, window.seconds),
            // Without the wire the machine's own count stands in.
            None => {
                sample.sent_bits_per_second = sample.tenants.iter().map(|one| one.sent_bits_per_second).sum();
                sample.received_bits_per_second = sample.tenants.iter().map(|one| one.received_bits_per_second).sum();
            }
        }
        sample.parts();
        sample.cores.iter_mut().for_each(|core| core.zone = window.zone.map(str::to_owned));
        sample
    }

    /// Adds what the machine's other instances did in the same second. A core on which a zone runs is that zone's, which says more of it than the
    /// supervisor does.
    pub fn join(mut self, others: impl IntoIterator<Item = Self>) -> Self {
        for other in others {
            let zone = other.tenants.first().and_then(|tenant| tenant.zone.as_ref());
            // The supervisor's own core watches the zone in the zone's name: some of its time is the zone's, too.
            let is_of_zone = |core: &Core| core.parts.iter().any(|(name, part)| Some(name) == zone && *part > 50.0);
            if !other.cores.is_empty() {
                self.cores.retain(|core| core.zone.is_some() || !is_of_zone(core));
            }
            self.tenants.extend(other.tenants);
            self.cores.extend(other.cores);
        }
        self
    }

    fn wire(&mut self, before: &[Figures], after: &[Figures], seconds: f64) {
        let rate = |after: u64, before: u64| (after.saturating_sub(before)) as f64 * 8.0 / seconds.max(1e-9);
        for (before, after) in before.iter().zip(after) {
            let sent = rate(after.sent_bytes, before.sent_bytes);
            let received = rate(after.received_bytes, before.received_bytes);
            self.sent_bits_per_second += sent;
            self.received_bits_per_second += received;
            let is_it = |tenant: &&mut Tenant| full_name(tenant.zone.as_deref(), &tenant.name) == after.name;
            if let Some(tenant) = self.tenants.iter_mut().find(is_it) {
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
            tenant.read_bytes_per_second = line.read_bytes as f64 / seconds;
            tenant.written_bytes_per_second = line.written_bytes as f64 / seconds;
            let own = window.activities.iter().find(|activity| activity.name == line.tenant);
            tenant.tlb_shootdowns_per_second = own.map_or(0.0, |own| own.tlb_shootdowns as f64 / seconds);
            let limit = now.activities.iter().find(|activity| activity.name == line.tenant);
            tenant.memory_limit_bytes = limit.map_or(0, |activity| activity.memory_bytes_limit);
            tenant.state = limit.map_or_else(String::new, |activity| activity.state.to_string());
        }
        self.cores = window.cores.iter().map(|core| parts(core, window)).collect();
        self.uptime_s = Some(now.uptime_ns as f64 / 1e9);
        self.bill = Some(Bill::of(now));
    }

    /// Each customer's part of what all customers sent.
    fn parts(&mut self) {
        let customers = |tenant: &&mut Tenant| tenant.entitled_percent > 0.0;
        let sum: f64 = self.tenants.iter_mut().filter(customers).map(|tenant| tenant.sent_bits_per_second).sum();
        let wants = |tenant: &&mut Tenant| tenant.entitled_percent > 0.0 && tenant.sent_bits_per_second > 0.0;
        let wanted: f64 = self.tenants.iter_mut().filter(wants).map(|tenant| tenant.entitled_percent).sum();
        for tenant in self.tenants.iter_mut().filter(wants) {
            tenant.entitled_now_percent = tenant.entitled_percent * 100.0 / wanted.max(1e-9);
        }
        for tenant in self.tenants.iter_mut().filter(customers) {
            tenant.sent_percent = if sum > 0.0 { tenant.sent_bits_per_second * 100.0 / sum } else { 0.0 };
        }
    }
}

/// Returns a core's time by tenant (parts of a tenant with it), then the time without a tenant.
fn parts(core: &gyre_contract::monitor::CoreTime, window: &Snapshot) -> Core {
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
    Core { core: core.core, zone: None, parts }
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
            zone: None,
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

    #[test]
    fn an_answer_that_is_late_is_no_silence() {
        let samples = |answered: &[bool]| -> Vec<Sample> {
            answered.iter().map(|one| Sample { uptime_s: one.then_some(1.0), ..Sample::default() }).collect()
        };
        assert_eq!(settled(&samples(&[true, false, true, false])).len(), 3);
        assert_eq!(settled(&samples(&[true, false, false, false, false])).len(), 5, "it is silent");
        assert_eq!(settled(&samples(&[false, false])).len(), 2, "nothing is known yet");
    }

    #[test]
    fn each_instance_divides_its_own_link_and_system_tenants_are_not_mixed_up() {
        let shares = |name: &str| vec![("system".to_owned(), 5), (name.to_owned(), 60)];
        let (a, b) = (shares("gold"), shares("silver"));
        let before = ["a:system", "gold", "b:system", "silver", "other"].map(|name| figures(name, 0));
        let after = [("a:system", 10), ("gold", 400), ("b:system", 20), ("silver", 100), ("other", 0)];
        let after = after.map(|(name, sent)| figures(name, sent));
        let of = |zone, shares| {
            let wire = Some((&before[..], &after[..]));
            Sample::of(&Window {
                zone,
                at_s: 1.0,
                seconds: 8.0,
                shares,
                link_bits_per_second: None,
                wire,
                machine: None,
            })
        };
        let sample = of(Some("a"), &a).join([of(Some("b"), &b)]);
        let sent: Vec<f64> = sample.tenants.iter().map(|tenant| tenant.sent_bits_per_second).collect();
        assert_eq!(sent, [10.0, 400.0, 20.0, 100.0]);
        assert_eq!((sample.tenants[1].sent_percent, sample.tenants[3].sent_percent), (100.0, 100.0));
        assert_eq!(sample.sent_bits_per_second, 530.0);
    }

    #[test]
    fn a_core_of_a_zone_is_shown_once_as_the_zone_sees_it() {
        let core = |zone: Option<&str>, name: &str| Core {
            core: 0,
            zone: zone.map(str::to_owned),
            parts: vec![(name.into(), 60.0), ("idle".into(), 40.0)],
        };
        let tenants = vec![Tenant { name: "gold".into(), zone: Some("a".into()), ..Tenant::default() }];
        let mut own = core(None, "system");
        own.parts.push(("a".into(), 1.0));
        let supervisor = Sample { cores: vec![own, core(None, "a")], ..Sample::default() };
        let zone = Sample { tenants: tenants.clone(), cores: vec![core(Some("a"), "gold")], ..Sample::default() };
        let names = |sample: Sample| sample.cores.into_iter().map(|core| core.parts[0].0.clone()).collect::<Vec<_>>();
        assert_eq!(names(supervisor.clone().join([zone])), ["system", "gold"]);
        let silent = Sample { tenants, ..Sample::default() };
        assert_eq!(names(supervisor.join([silent])), ["system", "a"], "nobody else says anything of it");
    }
}
