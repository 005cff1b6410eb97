//! Local sockets, descriptors in messages, moving data between descriptors.

use super::world::{User, both, run};
use crate::Errno;
use linux_raw_sys::general as raw;
use std::vec;
use std::vec::Vec;

const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
const RECORD: u64 = 5;
const NONBLOCK: u64 = 0o4000;

async fn pair(user: &User, kind: u64) -> (u64, u64) {
    user.pair(53, &[1, kind, 0], 3).await.unwrap()
}

fn unix_address(name: &[u8]) -> Vec<u8> {
    [&[1, 0][..], name].concat()
}

async fn bind(user: &User, number: u64, fd: u64, name: &[u8]) -> Result<u64, Errno> {
    let address = unix_address(name);
    let at = user.put(&address).await;
    user.call(number, &[fd, at, address.len() as u64]).await
}

async fn socket(user: &User, kind: u64) -> u64 {
    user.call(41, &[1, kind, 0]).await.unwrap()
}

#[test]
fn a_pair_talks_both_ways_and_sees_the_end() {
    run(|user| async move {
        let (a, b) = pair(&user, STREAM).await;
        user.write(a, b"ping").await.unwrap();
        user.write(a, b"pong").await.unwrap();
        assert_eq!(user.read(b, 100).await, Ok(b"pingpong".to_vec()));
        let big: Vec<u8> = (0..1_000_000u32).map(|i| (i % 241) as u8).collect();
        let reader = async {
            let mut all = vec![];
            while all.len() < big.len() {
                all.extend(user.read(a, 70_000).await.unwrap());
            }
            all
        };
        let (got, sent) = both(reader, user.write(b, &big)).await;
        assert_eq!(sent, Ok(1_000_000));
        assert!(got == big);
        user.call(48, &[b, 1]).await.unwrap();
        assert_eq!(user.read(a, 10).await, Ok(vec![]));
        assert_eq!(user.write(b, b"x").await, Err(Errno::EPIPE));
        assert_eq!(user.write(a, b"still").await, Ok(5));
        user.close(b).await.unwrap();
        assert_eq!(user.write(a, b"x").await, Err(Errno::EPIPE));
        assert_eq!(user.poll(a, 1).await & 0x11, 0x11);
    });
}

#[test]
fn records_keep_their_borders() {
    run(|user| async move {
        for kind in [DATAGRAM, RECORD] {
            let (a, b) = pair(&user, kind).await;
            user.write(a, b"first").await.unwrap();
            user.write(a, b"second").await.unwrap();
            assert_eq!(user.read(b, 3).await, Ok(b"fir".to_vec()));
            assert_eq!(user.read(b, 100).await, Ok(b"second".to_vec()));
        }
    });
}

#[test]
fn a_listener_accepts_by_path_and_by_abstract_name() {
    run(|user| async move {
        for name in [&b"/tmp/sock\0"[..], b"\0hidden"] {
            let listener = socket(&user, STREAM | NONBLOCK).await;
            assert_eq!(bind(&user, 49, listener, name).await, Ok(0));
            let other = socket(&user, STREAM).await;
            assert_eq!(bind(&user, 42, other, name).await, Err(Errno::ECONNREFUSED));
            user.call(50, &[listener, 5]).await.unwrap();
            assert_eq!(user.call(43, &[listener, 0, 0]).await, Err(Errno::EAGAIN));
            assert_eq!(bind(&user, 42, other, name).await, Ok(0));
            assert_eq!(user.poll(listener, 1).await, 1);
            let accepted = user.call(43, &[listener, 0, 0]).await.unwrap();
            user.write(other, b"hello").await.unwrap();
            assert_eq!(user.read(accepted, 10).await, Ok(b"hello".to_vec()));
            let second = socket(&user, STREAM).await;
            assert_eq!(bind(&user, 49, second, name).await, Err(Errno::EADDRINUSE));
            assert_eq!(bind(&user, 42, other, name).await, Err(Errno::EISCONN));
            let late = socket(&user, STREAM).await;
            bind(&user, 42, late, name).await.unwrap();
            user.close(listener).await.unwrap();
            assert_eq!(user.read(late, 1).await, Err(Errno::ECONNRESET), "nobody accepted it: told once");
            assert_eq!(user.read(late, 1).await, Ok(vec![]));
            assert_eq!(bind(&user, 42, second, name).await, Err(Errno::ECONNREFUSED));
        }
        let none = socket(&user, STREAM).await;
        assert_eq!(bind(&user, 42, none, b"/tmp/none\0").await, Err(Errno::ENOENT));
    });
}

/// `struct msghdr` with one piece and ancillary room.
async fn message(user: &User, piece: u64, bytes: u64, control: u64, control_bytes: u64) -> u64 {
    let list = user.put(&[piece.to_le_bytes(), bytes.to_le_bytes()].concat()).await;
    let words = [0, 0, list, 1, control, control_bytes, 0];
    let raw: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    user.put(&raw).await
}

