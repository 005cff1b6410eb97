//! Handlers that take much stack are not started inside each other without end.

mod common;
use common::*;
use gyre_account::ResourceId;
use gyre_engine::ResourceConfig;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_message::{Link, protocol};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

protocol! {
    /// Goes down and keeps stack meanwhile.
    pub mod deep {
        /// Returns the lowest stack position seen.
        async fn down(level: u32) -> Result<usize, Nobody>;
    }
}

struct Deep(OnceLock<deep::Client>, AtomicUsize);

/// Returns the address of the stack; a local of an async function may lie in its future instead.
#[inline(never)]
fn stack_position() -> usize {
    let here = 0u8;
    std::hint::black_box(&raw const here).addr()
}

/// Sends from a frame of 40 KiB.
#[inline(never)]
fn send_from_deep_down(client: deep::Client, level: u32) -> gyre_message::Call<Result<usize, Nobody>> {
    let mut room = [0u8; 40 << 10];
    std::hint::black_box(&mut room);
    let call = client.down(level);
    std::hint::black_box(&mut room);
    call
}

impl deep::Server for Deep {
    async fn down(&'static self, level: u32) -> Result<usize, Nobody> {
        let position = stack_position();
        self.1.fetch_min(position, Ordering::Relaxed);
        match self.0.get() {
            Some(client) if level < 6 => send_from_deep_down(*client, level + 1).await,
            _ => Ok(position),
        }
    }
}

#[test]
fn a_chain_of_hungry_handlers_stays_within_the_stack_that_the_engine_allows() {
    let engine = engine(1, vec![ResourceConfig::new("deep")]);
    let server: &'static Deep = Box::leak(Box::new(Deep(OnceLock::new(), AtomicUsize::new(usize::MAX))));
    let client = deep::Client::new(Link::new(engine.port(resource(0), move |request| deep::serve(server, request))));
    assert!(server.0.set(client).is_ok());
    let tenant = tenant(engine, 1);
    let done = Rc::new(Cell::new(0usize));
    let top = Rc::new(Cell::new(0usize));
    let (answer, highest) = (done.clone(), top.clone());
    engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
        highest.set(stack_position());
        answer.set(client.down(0).await.unwrap());
    });
    let mut simulator = Simulator::new(engine, 1);
    let answer = done.clone();
    assert_eq!(simulator.run(1_000, move || answer.get() != 0), Stop::Done);
    let used = top.get().abs_diff(server.1.load(Ordering::Relaxed));
    assert!(used < gyre_engine::limits::INLINE_STACK_BYTES + (48 << 10), "{used} bytes of stack");
    assert!(used > 40 << 10, "something ran inline: {used}");
}
