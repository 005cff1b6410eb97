#!/usr/bin/env python3
"""Finds the places at which a machine's cores are: reads their instruction pointers through QEMU's monitor and names them by the kernel's symbols.

    ./gyre run FILE --qemu=-qmp --qemu=unix:/tmp/qmp,server,nowait &
    experiments/profile.py /tmp/qmp KERNEL [SECONDS] [CORES]

The machine is stopped for each sample, its clock with it. A core stops where a block of the interpreter ends: lines are exact to a
block. The figures are for finding hot places; the bill counts, and it samples nothing.
"""
import collections, json, random, re, socket, subprocess, sys, time


class Monitor:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, name, **arguments):
        self.socket.sendall((json.dumps({"execute": name, "arguments": arguments}) + "\n").encode())
        while True:
            answer = json.loads(self.lines.readline())
            if "return" in answer or "error" in answer:
                return answer.get("return")

    def registers(self, core):
        return self.ask("human-monitor-command", **{"command-line": "info registers", "cpu-index": core})


def stack_of(monitor, core, depth):
    """The instruction pointer of a halted machine's core and its callers' (the kernel keeps frame pointers)."""
    text = monitor.registers(core)
    pointer, level, halted = re.search(r"RIP=(\w+).*?CPL=(\d).*?HLT=(\d)", text, re.S).groups()
    if halted == "1" or level == "3":
        return ("idle" if halted == "1" else "user",)
    stack, base = [pointer], int(re.search(r"RBP=(\w+)", text).group(1), 16)
    for _ in range(depth):
        if base < 1 << 47:
            break
        line = f"x/2gx {base:#x}"
        words = re.findall(r"0x(\w{16})", monitor.ask("human-monitor-command", **{"command-line": line, "cpu-index": core}))
        if len(words) < 2:
            break
        base, back = int(words[-2], 16), words[-1]
        stack.append(back)
    return tuple(stack)


def sample(path, seconds, cores, depth):
    monitor, stacks = Monitor(path), collections.Counter()
    end = time.time() + seconds
    while time.time() < end:
        monitor.ask("stop")
        for core in range(cores):
            stacks[stack_of(monitor, core, depth)] += 1
        monitor.ask("cont")
        time.sleep(0.008 * random.random())
    return stacks


def names(kernel, pointers):
    command = ["llvm-symbolizer", "--obj=" + kernel, "--output-style=JSON", "--inlines"]
    out = subprocess.run(command, input="\n".join("0x" + p for p in pointers), text=True, capture_output=True).stdout
    found = {}
    for pointer, line in zip(pointers, out.splitlines()):
        frames = json.loads(line).get("Symbol", [])
        found[pointer] = [re.sub(r"::h[0-9a-f]{16}$", "", f["FunctionName"]) + ":" + str(f["Line"]) for f in frames]
    return found


def short(name):
    name = re.sub(r"\$u7b\$\$u7b\$closure\$u7d\$\$u7d\$", "{}", name)
    return re.sub(r"_\$LT\$.*?\$GT\$::", "", name).replace("$LT$", "<").replace("$GT$", ">")


def show(title, counter, total, most=40):
    print(f"-- {title}")
    for name, count in counter.most_common(most):
        print(f"{100 * count / total:6.2f} %  {name[:200]}")


def main():
    path, kernel = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 8
    cores = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    stacks = sample(path, seconds, cores, 12)
    busy = sum(count for stack, count in stacks.items() if stack != ("idle",))
    found = names(kernel, sorted({p for stack in stacks for p in stack if p not in ("idle", "user")}))
    leaves, outer, chains, within, apart = (collections.Counter() for _ in range(5))
    for stack, count in stacks.items():
        if stack == ("idle",):
            continue
        named = [found.get(p) or [p] for p in stack]
        compiled = [short(frames[-1].rsplit(":", 1)[0]) for frames in named]
        leaves[short(named[0][0])] += count
        outer[compiled[0]] += count
        if not any(name == "poll" or name.endswith("::poll") for name in compiled):
            apart[compiled[0] + "  " + short(named[0][0])] += count
        chains[" < ".join(compiled[:5])] += count
        for name in set(compiled):
            within[name] += count
    print(f"{sum(stacks.values())} samples, {stacks[('idle',)]} idle, {busy} busy; shares of the busy ones")
    show("functions as compiled", outer, busy)
    show("with what they call (5 frames)", within, busy, 60)
    show("outside of all handlers: scheduling, interrupts", apart, busy, 40)
    show("lines", leaves, busy, 30)
    show("chains", chains, busy, 40)


if __name__ == "__main__":
    main()
