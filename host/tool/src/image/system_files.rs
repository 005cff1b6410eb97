//! The few files that maintainer scripts and an installer would make.

use std::path::Path;

use super::root::{Rights, Root};
use crate::{command, failure::Result};

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

/// Text files that are written if no package brought one.
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
pub fn folders(root: &Root) -> Result<()> {
    for (path, mode) in FOLDERS {
        root.folder(Path::new(path), Rights::of(*mode))?;
    }
    LINKS.iter().try_for_each(|(link, to)| root.link(Path::new(link), Path::new(to), None))
}

/// Makes the folders that every program expects and the tree lacks.
///
/// # Errors
/// When the disk is full or the folder cannot be written.
pub fn missing_folders(root: &Root) -> Result<()> {
    let is_general = |path: &str| !path.starts_with("usr/") && !path.starts_with("srv/");
    let missing = FOLDERS.iter().filter(|(path, _)| is_general(path) && !root.has(path));
    missing.into_iter().try_for_each(|(path, mode)| root.folder(Path::new(path), Rights::of(*mode)))
}

/// Makes the files that no package brought.
///
/// # Errors
/// When the disk is full or the folder cannot be written.
pub fn files(root: &Root) -> Result<()> {
    let rights = Rights::made(0o644);
    for (path, text) in FILES.iter().filter(|(path, _)| !root.has(path)) {
        root.file(Path::new(path), rights, &mut text.as_bytes())?;
    }
    busybox_links(root)
}

/// Makes the loader's cache, as the script of libc-bin would.
///
/// # Errors
/// If the cache that `ldconfig` makes for itself cannot be removed: it has numbers of the host's inodes, which differ each time.
pub fn loader_cache(root: &Root) -> Result<()> {
    // Without the cache the loader still searches Debian's folders. Only root can make this folder the root of ldconfig: it would follow the host's links.
    if let Ok(mut ldconfig) = command::program("ldconfig")
        && nix::unistd::geteuid().is_root()
    {
        let _ = command::output(ldconfig.arg("-r").arg(root.path()));
    }
    if root.has("etc/ld.so.cache") {
        root.settle_age("etc/ld.so.cache")?;
    }
    root.remove(Path::new("var/cache/ldconfig/aux-cache"))
}

/// Links the tools of busybox, if it is there and no package brought the real tool.
fn busybox_links(root: &Root) -> Result<()> {
    if !root.has("usr/bin/busybox") {
        return Ok(());
    }
    for tool in tools(&root.read("usr/bin/busybox")?) {
        let bin = format!("usr/bin/{tool}");
        if !root.holds(&bin) && !root.holds(&format!("usr/sbin/{tool}")) {
            root.link(Path::new(&bin), Path::new("busybox"), None)?;
        }
    }
    Ok(())
}

/// How the names of the tools begin in a busybox: each ends with a zero, and they are in order (busybox's applet_tables.h).
const FIRST_TOOLS: &[u8] = b"[\0[[\0";

/// Returns the names of the tools in a busybox. It is read and not asked: a program of a package does not run on the host.
fn tools(busybox: &[u8]) -> Vec<String> {
    let begin = busybox.windows(FIRST_TOOLS.len()).position(|window| window == FIRST_TOOLS);
    let names = begin.and_then(|at| busybox.get(at..)).unwrap_or_default().split(|byte| *byte == 0);
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    let mut found: Vec<String> = vec![];
    for name in names.map_while(|name| std::str::from_utf8(name).ok().filter(is_name)) {
        if found.last().is_some_and(|last| last.as_str() >= name) {
            break;
        }
        found.push(name.to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_a_busybox_are_read_from_it() {
        assert_eq!(tools(b"ELF..[\0[[\0acpid\0wc\0yes\0zcat\0\0other\0"), ["[", "[[", "acpid", "wc", "yes", "zcat"]);
        assert_eq!(tools(b"[\0[[\0b\0a\0"), ["[", "[[", "b"], "they are in order");
        assert!(tools(b"no busybox").is_empty());
    }
}
