//! The kernel's part of a cell's life: its process, which serves lines and questions, and its keeper, which gives everything back.
//!
//! * [`Home::start`] begins both, as tasks: the process in its own name, the keeper in that of the infrastructure.
//! * The process takes lots, makes the memory, and serves until the seat is over; dropped at any step, its guard ends the seat.
//! * The keeper waits for the end of the seat, then until nobody else holds its lots, clears them and gives them back.
//!
//! Lots are charged to the process while it has them. Calls are a few invented ones and those of the disk. Left out: signals, calls beside each
//! other.

use crate::whole::cells::seat::{Ask, Phase, Seat};
use crate::whole::machine::Machine;
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_cell_abi::LOT_BYTES;
use gyre_cell_abi::device::DeviceRequest;
use gyre_cell_device::{Disk, Queue, attend};
use gyre_cell_memory::{Call, CellMemory, Lines, Shape, TakenLot, View};
use gyre_engine::Engine;
use gyre_interface::block::Geometry;
use gyre_interface::leases::{Dirt, Goods, Holder, Lots, Move, Parts, Terms, Wish};
use gyre_leases::Pool;
use gyre_machine::{MapFlags, PAGE_BYTES, Pa};
use gyre_message::{select, sleep_ns, yield_now};
use gyre_object::Page;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Lots of the pool: fewer than all cells want at once.
const LOTS: usize = 6;
const LOT_ORDER: u8 = 9;
/// Lines of a cell.
pub const LINES: u32 = 8;
const SHAPE: Shape = Shape { cores: 1, lines: LINES };
/// Numbers of calls: a sum of two numbers after some time, a sum of bytes at an address, the disk, giving it back.
pub const SUM: u64 = 1;
pub const SUM_OF_BYTES: u64 = 2;
pub const OPEN: u64 = 3;
pub const CLOSE: u64 = 4;
/// Errors that they answer.
pub const FAULT: i64 = -14;
pub const BUSY: i64 = -16;
const NO_MEMORY: i64 = -12;
/// The error of who asks for what it cannot have, or gives what it has not.
pub const INVALID: i64 = -22;
/// The addresses of a page that is there from the beginning, and of one that comes by a question.
pub const AT: u64 = 0x40_0000;
pub const LATER: u64 = 0x40_1000;

/// All that cells share.
pub struct Home {
    /// The engine.
    pub engine: &'static Engine,
    /// The tenant of all of them.
    pub tenant: ActivityId,
    leases: RefCell<Pool>,
    lots: RefCell<BTreeMap<u64, Page>>,
    places: Vec<Pa>,
    disk: Disk,
    /// Cores that no plain cell keeps.
    pub cores: RefCell<Vec<usize>>,
    kept_cores: usize,
    /// The cell that has the disk.
    holder: Cell<Option<u16>>,
    /// Cells that are over.
    pub over: Cell<usize>,
    paid_before: u64,
}

/// Ends the seat when the process is dropped.
struct Guard(Rc<Seat>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn number_of(page: &Page) -> u64 {
    page.pa().0 / LOT_BYTES
}

fn parts_of<'a>(lots: impl Iterator<Item = &'a Page>) -> Parts {
    Parts { lots: lots.map(|lot| Lots { first: number_of(lot), count: 1 }).collect(), ..Parts::default() }
}

impl Home {
    /// Makes the pool of a machine, whose disk has so many sectors.
    pub fn new(machine: &Machine, sectors: u64) -> Rc<Home> {
        let pages: Vec<Page> = (0..LOTS).map(|_| Page::zeroed_run(LOT_ORDER).expect("there is memory")).collect();
        let parts = parts_of(pages.iter());
        let lots = parts.lots.clone();
        let mut leases = Pool::new(parts, gyre_machine::now());
        lots.into_iter().for_each(|lot| leases.cleaned(lot).expect("it is the pool's"));
        let geometry = Geometry { sectors, read_only: false };
        let tenant = machine.activities[0];
        Rc::new(Home {
            engine: machine.engine,
            tenant,
            leases: RefCell::new(leases),
            places: pages.iter().map(Page::pa).collect(),
            lots: RefCell::new(pages.into_iter().map(|page| (number_of(&page), page)).collect()),
            cores: RefCell::new((1..machine.engine.cores()).collect()),
            kept_cores: machine.engine.cores() - 1,
            disk: Disk { client: machine.block, geometry },
            holder: Cell::new(None),
            over: Cell::new(0),
            paid_before: machine.engine.accounts().activities.held_bytes(tenant),
        })
    }

