//! Charging memory where it is taken.

use crate::{Share, Step};

/// There is no memory left, or the activity may not have more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// Nobody was told of it.
pub const UNCHARGED: u32 = u32::MAX;

/// Told of every byte the platform hands out, so that each belongs to somebody.
///
/// The platform's frame allocator and kernel heap call it; the runtime implements it with the activity whose message is being handled.
pub trait MemoryMeter: Sync {
    /// Charges `bytes` to whoever runs on this core and returns who that is, or refuses.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the payer's budget is spent.
    fn charge(&self, bytes: usize) -> Result<u32, OutOfMemory>;
    /// Charges `bytes` of the kernel's own objects to whoever runs on this core and returns who that is. Budgets never refuse
    /// these: kernel code cannot do without them, and a tenant at its limit must not be able to stop the kernel. They count, so that
    /// its next page is refused.
    fn charge_object(&self, bytes: usize) -> u32;
    /// Gives `bytes` back to `owner`, a value that one of the two returned.
    fn credit(&self, owner: u32, bytes: usize);
    /// Returns the payer of pages of `owner` once `viewer` has come or gone; `None` if `owner` is no payer any more. Each answer that is
    /// another owner is followed by one [`MemoryMeter::passed`], before which that owner stays.
    fn share(&self, owner: u32, _viewer: u32, _step: Step) -> Option<Share> {
        Some(Share { owner, is_loose: true })
    }
    /// `bytes` of pages, perhaps none, have gone from one owner to another one, which `share` answered.
    fn passed(&self, _from: u32, _to: u32, _bytes: usize) {}
    /// Both at once for `bytes` of pages: `replace` changes who pays, and answers whether it could. False if it could not, or `owner`
    /// is no payer any more. `replace` takes no lock and no memory.
    fn hand_over(
        &self,
        owner: u32,
        viewer: u32,
        step: Step,
        bytes: usize,
        replace: &mut dyn FnMut(Share) -> bool,
    ) -> bool {
        let Some(share) = self.share(owner, viewer, step) else { return false };
        let done = replace(share);
        if share.owner != owner {
            self.passed(owner, share.owner, if done { bytes } else { 0 });
        }
        done
    }
}
