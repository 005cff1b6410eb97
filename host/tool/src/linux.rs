//! The neighbour to compare with: an equal machine on Debian's cloud kernel.
//!
//! The kernel comes from Debian's package, the tenants' root file systems are the same images; an initial RAM disk with
//! busybox mounts them, gives each tenant its address and a control group (version 2) with `cpu.weight` by share and
//! `memory.max`, `memory.high` and `memory.low`, `io.max` if a shared disk is limited, and starts its command inside. That is what a careful
//! administrator would do.
//!
//! The broker that runs there reads what tenants are to reach from `/goals.json`.

use std::{
    fmt::Write as _,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use gyre_contract::boot::{Machine, Root, Tenant, TenantKind};

use crate::{
    cpio,
    failure::{Context as _, Failure, Result},
    forecast, image,
    project::Project,
    ui::Step,
};

/// Modules of the cloud kernel in the order of their dependencies; what is not there is built in.
const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
];

/// A kernel and an initial RAM disk.
pub struct Linux {
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The initial RAM disk's file.
    pub initrd: PathBuf,
}

/// The beginning of a word of the command line that limits a tenant's requests. The name, `=` and the requests per second follow.
pub const REQUESTS_WORD: &str = "requests.";

/// `cpu.weight` of the agent, the most that there is: it asks for little, and must have it when a figure is read.
const AGENT_WEIGHT: u32 = 10_000;

/// The command line: the emulator's clock is good, Linux's doubt about it costs 1.3 us per look (measured).
pub const COMMAND_LINE: &str = "console=ttyS0 quiet tsc=reliable no_timer_check panic=-1 net.ifnames=0";

/// Makes what is needed to boot the machine on Linux. The agent, if given, runs as the system tenant.
///
/// # Errors
/// When the packages cannot be had or the folder cannot be written.
pub fn prepare(project: &Project, machine: &Machine, folder: &Path, agent: Option<&Path>) -> Result<Linux> {
    let tree = kernel_tree(project)?;
    let kernel = newest(&tree.join("boot"), "vmlinuz-")?;
    let mut archive = cpio::Archive::default();
    for name in ["bin", "dev", "proc", "sys", "modules", "tenants"] {
        archive.folder(name);
    }
    let busybox = read(&tree.join("usr/bin/busybox"))?;
    archive.file("bin/busybox", 0o755, &busybox);
    archive.file("init", 0o755, script(machine, agent.is_some()).as_bytes());
    for module in modules(&tree)? {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.file(&format!("modules/{name}"), 0o644, &read(&module)?);
    }
    if let Some(agent) = agent {
        archive.file("agent", 0o755, &read(agent)?);
        archive.file("goals.json", 0o644, &goals(machine)?);
    }
    let initrd = folder.join("linux.cpio");
    std::fs::write(&initrd, archive.finish()).context(|| format!("cannot write {}", initrd.display()))?;
    Ok(Linux { kernel, initrd })
}

/// Returns the goals of tenants, with weights as their groups have them, for the broker.
fn goals(machine: &Machine) -> Result<Vec<u8>> {
    let mut goals = forecast::goals_of(machine);
    for (goal, tenant) in goals.tenants.iter_mut().zip(&machine.tenants) {
        goal.share = u32::try_from(weight(tenant, machine)).unwrap_or(1);
    }
    serde_json::to_vec(&goals).context(|| "cannot write JSON".into())
}

/// Downloads and unpacks the kernel's package and busybox, once.
fn kernel_tree(project: &Project) -> Result<PathBuf> {
    let tree = project.cache("linux")?.join("tree");
    // It is moved here when it is whole.
    if tree.exists() {
        return Ok(tree);
    }
    let step = Step::start("getting Debian's cloud kernel");
    image::unpack_packages(
        project,
        &tree,
        &["linux-image-cloud-amd64", "busybox-static"],
        &["kmod", "initramfs-tools"],
        &step,
    )?;
    step.done();
    Ok(tree)
}

fn newest(folder: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(named).collect();
    found.sort();
    found.pop().ok_or_else(|| Failure::new(format!("there is no {prefix}* in {}", folder.display())))
}

fn modules(tree: &Path) -> Result<Vec<PathBuf>> {
    let release = newest(&tree.join("usr/lib/modules"), "")?;
    let folders = ["drivers/virtio", "drivers/block", "drivers/net", "net/core"];
    let find = |name: &&str| {
        let full = |folder: &&str| release.join("kernel").join(folder).join(format!("{name}.ko"));
        folders.iter().map(|folder| full(folder)).find(|path| path.exists())
    };
    Ok(MODULES.iter().filter_map(find).collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("cannot read {}", path.display()))
}

