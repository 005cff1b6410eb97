//! QEMU: how it is called, and that it never outlives us.
//!
//! Use: a [`Machine`] says what it has; [`Qemu::start`] calls QEMU with it. The child dies with the
//! thread that started it (`PR_SET_PDEATHSIG`), and when [`Qemu`] is dropped.
//!
//! States: started, running until [`Qemu::ended`] says how it ended. [`end`] asks it to end in order, [`monitor`] speaks
//! to it while it runs, and [`report`] puts its words and its end into a sentence. A [`Span`] counts the time that it had.
//!
//! Called by `run`, by the experiments and by the zones' commands.

mod end;
mod monitor;
mod process;
mod processor;
mod report;
mod span;

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
use gyre_contract::zones::DeviceAddress;
use gyre_machine_file::Bus;
use monitor::Monitor;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
pub use span::Span;

use crate::{
    command,
    failure::{Context as _, Failure, Kind, Result},
    symbols::Symbols,
};

/// Options that report a failure of the host's disk to the tenant. By default QEMU stops the whole machine if the host's disk is full.
const ERRORS: &str = ",werror=report,rerror=report";

/// Lines of the console that a failure shows: a dump of registers, the longest trace and a few lines before them.
const LINES_SHOWN: usize = 44;

/// The time that a machine's clock counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The host's time.
    Host,
    /// A nanosecond for each instruction executed, always interpreted. Idling costs no time of the host.
    Instructions,
    /// Like `Instructions`, but idling takes its time: for a wait for a disk, whose time-outs would else be over at once.
    InstructionsAndWaiting,
    /// Four nanoseconds for each instruction: a slow machine, on which minutes pass sooner. Idling costs no time of the host.
    SlowInstructions,
    /// Eight nanoseconds for each instruction, never ahead of the host's time: a slow machine for clients that live by the host's clock.
    Held,
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
    /// Disks, raw.
    pub disks: &'a [Disk],
    /// Limits of QEMU for each disk: options of a drive, or nothing.
    pub throttle: &'a str,
    /// How the disks are attached.
    pub bus: Bus,
    /// The file of the serial console.
    pub console: &'a Path,
    /// Network devices.
    pub cards: Vec<Card>,
    /// The clock.
    pub clock: Clock,
    /// More arguments, for experiments.
    pub extra: &'a [String],
}

/// A disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its contents.
    pub path: PathBuf,
    /// Its place.
    pub address: DeviceAddress,
    /// Its queues, one for each core that uses it: their requests need no common lock.
    pub queues: u16,
}

/// A network device of a machine.
pub struct Card {
    /// QEMU's end of the wire.
    pub socket: UnixStream,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its place.
    pub address: DeviceAddress,
}

/// A running QEMU; dropped, it is killed and reaped.
pub struct Qemu {
    child: Child,
    /// The log of its console.
    console: PathBuf,
    /// The kernel that it booted, for the names in a panic's trace.
    kernel: PathBuf,
    /// Our end of its monitor.
    monitor: Monitor,
    /// Its virtual processors.
    cores: u16,
}

/// Returns whether this host can run guests on its processor: vmx or svm, and /dev/kvm opens.
pub fn has_kvm() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let offers = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|flag| flag == "vmx" || flag == "svm"));
    offers && File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Returns the processor that guests see. Interpreted, `rep movsb` goes byte by byte, so that ERMS must not be offered (measured: 32 KiB
/// read in 90 us with, 15 us without); five-level page tables only cost.
///
/// With the host's clock, translated code has 64 MiB instead of 1 GiB, and is thrown away once they are full. QEMU keeps a list of the translated
/// blocks of each physical frame, one for each virtual address at which the frame was run: with random addresses, each new process adds its
/// own, and nothing takes one away. A store into a frame that was run, once it is used anew, walks its list and invalidates each entry. With
/// 1 GiB a core of a machine that ran many processes stood still for seconds so (`accel/tcg/translate-all.c` of QEMU 7.2, `tb_invalidate_phys_page`).
fn accelerator(clock: Clock) -> &'static [&'static str] {
    match clock {
        Clock::Instructions => {
            &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-cpu", "max,-la57,-erms"]
        }
        Clock::InstructionsAndWaiting => {
            &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=on", "-cpu", "max,-la57,-erms"]
        }
        Clock::SlowInstructions => {
            &["-accel", "tcg,thread=single", "-icount", "shift=2,sleep=off", "-cpu", "max,-la57,-erms"]
        }
        Clock::Held => {
            &["-accel", "tcg,thread=single", "-icount", "shift=3,align=on,sleep=on", "-cpu", "max,-la57,-erms"]
        }
        Clock::Host if has_kvm() => &["-accel", "kvm", "-cpu", "host,-la57"],
        Clock::Host => &["-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max,-la57,-erms"],
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
        let (monitor, qemus_end) = Monitor::pair()?;
        keep_open(&qemus_end)?;
        qemu.arg("-chardev").arg(format!("socket,id=monitor,fd={}", qemus_end.as_raw_fd()));
        qemu.args(["-mon", "chardev=monitor,mode=control"]);
        // A process group of its own: Ctrl-C is for us, the bill comes before the end.
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let child = qemu.spawn().context(|| "cannot start QEMU".into())?;
        Ok(Self {
            child,
            console: machine.console.into(),
            kernel: machine.kernel.into(),
            monitor,
            cores: machine.cores,
        })
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
    /// Returns the CPU time that it has taken so far, in seconds; 0 when it is gone.
    pub fn cpu_seconds(&self) -> f64 {
        process::cpu_seconds(self.child.id())
    }

    /// Returns the CPU time that its virtual processors have taken so far, in seconds (threads named `CPU n/...`; the first number of
    /// /proc/PID/task/TID/schedstat is nanoseconds on a processor); 0 when it is gone.
    pub fn processor_seconds(&self) -> f64 {
        self.seconds_of("CPU ")
    }

    /// Returns the CPU time that one of its virtual processors has taken so far, in seconds; 0 when it is gone.
    pub fn core_seconds(&self, core: u16) -> f64 {
        self.seconds_of(&format!("CPU {core}/"))
    }

    fn seconds_of(&self, start: &str) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let processors = tasks.filter(|task| read(task.path().join("comm")).starts_with(start));
        let ns = |text: String| text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        processors.map(|task| ns(read(task.path().join("schedstat")))).sum::<u64>() as f64 / 1e9
    }
}

