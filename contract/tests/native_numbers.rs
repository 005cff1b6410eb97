//! Native calls stand in several files, and each has a number of its own.

use std::collections::BTreeMap;

const FILES: [(&str, &str); 4] = [
    ("contract/src/native.rs", include_str!("../src/native.rs")),
    ("contract/src/pulse.rs", include_str!("../src/pulse.rs")),
    ("user/cell_abi/src/device.rs", include_str!("../../user/cell_abi/src/device.rs")),
    ("user/cell_abi/src/request.rs", include_str!("../../user/cell_abi/src/request.rs")),
];

/// Names and numbers of the constants of native calls in a file of Rust.
fn calls(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, number) = line.trim().strip_prefix("pub const ")?.split_once(": u64 = 0x")?;
        let number = u64::from_str_radix(number.strip_suffix(';')?, 16).ok()?;
        (0x1000..0x1100).contains(&number).then_some((name, number))
    })
}

#[test]
fn no_two_native_calls_have_one_number() {
    let mut seen: BTreeMap<u64, &str> = BTreeMap::new();
    for (file, text) in FILES {
        for (name, number) in calls(text) {
            let before = seen.insert(number, name);
            assert_eq!(before, None, "{number:#x} of {name} in {file} is taken");
        }
    }
    assert!(seen.len() > 40, "{} calls", seen.len());
}
