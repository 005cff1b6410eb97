//! Reading and writing the memory of the thread's process, with errors as system calls give them.

use crate::task::shortage;
use crate::{Errno, Thread};
use alloc::vec::Vec;
use gyre_object::Bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest path, the NUL included, bytes.
pub const PATH_MAX: usize = 4096;
/// Most pieces of a vectored call.
pub const IOV_MAX: usize = 1024;
/// Most bytes that one call transfers (Linux's MAX_RW_COUNT).
pub const TRANSFER_MAX: usize = 0x7fff_f000;

/// A piece of a vectored call: `struct iovec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IoVector {
    /// Its first address.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Thread {
    /// Fills `into` from the program's memory.
    ///
    /// # Errors
    /// EFAULT; ENOMEM if the process ends for want of memory.
    pub async fn copy_in(&self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        loop {
            let rest = into.get_mut(done..).unwrap_or_default();
            let Err(fault) = self.space().copy_in(address.saturating_add(done as u64), rest).await else {
                return Ok(());
            };
            shortage::resolve(self, fault.error).await?;
            done = done.saturating_add(fault.done);
        }
    }

    /// Copies up to `bytes` in one piece of kernel memory.
    ///
    /// # Errors
    /// EFAULT; ENOMEM.
    pub async fn read_vec(&self, address: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        let mut into = Vec::new();
        into.try_reserve_exact(bytes).map_err(|_| Errno::ENOMEM)?;
        into.resize(bytes, 0);
        self.copy_in(address, &mut into).await?;
        Ok(into)
    }

    /// Copies to the program's memory.
    ///
    /// # Errors
    /// EFAULT; ENOMEM if the process ends for want of memory.
    pub async fn copy_out(&self, address: u64, from: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        self.copy_out_from(address, from, &mut done).await
    }

    /// Copies as [`Thread::copy_out`] does, from byte `done` on; `done` is advanced, also if there is an error.
    ///
    /// # Errors
    /// As [`Thread::copy_out`].
    pub async fn copy_out_from(&self, address: u64, from: &[u8], done: &mut usize) -> Result<(), Errno> {
        loop {
            let rest = from.get(*done..).unwrap_or_default();
            let Err(fault) = self.space().copy_out(address.saturating_add(*done as u64), rest).await else {
                *done = from.len();
                return Ok(());
            };
            *done = done.saturating_add(fault.done);
            shortage::resolve(self, fault.error).await?;
        }
    }

    /// Copies views one after another to the program's memory. Returns the bytes copied, fewer if a later page cannot
    /// be written.
    ///
    /// # Errors
    /// EFAULT if nothing could be copied.
    pub async fn copy_out_bytes(&self, address: u64, from: &[Bytes]) -> Result<usize, Errno> {
        let mut copied = 0usize;
        for piece in from {
            let mut done = 0;
            let place = address.saturating_add(copied as u64);
            let result = self.copy_out_from(place, piece.as_slice(), &mut done).await;
            copied = copied.saturating_add(done);
            match result {
                Err(error) if copied == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
        }
        Ok(copied)
    }

    /// Views of the program's memory for zero-copy writing; see [`gyre_address_space::AddressSpace::pin`].
    ///
    /// # Errors
    /// EFAULT; ENOMEM.
    pub async fn pin(&self, address: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
        Ok(self.space().pin(address, bytes).await.map_err(|fault| fault.error)?)
    }

    /// Reads a structure.
    ///
    /// # Errors
    /// EFAULT; ENOMEM.
    pub async fn read_struct<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, Errno> {
        let mut value = T::new_zeroed();
        self.copy_in(address, value.as_mut_bytes()).await?;
        Ok(value)
    }

    /// Writes a structure.
    ///
    /// # Errors
    /// EFAULT; ENOMEM.
    pub async fn write_struct<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), Errno> {
        self.copy_out(address, value.as_bytes()).await
    }

    /// Writes a structure unless the address is null.
    ///
    /// # Errors
    /// EFAULT; ENOMEM.
    pub async fn write_optional<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), Errno> {
        match address {
            0 => Ok(()),
            _ => self.write_struct(address, value).await,
        }
    }

    /// Reads a path, without the NUL.
    ///
    /// # Errors
    /// EFAULT; ENAMETOOLONG.
    pub async fn read_path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        self.read_string(address, PATH_MAX, Errno::ENAMETOOLONG).await
    }

    /// Reads a string of less than `max` bytes, without the NUL.
    ///
    /// # Errors
    /// EFAULT; `too_long`.
    pub async fn read_string(&self, address: u64, max: usize, too_long: Errno) -> Result<Vec<u8>, Errno> {
        loop {
            match self.space().read_string(address, max).await {
                Ok(string) => return string.ok_or(too_long),
                Err(error) => shortage::resolve(self, error).await?,
            }
        }
    }

    /// Reads the pieces of a vectored call; their lengths are cut so that the sum fits [`TRANSFER_MAX`].
    ///
    /// # Errors
    /// EINVAL for more than [`IOV_MAX`] pieces or a length beyond `isize::MAX`; EFAULT.
    pub async fn read_iovecs(&self, address: u64, count: usize) -> Result<Vec<IoVector>, Errno> {
        if count > IOV_MAX {
            return Err(Errno::EINVAL);
        }
        let mut pieces = Vec::with_capacity(count);
        let mut room = TRANSFER_MAX as u64;
        let raw = self.read_vec(address, count.saturating_mul(size_of::<IoVector>())).await?;
        for bytes in raw.chunks_exact(size_of::<IoVector>()) {
            let mut piece = IoVector::read_from_bytes(bytes).map_err(|_| Errno::EFAULT)?;
            if piece.bytes > i64::MAX as u64 {
                return Err(Errno::EINVAL);
            }
            piece.bytes = piece.bytes.min(room);
            room = room.saturating_sub(piece.bytes);
            pieces.push(piece);
        }
        Ok(pieces)
    }
}
