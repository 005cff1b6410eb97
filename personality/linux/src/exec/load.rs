//! Mapping a program and its dynamic linker.

use super::elf::{self, ENTRY_BYTES, HEADER_BYTES, Image, Segment};
use crate::file::Executable;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use gyre_address_space::{
    AddressSpace, MapRequest, MappedFile, MappedSize, Options, PageIndex, Place, Provider, Rights,
};
use gyre_machine::{PAGE_BYTES, USER_END};

const PAGE: u64 = PAGE_BYTES as u64;

/// A program in memory.
pub(super) struct Loaded {
    /// The first address to run: the dynamic linker's entry, or the program's.
    pub(super) start: u64,
    /// The program's own entry (AT_ENTRY).
    pub(super) entry: u64,
    /// The address at which the dynamic linker was mapped; 0 without one (AT_BASE).
    pub(super) linker_base: u64,
    /// Address of the program headers (AT_PHDR).
    pub(super) headers: u64,
    /// How many (AT_PHNUM).
    pub(super) headers_count: u64,
}

/// Returns up to `bytes` from a file's offset, fewer at its end.
pub(super) async fn read(file: &Executable, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        let at = offset.checked_add(all.len() as u64).ok_or(Errno::ENOEXEC)?;
        let pieces = file.client.read(file.attributes.node, at, bytes.saturating_sub(all.len())).await?;
        if pieces.iter().all(|piece| piece.is_empty()) {
            break;
        }
        pieces.iter().for_each(|piece| all.extend_from_slice(piece.as_slice()));
    }
    all.truncate(bytes);
    Ok(all)
}

/// Returns exactly `bytes`.
async fn read_exact(file: &Executable, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
    let all = read(file, offset, bytes).await?;
    match all.len() == bytes {
        true => Ok(all),
        false => Err(Errno::ENOEXEC),
    }
}

async fn read_image(file: &Executable) -> Result<Image, Errno> {
    let header = read_exact(file, 0, HEADER_BYTES).await?;
    let place = elf::headers_place(&header)?;
    let entries = read_exact(file, place.offset, place.bytes).await?;
    debug_assert_eq!(entries.len() % ENTRY_BYTES, 0);
    elf::parse(&header, &entries)
}

/// Maps a program and, if it asks for one, its dynamic linker; the heap starts behind it.
pub(super) async fn load(thread: &Arc<Thread>, space: &AddressSpace, file: &Executable) -> Result<Loaded, Errno> {
    let image = read_image(file).await?;
    let linker = match image.interpreter {
        None => None,
        Some((offset, bytes)) => Some(open_linker(thread, file, offset, bytes).await?),
    };
    let wish = space.layout().image_base;
    let bias = map_image(space, mapped_file(file, file.keep_as_it_is()), &image, wish).await?;
    let end = image.segments.last().map_or(0, Segment::end_page);
    space.set_heap(bias.wrapping_add(end).saturating_add(space.layout().heap_gap_bytes));
    let mut loaded = Loaded {
        start: bias.wrapping_add(image.entry),
        entry: bias.wrapping_add(image.entry),
        linker_base: 0,
        headers: if image.headers_address == 0 { 0 } else { bias.wrapping_add(image.headers_address) },
        headers_count: image.headers_count,
    };
    if let Some(linker) = linker {
        let image = read_image(&linker).await?;
        if image.interpreter.is_some() {
            return Err(Errno::ENOEXEC);
        }
        // It may be written to once it is loaded, as on Linux.
        let bias = map_image(space, mapped_file(&linker, linker.keep.clone()), &image, 0).await?;
        loaded.linker_base = bias;
        loaded.start = bias.wrapping_add(image.entry);
    }
    match loaded.start < USER_END {
        true => Ok(loaded),
        false => Err(Errno::ENOEXEC),
    }
}

async fn open_linker(thread: &Arc<Thread>, file: &Executable, offset: u64, bytes: u64) -> Result<Executable, Errno> {
    let mut path = read_exact(file, offset, bytes as usize).await?;
    if path.pop() != Some(0) || path.contains(&0) {
        return Err(Errno::ENOEXEC);
    }
    let files = thread.process().files();
    files.open_executable(thread, super::CURRENT_DIRECTORY, &path, 0).await
}

