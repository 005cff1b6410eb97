//! Moving a mapping and its pages (mremap).
//!
//! A large mapping moves in pieces, between which the core is free. Each page is at its old place or at its new one.
//!
//! * Nobody maps, unmaps or copies the space meanwhile ([`Copying`]). Faults go on at both places.
//! * The part of the new place that is still empty is reserved: a touch there fails as if nothing were mapped.
//! * Mappings that stood at the new place go before, in pieces too, if the mapping can move. A refused move changes
//!   nothing.
//! * The call does not end on a signal, as on Linux.

use crate::duplicate::Copying;
use crate::map::{range, tell};
use crate::page_index::PageIndex;
use crate::pages::PIECE_BYTES;
use crate::region::{MappedFile, Options, PAGE, Provider, Region, Rights};
use crate::space::{State, Withdrawn};
use crate::{AddressSpace, SpaceError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{Va, address::USER_START};

/// A move that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    /// Old place.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// New place; `None` for any.
    pub(crate) to: Option<u64>,
    /// New length, whole pages.
    pub(crate) bytes: u64,
}

impl Relocation {
    /// Returns the bytes whose pages move.
    fn moved(&self) -> u64 {
        self.end.saturating_sub(self.start).min(self.bytes)
    }

    fn is_large(&self) -> bool {
        self.end.saturating_sub(self.start).max(self.bytes) > PIECE_BYTES
    }

    /// Returns the end of the part of the old place that moves.
    fn moved_end(&self) -> u64 {
        self.start.saturating_add(self.moved())
    }

    fn check(&self) -> Result<(), SpaceError> {
        let Some(to) = self.to else { return Ok(()) };
        let overlaps = to < self.end && self.start < to.saturating_add(self.bytes);
        if overlaps || to < USER_START {
            return Err(SpaceError::Invalid);
        }
        range(to, self.bytes).map(|_| ())
    }
}

/// A move that has begun.
struct Moving {
    /// The part of the old place that has not moved.
    at: u64,
    end: u64,
    /// The new place of `at`.
    to: u64,
    /// Options that the mapping gets back at its new place.
    options: Options,
}

/// A move that has begun, and the things that went for it.
struct Begun {
    moving: Moving,
    withdrawn: Withdrawn,
    dirtied: Vec<(Arc<MappedFile>, u64)>,
}

impl AddressSpace {
    /// Moves a mapping; returns its new start.
    ///
    /// # Errors
    /// [`SpaceError`]; nothing has changed then, unless another thread changed mappings at the same time.
    pub(crate) async fn relocate(&self, asked: Relocation) -> Result<u64, SpaceError> {
        asked.check()?;
        if asked.is_large() {
            self.make_way_for_move(asked).await;
        }
        let (to, dirtied) = self.move_pieces(asked).await?;
        tell(dirtied).await;
        Ok(to)
    }

    /// Frees the pages at the new place, and those that the mapping loses, in pieces, if it can move.
    async fn make_way_for_move(&self, asked: Relocation) {
        let top = self.layout.map_top;
        let Ok(to) = self.change(|state| state.check_move(asked, top)).await else { return };
        self.thin_out(to, to.saturating_add(asked.bytes)).await;
        self.thin_out(asked.moved_end(), asked.end).await;
    }

    async fn move_pieces(&self, asked: Relocation) -> Result<(u64, Vec<(Arc<MappedFile>, u64)>), SpaceError> {
        let top = self.layout.map_top;
        let still = if asked.is_large() { Some(Copying::begin(self).await) } else { None };
        let begin = |state: &mut State| -> Result<(Begun, bool), SpaceError> {
            let mut begun = state.begin_move(asked, top)?;
            let is_over = state.move_piece(&mut begun.moving, &mut begun.withdrawn);
            Ok((begun, is_over))
        };
        let begun = match &still {
            Some(_) => begin(&mut self.state.lock()),
            None => self.change(begin).await,
        };
        let (Begun { mut moving, withdrawn, dirtied }, mut is_over) = begun?;
        let to = moving.to.saturating_sub(moving.at.saturating_sub(asked.start));
        self.flush_and_free(withdrawn).await;
        while !is_over {
            gyre_message::yield_now().await;
            let mut withdrawn = Withdrawn::default();
            is_over = self.state.lock().move_piece(&mut moving, &mut withdrawn);
            self.flush_and_free(withdrawn).await;
        }
        Ok((to, dirtied))
    }
}

