//! Who pays for a page that several programs show: the *viewers* of a page, who divide it among them.
//!
//! Each page has one word: who pays for it (an activity, or a set of viewers as the meter names it), and how many address spaces show
//! it. A program that comes to show pages, or to show them no longer, goes through them with one [`Viewing`]: pages of one payer go on
//! to the next one together, so that the meter hears of blocks and not of pages.

use crate::{MemoryMeter, PAGE_BYTES};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// Nobody was told of the page.
pub const UNCHARGED: u32 = u32::MAX;

const OWNER_SHIFT: u32 = 32;
const LOOSE: u64 = 1 << 31;
const SHOWN: u64 = 1 << 30;
const RUN: u64 = 1 << 29;
const OWN: u64 = 1 << 28;
const COUNT_MASK: u64 = OWN - 1;
/// Above are the bits by which pages are told apart when many change at once.
const KEY_SHIFT: u32 = 29;

/// What is known of a frame: payer, how many address spaces show it.
/// ```text
///   63        32  31      30      29    28    27          0
///  | payer      | loose | shown | run | own | mappings    |
/// ```
/// *Loose*: the payer pays alone until nobody shows the page, as its viewers could not be told apart (no room for their set, or they are
/// of several tenants). *Shown*: there are mappings. *Run*: more than one page. *Own*: a program could write it for itself.
pub struct FrameWord(AtomicU64);

const fn owner_of(word: u64) -> u32 {
    (word >> OWNER_SHIFT) as u32
}

impl FrameWord {
    /// A frame that nobody shows.
    #[inline]
    pub const fn new(owner: u32, is_run: bool) -> FrameWord {
        FrameWord(AtomicU64::new(((owner as u64) << OWNER_SHIFT) | if is_run { RUN } else { 0 }))
    }

    /// The word of one of the single frames that this one is cut into: of the same payer and viewers.
    pub fn part(&self) -> FrameWord {
        FrameWord(AtomicU64::new(self.0.load(Relaxed) & !(RUN | OWN)))
    }

    /// Who pays.
    #[inline]
    pub fn owner(&self) -> u32 {
        owner_of(self.0.load(Relaxed))
    }

    /// Nobody gives it back to the meter any more.
    pub fn forget_owner(&mut self) {
        *self.0.get_mut() |= (UNCHARGED as u64) << OWNER_SHIFT;
    }

    /// True for more than one page.
    #[inline]
    pub fn is_run(&self) -> bool {
        self.0.load(Relaxed) & RUN != 0
    }

    /// How many address spaces show it, as far as they said so.
    #[inline]
    pub fn mappings(&self) -> u32 {
        (self.0.load(Relaxed) & COUNT_MASK) as u32
    }

