//! Regular files, directories, descriptors, /proc and /dev.

use super::world::{both, run};
use crate::Errno;
use linux_raw_sys::general as raw;
use std::string::String;
use std::vec;
use std::vec::Vec;

#[test]
fn reads_and_writes_move_the_position_and_pread_does_not() {
    run(|user| async move {
        user.file("/f", b"0123456789").await;
        let fd = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        assert_eq!(user.read(fd, 4).await, Ok(b"0123".to_vec()));
        let at = user.room(8);
        assert_eq!(user.call(17, &[fd, at, 3, 7]).await, Ok(3));
        assert_eq!(user.get(at, 3).await, b"789");
        assert_eq!(user.write(fd, b"XX").await, Ok(2));
        assert_eq!(user.call(8, &[fd, (-2i64) as u64, 2]).await, Ok(8));
        assert_eq!(user.read(fd, 10).await, Ok(b"89".to_vec()));
        assert_eq!(user.read(fd, 10).await, Ok(vec![]));
        assert_eq!(user.call(8, &[fd, (-1i64) as u64, 0]).await, Err(Errno::EINVAL));
        assert_eq!(user.call(8, &[fd, 3, 4]).await, Ok(10));
        assert_eq!(user.call(8, &[fd, 10, 3]).await, Err(Errno::ENXIO));
        assert_eq!(user.call(17, &[fd, at, 3, (-1i64) as u64]).await, Err(Errno::EINVAL));
    });
}

#[test]
fn a_large_file_comes_back_whole_through_vectors() {
    run(|user| async move {
        let data: Vec<u8> = (0..400_000u32).map(|i| (i * 7 % 253) as u8).collect();
        user.file("/big", &data).await;
        let fd = user.open("/big", raw::O_RDONLY, 0).await.unwrap();
        let (first, second) = (user.room(100_001), user.room(299_999));
        let mut list = vec![];
        for (at, bytes) in [(first, 100_001u64), (0, 0), (second, 299_999)] {
            list.extend_from_slice(&at.to_le_bytes());
            list.extend_from_slice(&bytes.to_le_bytes());
        }
        let list = user.put(&list).await;
        assert_eq!(user.call(19, &[fd, list, 3]).await, Ok(400_000));
        assert!(user.get(first, 100_001).await == data[..100_001]);
        assert!(user.get(second, 299_999).await == data[100_001..]);
        assert_eq!(user.call(19, &[fd, list, 1025]).await, Err(Errno::EINVAL));
    });
}

#[test]
fn bad_buffers_answer_efault_and_half_bad_ones_a_part() {
    run(|user| async move {
        user.file("/f", &[5; 10_000]).await;
        let fd = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        for address in [0u64, 0xffff_8000_0000_0000, 0x7fff_ffff_f000, u64::MAX] {
            assert_eq!(user.call(0, &[fd, address, 10]).await, Err(Errno::EFAULT), "{address:x}");
            assert_eq!(user.call(1, &[fd, address, 10]).await, Err(Errno::EFAULT), "{address:x}");
        }
        let good = user.put(b"abcd").await;
        let mut list = vec![];
        for (at, bytes) in [(good, 4u64), (64, 4)] {
            list.extend_from_slice(&at.to_le_bytes());
            list.extend_from_slice(&bytes.to_le_bytes());
        }
        let list = user.put(&list).await;
        assert_eq!(user.call(20, &[fd, list, 2]).await, Ok(4));
        let (read, _write) = user.pipe(raw::O_NONBLOCK).await;
        assert_eq!(user.call(0, &[read, 0, 10]).await, Err(Errno::EAGAIN));
    });
}

#[test]
fn append_goes_to_the_end_whoever_else_writes() {
    run(|user| async move {
        user.file("/log", b"1").await;
        let first = user.open("/log", raw::O_WRONLY | raw::O_APPEND, 0).await.unwrap();
        let second = user.open("/log", raw::O_WRONLY | raw::O_APPEND, 0).await.unwrap();
        user.write(first, b"2").await.unwrap();
        user.write(second, b"3").await.unwrap();
        user.write(first, b"4").await.unwrap();
        let fd = user.open("/log", raw::O_RDONLY, 0).await.unwrap();
        assert_eq!(user.read(fd, 10).await, Ok(b"1234".to_vec()));
    });
}

