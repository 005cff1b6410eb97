#!/usr/bin/env python3
"""How many instructions a machine spends in which kind of span, and in which functions: scheduling, interrupts, idling, handling.

    experiments/spans/spans.py [--kernel FILE] [--machine FILE] [--seconds N] [--warm-up N] [--record] [--top N]

Counts each instruction with a plugin of QEMU's interpreter (spans.c), which sees a span end where the kernel's time line does. The counts do not
depend on the host, but for what happens in which order. Needs gcc, objdump and addr2line. `--record` keeps the sums in results/spans.json.
"""
import argparse, bisect, collections, datetime, json, os, pathlib, re, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ["scheduling", "interrupt", "idle", "handling"]
# Lines of the time line at which a span of a kind ends; a test of runtime/account holds that they are there.
ENDS = {0: "SCHEDULING => self.end_choice(", 1: "INTERRUPT => match self.cause", 2: "_ => add(&self.idle"}
# The line that begins the next span.
BEGINS = "self.span.store(next"


def frames_of(kernel, folder):
    """For each instruction of the kernel the functions and lines that it came from, the innermost first; and which write to memory."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", kernel], capture_output=True, text=True, check=True).stdout
    code = {int(found[1], 16): found[2] for found in re.finditer(r"^\s*([0-9a-f]+):\s+(.*)$", listing, re.M)}
    (folder / "addresses").write_text("".join(f"{address:x}\n" for address in code))
    with open(folder / "addresses") as addresses:
        said = subprocess.run(["addr2line", "-a", "-i", "-f", "-C", "-e", kernel], stdin=addresses, capture_output=True, text=True, check=True).stdout
    frames, current = {}, None
    for line in said.splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            current = frames.setdefault(int(line, 16), [])
        else:
            current.append(line)
    # A store, or an addition to memory.
    writes = {address for address, text in code.items() if re.match(r"(mov|add|lock|xchg)\S*\s+.*,\s*[^,]*\(.*\)$", text)}
    return {address: list(zip(lines[::2], lines[1::2])) for address, lines in frames.items()}, writes


def marks_of(frames, writes):
    """Where a span of a kind ends: the first instruction of its branch. Where the next one begins: each store of its number."""
    text = (ROOT / "runtime/account/src/timeline.rs").read_text().splitlines()
    number_of = lambda part: next(at for at, line in enumerate(text, 1) if part in line)
    ends, begins = {number_of(part): kind for kind, part in ENDS.items()}, number_of(BEGINS)
    found_ends = set()
    for address in sorted(frames):
        for _, place in frames[address]:
            found = re.search(r"timeline\.rs:(\d+)", place)
            line = int(found[1]) if found else 0
            if line in ends and ends[line] not in found_ends:
                found_ends.add(ends[line])
                yield address, ends[line]
            elif line == begins and address in writes:
                yield address, 3


def run(arguments, folder):
    """Runs the machine with the plugin; answers what it wrote."""
    plugin = folder / "spans.so"
    subprocess.run(["gcc", "-O2", "-w", "-shared", "-fPIC", "-o", plugin, pathlib.Path(__file__).with_name("spans.c"), "-lpthread"], check=True)
    counting = folder / "counting"
    options = f"{plugin},marks={folder / 'marks'},out={folder / 'out'},while={counting}"
    last = arguments.warm_up + arguments.seconds + 5
    command = [ROOT / "gyre", "run", arguments.machine, "--for", f"{last}s", "--page", "0", "--kernel", arguments.kernel, "--qemu=-plugin", f"--qemu={options}"]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(arguments.warm_up)
    counting.touch()
    time.sleep(arguments.seconds)
    counting.unlink()
    said = machine.communicate(timeout=120)[1]
    if machine.returncode or not (folder / "out").exists():
        sys.exit(f"the machine failed:\n{said}")
    return (folder / "out").read_text().splitlines()


def count(lines, frames):
    """Instructions by kind, of programs and of the kernel, and the kernel's by function."""
    addresses = sorted(frames)
    spans = [int(word) for word in lines[0].split()[1:]]
    programs, functions = 0, [collections.Counter() for _ in KINDS]
    for line in lines[1:]:
        address, length, *runs = line.split()
        address, length, runs = int(address, 16), int(length), [int(one) for one in runs]
        if address == 0:
            programs += length * sum(runs)
            continue
        at = bisect.bisect_left(addresses, address)
        for one in addresses[at:at + length]:
            name = re.sub(r"::h[0-9a-f]{16}$", "", frames[one][-1][0]) if frames[one] else "?"
            for kind, times in enumerate(runs):
                functions[kind][name] += times
    return spans, programs, functions


def figure(name, value, unit, decimals=1):
    return {"name": name, "value": round(value, decimals), "decimals": decimals, "unit": unit, "linux": None, "paper": "", "goal": "", "is_met": None}


def figures_of(spans, programs, functions):
    sums = [sum(one.values()) for one in functions]
    everything = sum(sums) + programs
    for kind, own in zip(KINDS, sums):
        yield figure(f"kernel, {kind}", own / 1e6, "million instructions")
    yield figure("programs", programs / 1e6, "million instructions")
    yield figure("scheduling and interrupts of all", 100 * (sums[0] + sums[1]) / everything, "%")
    for kind, own, times in zip(KINDS, sums, spans):
        yield figure(f"spans: {kind}", times, "", 0)
        if kind != "idle":
            yield figure(f"instructions a span: {kind}", own / max(times, 1), "", 0)


def record(arguments, figures, stolen):
    ask = lambda *words: subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    changed = "+" if ask("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!docs", ":!README.md") else ""
    conditions = {
        "command": f"experiments/spans/spans.py --seconds {arguments.seconds} --record", "date": datetime.date.today().isoformat(),
        "commit": ask("git", "rev-parse", "--short", "HEAD") + changed, "processor": model[1] if model else "unknown",
        "processors": os.cpu_count(), "seconds": float(arguments.seconds), "stolen_percent": round(stolen, 1)}
    whole = {"experiment": "spans", "title": "Instructions by span on the saturated link", "conditions": conditions, "figures": figures, "notes": []}
    (ROOT / "results/spans.json").write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    subprocess.run([ROOT / "gyre", "exp", "--document"], check=True)


def stolen_and_all():
    words = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return words[7], sum(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default=ROOT / "target/x86_64-unknown-none/release/gyre-kernel")
    parser.add_argument("--machine", default=ROOT / "examples/three-tenants.toml")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--warm-up", type=int, default=18)
    parser.add_argument("--top", type=int, default=12, help="functions shown of each kind")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        frames, writes = frames_of(arguments.kernel, folder)
        (folder / "marks").write_text("".join(f"{address:x} {kind}\n" for address, kind in marks_of(frames, writes)))
        before = stolen_and_all()
        lines = run(arguments, folder)
        after = stolen_and_all()
    spans, programs, functions = count(lines, frames)
    figures = list(figures_of(spans, programs, functions))
    for one in figures:
        print(f"{one['name']:42} {one['value']:>12,.{one['decimals']}f} {one['unit']}")
    for kind, own in zip(KINDS, functions):
        print(f"\n{kind}:")
        for name, times in own.most_common(arguments.top):
            print(f"{100 * times / max(sum(own.values()), 1):6.2f} % {times / 1e6:9.3f} M  {name[:120]}")
    if arguments.record:
        record(arguments, figures, 100 * (after[0] - before[0]) / max(after[1] - before[1], 1))


main()
