//! open, openat, openat2, creat.
//!
//! All become a [`Wish`] (checked flags and mode). A wish without O_CREAT is first tried on names in memory
//! ([`Opening`]), else by a walk; a missing last name is created, and an existing node is opened by its kind: a
//! regular file, directory, device, named pipe, or terminal.
//!
//! A node may go between the walk and its opening; the whole attempt is repeated then
//! ([`crate::file::walk::retry_stale`]). Opening a named pipe may wait for the other side. Links under /proc/self/fd
//! reopen the object itself.
//!
//! openat2 checks its structure; resolve flags are refused (EOPNOTSUPP), so that callers fall back to openat.

use super::{answer, install};
use crate::credentials::Capability;
use crate::file::attributes::{major, minor};
use crate::file::buffer::word;
use crate::file::context::FileContext;
use crate::file::device::device_of_number;
use crate::file::filesystem::FileSystem;
use crate::file::mapped;
use crate::file::memory_file::MemoryFile;
use crate::file::near::{self, ShortPath};
use crate::file::object::Object;
use crate::file::open_file::{Location, OpenFile};
use crate::file::permission::{Asker, EXECUTE, READ, WRITE};
use crate::file::pipe::Side;
use crate::file::proc::Looker;
use crate::file::proc::secret::Secret;
use crate::file::regular;
use crate::file::tenant_files::TenantFiles;
use crate::file::terminal::{TerminalEnd, TerminalSide};
use crate::file::terminal_nodes;
use crate::file::walk::{Found, LastLink, Walked};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{AttributeChange, Attributes, NewNode, NodeKind};
use gyre_interface::near::Near;
use linux_raw_sys::general as raw;

/// The checked meaning of open's flags.
#[derive(Clone, Copy)]
struct Wish {
    flags: u32,
    mode: u32,
}

impl Wish {
    fn has(self, flag: u32) -> bool {
        self.flags & flag == flag
    }

    fn is_path_only(self) -> bool {
        self.has(raw::O_PATH)
    }

    fn writes(self) -> bool {
        !self.is_path_only() && self.flags & raw::O_ACCMODE != raw::O_RDONLY
    }

    fn truncates(self) -> bool {
        !self.is_path_only() && self.has(raw::O_TRUNC)
    }

    /// Returns the rights that an existing node must give.
    fn rights(self) -> u16 {
        let rights = match self.flags & raw::O_ACCMODE {
            _ if self.is_path_only() => 0,
            raw::O_RDONLY => READ,
            raw::O_WRONLY => WRITE,
            _ => READ | WRITE,
        };
        rights | if self.truncates() { WRITE } else { 0 }
    }

    fn last_link(self) -> LastLink {
        let exclusive = self.has(raw::O_CREAT | raw::O_EXCL);
        if exclusive || self.has(raw::O_NOFOLLOW) { LastLink::Keep } else { LastLink::Follow }
    }
}

/// `open(path, flags, mode)`.
pub async fn open(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    open_at(thread, raw::AT_FDCWD, a.word(0), a.unsigned(1), a.unsigned(2)).await
}

/// `creat(path, mode)`.
pub async fn creat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = raw::O_CREAT | raw::O_WRONLY | raw::O_TRUNC;
    open_at(thread, raw::AT_FDCWD, a.word(0), flags, a.unsigned(1)).await
}

/// `openat(directory, path, flags, mode)`.
pub async fn openat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    open_at(thread, a.int(0), a.word(1), a.unsigned(2), a.unsigned(3)).await
}

/// `openat2(directory, path, how, bytes)`: flags and mode; restrictions of the walk answer EOPNOTSUPP, so that callers fall back.
pub async fn openat2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(3) < 24 {
        return Err(Errno::EINVAL);
    }
    if a.size(3) > 4096 {
        return Err(Errno::E2BIG);
    }
    let how = thread.read_vec(a.word(2), a.size(3)).await?;
    if how.iter().skip(24).any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    let flags = u32::try_from(word(&how, 0)).map_err(|_| Errno::EINVAL)?;
    let mode = u32::try_from(word(&how, 8)).ok().filter(|mode| mode & !0o7777 == 0);
    if word(&how, 16) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    open_at(thread, a.int(0), a.word(1), flags, mode.ok_or(Errno::EINVAL)?).await
}

async fn open_at(thread: &Arc<Thread>, directory: i32, path: u64, flags: u32, mode: u32) -> Outcome {
    let path = thread.read_path(path).await?;
    let file = open_path(thread, directory, &path, flags, mode).await?;
    answer(install(thread, file, flags & raw::O_CLOEXEC != 0)?)
}

