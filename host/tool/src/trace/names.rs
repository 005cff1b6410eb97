//! Names of calls and of their arguments' values.
//!
//! * [`name_of`] knows every call of x86-64, [`arguments_of`] the kinds of arguments of the commonest; others show six words.
//! * [`shown`] writes one value. A value without a name is a number: nothing is left out.
//!
//! The kinds of arguments, a letter each: `d` descriptor, `i` number, `u` number without sign, `p` address, `x` bits, `s` string or buffer,
//! `o` mode, `m` mode of a file that is made, `O` flags of open, `P` protection, `M` flags of mmap, `S` signal, `W` origin of a seek, `F`
//! operation of a futex, `A` family of addresses, `T` kind of socket, `K` command of fcntl, `E` operation of epoll_ctl, `C` clock, `L` flags of
//! paths, `H` how a mask of signals changes, `V` advice, `N` flags of messages.

use nix::sys::signal::Signal;

/// Returns the name of a call.
pub fn name_of(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(syscalls::Sysno::new);
    known.map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}

/// Returns whether a call returns an address.
pub fn is_address(call: &str) -> bool {
    matches!(call, "mmap" | "mremap" | "brk" | "shmat")
}

/// Calls, and the kinds of their arguments.
const ARGUMENTS: &[(&str, &str)] = &[
    ("accept", "dpp"),
    ("accept4", "dppT"),
    ("access", "so"),
    ("alarm", "u"),
    ("arch_prctl", "xp"),
    ("bind", "dsu"),
    ("brk", "p"),
    ("chdir", "s"),
    ("chmod", "so"),
    ("chown", "sii"),
    ("chroot", "s"),
    ("clock_getres", "Cp"),
    ("clock_gettime", "Cp"),
    ("clock_nanosleep", "Cxpp"),
    ("clone", "xpppp"),
    ("clone3", "pu"),
    ("close", "d"),
    ("close_range", "uux"),
    ("connect", "dsu"),
    ("copy_file_range", "dpdpux"),
    ("creat", "so"),
    ("dup", "d"),
    ("dup2", "dd"),
    ("dup3", "ddO"),
    ("epoll_create", "i"),
    ("epoll_create1", "O"),
    ("epoll_ctl", "dEdp"),
    ("epoll_pwait", "dpiipu"),
    ("epoll_wait", "dpii"),
    ("eventfd2", "uO"),
    ("execve", "spp"),
    ("execveat", "dsppL"),
    ("exit", "i"),
    ("exit_group", "i"),
    ("faccessat", "dso"),
    ("faccessat2", "dsoL"),
    ("fadvise64", "diui"),
    ("fallocate", "dxii"),
    ("fchdir", "d"),
    ("fchmod", "do"),
    ("fchmodat", "dso"),
    ("fchown", "dii"),
    ("fchownat", "dsiiL"),
    ("fcntl", "dKx"),
    ("fdatasync", "d"),
    ("flock", "dx"),
    ("fork", ""),
    ("fstat", "dp"),
    ("fsync", "d"),
    ("ftruncate", "di"),
    ("futex", "pFuppu"),
    ("getcwd", "su"),
    ("getdents64", "dpu"),
    ("getegid", ""),
    ("geteuid", ""),
    ("getgid", ""),
    ("getpeername", "dpp"),
    ("getpgrp", ""),
    ("getpid", ""),
    ("getppid", ""),
    ("getrandom", "sux"),
    ("getsockname", "dpp"),
    ("getsockopt", "diipp"),
    ("gettid", ""),
    ("gettimeofday", "pp"),
    ("getuid", ""),
    ("ioctl", "dxx"),
    ("io_uring_enter", "duuxpu"),
    ("kill", "iS"),
    ("lchown", "sii"),
    ("link", "ss"),
    ("linkat", "dsdsL"),
    ("listen", "di"),
    ("lseek", "diW"),
    ("lstat", "sp"),
    ("madvise", "puV"),
    ("mkdir", "so"),
    ("mkdirat", "dso"),
    ("mmap", "puPMdx"),
    ("mprotect", "puP"),
    ("mremap", "puuxp"),
    ("msync", "pux"),
    ("munmap", "pu"),
    ("nanosleep", "pp"),
    ("newfstatat", "dspL"),
    ("open", "sOm"),
    ("openat", "dsOm"),
    ("pause", ""),
    ("pidfd_open", "ix"),
    ("pipe", "p"),
    ("pipe2", "pO"),
    ("poll", "pui"),
    ("ppoll", "puppu"),
    ("prctl", "ixxxx"),
    ("pread64", "dsui"),
    ("preadv", "dpui"),
    ("prlimit64", "iipp"),
    ("pselect6", "ippppp"),
    ("pwrite64", "dsui"),
    ("pwritev", "dpui"),
    ("read", "dsu"),
    ("readlink", "ssu"),
    ("readlinkat", "dssu"),
    ("readv", "dpu"),
    ("recvfrom", "dsuNpp"),
    ("recvmsg", "dpN"),
    ("rename", "ss"),
    ("renameat", "dsds"),
    ("renameat2", "dsdsx"),
    ("rmdir", "s"),
    ("rt_sigaction", "Sppu"),
    ("rt_sigprocmask", "Hppu"),
    ("rt_sigreturn", ""),
    ("rt_sigsuspend", "pu"),
    ("rt_sigtimedwait", "pppu"),
    ("sched_yield", ""),
    ("select", "ipppp"),
    ("sendfile", "ddpu"),
    ("sendmsg", "dpN"),
    ("sendto", "dsuNsu"),
    ("set_robust_list", "pu"),
    ("set_tid_address", "p"),
    ("setitimer", "ipp"),
    ("setsockopt", "diipu"),
    ("shutdown", "di"),
    ("sigaltstack", "pp"),
    ("socket", "ATi"),
    ("socketpair", "ATip"),
    ("splice", "dpdpux"),
    ("stat", "sp"),
    ("statfs", "sp"),
    ("statx", "dsLxp"),
    ("symlink", "ss"),
    ("symlinkat", "sds"),
    ("tgkill", "iiS"),
    ("timerfd_settime", "dxpp"),
    ("tkill", "iS"),
    ("truncate", "si"),
    ("umask", "o"),
    ("uname", "p"),
    ("unlink", "s"),
    ("unlinkat", "dsL"),
    ("utimensat", "dspL"),
    ("vfork", ""),
    ("wait4", "ipxp"),
    ("waitid", "iipxp"),
    ("write", "dsu"),
    ("writev", "dpu"),
];

