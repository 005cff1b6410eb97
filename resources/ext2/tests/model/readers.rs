//! The tree as the file system shows it, and as other code reads it from the disk: e2fsprogs' debugfs.

use super::tree::{Path, Seen, View};
use crate::support::{read_all, temporary};
use gyre_interface::files::files::Client;
use gyre_interface::files::{Attributes, NodeId, NodeKind};
use std::collections::BTreeMap;
use std::process::Command;

/// Returns the view that the file system shows.
pub async fn shown(client: &Client) -> View {
    let (mut view, mut first) = (BTreeMap::new(), BTreeMap::<NodeId, Path>::new());
    let mut queue = vec![(Path::new(), client.root().await.unwrap())];
    while let Some((prefix, directory)) = queue.pop() {
        for name in names(client, directory).await {
            let node = client.lookup(directory, name.clone()).await.unwrap();
            let path = [&prefix[..], b"/", &name[..]].concat();
            if node.kind == NodeKind::Directory {
                queue.push((path.clone(), node.node));
            }
            let earliest = first.entry(node.node).or_insert_with(|| path.clone());
            *earliest = earliest.clone().min(path.clone());
            let seen = seen(client, node).await;
            assert!(view.insert(path, (seen, node.node)).is_none(), "a name twice");
        }
    }
    view.into_iter().map(|(path, (seen, node))| (path, Seen { first: first[&node].clone(), ..seen })).collect()
}

async fn names(client: &Client, directory: NodeId) -> Vec<Vec<u8>> {
    let (mut names, mut from) = (Vec::new(), 0);
    loop {
        let part = client.read_directory(directory, from, 500).await.unwrap();
        let Some(last) = part.last() else { return names };
        from = last.next;
        let own = |name: &[u8]| matches!(name, b"." | b".." | b"lost+found");
        names.extend(part.into_iter().map(|entry| entry.name).filter(|name| !own(name)));
    }
}

async fn seen(client: &Client, node: Attributes) -> Seen {
    let contents = match node.kind {
        NodeKind::File => read_all(client, node.node).await.unwrap(),
        NodeKind::SymbolicLink => client.read_link(node.node).await.unwrap(),
        _ => Vec::new(),
    };
    let mut extended = BTreeMap::new();
    for name in client.list_extended(node.node).await.unwrap() {
        let value = client.extended(node.node, name.clone()).await.unwrap();
        assert!(extended.insert(name, value).is_none(), "an attribute twice");
    }
    Seen { kind: node.kind, contents, links: node.links as usize, first: Path::new(), extended }
}

/// Compares an image with its expected view, by debugfs: names, contents, targets and extended attributes.
pub fn compare_by_debugfs(image: &[u8], view: &View) {
    let (path, folder) = (temporary("dump"), temporary("tree"));
    std::fs::write(&path, image).unwrap();
    std::fs::create_dir(&folder).unwrap();
    debugfs(&path, &format!("rdump / {}", folder.display()));
    let mut dumped = BTreeMap::new();
    read_tree(&folder, &[], &mut dumped);
    let expected: BTreeMap<Path, _> =
        view.iter().map(|(path, seen)| (path.clone(), (seen.kind, seen.contents.clone()))).collect();
    assert!(dumped == expected, "what debugfs reads differs from the model");
    compare_extended(&path, view);
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::remove_file(&path).unwrap();
}

fn compare_extended(image: &std::path::Path, view: &View) {
    for (path, seen) in view.iter().filter(|(_, seen)| !seen.extended.is_empty()) {
        let path = String::from_utf8_lossy(path);
        let said = debugfs(image, &format!("ea_list {path}"));
        let listed = said.lines().filter(|line| line.starts_with(' ')).count();
        assert_eq!(listed, seen.extended.len(), "{path}: {said}");
        for (name, value) in &seen.extended {
            let said = debugfs(image, &format!("ea_get -V {path} {}", String::from_utf8_lossy(name)));
            assert_eq!(said.trim_end().as_bytes(), value, "{path}");
        }
    }
}

fn debugfs(image: &std::path::Path, request: &str) -> String {
    let output = Command::new("debugfs").args(["-R", request]).arg(image).output().expect("debugfs runs");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn read_tree(folder: &std::path::Path, prefix: &[u8], into: &mut BTreeMap<Path, (NodeKind, Vec<u8>)>) {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (name, kind) = (entry.file_name().into_vec(), entry.file_type().unwrap());
        let path = [prefix, b"/", &name[..]].concat();
        if name == b"lost+found" {
            continue;
        }
        let seen = if kind.is_dir() {
            read_tree(&entry.path(), &path, into);
            (NodeKind::Directory, Vec::new())
        } else if kind.is_symlink() {
            (NodeKind::SymbolicLink, std::fs::read_link(entry.path()).unwrap().as_os_str().as_bytes().to_vec())
        } else {
            (NodeKind::File, std::fs::read(entry.path()).unwrap())
        };
        into.insert(path, seen);
    }
}
