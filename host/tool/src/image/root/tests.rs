//! A tree with every kind of link, and a folder that plays the host: what it holds is the same afterwards.

use std::{collections::BTreeMap, os::unix::fs::symlink};

use super::*;

/// A folder that plays the host, with a tree in it.
struct World {
    folder: tempfile::TempDir,
    root: Root,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for path in ["host/run", "host/etc", "images/tree"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        std::fs::write(folder.path().join("host/etc/passwd"), "the host's").unwrap();
        std::fs::write(folder.path().join("host/run/pid"), "1").unwrap();
        let root = Root::open(&folder.path().join("images/tree")).unwrap();
        Self { folder, root }
    }

    fn host(&self) -> PathBuf {
        self.folder.path().join("host")
    }

    /// Returns every path of the world outside of the tree, with its contents.
    fn outside(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.root.path() {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path.clone());
                }
                found.insert(path.clone(), std::fs::read(&path).ok());
            }
        }
        found
    }

    fn link(&self, path: &str, to: impl AsRef<Path>) {
        symlink(to, self.root.path().join(path)).unwrap();
    }

    fn write(&self, path: &str) -> Result<()> {
        self.root.file(Path::new(path), Rights::of(0o644), &mut &b"new"[..])
    }
}

#[test]
fn whatever_links_a_tree_holds_the_host_is_the_same_afterwards() {
    let world = World::new();
    let before = world.outside();
    let host = world.host();
    std::fs::create_dir_all(world.root.path().join("var/deep")).unwrap();
    world.link("var/run", &host.join("run"));
    world.link("var/deep/up", "../../../../host/etc");
    world.link("var/deep/over", "../../../../../../../../../../../../..");
    world.link("first", "second");
    world.link("second", "/third/../fourth");
    world.link("fourth", host.join("etc"));
    world.link("dangling", host.join("nowhere/deep"));
    world.link("relative", "missing/../other");
    world.link("passwd", host.join("etc/passwd"));
    for path in [
        "/var/run/pid",
        "/var/run/new",
        "/var/run/sub/deep/new",
        "/var/deep/up/passwd",
        "/var/deep/over/etc/passwd",
        "/first/passwd",
        "/dangling/new",
        "/relative/new",
        "/passwd",
    ] {
        // Some lead to what is no folder of the tree: refused or written, but never to the host.
        let written = world.write(path);
        assert_eq!(world.outside(), before, "{path}: {:?}", written.err().map(|failure| failure.report.to_string()));
    }
    for path in ["/var/run/pid", "/var/run/sub/deep/new", "/var/deep/over/etc/passwd", "/dangling/new", "/passwd"] {
        assert_eq!(world.root.read(path).unwrap(), b"new", "{path}");
    }
}

#[test]
fn folders_links_and_names_stay_inside_too() {
    let world = World::new();
    let before = world.outside();
    world.link("out", world.host().join("etc"));
    let (root, rights) = (&world.root, Rights::of(0o700));
    root.folder(Path::new("/out/folder"), rights).unwrap();
    root.folder(Path::new("/out"), rights).unwrap();
    root.link(Path::new("/out/link"), Path::new("/etc/passwd"), None).unwrap();
    world.write("/out/passwd").unwrap();
    root.second_name(Path::new("/out/second"), Path::new("/out/passwd")).unwrap();
    root.special(Path::new("/out/pipe"), FileType::Fifo, rights, 0).unwrap();
    assert_eq!(world.outside(), before);
    assert!(!root.has("/out/link"), "the tree has no /etc/passwd, the host has");
    assert_eq!(root.read("/out/second").unwrap(), b"new");
    assert!(root.read("/out/link").is_err());
}

#[test]
fn what_climbs_or_goes_in_circles_is_refused_with_the_path() {
    let world = World::new();
    world.link("a", "b");
    world.link("b", "a");
    for path in ["/../x", "/a/x", "/", "", "/x/../../y"] {
        let failure = world.write(path).unwrap_err();
        assert!(format!("{:?}", failure.report).contains("in"), "{path}");
    }
    world.write("/file").unwrap();
    assert!(format!("{:?}", world.write("/file/below").unwrap_err().report).contains("not a folder"));
    std::fs::create_dir(world.root.path().join("folder")).unwrap();
    assert!(format!("{:?}", world.write("/folder").unwrap_err().report).contains("a folder of that name"));
}

#[test]
fn the_root_itself_is_no_link() {
    let world = World::new();
    let link = world.folder.path().join("link");
    symlink(world.host(), &link).unwrap();
    assert!(Root::open(&link).is_err());
}
