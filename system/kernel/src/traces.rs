//! The traces of processes: `trace_begin`, `trace_read`, `trace_end`, for the system tenant. The ring and the calls in it are
//! [`gyre_linux::trace`]'s.

use crate::kernel::Kernel;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ResourceId;
use gyre_contract::native::{TRACE_BEGIN, TRACE_END, TRACE_READ};
use gyre_contract::trace::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Batch, TRACES_MAX};
use gyre_linux::trace::{self, Trace};
use gyre_linux::{Arguments, Errno, Outcome, Process, Thread};
use gyre_object::TenantLock;

/// A trace and its subject.
#[derive(Clone)]
struct Open {
    trace: Arc<Trace>,
    process: Arc<Process>,
}

/// All traces, by number.
#[derive(Default)]
pub struct Traces {
    open: TenantLock<BTreeMap<u64, Open>>,
    last: AtomicU64,
}

impl Traces {
    /// Returns a trace if this process began it.
    fn of(&self, owner: &Arc<Process>, number: u64) -> Result<Open, Errno> {
        let found = self.open.lock().get(&number).cloned();
        found.filter(|open| open.trace.is_of(owner)).ok_or(Errno::ENOENT)
    }

    /// Ends those whose owners have gone.
    fn forget_abandoned(&self) {
        let mut open = self.open.lock();
        let gone: Vec<u64> = open.iter().filter(|(_, open)| open.trace.is_abandoned()).map(|(at, _)| *at).collect();
        let gone: Vec<Open> = gone.iter().filter_map(|number| open.remove(number)).collect();
        drop(open);
        gone.iter().for_each(|open| trace::end(&open.process, &open.trace));
    }
}

/// Serves the calls of traces; `None` for other numbers. The caller is the system tenant.
pub async fn call(kernel: &Kernel, thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Option<Outcome> {
    Some(match number {
        TRACE_BEGIN => begin(kernel, thread, arguments),
        TRACE_READ => read(kernel, thread, arguments).await,
        TRACE_END => end(kernel, thread, arguments),
        _ => return None,
    })
}

fn begin(kernel: &Kernel, thread: &Arc<Thread>, arguments: Arguments) -> Outcome {
    let index = usize::try_from(arguments.word(0)).map_err(|_| Errno::ENOENT)?;
    let running = kernel.tenants.running(index).ok_or(Errno::ENOENT)?;
    let process = running.tenant.tree.lock().process(arguments.int(1)).ok_or(Errno::ESRCH)?;
    kernel.traces.forget_abandoned();
    if kernel.traces.open.lock().len() >= TRACES_MAX {
        return Err(Errno::EAGAIN);
    }
    let trace = trace::begin(&process, thread.process())?;
    let number = kernel.traces.last.fetch_add(1, Ordering::Relaxed).saturating_add(1);
    kernel.traces.open.lock().insert(number, Open { trace, process });
    Ok(number)
}

async fn read(kernel: &Kernel, thread: &Arc<Thread>, arguments: Arguments) -> Outcome {
    if arguments.size(2) < BATCH_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let open = kernel.traces.of(thread.process(), arguments.word(0))?;
    // Asked first: what it did before its end is in the ring then.
    let is_over = open.process.is_over();
    let (events, lost) = open.trace.take(BATCH_EVENTS_MAX);
    let mut batch = Batch { lost, is_over: is_over && events.is_empty(), resources: [].into(), events };
    batch.resources = names(kernel, &batch);
    let bytes = postcard::to_allocvec(&batch).map_err(|_| Errno::ENOMEM)?;
    thread.copy_out(arguments.word(1), &bytes).await?;
    Ok(bytes.len() as u64)
}

/// The names of the resources in a batch.
fn names(kernel: &Kernel, batch: &Batch) -> Vec<(u16, String)> {
    let used = batch.events.iter().flat_map(|event| event.cycles.iter().map(|(resource, _)| *resource));
    let mut all: Vec<u16> = used.collect();
    all.sort_unstable();
    all.dedup();
    let name = |resource: u16| kernel.base.engine.resource_name(ResourceId(u8::try_from(resource).unwrap_or(0)));
    all.into_iter().map(|resource| (resource, name(resource).into())).collect()
}

fn end(kernel: &Kernel, thread: &Arc<Thread>, arguments: Arguments) -> Outcome {
    let open = kernel.traces.of(thread.process(), arguments.word(0))?;
    kernel.traces.open.lock().remove(&arguments.word(0));
    trace::end(&open.process, &open.trace);
    Ok(0)
}
