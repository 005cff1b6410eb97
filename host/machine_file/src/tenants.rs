//! The tenants: shares, limits, addresses, ports, load.
//!
//! Each tenant becomes two things: a [`Tenant`], which the kernel gets in the boot module, and a [`HostTenant`], which
//! the tool keeps (image, forwarded ports, clients, health check).
//!
//! * [`check_all`] looks once at all tenants of the file: their number, names, and ports and volumes that no two may
//!   have.
//! * [`check`] makes those of one instance. The system tenant comes first, with the agent as its program.
//! * [`addresses_differ`] runs when all instances are made, since addresses must differ among zones too.
//!
//! Shares are weights, or percentages that sum to 100 (one percent of rounding is forgiven); a file has one kind. A
//! percentage is kept as a weight in thousandths of a percent. The system tenant gets a twentieth of the sum unless
//! the file says otherwise.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::{
    HostTenant, Image, Load, LoadTool, Problem, Protocol, cells, check,
    check::Checker,
    goals, health, model, outbound,
    part::Part,
    policies, ports,
    raw::{self, At, Share},
    suggest, units, volumes,
};
use gyre_contract::{
    address::{self, Address},
    boot::{
        Activity, Entitlement, Limits, Machine, Neighbours, Orphans, Overload, Program, Refusal, Restart, Root, Tenant,
        TenantKind,
    },
    bounds::{MEMORY_BYTES_MIN, OVERLOAD_DELAYS_NS},
    policy::{Budget, Rate},
};

/// Path of the agent's program in the system tenant's root.
pub const AGENT_PATH: &str = "/agent";

const TOOLS: &[(&str, LoadTool)] = &[("wrk", LoadTool::Wrk), ("ab", LoadTool::Ab)];
/// Words for what follows a program's end; `no` as podman says it.
const RESTARTS: &[(&str, Restart)] = &[
    ("never", Restart::Never),
    ("no", Restart::Never),
    ("on-failure", Restart::OnFailure),
    ("always", Restart::Always),
];
const REFUSALS: &[(&str, Refusal)] = &[("silence", Refusal::Silence), ("reset", Refusal::Reset)];
/// The delay that it keeps if the file names none, ns.
const DELAY_NS: u64 = 100_000_000;
const TENANTS_MAX: usize = 64;
/// Memory of the system tenant that no customer can have, bytes: the agent holds half of it, and its owner can always get in.
const SYSTEM_RESERVATION_BYTES: u64 = 4 << 20;

/// Checks what holds for all tenants of the file, whichever instance runs them.
pub(super) fn check_all(checker: &mut Checker, file: &raw::File) {
    count(checker, &file.tenant);
    let names: Vec<&At<String>> = file.tenant.iter().map(|tenant| &tenant.name).collect();
    names.iter().for_each(|name| check_name(checker, name, &names));
    ports::differ(checker, &file.tenant);
    volumes::differ(checker, &file.tenant);
}

/// Makes the tenants of an instance, the system tenant first, and the host's side of the others.
pub(super) fn check(
    checker: &mut Checker,
    part: &Part,
    images: &BTreeMap<String, Image>,
    activities: &[Activity],
) -> (Vec<Tenant>, Vec<HostTenant>) {
    let raws: Vec<&raw::Tenant> = part.tenants().collect();
    let shares = shares(checker, &raws);
    let mut all = vec![system(checker, part, &shares)];
    let mut host = vec![];
    let mut disks = volumes::Disks::behind(raws.len(), part.file.disk.as_ref());
    for (index, (place, raw)) in part.tenants.iter().enumerate() {
        let one = HostTenant {
            name: raw.name.get_ref().clone(),
            image: image(checker, &raw.image, images),
            ports: raw.ports.iter().filter_map(|text| ports::read(checker, text)).collect(),
            outbound: outbound::read(checker, raw.outbound.as_ref()),
            talks_to: outbound::peers(checker, raw, &part.file.tenant),
            load: raw.load.as_ref().and_then(|load| self::load(checker, load)),
            health: None,
            model: raw.model.as_ref().and_then(|one| model::read(checker, one)),
            volumes: raw.volume.iter().filter_map(|one| volumes::read(checker, one)).collect(),
        };
        let share = shares.get(index).copied().unwrap_or(1);
        let root = root(index, part.file.disk.is_some());
        let made = Tenant {
            root,
            program: program(checker, raw, images.get(&one.image)),
            volumes: disks.of(&one.volumes),
            orphans: orphans(raw, images.get(&one.image)),
            ..tenant(checker, raw, *place, share, activities, &one)
        };
        let health = raw.health.as_ref().and_then(|one| health::read(checker, one, &made));
        all.push(made);
        host.push(HostTenant { health, ..one });
    }
    (all, host)
}

