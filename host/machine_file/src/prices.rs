//! The prices of what tenants use: `[prices]`.

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
};

/// Prices for bills by day and month; what has none costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// ISO 4217.
    pub currency: String,
    /// An hour of one core.
    pub core_hour: f64,
    /// A GiB of memory for an hour.
    pub gib_hour: f64,
    /// A GiB sent.
    pub gib_sent: f64,
    /// A GiB received.
    pub gib_received: f64,
    /// A GiB read from disk.
    pub gib_read: f64,
    /// A GiB written to disk.
    pub gib_written: f64,
}

/// Reads the prices.
pub(super) fn read(checker: &mut Checker, raw: &raw::Prices) -> Prices {
    let currency = raw.currency.as_ref().map_or("EUR", |text| text.get_ref().as_str()).to_owned();
    if let Some(text) = &raw.currency
        && (currency.len() != 3 || !currency.bytes().all(|letter| letter.is_ascii_uppercase()))
    {
        let message = format!("`{currency}` is no currency");
        checker.wrong(Problem::new(text.span(), message, "expected three capitals, such as \"EUR\" (ISO 4217)"));
    }
    let mut price = |value: &Option<At<f64>>| {
        let Some(value) = value else { return 0.0 };
        let (price, span) = (*value.get_ref(), value.span());
        if !price.is_finite() || price < 0.0 {
            checker.wrong(Problem::new(span, format!("{price} is no price"), "expected a number that is not below 0"));
        }
        price
    };
    Prices {
        currency,
        core_hour: price(&raw.core_hour),
        gib_hour: price(&raw.gib_hour),
        gib_sent: price(&raw.gib_sent),
        gib_received: price(&raw.gib_received),
        gib_read: price(&raw.gib_read),
        gib_written: price(&raw.gib_written),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::parse;

    fn file(prices: &str) -> String {
        format!("[prices]\n{prices}\n[image.a]\n[[tenant]]\nname = \"one\"\nshare = 1\nimage = \"a\"\n")
    }

    #[test]
    fn prices_are_read_and_checked() {
        let read = parse(Path::new("m.toml"), &file("currency = \"USD\"\ncore-hour = 0.02")).unwrap().prices.unwrap();
        assert_eq!((read.currency.as_str(), read.core_hour, read.gib_hour), ("USD", 0.02, 0.0));
        let wrong = |text: &str| parse(Path::new("m.toml"), &file(text)).is_err();
        assert!(
            wrong("currency = \"euro\"")
                && wrong("core-hour = -1.0")
                && wrong("core-hour = nan")
                && wrong("core = 1.0")
        );
    }
}
