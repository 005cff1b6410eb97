//! Paths of the directories that a tenant watches, as a tree of names. A directory that moves takes all below it along in one step, however
//! much that is.
//!
//! A place stays while a watched directory is at it or below it. One whose directory was replaced by a move is cut off: no path leads there
//! any more, and it goes with what is below it. Steps of each function: the names of a path.
//!
//! Used by [`super::notices`] alone, under the table's lock.

use super::notices::Key;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The number of a place.
pub(super) type PlaceId = u64;

/// The root of all paths, which is always there.
const ROOT: PlaceId = 0;

#[derive(Default)]
struct Place {
    /// The place above, and the name in it; none for the root, and for a place that is cut off.
    above: Option<(PlaceId, Vec<u8>)>,
    below: BTreeMap<Vec<u8>, PlaceId>,
    /// The watched directory.
    node: Option<Key>,
}

/// The tree.
#[derive(Default)]
pub(super) struct WatchedPaths {
    places: BTreeMap<PlaceId, Place>,
    last: PlaceId,
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Returns the path of the directory above, and the last name.
pub(super) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let (directory, name) = (path.get(..at)?, path.get(at..)?.get(1..)?);
    (!name.is_empty()).then_some((directory, name))
}

impl WatchedPaths {
    fn find(&self, path: &[u8]) -> Option<PlaceId> {
        names(path).try_fold(ROOT, |at, name| self.places.get(&at)?.below.get(name).copied())
    }

    /// Returns the watched directory at a path.
    pub fn node(&self, path: &[u8]) -> Option<Key> {
        self.places.get(&self.find(path)?)?.node
    }

    /// Notes that a directory that is watched is at a path, and returns the place.
    pub fn insert(&mut self, path: &[u8], node: Key) -> PlaceId {
        let place = self.make(path);
        self.places.entry(place).or_default().node = Some(node);
        place
    }

    /// Returns the place of a path, made with those above if they are missing.
    fn make(&mut self, path: &[u8]) -> PlaceId {
        let mut at = ROOT;
        for name in names(path) {
            let known = self.places.get(&at).and_then(|place| place.below.get(name)).copied();
            at = known.unwrap_or_else(|| self.make_below(at, name));
        }
        at
    }

    fn make_below(&mut self, above: PlaceId, name: &[u8]) -> PlaceId {
        self.last = self.last.wrapping_add(1);
        let place = Place { above: Some((above, name.to_vec())), ..Place::default() };
        self.places.insert(self.last, place);
        self.places.entry(above).or_default().below.insert(name.to_vec(), self.last);
        self.last
    }

    /// Notes that a directory is watched no more.
    pub fn remove(&mut self, place: PlaceId, node: Key) {
        let Some(found) = self.places.get_mut(&place).filter(|found| found.node == Some(node)) else { return };
        found.node = None;
        self.prune(place);
    }

    /// Forgets a place of which nothing is left, and those above for which that holds then.
    fn prune(&mut self, mut place: PlaceId) {
        while let Some(found) = self.places.get(&place)
            && found.node.is_none()
            && found.below.is_empty()
        {
            let above = self.cut_off(place);
            self.places.remove(&place);
            let Some(above) = above else { return };
            place = above;
        }
    }

    /// Has no path lead to a place any more; returns the one above.
    fn cut_off(&mut self, place: PlaceId) -> Option<PlaceId> {
        let (above, name) = self.places.get_mut(&place)?.above.take()?;
        self.places.get_mut(&above)?.below.remove(&name);
        Some(above)
    }

    /// Puts a place that is cut off at a path; one that was there is cut off.
    fn put(&mut self, place: PlaceId, path: &[u8]) {
        let Some((directory, name)) = split(path) else { return };
        if let Some(replaced) = self.find(path) {
            self.cut_off(replaced);
        }
        let above = self.make(directory);
        self.places.entry(above).or_default().below.insert(name.to_vec(), place);
        self.places.entry(place).or_default().above = Some((above, name.to_vec()));
    }

    /// Notes that a directory has another path, and all below it.
    pub fn moved(&mut self, from: &[u8], to: &[u8]) {
        let Some(place) = self.find(from) else { return };
        let above = self.cut_off(place);
        self.put(place, to);
        above.into_iter().for_each(|above| self.prune(above));
    }

    /// Notes that two directories have each other's path, or a directory and what is none.
    pub fn exchanged(&mut self, one: &[u8], other: &[u8]) {
        let (first, second) = (self.find(one), self.find(other));
        let above: Vec<_> = [first, second].into_iter().flatten().filter_map(|place| self.cut_off(place)).collect();
        for (place, path) in [(first, other), (second, one)] {
            place.into_iter().for_each(|place| self.put(place, path));
        }
        above.into_iter().for_each(|above| self.prune(above));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_interface::files::NodeId;

    fn node(number: u64) -> Key {
        (0, NodeId(number))
    }

    #[test]
    fn a_directory_that_moves_takes_all_below_it_along() {
        let mut paths = WatchedPaths::default();
        let places: Vec<_> = (0..1000).map(|at| paths.insert(std::format!("/a/{at}/x").as_bytes(), node(at))).collect();
        let (size, last) = (paths.places.len(), paths.last);
        paths.moved(b"/a", b"/b/c");
        assert_eq!((paths.node(b"/a/7/x"), paths.node(b"/b/c/7/x")), (None, Some(node(7))));
        assert!(paths.last - last <= 1, "nothing below is made again");
        assert_eq!(paths.places.len(), size + 1);
        (0..1000).for_each(|at| paths.remove(places[at as usize], node(at)));
        assert!(paths.places.len() <= 1);
    }

    #[test]
    fn what_a_move_replaces_is_found_no_more_and_goes_with_its_watch() {
        let mut paths = WatchedPaths::default();
        let (old, new) = (paths.insert(b"/to", node(1)), paths.insert(b"/from", node(2)));
        paths.moved(b"/from", b"/to");
        assert_eq!((paths.node(b"/to"), paths.node(b"/from")), (Some(node(2)), None));
        paths.remove(old, node(1));
        assert_eq!(paths.node(b"/to"), Some(node(2)));
        paths.remove(new, node(2));
        assert_eq!(paths.node(b"/to"), None);
        assert!(paths.places.len() <= 1);
    }

    #[test]
    fn two_directories_change_places_with_all_below_them() {
        let mut paths = WatchedPaths::default();
        paths.insert(b"/a/x", node(1));
        paths.insert(b"/b/c/y", node(2));
        paths.exchanged(b"/a", b"/b/c");
        assert_eq!((paths.node(b"/b/c/x"), paths.node(b"/a/y")), (Some(node(1)), Some(node(2))));
        paths.exchanged(b"/a", b"/file");
        assert_eq!((paths.node(b"/a/y"), paths.node(b"/file/y")), (None, Some(node(2))));
    }

    #[test]
    fn the_root_can_be_watched() {
        let mut paths = WatchedPaths::default();
        let root = paths.insert(b"/", node(1));
        assert_eq!((paths.node(b"/"), paths.node(b"")), (Some(node(1)), Some(node(1))));
        paths.remove(root, node(1));
        assert_eq!(paths.node(b"/"), None);
    }
}
