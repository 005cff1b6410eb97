//! Frames, the heap, the meter and copies.
//!
//! The order matters in two places: the check that takes all memory runs before the one about the boot module, since a
//! module that was not kept out of the free memory would be overwritten by then. The meter, once set, stays for all
//! later checks.
//!
//! * A check that takes memory gives all back and compares the statistics.
//! * Small differences are frames that slabs and lists keep; each check names its bound.
//! * [`METER`] counts for four payers and refuses beyond a budget. Kernel objects are charged but not refused.

use crate::check;
use crate::suite::{Check, Verdict};
use alloc::alloc::Layout;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use gyre_platform::{MemoryMeter, OutOfMemory, PAGE_BYTES};
use gyre_x86_64::{DmaBuffer, Frame, boot_module, command_line_value, memory_statistics, set_memory_meter};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("frames_are_zeroed_and_come_back", frames_are_zeroed_and_come_back),
    ("frames_run_out_with_an_error_and_all_return", frames_run_out_with_an_error_and_all_return),
    ("the_heap_keeps_contents_apart_and_returns_everything", the_heap_keeps_contents_apart),
    ("the_heap_refuses_what_is_too_large", the_heap_refuses_what_is_too_large),
    ("the_meter_sees_every_byte_and_its_payer", the_meter_sees_every_byte_and_its_payer),
    ("copies_of_all_lengths_and_overlaps_are_right", copies_are_right),
    ("the_boot_module_arrives_whole_and_stays", the_boot_module_arrives_whole),
    ("shared_buffers_are_bounded", shared_buffers_are_bounded),
];

fn frames_are_zeroed_and_come_back() -> Verdict {
    let before = memory_statistics();
    for order in 0..=10u8 {
        let mut frame = Frame::allocate(order).map_err(|_| format!("order {order} not to be had"))?;
        check!(frame.bytes() == PAGE_BYTES << order, "wrong length");
        check!(frame.pa().0 % frame.bytes() as u64 == 0, "order {order} not aligned");
        check!(frame.as_slice().iter().all(|byte| *byte == 0), "order {order} not zeroed");
        frame.as_mut_slice().fill(0xa5);
    }
    check!(Frame::allocate(16).is_err() && Frame::allocate(255).is_err(), "an order beyond the limit was given");
    let after = memory_statistics();
    check!(before.free_bytes == after.free_bytes, "{} bytes lost", before.free_bytes - after.free_bytes);
    Ok(())
}

fn frames_run_out_with_an_error_and_all_return() -> Verdict {
    let before = memory_statistics();
    let mut held: Vec<Frame> = Vec::new();
    held.try_reserve(before.total_bytes / PAGE_BYTES / 64 + 4096).map_err(|_| "no list")?;
    for order in [10, 6, 3, 0] {
        while held.len() < held.capacity() {
            match Frame::allocate(order) {
                Ok(frame) => held.push(frame),
                Err(OutOfMemory) => break,
            }
        }
    }
    check!(Frame::allocate(0).is_err(), "memory never ran out with {} frames held", held.len());
    let taken = held.len();
    drop(held);
    let after = memory_statistics();
    let kept = before.free_bytes.abs_diff(after.free_bytes);
    check!(kept <= 64 << 10, "{kept} bytes lost of {taken} blocks");
    Ok(())
}

