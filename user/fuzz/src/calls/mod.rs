//! The calls, as data: one line a call. This is the place to add one.

pub mod structs;

mod files;
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
    fn no_call_stands_twice_and_none_has_more_than_six_arguments() {
        let mut seen = std::collections::BTreeSet::new();
        for call in all() {
            assert!(seen.insert(call.number), "{} ({}) stands twice", call.name, call.number);
            assert!(call.arguments.len() <= 6, "{}", call.name);
        }
    }
}
