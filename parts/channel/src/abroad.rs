//! Channels to tenants of other instances, as the calls of programs need them.

use crate::{ChannelError, End, Name};
use alloc::boxed::Box;
use alloc::string::String;
use core::future::Future;
use core::pin::Pin;

/// A connection on its way.
pub type Connecting = Pin<Box<dyn Future<Output = Result<End, ChannelError>> + Send>>;

/// The tenants of other instances that this one is linked to.
pub trait Abroad: Sync {
    /// Connects the tenant `own` to who listens under a name elsewhere, with so many pages that both map; `None` if no neighbour has such a
    /// tenant. May be called: by anybody; the answer of the other kernel is waited for.
    fn connect(&self, name: &Name, own: String, pages: usize) -> Option<Connecting>;
}
