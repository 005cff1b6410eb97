//! `[tenant.model]`: what a tenant wants of the processor, for `gyre sim`. The machine itself knows nothing of it.

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
    units,
};

/// A tenant's demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// How its work comes.
    pub arrival: Arrival,
    /// Time of one core for each beat or answer, ns.
    pub work_ns: u64,
    /// By how much the work varies, percent.
    pub varies_percent: u32,
}

/// How work comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// So many clients, each of which asks again at once.
    Clients(u32),
    /// So many in 1,000 seconds.
    Rate(u64),
}

/// Work of a beat, ns.
const WORK_NS: core::ops::RangeInclusive<u64> = 1_000..=100_000_000_000;

/// Reads a tenant's model: clients or a rate, and the work of each answer.
pub(super) fn read(checker: &mut Checker, raw: &At<raw::Model>) -> Option<Model> {
    let model = raw.get_ref();
    let work_ns = checker.unit(Some(&model.work), 1_000_000, units::nanoseconds);
    if !WORK_NS.contains(&work_ns) {
        let message = format!("an answer cannot take {} of a core", model.work.get_ref());
        checker.wrong(Problem::new(model.work.span(), message, "expected 1 us to 100 s"));
    }
    let varies = checker.unit(model.varies.as_ref(), 25_000, units::percent) / 1_000;
    let arrival = match (&model.clients, &model.rate) {
        (Some(_), None) => Arrival::Clients(checker.number(model.clients.as_ref(), "clients", 1, 100_000, 1) as u32),
        (None, Some(rate)) => Arrival::Rate(checker.unit(Some(rate), 1_000, units::beats)),
        _ => {
            let problem = Problem::new(raw.span(), "the model does not say how work comes", "expected clients or rate");
            checker.wrong(
                problem.help("rate = \"200/s\" whatever the answers take, or clients = 1 for one after the other"),
            );
            return None;
        }
    };
    Some(Model { arrival, work_ns, varies_percent: u32::try_from(varies.min(200)).unwrap_or(25) })
}
