//! The calls, as data: one line a call. This is the place to add one.

pub mod structs;

mod files;
mod ipc;
mod memory;
mod native;
mod processes;
mod rings;
mod sockets;
mod times;

use crate::kinds::Call;

/// All calls, in parts.
pub const PARTS: &[&[Call]] = &[
    files::CALLS,
    ipc::CALLS,
    memory::CALLS,
    native::CALLS,
    processes::CALLS,
    rings::CALLS,
    sockets::CALLS,
    times::CALLS,
    crate::deep::CALLS,
];

/// Calls by index.
pub fn all() -> impl Iterator<Item = &'static Call> {
    PARTS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_the_kernel_offers_is_made() {
        const DOCUMENT: &str = include_str!("../../../../docs/guide/system-calls.md");
        let is_offered = |state: &str| state == "done" || state == "partly";
        for row in DOCUMENT.lines() {
            let columns: Vec<&str> = row.split('|').map(str::trim).collect();
            let (Some(Ok(number)), Some(state)) = (columns.get(1).map(|text| text.parse::<u64>()), columns.get(3))
            else {
                continue;
            };
            assert!(!is_offered(state) || all().any(|call| call.number == number), "left out: {row}");
        }
        let native = [
            include_str!("../../../../contract/src/native.rs"),
            include_str!("../../../../contract/src/trace.rs"),
            include_str!("../../../../contract/src/leases.rs"),
            include_str!("../../../cell_abi/src/request.rs"),
            include_str!("../../../cell_abi/src/device.rs"),
        ];
        let lines = native.iter().flat_map(|text| text.lines());
        let numbers = lines.filter_map(|line| line.strip_prefix("pub const ")?.split_once(": u64 = 0x10"));
        let numbers: Vec<u64> =
            numbers.filter_map(|(_, last)| u64::from_str_radix(last.trim_end_matches(';'), 16).ok()).collect();
        assert!(numbers.len() > 60);
        for number in numbers.into_iter().filter(|last| *last < 0xf0) {
            assert!(all().any(|call| call.number == 0x1000 + number), "left out: {number:#x}");
        }
    }

    #[test]
    fn no_call_stands_twice_and_none_has_more_than_six_arguments() {
        let mut seen = std::collections::BTreeSet::new();
        for call in all() {
            assert!(seen.insert(call.number), "{} ({}) stands twice", call.name, call.number);
            assert!(call.arguments.len() <= 6, "{}", call.name);
        }
    }
}
