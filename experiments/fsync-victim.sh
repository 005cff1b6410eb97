#!/bin/busybox sh
# Appends a page and syncs it, five times a second; how long each took is served at port 80, in dd's words.
mkdir -p /data /tmp/www
busybox httpd -p 80 -h /tmp/www
while :; do
    busybox dd if=/dev/zero of=/data/log bs=4096 count=1 oflag=append conv=notrunc,fsync 2>&1 | busybox tail -n 1 >> /tmp/www/latencies
    busybox usleep 150000
done
