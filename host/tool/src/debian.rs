//! The names of Debian's packages, as far as this host's lists know them.

use std::{collections::BTreeSet, fs, path::Path};

use crate::command;

/// The folder in which apt keeps its lists.
pub const LISTS: &str = "/var/lib/apt/lists";

/// Returns every name that apt knows, those that packages provide included; none if there are no lists to look into.
pub fn names() -> Option<BTreeSet<String>> {
    if !has_lists(Path::new(LISTS)) {
        return None;
    }
    let mut cache = command::program("apt-cache").ok()?;
    let said = command::output(cache.args(["pkgnames", "--all-names"])).ok()?;
    let names: BTreeSet<String> = said.lines().map(str::to_owned).collect();
    Some(names).filter(|names| !names.is_empty())
}

/// Returns whether a folder holds lists of packages: without, a host knows only what it has installed.
pub fn has_lists(folder: &Path) -> bool {
    let is_list = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains("_Packages");
    fs::read_dir(folder).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_list)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_of_packages_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("deb.example_InRelease"), "").unwrap();
        assert!(!has_lists(folder.path()) && !has_lists(Path::new("/no/such/folder")));
        fs::write(folder.path().join("deb.example_main_binary-amd64_Packages.lz4"), "").unwrap();
        assert!(has_lists(folder.path()));
    }
}