#[test]
fn descriptors_are_the_lowest_free_and_bounded() {
    run(|user| async move {
        assert_eq!(user.open("/dev/null", raw::O_RDWR, 0).await, Ok(3));
        assert_eq!(user.call(32, &[3]).await, Ok(4));
        user.close(3).await.unwrap();
        assert_eq!(user.call(72, &[4, u64::from(raw::F_DUPFD), 10]).await, Ok(10));
        assert_eq!(user.call(32, &[4]).await, Ok(3));
        assert_eq!(user.call(33, &[4, 20]).await, Ok(20));
        assert_eq!(user.call(33, &[4, 4]).await, Ok(4));
        assert_eq!(user.call(292, &[4, 4, 0]).await, Err(Errno::EINVAL));
        assert_eq!(user.call(33, &[4, 5000]).await, Err(Errno::EBADF));
        assert_eq!(user.close(99).await, Err(Errno::EBADF));
        while user.call(32, &[4]).await.is_ok() {}
        assert_eq!(user.call(32, &[4]).await, Err(Errno::EMFILE));
        assert_eq!(user.open("/dev/null", 0, 0).await, Err(Errno::EMFILE));
        assert_eq!(user.call(436, &[3, u64::from(u32::MAX), 0]).await, Ok(0));
        assert_eq!(user.open("/dev/null", 0, 0).await, Ok(3));
    });
}

#[test]
fn close_on_exec_survives_nothing_but_exec() {
    run(|user| async move {
        let fd = user.open("/dev/null", raw::O_RDONLY | raw::O_CLOEXEC, 0).await.unwrap();
        assert_eq!(user.call(72, &[fd, 1]).await, Ok(1));
        let copy = user.call(32, &[fd]).await.unwrap();
        assert_eq!(user.call(72, &[copy, 1]).await, Ok(0));
        let files = user.thread.process().files().executed(1, crate::file::context::Sharing::Stays).await;
        user.thread.process().set_files(files);
        assert_eq!(user.call(72, &[fd, 1]).await, Err(Errno::EBADF));
        assert_eq!(user.call(72, &[copy, 1]).await, Ok(0));
    });
}

#[test]
fn a_directory_lists_its_names_once() {
    run(|user| async move {
        for name in ["/d", "/d/one", "/d/two", "/d/three"] {
            user.with_path(83, name, &[0o755]).await.unwrap();
        }
        let fd = user.open("/d", raw::O_RDONLY | raw::O_DIRECTORY, 0).await.unwrap();
        let out = user.room(4096);
        let mut names = vec![];
        loop {
            let bytes = user.call(217, &[fd, out, 60]).await.unwrap();
            if bytes == 0 {
                break;
            }
            let raw = user.get(out, bytes as usize).await;
            let mut at = 0;
            while at < raw.len() {
                let length = u16::from_le_bytes([raw[at + 16], raw[at + 17]]) as usize;
                assert_eq!(raw[at + 18], 4);
                let name = &raw[at + 19..at + length];
                let end = name.iter().position(|byte| *byte == 0).unwrap();
                names.push(String::from_utf8(name[..end].to_vec()).unwrap());
                at += length;
            }
        }
        assert_eq!(names, [".", "..", "one", "two", "three"]);
        assert_eq!(user.call(8, &[fd, 0, 0]).await, Ok(0));
        assert_eq!(user.call(217, &[fd, out, 20]).await, Err(Errno::EINVAL));
        assert_eq!(user.read(fd, 10).await, Err(Errno::EISDIR));
    });
}

#[test]
fn devices_behave() {
    run(|user| async move {
        let zero = user.open("/dev/zero", raw::O_RDWR, 0).await.unwrap();
        assert_eq!(user.read(zero, 1000).await, Ok(vec![0; 1000]));
        let null = user.open("/dev/null", raw::O_RDWR, 0).await.unwrap();
        assert_eq!(user.read(null, 10).await, Ok(vec![]));
        assert_eq!(user.write(null, b"gone").await, Ok(4));
        let full = user.open("/dev/full", raw::O_RDWR, 0).await.unwrap();
        assert_eq!(user.write(full, b"x").await, Err(Errno::ENOSPC));
        let random = user.open("/dev/urandom", raw::O_RDONLY, 0).await.unwrap();
        assert_ne!(user.read(random, 32).await, user.read(random, 32).await);
        assert_eq!(user.open("/dev/tty", raw::O_RDWR | raw::O_NOCTTY, 0).await, Err(Errno::ENXIO));
    });
}

