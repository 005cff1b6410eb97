//! The machine of these tests: a processor that runs scripts, and a kernel's services below the personality.
//!
//! A `Script` is a program of steps. Each step sees the registers and ends in a trap, or goes on with the next one; it has 16 addresses
//! from `CODE` on, so that handlers, returns and repeated calls find their place by the instruction pointer. Every script has one range
//! of readable and writable memory, with its stack at the end. `Scripts` advances such a program to its next trap.
//!
//! `TestKernel` starts threads as tasks, gives a child its parent's activity, and answers with fixed figures and with limits that a test
//! has set. `run` plays one script to its end and returns its status; `expect` in a script checks the answer of the call before.
//!
//! Instructions are not interpreted: a step is Rust. Preemption in the middle of a step, and costs, are left out.

use crate::file::FileContext;
use crate::file::passage::Passage;
use crate::file::tenant_files::{Setup, TenantFiles};
use crate::process::NewProcess;
use crate::run::{Compute, run_thread};
use crate::task::limits::ResourceLimits;
use crate::tenant::{Consumption, KernelServices, MemoryUse, ProcessMemory, TenantLimits};
use crate::{Process, Tenant, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use gyre_account::{ActivityId, Grant};
use gyre_address_space::flush::Stale;
use gyre_address_space::{AddressSpace, Flush, LocalFlush, MapRequest, Options, PageIndex, Place, Provider, Rights};
use gyre_interface::files::files;
use gyre_machine::{OutOfMemory, Registers, Trap, UserContext};
use gyre_message::direct::direct_link;
use gyre_tmpfs::Tmpfs;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The first address of scripts; each step has 16 addresses, a `syscall` instruction the last two of them.
pub(super) const CODE: u64 = 0x40_0000;
/// Readable and writable memory of every script.
pub(super) const DATA: u64 = 0x50_0000;
/// Its length.
pub(super) const DATA_BYTES: u64 = 0x1_0000;
/// The first stack pointer.
pub(super) const STACK: u64 = DATA + DATA_BYTES - 0x100;

/// Some instructions: they see registers, and end in a trap. `None` goes on with the next step.
pub(super) type Step = Box<dyn Fn(&mut Registers) -> Option<Trap> + Send + Sync>;

/// A program: steps one after another.
#[derive(Default)]
pub(super) struct Script {
    steps: Vec<Step>,
}

/// Returns the address of a step.
pub(super) fn address_of(step: usize) -> u64 {
    CODE + 16 * step as u64
}

impl Script {
    /// Returns the number that the next step will have.
    pub(super) fn here(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn step(
        &mut self,
        step: impl Fn(&mut Registers) -> Option<Trap> + Send + Sync + 'static,
    ) -> &mut Script {
        self.steps.push(Box::new(step));
        self
    }

    /// Returns a system call with constant arguments.
    pub(super) fn call(&mut self, number: u64, arguments: &[u64]) -> &mut Script {
        let arguments = arguments.to_vec();
        self.step(move |registers| {
            set_arguments(registers, number, &arguments);
            Some(Trap::SystemCall)
        })
    }

    /// Checks the answer of the last call.
    pub(super) fn expect(&mut self, value: i64) -> &mut Script {
        let at = self.here();
        self.step(move |registers| {
            assert_eq!(registers.rax as i64, value, "answer before step {at}");
            None
        })
    }

    /// Goes on at another step if the last answer was 0 (a child of fork).
    pub(super) fn jump_if_zero(&mut self, step: impl Fn() -> usize + Send + Sync + 'static) -> &mut Script {
        self.step(move |registers| {
            if registers.rax == 0 {
                registers.rip = address_of(step());
            }
            None
        })
    }

    /// Returns from a handler: takes the restorer's address off the stack.
    pub(super) fn leave_handler(&mut self) -> &mut Script {
        self.step(|registers| {
            registers.rsp += 8;
            set_arguments(registers, 15, &[]);
            Some(Trap::SystemCall)
        })
    }

    pub(super) fn exit(&mut self, code: u64) -> &mut Script {
        self.call(231, &[code])
    }
}

pub(super) fn set_arguments(registers: &mut Registers, number: u64, arguments: &[u64]) {
    let mut all = [0; 6];
    all.iter_mut().zip(arguments).for_each(|(slot, value)| *slot = *value);
    registers.rax = number;
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = all;
}

/// The processor of these tests.
pub(super) struct Scripts {
    scripts: Mutex<BTreeMap<u64, Arc<Script>>>,
}

pub(super) static SCRIPTS: Scripts = Scripts { scripts: Mutex::new(BTreeMap::new()) };

impl Scripts {
    /// Runs to the next trap.
    fn advance(&self, registers: &mut Registers) -> Trap {
        loop {
            let base = registers.rip & !0xfff_ffff;
            let script = self.scripts.lock().unwrap().get(&registers.gs_base).cloned();
            let script = script.expect("a script has its number in gs");
            let offset = registers.rip.wrapping_sub(CODE);
            // A repeated call stands on its syscall instruction.
            if offset % 16 == 14 {
                registers.rip += 2;
                return Trap::SystemCall;
            }
            let Some(step) = script.steps.get((offset / 16) as usize).filter(|_| offset % 16 == 0 && base <= CODE)
            else {
                return Trap::PageFault {
                    address: registers.rip,
                    access: gyre_machine::Access::Execute,
                    present: false,
                };
            };
            registers.rip += 16;
            if let Some(trap) = step(registers) {
                if !matches!(trap, Trap::SystemCall) {
                    registers.rip -= 16;
                }
                return trap;
            }
        }
    }
}

impl Compute for Scripts {
    async fn run<'a>(
        &'a self,
        context: &'a mut UserContext,
        _space: &'a Arc<AddressSpace>,
        _grant: Option<&'a Grant>,
        _until: u64,
    ) -> Trap {
        // Other tasks run between steps, as with slices, unless the program has the core alone.
        if !HAS_CORE_ALONE.get() {
            gyre_message::yield_now().await;
        }
        self.advance(&mut context.registers)
    }

    fn bind(&self, _: u64) {}
}

std::thread_local! {
    /// Whether programs keep the core between steps.
    pub(super) static HAS_CORE_ALONE: Cell<bool> = const { Cell::new(false) };
    /// The memory of each process that has a limit of its own.
    pub(super) static PROCESS_MEMORY: Cell<Option<ProcessMemory>> = const { Cell::new(None) };
    /// Whether the tenants hold more memory than they may.
    pub(super) static IS_OVER_LIMIT: Cell<bool> = const { Cell::new(false) };
    /// How often room can be made for them: the last time they are below their limit again, before that others take it.
    pub(super) static ROOMS: Cell<usize> = const { Cell::new(0) };
}

/// Room for a tenant over its limit.
struct TestFlush;

impl Flush for TestFlush {
    fn make_room(&self, _: u64) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let rooms = ROOMS.get();
        ROOMS.set(rooms.saturating_sub(1));
        if rooms == 1 {
            IS_OVER_LIMIT.set(false);
        }
        Box::pin(core::future::ready(rooms > 0))
    }

    fn flush(&self, cores: u64, stale: Stale) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        LocalFlush.flush(cores, stale)
    }
}

