//! The end of an instance by force: all its cores at once are brought back.

use super::calls::NoAnswer;
use super::reset::{Progress, Reset};
use gyre_platform::{CORES_MAX, PciAddress};

/// A part of an instance did not obey when it was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopError {
    /// This core is lost; the instance may still run on it.
    Core(NoAnswer),
    /// This function may still write to memory.
    Device(PciAddress),
}

/// The end of an instance under way, of which each step is short.
#[derive(Debug)]
pub struct Stop {
    /// The reset of the core of each box, while it is under way.
    pub(super) resets: [Option<Reset>; CORES_MAX],
    /// The last core that is lost.
    pub(super) lost: Option<NoAnswer>,
}

impl Stop {
    /// Looks at each core once; returns whether all are back or lost.
    pub fn step(&mut self) -> bool {
        for place in &mut self.resets {
            match place.as_mut().map(Reset::step) {
                None | Some(Progress::UnderWay) => {}
                Some(Progress::Parked) => *place = None,
                Some(Progress::Lost(error)) => (*place, self.lost) = (None, Some(error)),
            }
        }
        self.resets.iter().all(Option::is_none)
    }
}
