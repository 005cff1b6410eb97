//! The request of a process to become a cell.

/// The number of the native call, with the address of a [`CellRequest`].
pub const ENTER: u64 = 0x1050;
/// The number of the native call by which a plain cell asks for what others have by [`crate::exit`]s: the number of the exit (MORE, GIVE,
/// GIVE_CORE, GET_CORE or LEAVE) and its argument. A lot is named by its place in the list of the page.
pub const ASK: u64 = 0x105e;
/// Memory is granted in lots of so many bytes, which lie at multiples of it.
pub const LOT_BYTES: u64 = 2 << 20;

/// Bits of [`CellRequest::flags`].
pub mod flag {
    /// Ring 0 of a machine of its own.
    pub const PRIVILEGED: u32 = 1;
    /// Ring 3, for processors without virtual machines: the call returns 0 to the same program, with the page, and the lots in a window. It has no
    /// lines and no notices; its calls and faults are ordinary ones.
    pub const PLAIN: u32 = 2;
    /// A core that computes gets the interrupt [`crate::KICK_VECTOR`] when the page has news for it: [`crate::asks`]. The cell has a gate for it.
    pub const NOTICES: u32 = 4;
}

/// The request of a process to become a cell. All of it is granted, or nothing.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CellRequest {
    /// Bytes of this structure.
    pub size: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Cores for itself.
    pub cores: u32,
    /// Call lines for each core: a power of two from [`crate::LINES_MIN`] to [`crate::LINES_MAX`]; 0 for a plain cell.
    pub lines: u32,
    /// Memory for itself, bytes: whole lots.
    pub memory_bytes: u64,
    /// The address at which the shared page shall appear; that and the pages of lines behind it must be free.
    pub page: u64,
    /// Zeros.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<CellRequest>() == 64);

impl CellRequest {
    /// Reads a request from its bytes in memory.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 64]) -> CellRequest {
        let word = |at: usize| {
            let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
            eight.map_or(0, |eight| u64::from_le_bytes(*eight))
        };
        let half = |at: usize| word(at) as u32;
        CellRequest {
            size: half(0),
            flags: half(4),
            cores: half(8),
            lines: half(12),
            memory_bytes: word(16),
            page: word(24),
            reserved: [word(32), word(40), word(48), word(56)],
        }
    }
}