/// The machine below.
pub(super) struct TestKernel;

impl KernelServices for TestKernel {
    fn native(&'static self, _: Arc<Thread>, _: u64, _: crate::Arguments) -> crate::tenant::NativeCall {
        Box::pin(async { Err(crate::Errno::ENOSYS) })
    }

    fn start(&self, thread: Arc<Thread>, context: UserContext) -> Result<(), OutOfMemory> {
        let task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(run_thread(&SCRIPTS, thread, context));
        gyre_message::spawn(task);
        Ok(())
    }

    fn open_activity(&self, parent: ActivityId, _name: &str) -> Result<ActivityId, OutOfMemory> {
        Ok(parent)
    }

    fn close_activity(&self, _activity: ActivityId) {}
    fn set_nice(&self, _activity: ActivityId, _nice: i32) {}
    fn is_over_limit(&self, _activity: ActivityId) -> bool {
        IS_OVER_LIMIT.get()
    }

    fn consumption(&self, _activity: ActivityId) -> Consumption {
        Consumption { user_ns: 5_000_000, system_ns: 7_000_000, waited_ns: 1_000_000, ..Consumption::default() }
    }

    fn memory(&self, _activity: ActivityId) -> MemoryUse {
        MemoryUse::default()
    }

    fn process_memory(&self, _activity: ActivityId) -> Option<ProcessMemory> {
        PROCESS_MEMORY.get()
    }

