//! Taking pages out of memory that leaves the instance.
//!
//! ```text
//!   file's page      -> forgotten: the file cache drops it, a fault brings it back
//!   program's own    -> out of reach -> flush -> copied, the copy takes its place -> the old page is free
//! ```
//! A program that touches a page in between gets it back by a fault; it stays then, and is asked for again. A copy is right whoever else shows
//! the page: private pages are copied by the next write anyway. Pages that somebody beside programs holds (a device, a pipe) stay until they
//! are let go.

use crate::AddressSpace;
use crate::region::{Options, Provider};
use crate::space::{State, Withdrawn};
use alloc::vec::Vec;
use gyre_machine::{Pa, USER_END, Va};

/// Returns true for a page that lies where none may stay.
pub type IsLeaving<'a> = dyn Fn(Pa) -> bool + Sync + 'a;

/// The pages of a piece of a space that leave.
#[derive(Default)]
struct Piece {
    /// The program's own, out of its reach.
    hidden: Vec<u64>,
    withdrawn: Withdrawn,
    stayed: usize,
    next: Option<u64>,
}

/// The way of a page out of the memory.
enum Way {
    Forget,
    Copy,
    Stay,
}

impl AddressSpace {
    /// Empties a part of the memory, as far as its pages can be had elsewhere; answers how many could not.
    pub async fn vacate(&self, is_leaving: &IsLeaving<'_>) -> usize {
        let split = self.state.lock().split_leaving(is_leaving);
        self.flush_and_free(split).await;
        let (mut next, mut stayed) = (Some(0), 0_usize);
        while let Some(from) = next {
            let piece = self.state.lock().hide_leaving(from, is_leaving);
            self.flush_and_free(piece.withdrawn).await;
            let (old, left) = self.state.lock().copy_hidden(&piece.hidden, is_leaving);
            drop(old);
            stayed = stayed.saturating_add(piece.stayed).saturating_add(left);
            next = piece.next;
            gyre_message::yield_now().await;
        }
        stayed
    }
}

impl State {
    /// Makes huge pages that leave single ones.
    fn split_leaving(&mut self, is_leaving: &IsLeaving<'_>) -> Withdrawn {
        let mut withdrawn = Withdrawn::default();
        let starts = self.pages.huge_starts(0, USER_END);
        let leaves = |at: &u64| self.pages.with(*at, |page, _| is_leaving(page.pa())).unwrap_or(false);
        let leaving: Vec<u64> = starts.filter(leaves).collect();
        leaving.into_iter().for_each(|at| self.split_range(at, at.saturating_add(1), &mut withdrawn));
        withdrawn
    }

    fn hide_leaving(&mut self, from: u64, is_leaving: &IsLeaving<'_>) -> Piece {
        let next = self.pages.end_of_piece(from, USER_END);
        let mut piece = Piece { next, ..Piece::default() };
        let singles = self.pages.singles(from, next.unwrap_or(USER_END));
        let found: Vec<u64> = singles.filter(|(_, page)| is_leaving(page.pa())).map(|(address, _)| address).collect();
        for address in found {
            match self.way_out(address) {
                Way::Forget => self.evict(address, &mut piece.withdrawn),
                Way::Copy => {
                    if self.table.unmap(Va(address)).is_some() {
                        piece.withdrawn.stale.push(address);
                    }
                    piece.hidden.push(address);
                }
                Way::Stay => piece.stayed = piece.stayed.saturating_add(1),
            }
        }
        piece
    }

    fn way_out(&self, address: u64) -> Way {
        let (Some((_, region)), Some(page)) = (self.regions.find(address), self.pages.get(address)) else {
            return Way::Stay;
        };
        if matches!(region.provider, Provider::File(_)) && !page.is_own() {
            // If the program may write it, its file counts it as dirty. A program that edits its page table itself shows it longer.
            let stays = region.options.contains(Options::LOCKED) || self.view.is_some();
            return if stays { Way::Stay } else { Way::Forget };
        }
        let is_programs = page.holders() <= page.mappings() as usize;
        if is_programs && !region.is_shared() { Way::Copy } else { Way::Stay }
    }

    /// Puts copies in the places of pages that are out of reach, as far as no program has them back; answers the old ones, and how many stay.
    fn copy_hidden(&mut self, hidden: &[u64], is_leaving: &IsLeaving<'_>) -> (Vec<gyre_object::Page>, usize) {
        let (mut old, mut stayed) = (Vec::new(), 0_usize);
        for address in hidden {
            let Some(page) = self.pages.get(*address).filter(|page| is_leaving(page.pa())) else { continue };
            let copy = page.copy().ok().filter(|_| self.table.query(Va(*address)).is_none());
            let Some(copy) = copy else {
                stayed = stayed.saturating_add(1);
                continue;
            };
            if page.is_own() {
                copy.note_own();
            }
            old.extend(self.pages.insert(*address, copy));
        }
        (old, stayed)
    }
}
