//! Things that programs get that are started from outside: a terminal and a working directory (`gyre exec -it`, a tenant's own program).

use super::checkpoint::find;
use super::object::Object;
use super::open_file::{Location, OpenFile};
use super::permission::Asker;
use super::tenant_files::TenantFiles;
use super::terminal::{Terminal, TerminalSide};
use super::{FileContext, terminal_nodes};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::files::NodeKind;
use linux_raw_sys::general as raw;

/// Both ends of a new pseudo-terminal.
pub struct Pair {
    /// The terminal.
    pub terminal: Arc<Terminal>,
    /// The typist's end.
    pub master: Arc<OpenFile>,
    /// The program's end; it is the node in /dev/pts.
    pub slave: Arc<OpenFile>,
}

impl Pair {
    /// Makes a pseudo-terminal of a tenant, of so many rows and columns. Called for the machine's owner.
    ///
    /// # Errors
    /// ENOSPC and ENFILE if the tenant has too many.
    pub async fn new(files: &Arc<TenantFiles>, [rows, columns]: [u16; 2]) -> Result<Pair, Errno> {
        let terminal = files.new_terminal()?;
        let number = terminal.number.ok_or(Errno::ENOSPC)?;
        terminal_nodes::add(files, number, &Asker::owner_of_the_machine()).await?;
        terminal.set_locked(false);
        terminal.set_window([rows, columns, 0, 0]);
        let end = |side| Object::Terminal(terminal.end(side));
        let master = OpenFile::new(files, end(TerminalSide::Master), raw::O_RDWR, None)?;
        let node = terminal_nodes::node(files, number).await.ok();
        let location = node.map(|found| Location { place: found.place, path: found.path });
        let slave = OpenFile::new(files, end(TerminalSide::Slave), raw::O_RDWR, location)?;
        Ok(Pair { terminal, master, slave })
    }
}

/// Moves the working directory of a program that has not started yet; the owner's rights count.
///
/// # Errors
/// ENOTDIR, and those of a walk.
pub async fn enter(context: &FileContext, path: &[u8]) -> Result<(), Errno> {
    let found = find(context.tenant(), path).await?;
    if found.attributes.kind != NodeKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    context.set_current(found);
    Ok(())
}