    fn flush(&self) -> &'static dyn Flush {
        &TestFlush
    }
}

pub(super) fn memory_files() -> files::Client {
    let limits = gyre_tmpfs::Limits { pages_max: 1 << 16, nodes_max: 1 << 12 };
    let server: &'static Tmpfs = Box::leak(Box::new(Tmpfs::new(limits, 0o755)));
    files::Client::new(direct_link(move |request| Box::pin(files::serve(server, request)))).with_near(server)
}

/// Returns a tenant whose root is empty.
pub(super) async fn tenant_on(root: files::Client, limits: TenantLimits) -> Arc<Tenant> {
    let setup = Setup {
        root,
        root_kind: "tmpfs",
        temporary: vec![],
        memory: memory_files(),
        tcp: None,
        udp: None,
        icmp: None,
        passage: Passage::free(),
        log: Arc::default(),
        echo_console: false,
    };
    let files = TenantFiles::new(setup).await.unwrap();
    let context = FileContext::bare(&files).unwrap();
    Tenant::new("test", ActivityId(0), &TestKernel, context, limits).unwrap()
}

pub(super) async fn tenant() -> Arc<Tenant> {
    tenant_on(memory_files(), TenantLimits { processes: 32, threads: 64 }).await
}

/// Starts a script as a process whose parent is the tenant.
pub(super) async fn start(tenant: &Arc<Tenant>, script: Script) -> Arc<Process> {
    let mut scripts = SCRIPTS.scripts.lock().unwrap();
    let number = scripts.len() as u64 + 1;
    scripts.insert(number, Arc::new(script));
    drop(scripts);
    let limits = ResourceLimits::default();
    let space =
        AddressSpace::new(&LocalFlush, limits.of_memory(&crate::credentials::Credentials::default()), ActivityId(1))
            .unwrap();
    let request = MapRequest {
        place: Place::Fixed(DATA),
        bytes: DATA_BYTES,
        rights: Rights::READ | Rights::WRITE,
        rights_max: Rights::all(),
        options: Options::empty(),
        provider: Provider::Anonymous,
        first_index: PageIndex::FIRST,
    };
    space.map(request).await.unwrap();
    let new = NewProcess {
        activity: tenant.activity(),
        space,
        files: tenant.files().clone(),
        credentials: Default::default(),
        limits,
        actions: Default::default(),
        program: Arc::default(),
        borrows_memory: false,
    };
    let most = *tenant.limits.lock();
    let mut tree = tenant.tree.lock();
    let id = tree.reserve(&most, true).unwrap();
    let process = Process::new(id, tenant.clone(), new);
    let thread = Thread::new(id, process.clone());
    tree.add_process(process.clone(), 0, crate::signal::number::SIGCHLD);
    tree.add_thread(thread.clone());
    drop(tree);
    process.add_thread(thread.clone());
    let mut context = UserContext::new().unwrap();
    context.registers = Registers { rip: CODE, rsp: STACK, rflags: 0x202, gs_base: number, ..Registers::default() };
    TestKernel.start(thread, context).unwrap();
    process
}

/// Starts a process that only waits for signals.
pub(super) async fn start_resting(tenant: &Arc<Tenant>) -> Arc<Process> {
    let mut script = Script::default();
    script.call(34, &[]);
    start(tenant, script).await
}

/// Waits for the end of a process and answers its status.
pub(super) async fn end_of(process: &Process) -> i32 {
    process.ended.until(|| process.threads.lock().is_empty().then_some(())).await;
    process.end_status().unwrap()
}

/// Runs one script to its end.
pub(super) fn run(script: Script) -> i32 {
    gyre_message::direct::block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        end_of(&process).await
    })
}

/// Reads a word of a process.
pub(super) async fn word(process: &Process, address: u64) -> u64 {
    process.space().read_struct(address).await.unwrap()
}