    /// Starts a process that becomes a cell, and its keeper.
    pub fn start(self: &Rc<Home>, number: u16) -> Rc<Seat> {
        let activities = &self.engine.accounts().activities;
        let activity =
            activities.create(Some(self.tenant), "cell", ActivityParams::default()).expect("there is a place");
        let seat = Rc::new(Seat::new(number, activity));
        let keeper = keep(self.clone(), seat.clone());
        self.engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, keeper);
        let process = live(self.clone(), seat.clone(), Guard(seat.clone()));
        self.engine.spawn_for(ResourceId::RUNTIME, activity, process);
        seat
    }

    /// Takes so many lots for a cell, all or nothing, and charges them.
    pub fn take(&self, seat: &Seat, count: u32) -> Option<Vec<Page>> {
        let bytes = u64::from(count) * LOT_BYTES;
        let activities = &self.engine.accounts().activities;
        activities.charge_memory(seat.activity, bytes).ok()?;
        let wish = Wish { lots: count, dirt: Dirt::Refused, ..Wish::default() };
        let moves =
            [Move { from: Holder::Free, to: Holder::Cell(seat.number), goods: Goods::Any(wish), terms: Terms::Kept }];
        let Ok(taken) = self.leases.borrow_mut().exchange(&moves, gyre_machine::now()) else {
            activities.credit_memory(seat.activity, bytes);
            return None;
        };
        let runs = taken.first().map_or(vec![], |parts| parts.lots.clone());
        let numbers = runs.iter().flat_map(|run| run.first..run.first + u64::from(run.count));
        Some(numbers.map(|number| self.lots.borrow_mut().remove(&number).expect("a free lot is here")).collect())
    }

    /// Takes lots of a cell back that are clear.
    pub fn give(&self, seat: &Seat, lots: Vec<Page>) {
        self.engine.accounts().activities.credit_memory(seat.activity, lots.len() as u64 * LOT_BYTES);
        let goods = Goods::These(parts_of(lots.iter()));
        let moves = [Move { from: Holder::Cell(seat.number), to: Holder::Free, goods, terms: Terms::Kept }];
        let mut leases = self.leases.borrow_mut();
        leases.exchange(&moves, gyre_machine::now()).expect("it holds them");
        parts_of(lots.iter()).lots.into_iter().for_each(|lot| leases.cleaned(lot).expect("it is the pool's"));
        self.lots.borrow_mut().extend(lots.into_iter().map(|lot| (number_of(&lot), lot)));
    }

    /// Everything is back, clear, and paid for by nobody.
    ///
    /// # Panics
    /// If it is not.
    pub fn check(&self) {
        assert_eq!(self.leases.borrow().parts(Holder::Free).lot_count(), LOTS as u64, "free lots");
        let lots = self.lots.borrow();
        assert_eq!(lots.len(), LOTS, "lots");
        for lot in lots.values() {
            assert!(!lot.is_shared() && lot.as_slice().iter().all(|byte| *byte == 0), "a free lot is not clear");
        }
        assert_eq!(self.cores.borrow().len(), self.kept_cores, "cores that nobody keeps");
        assert_eq!(self.holder.get(), None, "the disk is held");
        let paid = self.engine.accounts().activities.held_bytes(self.tenant);
        assert!(
            paid <= self.paid_before,
            "the tenant of all cells still pays for {paid} bytes, {} before",
            self.paid_before
        );
    }
}

/// Clears a lot, once only so many hold it.
pub async fn clear(lot: &Page, holders: usize) {
    while lot.holders() > holders {
        sleep_ns(20_000).await;
    }
    lot.write(0, &vec![0; lot.len()]);
}

/// Gives back all that a cell had, once it is over.
async fn keep(home: Rc<Home>, seat: Rc<Seat>) {
    let is_over = || (seat.is_ended.get() || seat.phase.get() == Phase::Out).then_some(());
    seat.changed.until(is_over).await;
    let memory = seat.memory.take();
    // No nested table says where the cell has written, so all are cleared.
    let lots = memory.map_or(vec![], |memory| memory.take_lots().into_iter().map(|lot| lot.page).collect());
    seat.shared.take();
    let lots = [lots, seat.leaving.take()].concat();
    for lot in &lots {
        clear(lot, 1).await;
    }
    home.give(&seat, lots);
    if home.holder.get() == Some(seat.number) {
        home.holder.set(None);
    }
    seat.set_phase(Phase::Over);
    home.over.set(home.over.get() + 1);
}

