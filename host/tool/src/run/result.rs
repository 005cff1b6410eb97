//! The result of a run: shares of the link, the clients' words, the bill.
//!
//! * [`Outcome::of`] takes stock while the machine still runs; the newest figures that there were stand in for an
//!   instance that does not answer any more.
//! * [`Outcome::show`] writes it, as a table or as JSON.
//! * [`Outcome::check`] makes a failure of what went wrong: a bill that does not add up, a tenant that did not run, a
//!   disk that failed, a zone that crashed and was not made again.
//!
//! Parts of the link are among the customers of one kernel instance: each has a card of its own.

use std::collections::BTreeMap;

use gyre_contract::{
    bill::Bill,
    monitor::Snapshot,
    zones::{View, Zones},
};
use gyre_machine_file::units;
use serde::Serialize;

use super::Running;
use crate::{
    bill::{self, Document},
    failure::{Failure, Kind, Result},
    ui::{self, Paint, paint},
    view::{
        Sample, Sampler,
        harmless::harmless,
        sample::{Zone, troubles, zone_troubles},
    },
    wire::Figures,
};

/// The result of a run, as `--json` writes it.
#[derive(Serialize)]
pub struct Outcome {
    /// The machine's name.
    pub machine: String,
    /// Seconds from QEMU's start to the first page served.
    pub first_page_s: Option<f64>,
    /// The link's rate in each direction.
    pub link_bits_per_second: Option<u64>,
    /// The wire's counters from the machine's start on.
    pub wire: Vec<Figures>,
    /// Mean parts of the link over the run in percent, by customer.
    pub sent_percent: BTreeMap<String, f64>,
    /// Mean part of the link that was used, in percent.
    pub link_used_percent: Option<f64>,
    /// The words of each tenant's load tool.
    pub clients: BTreeMap<String, String>,
    /// The bill, if the machine's agent answers; that of the supervisor, if it has zones.
    pub bill: Option<Bill>,
    /// The zones as they were at the end, each with its own bill.
    pub zones: Vec<Zone>,
    /// The wire's counters of each card, if there are several.
    pub cards: Vec<Figures>,
    /// The troubles, each a sentence.
    pub troubles: Vec<String>,
    /// Every tenant has run, and no disk has failed.
    pub is_whole: bool,
    /// Every second.
    pub samples: Vec<Sample>,
}

impl Outcome {
    /// Ends the clients and takes stock.
    pub fn of(running: &mut Running, sampler: &Sampler) -> Self {
        // The figures first: without the clients the machine is idle, and the bill would show that.
        let views = running.zones().or_else(|| sampler.zones());
        let asked = running.instances.snapshots().into_iter();
        let snapshots: Vec<Option<Snapshot>> = asked.zip(sampler.last()).map(|(asked, last)| asked.or(last)).collect();
        let known = || snapshots.iter().flatten();
        let of_zones = views.as_ref().map(zone_troubles).unwrap_or_default();
        let troubles = [sampler.told(), of_zones.clone(), known().flat_map(troubles).collect()].concat();
        let is_well = |snapshot: &Snapshot| {
            snapshot.activities.iter().all(|one| !one.state.has_failed() && one.disk_failures == 0)
        };
        let is_whole = of_zones.is_empty() && known().all(is_well);
        let zones = zones(running, views.as_ref(), &snapshots);
        let wire = running.wire.counters.read();
        let samples = sampler.history();
        Self {
            machine: running.description.machine.name.clone(),
            first_page_s: running.first_page.map(|time| time.as_secs_f64()),
            link_bits_per_second: running.description.machine.link.rate_bits_per_second,
            wire,
            sent_percent: mean_parts(&samples),
            link_used_percent: mean_used(&samples),
            clients: running.stop_clients().into_iter().collect(),
            bill: snapshots.first().and_then(Option::as_ref).map(Bill::of),
            zones,
            cards: running.wire.counters.read_cards(),
            troubles,
            is_whole,
            samples,
        }
    }

