//! Flows between descriptors: what is open as source and as sink of [`gyre_flow`].

use super::object::Object;
use super::open_file::OpenFile;
use crate::Errno;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_flow::{Completion, Flow, Reading, Sink, Source, Waiting, Writing};
use gyre_interface::Ready;
use gyre_object::Bytes;

/// Bytes of a completion as a program reads it: its cookie, then bytes moved or a negative error number.
const COMPLETION_BYTES: usize = 16;

/// A program's end of a flow: when the last descriptor of it is closed, it ends.
pub struct FlowEnd(pub Arc<Flow>);

impl FlowEnd {
    /// Its completion, once; 0 bytes after that.
    ///
    /// # Errors
    /// EAGAIN as long as it runs; EINVAL for less room than a completion takes.
    pub(super) fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let into = into.first_chunk_mut::<COMPLETION_BYTES>().ok_or(Errno::EINVAL)?;
        let Some(Completion { cookie, result }) = self.0.complete().ok_or(Errno::EAGAIN)? else {
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
        self.0.cancel();
    }
}

/// Something open, as an end of a flow.
pub struct End(pub Arc<OpenFile>);

impl Source for End {
    fn read(&self, offset: u64, bytes: usize) -> Reading {
        let file = self.0.clone();
        Box::pin(async move { take(&file, offset, bytes).await.map_err(number) })
    }

    fn has_offsets(&self) -> bool {
        matches!(self.0.object(), Object::Regular)
    }

    fn wait(&self) -> Option<Waiting> {
        let readiness = self.0.readiness()?;
        Some(Box::pin(async move {
            readiness.wait(Ready::READ).await;
            Ok(())
        }))
    }
}

impl Sink for End {
    fn write(&self, offset: u64, data: Vec<Bytes>) -> Writing {
        let file = self.0.clone();
        Box::pin(async move { give(&file, offset, data).await.map_err(number) })
    }
}

/// An error as flows carry it.
pub(super) fn number(error: Errno) -> i32 {
    error.0
}

/// Reads by reference once there is something.
///
/// # Errors
/// As [`OpenFile::take`].
pub(super) async fn take(file: &Arc<OpenFile>, offset: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    loop {
        match file.tenant().passage.take(file, offset, bytes).await {
            Err(Errno::EAGAIN) => until(file, Ready::READ).await?,
            result => return result,
        }
    }
}

/// Writes by reference once there is room.
async fn give(file: &Arc<OpenFile>, offset: u64, data: Vec<Bytes>) -> Result<usize, Errno> {
    let at = matches!(file.object(), Object::Regular).then_some(offset);
    loop {
        match file.tenant().passage.give(file, at, data.clone()).await {
            Ok(0) => return Err(Errno::EIO),
            Err(Errno::EAGAIN) => until(file, Ready::WRITE).await?,
            result => return result,
        }
    }
}

async fn until(file: &OpenFile, wanted: Ready) -> Result<(), Errno> {
    // Others may have taken what the readiness promised: they go first.
    gyre_message::yield_now().await;
    file.readiness().ok_or(Errno::EAGAIN)?.wait(wanted).await;
    Ok(())
}
