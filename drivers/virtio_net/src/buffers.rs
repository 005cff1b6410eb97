//! Memory for received frames: half pages, used again once no layer above holds a frame in their page.

use alloc::collections::VecDeque;
use gyre_machine::{OutOfMemory, PAGE_BYTES, Pa};
use gyre_object::{Bytes, Page};

/// Bytes of a buffer: header and frame of an Ethernet link fit.
pub(crate) const BUFFER_BYTES: usize = PAGE_BYTES / 2;

/// One buffer: half of a page.
pub(crate) struct Buffer {
    page: Page,
    start: usize,
}

impl Buffer {
    /// The memory that the device writes.
    #[expect(clippy::arithmetic_side_effects, reason = "the start lies in the page, which lies in memory")]
    pub(crate) fn pa(&self) -> Pa {
        Pa(self.page.pa().0 + self.start as u64)
    }

    /// A view of what the device wrote.
    pub(crate) fn view(&self, from: usize, to: usize) -> Bytes {
        Bytes::new(self.page.clone(), self.start.saturating_add(from), to.saturating_sub(from))
    }
}

/// Buffers that are not at the device, the one that rests longest first.
#[derive(Default)]
pub(crate) struct Buffers {
    resting: VecDeque<Buffer>,
}

impl Buffers {
    /// Most resting buffers: what is held above beyond this belongs to its holders alone.
    const RESTING_MAX: usize = 512;

    /// Takes a buffer that nobody looks at.
    pub(crate) fn take(&mut self) -> Result<Buffer, OutOfMemory> {
        // the two halves hold their page once each; more holders are frames above
        if self.resting.front().is_some_and(|buffer| buffer.page.holders() <= 2)
            && let Some(buffer) = self.resting.pop_front()
        {
            return Ok(buffer);
        }
        let page = match Page::fixed() {
            Ok(page) => page,
            Err(short) => return self.any_free().ok_or(short),
        };
        self.resting.push_front(Buffer { page: page.clone(), start: BUFFER_BYTES });
        Ok(Buffer { page, start: 0 })
    }

    /// Takes any buffer that nobody looks at: memory is short, and the first one is held above. Those before it go to the end of the list, so
    /// that who takes many looks at each buffer once.
    #[cold]
    fn any_free(&mut self) -> Option<Buffer> {
        let index = self.resting.iter().position(|buffer| buffer.page.holders() <= 2)?;
        self.resting.rotate_left(index);
        self.resting.pop_front()
    }

    /// Takes back a buffer whose frame went up.
    pub(crate) fn rest(&mut self, buffer: Buffer) {
        self.resting.push_back(buffer);
        if self.resting.len() > Self::RESTING_MAX {
            self.resting.pop_front();
        }
    }
}
