//! The machine's own kernel, by native system calls.

use std::{io, os::fd::AsRawFd as _};

use gyre_config::{
    monitor::{ActivityKind, Snapshot},
    session::ExecRequest,
};

use super::{Program, Source, Streams};

const LOG_BYTES: usize = 16 << 10;

/// The machine that the agent runs in.
pub struct Native;

struct Started {
    pid: i32,
}

impl Source for Native {
    fn snapshot(&self) -> io::Result<Snapshot> {
        gyre_native::snapshot()
    }

    fn log(&self, tenant: &str, offset: u64) -> io::Result<(u64, Vec<u8>)> {
        gyre_native::log(self.index(tenant)?, offset, LOG_BYTES)
    }

    fn keep(&self, tenant: &str, file: Option<&str>, evict: bool) -> io::Result<u64> {
        let tenant = Some(self.index(tenant)?);
        if evict { gyre_native::evict(tenant, file) } else { gyre_native::checkpoint(tenant, file).map(|()| 0) }
    }

    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>> {
        let descriptors = [streams.stdin.as_raw_fd(), streams.stdout.as_raw_fd(), streams.stderr.as_raw_fd()];
        let pid = gyre_native::spawn(&request.tenant, &request.argv, &request.env, descriptors)?;
        Ok(Box::new(Started { pid }))
    }
}

impl Native {
    /// Finds a tenant's index: tenants are listed in the order of the machine.
    fn index(&self, tenant: &str) -> io::Result<u32> {
        let snapshot = self.snapshot()?;
        let is_tenant = |kind| matches!(kind, ActivityKind::System | ActivityKind::Tenant);
        let mut tenants = snapshot.activities.iter().filter(|activity| is_tenant(activity.kind));
        let at = tenants.position(|activity| activity.name == tenant).ok_or(io::ErrorKind::NotFound)?;
        u32::try_from(at).map_err(io::Error::other)
    }
}

impl Program for Started {
    fn wait(&self) -> io::Result<i32> {
        gyre_native::wait(self.pid)
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        gyre_native::terminate(self.pid, signal)
    }
}
