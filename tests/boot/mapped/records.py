"""Records in SQLite that are larger than their tenant's memory; its file is mapped. tests/boot/mapped runs it in a tenant.

usage: records.py fill|ask FILE

Each prints what it saw. The suite takes the numbers and `value` from here, and no result."""

import sqlite3
import sys
import zlib

COUNT, MAP_BYTES = 24_000, 256 << 20
# Coprime to COUNT: a walk of this step meets each record once, each far from the one before.
STEP = 7919
# One of so many is looked up by its number.
LOOKED = 8


def value(number):
    """A record's 4,000 bytes: with what SQLite keeps beside them, they fill a page."""
    return b"%08d" % ((number * number * 31 + 17) % 10**8) * 500


def connected(file):
    store = sqlite3.connect(file, isolation_level=None)
    mapped = store.execute(f"pragma mmap_size = {MAP_BYTES}").fetchone()[0]
    store.execute("pragma cache_size = -1024")
    print("mapped:", mapped)
    return store


def fill(file):
    store = connected(file)
    store.execute("create table records (place integer primary key, number integer, value text)")
    store.execute("begin")
    numbers = (place * STEP % COUNT for place in range(COUNT))
    store.executemany("insert into records (number, value) values (?, ?)", ((number, value(number).decode()) for number in numbers))
    store.execute("create unique index numbers on records (number)")
    store.execute("commit")
    print("rows:", *store.execute("select count(*) from records").fetchone())


def ask(file):
    store = connected(file)
    # The last digits of each value lie at its page's end.
    print("sums:", *store.execute("select count(*), sum(number), sum(cast(substr(value, -8) as integer)) from records").fetchone())
    total = 0
    # In the order of numbers, which jumps through the file.
    for number in range(0, COUNT, LOOKED):
        total = zlib.crc32(store.execute("select value from records where number = ?", (number,)).fetchone()[0].encode(), total)
    print("read:", total)


if __name__ == "__main__":
    {"fill": fill, "ask": ask}[sys.argv[1]](sys.argv[2])
