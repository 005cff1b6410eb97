//! A tenant's own name in its /etc/hosts, and the resolver in its /etc/resolv.conf if the image names none: programs look there. And host
//! keys of sshd, if the image has a sshd without: they are the tenant's secret. Images are shared by tenants, so all this is written to the
//! tenant's disk.

use std::path::Path;

use crate::{
    command,
    failure::{Context as _, Failure, Result},
    ui,
};

const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";
/// A file that says that there is a sshd with its usual settings.
const SSHD: &str = "/etc/ssh/sshd_config";
/// Kinds of host keys, as sshd looks for them if its settings name none.
const KEYS: &[&str] = &["ed25519", "ecdsa", "rsa"];
/// Regular files for all to read, and for their owner alone (mode of inodes).
const PUBLIC: u32 = 0o100_644;
const SECRET: u32 = 0o100_600;
/// The exit codes of `e2fsck` up to this say that all is well now (e2fsck(8)).
const REPAIRED: i32 = 1;

/// A file for a disk.
struct Missing {
    path: String,
    text: String,
    mode: u32,
}

/// Adds what a disk that was just made lacks: its tenant's name, a resolver, and host keys.
///
/// # Errors
/// When debugfs is not installed or cannot write.
pub fn add_own(disk: &Path, name: &str) -> Result<()> {
    let there = read(disk, HOSTS)?;
    let public = |path: &str, text: String| Missing { path: path.into(), text, mode: PUBLIC };
    let hosts = (!knows(&there, name)).then(|| public(HOSTS, with(&there, name)));
    let [a, b, c, d] = gyre_contract::address::GATEWAY;
    let resolver = !has_resolver(&read(disk, RESOLVER)?);
    let resolver = resolver.then(|| public(RESOLVER, format!("nameserver {a}.{b}.{c}.{d}\n")));
    let missing: Vec<Missing> = hosts.into_iter().chain(resolver).chain(host_keys(disk, name)?).collect();
    if missing.is_empty() { Ok(()) } else { write(disk, &missing) }
}

fn read(disk: &Path, path: &str) -> Result<String> {
    let mut read = command::program("debugfs")?;
    Ok(command::output(read.args(["-R", &format!("cat {path}")]).arg(disk)).unwrap_or_default())
}

/// Makes host keys if a disk has a sshd that lacks them.
fn host_keys(disk: &Path, name: &str) -> Result<Vec<Missing>> {
    let key = |kind: &str| format!("/etc/ssh/ssh_host_{kind}_key");
    if read(disk, SSHD)?.is_empty() || KEYS.iter().any(|kind| read(disk, &key(kind)).is_ok_and(|text| !text.is_empty()))
    {
        return Ok(vec![]);
    }
    let Ok(found) = command::program("ssh-keygen") else {
        ui::warn(&format!(
            "sshd of tenant {name} has no host keys: apt-get install openssh-client, and make its disk anew"
        ));
        return Ok(vec![]);
    };
    let (folder, keygen) =
        (tempfile::tempdir().context(|| "cannot make a folder".into())?, found.get_program().to_owned());
    let mut all = vec![];
    for kind in KEYS {
        let file = folder.path().join(kind);
        let mut make = std::process::Command::new(&keygen);
        command::output(
            make.args(["-q", "-N", "", "-t", kind, "-C"]).arg(format!("root@{name}")).arg("-f").arg(&file),
        )?;
        let text = |path: &Path| std::fs::read_to_string(path).context(|| format!("cannot read {}", path.display()));
        all.push(Missing { path: key(kind), text: text(&file)?, mode: SECRET });
        all.push(Missing { path: key(kind) + ".pub", text: text(&file.with_extension("pub"))?, mode: PUBLIC });
    }
    Ok(all)
}

