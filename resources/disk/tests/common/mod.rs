//! A disk in memory with chosen delays and errors, behind the gate, on a simulated machine.
#![allow(missing_docs, reason = "tests")]

use gyre_account::{Accounts, ActivityId, ActivityParams, Column, ResourceId};
use gyre_device::{DiskDevice, DiskKind, DiskStatistics, InterruptLine, Operation, Then, Timed, Transfer};
use gyre_disk::{DiskClient, Places, attach};
use gyre_engine::simulate::{Outside, Simulator, Stop};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES, block};
use gyre_interface::scsi::{Answer, Command, HostError};
use gyre_machine::{Events, now, post_event, set_core_count, set_virtual_tick, set_virtual_time, virtual_clock};
use gyre_object::{Bytes, Page, SpinLock};
use gyre_schedulers::{Metric, weighted_fair};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub const SECTORS: u64 = 256;
/// A request that takes longer fails, ns.
pub const PATIENCE_NS: u64 = 40_000_000;

type Answered = Result<Vec<Bytes>, BlockError>;

struct UnderWay {
    began_ns: u64,
    due_ns: u64,
    transfer: Transfer,
    then: Then<Answered>,
}

/// The device and its driver.
pub struct MemoryDisk {
    depth: usize,
    /// Time that a request takes, ns.
    pub delay_ns: AtomicU64,
    /// It answers nothing from now on.
    pub is_silent: AtomicBool,
    /// Its interrupts are lost from now on.
    pub loses_interrupts: AtomicBool,
    /// Sectors whose requests fail.
    pub bad: SpinLock<Vec<u64>>,
    /// Requests to it, in order: operation, first sector, sectors.
    pub asked: SpinLock<Vec<(Operation, u64, u64)>>,
    pub ticks: AtomicU64,
    data: SpinLock<Vec<u8>>,
    under_way: SpinLock<Vec<UnderWay>>,
    done: SpinLock<Vec<(Then<Answered>, Timed<Answered>)>>,
}

fn clock() -> u64 {
    virtual_clock(gyre_machine::core_index())
}

impl MemoryDisk {
    pub fn new(depth: usize) -> &'static MemoryDisk {
        Box::leak(Box::new(MemoryDisk {
            depth,
            delay_ns: AtomicU64::new(100_000),
            is_silent: AtomicBool::new(false),
            loses_interrupts: AtomicBool::new(false),
            bad: SpinLock::default(),
            asked: SpinLock::default(),
            ticks: AtomicU64::new(0),
            data: SpinLock::new(vec![0; SECTORS as usize * SECTOR_BYTES]),
            under_way: SpinLock::default(),
            done: SpinLock::default(),
        }))
    }

    fn perform(&self, transfer: Transfer) -> Answered {
        let Transfer { operation, first_sector: first, data } = transfer;
        let sectors = data.iter().map(Bytes::len).sum::<usize>() / SECTOR_BYTES;
        if self.bad.lock().iter().any(|bad| (first..first + sectors as u64).contains(bad)) {
            return Err(BlockError::Io);
        }
        let mut at = first as usize * SECTOR_BYTES;
        let mut disk = self.data.lock();
        for view in &data {
            let (page, start) = view.location();
            match operation {
                Operation::Read => _ = page.write(start, &disk[at..at + view.len()]),
                Operation::Write => disk[at..at + view.len()].copy_from_slice(view.as_slice()),
                Operation::Flush => {}
            }
            at += view.len();
        }
        Ok(data)
    }

    fn answer(&self, is_ready: impl Fn(&UnderWay) -> bool, fail: bool) {
        let ready: Vec<UnderWay> = {
            let mut under_way = self.under_way.lock();
            let (ready, rest) = under_way.drain(..).partition(is_ready);
            *under_way = rest;
            ready
        };
        for UnderWay { began_ns, due_ns, transfer, then } in ready {
            let answer = if fail { Err(BlockError::Io) } else { self.perform(transfer) };
            self.done.lock().push((then, Timed { answer, device_ns: due_ns.saturating_sub(began_ns) }));
        }
    }

    fn tell(&self) {
        let done = std::mem::take(&mut *self.done.lock());
        done.into_iter().for_each(|(then, timed)| then(timed));
    }
}

