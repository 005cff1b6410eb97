//! How much of the host's time a stream takes over the link, beside the loopback of one instance.
//!
//! One thread plays all cores, so its time is that of both ends. The engine, TCP and all copies are the same code in both cases.

use crate::whole::plan::MS;
use crate::whole::streams::{Listener, Stream};
use crate::whole::zones::machine::{Zone, address};
use crate::whole::zones::world::Linked;
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_interface::tcp::{NetError, SocketAddress};
use gyre_message::WaitQueue;
use gyre_object::{Bytes, Page};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

/// The place of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// In the same instance: its loopback.
    Loopback,
    /// In the other instance.
    Link,
}

const PORT: u16 = 81;
/// Bytes that are sent in one request.
const PART_BYTES: usize = 64 << 10;

/// Returns the host's time for each 64 KiB of a stream of so many, ns.
///
/// # Panics
/// If the stream does not end.
pub fn ns_for_each(way: Way, parts: usize) -> u64 {
    let mut linked = Linked::new(7, [1, 1]);
    let server = if way == Way::Link { 1 } else { 0 };
    let got = Rc::new(Cell::new(0));
    let (counted, begun) = (got.clone(), Instant::now());
    linked.within(server, |zone| spawn(zone, 1, receive(zone.clone(), counted)));
    linked.within(0, |zone| {
        spawn(zone, 0, send(zone.clone(), SocketAddress { address: address(server, 1), port: PORT }, parts))
    });
    let mut until_ns = 2 * MS;
    while got.get() < parts * PART_BYTES {
        linked.pass_until(until_ns);
        until_ns += MS;
        assert!(until_ns < 1_000_000 * MS, "{way:?}: {} bytes came", got.get());
    }
    begun.elapsed().as_nanos() as u64 / parts as u64
}

fn spawn(zone: &Rc<Zone>, tenant: usize, task: impl Future<Output = ()> + 'static) {
    zone.engine.spawn_for(id(Resource::Process), zone.activities[tenant], task);
}

async fn send(zone: Rc<Zone>, remote: SocketAddress, parts: usize) {
    gyre_message::sleep_ns(MS).await;
    let stream = Stream::connect(zone.network.tcp, remote).await.expect("the server listens");
    let source: Vec<Page> = (0..16).map(|_| Page::zeroed().expect("there is memory")).collect();
    for _ in 0..parts {
        // as a program's write does: its bytes are copied into pages
        let copy = |page: &Page| {
            let own = Page::uncleared().expect("there is memory");
            own.copy_page(0, page, 0, page.len());
            Bytes::new(own, 0, page.len())
        };
        stream.send(source.iter().map(copy).collect()).await.expect("the stream lives");
    }
    WaitQueue::new().wait().await;
}

async fn receive(zone: Rc<Zone>, got: Rc<Cell<usize>>) {
    let listener = Listener::new(zone.network.tcp, PORT).await.expect("the port is free");
    let stream = loop {
        match listener.accept().await {
            Ok(stream) => break stream,
            Err(NetError::WouldBlock) => listener.wait(MS).await,
            Err(error) => panic!("{error:?}"),
        }
    };
    let target = Page::zeroed().expect("there is memory");
    loop {
        // as a program's read does: the bytes are copied to its pages
        for view in stream.receive_views(PART_BYTES).await.expect("the stream lives") {
            let (page, start) = view.location();
            target.copy_from(0, page, start, view.len());
            got.set(got.get() + view.len());
        }
    }
}
