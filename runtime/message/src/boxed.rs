//! Futures in memory of their own.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;

/// Puts the future that `make` makes into memory of its own, and makes it there: what [`Box::pin`] is given is made on the stack and
/// copied, all of it, though of a future that has not begun only what it captured is there.
#[inline(always)]
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::block_on;

    #[test]
    fn a_future_in_memory_of_its_own_does_what_it_would_do_elsewhere() {
        let large = [7_u8; 4096];
        let sum = boxed(|| async move {
            crate::sleep_ns(1).await;
            large.iter().map(|byte| usize::from(*byte)).sum::<usize>()
        });
        gyre_machine::set_virtual_time(0);
        assert_eq!(block_on(sum), 7 * 4096);
    }
}
