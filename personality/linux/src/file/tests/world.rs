//! A tenant with one or more processes, whose "programs" are the tests: they call through the table and look at user memory.
//!
//! `Surroundings` are the kernel's services as far as calls need them: they start no thread, and their figures are fixed. `run` gives a
//! test a `User` in a fresh tenant over a tmpfs; `run_on`, `run_as_on_disk`, `run_through` and `run_in` take another root, passage or
//! surroundings. A `User` is a process with one thread and 4 MiB of scratch memory for arguments and answers.
//!
//! The one test here holds at compile time that calls may move between cores while they wait. The properties of calls are in the files
//! beside this one.
//!
//! Code in user mode, traps and signals that interrupt a call are left out: `src/tests/script.rs` plays a processor for these.

use crate::credentials::Credentials;
use crate::file::passage::Passage;
use crate::file::{FileContext, Setup, TenantFiles, table};
use crate::process::NewProcess;
use crate::signal::Actions;
use crate::task::limits::ResourceLimits;
use crate::tenant::{Consumption, KernelServices, MemoryUse, NativeCall, TenantLimits};
use crate::{Arguments, Errno, Process, Tenant, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use gyre_account::ActivityId;
use gyre_address_space::{AddressSpace, Flush, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights};
use gyre_interface::async_io::async_io;
use gyre_interface::files::files;
use gyre_machine::{OutOfMemory, UserContext};
use gyre_message::direct::{block_on, direct_link};
use gyre_tmpfs::{Limits, Tmpfs};
use std::boxed::Box;

/// The surroundings of a tenant. The tests run no programs.
pub(super) struct Surroundings {
    pub root: files::Client,
    /// The kind that programs see of it: pages of one with a disk can be had again.
    pub root_kind: &'static str,
    pub passage: Passage,
    pub async_io: Option<async_io::Client>,
    pub divides_async_io: bool,
    pub flush: &'static dyn Flush,
    /// Of the tenant's cell in time.
    pub processors: u64,
}

impl Surroundings {
    /// Makes the surroundings of a root file system, without any other resource.
    pub fn of(root: files::Client) -> Surroundings {
        let passage = Passage::free();
        Surroundings {
            root,
            root_kind: "tmpfs",
            passage,
            async_io: None,
            divides_async_io: false,
            flush: &LocalFlush,
            processors: u64::MAX,
        }
    }
}

impl KernelServices for Surroundings {
    fn start(&self, _thread: Arc<Thread>, _context: UserContext) -> Result<(), OutOfMemory> {
        Err(OutOfMemory)
    }
    fn open_activity(&self, parent: ActivityId, _name: &str) -> Result<ActivityId, OutOfMemory> {
        Ok(parent)
    }
    fn close_activity(&self, _activity: ActivityId) {}
    fn set_nice(&self, _activity: ActivityId, _nice: i32) {}
    fn is_over_limit(&self, _activity: ActivityId) -> bool {
        false
    }
    fn consumption(&self, _activity: ActivityId) -> Consumption {
        Consumption::default()
    }
    fn memory(&self, _activity: ActivityId) -> MemoryUse {
        MemoryUse { total_bytes: 1 << 30, free_bytes: 1 << 28, others_bytes: 1 << 28, held_bytes: 1 << 29 }
    }
    fn native(&'static self, _thread: Arc<Thread>, _number: u64, _arguments: Arguments) -> NativeCall {
        Box::pin(async { Err(Errno::ENOSYS) })
    }
    fn async_io(&self) -> Option<async_io::Client> {
        self.async_io
    }
    fn divides_async_io(&self) -> bool {
        self.divides_async_io
    }
    fn flush(&self) -> &'static dyn Flush {
        self.flush
    }
    fn processors(&self, _activity: ActivityId) -> u64 {
        self.processors
    }
}

pub(super) fn tmpfs() -> files::Client {
    let limits = Limits { pages_max: 65_536, nodes_max: 4096 };
    let server: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(limits, 0o1777)));
    files::Client::new(direct_link(|request| Box::pin(files::serve(server, request)))).with_near(server)
}

/// Bytes of a program's scratch memory.
const SCRATCH_BYTES: u64 = 4 << 20;

/// A process with one thread, and memory to pass arguments in.
#[derive(Clone)]
pub(super) struct User {
    pub thread: Arc<Thread>,
    base: u64,
    next: Cell<u64>,
}

/// Runs a test's program in a fresh tenant.
pub(super) fn run<F: Future<Output = ()>>(test: impl FnOnce(User) -> F) {
    gyre_machine::set_virtual_time(1_000_000_000);
    run_on(tmpfs(), test);
}

