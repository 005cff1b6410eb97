//! Chains and rings that a program makes: of sockets in flight, of interest lists, of many items. They run on a small
//! stack, as in the kernel.

use super::world::{User, run};
use crate::Errno;
use crate::file::in_flight::IN_FLIGHT_MAX;
use core::sync::atomic::Ordering;
use std::vec::Vec;

/// As much as a kernel's stack, in code that is not optimized.
const STACK_BYTES: usize = 2 << 20;

fn run_on_small_stack<F: Future<Output = ()>>(test: impl FnOnce(User) -> F + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(test)).unwrap();
    thread.join().unwrap();
}

pub(super) async fn pair(user: &User) -> (u64, u64) {
    user.pair(53, &[1, 1, 0], 3).await.unwrap()
}

/// Sends descriptors over a socket.
pub(super) async fn send(user: &User, over: u64, descriptors: &[u64]) -> Result<u64, Errno> {
    let text = user.put(b"x").await;
    let mut piece = text.to_le_bytes().to_vec();
    piece.extend_from_slice(&1u64.to_le_bytes());
    let piece = user.put(&piece).await;
    let mut control = (16 + 4 * descriptors.len() as u64).to_le_bytes().to_vec();
    control.extend_from_slice(&1u32.to_le_bytes());
    control.extend_from_slice(&1u32.to_le_bytes());
    descriptors.iter().for_each(|fd| control.extend_from_slice(&(*fd as u32).to_le_bytes()));
    let bytes = control.len() as u64;
    let control = user.put(&control).await;
    let words = [0, 0, piece, 1, control, bytes, 0];
    let header: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let header = user.put(&header).await;
    user.call(46, &[over, header, 0x40]).await
}

/// Returns a chain of sockets, each sent over the next; answers the last, which alone has a descriptor.
async fn chain(user: &User, length: usize) -> u64 {
    let (last, mut held) = pair(user).await;
    user.close(last).await.unwrap();
    for _ in 0..length {
        let (over, next) = pair(user).await;
        send(user, over, &[held]).await.unwrap();
        user.close(held).await.unwrap();
        user.close(over).await.unwrap();
        held = next;
    }
    held
}

/// Waits until everything let go of is taken apart; returns the numbers of open files and of those in flight.
async fn settled(user: &User) -> (usize, usize) {
    gyre_message::sleep_ns(1_000_000).await;
    let tenant = user.thread.process().files().tenant().clone();
    (tenant.open_count(), tenant.in_flight.count())
}

#[test]
fn the_longest_chain_of_sockets_in_flight_ends_with_its_last_descriptor() {
    run_on_small_stack(|user| async move {
        let before = settled(&user).await;
        let held = chain(&user, IN_FLIGHT_MAX).await;
        let (over, other) = pair(&user).await;
        assert_eq!(send(&user, over, &[other]).await, Err(Errno::ETOOMANYREFS));
        // Messages that find no room do not queue a search each.
        let tenant = user.thread.process().files().tenant().clone();
        assert!(tenant.in_flight.wants_rings());
        assert_eq!(send(&user, over, &[other]).await, Err(Errno::ETOOMANYREFS));
        assert!(!tenant.in_flight.wants_rings());
        let searches = || user.thread.process().files().tenant().in_flight.searches.load(Ordering::Relaxed);
        let earlier = searches();
        user.close(held).await.unwrap();
        assert_eq!(settled(&user).await, (before.0 + 2, 0));
        assert!(searches() <= earlier + 1, "a search for each socket costs their number squared");
        assert_eq!(send(&user, over, &[other]).await, Ok(1));
    });
}

#[test]
fn a_thousand_chains_leave_nothing() {
    run_on_small_stack(|user| async move {
        let before = settled(&user).await;
        for _ in 0..1000 {
            let held = chain(&user, 5).await;
            user.close(held).await.unwrap();
        }
        assert_eq!(settled(&user).await, before);
    });
}

#[test]
fn what_a_short_message_held_is_closed_when_the_call_answers() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        let (over, other) = pair(&user).await;
        send(&user, over, &[write]).await.unwrap();
        user.close(write).await.unwrap();
        assert_eq!(user.poll(read, 1).await, 0);
        user.close(other).await.unwrap();
        assert_eq!(user.poll(read, 1).await, 0x10);
    });
}

#[test]
fn sockets_that_only_one_another_hold_are_closed() {
    run(|user| async move {
        let before = settled(&user).await;
        let (read, write) = user.pipe(0).await;
        for length in 1..6 {
            // A ring: each is in the inbox of the next, and the first holds a pipe too.
            let mut pairs = Vec::new();
            for _ in 0..length {
                pairs.push(pair(&user).await);
            }
            send(&user, pairs[0].0, &[write]).await.unwrap();
            for at in 0..length {
                send(&user, pairs[(at + 1) % length].0, &[pairs[at].1]).await.unwrap();
            }
            for (over, other) in pairs {
                user.close(other).await.unwrap();
                user.close(over).await.unwrap();
            }
            assert_eq!(settled(&user).await, (before.0 + 2, 0), "{length}");
        }
        user.close(write).await.unwrap();
        assert_eq!(user.poll(read, 1).await, 0x10);
    });
}

