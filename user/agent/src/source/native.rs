//! The machine's own kernel, by native system calls.

use std::{io, os::fd::AsRawFd as _};

use gyre_config::{
    monitor::{ActivityKind, Snapshot},
    native::Change,
    session::ExecRequest,
};

use super::{Program, Source, Streams, no_tenant};

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
        let pid = gyre_native::spawn(&request.tenant, &request.argv, &request.env, descriptors);
        // The kernel's answer is the same for a tenant and a program that are not there.
        let pid = pid.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.index(&request.tenant).err().unwrap_or(error),
            _ => error,
        })?;
        Ok(Box::new(Started { pid }))
    }

    fn end(&self, grace_ms: u64) -> io::Result<()> {
        gyre_native::end(grace_ms)
    }

    fn set(&self, change: &Change) -> io::Result<()> {
        gyre_native::set(change).map_err(|error| self.explain(change, error))
    }
}

impl Native {
    /// Finds a tenant's index: tenants are listed in the order of the machine.
    fn index(&self, tenant: &str) -> io::Result<u32> {
        let snapshot = self.snapshot()?;
        let is_tenant = |kind| matches!(kind, ActivityKind::System | ActivityKind::Tenant);
        let all = snapshot.activities.iter().filter(|activity| is_tenant(activity.kind));
        let names: Vec<&str> = all.map(|activity| activity.name.as_str()).collect();
        let at = names.iter().position(|name| *name == tenant).ok_or_else(|| no_tenant(tenant, &names))?;
        u32::try_from(at).map_err(io::Error::other)
    }

    /// The kernel's error as a sentence.
    fn explain(&self, change: &Change, error: io::Error) -> io::Error {
        let because = |why: String| io::Error::new(error.kind(), why);
        let name = match change {
            Change::Tenant { name, .. } | Change::Group { name, .. } | Change::Resource { name, .. } => name,
        };
        match (error.raw_os_error(), change) {
            (Some(libc::ENOENT), Change::Tenant { .. }) => {
                self.index(name).err().unwrap_or_else(|| because(format!("the tenant `{name}` has not started yet")))
            }
            (Some(libc::ENOENT), Change::Group { .. }) => because(format!("there is no group `{name}`")),
            (Some(libc::EDOM), _) => because(format!("`{name}` has more memory reserved than that")),
            (Some(libc::EBUSY), _) => because(format!("`{name}` holds more than that now: wait, or force it")),
            (Some(libc::ERANGE), _) => because(format!("that is more than the machine has for `{name}`")),
            (Some(libc::ENOENT), Change::Resource { .. }) => because(format!("there is no resource `{name}`")),
            (Some(libc::EOPNOTSUPP), _) => because(format!(
                "`{name}` has no policy of its own: the CPU's decides; change that of `cpu`, or its weight"
            )),
            (Some(libc::ENODEV), _) => because("the machine has no such core".into()),
            (Some(libc::EINVAL), _) => because(format!("the kernel refuses these values for `{name}`")),
            _ => error,
        }
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
