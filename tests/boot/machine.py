"""Parts that the boot tests share: a machine under `gyre run`, and checks that are reported as `cargo test` does."""

import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time
import traceback

from patience import LOOK_S, MachineClock, bounded, end_with_parent, waited_s

ROOT = pathlib.Path(os.environ.get("GYRE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
GYRE = os.environ.get("GYRE", str(ROOT / "gyre"))
WORK = ROOT / "target/boot-tests"
# Time for kernel, agent and images to be made, if they are not there yet.
BUILD_S = 900
# The tool ends a machine that does not end: this only catches a tool that hangs.
STOP_S = 300
# Requests that change nothing and may be made again; the words of the tool about a machine that is silent; and how long it may be so, seconds.
LOOKS, SILENT, SILENT_MAX_S = {"bill", "top", "logs"}, b"agent does not answer", 10
ENVIRONMENT = {**os.environ, "GYRE_ROOT": str(ROOT)}
# In a fresh clone nothing is there yet.
WORK.mkdir(parents=True, exist_ok=True)


def keep(path, name, kind="console.log"):
    """Copies the last words of a machine into the folder of this suite, if `gyre test` runs it: the next machine of this name removes them."""
    suite = os.environ.get("GYRE_SUITE")
    if suite and pathlib.Path(path).exists():
        count = len(list(pathlib.Path(suite).glob(f"{name}.*.{kind}")))
        shutil.copy(path, pathlib.Path(suite) / f"{name}.{count + 1}.{kind}")


def kernel_arguments():
    """KERNEL names a kernel that is built already."""
    return ["--kernel", os.environ["KERNEL"]] if os.environ.get("KERNEL") else []


def gyre(*arguments, timeout=60, **more):
    """Runs the tool and answers what it did; a tool that hangs answers code 124 with what it had said. A look at a machine whose QEMU the
    host has stopped for longer than the tool waits is repeated."""
    named = [name for word, name in zip(arguments, arguments[1:]) if word == "--machine"]
    clock = MachineClock(*named[:1])
    while True:
        done = bounded([GYRE, *arguments], timeout, *named[:1], env=ENVIRONMENT, **more)
        if arguments[0] not in LOOKS or SILENT not in done.stderr or clock.passed() >= SILENT_MAX_S:
            return done
        time.sleep(LOOK_S)


class Machine:
    """A machine that runs from `with` to the end of the block. It is up within `ready_s`, in its own time."""

    def __init__(self, file, name, ready_s=300, more=(), disks=("--fresh",)):
        self.file, self.name, self.ready_s, self.more = file, name, ready_s, more
        self.disks, self.folder = disks, ROOT / ".gyre/run" / name
        self.console = self.folder / "console.log"

    def __enter__(self):
        self.said = WORK / f"{self.name}.said"
        before = self._console_stamp()
        with open(self.said, "wb") as said:
            self.child = subprocess.Popen(
                [GYRE, "run", str(self.file), "--no-load", *self.disks, "--page", "0", *kernel_arguments(), *self.more],
                env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
        # Building and making images may take as long as they take: the time to be up begins when the machine does.
        self._wait(BUILD_S, lambda: self.is_up() or self._console_stamp() not in (None, before), "the machine did not begin")
        self._wait(self.ready_s, self.is_up, "the machine was not up")
        return self

    def is_up(self):
        """`gyre run` writes its process into this file when the agent has answered: each end has a bill from then on."""
        try:
            return (self.folder / "up").read_text() == str(self.child.pid)
        except FileNotFoundError:
            return False

    def _console_stamp(self):
        """Tells one beginning of the machine from another: QEMU empties its console then."""
        try:
            return self.console.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _wait(self, limit_s, is_so, else_what):
        clock = MachineClock(self.name)
        while clock.passed() < limit_s:
            if self.child.poll() is not None:
                self._keep()
                raise AssertionError(f"the machine ended at once (code {self.child.returncode}):\n{self.output()}")
            if is_so():
                return
            time.sleep(LOOK_S)
        self.stop()
        self._keep()
        raise AssertionError(f"{else_what} in {limit_s} s:\n{self.output()}\n{self.console_tail()}")

    def __exit__(self, *_):
        self.stop()
        self._keep()

    def _keep(self):
        keep(self.console, self.name)
        keep(self.said, self.name, "said")

    def stop(self):
        """Ends the machine as Ctrl-C does and answers the exit code of the tool, which bounds the end by itself."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        return self.child.returncode

    def output(self):
        return self.said.read_text(errors="replace")[-4000:]

    def console_tail(self, lines=25):
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def exec(self, tenant, *command, input=b"", timeout=30):
        return gyre("exec", "--machine", self.name, tenant, "--", *command, input=input, timeout=timeout)

    def sh(self, tenant, text, **more):
        return self.exec(tenant, "/bin/busybox", "sh", "-c", text, **more)

    def logs(self, tenant):
        return gyre("logs", "--machine", self.name, tenant).stdout.decode(errors="replace")

    def says(self, tenant, words, limit_s=60):
        """Waits until these words are in a tenant's log."""
        clock = MachineClock(self.name)
        while words not in (log := self.logs(tenant)):
            assert clock.passed() < limit_s, f"{tenant} does not say {words!r} ({clock.words()}): {log!r} {self.console_tail()}"
            time.sleep(LOOK_S)


class Shares:
    """The part of some cycles of a machine that somebody gets from now on: the median of windows, each a number of the machine's own cycles
    long. A pause of the host is charged to whoever ran then, and made up for later: that is outside of the median. If QEMU waited for a
    processor, many windows are looked at before they are judged, or some of which most are near by themselves; if it did not, few."""

    FEW, SOME, MANY, STARVED = 4, 8, 24, 60
    # Part of a window's length for which all threads of QEMU together may wait for a processor.
    WAITED_MAX = 0.02

    def __init__(self, machine, window_s):
        self.machine, self.window_s = machine, window_s

    def settle(self, measured, wanted, tolerance, what):
        """Checks that the part is near what is wanted. `measured()` answers the part's cycles and those of the whole, both so far, s."""
        values, waits, clock = [], [], MachineClock(self.machine)
        before, waited_before, began = measured(), waited_s(self.machine), time.monotonic()
        while len(values) < self.STARVED:
            assert clock.passed() < 600, f"{what}: {len(values)} windows ({clock.words()})"
            time.sleep(LOOK_S)
            now = measured()
            if now[1] - before[1] < self.window_s:
                continue
            waited, moment = waited_s(self.machine), time.monotonic()
            values.append((now[0] - before[0]) / (now[1] - before[1]))
            waits.append((waited - waited_before) / (moment - began))
            before, waited_before, began = now, waited, moment
            is_starved = statistics.median(waits) > self.WAITED_MAX
            is_near = abs(statistics.median(values) - wanted) <= tolerance
            near = sum(abs(value - wanted) <= tolerance for value in values)
            if is_near and (len(values) >= self.FEW and not is_starved or len(values) >= self.SOME and 4 * near >= 3 * len(values)):
                break
            if len(values) >= self.MANY and (is_near or not is_starved):
                break
        said = " ".join(f"{value:.3f}" for value in values)
        assert is_near, f"{what}: {statistics.median(values):.3f} of {len(values)} windows, expected {wanted} +- {tolerance} ({said}; waits {statistics.median(waits):.3f})"


class Report:
    """Collects checks; each is a line that `gyre test` counts."""

    def __init__(self, suite):
        self.suite, self.failures = suite, []
        # The console of the last QEMU that a suite has started by itself: it is kept if a check fails.
        self.console = None

    def result(self, name, problem=None):
        print(f"test {self.suite}: {name} ... {'FAILED' if problem else 'ok'}", flush=True)
        if problem:
            self.failures.append(f"{name}: {problem}")
            if self.console:
                keep(self.console, self.suite)
            if os.environ.get("VERBOSE"):
                print(f"    {problem}", file=sys.stderr, flush=True)

    def check(self, name, condition, why=""):
        self.result(name, None if condition else (str(why) or "not so"))

    def run(self, name, function, *arguments, **named):
        """Runs a function that raises AssertionError if something is wrong; any other error is a failure too."""
        try:
            function(*arguments, **named)
            self.result(name)
        except AssertionError as wrong:
            self.result(name, str(wrong) or traceback.format_exc())
        except Exception:
            self.result(name, traceback.format_exc())

    def end(self):
        if self.failures:
            print("failures:")
            print("\n".join(self.failures))
        sys.exit(1 if self.failures else 0)


def same(got, wanted, what=""):
    assert got == wanted, f"{what} is {got!r}, expected {wanted!r}"
