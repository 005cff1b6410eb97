//! /proc/PID/smaps (proc(5)): the memory of each mapping.
//!
//! A program may have tens of thousands of mappings, and reads in small pieces: each mapping's part has a length that is known without a look at
//! its pages, so that only the parts that are read are made.

use super::maps::{self, Mappings};
use super::rollup::lines;
use super::window::Window;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::{AddressSpace, Options, Usage};

/// Bytes of a line of figures.
const LINE_BYTES: usize = 16 + 8 + 4;
/// Lines before those of the pages: the size and the sizes of pages.
const SIZES: usize = 3;

/// Returns at most `bytes` of the text from `offset` on.
pub(super) async fn part(space: Arc<AddressSpace>, offset: u64, bytes: usize) -> Vec<u8> {
    let figures = (lines(&Usage::default(), 0).len().saturating_add(SIZES)).saturating_mul(LINE_BYTES);
    let mut window = Window::new(offset, bytes);
    for (start, region) in Mappings::of(&space) {
        if window.is_full() {
            break;
        }
        let head = maps::line(start, &region);
        if window.is_before(head.len().saturating_add(figures)) {
            window.skip(head.len().saturating_add(figures)).await;
            continue;
        }
        let size = region.end.saturating_sub(start);
        let locked = if region.options.contains(Options::LOCKED) { size } else { 0 };
        let usage = space.usage_within(start, region.end).await;
        let mut entry = head.into_bytes();
        let sizes = [("Size", size), ("KernelPageSize", 4096), ("MMUPageSize", 4096)];
        for (name, bytes) in sizes.into_iter().chain(lines(&usage, locked)) {
            entry.extend_from_slice(line(name, bytes).as_bytes());
        }
        window.push(&entry).await;
    }
    window.into_text()
}

/// A line of [`LINE_BYTES`].
fn line(name: &str, bytes: u64) -> alloc::string::String {
    format!("{:<16}{:8} kB\n", format!("{name}:"), (bytes / 1024).min(99_999_999))
}
