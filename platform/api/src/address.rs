//! Physical and virtual addresses, never mixed by type.

/// Bytes of a page and of a physical frame.
pub const PAGE_BYTES: usize = 4096;

/// First address that no user mapping may reach. The last canonical page stays unmapped, so that a system call
/// in its last bytes cannot return to a non-canonical address.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// Lowest address a user program may map (64 KiB), so that null pointers with offsets fault.
pub const USER_START: u64 = 0x1_0000;

/// A physical address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pa(pub u64);

/// A virtual address; of the kernel or a user program, as the context says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Va(pub u64);

impl Pa {
    /// The address `bytes` further on, or `None` beyond the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Pa> {
        self.0.checked_add(bytes).map(Pa)
    }
}

impl Va {
    /// The start of the page that holds this address.
    pub const fn page_start(self) -> Va {
        Va(self.0 & !(PAGE_BYTES as u64 - 1))
    }

    /// The offset in its page, in bytes.
    pub const fn page_offset(self) -> usize {
        (self.0 % PAGE_BYTES as u64) as usize
    }

    /// True for addresses that a user mapping may have.
    pub const fn is_user(self) -> bool {
        self.0 >= USER_START && self.0 < USER_END
    }
}
