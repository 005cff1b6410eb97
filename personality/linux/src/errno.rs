//! Linux error numbers. They exist in this crate only; resources answer with errors of their own.

use gyre_address_space::{FaultError, SpaceError};
use gyre_interface::files::FileError;
use gyre_interface::tcp::NetError;
use gyre_machine::{MapError, OutOfMemory};
use linux_raw_sys::errno as raw;

/// An error number as a system call returns it, negated, in rax.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident)*) => {
        #[allow(missing_docs, reason = "the names are Linux's")]
        impl Errno {
            $(pub const $name: Errno = Errno(raw::$name as i32);)*
        }

        impl core::fmt::Debug for Errno {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Errno::$name => f.write_str(stringify!($name)),)*
                    Errno(number) => write!(f, "Errno({number})"),
                }
            }
        }
    };
}

errnos! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV
    ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK
    ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA ETIME EOVERFLOW EUCLEAN ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE
    ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN
    ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETIMEDOUT ECONNREFUSED ETOOMANYREFS EHOSTDOWN
    EHOSTUNREACH EALREADY EINPROGRESS ESTALE ECANCELED EDQUOT EOWNERDEAD ENOTRECOVERABLE EBADFD
    EIDRM ENOMSG
}

impl Errno {
    /// Interrupted by a signal. The call restarts if the handler has SA_RESTART or there is none, else it answers
    /// EINTR. Programs never see it.
    pub const ERESTARTSYS: Errno = Errno(512);
    /// Interrupted: always restart. Never seen by programs.
    pub const ERESTARTNOINTR: Errno = Errno(513);
    /// Interrupted. The call restarts only if no handler runs, else it answers EINTR. Programs never see it.
    pub const ERESTARTNOHAND: Errno = Errno(514);
    /// Interrupted with an absolute end kept in the thread: `restart_syscall` goes on if no handler runs. Programs
    /// never see it.
    pub const ERESTART_RESTARTBLOCK: Errno = Errno(516);

    /// Returns it as a system call does, negative.
    pub fn negated(self) -> i64 {
        i64::from(self.0).wrapping_neg()
    }

    /// Returns whether it is one of the four that ask for a restart.
    pub fn asks_restart(self) -> bool {
        (512..=516).contains(&self.0)
    }
}

impl From<OutOfMemory> for Errno {
    fn from(_: OutOfMemory) -> Errno {
        Errno::ENOMEM
    }
}

impl From<MapError> for Errno {
    fn from(_: MapError) -> Errno {
        Errno::ENOMEM
    }
}

impl From<FaultError> for Errno {
    fn from(_: FaultError) -> Errno {
        Errno::EFAULT
    }
}

impl From<SpaceError> for Errno {
    fn from(error: SpaceError) -> Errno {
        match error {
            SpaceError::Invalid => Errno::EINVAL,
            SpaceError::NoMemory => Errno::ENOMEM,
            SpaceError::Exists => Errno::EEXIST,
            SpaceError::Denied => Errno::EACCES,
            SpaceError::Permission => Errno::EPERM,
            SpaceError::NotMapped => Errno::ENOMEM,
            SpaceError::Fault => Errno::EFAULT,
            SpaceError::Io => Errno::EIO,
            SpaceError::LockedTooMuch => Errno::EAGAIN,
            SpaceError::TooFar => Errno::EOVERFLOW,
        }
    }
}

impl From<FileError> for Errno {
    fn from(error: FileError) -> Errno {
        match error {
            FileError::NotFound => Errno::ENOENT,
            FileError::Stale => Errno::ESTALE,
            FileError::Exists => Errno::EEXIST,
            FileError::NotDirectory => Errno::ENOTDIR,
            FileError::IsDirectory => Errno::EISDIR,
            FileError::NotEmpty => Errno::ENOTEMPTY,
            FileError::NoSpace | FileError::TooMuch => Errno::ENOSPC,
            FileError::NoAttribute => Errno::ENODATA,
            FileError::TooLarge => Errno::EFBIG,
            FileError::NameTooLong => Errno::ENAMETOOLONG,
            FileError::TooManyLinks => Errno::EMLINK,
            FileError::Invalid => Errno::EINVAL,
            FileError::ReadOnly => Errno::EROFS,
            FileError::Denied => Errno::EACCES,
            FileError::Damaged => Errno::EUCLEAN,
            FileError::Io | FileError::Gone => Errno::EIO,
            FileError::OutOfMemory => Errno::ENOMEM,
            FileError::Unsupported => Errno::EOPNOTSUPP,
            FileError::OtherFileSystem => Errno::EXDEV,
        }
    }
}

impl From<NetError> for Errno {
    fn from(error: NetError) -> Errno {
        match error {
            NetError::WouldBlock => Errno::EAGAIN,
            NetError::NotAvailable => Errno::EADDRNOTAVAIL,
            NetError::InUse => Errno::EADDRINUSE,
            NetError::Refused => Errno::ECONNREFUSED,
            NetError::Reset => Errno::ECONNRESET,
            NetError::TimedOut => Errno::ETIMEDOUT,
            NetError::Unreachable => Errno::ENETUNREACH,
            NetError::Closed => Errno::EPIPE,
            NetError::NotConnected => Errno::ENOTCONN,
            NetError::TooLong => Errno::EMSGSIZE,
            NetError::OutOfMemory => Errno::ENOBUFS,
            NetError::Unknown => Errno::EBADF,
            NetError::Invalid => Errno::EINVAL,
            NetError::Gone => Errno::EIO,
        }
    }
}
