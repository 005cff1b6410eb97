//! A file that a program writes through its mapping (experiments/crash/map_writer.c), after a crash: each page has the round that was promised
//! last for it, or a later one.

use std::{collections::BTreeMap, path::Path};

use super::check::Promised;

// These are those of the program.
const PAGE_BYTES: usize = 4096;
const PAGES: u64 = 1024;
const PAGES_AT_ONCE: u64 = 24;
const ROUND_STEP: u64 = 37;
const PAGE_STEP: u64 = 41;

/// Returns the pages that a round writes.
fn pages_of(round: u64) -> impl Iterator<Item = u64> {
    (0..PAGES_AT_ONCE).map(move |each| (round.wrapping_mul(ROUND_STEP).wrapping_add(each * PAGE_STEP)) % PAGES)
}

/// Returns the last round up to this one for each page that any of them writes.
fn last_rounds(rounds: u64) -> BTreeMap<u64, u64> {
    // All pages are written again and again: older rounds than these say nothing.
    let first = rounds.saturating_sub(PAGES).max(1);
    (first..=rounds).flat_map(|round| pages_of(round).map(move |page| (page, round))).collect()
}

/// Looks at the file in a folder.
pub fn check(data: &Path, promised: &Promised, lost: &mut Vec<String>) {
    let file = std::fs::read(data.join("mapped")).unwrap_or_default();
    for (page, round) in last_rounds(promised.rounds) {
        let found = marks(&file, page);
        if found.is_none_or(|marks| !marks.iter().all(|mark| *mark >= round && pages_of(*mark).any(|of| of == page))) {
            lost.push(format!("page {page} of the mapped file was of round {round} or later, and holds {found:?}"));
            return;
        }
    }
}

/// Returns the rounds at a page's beginning and end.
fn marks(file: &[u8], page: u64) -> Option<[u64; 2]> {
    let page = file.chunks_exact(PAGE_BYTES).nth(usize::try_from(page).ok()?)?;
    let (begin, end) = (page.first_chunk()?, page.last_chunk()?);
    Some([u64::from_le_bytes(*begin), u64::from_le_bytes(*end)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the file after so many rounds.
    fn file(rounds: u64) -> Vec<u8> {
        let mut file = vec![0; PAGES as usize * PAGE_BYTES];
        for (page, round) in last_rounds(rounds) {
            let page = &mut file[page as usize * PAGE_BYTES..][..PAGE_BYTES];
            page[..8].copy_from_slice(&round.to_le_bytes());
            page[PAGE_BYTES - 8..].copy_from_slice(&round.to_le_bytes());
        }
        file
    }

    fn losses(file: &[u8], rounds: u64) -> usize {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mapped"), file).unwrap();
        let mut lost = Vec::new();
        check(folder.path(), &Promised { rounds, ..Promised::default() }, &mut lost);
        lost.len()
    }

    #[test]
    fn a_page_is_of_the_last_promised_round_or_a_later_one() {
        assert_eq!([losses(&file(3000), 3000), losses(&file(3000), 2990), losses(&file(5), 5), losses(&[], 0)], [0; 4]);
        assert_eq!([losses(&file(2999), 3000), losses(&file(0), 1), losses(&[], 1)], [1; 3]);
        let mut torn = file(3000);
        let page = pages_of(3000).next().unwrap() as usize;
        torn[(page + 1) * PAGE_BYTES - 8..][..8].fill(0);
        assert_eq!(losses(&torn, 3000), 1, "its end is older");
        torn[(page + 1) * PAGE_BYTES - 8..][..8].copy_from_slice(&3001_u64.to_le_bytes());
        assert_eq!(losses(&torn, 3000), usize::from(!pages_of(3001).any(|of| of == page as u64)), "another page's");
    }
}
