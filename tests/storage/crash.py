#!/usr/bin/env python3
"""Stops the machine's disk at many moments and checks what e2fsck makes of it.

    gyre run tests/storage/crash.toml --for 5s      makes the module and the image
    tests/storage/crash.py KERNEL MODULE IMAGE [STATES] [SECONDS]

QEMU logs every write and flush (driver blklogwrites, format of dm-log-writes). A crash state is everything up to some flush and a random
part of the sectors written after it. Checked of each state: `e2fsck -fy` repairs it and then finds nothing; all files that were
synced before are there and whole (a file is made only after the one before it was synced); `stable`, which is replaced by
renaming, holds one of its versions.
"""
import random, re, shutil, struct, subprocess, sys, tempfile, time
from pathlib import Path

FLUSH, DISCARD, MAGIC = 1, 4, 0x6A736677736872


def boot(kernel, module, image, log, seconds):
    command = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,-la57,-erms", "-smp", "2", "-m", "256",
               "-display", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{log}.console",
               "-kernel", kernel, "-initrd", module, "-append", "",
               "-blockdev", f"driver=file,filename={image},node-name=image",
               "-blockdev", f"driver=file,filename={log},node-name=log",
               "-blockdev", "driver=blklogwrites,file=image,log=log,node-name=disk",
               "-device", "virtio-blk-pci,drive=disk,disable-legacy=on,addr=0x4"]
    qemu = subprocess.Popen(command)
    time.sleep(seconds)
    qemu.kill()
    qemu.wait()


def entries(log):
    """(sector in bytes, flags, data) of each write, as far as the log is whole."""
    data = Path(log).read_bytes()
    magic, _version, count, sector_bytes = struct.unpack_from("<QQQI", data)
    assert magic == MAGIC, "no log of writes"
    at, found = sector_bytes, []
    while at + 32 <= len(data):
        sector, sectors, flags, _ = struct.unpack_from("<QQQQ", data, at)
        at += sector_bytes
        bytes_ = 0 if flags & DISCARD else sectors * sector_bytes
        if (flags | sectors | sector) == 0 or at + bytes_ > len(data):
            break
        found.append((sector * sector_bytes, flags, data[at:at + bytes_]))
        at += bytes_
    return found


def crash_states(original, log, count, chance):
    """Pairs of the image at a flush and the image of a crash after it."""
    writes = entries(log)
    flushes = [index for index, (_, flags, _) in enumerate(writes) if flags & FLUSH]
    assert len(flushes) > 10, f"only {len(flushes)} flushes in {len(writes)} entries"
    print(f"{len(writes)} writes, {len(flushes)} flushes")
    chosen = sorted(chance.sample(range(len(flushes) - 1), min(count, len(flushes) - 1)))
    base, done = bytearray(original), 0
    for number in chosen:
        for at, _, data in writes[done:flushes[number] + 1]:
            base[at:at + len(data)] = data
        done = flushes[number] + 1
        state = bytearray(base)
        epoch = writes[done:flushes[number + 1]]
        for at, _, data in epoch[:chance.randint(0, len(epoch))]:
            for offset in range(0, len(data), 512):
                if chance.random() < 0.5:
                    state[at + offset:at + offset + 512] = data[offset:offset + 512]
        yield number, bytes(base), bytes(state)


def fsck(path, *arguments):
    done = subprocess.run(["e2fsck", *arguments, path], capture_output=True, text=True)
    return done.returncode, done.stdout


def debugfs(path, request):
    return subprocess.run(["debugfs", "-R", request, path], capture_output=True).stdout


def names(path):
    return set(re.findall(r"\b(f\d+|stable)\b", debugfs(path, "ls -p /root/d").decode(errors="replace").replace("/", " ")))


def check(number, base, state, folder, expected):
    base_path, path = str(folder / "base"), str(folder / "state")
    Path(base_path).write_bytes(base)
    Path(path).write_bytes(state)
    before = sorted(names(base_path) - {"stable"})
    damaged = fsck(path, "-fn")[0] != 0
    code, words = fsck(path, "-fy")
    assert code <= 1, f"state {number}: e2fsck -fy says {code}\n{words}"
    assert fsck(path, "-fn")[0] == 0, f"state {number}: not clean after the repair"
    for name in before[:-1]:
        size = int(f"50{name[1:]}")
        content = debugfs(path, f"cat /root/d/{name}")
        assert content == expected(name, size), f"state {number}: {name} was synced and is lost ({len(content)} of {size} bytes)\n{words}"
    if "stable" in names(base_path):
        stable = debugfs(path, "cat /root/d/stable").decode(errors="replace")
        assert re.fullmatch(r"version \d+\n", stable), f"state {number}: stable holds {stable!r}\n{words}"
    return damaged, max(len(before) - 1, 0)


def main():
    kernel, module, image = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 24
    seconds = int(sys.argv[5]) if len(sys.argv) > 5 else 15
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        disk, log = folder / "disk", folder / "log"
        shutil.copy(image, disk)
        log.write_bytes(b"")
        boot(kernel, module, disk, log, seconds)
        print((Path(f"{log}.console").read_text(errors="replace")).strip()[-300:])
        busybox, host = debugfs(image, "cat /usr/bin/busybox"), debugfs(image, "cat /etc/hostname")
        expected = lambda name, size: (host + f"{name[1:]}\n".encode() + busybox)[:size]
        results = [check(*state, folder, expected) for state in crash_states(Path(image).read_bytes(), log, count, chance)]
    damaged, synced = sum(hurt for hurt, _ in results), sum(files for _, files in results)
    print(f"{len(results)} crash states, {damaged} with faults, all repaired; {synced} synced files checked, none lost")
    assert synced > 0, "nothing was synced: the test proves nothing"


main()