fn count(checker: &mut Checker, all: &[raw::Tenant]) {
    if all.is_empty() {
        let problem = Problem::new(0..0, "the machine has no tenants", "");
        checker.wrong(problem.help("add at least one [[tenant]] with name, share and image"));
    }
    if let Some(first) = all.get(TENANTS_MAX) {
        let message = format!("a machine holds at most {TENANTS_MAX} tenants");
        checker.wrong(Problem::new(first.name.span(), message, "one too many"));
    }
}

fn check_name(checker: &mut Checker, name: &At<String>, all: &[&At<String>]) {
    check::unique(checker, "tenant", name, all);
    let text = name.get_ref();
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || text.len() > 32 || !text.chars().all(good) {
        let message = format!("a tenant cannot be named `{text}`");
        checker.wrong(Problem::new(name.span(), message, "expected 1 to 32 of a-z, 0-9 and -"));
    }
    if ["system", "infrastructure", "root"].contains(&text.as_str()) {
        let message = format!("the name `{text}` is the machine's own");
        checker.wrong(Problem::new(name.span(), message, "take another one"));
    }
}

/// Returns true if the shares are percentages that sum to 100: those of top-level tenants.
pub(super) fn have_percent_shares(part: &Part) -> bool {
    part.tenants().all(|raw| matches!(raw.share.get_ref(), Share::Text(_)) && raw.activity.is_none())
}

/// Reads all shares: weights, or percentages that sum to 100.
fn shares(checker: &mut Checker, all: &[&raw::Tenant]) -> Vec<u32> {
    let is_weight = |raw: &&&raw::Tenant| matches!(raw.share.get_ref(), Share::Weight(_));
    let before = checker.problems.len();
    let shares: Vec<u32> = all.iter().map(|raw| plain_share(checker, &raw.share)).collect();
    if checker.problems.len() > before {
        return shares;
    }
    let weight = all.iter().find(is_weight);
    let percent = all.iter().find(|raw| !is_weight(raw));
    if let (Some(weight), Some(percent)) = (weight, percent) {
        let problem = Problem::new(percent.share.span(), "weights and percentages cannot be mixed", "a percentage");
        checker.wrong(problem.and(weight.share.span(), "a weight"));
    } else if percent.is_some() && all.iter().all(|raw| raw.activity.is_none()) {
        sum_is_100(checker, all, &shares);
    }
    shares
}

fn sum_is_100(checker: &mut Checker, all: &[&raw::Tenant], shares: &[u32]) {
    let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
    // 33.3 + 33.3 + 33.3 is meant to be 100: a percent is forgiven.
    if let Some(last) = all.last().filter(|_| sum.abs_diff(100_000) > 1_000) {
        let message = format!("the shares sum to {} %, not to 100 %", sum as f64 / 1000.0);
        let mut problem = Problem::new(last.share.span(), message, "");
        for raw in all.iter().rev().skip(1) {
            problem = problem.and(raw.share.span(), "");
        }
        checker.wrong(
            problem.help("change one of them, or write weights without % (share = 3), whose sum does not matter"),
        );
    }
}

/// Reads one share; a percentage is a weight in thousandths of a percent.
pub(super) fn plain_share(checker: &mut Checker, share: &At<Share>) -> u32 {
    let value = match share.get_ref() {
        Share::Weight(weight) => u64::try_from(*weight).unwrap_or(0),
        Share::Text(text) => match units::percent(text) {
            Ok(percent) => percent,
            Err(expected) => {
                checker.wrong(Problem::new(share.span(), format!("`{text}` is not a share"), expected));
                return 1;
            }
        },
    };
    if value == 0 || value > 1_000_000 {
        let problem = Problem::new(
            share.span(),
            "this share makes no sense",
            "expected a weight of 1 to 1000000, or a percentage above 0",
        );
        checker.wrong(problem.help("whoever has no share would never run"));
    }
    u32::try_from(value).unwrap_or(1).max(1)
}

