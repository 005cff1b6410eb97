//! Paths.

use super::world::{run, run_on};
use crate::Errno;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_interface::files::{NodeId, RenameMode, files};
use gyre_message::direct::direct_link;
use gyre_tmpfs::{Limits, Tmpfs};
use linux_raw_sys::general as raw;
use std::boxed::Box;
use std::format;
use std::string::String;

const STAT: u64 = 4;
const LSTAT: u64 = 6;
const MKDIR: u64 = 83;
const RMDIR: u64 = 84;
const UNLINK: u64 = 87;
const CHDIR: u64 = 80;
const OPEN: u64 = 2;
const CHMOD: u64 = 90;
const RENAME: u64 = 82;

/// `symlink(target, path)`.
async fn symlink(user: &super::world::User, target: &str, path: &str) {
    let path = user.text(path).await;
    user.with_path(88, target, &[path]).await.unwrap();
}

#[test]
fn a_table_of_paths_leads_where_linux_leads() {
    run(|user| async move {
        user.with_path(MKDIR, "/d", &[0o755]).await.unwrap();
        user.with_path(MKDIR, "/d/e", &[0o755]).await.unwrap();
        user.file("/d/f", b"1").await;
        symlink(&user, "f", "/d/link").await;
        symlink(&user, "/d", "/abs").await;
        symlink(&user, "nowhere", "/d/dangling").await;
        symlink(&user, "loop", "/d/loop").await;
        symlink(&user, "e/../link", "/d/chain").await;
        let out = user.room(144);
        for (number, path, expected) in [
            (STAT, "/d/f", Ok(0)),
            (STAT, "/d//f", Ok(0)),
            (STAT, "/d/./f", Ok(0)),
            (STAT, "/d/e/../f", Ok(0)),
            (STAT, "/../../d/f", Ok(0)),
            (STAT, "/d/link", Ok(0)),
            (STAT, "/d/chain", Ok(0)),
            (STAT, "/abs/link", Ok(0)),
            (STAT, "/abs/", Ok(0)),
            (STAT, "d/f", Ok(0)),
            (STAT, "", Err(Errno::ENOENT)),
            (STAT, "/d/f/", Err(Errno::ENOTDIR)),
            (STAT, "/d/f/.", Err(Errno::ENOTDIR)),
            (STAT, "/d/f/..", Err(Errno::ENOTDIR)),
            (STAT, "/d/link/", Err(Errno::ENOTDIR)),
            (STAT, "/d/none", Err(Errno::ENOENT)),
            (STAT, "/d/none/x", Err(Errno::ENOENT)),
            (STAT, "/d/dangling", Err(Errno::ENOENT)),
            (LSTAT, "/d/dangling", Ok(0)),
            (STAT, "/d/loop", Err(Errno::ELOOP)),
            (LSTAT, "/d/loop", Ok(0)),
            (LSTAT, "/d/loop/", Err(Errno::ELOOP)),
            (STAT, "/dev/null", Ok(0)),
            (STAT, "/dev/../d/f", Ok(0)),
            (STAT, "/proc/self/stat", Ok(0)),
        ] {
            assert_eq!(user.with_path(number, path, &[out]).await, expected, "{path}");
        }
        let long = format!("/{}", "x".repeat(256));
        assert_eq!(user.with_path(STAT, &long, &[out]).await, Err(Errno::ENAMETOOLONG));
        let longer: String = "/d/..".repeat(900);
        assert_eq!(user.with_path(STAT, &longer, &[out]).await, Err(Errno::ENAMETOOLONG));
        assert_eq!(user.call(STAT, &[8, out]).await, Err(Errno::EFAULT));
    });
}

#[test]
fn forty_links_are_followed_and_no_more() {
    run(|user| async move {
        user.file("/f0", b"").await;
        for index in 1..=41 {
            symlink(&user, &format!("f{}", index - 1), &format!("/f{index}")).await;
        }
        let out = user.room(144);
        assert_eq!(user.with_path(STAT, "/f40", &[out]).await, Ok(0));
        assert_eq!(user.with_path(STAT, "/f41", &[out]).await, Err(Errno::ELOOP));
    });
}

