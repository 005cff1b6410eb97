//! One life of the machine: from power on to a crash, or to an orderly end with all checks.
//!
//! ```text
//!   Starting -- 3 ms --> Working -- the tenants have ended --> Ending -- nothing is left to do --> Over
//!                           +------- the machine stops, or its instance is killed -------------> Over
//! ```
//! [`Life::begin`] puts the machine into a world as an instance with a goal; [`run`] lets the world go on and tells the life when its instance
//! has come to its goal; the life ends the phase, checks it and names the next goal. So several lives go on in one world, each at its own
//! pace. [`live`] is a life alone in a world. [`Life::report`] tells what a life came to, once it is over.
//!
//! All work on the machine is done as its instance (`Instance::within`).
//!
//! Left out: the life after a crash, which is another one with the disk that is left (`run.rs`).

use crate::arguments::Cores;
use crate::reached::Reached;
use crate::whole::checks::{
    Alive, Figures, alive, check_ledger, check_left, check_memory, check_shares, check_tables, figures, sent_bytes,
    worked,
};
use crate::whole::exchange::Ends;
use crate::whole::failures::is_on_purpose;
use crate::whole::machine::{Machine, START_NS};
use crate::whole::plan::{MS, Plan};
use crate::whole::promises::Promises;
use crate::whole::tenant::{Kept, Tenant};
use gyre_account::{ActivityId, ResourceId};
use gyre_contract::catalogue::Resource;
use gyre_engine::simulate::{self, Goal, Instance, InstanceId, Moves, Outside, Stop, World};
use gyre_message::{sleep_ns, within};
use gyre_object::promise::{Note, note_promise};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// Turns of a life, at most.
const STEPS_MAX: u64 = 3_000_000;
/// How long what was begun may take to end, ns.
const ENDING_NS_MAX: u64 = 400_000 * MS;
/// How long it may take to unmount the file system of a tenant for whom the kernel failed, ns.
const UNMOUNT_NS_MAX: u64 = 10_000 * MS;

/// The contents that each tenant's disk must hold: promises by the number of their directories.
pub type Memory = Vec<Vec<(usize, Promises)>>;

/// The outcome of a life.
pub struct End {
    /// The disk.
    pub image: Vec<u8>,
    /// Whether the machine stopped in the middle.
    pub has_crashed: bool,
    /// The tenant for whom the kernel failed: what its file system had under way is lost.
    pub failed_tenant: Option<usize>,
    /// Resources that worked for tenants, and the one whose work failed.
    pub reached: Reached,
    /// Whether the disk failed a request.
    pub has_failed: bool,
    /// The contents that it must hold.
    pub memory: Memory,
    /// Depends on every turn.
    pub trace: u64,
    /// Turns.
    pub steps: u64,
    /// All that the instance counts of itself.
    pub figures: Figures,
    /// Things done with files.
    pub done: u64,
    /// Exchanges as the tenants saw them.
    pub ends: Ends,
    /// Cores that left and came back.
    pub moves: Moves,
}

/// How far a life is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The resources start; there are no tenants yet.
    Starting,
    /// The tenants work, until the orderly end or the crash.
    Working,
    /// Work that has a time set comes to its end.
    Ending,
    /// It is over, and the machine stands still.
    Over,
}

/// A machine and its tenants, from power on to the end.
///
/// It is driven by what the world tells of its instance: [`Life::next`] ends a phase and begins the next one, with a goal for the instance.
/// Several lives go on in one world, each at its own pace.
pub struct Life {
    machine: Rc<Machine>,
    phase: Phase,
    memory: Memory,
    tenants: Vec<Rc<Tenant>>,
    before: Alive,
    has_crashed: bool,
    /// The resource whose work failed and ended the machine.
    ended_in: Option<Resource>,
    is_ended: Rc<Cell<bool>>,
}

/// Lives alone in a world.
///
/// # Panics
/// If a check fails; the message says which.
pub fn live(plan: Plan, image: Vec<u8>, memory: Memory) -> End {
    let mut world = World::new(plan.seed);
    let (life, id) = Life::begin(&mut world, plan, image, memory, 0);
    let mut lives = vec![(id, life)];
    run(&mut world, &mut lives, u64::MAX);
    let (id, life) = lives.remove(0);
    life.report(world.instance(id).expect("nobody killed it"))
}

