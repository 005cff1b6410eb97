//! File systems in the grid.

use crate::reporter;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::Engine;
use gyre_ext2::{Ext2, MountOptions};
use gyre_file_cache::{Contents, FileCache};
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
                let more = reclaim::Server::reclaim(server, activity, bytes.saturating_sub(given)).await?;
                given = u64::saturating_add(given, more);
            }
        }
        Ok(given)
    }
}

/// Mounts a file system, gives it a port, and lets `core` write back what is dirty for long, in the name of who dirtied it. Where the file
/// cache has a scheduler of its own (`is_gated`), contents go through it.
///
/// # Errors
/// Those of [`Ext2::mount`].
pub async fn mount(
    engine: &'static Engine,
    disk: block::Client,
    options: MountOptions,
    cache: &'static FileCache,
    core: usize,
    is_gated: bool,
) -> Result<(&'static Ext2, files::Client), FileError> {
    let server = Ext2::mount(disk, options, cache).await?;
    let resource = engine.resource("ext2").unwrap_or(ResourceId(0));
    engine.spawn_for_on(core, resource, ActivityId::INFRASTRUCTURE, move || server.maintain());
    let port = engine.port(resource, move |request| files::serve(server, request));
    let link = Link::new(port);
    if !is_gated {
        return Ok((server, files::Client::new(link).with_near(server)));
    }
    let contents: &'static Contents = Box::leak(Box::new(Contents::new(link, server, reporter(engine))));
    let resource = engine.resource("file_cache").unwrap_or(ResourceId(0));
    let queue = engine.port(resource, move |request| contents.serve(request));
    Ok((server, contents.client(Link::new(queue))))
}
