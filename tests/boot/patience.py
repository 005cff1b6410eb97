"""How long a boot test waits. Limits only catch what hangs: time that the host did not give to a machine does not count.

usage: patience.py SECONDS QEMU ARGUMENTS...    runs a QEMU for at most so many seconds that it had or left unused; 124 if it hangs"""

import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(os.environ.get("GYRE_ROOT", pathlib.Path(__file__).resolve().parents[2]))
# Seconds between two looks, and the most that one of them counts: a longer one is a pause of the host.
LOOK_S, STEP_MAX_S = 0.2, 0.5
# A call that takes this many times as long as it may is said to hang, and no call hangs sooner than this, seconds.
TIMES, LEAST_S = 3, 90
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def end_with_parent():
    """Between fork and exec: the process gets SIGTERM when the thread that started it ends, however that happens."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def text(path):
    """A file's text; empty if it is gone."""
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def after_name(stat):
    """The fields of a `stat` from the third on: the second is a name in brackets."""
    return stat.rpartition(")")[2].split()


def qemu_of(run):
    """The QEMU that this `gyre run` has started; none if there is none."""
    children = " ".join(text(path) for path in pathlib.Path(f"/proc/{run}/task").glob("*/children")).split()
    return next((child for child in children if text(f"/proc/{child}/comm").startswith("qemu")), None)


class MachineClock:
    """Seconds that count against a machine: of a time in which its QEMU wanted to run, or waited for the host's disk, those that it got;
    all others, too."""

    def __init__(self, name=None, qemu=None):
        self.lock = ROOT / ".gyre/run" / name / "lock" if name else None
        self.qemu, self.cpu_s, self.counted_s = qemu, 0.0, 0.0
        self.began = self.looked = time.monotonic()

    def passed(self):
        """Gives what has passed so far; to be asked more often than each half second."""
        now = time.monotonic()
        step, self.looked = now - self.looked, now
        self.counted_s += min(step, STEP_MAX_S, self._possible_s())
        return self.counted_s

    def _possible_s(self):
        """How many seconds of the last step count at most."""
        if self.lock and not self.qemu:
            self.qemu, self.cpu_s = qemu_of(text(self.lock).strip() or "none"), None
        states = [after_name(text(task / "stat"))[:1] for task in pathlib.Path(f"/proc/{self.qemu}/task").glob("*")]
        if not states:
            self.qemu = None
            return STEP_MAX_S
        fields = after_name(text(f"/proc/{self.qemu}/stat"))
        cpu_s = sum(map(int, fields[11:13])) / TICKS_PER_S
        before, self.cpu_s = self.cpu_s, cpu_s
        return cpu_s - before if before is not None and (["R"] in states or ["D"] in states) else STEP_MAX_S

    def words(self):
        """Both clocks, for whoever reads of a hang."""
        return f"{self.counted_s:.0f} s counted of {time.monotonic() - self.began:.0f} s"


def qemu_on(machine):
    """The QEMU of the machine of this name; none if there is none."""
    return qemu_of(text(ROOT / ".gyre/run" / machine / "lock").strip() or "none")


def waited_s(machine):
    """How long a machine's threads were ready to run and did not: the second field of schedstat, ns."""
    fields = [text(task / "schedstat").split() for task in pathlib.Path(f"/proc/{qemu_on(machine)}/task").glob("*")]
    return sum(int(one[1]) for one in fields if len(one) > 1) / 1e9


class Held:
    """Whether the host held a machine back in the block of a `with`: its threads waited for a processor, a hypervisor had the processors, or it
    stood still. It must have work all the while."""

    # Parts of the time that are no matter, and the longest time without progress that is none, seconds.
    WAITED_MAX, STOLEN_MAX, STILL_MAX_S = 0.02, 0.02, 0.3

    def __init__(self, machine):
        self.machine, self.still_s, self.is_over = machine, 0.0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self.before = self._figures()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.passed = [after - before for after, before in zip(self._figures(), self.before)]

    def _figures(self):
        times = [int(field) for field in text("/proc/stat").splitlines()[0].split()[1:9]]
        return time.monotonic(), waited_s(self.machine), sum(times), times[7]

    def _look(self):
        qemu, grown, cpu = qemu_on(self.machine), time.monotonic(), None
        while not self.is_over.wait(0.05):
            now, fields = time.monotonic(), after_name(text(f"/proc/{qemu}/stat"))[11:13]
            if fields != cpu:
                self.still_s, grown, cpu = max(self.still_s, now - grown), now, fields
        self.still_s = max(self.still_s, time.monotonic() - grown)

    def is_so(self):
        wall_s, waited, times, stolen = self.passed
        return waited > self.WAITED_MAX * wall_s or stolen > self.STOLEN_MAX * times or self.still_s > self.STILL_MAX_S


