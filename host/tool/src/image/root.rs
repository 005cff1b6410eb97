//! The folder that becomes an image, as its own root: its links never lead a read, a write or a removal outside of it.
//!
//! Each path is resolved by the host's kernel with `RESOLVE_IN_ROOT` (openat2(2)): absolute links and `..` begin and
//! end at this folder. The last name of a path is never followed: what is there is replaced.
//!
//! * [`Root::make`] makes the folder, [`Root::open`] takes one that is there. All other functions take paths within
//!   it.
//! * Functions that make a thing make missing folders on the way, also behind a link that leads to a missing one.
//! * Rights are given to the open file, the owner first: a change of the owner clears setuid.
//! * A removal goes by the number of the folder that was resolved, so a rename meanwhile cannot lead it elsewhere.
//!
//! Errors name the path as it is in the image and say what helps. Layers of images from strangers go through here.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::FileExt as _},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid},
    io::Errno,
};

use super::ages::MADE_S;
use crate::failure::{Failure, Result};

/// Links that are followed on the way to one folder, as in Linux (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// The unit in which zeros become holes.
const BLOCK_BYTES: usize = 64 << 10;
/// The mode of folders that a path needs and that have no description.
const FOLDER_MODE: u32 = 0o755;

/// A folder as the root of all paths.
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
}

/// Writes all of a source; whole blocks of zeros become holes, which take no room on the host.
fn copy_with_holes(contents: &mut impl Read, file: &mut File) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut length = 0u64;
    loop {
        let mut held = 0;
        // A source may give less at once than is wanted.
        while held < block.len() {
            match contents.read(&mut block[held..])? {
                0 => break,
                count => held += count,
            }
        }
        if block[..held].iter().any(|byte| *byte != 0) {
            file.write_all_at(&block[..held], length)?;
        }
        length += held as u64;
        if held < block.len() {
            return file.set_len(length);
        }
    }
}

/// Rights, owner and age of what is made.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Permission bits.
    pub mode: u32,
    /// User and group; the maker's if there are none.
    pub owner: Option<(u32, u32)>,
    /// Seconds since 1970 at which a file was changed; now, if there are none.
    pub changed_s: Option<i64>,
}

impl Rights {
    /// Makes rights of permission bits, with the maker as owner, and the present time.
    pub fn of(mode: u32) -> Self {
        Self { mode, owner: None, changed_s: None }
    }

    /// Makes rights as [`Rights::of`] does, for a file that is made with the image: its age is not of this moment.
    pub fn made(mode: u32) -> Self {
        Self { changed_s: Some(MADE_S), ..Self::of(mode) }
    }
}

impl Root {
    /// Makes a folder and opens it.
    ///
    /// # Errors
    /// When it is there already, or cannot be made.
    pub fn make(path: &Path) -> Result<Self> {
        std::fs::create_dir(path).map_err(|error| failed("make", path, &error))?;
        Self::open(path)
    }

    /// Opens a folder that is there.
    ///
    /// # Errors
    /// When it is none.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(CWD, path, flags, Mode::empty());
        let folder = opened.map_err(|error| failed("open", path, &error.into()))?;
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Returns its path on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether there is something, behind links of this root too.
    pub fn has(&self, path: &str) -> bool {
        self.resolve(Path::new(path), OFlags::PATH).is_ok()
    }

    /// Returns whether there is such a name, be it a link that leads nowhere.
    pub fn holds(&self, path: &str) -> bool {
        self.resolve(Path::new(path), OFlags::PATH | OFlags::NOFOLLOW).is_ok()
    }

    /// Reads a file, behind links of this root too.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut bytes = vec![];
        let opened = self.resolve(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK);
        let read = opened.map_err(io::Error::from).and_then(|file| File::from(file).read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(|error| self.failed("read", Path::new(path), &error))
    }

