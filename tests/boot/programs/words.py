"""Looks at what programs and the kernel write into a tenant's log: bytes of every kind, and why a process ended by a fault."""

from machine import gyre, same

EVERYTHING = "console = open('/dev/console', 'wb'); console.write(bytes(range(256)) + b'x' * (1 << 20) + bytes(range(255, -1, -1)) + b'\\x1b]0;title\\x07'); console.close()"
# The kernel says this of what tests/linux/faults.c does. Its processes have a name that would steer a terminal.
FAULTS = (
    "] got SIGSEGV: read of 0x10 at rip 0x",
    ": nothing is mapped there",
    "] got SIGSEGV: write to 0x",
    ": its mapping does not allow that",
    "] got SIGSEGV: jump to 0x20 at rip 0x20",
    "] got SIGSEGV: general protection fault at rip 0x",
    "] got SIGILL: no valid instruction at rip 0x",
    "] got SIGBUS: read of 0x",
    ": the file ends before it",
    "gyre: a?[Hfault?[",
)


def faults_are_explained(machine):
    done = machine.exec("shell", "/opt/tests/faults", timeout=60)
    same((done.returncode, done.stdout), (0, b"ok faults\n"), "tests/linux/faults.c")
    log, console = machine.logs("shell"), machine.console_tail(400)
    missing = [words for words in FAULTS if words not in log or words.removeprefix("gyre: ") not in console]
    assert not missing, (missing, log[-2000:])
    assert "0x1230 at" not in log, "a fault that a handler takes is the program's own"


def any_bytes(machine):
    """Nothing that a program prints changes what the tool says of the machine."""
    done = machine.exec("shell", "/usr/bin/python3", "-c", EVERYTHING, timeout=120)
    same(done.returncode, 0, done.stderr[-500:])
    log = gyre("logs", "--machine", machine.name, "shell")
    same(log.returncode, 0, "exit code of logs")
    assert bytes(range(255, 10, -1)) in log.stdout and b"\x1b]0;title\x07" in log.stdout, log.stdout[-600:]
    for words in (["logs", "--json", "shell"], ["logs", "--tail", "3", "shell"], ["bill"], ["ls"], ["exec", "shell", "--", "/bin/busybox", "true"]):
        head, *rest = words
        done = gyre(head, *([] if head == "ls" else ["--machine", machine.name]), *rest, timeout=60)
        same(done.returncode, 0, f"exit code of {words} ({done.stderr[-300:]!r})")
        assert head == "logs" or b"\x1b]0" not in done.stdout, done.stdout[-600:]
