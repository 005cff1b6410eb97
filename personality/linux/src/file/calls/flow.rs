//! The calls of flows and streams (2013 paper, Figs 6 and 7): numbers and arguments are in `gyre_contract::native`.
//!
//! A flow's descriptor stands for a [`gyre_flow::Flow`], whose work the asynchronous I/O resource does. Sources and
//! sinks are open files that can be read or written by reference. `stream_read` maps pages into the program instead
//! of copying.
//!
//! States of a flow: open (sources may be added), closed (it goes on with those that it has), ended (its completion
//! can be read once). Dropping the descriptor ends it.
//!
//! A flow into a flow is refused: such a chain would be as long as its program likes. The sink keeps the caller's
//! RLIMIT_FSIZE from the call that made the flow.

use super::{answer, install, usable_file};
use crate::file::buffer::{UserBuffer, word};
use crate::file::flow::{End, FlowEnd, LimitedEnd, number, take, take_fixed};
use crate::file::object::{CHUNK_BYTES, Object};
use crate::file::open_file::OpenFile;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_flow::{Claim, Flow, Group, Request};
use gyre_interface::Position;
use gyre_interface::io_stream::StreamEnds;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};
use linux_raw_sys::general as raw;

/// Largest share of a flow.
const SHARE_MAX: u64 = 1 << 20;
/// How a flow is closed: at once, not when everything is moved.
const CANCEL: u64 = 1;
/// Without waiting for that: the completion is read from the flow.
const CLOSE: u64 = 2;

/// `flow(sink, share, cookie) -> flow`.
///
/// # Errors
/// EBADF, EINVAL for a share out of bounds and for what cannot be written so; ENFILE, EMFILE. If the asynchronous I/O resource has too much
/// under way for the caller, the flow is there and has ended with EAGAIN. EAGAIN of the call itself, or of a flow that has begun: the
/// tenant's overload controller has refused it, or ended it early; what has arrived is true, and another flow may go on behind it. A flow
/// ends with EFBIG if its sink would become longer than the caller's RLIMIT_FSIZE.
///
/// `group` is the aggregate in which the caller stands: the flow has its share within that one's.
pub async fn flow(thread: &Arc<Thread>, group: Option<Group>, a: Arguments) -> Outcome {
    let sink = usable_file(thread, a.int(0))?;
    if !(1..=SHARE_MAX).contains(&a.word(1)) {
        return Err(Errno::EINVAL);
    }
    if !sink.is_writable() {
        return Err(Errno::EBADF);
    }
    // A flow into a flow, and so on, would be a chain as long as its program likes.
    if !can_be_given(sink.object()) {
        return Err(Errno::EINVAL);
    }
    let guard = thread.tenant().flow_guard.lock().clone();
    if guard.as_ref().is_some_and(|guard| !guard.admits()) {
        return Err(Errno::EAGAIN);
    }
    let (shares, cookie) = (&thread.process().flow_shares, a.word(2));
    let label = shares.label();
    let sink = Arc::new(LimitedEnd::new(sink, thread.process(), label));
    let claim = Claim { share: a.unsigned(1), group };
    let flow = match &guard {
        Some(guard) => Flow::guarded(sink, shares, claim, cookie, guard),
        None => Flow::new(sink, shares, claim, cookie),
    };
    let files = thread.process().files();
    let end = Object::Flow(FlowEnd { flow: flow.clone(), label });
    let file = OpenFile::new(files.tenant(), end, raw::O_RDWR, None)?;
    let descriptor = install(thread, file, true)?;
    orchestrate(thread, flow);
    answer(descriptor)
}

/// Has the asynchronous I/O resource do the flow's work, in the order of its scheduler.
fn orchestrate(thread: &Thread, flow: Arc<Flow>) {
    let work = flow.clone().run(number(Errno::EAGAIN));
    let counted = async move {
        work.await;
        flow.moved_bytes()
    };
    match thread.tenant().kernel().async_io() {
        Some(resource) => drop(resource.run(Box::pin(counted))),
        None => gyre_message::spawn(async { _ = counted.await }),
    }
}

/// Returns the flow behind a descriptor, and the label of its requests.
fn flow_of(thread: &Thread, descriptor: i32) -> Result<(Arc<Flow>, u64), Errno> {
    match usable_file(thread, descriptor)?.object() {
        Object::Flow(FlowEnd { flow, label }) => Ok((flow.clone(), *label)),
        _ => Err(Errno::EINVAL),
    }
}

/// `flow_source(flow, source, offset, bytes, sink_offset)`.
///
/// # Errors
/// EBADF; EINVAL if it is no flow or the source cannot be read by reference, and for offsets beyond
/// [`Position::LAST`]; EPIPE for a flow that is closed or has failed.
pub async fn flow_source(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (flow, label) = flow_of(thread, a.int(0))?;
    let source = usable_file(thread, a.int(1))?;
    if !source.is_readable() {
        return Err(Errno::EBADF);
    }
    if !can_be_taken(source.object()) {
        return Err(Errno::EINVAL);
    }
    let place = |at| Position::new(at).ok_or(Errno::EINVAL);
    let (offset, sink_offset) = (place(a.word(2))?, place(a.word(4))?);
    let request = Request { source: Arc::new(End { file: source, label }), offset, bytes: a.word(3), sink_offset };
    flow.add(request).map(|()| 0).map_err(|_| Errno::EPIPE)
}

