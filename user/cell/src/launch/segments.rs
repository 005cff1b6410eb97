//! Mapping the segments of an ELF file, as Linux does.

use std::{fs::File, io, os::fd::AsRawFd as _};

use elf::{abi, segment::ProgramHeader};

use crate::memory::{PAGE_BYTES, page_down, page_up};

/// The range that the segments of a file take.
fn span(headers: &[ProgramHeader]) -> Option<[u64; 2]> {
    let loads = || headers.iter().filter(|header| header.p_type == abi::PT_LOAD);
    let start = loads().map(|header| page_down(header.p_vaddr)).min()?;
    let ends: Option<Vec<u64>> = loads().map(|header| page_up(header.p_vaddr.checked_add(header.p_memsz)?)).collect();
    let end = ends?.into_iter().max()?;
    (end > start).then_some([start, end])
}

/// Maps all segments; answers what is to be added to an address of the file.
///
/// # Errors
/// Linux's; `InvalidData` for a file that is wrong.
pub fn map(file: &File, kind: u16, headers: &[ProgramHeader]) -> io::Result<u64> {
    let [start, end] = span(headers).ok_or_else(|| wrong("has no segments"))?;
    let is_fixed = kind == abi::ET_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let place = if is_fixed { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let at = mmap(if is_fixed { start } else { 0 }, end - start, libc::PROT_NONE, flags | place, None)?;
    let offset = at.wrapping_sub(start);
    for header in headers.iter().filter(|header| header.p_type == abi::PT_LOAD) {
        map_one(file, header, offset)?;
    }
    Ok(offset)
}

fn map_one(file: &File, header: &ProgramHeader, offset: u64) -> io::Result<()> {
    let address = header.p_vaddr.wrapping_add(offset);
    let [start, in_page] = [page_down(address), address % PAGE_BYTES];
    let place = header.p_offset.checked_sub(in_page).ok_or_else(|| wrong("has a segment at a wrong place"))?;
    let rights = rights(header.p_flags);
    let file_end = address.wrapping_add(header.p_filesz);
    if header.p_filesz > 0 {
        mmap(start, file_end - start, rights, libc::MAP_PRIVATE | libc::MAP_FIXED, Some((file, place)))?;
    }
    let end = address.wrapping_add(header.p_memsz);
    let from = if header.p_filesz > 0 { page_up(file_end).unwrap_or(end) } else { start };
    if end > file_end && rights & libc::PROT_WRITE != 0 && header.p_filesz > 0 {
        // The whole rest of the page, as Linux does: interpreters take memory there.
        let bytes = from - file_end;
        // SAFETY: the rest of the last page of the segment, which was mapped for writing.
        unsafe { std::ptr::write_bytes(file_end as *mut u8, 0, bytes as usize) };
    }
    if end > from {
        mmap(from, end - from, rights, libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS, None)?;
    }
    Ok(())
}

fn rights(flags: u32) -> i32 {
    let pairs = [(abi::PF_R, libc::PROT_READ), (abi::PF_W, libc::PROT_WRITE), (abi::PF_X, libc::PROT_EXEC)];
    pairs.iter().filter(|pair| flags & pair.0 != 0).map(|pair| pair.1).sum()
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Maps memory of the process.
///
/// # Errors
/// Linux's.
pub fn mmap(address: u64, bytes: u64, rights: i32, flags: i32, file: Option<(&File, u64)>) -> io::Result<u64> {
    let (descriptor, place) = file.map_or((-1, 0), |(file, place)| (file.as_raw_fd(), place));
    let start = address as *mut libc::c_void;
    // SAFETY: fixed addresses are those of a range that this module has reserved, others are chosen by Linux.
    match unsafe { libc::mmap(start, bytes as usize, rights, flags, descriptor, place.cast_signed()) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at as u64),
    }
}
