#!/usr/bin/env python3
"""The memory of a machine as a file: fills it with a pattern, or checks after a run which megabytes have lost it.

usage: outside.py fill FILE MEGABYTES
       outside.py check FILE FIRST LAST CALM_FIRST CALM_LAST
check: most of the megabytes FIRST to LAST must have changed (the zone was used), none of CALM_FIRST to CALM_LAST may.
"""

import sys

PATTERN = b"\x5a\xc3" * (1 << 19)


def fill(path, megabytes):
    with open(path, "wb") as file:
        for _ in range(int(megabytes)):
            file.write(PATTERN)


def check(path, first, last, calm_first, calm_last):
    with open(path, "rb") as file:
        changed = {number for number, part in enumerate(iter(lambda: file.read(len(PATTERN)), b"")) if part != PATTERN}
    zone, calm = set(range(int(first), int(last))), set(range(int(calm_first), int(calm_last)))
    if 2 * len(zone & changed) < len(zone):
        sys.exit(f"of the zone's {len(zone)} MiB only {len(zone & changed)} were used: the check proves nothing")
    if calm & changed:
        sys.exit(f"memory outside of the zone was written, MiB {sorted(calm & changed)[:16]}")


{"fill": fill, "check": check}[sys.argv[1]](*sys.argv[2:])