fn the_heap_keeps_contents_apart() -> Verdict {
    let before = memory_statistics();
    {
        let mut held: Vec<(u8, Vec<u8>)> = Vec::new();
        for round in 0..2000usize {
            let bytes = (round * 37) % 3000 + 1;
            held.push((round as u8, vec![round as u8; bytes]));
            if round.is_multiple_of(3) {
                held.swap_remove((round * 7) % held.len());
            }
        }
        check!(held.iter().all(|(mark, bytes)| bytes.iter().all(|byte| byte == mark)), "objects overlap");
        #[repr(align(512))]
        struct Aligned(#[expect(dead_code, reason = "only its address matters")] u8);
        let aligned: Vec<Box<Aligned>> = (0..40).map(|byte| Box::new(Aligned(byte))).collect();
        check!(aligned.iter().all(|one| ((&raw const **one) as usize).is_multiple_of(512)), "alignment is lost");
    }
    let after = memory_statistics();
    check!(
        after.heap_used_bytes == before.heap_used_bytes,
        "{} bytes in use before, {} after",
        before.heap_used_bytes,
        after.heap_used_bytes
    );
    check!(after.heap_bytes <= before.heap_bytes + (256 << 10), "slabs are not given back: {}", after.heap_bytes);
    Ok(())
}

fn the_heap_refuses_what_is_too_large() -> Verdict {
    let mut list: Vec<u8> = Vec::new();
    check!(list.try_reserve(1 << 40).is_err(), "a tebibyte was granted");
    check!(list.try_reserve((128 << 20) + 1).is_err(), "more than a block was granted");
    check!(list.try_reserve(4 << 20).is_ok(), "the largest block was refused");
    Ok(())
}

/// Counts per payer; refuses if the budget is spent.
struct TestMeter {
    payer: AtomicU32,
    held: [AtomicI64; 4],
    budget: AtomicI64,
}

static METER: TestMeter =
    TestMeter { payer: AtomicU32::new(0), held: [const { AtomicI64::new(0) }; 4], budget: AtomicI64::new(i64::MAX) };

impl MemoryMeter for TestMeter {
    fn charge(&self, bytes: usize) -> Result<u32, OutOfMemory> {
        let payer = self.payer.load(Ordering::Relaxed);
        let held = &self.held[payer as usize];
        if held.load(Ordering::Relaxed) + bytes as i64 > self.budget.load(Ordering::Relaxed) {
            return Err(OutOfMemory);
        }
        held.fetch_add(bytes as i64, Ordering::Relaxed);
        Ok(payer)
    }

    fn charge_object(&self, bytes: usize) -> u32 {
        let payer = self.payer.load(Ordering::Relaxed);
        self.held[payer as usize].fetch_add(bytes as i64, Ordering::Relaxed);
        payer
    }

    fn credit(&self, owner: u32, bytes: usize) {
        self.held[owner as usize].fetch_sub(bytes as i64, Ordering::Relaxed);
    }
}

fn the_meter_sees_every_byte_and_its_payer() -> Verdict {
    let unmetered = Box::new([0u8; 100]);
    set_memory_meter(&METER);
    let held = |payer: usize| METER.held[payer].load(Ordering::Relaxed);
    let base = held(0);
    drop(unmetered);
    check!(held(0) == base, "memory from before the meter was credited");
    METER.payer.store(1, Ordering::Relaxed);
    let frame = Frame::allocate(2);
    let small = Box::new([0u8; 100]);
    let large = vec![0u8; 10_000];
    METER.payer.store(2, Ordering::Relaxed);
    let counts = (held(1), held(2));
    drop((small, large));
    let after = held(1);
    check!(frame.as_ref().is_ok_and(|frame| frame.owner() == Some(1)), "the frame's owner is lost");
    drop(frame);
    let last = (held(1), held(2));
    METER.budget.store(held(2) + 5000, Ordering::Relaxed);
    let first = Frame::allocate(0);
    let refused = Frame::allocate(0).is_err();
    let heap = Layout::new::<[u8; 2000]>();
    // SAFETY: the layout has a size.
    let object = core::hint::black_box(unsafe { alloc::alloc::alloc(heap) });
    if !object.is_null() {
        // SAFETY: taken above with this layout.
        unsafe { alloc::alloc::dealloc(object, heap) };
    }
    METER.budget.store(i64::MAX, Ordering::Relaxed);
    drop(first);
    METER.payer.store(0, Ordering::Relaxed);
    check!(counts == (16384 + 128 + 16384, 0), "charged {counts:?}");
    check!(after == 16384, "{after} left after the objects");
    check!(last == (0, 0), "{last:?} left after the frame");
    check!(refused && !object.is_null(), "beyond the budget: frame refused {refused}, kernel object {object:?}");
    Ok(())
}

fn copies_are_right() -> Verdict {
    let source: Vec<u8> = (0..2048u32).map(|number| (number * 7 + number / 256) as u8).collect();
    // Long ones go by other ways than short ones.
    for length in (0..300).chain((300..1900).step_by(13)).chain([511, 512, 513, 767, 768, 1023, 1024, 1025, 1536]) {
        for (from, to) in [(0, 0), (3, 5), (8, 1)] {
            let mut target = vec![0xeeu8; 2048];
            target[to..to + length].copy_from_slice(&source[from..from + length]);
            check!(
                target[to..to + length] == source[from..from + length] && target[to + length] == 0xee,
                "copy of {length}"
            );
            let mut moved = source.clone();
            moved.copy_within(from..from + length, to);
            check!(moved[to..to + length] == source[from..from + length], "move of {length} from {from} to {to}");
            check!(moved[to + length..] == source[to + length..], "move of {length} wrote too far");
            let mut filled = vec![1u8; 2048];
            filled[to..to + length].fill(0x5a);
            check!(filled.iter().filter(|byte| **byte == 0x5a).count() == length, "fill of {length}");
            filled[to..to + length].fill(0);
            let zeroes = filled.iter().filter(|byte| **byte == 0).count();
            check!(zeroes == length && filled[to + length..].iter().all(|byte| *byte == 1), "zeroes of {length}");
        }
    }
    Ok(())
}

fn shared_buffers_are_bounded() -> Verdict {
    let buffer = DmaBuffer::allocate(5000).map_err(|_| "no buffer")?;
    check!(buffer.bytes() == 8192, "{} bytes", buffer.bytes());
    buffer.write_u32(8190, 7);
    buffer.write_u64(usize::MAX - 3, 7);
    buffer.write_u16(8190, 0x1234);
    buffer.write_u32(4093, 0xdead_beef);
    check!(buffer.read_u16(8190) == 0x1234, "the last word is lost");
    check!(buffer.read_u32(4093) == 0xdead_beef, "an unaligned value is lost");
    check!(buffer.read_u32(8190) == 0 && buffer.read_u8(8192) == 0, "beyond the end is something");
    let mut bytes = [0; 8];
    check!(buffer.read_bytes(8188, &mut bytes) == 4 && bytes[2] == 0x34, "the tail {bytes:?}");
    Ok(())
}

/// `platform.sh` says on the command line how long the module is and what its bytes sum up to. Runs after all memory was in use
/// once, so a module that was not kept out of it would show.
fn the_boot_module_arrives_whole() -> Verdict {
    let number = |name| command_line_value(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let module = boot_module();
    let sum = module.iter().fold(0u64, |sum, byte| sum + u64::from(*byte));
    let expected = (number("module_bytes"), number("module_sum"));
    check!((module.len() as u64, sum) == expected, "{} bytes with sum {sum}, expected {expected:?}", module.len());
    Ok(())
}