/// Returns the system tenant: unless told otherwise a twentieth of the customers' shares.
fn system(checker: &mut Checker, part: &Part, shares: &[u32]) -> Tenant {
    let raw = &part.file.system;
    let sum: u32 = shares.iter().fold(0, |sum, share| sum.saturating_add(*share));
    let share = raw.share.as_ref().map_or((sum / 20).max(1), |share| plain_share(checker, share));
    let memory = checker.unit(raw.memory.as_ref(), 32 << 20, units::bytes);
    Tenant {
        name: "system".into(),
        kind: TenantKind::System,
        parent: None,
        share,
        entitlements: vec![],
        limits: Limits {
            memory_bytes: memory,
            memory_reservation_bytes: memory.min(SYSTEM_RESERVATION_BYTES),
            ..Limits::default()
        },
        monitor: true,
        address: part.system,
        root: Root::Embedded,
        program: Some(Program { argv: vec![AGENT_PATH.into()], directory: "/".into(), ..Program::default() }),
        ports: vec![address::AGENT_PORT],
        overload: None,
        cell: None,
        // Without its agent a machine serves on, and nobody can look at it, change it, or end it in order.
        restart: Restart::Always,
        volumes: vec![],
        orphans: Orphans::Program,
        neighbours: Neighbours::All,
        goal: None,
    }
}

fn tenant(
    checker: &mut Checker,
    raw: &raw::Tenant,
    index: usize,
    share: u32,
    activities: &[Activity],
    host: &HostTenant,
) -> Tenant {
    Tenant {
        name: raw.name.get_ref().clone(),
        kind: TenantKind::Customer,
        parent: raw.activity.as_ref().and_then(|name| check::parent(checker, name, activities)),
        share,
        entitlements: raw.entitlement.iter().filter_map(|(name, one)| entitlement(checker, name, one)).collect(),
        limits: limits(checker, raw),
        monitor: raw.monitor,
        address: address(checker, raw, index),
        root: root(index, false),
        program: None,
        ports: host.ports.iter().filter(|port| port.protocol == Protocol::Tcp).map(|port| port.guest).collect(),
        overload: raw.overload.as_ref().map(|one| overload(checker, one)),
        cell: raw.cell.as_ref().and_then(|one| cells::read(checker, one)),
        restart: raw.restart.as_ref().and_then(|text| checker.name(text, "restart", RESTARTS)).unwrap_or_default(),
        volumes: vec![],
        orphans: Orphans::Program,
        neighbours: Neighbours::All,
        goal: raw.goal.as_ref().and_then(|one| goals::goal(checker, one)),
    }
}

/// Returns who waits for orphans: images are made for engines that begin a process for that.
fn orphans(raw: &raw::Tenant, image: Option<&Image>) -> Orphans {
    let is_image = image.is_some_and(|image| image.is_oci());
    if raw.init.unwrap_or(is_image) { Orphans::Kernel } else { Orphans::Program }
}

/// Returns the place of a tenant's files: on a disk of its own, or on its partition of the shared one.
fn root(index: usize, shared: bool) -> Root {
    let index = u16::try_from(index).unwrap_or(0);
    if shared { Root::Volume { disk: 0, number: index.saturating_add(1) } } else { Root::Disk(index) }
}