    /// Writes the result for people, or as JSON.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn show(&self, json: bool) -> Result<()> {
        if json {
            return Document::of(self).print();
        }
        if self.samples.len() > 1 {
            self.show_shares();
        }
        match &self.bill {
            Some(bill) => print!("{}", bill::table(bill)),
            None => ui::warn("the machine's agent did not answer: no bill"),
        }
        self.show_zones();
        Ok(())
    }

    /// Writes, for people, the result of a machine that failed; nothing if it has none.
    pub fn show_what_there_is(&self) {
        if self.samples.iter().any(|sample| sample.sent_bits_per_second > 0.0) {
            self.show_shares();
        }
        if let Some(bill) = &self.bill {
            print!("{}", bill::table(bill));
        }
        self.show_zones();
    }

    fn show_zones(&self) {
        for zone in &self.zones {
            match &zone.bill {
                Some(bill) => print!("{}", bill::table(bill)),
                None => ui::warn(&format!("zone {} is {}: no bill", zone.name, zone.state)),
            }
        }
    }

    fn show_shares(&self) {
        println!("{}\n{}", paint(Paint::Bold, "Part of the link over the run"), ui::table(&self.rows()));
    }

    /// Returns the bill for a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn plain_bill(&self) -> Result<String> {
        self.bill.as_ref().map(bill::plain).ok_or_else(|| Failure::new("the machine's agent did not answer: no bill"))
    }

    /// Checks that the bill, if there is one, adds up.
    ///
    /// # Errors
    /// When it does not.
    pub fn check(&self) -> Result<()> {
        self.bill.iter().chain(self.zones.iter().filter_map(|zone| zone.bill.as_ref())).try_for_each(bill::check)?;
        if self.is_whole {
            return Ok(());
        }
        let help = "docs/guide/when-something-fails.md says what to do";
        let text = harmless(&self.troubles.join("; "));
        Err(Failure::with_help(text, help).kind(Kind::Tenant))
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = ["", "entitled", "got", "sent", "requests/s", "p50", "p99"].map(str::to_owned).to_vec();
        let tenants = self.samples.last().map_or(&[][..], |sample| &sample.tenants);
        let customers = tenants.iter().filter(|tenant| tenant.entitled_percent > 0.0);
        let rows = customers.map(|tenant| self.row(&tenant.name, tenant.entitled_percent));
        let used = self.link_used_percent.map(|used| vec!["link used".into(), String::new(), format!("{used:.2} %")]);
        [head].into_iter().chain(rows).chain(used).collect()
    }

    fn row(&self, name: &str, entitled: f64) -> Vec<String> {
        let got = self.sent_percent.get(name).copied().unwrap_or(0.0);
        let sent = self.wire.iter().find(|row| row.name == name).map_or(0, |row| row.sent_bytes);
        let said = self.clients.get(name).map_or("", String::as_str);
        let words = ["Requests/sec:", "50%", "99%"].map(|word| word_after(said, word));
        let figures = [format!("{entitled:.1} %"), format!("{got:.2} %"), units::show_bytes(sent)];
        [name.to_owned()].into_iter().chain(figures).chain(words).collect()
    }
}

/// Finds the word after another one in what wrk says ("Requests/sec:  24.09"); ab says it otherwise and gives nothing here.
fn word_after(said: &str, word: &str) -> String {
    let found = said.lines().find_map(|line| line.trim().strip_prefix(word));
    found.map_or("-".into(), |rest| rest.trim().to_owned())
}

/// Returns the samples without the first seconds, in which connections are made, if there are enough.
fn steady(samples: &[Sample]) -> &[Sample] {
    if samples.len() > 6 { samples.get(2..).unwrap_or(samples) } else { samples }
}

/// Returns each customer's mean part of what the customers of its instance sent.
fn mean_parts(samples: &[Sample]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<(Option<String>, String), f64> = BTreeMap::new();
    let mut wholes: BTreeMap<Option<String>, f64> = BTreeMap::new();
    for tenant in
        steady(samples).iter().flat_map(|sample| &sample.tenants).filter(|tenant| tenant.entitled_percent > 0.0)
    {
        *sums.entry((tenant.zone.clone(), tenant.name.clone())).or_default() += tenant.sent_bits_per_second;
        *wholes.entry(tenant.zone.clone()).or_default() += tenant.sent_bits_per_second;
    }
    let part = |zone: &Option<String>, sum: f64| {
        let whole = wholes.get(zone).copied().unwrap_or(0.0);
        if whole > 0.0 { sum * 100.0 / whole } else { 0.0 }
    };
    sums.into_iter().map(|((zone, name), sum)| (name, part(&zone, sum))).collect()
}

/// Returns the zones with their own bills, as far as they have said how they are.
fn zones(running: &Running, views: Option<&Zones>, snapshots: &[Option<Snapshot>]) -> Vec<Zone> {
    let of = |view: &View| {
        let at = running.instances.all.iter().position(|one| one.zone.as_ref() == Some(&view.name));
        let snapshot = at.and_then(|at| snapshots.get(at)?.as_ref());
        Zone { bill: snapshot.map(Bill::of), ..Zone::of(view) }
    };
    views.map_or_else(Vec::new, |views| views.zones.iter().map(of).collect())
}

fn mean_used(samples: &[Sample]) -> Option<f64> {
    let samples = steady(samples);
    let rate = samples.last()?.link_bits_per_second? as f64;
    let mean = samples.iter().map(|sample| sample.sent_bits_per_second).sum::<f64>() / samples.len() as f64;
    Some(mean * 100.0 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_wrk_are_found() {
        let said = "  Latency Distribution\n     50%  730.00ms\n     99%  784.09ms\nRequests/sec:     24.09\n";
        assert_eq!(word_after(said, "99%"), "784.09ms");
        assert_eq!(word_after(said, "Requests/sec:"), "24.09");
        assert_eq!(word_after("", "99%"), "-");
    }
}
