//! epoll, poll, select, event counters and timers.

use super::world::{User, both, run};
use crate::Errno;
use linux_raw_sys::general as raw;
use std::vec;
use std::vec::Vec;

const ADD: u64 = 1;
const DEL: u64 = 2;
const MOD: u64 = 3;
const IN: u32 = 1;
const OUT: u32 = 4;

async fn control(user: &User, list: u64, operation: u64, fd: u64, events: u32) -> Result<u64, Errno> {
    let mut event = events.to_le_bytes().to_vec();
    event.extend_from_slice(&fd.to_le_bytes());
    let at = user.put(&event).await;
    user.call(233, &[list, operation, fd, at]).await
}

/// Returns the events and descriptors that epoll_wait gives.
async fn wait(user: &User, list: u64, ms: i32) -> Vec<(u32, u64)> {
    let out = user.room(12 * 16);
    let count = user.call(232, &[list, out, 16, ms as u32 as u64]).await.unwrap();
    let raw = user.get(out, count as usize * 12).await;
    let one = |entry: &[u8]| {
        let events = u32::from_le_bytes(entry[..4].try_into().unwrap());
        (events, u64::from_le_bytes(entry[4..].try_into().unwrap()))
    };
    raw.chunks_exact(12).map(one).collect()
}

#[test]
fn level_triggered_tells_as_long_as_it_is_so() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let (read, write) = user.pipe(0).await;
        control(&user, list, ADD, read, IN).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, []);
        user.write(write, b"ab").await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
        user.read(read, 2).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, []);
        user.close(write).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(0x10, read)]);
    });
}

#[test]
fn edge_triggered_tells_once_per_event() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let (read, write) = user.pipe(0).await;
        control(&user, list, ADD, read, IN | raw::EPOLLET).await.unwrap();
        user.write(write, b"ab").await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
        assert_eq!(wait(&user, list, 0).await, []);
        user.read(read, 1).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, []);
        user.write(write, b"c").await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
        control(&user, list, MOD, read, IN | raw::EPOLLET).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
    });
}

#[test]
fn one_shot_rests_until_it_is_armed_again() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let (read, write) = user.pipe(0).await;
        user.write(write, b"ab").await.unwrap();
        control(&user, list, ADD, read, IN | raw::EPOLLONESHOT).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
        user.write(write, b"ab").await.unwrap();
        assert_eq!(wait(&user, list, 0).await, []);
        control(&user, list, MOD, read, IN | raw::EPOLLONESHOT).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
    });
}

#[test]
fn a_wait_ends_with_an_event_or_its_time() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let (read, write) = user.pipe(0).await;
        control(&user, list, ADD, read, IN).await.unwrap();
        let before = gyre_machine::now();
        assert_eq!(wait(&user, list, 50).await, []);
        assert_eq!(gyre_machine::now() - before, 50_000_000);
        let (events, _) = both(wait(&user, list, -1), user.write(write, b"x")).await;
        assert_eq!(events, [(IN, read)]);
    });
}

#[test]
fn control_refuses_what_linux_refuses() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let (read, _write) = user.pipe(0).await;
        user.file("/f", b"").await;
        let file = user.open("/f", raw::O_RDONLY, 0).await.unwrap();
        assert_eq!(control(&user, list, ADD, file, IN).await, Err(Errno::EPERM));
        assert_eq!(control(&user, list, ADD, list, IN).await, Err(Errno::EINVAL));
        assert_eq!(control(&user, list, MOD, read, IN).await, Err(Errno::ENOENT));
        assert_eq!(control(&user, list, ADD, read, IN).await, Ok(0));
        assert_eq!(control(&user, list, ADD, read, IN).await, Err(Errno::EEXIST));
        assert_eq!(control(&user, list, DEL, read, 0).await, Ok(0));
        assert_eq!(control(&user, list, DEL, read, 0).await, Err(Errno::ENOENT));
        assert_eq!(control(&user, list, ADD, 99, IN).await, Err(Errno::EBADF));
        assert_eq!(control(&user, read, ADD, list, IN).await, Err(Errno::EINVAL));
        assert_eq!(user.call(232, &[list, 0, 0, 0]).await, Err(Errno::EINVAL));
        assert_eq!(user.call(291, &[1]).await, Err(Errno::EINVAL));
    });
}

#[test]
fn a_closed_descriptor_is_forgotten_only_with_its_last_copy() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let (read, write) = user.pipe(0).await;
        control(&user, list, ADD, read, IN).await.unwrap();
        let copy = user.call(32, &[read]).await.unwrap();
        user.close(read).await.unwrap();
        user.write(write, b"x").await.unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, read)]);
        user.close(copy).await.unwrap();
        assert_eq!(wait(&user, list, 0).await, []);
    });
}

#[test]
fn lists_nest_but_not_in_rings() {
    run(|user| async move {
        let (inner, outer) = (user.call(291, &[0]).await.unwrap(), user.call(291, &[0]).await.unwrap());
        let (read, write) = user.pipe(0).await;
        control(&user, inner, ADD, read, IN).await.unwrap();
        control(&user, outer, ADD, inner, IN).await.unwrap();
        assert_eq!(control(&user, inner, ADD, outer, IN).await, Err(Errno::ELOOP));
        assert_eq!(wait(&user, outer, 0).await, []);
        user.write(write, b"x").await.unwrap();
        assert_eq!(wait(&user, outer, 0).await, [(IN, inner)]);
        user.read(read, 1).await.unwrap();
        assert_eq!(wait(&user, outer, 0).await, []);
        assert_eq!(user.poll(inner, 1).await, 0);
    });
}

