//! The world before the first call of a round: descriptors of each kind, shared by all its workers, and some names.

use std::{
    ffi::CString,
    fs::{self, File},
    io::Write as _,
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::AsRawFd as _,
        unix::net::{UnixDatagram, UnixListener, UnixStream},
    },
};

use crate::{
    kinds::Kind,
    slots,
    sys::{self, Scratch},
    values::{PLAYGROUND, PLAYGROUND_PAGES},
};

/// Makes it all; what cannot be made is not there.
pub fn make(scratch: Scratch) {
    names();
    files();
    pipes(scratch);
    sockets();
    events(scratch);
    let half = PLAYGROUND_PAGES / 2 * 4096;
    sys::map(PLAYGROUND, half, libc::MAP_PRIVATE | libc::MAP_FIXED);
    sys::map(PLAYGROUND + half, half, libc::MAP_SHARED | libc::MAP_FIXED);
}

fn names() {
    for folder in ["d0", "d0/d1", "d1"] {
        let _ = fs::create_dir(folder);
    }
    for name in ["f0", "f1", "d0/f0", "d0/d1/f1"] {
        let _ = File::create(name).and_then(|mut file| file.write_all(&[b'x'; 10_000]));
    }
    for (to, name) in [("f0", "l0"), ("l1", "d0/l1"), ("d0", "l1")] {
        let _ = std::os::unix::fs::symlink(to, name);
    }
    // A script, and a program that is none.
    let _ = fs::write("x0", "#!/proc/self/exe --nothing\n")
        .and_then(|()| fs::write("x1", [0x7f, b'E', b'L', b'F', 2, 1, 1]));
    for name in ["x0", "x1"] {
        let _ = fs::set_permissions(name, std::os::unix::fs::PermissionsExt::from_mode(0o755));
    }
}

fn open(kind: Kind, path: &str, flags: i32) {
    let Ok(path) = CString::new(path) else { return };
    let arguments = [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0o644];
    slots::add(kind, sys::short(libc::SYS_openat as u64, arguments));
}

fn files() {
    for name in ["f0", "f1", "f2"] {
        open(Kind::File, name, libc::O_RDWR | libc::O_CREAT);
    }
    open(Kind::File, "/dev/shm", libc::O_RDWR | libc::O_TMPFILE);
    for name in [".", "d0", "/proc", "/"] {
        open(Kind::Directory, name, libc::O_DIRECTORY);
    }
    for name in ["/dev/zero", "/dev/urandom", "/proc/self/maps", "/dev/full", "/dev/null"] {
        open(Kind::Special, name, libc::O_RDWR);
    }
    open(Kind::Special, "/proc/self/maps", 0);
    open(Kind::Terminal, "/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY);
}

fn pipes(scratch: Scratch) {
    for flags in [0, libc::O_NONBLOCK, 0] {
        if sys::short(libc::SYS_pipe2 as u64, [scratch.base(), flags as u64]) == 0 {
            slots::add(Kind::PipeOut, scratch.read(scratch.base(), 4) as i64);
            slots::add(Kind::PipeIn, scratch.read(scratch.base() + 4, 4) as i64);
        }
    }
    if sys::short(0x1023, [scratch.base()]) == 0 {
        slots::add(Kind::Stream, scratch.read(scratch.base(), 4) as i64);
        slots::add(Kind::Stream, scratch.read(scratch.base() + 4, 4) as i64);
    }
}

fn keep(kind: Kind, made: std::io::Result<impl std::os::fd::IntoRawFd>) {
    made.into_iter().for_each(|made| slots::add(kind, made.into_raw_fd().into()));
}

fn sockets() {
    if let Ok((one, other)) = UnixStream::pair() {
        keep(Kind::Local, Ok(one));
        keep(Kind::Local, Ok(other));
    }
    if let Ok((one, other)) = UnixDatagram::pair() {
        keep(Kind::Local, Ok(one));
        keep(Kind::Local, Ok(other));
    }
    keep(Kind::Listener, UnixListener::bind("s0"));
    if let Ok(listener) = TcpListener::bind("127.0.0.1:0") {
        let _ = listener.set_nonblocking(true);
        keep(Kind::Net, listener.local_addr().and_then(TcpStream::connect));
        keep(Kind::Net, listener.accept().map(|(stream, _)| stream));
        keep(Kind::Listener, Ok(listener));
    }
    keep(Kind::Net, UdpSocket::bind("127.0.0.1:0"));
    keep(Kind::Listener, TcpListener::bind("127.0.0.1:20001"));
}

fn events(scratch: Scratch) {
    slots::add(Kind::Event, sys::short(libc::SYS_eventfd2 as u64, [0, 0]));
    slots::add(Kind::Event, sys::short(libc::SYS_eventfd2 as u64, [1, 1]));
    slots::add(Kind::TimerFile, sys::short(libc::SYS_timerfd_create as u64, [0, 0]));
    slots::add(Kind::TimerFile, sys::short(libc::SYS_timerfd_create as u64, [1, 0o4000]));
    slots::add(Kind::Inotify, sys::short(libc::SYS_inotify_init1 as u64, [0]));
    (0..4).for_each(|_| slots::add(Kind::Epoll, sys::short(libc::SYS_epoll_create1 as u64, [0])));
    scratch.write(scratch.base(), 1 << 9 | 1 << 11, 8);
    slots::add(Kind::SignalFile, sys::short(libc::SYS_signalfd4 as u64, [u64::MAX, scratch.base(), 8, 0]));
    // One epoll waits for a pipe, the next for the first.
    let members = [(0, Kind::PipeOut, 0), (0, Kind::Event, 1), (1, Kind::Epoll, 0)];
    for (epoll, kind, index) in members {
        scratch.write(scratch.base(), 1, 4);
        let arguments = [slots::get(Kind::Epoll as usize, epoll), 1, slots::get(kind as usize, index), scratch.base()];
        sys::short(libc::SYS_epoll_ctl as u64, arguments);
    }
}

/// Sends 0, 1 and 2 to /dev/null.
pub fn hush() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        (0..3).for_each(|fd| {
            sys::short(libc::SYS_dup2 as u64, [null.as_raw_fd() as u64, fd]);
        });
    }
}
