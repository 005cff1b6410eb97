//! The nodes of pseudo-terminals: /dev/pts/N is there while its master is open (pts(4)).

use super::attributes::device_number;
use super::checkpoint::find;
use super::permission::Asker;
use super::tenant_files::TenantFiles;
use super::terminal::Terminal;
use super::walk::Found;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{AttributeChange, FileError, NewNode, NodeKind};

/// The group that owns terminals (tty).
const TTY: u32 = 5;
/// Its members may write.
const MODE: u16 = 0o620;

/// Makes the node of a new terminal, which belongs to the asker. A tenant without /dev/pts has none.
///
/// # Errors
/// Those of the file system.
pub(in crate::file) async fn add(files: &Arc<TenantFiles>, number: u32, asker: &Asker) -> Result<(), Errno> {
    let Ok(directory) = find(files, b"/dev/pts").await else { return Ok(()) };
    let system = directory.place.system();
    let new = NewNode {
        kind: NodeKind::CharacterDevice,
        mode: MODE,
        user: asker.user,
        group: TTY,
        target: Vec::new(),
        device: device_number(136, number),
    };
    match system.create(directory.place.node, name(number), new).await {
        Err(FileError::Exists) => give(files, number, asker).await,
        answer => Ok(answer.map(drop)?),
    }
}

/// Gives a node that a program has made in the place to the asker.
async fn give(files: &Arc<TenantFiles>, number: u32, asker: &Asker) -> Result<(), Errno> {
    let found = node(files, number).await?;
    let change =
        AttributeChange { user: Some(asker.user), group: Some(TTY), mode: Some(MODE), ..AttributeChange::default() };
    found.place.system().set_attributes(found.place.node, change).await?;
    Ok(())
}

/// Finds a terminal's node.
///
/// # Errors
/// Those of a walk.
pub(in crate::file) async fn node(files: &Arc<TenantFiles>, number: u32) -> Result<Found, Errno> {
    find(files, &[b"/dev/pts/", &name(number)[..]].concat()).await
}

/// Removes the node of a terminal whose master has gone, as a task of its own. The number is given again only after that, because the
/// terminal is held until then.
pub(in crate::file) fn remove_soon(files: &Arc<TenantFiles>, terminal: Arc<Terminal>) {
    let (Some(number), files) = (terminal.number, files.clone()) else { return };
    gyre_message::spawn(async move {
        if let Ok(directory) = find(&files, b"/dev/pts").await {
            // A node that a program has removed is as good.
            let _ = directory.place.system().unlink(directory.place.node, name(number)).await;
        }
        drop(terminal);
    });
}

fn name(number: u32) -> Vec<u8> {
    alloc::format!("{number}").into_bytes()
}
