//! Bytes of a stream held by reference, in order: data that waits to be sent or read.
//!
//! Small pieces would pin a page each, so they are copied behind one another into a page of the queue's own; larger
//! ones stay as they are. Bytes of views that were given away are never written again, only bytes behind them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use gyre_object::{Bytes, Page};

/// Pieces up to this length are copied.
pub const COPY_BYTES_MAX: usize = 256;

/// A page that small pieces are copied into.
struct Tail {
    page: Page,
    used: usize,
}

/// A queue of bytes.
#[derive(Default)]
pub struct Store {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    tail: Option<Tail>,
    copied_bytes: u64,
    /// The end of the last look: index of a piece and offset of its first byte in the store. Sending moves forward,
    /// so it starts there.
    cursor: (usize, usize),
}

impl Store {
    /// Returns the bytes held.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the bytes copied since the last call, for the record.
    pub fn take_copied_bytes(&mut self) -> u64 {
        core::mem::take(&mut self.copied_bytes)
    }

    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.bytes = self.bytes.saturating_add(piece.len());
        if piece.len() > COPY_BYTES_MAX || !self.copy_in(&piece) {
            self.pieces.push_back(piece);
        }
    }

    /// Copies a small piece behind the last one; false if there is no memory (then the reference is kept).
    fn copy_in(&mut self, piece: &Bytes) -> bool {
        let room = self.tail.as_ref().is_some_and(|tail| piece.len() <= tail.page.len().saturating_sub(tail.used));
        if !room {
            let Ok(page) = Page::fixed() else {
                return false;
            };
            self.tail = Some(Tail { page, used: 0 });
        }
        let Some(tail) = &mut self.tail else {
            return false;
        };
        let start = tail.used;
        tail.page.write(start, piece.as_slice());
        tail.used = tail.used.saturating_add(piece.len());
        self.copied_bytes = self.copied_bytes.saturating_add(piece.len() as u64);
        let extended = self.pieces.back_mut().is_some_and(|last| {
            let (page, from) = last.location();
            let behind = page.same(&tail.page) && from.checked_add(last.len()) == Some(start);
            if behind {
                *last = Bytes::new(tail.page.clone(), from, last.len().saturating_add(piece.len()));
            }
            behind
        });
        if !extended {
            self.pieces.push_back(Bytes::new(tail.page.clone(), start, piece.len()));
        }
        true
    }

    /// Drops up to `bytes` from the front.
    pub fn advance(&mut self, bytes: usize) {
        let mut left = bytes.min(self.bytes);
        self.bytes = self.bytes.saturating_sub(left);
        self.cursor = (0, 0);
        while left > 0 {
            let Some(first) = self.pieces.front_mut() else {
                return;
            };
            if first.len() > left {
                *first = first.slice(left, first.len());
                return;
            }
            left = left.saturating_sub(first.len());
            self.pieces.pop_front();
        }
    }

    /// Takes up to `bytes_max` from the front.
    pub fn take(&mut self, bytes_max: usize) -> Vec<Bytes> {
        let taken = self.view(0, bytes_max);
        self.advance(bytes_max);
        taken
    }

    /// References to up to `bytes` from `offset` on.
    pub fn view(&mut self, offset: usize, bytes: usize) -> Vec<Bytes> {
        let end = offset.saturating_add(bytes).min(self.bytes);
        let (mut index, mut start) = self.cursor;
        if start > offset {
            (index, start) = (0, 0);
        }
        let mut views = Vec::new();
        while let Some(piece) = self.pieces.get(index) {
            if start >= end {
                break;
            }
            let behind = start.saturating_add(piece.len());
            if behind > offset {
                self.cursor = (index, start);
                views.push(piece.slice(offset.saturating_sub(start), end.saturating_sub(start)));
            }
            start = behind;
            index = index.saturating_add(1);
        }
        views
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
        self.cursor = (0, 0);
        self.tail = None;
    }

    /// Pieces held, for limits.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(Vec<u8>),
        Take(usize),
        View(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..600).prop_map(Step::Push),
            (0usize..900).prop_map(Step::Take),
            (0usize..2000, 0usize..900).prop_map(|(from, len)| Step::View(from, len)),
        ]
    }

    fn flat(pieces: &[Bytes]) -> Vec<u8> {
        pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect()
    }

    proptest! {
        #[test]
        fn it_holds_what_was_put_in(steps in proptest::collection::vec(step(), 0..60)) {
            let (mut store, mut model) = (Store::default(), Vec::<u8>::new());
            for step in steps {
                match step {
                    Step::Push(data) => {
                        store.push(Bytes::copy_from(&data).unwrap());
                        model.extend(data);
                    }
                    Step::Take(count) => {
                        let count = count.min(model.len());
                        let expected: Vec<u8> = model.drain(..count).collect();
                        prop_assert_eq!(flat(&store.take(count)), expected);
                    }
                    Step::View(from, len) => {
                        let end = (from + len).min(model.len());
                        let expected = model.get(from.min(end)..end).unwrap().to_vec();
                        prop_assert_eq!(flat(&store.view(from, len)), expected);
                    }
                }
                prop_assert_eq!(store.len(), model.len());
            }
        }
    }

    #[test]
    fn many_small_pieces_share_pages() {
        let mut store = Store::default();
        (0..1000).for_each(|_| store.push(Bytes::copy_from(&[7; 40]).unwrap()));
        assert!(store.pieces() <= 10, "{} pieces for 40,000 bytes", store.pieces());
    }
}
