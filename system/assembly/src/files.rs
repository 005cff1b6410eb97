//! File systems in the grid.

use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::Engine;
use gyre_ext2::{Ext2, MountOptions};
use gyre_file_cache::FileCache;
use gyre_interface::block::block;
use gyre_interface::files::{FileError, files};
use gyre_interface::memory::{MemoryError, reclaim};
use gyre_message::Link;
use gyre_object::SpinLock;

/// All file systems on disks as one keeper of memory: they write dirty pages back, so that the cache can give them.
#[derive(Default)]
pub struct FileSystems(SpinLock<Vec<&'static Ext2>>);

impl FileSystems {
    /// None yet.
    pub const fn new() -> FileSystems {
        FileSystems(SpinLock::new(Vec::new()))
    }

    /// One more.
    pub fn add(&self, server: &'static Ext2) {
        self.0.lock().push(server);
    }
}

impl reclaim::Server for FileSystems {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64) -> Result<u64, MemoryError> {
        let all = self.0.lock().clone();
        let mut given = 0;
        for server in all {
            if given < bytes {
                given += reclaim::Server::reclaim(server, activity, bytes - given).await?;
            }
        }
        Ok(given)
    }
}

/// Mounts a file system, gives it a port, and lets `core` write back what is dirty for long, in the name of who dirtied it.
///
/// # Errors
/// Those of [`Ext2::mount`].
pub async fn mount(
    engine: &'static Engine,
    disk: block::Client,
    options: MountOptions,
    cache: &'static FileCache,
    core: usize,
) -> Result<(&'static Ext2, files::Client), FileError> {
    let server = Ext2::mount(disk, options, cache).await?;
    let resource = engine.resource("ext2").unwrap_or(ResourceId(0));
    engine.spawn_for_on(core, resource, ActivityId::INFRASTRUCTURE, move || server.maintain());
    let port = engine.port(resource, move |request| files::serve(server, request));
    Ok((server, files::Client::new(Link::new(port)).with_near(server)))
}
