use super::*;

/// An entry of a layer: path, contents or target, kind.
type Entry<'a> = (&'a str, &'a str, tar::EntryType);

fn layer(entries: &[Entry]) -> Vec<u8> {
    let mut builder = tar::Builder::new(vec![]);
    for (path, text, kind) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        let contents = if kind.is_file() { text.as_bytes() } else { b"" };
        header.set_size(contents.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        if !kind.is_file() {
            header.as_old_mut().linkname[..text.len()].copy_from_slice(text.as_bytes());
        }
        header.set_cksum();
        builder.append(&header, contents).unwrap();
    }
    builder.into_inner().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn put(folder: &Path, bytes: &[u8]) -> String {
    let digest = digest(bytes);
    std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
    std::fs::write(folder.join("blobs/sha256").join(digest.trim_start_matches("sha256:")), bytes).unwrap();
    digest
}

/// Writes a layout of these layers, and returns where each lies.
fn layout(folder: &Path, layers: &[Vec<u8>], config: &str) -> Vec<PathBuf> {
    let digests: Vec<String> = layers.iter().map(|layer| put(folder, layer)).collect();
    let ids = digests.iter().map(|digest| format!("\"{digest}\"")).collect::<Vec<_>>().join(",");
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{config},"rootfs":{{"type":"layers","diff_ids":[{ids}]}}}}"#
    );
    let config = put(folder, config.as_bytes());
    let list =
        digests.iter().map(|digest| format!(r#"{{"digest":"{digest}","size":1}}"#)).collect::<Vec<_>>().join(",");
    let manifest = put(
        folder,
        format!(r#"{{"schemaVersion":2,"config":{{"digest":"{config}","size":1}},"layers":[{list}]}}"#).as_bytes(),
    );
    std::fs::write(folder.join("index.json"), format!(r#"{{"manifests":[{{"digest":"{manifest}","size":1}}]}}"#))
        .unwrap();
    digests.iter().map(|digest| folder.join("blobs/sha256").join(digest.trim_start_matches("sha256:"))).collect()
}

struct World {
    host: tempfile::TempDir,
    tree: Root,
}

impl World {
    fn new() -> Self {
        let host = tempfile::tempdir().unwrap();
        let tree = Root::make(&host.path().join("tree")).unwrap();
        std::fs::create_dir(host.path().join("image")).unwrap();
        Self { host, tree }
    }

    fn image(&self) -> PathBuf {
        self.host.path().join("image")
    }

    fn fill(&self, bytes_max: u64) -> Result<Settings> {
        fill(&self.image(), &self.tree, self.host.path(), bytes_max)
    }
}

const FILE: tar::EntryType = tar::EntryType::Regular;
const LINK: tar::EntryType = tar::EntryType::Symlink;
const MIB: u64 = 1 << 20;

#[test]
fn layers_lie_over_each_other_and_whiteouts_take_away() {
    let world = World::new();
    let first =
        layer(&[("bin/tool", "one", FILE), ("etc/gone", "x", FILE), ("var/old", "x", FILE), ("swap/in", "x", FILE)]);
    let passwd = "web:x:33:44:web:/:/bin/sh\n";
    let second = layer(&[
        ("etc/.wh.gone", "", FILE),
        ("var/new", "y", FILE),
        ("var/.wh..wh..opq", "", FILE),
        ("swap", "now a file", FILE),
        ("etc/passwd", passwd, FILE),
    ]);
    let config = r#"{"User":"web","Entrypoint":["tool"],"Cmd":["-v"],"Env":["PATH=/sbin:/bin","A=b"],"WorkingDir":"/var",
        "ExposedPorts":{"80/tcp":{},"53/udp":{},"9/sctp":{},"8080":{}},"StopSignal":"SIGQUIT"}"#;
    layout(&world.image(), &[first, second], config);
    let settings = world.fill(MIB).unwrap();
    assert!(!world.tree.has("etc/gone") && !world.tree.has("var/old") && world.tree.has("var/new"));
    assert_eq!(world.tree.read("swap").unwrap(), b"now a file");
    let program = settings.program;
    assert_eq!((program.argv, program.directory), (vec!["/bin/tool".to_owned(), "-v".into()], "/var".into()));
    assert_eq!((program.user.user, program.user.group, program.stop_signal), (33, 44, Some(3)));
    assert_eq!((settings.ports, settings.udp_ports, program.environment.len()), (vec![80, 8080], vec![53], 2));
}

#[test]
fn a_hostile_layer_writes_nothing_outside() {
    let world = World::new();
    let kept = world.host.path().join("kept");
    std::fs::write(&kept, "old").unwrap();
    let out = world.host.path().to_str().unwrap().to_owned();
    let device = tar::EntryType::Char;
    let entries =
        [("out", out.as_str(), LINK), ("out/kept", "new", FILE), ("out/.wh.kept", "", FILE), ("null", "", device)];
    layout(&world.image(), &[layer(&entries)], "null");
    world.fill(MIB).unwrap();
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "old");
    assert!(!world.tree.has("null"), "devices are left out");
    let climbing = World::new();
    layout(&climbing.image(), &[layer(&[("../climbed", "x", FILE)])], "null");
    assert!(climbing.fill(MIB).is_err() && !climbing.host.path().join("climbed").exists());
}

#[test]
fn damage_and_bombs_are_refused() {
    let world = World::new();
    let blobs = layout(&world.image(), &[layer(&[("a", "text", FILE)])], "null");
    let mut bytes = std::fs::read(&blobs[0]).unwrap();
    bytes[600] ^= 1;
    std::fs::write(&blobs[0], bytes).unwrap();
    assert!(world.fill(MIB).unwrap_err().report.to_string().contains("has the digest"));
    let bomb = World::new();
    layout(&bomb.image(), &[layer(&[("a", &"0".repeat(2 << 20), FILE)])], "null");
    assert!(bomb.fill(MIB).unwrap_err().report.to_string().contains("holds more than 1.00 MiB"));
    let arm = World::new();
    layout(&arm.image(), &[], "null");
    assert!(arm.fill(MIB).is_ok(), "an image without layers is empty");
    std::fs::write(arm.image().join("index.json"), "{}").unwrap();
    assert!(arm.fill(MIB).unwrap_err().report.to_string().contains("no part for linux/amd64"));
}

#[test]
fn zeros_take_no_room_on_the_host() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new();
    let text = ["begin", &"\0".repeat(40 << 20), "end"].concat();
    layout(&world.image(), &[layer(&[("zeros", &text, FILE)])], "null");
    world.fill(64 * MIB).unwrap();
    let data = std::fs::metadata(world.tree.path().join("zeros")).unwrap();
    assert_eq!(data.len(), text.len() as u64);
    assert!(data.blocks() * 512 < 1 << 20, "{} blocks", data.blocks());
    assert!(world.tree.read("zeros").unwrap() == text.as_bytes(), "nothing is lost");
}

#[test]
fn a_file_of_docker_save_is_read_and_compressed_layers_are() {
    use std::io::Write as _;
    let world = World::new();
    let plain = layer(&[("a", "text", FILE)]);
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let config = format!(r#"{{"architecture":"amd64","os":"linux","rootfs":{{"diff_ids":["{}"]}}}}"#, digest(&plain));
    let list = r#"[{"Config":"c.json","RepoTags":["a:1"],"Layers":["one/layer.tar"]}]"#;
    let mut builder = tar::Builder::new(File::create(world.host.path().join("saved.tar")).unwrap());
    for (path, bytes) in
        [("c.json", config.as_bytes()), ("manifest.json", list.as_bytes()), ("one/layer.tar", &gzip.finish().unwrap())]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, bytes).unwrap();
    }
    builder.finish().unwrap();
    fill(&world.host.path().join("saved.tar"), &world.tree, world.host.path(), MIB).unwrap();
    assert_eq!(world.tree.read("a").unwrap(), b"text");
}

#[test]
fn layers_may_be_compressed_by_zstd_in_several_frames() {
    let Ok(found) = std::process::Command::new("zstd").arg("--version").output() else { return };
    assert!(found.status.success());
    let folder = tempfile::tempdir().unwrap();
    let packed = |text: &str| {
        let path = folder.path().join("part");
        std::fs::write(&path, text).unwrap();
        std::process::Command::new("zstd").arg("-qc").arg(&path).output().unwrap().stdout
    };
    let whole = "gyre ".repeat(100_000);
    let (first, second) = whole.split_at(123_456);
    // A frame to be skipped between the two (RFC 8878, 3.1.2).
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let path = folder.path().join("layer");
    std::fs::write(&path, [packed(first), skipped, packed(second)].concat()).unwrap();
    let mut read = String::new();
    layers::plain(File::open(&path).unwrap()).unwrap().read_to_string(&mut read).unwrap();
    assert!(read == whole);
    let cut = packed(first);
    std::fs::write(&path, &cut[..cut.len() - 8]).unwrap();
    assert!(std::io::copy(&mut layers::plain(File::open(&path).unwrap()).unwrap(), &mut std::io::sink()).is_err());
}
