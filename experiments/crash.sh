#!/bin/busybox sh
# The work that `gyre exp crash` interrupts. A line with @ on the console says that something is durable.
export PATH=/bin:/usr/bin
mkdir -p /data/out
cd /data
tar cf tree.tar -C / etc usr/share/doc usr/share/bug
sync
# A tree is there before the first crash, however slow the host is.
mkdir out/1
tar xf tree.tar -C out/1
sync
echo "@tar 1"
echo "@ready"

# Records, each synced before the next one; now and then a file is replaced safely.
(
    n=0
    while :; do
        n=$((n + 1))
        printf 'record %08d\n' $n | dd of=log oflag=append conv=notrunc,fsync 2>/dev/null && echo "@log $n"
        if [ $((n % 8)) = 0 ]; then
            echo "version $n" | dd of=new conv=fsync 2>/dev/null && mv new stable
        fi
    done
) &

# Rows, each a transaction of its own. Only "extra" makes SQLite sync the directory after it has removed the journal; with
# less, the last transaction may be rolled back after a crash, by its own documentation.
sqlite3 db 'create table if not exists t (n integer primary key, text);'
(
    echo 'pragma synchronous = extra;'
    n=0
    while :; do
        n=$((n + 1))
        echo "insert into t values ($n, hex(randomblob(300))); select '@sql $n';"
    done
) | sqlite3 db &

# Pages of a mapped file.
/srv/map_writer mapped &

# Trees unpacked and removed.
n=1
while :; do
    n=$((n + 1))
    mkdir out/$n
    tar xf tree.tar -C out/$n
    sync
    echo "@tar $n"
    rm -rf out/$((n - 2))
done
