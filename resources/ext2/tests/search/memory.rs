//! Requests for pages in memory, by messages and by looks.

use super::caller::{Caller, PAGES_MAX};
use super::numbers::{count, number};
use super::request::Request;
use gyre_interface::around::Around;
use gyre_interface::files::files::Server as _;
use gyre_interface::files::*;
use gyre_interface::near::NEAR_PAGES_MAX;
use gyre_machine::PAGE_BYTES;
use gyre_message::sleep_ns;
use gyre_object::Page;

/// Changes become old enough to be written in 50 of these.
const AGE_STEP_NS: u64 = 100_000_000;

impl Caller {
    pub async fn ask_of_memory(&self, request: Request) {
        let (fs, node, at) = (self.fs, self.node(request.node), number(request.at));
        // As large as offsets and indices of pages are.
        let index = if request.extra & 1 == 0 { at / PAGE_BYTES as u64 } else { at };
        match request.call {
            0..2 => self.map(node, index, request).await,
            2 => self.map_around(node, index, request),
            3 => self.write_mapped(request).await,
            4 => self.lend(node, at, request),
            5 => drop(self.noted(fs.cached(node, index, number(request.bytes) as usize).await)),
            6 => drop(self.noted(fs.evict(node, at, number(request.bytes)).await)),
            7 => drop(self.noted(fs.evict_pages(node, vec![index, 0, u64::from(request.extra)]).await)),
            8..11 => self.begin_a_transfer(node, at, request).await,
            11..13 => self.overwrite(node, at, request),
            13 => sleep_ns(u64::from(request.extra) * AGE_STEP_NS).await,
            14 => drop(self.noted(fs.sync_all().await)),
            _ => drop(self.noted(fs.sync(node).await)),
        }
    }

    async fn map(&self, node: NodeId, index: u64, request: Request) {
        let pattern = match request.extra / 2 % 4 {
            0 => Pattern::Usual,
            1 => Pattern::Random,
            2 => Pattern::Sequential,
            _ => Pattern::Around { first: number(request.bytes), pages: request.name },
        };
        let page = self.fs.page(node, index, pattern).await;
        if let Some(page) = self.noted(page) {
            self.keep_mapped(node, index, page);
        }
    }

    fn map_around(&self, node: NodeId, index: u64, request: Request) {
        let beside = u16::from(request.name) << 8 | u16::from(request.other_name);
        let mut around = Around::new(index, beside);
        if request.extra & 2 == 0 {
            around = around.needing(request.extra / 4 % 20);
        }
        self.near.to_map(node, &mut around);
        for (place, page) in around.pages().iter_mut().enumerate() {
            if let Some(page) = page.take() {
                self.keep_mapped(node, index.saturating_add(place as u64), page);
            }
        }
    }

    fn keep_mapped(&self, node: NodeId, index: u64, page: Page) {
        let mapped = &mut self.state.borrow_mut().mapped;
        if mapped.len() < PAGES_MAX {
            mapped.push((node, index, page));
        }
    }

    /// Writes to a page that it has mapped, and tells that; or gives it back.
    async fn write_mapped(&self, request: Request) {
        let taken = {
            let mapped = &mut self.state.borrow_mut().mapped;
            if mapped.is_empty() { None } else { Some(mapped.swap_remove(usize::from(request.node) % mapped.len())) }
        };
        let Some((node, index, page)) = taken else { return };
        if request.extra & 2 == 0 {
            // As with a page that a program may write: it tells first.
            let told = self.fs.page_dirtied(node, index).await;
            if self.noted(told).is_some() {
                page.write(usize::from(request.extra), &[request.extra; 100]);
            }
            self.keep_mapped(node, index, page);
        }
    }

    fn lend(&self, node: NodeId, at: u64, request: Request) {
        let mut pages = [const { None }; NEAR_PAGES_MAX];
        let bytes = count(request.bytes);
        let Some(answer) = self.near.lend(node, at, bytes, &mut pages) else { return };
        self.noted(answer);
        let lent = &mut self.state.borrow_mut().lent;
        for page in pages.into_iter().flatten().take(PAGES_MAX.saturating_sub(lent.len())) {
            let contents = page.as_slice().to_vec();
            lent.push((page, contents));
        }
    }

    async fn begin_a_transfer(&self, node: NodeId, at: u64, request: Request) {
        let begun = match request.call {
            8 => self.near.fetch(node, at, count(request.bytes), request.extra & 1 == 0),
            9 => self.near.read_direct(node, at, &request.views()),
            _ => self.near.write_direct(node, at, &request.views()),
        };
        if let Some(begun) = begun {
            self.noted(begun.done().await);
        }
    }

    /// Overwrites by a look, of which some cannot be carried out to their ends.
    fn overwrite(&self, node: NodeId, at: u64, request: Request) {
        let bytes = count(request.bytes);
        let mut fill = |pages: &[Option<Page>], start: usize, count: usize| {
            let first = pages.first().and_then(Option::as_ref).expect("the first page is there");
            first.write(start, &vec![request.extra; count]);
            count <= PAGE_BYTES - start
        };
        self.near.overwrite(node, at, bytes, &mut fill);
    }
}