fn limits(checker: &mut Checker, raw: &raw::Tenant) -> Limits {
    let memory_bytes = checker.unit(raw.memory.as_ref(), Limits::default().memory_bytes, units::bytes);
    if let Some(text) = raw.memory.as_ref().filter(|_| memory_bytes < MEMORY_BYTES_MIN) {
        let message = format!("a tenant cannot be limited to {}", units::show_bytes(memory_bytes));
        checker.wrong(Problem::new(
            text.span(),
            message,
            format!("expected {} or more", units::show_bytes(MEMORY_BYTES_MIN)),
        ));
    }
    let reservation = checker.unit(raw.memory_reservation.as_ref(), 0, units::bytes);
    if let Some(text) = raw.memory_reservation.as_ref().filter(|_| reservation > memory_bytes) {
        let message = format!("{} cannot be reserved", units::show_bytes(reservation));
        let limit = format!("at most {}, the tenant's limit", units::show_bytes(memory_bytes));
        checker.wrong(Problem::new(text.span(), message, limit).help("raise `memory`, the limit, or reserve less"));
    }
    Limits {
        memory_bytes,
        process_memory_bytes: process_memory(checker, raw, memory_bytes),
        memory_reservation_bytes: reservation.min(memory_bytes),
        memory_share: checker.number(raw.memory_share.as_ref(), "the share of memory", 1, 1_000_000, 0) as u32,
        processes: checker.number(raw.processes.as_ref(), "the limit of processes", 1, 32768, 256) as u32,
        files: checker.number(raw.files.as_ref(), "the limit of open files", 8, 65536, 1024) as u32,
    }
}

/// Returns the most that each process may hold. Above the tenant's own limit it would mean nothing: that was not what was wanted.
fn process_memory(checker: &mut Checker, raw: &raw::Tenant, memory_bytes: u64) -> Option<u64> {
    let text = raw.process_memory.as_ref()?;
    let bytes = checker.unit(Some(text), memory_bytes, units::bytes);
    if !(MEMORY_BYTES_MIN..=memory_bytes).contains(&bytes) {
        let message = format!("a process cannot be limited to {}", units::show_bytes(bytes));
        let (least, most) = (units::show_bytes(MEMORY_BYTES_MIN), units::show_bytes(memory_bytes));
        let problem = Problem::new(text.span(), message, format!("expected {least} to {most}, the tenant's limit"));
        checker.wrong(problem.help("`memory` limits all processes of the tenant together"));
    }
    Some(bytes)
}

fn address(checker: &mut Checker, raw: &raw::Tenant, index: usize) -> Address {
    let default = address::tenant(index).unwrap_or(address::FIRST_TENANT);
    let Some(text) = &raw.address else {
        return default;
    };
    let Ok(parsed) = text.get_ref().parse::<Ipv4Addr>() else {
        let message = format!("`{}` is not an IPv4 address", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected an address such as \"10.77.0.11\""));
        return default;
    };
    let octets = parsed.octets();
    if octets[..3] != address::GATEWAY[..3] || octets[3] < 3 || octets[3] == 255 {
        let message = format!("{parsed} is not free for a tenant");
        checker.wrong(Problem::new(text.span(), message, "expected 10.77.0.3 to 10.77.0.254"));
    }
    octets
}

/// Reports addresses that two tenants have, in whichever instance.
pub(super) fn addresses_differ(checker: &mut Checker, file: &raw::File, made: &[(Machine, Vec<HostTenant>)]) {
    let mut taken: BTreeMap<Address, String> = BTreeMap::new();
    let systems = made.iter().enumerate().filter_map(|(at, (machine, _))| {
        let whose = if at == 0 { "system".to_owned() } else { format!("the agent of zone `{}`", machine.name) };
        Some((machine.tenants.first()?.address, whose))
    });
    taken.extend(systems);
    for tenant in made.iter().flat_map(|(machine, _)| machine.tenants.iter().skip(1)) {
        let Some(whose) = taken.insert(tenant.address, tenant.name.clone()) else { continue };
        let Some(raw) = file.tenant.iter().find(|raw| *raw.name.get_ref() == tenant.name) else { continue };
        let span = raw.address.as_ref().map_or(raw.name.span(), At::span);
        let message = format!("the address {} is taken", Ipv4Addr::from(tenant.address));
        checker.wrong(Problem::new(span, message, format!("it is {whose}'s")));
    }
}

