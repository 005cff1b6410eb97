"""The bill of a zone beside its lease: `gyre zone bill`."""

import json
import time

from machine import gyre, same


def moves_ns(machine, zone):
    """Nanoseconds that changes of a zone took since its instance was made, the making included."""
    done = gyre("zone", "log", "--machine", machine, "--json")
    same(done.returncode, 0, f"exit code of log ({done.stderr!r})")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    own = [one for one in records if zone in (one["from"], one["to"])]
    made = max((place for place, one in enumerate(own) if one["deed"] == "create" and "Ok" in one["result"]), default=0)
    return sum(one["took_ns"] for one in own[made:])


def agrees(machine, zone, when, cores=4):
    """The bill of a zone that runs agrees with its lease, and has all of it but the time until it stood, that of its changes, and that of the
    question, on as many cores as it may have had."""
    begun_ns = time.monotonic_ns()
    done = gyre("zone", "bill", zone, "--machine", machine, "--json")
    asked_ns = time.monotonic_ns() - begun_ns
    same(done.returncode, 0, f"exit code of bill after {when} ({done.stderr!r})")
    said = json.loads(done.stdout)
    lease, bill = said["lease"], said["bill"]
    same(said["agrees"], True, f"agreement of {zone} after {when} ({lease['own']})")
    same(said["leased_cycles"] - bill["machine_cycles"], said["crossing_cycles"], f"the sum of {zone} after {when}")
    same((bill["difference_cycles"], bill["unattributed_cycles"]), (0, 0), f"the bill of {zone} after {when}")
    most_ns = cores * (lease["start_ns"] + moves_ns(machine, zone) + asked_ns)
    rest_ns = said["crossing_cycles"] * 1_000_000_000 // bill["cycles_per_second"]
    assert rest_ns <= most_ns, f"{zone} after {when}: {rest_ns} ns of its lease are on no bill, of {most_ns} that can be"
