//! /proc/PID/maps (proc(5)): a line for each mapping. A program may have tens of thousands of them.

use super::window::Window;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_address_space::region::Region;
use gyre_address_space::{AddressSpace, Options, Provider, Rights};

/// Mappings that are copied under one lock.
const MAPPINGS_AT_ONCE: usize = 64;

/// The mappings of a space in order, some at a time; those that come and go meanwhile are seen or not.
pub(super) struct Mappings<'a> {
    space: &'a AddressSpace,
    at: u64,
    some: VecDeque<(u64, Region)>,
}

impl<'a> Mappings<'a> {
    pub(super) fn of(space: &'a AddressSpace) -> Mappings<'a> {
        Mappings { space, at: 0, some: VecDeque::new() }
    }
}

impl Iterator for Mappings<'_> {
    type Item = (u64, Region);

    fn next(&mut self) -> Option<(u64, Region)> {
        if self.some.is_empty() {
            self.some = self.space.regions_from(self.at, MAPPINGS_AT_ONCE).into();
        }
        let next = self.some.pop_front()?;
        self.at = next.1.end;
        Some(next)
    }
}

/// Returns at most `bytes` of the text from `offset` on.
pub(super) async fn part(space: &AddressSpace, offset: u64, bytes: usize) -> Vec<u8> {
    let mut window = Window::new(offset, bytes);
    for (start, region) in Mappings::of(space) {
        if window.is_full() {
            break;
        }
        window.push(line(start, &region).as_bytes()).await;
    }
    window.into_text()
}

/// Returns the line of a mapping.
pub(super) fn line(start: u64, region: &Region) -> String {
    let has = |right, letter| if region.rights.contains(right) { letter } else { '-' };
    let shared =
        if region.options.contains(Options::SHARED) && !region.options.contains(Options::VDSO) { 's' } else { 'p' };
    let (path, node) = match &region.provider {
        Provider::File(file) => (String::from_utf8_lossy(file.path()).into_owned(), file.node().0),
        _ if region.options.contains(Options::HEAP) => ("[heap]".into(), 0),
        _ if region.options.contains(Options::STACK) => ("[stack]".into(), 0),
        _ if region.options.contains(Options::VDSO) => ("[vdso]".into(), 0),
        _ => (String::new(), 0),
    };
    let mut line = format!(
        "{start:08x}-{:08x} {}{}{}{shared} {:08x} 00:{:02x} {node} ",
        region.end,
        has(Rights::READ, 'r'),
        has(Rights::WRITE, 'w'),
        has(Rights::EXECUTE, 'x'),
        region.first_index.offset_bytes(),
        u8::from(node != 0),
    );
    if !path.is_empty() {
        let pad = 73usize.saturating_sub(line.len());
        line.push_str(&format!("{:pad$}{path}", ""));
    }
    line.push('\n');
    line
}
