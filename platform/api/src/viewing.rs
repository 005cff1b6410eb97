//! The *viewers* of a page: programs that show it together and divide its cost among them.
//!
//! A program that comes to show pages, or to show them no longer, goes through them with one [`Viewing`]: pages of one payer go on
//! to the next one together, so that the meter hears of blocks and not of pages.

use crate::frame_word::{KEY_SHIFT, LOOSE, OWNER_SHIFT, RUN, SHOWN};
use crate::{MemoryMeter, PAGE_BYTES};

/// How the viewers of a page change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Somebody shows a page that nobody shows.
    First,
    /// Somebody shows it beside others.
    Join,
    /// Somebody shows it no longer, others do.
    Leave,
}

/// The payer of a page from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The payer, or the set of payers.
    pub owner: u32,
    /// True if it is not known any more who shows it: the payer stays until nobody does.
    pub is_loose: bool,
}

/// Pages that go from one payer to the next one.
pub(crate) struct Passage {
    from: u32,
    step: Step,
    share: Share,
    pub(crate) bytes: usize,
}

/// The number that is added to the word of a page.
pub(crate) fn change_of(from: u32, step: Step, share: Share) -> u64 {
    let owners = (u64::from(share.owner) << OWNER_SHIFT).wrapping_sub(u64::from(from) << OWNER_SHIFT);
    let count = match step {
        Step::First => 1 + SHOWN,
        Step::Join => 1,
        Step::Leave => 1u64.wrapping_neg(),
    };
    owners.wrapping_add(count).wrapping_add(if share.is_loose { LOOSE } else { 0 })
}

impl Passage {
    pub(crate) fn change(&self) -> u64 {
        change_of(self.from, self.step, self.share)
    }
}

/// The last page that came or went: single pages with this key go on by this change.
#[derive(Clone, Copy)]
pub struct Like {
    pub(crate) key: u64,
    pub(crate) change: u64,
}

/// Payers whose pages a viewing keeps apart: parent's, child's and file's pages alternate.
const PASSAGES: usize = 4;

impl Like {
    /// Like no page.
    const NONE: Like = Like { key: u64::MAX, change: 0 };
}

/// The changes of one viewer, who comes or goes, gathered by payer, and told to the meter when they are many or it is dropped.
pub struct Viewing {
    meter: Option<&'static dyn MemoryMeter>,
    pub(crate) viewer: u32,
    /// The last page, which went by the passage at `at`, and how many have gone like it.
    like: Like,
    pages: usize,
    at: usize,
    passages: [Option<Passage>; PASSAGES],
}

impl Viewing {
    /// Of a viewer (an activity), for pages that `meter` was told of. Short: what it has gathered is in no figure yet.
    #[inline]
    pub fn new(meter: Option<&'static dyn MemoryMeter>, viewer: u32) -> Viewing {
        Viewing { meter, viewer, like: Like::NONE, pages: 0, at: 0, passages: [const { None }; PASSAGES] }
    }

    /// How the last page went.
    #[inline(always)]
    pub fn like(&self) -> Like {
        self.like
    }

    /// So many pages more went like it, by [`FrameWord::pass_like`], since it was asked for.
    #[inline(always)]
    pub fn note(&mut self, pages: usize) {
        self.pages = self.pages.wrapping_add(pages);
    }

    /// Returns the next payer of pages of `from`; `None` if `from` is no payer any more, so that the page has another one.
    pub(crate) fn passage(&mut self, from: u32, step: Step) -> Option<&mut Passage> {
        self.pause();
        self.at = (from ^ from >> 16) as usize % PASSAGES;
        let slot = self.passages.get_mut(self.at)?;
        if !slot.as_ref().is_some_and(|known| known.from == from && known.step == step) {
            let share = match self.meter {
                Some(meter) => meter.share(from, self.viewer, step)?,
                None => Share { owner: from, is_loose: true },
            };
            let before = slot.replace(Passage { from, step, share, bytes: 0 });
            tell(self.meter, before);
        }
        slot.as_mut()
    }

    /// The next pages of the same payer go as the page did whose word was `old`.
    pub(crate) fn go_on_like(&mut self, old: u64, step: Step) {
        if old & (RUN | LOOSE) == 0 && step != Step::First {
            let change = self.passages.get(self.at).and_then(Option::as_ref).map_or(0, Passage::change);
            self.like = Like { key: old >> KEY_SHIFT, change };
        }
    }

    /// Notes the pages that went like the last one.
    fn pause(&mut self) {
        if let Some(Some(passage)) = self.passages.get_mut(self.at) {
            passage.bytes += self.pages * PAGE_BYTES;
        }
        (self.like, self.pages) = (Like::NONE, 0);
    }
}

fn tell(meter: Option<&'static dyn MemoryMeter>, passage: Option<Passage>) {
    if let (Some(meter), Some(passage)) = (meter, passage)
        && passage.share.owner != passage.from
    {
        meter.passed(passage.from, passage.share.owner, passage.bytes);
    }
}

impl Drop for Viewing {
    #[inline]
    fn drop(&mut self) {
        self.pause();
        for passage in &mut self.passages {
            if passage.is_some() {
                tell(self.meter, passage.take());
            }
        }
    }
}
