"""Records that are larger than their tenant's memory, in LMDB and in SQLite. tests/boot/mapped runs it in tenants.

usage: records.py input              writes all records as mdb_load wants them
       records.py update|read FILE   a third of them is changed, a half is read, through LMDB's mapping, which is written to
       records.py fill|change|ask FILE   in SQLite, whose files are mapped

Each prints what it saw. The suite takes COUNT and the functions of this first part from here, and no result."""

import sys
import zlib

COUNT, MAP_BYTES = 24_000, 256 << 20
# One of so many is changed.
CHANGED = 3
# Coprime to COUNT: a walk of this step meets each record once, each far from the one before.
STEP = 7919


def walk():
    """The numbers of all records, in an order that jumps through the file."""
    return (index * STEP % COUNT for index in range(COUNT))


def half():
    """The even numbers, in that order: some are changed, some not."""
    return (number for number in walk() if number % 2 == 0)


def key(number):
    return b"%08d" % number


def value(number, version=0):
    """A record's 4,000 bytes: with what a store keeps beside them, they fill a page."""
    return b"%08d" % ((number * number * 31 + 17 + version) % 10**8) * 500


# ---- LMDB

def write_input():
    out = sys.stdout.buffer
    out.write(b"VERSION=3\nformat=print\ntype=btree\nmapsize=%d\nHEADER=END\n" % MAP_BYTES)
    for number in walk():
        out.write(b" %s\n %s\n" % (key(number), value(number)))
    out.write(b"DATA=END\n")


def opened(file):
    import lmdb
    return lmdb.open(file, subdir=False, map_size=MAP_BYTES, writemap=True)


def update(file):
    changed = [number for number in walk() if number % CHANGED == 0]
    with opened(file) as store:
        for begin in range(0, len(changed), 500):
            with store.begin(write=True) as writing:
                for number in changed[begin:begin + 500]:
                    writing.put(key(number), value(number, 1))
    print("changed:", len(changed))


def read(file):
    """The checksum of values, in an order that jumps."""
    total = 0
    with opened(file) as store, store.begin(buffers=True) as reading:
        for number in half():
            total = zlib.crc32(reading.get(key(number)), total)
        print("read:", reading.stat()["entries"], total)


# ---- SQLite

def connected(file):
    import sqlite3
    store = sqlite3.connect(file, isolation_level=None)
    mapped = store.execute(f"pragma mmap_size = {MAP_BYTES}").fetchone()[0]
    store.execute("pragma cache_size = -1024")
    print("mapped:", mapped)
    return store


def fill(file):
    store = connected(file)
    store.execute("create table records (place integer primary key, number integer, value text)")
    store.execute("begin")
    store.executemany("insert into records (number, value) values (?, ?)", ((number, value(number).decode()) for number in walk()))
    store.execute("create unique index numbers on records (number)")
    store.execute("commit")
    print("rows:", *store.execute("select count(*) from records").fetchone())


def change(file):
    """In the order of numbers, which jumps through the table."""
    store = connected(file)
    store.execute("begin")
    for number in range(0, COUNT, CHANGED):
        store.execute("update records set value = ? where number = ?", (value(number, 1).decode(), number))
    store.execute("commit")
    print("whole:", *store.execute("pragma integrity_check").fetchone())


def ask(file):
    store = connected(file)
    # The last digits of each value lie at its page's end.
    print("sums:", *store.execute("select count(*), sum(number), sum(cast(substr(value, -8) as integer)) from records").fetchone())
    total = 0
    for number in range(0, COUNT, 2):
        total = zlib.crc32(store.execute("select value from records where number = ?", (number,)).fetchone()[0].encode(), total)
    print("read:", total)


def main():
    {"input": write_input, "update": update, "read": read, "fill": fill, "change": change, "ask": ask}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
