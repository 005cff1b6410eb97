//! Places of programs, stacks and mappings: random, so that an attacker cannot know them, unless a program is debugged.

use crate::region::PAGE;
use gyre_machine::{USER_END, fill_random};

/// Room kept for the stack and its random offset, below which mappings go.
const STACK_ROOM_BYTES: u64 = 1 << 34;
/// Random bits of the place of mappings, in pages (Linux: 28).
const MAP_BITS: u32 = 28;
/// Random bits of the stack's top, in pages (1 GiB).
const STACK_BITS: u32 = 18;
/// The address of position-independent programs without randomness.
const IMAGE_BASE: u64 = 0x5555_5555_4000;

/// The places of one address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Mappings are placed below it, downwards.
    pub map_top: u64,
    /// The first address behind the stack.
    pub stack_top: u64,
    /// The address of a position-independent program.
    pub image_base: u64,
    /// Bytes between a program's end and its heap.
    pub heap_gap_bytes: u64,
}

fn random_pages(bits: u32) -> u64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    let mask = 1u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
    (u64::from_le_bytes(bytes) & mask).saturating_mul(PAGE)
}

impl Layout {
    /// Returns the layout of programs that wish to have no other one (ADDR_NO_RANDOMIZE).
    pub fn fixed() -> Layout {
        Layout {
            map_top: const { USER_END - STACK_ROOM_BYTES },
            stack_top: const { USER_END - PAGE },
            image_base: IMAGE_BASE,
            heap_gap_bytes: 0,
        }
    }

    /// Returns a random layout.
    pub fn random() -> Layout {
        Layout {
            map_top: const { USER_END - STACK_ROOM_BYTES }.saturating_sub(random_pages(MAP_BITS)),
            stack_top: const { USER_END - PAGE }.saturating_sub(random_pages(STACK_BITS)),
            image_base: IMAGE_BASE.saturating_add(random_pages(MAP_BITS)),
            heap_gap_bytes: random_pages(13),
        }
    }
}
