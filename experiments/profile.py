#!/usr/bin/env python3
"""Where a machine's cores are: reads their instruction pointers through QEMU's monitor and names them by the kernel's symbols.

    ./gyre run FILE --qemu=-qmp --qemu=unix:/tmp/qmp,server,nowait &
    experiments/profile.py /tmp/qmp KERNEL [SECONDS] [CORES]

The interpreter notes the pointer where blocks end, so that lines are exact to a block, functions to a few per cent. The figures are
for finding hot places; what counts is the bill, which samples nothing.
"""
import collections, json, re, socket, subprocess, sys, time


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


def sample(path, seconds, cores):
    monitor, places = Monitor(path), collections.Counter()
    end = time.time() + seconds
    while time.time() < end:
        for core in range(cores):
            text = monitor.registers(core)
            found = re.search(r"RIP=(\w+).*?CPL=(\d).*?HLT=(\d)", text, re.S)
            pointer, level, halted = found.groups()
            places["idle" if halted == "1" else "user" if level == "3" else pointer] += 1
        time.sleep(0.002)
    return places


def names(kernel, places):
    pointers = [place for place in places if place not in ("idle", "user")]
    command = ["llvm-symbolizer", "--obj=" + kernel, "--output-style=JSON", "--inlines"]
    out = subprocess.run(command, input="\n".join("0x" + p for p in pointers), text=True, capture_output=True).stdout
    stacks = {}
    for pointer, line in zip(pointers, out.splitlines()):
        frames = json.loads(line).get("Symbol", [])
        stacks[pointer] = [re.sub(r"::h[0-9a-f]{16}$", "", f["FunctionName"]) + ":" + str(f["Line"]) for f in frames]
    return stacks


def show(title, counter, total, most=45):
    print(f"-- {title}")
    for name, count in counter.most_common(most):
        print(f"{100 * count / total:6.2f} %  {name[:170]}")


def main():
    path, kernel = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 8
    cores = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    places = sample(path, seconds, cores)
    busy = sum(count for place, count in places.items() if place != "idle")
    stacks = names(kernel, places)
    functions, lines, outer = (collections.Counter() for _ in range(3))
    for place, count in places.items():
        stack = stacks.get(place) or [place]
        bare = [frame.rsplit(":", 1)[0] for frame in stack]
        functions[bare[0]] += count
        outer[bare[-1]] += count
        lines[" < ".join(stack[:3])] += count
    for counter in (functions, lines, outer):
        del counter["idle"]
    print(f"{sum(places.values())} samples, {places['idle']} idle, {busy} busy; shares of the busy ones")
    show("functions as compiled", outer, busy)
    show("functions, inlined ones by themselves", functions, busy)
    show("lines", lines, busy, 30)


if __name__ == "__main__":
    main()
