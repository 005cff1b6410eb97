//! Reads ELF program headers (System V ABI, chapters 4 and 5; elf(5)). A file is not believed: everything in it is
//! checked before it is used.
//!
//! Protocol of use: [`headers_place`] checks the file header (64 bytes) and tells where the program headers are; the
//! caller reads those; [`parse`] makes an [`Image`] of both. Nothing here reads a file or maps memory; [`super::load`]
//! does.
//!
//! An [`Image`] that [`parse`] answers keeps these promises:
//!
//! * Its segments rise by address and do not overlap, counted in whole pages.
//! * Each ends within user memory, has at least as many bytes in memory as in the file, and lies in its page as in the
//!   file.
//! * Its interpreter's path has 2 to 4,096 bytes.
//!
//! Left out: sections, notes, PT_GNU_STACK (stacks are never executable), and machines other than x86-64.

use crate::Errno;
use alloc::vec::Vec;
use gyre_machine::{PAGE_BYTES, USER_END};
use zerocopy::{FromBytes, Immutable, KnownLayout};

const PAGE: u64 = PAGE_BYTES as u64;
/// Bytes of the file header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of one program header.
pub const ENTRY_BYTES: usize = 56;
/// Most bytes of program headers (Linux: 64 KiB; a page is enough for any real program).
const ENTRIES_MAX: usize = PAGE_BYTES / ENTRY_BYTES;
/// Longest path of an interpreter.
pub const INTERPRETER_BYTES_MAX: u64 = 4096;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;

/// The file header (System V ABI, figure 4-3).
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    entries_at: u64,
    sections_at: u64,
    flags: u32,
    header_bytes: u16,
    entry_bytes: u16,
    entry_count: u16,
    section_bytes: u16,
    section_count: u16,
    names_index: u16,
}

/// A program header (figure 5-1).
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Entry {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    alignment: u64,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES && size_of::<Entry>() == ENTRY_BYTES);

/// A part of the file that becomes memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its first address, before the bias.
    pub address: u64,
    /// The offset of its bytes in the file.
    pub offset: u64,
    /// Bytes from the file.
    pub file_bytes: u64,
    /// Bytes in memory; zeroes behind those of the file.
    pub memory_bytes: u64,
    /// PF_R 4, PF_W 2, PF_X 1.
    pub flags: u32,
}

impl Segment {
    /// Returns the page it starts in.
    pub fn first_page(&self) -> u64 {
        self.address & !(PAGE - 1)
    }

    /// Returns the end of its last page.
    pub fn end_page(&self) -> u64 {
        // [`parse`] refuses a segment that ends beyond user memory.
        self.address.saturating_add(self.memory_bytes.saturating_add(PAGE - 1)) & !(PAGE - 1)
    }
}

/// The contents of a program file's headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// True for files that run at any address.
    pub is_relocatable: bool,
    /// The entry address, before the bias.
    pub entry: u64,
    /// Parts to map, by rising address, without overlap.
    pub segments: Vec<Segment>,
    /// The path of the dynamic linker in the file: offset and length with NUL.
    pub interpreter: Option<(u64, u64)>,
    /// Address of the program headers in memory, before the bias; 0 if they are not mapped.
    pub headers_address: u64,
    /// How many there are.
    pub headers_count: u64,
}

/// The place of the program headers in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadersPlace {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: usize,
}

/// Checks the file header and returns the place of the program headers.
///
/// # Errors
/// ENOEXEC if it is no 64-bit x86 program.
pub fn headers_place(header: &[u8]) -> Result<HeadersPlace, Errno> {
    let header = parse_header(header)?;
    Ok(HeadersPlace { offset: header.entries_at, bytes: usize::from(header.entry_count) * ENTRY_BYTES })
}

fn parse_header(bytes: &[u8]) -> Result<Header, Errno> {
    let bytes = bytes.get(..HEADER_BYTES).ok_or(Errno::ENOEXEC)?;
    let header = Header::read_from_bytes(bytes).map_err(|_| Errno::ENOEXEC)?;
    // Magic, 64-bit, little-endian, version 1.
    let good = header.ident.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1, 1])
        && (header.kind == ET_EXEC || header.kind == ET_DYN)
        && header.machine == EM_X86_64
        && usize::from(header.entry_bytes) == ENTRY_BYTES
        && (1..=ENTRIES_MAX).contains(&usize::from(header.entry_count));
    good.then_some(header).ok_or(Errno::ENOEXEC)
}