fn mapped_file(file: &Executable, keep: Option<Arc<dyn Any + Send + Sync>>) -> Arc<MappedFile> {
    let (node, size_bytes) = (file.attributes.node, file.attributes.size_bytes);
    MappedFile::new(file.client, node, MappedSize::new(size_bytes), file.path.clone(), file.passage, keep)
}

/// Maps all segments; answers what to add to the file's addresses. `wish` is where a relocatable image goes, 0 for anywhere.
async fn map_image(space: &AddressSpace, mapped: Arc<MappedFile>, image: &Image, wish: u64) -> Result<u64, Errno> {
    let first = image.segments.first().map_or(0, Segment::first_page);
    let end = image.segments.last().map_or(0, Segment::end_page);
    let place = match image.is_relocatable {
        true => Place::Anywhere(wish),
        false => Place::FixedNew(first),
    };
    // One reservation for all, so that nothing else comes between the segments.
    let start = space
        .map(request(place, end.saturating_sub(first), Rights::empty(), Provider::Anonymous, PageIndex::FIRST))
        .await?;
    let bias = start.wrapping_sub(first);
    for segment in &image.segments {
        map_segment(space, &mapped, segment, bias).await?;
    }
    drop_gaps(space, image, bias).await?;
    Ok(bias)
}

/// Gives back the reserved ranges between segments.
async fn drop_gaps(space: &AddressSpace, image: &Image, bias: u64) -> Result<(), Errno> {
    for pair in image.segments.windows(2) {
        if let [lower, upper] = pair
            && let Some(bytes @ 1..) = upper.first_page().checked_sub(lower.end_page())
        {
            space.unmap(bias.wrapping_add(lower.end_page()), bytes).await?;
        }
    }
    Ok(())
}

fn request(place: Place, bytes: u64, rights: Rights, provider: Provider, first_index: PageIndex) -> MapRequest {
    MapRequest { place, bytes, rights, rights_max: Rights::all(), options: Options::empty(), provider, first_index }
}

fn rights_of(segment: &Segment) -> Rights {
    let mut rights = Rights::empty();
    rights.set(Rights::READ, segment.flags & 4 != 0);
    rights.set(Rights::WRITE, segment.flags & 2 != 0);
    rights.set(Rights::EXECUTE, segment.flags & 1 != 0);
    rights
}

async fn map_segment(space: &AddressSpace, file: &Arc<MappedFile>, segment: &Segment, bias: u64) -> Result<(), Errno> {
    let rights = rights_of(segment);
    let start = bias.wrapping_add(segment.first_page());
    let file_end = bias.wrapping_add(segment.address).wrapping_add(segment.file_bytes);
    let file_pages_end = match segment.file_bytes {
        0 => start,
        _ => file_end.checked_next_multiple_of(PAGE).ok_or(Errno::ENOEXEC)?,
    };
    let end = bias.wrapping_add(segment.end_page());
    if file_pages_end > start {
        let provider = Provider::File(file.clone());
        let index = PageIndex::holding(segment.offset);
        let bytes = file_pages_end.saturating_sub(start);
        space.map(request(Place::Fixed(start), bytes, rights, provider, index)).await?;
    }
    if end > file_pages_end {
        let bytes = end.saturating_sub(file_pages_end);
        let zeroes = request(Place::Fixed(file_pages_end), bytes, rights, Provider::Anonymous, PageIndex::FIRST);
        space.map(zeroes).await?;
    }
    let needs_zeroes = segment.memory_bytes > segment.file_bytes && file_pages_end > file_end;
    if needs_zeroes && segment.file_bytes > 0 && rights.contains(Rights::WRITE) {
        let bytes = file_pages_end.saturating_sub(file_end) as usize;
        space.zero_out(file_end, bytes).await.map_err(|_| Errno::ENOEXEC)?;
    }
    Ok(())
}