#[test]
fn the_current_directory_is_known_by_name_and_used() {
    run(|user| async move {
        user.with_path(MKDIR, "/d", &[0o755]).await.unwrap();
        user.with_path(MKDIR, "/d/e", &[0o755]).await.unwrap();
        user.with_path(CHDIR, "/d/e/../e", &[]).await.unwrap();
        let out = user.room(64);
        assert_eq!(user.call(79, &[out, 64]).await, Ok(5));
        assert_eq!(user.get(out, 5).await, b"/d/e\0");
        assert_eq!(user.call(79, &[out, 4]).await, Err(Errno::ERANGE));
        user.file("here", b"x").await;
        assert_eq!(user.with_path(STAT, "/d/e/here", &[user.room(144)]).await, Ok(0));
        let fd = user.open("..", raw::O_RDONLY | raw::O_DIRECTORY, 0).await.unwrap();
        user.call(81, &[fd]).await.unwrap();
        assert_eq!(user.call(79, &[out, 64]).await, Ok(3));
        assert_eq!(user.get(out, 3).await, b"/d\0");
        assert_eq!(user.with_path(CHDIR, "/dev/null", &[]).await, Err(Errno::ENOTDIR));
    });
}

#[test]
fn a_changed_root_cannot_be_left_by_dots() {
    run(|user| async move {
        user.with_path(MKDIR, "/jail", &[0o755]).await.unwrap();
        user.file("/jail/in", b"").await;
        user.file("/out", b"").await;
        user.with_path(161, "/jail", &[]).await.unwrap();
        user.with_path(CHDIR, "/", &[]).await.unwrap();
        let out = user.room(144);
        assert_eq!(user.with_path(STAT, "/in", &[out]).await, Ok(0));
        assert_eq!(user.with_path(STAT, "../../../out", &[out]).await, Err(Errno::ENOENT));
        user.become_user(1000);
        assert_eq!(user.with_path(161, "/", &[]).await, Err(Errno::EPERM));
    });
}

#[test]
fn open_flags_are_obeyed() {
    run(|user| async move {
        user.with_path(MKDIR, "/d", &[0o755]).await.unwrap();
        user.file("/f", b"data").await;
        symlink(&user, "f", "/link").await;
        symlink(&user, "made", "/to-be").await;
        for (path, flags, expected) in [
            ("/f", raw::O_CREAT | raw::O_EXCL, Errno::EEXIST),
            ("/link", raw::O_NOFOLLOW, Errno::ELOOP),
            ("/to-be", raw::O_CREAT | raw::O_EXCL, Errno::EEXIST),
            ("/f", raw::O_DIRECTORY, Errno::ENOTDIR),
            ("/d", raw::O_WRONLY, Errno::EISDIR),
            ("/d", raw::O_CREAT, Errno::EISDIR),
            ("/new/", raw::O_CREAT, Errno::EISDIR),
            ("/f/x", raw::O_CREAT | raw::O_WRONLY, Errno::ENOTDIR),
            ("/none/x", raw::O_CREAT | raw::O_WRONLY, Errno::ENOENT),
        ] {
            assert_eq!(user.open(path, flags, 0o644).await, Err(expected), "{path} {flags:o}");
        }
        let fd = user.open("/to-be", raw::O_CREAT | raw::O_WRONLY, 0o600).await.unwrap();
        assert_eq!(user.with_path(STAT, "/made", &[user.room(144)]).await, Ok(0));
        assert_eq!(user.read(fd, 1).await, Err(Errno::EBADF));
        let name = user.open("/link", raw::O_PATH | raw::O_NOFOLLOW, 0).await.unwrap();
        assert_eq!(user.read(name, 1).await, Err(Errno::EBADF));
        assert_eq!(user.call(5, &[name, user.room(144)]).await, Ok(0));
        let truncated = user.open("/f", raw::O_WRONLY | raw::O_TRUNC, 0).await.unwrap();
        assert_eq!(user.call(8, &[truncated, 0, 2]).await, Ok(0));
    });
}

#[test]
fn rights_are_checked_for_others_than_root() {
    run(|user| async move {
        user.file("/secret", b"x").await;
        user.with_path(90, "/secret", &[0o600]).await.unwrap();
        user.with_path(MKDIR, "/closed", &[0o700]).await.unwrap();
        user.file("/closed/f", b"x").await;
        user.file("/tmp/roots", b"x").await;
        user.with_path(90, "/", &[0o755]).await.unwrap();
        user.become_user(1000);
        assert_eq!(user.open("/secret", raw::O_RDONLY, 0).await, Err(Errno::EACCES));
        assert_eq!(user.open("/closed/f", raw::O_RDONLY, 0).await, Err(Errno::EACCES));
        assert_eq!(user.with_path(21, "/secret", &[4]).await, Err(Errno::EACCES));
        assert_eq!(user.with_path(21, "/secret", &[0]).await, Ok(0));
        assert_eq!(user.with_path(MKDIR, "/mine", &[0o755]).await, Err(Errno::EACCES));
        assert_eq!(user.with_path(UNLINK, "/tmp/roots", &[]).await, Err(Errno::EPERM));
        user.file("/tmp/mine", b"x").await;
        assert_eq!(user.with_path(92, "/tmp/mine", &[0, 0]).await, Err(Errno::EPERM));
        assert_eq!(user.with_path(UNLINK, "/tmp/mine", &[]).await, Ok(0));
    });
}