impl Qemu {
    /// Returns whether one of its threads has something to do, whether or not it gets time.
    pub fn wants_to_run(&self) -> bool {
        process::wants_to_run(self.child.id())
    }

    /// Begins to count time that it had, or could have had.
    pub fn span(&self) -> Span {
        Span::of(Some(self.child.id()))
    }

    /// Returns true if a signal has stopped it (proc(5): state T, SIGSTOP).
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    }

    /// Returns the sentence of an end.
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

/// Says how many virtual processors there are. QEMU before 8.1 leaves the fences of programs out if there can be one processor only, although its devices run
/// beside it: one core could miss that a device wants to be told of new requests, which then lay there for ever. So there is a place for a second one. With
/// a clock of instructions QEMU leaves them out whatever it is told.
fn processors(cores: u16, clock: Clock) -> String {
    match (cores, clock) {
        (1, Clock::Host) => "1,maxcpus=2".to_owned(),
        _ => cores.to_string(),
    }
}

fn arguments(qemu: &mut Command, machine: &Machine) -> Result<()> {
    // Names of threads tell which are the virtual processors.
    qemu.args(["-name", "gyre,debug-threads=on"]);
    qemu.args(["-M", "q35"]).args(accelerator(machine.clock)).arg("-smp").arg(processors(machine.cores, machine.clock));
    qemu.arg("-m").arg(format!("{}M", machine.memory_bytes >> 20));
    qemu.args(["-display", "none", "-nodefaults", "-no-reboot"]);
    qemu.arg("-serial").arg(format!("file:{}", escaped(machine.console)));
    qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    qemu.arg("-kernel").arg(machine.kernel).arg("-initrd").arg(machine.module);
    qemu.arg("-append").arg(machine.command_line);
    for (index, disk) in machine.disks.iter().enumerate() {
        let file = escaped(&disk.path);
        qemu.arg("-drive")
            .arg(format!("if=none,id=disk{index},format=raw,cache=writeback{ERRORS},file={file}{}", machine.throttle));
        attach(qemu, machine.bus, index, disk);
    }
    machine.cards.iter().enumerate().try_for_each(|(index, card)| plug(qemu, index, card))?;
    qemu.args(machine.extra);
    Ok(())
}

/// Puts a network device in its place; the first is called `wire`, for `--qemu`.
fn plug(qemu: &mut Command, index: usize, card: &Card) -> Result<()> {
    keep_open(&card.socket)?;
    let name = if index == 0 { "wire".to_owned() } else { format!("wire{index}") };
    let mac: Vec<String> = card.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let (mac, place) = (mac.join(":"), place(card.address));
    qemu.arg("-netdev").arg(format!("stream,id={name},server=off,addr.type=fd,addr.str={}", card.socket.as_raw_fd()));
    qemu.arg("-device").arg(format!("virtio-net-pci,netdev={name},mac={mac},disable-legacy=on,{place}"));
    Ok(())
}

/// Says at which place of bus 0 a device is, as an option of QEMU.
fn place(address: DeviceAddress) -> String {
    format!("addr={:#x}.{:#x}", address.device, address.function)
}

/// Attaches disk `index`.
fn attach(qemu: &mut Command, bus: Bus, index: usize, disk: &Disk) {
    let (queues, place) = (disk.queues, place(disk.address));
    match bus {
        Bus::Virtio => {
            let device = format!("virtio-blk-pci,drive=disk{index},num-queues={queues},disable-legacy=on,{place}");
            qemu.arg("-device").arg(device);
        }
        Bus::Scsi => {
            let host = format!("virtio-scsi-pci,id=scsi{index},num_queues={queues},disable-legacy=on,{place}");
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
    fcntl(socket, FcntlArg::F_SETFD(FdFlag::empty())).context(|| "cannot hand a socket to QEMU".into())?;
    Ok(())
}

/// Returns whether the machine has ended itself, in order and with its disks written back.
pub fn is_orderly(status: ExitStatus) -> bool {
    End::of(status, "") == End::Orderly
}