fn script(machine: &Machine, agent: bool) -> String {
    let mut text = String::from(HEAD);
    for tenant in &machine.tenants {
        // Writing to a string cannot fail.
        let _ = match (tenant.kind, tenant.root) {
            (TenantKind::System, _) if agent => writeln!(text, "{}", system(tenant)),
            (_, Root::Disk(index)) => {
                let letter = char::from(b'a' + u8::try_from(index).unwrap_or(25).min(25));
                writeln!(text, "{}", customer(tenant, &format!("vd{letter}"), machine))
            }
            (_, Root::Volume { number, .. }) => {
                writeln!(text, "{}", customer(tenant, &format!("vda{number}"), machine))
            }
            _ => Ok(()),
        };
    }
    // Without an agent to ask, what the tenants said is shown when all have ended.
    text.push_str("wait\ncat /tenants/*/var/log/console\n/bin/busybox sleep 1000000\n");
    text
}

const HEAD: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs none /dev; mount -t proc none /proc; mount -t sysfs none /sys
for m in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk failover net_failover virtio_net; do
    [ -e /modules/$m.ko ] && insmod /modules/$m.ko
done
ip link set lo up; ip link set eth0 up
mkdir -p /dev/pts /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
echo '+cpu +memory +io' > /sys/fs/cgroup/cgroup.subtree_control
";

fn system(tenant: &Tenant) -> String {
    let address = Ipv4Addr::from(tenant.address);
    // It has a group of its own: a task outside of all groups has a fiftieth of a tenant's weight, and would not answer in time.
    format!(
        "ip addr add {address}/24 dev eth0\nmkdir /sys/fs/cgroup/gyre-agent\n\
         echo {AGENT_WEIGHT} > /sys/fs/cgroup/gyre-agent/cpu.weight\n\
         (echo 0 > /sys/fs/cgroup/gyre-agent/cgroup.procs; exec /agent --linux) &"
    )
}

fn customer(tenant: &Tenant, device: &str, machine: &Machine) -> String {
    let name = &tenant.name;
    let address = Ipv4Addr::from(tenant.address);
    let mut text = format!(
        "ip addr add {address}/24 dev eth0\nmkdir -p /tenants/{name} /sys/fs/cgroup/{name}\n\
         mount -t ext4 /dev/{device} /tenants/{name}\nmount -t proc none /tenants/{name}/proc\nmount -t devtmpfs none /tenants/{name}/dev\n\
         echo {} > /sys/fs/cgroup/{name}/cpu.weight\necho {} > /sys/fs/cgroup/{name}/memory.max\n\
         echo {} > /sys/fs/cgroup/{name}/memory.high\necho {} > /sys/fs/cgroup/{name}/memory.low\n",
        weight(tenant, machine),
        tenant.limits.memory_bytes,
        // At this size a tenant slows down and gives back before it is refused.
        tenant.limits.memory_bytes - tenant.limits.memory_bytes / 16,
        tenant.limits.memory_reservation_bytes
    );
    let _ = writeln!(
        text,
        "for w in $(cat /proc/cmdline); do case $w in {REQUESTS_WORD}{name}=*) n=${{w#*=}}; \
         echo \"$(cat /sys/block/vda/dev) riops=$n wiops=$n\" > /sys/fs/cgroup/{name}/io.max;; esac; done"
    );
    // Tenants share one network stack here: a server that listens everywhere listens at its tenant's address.
    let _ = writeln!(
        text,
        "[ -e /tenants/{name}/etc/nginx/nginx.conf ] && sed -i 's/listen 80/listen {address}:80/' /tenants/{name}/etc/nginx/nginx.conf"
    );
    if let Some(program) = &tenant.program {
        let words: Vec<String> = program.argv.iter().map(|word| quoted(word)).collect();
        let environment: Vec<String> = program.environment.iter().map(|word| quoted(word)).collect();
        let run = format!(
            "exec env -i PATH=/usr/sbin:/usr/bin TENANT_ADDRESS={address} {} /bin/busybox chroot /tenants/{name} {}",
            environment.join(" "),
            words.join(" ")
        );
        // The shell moves itself into the group first: not a cycle of the tenant's runs outside.
        let _ = writeln!(
            text,
            "(echo 0 > /sys/fs/cgroup/{name}/cgroup.procs; {run}) > /tenants/{name}/var/log/console 2>&1 &"
        );
    }
    text
}

/// `cpu.weight` goes from 1 to 10000: the largest share gets 5000, so that the ratios stay.
fn weight(tenant: &Tenant, machine: &Machine) -> u64 {
    let largest = machine.tenants.iter().map(|tenant| tenant.share).max().unwrap_or(1).max(1);
    (u64::from(tenant.share) * 5000 / u64::from(largest)).max(1)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_as_they_are() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