fn can_be_given(object: &Object) -> bool {
    can_be_taken(object) || matches!(object, Object::Terminal(_))
}

fn can_be_taken(object: &Object) -> bool {
    matches!(object, Object::Regular | Object::Pipe(_) | Object::Socket(_) | Object::Device(_) | Object::Stream(_))
}

/// `flow_close(flow, how) -> bytes`: waits for the end, unless `how` says not to; the bytes that have arrived.
///
/// # Errors
/// EBADF, EINVAL; the first error of a source or the sink.
pub async fn flow_close(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (flow, _) = flow_of(thread, a.int(0))?;
    match a.word(1) {
        0 => flow.close(),
        CANCEL => flow.cancel(),
        CLOSE => {
            flow.close();
            return Ok(flow.moved_bytes());
        }
        _ => return Err(Errno::EINVAL),
    }
    match thread.interruptible(flow.finished()).await? {
        Ok(()) => Ok(flow.moved_bytes()),
        Err(number) => Err(Errno(number as _)),
    }
}

/// `stream(descriptors)`: a stream of bytes, the end to read from and the end to write to.
///
/// # Errors
/// EFAULT, ENFILE, EMFILE.
pub async fn stream(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let files = thread.process().files();
    let tenant = files.tenant();
    let StreamEnds { reader, writer } = tenant.passage.client().open().await?;
    let reader = OpenFile::new(tenant, Object::Stream(reader), raw::O_RDONLY, None)?;
    let writer = OpenFile::new(tenant, Object::Stream(writer), raw::O_WRONLY, None)?;
    super::descriptors::put_pair(thread, reader, writer, a.word(0), true).await
}

/// `stream_write(descriptor, address, bytes) -> bytes`: copies, waits for room.
///
/// # Errors
/// As write.
pub async fn stream_write(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    super::read_write::write_file(thread, &file, &mut buffer, None).await
}

/// `stream_read(descriptor, &address, &bytes)`: maps the next bytes read-only at an address that the system chooses;
/// `bytes` says how many at most, then how many there are, 0 at the end. The program unmaps them (munmap of the
/// pages). They stay as they are, whoever writes to their source meanwhile.
///
/// # Errors
/// As read; ENOMEM.
pub async fn stream_read(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut most = [0; 8];
    thread.copy_in(a.word(2), &mut most).await?;
    let most = usize::try_from(word(&most, 0)).unwrap_or(usize::MAX).min(CHUNK_BYTES);
    let is_file = matches!(file.object(), Object::Regular);
    let pieces = if is_file {
        let position = file.position.hold().await;
        let pieces = take_fixed(&file, 0, position.get(), most).await?;
        position.advance(length(&pieces));
        pieces
    } else {
        thread.interruptible(take(&file, 0, 0, most)).await??
    };
    let bytes = length(&pieces);
    let mut address = 0;
    if bytes > 0 {
        let (pages, start) = exposable(pieces, is_file)?;
        address = thread.space().expose(pages).await?.saturating_add(start as u64);
    }
    thread.copy_out(a.word(1), &address.to_le_bytes()).await?;
    thread.copy_out(a.word(2), &(bytes as u64).to_le_bytes()).await?;
    Ok(0)
}

fn length(pieces: &[Bytes]) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

/// Returns pages that hold the pieces one after another, and the offset of the first byte. It returns the present
/// pages if they hold nothing else that must be hidden from the program (the rest of a page of the same file need
/// not), else copies.
fn exposable(pieces: Vec<Bytes>, is_file: bool) -> Result<(Vec<Page>, usize), Errno> {
    let count = pieces.len();
    let fits = |(index, piece): (usize, &Bytes)| {
        let (page, start) = piece.location();
        let end = start.saturating_add(piece.len());
        let is_whole = start == 0 && end == PAGE_BYTES;
        let is_edge = is_file && (start == 0 || index == 0) && (end == PAGE_BYTES || index.saturating_add(1) == count);
        page.len() == PAGE_BYTES && (is_whole || is_edge)
    };
    if pieces.iter().enumerate().all(fits) {
        let start = pieces.first().map_or(0, |piece| piece.location().1);
        return Ok((pieces.iter().map(|piece| piece.location().0.clone()).collect(), start));
    }
    let mut pages: Vec<Page> = Vec::new();
    let mut filled = PAGE_BYTES;
    for piece in &pieces {
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            if filled == PAGE_BYTES {
                pages.push(Page::zeroed()?);
                filled = 0;
            }
            let (now, later) = rest.split_at(rest.len().min(PAGE_BYTES.saturating_sub(filled)));
            pages.last().ok_or(Errno::ENOMEM)?.write(filled, now);
            filled = filled.saturating_add(now.len());
            rest = later;
        }
    }
    Ok((pages, 0))
}
