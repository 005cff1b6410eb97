//! Flows between descriptors: open files as sources and sinks of [`gyre_flow`].

use super::cached;
use super::object::Object;
use super::open_file::OpenFile;
use super::size_limit;
use crate::{Errno, Process};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use gyre_flow::{Completion, Flow, Reading, Sink, Source, Waiting, Writing};
use gyre_interface::Ready;
use gyre_object::{Bytes, Page};

/// Bytes of a completion as a program reads it: its cookie, then bytes moved or a negative error number.
const COMPLETION_BYTES: usize = 16;

/// A program's end of a flow: when the last descriptor of it is closed, it ends.
pub struct FlowEnd {
    /// The flow.
    pub flow: Arc<Flow>,
    /// The dependency label of its requests.
    pub label: u64,
}

impl FlowEnd {
    /// Returns its completion, once; 0 bytes after that.
    ///
    /// # Errors
    /// EAGAIN as long as it runs; EINVAL for less room than a completion takes.
    pub(super) fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let into = into.first_chunk_mut::<COMPLETION_BYTES>().ok_or(Errno::EINVAL)?;
        let Some(Completion { cookie, result }) = self.flow.complete().ok_or(Errno::EAGAIN)? else {
            return Ok(0);
        };
        let result = result.map_or_else(|error| i64::from(error).wrapping_neg(), |bytes| bytes as i64);
        let (first, second) = into.split_at_mut(COMPLETION_BYTES / 2);
        first.copy_from_slice(&cookie.to_le_bytes());
        second.copy_from_slice(&result.to_le_bytes());
        Ok(COMPLETION_BYTES)
    }
}

impl Drop for FlowEnd {
    fn drop(&mut self) {
        self.flow.cancel();
    }
}

/// Something open, as an end of a flow.
pub struct End {
    /// The file.
    pub file: Arc<OpenFile>,
    /// The dependency label of the flow's requests; 0 for none.
    pub label: u64,
}

impl Source for End {
    fn read(&self, offset: u64, bytes: usize) -> Reading {
        let (file, label) = (self.file.clone(), self.label);
        Box::pin(async move { take_fixed(&file, label, offset, bytes).await.map_err(number) })
    }

    fn has_offsets(&self) -> bool {
        matches!(self.file.object(), Object::Regular)
    }

    fn wait(&self) -> Option<Waiting> {
        let readiness = self.file.readiness()?;
        Some(Box::pin(async move {
            readiness.wait(Ready::READ).await;
            Ok(())
        }))
    }
}

/// Something open as the sink of a flow, written within the RLIMIT_FSIZE of the process that made the flow: it gets the signal.
pub struct LimitedEnd {
    file: Arc<OpenFile>,
    maker: Weak<Process>,
    label: u64,
}

impl LimitedEnd {
    /// A sink for a flow of `maker` whose requests have this dependency label; 0 for none.
    pub fn new(file: Arc<OpenFile>, maker: &Arc<Process>, label: u64) -> LimitedEnd {
        LimitedEnd { file, maker: Arc::downgrade(maker), label }
    }

    /// The part of `data` that may be written there. Others may have the flow of a process that has ended; nobody's limit is left then.
    fn permitted(&self, offset: u64, data: &mut Vec<Bytes>) -> Result<(), Errno> {
        let maker = self.maker.upgrade().filter(|_| matches!(self.file.object(), Object::Regular));
        if let Some(maker) = maker {
            let bytes = data.iter().map(Bytes::len).fold(0, usize::saturating_add);
            cut(data, size_limit::permitted_to(&maker, offset, bytes)?);
        }
        Ok(())
    }
}

impl Sink for LimitedEnd {
    fn write(&self, offset: u64, mut data: Vec<Bytes>) -> Writing {
        let (file, label, permitted) = (self.file.clone(), self.label, self.permitted(offset, &mut data));
        Box::pin(async move {
            permitted.map_err(number)?;
            give(&file, label, offset, data).await.map_err(number)
        })
    }
}

/// Keeps the first `count` bytes of pieces.
fn cut(data: &mut Vec<Bytes>, mut count: usize) {
    data.retain_mut(|piece| {
        let kept = count.min(piece.len());
        count = count.saturating_sub(kept);
        if kept < piece.len() {
            *piece = piece.slice(0, kept);
        }
        kept > 0
    });
}

/// Returns an error as flows carry it.
pub(super) fn number(error: Errno) -> i32 {
    error.0
}

/// Reads by reference once there is something; `label` orders the requests of a flow.
///
/// # Errors
/// As [`OpenFile::take`].
pub(super) async fn take(file: &Arc<OpenFile>, label: u64, offset: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    let passage = file.tenant().passage.ordered(label);
    loop {
        match passage.take(file, offset, bytes).await {
            Err(Errno::EAGAIN) => until(file, Ready::READ).await?,
            result => return result,
        }
    }
}

/// Reads as [`take`] does what stays as it is for as long as it is held (2013 paper, section IV-E): by reference if writers of the file replace its
/// pages meanwhile, otherwise as a copy, since a program that has mapped a file writes it without asking.
///
/// # Errors
/// As [`take`]; ENOMEM for the copy.
pub(super) async fn take_fixed(
    file: &Arc<OpenFile>,
    label: u64,
    offset: u64,
    bytes: usize,
) -> Result<Vec<Bytes>, Errno> {
    if !matches!(file.object(), Object::Regular) {
        return take(file, label, offset, bytes).await;
    }
    if let Some(pieces) = file.tenant().passage.ordered(label).lend_near(file, offset, bytes) {
        return Ok(pieces);
    }
    // That brings them into memory; nobody has them afterwards.
    let count = take(file, label, offset, bytes).await?.iter().map(Bytes::len).sum();
    match cached::lend(file, offset, count) {
        Some(pieces) => Ok(pieces),
        None => take(file, label, offset, count).await?.iter().map(copied).collect(),
    }
}

/// Copies a view to a page of its own, at the same place in it.
fn copied(view: &Bytes) -> Result<Bytes, Errno> {
    let ((page, start), copy) = (view.location(), Page::zeroed()?);
    copy.copy_from(start, page, start, view.len());
    Ok(Bytes::new(copy, start, view.len()))
}

/// Writes by reference once there is room.
async fn give(file: &Arc<OpenFile>, label: u64, offset: u64, data: Vec<Bytes>) -> Result<usize, Errno> {
    let at = matches!(file.object(), Object::Regular).then_some(offset);
    let passage = file.tenant().passage.ordered(label);
    loop {
        match passage.give(file, at, data.clone()).await {
            Ok(0) => return Err(Errno::EIO),
            Err(Errno::EAGAIN) => until(file, Ready::WRITE).await?,
            result => return result,
        }
    }
}

async fn until(file: &OpenFile, wanted: Ready) -> Result<(), Errno> {
    // Other tasks may have used the readiness up: they go first.
    gyre_message::yield_now().await;
    file.readiness().ok_or(Errno::EAGAIN)?.wait(wanted).await;
    Ok(())
}