    /// True once a program could write it for itself.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.0.load(Relaxed) & OWN != 0
    }

    /// A program may write it from now on, and nobody else sees that.
    #[inline]
    pub fn note_own(&self) {
        if !self.is_own() {
            self.0.fetch_or(OWN, Relaxed);
        }
    }

    fn replace(&self, old: u64, new: u64) -> bool {
        self.0.compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }

    /// One more address space shows a single page that nobody shows and for which `viewer` pays already; false, and nothing done, where
    /// that is not so.
    #[inline]
    pub fn enter_own(&self, viewer: u32) -> bool {
        let old = self.0.load(Relaxed);
        old & SHOWN == 0 && owner_of(old) == viewer && self.replace(old, (old + 1) | SHOWN)
    }

    /// The last address space shows it no longer; who pays goes on paying. False, and nothing done, where it is not the last one.
    #[inline]
    pub fn leave_last(&self) -> bool {
        let old = self.0.load(Relaxed);
        old & (COUNT_MASK | LOOSE) == 1 && self.replace(old, (old - 1) & !SHOWN)
    }

    /// A page like the last one that came or went: true, and done, where it is.
    #[inline(always)]
    pub fn pass_like(&self, viewing: &mut Viewing) -> bool {
        let old = self.0.load(Relaxed);
        let done = old >> KEY_SHIFT == viewing.key && self.replace(old, old.wrapping_add(viewing.change));
        viewing.pages += usize::from(done);
        done
    }

    /// One more address space shows it; `bytes` long. The viewing has none that left.
    pub fn enter(&self, viewing: &mut Viewing, bytes: usize) {
        loop {
            let old = self.0.load(Relaxed);
            let step = if old & SHOWN == 0 { Step::First } else { Step::Join };
            let is_counted_only = owner_of(old) == UNCHARGED
                || old & LOOSE != 0
                || (step == Step::First && owner_of(old) == viewing.viewer);
            let done = match is_counted_only {
                true => self.replace(old, (old + 1) | SHOWN),
                false => self.change(old, step, viewing, bytes),
            };
            if done {
                return;
            }
        }
    }

    /// One address space less shows it; `bytes` long. The viewing has none that came.
    pub fn leave(&self, viewing: &mut Viewing, bytes: usize) {
        loop {
            let old = self.0.load(Relaxed);
            let done = match old & COUNT_MASK {
                0 => return,
                // The last one keeps it.
                1 => self.replace(old, (old - 1) & !(LOOSE | SHOWN)),
                _ if owner_of(old) == UNCHARGED || old & LOOSE != 0 => self.replace(old, old - 1),
                _ => self.change(old, Step::Leave, viewing, bytes),
            };
            if done {
                return;
            }
        }
    }

    /// Goes on to the payer that follows; false where word or payer has changed meanwhile.
    fn change(&self, old: u64, step: Step, viewing: &mut Viewing, bytes: usize) -> bool {
        let Some(passage) = viewing.passage(owner_of(old), step) else { return false };
        let done = self.replace(old, old.wrapping_add(passage.change()));
        if done {
            passage.bytes += bytes;
            viewing.go_on_like(old, step);
        }
        done
    }
}

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

/// Who pays for a page from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The payer, or the set of payers.
    pub owner: u32,
    /// True where it is not known any more who shows it: the payer stays until nobody does.
    pub is_loose: bool,
}

/// Pages that go from one payer to the next one.
struct Passage {
    from: u32,
    step: Step,
    share: Share,
    bytes: usize,
}

impl Passage {
    /// What is added to the word of a page.
    fn change(&self) -> u64 {
        let owners = (u64::from(self.share.owner) << OWNER_SHIFT).wrapping_sub(u64::from(self.from) << OWNER_SHIFT);
        let count = match self.step {
            Step::First => 1 + SHOWN,
            Step::Join => 1,
            Step::Leave => 1u64.wrapping_neg(),
        };
        owners.wrapping_add(count).wrapping_add(if self.share.is_loose { LOOSE } else { 0 })
    }
}

/// Payers whose pages a viewing keeps apart: parent's, child's and file's pages alternate.
const PASSAGES: usize = 4;
/// No page's.
const NO_KEY: u64 = u64::MAX;

/// The changes of one viewer, who comes or goes, gathered by payer, and told to the meter when they are many or it is dropped.
pub struct Viewing {
    meter: Option<&'static dyn MemoryMeter>,
    viewer: u32,
    /// Single pages with this key go like the last one, which went by the passage at `at`: so many have, by this change.
    key: u64,
    change: u64,
    pages: usize,
    at: usize,
    passages: [Option<Passage>; PASSAGES],
}

impl Viewing {
    /// Of a viewer (an activity), for pages that `meter` was told of. Short: what it has gathered is in no figure yet.
    #[inline]
    pub fn new(meter: Option<&'static dyn MemoryMeter>, viewer: u32) -> Viewing {
        Viewing { meter, viewer, key: NO_KEY, change: 0, pages: 0, at: 0, passages: [const { None }; PASSAGES] }
    }

    /// Where pages of `from` go; `None` where `from` is no payer any more, so that the page has another one.
    fn passage(&mut self, from: u32, step: Step) -> Option<&mut Passage> {
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
    fn go_on_like(&mut self, old: u64, step: Step) {
        if old & (RUN | LOOSE) == 0 && step != Step::First {
            self.key = old >> KEY_SHIFT;
            self.change = self.passages.get(self.at).and_then(Option::as_ref).map_or(0, Passage::change);
        }
    }

    /// Notes the pages that went like the last one.
    fn pause(&mut self) {
        if let Some(Some(passage)) = self.passages.get_mut(self.at) {
            passage.bytes += self.pages * PAGE_BYTES;
        }
        (self.key, self.pages) = (NO_KEY, 0);
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
