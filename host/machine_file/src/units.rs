//! Numbers with units, as people write them: "512 MiB", "20 Mbit/s", "1.5 ms", "50 %".
//!
//! * Sizes are in bytes, times in nanoseconds, percentages in thousandths of a percent.
//! * [`rate`] is an amount per second: of cycles a percentage of one core. [`beats`] is one of heartbeats, [`budget`] an amount for a period.
//! * `show_...` write numbers for people, with three digits.
//!
//! A number is exact: decimal points are read without floating point. An error says what was expected, as the end of a message that
//! names the value.

use gyre_contract::policy::{Budget, Rate};

/// Reads a number of bytes: "4096", "64 KiB", "1.5 GB". Binary and decimal prefixes mean what they say.
///
/// # Errors
/// The expectation, in words.
pub fn bytes(text: &str) -> Result<u64, String> {
    let expected = "expected a size such as \"512 MiB\" or \"1 GB\"";
    scaled(text, expected, |unit| match unit {
        "" | "b" => Some(1),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        _ => None,
    })
}

/// Reads a rate in bits per second: "20 Mbit/s", "1 Gbit/s", "9600 bit/s". Bytes per second are accepted with their own unit ("2 MB/s").
///
/// # Errors
/// The expectation, in words.
pub fn bits_per_second(text: &str) -> Result<u64, String> {
    let expected = "expected a rate such as \"20 Mbit/s\" or \"1 Gbit/s\"";
    scaled(text, expected, |unit| match unit {
        "bit/s" | "bps" => Some(1),
        "kbit/s" | "kbps" => Some(1_000),
        "mbit/s" | "mbps" => Some(1_000_000),
        "gbit/s" | "gbps" => Some(1_000_000_000),
        "b/s" => Some(8),
        "kb/s" => Some(8_000),
        "mb/s" => Some(8_000_000),
        "gb/s" => Some(8_000_000_000),
        "mib/s" => Some(8 << 20),
        _ => None,
    })
}

/// Reads a duration in nanoseconds: "250 us", "1 ms", "30s", "2 min".
///
/// # Errors
/// The expectation, in words.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    let expected = "expected a duration such as \"1 ms\" or \"30s\"";
    scaled(text, expected, |unit| match unit {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" | "sec" => Some(1_000_000_000),
        "m" | "min" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    })
}

/// Reads a percentage: "50 %", "33.3%". The result is in thousandths of a percent.
///
/// # Errors
/// The expectation, in words.
pub fn percent(text: &str) -> Result<u64, String> {
    scaled(text, "expected a percentage such as \"50 %\"", |unit| (unit == "%").then_some(1_000))
}

/// Reads a count per second of an unnamed metric: "1000 /s", "2e9 /s", or a rate of bytes or bits (in bytes per second).
///
/// # Errors
/// The expectation, in words.
pub fn per_second(text: &str) -> Result<u64, String> {
    let expected = "expected an amount per second such as \"1000 /s\", \"2 MB/s\" or \"10 Mbit/s\"";
    if let Ok(bits) = bits_per_second(text) {
        return Ok(bits / 8);
    }
    scaled(text, expected, |unit| match unit {
        "/s" => Some(1),
        "k/s" => Some(1_000),
        "m/s" => Some(1_000_000),
        "g/s" => Some(1_000_000_000),
        _ => None,
    })
}

/// Reads a rate of heartbeats or answers: "30/s", "0.5 /s", "90 /min". The result is a number in 1,000 seconds.
///
/// # Errors
/// The expectation, in words.
pub fn beats(text: &str) -> Result<u64, String> {
    let minutes = scaled(text, "", |unit| (unit == "/min").then_some(1_000_000));
    match minutes {
        Ok(beats) => Ok(beats / 60_000),
        Err(_) => {
            scaled(text, "expected a rate such as \"30/s\" or \"90 /min\"", |unit| (unit == "/s").then_some(1_000))
        }
    }
}

