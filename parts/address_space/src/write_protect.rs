//! Pages of files that are about to be written back: programs lose the right to write them, and tell their file before they write again.
//!
//! A write that was told and not yet allowed must not be allowed after this: its page may be clean by then ([`crate::telling`]).

use crate::AddressSpace;
use crate::region::{PAGE, Provider, Region};
use crate::space::{State, Withdrawn};
use alloc::vec::Vec;
use gyre_interface::files::NodeId;
use gyre_machine::{MapFlags, Va};

impl AddressSpace {
    /// Takes the right to write these pages of a file, given in order, from the program; returns once no core can write them. `server` names
    /// the file's server, as its clients do.
    pub async fn write_protect(&self, server: usize, node: NodeId, pages: &[u64]) {
        let mut withdrawn = Withdrawn::default();
        self.state.lock().write_protect((server, node), pages, &mut withdrawn);
        self.flush_and_free(withdrawn).await;
    }
}

impl State {
    fn write_protect(&mut self, file: (usize, NodeId), pages: &[u64], withdrawn: &mut Withdrawn) {
        self.tellings.recall(0..u64::MAX);
        let regions = self.regions.iter().filter(|(_, region)| may_write(region, file));
        let shown: Vec<u64> = regions.flat_map(|(start, region)| addresses(start, region, pages)).collect();
        for address in shown {
            let flags = self.table.query(Va(address)).map_or(MapFlags::empty(), |mapping| mapping.flags);
            if flags.contains(MapFlags::WRITE) {
                self.table.protect(Va(address), flags.difference(MapFlags::WRITE));
                withdrawn.stale.push(address);
            }
        }
    }
}

/// Returns whether a region shows a file to a program that may write it.
fn may_write(region: &Region, (server, node): (usize, NodeId)) -> bool {
    match &region.provider {
        Provider::File(file) => region.is_shared() && file.node == node && file.client.server() == server,
        Provider::Anonymous | Provider::Memory(_) => false,
    }
}

/// Returns where a region shows these pages, which are in order.
fn addresses(start: u64, region: &Region, pages: &[u64]) -> impl Iterator<Item = u64> {
    let first = region.first_index.get();
    let count = region.end.saturating_sub(start) / PAGE;
    let from = pages.partition_point(|page| *page < first);
    let shown = pages.get(from..).unwrap_or_default().iter().map(move |page| page.saturating_sub(first));
    shown.take_while(move |page| *page < count).map(move |page| start.saturating_add(page.saturating_mul(PAGE)))
}
