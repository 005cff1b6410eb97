//! The cost of cached operations on a host. Prints figures; run with `--release -- --ignored --nocapture`.

use crate::support::*;
use gyre_interface::files::files::{Request, Server, serve};
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use gyre_message::reply_pair;
use std::future::Future;
use std::hint::black_box;
use std::time::Instant;

fn time<T>(name: &str, mut act: impl FnMut() -> T) {
    let mut best = f64::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        (0..1000).for_each(|_| drop(black_box(act())));
        best = best.min(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    println!("{name}: {best:.0} ns");
}

/// Runs a future that does not wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a cached operation waited"),
    }
}

#[test]
fn a_request_in_flight_takes_little_memory() {
    block_on(async {
        let (_, fs, _) = mount(make_image(1024, &["-b", "1024"])).await;
        let (reply, _call) = reply_pair();
        let bytes = size_of_val(&serve(fs, Request::root { reply }));
        println!("future of a request: {bytes} bytes");
        assert!(bytes <= 512, "{bytes} bytes are copied for each request");
    });
}

#[test]
#[ignore = "prints figures of this host"]
fn cached_operations_cost() {
    block_on(async {
        let (_, fs, client) = mount(make_image(4096, &["-b", "4096"])).await;
        let root = client.root().await.unwrap();
        let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 0, group: 0, target: Vec::new(), device: 0 };
        let node = client.create(root, b"index.html".to_vec(), new).await.unwrap().node;
        client.write(node, 0, views_of(&[1; 65_536])).await.unwrap();
        client.read(node, 0, 65_536).await.unwrap();
        time("lookup", || now(fs.lookup(root, b"index.html".to_vec())).unwrap());
        time("lookup of an absent name", || now(fs.lookup(root, b"absent".to_vec())));
        time("attributes", || now(fs.attributes(node)).unwrap());
        time("page", || now(fs.page(node, 3, Pattern::Usual)).unwrap());
        time("read 4 KiB", || now(fs.read(node, 8192, 4096)).unwrap());
        time("read 64 KiB", || now(fs.read(node, 0, 65_536)).unwrap());
        time("write 4 KiB", || now(fs.write(node, 8192, views_of(&[2; 4096]))).unwrap());
        time("page through serve", || {
            let (reply, call) = reply_pair();
            now(serve(fs, Request::page { node, index: 3, pattern: Pattern::Usual, reply }));
            now(call).unwrap()
        });
    });
}
