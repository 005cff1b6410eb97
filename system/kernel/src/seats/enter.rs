//! The way of a process into a cell and out of it, in its own thread.
//!
//! 1. The request and the runtime's image are checked; cores and lots are leased, all or nothing.
//! 2. The shared page is mapped, and all present pages of the process are written into the cell's page table: guest physical addresses are
//!    those of the machine, so the frames stay the same ones. The cell holds them from here on.
//! 3. The nested table grants exactly that, with the rights that the process has; the registers move into the cell.
//! 4. The seat is ready; the thread serves the cell until it is over.
//! 5. If the cell has left, the registers move back.

use super::history::Event;
use super::owner::Owner;
use super::pool::{Leased, Want};
use super::seat::{Ending, Guard, NewSeat, Notices, Phase, Reach, Seat};
use super::serve::LineServer;
use super::{Seats, calls, image, keep, plain};
use crate::kernel::Kernel;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_address_space::{AddressSpace, MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_assembly::grid::id;
use gyre_cell_abi::{CellRequest, LINES_MAX, LINES_MIN, LOT_BYTES, LOTS_MAX, flag};
use gyre_cell_memory::{CellMemory, Lines, NoRoom, Shape};
use gyre_contract::catalogue::Resource;
use gyre_contract::seats::{By, Deed, Kind};
use gyre_engine::RESIDENT;
use gyre_linux::signal::number::{SIGKILL, SIGSEGV};
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_machine::{Access, CORES_MAX, PAGE_BYTES, Registers, UserContext};
use gyre_object::Page;
use gyre_x86_64::guest::{
    self, Core, DescriptorTable, Halt, Interrupts, LongMode, NestedTable, NoGuest, SharedTable, Start,
};

/// Pages of the process that are written into the cell's table in one turn.
const UPLOAD_PAGES: usize = 256;
/// Flags of a program at the start: none, and interrupts are off.
const FLAGS: u64 = 2;

/// Makes the process of a thread a cell, and returns when it is none any more; a plain cell at once. Without a request it ends a plain cell.
///
/// # Errors
/// ENOSYS without cells, EOPNOTSUPP for what this machine or kernel cannot do, EINVAL, EBUSY if the process has other threads or is a cell, EACCES if its
/// runtime is none of those that may become cells, EAGAIN if too few cores are free, ENODEV if there never are so many, ENOMEM.
pub async fn enter(
    kernel: &'static Kernel,
    thread: Arc<Thread>,
    context: &mut UserContext,
    arguments: Arguments,
) -> Outcome {
    let seats = kernel.seats.ok_or(Errno::ENOSYS)?;
    if arguments.word(0) == 0 {
        return plain::enter::leave(seats, &thread).await;
    }
    let began = gyre_x86_64::now();
    let bytes = thread.read_vec(arguments.word(0), size_of::<CellRequest>()).await?;
    let request = CellRequest::from_bytes(&bytes.try_into().map_err(|_| Errno::EFAULT)?);
    let want = check(&request)?;
    let space = thread.space();
    let hash = seats.images.hash(&thread, &space, context.registers.rip).await?;
    let description = kernel.base.description_of(thread.tenant().activity());
    let owner = Owner {
        tenant: description.map_or_else(String::new, |tenant| tenant.name.clone()),
        process: thread.process().id(),
        name: thread.process().name(),
        runtime: image::shown(hash.as_ref()),
        hash,
    };
    let granted = grant(seats, &thread, want, hash.as_ref());
    note_grant(seats, &owner, want, began, granted.as_ref().err());
    let engine = kernel.base.engine;
    let activity = thread.process().activity();
    let notices = if request.flags & flag::NOTICES != 0 { Notices::Wanted } else { Notices::NotWanted };
    let used = calls::used(engine, activity);
    let (kind, served_before, run_before) = (kind_of(&request), used.serving, used.run);
    let new = NewSeat { owner, activity, began, served_before, notices, kind, run_before };
    let seat = Seat::new(granted?, new);
    seats.add(seat.clone());
    if kind == Kind::Plain {
        return plain::enter::begin(engine, seats, &thread, seat, &request).await;
    }
    let kept = seat.clone();
    let keeper = move || keep::keep(engine, seats, kept);
    engine.spawn_for_on(RESIDENT, id(Resource::Leases), ActivityId::INFRASTRUCTURE, keeper);
    let guard = Guard(seat.clone());
    let outcome = be(seats, &thread, (&seat, &space), context, &request).await;
    drop(guard);
    tell_of(&seat).await;
    outcome
}

/// Tells when a seat is over.
pub(super) async fn tell_of(seat: &Seat) {
    let over = || matches!(seat.phase(), Phase::Over(_)).then_some(());
    seat.changed.until(over).await;
}

fn kind_of(request: &CellRequest) -> Kind {
    if request.flags & flag::PLAIN != 0 { Kind::Plain } else { Kind::Privileged }
}

/// Grants the parts of a cell if the process may have any.
fn grant(seats: &Seats, thread: &Thread, want: Want, hash: Option<&image::Hash>) -> Result<Leased, Errno> {
    if !thread.process().is_alone() || seats.seat_of(thread).is_some() {
        return Err(Errno::EBUSY);
    }
    if !seats.images.allows(hash) {
        return Err(Errno::EACCES);
    }
    seats.pool.take(want, thread.process().activity())
}

fn note_grant(seats: &Seats, owner: &Owner, want: Want, began: u64, error: Option<&Errno>) {
    let runtime = if owner.runtime.is_empty() { "a runtime in no file" } else { &owner.runtime };
    let words = match error {
        None => format!("granted to {runtime}"),
        Some(&Errno::EACCES) => format!("refused: {runtime} is not among the runtimes of the machine file"),
        Some(error) => format!("refused: {error:?}"),
    };
    let event = Event {
        deed: Deed::Grant,
        cores: (0..want.cores).collect(),
        memory_bytes: u64::from(want.lots).saturating_mul(LOT_BYTES),
        by: By::Process,
        began,
        result: words,
    };
    seats.history.note_refused(owner, event);
}

/// Checks a request; returns the parts that it wants.
fn check(request: &CellRequest) -> Result<Want, Errno> {
    let known = flag::PRIVILEGED | flag::PLAIN | flag::NOTICES;
    let is_plain = request.flags & flag::PLAIN != 0;
    let is_privileged = request.flags & flag::PRIVILEGED != 0;
    if is_privileged && !is_plain && guest::levels() == guest::Levels::None {
        return Err(Errno::EOPNOTSUPP);
    }
    let lots = request.memory_bytes.checked_div(LOT_BYTES).unwrap_or(0);
    let lines = request.lines;
    let is_sound = request.size as usize == size_of::<CellRequest>()
        && request.flags & !known == 0
        && is_plain != is_privileged
        && request.cores >= 1
        && (if is_plain { lines == 0 } else { lines.is_power_of_two() && (LINES_MIN..=LINES_MAX).contains(&lines) })
        && request.memory_bytes.is_multiple_of(LOT_BYTES)
        && (1..=LOTS_MAX as u64).contains(&lots)
        && request.page.is_multiple_of(PAGE_BYTES as u64)
        && request.page != 0
        && request.reserved == [0; 4];
    if !is_sound {
        return Err(Errno::EINVAL);
    }
    // A plain cell has no gates for notices.
    if is_plain && request.flags & flag::NOTICES != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if request.cores as usize > CORES_MAX {
        return Err(Errno::ENODEV);
    }
    let lots = u32::try_from(lots).map_err(|_| Errno::ENOMEM)?;
    Ok(Want { cores: request.cores, lots })
}

/// Is a cell, from the shared page's mapping to its removal.
async fn be(
    seats: &Seats,
    thread: &Arc<Thread>,
    (seat, space): (&Arc<Seat>, &Arc<AddressSpace>),
    context: &mut UserContext,
    request: &CellRequest,
) -> Outcome {
    let shape = Shape { cores: request.cores, lines: request.lines };
    let count = shape.pages();
    let pages: Result<Vec<Page>, _> = (0..count).map(|_| Page::zeroed()).collect();
    let pages = pages.map_err(|_| Errno::ENOMEM)?;
    let bytes = (count as u64).saturating_mul(PAGE_BYTES as u64);
    map_shared(space, request.page, bytes, &pages).await?;
    let lines = Lines::new(pages, shape);
    let outcome = match make_ready(seats, thread, (seat, space), context, lines).await {
        Ok(reach) => live(seats, thread, (seat, space), reach, context).await,
        Err(error) => Err(error),
    };
    space.set_view(None);
    // It is this call's own mapping; a program that has unmapped it has none.
    let _ = space.unmap(request.page, bytes).await;
    outcome
}

pub(super) async fn map_shared(space: &AddressSpace, address: u64, bytes: u64, pages: &[Page]) -> Result<(), Errno> {
    let rights = Rights::READ | Rights::WRITE;
    let provider = Provider::Memory(Arc::new(SharedMemory::of_pages(pages.iter().cloned())));
    let request = MapRequest {
        place: Place::FixedNew(address),
        bytes,
        rights,
        rights_max: rights,
        options: Options::SHARED,
        provider,
        first_index: PageIndex::FIRST,
    };
    space.map(request).await?;
    for at in (address..address.saturating_add(bytes)).step_by(PAGE_BYTES) {
        space.fault_own(at, Access::Write).await?;
    }
    Ok(())
}

fn no_room(_: NoRoom) -> Errno {
    Errno::ENOMEM
}

/// Makes memory, nested table and registers of the cell.
async fn make_ready(
    seats: &Seats,
    thread: &Thread,
    (seat, space): (&Arc<Seat>, &Arc<AddressSpace>),
    context: &mut UserContext,
    lines: Lines,
) -> Result<Reach, Errno> {
    let lots = seat.lots.lock().clone();
    let memory = Arc::new(CellMemory::new(lots, lines, seats.pool.places()).map_err(no_room)?);
    let mut next = Some(0);
    while let Some(start) = next {
        let mut result = Ok(());
        next = space.shown_from(start, UPLOAD_PAGES, |shown| {
            result = result.and_then(|()| memory.upload(&shown).map_err(no_room));
        });
        result?;
        thread.breathe().await.map_err(|_| Errno::EINTR)?;
    }
    let root = memory.begin(gyre_x86_64::cycles_per_ms().saturating_mul(1000));
    memory.lines.begin_holding(thread.signals.lock().blocked.0);
    let mut table = NestedTable::new().map_err(|_| Errno::ENOMEM)?;
    for grant in memory.grants() {
        table.map(grant.range, grant.rights).map_err(|_| Errno::ENOMEM)?;
    }
    let reach = Reach { memory, table: Arc::new(SharedTable::new(table)) };
    seat.set_reach(Some(reach.clone()));
    let mut core = new_core(root, &context.registers)?;
    context.park();
    core.exchange_extended(context);
    if let Some(first) = seat.stations.first() {
        first.put_core(Box::new(core));
    }
    Ok(reach)
}

/// Makes a core of a cell that begins with these registers, except for rax and flags.
///
/// # Errors
/// ENOMEM, EOPNOTSUPP.
pub fn new_core(root: gyre_machine::Pa, registers: &Registers) -> Result<Core, Errno> {
    let start = Start::LongMode(LongMode {
        root,
        rip: registers.rip,
        rsp: registers.rsp,
        argument: 0,
        gdt: DescriptorTable::default(),
        idt: DescriptorTable::default(),
        star: 0,
        lstar: 0,
        flag_mask: 0,
        fs_base: registers.fs_base,
        gs_base: registers.gs_base,
    });
    let options = guest::Options { interrupts: Interrupts::Held, halt: Halt::Leaves, ports: &[], registers: &[] };
    let mut core = Core::new(&start, &options).map_err(|error| match error {
        NoGuest::OutOfMemory => Errno::ENOMEM,
        NoGuest::NotOffered | NoGuest::Forbidden { .. } => Errno::EOPNOTSUPP,
    })?;
    core.registers = Registers { rax: 0, rflags: FLAGS, ..*registers };
    Ok(core)
}

/// Serves the cell until it is over; the process goes on as it says.
async fn live(
    seats: &Seats,
    thread: &Arc<Thread>,
    (seat, space): (&Arc<Seat>, &Arc<AddressSpace>),
    reach: Reach,
    context: &mut UserContext,
) -> Outcome {
    space.set_view(Some(reach.memory.clone()));
    seat.set_phase(Phase::Ready);
    let ending = LineServer::new(seats, thread, seat, space, &reach).serve().await;
    // The core by which it left goes on as the program; if it did not leave, the first one has the program's extended registers.
    let last = if let Ending::Left(index) = ending { index } else { 0 };
    if let Some(mut core) = seat.stations.get(last).and_then(super::station::Station::take_core) {
        core.exchange_extended(context);
        if matches!(ending, Ending::Left(_)) {
            context.registers = Registers { rax: 0, ..core.registers };
        }
    }
    let process = thread.process();
    log::debug!("cell {} of process {} is over after {:?} exits: {ending:?}", seat.number, process.id(), seat.exits);
    match ending {
        Ending::Left(_) => Ok(0),
        Ending::Refused(error) => Err(error),
        Ending::Exited(status) => {
            process.end((status & 0xff).wrapping_shl(8));
            Err(Errno::EINTR)
        }
        Ending::Failed { why, rip } => {
            log::info!("cell {} of process {} failed at {rip:#x}: {why:?}", seat.number, process.id());
            process.end(SIGSEGV);
            Err(Errno::EFAULT)
        }
        Ending::Overdue => {
            process.end(SIGKILL);
            Err(Errno::EINTR)
        }
        Ending::Ended => Err(Errno::EINTR),
    }
}