impl DiskDevice for MemoryDisk {
    fn kind(&self) -> DiskKind {
        DiskKind::Sectors(Geometry { sectors: SECTORS, read_only: false })
    }
    fn depth(&self) -> u16 {
        self.depth as u16
    }
    fn statistics(&self) -> DiskStatistics {
        DiskStatistics::default()
    }
    fn interrupts(&self) -> Vec<InterruptLine> {
        vec![InterruptLine { core: 0, line: Events::FIRST_LINE }]
    }
    fn has_room(&self) -> bool {
        self.under_way.lock().len() + self.done.lock().len() < self.depth
    }
    fn start(&'static self, transfer: Transfer, then: Then<Answered>) {
        let sectors = transfer.data.iter().map(Bytes::len).sum::<usize>() / SECTOR_BYTES;
        self.asked.lock().push((transfer.operation, transfer.first_sector, sectors as u64));
        let began_ns = clock();
        let due_ns = began_ns + self.delay_ns.load(Relaxed);
        self.under_way.lock().push(UnderWay { began_ns, due_ns, transfer, then });
    }
    fn execute(&'static self, _: Command, then: Then<Result<Answer, HostError>>) {
        then(Timed::unasked(Err(HostError::Refused)));
    }
    fn stop(&'static self) -> bool {
        self.under_way.lock().is_empty() && self.done.lock().is_empty()
    }
    fn is_at_rest(&'static self) -> bool {
        self.stop()
    }
    fn on_interrupt(&'static self, _: usize) {
        self.tell();
    }
    fn on_tick(&'static self) -> Option<u64> {
        self.ticks.fetch_add(1, Relaxed);
        let limit = clock().saturating_sub(PATIENCE_NS);
        self.answer(|request| request.began_ns < limit, true);
        self.tell();
        let period = PATIENCE_NS / 4 * gyre_machine::cycles_per_ms() / 1_000_000;
        (!self.under_way.lock().is_empty()).then_some(period)
    }
}

struct Player(&'static MemoryDisk);

impl Outside for Player {
    fn next_at(&self) -> Option<u64> {
        let due = self.0.under_way.lock().iter().map(|request| request.due_ns).min();
        due.filter(|_| !self.0.is_silent.load(Relaxed))
    }
    fn act(&self, at_ns: u64) {
        self.0.answer(|request| request.due_ns <= at_ns, false);
        if !self.0.loses_interrupts.load(Relaxed) {
            post_event(0, 1 << Events::FIRST_LINE);
        }
    }
}

/// A machine with one core and one disk.
pub struct Rig {
    pub engine: &'static Engine,
    pub disk: &'static MemoryDisk,
    pub client: block::Client,
    pub simulator: Simulator,
}

pub fn rig(depth: usize) -> Rig {
    set_core_count(1);
    set_virtual_time(1_000);
    set_virtual_tick(20);
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    let block = ResourceConfig::new("block").gate(Metric::Bytes, Box::new(policy));
    let grid = GridConfig::new(vec![ResourceConfig::new("device_interrupt"), block]);
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(1)));
    let Ok(engine) = Engine::build(grid, accounts) else { panic!("the grid is one") };
    let disk = MemoryDisk::new(depth);
    let [interrupts, resource] = [0, 1].map(|place| ResourceId(FIRST_RESOURCE + place));
    let places = Places { resource, interrupts };
    let DiskClient::Sectors(client) = attach(engine, places, disk) else { panic!("a disk of sectors") };
    let mut simulator = Simulator::new(engine, 7);
    simulator.attach(Rc::new(Player(disk)));
    Rig { engine, disk, client, simulator }
}

impl Rig {
    pub fn tenant(&self, weight: u32) -> ActivityId {
        let params = ActivityParams { weight, ..ActivityParams::default() };
        self.engine.accounts().activities.create(None, "tenant", params).unwrap()
    }

    /// Starts work of a tenant; true in the cell once it has ended.
    pub fn start(&self, tenant: ActivityId, work: impl Future<Output = ()> + 'static) -> Rc<Cell<bool>> {
        let ended = Rc::new(Cell::new(false));
        let told = ended.clone();
        self.engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
            work.await;
            told.set(true);
        });
        ended
    }

    /// Runs until all of it has ended.
    pub fn run(&mut self, work: Vec<Rc<Cell<bool>>>) {
        let stop = self.simulator.run(2_000_000, move || work.iter().all(|ended| ended.get()));
        assert_eq!(stop, Stop::Done);
    }

    pub fn column(&self, activity: ActivityId, resource: &str, column: Column) -> u64 {
        let resource = self.engine.resource(resource).unwrap();
        self.engine.accounts().line(0).table().cell(activity, resource).get(column)
    }
}

/// A page of one byte, `sectors` of it.
pub fn memory(fill: u8, sectors: usize) -> Vec<Bytes> {
    let page = Page::zeroed().unwrap();
    page.write(0, &[fill; 4096]);
    vec![Bytes::new(page, 0, sectors * SECTOR_BYTES)]
}

/// Now, ns.
pub fn now_ns() -> u64 {
    now() * 1_000_000 / gyre_machine::cycles_per_ms()
}
