//! Cached data of files, for the machine's owner: making it durable and dropping it, per file and per tenant (the
//! native calls `checkpoint` and `evict`).

use super::context::FileContext;
use super::permission::Asker;
use super::proc::Looker;
use super::tenant_files::TenantFiles;
use super::walk::{Found, LastLink, Walker};
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::files::NodeKind;

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

/// Makes a file durable and drops its cached pages, except those that programs have mapped. Returns the bytes
/// dropped.
///
/// # Errors
/// As [`checkpoint`]; EINVAL if it is no regular file.
pub async fn evict(files: &Arc<TenantFiles>, path: &[u8]) -> Result<u64, Errno> {
    let found = find(files, path).await?;
    if found.attributes.kind != NodeKind::File {
        return Err(Errno::EINVAL);
    }
    let system = found.place.system();
    system.sync(found.place.node).await?;
    Ok(system.evict(found.place.node, 0, 0).await?)
}

/// Finds a path as the machine's owner sees it.
///
/// # Errors
/// Those of a walk.
pub(in crate::file) async fn find(files: &Arc<TenantFiles>, path: &[u8]) -> Result<Found, Errno> {
    let context = FileContext::bare(files)?;
    let owner = Asker::owner_of_the_machine();
    let mut walker = Walker::new(&files.mounts, context.root(), owner, Looker::Owner);
    walker.walk(&context.current(), path, LastLink::Follow).await?.existing()
}
