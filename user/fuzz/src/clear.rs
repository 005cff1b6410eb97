//! Removing a folder however deep it is: what lies below is moved up before it is removed, so that no path is long and nothing recurs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Removes a folder and all that is in it, as far as that can be done.
pub fn clear(folder: &Path) {
    let mut number = 0u64;
    let mut left = vec![folder.to_path_buf()];
    while let Some(next) = left.last().cloned() {
        match below(&next) {
            Some(inner) if next == folder => left.push(inner),
            Some(inner) => {
                let name = folder.join(format!("up-{number}"));
                number += 1;
                match fs::rename(&inner, &name) {
                    Ok(()) => left.push(name),
                    Err(_) => return,
                }
            }
            None if fs::remove_dir(&next).is_err() => return,
            None => drop(left.pop()),
        }
    }
}

/// Removes the files of a folder; answers one of the folders in it.
fn below(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = None;
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found = Some(entry.path()),
            _ => _ = fs::remove_file(entry.path()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_ten_thousand_folders_is_removed() {
        let top = std::env::temp_dir().join(format!("gyre-fuzz-clear-{}", std::process::id()));
        fs::create_dir(&top).unwrap();
        // Made from the inside out: no path is long.
        for _ in 0..10_000 {
            fs::create_dir(top.join("new")).unwrap();
            fs::write(top.join("new/file"), "x").unwrap();
            let _ = fs::rename(top.join("chain"), top.join("new/chain"));
            fs::rename(top.join("new"), top.join("chain")).unwrap();
        }
        std::os::unix::fs::symlink("/nowhere", top.join("link")).unwrap();
        clear(&top);
        assert!(!top.exists());
    }
}