/// Reads a program from its file header and its program headers.
///
/// # Errors
/// ENOEXEC; EINVAL if segments would lie outside of user memory.
pub fn parse(header: &[u8], entries: &[u8]) -> Result<Image, Errno> {
    let header = parse_header(header)?;
    let mut image = Image {
        is_relocatable: header.kind == ET_DYN,
        entry: header.entry,
        segments: Vec::new(),
        interpreter: None,
        headers_address: 0,
        headers_count: u64::from(header.entry_count),
    };
    for bytes in entries.chunks_exact(ENTRY_BYTES) {
        let entry = Entry::read_from_bytes(bytes).map_err(|_| Errno::ENOEXEC)?;
        match entry.kind {
            PT_LOAD if entry.memory_bytes > 0 => add_segment(&mut image, &entry)?,
            PT_INTERP if image.interpreter.is_none() => image.interpreter = Some(interpreter(&entry)?),
            PT_PHDR => image.headers_address = entry.address,
            _ => {}
        }
    }
    finish(&mut image, &header)?;
    Ok(image)
}

fn interpreter(entry: &Entry) -> Result<(u64, u64), Errno> {
    match (2..=INTERPRETER_BYTES_MAX).contains(&entry.file_bytes) {
        true => Ok((entry.offset, entry.file_bytes)),
        false => Err(Errno::ENOEXEC),
    }
}

fn add_segment(image: &mut Image, entry: &Entry) -> Result<(), Errno> {
    let end = entry.address.checked_add(entry.memory_bytes).ok_or(Errno::ENOEXEC)?;
    let file_end = entry.offset.checked_add(entry.file_bytes);
    if entry.file_bytes > entry.memory_bytes || file_end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::ENOEXEC);
    }
    if end > USER_END - PAGE {
        return Err(Errno::EINVAL);
    }
    if entry.file_bytes > 0 && entry.address % PAGE != entry.offset % PAGE {
        return Err(Errno::ENOEXEC);
    }
    let segment = Segment {
        address: entry.address,
        offset: entry.offset,
        file_bytes: entry.file_bytes,
        memory_bytes: entry.memory_bytes,
        flags: entry.flags,
    };
    let last_end = image.segments.last().map_or(0, Segment::end_page);
    if segment.first_page() < last_end {
        return Err(Errno::ENOEXEC);
    }
    image.segments.push(segment);
    Ok(())
}

/// Checks the rules that concern all segments together.
fn finish(image: &mut Image, header: &Header) -> Result<(), Errno> {
    if image.segments.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    if image.headers_address == 0 {
        let at = header.entries_at;
        let inside = |segment: &Segment| at.checked_sub(segment.offset).filter(|inside| *inside < segment.file_bytes);
        let place = |segment: &Segment| segment.address.checked_add(inside(segment)?);
        image.headers_address = image.segments.iter().find_map(place).unwrap_or(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn own_program() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    fn read(file: &[u8]) -> Result<Image, Errno> {
        let place = headers_place(file)?;
        let start = usize::try_from(place.offset).map_err(|_| Errno::ENOEXEC)?;
        let end = start.checked_add(place.bytes).ok_or(Errno::ENOEXEC)?;
        parse(file, file.get(start..end).ok_or(Errno::ENOEXEC)?)
    }

    #[test]
    fn a_real_program_is_read() {
        let image = read(&own_program()).unwrap();
        assert!(image.is_relocatable && image.interpreter.is_some());
        assert!(image.segments.iter().any(|segment| segment.flags & 1 != 0 && segment.address <= image.entry));
        assert_ne!(image.headers_address, 0);
    }

    proptest! {
        #[test]
        fn a_mutant_is_refused_or_stays_inside_user_memory(
            changes in proptest::collection::vec((0usize..0x400, any::<u8>()), 1..12)
        ) {
            let mut file = own_program();
            for (at, byte) in changes {
                file[at] = byte;
            }
            if let Ok(image) = read(&file) {
                let mut last = 0;
                for segment in &image.segments {
                    prop_assert!(segment.first_page() >= last && segment.end_page() <= USER_END);
                    prop_assert!(segment.file_bytes <= segment.memory_bytes);
                    last = segment.end_page();
                }
            }
        }
    }

    #[test]
    fn overlapping_and_overflowing_segments_are_refused() {
        let file = own_program();
        let place = headers_place(&file).unwrap();
        let first_load = (0..place.bytes / ENTRY_BYTES)
            .map(|index| place.offset as usize + index * ENTRY_BYTES)
            .find(|at| file[*at..*at + 4] == 1u32.to_le_bytes())
            .unwrap();
        let with = |offset: usize, value: u64| {
            let mut file = file.clone();
            file[first_load + offset..first_load + offset + 8].copy_from_slice(&value.to_le_bytes());
            read(&file)
        };
        assert_eq!(with(40, u64::MAX).unwrap_err(), Errno::EINVAL, "memory beyond user memory");
        assert_eq!(with(40, 1).unwrap_err(), Errno::ENOEXEC, "memory smaller than file");
        assert_eq!(with(40, 1 << 30).unwrap_err(), Errno::ENOEXEC, "overlaps the next");
        assert_eq!(with(16, 0xffff_8000_0000_0000).unwrap_err(), Errno::EINVAL, "in the kernel's half");
        assert_eq!(with(8, u64::MAX - 10).unwrap_err(), Errno::ENOEXEC, "file range overflows");
    }
}