/// Runs a test with a root file system of its own.
pub(super) fn run_on<F: Future<Output = ()>>(root: files::Client, test: impl FnOnce(User) -> F) {
    run_in(Surroundings::of(root), test);
}

/// Runs a test whose root file system counts as one on a disk.
pub(super) fn run_as_on_disk<F: Future<Output = ()>>(test: impl FnOnce(User) -> F) {
    gyre_machine::set_virtual_time(1_000_000_000);
    run_in(Surroundings { root_kind: "ext2", ..Surroundings::of(tmpfs()) }, test);
}

/// Runs a test with a passage of its own.
pub(super) fn run_through<F: Future<Output = ()>>(passage: Passage, test: impl FnOnce(User) -> F) {
    gyre_machine::set_virtual_time(1_000_000_000);
    run_in(Surroundings { passage, ..Surroundings::of(tmpfs()) }, test);
}

/// Runs a test with all surroundings of its own.
pub(super) fn run_in<F: Future<Output = ()>>(around: Surroundings, test: impl FnOnce(User) -> F) {
    let around: &'static Surroundings = Box::leak(Box::new(around));
    block_on(async {
        let user = first(around).await;
        test(user).await;
    });
}

async fn first(around: &'static Surroundings) -> User {
    let memory = tmpfs();
    let setup = Setup {
        root: around.root,
        root_kind: around.root_kind,
        temporary: alloc::vec![(&b"/dev"[..], tmpfs()), (b"/tmp", memory)],
        memory,
        tcp: None,
        udp: None,
        icmp: None,
        passage: around.passage,
        log: Arc::default(),
        echo_console: false,
    };
    let files = TenantFiles::new(setup).await.unwrap();
    let context = FileContext::new(&files).unwrap();
    let limits = TenantLimits { processes: 100, threads: 100 };
    let bare = FileContext::bare(&files).unwrap();
    let tenant = Tenant::new("test", ActivityId(1), around, bare, limits).unwrap();
    User::new(&tenant, context, 1, 0).await
}

impl User {
    async fn new(tenant: &Arc<Tenant>, files: Arc<FileContext>, id: i32, parent: i32) -> User {
        let limits = ResourceLimits::default();
        let space = AddressSpace::new(&LocalFlush, limits.of_memory(&Credentials::default()), ActivityId(1)).unwrap();
        let request = MapRequest {
            place: Place::Anywhere(0),
            bytes: SCRATCH_BYTES,
            rights: Rights::READ | Rights::WRITE,
            rights_max: Rights::all(),
            options: Options::empty(),
            provider: Provider::Anonymous,
            first_index: PageIndex::FIRST,
        };
        let base = space.map(request).await.unwrap();
        let new = NewProcess {
            activity: ActivityId(1),
            space,
            files,
            credentials: Credentials::default(),
            limits,
            actions: Actions::default(),
            program: Arc::default(),
            borrows_memory: false,
        };
        let process = Process::new(id, tenant.clone(), new);
        let thread = Thread::new(id, process.clone());
        let mut tree = tenant.tree.lock();
        tree.add_process(process.clone(), parent, 0);
        tree.add_thread(thread.clone());
        drop(tree);
        process.add_thread(thread.clone());
        User { thread, base, next: Cell::new(0) }
    }

    /// Makes a child with copies of the descriptors.
    pub async fn fork(&self, id: i32) -> User {
        let files = self.thread.process().files().duplicate(0).await.unwrap();
        User::new(self.thread.tenant(), files, id, self.thread.process().id()).await
    }

    /// Becomes another user and group.
    pub fn become_user(&self, user: u32) {
        self.thread.change_credentials(|who| *who = Credentials::of_user(user, user));
    }

    /// Ends the process.
    pub async fn exit(self) {
        self.thread.process().files().ended().await;
    }

    /// Makes a system call.
    pub async fn call(&self, number: u64, arguments: &[u64]) -> Result<u64, Errno> {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        if let Some(outcome) = self.call_at_once(number, arguments) {
            return outcome;
        }
        assert!(table::holds(number), "the number is in the table");
        crate::run::call_on_files(&self.thread, number, Arguments(all)).await
    }

    /// Makes a system call if it need not wait.
    pub fn call_at_once(&self, number: u64, arguments: &[u64]) -> Option<Result<u64, Errno>> {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        table::at_once(&self.thread, number, Arguments(all))
    }