def eventually(check, *arguments, machine=None, limit_s=60):
    """Runs a check until nothing is wrong, or missing; raises what is wrong still after so long."""
    clock = MachineClock(machine)
    while True:
        try:
            return check(*arguments)
        except (AssertionError, LookupError):
            if clock.passed() >= limit_s:
                raise
        time.sleep(LOOK_S)


def watched(clock, call, *arguments):
    """Answers what a call does that may take longer than two looks at the clock are apart."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, *arguments)
        while not concurrent.futures.wait([answer], LOOK_S).done:
            clock.passed()
        return answer.result()


def until(what, is_so, machine=None, limit_s=60):
    """Waits until `is_so()` answers something that is true, in the own time of the machine of this name, and answers that. `what` says what it
    is that is waited for, or is a function that does."""
    clock = MachineClock(machine)
    while not (seen := watched(clock, is_so)):
        assert clock.passed() < limit_s, f"{what() if callable(what) else what}: not so ({clock.words()})"
        time.sleep(LOOK_S)
    return seen


def bounded(command, timeout, machine=None, input=None, **more):
    """Runs a command to its end. One that hangs is killed and answers code 124 with what it had said; `timeout` says how long the command
    takes at most on a host that is not busy, in seconds, and `machine` on whose machine it waits."""
    more.setdefault("stdin", subprocess.DEVNULL if input is None else subprocess.PIPE)
    clock, limit_s = MachineClock(machine), max(TIMES * timeout, LEAST_S)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as child:
        while True:
            try:
                output, errors = child.communicate(input, timeout=LOOK_S)
                return subprocess.CompletedProcess(command, child.returncode, output, errors)
            except subprocess.TimeoutExpired as late:
                # The next round goes on with this communication: its input is known.
                input, said = None, late
            except BaseException:
                child.kill()
                raise
            if clock.passed() >= limit_s:
                child.kill()
                return subprocess.CompletedProcess(command, 124, said.stdout or b"", (said.stderr or b"") + f"\n(timeout: {clock.words()})".encode())


def ends(child, machine=None, limit_s=300):
    """Waits for the end of a process and answers its code; one that hangs is killed."""
    clock = MachineClock(machine)
    while child.poll() is None and clock.passed() < limit_s:
        time.sleep(LOOK_S)
    if child.poll() is None:
        child.kill()
        child.wait()
        raise AssertionError(f"{child.args} does not end ({clock.words()})")
    return child.returncode


def whole(child, machine=None, limit_s=300):
    """Waits for the end of a process and answers what it says until then by its pipes, output and errors; one that hangs is killed."""
    clock = MachineClock(machine)
    while clock.passed() < limit_s:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=LOOK_S)
    child.kill()
    raise AssertionError(f"{child.args} does not end ({clock.words()}): {child.communicate()}")


@contextlib.contextmanager
def killed_if_it_hangs(child, machine=None, limit_s=300):
    """Who reads what a process says, in the block, reads the end at last: it is killed when it has had so much of the machine's time."""
    is_over = threading.Event()

    def watch():
        clock = MachineClock(machine)
        while not is_over.wait(LOOK_S):
            if clock.passed() >= limit_s:
                child.kill()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield child
    finally:
        is_over.set()
        thread.join()


def main():
    with subprocess.Popen(sys.argv[2:], preexec_fn=end_with_parent) as child:
        clock, limit_s = MachineClock(qemu=child.pid), float(sys.argv[1])
        while True:
            try:
                return child.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                if clock.passed() >= limit_s:
                    child.kill()
                    return 124


if __name__ == "__main__":
    sys.exit(main())
