//! Numbers of bytes on a command line, which have a unit.

use gyre_machine_file::units;

use crate::failure::{Failure, Result};

/// Reads the bytes that a value of this name says.
///
/// # Errors
/// When it is none, or has no unit: a bare number is more often a mistake than a number of bytes.
pub fn size(key: &str, value: &str) -> Result<u64> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        let help = format!("say {key} '{value} MiB', if that is what you mean");
        return Err(Failure::with_help(format!("`{value}` has no unit"), help));
    }
    let wrong = |expected| Failure::with_help(format!("`{value}` makes no sense as {key}"), expected);
    units::bytes(value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        assert_eq!(size("memory", "512 MiB").unwrap(), 512 << 20);
        for (value, told) in
            [("512", "has no unit"), ("0", "has no unit"), ("", "makes no sense"), ("much", "expected a size")]
        {
            let said = format!("{:?}", size("memory", value).unwrap_err().report);
            assert!(said.contains(told), "{value}: {said}");
        }
    }
}
