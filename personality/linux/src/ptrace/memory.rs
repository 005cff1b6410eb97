//! The memory of a tracee, word by word.

use crate::Errno;
use gyre_address_space::AddressSpace;

/// Returns the word at an address.
///
/// # Errors
/// EIO if it cannot be reached.
pub(super) async fn peek(space: &AddressSpace, address: u64) -> Result<u64, Errno> {
    let mut word = [0; 8];
    space.copy_in(address, &mut word).await.map_err(|_| Errno::EIO)?;
    Ok(u64::from_le_bytes(word))
}

/// Changes the word at an address, also where the program may not write: a breakpoint in its code.
///
/// # Errors
/// EIO if it cannot be reached.
pub(super) async fn poke(space: &AddressSpace, address: u64, word: u64) -> Result<(), Errno> {
    space.poke(address, &word.to_le_bytes()).await.map_err(|_| Errno::EIO)
}
