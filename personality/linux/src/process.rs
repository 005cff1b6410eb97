//! A process: what its threads share.

use crate::file::FileContext;
use crate::{Tenant, tenant};
use alloc::sync::Arc;
use gyre_account::ActivityId;
use gyre_address_space::AddressSpace;
use gyre_object::SpinLock;

/// Who a process acts as.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Credentials {
    /// Real user.
    pub user: u32,
    /// Effective user.
    pub user_effective: u32,
    /// Saved user.
    pub user_saved: u32,
    /// Real group.
    pub group: u32,
    /// Effective group.
    pub group_effective: u32,
    /// Saved group.
    pub group_saved: u32,
}

/// A process of a tenant.
pub struct Process {
    id: i32,
    tenant: Arc<Tenant>,
    activity: ActivityId,
    space: SpinLock<Arc<AddressSpace>>,
    files: SpinLock<Arc<FileContext>>,
    credentials: SpinLock<Credentials>,
}

impl Process {
    /// A process without threads.
    pub fn new(
        id: i32,
        tenant: Arc<Tenant>,
        activity: ActivityId,
        space: Arc<AddressSpace>,
        files: Arc<FileContext>,
    ) -> Arc<Process> {
        Arc::new(Process {
            id,
            tenant,
            activity,
            space: SpinLock::new(space),
            files: SpinLock::new(files),
            credentials: SpinLock::default(),
        })
    }

    /// Its number, unique in the tenant.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Whose it is.
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Who pays for it.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// Its memory; replaced by execve.
    pub fn space(&self) -> Arc<AddressSpace> {
        self.space.lock().clone()
    }

    /// Its descriptors and directories; replaced by execve and unshare.
    pub fn files(&self) -> Arc<FileContext> {
        self.files.lock().clone()
    }

    /// Who it acts as.
    pub fn credentials(&self) -> Credentials {
        *self.credentials.lock()
    }

    /// The soft limit of a resource (RLIMIT_*), for example RLIMIT_NOFILE.
    pub fn limit(&self, resource: u32) -> u64 {
        tenant::default_limit(resource)
    }
}