#[test]
fn many_ready_files_are_told_in_turn() {
    run(|user| async move {
        let list = user.call(291, &[0]).await.unwrap();
        let mut reads = vec![];
        for _ in 0..3 {
            let (read, write) = user.pipe(0).await;
            control(&user, list, ADD, read, IN).await.unwrap();
            user.write(write, b"x").await.unwrap();
            reads.push(read);
        }
        let out = user.room(12);
        let mut seen = vec![];
        for _ in 0..6 {
            assert_eq!(user.call(232, &[list, out, 1, 0]).await, Ok(1));
            let raw = user.get(out + 4, 8).await;
            seen.push(u64::from_le_bytes(raw.try_into().unwrap()));
        }
        assert_eq!(seen, [&reads[..], &reads[..]].concat());
    });
}

#[test]
fn an_event_counter_adds_and_gives() {
    run(|user| async move {
        let fd = user.call(290, &[3, u64::from(raw::EFD_NONBLOCK)]).await.unwrap();
        assert_eq!(user.write(fd, &4u64.to_le_bytes()).await, Ok(8));
        assert_eq!(user.read(fd, 8).await, Ok(7u64.to_le_bytes().to_vec()));
        assert_eq!(user.read(fd, 8).await, Err(Errno::EAGAIN));
        assert_eq!(user.read(fd, 4).await, Err(Errno::EINVAL));
        assert_eq!(user.write(fd, &u64::MAX.to_le_bytes()).await, Err(Errno::EINVAL));
        let fd = user.call(290, &[2, u64::from(raw::EFD_SEMAPHORE)]).await.unwrap();
        assert_eq!(user.read(fd, 8).await, Ok(1u64.to_le_bytes().to_vec()));
        assert_eq!(user.poll(fd, 5).await, 5);
        assert_eq!(user.read(fd, 8).await, Ok(1u64.to_le_bytes().to_vec()));
        assert_eq!(user.poll(fd, 5).await, 4);
    });
}

#[test]
fn a_timer_expires_and_counts() {
    run(|user| async move {
        let fd = user.call(283, &[1, 0]).await.unwrap();
        let words = [0u64, 10_000_000, 0, 20_000_000];
        let spec: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = user.put(&spec).await;
        user.call(286, &[fd, 0, at, 0]).await.unwrap();
        let before = gyre_machine::now();
        assert_eq!(user.read(fd, 8).await, Ok(1u64.to_le_bytes().to_vec()));
        assert_eq!(gyre_machine::now() - before, 20_000_000);
        gyre_message::sleep_ns(35_000_000).await;
        assert_eq!(user.poll(fd, 1).await, 1);
        assert_eq!(user.read(fd, 8).await, Ok(3u64.to_le_bytes().to_vec()));
        let off = user.put(&[0; 32]).await;
        user.call(286, &[fd, 0, off, 0]).await.unwrap();
        assert_eq!(user.poll_for(fd, 1, 100).await, Ok(0));
    });
}

#[test]
fn poll_tells_of_bad_descriptors_and_waits_its_time() {
    run(|user| async move {
        assert_eq!(user.poll(99, 1).await, 0x20);
        let (read, write) = user.pipe(0).await;
        let before = gyre_machine::now();
        assert_eq!(user.poll_for(read, 1, 30).await, Ok(0));
        assert_eq!(gyre_machine::now() - before, 30_000_000);
        let (bits, _) = both(user.poll_for(read, 1, -1), user.write(write, b"x")).await;
        assert_eq!(bits, Ok(1));
        assert_eq!(user.poll(write, OUT as u16).await, 4);
    });
}

#[test]
fn select_counts_bits_in_all_sets() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        user.write(write, b"x").await.unwrap();
        let reads = user.put(&(1u64 << read | 1 << write).to_le_bytes()).await;
        let writes = user.put(&(1u64 << write).to_le_bytes()).await;
        assert_eq!(user.call(23, &[write + 1, reads, writes, 0, 0]).await, Ok(2));
        assert_eq!(user.get(reads, 8).await, (1u64 << read).to_le_bytes());
        let time = user.put(&[0; 16]).await;
        let bad = user.put(&(1u64 << 50).to_le_bytes()).await;
        assert_eq!(user.call(23, &[51, bad, 0, 0, time]).await, Err(Errno::EBADF));
    });
}

#[test]
fn blocked_signals_are_read_from_a_descriptor() {
    run(|user| async move {
        use crate::signal::{SignalInfo, SignalSet};
        let term = SignalSet::of(15);
        user.thread.set_blocked(term);
        let set = user.put(&term.0.to_le_bytes()).await;
        let fd = user.call(289, &[u64::MAX, set, 8, u64::from(raw::O_NONBLOCK)]).await.unwrap();
        assert_eq!(user.read(fd, 128).await, Err(Errno::EAGAIN));
        let list = user.call(291, &[0]).await.unwrap();
        control(&user, list, ADD, fd, IN).await.unwrap();
        user.thread.process().send(SignalInfo::sent(15, 0, 42, 7)).unwrap();
        assert_eq!(wait(&user, list, 0).await, [(IN, fd)]);
        let record = user.read(fd, 200).await.unwrap();
        assert_eq!((record.len(), record[0], record[12], record[16]), (128, 15, 42, 7));
        assert_eq!(user.read(fd, 128).await, Err(Errno::EAGAIN));
        assert_eq!(wait(&user, list, 0).await, []);
        assert_eq!(user.read(fd, 100).await, Err(Errno::EINVAL));
    });
}
