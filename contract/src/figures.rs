//! The figures of one process, as the native calls give them (user/native/include/gyre.h is the same for C).
//!
//! ```text
//! offset   0  version u32 · sequence u32      even: at rest, odd: being written (mapped page only)
//!          8  updated_ns u64                  CLOCK_MONOTONIC at the last write
//!         16  period_ns u64                   between two writes of a mapped page; 0 in a buffer
//!         24  cycles_per_second u64
//!         32  process i32 · flags u32
//!         40  threads u32 · resource_count u32
//!         48  cycles, user_cycles, messages, bytes, queued_ns, memory_bytes, memory_bytes_max: u64 each
//!        104  name [u8; 24]                   ends with NUL
//!        128  resources [64 bytes each]: name [u8; 16], cycles, messages, inline_messages, bytes, queued_ns, refused: u64 each
//! ```
//! Everything is little endian. A page has 4096 bytes, so that up to 32 resources and room for more fit.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of [`Figures`].
pub const VERSION: u32 = 1;
/// Resources that [`Figures`] has room for.
pub const RESOURCES_MAX: usize = 32;
/// Set in [`Figures::flags`] if the tenant has more processes than there are places for: the figures are the tenant's
/// then.
pub const OF_TENANT: u32 = 1;

/// The use of one resource by a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Resource {
    /// Its name, ends with NUL or after 16 bytes.
    pub name: [u8; 16],
    /// Cycles.
    pub cycles: u64,
    /// Messages handled for the process.
    pub messages: u64,
    /// Of these, messages handled inside their sender's turn, without having been queued.
    pub inline_messages: u64,
    /// Bytes that the resource moved for it.
    pub bytes: u64,
    /// Time that its messages waited, ns.
    pub queued_ns: u64,
    /// Messages refused because of a limit.
    pub refused: u64,
}

/// The use of the machine by a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Figures {
    /// [`VERSION`].
    pub version: u32,
    /// Odd while the page is being written.
    pub sequence: u32,
    /// When it was written, ns of the monotonic clock.
    pub updated_ns: u64,
    /// Time between two writes of a mapped page, ns.
    pub period_ns: u64,
    /// Frequency of the cycles.
    pub cycles_per_second: u64,
    /// Whose figures.
    pub process: i32,
    /// [`OF_TENANT`].
    pub flags: u32,
    /// Its threads.
    pub threads: u32,
    /// How many of [`Figures::resources`] are filled.
    pub resource_count: u32,
    /// Cycles at all resources, its own program among them; without those at `runtime`, which are looks of cores that it caused.
    pub cycles: u64,
    /// Of these, cycles in its own program.
    pub user_cycles: u64,
    /// Messages handled for it.
    pub messages: u64,
    /// Bytes that resources moved for it.
    pub bytes: u64,
    /// Time that its messages waited, ns.
    pub queued_ns: u64,
    /// Memory that it took and that is not given back, kernel objects and page tables included.
    pub memory_bytes: u64,
    /// The most of it.
    pub memory_bytes_max: u64,
    /// Its program's name, ends with NUL.
    pub name: [u8; 24],
    /// By resource; only those that it used.
    pub resources: [Resource; RESOURCES_MAX],
}

const _: () = assert!(core::mem::offset_of!(Figures, cycles) == 48 && core::mem::offset_of!(Figures, name) == 104);
const _: () = assert!(core::mem::offset_of!(Figures, resources) == 128 && size_of::<Resource>() == 64);
const _: () = assert!(size_of::<Figures>() <= 4096);

impl Figures {
    /// Returns the resources that are filled.
    #[must_use]
    pub fn used(&self) -> &[Resource] {
        self.resources.get(..self.resource_count as usize).unwrap_or(&self.resources)
    }
}

impl Resource {
    /// Returns its name as text.
    #[must_use]
    pub fn name(&self) -> &str {
        text(&self.name)
    }
}

/// Returns a name up to its first NUL; bytes that are not text end it.
#[must_use]
pub fn text(name: &[u8]) -> &str {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let bytes = name.get(..end).unwrap_or(name);
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => bytes.get(..error.valid_up_to()).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or(""),
    }
}

/// Returns a name cut to fit.
#[must_use]
pub fn fixed<const N: usize>(name: &[u8]) -> [u8; N] {
    let mut field = [0; N];
    field.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_and_read_back() {
        assert_eq!(text(&fixed::<16>(b"device_interrupts")), "device_interrupt");
        assert_eq!(text(&fixed::<16>(b"tcp")), "tcp");
        assert_eq!(text(b"\xc3\xa4\xff"), "\u{e4}");
    }

    #[test]
    fn figures_are_bytes_and_back() {
        let mut bytes = [0u8; size_of::<Figures>()];
        bytes[48] = 7;
        let figures = Figures::read_from_bytes(&bytes).unwrap();
        assert_eq!((figures.cycles, figures.as_bytes()), (7, &bytes[..]));
    }
}
