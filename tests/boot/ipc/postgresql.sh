# PostgreSQL in shared memory of System V, step by step; each says what it saw. tests/boot/ipc runs it in a tenant.
#
# usage: sh postgresql.sh begin|parallel|killed|stop    (root; all it makes is in $D)
#
# Debian's PostgreSQL has its semaphores in that memory, so it makes none of System V's.
PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
D=/var/lib/postgresql/ipc
export PATH LC_ALL=C PGHOST=$D PGUSER=postgres PGDATABASE=postgres

failed() { echo "failed: $*"; tail -n 5 $D/said $D/log; exit 1; }
become() { /usr/sbin/chroot --userspec=postgres:postgres / "$@"; }
start() { become pg_ctl -D $D/data -w -t 300 -l $D/log start > $D/said 2>&1; }
ask() { psql -XAtc "$1"; }
until_so() { until "$@"; do sleep 0.1; done; }

# The server's segments, a number for each, and how many processes are attached to one.
segments() { awk -v uid="$(stat -c %u $D)" 'NR > 1 && $8 == uid { print $2 }' /proc/sysvipc/shm; }
count() { segments | wc -l; }
is_attached_by() { [ "$(attached "$main")" = "$1" ]; }
attached() { awk -v id="$1" 'NR > 1 && $2 == id { print $7 }' /proc/sysvipc/shm; }
main_segment() { sed -n 7p $D/data/postmaster.pid | awk '{ print $2 }'; }

begin() {
    grep -q ^postgres: /etc/passwd || { echo postgres:x:105:105::/tmp:/bin/sh >> /etc/passwd; echo postgres:x:105: >> /etc/group; }
    mkdir -p $D && chown postgres:postgres $D && cd $D || failed folder
    become initdb -D $D/data -U postgres -A trust --no-sync > $D/said 2>&1 || failed initdb
    cat >> $D/data/postgresql.conf <<END
shared_memory_type = sysv
dynamic_shared_memory_type = sysv
listen_addresses = ''
unix_socket_directories = '$D'
shared_buffers = 16MB
fsync = off
jit = off
END
    start || failed start
    echo "kinds: $(ask 'show shared_memory_type') $(ask 'show dynamic_shared_memory_type')"
    [ -n "$(attached "$(main_segment)")" ] && echo "the server's segment is listed"
    echo "semaphores: $(awk -v uid="$(stat -c %u $D)" 'NR > 1 && $5 == uid' /proc/sysvipc/sem | wc -l)"
}

parallel() {
    PGOPTIONS="-c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c parallel_tuple_cost=0"
    export PGOPTIONS
    ask "create table numbers as select n, n % 7 as rest from generate_series(1, 20000) n" > $D/said || failed table
    ask "analyze numbers" > $D/said || failed analyze
    echo "workers: $(ask "explain (analyze, costs off, timing off, summary off) select sum(n) from numbers" | sed -n 's/.*Workers Launched: //p')"
    echo "sums: $(ask "select sum(n), max(n) from numbers")"
    echo "joined: $(ask "select count(*), sum(a.n + b.n) from numbers a join numbers b on a.n = b.n + 1")"
    before=$(count)
    # Each row that is looked at reads the list while the workers run.
    most=$(ask "select max(regexp_count(pg_read_file('/proc/sysvipc/shm' || left(n::text, 0)), '\n')) from numbers where n % 4000 = 0")
    [ "$most" -gt $((before + 1)) ] && echo "more segments meanwhile"
    [ "$(count)" = "$before" ] && echo "as many afterwards"
}

killed() {
    mkfifo $D/held
    PGAPPNAME=held psql -XAt < $D/held > $D/held.said 2>&1 &
    exec 3> $D/held
    until_so is_held
    backend=$(ask "select pid from pg_stat_activity where application_name = 'held'") server=$(head -1 $D/data/postmaster.pid)
    old=$(segments) main=$(main_segment)
    kill -STOP "$backend"
    until_so grep -q '^State:.T' "/proc/$backend/status"
    kill -9 "$server"
    until_so is_gone "$server"
    until_so is_attached_by 1
    start && failed "it starts beside a process of the old one"
    grep -q "pre-existing shared memory block .* is still in use" $D/log && echo "refused while one is attached"
    is_attached_by 1 && echo "the old segment stays"
    kill -9 "$backend"
    exec 3>&-
    wait
    until_so is_attached_by 0
    start || failed "start after the kill"
    grep -q "automatic recovery in progress" $D/log && echo "recovered"
    echo "sums: $(ask "select sum(n), max(n) from numbers")"
    for id in $old; do [ -z "$(attached "$id")" ] || echo "segment $id is left"; done
}

is_gone() { [ ! -e "/proc/$1" ]; }
is_held() { [ "$(ask "select count(*) from pg_stat_activity where application_name = 'held' and state is not null")" = 1 ]; }

stop() {
    become pg_ctl -D $D/data -w -t 300 stop > $D/said 2>&1 || failed stop
    echo "segments: $(count)"
}

"$1"
