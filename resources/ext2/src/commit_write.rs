//! Writing the copies of a commit: classes one after the other, directories by the order of their sectors.

use crate::commit::Commit;
use crate::metadata::Class;
use crate::read::{Run, Runs};
use crate::shared::in_name_of;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::FileError;
use gyre_object::{Bytes, Page};

impl Commit {
    pub(crate) async fn write_contents(&mut self) -> Result<(), FileError> {
        let nodes: Vec<u64> = self.ordered.iter().copied().collect();
        self.unflushed |= !nodes.is_empty();
        self.file_system.write_back_files(&nodes).await?;
        self.file_system.metadata.lock().owed.clear();
        Ok(())
    }

    pub(crate) async fn write_class(&mut self, which: impl Fn(Class) -> bool) -> Result<(), FileError> {
        let of_class = self.taken.iter().filter(|taken| which(taken.1));
        let pages = of_class.map(|taken| self.whole(taken.0, &taken.3)).collect();
        self.write_all(pages).await
    }

    pub(crate) async fn write_bitmaps(&mut self) -> Result<(), FileError> {
        let mut pages: Vec<(u64, Bytes)> = self.bitmaps.iter().map(|(block, page)| self.whole(*block, page)).collect();
        pages.sort_by_key(|(sector, _)| *sector);
        self.write_all(pages).await
    }

    /// Returns a block with its first sector.
    fn whole(&self, block: u32, page: &Page) -> (u64, Bytes) {
        (self.file_system.sector(block), Bytes::new(page.clone(), 0, self.file_system.geometry.block_bytes))
    }

    /// Writes data to sectors, neighbours of one payer together.
    async fn write_all(&mut self, parts: Vec<(u64, Bytes)>) -> Result<(), FileError> {
        let file_system = self.file_system;
        self.unflushed |= !parts.is_empty();
        let mut runs = Runs::merged();
        parts.into_iter().for_each(|(sector, view)| runs.add_any(sector, view, file_system.payer_at(sector)));
        let send = |run: &Run| in_name_of(run.payer, || file_system.disk.write(run.sector, run.views.clone()));
        let calls: Vec<_> = runs.0.into_iter().map(|run| (send(&run), run)).collect();
        for (call, run) in calls {
            if call.await.is_err() {
                send(&run).await.map_err(|error| file_system.failed(error))?;
            }
        }
        Ok(())
    }

    /// Writes directories: a sector only after those that must be on the disk before it.
    pub(crate) async fn write_names(&mut self) -> Result<(), FileError> {
        let ordered: BTreeSet<u64> = self.order.iter().flat_map(|(first, second)| [*first, *second]).collect();
        let names = self.taken.iter().filter(|taken| taken.1 == Class::Directories);
        let mut left: BTreeMap<u64, Bytes> = names.flat_map(|taken| self.parts(taken.0, &taken.3, &ordered)).collect();
        while !left.is_empty() {
            self.flush().await?;
            let holds = |(first, second): &&(u64, u64)| first != second && left.contains_key(first);
            let waiting: BTreeSet<u64> = self.order.iter().filter(holds).map(|(_, second)| *second).collect();
            let mut ready: Vec<u64> = left.keys().filter(|sector| !waiting.contains(sector)).copied().collect();
            if ready.is_empty() {
                // No cycle can arise (see `move_name`); if one did, writing is better than waiting for ever.
                ready = left.keys().copied().collect();
            }
            let parts =
                ready.into_iter().filter_map(|sector| left.remove(&sector).map(|view| (sector, view))).collect();
            self.write_all(parts).await?;
        }
        Ok(())
    }

    /// Returns a block of names, sector by sector if one of them has an order.
    #[expect(clippy::arithmetic_side_effects, reason = "sectors of a block of a geometry that was checked at mount")]
    fn parts(&self, block: u32, page: &Page, ordered: &BTreeSet<u64>) -> Vec<(u64, Bytes)> {
        let (first, count) = (self.file_system.sector(block), self.file_system.geometry.sectors_per_block());
        if ordered.range(first..first + count).next().is_none() {
            return Vec::from([self.whole(block, page)]);
        }
        let sector = |number: u64| Bytes::new(page.clone(), number as usize * SECTOR_BYTES, SECTOR_BYTES);
        (0..count).map(|number| (first + number, sector(number))).collect()
    }
}