#[test]
fn descriptors_travel_with_messages_to_another_process() {
    run(|user| async move {
        let (a, b) = pair(&user, STREAM).await;
        let child = user.fork(2).await;
        user.file("/tmp/passed", b"contents").await;
        let file = user.open("/tmp/passed", raw::O_RDONLY, 0).await.unwrap();
        let mut control = 20u64.to_le_bytes().to_vec();
        control.extend_from_slice(&1u32.to_le_bytes());
        control.extend_from_slice(&1u32.to_le_bytes());
        control.extend_from_slice(&(file as u32).to_le_bytes());
        let control = user.put(&control).await;
        let piece = user.put(b"!").await;
        let header = message(&user, piece, 1, control, 20).await;
        assert_eq!(user.call(46, &[a, header, 0]).await, Ok(1));
        user.close(file).await.unwrap();
        let (room, piece) = (child.room(64), child.room(8));
        let header = message(&child, piece, 8, room, 64).await;
        assert_eq!(child.call(47, &[b, header, 0x4000_0000]).await, Ok(1));
        let raw = child.get(room, 24).await;
        assert_eq!(&raw[..16], &[20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        let got = u64::from(raw[16]);
        assert_eq!(child.read(got, 100).await, Ok(b"contents".to_vec()));
        assert_eq!(child.call(72, &[got, 1]).await, Ok(1));
        assert_eq!(child.get(header + 40, 1).await, [24]);
    });
}

#[test]
fn datagrams_go_to_names_and_wait_for_room() {
    run(|user| async move {
        let receiver = socket(&user, DATAGRAM).await;
        bind(&user, 49, receiver, b"\0log").await.unwrap();
        let sender = socket(&user, DATAGRAM | NONBLOCK).await;
        assert_eq!(user.write(sender, b"x").await, Err(Errno::ENOTCONN));
        bind(&user, 42, sender, b"\0log").await.unwrap();
        let mut sent = 0;
        while user.write(sender, &[7; 2000]).await.is_ok() {
            sent += 1;
        }
        assert!(sent > 50);
        assert_eq!(user.poll(sender, 4).await, 0);
        assert_eq!(user.read(receiver, 4000).await, Ok(vec![7; 2000]));
        for _ in 1..sent {
            user.read(receiver, 4000).await.unwrap();
        }
        assert_eq!(user.poll(sender, 4).await, 4);
        user.close(receiver).await.unwrap();
        assert_eq!(user.write(sender, b"x").await, Err(Errno::ECONNREFUSED));
    });
}

#[test]
fn sendfile_moves_a_file_and_its_offset() {
    run(|user| async move {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i % 239) as u8).collect();
        user.file("/big", &data).await;
        let file = user.open("/big", raw::O_RDONLY, 0).await.unwrap();
        let (a, b) = pair(&user, STREAM).await;
        let offset = user.put(&1000u64.to_le_bytes()).await;
        let reader = async {
            let mut all = vec![];
            while all.len() < 299_000 {
                all.extend(user.read(b, 65_536).await.unwrap());
            }
            all
        };
        let (got, sent) = both(reader, user.call(40, &[a, file, offset, 1 << 30])).await;
        assert_eq!(sent, Ok(299_000));
        assert!(got == data[1000..]);
        assert_eq!(user.get(offset, 8).await, 300_000u64.to_le_bytes());
        assert_eq!(user.call(8, &[file, 0, 1]).await, Ok(0));
        assert_eq!(user.call(40, &[a, file, 0, 10]).await, Ok(10));
        assert_eq!(user.call(8, &[file, 0, 1]).await, Ok(10));
        assert_eq!(user.call(40, &[file, a, 0, 10]).await, Err(Errno::EBADF));
    });
}

#[test]
fn splice_and_copy_move_between_files_and_pipes() {
    run(|user| async move {
        user.file("/from", b"0123456789").await;
        let from = user.open("/from", raw::O_RDONLY, 0).await.unwrap();
        let to = user.open("/to", raw::O_RDWR | raw::O_CREAT, 0o644).await.unwrap();
        let (read, write) = user.pipe(0).await;
        assert_eq!(user.call(275, &[from, 0, write, 0, 6, 0]).await, Ok(6));
        assert_eq!(user.call(275, &[read, 0, to, 0, 100, 0]).await, Ok(6));
        assert_eq!(user.call(326, &[from, 0, to, 0, 100, 0]).await, Ok(4));
        assert_eq!(user.call(8, &[to, 0, 0]).await, Ok(0));
        assert_eq!(user.read(to, 100).await, Ok(b"0123456789".to_vec()));
        assert_eq!(user.call(275, &[from, 0, to, 0, 6, 0]).await, Err(Errno::EINVAL));
    });
}

#[test]
fn families_and_options_that_are_not_here_are_refused() {
    run(|user| async move {
        assert_eq!(user.call(41, &[10, 1, 0]).await, Err(Errno::EAFNOSUPPORT));
        assert_eq!(user.call(41, &[9, 3, 0]).await, Err(Errno::EAFNOSUPPORT));
        let fd = socket(&user, STREAM).await;
        let value = user.put(&1u32.to_le_bytes()).await;
        assert_eq!(user.call(54, &[fd, 1, 2, value, 4]).await, Ok(0));
        assert_eq!(user.call(54, &[fd, 1, 9999, value, 4]).await, Err(Errno::ENOPROTOOPT));
        let length = user.put(&4u32.to_le_bytes()).await;
        assert_eq!(user.call(55, &[fd, 1, 3, value, length]).await, Ok(0));
        assert_eq!(user.get(value, 4).await, 1u32.to_le_bytes());
        assert_eq!(user.call(54, &[1, 1, 2, value, 4]).await, Err(Errno::ENOTSOCK));
    });
}