/// Runs lives until all are over, or until a time. One whose plan has the kernel fail in what all its tenants share ends by that alone.
///
/// # Panics
/// If a check of one fails; the message says which.
pub fn run(world: &mut World, lives: &mut [(InstanceId, Life)], until_ns: u64) {
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| run_on(world, lives, until_ns))) {
        let last = world.last();
        let failed = lives.iter_mut().find(|(id, _)| Some(*id) == last);
        match failed.filter(|(_, life)| life.may_end() && is_on_purpose(&*payload)) {
            Some((id, life)) => {
                life.end_machine();
                world.rest(*id);
            }
            None => resume_unwind(payload),
        }
    }
}

fn run_on(world: &mut World, lives: &mut [(InstanceId, Life)], until_ns: u64) {
    while let simulate::Reached::Goal(id, stop) = world.run(until_ns) {
        let life = lives.iter_mut().find(|(of, _)| *of == id);
        let (Some((_, life)), Some(instance)) = (life, world.instance(id)) else { continue };
        if let Some(goal) = life.next(instance, stop) {
            world.aim(id, goal);
        }
    }
}

impl Life {
    /// Switches a machine on, as an instance of a world, so much later than that.
    pub fn begin(world: &mut World, plan: Plan, image: Vec<u8>, memory: Memory, later_ns: u64) -> (Life, InstanceId) {
        let (seed, mut made) = (plan.seed, None);
        let mut instance = Instance::boot(seed, START_NS, || {
            let machine = made.insert(Machine::new(plan, image));
            machine.engine
        });
        let machine = made.expect("booting makes a machine");
        instance.attach(machine.disk.clone());
        instance.attach(machine.card.clone());
        instance.attach(machine.peer.clone());
        if machine.plan.moving == Cores::Moving {
            instance.attach(machine.mover.clone());
        }
        let id = world.add_later(instance, later_ns);
        world.aim(id, Goal::time(3 * MS).within_steps(STEPS_MAX));
        let life = Life {
            machine,
            phase: Phase::Starting,
            memory,
            tenants: Vec::new(),
            before: Alive::default(),
            has_crashed: false,
            ended_in: None,
            is_ended: Rc::default(),
        };
        (life, id)
    }

