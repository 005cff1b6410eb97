//! Random operations against a model in memory; at the end the disk agrees with both.
mod support;

use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use gyre_message::direct::block_on;
use std::collections::BTreeMap;
use support::*;

#[derive(Clone, Debug, PartialEq)]
enum Model {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Model>),
}

impl Model {
    fn at<'a>(&'a mut self, path: &[Vec<u8>]) -> Option<&'a mut Model> {
        match (path.split_first(), self) {
            (None, found) => Some(found),
            (Some((name, rest)), Model::Directory(entries)) => entries.get_mut(name)?.at(rest),
            _ => None,
        }
    }
    fn entries<'a>(&'a mut self, path: &[Vec<u8>]) -> Option<&'a mut BTreeMap<Vec<u8>, Model>> {
        match self.at(path)? {
            Model::Directory(entries) => Some(entries),
            Model::File(_) => None,
        }
    }
    fn directories(&self, prefix: Vec<Vec<u8>>, into: &mut Vec<Vec<Vec<u8>>>) {
        if let Model::Directory(entries) = self {
            for (name, child) in entries {
                child.directories([prefix.clone(), vec![name.clone()]].concat(), into);
            }
            into.push(prefix);
        }
    }
}

async fn resolve(client: &Client, path: &[Vec<u8>]) -> NodeId {
    let mut node = client.root().await.unwrap();
    for name in path {
        node = client.lookup(node, name.clone()).await.unwrap().node;
    }
    node
}

fn new(kind: NodeKind) -> NewNode {
    NewNode { kind, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 }
}

async fn step(client: &Client, model: &mut Model, random: &mut Random) {
    let mut directories = Vec::new();
    model.directories(Vec::new(), &mut directories);
    let path = directories[random.below(directories.len())].clone();
    let other = directories[random.below(directories.len())].clone();
    let name = format!("n{}{}", random.below(12), "x".repeat(random.below(40))).into_bytes();
    let name = match model.entries(&path).unwrap().keys().nth(random.below(8)) {
        Some(existing) if random.below(3) > 0 => existing.clone(),
        _ => name,
    };
    let directory = resolve(client, &path).await;
    let exists = model.entries(&path).unwrap().get(&name).cloned();
    match random.below(10) {
        0 | 1 => {
            let kind = if random.below(4) == 0 { NodeKind::Directory } else { NodeKind::File };
            let made = client.create(directory, name.clone(), new(kind)).await;
            if exists.is_some() {
                assert_eq!(made, Err(FileError::Exists));
            } else {
                made.unwrap();
                let fresh = if kind == NodeKind::Directory {
                    Model::Directory(BTreeMap::new())
                } else {
                    Model::File(Vec::new())
                };
                model.entries(&path).unwrap().insert(name, fresh);
            }
        }
        2..=4 => {
            let Some(Model::File(mut data)) = exists else { return };
            let node = client.lookup(directory, name.clone()).await.unwrap().node;
            let (at, bytes) = (random.below(60_000), random.below(12_000));
            let fill = random.next() as u8;
            assert_eq!(client.write(node, at as u64, views_of(&vec![fill; bytes])).await, Ok(bytes));
            if bytes > 0 {
                data.resize(data.len().max(at + bytes), 0);
                data[at..at + bytes].fill(fill);
            }
            model.entries(&path).unwrap().insert(name, Model::File(data));
        }
        5 => {
            let Some(Model::File(mut data)) = exists else { return };
            let node = client.lookup(directory, name.clone()).await.unwrap().node;
            let size = random.below(70_000);
            let change = AttributeChange { size_bytes: Some(size as u64), ..AttributeChange::default() };
            client.set_attributes(node, change).await.unwrap();
            data.resize(size, 0);
            model.entries(&path).unwrap().insert(name, Model::File(data));
        }
        6 => {
            let removed = match &exists {
                Some(Model::Directory(_)) => client.remove_directory(directory, name.clone()).await,
                _ => client.unlink(directory, name.clone()).await,
            };
            match exists {
                None => assert_eq!(removed, Err(FileError::NotFound)),
                Some(Model::Directory(entries)) if !entries.is_empty() => assert_eq!(removed, Err(FileError::NotEmpty)),
                Some(_) => {
                    removed.unwrap();
                    model.entries(&path).unwrap().remove(&name);
                }
            }
        }
        7 | 8 => {
            let target = resolve(client, &other).await;
            let new_name = format!("r{}", random.below(10)).into_bytes();
            let result = client.rename(directory, name.clone(), target, new_name.clone(), RenameMode::Replace).await;
            rename_model(model, (&path, &name), (&other, &new_name), result);
        }
        _ => {
            let Some(Model::File(data)) = exists else { return };
            let node = client.lookup(directory, name).await.unwrap().node;
            match random.below(4) {
                0 => client.sync(node).await.unwrap(),
                1 => client.sync_all().await.unwrap(),
                _ => assert!(read_all(client, node).await.unwrap() == data, "contents differ"),
            }
        }
    }
}

