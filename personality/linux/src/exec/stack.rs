//! The stack that a program begins with (System V ABI, 3.4.1): arguments, environment, auxiliary vector.

use super::load::Loaded;
use crate::Errno;
use crate::credentials::Credentials;
use alloc::vec::Vec;
use gyre_address_space::{AddressSpace, MapRequest, Options, PageIndex, Place, Provider, Rights};
use gyre_machine::{PAGE_BYTES, fill_random};
use linux_raw_sys::auxvec as raw;
use zerocopy::IntoBytes;

/// Bytes mapped at first; the rest comes by growth.
const FIRST_BYTES: u64 = 33 * PAGE_BYTES as u64;

/// The values that the new program finds on its stack.
pub(super) struct Start<'a> {
    pub(super) arguments: &'a [Vec<u8>],
    pub(super) environment: &'a [Vec<u8>],
    /// The path given to execve (AT_EXECFN).
    pub(super) path: &'a [u8],
    pub(super) loaded: &'a Loaded,
    /// The address of the vDSO (AT_SYSINFO_EHDR).
    pub(super) vdso: u64,
    pub(super) credentials: &'a Credentials,
    /// True if privileges grew (AT_SECURE).
    pub(super) is_secure: bool,
    /// Least size of a signal stack (AT_MINSIGSTKSZ).
    pub(super) frame_bytes_min: u64,
}

/// Strings one after another, each with its NUL.
pub(super) fn joined(strings: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for string in strings {
        all.extend_from_slice(string);
        all.push(0);
    }
    all
}

/// A stack that a program can begin with.
pub(super) struct Built {
    /// The stack pointer.
    pub(super) pointer: u64,
    /// The auxiliary vector on it.
    pub(super) auxiliary: Vec<u8>,
}

/// Maps the stack and fills it.
pub(super) async fn build(space: &AddressSpace, start: &Start<'_>) -> Result<Built, Errno> {
    let top = space.layout().stack_top;
    let mut area = Area::new(top);
    let path = area.push_string(start.path);
    let environment = area.push_strings(start.environment);
    let arguments = area.push_strings(start.arguments);
    let platform = area.push_string(b"x86_64");
    let mut random = [0; 16];
    fill_random(&mut random);
    let random = area.push(&random);
    let vector = auxiliary(start, path, platform, random);
    let words = [arguments.len(), environment.len(), vector.len()].into_iter().fold(3, usize::saturating_add);
    let mut table: Vec<u64> = Vec::with_capacity(words);
    table.push(arguments.len() as u64);
    table.extend(&arguments);
    table.push(0);
    table.extend(&environment);
    table.push(0);
    table.extend(&vector);
    let at = area.at().checked_sub(table.as_bytes().len() as u64).ok_or(Errno::E2BIG)? & !15;
    let bytes =
        top.saturating_sub(at).checked_next_multiple_of(PAGE_BYTES as u64).ok_or(Errno::E2BIG)?.max(FIRST_BYTES);
    map(space, top, bytes).await?;
    area.write(space).await?;
    space.copy_out(at, table.as_bytes()).await.map_err(|_| Errno::E2BIG)?;
    Ok(Built { pointer: at, auxiliary: vector.as_bytes().to_vec() })
}

async fn map(space: &AddressSpace, top: u64, bytes: u64) -> Result<(), Errno> {
    let request = MapRequest {
        place: Place::FixedNew(top.checked_sub(bytes).ok_or(Errno::E2BIG)?),
        bytes,
        rights: Rights::READ | Rights::WRITE,
        rights_max: Rights::all(),
        options: Options::GROWS_DOWN | Options::STACK,
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    };
    space.map(request).await?;
    Ok(())
}

fn auxiliary(start: &Start<'_>, path: u64, platform: u64, random: u64) -> Vec<u64> {
    let who = start.credentials;
    let entries = [
        (raw::AT_PHDR, start.loaded.headers),
        (raw::AT_PHENT, super::elf::ENTRY_BYTES as u64),
        (raw::AT_PHNUM, start.loaded.headers_count),
        (raw::AT_PAGESZ, PAGE_BYTES as u64),
        (raw::AT_BASE, start.loaded.linker_base),
        (raw::AT_FLAGS, 0),
        (raw::AT_ENTRY, start.loaded.entry),
        (raw::AT_UID, u64::from(who.user)),
        (raw::AT_EUID, u64::from(who.user_effective)),
        (raw::AT_GID, u64::from(who.group)),
        (raw::AT_EGID, u64::from(who.group_effective)),
        (raw::AT_SECURE, u64::from(start.is_secure)),
        (raw::AT_CLKTCK, crate::task::usage::TICKS_PER_SECOND),
        (raw::AT_HWCAP, processor_features()),
        (raw::AT_RANDOM, random),
        (raw::AT_PLATFORM, platform),
        (raw::AT_EXECFN, path),
        (raw::AT_SYSINFO_EHDR, start.vdso),
        (raw::AT_MINSIGSTKSZ, start.frame_bytes_min),
        (raw::AT_NULL, 0),
    ];
    entries
        .iter()
        .filter(|(key, address)| !(*key == raw::AT_PHDR && *address == 0))
        .flat_map(|(key, value)| [u64::from(*key), *value])
        .collect()
}

/// Returns CPUID leaf 1, edx (AT_HWCAP).
fn processor_features() -> u64 {
    u64::from(core::arch::x86_64::__cpuid(1).edx)
}

/// Bytes that are pushed downwards from the top.
struct Area {
    top: u64,
    /// In reverse order.
    bytes: Vec<u8>,
}

impl Area {
    fn new(top: u64) -> Area {
        Area { top, bytes: Vec::new() }
    }

    fn at(&self) -> u64 {
        // The strings of a program are bounded far below (E2BIG).
        self.top.saturating_sub(self.bytes.len() as u64)
    }

    fn push(&mut self, data: &[u8]) -> u64 {
        self.bytes.extend(data.iter().rev());
        self.at()
    }

    fn push_string(&mut self, string: &[u8]) -> u64 {
        self.push(&[0]);
        self.push(string)
    }

    /// Pushes strings, the last one highest, as programs expect their arguments in one rising row.
    fn push_strings(&mut self, strings: &[Vec<u8>]) -> Vec<u64> {
        let mut places: Vec<u64> = strings.iter().rev().map(|string| self.push_string(string)).collect();
        places.reverse();
        places
    }

    async fn write(mut self, space: &AddressSpace) -> Result<(), Errno> {
        let at = self.at();
        self.bytes.reverse();
        space.copy_out(at, &self.bytes).await.map_err(|_| Errno::E2BIG)
    }
}
