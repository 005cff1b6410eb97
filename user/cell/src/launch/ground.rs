//! From a program in memory to a program in a cell.
//!
//! Protocol of use: the launcher has loaded the program and built its stack; [`plain`] or [`privileged`] goes to it and comes back only with an
//! error.
//!
//! * Policies are made by their names, and live as long as the process.
//! * The arena is reserved before anything else could come to lie there.
//! * For a cell of a machine every page of the launcher is touched before: nothing may fault before the gates are loaded.

use std::{convert::Infallible, io, path::PathBuf};

use gyre_cell_abi::{CellRequest, LINES_MAX, LOT_BYTES, flag};
use linux_raw_sys::auxvec as at;

use super::{
    Hall, Start,
    options::{
        Ahead as AheadName, Fibers, Frames as FramesName, Ground, Io as IoName, Options, Pager as PagerName, Parts,
    },
    present,
    refusal::refused,
    segments::mmap,
    stack,
};
use crate::{
    ahead::{Ahead, Doubling, Nothing},
    call::{card::OwnCard, disk::OwnDisk},
    fiber::{Newest, RoundRobin, Scheduler},
    frames::{Buddy, Coloured, Frames},
    io::{Io, Poll, Wait},
    machine::{
        plain::{self, Lease, Lots, Plain, PlainDisk, PlainMemory, Shared},
        privileged::{self, Clocks, Privileged, Shape},
    },
    memory::{Arena, LARGE_BYTES, PAGE_BYTES, Space, Window as _},
    pager::{Demand, Eager, Keep, Pager, Reuse},
    runtime::{CORES_MAX, Policies, Process, Runtime},
};

/// Addresses of anonymous memory: heap and mappings. They are reserved, not taken.
const HEAP_BYTES: u64 = 16 << 30;
const ARENA_BYTES: u64 = 64 << 30;

/// Reserves the arena in the process, so that nothing else comes to lie there.
///
/// # Errors
/// Linux's.
pub fn reserve_arena() -> io::Result<Arena> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let at = mmap(0, ARENA_BYTES + LARGE_BYTES, libc::PROT_NONE, flags, None)?;
    let start = at.next_multiple_of(LARGE_BYTES);
    Ok(Arena { start, mappings: start + HEAP_BYTES, end: start + ARENA_BYTES })
}

/// The allocator of that name.
pub fn frames(name: FramesName) -> &'static mut dyn Frames {
    match name {
        FramesName::Buddy => Box::leak(Box::<Buddy>::default()),
        FramesName::Coloured => Box::leak(Box::<Coloured>::default()),
    }
}

/// The pager of that name.
pub fn pager(name: PagerName) -> &'static dyn Pager {
    match name {
        PagerName::Demand => &Demand,
        PagerName::Eager => &Eager,
        PagerName::Keep => &Keep,
        PagerName::Reuse => &Reuse,
    }
}

/// The other policies.
pub fn policies(options: &Options, ground: Ground) -> Policies {
    let scheduler: &'static mut dyn Scheduler = match options.fibers {
        Fibers::RoundRobin => Box::leak(Box::<RoundRobin>::default()),
        Fibers::Newest => Box::leak(Box::<Newest>::default()),
    };
    // A core of its own has no better use for the time that an answer takes; a process's thread lets others run meanwhile.
    let usual = if ground == Ground::Privileged { IoName::Poll } else { IoName::Wait };
    let io: &'static mut dyn Io = match options.io.unwrap_or(usual) {
        IoName::Wait => Box::leak(Box::new(Wait)),
        IoName::Poll => Box::leak(Box::<Poll>::default()),
    };
    let ahead: &'static mut dyn Ahead = match options.ahead {
        AheadName::Doubling => Box::leak(Box::new(Doubling)),
        AheadName::Nothing => Box::leak(Box::new(Nothing)),
    };
    Policies { scheduler, io, ahead }
}

