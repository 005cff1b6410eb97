//! Streams against a plain queue, and the cost of requests.

use crate::IoStream;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::io_stream::io_stream::{Client, serve};
use gyre_interface::io_stream::{Endpoint, STREAM_BYTES_MAX, StreamEnds, StreamError};
use gyre_interface::{Ready, io_stream::Giving, io_stream::Taken, io_stream::Taking};
use gyre_machine::PAGE_BYTES;
use gyre_message::direct::{block_on, direct_link};
use gyre_object::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;

fn resource() -> (Client, Arc<AtomicU64>) {
    let moved = Arc::<AtomicU64>::default();
    let counted = moved.clone();
    let report = move |bytes| {
        counted.fetch_add(bytes, Ordering::Relaxed);
    };
    let server: &'static IoStream = Box::leak(Box::new(IoStream::new(report)));
    (Client::new(direct_link(move |request| Box::pin(serve(server, request)))), moved)
}

fn stream() -> (Client, StreamEnds, Arc<AtomicU64>) {
    let (client, moved) = resource();
    let ends = block_on(async { client.open().await }).unwrap();
    (client, ends, moved)
}

fn pieces(data: &[u8]) -> Vec<Bytes> {
    data.chunks(PAGE_BYTES).map(|part| Bytes::copy_from(part).unwrap()).collect()
}

fn flat(pieces: &[Bytes]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()
}

fn write(client: Client, ends: &StreamEnds, data: &[u8]) -> Result<usize, StreamError> {
    block_on(async { client.write(ends.writer.clone(), None, pieces(data)).await })
}

fn read(client: Client, ends: &StreamEnds, bytes: usize) -> Taken {
    block_on(async { client.read(ends.reader.clone(), 0, bytes).await })
}

proptest! {
    /// Checks, for any parts of writes and reads: the order is kept, the bound is exact, nothing is lost, all is
    /// counted.
    #[test]
    fn bytes_come_out_in_order_and_never_more_than_the_bound_is_held(
        steps in proptest::collection::vec((any::<bool>(), 1_usize..90_000), 1..60)
    ) {
        let (client, ends, moved) = stream();
        let (mut model, mut next, mut total) = (VecDeque::new(), 0_u64, 0_u64);
        for (is_write, bytes) in steps {
            if is_write {
                let data: Vec<u8> = (next..next + bytes as u64).map(|number| (number * 31 / 7) as u8).collect();
                let fits = bytes.min(STREAM_BYTES_MAX - model.len());
                let wanted = if fits == 0 { Err(StreamError::Later) } else { Ok(fits) };
                prop_assert_eq!(write(client, &ends, &data), wanted);
                model.extend(&data[..fits]);
                next += fits as u64;
                total += fits as u64;
            } else {
                let wanted: Vec<u8> = model.drain(..bytes.min(model.len())).collect();
                match read(client, &ends, bytes) {
                    Err(error) => prop_assert!(error == StreamError::Later && wanted.is_empty()),
                    Ok(taken) => prop_assert!(flat(&taken) == wanted && !wanted.is_empty()),
                }
                total += wanted.len() as u64;
            }
            let readiness = |end: &Arc<dyn Endpoint>| end.readiness().unwrap().now();
            prop_assert_eq!(readiness(&ends.reader).contains(Ready::READ), !model.is_empty());
            prop_assert_eq!(readiness(&ends.writer).contains(Ready::WRITE), STREAM_BYTES_MAX - model.len() >= PAGE_BYTES);
            prop_assert_eq!(moved.load(Ordering::Relaxed), total, "reading costs its bytes, and so does writing");
        }
    }
}

#[test]
fn small_writes_share_a_page_and_a_whole_page_is_handed_on() {
    let (client, ends, _) = stream();
    for number in 0..64 {
        assert_eq!(write(client, &ends, &[number; 64]), Ok(64));
    }
    let taken = read(client, &ends, 1 << 20).unwrap();
    assert_eq!((taken.len(), taken[0].len()), (1, PAGE_BYTES));
    let page = Bytes::copy_from(&[9; PAGE_BYTES]).unwrap();
    block_on(async { client.write(ends.writer.clone(), None, alloc::vec![page.clone()]).await }).unwrap();
    let taken = read(client, &ends, 1 << 20).unwrap();
    assert!(taken[0].location().0.same(page.location().0), "no copy");
}

#[test]
fn what_a_reader_holds_is_not_changed_by_later_writes() {
    let (client, ends, _) = stream();
    write(client, &ends, b"first").unwrap();
    let held = read(client, &ends, 5).unwrap();
    write(client, &ends, b"other").unwrap();
    assert_eq!(flat(&held), b"first");
}

