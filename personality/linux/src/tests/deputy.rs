//! Signals of a program that acts on them by itself ([`Deputy`]): what it holds back waits here, and it is told of the rest.
//!
//! The tests play the program: they write its word, and make its calls beside each other in its thread's name. The thread itself waits in a call.

use super::script::*;
use crate::signal::SignalInfo;
use crate::signal::calls::{rt_sigpending, rt_sigtimedwait};
use crate::signal::news::{Deputy, SignalNews, Waiting};
use crate::signal::number::{SIGKILL, SIGTERM, SIGUSR1};
use crate::{Arguments, Errno, Process, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::{Future, pending, poll_fn};
use core::task::Poll;
use gyre_message::direct::block_on;
use gyre_message::wait::{Either, select};
use std::sync::atomic::{AtomicU64, Ordering};

const NONE: Waiting = Waiting { open: 0, held: 0 };
/// More than everything that is done at once takes, virtual time.
const LONG_NS: u64 = 1_000_000_000;

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A process that is not its tenant's first one, and its thread.
async fn program() -> (Arc<Process>, Arc<Thread>) {
    let tenant = tenant().await;
    start_resting(&tenant).await;
    let process = start_resting(&tenant).await;
    let thread = process.threads.lock()[0].clone();
    (process, thread)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    match select(future, gyre_message::sleep_ns(LONG_NS)).await {
        Either::First(value) => value,
        Either::Second(()) => panic!("nobody was told"),
    }
}

#[test]
fn a_signal_that_is_held_back_ends_nothing_and_is_told() {
    block_on(async {
        let (process, thread) = program().await;
        let (deputy, word) = (Deputy::new(&thread), AtomicU64::new(bit(SIGTERM)));
        let held = || word.load(Ordering::Relaxed);
        let waits = Waiting { open: 0, held: bit(SIGTERM) };
        // It is sent while the deputy waits: nobody's mask lets it in, and it is told all the same.
        let news = deputy.news(NONE, held);
        let send = async {
            gyre_message::sleep_ns(LONG_NS / 2).await;
            process.send(SignalInfo::new(SIGTERM, 0)).unwrap();
            pending::<()>().await;
        };
        match soon(select(news, send)).await {
            Either::First(news) => assert_eq!(news, SignalNews::Waiting(waits)),
            Either::Second(()) => unreachable!("it waits for ever"),
        }
        rt_sigpending(&thread, Arguments([DATA, 8, 0, 0, 0, 0])).await.unwrap();
        assert_eq!(super::script::word(&process, DATA).await, bit(SIGTERM));
        // A call that waits goes on waiting.
        let call = thread.interruptible(gyre_message::sleep_ns(1000));
        assert_eq!(call.await, Ok(()));
        word.store(0, Ordering::Relaxed);
        assert_eq!(soon(deputy.news(waits, held)).await, SignalNews::Ends);
    });
}

#[test]
fn a_signal_with_a_handler_is_told_once_it_is_let_in() {
    block_on(async {
        let (process, thread) = program().await;
        let (deputy, word) = (Deputy::new(&thread), AtomicU64::new(u64::MAX));
        let held = || word.load(Ordering::Relaxed);
        let handled = crate::signal::Action { handler: 0x1000, ..Default::default() };
        process.signals.lock().actions.set(SIGUSR1, handled);
        deputy.hold(u64::MAX);
        process.send(SignalInfo::new(SIGUSR1, 0)).unwrap();
        let waits = Waiting { open: 0, held: bit(SIGUSR1) };
        assert_eq!(soon(deputy.news(NONE, held)).await, SignalNews::Waiting(waits));
        word.store(!bit(SIGUSR1), Ordering::Relaxed);
        let open = Waiting { open: bit(SIGUSR1), held: 0 };
        assert_eq!(soon(deputy.news(waits, held)).await, SignalNews::Waiting(open));
        // Whatever the word says.
        word.store(u64::MAX, Ordering::Relaxed);
        process.send(SignalInfo::new(SIGKILL, 0)).unwrap();
        assert_eq!(soon(deputy.news(waits, held)).await, SignalNews::Ends);
    });
}

#[test]
fn two_calls_wait_for_signals_beside_each_other() {
    block_on(async {
        let (process, thread) = program().await;
        let deputy = Deputy::new(&thread);
        deputy.hold(u64::MAX);
        for (place, signal) in [(0, SIGUSR1), (8, SIGTERM)] {
            process.space().write_struct(DATA + place, &bit(signal)).await.unwrap();
        }
        let wait = |place: u64| rt_sigtimedwait(&thread, Arguments([DATA + place, 0, 0, 8, 0, 0]));
        let (mut first, mut second) = (Box::pin(wait(0)), Box::pin(wait(8)));
        let both = poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending() && second.as_mut().poll(context).is_pending());
            Poll::Ready(())
        });
        both.await;
        process.send(SignalInfo::new(SIGUSR1, 0)).unwrap();
        assert_eq!(soon(first).await, Ok(SIGUSR1 as u64));
        process.send(SignalInfo::new(SIGTERM, 0)).unwrap();
        assert_eq!(soon(second).await, Ok(SIGTERM as u64));
    });
}

#[test]
fn a_call_that_is_given_up_ends_and_others_wait_on() {
    block_on(async {
        let (_process, thread) = program().await;
        let deputy = Deputy::new(&thread);
        let wait = || Box::pin(thread.interruptible(pending::<()>()));
        let (mut given_up, mut other) = (wait(), wait());
        poll_fn(|context| {
            assert!(given_up.as_mut().poll(context).is_pending() && other.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        deputy.call();
        poll_fn(|context| {
            let polled = deputy.give_up(|| given_up.as_mut().poll(context));
            assert_eq!(polled, Poll::Ready(Err(Errno::ERESTARTSYS)));
            assert!(other.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    });
}
