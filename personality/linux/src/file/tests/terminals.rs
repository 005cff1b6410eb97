//! The console and pseudo-terminals.

use super::world::run;
use crate::Errno;
use linux_raw_sys::{general as raw, ioctl};
use std::vec;

async fn open_pair(user: &super::world::User) -> (u64, u64) {
    let master = user.open("/dev/ptmx", raw::O_RDWR | raw::O_NOCTTY, 0).await.unwrap();
    let number = user.room(4);
    user.call(16, &[master, u64::from(ioctl::TIOCGPTN), number]).await.unwrap();
    let path = std::format!("/dev/pts/{}", user.get(number, 1).await[0]);
    assert_eq!(user.open(&path, raw::O_RDWR, 0).await, Err(Errno::EIO));
    let unlock = user.put(&[0; 4]).await;
    user.call(16, &[master, u64::from(ioctl::TIOCSPTLCK), unlock]).await.unwrap();
    (master, user.open(&path, raw::O_RDWR, 0).await.unwrap())
}

#[test]
fn a_line_is_edited_echoed_and_given_whole() {
    run(|user| async move {
        let (master, slave) = open_pair(&user).await;
        user.write(master, b"lx\x7fs -l").await.unwrap();
        assert_eq!(user.poll(slave, 1).await, 0);
        user.write(master, b"\r").await.unwrap();
        assert_eq!(user.read(slave, 100).await, Ok(b"ls -l\n".to_vec()));
        assert_eq!(user.read(master, 100).await, Ok(b"lx\x08 \x08s -l\r\n".to_vec()));
        user.write(slave, b"out\n").await.unwrap();
        assert_eq!(user.read(master, 100).await, Ok(b"out\r\n".to_vec()));
        user.write(master, b"\x04").await.unwrap();
        assert_eq!(user.read(slave, 100).await, Ok(vec![]));
        user.write(master, b"two\nlines\n").await.unwrap();
        assert_eq!(user.read(slave, 2).await, Ok(b"tw".to_vec()));
        assert_eq!(user.read(slave, 100).await, Ok(b"o\n".to_vec()));
        assert_eq!(user.read(slave, 100).await, Ok(b"lines\n".to_vec()));
    });
}

#[test]
fn raw_mode_gives_each_byte_and_control_c_signals_in_canonical_mode() {
    run(|user| async move {
        let (master, slave) = open_pair(&user).await;
        let at = user.room(36);
        user.call(16, &[slave, u64::from(ioctl::TCGETS), at]).await.unwrap();
        let mut settings = user.get(at, 36).await;
        settings[12] &= !(raw::ICANON | raw::ECHO | raw::ISIG) as u8;
        let changed = user.put(&settings).await;
        user.call(16, &[slave, u64::from(ioctl::TCSETS), changed]).await.unwrap();
        user.write(master, b"\x03a").await.unwrap();
        assert_eq!(user.read(slave, 10).await, Ok(b"\x03a".to_vec()));
        assert!(!user.thread.has_signal());
        settings[12] |= raw::ISIG as u8;
        let changed = user.put(&settings).await;
        user.call(16, &[slave, u64::from(ioctl::TCSETS), changed]).await.unwrap();
        user.write(master, b"\x03").await.unwrap();
        assert!(user.thread.has_signal());
    });
}

#[test]
fn a_closed_master_hangs_the_slave_up() {
    run(|user| async move {
        let (master, slave) = open_pair(&user).await;
        user.close(master).await.unwrap();
        assert_eq!(user.read(slave, 10).await, Ok(vec![]));
        assert_eq!(user.write(slave, b"x").await, Err(Errno::EIO));
        let (master, slave) = open_pair(&user).await;
        user.close(slave).await.unwrap();
        assert_eq!(user.read(master, 10).await, Err(Errno::EIO));
    });
}

#[test]
fn the_console_is_a_terminal_whose_output_is_kept() {
    run(|user| async move {
        let at = user.room(64);
        assert_eq!(user.call(16, &[1, u64::from(ioctl::TCGETS), at]).await, Ok(0));
        assert_eq!(user.call(16, &[1, u64::from(ioctl::TIOCGWINSZ), at]).await, Ok(0));
        user.write(1, b"started\n").await.unwrap();
        let tenant = user.thread.process().files().tenant().clone();
        assert_eq!(tenant.log.read(0, 100), (0, b"started\n".to_vec()));
        assert_eq!(tenant.console.input(b"typed\n"), Ok(6));
        assert_eq!(user.read(0, 100).await, Ok(b"typed\n".to_vec()));
        let (read, _) = user.pipe(0).await;
        assert_eq!(user.call(16, &[read, u64::from(ioctl::TCGETS), at]).await, Err(Errno::ENOTTY));
        assert_eq!(user.call(16, &[99, u64::from(ioctl::TCGETS), at]).await, Err(Errno::EBADF));
    });
}
