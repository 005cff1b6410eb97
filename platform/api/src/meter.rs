//! Charging memory where it is taken.

/// There is no memory left, or the activity may not have more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// Told of every byte the platform hands out, so that each belongs to somebody.
///
/// The platform's frame allocator and kernel heap call it; the runtime implements it with the activity whose message is being handled.
pub trait MemoryMeter: Sync {
    /// Charges `bytes` to whoever runs on this core and returns who that is, or refuses.
    ///
    /// # Errors
    /// [`OutOfMemory`] where the payer's budget is spent.
    fn charge(&self, bytes: usize) -> Result<u32, OutOfMemory>;
    /// Gives `bytes` back to `owner`, a value that [`MemoryMeter::charge`] returned.
    fn credit(&self, owner: u32, bytes: usize);
}