#[test]
fn proc_shows_the_process_that_looks() {
    run(|user| async move {
        let out = user.room(64);
        assert_eq!(user.with_path(89, "/proc/self", &[out, 64]).await, Ok(1));
        assert_eq!(user.get(out, 1).await, b"1");
        let fd = user.open("/proc/self/status", raw::O_RDONLY, 0).await.unwrap();
        let text = String::from_utf8(user.read(fd, 4096).await.unwrap()).unwrap();
        assert!(text.contains("Pid:\t1\n"), "{text}");
        user.file("/tmp/seen", b"seen").await;
        let seen = user.open("/tmp/seen", raw::O_RDONLY, 0).await.unwrap();
        let link = std::format!("/proc/self/fd/{seen}");
        let bytes = user.with_path(89, &link, &[out, 64]).await.unwrap();
        assert_eq!(user.get(out, bytes as usize).await, b"/tmp/seen");
        let again = user.open(&link, raw::O_RDONLY, 0).await.unwrap();
        assert_eq!(user.read(again, 10).await, Ok(b"seen".to_vec()));
        assert_eq!(user.open("/proc/4711/stat", raw::O_RDONLY, 0).await, Err(Errno::ENOENT));
        assert_eq!(user.open("/proc/version", raw::O_WRONLY | raw::O_CREAT, 0).await.map(|_| ()), Ok(()));
        let mounts = user.open("/proc/mounts", raw::O_RDONLY, 0).await.unwrap();
        let text = String::from_utf8(user.read(mounts, 4096).await.unwrap()).unwrap();
        assert!(text.contains("tmpfs /dev tmpfs rw"), "{text}");
        let stdout = user.open("/dev/stdout", raw::O_WRONLY, 0).await.unwrap();
        assert_eq!(user.write(stdout, b"hello").await, Ok(5));
        let log = &user.thread.process().files().tenant().log.clone();
        assert_eq!(log.read(0, 100), (0, b"hello".to_vec()));
    });
}

#[test]
fn record_locks_keep_others_out_and_end_with_close() {
    run(|user| async move {
        user.file("/f", b"0123456789").await;
        let child = user.fork(2).await;
        let own = user.open("/f", raw::O_RDWR, 0).await.unwrap();
        let other = child.open("/f", raw::O_RDWR, 0).await.unwrap();
        let lock = |kind: u16, start: u64, bytes: u64| {
            let mut raw = vec![0u8; 32];
            raw[..2].copy_from_slice(&kind.to_le_bytes());
            raw[8..16].copy_from_slice(&start.to_le_bytes());
            raw[16..24].copy_from_slice(&bytes.to_le_bytes());
            raw
        };
        let text = user.put(&lock(1, 0, 5)).await;
        assert_eq!(user.call(72, &[own, 6, text]).await, Ok(0));
        let text = child.put(&lock(0, 4, 2)).await;
        assert_eq!(child.call(72, &[other, 6, text]).await, Err(Errno::EAGAIN));
        assert_eq!(child.call(72, &[other, 5, text]).await, Ok(0));
        let told = child.get(text, 32).await;
        assert_eq!((told[0], told[24]), (1, 1));
        let text = child.put(&lock(0, 4, 2)).await;
        let (waited, closed) = both(child.call(72, &[other, 7, text]), user.close(own)).await;
        assert_eq!((waited, closed), (Ok(0), Ok(0)));
    });
}

#[test]
fn flock_belongs_to_the_open_file() {
    run(|user| async move {
        user.file("/f", b"").await;
        let first = user.open("/f", raw::O_RDONLY, 0).await.unwrap();
        let second = user.open("/f", raw::O_RDONLY, 0).await.unwrap();
        let copy = user.call(32, &[first]).await.unwrap();
        assert_eq!(user.call(73, &[first, 2]).await, Ok(0));
        assert_eq!(user.call(73, &[copy, 2 | 4]).await, Ok(0));
        assert_eq!(user.call(73, &[second, 1 | 4]).await, Err(Errno::EAGAIN));
        user.close(first).await.unwrap();
        assert_eq!(user.call(73, &[second, 1 | 4]).await, Err(Errno::EAGAIN));
        user.close(copy).await.unwrap();
        assert_eq!(user.call(73, &[second, 1 | 4]).await, Ok(0));
    });
}

#[test]
fn a_memory_file_has_no_name_and_keeps_its_bytes() {
    run(|user| async move {
        let fd = user.with_path(319, "scratch", &[0]).await.unwrap();
        assert_eq!(user.call(77, &[fd, 10_000]).await, Ok(0));
        assert_eq!(user.write(fd, b"abc").await, Ok(3));
        assert_eq!(user.call(8, &[fd, 0, 0]).await, Ok(0));
        let data = user.read(fd, 20_000).await.unwrap();
        assert_eq!((data.len(), &data[..4]), (10_000, &b"abc\0"[..]));
        let out = user.room(64);
        let bytes = user.with_path(89, "/proc/self/fd/3", &[out, 64]).await.unwrap();
        assert_eq!(user.get(out, bytes as usize).await, b"/memfd:scratch (deleted)");
    });
}
