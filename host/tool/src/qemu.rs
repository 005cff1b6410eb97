//! QEMU: how it is called, and that it never outlives us.

mod end;

use std::{
    fs::File,
    os::{
        fd::AsRawFd as _,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

pub use end::End;
use gyre_config::{address, file::Bus};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::{
    command,
    failure::{Context as _, Failure, Kind, Result},
    symbols::Symbols,
};

/// What the host's disk does not carry out is an error of the tenant's disk: by default QEMU stops the whole machine where the host's disk is full.
const ERRORS: &str = ",werror=report,rerror=report";

/// Lines of the console that a failure shows: a dump of registers, the longest trace and a few lines before them.
const LINES_SHOWN: usize = 44;

/// What passes while a machine's clock does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The host's time.
    Host,
    /// A nanosecond for each instruction executed, always interpreted. Idling costs no time of the host.
    Instructions,
    /// The same, but idling takes its time: for who waits for a disk, whose time-outs would else be over at once.
    InstructionsAndWaiting,
}

/// A machine for QEMU.
pub struct Machine<'a> {
    /// Cores.
    pub cores: u16,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: &'a Path,
    /// Boot module or initial RAM disk.
    pub module: &'a Path,
    /// The kernel's command line.
    pub command_line: &'a str,
    /// Disks in PCI order, raw.
    pub disks: &'a [PathBuf],
    /// What QEMU lets through to each disk: options of a drive, or nothing.
    pub throttle: &'a str,
    /// How the disks are attached.
    pub bus: Bus,
    /// Where the serial console goes.
    pub console: &'a Path,
    /// QEMU's end of the wire, if it has one.
    pub wire: Option<UnixStream>,
    /// What its time is.
    pub clock: Clock,
    /// More arguments, for experiments.
    pub extra: &'a [String],
}

/// A running QEMU; dropped, it is killed and reaped.
pub struct Qemu {
    child: Child,
    /// The log of its console.
    console: PathBuf,
    /// What it booted, for the names in a panic's trace.
    kernel: PathBuf,
}

/// Whether this host can run guests on its processor: vmx or svm, and /dev/kvm opens.
pub fn has_kvm() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let offers = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|flag| flag == "vmx" || flag == "svm"));
    offers && File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

/// The processor that guests see. Interpreted, `rep movsb` goes byte by byte, so that ERMS must not be offered (measured: 32 KiB
/// read in 90 us with, 15 us without); five-level page tables only cost.
fn accelerator(clock: Clock) -> &'static [&'static str] {
    match clock {
        Clock::Instructions => {
            &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "max,-la57,-erms"]
        }
        Clock::InstructionsAndWaiting => {
            &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=on", "-cpu", "max,-la57,-erms"]
        }
        Clock::Host if has_kvm() => &["-accel", "kvm", "-cpu", "host,-la57"],
        Clock::Host => &["-accel", "tcg,thread=multi", "-cpu", "max,-la57,-erms"],
    }
}

impl Qemu {
    /// Starts a machine.
    ///
    /// # Errors
    /// When QEMU is not installed or cannot start.
    pub fn start(machine: &Machine) -> Result<Self> {
        let errors = machine.console.with_extension("qemu");
        let stderr = File::create(&errors).context(|| format!("cannot write {}", errors.display()))?;
        // When this tool dies without a word, the kernel ends QEMU: no orphans.
        let mut qemu = command::program("setpriv")?;
        qemu.args(["--pdeathsig", "KILL", "--"]).arg(command::program("qemu-system-x86_64")?.get_program());
        arguments(&mut qemu, machine)?;
        // A process group of its own: Ctrl-C is for us, the bill comes before the end.
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let child = qemu.spawn().context(|| "cannot start QEMU".into())?;
        Ok(Self { child, console: machine.console.into(), kernel: machine.kernel.into() })
    }

