#!/bin/busybox sh
# Four writers that do nothing but sync.
mkdir -p /data
for writer in 1 2 3 4; do
    while :; do
        busybox dd if=/dev/zero of=/data/log$writer bs=4096 count=1 conv=notrunc,fsync 2>/dev/null
    done &
done
wait
