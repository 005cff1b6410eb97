//! The memory of a tracee, word by word.

use crate::Errno;
use gyre_address_space::AddressSpace;

/// Returns the word at an address.
///
/// # Errors
/// EIO if it cannot be reached.
pub(super) async fn peek(space: &AddressSpace, address: u64) -> Result<u64, Errno> {
    peek_bytes(space, address, 8).await
}

/// Returns the bytes at an address as a word; at most 8.
///
/// # Errors
/// EIO if they cannot be reached, or are more.
pub(super) async fn peek_bytes(space: &AddressSpace, address: u64, count: u64) -> Result<u64, Errno> {
    let mut word = [0; 8];
    let bytes = word.get_mut(..count as usize).ok_or(Errno::EIO)?;
    space.copy_in(address, bytes).await.map_err(|_| Errno::EIO)?;
    Ok(u64::from_le_bytes(word))
}

/// Changes the word at an address, also where the program may not write: a breakpoint in its code.
///
/// # Errors
/// EIO if it cannot be reached.
pub(super) async fn poke(space: &AddressSpace, address: u64, word: u64) -> Result<(), Errno> {
    space.poke(address, &word.to_le_bytes()).await.map_err(|_| Errno::EIO)
}