    /// Makes a folder and those above it. One that is there stays, as does a link to one; anything else that is there is replaced.
    ///
    /// # Errors
    /// When it cannot be made, or the path climbs.
    pub fn folder(&self, path: &Path, rights: Rights) -> Result<()> {
        let Some((parent, name)) = self.place(path)? else { return Ok(()) };
        let done = match fs::openat(&parent, &name, OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(folder) => give(&folder, rights),
            Err(_) if self.resolve(path, OFlags::PATH | OFlags::DIRECTORY).is_ok() => Ok(()),
            Err(_) => clear(&parent, &name).and_then(|()| {
                fs::mkdirat(&parent, &name, Mode::from_raw_mode(FOLDER_MODE))?;
                give(&fs::openat(&parent, &name, OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?, rights)
            }),
        };
        done.map_err(|error| self.failed("make", path, &error.into()))
    }

    /// Writes a file in place of what was there.
    ///
    /// # Errors
    /// When it cannot be written, a folder is there, or the path climbs.
    pub fn file(&self, path: &Path, rights: Rights, contents: &mut impl Read) -> Result<()> {
        let (parent, name) = self.place(path)?.ok_or_else(|| self.no_file(path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = clear(&parent, &name).and_then(|()| fs::openat(&parent, &name, flags, Mode::RUSR | Mode::WUSR));
        let written = made.map_err(io::Error::from).and_then(|file| {
            let mut file = File::from(file);
            copy_with_holes(contents, &mut file)?;
            give(&file, rights)?;
            Ok(rights.changed_s.map_or(Ok(()), |seconds| date(&file, seconds))?)
        });
        written.map_err(|error| self.failed("write", path, &error))
    }

    /// Makes a symbolic link in place of what was there; `to` is kept as it is written.
    ///
    /// # Errors
    /// As [`Root::file`].
    pub fn link(&self, path: &Path, to: &Path, owner: Option<(u32, u32)>) -> Result<()> {
        let (parent, name) = self.place(path)?.ok_or_else(|| self.no_file(path))?;
        let made = clear(&parent, &name).and_then(|()| fs::symlinkat(to, &parent, &name));
        let owned = made.and_then(|()| match owner {
            Some((user, group)) => {
                let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
                fs::chownat(&parent, &name, user, group, AtFlags::SYMLINK_NOFOLLOW)
            }
            None => Ok(()),
        });
        owned.map_err(|error| self.failed("make the link", path, &error.into()))
    }

    /// Makes a second name for a file of this root, in place of what was there.
    ///
    /// # Errors
    /// When there is no such file; as [`Root::file`].
    pub fn second_name(&self, path: &Path, of: &Path) -> Result<()> {
        let (from, old) = self.place(of)?.ok_or_else(|| self.no_file(of))?;
        let (parent, name) = self.place(path)?.ok_or_else(|| self.no_file(path))?;
        let made = clear(&parent, &name).and_then(|()| fs::linkat(&from, &old, &parent, &name, AtFlags::empty()));
        made.map_err(|error| self.failed("make the name", path, &error.into()))
    }

    /// Opens a file for reading, behind links of this root too.
    ///
    /// # Errors
    /// When there is none.
    pub fn open_file(&self, path: &str) -> Result<File> {
        let opened = self.resolve(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK);
        opened.map(File::from).map_err(|error| self.failed("read", Path::new(path), &error.into()))
    }

    /// Gives a file that another program has made the age of what is made with the image.
    ///
    /// # Errors
    /// As [`Root::open_file`].
    pub fn settle_age(&self, path: &str) -> Result<()> {
        let settled = date(&self.open_file(path)?, MADE_S);
        settled.map_err(|error| self.failed("settle the age of", Path::new(path), &error.into()))
    }

    /// Returns whether a name is that of a folder, not of a link to one.
    pub fn is_plain_folder(&self, path: &Path) -> bool {
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW).is_ok()
    }

    /// Removes a name, and all below it if it is that of a folder. One that is not there is as good.
    ///
    /// # Errors
    /// When it cannot be removed, or the path climbs.
    pub fn remove(&self, path: &Path) -> Result<()> {
        if self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW).is_err() {
            return Ok(());
        }
        let Some((parent, name)) = self.place(path)? else { return Ok(()) };
        // By its number the folder is the one that was resolved; the standard library follows no link below it.
        let there = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(&name);
        let removed = match self.is_plain_folder(path) {
            true => std::fs::remove_dir_all(&there),
            false => std::fs::remove_file(&there),
        };
        removed.map_err(|error| self.failed("remove", path, &error))
    }

    /// Removes all below a folder.
    ///
    /// # Errors
    /// As [`Root::remove`].
    pub fn remove_below(&self, path: &Path) -> Result<()> {
        let Ok(folder) = self.resolve(path, OFlags::PATH | OFlags::DIRECTORY) else { return Ok(()) };
        let listed = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let cannot = |error: io::Error| self.failed("read", path, &error);
        for entry in listed.map_err(cannot)? {
            self.remove(&path.join(entry.map_err(cannot)?.file_name()))?;
        }
        Ok(())
    }

    /// Makes a device, a pipe or a socket in place of what was there.
    ///
    /// # Errors
    /// If the host does not allow it; like [`Root::file`].
    pub fn special(&self, path: &Path, kind: FileType, rights: Rights, device: Dev) -> Result<()> {
        let (parent, name) = self.place(path)?.ok_or_else(|| self.no_file(path))?;
        let mode = Mode::from_raw_mode(rights.mode);
        let made = clear(&parent, &name).and_then(|()| fs::mknodat(&parent, &name, kind, mode, device));
        made.map_err(|error| self.failed("make the device", path, &error.into()))
    }

    /// Opens the folder of a path's last name and makes it if it is missing; `None` for the root itself.
    fn place(&self, path: &Path) -> Result<Option<(OwnedFd, OsString)>> {
        let mut names: Vec<&OsStr> = vec![];
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(Failure::new(format!("`{}` is not a path in an image", path.display())));
                }
            }
        }
        let Some(last) = names.pop() else { return Ok(None) };
        let parent: PathBuf = names.iter().collect();
        let opened = self.opened_or_made(&parent).map_err(|error| self.failed("make", &parent, &error.into()))?;
        Ok(Some((opened, last.to_owned())))
    }

    /// Opens a folder. Missing folders on the way are made, also if a link leads to a missing one.
    fn opened_or_made(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let mut rest = path.to_owned();
        for _ in 0..LINKS_MAX {
            match self.resolve(&rest, OFlags::PATH | OFlags::DIRECTORY) {
                Err(Errno::NOENT) => {}
                resolved => return resolved,
            }
            if let Some(other) = self.make_missing(&rest)? {
                rest = other;
            }
        }
        Err(Errno::LOOP)
    }

    /// Makes the folders of a path, up to the first link that leads nowhere; answers the path with what that link says in its place.
    fn make_missing(&self, path: &Path) -> Result<Option<PathBuf>, Errno> {
        let mut done = PathBuf::new();
        let parts: Vec<Component> = path.components().collect();
        for (at, part) in parts.iter().enumerate() {
            let above = self.resolve(&done, OFlags::PATH | OFlags::DIRECTORY)?;
            let next = done.join(part);
            match self.resolve(&next, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(_) => {}
                Err(Errno::NOENT) => match fs::mkdirat(&above, part.as_os_str(), Mode::from_raw_mode(FOLDER_MODE)) {
                    Ok(()) => {}
                    Err(Errno::EXIST) => {
                        let target = fs::readlinkat(&above, part.as_os_str(), vec![])?;
                        let target = done.join(OsStr::from_bytes(target.as_bytes()));
                        return Ok(Some(parts.iter().skip(at + 1).fold(target, |path, part| path.join(part))));
                    }
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
            done = next;
        }
        Ok(None)
    }

    /// Opens what a path leads to, with this folder as the root.
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        loop {
            // EAGAIN: something was renamed meanwhile, and the kernel cannot tell whether `..` stays inside (openat2(2)).
            match fs::openat2(self.folder.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
    }

    fn failed(&self, what: &str, path: &Path, error: &io::Error) -> Failure {
        let help = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ISDIR | Errno::EXIST) => Some("a folder of that name is in the image already"),
            Some(Errno::NOTDIR) => Some("something on the way to it is a file, not a folder"),
            Some(Errno::LOOP) => Some("links on the way to it lead in a circle"),
            Some(Errno::NOSYS) => Some("images are made with openat2, which Linux has since 5.6"),
            Some(Errno::NOSPC) => Some("the host's disk is full"),
            _ => None,
        };
        let shown = Path::new("/").join(path);
        let message = format!("cannot {what} {} in the image: {error}", shown.display());
        help.map_or_else(|| Failure::new(message.clone()), |help| Failure::with_help(message.clone(), help))
    }

    fn no_file(&self, path: &Path) -> Failure {
        Failure::new(format!("`{}` is not a path of a file in an image", path.display()))
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {what} the folder {}: {error}", path.display()))
}

/// Removes a name that is there, unless it is a folder.
fn clear(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Gives an open file its owner, then its permissions: a change of the owner takes setuid away.
fn give(file: &impl std::os::fd::AsFd, rights: Rights) -> Result<(), Errno> {
    if let Some((user, group)) = rights.owner {
        fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
    }
    fs::fchmod(file, Mode::from_raw_mode(rights.mode & 0o7777))
}

/// Sets when an open file was read and changed last.
fn date(file: &File, seconds: i64) -> Result<(), Errno> {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    fs::futimens(file, &Timestamps { last_access: time, last_modification: time })
}

#[cfg(test)]
mod tests;
