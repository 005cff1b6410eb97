//! System calls by number: the only unsafe code of the programs in the machine.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

/// Makes a call with numbers only.
pub(crate) fn plain(number: u64, arguments: [i64; 2]) -> io::Result<i64> {
    let [first, second] = arguments;
    // SAFETY: the calls used with this function take numbers; the kernel touches no memory of ours.
    result(unsafe { libc::syscall(number as libc::c_long, first, second) })
}

/// Makes a call with up to six numbers.
pub(crate) fn numbers<const N: usize>(number: u64, arguments: [i64; N]) -> io::Result<i64> {
    let mut all = [0i64; 6];
    all.iter_mut().zip(arguments).for_each(|(slot, value)| *slot = value);
    let [a, b, c, d, e, f] = all;
    // SAFETY: the calls used with this function take numbers; the kernel touches no memory of ours.
    result(unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) })
}

/// Makes a call that makes a descriptor.
pub(crate) fn descriptor<const N: usize>(number: u64, arguments: [i64; N]) -> io::Result<OwnedFd> {
    i32::try_from(numbers(number, arguments)?).map(owned).map_err(io::Error::other)
}

/// Owns a descriptor that a call has just made.
pub(crate) fn owned(made: i32) -> OwnedFd {
    // SAFETY: the kernel has just made it for us; nobody else has it.
    unsafe { OwnedFd::from_raw_fd(made) }
}

/// A page that the kernel mapped for us to read; given back when dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    address: usize,
    bytes: usize,
}

impl Mapped {
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: mapped for reading by the kernel, and unmapped by nobody but our drop. Bytes of a file may change as others write it,
        // as with any mapping of a file.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let first = self.address & !4095;
        let bytes = self.address + self.bytes - first;
        // SAFETY: the pages are ours alone; the slice's borrow has ended.
        unsafe { libc::munmap(first as *mut libc::c_void, bytes) };
    }
}

/// Makes a call that maps what it reads: `call(descriptor, &address, &bytes)`.
pub(crate) fn mapped(number: u64, descriptor: i32, bytes: u64) -> io::Result<Mapped> {
    let (mut address, mut bytes) = (0u64, bytes);
    let (to_address, to_bytes) = (&raw mut address, &raw mut bytes);
    // SAFETY: both are words of ours that live through the call.
    result(unsafe { libc::syscall(number as libc::c_long, descriptor, to_address, to_bytes) })?;
    Ok(Mapped { address: address as usize, bytes: bytes as usize })
}

/// Makes a call that reads a buffer.
pub(crate) fn with_input(number: u64, bytes: &[u8]) -> io::Result<i64> {
    // SAFETY: pointer and length describe `bytes`, which lives through the call; the kernel only reads it.
    result(unsafe { libc::syscall(number as libc::c_long, bytes.as_ptr(), bytes.len()) })
}

/// Makes a call that takes a number and reads a buffer.
pub(crate) fn with_number_and_input(number: u64, first: u64, bytes: &[u8]) -> io::Result<i64> {
    with_numbers_and_input(number, [first.cast_signed()], bytes)
}

/// Makes a call that takes numbers and reads a buffer, which comes after them.
pub(crate) fn with_numbers_and_input<const N: usize>(number: u64, before: [i64; N], bytes: &[u8]) -> io::Result<i64> {
    let mut arguments = [0i64; 6];
    let all = before.into_iter().chain([bytes.as_ptr() as i64, bytes.len() as i64]);
    arguments.iter_mut().zip(all).for_each(|(slot, value)| *slot = value);
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: pointer and length describe `bytes`, which lives through the call; the kernel only reads it.
    result(unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) })
}

/// Makes a call that writes a buffer, which comes after the other arguments; returns the count that the kernel returns.
pub(crate) fn with_output<const N: usize>(number: u64, before: [i64; N], buffer: &mut [u8]) -> io::Result<usize> {
    with_output_between(number, before, buffer, 0)
}

/// Like [`with_output`], with a number after the buffer.
fn with_output_between<const N: usize>(
    number: u64,
    before: [i64; N],
    buffer: &mut [u8],
    after: u64,
) -> io::Result<usize> {
    let (pointer, length) = (buffer.as_mut_ptr() as i64, buffer.len() as i64);
    let mut arguments = [0i64; 6];
    let all = before.into_iter().chain([pointer, length, after.cast_signed()]);
    arguments.iter_mut().zip(all).for_each(|(slot, value)| *slot = value);
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: pointer and length describe `buffer`, borrowed exclusively through the call; any bytes are valid in it.
    let count = result(unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) })?;
    usize::try_from(count).map_err(io::Error::other)
}

/// Makes a call that reads a buffer and writes another; returns the count that the kernel returns.
pub(crate) fn with_both(number: u64, input: &[u8], output: &mut [u8]) -> io::Result<usize> {
    // The kernel only reads `input`, which lives through the call.
    with_output(number, [input.as_ptr() as i64, input.len() as i64], output)
}

/// Like [`with_both`], with a number after the buffers.
pub(crate) fn with_both_and_number(number: u64, input: &[u8], output: &mut [u8], last: u64) -> io::Result<usize> {
    // The kernel only reads `input`, which lives through the call.
    with_output_between(number, [input.as_ptr() as i64, input.len() as i64], output, last)
}

/// Returns whether a descriptor can be written without waiting.
pub(crate) fn can_write(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mut one = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry of ours, which lives through the call.
    result(unsafe { libc::poll(&raw mut one, 1, 0) }.into())?;
    Ok(one.revents != 0)
}

fn result(value: libc::c_long) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
