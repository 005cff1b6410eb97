//! One word for each page: who pays for it (an activity, or a set of viewers as the meter names it), and how many address spaces show it.

use crate::viewing::{Like, Share, Step, Viewing, change_of};
use crate::{MemoryMeter, UNCHARGED};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

pub(crate) const OWNER_SHIFT: u32 = 32;
pub(crate) const LOOSE: u64 = 1 << 31;
pub(crate) const SHOWN: u64 = 1 << 30;
pub(crate) const RUN: u64 = 1 << 29;
const OWN: u64 = 1 << 28;
const COUNT_MASK: u64 = OWN - 1;
/// Above are the bits by which pages are told apart when many change at once.
pub(crate) const KEY_SHIFT: u32 = 29;

/// The description of a frame: its payer, and how many address spaces show it.
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

    /// The payer.
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

    /// One more address space shows a single page that nobody shows and for which `viewer` pays already; false, and nothing done, if
    /// that is not so.
    #[inline]
    pub fn enter_own(&self, viewer: u32) -> bool {
        let old = self.0.load(Relaxed);
        old & SHOWN == 0 && owner_of(old) == viewer && self.replace(old, (old + 1) | SHOWN)
    }

    /// The last address space shows it no longer; who pays goes on paying. False, and nothing done, if it is not the last one.
    #[inline]
    pub fn leave_last(&self) -> bool {
        let old = self.0.load(Relaxed);
        old & (COUNT_MASK | LOOSE) == 1 && self.replace(old, (old - 1) & !SHOWN)
    }

    /// A page like the last one that came or went: true, and done, if it is. Whoever calls it counts, for [`Viewing::note`].
    #[inline(always)]
    pub fn pass_like(&self, like: Like) -> bool {
        let old = self.0.load(Relaxed);
        old >> KEY_SHIFT == like.key && self.replace(old, old.wrapping_add(like.change))
    }

    /// One more address space shows it; `bytes` long. The viewing has none that left.
    pub fn enter(&self, viewing: &mut Viewing, bytes: usize) {
        self.enter_by(viewing.viewer, |old, step| self.change(old, step, viewing, bytes));
    }

    /// Like [`Self::enter`], without a [`Viewing`]: the meter hears of it at once.
    pub fn enter_now(&self, meter: Option<&dyn MemoryMeter>, viewer: u32, bytes: usize) {
        self.enter_by(viewer, |old, step| self.hand_over(old, step, (meter, viewer), bytes));
    }

    fn enter_by(&self, viewer: u32, mut change: impl FnMut(u64, Step) -> bool) {
        loop {
            let old = self.0.load(Relaxed);
            let step = if old & SHOWN == 0 { Step::First } else { Step::Join };
            let is_counted_only =
                owner_of(old) == UNCHARGED || old & LOOSE != 0 || (step == Step::First && owner_of(old) == viewer);
            let done = match is_counted_only {
                true => self.replace(old, (old + 1) | SHOWN),
                false => change(old, step),
            };
            if done {
                return;
            }
        }
    }

    /// One address space less shows it; `bytes` long. The viewing has none that came.
    pub fn leave(&self, viewing: &mut Viewing, bytes: usize) {
        self.leave_by(|old| self.change(old, Step::Leave, viewing, bytes));
    }

    /// Like [`Self::leave`], without a [`Viewing`]: the meter hears of it at once.
    pub fn leave_now(&self, meter: Option<&dyn MemoryMeter>, viewer: u32, bytes: usize) {
        self.leave_by(|old| self.hand_over(old, Step::Leave, (meter, viewer), bytes));
    }

    fn leave_by(&self, mut change: impl FnMut(u64) -> bool) {
        loop {
            let old = self.0.load(Relaxed);
            let done = match old & COUNT_MASK {
                0 => return,
                // The last one keeps it.
                1 => self.replace(old, (old - 1) & !(LOOSE | SHOWN)),
                _ if owner_of(old) == UNCHARGED || old & LOOSE != 0 => self.replace(old, old - 1),
                _ => change(old),
            };
            if done {
                return;
            }
        }
    }

    fn hand_over(&self, old: u64, step: Step, (meter, viewer): (Option<&dyn MemoryMeter>, u32), bytes: usize) -> bool {
        let owner = owner_of(old);
        let mut replace = |share| self.replace(old, old.wrapping_add(change_of(owner, step, share)));
        match meter {
            Some(meter) => meter.hand_over(owner, viewer, step, bytes, &mut replace),
            None => replace(Share { owner, is_loose: true }),
        }
    }

    /// Goes on to the payer that follows; false if word or payer has changed meanwhile.
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