    /// The instance has come to its goal, or cannot. Ends the phase; answers the goal of the next one.
    fn next(&mut self, instance: &Instance, stop: Stop) -> Option<Goal<'static>> {
        match self.phase {
            Phase::Starting => {
                assert_ne!(stop, Stop::Exhausted, "starting takes too many turns");
                self.phase = Phase::Working;
                Some(instance.within(|| self.work()))
            }
            Phase::Working => self.end_of_work(instance, stop),
            Phase::Ending => {
                assert_eq!(stop, Stop::Quiet, "something goes on for ever: {}", self.describe(instance));
                instance.within(|| check_left(&self.machine, self.before, &self.tenants));
                self.phase = Phase::Over;
                None
            }
            Phase::Over => None,
        }
    }

    /// Returns true if the plan has work fail that may hold what all tenants share.
    fn may_end(&self) -> bool {
        self.machine.plan.failing.is_some_and(|failing| failing.ends_machine())
    }

    /// The machine ended by a failure of the kernel.
    fn end_machine(&mut self) {
        // The thread keeps what the work had in hand; the next step may be another instance's.
        gyre_object::forget_locks_held();
        note_promise(Note::NONE);
        self.ended_in = self.machine.plan.failing.map(|failing| failing.resource);
        self.has_crashed = true;
        self.phase = Phase::Over;
    }

    /// Starts the tenants.
    fn work(&mut self) -> Goal<'static> {
        let machine = &self.machine;
        if machine.plan.failing.is_some() {
            gyre_machine::select_core(0);
            self.spawn(machine.failures.end_them(machine.clone()));
        }
        self.before = alive(machine);
        let mut memory = std::mem::take(&mut self.memory).into_iter();
        self.tenants = (0..machine.activities.len())
            .map(|index| Tenant::start(machine, index, kept(memory.next().unwrap_or_default())))
            .collect();
        gyre_machine::select_core(0);
        if let Some((index, at_ns)) = machine.plan.kill {
            self.spawn(kill(machine.clone(), index, at_ns));
        }
        self.spawn(direct(machine.clone(), self.tenants.clone(), self.is_ended.clone()));
        let is_ended = self.is_ended.clone();
        let goal = match machine.plan.crash_ns {
            Some(at_ns) => Goal::time(4 * MS + at_ns),
            None => Goal::new(move || is_ended.get()),
        };
        goal.within_steps(STEPS_MAX)
    }

    fn end_of_work(&mut self, instance: &Instance, stop: Stop) -> Option<Goal<'static>> {
        if self.machine.plan.crash_ns.is_some() {
            assert_ne!(stop, Stop::Exhausted, "the tenants' work takes too many turns");
            self.has_crashed = !self.is_ended.get();
        } else {
            assert_eq!(stop, Stop::Done, "what was begun does not end: {}", self.describe(instance));
        }
        self.phase = if self.has_crashed { Phase::Over } else { Phase::Ending };
        (!self.has_crashed).then(|| Goal::new(|| false).within_steps(STEPS_MAX))
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.machine.engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, task);
    }

    fn describe(&self, instance: &Instance) -> String {
        let busy: Vec<usize> = self.tenants.iter().map(|tenant| tenant.busy.get()).collect();
        let Machine { disk, card, peer, .. } = &*self.machine;
        let outside = [disk.next_at(), card.next_at(), peer.next_at()];
        let (now, alive) = (instance.now_ns(), instance.within(|| alive(&self.machine)));
        format!("busy {busy:?}, outside acts at {outside:?}, now {now}, {peer}, {alive:?}")
    }

    /// Its instance was killed: nothing of it is left that could act or hold anything.
    ///
    /// # Panics
    /// If a task, or a part outside of the cores, is.
    pub fn check_gone(self) {
        let Life { machine, tenants, .. } = self;
        drop(tenants);
        let [device, peer] = [Rc::strong_count(&machine.disk), Rc::strong_count(&machine.peer)];
        assert_eq!((device, peer), (1, 1), "devices of a killed instance act on");
        assert_eq!(Rc::strong_count(&machine), 1, "tasks of a killed instance are left");
    }

    /// True once nothing more happens.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    fn failed_tenant(&self) -> Option<usize> {
        let failures = self.machine.failures;
        self.machine.activities.iter().position(|activity| failures.count(*activity) > 0)
    }

    fn reached(&self) -> Reached {
        let failing = self.machine.plan.failing.map(|failing| failing.resource);
        let failed = self.ended_in.or(failing.filter(|_| self.failed_tenant().is_some()));
        let name = |resource: Resource| resource.engine_name();
        Reached::new(worked(&self.machine).into_iter().map(name), failed.into_iter().map(name))
    }

    /// Tells what it came to.
    ///
    /// # Panics
    /// If it is not over, or a cycle of a core is unaccounted for.
    pub fn report(&self, instance: &Instance) -> End {
        assert!(self.is_over(), "{:?}: {}", self.phase, self.describe(instance));
        let machine = &self.machine;
        instance.within(|| check_ledger(machine));
        let promises = |tenant: &Rc<Tenant>| -> Vec<(usize, Promises)> {
            tenant.kept.borrow().iter().map(|(number, promises)| (*number, promises.borrow().clone())).collect()
        };
        let ends = self.tenants.iter().map(|tenant| tenant.ends.get());
        End {
            image: if self.has_crashed { machine.disk.crash() } else { machine.disk.image() },
            has_crashed: self.has_crashed,
            failed_tenant: self.failed_tenant(),
            reached: self.reached(),
            has_failed: machine.disk.faults.get() > 0,
            memory: self.tenants.iter().map(promises).collect(),
            trace: instance.trace_hash(),
            steps: instance.steps(),
            figures: instance.within(|| figures(machine)),
            moves: machine.mover.moves(),
            done: self.tenants.iter().map(|tenant| tenant.done.get()).sum(),
            ends: ends.fold(Ends::default(), |sum, one| Ends {
                whole: sum.whole + one.whole,
                broken: sum.broken + one.broken,
            }),
        }
    }
}