/// `open` of a file or directory that is in memory, without making or changing one.
pub fn open_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    open_near(thread, raw::AT_FDCWD, a.word(0), a.unsigned(1))
}

/// `openat` of the same.
pub fn openat_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    open_near(thread, a.int(0), a.word(1), a.unsigned(2))
}

fn open_near(thread: &Thread, directory: i32, path: u64, flags: u32) -> Option<Outcome> {
    let wish = Wish { flags, mode: 0 };
    let elsewhere = raw::O_TRUNC | raw::O_CREAT | raw::O_PATH | (raw::O_TMPFILE & !raw::O_DIRECTORY);
    if flags & elsewhere != 0 || flags & raw::O_ACCMODE == raw::O_ACCMODE {
        return None;
    }
    let path = ShortPath::read(thread, path)?;
    let (context, asker) = (thread.process().files(), Asker::of(thread));
    let opening = Opening { wish, asker: &asker };
    let found = match near::walk(&context, &asker, directory, path.as_slice(), wish.last_link(), &opening)? {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let Some(shown) = near::shown_path(&context, directory, path.as_slice()) else {
        // Its directory was closed meanwhile.
        regular::close(found.place);
        return None;
    };
    let is_directory = found.attributes.kind == NodeKind::Directory;
    let object = if is_directory { Object::Directory } else { Object::Regular };
    let location = Location { place: found.place.clone(), path: shown };
    let file = match OpenFile::by_name(context.tenant(), object, flags, location) {
        Ok(file) => file,
        Err(error) => {
            regular::close(found.place);
            return Some(Err(error));
        }
    };
    file.losses.begin(&found.attributes);
    file.tell(raw::IN_OPEN);
    Some(install(thread, file, flags & raw::O_CLOEXEC != 0).and_then(answer))
}

/// Opens the node that a walk in memory has found.
struct Opening<'a> {
    wish: Wish,
    asker: &'a Asker,
}

impl near::Last for Opening<'_> {
    fn reached(&self, near: &'static dyn Near, found: Attributes) -> Option<Result<Attributes, Errno>> {
        if !matches!(found.kind, NodeKind::File | NodeKind::Directory) {
            return None;
        }
        let may = check_kind(&found, self.wish).and_then(|()| self.asker.check(&found, self.wish.rights()));
        if let Err(error) = may {
            return Some(Err(error));
        }
        Some(Ok(near.open(found.node)?.ok()?))
    }
}

/// Opens a path.
///
/// # Errors
/// Those of open(2).
pub async fn open_path(
    thread: &Thread,
    directory: i32,
    path: &[u8],
    flags: u32,
    mode: u32,
) -> Result<Arc<OpenFile>, Errno> {
    let wish = Wish { flags, mode: mode & 0o7777 };
    if wish.has(raw::O_TMPFILE) && !wish.is_path_only() {
        return open_nameless(thread, directory, path, wish).await;
    }
    if !wish.is_path_only() && flags & raw::O_ACCMODE == raw::O_ACCMODE {
        return Err(Errno::EINVAL);
    }
    let context = thread.process().files();
    loop {
        let mut walked = context.walk(thread, directory, path, wish.last_link()).await?;
        if let Some(file) = walked.open_file.take() {
            return reopen(thread, &file, wish).await;
        }
        if walked.target.is_none() && wish.has(raw::O_CREAT) && !wish.is_path_only() {
            match create(thread, &context, walked, wish).await {
                Err(Errno::EEXIST) if !wish.has(raw::O_EXCL) => continue,
                outcome => return outcome,
            }
        }
        return open_existing(thread, &context, walked, wish).await;
    }
}

async fn create(thread: &Thread, context: &FileContext, walked: Walked, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    if walked.wants_directory {
        return Err(Errno::EISDIR);
    }
    // No file is made that no descriptor could have.
    context.table().check_room(thread.process().limit(raw::RLIMIT_NOFILE))?;
    let asker = Asker::of(thread);
    asker.check(&walked.parent.attributes, WRITE | EXECUTE)?;
    let mode = (wish.mode & !context.mask()) as u16;
    let new = new_node(&asker, &walked.parent, NodeKind::File, mode);
    let parent = &walked.parent.place;
    let attributes = parent.system().create(parent.node, walked.name.clone(), new).await?;
    let place = crate::file::mount::Place { mount: parent.mount.clone(), node: attributes.node };
    let found = Found { place, attributes, path: walked.new_path() };
    super::names::tell_of_name(thread, &walked, raw::IN_CREATE, 0);
    // A new file has nothing to cut off.
    open_node(thread, context, found, Wish { flags: wish.flags & !raw::O_TRUNC, ..wish }).await
}

