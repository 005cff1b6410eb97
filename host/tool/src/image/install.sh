# Installs packages in a tree to which they have been unpacked: sh -c SCRIPT sh TREE ARCHIVES USERS BASE PACKAGE...
# USERS and BASE are lists of packages that are installed before the others: those that make users, then the system that scripts need.
# It runs as root in namespaces of its own (mounts, processes, network). Maintainer scripts run in the tree, without network, and can do
# nothing to the host but what the owner of the tree's files can.
set -eu
cd "$1"
archives=$2
shift 2

mkdir -p proc dev mnt var/lib/dpkg/info var/lib/dpkg/updates
: > var/lib/dpkg/status
: > var/lib/dpkg/available
# Nothing is started while an image is made.
printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d
chmod 755 usr/sbin/policy-rc.d
# Ages that the last step below does not reach, behind mounts.
touch -d @1735689600 proc dev mnt
mount -t proc -o ro,nosuid,nodev,noexec proc proc
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    : > dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm
ln -s /proc/self/fd dev/fd
mount --bind "$archives" mnt
mount -o remount,bind,ro mnt

rights=-all,+chown,+dac_override,+fowner,+fsetid,+setuid,+setgid,+kill,+setfcap
exec chroot . setpriv --bounding-set=$rights --inh-caps=-all --no-new-privs -- env -i \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true SOURCE_DATE_EPOCH=1735689600 \
    sh -euc '
        cd /mnt
        # All files are there, also of those that are not configured yet. Failures are said without successes.
        install() {
            dpkg --force-depends --force-unsafe-io --force-confold --install "$@" > /tmp/said 2>&1 && return
            grep -B 6 -A 1 "^dpkg: error" /tmp/said >&2 || tail -12 /tmp/said >&2
            exit 1
        }
        users=$1
        base=$2
        shift 2
        install $users
        install $base
        [ $# = 0 ] || install "$@"
        cd /
        # These differ from one time to the next: logs, copies of before, caches, and keys, which each tenant gets of its own.
        rm -rf usr/sbin/policy-rc.d var/cache/debconf/*-old var/lib/dpkg/*-old var/cache/ldconfig/aux-cache
        rm -rf etc/ssh/ssh_host_*_key etc/ssh/ssh_host_*_key.pub etc/passwd- etc/group- etc/shadow- etc/gshadow- tmp/* run/*
        find var/log -type f -delete
        find . -xdev \( -path ./dev -o -path ./mnt -o -path ./proc \) -prune -o -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    ' sh "$@"