#[test]
fn a_ring_that_somebody_can_reach_stays() {
    run(|user| async move {
        let (a, b) = pair(&user).await;
        let (over, held) = pair(&user).await;
        send(&user, a, &[b]).await.unwrap();
        send(&user, over, &[b, a]).await.unwrap();
        user.close(b).await.unwrap();
        user.close(a).await.unwrap();
        user.close(over).await.unwrap();
        let (_, in_flight) = settled(&user).await;
        assert_eq!(in_flight, 3);
        user.close(held).await.unwrap();
        assert_eq!(settled(&user).await.1, 0);
    });
}

#[test]
fn rings_do_not_fill_the_table_for_ever() {
    run(|user| async move {
        let before = settled(&user).await;
        for _ in 0..IN_FLIGHT_MAX {
            let (a, b) = pair(&user).await;
            send(&user, a, &[a, b]).await.unwrap();
            send(&user, b, &[a, b]).await.unwrap();
            user.close(a).await.unwrap();
            user.close(b).await.unwrap();
        }
        let (over, other) = pair(&user).await;
        user.close(over).await.unwrap();
        user.close(other).await.unwrap();
        assert_eq!(settled(&user).await, before);
    });
}

#[test]
fn a_listener_that_waits_in_its_own_backlog_is_closed() {
    run(|user| async move {
        let before = settled(&user).await;
        let listener = user.call(41, &[1, 1, 0]).await.unwrap();
        let address = user.put(b"\x01\0\0ring").await;
        user.call(49, &[listener, address, 7]).await.unwrap();
        user.call(50, &[listener, 5]).await.unwrap();
        let client = user.call(41, &[1, 1, 0]).await.unwrap();
        user.call(42, &[client, address, 7]).await.unwrap();
        send(&user, client, &[listener]).await.unwrap();
        user.close(listener).await.unwrap();
        assert_eq!(settled(&user).await, (before.0 + 2, 1));
        user.close(client).await.unwrap();
        assert_eq!(settled(&user).await, before);
    });
}

async fn list(user: &User) -> u64 {
    user.call(291, &[0]).await.unwrap()
}

async fn add(user: &User, list: u64, fd: u64) -> Result<u64, Errno> {
    let mut event = 1u32.to_le_bytes().to_vec();
    event.extend_from_slice(&fd.to_le_bytes());
    let at = user.put(&event).await;
    user.call(233, &[list, 1, fd, at]).await
}

#[test]
fn a_chain_of_lists_is_five_long_from_whichever_side_it_grows() {
    run_on_small_stack(|user| async move {
        for downwards in [true, false] {
            let (mut lists, mut added) = (Vec::new(), Vec::new());
            for _ in 0..7 {
                lists.push(list(&user).await);
            }
            for pair in lists.windows(2) {
                let (outer, inner) = if downwards { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
                added.push(add(&user, outer, inner).await);
            }
            let (good, bad) = (Ok(0), Err(Errno::ELOOP));
            assert_eq!(added, [good, good, good, good, bad, good], "{downwards}");
            let (bottom, top) = if downwards { (lists[4], lists[0]) } else { (lists[0], lists[4]) };
            let (read, write) = user.pipe(0).await;
            add(&user, bottom, read).await.unwrap();
            assert_eq!(user.poll(top, 1).await, 0);
            user.write(write, b"x").await.unwrap();
            assert_eq!(user.poll(top, 1).await, 1);
            user.read(read, 1).await.unwrap();
            assert_eq!(user.poll(top, 1).await, 0);
        }
    });
}

#[test]
fn many_items_are_closed_from_both_sides_and_leave_nothing() {
    run(|user| async move {
        let before = settled(&user).await;
        let nests = |user: &User| user.thread.process().files().tenant().nests.count();
        let (read, write) = user.pipe(0).await;
        let outer = list(&user).await;
        let mut lists = Vec::new();
        for _ in 0..900 {
            let inner = list(&user).await;
            add(&user, inner, read).await.unwrap();
            add(&user, outer, inner).await.unwrap();
            lists.push(inner);
        }
        user.write(write, b"x").await.unwrap();
        assert_eq!((user.poll(outer, 1).await, nests(&user)), (1, 900));
        user.close(read).await.unwrap();
        user.close(write).await.unwrap();
        gyre_message::sleep_ns(1_000_000).await;
        // The list is looked through in several turns.
        let out = user.room(12 * 4);
        assert_eq!(user.call(232, &[outer, out, 4, 0]).await, Ok(0));
        user.close(outer).await.unwrap();
        gyre_message::sleep_ns(1_000_000).await;
        assert_eq!(nests(&user), 0);
        user.call(436, &[lists[0], *lists.last().unwrap(), 0]).await.unwrap();
        assert_eq!(settled(&user).await, before);
    });
}
