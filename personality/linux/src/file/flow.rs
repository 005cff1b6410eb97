//! Flows between descriptors: what is open as source and as sink of [`gyre_flow`].

use super::object::Object;
use super::open_file::OpenFile;
use crate::Errno;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_flow::{Flow, Reading, Sink, Source, Writing};
use gyre_interface::Ready;
use gyre_object::Bytes;

/// A program's end of a flow: when the last descriptor of it is closed, it ends.
pub struct FlowEnd(pub Arc<Flow>);

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
}

impl Sink for End {
    fn write(&self, offset: u64, data: Vec<Bytes>) -> Writing {
        let file = self.0.clone();
        Box::pin(async move { give(&file, offset, data).await.map_err(number) })
    }
}

fn number(error: Errno) -> i32 {
    i32::from(error.0)
}

/// Reads by reference once there is something.
///
/// # Errors
/// As [`OpenFile::take`].
pub(super) async fn take(file: &OpenFile, offset: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    loop {
        match file.take(offset, bytes).await {
            Err(Errno::EAGAIN) => until(file, Ready::READ).await?,
            result => return result,
        }
    }
}

/// Writes everything by reference.
async fn give(file: &OpenFile, offset: u64, mut data: Vec<Bytes>) -> Result<(), Errno> {
    let mut offset = offset;
    while !data.is_empty() {
        let at = matches!(file.object(), Object::Regular).then_some(offset);
        match file.give(at, data.clone()).await {
            Ok(0) => return Err(Errno::EIO),
            Ok(count) => {
                offset += count as u64;
                skip(&mut data, count);
            }
            Err(Errno::EAGAIN) => until(file, Ready::WRITE).await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn until(file: &OpenFile, wanted: Ready) -> Result<(), Errno> {
    // Others may have taken what the readiness promised: they go first.
    gyre_message::yield_now().await;
    file.readiness().ok_or(Errno::EAGAIN)?.wait(wanted).await;
    Ok(())
}

/// Drops the first `count` bytes.
fn skip(data: &mut Vec<Bytes>, mut count: usize) {
    data.retain_mut(|piece| {
        let gone = count.min(piece.len());
        count -= gone;
        *piece = piece.slice(gone, piece.len());
        !piece.is_empty()
    });
}
