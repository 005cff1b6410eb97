//! A queue threaded through a slab: entries leave from anywhere in constant time.

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Links of an entry.
#[derive(Clone, Copy)]
pub(crate) struct Links {
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl Links {
    /// The links of an entry in no queue.
    pub(crate) const NONE: Links = Links { previous: NONE, next: NONE };
}

/// Both ends of a queue.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) count: usize,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { first: NONE, last: NONE, count: 0 }
    }
}

impl Queue {
    /// Adds `index` at the end; `links` gives the links of an entry.
    pub(crate) fn push_back<'a>(&mut self, index: u32, mut links: impl FnMut(u32, &mut dyn FnMut(&mut Links)) + 'a) {
        let last = self.last;
        links(index, &mut |own| *own = Links { previous: last, next: NONE });
        if last == NONE {
            self.first = index;
        } else {
            links(last, &mut |before| before.next = index);
        }
        self.last = index;
        self.count = self.count.saturating_add(1);
    }

    /// Takes `index` out, wherever it is.
    pub(crate) fn remove<'a>(&mut self, index: u32, mut links: impl FnMut(u32, &mut dyn FnMut(&mut Links)) + 'a) {
        let mut own = Links::NONE;
        links(index, &mut |of| own = *of);
        if own.previous == NONE {
            self.first = own.next;
        } else {
            links(own.previous, &mut |before| before.next = own.next);
        }
        if own.next == NONE {
            self.last = own.previous;
        } else {
            links(own.next, &mut |after| after.previous = own.previous);
        }
        self.count = self.count.saturating_sub(1);
    }
}
