//! Pipes and named pipes.

use super::world::{both, run};
use crate::Errno;
use linux_raw_sys::general as raw;
use std::vec;

#[test]
fn a_pipe_gives_bytes_in_order_then_its_end() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        assert_eq!(user.write(write, b"one").await, Ok(3));
        assert_eq!(user.write(write, b"two").await, Ok(3));
        assert_eq!(user.read(read, 4).await, Ok(b"onet".to_vec()));
        user.close(write).await.unwrap();
        assert_eq!(user.read(read, 100).await, Ok(b"wo".to_vec()));
        assert_eq!(user.read(read, 100).await, Ok(vec![]));
        assert_eq!(user.poll(read, 1).await, 0x10);
    });
}

#[test]
fn a_reader_waits_for_the_writer() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        let (got, sent) = both(user.read(read, 10), user.write(write, b"late")).await;
        assert_eq!(got, Ok(b"late".to_vec()));
        assert_eq!(sent, Ok(4));
    });
}

#[test]
fn a_large_write_waits_for_room_and_loses_nothing() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        let data: vec::Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let reader = async {
            let mut all = vec![];
            while all.len() < data.len() {
                all.extend(user.read(read, 50_000).await.unwrap());
            }
            all
        };
        let (got, sent) = both(reader, user.write(write, &data)).await;
        assert_eq!(sent, Ok(300_000));
        assert!(got == data);
    });
}

#[test]
fn without_waiting_small_writes_are_whole_or_refused() {
    run(|user| async move {
        let (read, write) = user.pipe(raw::O_NONBLOCK).await;
        assert_eq!(user.read(read, 1).await, Err(Errno::EAGAIN));
        assert_eq!(user.write(write, &[1; 65_000]).await, Ok(65_000));
        assert_eq!(user.write(write, &[2; 1000]).await, Err(Errno::EAGAIN));
        assert_eq!(user.write(write, &[2; 5000]).await, Ok(536));
        assert_eq!(user.write(write, b"x").await, Err(Errno::EAGAIN));
        assert_eq!(user.poll(write, 4).await, 0);
        assert_eq!(user.read(read, 4096).await.unwrap().len(), 4096);
        assert_eq!(user.poll(write, 4).await, 4);
    });
}

#[test]
fn writing_without_readers_fails_and_sends_a_signal() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        user.close(read).await.unwrap();
        // The first process of a tenant does not get it.
        assert_eq!(user.write(write, b"x").await, Err(Errno::EPIPE));
        assert!(!user.thread.has_signal());
        let child = user.fork(2).await;
        child.close(read).await.unwrap_err();
        assert_eq!(child.write(write, b"x").await, Err(Errno::EPIPE));
        assert!(child.thread.has_signal());
        assert_eq!(user.poll(write, 4).await, 4 | 8);
    });
}

#[test]
fn a_named_pipe_is_opened_when_both_sides_come() {
    run(|user| async move {
        user.with_path(133, "/tmp/fifo", &[0o10_644, 0]).await.unwrap();
        assert_eq!(user.open("/tmp/fifo", raw::O_WRONLY | raw::O_NONBLOCK, 0).await, Err(Errno::ENXIO));
        let child = user.fork(2).await;
        let reader = async { user.open("/tmp/fifo", raw::O_RDONLY, 0).await.unwrap() };
        let writer = async {
            let fd = child.open("/tmp/fifo", raw::O_WRONLY, 0).await.unwrap();
            child.write(fd, b"through").await.unwrap();
            child.close(fd).await.unwrap();
        };
        let (fd, ()) = both(reader, writer).await;
        assert_eq!(user.read(fd, 100).await, Ok(b"through".to_vec()));
        assert_eq!(user.read(fd, 100).await, Ok(vec![]));
    });
}

#[test]
fn a_process_that_ends_lets_go_of_its_pipe() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        let child = user.fork(2).await;
        user.close(write).await.unwrap();
        let reader = user.read(read, 10);
        let (got, ()) = both(reader, child.exit()).await;
        assert_eq!(got, Ok(vec![]));
    });
}

#[test]
fn capacity_can_be_asked_and_set() {
    run(|user| async move {
        let (_, write) = user.pipe(0).await;
        assert_eq!(user.call(72, &[write, 1032]).await, Ok(65_536));
        assert_eq!(user.call(72, &[write, 1031, 5000]).await, Ok(8192));
        assert_eq!(user.call(72, &[write, 1031, 2 << 20]).await, Err(Errno::EPERM));
    });
}

#[test]
fn a_writer_that_came_and_went_lets_the_reader_in() {
    run(|user| async move {
        user.with_path(133, "/tmp/fifo", &[0o10_644, 0]).await.unwrap();
        let child = user.fork(2).await;
        let writer = async {
            let fd = child.open("/tmp/fifo", raw::O_WRONLY, 0).await.unwrap();
            child.exit().await;
            fd
        };
        let reader = async { user.open("/tmp/fifo", raw::O_RDONLY, 0).await.unwrap() };
        let (_, fd) = both(writer, reader).await;
        assert_eq!(user.read(fd, 100).await, Ok(vec![]));
    });
}

#[test]
fn a_few_bytes_are_moved_at_once_unless_somebody_must_wait() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        let (from, to) = (user.put(b"few").await, user.room(64));
        assert_eq!(user.call_at_once(0, &[read, to, 3]), None, "an empty pipe");
        assert_eq!(user.call_at_once(1, &[write, from, 3]), Some(Ok(3)));
        assert_eq!(user.call_at_once(0, &[read, to, 2]), Some(Ok(2)));
        assert_eq!(user.get(to, 2).await, b"fe");
        assert_eq!(user.call_at_once(0, &[write, to, 1]), None, "an end that is not for reading");
        assert_eq!(user.call_at_once(0, &[read, to, 65]), None, "more than a few");
        user.close(write).await.unwrap();
        assert_eq!(user.call_at_once(0, &[read, to, 64]), Some(Ok(1)));
        assert_eq!(user.call_at_once(0, &[read, to, 64]), Some(Ok(0)), "the end");
        assert_eq!(user.call_at_once(1, &[read, from, 1]), None, "an end that is not for writing");
    });
}

#[test]
fn a_read_at_once_takes_nothing_where_it_cannot_put_it() {
    run(|user| async move {
        let (read, write) = user.pipe(0).await;
        let from = user.put(b"kept").await;
        assert_eq!(user.call_at_once(1, &[write, from, 4]), Some(Ok(4)));
        for bad in [0, 8, u64::MAX, u64::MAX - 1, 0x7fff_ffff_f000, from | 1 << 47] {
            assert_eq!(user.call_at_once(0, &[read, bad, 4]), None, "{bad:#x}");
            assert_eq!(user.call_at_once(1, &[write, bad, 4]), None, "{bad:#x}");
        }
        assert_eq!(user.read(read, 10).await, Ok(b"kept".to_vec()));
    });
}
