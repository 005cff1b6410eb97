//! The few files that maintainer scripts and an installer would make.

use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use crate::{
    command,
    failure::{Context as _, Result},
};

const FOLDERS: &[(&str, u32)] = &[
    ("usr/bin", 0o755),
    ("usr/sbin", 0o755),
    ("usr/lib", 0o755),
    ("usr/lib64", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run/lock", 0o755),
    ("srv/www", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

/// /bin and friends are links into /usr, as in every Debian since 12.
const LINKS: &[(&str, &str)] =
    &[("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("var/run", "/run")];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
    daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
    www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n\
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\ndaemon:x:1:\nadm:x:4:\ntty:x:5:\nwww-data:x:33:\nnogroup:x:65534:\n";

/// Text files that are written where no package brought one.
const FILES: &[(&str, &str)] = &[
    ("etc/passwd", PASSWD),
    ("etc/group", GROUP),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
    ("etc/hostname", "gyre\n"),
    ("etc/resolv.conf", "nameserver 10.77.0.1\n"),
    ("etc/ld.so.conf", "/usr/local/lib\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n"),
    ("etc/shells", "/bin/sh\n"),
];

/// Makes the folders and links that packages expect.
///
/// # Errors
/// When the disk is full or the folder cannot be written.
pub fn folders(tree: &Path) -> Result<()> {
    for (path, mode) in FOLDERS {
        let path = tree.join(path);
        std::fs::create_dir_all(&path).context(|| format!("cannot make {}", path.display()))?;
        let set = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode));
        set.context(|| format!("cannot set the permissions of {}", path.display()))?;
    }
    for (link, to) in LINKS {
        symlink(to, tree.join(link)).context(|| format!("cannot make the link {link}"))?;
    }
    Ok(())
}

/// Makes the files that no package brought.
///
/// # Errors
/// When the disk is full or the folder cannot be written.
pub fn files(tree: &Path) -> Result<()> {
    for (path, text) in FILES {
        let path = tree.join(path);
        if !path.exists() {
            std::fs::write(&path, text).context(|| format!("cannot write {}", path.display()))?;
        }
    }
    busybox_links(tree)?;
    // Without the cache the loader still searches Debian's folders; it needs chroot, so it may fail where we are not root.
    if let Ok(mut ldconfig) = command::program("ldconfig") {
        let _ = command::output(ldconfig.arg("-r").arg(tree));
    }
    Ok(())
}

/// Links the tools of busybox, where it is there and no package brought the real tool.
fn busybox_links(tree: &Path) -> Result<()> {
    let busybox = tree.join("usr/bin/busybox");
    if !busybox.exists() {
        return Ok(());
    }
    let list = command::output(std::process::Command::new(&busybox).arg("--list"))?;
    for tool in list.lines().filter(|tool| !tool.is_empty() && !tool.contains('/')) {
        let (bin, sbin) = (tree.join("usr/bin").join(tool), tree.join("usr/sbin").join(tool));
        if bin.symlink_metadata().is_err() && sbin.symlink_metadata().is_err() {
            symlink("busybox", &bin).context(|| format!("cannot make the link {tool}"))?;
        }
    }
    Ok(())
}
