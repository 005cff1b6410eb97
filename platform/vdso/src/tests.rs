//! The image as a C library sees it: found by its dynamic section, called through its symbols, on the host.

extern crate std;

use crate::{ClockData, image};
use gyre_platform::ClockScale;
use std::{string::String, vec::Vec};
use zerocopy::IntoBytes;

const PAGE: usize = 4096;
const SCALE: ClockScale = ClockScale {
    cycles_per_ms: 2_300_000,
    ns_per_cycle: (1_000_000 << 32) / 2_300_000,
    base_ns: 1_700_000_000_000_000_000,
    tells_core: false,
};

unsafe extern "C" {
    fn mmap(at: *mut u8, bytes: usize, rights: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
}

/// Image and data in executable memory; the image's start.
fn mapped() -> usize {
    let bytes = image();
    assert!(bytes.len() <= PAGE);
    // SAFETY: fresh private memory (PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS), large enough for both.
    unsafe {
        let at = mmap(core::ptr::null_mut(), 2 * PAGE, 7, 0x22, -1, 0);
        assert_ne!(at.addr(), usize::MAX);
        let data = ClockData::new(SCALE);
        core::ptr::copy_nonoverlapping(data.as_bytes().as_ptr(), at.add(PAGE), size_of::<ClockData>());
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        at.addr()
    }
}

fn word(at: usize) -> u64 {
    u64::from_le_bytes(image()[at..at + 8].try_into().unwrap())
}

fn half(at: usize) -> u32 {
    u32::from_le_bytes(image()[at..at + 4].try_into().unwrap())
}

fn short(at: usize) -> u16 {
    u16::from_le_bytes(image()[at..at + 2].try_into().unwrap())
}

fn string(at: usize) -> String {
    let bytes: Vec<u8> = image()[at..].iter().copied().take_while(|byte| *byte != 0).collect();
    String::from_utf8(bytes).unwrap()
}

/// A value of the dynamic section.
fn dynamic(key: u64) -> usize {
    let header = (0..usize::from(short(56))).map(|number| 64 + 56 * number).find(|at| half(*at) == 2).unwrap();
    let (start, count) = (word(header + 8) as usize, word(header + 32) as usize / 16);
    let entry = (0..count).map(|number| start + 16 * number).find(|at| word(*at) == key).unwrap();
    word(entry + 8) as usize
}

/// The hash of a name (System V ABI, chapter 5).
fn hash(name: &str) -> u32 {
    name.bytes().fold(0u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

/// Looks a name up by the hash table, as C libraries do, and checks its version.
fn find(name: &str) -> usize {
    let (table, symbols, strings) = (dynamic(4), dynamic(6), dynamic(5));
    let buckets = half(table);
    let mut index = half(table + 8 + 4 * (hash(name) % buckets) as usize) as usize;
    while index != 0 {
        let symbol = symbols + 24 * index;
        if string(strings + half(symbol) as usize) == name {
            let version = short(dynamic(0x6fff_fff0) + 2 * index);
            assert_eq!(version_name(version), "LINUX_2.6");
            return word(symbol + 8) as usize;
        }
        index = half(table + 8 + 4 * (buckets as usize + index)) as usize;
    }
    panic!("{name} is not there");
}

fn version_name(wanted: u16) -> String {
    let mut at = dynamic(0x6fff_fffc);
    loop {
        if short(at + 4) == wanted {
            let name = string(dynamic(5) + half(at + half(at + 12) as usize) as usize);
            assert_eq!(half(at + 8), hash(&name));
            return name;
        }
        assert_ne!(half(at + 16), 0, "no version {wanted}");
        at += half(at + 16) as usize;
    }
}

fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn monotonic_ns(cycles: u64) -> u64 {
    (u128::from(cycles) * 1_000_000 / u128::from(SCALE.cycles_per_ms)) as u64
}

fn wall_ns(cycles: u64) -> u64 {
    SCALE.base_ns + ((u128::from(cycles) * u128::from(SCALE.ns_per_cycle)) >> 32) as u64
}

fn call(name: &str, first: usize, second: usize) -> i64 {
    // SAFETY: the image's functions take two words at most and keep to the C calling convention.
    let function: extern "C" fn(usize, usize) -> i64 = unsafe { core::mem::transmute(mapped() + find(name)) };
    function(first, second)
}

#[test]
fn clocks_lie_between_two_looks_at_the_counter() {
    for name in ["__vdso_clock_gettime", "clock_gettime"] {
        for (clock, formula) in [
            (1, monotonic_ns as fn(u64) -> u64),
            (4, monotonic_ns),
            (6, monotonic_ns),
            (7, monotonic_ns),
            (0, wall_ns),
            (5, wall_ns),
            (11, wall_ns),
        ] {
            let mut time = [0u64; 2];
            let before = formula(cycles());
            assert_eq!(call(name, clock, time.as_mut_ptr().addr()), 0);
            let after = formula(cycles());
            let ns = time[0] * 1_000_000_000 + time[1];
            assert!((before..=after).contains(&ns), "{before} {ns} {after} of clock {clock}");
            assert!(time[1] < 1_000_000_000);
        }
    }
}

#[test]
fn unknown_clocks_are_asked_of_the_kernel() {
    let mut time = [0u64; 2];
    // CLOCK_PROCESS_CPUTIME_ID exists, 10 does not.
    assert_eq!(call("__vdso_clock_gettime", 2, time.as_mut_ptr().addr()), 0);
    assert_eq!(call("__vdso_clock_gettime", 10, time.as_mut_ptr().addr()), -22);
    assert_eq!(call("__vdso_clock_gettime", 1000, time.as_mut_ptr().addr()), -22);
    assert_eq!(call("__vdso_clock_getres", 2, time.as_mut_ptr().addr()), 0);
}

#[test]
fn the_time_of_day_agrees_with_the_wall_clock_and_null_is_allowed() {
    let (mut time, mut zone) = ([0u64; 2], [7u32; 2]);
    let before = wall_ns(cycles()) / 1000;
    assert_eq!(call("__vdso_gettimeofday", time.as_mut_ptr().addr(), zone.as_mut_ptr().addr()), 0);
    let after = wall_ns(cycles()) / 1000;
    assert!((before..=after).contains(&(time[0] * 1_000_000 + time[1])));
    assert_eq!(zone, [0, 0]);
    assert_eq!(call("gettimeofday", 0, 0), 0);
    let mut seconds = 0u64;
    let answer = call("__vdso_time", (&raw mut seconds).addr(), 0);
    assert_eq!(answer as u64, seconds);
    assert!(seconds >= before / 1_000_000);
    assert!(call("time", 0, 0) as u64 >= seconds);
}

#[test]
fn resolutions_are_those_of_the_system_call() {
    for (clock, ns) in [(0, 1), (1, 1), (4, 1), (7, 1), (11, 1), (5, 4_000_000), (6, 4_000_000)] {
        let mut time = [9u64; 2];
        assert_eq!(call("__vdso_clock_getres", clock, time.as_mut_ptr().addr()), 0);
        assert_eq!(time, [0, ns], "clock {clock}");
        assert_eq!(call("clock_getres", clock, 0), 0);
    }
}

#[test]
fn the_core_is_asked_of_the_kernel_where_the_counter_does_not_tell_it() {
    let (mut core, mut node) = (u32::MAX, u32::MAX);
    assert_eq!(call("__vdso_getcpu", (&raw mut core).addr(), (&raw mut node).addr()), 0);
    assert!(core < 1 << 16);
    assert!(find("getcpu") > 0);
}