fn kept(memory: Vec<(usize, Promises)>) -> Vec<Kept> {
    memory.into_iter().map(|(number, promises)| (number, Rc::new(RefCell::new(promises)))).collect()
}

async fn kill(machine: Rc<Machine>, index: usize, at_ns: u64) {
    sleep_ns(at_ns).await;
    machine.peer.killed.borrow_mut().push(index);
    machine.peer.served.borrow_mut()[index] = None;
    let killed = machine.engine.kill(machine.activities[index]).await;
    assert_eq!(killed, Ok(()), "tenant {index} cannot be killed");
}

/// Lets the tenants work, then lets everything come to its end, unmounts and ends the tenants.
async fn direct(machine: Rc<Machine>, tenants: Vec<Rc<Tenant>>, is_ended: Rc<Cell<bool>>) {
    sleep_ns(machine.plan.busy_ns / 2).await;
    let before = sent_bytes(&machine);
    sleep_ns(machine.plan.busy_ns / 2).await;
    if machine.plan.is_contest {
        check_shares(&machine, &before, &sent_bytes(&machine));
    }
    machine.end();
    let is_idle = || tenants.iter().all(|tenant| tenant.open_tasks() == 0) && machine.peer.is_silent();
    let open = || {
        let busy: Vec<usize> = tenants.iter().map(|tenant| tenant.busy.get()).collect();
        let (peer, sockets) = (&machine.peer, open_sockets(&machine));
        format!("what was begun does not end: tasks {busy:?}, sockets {sockets:?}, {peer}")
    };
    until(is_idle, open).await;
    let are_closed = || open_sockets(&machine).iter().all(|count| *count == 0);
    let complain = || format!("sockets are open: {:?}, killed {:?}", open_sockets(&machine), machine.plan.kill);
    until(are_closed, complain).await;
    for tenant in &tenants {
        unmount(&machine, tenant).await;
    }
    // Memory of work that failed stays on its tenant's bill.
    let whole = tenants.iter().filter(|tenant| machine.failures.count(tenant.activity) == 0);
    whole.for_each(|tenant| check_memory(&machine, tenant));
    tenants.iter().for_each(|tenant| check_tables(&machine, tenant));
    for activity in &machine.activities {
        let _ = machine.engine.kill(*activity).await;
    }
    is_ended.set(true);
}

/// Waits until it is so.
async fn until(is_so: impl Fn() -> bool, complaint: impl Fn() -> String) {
    let mut waited = 0;
    while !is_so() {
        assert!(waited < ENDING_NS_MAX, "{}", complaint());
        sleep_ns(10 * MS).await;
        waited += 10 * MS;
    }
}

/// Returns the sockets of each tenant that was not killed: no process can close a socket whose name was on its way to one that ended.
fn open_sockets(machine: &Machine) -> Vec<u64> {
    let killed: Vec<ActivityId> = machine.peer.killed.borrow().iter().map(|index| machine.activities[*index]).collect();
    let figures = machine.network.net.statistics();
    figures.iter().filter(|(activity, _)| !killed.contains(activity)).map(|(_, figures)| figures.sockets).collect()
}

async fn unmount(machine: &Machine, tenant: &Tenant) {
    let Some((server, client)) = *tenant.mounted.borrow() else { return };
    if machine.failures.count(tenant.activity) > 0 {
        // Gates may be lost with the work that failed: then its file system stays as it is.
        let _ = within(UNMOUNT_NS_MAX, server.unmount()).await;
        return;
    }
    tenant.check_promises(client).await;
    let unmounted = server.unmount().await;
    assert!(unmounted.is_ok() || machine.plan.disk.is_faulty(), "tenant {}: {unmounted:?}", tenant.index);
}
