//! Starting a program from outside: a tenant's first process, or one for `gyre exec`.

use super::limits::ResourceLimits;
use crate::credentials::Credentials;
use crate::exec;
use crate::file::FileContext;
use crate::file::terminal::Terminal;
use crate::process::NewProcess;
use crate::run::Running;
use crate::signal::number;
use crate::{Errno, Process, Tenant, Thread};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_address_space::AddressSpace;
use gyre_machine::UserContext;

/// A program to start.
pub struct Launch {
    /// Its path in the tenant's root.
    pub path: Vec<u8>,
    /// Its arguments, the name first.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment.
    pub environment: Vec<Vec<u8>>,
    /// Its descriptors and directories.
    pub files: Arc<FileContext>,
    /// The credentials that it acts with.
    pub credentials: Credentials,
    /// Its limits.
    pub limits: ResourceLimits,
    /// The terminal that becomes its session's, if it is to have one.
    pub terminal: Option<Arc<Terminal>>,
}

/// A process in the tree that has not started: taken out again unless kept.
struct Unstarted(Option<Arc<Thread>>);

impl Drop for Unstarted {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let tenant = thread.tenant();
            tenant.kernel().close_activity(thread.process().activity());
            let mut tree = tenant.tree.lock();
            tree.remove_thread(thread.id());
            tree.remove_process(thread.process().id());
        }
    }
}

impl Tenant {
    /// Starts a program whose parent is the tenant itself. [`Process::ended`] and [`Process::end_status`] tell how it
    /// ends; it is reaped by itself. It counts for the tenant's limit of processes but is not refused there: else a
    /// tenant full of processes would keep out the owner's program that ends them. Called for the owner only.
    ///
    /// # Errors
    /// Those of execve; EAGAIN if the tenant's numbers are used up.
    pub async fn launch(self: &Arc<Tenant>, launch: Launch) -> Result<Arc<Process>, Errno> {
        let thread = self.prepare(&launch)?;
        let mut unstarted = Unstarted(Some(thread.clone()));
        let mut running = Running::new(UserContext::new()?);
        let request = exec::Request {
            directory: exec::CURRENT_DIRECTORY,
            path: launch.path,
            flags: 0,
            arguments: launch.arguments,
            environment: launch.environment,
        };
        exec::replace_program(&thread, &mut running, request).await?;
        let process = thread.process().clone();
        process.add_thread(thread.clone());
        let started = self.kernel().start(thread, running.context);
        if started.is_err() {
            process.alive_threads.store(0, Ordering::Release);
            process.threads.lock().clear();
            return Err(Errno::ENOMEM);
        }
        unstarted.0 = None;
        Ok(process)
    }

    fn prepare(self: &Arc<Tenant>, launch: &Launch) -> Result<Arc<Thread>, Errno> {
        let name = String::from_utf8_lossy(launch.path.rsplit(|byte| *byte == b'/').next().unwrap_or(b"")).into_owned();
        let activity = self.open_activity(&name)?;
        let space = AddressSpace::new(self.kernel().flush(), launch.limits.of_memory(&launch.credentials), activity);
        let new = NewProcess {
            activity,
            space: space.inspect_err(|_| self.kernel().close_activity(activity))?,
            files: launch.files.clone(),
            credentials: launch.credentials.clone(),
            limits: launch.limits,
            actions: Default::default(),
            program: Arc::default(),
            borrows_memory: false,
        };
        let mut tree = self.tree.lock();
        let id = tree.free_number().inspect_err(|_| {
            self.kernel().close_activity(activity);
        })?;
        let process = Process::new(id, self.clone(), new);
        let thread = Thread::new(id, process.clone());
        tree.add_process(process, 0, number::SIGCHLD);
        if let Some(terminal) = &launch.terminal {
            // It leads its session and the group in the foreground before its first instruction.
            terminal.session.store(id, Ordering::Release);
            terminal.foreground.store(id, Ordering::Release);
        }
        tree.add_thread(thread.clone());
        Ok(thread)
    }
}
