//! The resource: asks objects, and counts the bytes that they moved.

use crate::stream;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::BytesReport;
use gyre_interface::io_stream::io_stream::Server;
use gyre_interface::io_stream::{Endpoint, Meter, StreamEnds, StreamError, Taken};
use gyre_object::Bytes;

/// The resource. Lives as long as the instance.
pub struct IoStream {
    report: BytesReport,
}

impl IoStream {
    /// Makes a server that tells `report` the bytes of each request, in its turn.
    pub fn new(report: impl Fn(u64) + Send + Sync + 'static) -> IoStream {
        IoStream { report: Box::leak(Box::new(report)) }
    }
}

fn length(data: &[Bytes]) -> usize {
    data.iter().map(Bytes::len).sum()
}

impl Meter for IoStream {
    fn passed(&'static self, bytes: usize) {
        if bytes > 0 {
            (self.report)(bytes as u64);
        }
    }
}

impl Server for IoStream {
    async fn open(&'static self) -> Result<StreamEnds, StreamError> {
        Ok(stream::open())
    }

    async fn read(&'static self, from: Arc<dyn Endpoint>, offset: u64, bytes: usize) -> Taken {
        let taken = match from.take_near(offset, bytes) {
            Some(taken) => taken,
            None => from.take(offset, bytes).await,
        }?;
        self.passed(length(&taken));
        Ok(taken)
    }

    async fn write(
        &'static self,
        to: Arc<dyn Endpoint>,
        offset: Option<u64>,
        data: Vec<Bytes>,
    ) -> Result<usize, StreamError> {
        let given = match to.give_near(offset, data) {
            Ok(given) => given,
            Err(data) => to.give(offset, data).await,
        }?;
        self.passed(given);
        Ok(given)
    }

    async fn pass(&'static self, bytes: usize) -> Result<(), StreamError> {
        self.passed(bytes);
        Ok(())
    }
}
