//! The way of data between open files: through the I/O stream resource, which counts its bytes and may make it wait.
//!
//! Data moved by reference (flows, sendfile, splice, copy_file_range, native streams) always passes. Plain reads and
//! writes of files pass if that resource has a policy of its own (`[policy.io_stream]`); else the file system is
//! asked at once.

use super::cached;
use super::object::Object;
use super::open_file::OpenFile;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::io_stream::io_stream;
use gyre_message::Labels;
use gyre_object::Bytes;

/// Does plain work in a visit of the resource. It is kept out of the path without a gate: a cached read is some 2,300
/// instructions in all.
#[cold]
#[inline(never)]
fn count(gate: &io_stream::Client, work: &mut dyn FnMut() -> Option<usize>) -> Option<usize> {
    gate.visit(|meter| work().inspect(|count| meter.passed(*count)))?
}

/// A tenant's way to the I/O stream resource.
#[derive(Clone, Copy)]
pub struct Passage {
    client: io_stream::Client,
    is_gate: bool,
}

impl Passage {
    /// Makes a passage through `client`; `is_gate` says that a scheduler of its own stands before the resource.
    pub fn new(client: io_stream::Client, is_gate: bool) -> Passage {
        Passage { client, is_gate }
    }

    /// Makes a passage for tests, without other users.
    #[cfg(test)]
    pub(crate) fn free() -> Passage {
        Passage::counted(false, Arc::default())
    }

    /// Makes a passage for tests, which adds the passed bytes to `passed`.
    #[cfg(test)]
    pub(crate) fn counted(is_gate: bool, passed: Arc<core::sync::atomic::AtomicU64>) -> Passage {
        let report = move |bytes| {
            passed.fetch_add(bytes, core::sync::atomic::Ordering::Relaxed);
        };
        let server: &'static _ = std::boxed::Box::leak(std::boxed::Box::new(gyre_io_stream::IoStream::new(report)));
        let link = gyre_message::direct::direct_link(|request| std::boxed::Box::pin(io_stream::serve(server, request)));
        Passage::new(io_stream::Client::new(link).with_near(server), is_gate)
    }

    /// Returns the same way for requests of one flow: they are started in the order in which they are made. 0 is free of order.
    #[must_use]
    pub fn ordered(self, label: u64) -> Passage {
        Passage { client: self.client.labelled(Labels { affinity: 0, dependency: label }), ..self }
    }

    /// Returns the resource.
    pub fn client(&self) -> &io_stream::Client {
        &self.client
    }

    /// Returns the resource if it has a scheduler of its own, which plain reads and writes of files are subject to then.
    #[inline]
    pub fn gate(&self) -> Option<&io_stream::Client> {
        self.is_gate.then_some(&self.client)
    }

    /// Does work at once with files in memory, as a request of that many bytes; `None` if it is not possible now or
    /// must wait for the scheduler. Without a gate it is no request of this resource.
    #[inline(always)]
    pub(super) fn count_plain(&self, mut work: impl FnMut() -> Option<usize>) -> Option<usize> {
        match self.gate() {
            None => work(),
            Some(gate) => count(gate, &mut work),
        }
    }

    /// Reads by reference the bytes that are there now, at `at` if it is a file.
    ///
    /// # Errors
    /// EAGAIN if there are none; as [`OpenFile::take`].
    pub async fn take(&self, file: &Arc<OpenFile>, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
        match self.take_near(file, at, bytes) {
            Some(pieces) => Ok(pieces),
            None => Ok(self.client.read(file.clone(), at, bytes).await?),
        }
    }

    /// Reads as [`Passage::take`] from a file in memory, without a message; `None` if that is not possible now.
    pub fn take_near(&self, file: &OpenFile, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
        if !matches!(file.object(), Object::Regular) || !file.is_readable() {
            return None;
        }
        self.client.visit(|meter| {
            let pieces = cached::take(file, at, bytes)?;
            meter.passed(pieces.iter().map(Bytes::len).sum());
            Some(pieces)
        })?
    }

    /// Reads as [`Passage::take_near`] what nobody changes while it is held; `None` also if that cannot be promised.
    pub fn lend_near(&self, file: &OpenFile, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
        if !matches!(file.object(), Object::Regular) || !file.is_readable() {
            return None;
        }
        self.client.visit(|meter| {
            let pieces = cached::lend(file, at, bytes)?;
            meter.passed(pieces.iter().map(Bytes::len).sum());
            Some(pieces)
        })?
    }

    /// Writes by reference as much as there is room for, at `at` or at the object's own position. An object with a
    /// queue and bounds of its own (a socket, a pipe) is asked at once, and the bytes are counted then.
    ///
    /// # Errors
    /// EAGAIN if there is no room; as [`OpenFile::give`].
    pub async fn give(&self, file: &Arc<OpenFile>, at: Option<u64>, data: Vec<Bytes>) -> Result<usize, Errno> {
        if matches!(file.object(), Object::Regular | Object::Stream(_)) {
            return Ok(self.client.write(file.clone(), at, data).await?);
        }
        let count = file.give(at, data).await?;
        self.pass(count).await;
        Ok(count)
    }

    /// Counts bytes that were moved; waits until the scheduler grants them.
    pub(super) async fn pass(&self, bytes: usize) {
        if self.client.visit(|meter| meter.passed(bytes)).is_none() {
            // A resource that is gone counts for no one.
            let _ = self.client.pass(bytes).await;
        }
    }
}