#[test]
fn removing_checks_kinds_and_mounts() {
    run(|user| async move {
        user.with_path(MKDIR, "/d", &[0o755]).await.unwrap();
        user.file("/d/f", b"").await;
        for (number, path, expected) in [
            (UNLINK, "/d", Errno::EISDIR),
            (RMDIR, "/d", Errno::ENOTEMPTY),
            (RMDIR, "/d/f", Errno::ENOTDIR),
            (RMDIR, "/d/.", Errno::EINVAL),
            (RMDIR, "/d/..", Errno::ENOTEMPTY),
            (RMDIR, "/", Errno::EBUSY),
            (RMDIR, "/dev", Errno::EBUSY),
            (UNLINK, "/d/f/", Errno::ENOTDIR),
            (UNLINK, "/d/none", Errno::ENOENT),
        ] {
            assert_eq!(user.with_path(number, path, &[]).await, Err(expected), "{path}");
        }
        user.with_path(UNLINK, "/d/f", &[]).await.unwrap();
        assert_eq!(user.with_path(RMDIR, "/d/", &[]).await, Ok(0));
        assert_eq!(user.with_path(MKDIR, "/e/", &[0o755]).await, Ok(0));
        assert_eq!(user.with_path(MKDIR, "/e", &[0o755]).await, Err(Errno::EEXIST));
    });
}

#[test]
fn rename_replaces_and_refuses_as_linux_does() {
    run(|user| async move {
        for directory in ["/a", "/a/b", "/empty", "/full"] {
            user.with_path(MKDIR, directory, &[0o755]).await.unwrap();
        }
        user.file("/f", b"f").await;
        user.file("/g", b"g").await;
        user.file("/full/x", b"").await;
        for (from, to, expected) in [
            ("/a", "/a/b/c", Err(Errno::EINVAL)),
            ("/a", "/full", Err(Errno::ENOTEMPTY)),
            ("/a", "/f", Err(Errno::ENOTDIR)),
            ("/f", "/a", Err(Errno::EISDIR)),
            ("/f", "/none/x", Err(Errno::ENOENT)),
            ("/none", "/x", Err(Errno::ENOENT)),
            ("/f", "/tmp/f", Err(Errno::EXDEV)),
            ("/f", "/h/", Err(Errno::ENOTDIR)),
            ("/f", "/g", Ok(0)),
            ("/a", "/empty", Ok(0)),
            ("/empty/b", "/b/", Ok(0)),
        ] {
            let to_text = user.text(to).await;
            assert_eq!(user.with_path(82, from, &[to_text]).await, expected, "{from} {to}");
        }
        let fd = user.open("/g", raw::O_RDONLY, 0).await.unwrap();
        assert_eq!(user.read(fd, 9).await, Ok(b"f".to_vec()));
    });
}

/// Returns a file system where `/fresh` is put in the place of `/a` just before `/a` is used, the first `changes` times.
fn changing(changes: u32) -> files::Client {
    let server: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(Limits { pages_max: 100, nodes_max: 100 }, 0o777)));
    let left: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(changes)));
    let root = NodeId(1);
    files::Client::new(direct_link(move |request| {
        Box::pin(async move {
            let uses = matches!(request, files::Request::open { .. } | files::Request::set_attributes { .. });
            let is_there = files::Server::lookup(server, root, b"fresh".to_vec()).await.is_ok();
            if uses && is_there && left.load(Ordering::Relaxed) > 0 {
                left.fetch_sub(1, Ordering::Relaxed);
                let (from, to) = (b"fresh".to_vec(), b"a".to_vec());
                files::Server::rename(server, root, from, root, to, RenameMode::Replace).await.unwrap();
            }
            files::serve(server, request).await;
        })
    }))
}

#[test]
fn a_name_that_changes_between_finding_and_using_it_is_looked_up_again() {
    run_on(changing(2), |user| async move {
        for (number, arguments) in [(OPEN, [0, 0]), (CHMOD, [0o604, 0])] {
            user.file("/a", b"old").await;
            user.file("/made", b"new").await;
            let to = user.text("/fresh").await;
            user.with_path(RENAME, "/made", &[to]).await.unwrap();
            let answer = user.with_path(number, "/a", &arguments).await;
            assert!(answer.is_ok(), "call {number}: {answer:?}");
            let fd = user.open("/a", raw::O_RDONLY, 0).await.unwrap();
            assert_eq!(user.read(fd, 9).await, Ok(b"new".to_vec()), "call {number}");
        }
    });
}