/// A range that nobody may touch and nothing is mapped over.
fn reserved(end: u64) -> Region {
    Region {
        end,
        rights: Rights::empty(),
        rights_max: Rights::empty(),
        options: Options::empty(),
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    }
}

impl State {
    /// Returns where a mapping can go.
    fn check_move(&self, asked: Relocation, top: u64) -> Result<u64, SpaceError> {
        let region = self.whole(asked.start, asked.end)?;
        region.first_index.plus(asked.bytes / PAGE).ok_or(SpaceError::Invalid)?;
        let old_bytes = asked.end.saturating_sub(asked.start);
        if asked.bytes > old_bytes {
            self.check_growth(&region, asked.bytes.saturating_sub(old_bytes))?;
        }
        let to = match asked.to {
            Some(to) => to,
            None => self.gap_for(asked.bytes, top)?,
        };
        to.checked_add(asked.bytes).map(|_| to).ok_or(SpaceError::Invalid)
    }

    /// Empties the new place and cuts what the mapping loses. Its pages follow ([`State::move_piece`]).
    fn begin_move(&mut self, asked: Relocation, top: u64) -> Result<Begun, SpaceError> {
        let to = self.check_move(asked, top)?;
        let region = self.whole(asked.start, asked.end)?;
        let (end, moved_end) = (to.saturating_add(asked.bytes), to.saturating_add(asked.moved()));
        let (mut withdrawn, mut dirtied) = self.remove(to, end);
        self.cover_stale_ranges(to, end, &mut withdrawn);
        let (tail, tail_dirtied) = self.remove(asked.moved_end(), asked.end);
        withdrawn.merge(tail);
        dirtied.extend(tail_dirtied);
        // The part that is still at the old place does not grow down into what has left it.
        self.regions.change(asked.start, asked.moved_end(), |part| part.options.remove(Options::GROWS_DOWN));
        self.regions.insert(to, reserved(moved_end));
        if moved_end < end {
            let first_index = region.index_of(to, moved_end);
            self.regions.insert(moved_end, Region { end, first_index, ..region.clone() });
        }
        let options = region.options & Options::GROWS_DOWN;
        Ok(Begun { moving: Moving { at: asked.start, end: asked.moved_end(), to, options }, withdrawn, dirtied })
    }

    /// Moves the next pages and their mappings; true if nothing is left.
    fn move_piece(&mut self, moving: &mut Moving, withdrawn: &mut Withdrawn) -> bool {
        let stop = self.stop_of_piece(moving.at, moving.end);
        self.split_range(moving.at, stop, withdrawn);
        self.move_regions(moving, stop);
        self.stale_ranges.add(moving.at, stop);
        withdrawn.stale_ranges.push((moving.at, stop));
        self.move_pages(moving, stop, withdrawn);
        moving.to = moving.to.saturating_add(stop.saturating_sub(moving.at));
        moving.at = stop;
        moving.at >= moving.end
    }

    fn move_regions(&mut self, moving: &Moving, stop: u64) {
        let target = |address: u64| moving.to.saturating_add(address.saturating_sub(moving.at));
        self.regions.discard(moving.to, target(stop));
        for (start, mut region) in self.regions.take(moving.at, stop) {
            region.end = target(region.end);
            region.options.insert(moving.options);
            self.regions.insert(target(start), region);
        }
    }

    fn move_pages(&mut self, moving: &Moving, stop: u64, withdrawn: &mut Withdrawn) {
        self.tellings.recall(moving.at..stop);
        let addresses: Vec<u64> = self.pages.addresses(moving.at, stop).collect();
        for address in addresses {
            let before = self.table.unmap(Va(address));
            let Some(page) = self.pages.remove(address) else {
                continue;
            };
            let target = moving.to.saturating_add(address.saturating_sub(moving.at));
            if let Some(before) = before {
                withdrawn.stale.push(address);
                self.note_shown(target);
                // If the table has no room, the next fault shows the page.
                let _ = self.table.map(Va(target), page.pa(), before.flags);
            }
            self.pages.insert(target, page);
        }
    }
}