fn program(checker: &mut Checker, raw: &raw::Tenant, image: Option<&Image>) -> Option<Program> {
    if let Some(directory) = &raw.directory {
        check::absolute(checker, directory);
    }
    let directory = raw.directory.as_ref().map_or("/".into(), |path| path.get_ref().clone());
    let environment = raw.environment.iter().map(|(name, value)| format!("{}={value}", name.get_ref())).collect();
    for name in raw.environment.keys().filter(|name| name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']))
    {
        checker.wrong(Problem::new(name.span(), "not the name of an environment variable", "empty, or holds ="));
    }
    let Some(command) = raw.command.as_ref() else {
        // The rest stands in the image.
        image.filter(|image| image.is_oci())?;
        let directory = raw.directory.as_ref().map(|path| path.get_ref().clone()).unwrap_or_default();
        return Some(Program { environment, directory, ..Program::default() });
    };
    match command.get_ref().first() {
        Some(first) => check::absolute_text(checker, first, command.span()),
        None => checker.wrong(Problem::new(
            command.span(),
            "the command is empty",
            "expected [\"/path/of/program\", \"argument\", ...]",
        )),
    }
    Some(Program { argv: command.get_ref().clone(), environment, directory, ..Program::default() })
}

fn image(checker: &mut Checker, name: &At<String>, images: &BTreeMap<String, Image>) -> String {
    if !images.contains_key(name.get_ref()) {
        let help = match images.is_empty() {
            true => format!("declare it with [image.{}]", name.get_ref()),
            false => suggest::help(name.get_ref(), images.keys().map(String::as_str)),
        };
        let message = format!("there is no image `{}`", name.get_ref());
        checker.wrong(Problem::new(name.span(), message, "unknown image").help(help));
    }
    name.get_ref().clone()
}

fn load(checker: &mut Checker, raw: &raw::Load) -> Option<Load> {
    let path = raw.path.as_ref().map_or("/".to_owned(), |path| path.get_ref().clone());
    if let Some(raw) = raw.path.as_ref().filter(|_| !path.starts_with('/')) {
        checker.wrong(Problem::new(raw.span(), format!("`{path}` is not a path of a web page"), "expected \"/...\""));
    }
    let tool = checker.name(&raw.tool, "load tool", TOOLS)?;
    if let Some(script) = raw.script.as_ref().filter(|_| tool != LoadTool::Wrk) {
        checker.wrong(Problem::new(script.span(), "only wrk takes a script", "expected tool = \"wrk\""));
    }
    Some(Load {
        script: raw.script.as_ref().map(|path| checker.host_path(path)),
        connections: checker.number(raw.connections.as_ref(), "the number of connections", 1, 1024, 8) as u32,
        port: checker.number(raw.port.as_ref(), "a TCP port", 1, 65535, 80) as u16,
        path,
        tool,
    })
}

fn overload(checker: &mut Checker, raw: &raw::Overload) -> Overload {
    let delay_ns = checker.unit(raw.delay.as_ref(), DELAY_NS, units::nanoseconds);
    if let Some(text) = raw.delay.as_ref().filter(|_| !OVERLOAD_DELAYS_NS.contains(&delay_ns)) {
        let message = format!("a delay of {} cannot be kept", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 1 ms to 10 s"));
    }
    let refuse = raw.refuse.as_ref().and_then(|text| checker.name(text, "refusal", REFUSALS));
    Overload { delay_ns, refuse: refuse.unwrap_or_default() }
}

fn entitlement(checker: &mut Checker, name: &At<String>, raw: &raw::Entitlement) -> Option<Entitlement> {
    let resource = policies::resource(checker, name);
    let deadline_ns = raw.deadline.as_ref().map(|text| checker.unit(Some(text), 0, units::nanoseconds));
    let mut rate =
        |text: &Option<At<String>>| text.as_ref().map(|text| checker.unit(Some(text), Rate::PerSecond(0), units::rate));
    let (reservation, limit) = (rate(&raw.reservation), rate(&raw.limit));
    let share = raw.share.as_ref().map(|share| checker.number(Some(share), "a share", 1, 1_000_000, 1) as u32);
    let priority = raw.priority.as_ref().map(|one| checker.number(Some(one), "a priority", 0, 255, 0) as u8);
    let period_ns = raw.period.as_ref().map(|text| checker.unit(Some(text), 0, units::nanoseconds));
    let budget = raw.budget.as_ref().map(|text| checker.unit(Some(text), Budget::Amount(0), units::budget));
    Some(Entitlement { resource: resource?, share, priority, deadline_ns, reservation, limit, period_ns, budget })
}
