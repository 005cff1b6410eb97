"""What belongs to one run of a suite alone: ports of the host, names of machines, machine files. Runs of two checkouts, and machines of a user,
have others."""

import os
import pathlib
import random
import re
import shutil
import socket
import typing

from machine import ROOT, WORK
from patience import text

# Above the usual services of a host, below the ports that it gives to clients.
FIRST_PORT, LAST_PORT = 20_000, 32_000
# The marks of this run's ports: they end with its process, however that ends.
_marks = []


class Own(typing.NamedTuple):
    """A machine file of this run, the name that it gives to its machine, and its ports, in the order of those that they stand for."""

    path: pathlib.Path
    name: str
    ports: list


def is_free(port):
    """Whether nobody has a port of the host and no other run has marked it; it is marked from then on."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0gyre-test-port-{port}")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("0.0.0.0", port))
    except OSError:
        mark.close()
        return False
    _marks.append(mark)
    return True


def free_ports(count):
    """So many ports of the host that nobody has, in order. Each run looks elsewhere first."""
    found, dice = [], random.SystemRandom()
    for _ in range(10_000):
        if len(found) == count:
            return sorted(found)
        found += filter(is_free, [dice.randrange(FIRST_PORT, LAST_PORT)])
    raise AssertionError(f"the host has no {count} free ports")


def own_name(base):
    """A name for a machine, a volume or a file that no other run has. Leftovers of earlier runs under such a name are removed."""
    remove_leftovers(base)
    return f"{base}-{os.getpid()}"


def remove_leftovers(base):
    """Removes folders and files of runs that are over: neither the suite nor its machine lives."""
    pattern = re.compile(rf"({re.escape(base)}-(\d+))([.-].*)?")
    places = [WORK, *(ROOT / ".gyre" / name for name in ("run", "bills", "images", "pulled", "volumes"))]
    found = [(path, match) for place in places for path in place.glob(f"{base}-*") if (match := pattern.fullmatch(path.name))]
    living = {match[1] for _, match in found if lives(match[2]) or lives(text(ROOT / ".gyre/run" / match[1] / "lock").strip())}
    for path, match in found:
        if match[1] in living:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def lives(process):
    return bool(process) and pathlib.Path("/proc", process).exists()


def absolute(folder, path):
    """A path of a machine file, as it is from anywhere; a word that is no such path as it is."""
    place = os.path.normpath(folder / path)
    return place if path.startswith("../") or os.path.exists(place) else path


def own_file(file, ports=(), more=()):
    """Writes the machine file at a path from the project's root anew for this run: another name for its machine, free ports in place of `ports`,
    paths that hold elsewhere, and further words in place of others (pairs)."""
    original = ROOT / file
    words = original.read_text()
    named = re.match(r'(?:[^\[]*\n)?name = "([^"]+)"\n', words)
    name = own_name(named[1] if named else original.stem)
    free = dict(zip(map(str, sorted(ports)), map(str, free_ports(len(ports)))))
    pairs = [*more, *([(f'name = "{named[1]}"', f'name = "{name}"')] if named else [])]
    for old, new in pairs:
        assert old in words, f"{old} is not in {file}"
        words = words.replace(old, new, 1)
    words = re.sub(r'"([\w.][^"\s]*/[^"\s]+)"', lambda found: found[0].replace(found[1], absolute(original.parent, found[1])), words)
    for port in free:
        assert re.search(rf"\b{port}\b", words), f"port {port} is not in {file}"
    if free:
        words = re.sub(rf"\b({'|'.join(free)})\b", lambda found: free[found[1]], words)
    path = WORK / f"{name}.toml"
    path.write_text(words)
    return Own(path, name if named else None, [int(free[str(port)]) for port in ports])