    /// Says whether it has ended, and how.
    ///
    /// # Errors
    /// When the host lost track of it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context(|| "cannot wait for QEMU".into())
    }

    /// Turns an unexpected end into a failure that shows the console's last lines, a panic's trace with names.
    pub fn unexpected_end(&self, status: ExitStatus) -> Failure {
        let log = std::fs::read(&self.console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let log = Symbols::of(&self.kernel).pass_text(&command::last_lines(&log.unwrap_or_default(), LINES_SHOWN));
        let errors = std::fs::read_to_string(self.console.with_extension("qemu")).unwrap_or_default();
        let tail = [log.trim_end(), &command::last_lines(&errors, 5)].join("\n");
        Failure::with_help(
            End::of(status, &errors).sentence(),
            format!("The console's last lines ({}):\n{}", self.console.display(), tail.trim()),
        )
        .kind(Kind::Machine)
    }
}

impl Qemu {
    /// The CPU time that it has taken so far, in seconds (proc(5): fields 14 and 15 of stat, in hundredths); 0 when it is gone.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The second field is the name in brackets and may hold blanks: count from its end.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let ticks: f64 = rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
        ticks / 100.0
    }
}

impl Qemu {
    /// Whether one of its threads has something to do, whether or not it gets time (proc(5): state R).
    pub fn wants_to_run(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let is_ready = |path: PathBuf| {
            let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'))
        };
        tasks.is_ok_and(|mut tasks| tasks.any(|task| task.is_ok_and(|task| is_ready(task.path()))))
    }

    /// Whether somebody has stopped it (proc(5): state T, SIGSTOP).
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    }

    /// The sentence of an end.
    pub fn end(&self, status: ExitStatus) -> End {
        let errors = std::fs::read_to_string(self.console.with_extension("qemu")).unwrap_or_default();
        End::of(status, &errors)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments(qemu: &mut Command, machine: &Machine) -> Result<()> {
    qemu.args(["-M", "q35"]).args(accelerator(machine.clock)).arg("-smp").arg(machine.cores.to_string());
    qemu.arg("-m").arg(format!("{}M", machine.memory_bytes >> 20));
    qemu.args(["-display", "none", "-nodefaults", "-no-reboot"]);
    qemu.arg("-serial").arg(format!("file:{}", escaped(machine.console)));
    qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    qemu.arg("-kernel").arg(machine.kernel).arg("-initrd").arg(machine.module);
    qemu.arg("-append").arg(machine.command_line);
    for (index, disk) in machine.disks.iter().enumerate() {
        let file = escaped(disk);
        qemu.arg("-drive")
            .arg(format!("if=none,id=disk{index},format=raw,cache=writeback{ERRORS},file={file}{}", machine.throttle));
        attach(qemu, machine, index);
    }
    if let Some(wire) = &machine.wire {
        keep_open(wire)?;
        let [a, b, c, d, e, f] = address::MACHINE_MAC;
        let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        qemu.arg("-netdev").arg(format!("stream,id=wire,server=off,addr.type=fd,addr.str={}", wire.as_raw_fd()));
        qemu.arg("-device").arg(format!("virtio-net-pci,netdev=wire,mac={mac},disable-legacy=on,addr=0x3"));
    }
    qemu.args(machine.extra);
    Ok(())
}

/// Attaches disk `index` with a queue for each core: their requests need no common lock.
fn attach(qemu: &mut Command, machine: &Machine, index: usize) {
    let (cores, address) = (machine.cores, 4 + index);
    match machine.bus {
        Bus::Virtio => {
            let device =
                format!("virtio-blk-pci,drive=disk{index},num-queues={cores},disable-legacy=on,addr={address:#x}");
            qemu.arg("-device").arg(device);
        }
        Bus::Scsi => {
            let host = format!("virtio-scsi-pci,id=scsi{index},num_queues={cores},disable-legacy=on,addr={address:#x}");
            qemu.arg("-device").arg(host);
            qemu.arg("-device").arg(format!("scsi-hd,drive=disk{index},bus=scsi{index}.0,scsi-id=0,lun=0"));
        }
    }
}

/// A comma separates options in QEMU's arguments; doubled it is itself.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn keep_open(socket: &UnixStream) -> Result<()> {
    fcntl(socket, FcntlArg::F_SETFD(FdFlag::empty())).context(|| "cannot hand the wire to QEMU".into())?;
    Ok(())
}

/// Whether the machine has ended itself, in order and with its disks written back.
pub fn is_orderly(status: ExitStatus) -> bool {
    End::of(status, "") == End::Orderly
}
