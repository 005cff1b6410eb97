//! The sum of a day or a month: what each tenant used, and what that costs by the prices that held.

use std::collections::BTreeMap;

use gyre_machine_file::units::show_bytes;
use serde::Serialize;

use super::day::{Day, Sku, Use};
use crate::{
    package,
    ui::{self, Paint, paint},
};

/// A day or a month of a machine.
#[derive(Debug, PartialEq, Serialize)]
pub struct Period {
    machine: String,
    span: String,
    days: usize,
    /// The currency; none if nothing had a price.
    currency: Option<String>,
    tenants: BTreeMap<String, Account>,
    /// Core time of the machine, s.
    core_seconds: f64,
    /// The versions that ran.
    versions: Vec<String>,
}

/// A tenant's sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Account {
    #[serde(flatten)]
    used: Use,
    cost: f64,
}

impl Period {
    /// Sums days up.
    pub fn of(span: &str, days: &[Day]) -> Self {
        let mut period = Self {
            machine: days.first().map_or_else(String::new, |day| day.machine.clone()),
            span: span.to_owned(),
            days: days.len(),
            currency: None,
            tenants: BTreeMap::new(),
            core_seconds: 0.0,
            versions: vec![],
        };
        for run in days.iter().flat_map(|day| &day.runs) {
            period.core_seconds += run.core_seconds;
            period.versions.push(run.version.clone());
            if let Some(prices) = &run.prices {
                period.currency.get_or_insert_with(|| prices.currency.clone());
            }
            for (name, used) in &run.tenants {
                let account = period.tenants.entry(name.clone()).or_default();
                account.used.add(used);
                account.cost += run.prices.as_ref().map_or(0.0, |prices| prices.cost(used));
            }
        }
        period.versions.sort();
        period.versions.dedup();
        period
    }

    /// Writes it for people.
    pub fn table(&self) -> String {
        let currency = self.currency.as_deref();
        let head = ["", "core hours", "GiB hours", "sent", "received", "disk read", "written"].map(str::to_owned);
        let mut rows = vec![head.into_iter().chain(currency.map(str::to_owned)).collect::<Vec<_>>()];
        let mut all = Account::default();
        for (name, account) in &self.tenants {
            all.used.add(&account.used);
            all.cost += account.cost;
            rows.push(row(name, account, currency));
        }
        rows.push(row("all tenants", &all, currency));
        let days = if self.days == 1 { "1 day".to_owned() } else { format!("{} days", self.days) };
        let title = format!("Bill of {} for {} ({days} with runs)", self.machine, self.span);
        let whole = format!(
            "the machine had {:.4} core hours; ran: {}; by {}",
            self.core_seconds / 3600.0,
            self.versions.join(", "),
            package::writer()
        );
        format!("{}\n{}{whole}\n", paint(Paint::Bold, &title), ui::table(&rows))
    }
}

fn row(name: &str, account: &Account, currency: Option<&str>) -> Vec<String> {
    let used = &account.used;
    let bytes = [used.sent_bytes, used.received_bytes, used.read_bytes, used.written_bytes].map(show_bytes);
    let hours = [Sku::Cpu, Sku::Memory].map(|sku| format!("{:.4}", sku.units(used)));
    let cost = currency.map(|_| format!("{:.4}", account.cost));
    [name.to_owned()].into_iter().chain(hours).chain(bytes).chain(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::day::{Run, Tariff},
        *,
    };

    fn day(prices: Option<Tariff>, seconds: f64) -> Day {
        let used = Use { core_seconds: seconds, sent_bytes: 1 << 30, ..Use::default() };
        let run = Run { tenants: [("gold".to_owned(), used)].into(), prices, version: "1".into(), ..Run::default() };
        Day { machine: "m".into(), day: "2026-11-26".into(), runs: vec![run] }
    }

    #[test]
    fn a_month_is_the_sum_of_its_days_at_the_prices_of_their_time() {
        let prices = |core| Some(Tariff { currency: "EUR".into(), prices: [core, 0.0, 0.5, 0.0, 0.0, 0.0] });
        let month = Period::of("2026-11", &[day(prices(1.0), 3600.0), day(prices(2.0), 1800.0), day(None, 3600.0)]);
        let gold = month.tenants["gold"];
        assert_eq!((gold.used.core_seconds, gold.used.sent_bytes), (9000.0, 3 << 30));
        assert!((gold.cost - 3.0).abs() < 1e-9, "{}", gold.cost);
        let text = month.table();
        assert!(text.contains("EUR") && text.contains("2.5000") && text.contains("3 days"), "{text}");
        assert!(!Period::of("2026-11", &[day(None, 1.0)]).table().contains("EUR"));
    }
}
