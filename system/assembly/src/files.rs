//! File systems in the grid.

use crate::grid::id;
use crate::reporter;
use alloc::boxed::Box;
use gyre_contract::catalogue::Resource;
use gyre_engine::Engine;
use gyre_ext2::{Ext2, MountOptions};
use gyre_file_cache::{Contents, FileCache};
use gyre_interface::block::block;
use gyre_interface::files::{FileError, files};
use gyre_message::Link;

/// A file system that is mounted, and what its clients get.
pub type Served = (&'static Ext2, files::Client);

/// Mounts a file system, gives it a port, and lets `core` write back what is dirty for long, in the name of the activity that made it so.
///
/// # Errors
/// Those of [`Ext2::mount`].
pub async fn mount(
    engine: &'static Engine,
    disk: block::Client,
    options: MountOptions,
    cache: &'static FileCache,
    core: usize,
) -> Result<Served, FileError> {
    let server = start(engine, disk, options, cache, core).await?;
    Ok((server, files::Client::new(link(engine, server)).with_near(server)))
}

/// Does as [`mount`], for a file cache that has a scheduler of its own: contents go through it.
///
/// # Errors
/// Those of [`Ext2::mount`].
pub async fn mount_behind_cache(
    engine: &'static Engine,
    disk: block::Client,
    options: MountOptions,
    cache: &'static FileCache,
    core: usize,
) -> Result<Served, FileError> {
    let server = start(engine, disk, options, cache, core).await?;
    let contents = Contents::new(link(engine, server), server, reporter(engine));
    let contents: &'static Contents = Box::leak(Box::new(contents));
    let queue = engine.port(id(Resource::FileCache), move |request| contents.serve(request));
    Ok((server, contents.client(Link::new(queue))))
}

async fn start(
    engine: &'static Engine,
    disk: block::Client,
    options: MountOptions,
    cache: &'static FileCache,
    core: usize,
) -> Result<&'static Ext2, FileError> {
    let server = Ext2::mount(disk, options, cache).await?;
    engine.keep_on(core, id(Resource::Ext2), move || server.maintain());
    Ok(server)
}

fn link(engine: &'static Engine, server: &'static Ext2) -> Link<files::Request> {
    Link::new(engine.port(id(Resource::Ext2), move |request| files::serve(server, request)))
}