/// Writes files of text to a disk.
fn write(disk: &Path, files: &[Missing]) -> Result<()> {
    let cannot = || format!("cannot write {HOSTS} or its like to {}", disk.display());
    let (mut words, mut kept) = (String::from("mkdir /etc\n"), vec![]);
    for Missing { path, text, mode } in files {
        let file = tempfile::NamedTempFile::new().context(cannot)?;
        std::fs::write(file.path(), text).context(cannot)?;
        let from = file.path().display();
        // A file that was there keeps its place: others may lead to it.
        words += &format!("rm {path}\nwrite {from} {path}\nset_inode_field {path} mode 0{mode:o}\n");
        kept.push(file);
    }
    let script = tempfile::NamedTempFile::new().context(cannot)?;
    std::fs::write(script.path(), words).context(cannot)?;
    let mut write = command::program("debugfs")?;
    command::output(write.arg("-w").arg("-f").arg(script.path()).arg(disk))?;
    // debugfs leaves the bitmaps as they were before the last file it wrote.
    let mut check = command::program("e2fsck")?;
    let checked = check.args(["-f", "-y"]).arg(disk).output().context(cannot)?;
    match checked.status.code().is_some_and(|code| code <= REPAIRED) {
        true => Ok(()),
        false => Err(Failure::new(cannot())),
    }
}

fn has_resolver(text: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().next() == Some("nameserver"))
}

fn knows(hosts: &str, name: &str) -> bool {
    let words =
        |line: &str| line.split('#').next().unwrap_or_default().split_whitespace().skip(1).any(|word| word == name);
    hosts.lines().any(words)
}

fn with(hosts: &str, name: &str) -> String {
    let hosts = if hosts.trim().is_empty() { "127.0.0.1 localhost" } else { hosts.trim_end() };
    format!("{hosts}\n127.0.0.1 {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_name_is_added_once() {
        assert_eq!(with("127.0.0.1 localhost\n", "web"), "127.0.0.1 localhost\n127.0.0.1 web\n");
        assert!(knows("10.0.0.1 a web # b", "web") && !knows("10.0.0.1 a # web", "web") && !knows("web a", "web"));
    }

    #[test]
    fn a_sshd_without_keys_gets_keys_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir_all(tree.join("etc/ssh")).unwrap();
        std::fs::write(tree.join("etc/ssh/sshd_config"), "UsePAM yes\n").unwrap();
        let keys: Vec<String> = ["one", "two"]
            .iter()
            .map(|name| {
                let disk = folder.path().join(name);
                crate::image::file_system(&disk, &tree, "image x", 4 << 20, crate::image::Identity::New).unwrap();
                add_own(&disk, name).unwrap();
                let stat = command::output(
                    command::program("debugfs").unwrap().args(["-R", "stat /etc/ssh/ssh_host_rsa_key"]).arg(&disk),
                );
                assert!(command::program("ssh-keygen").is_err() || stat.unwrap().contains("Mode:  0600"));
                let first = super::read(&disk, "/etc/ssh/ssh_host_ed25519_key").unwrap();
                add_own(&disk, name).unwrap();
                assert_eq!(super::read(&disk, "/etc/ssh/ssh_host_ed25519_key").unwrap(), first, "they stay");
                first
            })
            .collect();
        assert!(command::program("ssh-keygen").is_err() || (keys[0].contains("PRIVATE KEY") && keys[0] != keys[1]));
    }

    #[test]
    fn the_name_is_written_to_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, disk) = (folder.path().join("tree"), folder.path().join("disk"));
        std::fs::create_dir_all(tree.join("etc")).unwrap();
        std::fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
        crate::image::file_system(&disk, &tree, "image x", 4 << 20, crate::image::Identity::New).unwrap();
        add_own(&disk, "web").unwrap();
        add_own(&disk, "web").unwrap();
        let read = command::output(command::program("debugfs").unwrap().args(["-R", "cat /etc/hosts"]).arg(&disk));
        assert_eq!(read.unwrap().trim(), "127.0.0.1 localhost\n127.0.0.1 web");
        assert_eq!(super::read(&disk, RESOLVER).unwrap(), "nameserver 10.77.0.1\n");
        command::output(command::program("e2fsck").unwrap().args(["-n", "-f"]).arg(&disk)).unwrap();
    }
}