/// The process: makes the cell, and serves it until it is over.
async fn live(home: Rc<Home>, seat: Rc<Seat>, _guard: Guard) {
    let lots = loop {
        if let Some(lots) = home.take(&seat, 2) {
            break lots;
        }
        sleep_ns(100_000).await;
    };
    let Some(memory) = make(&home, &seat, lots) else { return };
    let later = Page::zeroed().ok();
    seat.set_phase(Phase::Ready);
    loop {
        let change = seat.changed.wait();
        if seat.is_ended.get() || seat.phase.get() != Phase::Ready {
            return;
        }
        if let Some(ask) = seat.ask.take() {
            let answer = answer(&home, &seat, &memory, (ask, later.as_ref())).await;
            seat.answer.set(Some(answer));
        }
        while let Some(call) = memory.lines.take_from(0) {
            let result = perform(&home, &seat, &memory, &call).await;
            memory.lines.answer(call.line, result);
        }
        select(change, yield_now()).await;
    }
}

fn make(home: &Home, seat: &Seat, lots: Vec<Page>) -> Option<Arc<CellMemory>> {
    let shared: Option<Vec<Page>> = (0..SHAPE.pages()).map(|_| Page::zeroed().ok()).collect();
    let shared = shared?;
    *seat.shared.borrow_mut() = shared.clone();
    let lines = Lines::new(shared, SHAPE);
    // From here on the keeper finds the lots.
    let memory = CellMemory::new(lots, lines, home.places.iter().copied());
    let memory = Arc::new(memory.expect("the first lot has room for its tables"));
    *seat.memory.borrow_mut() = Some(memory.clone());
    let page = Page::zeroed().ok()?;
    page.write(0, &[7; PAGE_BYTES]);
    memory.upload(&gyre_address_space::Shown { address: AT, page, rights: MapFlags::WRITE }).ok()?;
    memory.begin(1);
    Some(memory)
}

async fn answer(home: &Home, seat: &Seat, memory: &CellMemory, (ask, later): (Ask, Option<&Page>)) -> i64 {
    match ask {
        Ask::More(count) => {
            let Some(lots) = home.take(seat, count) else { return NO_MEMORY };
            lots.into_iter().for_each(|lot| _ = memory.add_lot(lot));
            0
        }
        Ask::Give(start) => match memory.remove_lot(start) {
            Some(TakenLot { page: lot, .. }) => {
                seat.leaving.borrow_mut().push(lot.clone());
                clear(&lot, 2).await;
                drop(lot);
                home.give(seat, seat.leaving.take());
                0
            }
            None => FAULT,
        },
        Ask::GiveCore | Ask::GetCore => INVALID,
        Ask::Fault(address) => later.filter(|_| address == LATER).map_or(FAULT, |page| {
            let shown = gyre_address_space::Shown { address, page: page.clone(), rights: MapFlags::WRITE };
            memory.pin(&shown, address).entry as i64
        }),
    }
}

async fn perform(home: &Rc<Home>, seat: &Rc<Seat>, memory: &Arc<CellMemory>, call: &Call) -> i64 {
    let [first, second, third, ..] = call.arguments;
    match call.number {
        SUM => {
            sleep_ns(first % 50_000).await;
            first.wrapping_add(second) as i64
        }
        SUM_OF_BYTES => sum(memory, first, second),
        OPEN => open(home, seat, memory, [first, second, third]),
        CLOSE => {
            seat.gives_back.set(true);
            seat.changed.wake_all();
            seat.changed.until(|| seat.is_served.get().then_some(0)).await
        }
        _ => -38,
    }
}

fn sum(memory: &CellMemory, address: u64, bytes: u64) -> i64 {
    let byte = |at: u64| {
        let seen = memory.find(at)?;
        let mut byte = [0];
        seen.page.read(seen.offset, &mut byte);
        Some(i64::from(byte[0]))
    };
    (address..address.saturating_add(bytes)).map(byte).sum::<Option<i64>>().unwrap_or(FAULT)
}

fn open(home: &Rc<Home>, seat: &Rc<Seat>, memory: &Arc<CellMemory>, [descriptors, available, used]: [u64; 3]) -> i64 {
    let plan = DeviceRequest { size: 40, device: 0, entries: 8, reserved: 0, descriptors, available, used };
    let Ok(queue) = Queue::new(memory, &plan) else { return FAULT };
    if home.holder.get().is_some() {
        return BUSY;
    }
    home.holder.set(Some(seat.number));
    let (home, seat, memory) = (home.clone(), seat.clone(), memory.clone());
    let (engine, activity) = (home.engine, seat.activity);
    engine.spawn_for(ResourceId::RUNTIME, activity, async move {
        match attend(home.disk, &memory, queue, &*seat).await {
            gyre_cell_device::End::Over => {}
            gyre_cell_device::End::GivenBack => home.holder.set(None),
            gyre_cell_device::End::Lied(lie) => {
                seat.lie.set(Some(lie));
                seat.end();
            }
        }
        seat.is_served.set(true);
        seat.changed.wake_all();
    });
    0
}