/// Opens a file without a name in the file system of a directory (O_TMPFILE); `linkat` may give it one.
async fn open_nameless(thread: &Thread, directory: i32, path: &[u8], wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    if !wish.writes() || wish.flags & raw::O_ACCMODE == raw::O_ACCMODE || wish.has(raw::O_CREAT) {
        return Err(Errno::EINVAL);
    }
    let context = thread.process().files();
    let found = context.walk(thread, directory, path, LastLink::Follow).await?.existing()?;
    if found.attributes.kind != NodeKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let asker = Asker::of(thread);
    asker.check(&found.attributes, WRITE | EXECUTE)?;
    let new = new_node(&asker, &found, NodeKind::File, (wish.mode & !context.mask()) as u16);
    let parent = &found.place;
    let attributes = parent.system().create_nameless(parent.node, new).await?;
    let place = crate::file::mount::Place { mount: parent.mount.clone(), node: attributes.node };
    let shown = alloc::format!("/#{} (deleted)", attributes.number).into_bytes();
    let location = Location { place: place.clone(), path: [&found.path[..], &shown].concat() };
    let flags = wish.flags & !raw::O_DIRECTORY;
    OpenFile::by_name(context.tenant(), Object::Regular, flags, location).inspect_err(|_| regular::close(place))
}

/// Returns a node that `asker` makes in `parent`: the group comes from a directory with the set-group-id bit.
pub(super) fn new_node(asker: &Asker, parent: &Found, kind: NodeKind, mode: u16) -> NewNode {
    let inherits = parent.attributes.mode & 0o2000 != 0;
    let passes_on = inherits && kind == NodeKind::Directory;
    NewNode {
        kind,
        mode: mode | if passes_on { 0o2000 } else { 0 },
        user: asker.user,
        group: if inherits { parent.attributes.group } else { asker.group },
        target: Vec::new(),
        device: 0,
    }
}

async fn open_existing(
    thread: &Thread,
    context: &FileContext,
    walked: Walked,
    wish: Wish,
) -> Result<Arc<OpenFile>, Errno> {
    if wish.has(raw::O_CREAT | raw::O_EXCL) && walked.target.is_some() && !wish.is_path_only() {
        return Err(Errno::EEXIST);
    }
    let found = walked.existing()?;
    check_kind(&found.attributes, wish)?;
    found.check(&Asker::of(thread), Looker::Thread(thread), wish.rights())?;
    if wish.is_path_only() {
        return name_only(context, found, wish);
    }
    if let FileSystem::Proc(proc) = found.place.system()
        && let Some(secret) = proc.secret(found.place.node, Looker::Thread(thread))?
    {
        return open_secret(context, found, secret, wish);
    }
    match found.attributes.kind {
        NodeKind::File | NodeKind::Directory => open_node(thread, context, found, wish).await,
        NodeKind::CharacterDevice => open_device(thread, context, found, wish).await,
        NodeKind::Pipe => open_fifo(thread, context, found, wish).await,
        NodeKind::Socket | NodeKind::BlockDevice => Err(Errno::ENXIO),
        NodeKind::SymbolicLink => Err(Errno::ELOOP),
    }
}

/// Opens what a file of /proc tells of a process.
fn open_secret(context: &FileContext, found: Found, secret: Secret, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    let object = Object::Memory(MemoryFile::new(secret));
    let file = OpenFile::new(context.tenant(), object, wish.flags, location(found))?;
    file.tell(raw::IN_OPEN);
    Ok(file)
}

fn check_kind(found: &Attributes, wish: Wish) -> Result<(), Errno> {
    let is_directory = found.kind == NodeKind::Directory;
    if found.kind == NodeKind::SymbolicLink && !wish.is_path_only() {
        return Err(Errno::ELOOP);
    }
    if wish.has(raw::O_DIRECTORY) && !is_directory {
        return Err(Errno::ENOTDIR);
    }
    let writes = wish.writes() || wish.has(raw::O_CREAT) || wish.truncates();
    if is_directory && writes && !wish.is_path_only() {
        return Err(Errno::EISDIR);
    }
    Ok(())
}

fn location(found: Found) -> Option<Location> {
    Some(Location { place: found.place, path: found.path })
}

fn name_only(context: &FileContext, found: Found, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    let object = if found.attributes.kind == NodeKind::Directory { Object::Directory } else { Object::Name };
    OpenFile::new(context.tenant(), object, wish.flags, location(found))
}

