//! A SCSI disk in the grid: the resource that makes commands, before the host adapter's gate.
//!
//! ```text
//!   storage --block::Request--> joined with what waits --> scsi: lines --command--> block: gate, scheduler --> host adapter
//! ```
//!
//! Requests join before commands are made of them, since a command says where it begins and how long it is. The disk's scheduler stands behind, at the
//! gate, and orders commands. So of each activity only as many commands are made as let the scheduler choose among all activities at any time: twice as
//! many as the device has at once, and two.
//!
//! The number has this reason. While an activity has all places at the device and answers are on their way, at least as many of its
//! commands must wait at the gate for the places that come free. With fewer, an activity with the larger share is not at the gate each time when it is
//! entitled. The rest waits in the activity's line, where it is joined.

use crate::Unit;
use alloc::boxed::Box;
use gyre_account::{ResourceId, current_activity};
use gyre_block_merge::{Batch, Lines, Merging, Ticket, Waiting, Work};
use gyre_engine::Engine;
use gyre_interface::BytesReport;
use gyre_interface::block::block::Server;
use gyre_interface::block::{BlockError, block};
use gyre_interface::scsi::scsi_host;
use gyre_message::Link;

/// Commands of an activity that wait at the gate or are at the device at most, for each that the device has at once.
const COMMANDS_PER_PLACE: usize = 2;
/// Commands of an activity beyond those: an answer may be on its way.
const COMMANDS_MORE: usize = 2;

/// Returns how many commands of an activity are under way at most.
fn commands_max(depth: u16) -> usize {
    usize::from(depth).saturating_mul(COMMANDS_PER_PLACE).saturating_add(COMMANDS_MORE)
}

struct Disk {
    unit: Unit,
    lines: Lines,
}

/// Puts the SCSI resource, which is `resource` in the engine, before a host adapter that has `depth` commands at once. `report` is told the
/// bytes of its requests.
pub fn attach(
    engine: &'static Engine,
    resource: ResourceId,
    host: scsi_host::Client,
    depth: u16,
    report: Option<BytesReport>,
) -> block::Client {
    let lines = Lines::new(commands_max(depth));
    let disk: &'static Disk = Box::leak(Box::new(Disk { unit: Unit::new(host, report), lines }));
    let waiting: &'static Waiting = Box::leak(Box::default());
    let queue = engine.port(resource, move |work| serve(disk, work));
    block::Client::new(Link::new(Box::leak(Box::new(Merging::new(waiting, queue)))))
}

async fn serve(disk: &'static Disk, work: Work) {
    match work {
        Work::Turn(ticket) => disk.turn(ticket).await,
        Work::Geometry(reply) => reply.send(disk.unit.geometry().await),
        Work::Flush(reply) => reply.send(disk.unit.flush().await),
    }
}

impl Disk {
    /// Does the requests in the line of this activity, unless others do so already.
    async fn turn(&'static self, ticket: Ticket) {
        let Some((ticket, mut place)) = self.lines.enter(current_activity(), ticket) else { return };
        let mut next = Some(ticket);
        while let Some(ticket) = next {
            if let Some(batch) = ticket.take() {
                self.perform(batch).await;
            }
            next = place.next();
        }
    }

    /// Does requests that joined while they waited. After an error it does each alone.
    async fn perform(&'static self, mut batch: Batch) {
        match self.transfer(&mut batch).await {
            Err(_) if batch.parts() > 1 => {
                for mut one in batch.split() {
                    let done = self.transfer(&mut one).await;
                    one.answer(done);
                }
            }
            done => batch.answer(done),
        }
    }

    async fn transfer(&'static self, batch: &mut Batch) -> Result<(), BlockError> {
        let (first, views) = (batch.first_sector(), batch.lend());
        match batch.is_write() {
            true => self.unit.write(first, views).await,
            false => self.unit.read(first, views).await.map(|data| batch.give_back(data)),
        }
    }
}