/// Reads what may be used in a period: time of a core ("5 ms"), or bytes ("64 KiB").
///
/// # Errors
/// The expectation, in words.
pub fn budget(text: &str) -> Result<Budget, String> {
    let expected = |_| "expected the time of a core such as \"5 ms\", or a size such as \"64 KiB\"".to_owned();
    nanoseconds(text).map(Budget::Time).or_else(|_| bytes(text).map(Budget::Amount)).map_err(expected)
}

/// Reads a rate: of cycles in percent of one core ("150 %"), of anything else as [`per_second`] does.
///
/// # Errors
/// The expectation, in words.
pub fn rate(text: &str) -> Result<Rate, String> {
    match percent(text) {
        Ok(thousandths) => Ok(Rate::CoreThousandths(thousandths / 100)),
        Err(_) => per_second(text)
            .map(Rate::PerSecond)
            .map_err(|expected| format!("{expected}; of cycles also a percentage of one core such as \"150 %\"")),
    }
}

fn scaled(text: &str, expected: &str, unit: impl Fn(&str) -> Option<u64>) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let scale = unit(&rest.trim().to_lowercase()).ok_or_else(|| unit_error(rest, expected))?;
    decimal(&number.replace('_', ""), scale).ok_or_else(|| expected.to_owned())
}

fn unit_error(rest: &str, expected: &str) -> String {
    match rest.trim() {
        "" => format!("{expected} (the unit is missing)"),
        unit => format!("{expected}; there is no unit `{unit}`"),
    }
}

/// Multiplies a decimal number with a scale without floating point, so that "0.1 GB" is exact.
fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let divisor = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let exact = u128::from(whole) * u128::from(scale) + part * u128::from(scale) / divisor;
    u64::try_from(exact).ok()
}

/// Writes a number of bytes for people, in binary units: "1.5 MiB".
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    show(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Writes a rate for people: "20.0 Mbit/s".
#[must_use]
pub fn show_bits_per_second(bits: f64) -> String {
    show(bits, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

/// Writes a number of cycles or other counts for people: "1.23 G".
#[must_use]
pub fn show_count(count: u64) -> String {
    show(count as f64, 1000.0, &["", "k", "M", "G", "T", "P"]).trim_end().to_owned()
}

fn show(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    while value >= step * 0.9995 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let unit = units.get(at).unwrap_or(&"");
    let digits = if at == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_mean_what_they_say() {
        assert_eq!(bytes("512 MiB"), Ok(512 << 20));
        assert_eq!(bytes("1.5GB"), Ok(1_500_000_000));
        assert_eq!(bits_per_second("20 Mbit/s"), Ok(20_000_000));
        assert_eq!(bits_per_second("2 MB/s"), Ok(16_000_000));
        assert_eq!(nanoseconds("30s"), Ok(30_000_000_000));
        assert_eq!(nanoseconds("0.1 ms"), Ok(100_000));
        assert_eq!(percent("33.3 %"), Ok(33_300));
        assert_eq!(per_second("1000 /s"), Ok(1000));
        assert_eq!((beats("30/s"), beats("0.5 /s"), beats("90 /min")), (Ok(30_000), Ok(500), Ok(1_500)));
        assert_eq!((budget("5 ms"), budget("64 KiB")), (Ok(Budget::Time(5_000_000)), Ok(Budget::Amount(64 << 10))));
    }

    #[test]
    fn nonsense_says_what_was_expected() {
        assert!(bytes("lots").unwrap_err().contains("512 MiB"));
        assert!(bytes("12 parsecs").unwrap_err().contains("no unit `parsecs`"));
        assert!(bits_per_second("20").unwrap_err().contains("unit is missing"));
        for text in
            ["", ".", "1.", ".5 MiB", "-1 MiB", "1..2 MiB", "99999999999999999999 GB", "18446744073709551615 GiB"]
        {
            assert!(bytes(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_are_shown_with_three_digits() {
        assert_eq!(show_bytes(1536 << 10), "1.50 MiB");
        assert_eq!(show_bits_per_second(19_960_000.0), "20.0 Mbit/s");
        assert_eq!(show_count(1_234_000_000), "1.23 G");
        assert_eq!(show_count(12), "12");
        assert_eq!(show_bytes(1000), "1000 B");
    }
}