/// Returns the kinds of a call's arguments; six words for one that is not in the list.
pub fn arguments_of(number: u64) -> &'static str {
    let name = name_of(number);
    ARGUMENTS.iter().find(|(call, _)| *call == name).map_or("xxxxxx", |(_, kinds)| kinds)
}

type Names = &'static [(u64, &'static str)];

const OPEN: Names = &[
    (0o20_200_000, "O_TMPFILE"),
    (0o4_010_000, "O_SYNC"),
    (0o100, "O_CREAT"),
    (0o200, "O_EXCL"),
    (0o400, "O_NOCTTY"),
    (0o1_000, "O_TRUNC"),
    (0o2_000, "O_APPEND"),
    (0o4_000, "O_NONBLOCK"),
    (0o10_000, "O_DSYNC"),
    (0o20_000, "O_ASYNC"),
    (0o40_000, "O_DIRECT"),
    (0o100_000, "O_LARGEFILE"),
    (0o200_000, "O_DIRECTORY"),
    (0o400_000, "O_NOFOLLOW"),
    (0o1_000_000, "O_NOATIME"),
    (0o2_000_000, "O_CLOEXEC"),
    (0o10_000_000, "O_PATH"),
];
const PROTECTION: Names = &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")];
const MAP: Names = &[
    (3, "MAP_SHARED_VALIDATE"),
    (1, "MAP_SHARED"),
    (2, "MAP_PRIVATE"),
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x2000, "MAP_LOCKED"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x2_0000, "MAP_STACK"),
    (0x10_0000, "MAP_FIXED_NOREPLACE"),
];
const SOCKET_FLAGS: Names = &[(0o4_000, "SOCK_NONBLOCK"), (0o2_000_000, "SOCK_CLOEXEC")];
const AT: Names = &[
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_REMOVEDIR"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
];
const MESSAGE: Names = &[
    (1, "MSG_OOB"),
    (2, "MSG_PEEK"),
    (0x20, "MSG_TRUNC"),
    (0x40, "MSG_DONTWAIT"),
    (0x100, "MSG_WAITALL"),
    (0x4000, "MSG_NOSIGNAL"),
    (0x8000, "MSG_MORE"),
    (0x4000_0000, "MSG_CMSG_CLOEXEC"),
];
const WHENCE: Names = &[(0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END"), (3, "SEEK_DATA"), (4, "SEEK_HOLE")];
const FAMILY: Names = &[(1, "AF_UNIX"), (2, "AF_INET"), (10, "AF_INET6"), (16, "AF_NETLINK"), (17, "AF_PACKET")];
const SOCKET: Names = &[(1, "SOCK_STREAM"), (2, "SOCK_DGRAM"), (3, "SOCK_RAW"), (5, "SOCK_SEQPACKET")];
const FCNTL: Names = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (5, "F_GETLK"),
    (6, "F_SETLK"),
    (7, "F_SETLKW"),
    (8, "F_SETOWN"),
    (9, "F_GETOWN"),
    (36, "F_OFD_GETLK"),
    (37, "F_OFD_SETLK"),
    (38, "F_OFD_SETLKW"),
    (1030, "F_DUPFD_CLOEXEC"),
    (1031, "F_SETPIPE_SZ"),
    (1032, "F_GETPIPE_SZ"),
];
const EPOLL: Names = &[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")];
const FUTEX: Names = &[
    (0, "FUTEX_WAIT"),
    (1, "FUTEX_WAKE"),
    (3, "FUTEX_REQUEUE"),
    (4, "FUTEX_CMP_REQUEUE"),
    (5, "FUTEX_WAKE_OP"),
    (6, "FUTEX_LOCK_PI"),
    (7, "FUTEX_UNLOCK_PI"),
    (9, "FUTEX_WAIT_BITSET"),
    (10, "FUTEX_WAKE_BITSET"),
];
const FUTEX_FLAGS: Names = &[(128, "FUTEX_PRIVATE_FLAG"), (256, "FUTEX_CLOCK_REALTIME")];
const CLOCK: Names = &[
    (0, "CLOCK_REALTIME"),
    (1, "CLOCK_MONOTONIC"),
    (2, "CLOCK_PROCESS_CPUTIME_ID"),
    (3, "CLOCK_THREAD_CPUTIME_ID"),
    (4, "CLOCK_MONOTONIC_RAW"),
    (5, "CLOCK_REALTIME_COARSE"),
    (6, "CLOCK_MONOTONIC_COARSE"),
    (7, "CLOCK_BOOTTIME"),
];
const MASK: Names = &[(0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK")];
const ADVICE: Names = &[
    (0, "MADV_NORMAL"),
    (1, "MADV_RANDOM"),
    (2, "MADV_SEQUENTIAL"),
    (3, "MADV_WILLNEED"),
    (4, "MADV_DONTNEED"),
    (8, "MADV_FREE"),
    (14, "MADV_HUGEPAGE"),
    (15, "MADV_NOHUGEPAGE"),
];

/// Returns an argument as a C program names it.
pub fn shown(kind: char, value: u64) -> String {
    let unsigned = u64::from(value as u32);
    match kind {
        'd' if value as i32 == -100 => "AT_FDCWD".into(),
        // A length or an offset has 64 bits; what fits into an int and is negative as one was one.
        'd' => (value as i32).to_string(),
        'i' if value >> 32 == 0 => (value as i32).to_string(),
        'i' => (value as i64).to_string(),
        'u' => value.to_string(),
        'o' | 'm' => format!("0{unsigned:o}"),
        'p' if value == 0 => "NULL".into(),
        'O' => open_flags(unsigned),
        'P' if unsigned == 0 => "PROT_NONE".into(),
        'P' => bits(unsigned, PROTECTION),
        'M' => bits(unsigned, MAP),
        'L' => bits(unsigned, AT),
        'N' => bits(unsigned, MESSAGE),
        'S' => Signal::try_from(value as i32).map_or_else(|_| value.to_string(), |signal| signal.as_str().into()),
        'W' => one(unsigned, WHENCE),
        'A' => one(unsigned, FAMILY),
        'K' => one(unsigned, FCNTL),
        'E' => one(unsigned, EPOLL),
        'C' => one(unsigned, CLOCK),
        'H' => one(unsigned, MASK),
        'V' => one(unsigned, ADVICE),
        'T' => both(unsigned, 0xf, SOCKET, SOCKET_FLAGS),
        'F' => both(unsigned, 0x7f, FUTEX, FUTEX_FLAGS),
        _ if value == 0 => "0".into(),
        _ => format!("{value:#x}"),
    }
}

fn open_flags(flags: u64) -> String {
    let way = match flags & 3 {
        0 => "O_RDONLY",
        1 => "O_WRONLY",
        2 => "O_RDWR",
        _ => "3",
    };
    match flags & !3 {
        0 => way.into(),
        rest => format!("{way}|{}", bits(rest, OPEN)),
    }
}

/// Names the bits that are set; what has no name is a number at the end.
fn bits(value: u64, names: Names) -> String {
    let mut rest = value;
    let mut words = vec![];
    for (bit, name) in names {
        if rest & bit == *bit {
            rest &= !bit;
            words.push((*name).to_owned());
        }
    }
    if rest != 0 || words.is_empty() {
        words.push(if rest == 0 { "0".into() } else { format!("{rest:#x}") });
    }
    words.join("|")
}

fn one(value: u64, names: Names) -> String {
    names.iter().find(|(number, _)| *number == value).map_or_else(|| value.to_string(), |(_, name)| (*name).into())
}

/// Names a value and the flags beside it.
fn both(value: u64, mask: u64, names: Names, flags: Names) -> String {
    match value & !mask {
        0 => one(value, names),
        rest => format!("{}|{}", one(value & mask, names), bits(rest, flags)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_names_and_what_has_none_is_a_number() {
        assert_eq!(shown('O', 0o102), "O_RDWR|O_CREAT");
        assert_eq!(shown('F', 129), "FUTEX_WAKE|FUTEX_PRIVATE_FLAG");
        assert_eq!(shown('T', 0o2_000_001), "SOCK_STREAM|SOCK_CLOEXEC");
        assert_eq!(shown('S', 15), "SIGTERM");
        assert_eq!(
            (shown('W', 9), shown('P', 0), shown('P', 9)),
            ("9".into(), "PROT_NONE".into(), "PROT_READ|0x8".into())
        );
        assert_eq!((shown('i', 0xffff_ffff), shown('i', u64::MAX)), ("-1".into(), "-1".into()));
    }

    #[test]
    fn the_list_names_calls_that_there_are_once() {
        let mut names: Vec<&str> = ARGUMENTS.iter().map(|(name, _)| *name).collect();
        assert!(names.iter().all(|name| name.parse::<syscalls::Sysno>().is_ok()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for number in 0..460 {
            let kinds = arguments_of(number);
            for pointer in gyre_contract::trace::pointers(number) {
                use gyre_contract::trace::Pointer;
                let (Pointer::Text(at) | Pointer::Input(at, _) | Pointer::Output(at)) = *pointer;
                let shown = kinds.chars().nth(usize::from(at));
                assert!(
                    matches!(shown, Some('s' | 'x')),
                    "{} keeps argument {at}, which is {shown:?}",
                    name_of(number)
                );
            }
        }
    }
}
