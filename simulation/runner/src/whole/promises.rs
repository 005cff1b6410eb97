//! Promises about a disk, whenever the machine stops: everything that was synced is there, under its old or its new name.

use std::collections::{BTreeMap, BTreeSet};

/// A directory of a task, and a name there.
pub type Path = (usize, String);
/// The contents of a file: so many bytes that are all the same.
pub type Fill = (u8, usize);

/// One of these paths leads to one of these contents.
#[derive(Clone, Debug)]
pub struct Promise {
    paths: Vec<Path>,
    fills: Vec<Fill>,
}

/// The knowledge of a task's files.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    promises: Vec<Promise>,
    /// Bytes that a file of this name may show, besides 0.
    fills: BTreeMap<String, BTreeSet<u8>>,
    files: BTreeMap<Path, Fill>,
    /// Its directories are on the disk.
    pub has_directories: bool,
}

impl Promises {
    /// Returns the file at a place in the order of names.
    pub fn file(&self, index: u64) -> Option<(Path, Fill)> {
        let index = index.checked_rem(self.files.len() as u64)? as usize;
        self.files.iter().nth(index).map(|(path, fill)| (path.clone(), *fill))
    }

    /// Returns how many files there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// A file of this name is about to be filled with this.
    pub fn will_fill(&mut self, name: &str, fill: u8) {
        self.fills.entry(name.into()).or_default().insert(fill);
    }

    /// A file is there, and was synced.
    pub fn synced(&mut self, path: Path, fill: Fill) {
        self.promises.push(Promise { paths: vec![path.clone()], fills: vec![fill] });
        self.files.insert(path, fill);
    }

    /// A file is about to have another name.
    pub fn will_rename(&mut self, from: &Path, to: &Path) {
        let fills = self.fills.get(&from.1).cloned().unwrap_or_default();
        self.fills.insert(to.1.clone(), fills);
        let leads = self.promises.iter_mut().filter(|promise| promise.paths.last() == Some(from));
        leads.for_each(|promise| promise.paths.push(to.clone()));
    }

    /// It has.
    pub fn renamed(&mut self, from: &Path, to: &Path, fill: Fill) {
        self.files.remove(from);
        self.files.insert(to.clone(), fill);
    }

    /// A new file was synced under a name for the time being, and is about to take the place of an old one.
    pub fn will_replace(&mut self, temporary: &Path, path: &Path, old: Fill, new: Fill) {
        self.promises.push(Promise { paths: vec![temporary.clone(), path.clone()], fills: vec![new] });
        // A promise that leads to the old file may lead to the new one from now on.
        let of = |promise: &&mut Promise| promise.fills.contains(&old) && promise.paths.contains(path);
        self.promises.iter_mut().filter(of).for_each(|promise| promise.fills.push(new));
    }

    /// A file is about to go.
    pub fn will_remove(&mut self, path: &Path) {
        self.promises.retain(|promise| !promise.paths.contains(path));
        self.files.remove(path);
    }

    /// Everything is durable as it is now.
    pub fn all_synced(&mut self) {
        let promise = |(path, fill): (&Path, &Fill)| Promise { paths: vec![path.clone()], fills: vec![*fill] };
        self.promises = self.files.iter().map(promise).collect();
    }

    /// Compares with what was found.
    ///
    /// # Errors
    /// A sentence about the first that is broken.
    pub fn check(&self, found: &BTreeMap<Path, Vec<u8>>) -> Result<(), String> {
        for ((_, name), data) in found {
            let none = BTreeSet::new();
            let allowed = self.fills.get(name).unwrap_or(&none);
            if let Some(byte) = data.iter().find(|byte| **byte != 0 && !allowed.contains(byte)) {
                return Err(format!("{name} shows {byte}, which another file held"));
            }
        }
        let holds = |promise: &&Promise| {
            let mut data = promise.paths.iter().filter_map(|path| found.get(path));
            data.any(|data| promise.fills.iter().any(|fill| is_filled(data, *fill)))
        };
        match self.promises.iter().find(|promise| !holds(promise)) {
            None => Ok(()),
            Some(broken) => Err(format!("lost {broken:?}")),
        }
    }
}

fn is_filled(data: &[u8], (fill, bytes): Fill) -> bool {
    data.len() == bytes && data.iter().all(|byte| *byte == fill)
}
