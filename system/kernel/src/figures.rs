//! The figures that a process may read of itself, and by right of others in its tenant: a call that tells now, and a page that is kept
//! up to date. Both are filled from the ledger that makes the bill.

use crate::kernel::Kernel;
use crate::pages::Kept;
use alloc::sync::Arc;
use core::sync::atomic::{Ordering, fence};
use gyre_account::Column;
use gyre_address_space::{MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_contract::figures::{Figures, OF_TENANT, RESOURCES_MAX, Resource, VERSION, fixed};
use gyre_engine::Engine;
use gyre_engine::snapshot::{Row, Spent};
use gyre_linux::time::monotonic_ns;
use gyre_linux::{Arguments, Errno, Outcome, Process, Thread};
use gyre_machine::PAGE_BYTES;
use gyre_message::sleep_ns;
use gyre_object::Page;
use zerocopy::{FromZeros, IntoBytes};

/// Time between two writes of a mapped page, ns: ten a second cost a ten-thousandth of a core.
const PERIOD_NS: u64 = 100_000_000;
/// Offset of the sequence number, for the two writes around the rest.
const SEQUENCE_OFFSET: usize = core::mem::offset_of!(Figures, sequence);

/// Serves `figures`.
pub async fn read(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let process = subject(kernel, thread, arguments.int(0))?;
    let figures = of(kernel.base.engine, &process);
    let bytes = figures.as_bytes();
    let room = arguments.size(2).min(bytes.len());
    thread.copy_out(arguments.word(1), bytes.get(..room).unwrap_or(bytes)).await?;
    Ok(bytes.len() as u64)
}

/// Serves `figures_map`.
pub async fn map(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let process = subject(kernel, thread, arguments.int(0))?;
    let place = kernel.pages.take_place(thread.tenant().activity()).ok_or(Errno::ENOMEM)?;
    let page = Page::zeroed().map_err(|_| Errno::ENOMEM)?;
    let mut sequence = 0;
    write(&page, &mut sequence, of(kernel.base.engine, &process));
    let request = MapRequest {
        place: Place::Anywhere(0),
        bytes: PAGE_BYTES as u64,
        rights: Rights::READ,
        rights_max: Rights::READ,
        options: Options::SHARED | Options::NOT_INHERITED,
        provider: Provider::Memory(Arc::new(SharedMemory::of_page(page.clone()))),
        first_index: PageIndex::FIRST,
    };
    let address = thread.process().space().map(request).await?;
    // It writes for as long as the page is mapped, so it is where it keeps no core from leaving.
    gyre_message::spawn_resident(move || keep(kernel.base.engine, process, page, sequence, place));
    Ok(address)
}

/// The process that is meant, if the caller may see it.
fn subject(kernel: &Kernel, thread: &Thread, number: i32) -> Result<Arc<Process>, Errno> {
    let own = thread.process();
    if number == 0 || number == own.id() {
        return Ok(own.clone());
    }
    let may = kernel.base.description_of(thread.tenant().activity()).is_some_and(|tenant| tenant.monitor);
    if !may {
        return Err(Errno::EPERM);
    }
    thread.tenant().tree.lock().process(number).ok_or(Errno::ESRCH)
}

/// Writes the page until nobody has it mapped any more, or its process has ended.
async fn keep(engine: &'static Engine, process: Arc<Process>, page: Page, mut sequence: u32, _place: Kept) {
    // The page is held here and by the memory that is mapped; the mapping's own table holds it once it was touched.
    while page.is_shared() && !process.is_over() {
        sleep_ns(PERIOD_NS).await;
        write(&page, &mut sequence, of(engine, &process));
    }
}

/// Readers see an odd number, or a number that has changed, and read again.
fn write(page: &Page, sequence: &mut u32, figures: Figures) {
    *sequence = sequence.wrapping_add(2);
    page.write(SEQUENCE_OFFSET, &sequence.wrapping_sub(1).to_le_bytes());
    fence(Ordering::Release);
    let figures = Figures { sequence: sequence.wrapping_sub(1), period_ns: PERIOD_NS, ..figures };
    page.write(0, figures.as_bytes());
    fence(Ordering::Release);
    page.write(SEQUENCE_OFFSET, &sequence.to_le_bytes());
}

fn of(engine: &'static Engine, process: &Process) -> Figures {
    let activity = process.activity();
    let rows = engine.figures(activity);
    let spent = Spent::of(&rows);
    let memory = engine.accounts().activities.memory(activity);
    // Apart: the name is a thread's, and asks for the same lock.
    let threads = process.threads.lock().len() as u32;
    let mut figures = Figures {
        version: VERSION,
        updated_ns: monotonic_ns(),
        cycles_per_second: gyre_machine::cycles_per_ms().saturating_mul(1000),
        process: process.id(),
        flags: if activity.is_member() { 0 } else { OF_TENANT },
        threads,
        resource_count: rows.len().min(RESOURCES_MAX) as u32,
        memory_bytes: u64::try_from(memory.bytes_total as i64).unwrap_or(0),
        memory_bytes_max: memory.bytes_total_max,
        cycles: spent.work(),
        user_cycles: spent.user,
        name: fixed(&process.name()),
        ..Figures::new_zeroed()
    };
    for (row, slot) in rows.iter().zip(&mut figures.resources) {
        *slot = resource(engine, row);
        figures.messages = figures.messages.wrapping_add(slot.messages);
        figures.bytes = figures.bytes.wrapping_add(slot.bytes);
        figures.queued_ns = figures.queued_ns.wrapping_add(slot.queued_ns);
    }
    figures
}

fn resource(engine: &Engine, row: &Row) -> Resource {
    let column = |column: Column| row.columns[column as usize];
    Resource {
        name: fixed(engine.resource_name(row.resource).as_bytes()),
        cycles: column(Column::Cycles),
        messages: column(Column::Messages),
        inline_messages: column(Column::Inline),
        bytes: column(Column::Bytes),
        queued_ns: column(Column::QueueNs),
        refused: u64::from(row.dropped),
    }
}
