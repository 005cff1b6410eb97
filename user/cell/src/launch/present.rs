//! Making the launcher's own pages present before it becomes a cell: at first nobody answers faults there.
//!
//! Those are the segments of its file, the part of its stack that is used on the way, and the memory that it has taken ([`super::Hall`]).

use std::io;

use elf::abi;

use crate::memory::{PAGE_BYTES, page_down};

/// Bytes of the stack below the place of the caller that may be used.
const STACK_BYTES: usize = 32 << 10;

/// A segment of the launcher's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    start: u64,
    end: u64,
}

/// Reads each page of the launcher's file, and writes each page that may be written, with what is there.
///
/// # Errors
/// `Unsupported` if the C library does not tell where the file lies.
pub fn touch_own_pages() -> io::Result<()> {
    let segments = own_segments();
    if segments.is_empty() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    for segment in segments.iter().filter(|segment| segment.kind == abi::PT_LOAD) {
        let pages = (page_down(segment.start)..segment.end).step_by(PAGE_BYTES as usize);
        for page in pages {
            if segment.flags & abi::PF_W != 0 && !is_sealed(&segments, page) { write_back(page) } else { read(page) }
        }
    }
    use_stack();
    Ok(())
}

/// Returns whether a page was taken the right to be written after the launcher's start (PT_GNU_RELRO).
fn is_sealed(segments: &[Segment], page: u64) -> bool {
    let mut sealed = segments.iter().filter(|segment| segment.kind == abi::PT_GNU_RELRO);
    sealed.any(|segment| (page_down(segment.start)..page_down(segment.end)).contains(&page))
}

/// Makes a range present that may be written.
pub fn touch_written(start: u64, end: u64) {
    (page_down(start)..end).step_by(PAGE_BYTES as usize).for_each(write_back);
}

fn own_segments() -> Vec<Segment> {
    let mut segments = Vec::new();
    // SAFETY: the function is called at once, with the address that is given here.
    unsafe { libc::dl_iterate_phdr(Some(add_segments), (&raw mut segments).cast()) };
    segments
}

/// Adds the segments of the first object, which is the program itself.
unsafe extern "C" fn add_segments(info: *mut libc::dl_phdr_info, _: usize, segments: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the C library describes an object, and the list is the caller's.
    let (info, segments) = unsafe { (&*info, &mut *segments.cast::<Vec<Segment>>()) };
    for place in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: so many headers lie there.
        let header = unsafe { &*info.dlpi_phdr.add(place) };
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        let end = start.wrapping_add(header.p_memsz);
        segments.push(Segment { kind: header.p_type, flags: header.p_flags, start, end });
    }
    1
}

fn read(address: u64) {
    // SAFETY: the page is mapped for reading.
    unsafe { (address as *const u8).read_volatile() };
}

fn write_back(address: u64) {
    let place = address as *mut u8;
    // SAFETY: the page is mapped for writing, and this process has one thread.
    unsafe { place.write_volatile(place.read_volatile()) };
}

#[inline(never)]
fn use_stack() {
    let mut bytes = [0u8; STACK_BYTES];
    for byte in bytes.iter_mut().step_by(PAGE_BYTES as usize) {
        // SAFETY: the byte is this function's.
        unsafe { std::ptr::from_mut(byte).write_volatile(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segments_of_this_program_hold_its_code_and_data() {
        static mut WORD: u64 = 1;
        let segments = own_segments();
        let holds = |address: u64, flag: u32| {
            let is_it = |one: &&Segment| one.kind == abi::PT_LOAD && (one.start..one.end).contains(&address);
            segments.iter().find(is_it).is_some_and(|segment| segment.flags & flag != 0)
        };
        assert!(holds(read as *const () as u64, abi::PF_X));
        assert!(holds(&raw const WORD as u64, abi::PF_W) && !is_sealed(&segments, page_down(&raw const WORD as u64)));
        touch_own_pages().unwrap();
    }

    #[test]
    fn sealed_pages_are_those_that_lie_in_the_seal_as_a_whole() {
        let seal = Segment { kind: abi::PT_GNU_RELRO, flags: 0, start: 0x1800, end: 0x3800 };
        assert_eq!([0x1000, 0x2000, 0x3000].map(|page| is_sealed(&[seal], page)), [true, true, false]);
    }
}
