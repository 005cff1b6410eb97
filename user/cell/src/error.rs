//! Numbers of Linux's errors.

use linux_raw_sys::errno;

/// A positive error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(u32);

impl Errno {
    /// Try again: a limit of the cell.
    pub const AGAIN: Self = Self(errno::EAGAIN);
    /// Not a descriptor.
    pub const BADF: Self = Self(errno::EBADF);
    /// Something is in use.
    pub const BUSY: Self = Self(errno::EBUSY);
    /// A wrong address.
    pub const FAULT: Self = Self(errno::EFAULT);
    /// Interrupted by a signal.
    pub const INTR: Self = Self(errno::EINTR);
    /// A wrong argument.
    pub const INVAL: Self = Self(errno::EINVAL);
    /// The disk could not do it.
    pub const IO: Self = Self(errno::EIO);
    /// Too many descriptors.
    pub const MFILE: Self = Self(errno::EMFILE);
    /// No such device, or nothing that it does.
    pub const NODEV: Self = Self(errno::ENODEV);
    /// No memory.
    pub const NOMEM: Self = Self(errno::ENOMEM);
    /// Not for this one.
    pub const ACCES: Self = Self(errno::EACCES);
    /// Not there.
    pub const NOSYS: Self = Self(errno::ENOSYS);
    /// The disk ends here.
    pub const NOSPC: Self = Self(errno::ENOSPC);
    /// No such control of a device.
    pub const NOTTY: Self = Self(errno::ENOTTY);
    /// This machine cannot do it.
    pub const OPNOTSUPP: Self = Self(errno::EOPNOTSUPP);
    /// Not allowed.
    pub const PERM: Self = Self(errno::EPERM);
    /// No such thread.
    pub const SRCH: Self = Self(errno::ESRCH);
    /// The time is over.
    pub const TIMEDOUT: Self = Self(errno::ETIMEDOUT);

    /// The number.
    pub fn number(self) -> i32 {
        self.0.cast_signed()
    }

    /// The error as a system call returns it.
    pub fn result(self) -> i64 {
        -i64::from(self.0)
    }

    /// Reads the result of a system call.
    ///
    /// # Errors
    /// The one that it says.
    pub fn of_result(result: i64) -> Result<u64, Self> {
        match result {
            -4095..=-1 => Err(Self(result.unsigned_abs() as u32)),
            _ => Ok(result.cast_unsigned()),
        }
    }
}