/// Starts a program at ring 3, with cores and memory that the kernel leases to it, or without.
///
/// # Errors
/// The kernel's; `Unsupported` if system calls cannot be dispatched to the process itself, or if the kernel keeps nothing for cells.
pub fn plain(options: &Options, start: Start) -> io::Result<Infallible> {
    if !plain::is_supported() {
        let why = "this kernel has no system call user dispatch (Gyre has, and Linux from 5.11 on)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let arena = reserve_arena()?;
    // Before there are threads: a process of one thread alone becomes a cell.
    let mut memory = match options.parts {
        Parts::Leased => lease(options)?,
        Parts::Own => plain::make_memory(options.memory_bytes)?,
    };
    let frames = frames(options.frames);
    let mut is_short = false;
    let mut add = |lot| is_short |= frames.add(lot, 0).is_err();
    match &mut memory.lots {
        Lots::Leased(lease) => lease.lots(&mut add),
        Lots::File(_) => (1..=options.memory_bytes / LOT_BYTES).for_each(|lot| add(LOT_BYTES * lot)),
    }
    if is_short {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let mut machine = Plain::new(memory, Shared::start()?);
    let start_disk = |path: &PathBuf| PlainDisk::start(path, machine.memory.window, machine.shared);
    machine.disk = options.disk_file.as_ref().map(start_disk).transpose()?;
    let root = frames.take(0, 0).ok_or(io::ErrorKind::OutOfMemory)?;
    machine.clear(root, PAGE_BYTES);
    let space = Space::new(arena, root, frames, pager(options.pager));
    let runtime = Box::leak(Box::new(Runtime::new(machine, space, policies(options, Ground::Plain), process())));
    (runtime.disk, runtime.card) = (own_disk(options), own_card(options));
    // SAFETY: the loader has made both addresses.
    unsafe { plain::begin(runtime, start.entry, start.stack) }
}

/// Takes cores and memory from the kernel.
fn lease(options: &Options) -> io::Result<PlainMemory> {
    let page = reserve(PAGE_BYTES)?;
    // Free from here on, and nothing is mapped until the kernel does.
    free(page, PAGE_BYTES);
    let lease = Lease::take(options.cores, options.memory_bytes, page).map_err(|errno| refused(errno, options))?;
    Ok(PlainMemory { window: lease.window(), lots: Lots::Leased(lease) })
}

fn own_disk(options: &Options) -> Option<&'static mut OwnDisk> {
    options.disk.clone().map(|name| &mut *Box::leak(Box::new(OwnDisk::new(name))))
}

fn own_card(options: &Options) -> Option<&'static mut OwnCard> {
    options.card.clone().map(|name| &mut *Box::leak(Box::new(OwnCard::new(name))))
}

/// Lines of a core: one for each fiber, and fewer if many cores share the most that there are.
fn lines(cores: u32) -> u32 {
    let each = crate::fiber::FIBERS_MAX as u32;
    each.min(LINES_MAX / cores.next_power_of_two())
}

/// Bytes of the shared page and the pages of lines.
fn shared_bytes(shape: Shape) -> u64 {
    PAGE_BYTES + (u64::from(shape.cores * shape.lines) * 64).next_multiple_of(PAGE_BYTES)
}

/// This process; the kernel has told who started it.
fn process() -> Process {
    Process { id: std::process::id(), user: stack::auxiliary(at::AT_UID.into()) as u32 }
}

/// Starts a program at ring 0 of a cell.
///
/// # Errors
/// The kernel's; `Unsupported` if it has no cells, or the cell cannot be as it was asked for.
pub fn privileged(options: &Options, start: Start, hall: &Hall) -> io::Result<Infallible> {
    if options.cores as usize > CORES_MAX || !privileged::has_room() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this runtime uses up to 8 cores, and registers of 4 KiB",
        ));
    }
    let shape = Shape { cores: options.cores, lines: lines(options.cores) };
    let bytes = shared_bytes(shape);
    privileged::make_areas(options.cores as usize);
    let arena = reserve_arena()?;
    let page = reserve(bytes)?;
    let machine = Privileged::new(page, shape, clocks());
    // The table is that of the process; it is known at ring 0.
    let space = Space::new(arena, 0, frames(options.frames), pager(options.pager));
    let runtime = Box::leak(Box::new(Runtime::new(machine, space, policies(options, Ground::Privileged), process())));
    (runtime.disk, runtime.card) = (own_disk(options), own_card(options));
    let request = CellRequest {
        size: size_of::<CellRequest>() as u32,
        flags: flag::PRIVILEGED | flag::NOTICES,
        cores: options.cores,
        lines: shape.lines,
        memory_bytes: options.memory_bytes,
        page,
        reserved: [0; 4],
    };
    present::touch_own_pages()?;
    hall.touch();
    // Free from here on, and nothing is mapped until the kernel does.
    free(page, bytes);
    // SAFETY: this process has one thread, and its pages were touched.
    match unsafe { privileged::enter(&request) } {
        // SAFETY: this is the cell of the request; the loader has made both addresses.
        Ok(()) => unsafe { privileged::begin(runtime, start.entry, start.stack) },
        Err(errno) => Err(refused(errno, options)),
    }
}

/// Returns whether an error of [`privileged`] says that the kernel has cells and the processor has none: then [`plain`] is the way.
pub fn wants_plain(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

/// Reserves addresses.
fn reserve(bytes: u64) -> io::Result<u64> {
    mmap(0, bytes, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, None)
}

/// Gives reserved addresses back.
fn free(start: u64, bytes: u64) {
    // SAFETY: the range was reserved by this module, and nobody else knows of it.
    unsafe { libc::munmap(start as *mut libc::c_void, bytes as usize) };
}

fn clocks() -> Clocks {
    let read = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place for the answer is there.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
    };
    let [wall, monotonic] = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].map(read);
    Clocks { stamp: privileged::stamp(), wall, monotonic }
}
