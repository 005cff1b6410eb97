//! Prometheus text (exposition format 0.0.4). Names that dashboards know (`container_*`, as cAdvisor writes them) if they
//! fit; `gyre_*` beside them for what nobody else measures. Base units: seconds, bytes; counters end in `_total`.
//!
//! * [`text`] makes the whole page of one snapshot. Families: containers, cores, records, machine, processes.
//! * Figures of tenants include their processes. Processes have families of their own, for at most [`PROCESSES_MAX`]
//!   of them.
//! * A tenant that has left is not shown, since another one may have its name.
//! * To add a family: a method of [`Page`] and a call in [`text`]; counters come from the contract's list by
//!   themselves.
//!
//! Nothing is kept between two pages: counters are the kernel's, since its start.

use std::fmt::Write as _;

use gyre_contract::{
    bill::{self, Bill, ProcessLine},
    monitor::{ACTIVITY_COUNTERS, Activity, ActivityKind, Snapshot, State},
};

/// Processes that get samples of their own, those that used most: a page must not grow with what tenants start.
const PROCESSES_MAX: usize = 64;

/// Writes all figures of a snapshot. Families by activity and resource show tenants with their processes in; a bounded number of
/// processes has families of its own.
pub fn text(whole: &Snapshot) -> String {
    let snapshot = &whole.without_processes();
    let mut page = Page { text: String::new(), seconds_per_cycle: 1.0 / snapshot.cycles_per_second.max(1) as f64 };
    page.containers(snapshot);
    page.cores(snapshot);
    page.records(snapshot);
    page.machine(snapshot);
    page.processes(whole);
    page.text
}

struct Page {
    text: String,
    seconds_per_cycle: f64,
}

