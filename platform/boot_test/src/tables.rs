//! Page tables and the kernel's own mappings.

use crate::check;
use crate::suite::{Check, Verdict};
use alloc::format;
use core::arch::asm;
use gyre_platform::{MapError, MapFlags, Pa, USER_END, Va};
use gyre_x86_64::{Frame, PageTable, check_rights, count_low_pages, memory_statistics};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("no_kernel_page_is_writable_and_executable_or_open_to_users", kernel_rights_are_strict),
    ("protection_is_on", protection_is_on),
    ("a_table_maps_protects_and_unmaps", a_table_maps_protects_and_unmaps),
    ("a_table_refuses_bad_addresses", a_table_refuses_bad_addresses),
    ("a_dropped_table_returns_its_frames", a_dropped_table_returns_its_frames),
];

fn kernel_rights_are_strict() -> Verdict {
    check!(check_rights() == (0, 0), "writable code, user pages: {:?}", check_rights());
    check!(count_low_pages() == 0, "{} pages of the loader's mapping are left", count_low_pages());
    Ok(())
}

/// WP; SMEP, SMAP and UMIP if CPUID offers them; EFER.NXE; kernel text cannot be written.
fn protection_is_on() -> Verdict {
    let (cr0, cr4): (u64, u64);
    // SAFETY: reads two registers.
    unsafe { asm!("mov {}, cr0", "mov {}, cr4", out(reg) cr0, out(reg) cr4, options(nomem, nostack)) };
    let leaf = core::arch::x86_64::__cpuid_count(7, 0);
    check!(cr0 >> 16 & 1 == 1, "CR0.WP is off");
    for (name, offered, bit) in [("UMIP", leaf.ecx >> 2, 11), ("SMEP", leaf.ebx >> 7, 20), ("SMAP", leaf.ebx >> 20, 21)]
    {
        check!(
            cr4 >> bit & 1 == u64::from(offered & 1),
            "{name} is offered {} and set {}",
            offered & 1,
            cr4 >> bit & 1
        );
    }
    check!(cr4 >> 16 & 1 == 0 && cr4 >> 22 & 1 == 0, "FSGSBASE or PKE is on: {cr4:#x}");
    Ok(())
}

fn a_table_maps_protects_and_unmaps() -> Verdict {
    let frame = Frame::allocate(0).map_err(|_| "no frame")?;
    let mut table = PageTable::new().map_err(|error| format!("{error:?}"))?;
    let flags = MapFlags::USER | MapFlags::WRITE | MapFlags::MARK;
    table.map(Va(0x1000_0000), frame.pa(), flags).map_err(|error| format!("{error:?}"))?;
    let found = table.query(Va(0x1000_0fff)).ok_or("not found")?;
    check!(found.pa == frame.pa() && found.flags == flags, "{found:?}");
    check!(table.map(Va(0x1000_0000), frame.pa(), flags) == Err(MapError::Occupied), "mapped twice");
    let before = table.protect(Va(0x1000_0000), MapFlags::USER | MapFlags::EXECUTE).ok_or("not there")?;
    check!(before == found, "{before:?}");
    let now = table.unmap(Va(0x1000_0000)).ok_or("not there")?;
    check!(now.flags == MapFlags::USER | MapFlags::EXECUTE, "{now:?}");
    check!(table.unmap(Va(0x1000_0000)).is_none() && table.query(Va(0x1000_0000)).is_none(), "still there");
    check!(table.protect(Va(0x1000_0000), flags).is_none(), "protected nothing");
    Ok(())
}

fn a_table_refuses_bad_addresses() -> Verdict {
    let mut table = PageTable::new().map_err(|error| format!("{error:?}"))?;
    let bad = [
        (USER_END, 0x1000),
        (0xffff_8000_0000_0000, 0x1000),
        (u64::MAX - 4095, 0x1000),
        (0x1001, 0x1000),
        (0x1000, 0x1001),
        (0x1000, 1 << 60),
    ];
    for (va, pa) in bad {
        check!(table.map(Va(va), Pa(pa), MapFlags::USER) == Err(MapError::BadAddress), "{va:#x} to {pa:#x} was mapped");
    }
    check!(table.query(Va(0xffff_ffff_8020_0000)).is_none(), "the kernel's half can be asked for");
    check!(table.unmap(Va(0xffff_ffff_8020_0000)).is_none(), "the kernel's half can be unmapped");
    Ok(())
}

fn a_dropped_table_returns_its_frames() -> Verdict {
    let before = memory_statistics().free_bytes;
    {
        let mut table = PageTable::new().map_err(|error| format!("{error:?}"))?;
        for page in 0..200u64 {
            table
                .map(Va(0x1_0000 + page * 0x4123_4000), Pa(0x1000), MapFlags::USER)
                .map_err(|error| format!("{error:?}"))?;
        }
        check!(memory_statistics().free_bytes + (200 << 12) < before, "tables cost nothing");
    }
    let after = memory_statistics().free_bytes;
    check!(before == after, "{} bytes lost", before - after);
    Ok(())
}
