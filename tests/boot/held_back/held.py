"""Threads of a process that stand still for a while, as if the host had no processor for them: ptrace(2) stops each by itself."""

import contextlib
import ctypes
import os
import pathlib

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
ALL_KINDS = 0x40000000  # __WALL: a thread is waited for like a child


def processors(qemu):
    """The threads of a QEMU that play processors, in order."""
    names = {task.name: (task / "comm").read_text() for task in pathlib.Path(f"/proc/{qemu}/task").glob("*")}
    return [int(thread) for thread, name in sorted(names.items(), key=lambda one: one[1]) if name.startswith("CPU ")]


def trace(request, thread):
    if LIBC.ptrace(request, thread, None, None) == -1:
        error = ctypes.get_errno()
        raise AssertionError(f"ptrace({request:#x}, {thread}): {os.strerror(error)}")


@contextlib.contextmanager
def held_back(threads):
    """These threads stand still within the block."""
    held = []
    try:
        for thread in threads:
            trace(PTRACE_SEIZE, thread)
            held.append(thread)
            trace(PTRACE_INTERRUPT, thread)
            os.waitpid(thread, ALL_KINDS)
        yield
    finally:
        for thread in held:
            trace(PTRACE_DETACH, thread)
