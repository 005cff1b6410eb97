//! Parts of the machine as the command line names them: ranges of memory and PCI functions.

use crate::list::List;
use gyre_platform::zone::REGIONS_MAX;
use gyre_platform::{MemoryRegion, PAGE_BYTES, Pa, PciAddress};

/// PCI functions that can be named.
pub(crate) const DEVICES_MAX: usize = 64;
/// Addresses of memory end here: what the direct map has room for.
pub(crate) const PHYSICAL_END: u64 = 1 << 46;

/// Ranges of memory, none over another.
pub(crate) type Ranges = List<MemoryRegion, REGIONS_MAX>;
/// Places of PCI functions, each once.
pub(crate) type Devices = List<PciAddress, DEVICES_MAX>;

/// The form that [`ranges`] expects.
pub(crate) const RANGES: &str =
    "up to 16 ranges START+BYTES[,START+BYTES...] of whole pages (4096 bytes) that do not overlap, such as 2M+128M";
/// The form that [`devices`] expects.
pub(crate) const DEVICES: &str =
    "none, or up to 64 PCI functions BUS:DEVICE.FUNCTION[,...], each once, such as 00:04.0";

/// The form that [`page`] expects.
pub(crate) const PAGE_ADDRESS: &str = "the address of a page of memory below 4 GiB, such as 0x20200000";

/// Reads the address of a page below 4 GiB; 0 is none.
pub(crate) fn page(text: &str) -> Option<u64> {
    size(text).filter(|address| (1..1 << 32).contains(address))
}

/// Reads `START+BYTES[,START+BYTES...]`: decimal or after `0x` hexadecimal numbers, which K, M or G may follow.
pub(crate) fn ranges(text: &str) -> Option<Ranges> {
    let mut all = Ranges::new(MemoryRegion { start: Pa(0), bytes: 0 });
    for part in text.split(',') {
        let (start, bytes) = part.split_once('+')?;
        let (start, bytes) = (size(start)?, size(bytes)?);
        let end = start.checked_add(bytes).filter(|end| bytes > 0 && *end <= PHYSICAL_END)?;
        let overlaps = |other: &MemoryRegion| start < other.start.0 + other.bytes && other.start.0 < end;
        if all.as_slice().iter().any(overlaps) {
            return None;
        }
        all.push(MemoryRegion { start: Pa(start), bytes })?;
    }
    Some(all)
}

/// A number of bytes in whole pages.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => unsigned(digits, 16)?,
        None => unsigned(digits, 10)?,
    };
    number.checked_mul(1 << shift).filter(|bytes| bytes.is_multiple_of(PAGE_BYTES as u64))
}

/// A number without a sign.
fn unsigned(digits: &str, radix: u32) -> Option<u64> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, radix).ok())?
}

/// Reads `BUS:DEVICE.FUNCTION[,...]` as lspci writes them, in hexadecimal digits, or `none`.
pub(crate) fn devices(text: &str) -> Option<Devices> {
    let mut all = Devices::new(PciAddress { bus: 0, device: 0, function: 0 });
    if text == "none" {
        return Some(all);
    }
    for part in text.split(',') {
        let address = address(part).filter(|address| !all.as_slice().contains(address))?;
        all.push(address)?;
    }
    Some(all)
}

fn address(text: &str) -> Option<PciAddress> {
    let (bus, rest) = text.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let number = |digits: &str, max: u64| {
        let number = unsigned(digits, 16).filter(|number| digits.len() <= 2 && *number <= max)?;
        u8::try_from(number).ok()
    };
    Some(PciAddress { bus: number(bus, 0xff)?, device: number(device, 31)?, function: number(function, 7)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    fn read(text: &str) -> Option<Vec<(u64, u64)>> {
        Some(ranges(text)?.as_slice().iter().map(|range| (range.start.0, range.bytes)).collect())
    }

    #[test]
    fn ranges_are_read_in_their_order() {
        assert_eq!(read("2M+128M,0x8000+4K"), Some(std::vec![(2 << 20, 128 << 20), (0x8000, 4096)]));
        assert_eq!(read("0+4096"), Some(std::vec![(0, 4096)]));
        assert_eq!(read("0x100000+0x1000"), Some(std::vec![(1 << 20, 4096)]));
        assert_eq!(read("4G+1G,5G+1G"), Some(std::vec![(4 << 30, 1 << 30), (5 << 30, 1 << 30)]));
    }

    #[test]
    fn ranges_that_make_no_sense_are_none() {
        for text in [
            "",
            "2M",
            "2M+",
            "+2M",
            "2M+0",
            "2M+1",
            "1+4096",
            "2M+4096,",
            "-2M+4096",
            "2M++4096",
            "2M+128M,4M+4K",
            "2M+4K,2M+4K",
            "K+K",
            "0xM+4K",
            "1e3+4K",
            "2m+4K",
            "99999999999G+4K",
            "0x3fffffffffff000+4096",
            "18446744073709547520+4096",
            "0x+4K",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let many: Vec<_> = (0..17).map(|number| format!("{number}M+4K")).collect();
        assert!(read(&many[..16].join(",")).is_some() && read(&many.join(",")).is_none());
    }

    #[test]
    fn the_address_of_a_page_is_whole_and_below_4_gib() {
        assert_eq!(page("0x20200000"), Some(0x2020_0000));
        assert_eq!(page("514M"), Some(0x2020_0000));
        for text in ["", "0", "0x20200001", "4G", "-1", "zone"] {
            assert_eq!(page(text), None, "{text}");
        }
    }

    #[test]
    fn functions_are_read_as_lspci_writes_them() {
        let read = |text: &str| devices(text).map(|all| Vec::from(all.as_slice()));
        let at = |bus, device, function| PciAddress { bus, device, function };
        assert_eq!(read("00:04.0,ff:1f.7,0:3.0"), Some(std::vec![at(0, 4, 0), at(255, 31, 7), at(0, 3, 0)]));
        assert_eq!(read("none"), Some(Vec::new()));
        for text in [
            "",
            "00:04",
            "04.0",
            "00:20.0",
            "00:04.8",
            "100:04.0",
            "00:04.0,",
            "00:04.0,0:4.0",
            "00:+4.0",
            "00:04.0,none",
            "0000:00:04.0",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn ranges_of_any_text_are_pages_that_do_not_overlap(text in "([0-9xK+M,]{0,40}|\\PC{0,30})") {
            let all = read(&text).unwrap_or_default();
            for (number, (start, bytes)) in all.iter().enumerate() {
                prop_assert!(start % 4096 == 0 && bytes % 4096 == 0 && *bytes > 0 && start + bytes <= PHYSICAL_END);
                prop_assert!(all[..number].iter().all(|(other, length)| start + bytes <= *other || other + length <= *start));
            }
        }

        #[test]
        fn what_is_written_is_read(parts in proptest::collection::btree_map(0u64..1000, 1u64..100, 1..9)) {
            let wanted: Vec<_> = parts.iter().map(|(place, pages)| (place << 24, pages << 12)).collect();
            let text: Vec<_> = wanted.iter().map(|(start, bytes)| format!("{start:#x}+{bytes}")).collect();
            prop_assert_eq!(read(&text.join(",")), Some(wanted));
        }

        #[test]
        fn functions_of_any_text_are_within_their_numbers(text in "([0-9a-f:.,]{0,30}|\\PC{0,30})") {
            for address in devices(&text).iter().flat_map(|all| all.as_slice()) {
                prop_assert!(address.device < 32 && address.function < 8);
            }
        }
    }

    extern crate std;
}
