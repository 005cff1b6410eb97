use gyre_machine_file::HostVolume;

use super::{
    command::{Present, load},
    *,
};

fn project() -> (tempfile::TempDir, Project) {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::of_tree(folder.path());
    (folder, project)
}

fn wanted(size_bytes: Option<u64>, from: Option<&Path>) -> Vec<HostVolume> {
    let from = from.map(Path::to_owned);
    vec![HostVolume { name: "data".into(), path: "/data".into(), size_bytes, from }]
}

fn text_of(failure: &Failure) -> String {
    format!("{:?}", failure.report).replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read(volume: &Path, file: &str) -> String {
    program::output(program::program("debugfs").unwrap().args(["-R", &format!("cat {file}")]).arg(volume)).unwrap()
}

#[test]
fn a_volume_is_made_once_of_a_folder_and_stays() {
    let (folder, project) = project();
    let from = folder.path().join("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("letter"), "hello").unwrap();
    let taken = take(&project, "m", "gold", &wanted(Some(8 << 20), Some(&from))).unwrap();
    let path = taken[0].volume.path.clone();
    assert_eq!((read(&path, "/letter").as_str(), taken[0].volume.bytes()), ("hello", 8 << 20));
    drop(taken);
    std::fs::write(from.join("letter"), "changed").unwrap();
    drop(take(&project, "m", "gold", &wanted(None, Some(&from))).unwrap());
    assert_eq!(read(&path, "/letter"), "hello", "what is there is not read again");
    assert_eq!(Volume::all(&project).unwrap().len(), 1, "nothing else is left behind");
}

#[test]
fn a_volume_grows_and_does_not_shrink() {
    let (_folder, project) = project();
    drop(take(&project, "m", "gold", &wanted(Some(8 << 20), None)).unwrap());
    drop(take(&project, "m", "gold", &wanted(Some(16 << 20), None)).unwrap());
    let volume = Volume::named(&project, "data").unwrap();
    assert_eq!(volume.bytes(), 16 << 20);
    program::output(program::program("e2fsck").unwrap().args(["-n", "-f"]).arg(&volume.path)).unwrap();
    let refused = take(&project, "m", "gold", &wanted(Some(8 << 20), None)).map(drop).unwrap_err();
    assert!(text_of(&refused).contains("16.0 MiB") && text_of(&refused).contains("gyre volume remove"), "{refused:?}");
    drop(take(&project, "m", "gold", &wanted(None, None)).unwrap());
}

#[test]
fn a_volume_in_use_is_not_had_twice() {
    let (folder, project) = project();
    let taken = take(&project, "shop", "gold", &wanted(Some(8 << 20), None)).unwrap();
    let refused = take(&project, "other", "iron", &wanted(None, None)).map(drop).unwrap_err();
    assert!(text_of(&refused).contains("gold") && text_of(&refused).contains("shop"), "{refused:?}");
    let arguments = |command| crate::cli::Volume { command };
    let save = crate::cli::VolumeCommand::Save { name: "data".into(), file: folder.path().join("x") };
    assert!(Project::find().is_err() || command::volume(&arguments(save)).is_err());
    drop(taken);
    assert!(Volume::named(&project, "data").unwrap().take(&project).is_ok());
    let missing = Volume::named(&project, "date").unwrap().take(&project).map(drop).unwrap_err();
    assert!(text_of(&missing).contains("there is: data"));
}

#[test]
fn what_is_loaded_is_a_file_system_and_no_more_than_it_says() {
    let (folder, project) = project();
    let file = folder.path().join("copy");
    let pack = |bytes: &[u8]| {
        use std::io::Write as _;
        let mut packed = flate2::write::GzEncoder::new(File::create(&file).unwrap(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap();
    };
    let refused = || text_of(&load(&project, "back", &file, Present::Stays).unwrap_err());
    pack(&vec![0; 1 << 20]);
    assert!(refused().contains("no ext2"));
    std::fs::write(&file, "plain").unwrap();
    assert!(refused().contains("gzip"));
    drop(take(&project, "m", "gold", &wanted(Some(8 << 20), None)).unwrap());
    let mut whole = std::fs::read(Volume::named(&project, "data").unwrap().path).unwrap();
    pack(&whole);
    load(&project, "back", &file, Present::Stays).unwrap();
    assert_eq!(std::fs::read(Volume::named(&project, "back").unwrap().path).unwrap(), whole);
    assert!(refused().contains("already"));
    load(&project, "back", &file, Present::GivesWay).unwrap();
    std::fs::remove_file(Volume::named(&project, "back").unwrap().path).unwrap();
    pack(&whole[..whole.len() - 4096]);
    assert!(refused().contains("cut short"));
    whole.extend_from_slice(&[0; 4096]);
    pack(&whole);
    assert!(refused().contains("more than"));
    assert!(load(&project, "../up", &file, Present::Stays).is_err());
    assert!(!Volume::named(&project, "back").unwrap().exists(), "nothing is left of what was refused");
}
