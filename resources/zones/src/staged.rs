//! The boot module of a zone that comes, handed over in pieces before the change that names it.
//!
//! There is one at a time, so that what callers leave behind is bounded: who begins another one takes its place. Its number tells a caller that
//! this has happened. The memory is that of whoever sends the first piece.

use alloc::vec::Vec;
use gyre_contract::zones::MODULE_BYTES_MAX;
use gyre_interface::zones::ZonesError;

/// A piece of a module.
pub(crate) struct Piece {
    /// The number that its sender chose.
    pub(crate) module: u64,
    /// Bytes of the whole module.
    pub(crate) whole: u64,
    /// The place of the piece in it.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A module, as much of it as has come.
pub(crate) struct Staged {
    module: u64,
    whole: usize,
    bytes: Vec<u8>,
}

impl Staged {
    /// Adds a piece, or begins a module with it. Answers the bytes that there are.
    ///
    /// # Errors
    /// [`ZonesError::Unknown`] if the piece does not follow what there is, [`ZonesError::Gone`] without memory for a module of this length.
    pub(crate) fn add(place: &mut Option<Staged>, piece: Piece) -> Result<u64, ZonesError> {
        if piece.offset == 0 {
            *place = None;
            *place = Some(Staged::begin(&piece)?);
        }
        let staged = place.as_mut().filter(|staged| staged.follows(&piece)).ok_or(ZonesError::Unknown)?;
        staged.bytes.extend_from_slice(&piece.bytes);
        Ok(staged.bytes.len() as u64)
    }

    fn begin(piece: &Piece) -> Result<Staged, ZonesError> {
        let fitting = (1..=MODULE_BYTES_MAX).contains(&piece.whole);
        let whole = usize::try_from(piece.whole).ok().filter(|_| fitting).ok_or(ZonesError::Unknown)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(whole).map_err(|_| ZonesError::Gone)?;
        Ok(Staged { module: piece.module, whole, bytes })
    }

    fn follows(&self, piece: &Piece) -> bool {
        let there = self.bytes.len();
        let is_next = usize::try_from(piece.offset) == Ok(there) && usize::try_from(piece.whole) == Ok(self.whole);
        self.module == piece.module && is_next && piece.bytes.len() <= self.whole.saturating_sub(there)
    }

    /// Takes the module of this number if it is whole; an unfinished one stays.
    pub(crate) fn take(place: &mut Option<Staged>, module: u64) -> Option<Vec<u8>> {
        let is_it = |staged: &mut Staged| staged.module == module && staged.bytes.len() == staged.whole;
        place.take_if(is_it).map(|staged| staged.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn piece(module: u64, whole: u64, offset: u64, bytes: &[u8]) -> Piece {
        Piece { module, whole, offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn pieces_become_a_module_that_is_taken_once() {
        let mut place = None;
        assert_eq!(Staged::add(&mut place, piece(7, 5, 0, b"abc")), Ok(3));
        assert_eq!(Staged::take(&mut place, 7), None, "it is not whole");
        assert_eq!(Staged::add(&mut place, piece(7, 5, 3, b"de")), Ok(5));
        assert_eq!(Staged::take(&mut place, 8), None);
        assert_eq!(Staged::take(&mut place, 7), Some(b"abcde".to_vec()));
        assert_eq!(Staged::take(&mut place, 7), None);
    }

    #[test]
    fn what_does_not_follow_is_refused_and_leaves_what_there_is() {
        let mut place = None;
        assert_eq!(Staged::add(&mut place, piece(7, 5, 3, b"de")), Err(ZonesError::Unknown), "none was begun");
        Staged::add(&mut place, piece(7, 5, 0, b"abc")).unwrap();
        for wrong in [
            piece(8, 5, 3, b"de"),
            piece(7, 6, 3, b"de"),
            piece(7, 5, 2, b"de"),
            piece(7, 5, 4, b"e"),
            piece(7, 5, 3, b"def"),
            piece(7, 5, u64::MAX, b""),
        ] {
            assert_eq!(Staged::add(&mut place, wrong), Err(ZonesError::Unknown));
        }
        assert_eq!(Staged::add(&mut place, piece(7, 5, 3, b"de")), Ok(5));
    }

    #[test]
    fn lengths_are_bounded_and_another_module_takes_the_place() {
        let mut place = None;
        for whole in [0, MODULE_BYTES_MAX + 1, u64::MAX] {
            assert_eq!(Staged::add(&mut place, piece(1, whole, 0, b"a")), Err(ZonesError::Unknown));
        }
        Staged::add(&mut place, piece(1, 2, 0, b"ab")).unwrap();
        assert_eq!(Staged::add(&mut place, piece(2, 2, 0, b"abc")), Err(ZonesError::Unknown), "longer than it says");
        assert_eq!(Staged::take(&mut place, 1), None, "its place was taken");
        assert_eq!(Staged::add(&mut place, piece(2, 2, 0, &vec![0; 2])), Ok(2));
    }
}