/// Opens a regular file or a directory at its server.
async fn open_node(thread: &Thread, context: &FileContext, found: Found, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    let place = found.place.clone();
    let opened = found.open().await?;
    let object = if found.attributes.kind == NodeKind::Directory { Object::Directory } else { Object::Regular };
    let location = Location { place: found.place, path: found.path };
    let file = match OpenFile::by_name(context.tenant(), object, wish.flags, location) {
        Err(error) => {
            regular::close(place);
            return Err(error);
        }
        Ok(file) => file,
    };
    file.losses.begin(&opened);
    if wish.truncates() {
        // Also if it is open for reading only.
        let _written = context.tenant().contents.write(&place)?;
        let change = AttributeChange { size_bytes: Some(0), ..AttributeChange::default() };
        place.system().set_attributes(place.node, change).await?;
        mapped::shortened(thread, &place, 0).await;
        file.tell(raw::IN_MODIFY);
    }
    file.tell(raw::IN_OPEN);
    Ok(file)
}

async fn open_device(thread: &Thread, context: &FileContext, found: Found, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    let number = found.attributes.device;
    let tenant = context.tenant();
    let object = match device_of_number(number) {
        Some(device) => Object::Device(device),
        None => match (major(number), minor(number)) {
            (5, 0) => {
                let terminal = tenant.terminal_of_session(thread.session()).ok_or(Errno::ENXIO)?;
                Object::Terminal(terminal.end(TerminalSide::Slave))
            }
            (5, 1) => Object::Terminal(tenant.console.end(TerminalSide::Slave)),
            (5, 2) => Object::Terminal(new_terminal(thread, tenant).await?),
            (136, number) => {
                let terminal = tenant.terminal(number).ok_or(Errno::ENXIO)?;
                if terminal.is_locked() || terminal.is_hung_up() {
                    return Err(Errno::EIO);
                }
                Object::Terminal(terminal.end(TerminalSide::Slave))
            }
            _ => return Err(Errno::ENXIO),
        },
    };
    if let Object::Terminal(end) = &object
        && end.side() == TerminalSide::Slave
        && end.terminal().is_exclusive()
        && !Asker::of(thread).has(Capability::SysAdmin)
    {
        return Err(Errno::EBUSY);
    }
    if let Object::Terminal(end) = &object
        && !wish.has(raw::O_NOCTTY)
        && end.side() == TerminalSide::Slave
    {
        thread.adopt_terminal(end.terminal());
    }
    OpenFile::new(tenant, object, wish.flags, location(found))
}

/// Makes a pseudo-terminal, whose slave belongs to the caller's user and group tty (pts(4)).
async fn new_terminal(thread: &Thread, tenant: &Arc<TenantFiles>) -> Result<TerminalEnd, Errno> {
    let terminal = tenant.new_terminal()?;
    if let Some(number) = terminal.number {
        terminal_nodes::add(tenant, number, &Asker::of(thread)).await?;
    }
    Ok(terminal.end(TerminalSide::Master))
}

/// Opens an end of a named pipe; waits for the other end, but with O_NONBLOCK (fifo(7)).
async fn open_fifo(thread: &Thread, context: &FileContext, found: Found, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    let side = match wish.flags & raw::O_ACCMODE {
        raw::O_RDONLY => Side::Read,
        raw::O_WRONLY => Side::Write,
        _ => Side::Both,
    };
    let pipe = context.tenant().fifo(found.place.key());
    let nonblocking = wish.has(raw::O_NONBLOCK);
    if side == Side::Write && nonblocking && pipe.ends().0 == 0 {
        return Err(Errno::ENXIO);
    }
    let (end, partner) = pipe.open(side);
    let file = OpenFile::new(context.tenant(), Object::Pipe(end), wish.flags, location(found))?;
    if let Some(partner) = partner.filter(|_| !nonblocking) {
        thread.interruptible(pipe.partner(partner)).await?;
    }
    Ok(file)
}

/// Opens again the object of a link under /proc/self/fd without a place: the same pipe or terminal, another
/// description.
async fn reopen(thread: &Thread, file: &Arc<OpenFile>, wish: Wish) -> Result<Arc<OpenFile>, Errno> {
    let context = thread.process().files();
    let object = match file.object() {
        Object::Terminal(end) => Object::Terminal(end.terminal().end(end.side())),
        Object::Pipe(end) => {
            let side = match wish.flags & raw::O_ACCMODE {
                raw::O_RDONLY => Side::Read,
                raw::O_WRONLY => Side::Write,
                _ => Side::Both,
            };
            Object::Pipe(end.pipe().end(side))
        }
        Object::Device(device) => Object::Device(*device),
        _ => return Err(Errno::ENXIO),
    };
    OpenFile::new(context.tenant(), object, wish.flags, None)
}
