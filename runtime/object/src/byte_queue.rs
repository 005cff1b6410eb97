//! Bytes on their way from one program to another: pipes, local and native streams, terminals.
//!
//! Small writes are gathered in a page of the queue's own, whole pages travel by reference. The last own page is kept when
//! the queue runs empty, so that a ping-pong of small messages takes no memory.

use crate::{Bytes, Page};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use gyre_machine::{OutOfMemory, PAGE_BYTES};

struct Segment {
    page: Page,
    start: usize,
    end: usize,
    /// True if the page is the queue's own, so that more may be written behind `end`.
    own: bool,
}

/// A queue of bytes. Its bound is the owner's matter.
#[derive(Default)]
pub struct ByteQueue {
    segments: VecDeque<Segment>,
    bytes: usize,
}

impl ByteQueue {
    /// Returns the bytes that are queued.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies `data` to the end.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then nothing was added.
    pub fn push_slice(&mut self, data: &[u8]) -> Result<(), OutOfMemory> {
        let room = match self.segments.back() {
            Some(last) if last.own => PAGE_BYTES - last.end,
            _ => 0,
        };
        let (head, tail) = data.split_at(room.min(data.len()));
        let mut fresh = Vec::new();
        for part in tail.chunks(PAGE_BYTES) {
            let page = Page::fixed()?;
            page.write(0, part);
            fresh.push(Segment { page, start: 0, end: part.len(), own: true });
        }
        if let Some(last) = self.segments.back_mut().filter(|_| !head.is_empty()) {
            last.page.write(last.end, head);
            last.end += head.len();
        }
        self.segments.extend(fresh);
        self.bytes += data.len();
        Ok(())
    }

    /// Adds a view to the end by reference.
    pub fn push_bytes(&mut self, data: &Bytes) {
        let (page, start) = data.location();
        self.bytes += data.len();
        self.segments.push_back(Segment { page: page.clone(), start, end: start + data.len(), own: false });
    }

    /// Puts views that were taken back before what is queued, in their order.
    pub fn put_back(&mut self, views: Vec<Bytes>) {
        for view in views.into_iter().rev() {
            let (page, start) = view.location();
            self.bytes += view.len();
            self.segments.push_front(Segment { page: page.clone(), start, end: start + view.len(), own: false });
        }
    }

    /// Adds a view to the end: copied behind the contents of the last own page if it fits there, else by reference.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then nothing was added.
    pub fn push_gathered(&mut self, data: &Bytes) -> Result<(), OutOfMemory> {
        if data.len() <= PAGE_BYTES / 2 {
            return self.push_slice(data.as_slice());
        }
        self.push_bytes(data);
        Ok(())
    }

    /// Takes up to `into.len()` bytes by copying.
    pub fn read_into(&mut self, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let Some(segment) = self.segments.front_mut() else {
                break;
            };
            let count = (segment.end - segment.start).min(into.len() - done);
            let Some(part) = into.get_mut(done..done + count) else {
                break;
            };
            segment.page.read(segment.start, part);
            segment.start += count;
            done += count;
            if !self.drop_empty_front() {
                break;
            }
        }
        self.bytes -= done;
        done
    }

    /// Takes up to `bytes_max` bytes by reference.
    pub fn take(&mut self, bytes_max: usize) -> Vec<Bytes> {
        let mut views = Vec::new();
        let mut left = bytes_max.min(self.bytes);
        while left > 0 {
            let Some(segment) = self.segments.front_mut() else {
                break;
            };
            let count = (segment.end - segment.start).min(left);
            views.push(Bytes::new(segment.page.clone(), segment.start, count));
            segment.start += count;
            left -= count;
            self.bytes -= count;
            if !self.drop_empty_front() {
                break;
            }
        }
        views
    }

    /// Views of up to `bytes_max` bytes, which stay queued.
    pub fn peek(&self, bytes_max: usize) -> Vec<Bytes> {
        let mut left = bytes_max;
        let mut views = Vec::new();
        for segment in &self.segments {
            let count = (segment.end - segment.start).min(left);
            if count == 0 {
                break;
            }
            views.push(Bytes::new(segment.page.clone(), segment.start, count));
            left -= count;
        }
        views
    }

    /// Forgets a front segment that is used up, or recycles it if it is the last and the queue's own.
    /// False if nothing is left to read.
    fn drop_empty_front(&mut self) -> bool {
        let is_last = self.segments.len() == 1;
        let Some(front) = self.segments.front_mut() else {
            return false;
        };
        if front.start < front.end {
            return true;
        }
        if is_last && front.own && !front.page.is_shared() {
            front.start = 0;
            front.end = 0;
            return false;
        }
        self.segments.pop_front();
        !is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn bytes_come_out_in_the_order_in_which_they_went_in() {
        let mut queue = ByteQueue::default();
        let mut sent = vec![];
        let mut received = vec![];
        for round in 0..200usize {
            let data: Vec<u8> = (0..round * 37 % 9000).map(|i| (i + round) as u8).collect();
            if round % 3 == 0 {
                queue.push_bytes(&Bytes::copy_from(&data).unwrap());
            } else {
                queue.push_slice(&data).unwrap();
            }
            sent.extend_from_slice(&data);
            if round % 2 == 0 {
                let mut into = vec![0; round * 53 % 7000];
                let count = queue.read_into(&mut into);
                received.extend_from_slice(&into[..count]);
            } else {
                for piece in queue.take(round * 29 % 5000) {
                    received.extend_from_slice(piece.as_slice());
                }
            }
            assert_eq!(queue.len(), sent.len() - received.len());
        }
        for piece in queue.peek(usize::MAX) {
            received.extend_from_slice(piece.as_slice());
        }
        assert_eq!(sent, received);
    }

    #[test]
    fn a_ping_pong_of_small_messages_keeps_one_page() {
        let mut queue = ByteQueue::default();
        for _ in 0..10_000 {
            queue.push_slice(b"x").unwrap();
            let mut byte = [0];
            assert_eq!(queue.read_into(&mut byte), 1);
        }
        assert_eq!(queue.segments.len(), 1);
    }

    #[test]
    fn what_is_put_back_comes_out_first() {
        let mut queue = ByteQueue::default();
        queue.push_slice(b"one two").unwrap();
        let taken = queue.take(4);
        queue.push_slice(b" three").unwrap();
        queue.put_back(taken);
        let all: Vec<u8> = queue.take(100).iter().flat_map(|view| view.as_slice().to_vec()).collect();
        assert_eq!((all.as_slice(), queue.len()), (&b"one two three"[..], 0));
    }

    #[test]
    fn small_writes_are_gathered_in_a_page() {
        let mut queue = ByteQueue::default();
        for _ in 0..100 {
            queue.push_gathered(&Bytes::copy_from(&[7; 40]).unwrap()).unwrap();
        }
        assert_eq!((queue.segments.len(), queue.len()), (1, 4000));
        queue.push_gathered(&Bytes::copy_from(&[7; 4000]).unwrap()).unwrap();
        assert_eq!(queue.segments.len(), 2, "a large one goes by reference");
    }

    #[test]
    fn a_piece_handed_out_is_not_overwritten_by_later_writes() {
        let mut queue = ByteQueue::default();
        queue.push_slice(b"first").unwrap();
        let held = queue.take(5);
        queue.push_slice(b"other").unwrap();
        assert_eq!(held[0].as_slice(), b"first");
    }
}
