//! Charges in the columns of FOCUS 1.0 (FinOps Open Cost and Usage Specification): a row for each tenant, day, run and thing with a price.

use super::day::{Day, Run, Sku};

const COLUMNS: [&str; 32] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SubAccountId",
    "SubAccountName",
];
/// The provider, publisher and issuer that rows name.
const PROVIDER: &str = "Gyre";
/// The currency of charges without prices (ISO 4217: no currency).
const NO_CURRENCY: &str = "XXX";

/// Writes days.
pub fn csv(days: &[Day]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for day in days {
        for run in &day.runs {
            for tenant in run.tenants.keys() {
                let rows = Sku::ALL.iter().map(|sku| row(day, run, tenant, *sku).join(",") + "\n");
                text.extend(rows);
            }
        }
    }
    text
}

fn row(day: &Day, run: &Run, tenant: &str, sku: Sku) -> [String; COLUMNS.len()] {
    let (month, next) = months(&day.day);
    let quantity = run.tenants.get(tenant).map_or(0.0, |used| sku.units(used));
    let price = run.prices.as_ref().map_or(0.0, |prices| prices.price(sku));
    let (amount, cost) = (format!("{quantity:.9}"), format!("{:.9}", quantity * price));
    let currency = run.prices.as_ref().map_or(NO_CURRENCY, |prices| &prices.currency);
    let (category, service) = service(sku);
    let word = |text: &str| text.to_owned();
    [
        cost.clone(),
        day.machine.clone(),
        day.machine.clone(),
        word(currency),
        next,
        month,
        word("Usage"),
        String::new(),
        format!("{} of tenant {tenant}", sku.name()),
        word("Usage-Based"),
        time(run.until_unix_ms),
        time(run.from_unix_ms),
        amount.clone(),
        word(sku.unit()),
        cost.clone(),
        cost.clone(),
        word(PROVIDER),
        cost,
        format!("{price:.9}"),
        word("Standard"),
        amount,
        word(sku.unit()),
        word(PROVIDER),
        word(PROVIDER),
        format!("{}/{tenant}", day.machine),
        word(tenant),
        word("Tenant"),
        word(category),
        word(service),
        word(sku.name()),
        word(tenant),
        word(tenant),
    ]
}

fn service(sku: Sku) -> (&'static str, &'static str) {
    match sku {
        Sku::Cpu | Sku::Memory => ("Compute", "Gyre machine"),
        Sku::Sent | Sku::Received => ("Networking", "Gyre network"),
        Sku::Read | Sku::Written => ("Storage", "Gyre disk"),
    }
}

fn time(unix_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the beginnings of a day's month and of the next one.
fn months(day: &str) -> (String, String) {
    let mut numbers = day.split('-').map(|word| word.parse::<u32>().unwrap_or(1));
    let (year, month) = (numbers.next().unwrap_or(1970), numbers.next().unwrap_or(1));
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (format!("{year:04}-{month:02}-01T00:00:00Z"), format!("{next_year:04}-{next:02}-01T00:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::{
        super::day::{Tariff, Use},
        *,
    };

    #[test]
    fn a_row_has_the_columns_of_focus() {
        let used = Use { core_seconds: 7200.0, ..Use::default() };
        let run = Run {
            until_unix_ms: 60_000,
            tenants: [("gold".to_owned(), used)].into(),
            prices: Some(Tariff { currency: "EUR".into(), prices: [0.25, 0.0, 0.0, 0.0, 0.0, 0.0] }),
            ..Run::default()
        };
        let text = csv(&[Day { machine: "m".into(), day: "2026-12-31".into(), runs: vec![run] }]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 1 + Sku::ALL.len());
        assert!(lines.iter().all(|line| line.len() == COLUMNS.len()), "{text}");
        let cell = |name: &str| lines[1][COLUMNS.iter().position(|column| *column == name).unwrap()];
        assert_eq!(
            (cell("BilledCost"), cell("PricingQuantity"), cell("PricingUnit")),
            ("0.500000000", "2.000000000", "Core-Hours")
        );
        assert_eq!(
            (cell("BillingPeriodStart"), cell("BillingPeriodEnd")),
            ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z")
        );
        assert_eq!((cell("ChargePeriodEnd"), cell("SubAccountName")), ("1970-01-01T00:01:00Z", "gold"));
    }
}
