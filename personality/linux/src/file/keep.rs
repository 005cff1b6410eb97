//! What is kept of files in memory, for the machine's owner: making it durable, dropping it; per file and per tenant (V23).

use super::context::FileContext;
use super::permission::Asker;
use super::tenant_files::TenantFiles;
use super::walk::{Found, LastLink, Walker};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::files::{AttributeChange, NodeKind};

/// Makes a file durable, or all that the tenant has written.
///
/// # Errors
/// Those of a path; the file system's.
pub async fn checkpoint(files: &Arc<TenantFiles>, path: Option<&[u8]>) -> Result<(), Errno> {
    if let Some(path) = path {
        let found = find(files, path).await?;
        found.place.system().sync(found.place.node).await?;
        return Ok(());
    }
    for mount in files.mounts.all() {
        mount.system.sync_all().await?;
    }
    Ok(())
}

/// Makes a file durable and drops what is cached of it; answers the bytes that were. What programs have mapped stays.
///
/// # Errors
/// As [`checkpoint`]; EINVAL for what is no regular file.
pub async fn evict(files: &Arc<TenantFiles>, path: &[u8]) -> Result<u64, Errno> {
    let found = find(files, path).await?;
    if found.attributes.kind != NodeKind::File {
        return Err(Errno::EINVAL);
    }
    let system = found.place.system();
    system.sync(found.place.node).await?;
    Ok(system.evict(found.place.node, 0, 0).await?)
}

/// Gives the slave of a pseudo-terminal to a user and a group: they may open it by its path.
///
/// # Errors
/// Those of the file system; nothing happens in a tenant that has no such path.
pub(in crate::file) async fn give_terminal(
    files: &Arc<TenantFiles>,
    number: u32,
    user: u32,
    group: u32,
) -> Result<(), Errno> {
    let path = alloc::format!("/dev/pts/{number}");
    let Ok(found) = find(files, path.as_bytes()).await else { return Ok(()) };
    let change =
        AttributeChange { user: Some(user), group: Some(group), mode: Some(0o620), ..AttributeChange::default() };
    found.place.system().set_attributes(found.place.node, change).await?;
    Ok(())
}

async fn find(files: &Arc<TenantFiles>, path: &[u8]) -> Result<Found, Errno> {
    let context = FileContext::bare(files)?;
    let owner = Asker::owner_of_the_machine();
    let mut walker = Walker::new(&files.mounts, context.root(), owner, 0);
    walker.walk(&context.current(), path, LastLink::Follow).await?.existing()
}