fn rename_model(model: &mut Model, from: (&[Vec<u8>], &[u8]), to: (&[Vec<u8>], &[u8]), result: Result<(), FileError>) {
    let Some(moved) = model.entries(from.0).unwrap().get(from.1).cloned() else {
        assert_eq!(result, Err(FileError::NotFound));
        return;
    };
    let own = [from.0, &[from.1.to_vec()]].concat();
    let target = [to.0, &[to.1.to_vec()]].concat();
    let into_itself = matches!(moved, Model::Directory(_)) && to.0.starts_with(&own);
    let replaced = model.entries(to.0).unwrap().get(to.1).cloned();
    let expected = match (&moved, &replaced) {
        _ if into_itself => Err(FileError::Invalid),
        _ if own == target => Ok(()),
        (Model::Directory(_), Some(Model::File(_))) => Err(FileError::NotDirectory),
        (Model::File(_), Some(Model::Directory(_))) => Err(FileError::IsDirectory),
        (Model::Directory(_), Some(Model::Directory(entries))) if !entries.is_empty() => Err(FileError::NotEmpty),
        _ => Ok(()),
    };
    assert_eq!(result, expected, "{own:?} to {target:?}");
    if result.is_ok() {
        model.entries(from.0).unwrap().remove(from.1);
        model.entries(to.0).unwrap().insert(to.1.to_vec(), moved);
    }
}

/// The tree as the file system shows it.
fn shown<'a>(client: &'a Client, node: NodeId) -> std::pin::Pin<Box<dyn Future<Output = Model> + 'a>> {
    Box::pin(async move {
        let mut entries = BTreeMap::new();
        let mut from = 0;
        loop {
            let part = client.read_directory(node, from, 500).await.unwrap();
            let Some(last) = part.last() else { return Model::Directory(entries) };
            from = last.next;
            for entry in part {
                if matches!(&entry.name[..], b"." | b".." | b"lost+found") {
                    continue;
                }
                let child = client.lookup(node, entry.name.clone()).await.unwrap().node;
                let child = match entry.kind {
                    NodeKind::Directory => shown(client, child).await,
                    _ => Model::File(read_all(client, child).await.unwrap()),
                };
                assert!(entries.insert(entry.name, child).is_none(), "a name twice");
            }
        }
    })
}

/// The tree as somebody else reads it from the disk: e2fsprogs' debugfs.
fn dumped(image: &[u8]) -> Model {
    let (path, folder) = (temporary("dump"), temporary("tree"));
    std::fs::write(&path, image).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let request = format!("rdump / {}", folder.display());
    let output =
        std::process::Command::new("debugfs").args(["-R", &request]).arg(&path).output().expect("debugfs runs");
    assert!(output.status.success());
    let tree = read_tree(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::remove_file(&path).unwrap();
    tree
}

fn read_tree(folder: &std::path::Path) -> Model {
    use std::os::unix::ffi::OsStringExt as _;
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_vec();
        if name == b"lost+found" {
            continue;
        }
        let is_directory = entry.file_type().unwrap().is_dir();
        let read = || Model::File(std::fs::read(entry.path()).unwrap());
        entries.insert(name, if is_directory { read_tree(&entry.path()) } else { read() });
    }
    Model::Directory(entries)
}

fn run(seed: u64, shape: &[&str], cache_pages: usize, steps: usize) {
    let mut random = Random(seed);
    let mut model = Model::Directory(BTreeMap::new());
    let image = block_on(async {
        let disk = RamDisk::leak(make_image(8 * 1024, shape));
        let file_system = mount_on(disk, new_cache(cache_pages)).await.unwrap();
        gyre_message::spawn(file_system.maintain());
        let client = client_of(file_system);
        for _ in 0..steps {
            step(&client, &mut model, &mut random).await;
        }
        let root = client.root().await.unwrap();
        assert!(shown(&client, root).await == model, "seed {seed}: what is shown differs from the model");
        file_system.unmount().await.unwrap();
        disk.image()
    });
    assert_clean(image.clone());
    assert!(dumped(&image) == model, "seed {seed}: what debugfs reads differs from the model");
    block_on(async {
        let (_, _, client) = mount(image).await;
        let root = client.root().await.unwrap();
        assert!(shown(&client, root).await == model, "seed {seed}: the disk differs from the model");
    });
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..12 {
        let shape: &[&str] = [&["-b", "1024"], &["-b", "4096"], &["-b", "2048"]][seed as usize % 3];
        run(seed, shape, 4096, 600);
    }
}

#[test]
fn a_tiny_cache_changes_nothing_but_the_time() {
    for seed in 100..104 {
        run(seed, &["-b", "1024"], 96, 400);
    }
}
