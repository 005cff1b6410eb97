//! One life of the machine: from power on to a crash, or to an orderly end with all checks.

use crate::whole::checks::{
    Alive, alive, check_ledger, check_left, check_memory, check_shares, check_tables, sent_bytes,
};
use crate::whole::exchange::Ends;
use crate::whole::machine::Machine;
use crate::whole::plan::{MS, Plan};
use crate::whole::promises::Promises;
use crate::whole::tenant::{Kept, Tenant};
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::simulate::{Outside, Simulator, Stop};
use gyre_message::sleep_ns;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Turns of a life, at most.
const STEPS_MAX: u64 = 3_000_000;
/// How long what was begun may take to end, ns.
const ENDING_NS_MAX: u64 = 400_000 * MS;

/// What each tenant's disk must hold: promises by the number of their directories.
pub type Memory = Vec<Vec<(usize, Promises)>>;

/// What a life came to.
pub struct End {
    /// The disk.
    pub image: Vec<u8>,
    /// Whether the machine stopped in the middle.
    pub has_crashed: bool,
    /// Whether the disk failed a request.
    pub has_failed: bool,
    /// What it must hold.
    pub memory: Memory,
    /// Depends on every turn.
    pub trace: u64,
    /// Turns.
    pub steps: u64,
    /// Things done with files.
    pub done: u64,
    /// Exchanges as the tenants saw them.
    pub ends: Ends,
}

struct Life {
    machine: Rc<Machine>,
    tenants: Vec<Rc<Tenant>>,
    simulator: Simulator,
    before: Alive,
    is_ended: Rc<Cell<bool>>,
}

/// Lives; a machine of its own for this thread.
///
/// # Panics
/// Where a check fails; the message says which.
pub fn live(plan: Plan, image: Vec<u8>, memory: Memory) -> End {
    let mut life = Life::begin(plan, image, memory);
    let has_crashed = life.go_on();
    if !has_crashed {
        life.end();
    }
    check_ledger(&life.machine);
    life.report(has_crashed)
}

impl Life {
    fn begin(plan: Plan, image: Vec<u8>, memory: Memory) -> Life {
        let machine = Machine::new(plan, image);
        let mut simulator = Simulator::new(machine.engine, machine.plan.seed);
        simulator.attach(machine.disk.clone());
        simulator.attach(machine.card.clone());
        simulator.attach(machine.peer.clone());
        assert_ne!(simulator.run_for(3 * MS, STEPS_MAX), Stop::Exhausted, "starting takes too many turns");
        let before = alive(&machine);
        let mut memory = memory.into_iter();
        let tenants: Vec<Rc<Tenant>> = (0..machine.activities.len())
            .map(|index| Tenant::start(&machine, index, kept(memory.next().unwrap_or_default())))
            .collect();
        gyre_machine::select_core(0);
        Life { machine, tenants, simulator, before, is_ended: Rc::default() }
    }

    /// Runs the tenants; true where the machine stopped in the middle.
    fn go_on(&mut self) -> bool {
        let machine = &self.machine;
        if let Some((index, at_ns)) = machine.plan.kill {
            self.spawn(kill(machine.clone(), index, at_ns));
        }
        self.spawn(direct(machine.clone(), self.tenants.clone(), self.is_ended.clone()));
        if let Some(at_ns) = machine.plan.crash_ns {
            let stop = self.simulator.run_for(4 * MS + at_ns, STEPS_MAX);
            assert_ne!(stop, Stop::Exhausted, "the tenants' work takes too many turns");
            return !self.is_ended.get();
        }
        let is_ended = self.is_ended.clone();
        let stop = self.simulator.run(STEPS_MAX, || is_ended.get());
        assert_eq!(stop, Stop::Done, "what was begun does not end: {}", self.describe());
        false
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.machine.engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, task);
    }

    fn describe(&self) -> String {
        let busy: Vec<usize> = self.tenants.iter().map(|tenant| tenant.busy.get()).collect();
        let Machine { disk, card, peer, .. } = &*self.machine;
        let outside = [disk.next_at(), card.next_at(), peer.next_at()];
        let now = self.simulator.now_ns();
        format!("busy {busy:?}, outside acts at {outside:?}, now {now}, {peer}, {:?}", alive(&self.machine))
    }

    /// Whatever has a time set comes to its end; then nothing may be left.
    fn end(&mut self) {
        let stop = self.simulator.run(STEPS_MAX, || false);
        assert_eq!(stop, Stop::Quiet, "something goes on for ever: {}", self.describe());
        check_left(&self.machine, self.before, &self.tenants);
    }

    fn report(&self, has_crashed: bool) -> End {
        let machine = &self.machine;
        let promises = |tenant: &Rc<Tenant>| -> Vec<(usize, Promises)> {
            tenant.kept.borrow().iter().map(|(number, promises)| (*number, promises.borrow().clone())).collect()
        };
        let ends = self.tenants.iter().map(|tenant| tenant.ends.get());
        End {
            image: if has_crashed { machine.disk.crash() } else { machine.disk.image() },
            has_crashed,
            has_failed: machine.disk.faults.get() > 0,
            memory: self.tenants.iter().map(promises).collect(),
            trace: self.simulator.trace_hash(),
            steps: self.simulator.steps(),
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
    let is_idle = || tenants.iter().all(|tenant| tenant.busy.get() == 0) && machine.peer.is_silent();
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
    tenants.iter().for_each(|tenant| check_memory(&machine, tenant));
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

/// The sockets of each tenant that was not killed: a socket whose name was on its way to somebody who ended is nobody's to close.
fn open_sockets(machine: &Machine) -> Vec<u64> {
    let killed: Vec<ActivityId> = machine.peer.killed.borrow().iter().map(|index| machine.activities[*index]).collect();
    let figures = machine.network.net.statistics();
    figures.iter().filter(|(activity, _)| !killed.contains(activity)).map(|(_, figures)| figures.sockets).collect()
}

async fn unmount(machine: &Machine, tenant: &Tenant) {
    let Some((server, client)) = *tenant.mounted.borrow() else { return };
    tenant.check_promises(client).await;
    let unmounted = server.unmount().await;
    assert!(unmounted.is_ok() || machine.plan.disk.is_faulty(), "tenant {}: {unmounted:?}", tenant.index);
}
