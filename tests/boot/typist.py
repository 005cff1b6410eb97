"""Somebody who types: a program on a terminal of the test's own, which is 33 rows of 99 columns large at first."""

import fcntl
import os
import pty
import select
import struct
import termios

from machine import ENVIRONMENT, GYRE
from patience import LOOK_S, MachineClock, until

# A program that does not say what is waited for hangs after so much of the machine's time, seconds.
READ_S = 120
ROWS, COLUMNS = 33, 99


def set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read(file):
    """The next bytes of a file, none if none come before the next look at the clock; None at its end."""
    if not select.select([file], [], [], LOOK_S)[0]:
        return b""
    try:
        return os.read(file, 4096) or None
    except OSError:
        return None


class Typist:
    """A program of the host that works on the machine of this name."""

    def __init__(self, machine, *command):
        # The program begins when the settings have been read: it may make the terminal raw.
        held, free = os.pipe()
        self.machine = machine
        self.process, self.master = pty.fork()
        if self.process == 0:
            # Before the program asks for it.
            set_size(0, ROWS, COLUMNS)
            os.close(free)
            os.read(held, 1)
            os.environ.update(ENVIRONMENT)
            os.execvp(command[0], command)
        self.before = self.settings()
        os.write(free, b"!")
        os.close(held)
        os.close(free)
        self.text = ""

    @classmethod
    def inside(cls, machine, *words):
        """`gyre exec -it` with these words."""
        return cls(machine, GYRE, "exec", "-it", "--machine", machine, *words)

    def size(self, rows, columns):
        set_size(self.master, rows, columns)

    def reads(self, wanted):
        clock = MachineClock(self.machine)
        while wanted not in self.text and clock.passed() < READ_S and (piece := read(self.master)) is not None:
            self.text += piece.decode(errors="replace")
        assert wanted in self.text, f"{wanted!r} is not in {self.text!r}"
        self.text = self.text[self.text.index(wanted) + len(wanted):]

    def types(self, keys):
        os.write(self.master, keys.encode())

    def settings(self):
        return termios.tcgetattr(self.master)

    def code(self):
        def ended():
            # A program whose words nobody takes does not end.
            self.text += (read(self.master) or b"").decode(errors="replace")
            process, status = os.waitpid(self.process, os.WNOHANG)
            return process and [os.waitstatus_to_exitcode(status)]
        return until("the command ends", ended, self.machine, READ_S)[0]

    def vanishes(self):
        """The program is killed, and its terminal goes."""
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)
        os.close(self.master)

    def close(self):
        os.close(self.master)
