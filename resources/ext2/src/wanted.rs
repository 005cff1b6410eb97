//! The wish of a reader: the pages that it needs, and those that may come with them.
//!
//! Pages beside a needed one are a guess. So they come only as far as no known page lies between, which is mostly one
//! request, and they take no room that their payer has not to spare
//! ([`begin_beside`](gyre_file_cache::FileCache::begin_beside)). Whether a program gains by them its memory knows, which
//! wishes for them or not (`gyre_address_space`, `misses`).

use crate::Ext2;
use crate::node::Node;
use crate::read::{AHEAD_PAGES, Cluster, pages};
use gyre_file_cache::Fetch;
use gyre_interface::files::Pattern;

/// The wish of a reader for a page and others.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Pages that it needs, from that one on.
    pub(crate) pages: u64,
    /// True if read-ahead is allowed, for a sequential reader.
    pub(crate) may_guess: bool,
    /// Pages that may come with it.
    pub(crate) beside: Beside,
}

/// Pages of a file that may come with one that is needed, which lies among them.
#[derive(Clone, Copy)]
pub(crate) struct Beside {
    first: u64,
    end: u64,
}

impl Beside {
    /// No page.
    pub(crate) const NONE: Beside = Beside { first: 0, end: 0 };

    /// Returns so many pages from one on, as far as they lie near `index`: not more than [`AHEAD_PAGES`], whatever is
    /// said.
    fn of(first: u64, pages: u8, index: u64) -> Beside {
        let first = first.clamp(index.saturating_sub(AHEAD_PAGES.saturating_sub(1)), index);
        Beside { first, end: first.saturating_add(u64::from(pages).min(AHEAD_PAGES)) }
    }
}

impl Wanted {
    /// The wish for a page alone.
    pub(crate) const ONE: Wanted = Wanted { pages: 1, may_guess: false, beside: Beside::NONE };

    /// Returns the wish of a program that touches a page of a mapping through which it goes in that way.
    pub(crate) fn of_mapping(index: u64, pattern: Pattern) -> Wanted {
        let usual = Wanted { may_guess: true, ..Wanted::ONE };
        match pattern {
            Pattern::Usual => usual,
            Pattern::Random => Wanted::ONE,
            Pattern::Sequential => Wanted { pages: AHEAD_PAGES, ..usual },
            Pattern::Around { first, pages } => Wanted { beside: Beside::of(first, pages, index), ..usual },
        }
    }

    /// Returns whether there are pages that may come with the needed one.
    pub(crate) fn has_beside(&self) -> bool {
        self.beside.first < self.beside.end
    }
}

impl Ext2 {
    /// Returns the needed page with the absent ones beside it, in order, as far as there is room for them.
    pub(crate) fn with_beside(&'static self, node: &Node, needed: Fetch, beside: Beside) -> Cluster {
        let index = needed.key().index;
        let absent = |at| self.cache.begin_beside(self.page_key(node.id, at));
        let mut cluster = Cluster::with_capacity(beside.end.saturating_sub(beside.first) as usize);
        cluster.extend((beside.first..index).rev().map_while(absent));
        cluster.reverse();
        cluster.push(needed);
        let end = beside.end.min(pages(node.size()));
        cluster.extend((index.saturating_add(1)..end).map_while(absent));
        cluster
    }
}
