//! Slices: a processor that one tenant has at a time, as `gyre-schedulers`' weighted fair queueing gives it. A fluid is kinder: in it nobody waits
//! for the end of somebody's slice.

/// How long a tenant has the processor that others wait for, ns.
const SLICE_NS: f64 = 4e6;

/// A tenant that wakes may be behind by this, ns: so far it is served before the others, whatever its weight.
const CREDIT_NS: f64 = 8e6;

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    /// Its service so far, divided by its weight.
    tag: f64,
    had_work: bool,
}

/// The state of the processor.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    clients: Vec<Client>,
    virtual_time: f64,
    running: usize,
    left_ns: f64,
}

impl Slices {
    /// Makes an idle processor of so many tenants.
    pub(super) fn new(count: usize) -> Slices {
        Slices { clients: vec![Client::default(); count], virtual_time: 0.0, running: 0, left_ns: 0.0 }
    }

    /// Divides `most_ns` among those who want `open` ns each and have `weights`.
    pub(super) fn divide(&mut self, mut open: Vec<f64>, weights: &[f64], most_ns: f64) -> Vec<f64> {
        for ((client, open), weight) in self.clients.iter_mut().zip(&open).zip(weights) {
            if *open > 0.0 && !client.had_work {
                client.tag = client.tag.max(self.virtual_time - CREDIT_NS / weight.max(1.0));
            }
            client.had_work = *open > 0.0;
        }
        let mut given = vec![0.0; open.len()];
        let mut left_ns = most_ns;
        // Each turn ends a slice, somebody's work, or the tick.
        while left_ns > 1e-6 && self.choose(&open) {
            let at = self.running;
            let ns = open[at].min(self.left_ns).min(left_ns);
            given[at] += ns;
            open[at] -= ns;
            self.left_ns -= ns;
            left_ns -= ns;
            self.clients[at].tag += ns / weights[at].max(1.0);
        }
        given
    }

    /// Lets who runs go on, or the one that is behind most; says whether anybody wants the processor.
    fn choose(&mut self, open: &[f64]) -> bool {
        let wants = |at: usize| open.get(at).is_some_and(|open| *open > 1e-6);
        if self.left_ns > 1e-6 && wants(self.running) {
            return true;
        }
        let waiting = (0..open.len()).filter(|at| wants(*at));
        let Some(next) = waiting.min_by(|a, b| self.clients[*a].tag.total_cmp(&self.clients[*b].tag)) else {
            return false;
        };
        (self.running, self.left_ns) = (next, SLICE_NS);
        self.virtual_time = self.virtual_time.max(self.clients[next].tag);
        true
    }
}
