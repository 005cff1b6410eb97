//! System calls by number: the only unsafe code of the programs in the machine.

use std::io;

/// Makes a call with numbers only.
pub(crate) fn plain(number: u64, arguments: [i64; 2]) -> io::Result<i64> {
    let [first, second] = arguments;
    // SAFETY: the calls used with this function take numbers; the kernel touches no memory of ours.
    result(unsafe { libc::syscall(number as libc::c_long, first, second) })
}

/// Makes a call that reads a buffer.
pub(crate) fn with_input(number: u64, bytes: &[u8]) -> io::Result<i64> {
    // SAFETY: pointer and length describe `bytes`, which lives through the call; the kernel only reads it.
    result(unsafe { libc::syscall(number as libc::c_long, bytes.as_ptr(), bytes.len()) })
}

/// Makes a call that takes a number and reads a buffer.
pub(crate) fn with_number_and_input(number: u64, first: u64, bytes: &[u8]) -> io::Result<i64> {
    // SAFETY: pointer and length describe `bytes`, which lives through the call; the kernel only reads it.
    result(unsafe { libc::syscall(number as libc::c_long, first, bytes.as_ptr(), bytes.len()) })
}

/// Makes a call that writes a buffer, which comes after the other arguments; returns the count that the kernel returns.
pub(crate) fn with_output<const N: usize>(number: u64, before: [i64; N], buffer: &mut [u8]) -> io::Result<usize> {
    let (pointer, length) = (buffer.as_mut_ptr() as i64, buffer.len() as i64);
    let mut arguments = [0i64; 6];
    let all = before.into_iter().chain([pointer, length]);
    arguments.iter_mut().zip(all).for_each(|(slot, value)| *slot = value);
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: pointer and length describe `buffer`, borrowed exclusively through the call; any bytes are valid in it.
    let count = result(unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) })?;
    usize::try_from(count).map_err(io::Error::other)
}

fn result(value: libc::c_long) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