/// Label pairs and a value.
pub(crate) type Sample = (Vec<(&'static str, String)>, f64);

/// Writes a family of samples.
pub(crate) fn family(text: &mut String, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
        family(&mut self.text, name, kind, help, samples);
    }

    fn containers(&mut self, snapshot: &Snapshot) {
        let bill = Bill::of(snapshot);
        let cycle = self.seconds_per_cycle;
        let lines = || bill.tenants.iter();
        let tenant = |name: &String| vec![("name", name.clone())];
        self.family(
            "container_cpu_usage_seconds_total",
            "counter",
            "CPU time of the tenant, kernel work on its behalf included.",
            lines().map(|line| (tenant(&line.tenant), line.cycles as f64 * cycle)),
        );
        self.family(
            "container_cpu_user_seconds_total",
            "counter",
            "CPU time of the tenant in user mode.",
            lines().map(|line| (tenant(&line.tenant), line.user_cycles as f64 * cycle)),
        );
        self.family(
            "container_network_transmit_bytes_total",
            "counter",
            "Bytes sent to the wire.",
            lines().map(|line| (tenant(&line.tenant), line.sent_bytes as f64)),
        );
        self.family(
            "container_network_receive_bytes_total",
            "counter",
            "Bytes received from the wire.",
            lines().map(|line| (tenant(&line.tenant), line.received_bytes as f64)),
        );
        self.family(
            "container_fs_reads_bytes_total",
            "counter",
            "Bytes read from the disk.",
            lines().map(|line| (tenant(&line.tenant), line.read_bytes as f64)),
        );
        self.family(
            "container_fs_writes_bytes_total",
            "counter",
            "Bytes written to the disk.",
            lines().map(|line| (tenant(&line.tenant), line.written_bytes as f64)),
        );
        self.health(snapshot);
        self.overload(snapshot);
        self.counters(snapshot);
        self.memory(snapshot);
    }

    /// The counters of tenants that have no family of a dashboard's.
    fn counters(&mut self, snapshot: &Snapshot) {
        let is_tenant = |one: &&Activity| is_tenant(one);
        let tenants = || snapshot.activities.iter().filter(is_tenant);
        for counter in ACTIVITY_COUNTERS {
            let Some(name) = counter.name else { continue };
            let samples = tenants().map(|one| (vec![("name", one.name.clone())], (counter.value)(one) as f64));
            self.family(&format!("gyre_tenant_{name}_total"), "counter", counter.help, samples);
        }
    }

    /// The controllers at listeners, of the tenants that have one.
    fn overload(&mut self, snapshot: &Snapshot) {
        let guarded = || snapshot.activities.iter().filter(|one| one.connections_limit > 0);
        let label = |one: &Activity| vec![("name", one.name.clone())];
        self.family(
            "gyre_tenant_load_level",
            "gauge",
            "Delay of new connections by the target of the tenant's overload controller.",
            guarded().map(|one| (label(one), f64::from(one.load_level) / 1000.0)),
        );
        self.family(
            "gyre_tenant_connections_limit",
            "gauge",
            "Connections that the tenant's overload controller lets in.",
            guarded().map(|one| (label(one), f64::from(one.connections_limit))),
        );
    }

    /// Whether tenants run, and what their disks have not carried out.
    fn health(&mut self, snapshot: &Snapshot) {
        let is_tenant = |one: &&Activity| is_tenant(one);
        let tenants = || snapshot.activities.iter().filter(is_tenant);
        let label = |one: &Activity| vec![("name", one.name.clone())];
        self.family(
            "gyre_tenant_running",
            "gauge",
            "1 while the tenant's first program runs, or none is described; 0 before, and when it has ended or failed.",
            tenants().map(|one| (label(one), f64::from(u8::from(one.state == State::Running)))),
        );
        self.family(
            "gyre_tenant_disk_failures_total",
            "counter",
            "Requests that the tenant's disk has not carried out.",
            tenants().map(|one| (label(one), one.disk_failures as f64)),
        );
    }

    fn processes(&mut self, snapshot: &Snapshot) {
        let cycle = self.seconds_per_cycle;
        let mut lines = bill::processes(snapshot);
        let count = lines.len();
        lines.sort_by_key(|line| std::cmp::Reverse(line.cycles));
        lines.truncate(PROCESSES_MAX);
        let each = |value: &dyn Fn(&ProcessLine) -> f64| -> Vec<Sample> {
            let labels = |line: &ProcessLine| {
                vec![
                    ("name", line.tenant.clone()),
                    ("process", line.process.to_string()),
                    ("program", line.name.clone()),
                ]
            };
            lines.iter().map(|line| (labels(line), value(line))).collect()
        };
        self.family("gyre_processes", "gauge", "Processes that run, shown below or not.", [(vec![], count as f64)]);
        self.family(
            "gyre_process_cpu_seconds_total",
            "counter",
            "CPU time of the process, kernel work on its behalf included.",
            each(&|line| line.cycles as f64 * cycle),
        );
        self.family(
            "gyre_process_cpu_user_seconds_total",
            "counter",
            "CPU time of the process in user mode.",
            each(&|line| line.user_cycles as f64 * cycle),
        );
        self.family(
            "gyre_process_messages_total",
            "counter",
            "Messages handled for the process.",
            each(&|line| line.messages as f64),
        );
        self.family(
            "gyre_process_bytes_total",
            "counter",
            "Bytes that resources moved for the process.",
            each(&|line| line.bytes as f64),
        );
        self.family(
            "gyre_process_queue_seconds_total",
            "counter",
            "Time that its messages waited.",
            each(&|line| line.queued_ns as f64 / 1e9),
        );
        self.family(
            "gyre_process_memory_bytes",
            "gauge",
            "Memory that it took and has not given back.",
            each(&|line| line.memory_bytes as f64),
        );
    }

    fn memory(&mut self, snapshot: &Snapshot) {
        let is_tenant = |activity: &&Activity| is_tenant(activity);
        let tenants: Vec<&Activity> = snapshot.activities.iter().filter(is_tenant).collect();
        let each = |value: fn(&Activity) -> f64| -> Vec<Sample> {
            tenants.iter().map(|tenant| (vec![("name", tenant.name.clone())], value(tenant))).collect()
        };
        self.family(
            "container_memory_usage_bytes",
            "gauge",
            "Memory held, kernel objects and cache included.",
            each(|tenant| tenant.memory_bytes as f64),
        );
        self.family(
            "container_memory_max_usage_bytes",
            "gauge",
            "The most memory held.",
            each(|tenant| tenant.memory_bytes_max as f64),
        );
        self.family(
            "container_memory_cache",
            "gauge",
            "Pages of the file cache.",
            each(|tenant| tenant.cache_bytes as f64),
        );
        self.family(
            "container_spec_memory_limit_bytes",
            "gauge",
            "Memory that may be held.",
            each(|tenant| tenant.memory_bytes_limit as f64),
        );
        self.family(
            "container_spec_cpu_shares",
            "gauge",
            "Weight of the tenant.",
            each(|tenant| f64::from(tenant.share)),
        );
        self.family(
            "container_processes",
            "gauge",
            "Processes and threads.",
            each(|tenant| f64::from(tenant.processes)),
        );
        self.family(
            "container_network_receive_packets_dropped_total",
            "counter",
            "Frames for the tenant that were dropped.",
            each(|tenant| tenant.dropped_frames as f64),
        );
    }

    fn cores(&mut self, snapshot: &Snapshot) {
        let cycle = self.seconds_per_cycle;
        let parts = snapshot.cores.iter().flat_map(|core| {
            let handling: u64 = core.handling.iter().map(|span| span.cycles).sum();
            let parts = [
                ("handling", handling),
                ("scheduling", core.scheduling_cycles),
                ("interrupt", core.interrupt_cycles),
                ("idle", core.idle_cycles),
                ("unattributed", core.unattributed_cycles),
            ];
            let labels = move |state: &str| vec![("core", core.core.to_string()), ("state", state.to_owned())];
            parts.map(|(state, cycles)| (labels(state), cycles as f64 * cycle))
        });
        self.family("gyre_core_seconds_total", "counter", "A gapless partition of each core's time.", parts);
        let name = |id: u32| {
            snapshot
                .activities
                .iter()
                .find(|activity| activity.id == id)
                .map_or(id.to_string(), |activity| activity.name.clone())
        };
        let spans = snapshot.cores.iter().flat_map(|core| {
            let labels = move |id| vec![("core", core.core.to_string()), ("activity", name(id))];
            core.handling.iter().map(move |span| (labels(span.activity), span.cycles as f64 * cycle))
        });
        self.family("gyre_activity_seconds_total", "counter", "Time of each core for each activity.", spans);
    }

    fn records(&mut self, snapshot: &Snapshot) {
        let cycle = self.seconds_per_cycle;
        let activity = |id: u32| {
            snapshot.activities.iter().find(|one| one.id == id).map_or(id.to_string(), |one| one.name.clone())
        };
        let resource = |at: u16| snapshot.resources.get(usize::from(at)).map_or(at.to_string(), |one| one.name.clone());
        let each = |value: &dyn Fn(&gyre_contract::monitor::Record) -> f64| -> Vec<Sample> {
            let labels = |record: &gyre_contract::monitor::Record| {
                vec![("activity", activity(record.activity)), ("resource", resource(record.resource))]
            };
            snapshot.records.iter().map(|record| (labels(record), value(record))).collect()
        };
        self.family(
            "gyre_resource_cpu_seconds_total",
            "counter",
            "CPU time handling messages.",
            each(&|record| record.cycles as f64 * cycle),
        );
        self.family(
            "gyre_resource_messages_total",
            "counter",
            "Messages handled.",
            each(&|record| record.messages as f64),
        );
        self.family(
            "gyre_resource_inline_messages_total",
            "counter",
            "Messages handled without having been queued.",
            each(&|record| record.inline_messages as f64),
        );
        self.family("gyre_resource_bytes_total", "counter", "Bytes moved.", each(&|record| record.bytes as f64));
        self.family(
            "gyre_resource_device_seconds_total",
            "counter",
            "Time of a device, as its resource reports it.",
            each(&|record| record.device_ns as f64 / 1e9),
        );
        self.family(
            "gyre_resource_queue_seconds_total",
            "counter",
            "Time that messages waited.",
            each(&|record| record.queued_ns as f64 / 1e9),
        );
        self.family(
            "gyre_resource_queue_length",
            "gauge",
            "Messages waiting.",
            each(&|record| f64::from(record.queue_length)),
        );
        self.family(
            "gyre_resource_refused_total",
            "counter",
            "Messages refused because of a limit.",
            each(&|record| record.refused as f64),
        );
    }

    fn machine(&mut self, snapshot: &Snapshot) {
        let cycle = self.seconds_per_cycle;
        let resources = |value: &dyn Fn(&gyre_contract::monitor::Resource) -> f64| -> Vec<Sample> {
            snapshot.resources.iter().map(|one| (vec![("resource", one.name.clone())], value(one))).collect()
        };
        self.family(
            "gyre_resource_scheduling_seconds_total",
            "counter",
            "CPU time of choosing the resource's work that no tenant caused.",
            resources(&|one| one.scheduling_cycles as f64 * cycle),
        );
        self.family(
            "gyre_resource_longest_message_seconds",
            "gauge",
            "The longest message.",
            resources(&|one| one.longest_cycles as f64 * cycle),
        );
        self.family(
            "gyre_resource_suspensions_total",
            "counter",
            "Times that the resource was full.",
            resources(&|one| one.suspensions as f64),
        );
        let waited =
            snapshot.locks.iter().map(|lock| (vec![("lock", lock.name.clone())], lock.waited_cycles as f64 * cycle));
        self.family("gyre_lock_waited_seconds_total", "counter", "Time that cores waited for the lock.", waited);
        let taken = snapshot.locks.iter().map(|lock| (vec![("lock", lock.name.clone())], lock.taken as f64));
        self.family("gyre_lock_taken_total", "counter", "Times that the lock was taken.", taken);
        let locks = snapshot.locks.iter().map(|lock| (vec![("lock", lock.name.clone())], lock.contended as f64));
        self.family("gyre_lock_contended_total", "counter", "Times that the lock was not free at once.", locks);
        let events = snapshot.address_spaces.iter();
        let events = events.map(|event| (vec![("event", event.name.clone())], event.count as f64));
        self.family("gyre_address_space_events_total", "counter", "Events of address spaces.", events);
        let pools = snapshot.pools.iter().map(|pool| (vec![("type", pool.name.clone())], pool.objects as f64));
        self.family("gyre_pool_objects", "gauge", "Objects of the type.", pools);
        let made = snapshot.pools.iter().map(|pool| (vec![("type", pool.name.clone())], pool.made as f64));
        self.family("gyre_pool_objects_made_total", "counter", "Objects of the type made so far.", made);
        let calls = snapshot.missing_calls.iter().map(|call| (vec![("call", call.name.clone())], call.count as f64));
        self.family("gyre_missing_calls_total", "counter", "System calls that the machine does not have.", calls);
        self.family(
            "gyre_memory_total_bytes",
            "gauge",
            "Memory of the machine.",
            [(vec![], snapshot.memory.total_bytes as f64)],
        );
        self.family("gyre_memory_free_bytes", "gauge", "Free memory.", [(vec![], snapshot.memory.free_bytes as f64)]);
        self.family(
            "gyre_kernel_heap_bytes",
            "gauge",
            "Kernel heap in use.",
            [(vec![], snapshot.memory.heap_bytes as f64)],
        );
        self.family(
            "gyre_uptime_seconds",
            "gauge",
            "Time since the kernel started.",
            [(vec![], snapshot.uptime_ns as f64 / 1e9)],
        );
    }
}

/// Backslash, quote and line feed are escaped in label values.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns whether an activity is a tenant that is here: another may have the name of one that has left.
fn is_tenant(one: &Activity) -> bool {
    matches!(one.kind, ActivityKind::Tenant | ActivityKind::System) && !one.state.has_left()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_cannot_forge_a_sample() {
        assert_eq!(escaped("a\"} 1\nb"), "a\\\"} 1\\nb");
    }
}