#[test]
fn a_full_stream_holds_its_writer_back_until_the_reader_has_made_room() {
    let (client, ends, _) = stream();
    assert_eq!(write(client, &ends, &alloc::vec![1; STREAM_BYTES_MAX + 1]), Ok(STREAM_BYTES_MAX));
    assert_eq!(write(client, &ends, b"more"), Err(StreamError::Later));
    let writable = ends.writer.readiness().unwrap();
    assert!(!writable.now().contains(Ready::WRITE));
    block_on(async {
        let reader = ends.reader.clone();
        gyre_message::spawn(async move {
            gyre_message::sleep_ns(1000).await;
            client.read(reader, 0, PAGE_BYTES).await.unwrap();
        });
        assert!(writable.wait(Ready::WRITE).await.contains(Ready::WRITE));
    });
    assert_eq!(write(client, &ends, b"more"), Ok(4));
}

#[test]
fn the_end_comes_after_what_was_written_and_no_reader_is_an_error() {
    let (client, StreamEnds { reader, writer }, _) = stream();
    let ends = StreamEnds { reader: reader.clone(), writer };
    write(client, &ends, b"last words").unwrap();
    drop(ends);
    let take = |bytes| reader.take_near(0, bytes).unwrap();
    assert_eq!(flat(&take(4).unwrap()), b"last");
    assert!(reader.readiness().unwrap().now().contains(Ready::READ | Ready::HANG_UP));
    assert_eq!((flat(&take(100).unwrap()).as_slice(), take(100).unwrap().len()), (&b" words"[..], 0));
    let (client, StreamEnds { reader, writer }, _) = stream();
    drop(reader);
    let written = block_on(async { client.write(writer.clone(), None, pieces(b"x")).await });
    assert_eq!((written, writer.readiness().unwrap().now().contains(Ready::ERROR)), (Err(StreamError::Broken), true));
}

#[test]
fn a_closed_end_releases_every_page() {
    let page = Bytes::copy_from(&[3; PAGE_BYTES]).unwrap();
    let (client, StreamEnds { reader, writer }, _) = stream();
    block_on(async { client.write(writer.clone(), None, alloc::vec![page.clone(); 5]).await }).unwrap();
    assert!(page.location().0.is_shared());
    drop(reader);
    assert!(!page.location().0.is_shared(), "a writer alone holds nothing");
    drop(writer);
}

#[test]
fn ends_are_for_one_direction() {
    let (client, ends, moved) = stream();
    let read = block_on(async { client.read(ends.writer.clone(), 0, 1).await });
    let written = block_on(async { client.write(ends.reader.clone(), None, pieces(b"x")).await });
    assert_eq!((read.map(drop), written), (Err(StreamError::Broken), Err(StreamError::Broken)));
    assert_eq!(moved.load(Ordering::Relaxed), 0);
}

/// Something that has to wait for a device, and fails at offset 13.
struct Slow;

impl Endpoint for Slow {
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking {
        Box::pin(async move {
            gyre_message::sleep_ns(1000).await;
            if offset == 13 { Err(StreamError::Object(5)) } else { Ok(pieces(&alloc::vec![0; bytes / 2])) }
        })
    }

    fn take_near(&self, _offset: u64, _bytes: usize) -> Option<Taken> {
        None
    }

    fn give(self: Arc<Self>, _offset: Option<u64>, data: Vec<Bytes>) -> Giving {
        Box::pin(async move { Ok(flat(&data).len() / 2) })
    }

    fn give_near(&self, _offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>> {
        Err(data)
    }

    fn readiness(&self) -> Option<Arc<gyre_interface::Readiness>> {
        None
    }
}

#[test]
fn a_request_costs_what_was_moved_and_a_failed_one_nothing() {
    let (client, moved) = resource();
    block_on(async {
        let slow: Arc<dyn Endpoint> = Arc::new(Slow);
        assert_eq!(client.read(slow.clone(), 13, 100).await.map(drop), Err(StreamError::Object(5)));
        assert_eq!(moved.load(Ordering::Relaxed), 0);
        assert_eq!(flat(&client.read(slow.clone(), 0, 100).await.unwrap()).len(), 50);
        assert_eq!(client.write(slow, None, pieces(&[1; 80])).await, Ok(40));
        assert_eq!(client.pass(10).await, Ok(()));
    });
    assert_eq!(moved.load(Ordering::Relaxed), 50 + 40 + 10);
}