    /// Returns room in user memory, aligned to 16 bytes; used again and again like a ring.
    pub fn room(&self, bytes: usize) -> u64 {
        let bytes = (bytes as u64).next_multiple_of(16);
        if self.next.get() + bytes > SCRATCH_BYTES {
            self.next.set(0);
        }
        let at = self.base + self.next.get();
        self.next.set(self.next.get() + bytes);
        at
    }

    /// Puts bytes into user memory.
    pub async fn put(&self, data: &[u8]) -> u64 {
        let at = self.room(data.len());
        self.thread.copy_out(at, data).await.unwrap();
        at
    }

    /// Returns a string in user memory.
    pub async fn text(&self, text: &str) -> u64 {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.put(&bytes).await
    }

    /// Returns the bytes of user memory.
    pub async fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        self.thread.read_vec(at, bytes).await.unwrap()
    }

    /// Makes a call whose first argument is a path.
    pub async fn with_path(&self, number: u64, path: &str, rest: &[u64]) -> Result<u64, Errno> {
        let path = self.text(path).await;
        let arguments: Vec<u64> = core::iter::once(path).chain(rest.iter().copied()).collect();
        self.call(number, &arguments).await
    }

    pub async fn open(&self, path: &str, flags: u32, mode: u64) -> Result<u64, Errno> {
        self.with_path(2, path, &[u64::from(flags), mode]).await
    }

    pub async fn close(&self, fd: u64) -> Result<u64, Errno> {
        self.call(3, &[fd]).await
    }

    pub async fn write(&self, fd: u64, data: &[u8]) -> Result<u64, Errno> {
        let at = self.put(data).await;
        self.call(1, &[fd, at, data.len() as u64]).await
    }

    pub async fn read(&self, fd: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        let at = self.room(bytes);
        let count = self.call(0, &[fd, at, bytes as u64]).await?;
        Ok(self.get(at, count as usize).await)
    }

    /// Makes a call and returns the two descriptors that it writes to its last argument.
    pub async fn pair(&self, number: u64, arguments: &[u64], out_index: usize) -> Result<(u64, u64), Errno> {
        let out = self.room(8);
        let mut all = arguments.to_vec();
        all.insert(out_index, out);
        self.call(number, &all).await?;
        let raw = self.get(out, 8).await;
        let word = |at: usize| u64::from(u32::from_le_bytes(raw[at..at + 4].try_into().unwrap()));
        Ok((word(0), word(4)))
    }

    pub async fn pipe(&self, flags: u32) -> (u64, u64) {
        self.pair(293, &[u64::from(flags)], 0).await.unwrap()
    }

    /// Makes a file with contents.
    pub async fn file(&self, path: &str, data: &[u8]) {
        let fd = self.open(path, 0o101 | 0o1000, 0o644).await.unwrap();
        assert_eq!(self.write(fd, data).await, Ok(data.len() as u64));
        self.close(fd).await.unwrap();
    }

    /// Polls one descriptor at once and returns the events found.
    pub async fn poll(&self, fd: u64, events: u16) -> u16 {
        self.poll_for(fd, events, 0).await.unwrap()
    }

    pub async fn poll_for(&self, fd: u64, events: u16, ms: i32) -> Result<u16, Errno> {
        let mut entry = (fd as u32).to_le_bytes().to_vec();
        entry.extend_from_slice(&events.to_le_bytes());
        entry.extend_from_slice(&[0, 0]);
        let at = self.put(&entry).await;
        self.call(7, &[at, 1, ms as u32 as u64]).await?;
        let raw = self.get(at + 6, 2).await;
        Ok(u16::from_le_bytes([raw[0], raw[1]]))
    }
}

/// Runs two programs' code at the same time.
pub(super) async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    let mut first = core::pin::pin!(first);
    let mut second = core::pin::pin!(second);
    let (mut a, mut b) = (None, None);
    core::future::poll_fn(|context| {
        use core::task::Poll;
        if a.is_none()
            && let Poll::Ready(value) = first.as_mut().poll(context)
        {
            a = Some(value);
        }
        if b.is_none()
            && let Poll::Ready(value) = second.as_mut().poll(context)
        {
            b = Some(value);
        }
        if a.is_some() && b.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (a.unwrap(), b.unwrap())
}

#[test]
fn calls_may_move_between_cores_while_they_wait() {
    fn movable<T: Send>(value: T) -> T {
        value
    }
    run(|user| async move {
        let call = table::dispatch(&user.thread, 3, Arguments([77, 0, 0, 0, 0, 0]));
        std::println!("bytes of a call in flight: {}", size_of_val(&call));
        assert!(size_of_val(&call) < 8192);
        assert_eq!(movable(call).await, Some(Err(Errno::EBADF)));
    });
}
